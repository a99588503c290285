/* holds.c -- holds: made, settled, released, extended, expired; refused. */
#include "gate.h"

#include <unistd.h>

static struct sluice_limit limits[] = {
    {.name = "bucket", .kind = SLUICE_TOKEN_BUCKET,   .rate = "6/min"        },
    {.name = "window", .kind = SLUICE_FIXED_WINDOW,   .rate = "6/hour"       },
    {.name = "slide",  .kind = SLUICE_SLIDING_WINDOW, .rate = "6/hour"       },
    {.name = "month",  .kind = SLUICE_QUOTA,          .rate = "6/month"      },
    {.name = "jobs",   .kind = SLUICE_CONCURRENCY,    .rate = "6"            },
    {.name = "links",  .kind = SLUICE_LEVEL,          .rate = "6"            },
    {.name = "leaky",  .kind = SLUICE_LEAKY_BUCKET,   .rate = "6/min queue 5"},
};

enum { BUCKET, WINDOW, SLIDE, MONTH, JOBS, LINKS, LEAKY, ALL };

static struct hands hands;

static struct sluice *fresh_gate(void)
{
    hands.now = START;
    return open_gate(limits, COUNT(limits), &hands);
}

static struct sluice_hold_id hold(struct sluice *gate, unsigned limit,
                                  uint64_t cost, int64_t life)
{
    struct sluice_part part = part_of(limit, "ann", cost);
    struct sluice_verdict verdict;
    struct sluice_hold_id id;

    CHECK_EQ(sluice_hold(gate, &part, 1, life, &id, &verdict), 0);
    CHECK_EQ(verdict.outcome, SLUICE_ALLOW);
    CHECK(id.w[0] != 0);
    return id;
}

static enum sluice_hold_state settle(struct sluice *gate, unsigned limit,
                                     struct sluice_hold_id id, uint64_t cost,
                                     bool over)
{
    struct sluice_settlement actual = {
        .limit = limit, .cost = cost, .over = -1};
    enum sluice_hold_state state;

    CHECK_EQ(sluice_settle(gate, id, &actual, 1, &state), 0);
    if (state == SLUICE_HOLD_HELD) {
        CHECK_EQ(actual.over, over);
        CHECK_EQ(actual.answer.remaining, left(gate, limit, "ann"));
    }
    return state;
}

static enum sluice_hold_state release(struct sluice *gate,
                                      struct sluice_hold_id id)
{
    enum sluice_hold_state state;

    CHECK_EQ(sluice_release(gate, id, &state), 0);
    return state;
}

TEST(every_kind)
{
    for (unsigned l = 0; l < ALL; l++) {
        struct sluice *gate = fresh_gate();
        struct sluice_hold_id a = hold(gate, l, 2, SEC);
        struct sluice_hold_id b = hold(gate, l, 2, 2 * SEC);
        struct sluice_hold_id c = hold(gate, l, 2, 3 * SEC);

        CASE(limits[l].name);
        CHECK_EQ(left(gate, l, "ann"), 0);
        CHECK_EQ(settle(gate, l, a, 1, false), SLUICE_HOLD_HELD);
        CHECK_EQ(left(gate, l, "ann"), 1);
        CHECK_EQ(release(gate, b), SLUICE_HOLD_HELD);
        CHECK_EQ(left(gate, l, "ann"), 3);
        CHECK_EQ(settle(gate, l, c, 6, true), SLUICE_HOLD_HELD);
        CHECK_EQ(left(gate, l, "ann"), 0);
        CHECK_EQ(settle(gate, l, a, 0, false), SLUICE_HOLD_SETTLED);
        CHECK_EQ(release(gate, b), SLUICE_HOLD_RELEASED);
        sluice_close(gate);
    }
}

TEST(expiry)
{
    struct sluice *gate = fresh_gate();
    struct sluice_hold_id id = hold(gate, JOBS, 6, 5 * SEC);
    struct sluice_stats stats;
    enum sluice_hold_state state;

    CASE("permits come back when their hold expires");
    CHECK_EQ(take(gate, JOBS, "ann", 1).retry_in_ns, 5 * SEC);
    hands.now += 3 * SEC;
    CHECK_EQ(sluice_extend(gate, id, 4 * SEC, &state), 0);
    CHECK_EQ(state, SLUICE_HOLD_HELD);
    hands.now += 4 * SEC - 1;
    CHECK_EQ(take(gate, JOBS, "ann", 1).retry_in_ns, 1);
    CHECK_EQ(sluice_stats(gate, &stats), 0);
    CHECK_EQ(stats.held, 1);
    CHECK(stats.hold_places > 100);
    hands.now += 1;
    CHECK_EQ(left(gate, JOBS, "ann"), 6);
    CHECK_EQ(release(gate, id), SLUICE_HOLD_EXPIRED);
    CHECK_EQ(sluice_stats(gate, &stats), 0);
    CHECK_EQ(stats.held, 0);
    CHECK_EQ(stats.expired, 1);
    CHECK_EQ(sluice_extend(gate, id, 4 * SEC, NULL), 0);
    sluice_close(gate);
}

