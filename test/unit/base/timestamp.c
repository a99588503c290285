/* timestamp.c -- instants: what is read, what is refused, what is written. */
#include "base/timestamp.h"

#include "check.h"
#include "refusal.h"
#include "row.h"

static int parse_instant(struct sl_str text, uint64_t *ret,
                         struct sl_diag *diag)
{
    sl_ns instant = (sl_ns)*ret;
    int err = sl_timestamp_parse(text, &instant, diag);

    *ret = (uint64_t)instant;
    return err;
}

#define AT(seconds, ns) ((seconds)*SL_S + (ns))

static const struct {
    const char *why, *text;
    sl_ns want;
} good[] = {
    ROW("the epoch", "1970-01-01T00:00:00Z", 0),
    ROW("a second", "1970-01-01T00:00:01Z", SL_S),
    ROW("the billennium", "2001-09-09T01:46:40Z", AT(1000000000, 0)),
    ROW("milliseconds", "2026-03-31T23:59:59.900Z",
        AT(1775001599, 900 * SL_MS)),
    ROW("one digit of a second", "1970-01-01T00:00:00.5Z", 500 * SL_MS),
    ROW("nine digits", "1970-01-01T00:00:00.123456789Z", 123456789),
    ROW("more are cut, not rounded", "1970-01-01T00:00:00.1234567899999Z",
        123456789),
    ROW("a leap day", "2028-02-29T12:00:00Z", AT(1835438400, 0)),
    ROW("ahead of UTC", "2026-04-01T01:59:59+02:00", AT(1775001599, 0)),
    ROW("behind UTC", "2026-03-31T19:59:59-04:00", AT(1775001599, 0)),
    ROW("half an hour off", "1970-01-01T05:30:00+05:30", 0),
    ROW("an unknown offset", "1970-01-01T00:00:00-00:00", 0),
    ROW("an offset from before 1970", "1969-12-31T19:00:00-05:00", 0),
    ROW("small letters", "1970-01-01t00:00:00z", 0),
    ROW("a leap second is the next one", "2016-12-31T23:59:60Z",
        AT(1483228800, 0)),
    ROW("the last instant", "2116-02-20T23:53:38.427387903Z", SL_TIME_END - 1),
};

#define SHAPE(text) "Invalid timestamp \"" text "\". Write it like " LIKE
#define LIKE        "2026-03-31T23:59:59Z"
#define FAR         ". Timestamps range from 1970 to February 2116"

