/* vectors.c -- known answers: the regression vectors V1 to V11 that concern
 * one limit, and redis-cell's worked rows.
 *
 * V7, V10 and V12 need a shared store, a set of limits and a client.
 */
#include "takes.h"

/* Ask `count` times, `gap` and `other` apart in turn; how many passed? */
static unsigned passed(const struct sl_limit *limit, unsigned count, sl_ns gap,
                       sl_ns other)
{
    struct sl_cell cell = fresh;
    unsigned yes = 0;
    sl_ns now = 0;

    for (unsigned i = 0; i < count; i++) {
        struct sl_take_result got = sl_take(limit, cell, 1, now);

        yes += got.answer.outcome == SL_ALLOW;
        cell = got.next;
        now += i % 2 ? other : gap;
    }
    return yes;
}

static void fractions(void)
{
    struct sl_limit limit = limit_of(SL_BUCKET, "100/min");
    struct sl_take_result got;

    CASE("V1: 100/min, gaps of 500 and 900 ms: none of 2000 denied");
    CHECK_EQ(passed(&limit, 2000, MS(500), MS(900)), 2000);
    CASE("V2: 1000/min, gaps of 50 and 75 ms: none of 20000 denied");
    limit = limit_of(SL_BUCKET, "1000/min");
    CHECK_EQ(passed(&limit, 20000, MS(50), MS(75)), 20000);
    CASE("V3: a twentieth of a token is not a token");
    limit = limit_of(SL_BUCKET, "1/s burst 10");
    got = sl_take(&limit, fresh, 10, 0);
    CHECK_EQ(got.answer.outcome, YES);
    got = sl_take(&limit, got.next, 1, MS(50));
    CHECK_EQ(got.answer.outcome, NO);
    CHECK_EQ(got.answer.retry_in, MS(950));
}

static void days(void)
{
    struct sl_limit limit = limit_of(SL_QUOTA, "500/day");

    CASE("V4: 500/day, a request a second, for a day");
    CHECK_EQ(passed(&limit, 86400, SL_S, SL_S), 500);
    limit = limit_of(SL_FIXED, "500/day");
    CHECK_EQ(passed(&limit, 86400, SL_S, SL_S), 500);
    limit = limit_of(SL_BUCKET, "500/day");
    CHECK_EQ(passed(&limit, 86400, SL_S, SL_S), 999);
}

static void borders(void)
{
    struct sl_limit limit = limit_of(SL_SLIDING, "10/10s");
    struct sl_take_result got = sl_take(&limit, fresh, 10, MS(9900));
    unsigned yes = 10;

    CASE("V5: sliding 10/10s admits at most 19 in [9.9 s, 19.9 s)");
    CHECK_EQ(got.answer.outcome, YES);
    for (sl_ns now = MS(9900); now < MS(19900); now += MS(100)) {
        got = sl_take(&limit, got.next, 1, now);
        yes += got.answer.outcome == SL_ALLOW;
    }
    CHECK_EQ(yes, 19);

    CASE("V6: fixed 5/h admits 10 in a second across the hour");
    limit = limit_of(SL_FIXED, "5/h");
    got = sl_take(&limit, fresh, 5, SEC(3599));
    CHECK_EQ(got.answer.outcome, YES);
    CHECK_EQ(sl_take(&limit, got.next, 1, SEC(3599)).answer.outcome, NO);
    got = sl_take(&limit, got.next, 5, SEC(3600));
    CHECK_EQ(got.answer.outcome, YES);
    CHECK_EQ(sl_take(&limit, got.next, 1, SEC(3600)).answer.outcome, NO);
    limit = limit_of(SL_SLIDING, "5/h");
    got = sl_take(&limit, fresh, 5, SEC(3599));
    got = sl_take(&limit, got.next, 1, SEC(3600));
    CHECK_EQ(got.answer.outcome, NO);
}

static void costs(void)
{
    static const struct {
        enum sl_kind kind;
        const char *text;
    } kinds[] = {
        {SL_BUCKET,   "10/h"        },
        {SL_INTERVAL, "10/h"        },
        {SL_FIXED,    "10/h"        },
        {SL_SLIDING,  "10/h"        },
        {SL_QUOTA,    "10/day"      },
        {SL_PERMITS,  "10"          },
        {SL_LEVEL,    "10"          },
        {SL_LEAKY,    "10/h queue 9"},
    };

    CASE("V8: nine of ten, cost five: denied, and nine stay nine");
    for (size_t i = 0; i < SL_LEN(kinds); i++) {
        struct sl_limit limit = limit_of(kinds[i].kind, kinds[i].text);
        struct sl_cell nine = sl_take(&limit, fresh, 9, SEC(60)).next;
        struct sl_take_result got = sl_take(&limit, nine, 5, SEC(60));

        CHECK_EQ(got.answer.outcome, NO);
        CHECK_EQ(got.answer.remaining, 1);
        CHECK(sl_cell_eq(got.next, nine));
    }
    CASE("V9: ten, cost seven four times: the first passes, three stay");
    for (size_t i = 0; i < SL_LEN(kinds); i++) {
        struct sl_limit limit = limit_of(kinds[i].kind, kinds[i].text);
        struct sl_take_result got = {.next = fresh};

        for (int k = 0; k < 4; k++) {
            got = sl_take(&limit, got.next, 7, SEC(60));
            CHECK_EQ(got.answer.outcome, k ? NO : YES);
            CHECK_EQ(got.answer.remaining, 3);
        }
    }
}

