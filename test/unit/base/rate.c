/* rate.c -- rates and units: what is read, what is refused, and in which
 * words. */
#include "base/parse.h"

#include "check.h"
#include "refusal.h"
#include "row.h"

#define MAX UINT64_MAX

/* The count alone; what else a rate has is tested below. */
static int parse_rate(struct sl_str text, uint64_t *ret, struct sl_diag *diag)
{
    struct sl_rate rate = {.count = *ret};
    int err = sl_parse_rate(text, &rate, diag);

    *ret = rate.count;
    return err;
}

static void check_rate(const char *text, const struct sl_rate *want)
{
    struct sl_diag diag = {.line = 0};
    struct sl_rate got;

    memset(&got, 0xff, sizeof(got));
    CHECK_EQ(sl_parse_rate(sl_str_c(text), &got, &diag), 0);
    CHECK_STR(diag.sentence, "");
    CHECK_EQ(got.form, want->form);
    CHECK(got.count == want->count);
    CHECK(got.every == want->every);
    CHECK_EQ(got.unit, want->unit);
    CHECK_EQ(got.has_burst, want->has_burst);
    CHECK(got.burst == want->burst);
    CHECK_EQ(got.has_queue, want->has_queue);
    CHECK(got.queue == want->queue);
}

TEST(rates)
{
    static const struct {
        const char *why, *text;
        struct sl_rate want;
    } rows[] = {
        ROW("a rate", "5/min", {0, 5, 1, SL_UNIT_MINUTE, 0, 0, 0, 0}),
        ROW("ms", "5/ms", {0, 5, 1, SL_UNIT_MS, 0, 0, 0, 0}),
        ROW("s", "5/s", {0, 5, 1, SL_UNIT_SECOND, 0, 0, 0, 0}),
        ROW("sec", "5/sec", {0, 5, 1, SL_UNIT_SECOND, 0, 0, 0, 0}),
        ROW("second", "5/second", {0, 5, 1, SL_UNIT_SECOND, 0, 0, 0, 0}),
        ROW("m", "30/5m", {0, 30, 5, SL_UNIT_MINUTE, 0, 0, 0, 0}),
        ROW("minute", "5/minute", {0, 5, 1, SL_UNIT_MINUTE, 0, 0, 0, 0}),
        ROW("h", "10/24h", {0, 10, 24, SL_UNIT_HOUR, 0, 0, 0, 0}),
        ROW("hour", "100/hour", {0, 100, 1, SL_UNIT_HOUR, 0, 0, 0, 0}),
        ROW("d", "5/d", {0, 5, 1, SL_UNIT_DAY, 0, 0, 0, 0}),
        ROW("day", "100/day", {0, 100, 1, SL_UNIT_DAY, 0, 0, 0, 0}),
        ROW("week", "5/week", {0, 5, 1, SL_UNIT_WEEK, 0, 0, 0, 0}),
        ROW("month", "10k/month", {0, 10000, 1, SL_UNIT_MONTH, 0, 0, 0, 0}),
        ROW("months", "5M/3month", {0, 5000000, 3, SL_UNIT_MONTH, 0, 0, 0, 0}),
        ROW("a burst", "5/min burst 8", {0, 5, 1, SL_UNIT_MINUTE, 1, 0, 8, 0}),
        ROW("a queue", "5/10s queue 5", {0, 5, 10, SL_UNIT_SECOND, 0, 1, 0, 5}),
        ROW("a burst of 0", "5/s burst 0",
            {0, 5, 1, SL_UNIT_SECOND, 1, 0, 0, 0}),
        ROW("a large burst", "5/s burst 8k",
            {0, 5, 1, SL_UNIT_SECOND, 1, 0, 8000, 0}),
        ROW("blanks and tabs before and behind the word", "5/s \t burst\t  8",
            {0, 5, 1, SL_UNIT_SECOND, 1, 0, 8, 0}),
        ROW("nothing in a time", "0/s", {0, 0, 1, SL_UNIT_SECOND, 0, 0, 0, 0}),
        ROW("the largest of all",
            "18446744073709551615/18446744073709551615month burst "
            "18446744073709551615",
            {0, MAX, MAX, SL_UNIT_MONTH, 1, 0, MAX, 0}),
        ROW("a count alone", "2", {SL_RATE_PLAIN, 2, 0, 0, 0, 0, 0, 0}),
        ROW("with a suffix", "5M", {SL_RATE_PLAIN, 5000000, 0, 0, 0, 0, 0, 0}),
        ROW("no limit", "unlimited", {SL_RATE_UNLIMITED, 0, 0, 0, 0, 0, 0, 0}),
        ROW("no right", "none", {SL_RATE_NONE, 0, 0, 0, 0, 0, 0, 0}),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        check_rate(rows[i].text, &rows[i].want);
    }
}

