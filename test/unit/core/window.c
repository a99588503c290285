/* window.c -- fixed and sliding windows, row by row. */
#include "takes.h"

static void fixed(void)
{
    static const struct row rows[] = {
        TAKE("a new key", MS(59000), 2, YES, 1, NONE, MS(1000)),
        TAKE("one left, not two", MS(59000), 2, NO, 1, MS(1000), MS(1000)),
        TAKE("a denial costs nothing", MS(59000), 1, YES, 0, NONE, MS(1000)),
        TAKE("looking is free", MS(59000), 0, YES, 0, NONE, MS(1000)),
        TAKE("too early by 1 ns", MS(60000) - 1, 1, NO, 0, 1, 1),
        TAKE("a new window", MS(60000), 3, YES, 0, NONE, MS(60000)),
        TAKE("four are never", MS(60000), 4, NEVER, 0, NONE, MS(60000)),
        TAKE("1 ms late is on time", MS(59999), 1, NO, 0, MS(60001), MS(60001)),
        TAKE("a step back keeps it", MS(59998), 1, NO, 0, MS(2), MS(2)),
        TAKE("windows follow the clock", MS(60000), 1, YES, 2, NONE, MS(60000)),
        TAKE("a leap forward", SEC(6000), 0, YES, 3, NONE, MS(60000)),
    };
    struct sl_limit limit = limit_of(SL_FIXED, "3/min");

    CASE("fixed window: 3/min");
    ROWS_HOLD(&limit, fresh, rows);
}

static void fixed_changes(void)
{
    struct sl_limit limit = limit_of(SL_FIXED, "10/min");
    struct sl_cell cell = sl_take(&limit, fresh, 7, SEC(90)).next;

    CASE("fixed window (5): a change keeps the count");
    limit = limit_of(SL_FIXED, "5/min");
    CHECK_EQ(sl_take(&limit, cell, 0, SEC(90)).answer.remaining, 0);
    CHECK_EQ(sl_take(&limit, cell, 1, SEC(90)).answer.retry_in, SEC(30));
    limit = limit_of(SL_FIXED, "20/min");
    CHECK_EQ(sl_take(&limit, cell, 0, SEC(90)).answer.remaining, 13);
}

static void fixed_corrections(void)
{
    static const struct {
        const char *why;
        int64_t delta;
        sl_ns when, now;
        uint64_t remaining;
    } rows[] = {
        ROW("a charge is a take", 7, SEC(90), SEC(90), 3),
        ROW("giving back", -2, SEC(90), SEC(91), 5),
        ROW("at the window's first instant", -1, SEC(60), SEC(91), 6),
        ROW("not what an older window took", -1, SEC(60) - 1, SEC(91), 6),
        ROW("never below zero", -100, SEC(90), SEC(91), 10),
        ROW("nothing there", -1, SEC(90), SEC(91), 10),
        ROW("beyond the limit", 15, SEC(90), SEC(91), 0),
        ROW("is real", -5, SEC(90), SEC(91), 0),
        ROW("to the last", -1, SEC(90), SEC(91), 1),
        ROW("the next window knows nothing", -1, SEC(90), SEC(120), 10),
        ROW("and starts from zero", 1, SEC(120), SEC(120), 9),
        ROW("huge", (int64_t)SL_AMOUNT_MAX, SEC(120), SEC(120), 0),
        ROW("huge twice", (int64_t)SL_AMOUNT_MAX, SEC(120), SEC(120), 0),
        ROW("and back", -(int64_t)SL_AMOUNT_MAX, SEC(120), SEC(120), 10),
    };
    struct sl_limit limit = limit_of(SL_FIXED, "10/min");
    struct sl_cell cell = fresh;

    CASE("fixed window: corrections");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_take_result got =
            sl_adjust(&limit, cell, rows[i].delta, rows[i].when, rows[i].now);

        if (!CHECK_EQ(got.answer.remaining, rows[i].remaining) ||
            !CHECK_EQ(got.answer.outcome, YES))
            printf("# in the row: %s\n", rows[i].why);
        cell = got.next;
    }
}

static void sliding(void)
{
    static const struct row rows[] = {
        TAKE("late in a bucket", MS(9900), 10, YES, 0, NONE, MS(100)),
        TAKE("the next must wait", MS(9900), 1, NO, 0, MS(1100), MS(100)),
        TAKE("five longer", MS(9900), 5, NO, 0, MS(5100), MS(100)),
        TAKE("ten to the end", MS(9900), 10, NO, 0, MS(10100), MS(100)),
        TAKE("the border grants nothing", MS(10000), 1, NO, 0, SEC(1), SEC(10)),
        TAKE("too early by 1 ns", SEC(11) - 1, 1, NO, 0, 1, SEC(9) + 1),
        TAKE("a tenth has slid out", SEC(11), 1, YES, 0, NONE, SEC(9)),
        TAKE("next a second later", SEC(11), 1, NO, 0, SEC(1), SEC(9)),
        TAKE("half is out, one is in", SEC(15), 0, YES, 4, NONE, SEC(5)),
        TAKE("four", SEC(15), 4, YES, 0, NONE, SEC(5)),
        TAKE("in the third bucket 5 weigh", SEC(20), 0, YES, 5, NONE, SEC(10)),
        TAKE("half of them", SEC(25), 0, YES, 7, NONE, SEC(5)),
        TAKE("7.5 is not 8", SEC(25), 8, NO, 7, SEC(1), SEC(5)),
        TAKE("eleven are never", SEC(25), 11, NEVER, 7, NONE, SEC(5)),
        TAKE("all gone", SEC(30), 0, YES, 10, NONE, SEC(10)),
    };
    static const struct row thirds[] = {
        TAKE("three of three", 0, 3, YES, 0, NONE, SEC(10)),
        TAKE("a third of ten seconds", SEC(10), 1, NO, 0, 3333333334, SEC(10)),
        TAKE("1 ns before", SEC(10) + 3333333333, 1, NO, 0, 1, 6666666667),
        TAKE("and then", SEC(10) + 3333333334, 1, YES, 0, NONE, 6666666666),
    };
    struct sl_limit limit = limit_of(SL_SLIDING, "10/10s");

    CASE("sliding window: 10/10s");
    ROWS_HOLD(&limit, fresh, rows);
    limit = limit_of(SL_SLIDING, "3/10s");
    ROWS_HOLD(&limit, fresh, thirds);
}

