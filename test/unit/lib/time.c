/* time.c -- kinds of limits and kinds of clocks, as a user meets them: days of
 * 23 and 25 hours, refills at once, pacing, clocks that step. */
#include "gate.h"

static struct hands hands;

static struct sluice *gate_of(struct sluice_limit limit)
{
    return open_gate(&limit, 1, &hands);
}

/* 2026-03-29 and 2026-10-25 in Berlin have 23 and 25 hours. */
#define MARCH_28_23Z   (INT64_C(1774738800) * SEC) /* midnight in Berlin */
#define OCTOBER_24_22Z (INT64_C(1792879200) * SEC)

TEST(days)
{
    struct sluice *gate;

    CASE("a daily quota in Berlin ends after 23 hours in March");
    hands.now = MARCH_28_23Z;
    gate = gate_of((struct sluice_limit){.name = "day",
                                         .kind = SLUICE_QUOTA,
                                         .rate = "5/day",
                                         .zone = "Europe/Berlin"});
    CHECK_EQ(take(gate, 0, "ann", 5).reset_in_ns, 23 * HOUR);
    hands.now = MARCH_28_23Z + 23 * HOUR - 1;
    CHECK_EQ(take(gate, 0, "ann", 1).retry_in_ns, 1);
    hands.now++;
    CHECK_EQ(take(gate, 0, "ann", 5).outcome, SLUICE_ALLOW);
    CASE("and after 25 in October");
    hands.now = OCTOBER_24_22Z;
    CHECK_EQ(take(gate, 0, "ann", 5).reset_in_ns, 25 * HOUR);
    hands.now += 24 * HOUR;
    CHECK_EQ(take(gate, 0, "ann", 1).retry_in_ns, HOUR);
    hands.now += HOUR;
    CHECK_EQ(drain(gate, 0, "ann"), 5);
    sluice_close(gate);
}

TEST(months)
{
    struct sluice *gate;

    CASE("a month may begin on its 15th, wherever that is");
    hands.now = START; /* 2023-11-14T22:00Z is the 15th in Tokyo, 07:00 */
    gate = gate_of((struct sluice_limit){.name = "month",
                                         .kind = SLUICE_QUOTA,
                                         .rate = "5/month",
                                         .anchor = 15});
    CHECK_EQ(take(gate, 0, "ann", 5).reset_in_ns, 2 * HOUR);
    sluice_close(gate);
    gate = gate_of((struct sluice_limit){.name = "month",
                                         .kind = SLUICE_QUOTA,
                                         .rate = "5/month",
                                         .zone = "Asia/Tokyo",
                                         .anchor = 15});
    CHECK_EQ(take(gate, 0, "ann", 5).reset_in_ns, 30 * DAY - 7 * HOUR);
    sluice_close(gate);
}

TEST(interval)
{
    struct sluice *gate;

    CASE("an interval bucket refills by the period, at once");
    hands.now = START + 10 * SEC;
    gate = gate_of((struct sluice_limit){.name = "a",
                                         .kind = SLUICE_TOKEN_BUCKET,
                                         .rate = "5/min burst 8",
                                         .interval = 1});
    CHECK_EQ(drain(gate, 0, "ann"), 8);
    CHECK_EQ(take(gate, 0, "ann", 1).retry_in_ns, 50 * SEC);
    CHECK_EQ(take(gate, 0, "ann", 6).retry_in_ns, 110 * SEC);
    hands.now = START + MIN - 1;
    CHECK_EQ(drain(gate, 0, "ann"), 0);
    hands.now = START + MIN;
    CHECK_EQ(drain(gate, 0, "ann"), 5);
    sluice_close(gate);
}

TEST(leaky)
{
    struct sluice *gate;
    struct sluice_answer a;

    CASE("a leaky bucket says how long to hold each request back");
    hands.now = START;
    gate = gate_of((struct sluice_limit){
        .name = "a", .kind = SLUICE_LEAKY_BUCKET, .rate = "5/10s queue 3"});
    for (int64_t i = 0; i < 4; i++) {
        a = take(gate, 0, "ann", 1);
        CHECK_EQ(a.outcome, SLUICE_ALLOW);
        CHECK_EQ(a.wait_ns, i * 2 * SEC);
    }
    a = take(gate, 0, "ann", 1);
    CHECK_EQ(a.outcome, SLUICE_DENY);
    CHECK_EQ(a.wait_ns, 0);
    CHECK_EQ(a.retry_in_ns, 2 * SEC);
    CHECK_EQ(a.capacity, 4);
    sluice_close(gate);
}

TEST(sliding)
{
    struct sluice *gate;

    CASE("a sliding window lets the past fade");
    hands.now = START + 9900 * MS;
    gate = gate_of((struct sluice_limit){
        .name = "a", .kind = SLUICE_SLIDING_WINDOW, .rate = "10/10s"});
    CHECK_EQ(drain(gate, 0, "ann"), 10);
    hands.now = START + 10 * SEC;
    CHECK_EQ(take(gate, 0, "ann", 1).retry_in_ns, SEC);
    hands.now = START + 15 * SEC;
    CHECK_EQ(drain(gate, 0, "ann"), 5);
    sluice_close(gate);
}