TEST(rate_words)
{
    static const struct refusal rows[] = {
        ROW("no rate", "", 0, "Missing value. Write a rate like 5/min", ""),
        ROW("blanks around", "5/min ", 5,
            "\"5/min \" begins or ends with spaces. Write 5/min", "5/min"),
        ROW("a large letter", "Unlimited", 0,
            "Invalid rate \"Unlimited\". Write a rate like 5/min, or "
            "unlimited, or none",
            "unlimited"),
        ROW("a typo", "unlimitted", 0,
            "Invalid rate \"unlimitted\". Write a rate like 5/min, or "
            "unlimited, or none",
            "unlimited"),
        ROW("large letters", "NONE", 0,
            "Invalid rate \"NONE\". Write a rate like 5/min, or unlimited, or "
            "none",
            "none"),
        ROW("another word", "infinite", 0,
            "Invalid rate \"infinite\". Write a rate like 5/min, or "
            "unlimited, or none",
            ""),
        ROW("a word and more", "unlimited burst 8", 0,
            "Invalid rate \"unlimited burst 8\". Write a rate like 5/min, or "
            "unlimited, or none",
            ""),
        ROW("forty bytes are quoted",
            "ninehundredninetyninethousandninehundred", 0,
            "Invalid rate \"ninehundredninetyninethousandninehundred\". Write "
            "a rate like 5/min, or unlimited, or none",
            ""),
        ROW("a long word is cut short",
            "ninehundredninetyninethousandninehundredandninety", 0,
            "Invalid rate \"ninehundredninetyninethousandninehundred...\". "
            "Write a rate like 5/min, or unlimited, or none",
            ""),
        ROW("and not inside a character",
            "xninehundredninetyninethousandninehundr\xc3\xbc/s", 0,
            "Invalid rate \"xninehundredninetyninethousandninehundr...\". "
            "Write a rate like 5/min, or unlimited, or none",
            ""),
    };

    check_refused(parse_rate, rows, SL_LEN(rows));
}