TEST(window_over)
{
    struct sluice *gate = fresh_gate();
    struct sluice_hold_id id = hold(gate, MONTH, 6, 60 * DAY);

    CASE("a hold from a month that is over has nothing to give back");
    hands.now = START + 31 * DAY;
    take(gate, MONTH, "ann", 4);
    CHECK_EQ(release(gate, id), SLUICE_HOLD_HELD);
    CHECK_EQ(left(gate, MONTH, "ann"), 2);
    sluice_close(gate);
}

TEST(denied)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part parts[] = {part_of(JOBS, "ann", 1),
                                  part_of(WINDOW, "ann", 7)};
    struct sluice_verdict verdict;
    struct sluice_hold_id id = {
        {1, 1}
    };

    CASE("what is refused is not held");
    CHECK_EQ(sluice_hold(gate, parts, 2, SEC, &id, &verdict), 0);
    CHECK_EQ(verdict.outcome, SLUICE_NEVER);
    CHECK_EQ(id.w[0] | id.w[1], 0);
    CHECK_EQ(left(gate, JOBS, "ann"), 6);
    CHECK_EQ(release(gate, id), SLUICE_HOLD_UNKNOWN);
    sluice_close(gate);
}

TEST(full)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part part = part_of(LINKS, "ann", 0);
    struct sluice_hold_id id = {
        {7, 7}
    };
    int err = 0;

    CASE("a state that is full of holds says so");
    for (unsigned i = 0; !err && i < 1000; i++)
        err = sluice_hold(gate, &part, 1, SEC, &id, NULL);
    CHECK_EQ(err, SLUICE_EFULL);
    CHECK_STR(sluice_why(), "there is no room for another hold; increase the "
                            "memory, or let holds end sooner");
    hands.now += SEC;
    CHECK_EQ(sluice_hold(gate, &part, 1, SEC, &id, NULL), 0);
    sluice_close(gate);
}

TEST(refused)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part part = part_of(JOBS, "ann", 1);
    struct sluice_hold_id id = hold(gate, JOBS, 1, SEC);
    struct sluice_settlement costs[] = {
        {.limit = JOBS, .cost = 0         },
        {.limit = JOBS, .cost = 0         },
        {.limit = ALL,  .cost = 0         },
        {.limit = JOBS, .cost = UINT64_MAX},
    };

    CASE("mistakes are refused, with a sentence");
    CHECK_EQ(sluice_hold(gate, &part, 1, 0, &id, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "a hold lasts between 1 ns and 10 years");
    CHECK_EQ(sluice_hold(gate, &part, 1, SEC, NULL, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "sluice_hold needs a result for the id");
    CHECK_EQ(sluice_hold(gate, &part, 0, SEC, &id, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_extend(gate, id, -1, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_extend(NULL, id, SEC, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_release(NULL, id, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_settle(NULL, id, NULL, 0, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "gate is NULL");
    CHECK_EQ(sluice_settle(gate, id, NULL, 1, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "costs are missing");
    CHECK_EQ(sluice_settle(gate, id, costs, 2, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "limit \"jobs\" is given twice");
    CHECK_EQ(sluice_settle(gate, id, costs + 2, 1, NULL), SLUICE_ENOENT);
    CHECK_STR(sluice_why(), "unknown limit number 7; the gate has 7");
    CHECK_EQ(sluice_settle(gate, id, costs + 3, 1, NULL), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "a cost of more than 2^49 cannot be settled");
    CHECK_EQ(left(gate, JOBS, "ann"), 5);
    sluice_close(gate);
}

TEST(not_named)
{
    struct sluice *gate = fresh_gate();
    struct sluice_part parts[] = {part_of(JOBS, "ann", 2),
                                  part_of(LINKS, "ann", 2),
                                  part_of(MONTH, "ann", 2)};
    struct sluice_hold_id id;

    CASE("what is not named came to what was held, but permits come back");
    CHECK_EQ(sluice_hold(gate, parts, 3, SEC, &id, NULL), 0);
    CHECK_EQ(sluice_settle(gate, id, NULL, 0, NULL), 0);
    CHECK_EQ(left(gate, JOBS, "ann"), 6);
    CHECK_EQ(left(gate, LINKS, "ann"), 4);
    CHECK_EQ(left(gate, MONTH, "ann"), 4);
    sluice_close(gate);
}

TEST(file)
{
    char path[64];
    struct sluice_options options = {.limits = limits,
                                     .limit_count = COUNT(limits),
                                     .path = path,
                                     .size = 1 << 20,
                                     .now = read_hands,
                                     .now_ctx = &hands};
    struct sluice_hold_id id;
    struct sluice *gate;

    CASE("a hold survives its gate");
    hands.now = START;
    snprintf(path, sizeof(path), "lib-holds-%ld.state", (long)getpid());
    CHECK_EQ(sluice_open(&options, &gate), 0);
    id = hold(gate, MONTH, 3, MIN);
    gate = sluice_close(gate);
    CHECK_EQ(sluice_open(&options, &gate), 0);
    CHECK(sluice_notice(gate) == NULL);
    CHECK_EQ(left(gate, MONTH, "ann"), 3);
    CHECK_EQ(release(gate, id), SLUICE_HOLD_HELD);
    CHECK_EQ(left(gate, MONTH, "ann"), 6);
    sluice_close(gate);
    unlink(path);
}

int main(void)
{
    limits[MONTH].zone = "Europe/Berlin";
    RUN_TESTS();
    return CHECK_DONE();
}