static void sliding_clock(void)
{
    static const struct row rows[] = {
        TAKE("at the start of a bucket", SEC(10), 9, YES, 1, NONE, SEC(10)),
        TAKE("1 ms late is on time", SEC(10) - MS(1), 2, NO, 1, 11112111112,
             MS(10001)),
        TAKE("a step back keeps it", SEC(9), 2, NO, 1, 2111111112, SEC(1)),
        TAKE("and the clock goes on", SEC(10), 1, YES, 0, NONE, SEC(10)),
    };
    struct sl_limit limit = limit_of(SL_SLIDING, "10/10s");

    CASE("sliding window (4): the clock");
    ROWS_HOLD(&limit, fresh, rows);
}

static void sliding_corrections(void)
{
    static const struct {
        const char *why;
        int64_t delta;
        sl_ns when, now;
        uint64_t remaining;
    } rows[] = {
        ROW("in the first bucket", 8, SEC(5), SEC(5), 2),
        ROW("given back at once", -2, SEC(5), SEC(5), 4),
        ROW("in the second, half slid out", 2, SEC(15), SEC(15), 5),
        ROW("back to the first", -4, SEC(5), SEC(15), 7),
        ROW("back to the second", -1, SEC(10), SEC(15), 8),
        ROW("never below zero", -100, SEC(10), SEC(15), 9),
        ROW("nor there", -100, SEC(9), SEC(15), 10),
        ROW("again", 5, SEC(15), SEC(15), 5),
        ROW("too long ago", -1, SEC(9), SEC(20), 5),
        ROW("the bucket before", -1, SEC(19), SEC(20), 6),
        ROW("huge", (int64_t)SL_AMOUNT_MAX, SEC(20), SEC(20), 0),
        ROW("huge twice", (int64_t)SL_AMOUNT_MAX, SEC(20), SEC(20), 0),
        ROW("and back", -(int64_t)SL_AMOUNT_MAX, SEC(20), SEC(20), 6),
    };
    struct sl_limit limit = limit_of(SL_SLIDING, "10/10s");
    struct sl_cell cell = fresh;

    CASE("sliding window: corrections");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_take_result got =
            sl_adjust(&limit, cell, rows[i].delta, rows[i].when, rows[i].now);

        if (!CHECK_EQ(got.answer.remaining, rows[i].remaining) ||
            !CHECK_EQ(got.answer.outcome, YES))
            printf("# in the row: %s\n", rows[i].why);
        cell = got.next;
    }
}

static void sliding_changes(void)
{
    struct sl_limit limit = limit_of(SL_SLIDING, "10/10s");
    struct sl_cell cell = sl_take(&limit, fresh, 7, SEC(5)).next;

    CASE("sliding window (5): a change keeps the count");
    limit = limit_of(SL_SLIDING, "5/10s");
    CHECK_EQ(sl_take(&limit, cell, 0, SEC(5)).answer.remaining, 0);
    /* 7 x share + 1 <= 5: three sevenths of ten seconds into the next. */
    CHECK_EQ(sl_take(&limit, cell, 1, SEC(5)).answer.retry_in,
             SEC(5) + 4285714286);
    limit = limit_of(SL_SLIDING, "20/10s");
    CHECK_EQ(sl_take(&limit, cell, 0, SEC(5)).answer.remaining, 13);
}

static void edges(void)
{
    static const struct {
        enum sl_kind kind;
        const char *rate;
        sl_ns at, edge;
    } rows[] = {
        {SL_FIXED,    "3/min",       SEC(60),         SEC(60)   },
        {SL_FIXED,    "3/min",       SEC(60) + MS(6), SEC(60)   },
        {SL_FIXED,    "3/min",       SEC(60) - MS(6), SEC(60)   },
        {SL_FIXED,    "3/min",       SEC(89),         SEC(60)   },
        {SL_FIXED,    "3/min",       SEC(90),         SEC(120)  },
        {SL_SLIDING,  "3/10s",       SEC(19),         SEC(20)   },
        {SL_INTERVAL, "3/10s",       SEC(21),         SEC(20)   },
        {SL_QUOTA,    "3/h",         SEC(3599),       SEC(3600) },
        {SL_QUOTA,    "3/day",       SEC(86401),      SEC(86400)},
        {SL_QUOTA,    "3/day",       SEC(86399),      SEC(86400)},
        {SL_BUCKET,   "3/min",       SEC(61),         SEC(61)   },
        {SL_LEAKY,    "3/s queue 2", MS(1500),        MS(1500)  },
        {SL_LEVEL,    "3",           SEC(7),          SEC(7)    },
    };

    CASE("the edge of a window that is nearest");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_limit limit = limit_of(rows[i].kind, rows[i].rate);

        if (!CHECK_EQ(sl_limit_edge(&limit, rows[i].at), rows[i].edge))
            printf("# row %zu\n", i);
    }
}

int main(void)
{
    edges();
    fixed();
    fixed_changes();
    fixed_corrections();
    sliding();
    sliding_clock();
    sliding_corrections();
    sliding_changes();
    return CHECK_DONE();
}