static const struct refusal bad_counts[] = {
    ROW("no count", "/min", 0, "Expected digits for a count, not \"/min\"", ""),
    ROW("negative", "-5/min", 0, "Expected digits for a count, not \"-5/min\"",
        ""),
    ROW("a leading zero", "05/min", 0, "\"05\" has a leading zero. Write 5",
        "5/min"),
    ROW("too large", "18446744073709551616/s", 0,
        "Value 18446744073709551616 is too large. The maximum of a count is "
        "18446744073709551615",
        ""),
    ROW("blanks around the slash", "5 / min", 1,
        "A rate must not have spaces around its \"/\". Write it like 5/min",
        "5/min"),
    ROW("a blank before it", "5\t/min burst 8", 1,
        "A rate must not have spaces around its \"/\". Write it like 5/min",
        "5/min burst 8"),
    ROW("a blank behind it", "5/ min", 2,
        "A rate must not have spaces around its \"/\". Write it like 5/min",
        "5/min"),
    ROW("per", "5 per min", 1,
        "Unexpected \"per min\" after the count. Write a rate like 5/min, or "
        "only the count",
        "5/min"),
    ROW("no slash", "5min burst 8", 1,
        "Unexpected \"min burst 8\" after the count. Write a rate like 5/min, "
        "or only the count",
        "5/min burst 8"),
    ROW("a blank for a slash", "5 min", 1,
        "Unexpected \"min\" after the count. Write a rate like 5/min, or only "
        "the count",
        "5/min"),
    ROW("a large K", "10K/min", 2,
        "Unexpected \"K/min\" after the count. Write a rate like 5/min, or "
        "only the count",
        "10k/min"),
    ROW("something else", "5!", 1,
        "Unexpected \"!\" after the count. Write a rate like 5/min, or only "
        "the count",
        ""),
    ROW("a burst of nothing", "2 burst 3", 2,
        "\"burst\" must follow a rate, like 5/min burst 8", ""),
    ROW("a queue of nothing", "2 queue 3", 2,
        "\"queue\" must follow a rate, like 5/min queue 8", ""),
    ROW("a fraction", "1.5/s", 0,
        "\"1.5\" has a fraction. Write whole numbers over a longer period, "
        "like 3/2s",
        "3/2s"),
    ROW("a fraction of a longer period", "0.25/3min burst 2", 0,
        "\"0.25\" has a fraction. Write whole numbers over a longer period, "
        "like 3/2s",
        "1/12min burst 2"),
    ROW("a fraction of thousands", "1.5k/s", 0,
        "\"1.5\" has a fraction. Write whole numbers over a longer period, "
        "like 3/2s",
        "1500/s"),
    ROW("a fraction of millions", "2.0000001M/s", 0,
        "\"2.0000001\" has a fraction. Write whole numbers over a longer "
        "period, like 3/2s",
        "20000001/10s"),
    ROW("a fraction and no time", "1.5/0s", 0,
        "\"1.5\" has a fraction. Write whole numbers over a longer period, "
        "like 3/2s",
        ""),
    ROW("a fraction and a bad time", "1.5/05s", 0,
        "\"1.5\" has a fraction. Write whole numbers over a longer period, "
        "like 3/2s",
        ""),
    ROW("a fraction too fine to be meant", "1.0000000001/s", 0,
        "\"1.0000000001\" has a fraction. Write whole numbers over a longer "
        "period, like 3/2s",
        ""),
    ROW("a fraction of a count alone", "1.5", 0,
        "\"1.5\" has a fraction. A count must be whole", ""),
};

TEST(rate_counts)
{
    check_refused(parse_rate, bad_counts, SL_LEN(bad_counts));
}

