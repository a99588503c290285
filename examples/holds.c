/* holds.c -- hold first, settle later.
 *
 * A job needs a permit and an unknown number of tokens. It holds the maximum
 * and settles with the tokens that it used. If its worker dies, the hold
 * expires and is refunded. The clock is a variable, so that the output is the
 * same on every machine.
 *
 *     cc holds.c $(pkg-config --cflags --libs libsluice)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice.h>

#define SECOND INT64_C(1000000000)

static int64_t the_time = 1800000000 * SECOND;

static int64_t read_clock(void *ctx)
{
    return *(int64_t *)ctx;
}

enum { JOBS, TOKENS };

static const struct sluice_limit limits[] = {
    {.name = "jobs",   .kind = SLUICE_CONCURRENCY, .rate = "2"      },
    {.name = "tokens", .kind = SLUICE_QUOTA,       .rate = "20k/day"},
};

static void must(int err)
{
    if (err == SLUICE_OK)
        return;
    fprintf(stderr, "holds: %s\n", sluice_why());
    exit(1);
}

static struct sluice_part part(unsigned limit, const char *key, uint64_t cost)
{
    return (struct sluice_part){
        .limit = limit, .key = key, .key_len = strlen(key), .cost = cost};
}

/* Hold a permit and 4,000 tokens for 30 seconds. */
static struct sluice_hold_id begin_job(struct sluice *gate, const char *name)
{
    struct sluice_part parts[] = {part(JOBS, "acme", 1),
                                  part(TOKENS, "acme", 4000)};
    struct sluice_verdict verdict;
    struct sluice_hold_id id;

    must(sluice_hold(gate, parts, 2, 30 * SECOND, &id, &verdict));
    if (verdict.outcome == SLUICE_ALLOW)
        printf("%s: runs, %" PRIu64 " tokens left\n", name,
               parts[1].answer.remaining);
    else
        printf("%s: %s, in %" PRId64 " s\n", name,
               limits[parts[verdict.by].limit].name,
               verdict.retry_in_ns / SECOND);
    return id;
}

static void end_job(struct sluice *gate, struct sluice_hold_id id,
                    uint64_t tokens)
{
    struct sluice_settlement actual = {.limit = TOKENS, .cost = tokens};
    enum sluice_hold_state state;

    must(sluice_settle(gate, id, &actual, 1, &state));
    if (state == SLUICE_HOLD_HELD)
        printf("settled: %" PRIu64 " tokens left\n", actual.answer.remaining);
    else
        printf("too late: it has %s\n",
               state == SLUICE_HOLD_EXPIRED ? "expired" : "ended");
}

int main(void)
{
    struct sluice_options options = {.limits = limits,
                                     .limit_count = 2,
                                     .size = 1 << 20,
                                     .now = read_clock,
                                     .now_ctx = &the_time};
    struct sluice_hold_id first, second;
    enum sluice_hold_state state;
    struct sluice *gate;

    must(sluice_open(&options, &gate));
    first = begin_job(gate, "first");
    second = begin_job(gate, "second");
    (void)begin_job(gate, "third");

    the_time += 20 * SECOND;
    must(sluice_extend(gate, first, 30 * SECOND, &state)); /* still running */
    the_time += 10 * SECOND; /* the second was not extended */
    (void)begin_job(gate, "third");
    end_job(gate, second, 1000);
    end_job(gate, first, 1200);
    end_job(gate, first, 1200);
    sluice_close(gate);
    return 0;
}
