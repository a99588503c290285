/* correct.c -- giving back, charging, forgetting; seeing every key, and the
 * books. */
#include "gate.h"

static const struct sluice_limit limits[] = {
    {.name = "bucket", .kind = SLUICE_TOKEN_BUCKET,   .rate = "5/min"  },
    {.name = "window", .kind = SLUICE_FIXED_WINDOW,   .rate = "5/hour" },
    {.name = "slide",  .kind = SLUICE_SLIDING_WINDOW, .rate = "5/hour" },
    {.name = "month",  .kind = SLUICE_QUOTA,          .rate = "5/month"},
    {.name = "jobs",   .kind = SLUICE_CONCURRENCY,    .rate = "5"      },
    {.name = "leaky",  .kind = SLUICE_LEAKY_BUCKET,   .rate = "4/min"  },
};

enum { BUCKET, WINDOW, SLIDE, MONTH, JOBS, LEAKY };

static struct hands hands;

static struct sluice *fresh_gate(void)
{
    hands.now = START;
    return open_gate(limits, COUNT(limits), &hands);
}

static uint64_t give_back(struct sluice *gate, unsigned limit, uint64_t cost,
                          int64_t taken_at)
{
    struct sluice_part part = part_of(limit, "ann", cost);

    part.taken_at_ns = taken_at;
    CHECK_EQ(sluice_give_back(gate, &part, 1), 0);
    CHECK_EQ(part.answer.outcome, SLUICE_ALLOW);
    CHECK_EQ(part.answer.remaining, left(gate, limit, "ann"));
    return part.answer.remaining;
}

TEST(give_back)
{
    struct sluice *gate = fresh_gate();

    for (unsigned l = BUCKET; l <= LEAKY; l++) {
        CASE(limits[l].name);
        take(gate, l, "ann", 5);
        CHECK_EQ(give_back(gate, l, 2, 0), 2);
        CHECK_EQ(give_back(gate, l, 1, hands.now), 3);
        CHECK_EQ(give_back(gate, l, 100, 0), 5); /* never above full */
        CHECK_EQ(give_back(gate, l, UINT64_C(1) << 49, 0), 5);
        CHECK_EQ(drain(gate, l, "ann"), 5);
    }
    sluice_close(gate);
}

TEST(windows)
{
    struct sluice *gate = fresh_gate();

    CASE("what was taken in a window that is over has come back by itself");
    take(gate, WINDOW, "ann", 3);
    take(gate, MONTH, "ann", 3);
    hands.now = START + HOUR;
    take(gate, WINDOW, "ann", 2);
    CHECK_EQ(give_back(gate, WINDOW, 2, START), 3);
    CHECK_EQ(give_back(gate, WINDOW, 1, START + HOUR - 1), 3);
    CHECK_EQ(give_back(gate, WINDOW, 1, START + HOUR), 4);
    CASE("the month is not over");
    CHECK_EQ(give_back(gate, MONTH, 1, START), 3);
    CASE("what is taken in the future was taken now");
    CHECK_EQ(give_back(gate, WINDOW, 1, START + 9 * HOUR), 5);
    CASE("a sliding window gives back where it was taken");
    hands.now = START + 2 * HOUR;
    take(gate, SLIDE, "ann", 4);
    hands.now = START + 3 * HOUR;
    CHECK_EQ(left(gate, SLIDE, "ann"), 1);
    CHECK_EQ(give_back(gate, SLIDE, 1, START + HOUR), 1);
    CHECK_EQ(give_back(gate, SLIDE, 1, START + 2 * HOUR), 2);
    CHECK_EQ(give_back(gate, SLIDE, 1, START + 3 * HOUR), 2);
    sluice_close(gate);
}

TEST(give_back_set)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part set[3] = {part_of(JOBS, "ann", 2),
                                 part_of(BUCKET, "ann", 3),
                                 part_of(JOBS, "ann", 1)};

    CASE("a set is given back as it was taken");
    CHECK_EQ(sluice_take(gate, set, 3, NULL), 0);
    CHECK_EQ(left(gate, JOBS, "ann"), 2);
    CHECK_EQ(sluice_give_back(gate, set, 3), 0);
    CHECK_EQ(set[0].answer.remaining, 5);
    CHECK_EQ(set[2].answer.remaining, 5);
    CHECK_EQ(left(gate, BUCKET, "ann"), 5);
    CASE("of merged parts the first says by which plan, and taken when");
    take(gate, WINDOW, "ann", 1);
    hands.now += HOUR;
    take(gate, WINDOW, "ann", 4);
    set[0] = part_of(WINDOW, "ann", 1);
    set[0].taken_at_ns = START + HOUR;
    set[1] = part_of(WINDOW, "ann", 1);
    set[1].taken_at_ns = START;
    CHECK_EQ(sluice_give_back(gate, set, 2), 0);
    CHECK_EQ(left(gate, WINDOW, "ann"), 3);
    set[0].taken_at_ns = START;
    CHECK_EQ(sluice_give_back(gate, set, 2), 0);
    CHECK_EQ(left(gate, WINDOW, "ann"), 3);
    sluice_close(gate);
}

static uint64_t charge(struct sluice *gate, unsigned limit, uint64_t cost)
{
    struct sluice_part part = part_of(limit, "ann", cost);

    CHECK_EQ(sluice_charge(gate, &part, 1), 0);
    return part.answer.remaining;
}