static const struct refusal bad_periods[] = {
    ROW("no period", "5/", 2,
        "Missing unit of time. Valid units: ms, s, min, h, day, week or month",
        "5/s"),
    ROW("no unit", "5/10", 4,
        "Missing unit of time. Valid units: ms, s, min, h, day, week or month",
        "5/10s"),
    ROW("no unit before a burst", "5/10 burst 8", 4,
        "Missing unit of time. Valid units: ms, s, min, h, day, week or month",
        "5/10s burst 8"),
    ROW("years are months", "5/year", 2,
        "There is no unit for years. A year is 12 months", "5/12month"),
    ROW("two years, with a burst", "100/2yr burst 5", 4,
        "There is no unit for years. A year is 12 months",
        "100/24month burst 5"),
    ROW("no such unit", "5/fortnight", 2,
        "Unknown unit of time \"fortnight\". Valid units: ms, s, min, h, day, "
        "week or month",
        ""),
    ROW("a plural", "5/minutes burst 8", 2,
        "Unknown unit of time \"minutes\". Valid units: ms, s, min, h, day, "
        "week or month",
        "5/minute burst 8"),
    ROW("a large letter", "5/Min", 2,
        "Unknown unit of time \"Min\". Valid units: ms, s, min, h, day, week "
        "or month",
        "5/min"),
    ROW("a typo", "5/mni", 2,
        "Unknown unit of time \"mni\". Valid units: ms, s, min, h, day, week "
        "or month",
        "5/min"),
    ROW("minutes, not milliseconds", "5/mn", 2,
        "Unknown unit of time \"mn\". Valid units: ms, s, min, h, day, week "
        "or month",
        "5/min"),
    ROW("half a word", "5/mi", 2,
        "Unknown unit of time \"mi\". Valid units: ms, s, min, h, day, week "
        "or month",
        "5/min"),
    ROW("what others write", "5/2hrs", 3,
        "Unknown unit of time \"hrs\". Valid units: ms, s, min, h, day, week "
        "or month",
        "5/2h"),
    ROW("and many of those", "5/2milliseconds", 3,
        "Unknown unit of time \"milliseconds\". Valid units: ms, s, min, h, "
        "day, week or month",
        "5/2ms"),
    ROW("a minute or a month", "5/M", 2,
        "Unknown unit of time \"M\". Valid units: ms, s, min, h, day, week or "
        "month",
        ""),
    ROW("too short", "5/us", 2,
        "Unit \"us\" is too short for a rate. Valid units: ms, s, min, h, "
        "day, week or month",
        ""),
    ROW("too short by another name", "5/usec", 2,
        "Unknown unit of time \"usec\". Valid units: ms, s, min, h, day, week "
        "or month",
        ""),
    ROW("a second slash", "5//min", 2,
        "Unknown unit of time \"/min\". Valid units: ms, s, min, h, day, week "
        "or month",
        ""),
    ROW("a slash behind", "5/min/user", 5,
        "Unexpected \"/user\" after \"5/min\"", ""),
    ROW("two units", "5/1h30m", 4, "Unexpected \"30m\" after \"5/1h\"", ""),
    ROW("a period of nothing", "5/0min", 2,
        "A period must be longer than 0. Remove the 0, or write another number",
        "5/min"),
    ROW("a leading zero", "5/05min", 2, "\"05\" has a leading zero. Write 5",
        "5/5min"),
    ROW("a period too long", "5/18446744073709551616s", 2,
        "Value 18446744073709551616 is too large. The maximum of a period is "
        "18446744073709551615",
        ""),
    ROW("a fraction of a period", "5/0.5s", 2,
        "\"0.5\" has a fraction. A period must be a whole number of units",
        "10/s"),
    ROW("and one that stays", "5/1.5h burst 8", 2,
        "\"1.5\" has a fraction. A period must be a whole number of units",
        "10/3h burst 8"),
    ROW("and one of nothing", "5/0.0s", 2,
        "\"0.0\" has a fraction. A period must be a whole number of units", ""),
    ROW("a blank before the unit", "5/10 min burst 8", 4,
        "A period must not contain spaces", "5/10min burst 8"),
};

TEST(rate_periods)
{
    check_refused(parse_rate, bad_periods, SL_LEN(bad_periods));
}

