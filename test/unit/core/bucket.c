/* bucket.c -- token buckets (continuous and by interval) and leaky buckets,
 * row by row. */
#include "takes.h"

#define MOST ((int64_t)SL_AMOUNT_MAX)

static void continuous(void)
{
    static const struct row rows[] = {
        TAKE("a new key starts full", MS(0), 1, YES, 2, NONE, MS(500)),
        TAKE("the burst can go at once", MS(0), 2, YES, 0, NONE, MS(1500)),
        TAKE("an empty bucket refuses", MS(0), 1, NO, 0, MS(500), MS(1500)),
        TAKE("looking is free", MS(0), 0, YES, 0, NONE, MS(1500)),
        TAKE("too early by 1 ns", MS(500) - 1, 1, NO, 0, 1, MS(1000) + 1),
        TAKE("on time", MS(500), 1, YES, 0, NONE, MS(1500)),
        TAKE("more than burst is never", MS(500), 4, NEVER, 0, NONE, MS(1500)),
        TAKE("so is everything", MS(500), UINT64_MAX, NEVER, 0, NONE, MS(1500)),
        TAKE("1 ms late is on time", MS(499), 1, NO, 0, MS(501), MS(1501)),
        TAKE("a step back grants nothing", MS(100), 1, NO, 0, MS(500),
             MS(1500)),
        TAKE("and the wait is one step", MS(600), 1, YES, 0, NONE, MS(1500)),
        TAKE("idling fills to the brim", MS(9000), 0, YES, 3, NONE, 0),
        TAKE("and not beyond", MS(9000), 3, YES, 0, NONE, MS(1500)),
        TAKE("a leap brings one bucket", SL_TIME_END - 1, 0, YES, 3, NONE, 0),
        TAKE("and not two", SL_TIME_END - 1, 4, NEVER, 3, NONE, 0),
    };
    struct sl_limit limit = limit_of(SL_BUCKET, "2/s burst 3");

    CASE("bucket: 2/s burst 3");
    ROWS_HOLD(&limit, fresh, rows);
}

static void odd_rates(void)
{
    static const struct row third[] = {
        TAKE("a third of a second", 0, 1, YES, 0, NONE, 333333334),
        TAKE("is rounded up to a tick", 0, 1, NO, 0, 333333334, 333333334),
        TAKE("1 ns before", 333333333, 1, NO, 0, 1, 1),
        TAKE("and then", 333333334, 1, YES, 0, NONE, 333333334),
    };
    static const struct row coarse[] = {
        TAKE("in microseconds", 0, 1, YES, 0, NONE, 333334000),
        TAKE("spans are exact to the ns", 1500, 1, NO, 0, 333332500, 333332500),
        TAKE("1 ns before", 333333999, 1, NO, 0, 1, 1),
        TAKE("and then", 333334000, 1, YES, 0, NONE, 333334000),
    };
    static const struct row fast[] = {
        {"the fastest rate there is", 0,  2, YES, 0, NONE, 20, 0},
        {"no token grows in 9 ns",    9,  1, NO,  0, 1,    11, 0},
        {"but in 10",                 10, 1, YES, 0, NONE, 20, 0},
    };
    static const struct row slow[] = {
        TAKE("one in ten years", 0, 1, YES, 0, NONE, 3653 * SL_DAY),
        TAKE("is a long wait", SL_DAY, 1, NO, 0, 3652 * SL_DAY, 3652 * SL_DAY),
        TAKE("but not for ever", 3653 * SL_DAY, 1, YES, 0, NONE, 3653 * SL_DAY),
    };
    struct sl_limit_options us = {.quantum = SL_QUANTUM_US};
    struct sl_limit limit;

    CASE("bucket: rates that do not divide, and the edges");
    limit = limit_of(SL_BUCKET, "3/s burst 1");
    ROWS_HOLD(&limit, fresh, third);
    limit = rate_with(SL_BUCKET, "3/s burst 1", &us);
    ROWS_HOLD(&limit, fresh, coarse);
    limit = limit_of(SL_BUCKET, "100000000/s burst 2");
    ROWS_HOLD(&limit, fresh, fast);
    limit = limit_of(SL_BUCKET, "1/3653d burst 1");
    ROWS_HOLD(&limit, fresh, slow);
}

