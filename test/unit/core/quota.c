/* quota.c -- quotas, row by row. */
#include "takes.h"
#include "when.h"

static void calendar(void)
{
    static const struct {
        const char *why, *at;
        uint64_t cost;
        int outcome;
        uint64_t remaining;
        const char *end; /* of the period */
    } rows[] = {
        ROW("a new key", "2026-03-07T12:00:00", 2, YES, 1,
            "2026-03-08T05:00:00"),
        ROW("too many", "2026-03-07T12:00:00", 2, NO, 1, "2026-03-08T05:00:00"),
        ROW("four never", "2026-03-07T12:00:00", 4, NEVER, 1,
            "2026-03-08T05:00:00"),
        ROW("the last", "2026-03-08T04:59:59", 1, YES, 0,
            "2026-03-08T05:00:00"),
        ROW("looking is free", "2026-03-08T04:59:59", 0, YES, 0,
            "2026-03-08T05:00:00"),
        ROW("the short day", "2026-03-08T05:00:00", 3, YES, 0,
            "2026-03-09T04:00:00"),
        ROW("still the short day", "2026-03-09T03:59:59", 1, NO, 0,
            "2026-03-09T04:00:00"),
        ROW("a step back keeps it", "2026-03-07T12:00:00", 1, NO, 0,
            "2026-03-08T05:00:00"),
        ROW("the wall clock rules", "2026-03-08T05:00:00", 1, YES, 2,
            "2026-03-09T04:00:00"),
        ROW("a leap forward", "2026-11-01T12:00:00", 0, YES, 3,
            "2026-11-02T05:00:00"),
    };
    struct sl_limit_options options = {.zone = &new_york};
    struct sl_limit limit = rate_with(SL_QUOTA, "3/day", &options);
    struct sl_cell cell = fresh;

    CASE("quota: 3/day in New York");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        sl_ns at = when(rows[i].at), left = when(rows[i].end) - at;
        struct row want = {rows[i].why,
                           at,
                           rows[i].cost,
                           rows[i].outcome,
                           rows[i].remaining,
                           rows[i].outcome == NO ? left : NONE,
                           left,
                           0};

        cell = rows_hold(&limit, cell, &want, 1);
    }
}

static void plain(void)
{
    static const struct row rows[] = {
        TAKE("five hours from the epoch", SL_HOUR, 9, YES, 1, NONE,
             4 * SL_HOUR),
        TAKE("not two", 2 * SL_HOUR, 2, NO, 1, 3 * SL_HOUR, 3 * SL_HOUR),
        TAKE("1 ns before", 5 * SL_HOUR - 1, 2, NO, 1, 1, 1),
        TAKE("the next five", 5 * SL_HOUR, 2, YES, 8, NONE, 5 * SL_HOUR),
        TAKE("1 ms late is on time", 5 * SL_HOUR - MS(1), 9, NO, 8,
             5 * SL_HOUR + MS(1), 5 * SL_HOUR + MS(1)),
    };
    struct sl_limit limit = limit_of(SL_QUOTA, "10/5h");

    CASE("quota: 10/5h, no calendar");
    CHECK(!limit.calendar);
    ROWS_HOLD(&limit, fresh, rows);
}

static void corrections(void)
{
    static const struct {
        const char *why;
        int64_t delta;
        const char *when, *now;
        uint64_t remaining;
    } rows[] = {
        ROW("metered", 7, "2026-03-05T00:00:00", "2026-03-05T00:00:00", 3),
        ROW("settled lower", -2, "2026-03-05T00:00:00", "2026-03-31T00:00:00",
            5),
        ROW("a take of last month", -1, "2026-02-28T23:59:59",
            "2026-03-31T00:00:00", 5),
        ROW("the month's first instant", -1, "2026-03-01T00:00:00",
            "2026-03-31T00:00:00", 6),
        ROW("above the limit", 100, "2026-03-05T00:00:00",
            "2026-03-31T00:00:00", 0),
        ROW("is recorded", -94, "2026-03-05T00:00:00", "2026-03-31T00:00:00",
            0),
        ROW("to the last", -1, "2026-03-05T00:00:00", "2026-03-31T00:00:00", 1),
        ROW("never below zero", -99, "2026-03-05T00:00:00",
            "2026-03-31T00:00:00", 10),
        ROW("huge", (int64_t)SL_AMOUNT_MAX, "2026-03-05T00:00:00",
            "2026-03-31T00:00:00", 0),
        ROW("huge twice", (int64_t)SL_AMOUNT_MAX, "2026-03-05T00:00:00",
            "2026-03-31T00:00:00", 0),
        ROW("next month", 1, "2026-04-01T00:00:00", "2026-04-01T00:00:00", 9),
    };
    struct sl_limit limit = limit_of(SL_QUOTA, "10/month");
    struct sl_cell cell = fresh;

    CASE("quota: corrections");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_take_result got = sl_adjust(
            &limit, cell, rows[i].delta, when(rows[i].when), when(rows[i].now));

        if (!CHECK_EQ(got.answer.remaining, rows[i].remaining))
            printf("# in the row: %s\n", rows[i].why);
        cell = got.next;
    }
}

static void changes(void)
{
    sl_ns now = when("2026-03-10T00:00:00");
    struct sl_limit_options options = {.anchor = 1};
    struct sl_limit limit = rate_with(SL_QUOTA, "10/month", &options);
    struct sl_cell cell = sl_take(&limit, fresh, 7, now).next;
    struct sl_take_result got;

    CASE("quota (4): a change keeps what was used");
    limit = rate_with(SL_QUOTA, "5/month", &options);
    CHECK_EQ(sl_take(&limit, cell, 0, now).answer.remaining, 0);
    limit = rate_with(SL_QUOTA, "20/month", &options);
    CHECK_EQ(sl_take(&limit, cell, 0, now).answer.remaining, 13);
    options.anchor = 5;
    limit = rate_with(SL_QUOTA, "10/month", &options);
    got = sl_take(&limit, cell, 0, when("2026-04-04T23:59:59"));
    CHECK_EQ(got.answer.remaining, 3);
    CHECK_EQ(got.answer.reset_in, SL_S);
    options.anchor = 20; /* the last take lies before the new period */
    limit = rate_with(SL_QUOTA, "10/month", &options);
    got = sl_take(&limit, cell, 0, when("2026-03-21T00:00:00"));
    CHECK_EQ(got.answer.remaining, 10);
    options = (struct sl_limit_options){.zone = &new_york};
    limit = rate_with(SL_QUOTA, "10/month", &options);
    got = sl_take(&limit, cell, 0, when("2026-04-01T03:59:59"));
    CHECK_EQ(got.answer.remaining, 3);
    CHECK_EQ(got.answer.reset_in, SL_S);
}

int main(void)
{
    calendar();
    plain();
    corrections();
    changes();
    return CHECK_DONE();
}
