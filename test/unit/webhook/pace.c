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

    CASE("evenly spaced: one, and the next after a fifth of the period");
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 0);
    before = cell;
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 2 * SL_S);
    CHECK_EQ(sl_pace_take(&limit, &cell, START + SL_S), SL_S);
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 2 * SL_S - 1), 1);
    CHECK(memcmp(&cell, &before, sizeof(cell)) == 0);
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 2 * SL_S), 0);

    CASE("a burst at once, and then one by one");
    limit = limit_of("5/10s burst 3");
    cell = sl_cell_of(0, 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(sl_pace_take(&limit, &cell, START), 0);
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 2 * SL_S);
}

/* Deliveries that arrive up to a second late: what is between six of them? */
TEST(windows)
{
    struct sl_limit limit = limit_of("5/10s burst 1");
    struct sl_cell cell = sl_cell_of(0, 0);
    struct rng rng = {.state = 21};
    sl_ns now = START, arrived[6] = {0}, wait;

    CASE("no window has more than five, however late each arrives");
    for (unsigned i = 0; i < 2000; i++) {
        while ((wait = sl_pace_take(&limit, &cell, now)) > 0)
            now += wait;
        now += (sl_ns)(rng_next(&rng) % (uint64_t)SL_S);
        memmove(arrived, arrived + 1, sizeof(arrived) - sizeof(arrived[0]));
        arrived[5] = now;
        (void)!sl_pace_move(&limit, &cell, now);
        if (i >= 5)
            CHECK(arrived[5] - arrived[0] >= 10 * SL_S);
    }
}

TEST(moves)
{
    struct sl_limit limit = limit_of("5/10s burst 1");
    struct sl_limit burst = limit_of("5/10s burst 5");
    struct sl_cell cell = sl_cell_of(0, 0), later;

    CASE("the distance counts from the arrival");
    CHECK_EQ(sl_pace_take(&limit, &cell, START), 0);
    CHECK(sl_pace_move(&limit, &cell, START + SL_S));
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 2 * SL_S), SL_S);
    CHECK_EQ(sl_pace_take(&limit, &cell, START + 3 * SL_S), 0);

    CASE("an earlier arrival does not take from a later delivery");
    later = cell;
    CHECK(!sl_pace_move(&limit, &cell, START + 2 * SL_S));
    CHECK(!sl_pace_move(&limit, &cell, START + 3 * SL_S));
    CHECK(memcmp(&cell, &later, sizeof(cell)) == 0);

    CASE("with a burst there is no distance");
    cell = sl_cell_of(0, 0);
    CHECK_EQ(sl_pace_take(&burst, &cell, START), 0);
    CHECK(!sl_pace_move(&burst, &cell, START + SL_S));
}

CHECK_MAIN()