static void changes(void)
{
    static const struct row taken[] = {
        {"seven of ten", 0, 7, YES, 3, NONE, MS(700), 0},
    };
    static const struct row smaller[] = {
        {"seven of five leave nothing", 0, 0, YES,   0, NONE,    MS(700), 0},
        {"and all of it must drain",    0, 1, NO,    0, MS(300), MS(700), 0},
        {"five are never too many",     0, 5, NO,    0, MS(700), MS(700), 0},
        {"six are",                     0, 6, NEVER, 0, NONE,    MS(700), 0},
    };
    static const struct row larger[] = {
        {"seven of twenty leave 13", 0, 0, YES, 13, NONE, MS(700), 0},
    };
    static const struct row faster[] = {
        {"at 100/s seven grow in 70 ms", 0, 0, YES, 3, NONE, MS(70), 0},
    };
    static const struct row sudden[] = {
        {"by interval: at the second", MS(1), 0, YES, 3, NONE, MS(999), 0},
    };
    struct sl_limit limit = limit_of(SL_BUCKET, "10/s burst 10");
    struct sl_cell cell;

    CASE("bucket (7): a change keeps what was used");
    cell = ROWS_HOLD(&limit, fresh, taken);
    limit = limit_of(SL_BUCKET, "10/s burst 5");
    CHECK(sl_cell_eq(ROWS_HOLD(&limit, cell, smaller), cell));
    limit = limit_of(SL_BUCKET, "10/s burst 20");
    CHECK(sl_cell_eq(ROWS_HOLD(&limit, cell, larger), cell));
    limit = limit_of(SL_BUCKET, "100/s burst 10");
    CHECK(sl_cell_eq(ROWS_HOLD(&limit, cell, faster), cell));
    limit = limit_of(SL_INTERVAL, "10/s burst 10");
    CHECK(sl_cell_eq(ROWS_HOLD(&limit, cell, sudden), cell));
}

static void corrections(void)
{
    static const struct {
        int64_t delta;
        struct row row; /* of the look afterwards */
    } rows[] = {
        {2,    {"a charge is a take", 0, 0, YES, 1, NONE, MS(1000), 0}      },
        {-1,   {"giving back", 0, 0, YES, 2, NONE, MS(500), 0}              },
        {-100, {"never above full", 0, 0, YES, 3, NONE, 0, 0}               },
        {8,    {"a charge may make a debt", 0, 0, YES, 0, NONE, MS(4000), 0}},
        {-1,   {"which shrinks", 0, 0, YES, 0, NONE, MS(3500), 0}           },
        {1,    {"and grows", 0, 0, YES, 0, NONE, MS(4000), 0}               },
        {0,    {"0 changes nothing", 0, 0, YES, 0, NONE, MS(4000), 0}       },
    };
    static const struct row debt[] = {
        TAKE("a debt must refill first", 0, 1, NO, 0, MS(3000), MS(4000)),
        TAKE("all of it", MS(2999), 1, NO, 0, MS(1), MS(1001)),
        TAKE("then all is as before", MS(3000), 1, YES, 0, NONE, MS(1500)),
    };
    struct sl_limit limit = limit_of(SL_BUCKET, "2/s burst 3");
    struct sl_cell cell = fresh;

    CASE("bucket: corrections, and debts");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_take_result got =
            sl_adjust(&limit, cell, rows[i].delta, 0, 0);

        answer_is(&got.answer, &rows[i].row);
        cell = got.next;
        CHECK_EQ(sl_cell_eq(cell, fresh), rows[i].row.reset_in == 0);
    }
    ROWS_HOLD(&limit, cell, debt);
}

