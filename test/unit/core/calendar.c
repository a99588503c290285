/* calendar.c -- periods of a calendar, row by row. */
#include "core/calendar.h"
#include "check.h"
#include "row.h"
#include "when.h"

enum {
    DAY = SL_CALENDAR_DAY,
    WEEK = SL_CALENDAR_WEEK,
    MON = SL_CALENDAR_MONTH
};

struct row {
    const char *why;
    int unit;
    uint32_t every, anchor;
    const char *now, *start, *end;
};

static void hold(const struct row *rows, size_t count,
                 const struct sl_zone *zone)
{
    for (size_t i = 0; i < count; i++) {
        struct sl_calendar cal = {.unit = (enum sl_calendar_unit)rows[i].unit,
                                  .every = rows[i].every,
                                  .anchor = rows[i].anchor,
                                  .zone = zone};
        struct sl_period p = sl_calendar_period(&cal, when(rows[i].now));

        if (!CHECK_EQ(p.start, when(rows[i].start)) |
            !CHECK_EQ(p.end, when(rows[i].end)))
            printf("# in the row: %s\n", rows[i].why);
    }
}

#define HOLD(rows, zone) hold((rows), SL_LEN(rows), (zone))

static void utc(void)
{
    static const struct row rows[] = {
        ROW("the first day", DAY, 1, 1, "1970-01-01T00:00:00",
            "1970-01-01T00:00:00", "1970-01-02T00:00:00"),
        ROW("the last second of a day", DAY, 1, 1, "2026-11-15T23:59:59",
            "2026-11-15T00:00:00", "2026-11-16T00:00:00"),
        ROW("two days, from 1970", DAY, 2, 1, "1970-01-02T12:00:00",
            "1970-01-01T00:00:00", "1970-01-03T00:00:00"),
        ROW("a leap day", DAY, 1, 1, "2028-02-29T12:00:00",
            "2028-02-29T00:00:00", "2028-03-01T00:00:00"),
        ROW("a week from Monday", WEEK, 1, 1, "2026-11-15T12:00:00",
            "2026-11-09T00:00:00", "2026-11-16T00:00:00"),
        ROW("a week from Sunday", WEEK, 1, 7, "2026-11-15T12:00:00",
            "2026-11-15T00:00:00", "2026-11-22T00:00:00"),
        ROW("two weeks, counted from that of 1969-12-29", WEEK, 2, 1,
            "2026-11-15T12:00:00", "2026-11-02T00:00:00",
            "2026-11-16T00:00:00"),
        ROW("the first week began in 1969", WEEK, 1, 1, "1970-01-01T00:00:00",
            "1969-12-29T00:00:00", "1970-01-05T00:00:00"),
        ROW("a month", MON, 1, 1, "2026-02-28T23:59:59", "2026-02-01T00:00:00",
            "2026-03-01T00:00:00"),
        ROW("the 31st, in February", MON, 1, 31, "2026-02-28T00:00:00",
            "2026-02-28T00:00:00", "2026-03-31T00:00:00"),
        ROW("and the day before", MON, 1, 31, "2026-02-27T23:59:59",
            "2026-01-31T00:00:00", "2026-02-28T00:00:00"),
        ROW("in a leap year", MON, 1, 31, "2028-02-29T00:00:00",
            "2028-02-29T00:00:00", "2028-03-31T00:00:00"),
        ROW("it does not drift", MON, 1, 31, "2026-03-31T00:00:00",
            "2026-03-31T00:00:00", "2026-04-30T00:00:00"),
        ROW("2100 is no leap year", MON, 1, 29, "2100-02-28T00:00:00",
            "2100-02-28T00:00:00", "2100-03-29T00:00:00"),
        ROW("a quarter", MON, 3, 1, "2026-05-20T00:00:00",
            "2026-04-01T00:00:00", "2026-07-01T00:00:00"),
        ROW("a quarter from the 15th", MON, 3, 15, "2026-04-14T00:00:00",
            "2026-01-15T00:00:00", "2026-04-15T00:00:00"),
        ROW("a year", MON, 12, 1, "2026-12-31T23:59:59", "2026-01-01T00:00:00",
            "2027-01-01T00:00:00"),
        ROW("a year from the 6th", MON, 12, 6, "2026-01-05T00:00:00",
            "2025-01-06T00:00:00", "2026-01-06T00:00:00"),
        ROW("the first month, anchored", MON, 1, 15, "1970-01-01T00:00:00",
            "1969-12-15T00:00:00", "1970-01-15T00:00:00"),
    };

    CASE("calendar: UTC");
    HOLD(rows, &sl_zone_utc);
}

