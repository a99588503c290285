/* backoff.c -- a client that retries at the right time.
 *
 * See docs/guide/client.md. The server is a list of responses and the clock is
 * a variable. A real program would use curl and nanosleep().
 *
 *     cc backoff.c $(pkg-config --cflags --libs libsluice)
 */
#include <inttypes.h>
#include <stdio.h>

#include <sluice_backoff.h>

#define SECOND INT64_C(1000000000)

/* Denies three times, each time in a different way, then allows. */
static struct sluice_refusal call_server(void)
{
    static const struct sluice_refusal answers[] = {
        {429, "12",                            NULL},
        {503, "Sun, 15 Nov 2026 00:00:20 GMT", NULL},
        {503, NULL,                            NULL},
        {200, NULL,                            NULL},
        {429, "86400",                         NULL},
    };
    static unsigned next;

    return answers[next++];
}

/* Any 64 bits; a real program would use getrandom(). */
static uint64_t random_bits(void)
{
    return 0;
}

/* Make a call until it is answered; the status, or -1 if it was given up. */
static int call_patiently(void)
{
    struct sluice_backoff backoff = {0};
    int64_t now_ns = INT64_C(1794700800) * SECOND, wait_ns;

    for (;;) {
        struct sluice_refusal answer = call_server();

        if (!sluice_backoff_retries(answer.status))
            return answer.status;
        if (sluice_backoff_next(&backoff, &answer, now_ns, random_bits(),
                                &wait_ns)) {
            printf("given up: %s\n", sluice_why());
            return -1;
        }
        printf("%d: waits %" PRId64 " ms\n", answer.status, wait_ns / 1000000);
        now_ns += wait_ns; /* a program would sleep */
    }
}

int main(void)
{
    printf("answered %d\n", call_patiently());
    return call_patiently() == -1 ? 0 : 1;
}