static void huge(void)
{
    struct sl_limit limit = limit_of(SL_BUCKET, "1/3653d burst 1");
    struct sl_take_result got = sl_adjust(&limit, fresh, MOST, 0, 0);

    CASE("bucket: a huge charge does not wrap");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(got.answer.remaining, 0);
        CHECK(got.answer.reset_in > 100 * 365 * SL_DAY);
        CHECK_EQ(got.next.w[0] >> SL_CELL_W0_BITS, 0);
        CHECK_EQ(got.next.w[1] >> SL_CELL_W1_BITS, 0);
        got = sl_adjust(&limit, got.next, MOST, 0, 0);
    }
    got = sl_take(&limit, got.next, 1, SL_TIME_END - 1);
    CHECK_EQ(got.answer.outcome, NO);
    CHECK(got.answer.retry_in > 0);
    got = sl_adjust(&limit, got.next, -MOST, 0, 0);
    CHECK(sl_cell_eq(got.next, fresh));
}

static void interval(void)
{
    static const struct row rows[] = {
        TAKE("starts full", SEC(30), 8, YES, 0, NONE, SEC(90)),
        TAKE("nothing grows between", SEC(59), 1, NO, 0, SEC(1), SEC(61)),
        TAKE("five at the full minute", SEC(60), 0, YES, 5, NONE, SEC(60)),
        TAKE("not six", SEC(60), 6, NO, 5, SEC(60), SEC(60)),
        TAKE("but five", SEC(60), 5, YES, 0, NONE, SEC(120)),
        TAKE("six need two minutes", SEC(61), 6, NO, 0, SEC(119), SEC(119)),
        TAKE("not above the burst", SEC(600), 0, YES, 8, NONE, 0),
        TAKE("more than that is never", SEC(600), 9, NEVER, 8, NONE, 0),
    };
    struct sl_limit limit = limit_of(SL_INTERVAL, "5/min burst 8");

    CASE("bucket by interval: 5/min burst 8");
    ROWS_HOLD(&limit, fresh, rows);
}

static void leaky(void)
{
    static const struct row rows[] = {
        ROW("the first passes at once", 0, 1, YES, 5, NONE, SEC(2), 0),
        ROW("the second waits", 0, 1, YES, 4, NONE, SEC(4), SEC(2)),
        ROW("two more places", 0, 2, YES, 2, NONE, SEC(8), SEC(4)),
        ROW("looking tells the wait", 0, 0, YES, 2, NONE, SEC(8), SEC(8)),
        ROW("the queue fills", 0, 2, YES, 0, NONE, SEC(12), SEC(8)),
        ROW("full", 0, 1, NO, 0, SEC(2), SEC(12), 0),
        ROW("nor later, by 1 ns", SEC(2) - 1, 1, NO, 0, 1, SEC(10) + 1, 0),
        ROW("a place is free", SEC(2), 1, YES, 0, NONE, SEC(12), SEC(10)),
        ROW("drained", SEC(14), 1, YES, 5, NONE, SEC(2), 0),
        ROW("seven never fit", SEC(14), 7, NEVER, 5, NONE, SEC(2), 0),
    };
    struct sl_limit limit = limit_of(SL_LEAKY, "5/10s queue 5");

    CASE("leaky bucket: 5/10s queue 5");
    ROWS_HOLD(&limit, fresh, rows);
}

/* Instants are rounded down to a microsecond, spans count from the instant. */
static void coarse(void)
{
    static const struct row rows[] = {
        TAKE("starts full", MS(0), 3, YES, 0, NONE, MS(1500)),
        TAKE("an empty bucket refuses", MS(0), 1, NO, 0, MS(500), MS(1500)),
        TAKE("one by one", MS(500), 1, YES, 0, NONE, MS(1500)),
        TAKE("inside the jitter", MS(499), 1, NO, 0, MS(501), MS(1501)),
        TAKE("a tick beyond: a step", MS(499) - 999, 1, NO, 0, 499999999,
             1499999999),
        TAKE("a step back", MS(100), 1, NO, 0, MS(500), MS(1500)),
    };
    struct sl_limit_options us = {.quantum = SL_QUANTUM_US};
    struct sl_limit limit = rate_with(SL_BUCKET, "2/s burst 3", &us);

    CASE("bucket: in microseconds");
    CHECK_EQ(limit.tick, 1000);
    ROWS_HOLD(&limit, fresh, rows);
}

int main(void)
{
    continuous();
    odd_rates();
    changes();
    corrections();
    huge();
    interval();
    leaky();
    coarse();
    return CHECK_DONE();
}
