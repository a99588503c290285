/* bench.c -- how many checks of a server's answers must pass. */
#include "cli/bench.h"

#include "check.h"

static struct sl_bench_answer bucket(uint64_t remaining, uint64_t reset_ms,
                                     uint64_t retry_ms)
{
    return (struct sl_bench_answer){
        .allowed = true,
        .count = 1,
        .limits = {{.kind = SL_BENCH_BUCKET,
                    .enforced = true,
                    .burst = 100,
                    .remaining = remaining,
                    .reset_ms = reset_ms,
                    .retry_ms = retry_ms}},
    };
}

static void capacities(void)
{
    struct sl_bench_answer before = bucket(100, 0, 0), after;

    CASE("the first check and those that still fit");
    after = bucket(99, 100, 0);
    CHECK_EQ(sl_bench_capacity(&before, &after), 100);
    after = bucket(93, 700, 0); /* 14 * 7 = 98 */
    CHECK_EQ(sl_bench_capacity(&before, &after), 14);

    CASE("the smallest of several limits; one that takes nothing is not asked");
    before.count = after.count = 3;
    before.limits[1] = before.limits[2] = before.limits[0];
    after.limits[1] =
        (struct sl_bench_limit){.enforced = true, .remaining = 60};
    after.limits[2] = before.limits[2];
    CHECK_EQ(sl_bench_capacity(&before, &after), 2);

    CASE("one that does not deny does not count");
    before.limits[1].enforced = false;
    CHECK_EQ(sl_bench_capacity(&before, &after), 14);

    CASE("nothing is taken, or the first check is denied");
    after = before = bucket(100, 0, 0);
    CHECK_EQ(sl_bench_capacity(&before, &after), 0);
    after = bucket(99, 100, 0);
    after.allowed = false;
    CHECK_EQ(sl_bench_capacity(&before, &after), 0);
}

static void refills(void)
{
    struct sl_bench_answer before = bucket(100, 0, 0), after, last;

    CASE("a bucket of 100 per 10 s refills one in 100 ms");
    after = bucket(99, 100, 0);
    last = bucket(0, 10000, 100);
    CHECK_EQ(sl_bench_most(&before, &after, &last, 0), 101);
    CHECK_EQ(sl_bench_most(&before, &after, &last, 500 * SL_MS), 106);

    CASE("by the cost");
    after = bucket(90, 1000, 0);
    last = bucket(0, 10000, 1000);
    CHECK_EQ(sl_bench_most(&before, &after, &last, 500 * SL_MS), 10);
    CHECK_EQ(sl_bench_most(&before, &after, &last, SL_S), 11);

    CASE("refilled at once: not told, because all may come in one step");
    after = bucket(99, 10000, 0);
    last = bucket(0, 10000, 10000);
    CHECK_EQ(sl_bench_most(&before, &after, &last, SL_MS), 0);

    CASE("full again before the end");
    last = bucket(100, 0, 0);
    CHECK_EQ(sl_bench_most(&before, &after, &last, SL_S), 0);
}

static void windows(void)
{
    struct sl_bench_answer before = bucket(100, 5000, 0), after, last;

    before.limits[0].kind = SL_BENCH_WINDOW;
    last = after = before;
    after.limits[0].remaining = 99;
    last.limits[0].remaining = 0;

    CASE("within a window nothing refills");
    CHECK_EQ(sl_bench_most(&before, &after, &last, 4 * SL_S), 100);

    CASE("it has ended: not told");
    CHECK_EQ(sl_bench_most(&before, &after, &last, 5 * SL_S), 0);

    CASE("permits come back whenever a hold ends: not told");
    after.limits[0].kind = SL_BENCH_OTHER;
    CHECK_EQ(sl_bench_most(&before, &after, &last, 0), 0);

    CASE("another policy meanwhile: not told");
    last.count = 0;
    CHECK_EQ(sl_bench_most(&before, &after, &last, 0), 0);
}

int main(void)
{
    capacities();
    refills();
    windows();
    return CHECK_DONE();
}