TEST(rate_options)
{
    static const struct refusal rows[] = {
        ROW("a typo", "5/min brust 8", 6,
            "Unknown word \"brust\". Write burst or queue and a count",
            "5/min burst 8"),
        ROW("a large letter", "5/min Queue 8", 6,
            "Unknown word \"Queue\". Write burst or queue and a count",
            "5/min queue 8"),
        ROW("another word", "5/min please", 6,
            "Unknown word \"please\". Write burst or queue and a count", ""),
        ROW("no word", "5/min 8", 6, "Unexpected \"8\" after \"5/min\"", ""),
        ROW("no blank", "5/min,burst 8", 5,
            "Unexpected \",burst 8\" after \"5/min\"", ""),
        ROW("no count", "5/min burst", 11,
            "Missing space and count after \"burst\". Write it like burst 8",
            ""),
        ROW("no blank before the count", "5/min burst8", 11,
            "Missing space and count after \"burst\". Write it like burst 8",
            "5/min burst 8"),
        ROW("a sign of equality", "5/min queue=8", 11,
            "Missing space and count after \"queue\". Write it like queue 8",
            ""),
        ROW("no digits", "5/min burst x", 12,
            "Expected digits for a burst, not \"x\"", ""),
        ROW("no digits either", "5/min queue -1", 12,
            "Expected digits for a queue, not \"-1\"", ""),
        ROW("a leading zero", "5/min burst 08", 12,
            "\"08\" has a leading zero. Write 8", "5/min burst 8"),
        ROW("a fraction", "5/min burst 1.5", 12,
            "\"1.5\" has a fraction, but a burst must be whole", ""),
        ROW("no such suffix", "5/min burst 8G", 13,
            "Unexpected \"G\" after \"5/min burst 8\"", ""),
        ROW("twice", "5/min burst 8 burst 9", 14,
            "Unexpected \"burst\". A rate has one burst or one queue", ""),
        ROW("both the other way round", "5/min queue 9 burst 8", 14,
            "Unexpected \"burst\". A rate has one burst or one queue", ""),
        ROW("both", "5/min burst 8 queue 9", 14,
            "Unexpected \"queue\". A rate has one burst or one queue", ""),
    };

    check_refused(parse_rate, rows, SL_LEN(rows));
}

TEST(odd_bytes)
{
    struct sl_str text = {"5/min\0burst", 11};
    struct sl_diag diag = {.line = 0};
    struct sl_rate rate = {.count = 77};

    CASE("a NUL inside is quoted, not the end");
    CHECK_EQ(sl_parse_rate(text, &rate, &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence, "Unexpected \"?burst\" after \"5/min\"");
    CHECK_EQ(diag.at, 5);
    CHECK_EQ(rate.count, 77);

    CASE("what lies behind the slice is not read");
    text = (struct sl_str){"5/minute", 5};
    CHECK_EQ(sl_parse_rate(text, &rate, &diag), 0);
    CHECK_EQ(rate.unit, SL_UNIT_MINUTE);
    text = (struct sl_str){"51", 1};
    CHECK_EQ(sl_parse_rate(text, &rate, &diag), 0);
    CHECK_EQ(rate.count, 5);

    CASE("an empty slice may have no address");
    text = (struct sl_str){NULL, 0};
    CHECK_EQ(sl_parse_rate(text, &rate, &diag), SLUICE_ECONF);
    CHECK_STR(diag.sentence, "Missing value. Write a rate like 5/min");
}

TEST(units)
{
    static const struct {
        enum sl_unit unit;
        sl_ns length;
        const char *name;
    } rows[] = {
        {SL_UNIT_MS,     SL_MS,   "ms"   },
        {SL_UNIT_SECOND, SL_S,    "s"    },
        {SL_UNIT_MINUTE, SL_MIN,  "min"  },
        {SL_UNIT_HOUR,   SL_HOUR, "h"    },
        {SL_UNIT_DAY,    SL_DAY,  "day"  },
        {SL_UNIT_WEEK,   SL_WEEK, "week" },
        {SL_UNIT_MONTH,  0,       "month"},
    };

    CASE("units have their lengths and names, and the names are read");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char text[16];
        struct sl_rate rate;

        CHECK_EQ(sl_unit_length(rows[i].unit), rows[i].length);
        CHECK_STR(sl_unit_name(rows[i].unit), rows[i].name);
        snprintf(text, sizeof(text), "7/%s", rows[i].name);
        CHECK_EQ(sl_parse_rate(sl_str_c(text), &rate, NULL), 0);
        CHECK_EQ(rate.unit, rows[i].unit);
    }
}

CHECK_MAIN()
