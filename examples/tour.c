/* tour.c -- every call of the library, on a clock of its own.
 *
 * Each function shows one call; docs/guide/library.md explains them. The clock
 * is a variable, so that a day passes at once and the output is the same on
 * every machine.
 *
 *     cc tour.c $(pkg-config --cflags --libs libsluice)
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

enum { REQUESTS, EXPORTS, JOBS, LINKS }; /* in the order of the limits */

static const char *const larger[] = {"60/min burst 100", "600/min", NULL};

static struct sluice_limit limits[] = {
    {.name = "requests", .kind = SLUICE_TOKEN_BUCKET, .rate = "5/min burst 8"},
    {.name = "exports",  .kind = SLUICE_QUOTA,        .rate = "3/day"        },
    {.name = "jobs",     .kind = SLUICE_CONCURRENCY,  .rate = "2"            },
    {.name = "links",    .kind = SLUICE_LEVEL,        .rate = "5"            },
};

static void must(int err)
{
    if (err == SLUICE_OK)
        return;
    fprintf(stderr, "tour: %s\n", sluice_why());
    exit(1);
}

static struct sluice *open_gate(void)
{
    struct sluice_options options = {
        .limits = limits,
        .limit_count = sizeof(limits) / sizeof(limits[0]),
        .size = 1 << 20,
        .on_full = SLUICE_FULL_DENY,
        .now = read_clock,
        .now_ctx = &the_time,
    };
    struct sluice *gate;

    limits[REQUESTS].plans = larger;
    limits[EXPORTS].zone = "Europe/Berlin";
    must(sluice_open(&options, &gate));
    return gate;
}

static struct sluice_part part(unsigned limit, const char *key, uint64_t cost)
{
    return (struct sluice_part){
        .limit = limit, .key = key, .key_len = strlen(key), .cost = cost};
}

/* One request with two limits: both are taken, or none. */
static void take_a_set(struct sluice *gate)
{
    struct sluice_part parts[] = {part(REQUESTS, "ann", 1),
                                  part(EXPORTS, "ann", 1)};
    struct sluice_verdict verdict;

    for (int i = 1; i <= 4; i++) {
        must(sluice_take(gate, parts, 2, &verdict));
        if (verdict.outcome == SLUICE_ALLOW)
            printf("export %d: yes, %" PRIu64 " left\n", i,
                   parts[1].answer.remaining);
        else
            printf("export %d: no: %s, in %" PRId64 " s\n", i,
                   limits[parts[verdict.by].limit].name,
                   verdict.retry_in_ns / SECOND);
    }
}

/* The plan is an argument of each call. A change of plan keeps the usage. */
static void change_the_plan(struct sluice *gate)
{
    struct sluice_part ask = part(REQUESTS, "ann", 1);

    for (ask.plan = 0; ask.plan < 3; ask.plan++) {
        must(sluice_look(gate, &ask, 1, NULL));
        printf("plan %u: %" PRIu64 " of %" PRIu64 " left\n", ask.plan,
               ask.answer.remaining, ask.answer.capacity);
    }
}

/* Many takes in one call, each decided separately. */
static void take_a_batch(struct sluice *gate)
{
    struct sluice_part parts[] = {
        part(REQUESTS, "bob", 6), part(REQUESTS, "eve", 1),
        part(REQUESTS, "bob", 6), part(REQUESTS, "bob", 9)};
    static const char *const said[] = {"yes", "not now", "never"};

    must(sluice_take_batch(gate, parts, 4));
    for (int i = 0; i < 4; i++)
        printf("%s: %s\n", (const char *)parts[i].key,
               said[parts[i].answer.outcome]);
}

/* A permit or a level stays taken until it is returned. */
static void hold_a_permit(struct sluice *gate)
{
    struct sluice_part job = part(JOBS, "ann", 1);
    struct sluice_verdict verdict;

    must(sluice_take(gate, &job, 1, &verdict));
    printf("job: %" PRIu64 " more may run\n", job.answer.remaining);
    must(sluice_give_back(gate, &job, 1));
    printf("done: %" PRIu64 " may run\n", job.answer.remaining);
}

/* The cost of a request may be known only afterwards: charge the rest. A charge
 * may exceed the capacity. */
static void settle_afterwards(struct sluice *gate)
{
    struct sluice_part answer = part(REQUESTS, "eve", 20);

    must(sluice_charge(gate, &answer, 1));
    answer.cost = 1;
    must(sluice_take(gate, &answer, 1, NULL));
    printf("eve: come back in %" PRId64 " s\n",
           answer.answer.retry_in_ns / SECOND);
    must(sluice_reset(gate, REQUESTS, "eve", 3)); /* or forgive it all */
}

/* The library uses the clock of the caller. */
static void wait_a_day(struct sluice *gate)
{
    struct sluice_part export = part(EXPORTS, "ann", 1);

    the_time += 24 * 3600 * SECOND;
    must(sluice_take(gate, &export, 1, NULL));
    printf("a day later: %" PRIu64 " exports left\n", export.answer.remaining);
}

/* Keys are shown as fingerprints: their names are not stored. */
static int count_key(void *ctx, unsigned limit, uint64_t fingerprint,
                     const struct sluice_answer *answer)
{
    unsigned *keys = ctx;

    (void)fingerprint;
    keys[limit] += answer->remaining < answer->capacity;
    return 0; /* any other value stops */
}

static void see_what_is_there(struct sluice *gate)
{
    unsigned keys[4] = {0};
    struct sluice_stats stats;

    must(sluice_each(gate, count_key, keys));
    for (int i = 0; i < 4; i++)
        printf("keys of %s that owe something: %u\n", limits[i].name, keys[i]);
    must(sluice_stats(gate, &stats));
    printf("keys in %" PRIu64 " bytes: %" PRIu64 "\n", stats.bytes,
           stats.occupied);
}

int main(void)
{
    struct sluice *gate = open_gate();

    take_a_set(gate);
    change_the_plan(gate);
    take_a_batch(gate);
    hold_a_permit(gate);
    settle_afterwards(gate);
    wait_a_day(gate);
    see_what_is_there(gate);
    sluice_close(gate);
    return 0;
}