TEST(charge)
{
    struct sluice *gate = fresh_gate();

    CASE("a charge within the limit is a take");
    CHECK_EQ(charge(gate, BUCKET, 2), 3);
    CASE("beyond it is a debt that has to drain first");
    CHECK_EQ(charge(gate, BUCKET, 8), 0);
    CHECK_EQ(take(gate, BUCKET, "ann", 1).retry_in_ns, 72 * SEC);
    CHECK_EQ(take(gate, BUCKET, "ann", 5).retry_in_ns, 120 * SEC);
    hands.now += 72 * SEC;
    CHECK_EQ(drain(gate, BUCKET, "ann"), 1);
    CASE("levels and windows have debts too");
    CHECK_EQ(charge(gate, JOBS, 7), 0);
    CHECK_EQ(give_back(gate, JOBS, 1, 0), 0);
    CHECK_EQ(give_back(gate, JOBS, 2, 0), 1);
    CHECK_EQ(charge(gate, WINDOW, 100), 0);
    CHECK_EQ(give_back(gate, WINDOW, 95, 0), 0);
    CHECK_EQ(give_back(gate, WINDOW, 1, 0), 1);
    CASE("a charge ends somewhere");
    for (unsigned l = BUCKET; l <= LEAKY; l++)
        for (unsigned i = 0; i < 40; i++)
            CHECK_EQ(charge(gate, l, UINT64_C(1) << 49), 0);
    sluice_close(gate);
}

TEST(reset)
{
    struct sluice *gate = fresh_gate();

    CASE("a reset forgets one key of one limit");
    for (unsigned l = BUCKET; l <= LEAKY; l++) {
        take(gate, l, "ann", 5);
        take(gate, l, "bob", 5);
        charge(gate, l, 9);
        CHECK_EQ(sluice_reset(gate, l, "ann", 3), 0);
        CHECK_EQ(drain(gate, l, "ann"), 5);
        CHECK_EQ(left(gate, l, "bob"), 0);
        CHECK_EQ(sluice_reset(gate, l, "absent", 6), 0);
    }
    sluice_close(gate);
}

/* ---- seeing ---- */

#define KEYS 200

struct seen {
    unsigned calls, stop_after, limits[COUNT(limits)], wrong;
    uint64_t prints[KEYS];
};

static int see(void *ctx, unsigned limit, uint64_t fingerprint,
               const struct sluice_answer *answer)
{
    struct seen *seen = ctx;

    seen->limits[limit]++;
    seen->prints[seen->calls % KEYS] = fingerprint;
    seen->wrong += answer->remaining != (limit == JOBS ? 4u : 2u) ||
                   answer->limit != 5 || answer->outcome != SLUICE_ALLOW ||
                   answer->untracked;
    return ++seen->calls == seen->stop_after ? 42 : 0;
}

TEST(each)
{
    struct sluice *gate = fresh_gate();
    static struct seen seen;
    unsigned same = 0;
    char key[8];

    CASE("every key is seen once, with its answer");
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof(key), "%u", i);
        take(gate, i % 2 ? WINDOW : JOBS, key, i % 2 ? 3 : 1);
    }
    CHECK_EQ(sluice_each(gate, see, &seen), 0);
    CHECK_EQ(seen.calls, KEYS);
    CHECK_EQ(seen.limits[WINDOW], KEYS / 2);
    CHECK_EQ(seen.limits[JOBS], KEYS / 2);
    CHECK_EQ(seen.wrong, 0);
    for (unsigned i = 0; i < KEYS; i++)
        for (unsigned j = 0; j < i; j++)
            same += seen.prints[i] == seen.prints[j];
    CHECK_EQ(same, 0);
    CASE("what stops it is what it returns");
    seen = (struct seen){.stop_after = 17};
    CHECK_EQ(sluice_each(gate, see, &seen), 42);
    CHECK_EQ(seen.calls, 17);
    sluice_close(gate);
}

static int take_meanwhile(void *ctx, unsigned limit, uint64_t fingerprint,
                          const struct sluice_answer *answer)
{
    (void)fingerprint, (void)answer;
    take(ctx, limit, "meanwhile", 1);
    return 0;
}

TEST(stats)
{
    struct sluice *gate = fresh_gate();
    struct sluice_stats s;
    char key[8];

    CASE("the books of a new gate");
    CHECK_EQ(sluice_stats(gate, &s), 0);
    CHECK_EQ(s.takes + s.denied + s.inserted + s.evicted + s.full, 0);
    CHECK_EQ(s.helped + s.undone + s.occupied, 0);
    CHECK_EQ(s.bytes, 1 << 20);
    CHECK(s.places > 10000 && s.places < 20000);
    CASE("the books of a gate that was used");
    for (unsigned i = 0; i < 60; i++) {
        snprintf(key, sizeof(key), "%u", i % 10);
        take(gate, JOBS, key, 1);
    }
    CHECK_EQ(sluice_stats(gate, &s), 0);
    CHECK_EQ(s.takes, 60);
    CHECK_EQ(s.denied, 10);
    CHECK_EQ(s.inserted, 10);
    CHECK_EQ(s.occupied, 10);
    CHECK_EQ(s.evicted + s.full + s.helped + s.undone, 0);
    CASE("the function of sluice_each may use the gate");
    CHECK_EQ(sluice_each(gate, take_meanwhile, gate), 0);
    CHECK_EQ(left(gate, JOBS, "meanwhile"), 0);
    sluice_close(gate);
}

CHECK_MAIN()