static void tenant(void)
{
    struct sl_limit limit = limit_of(SL_BUCKET, "1000/min");

    CASE("V11: 1000/min, calls 1 ms apart: the 1017th is denied");
    CHECK_EQ(passed(&limit, 1016, SL_MS, SL_MS), 1016);
    CHECK_EQ(passed(&limit, 1017, SL_MS, SL_MS), 1016);
}

/* ---- redis-cell: CL.THROTTLE key max_burst count period quantity ---- */

struct throttle {
    const char *why;
    sl_ns at;
    uint64_t quantity;
    int64_t reply[5]; /* limited, limit, remaining, retry_after, reset_after */
};

/* Whole seconds, rounded up; -1 for none. */
static int64_t seconds(sl_ns span)
{
    return span == SL_NS_NONE ? -1 : span / SL_S + (span % SL_S != 0);
}

static struct sl_cell throttles(const struct sl_limit *limit,
                                struct sl_cell cell,
                                const struct throttle *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sl_take_result got =
            sl_take(limit, cell, rows[i].quantity, rows[i].at);
        bool good = CHECK_EQ(got.answer.outcome != SL_ALLOW, rows[i].reply[0]);

        good &= CHECK_EQ(got.answer.capacity, rows[i].reply[1]);
        good &= CHECK_EQ(got.answer.remaining, rows[i].reply[2]);
        good &= CHECK_EQ(seconds(got.answer.retry_in), rows[i].reply[3]);
        good &= CHECK_EQ(seconds(got.answer.reset_in), rows[i].reply[4]);
        if (!good)
            printf("# in the row: %s\n", rows[i].why);
        cell = got.next;
    }
    return cell;
}

#define THROTTLES(limit, cell, rows)                                           \
    throttles((limit), (cell), (rows), SL_LEN(rows))

static void readme(void)
{
    static const struct throttle first[] = {
        {"a fresh key",                0,      1,  {0, 16, 15, -1, 2}},
        {"again",                      0,      1,  {0, 16, 14, -1, 4}},
        {"the third to the fifteenth", 0,      13, {0, 16, 1, -1, 30}},
        {"the 16th call",              0,      1,  {0, 16, 0, -1, 32}},
        {"the 17th call",              0,      1,  {1, 16, 0, 2, 32} },
        {"two seconds later",          SEC(2), 1,  {0, 16, 0, -1, 32}},
    };
    static const struct throttle large[] = {
        {"larger than the bucket", 0, 17, {1, 16, 16, -1, 0}},
        {"a look at a fresh key",  0, 0,  {0, 16, 16, -1, 0}},
    };
    struct sl_limit limit = limit_of(SL_BUCKET, "30/60s burst 16");

    CASE("redis-cell: the README's 15 30 60");
    THROTTLES(&limit, fresh, first);
    THROTTLES(&limit, fresh, large);
}

static void end_to_end(void)
{
    static const struct throttle rows[] = {
        {"once",              0,      1, {0, 1, 0, -1, 2}},
        {"twice",             0,      1, {1, 1, 0, 2, 2} },
        {"after two seconds", SEC(2), 1, {0, 1, 0, -1, 2}},
    };
    struct sl_limit limit = limit_of(SL_BUCKET, "1/2s burst 1");

    CASE("redis-cell: the end-to-end test's 0 1 2");
    THROTTLES(&limit, fresh, rows);
}

static void table(void)
{
    static const struct throttle rows[] = {
        {"six of five",               0,        6, {1, 5, 5, -1, 0}},
        {"the first of five",         0,        1, {0, 5, 4, -1, 1}},
        {"the second",                0,        1, {0, 5, 3, -1, 2}},
        {"the third",                 0,        1, {0, 5, 2, -1, 3}},
        {"the fourth",                0,        1, {0, 5, 1, -1, 4}},
        {"the fifth",                 0,        1, {0, 5, 0, -1, 5}},
        {"one more",                  0,        1, {1, 5, 0, 1, 5} },
        {"at 3.0",                    MS(3000), 1, {0, 5, 2, -1, 3}},
        {"at 3.1; 3.9 is rounded up", MS(3100), 1, {0, 5, 1, -1, 4}},
        {"at 4.0",                    MS(4000), 1, {0, 5, 1, -1, 4}},
        {"at 8.0",                    MS(8000), 1, {0, 5, 4, -1, 1}},
        {"at 9.5",                    MS(9500), 1, {0, 5, 4, -1, 1}},
        {"a look",                    MS(9500), 0, {0, 5, 4, -1, 1}},
        {"two",                       MS(9500), 2, {0, 5, 2, -1, 3}},
        {"five are too many",         MS(9500), 5, {1, 5, 2, 3, 3} },
    };
    static const struct throttle fine[] = {
        {"all five",      0,                    5, {0, 5, 0, -1, 5}},
        {"1 us before",   SEC(1) - SL_US,       1, {1, 5, 0, 1, 5} },
        {"999 us before", SEC(1) - 999 * SL_US, 1, {1, 5, 0, 1, 5} },
        {"1 ns before",   SEC(1) - 1,           1, {1, 5, 0, 1, 5} },
    };
    struct sl_limit limit = limit_of(SL_BUCKET, "1/s burst 5");

    CASE("redis-cell: the test table, burst 4, one a second");
    THROTTLES(&limit, fresh, rows);
    CASE("A10: rows at 1 us and 999 us; seconds are always rounded up");
    THROTTLES(&limit, fresh, fine);
}

int main(void)
{
    fractions();
    days();
    borders();
    costs();
    tenant();
    readme();
    end_to_end();
    table();
    return CHECK_DONE();
}