static const struct sluice_limit minute = {
    .name = "a", .kind = SLUICE_TOKEN_BUCKET, .rate = "6/min"};

TEST(step_back)
{
    struct sluice *gate;

    CASE("a clock that steps back grants nothing");
    hands.now = START;
    gate = gate_of(minute);
    CHECK_EQ(drain(gate, 0, "ann"), 6);
    hands.now = START - HOUR;
    CHECK_EQ(drain(gate, 0, "ann"), 0);
    CASE("and denies for at most a refill longer");
    CHECK_EQ(take(gate, 0, "ann", 6).retry_in_ns, MIN);
    hands.now += MIN;
    CHECK_EQ(drain(gate, 0, "ann"), 6);
    CASE("a batch meets the step as a take does");
    hands.now -= HOUR;
    for (unsigned i = 0; i < 2; i++) {
        struct sluice_part parts[2] = {part_of(0, "ann", 1),
                                       part_of(0, "bob", 4)};

        CHECK_EQ(sluice_take_batch(gate, parts, 2), 0);
        CHECK_EQ(parts[0].answer.outcome, SLUICE_DENY);
        CHECK_EQ(parts[0].answer.retry_in_ns, 10 * SEC);
        CHECK_EQ(parts[1].answer.outcome, i ? SLUICE_DENY : SLUICE_ALLOW);
        CHECK_EQ(parts[1].answer.remaining, 2);
    }
    CASE("so do give_back and charge");
    hands.now -= HOUR;
    struct sluice_part part = part_of(0, "ann", 2);
    CHECK_EQ(sluice_give_back(gate, &part, 1), 0);
    CHECK_EQ(part.answer.remaining, 2);
    hands.now -= HOUR;
    CHECK_EQ(sluice_charge(gate, &part, 1), 0);
    CHECK_EQ(part.answer.remaining, 0);
    sluice_close(gate);
}

TEST(reading_twice)
{
    struct sluice *gate;

    CASE("a decision reads the clock once, or twice if it seems to step");
    hands.now = START;
    gate = gate_of(minute);
    hands.readings = 0;
    take(gate, 0, "ann", 1);
    CHECK_EQ(hands.readings, 1);
    hands.now -= SEC;
    take(gate, 0, "ann", 1);
    CHECK_EQ(hands.readings, 3);
    take(gate, 0, "ann", 1);
    CHECK_EQ(hands.readings, 4);
    sluice_close(gate);
}

static const struct sluice_limit kinds[] = {
    {.name = "b", .kind = SLUICE_TOKEN_BUCKET,   .rate = "6/min"        },
    {.name = "l", .kind = SLUICE_LEAKY_BUCKET,   .rate = "6/min queue 5"},
    {.name = "f", .kind = SLUICE_FIXED_WINDOW,   .rate = "6/min"        },
    {.name = "s", .kind = SLUICE_SLIDING_WINDOW, .rate = "6/min"        },
    {.name = "q", .kind = SLUICE_QUOTA,          .rate = "6/month"      },
    {.name = "m", .kind = SLUICE_QUOTA,          .rate = "6/120month"   },
    {.name = "h", .kind = SLUICE_QUOTA,          .rate = "6/hour"       },
};

/* At an odd instant, and after a step to another. */
static void at_odd_instants(const struct sluice_limit *limit, int64_t one,
                            int64_t other)
{
    struct sluice *gate;

    hands.now = one;
    gate = open_gate(limit, 1, &hands);
    CHECK_EQ(drain(gate, 0, "ann"), 6);
    CHECK(take(gate, 0, "ann", 1).retry_in_ns > 0);
    CHECK(take(gate, 0, "ann", 0).reset_in_ns > 0);
    hands.now = other;
    take(gate, 0, "ann", 1);
    sluice_close(gate);
}

TEST(odd_instants)
{
    static const int64_t odd[] = {INT64_MIN,        -1,       0, 1,
                                  INT64_C(1) << 62, INT64_MAX};

    CASE("instants before 1970 and after 2116 are the nearest that there are");
    for (size_t i = 0; i < COUNT(odd); i++)
        for (size_t k = 0; k < COUNT(kinds); k++) {
            struct sluice_limit limit = kinds[k];

            at_odd_instants(&limit, odd[i], odd[COUNT(odd) - 1 - i]);
            limit.interval = limit.kind == SLUICE_TOKEN_BUCKET;
            limit.zone = limit.kind == SLUICE_QUOTA ? "America/New_York" : NULL;
            at_odd_instants(&limit, odd[i], odd[COUNT(odd) - 1 - i]);
        }
}

TEST(system_clock)
{
    struct sluice *gate = open_gate(&minute, 1, NULL);
    struct sluice_answer a;

    CASE("without a clock it is the system's");
    CHECK_EQ(take(gate, 0, "ann", 6).outcome, SLUICE_ALLOW);
    a = take(gate, 0, "ann", 6);
    CHECK_EQ(a.outcome, SLUICE_DENY);
    CHECK(a.retry_in_ns > 0 && a.retry_in_ns <= MIN);
    sluice_close(gate);
}

CHECK_MAIN()
