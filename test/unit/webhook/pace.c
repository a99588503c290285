/* pace.c -- the pace of a destination. */
#include "webhook/pace.h"

#include "base/parse.h"
#include "check.h"
#include "rng.h"

#define START (1000 * SL_DAY)

static struct sl_limit limit_of(const char *text)
{
    struct sl_diag diag = {0};
    struct sl_limit limit;
    struct sl_rate rate;

    CHECK_EQ(sl_parse_rate(sl_str_c(text), &rate, &diag), 0);
    CHECK_EQ(sl_limit_init(&limit, SL_BUCKET, &rate, NULL, &diag), 0);
    return limit;
}

TEST(takes)
{
    struct sl_limit limit = limit_of("5/10s burst 1");
    struct sl_cell cell = sl_cell_of(0, 0), before;

    CASE("evenly spaced: one, and the next a fifth of the period after it");
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 0);
    CHECK(sl_pace_move(&limit, &cell, START, START));
    before = cell;
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 2 * SL_S);
    CHECK_EQ(sl_pace_take(&limit, &cell, START + SL_S), SL_S);
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 2 * SL_S - 1), 1);
    CHECK(sl_cell_eq(cell, before));
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 2 * SL_S), 0);

    CASE("a distance that is no whole number of ns is rounded up");
    limit = limit_of("3/1s burst 1");
    cell = sl_cell_of(0, 0);
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 0);
    CHECK(sl_pace_move(&limit, &cell, START, START));
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 333333334);

    CASE("a burst at once, and then one by one");
    limit = limit_of("5/10s burst 3");
    cell = sl_cell_of(0, 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(sl_pace_take(&limit, &cell, START), 0);
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 2 * SL_S);
}

/* (1) Deliveries that arrive as late as they may, whose results come after
 * further takes, in any order, or never. */
TEST(windows)
{
    struct sl_limit limit = limit_of("5/10s burst 1");
    struct sl_cell cell = sl_cell_of(0, 0);
    struct rng rng = {.state = 21};
    sl_ns taken[4] = {0}, arrived[4] = {0};
    sl_ns now = START, wait, last[6] = {0};
    unsigned moved = 0;

    CASE("no window has more than five, however late each arrives");
    for (unsigned i = 0; i < 5000; i++) {
        unsigned slot = i % 4, other = (unsigned)(rng_next(&rng) % 4);

        while ((wait = sl_pace_take(&limit, &cell, now)) > 0)
            now += wait;
        taken[slot] = now;
        arrived[slot] =
            now + (sl_ns)(rng_next(&rng) % (uint64_t)(SL_PACE_LATE + 1));
        memmove(last, last + 1, sizeof(last) - sizeof(last[0]));
        last[5] = arrived[slot];
        if (i >= 5)
            CHECK(last[5] - last[0] >= 10 * SL_S);
        if (i >= 1)
            CHECK(last[5] - last[4] >= 2 * SL_S);
        if (i < 4 || arrived[other] > now + SL_S * 3)
            continue;
        if (now < arrived[other])
            now = arrived[other];
        moved += sl_pace_move(&limit, &cell, taken[other], arrived[other]);
    }
    CHECK(moved > 300 && moved < 4700);
}

TEST(moves)
{
    struct sl_limit limit = limit_of("5/10s burst 1");
    struct sl_limit burst = limit_of("5/10s burst 5");
    struct sl_cell cell = sl_cell_of(0, 0), later;

    CASE("without a result it is reserved while the delivery may be late");
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 0);
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 2 * SL_S + SL_PACE_LATE);

    CASE("the distance counts from the arrival");
    CHECK(sl_pace_move(&limit, &cell, START, START + SL_S));
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 2 * SL_S), SL_S);
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 3 * SL_S), 0);

    CASE("an earlier result does not take from a later delivery");
    later = cell;
    CHECK(!sl_pace_move(&limit, &cell, START, START + SL_S));
    CHECK(!sl_pace_move(&limit, &cell, START, START + 3 * SL_S));
    CHECK(sl_cell_eq(cell, later));

    CASE("one that was not sent has the distance from its take");
    CHECK(sl_pace_move(&limit, &cell, START + 3 * SL_S, 0));
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 3 * SL_S), 2 * SL_S);

    CASE("a clock that steps back waits for one reservation at most");
    CHECK_EQ(sl_pace_take(&limit, &cell, START - SL_DAY),
             2 * SL_S + SL_PACE_LATE);
    CHECK_EQ(
        sl_pace_take(&limit, &cell, START - SL_DAY + 2 * SL_S + SL_PACE_LATE),
        0);

    CASE("with a burst there is no distance");
    cell = sl_cell_of(0, 0);
    CHECK_EQ(sl_pace_take(&burst, &cell, START), 0);
    CHECK(!sl_pace_move(&burst, &cell, START, START + SL_S));
}

CHECK_MAIN()
