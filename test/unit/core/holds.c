/* holds.c -- what comes back of a hold: the edges. The rest is asked by
 * test/prop/holds.c. */
#include "core/algorithm.h"
#include "limit.h"

#define NOW (INT64_C(1700000000) * SL_S)

static uint64_t left(const struct sl_limit *limit, struct sl_cell cell,
                     sl_ns now)
{
    return sl_take(limit, cell, 0, now).answer.remaining;
}

static void test_later_cell(void)
{
    struct sl_limit limit = rate_of(SL_BUCKET, "10/10s burst 20");
    struct sl_cell cell = sl_take(&limit, sl_cell_of(0, 0), 10, NOW).next;
    struct sl_hold_snapshot mark = sl_hold_snapshot_of(&limit, cell);
    struct sl_since since = {NOW, NOW + SL_S, 0};

    CASE("a bucket that was written later is given back as of then");
    cell = sl_take(&limit, cell, 5, NOW + 4 * SL_S).next;   /* 11 are used */
    cell = sl_hold_refund(&limit, cell, 10, &mark, &since); /* 6 of them held */
    CHECK_EQ(left(&limit, cell, NOW + 4 * SL_S), 15);
    CHECK_EQ(cell.w[0], (uint64_t)(NOW + 4 * SL_S));
}

static void test_permits(void)
{
    struct sl_limit limit = rate_of(SL_PERMITS, "5");
    struct sl_hold_snapshot mark =
        sl_hold_snapshot_of(&limit, sl_cell_of(0, 2));
    struct sl_since since = {NOW, NOW, 0};
    struct sl_cell cell =
        sl_hold_refund(&limit, sl_cell_of(0, 2), 3, &mark, &since);

    CASE("permits never fall below none");
    CHECK_EQ(cell.w[1], 0);
    CHECK_EQ(left(&limit, cell, NOW), 5);
}

/* What was taken at noon, by a clock that was set back in between. */
static void test_stepped(void)
{
    static const struct {
        const char *what;
        sl_ns taken, ends, stepped;
        uint64_t left;
    } rows[] = {
        {"no step",                      10, 30, 0,  10},
        {"a step inside the window",     20, 15, 10, 10},
        {"a step to before its start",   20, 15, 21, 7 },
        {"a step back over its end",     20, 50, 10, 7 },
        {"a step to its very start",     20, 15, 20, 10},
        {"the last instant of its time", 20, 49, 10, 10},
    };
    struct sl_limit limit = rate_of(SL_FIXED, "10/min");
    sl_ns start = NOW - NOW % SL_MIN;

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_since since = {start + rows[i].taken * SL_S,
                                 start + rows[i].ends * SL_S,
                                 rows[i].stepped * SL_S};
        struct sl_cell cell =
            sl_take(&limit, sl_cell_of(0, 0), 3, since.taken).next;
        struct sl_hold_snapshot mark = sl_hold_snapshot_of(&limit, cell);

        CASE(rows[i].what);
        cell = sl_hold_refund(&limit, cell, 3, &mark, &since);
        CHECK_EQ(left(&limit, cell, since.taken), rows[i].left);
    }
}

/* While the clock shows no second more, four have passed. */
static void test_stepped_bucket(void)
{
    struct sl_limit limit = rate_of(SL_BUCKET, "10/10s burst 20");
    struct sl_cell cell = sl_take(&limit, sl_cell_of(0, 0), 10, NOW).next;
    struct sl_hold_snapshot mark = sl_hold_snapshot_of(&limit, cell);
    struct sl_since since = {NOW, NOW, 4 * SL_S};

    CASE("what has drained before a step back does not come back");
    cell = sl_hold_refund(&limit, cell, 10, &mark, &since);
    CHECK_EQ(left(&limit, cell, NOW), 16);
}

int main(void)
{
    test_later_cell();
    test_stepped_bucket();
    test_permits();
    test_stepped();
    return CHECK_DONE();
}
