/* threads.c -- several threads share one gate.
 *
 * Four workers send requests of three users as fast as they can. Each user may
 * send 1000 requests a day, and all of them together 2500. In any order of the
 * threads exactly 2500 pass and no user has more than 1000: a request that one
 * limit denies takes nothing from the other.
 *
 *     cc threads.c $(pkg-config --cflags --libs libsluice) -pthread
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <sluice.h>

#define WORKERS  4
#define USERS    3
#define REQUESTS 4000 /* of each worker */

enum { PER_USER, TOGETHER }; /* in the order of the limits */

static const struct sluice_limit limits[] = {
    {.name = "per-user", .kind = SLUICE_TOKEN_BUCKET, .rate = "1000/day"},
    {.name = "together", .kind = SLUICE_TOKEN_BUCKET, .rate = "2500/day"},
};

static const char *const users[USERS] = {"ann", "bob", "eve"};

struct worker {
    pthread_t thread;
    struct sluice *gate; /* the same for all */
    unsigned passed[USERS];
};

/* Takes both limits or none. Returns 1 if the request is allowed. */
static int may_pass(struct sluice *gate, const char *user)
{
    struct sluice_part parts[] = {
        {.limit = PER_USER, .key = user, .key_len = strlen(user), .cost = 1},
        {.limit = TOGETHER, .key = "",   .key_len = 0,            .cost = 1},
    };
    struct sluice_verdict verdict;

    if (sluice_take(gate, parts, 2, &verdict)) {
        fprintf(stderr, "threads: %s\n", sluice_why());
        return 0;
    }
    return verdict.outcome == SLUICE_ALLOW;
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < REQUESTS; i++)
        if (may_pass(worker->gate, users[i % USERS]))
            worker->passed[i % USERS]++;
    return NULL;
}

/* Prints the allowed requests of each user. Returns their sum. */
static unsigned report(const struct worker *workers)
{
    unsigned all = 0;

    for (unsigned u = 0; u < USERS; u++) {
        unsigned passed = 0;

        for (unsigned w = 0; w < WORKERS; w++)
            passed += workers[w].passed[u];
        printf("%s: %u passed\n", users[u], passed);
        all += passed;
    }
    printf("together: %u of %u passed\n", all, WORKERS * REQUESTS);
    return all;
}

int main(void)
{
    struct sluice_options options = {.limits = limits, .limit_count = 2};
    struct worker workers[WORKERS] = {0};
    struct sluice *gate;
    unsigned all;

    if (sluice_open(&options, &gate)) {
        fprintf(stderr, "threads: %s\n", sluice_why());
        return 1;
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        workers[w].gate = gate;
        if (pthread_create(&workers[w].thread, NULL, work, &workers[w]))
            return 1;
    }
    for (unsigned w = 0; w < WORKERS; w++)
        pthread_join(workers[w].thread, NULL);
    all = report(workers);
    sluice_close(gate);
    return all == 2500 ? 0 : 1;
}