static void zones(void)
{
    static const struct row ny[] = {
        {"a day in winter",      DAY,  1, 1, "2026-01-15T04:59:59",
         "2026-01-14T05:00:00", "2026-01-15T05:00:00"},
        {"a day of 23 hours",    DAY,  1, 1, "2026-03-08T12:00:00",
         "2026-03-08T05:00:00", "2026-03-09T04:00:00"},
        {"a day of 25 hours",    DAY,  1, 1, "2026-11-01T12:00:00",
         "2026-11-01T04:00:00", "2026-11-02T05:00:00"},
        {"a month with a shift", MON,  1, 1, "2026-03-31T00:00:00",
         "2026-03-01T05:00:00", "2026-04-01T04:00:00"},
        {"a week with a shift",  WEEK, 1, 1, "2026-03-08T12:00:00",
         "2026-03-02T05:00:00", "2026-03-09T04:00:00"},
    };
    static const struct row cuba[] = {
        {"a day without midnight",     DAY, 1, 1, "2026-03-08T05:00:00",
         "2026-03-08T05:00:00", "2026-03-09T04:00:00"},
        {"and the one before",         DAY, 1, 1, "2026-03-08T04:59:59",
         "2026-03-07T05:00:00", "2026-03-08T05:00:00"},
        {"two midnights: the first",   DAY, 1, 1, "2026-11-01T04:30:00",
         "2026-11-01T04:00:00", "2026-11-02T05:00:00"},
        {"the second is the same day", DAY, 1, 1, "2026-11-01T05:00:00",
         "2026-11-01T04:00:00", "2026-11-02T05:00:00"},
    };
    static const struct row samoa[] = {
        ROW("the 29th", DAY, 1, 1, "2011-12-30T09:59:59", "2011-12-29T10:00:00",
            "2011-12-30T10:00:00"),
        ROW("is followed by the 31st", DAY, 1, 1, "2011-12-30T10:00:00",
            "2011-12-30T10:00:00", "2011-12-31T10:00:00"),
        ROW("a month from the 30th", MON, 1, 30, "2011-12-30T10:00:00",
            "2011-12-30T10:00:00", "2012-01-29T10:00:00"),
        ROW("and from the 31st", MON, 1, 31, "2011-12-30T10:00:00",
            "2011-12-30T10:00:00", "2012-01-30T10:00:00"),
    };
    static const struct row back[] = {
        {"midnight, the first time",  DAY, 1, 1, "1970-01-01T00:00:00",
         "1970-01-01T00:00:00", "1970-01-02T01:00:00"},
        {"the evening once more",     DAY, 1, 1, "1970-01-01T00:45:00",
         "1970-01-01T00:00:00", "1970-01-02T01:00:00"},
        {"midnight, the second time", DAY, 1, 1, "1970-01-01T01:00:00",
         "1970-01-01T00:00:00", "1970-01-02T01:00:00"},
    };

    CASE("calendar: zones");
    HOLD(ny, &new_york);
    HOLD(cuba, &havana);
    HOLD(samoa, &apia);
    HOLD(back, &twice);
}

static void day_ends(void)
{
    static const struct {
        const char *why;
        const struct sl_zone *zone;
        int64_t year, month, day;
        const char *end;
    } rows[] = {
        ROW("UTC", &sl_zone_utc, 2027, 12, 31, "2028-01-01T00:00:00"),
        ROW("behind it", &new_york, 2026, 12, 31, "2027-01-01T05:00:00"),
        ROW("a day of 25 hours", &new_york, 2026, 11, 1, "2026-11-02T05:00:00"),
        ROW("before a day that is skipped", &apia, 2011, 12, 29,
            "2011-12-30T10:00:00"),
        ROW("the day that is skipped", &apia, 2011, 12, 30,
            "2011-12-30T10:00:00"),
        ROW("the day after", &apia, 2011, 12, 31, "2011-12-31T10:00:00"),
    };

    CASE("calendar: the end of a date");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        int64_t day =
            sl_days_from_civil(rows[i].year, rows[i].month, rows[i].day);

        if (!CHECK_EQ(sl_calendar_day_end(rows[i].zone, day),
                      when(rows[i].end)))
            printf("# in the row: %s\n", rows[i].why);
    }
    CHECK_EQ(sl_calendar_day_end(&sl_zone_utc, SL_TIME_END / SL_DAY),
             SL_TIME_END - 1);
    CHECK_EQ(sl_calendar_day_end(&sl_zone_utc, INT32_MAX), SL_TIME_END - 1);
    CHECK_EQ(sl_calendar_day_end(&sl_zone_utc, -2), 0);
}

static void civil(void)
{
    static const struct {
        int64_t days, year, month, day;
    } rows[] = {
        {0,       1970, 1,  1 },
        {-1,      1969, 12, 31},
        {59,      1970, 3,  1 },
        {11016,   2000, 2,  29},
        {20772,   2026, 11, 15},
        {47540,   2100, 2,  28},
        {47541,   2100, 3,  1 },
        {-719468, 0,    3,  1 },
        {84006,   2200, 1,  1 },
    };

    CASE("calendar: dates and day numbers");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        int64_t year, month, day;

        CHECK_EQ(sl_days_from_civil(rows[i].year, rows[i].month, rows[i].day),
                 rows[i].days);
        sl_civil_from_days(rows[i].days, &year, &month, &day);
        CHECK_EQ(year, rows[i].year);
        CHECK_EQ(month, rows[i].month);
        CHECK_EQ(day, rows[i].day);
    }
    CHECK_EQ(sl_days_from_civil(2026, 2, 31), sl_days_from_civil(2026, 3, 3));
}

int main(void)
{
    utc();
    zones();
    day_ends();
    civil();
    return CHECK_DONE();
}