static const struct refusal bad[] = {
    ROW("nothing", "", 0, "Missing value. Write a timestamp like " LIKE, ""),
    ROW("blanks around", " 1970-01-01T00:00:00Z", 0,
        "\" 1970-01-01T00:00:00Z\" begins or ends with spaces. Write "
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z"),
    ROW("words", "tomorrow", 0, SHAPE("tomorrow"), ""),
    ROW("a year of two digits", "26-03-31T23:59:59Z", 2,
        SHAPE("26-03-31T23:59:59Z"), ""),
    ROW("other separators", "2026/03/31T23:59:59Z", 4,
        SHAPE("2026/03/31T23:59:59Z"), ""),
    ROW("a blank for the T", "2026-03-31 23:59:59Z", 10,
        SHAPE("2026-03-31 23:59:59Z"), LIKE),
    ROW("a day alone", "2026-03-31", 10,
        "\"2026-03-31\" is a date without a time. Add the time",
        "2026-03-31T00:00:00Z"),
    ROW("no seconds", "2026-03-31T23:59Z", 16, SHAPE("2026-03-31T23:59Z"), ""),
    ROW("no zone", "2026-03-31T23:59:59", 19,
        "\"2026-03-31T23:59:59\" has no time zone. Append Z for UTC, or an "
        "offset like +02:00",
        LIKE),
    ROW("no digits behind the dot", "2026-03-31T23:59:59.Z", 20,
        SHAPE("2026-03-31T23:59:59.Z"), ""),
    ROW("a zone by name", "2026-03-31T23:59:59CET", 19,
        SHAPE("2026-03-31T23:59:59CET"), ""),
    ROW("an offset without minutes", "2026-03-31T23:59:59+02", 22,
        SHAPE("2026-03-31T23:59:59+02"), ""),
    ROW("an offset of a day", "2026-03-31T23:59:59+24:00", 20,
        "Invalid value \"24\". The hour must be 00 to 23", ""),
    ROW("an offset of too many minutes", "2026-03-31T23:59:59+02:60", 23,
        "Invalid value \"60\". The minute must be 00 to 59", ""),
    ROW("something behind it", "2026-03-31T23:59:59Zz", 20,
        SHAPE("2026-03-31T23:59:59Zz"), ""),
    ROW("month 13", "2026-13-31T23:59:59Z", 5,
        "Invalid value \"13\". The month must be 01 to 12", ""),
    ROW("month 0", "2026-00-31T23:59:59Z", 5,
        "Invalid value \"00\". The month must be 01 to 12", ""),
    ROW("day 32", "2026-03-32T23:59:59Z", 8,
        "Invalid value \"32\". The day must be 01 to 31", ""),
    ROW("day 0", "2026-03-00T23:59:59Z", 8,
        "Invalid value \"00\". The day must be 01 to 31", ""),
    ROW("not in this year", "2026-02-29T12:00:00Z", 8,
        "Invalid date \"2026-02-29\": 2026-02 has 28 days", ""),
    ROW("not in that month", "2026-11-31T12:00:00Z", 8,
        "Invalid date \"2026-11-31\": 2026-11 has 30 days", ""),
    ROW("hour 24", "2026-03-31T24:00:00Z", 11,
        "Invalid value \"24\". The hour must be 00 to 23", ""),
    ROW("minute 60", "2026-03-31T23:60:00Z", 14,
        "Invalid value \"60\". The minute must be 00 to 59", ""),
    ROW("second 61", "2026-03-31T23:59:61Z", 17,
        "Invalid value \"61\". The second must be 00 to 60", ""),
    ROW("before 1970", "1969-12-31T23:59:59Z", 0,
        "Timestamp \"1969-12-31T23:59:59Z\" is before 1970" FAR, ""),
    ROW("before 1970 by its offset", "1970-01-01T00:00:00+00:01", 0,
        "Timestamp \"1970-01-01T00:00:00+00:01\" is before 1970" FAR, ""),
    ROW("a nanosecond too far", "2116-02-20T23:53:38.427387904Z", 0,
        "Timestamp \"2116-02-20T23:53:38.427387904Z\" is too late" FAR, ""),
    ROW("as far as can be written", "9999-12-31T23:59:59Z", 0,
        "Timestamp \"9999-12-31T23:59:59Z\" is too late" FAR, ""),
};

static void reading(void)
{
    for (size_t i = 0; i < SL_LEN(good); i++) {
        CASE(good[i].why);
        check_accepted(parse_instant, good[i].text, (uint64_t)good[i].want);
    }
    check_refused(parse_instant, bad, SL_LEN(bad));
}

static void check_print(sl_ns instant, bool ms, const char *want)
{
    char out[SL_TIMESTAMP_TEXT];

    CHECK_EQ(sl_timestamp_print(instant, ms, out), strlen(want));
    CHECK_STR(out, want);
}

static void writing(void)
{
    CASE("whole seconds are rounded down");
    check_print(0, false, "1970-01-01T00:00:00Z");
    check_print(AT(1775001599, 999999999), false, "2026-03-31T23:59:59Z");
    CASE("milliseconds too");
    check_print(AT(1775001599, 900 * SL_MS), true, "2026-03-31T23:59:59.900Z");
    check_print(AT(1775001599, 1999999), true, "2026-03-31T23:59:59.001Z");
    CASE("the far end of sl_ns is still a date");
    check_print(SL_NS_MAX, true, "2262-04-11T23:47:16.854Z");
    CASE("no instant is printed as the first");
    check_print(SL_NS_NONE, true, "1970-01-01T00:00:00.000Z");
}

/* What is written is read as the same, on every day that there is. */
static void latency(void)
{
    char out[SL_TIMESTAMP_TEXT];
    sl_ns got = -5;

    CASE("every day of our time is written and read");
    for (sl_ns t = 0; t < SL_TIME_END; t += SL_DAY + 61 * SL_S + 7 * SL_MS) {
        size_t len = sl_timestamp_print(t, true, out);

        if (!CHECK_EQ(sl_timestamp_parse((struct sl_str){out, len}, &got, NULL),
                      0) ||
            !CHECK_EQ(got, t))
            break;
    }
}

static void civil(void)
{
    static const struct {
        int64_t days, year, month, day;
    } rows[] = {
        {0,       1970, 1,  1 },
        {-1,      1969, 12, 31},
        {11016,   2000, 2,  29},
        {47540,   2100, 2,  28},
        {47541,   2100, 3,  1 },
        {-25508,  1900, 3,  1 },
        {-719468, 0,    3,  1 },
        {-719469, 0,    2,  29},
        {-865565, -400, 3,  1 },
    };
    int64_t year, month, day;

    CASE("civil dates and day numbers, before 1970 too");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CHECK_EQ(sl_days_from_civil(rows[i].year, rows[i].month, rows[i].day),
                 rows[i].days);
        sl_civil_from_days(rows[i].days, &year, &month, &day);
        CHECK_EQ(year, rows[i].year);
        CHECK_EQ(month, rows[i].month);
        CHECK_EQ(day, rows[i].day);
    }
    CASE("a day past the month's end runs over");
    CHECK_EQ(sl_days_from_civil(2026, 2, 31), sl_days_from_civil(2026, 3, 3));
}

static void dates(void)
{
    static const char *const wrong[] = {
        "",           "2026-3-31",  "2026-03-311",         "2026-02-29",
        "2026/03/31", "0026-03-31", "2026-03-31T00:00:00", "1969-12-31",
        "9999-12-31", "30d",        "2026-03-3x",
    };
    int64_t day = -1;

    CASE("dates without a time");
    CHECK(sl_day_read(SL_STR("1970-01-01"), &day));
    CHECK_EQ(day, 0);
    CHECK(sl_day_read(SL_STR("2028-02-29"), &day));
    CHECK_EQ(day, sl_days_from_civil(2028, 2, 29));
    for (size_t i = 0; i < SL_LEN(wrong); i++)
        if (!CHECK(!sl_day_read(sl_str_c(wrong[i]), &day)))
            printf("# %s\n", wrong[i]);
}

int main(void)
{
    civil();
    reading();
    writing();
    dates();
    latency();
    return CHECK_DONE();
}
