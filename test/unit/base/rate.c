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
        ROW("no rate", "", 0, "a rate is missing; write one like 5/min", ""),
        ROW("blanks around", "5/min ", 5,
            "\"5/min \" has blanks around it; write 5/min", "5/min"),
        ROW("a large letter", "Unlimited", 0,
            "\"Unlimited\" is no rate; write one like 5/min, or unlimited, or "
            "none",
            "unlimited"),
        ROW("a typo", "unlimitted", 0,
            "\"unlimitted\" is no rate; write one like 5/min, or unlimited, or "
            "none",
            "unlimited"),
        ROW("large letters", "NONE", 0,
            "\"NONE\" is no rate; write one like 5/min, or unlimited, or none",
            "none"),
        ROW("another word", "infinite", 0,
            "\"infinite\" is no rate; write one like 5/min, or unlimited, or "
            "none",
            ""),
        ROW("a word and more", "unlimited burst 8", 0,
            "\"unlimited burst 8\" is no rate; write one like 5/min, or "
            "unlimited, or none",
            ""),
        ROW("forty bytes are quoted",
            "ninehundredninetyninethousandninehundred", 0,
            "\"ninehundredninetyninethousandninehundred\" is no rate; write "
            "one like 5/min, or unlimited, or none",
            ""),
        ROW("a long word is cut short",
            "ninehundredninetyninethousandninehundredandninety", 0,
            "\"ninehundredninetyninethousandninehundred...\" is no rate; write "
            "one like 5/min, or unlimited, or none",
            ""),
        ROW("and not inside a character",
            "xninehundredninetyninethousandninehundr\xc3\xbc/s", 0,
            "\"xninehundredninetyninethousandninehundr...\" is no rate; write "
            "one like 5/min, or unlimited, or none",
            ""),
    };

    check_refused(parse_rate, rows, SL_LEN(rows));
}

static const struct refusal bad_counts[] = {
    ROW("no count", "/min", 0, "a count needs digits, not \"/min\"", ""),
    ROW("negative", "-5/min", 0, "a count needs digits, not \"-5/min\"", ""),
    ROW("a leading zero", "05/min", 0, "\"05\" has a leading zero; write 5",
        "5/min"),
    ROW("too large", "18446744073709551616/s", 0,
        "18446744073709551616 is too large; a count is at most "
        "18446744073709551615",
        ""),
    ROW("blanks around the slash", "5 / min", 1,
        "a rate has no blanks around its \"/\"; write one like 5/min", "5/min"),
    ROW("a blank before it", "5\t/min burst 8", 1,
        "a rate has no blanks around its \"/\"; write one like 5/min",
        "5/min burst 8"),
    ROW("a blank behind it", "5/ min", 2,
        "a rate has no blanks around its \"/\"; write one like 5/min", "5/min"),
    ROW("per", "5 per min", 1,
        "\"per min\" is left over after the count; write a rate like "
        "5/min, "
        "or the count alone",
        "5/min"),
    ROW("no slash", "5min burst 8", 1,
        "\"min burst 8\" is left over after the count; write a rate like "
        "5/min, or the count alone",
        "5/min burst 8"),
    ROW("a blank for a slash", "5 min", 1,
        "\"min\" is left over after the count; write a rate like 5/min, or "
        "the count alone",
        "5/min"),
    ROW("a large K", "10K/min", 2,
        "\"K/min\" is left over after the count; write a rate like 5/min, "
        "or "
        "the count alone",
        "10k/min"),
    ROW("something else", "5!", 1,
        "\"!\" is left over after the count; write a rate like 5/min, or "
        "the "
        "count alone",
        ""),
    ROW("a burst of nothing", "2 burst 3", 2,
        "\"burst\" needs a rate before it, like 5/min burst 8", ""),
    ROW("a queue of nothing", "2 queue 3", 2,
        "\"queue\" needs a rate before it, like 5/min queue 8", ""),
    ROW("a fraction", "1.5/s", 0,
        "\"1.5\" has a fraction; write whole numbers over a longer period, "
        "like 3/2s",
        "3/2s"),
    ROW("a fraction of a longer period", "0.25/3min burst 2", 0,
        "\"0.25\" has a fraction; write whole numbers over a longer "
        "period, "
        "like 3/2s",
        "1/12min burst 2"),
    ROW("a fraction of thousands", "1.5k/s", 0,
        "\"1.5\" has a fraction; write whole numbers over a longer period, "
        "like 3/2s",
        "1500/s"),
    ROW("a fraction of millions", "2.0000001M/s", 0,
        "\"2.0000001\" has a fraction; write whole numbers over a longer "
        "period, like 3/2s",
        "20000001/10s"),
    ROW("a fraction and no time", "1.5/0s", 0,
        "\"1.5\" has a fraction; write whole numbers over a longer period, "
        "like 3/2s",
        ""),
    ROW("a fraction and a bad time", "1.5/05s", 0,
        "\"1.5\" has a fraction; write whole numbers over a longer period, "
        "like 3/2s",
        ""),
    ROW("a fraction too fine to be meant", "1.0000000001/s", 0,
        "\"1.0000000001\" has a fraction; write whole numbers over a longer "
        "period, like 3/2s",
        ""),
    ROW("a fraction of a count alone", "1.5", 0,
        "\"1.5\" has a fraction; a count is whole", ""),
};

TEST(rate_counts)
{
    check_refused(parse_rate, bad_counts, SL_LEN(bad_counts));
}

static const struct refusal bad_periods[] = {
    ROW("no period", "5/", 2,
        "a unit of time is missing here; write ms, s, min, h, day, week or "
        "month",
        "5/s"),
    ROW("no unit", "5/10", 4,
        "a unit of time is missing here; write ms, s, min, h, day, week or "
        "month",
        "5/10s"),
    ROW("no unit before a burst", "5/10 burst 8", 4,
        "a unit of time is missing here; write ms, s, min, h, day, week or "
        "month",
        "5/10s burst 8"),
    ROW("no such unit", "5/fortnight", 2,
        "\"fortnight\" is no unit of time; write ms, s, min, h, day, week "
        "or "
        "month",
        ""),
    ROW("a plural", "5/minutes burst 8", 2,
        "\"minutes\" is no unit of time; write ms, s, min, h, day, week or "
        "month",
        "5/minute burst 8"),
    ROW("a large letter", "5/Min", 2,
        "\"Min\" is no unit of time; write ms, s, min, h, day, week or "
        "month",
        "5/min"),
    ROW("a typo", "5/mni", 2,
        "\"mni\" is no unit of time; write ms, s, min, h, day, week or "
        "month",
        "5/min"),
    ROW("what others write", "5/2hrs", 3,
        "\"hrs\" is no unit of time; write ms, s, min, h, day, week or "
        "month",
        "5/2h"),
    ROW("and many of those", "5/2milliseconds", 3,
        "\"milliseconds\" is no unit of time; write ms, s, min, h, day, "
        "week "
        "or month",
        "5/2ms"),
    ROW("a minute or a month", "5/M", 2,
        "\"M\" is no unit of time; write ms, s, min, h, day, week or month",
        ""),
    ROW("too short", "5/us", 2,
        "\"us\" is too short for a rate; write ms, s, min, h, day, week or "
        "month",
        ""),
    ROW("too short by another name", "5/usec", 2,
        "\"usec\" is no unit of time; write ms, s, min, h, day, week or "
        "month",
        ""),
    ROW("a second slash", "5//min", 2,
        "\"/min\" is no unit of time; write ms, s, min, h, day, week or "
        "month",
        ""),
    ROW("a slash behind", "5/min/user", 5,
        "\"/user\" is left over after \"5/min\"", ""),
    ROW("two units", "5/1h30m", 4, "\"30m\" is left over after \"5/1h\"", ""),
    ROW("a period of nothing", "5/0min", 2,
        "a period of 0 is no time at all; leave the 0 away or write "
        "another "
        "number",
        "5/min"),
    ROW("a leading zero", "5/05min", 2, "\"05\" has a leading zero; write 5",
        "5/5min"),
    ROW("a period too long", "5/18446744073709551616s", 2,
        "18446744073709551616 is too large; a period is at most "
        "18446744073709551615",
        ""),
    ROW("a fraction of a period", "5/0.5s", 2,
        "\"0.5\" has a fraction; a period is a whole number of units", "10/s"),
    ROW("and one that stays", "5/1.5h burst 8", 2,
        "\"1.5\" has a fraction; a period is a whole number of units",
        "10/3h burst 8"),
    ROW("and one of nothing", "5/0.0s", 2,
        "\"0.0\" has a fraction; a period is a whole number of units", ""),
    ROW("a blank before the unit", "5/10 min burst 8", 4,
        "a period is written without blanks", "5/10min burst 8"),
};

TEST(rate_periods)
{
    check_refused(parse_rate, bad_periods, SL_LEN(bad_periods));
}

TEST(rate_options)
{
    static const struct refusal rows[] = {
        ROW("a typo", "5/min brust 8", 6,
            "\"brust\" means nothing here; write burst or queue and a count",
            "5/min burst 8"),
        ROW("a large letter", "5/min Queue 8", 6,
            "\"Queue\" means nothing here; write burst or queue and a count",
            "5/min queue 8"),
        ROW("another word", "5/min please", 6,
            "\"please\" means nothing here; write burst or queue and a count",
            ""),
        ROW("no word", "5/min 8", 6, "\"8\" is left over after \"5/min\"", ""),
        ROW("no blank", "5/min,burst 8", 5,
            "\",burst 8\" is left over after \"5/min\"", ""),
        ROW("no count", "5/min burst", 11,
            "a blank and a count follow \"burst\", as in burst 8", ""),
        ROW("no blank before the count", "5/min burst8", 11,
            "a blank and a count follow \"burst\", as in burst 8",
            "5/min burst 8"),
        ROW("a sign of equality", "5/min queue=8", 11,
            "a blank and a count follow \"queue\", as in queue 8", ""),
        ROW("no digits", "5/min burst x", 12, "a burst needs digits, not \"x\"",
            ""),
        ROW("no digits either", "5/min queue -1", 12,
            "a queue needs digits, not \"-1\"", ""),
        ROW("a leading zero", "5/min burst 08", 12,
            "\"08\" has a leading zero; write 8", "5/min burst 8"),
        ROW("a fraction", "5/min burst 1.5", 12,
            "\"1.5\" has a fraction; a burst is whole", ""),
        ROW("no such suffix", "5/min burst 8G", 13,
            "\"G\" is left over after \"5/min burst 8\"", ""),
        ROW("twice", "5/min burst 8 burst 9", 14,
            "\"burst\" is one word too many; a rate has one burst or one queue",
            ""),
        ROW("both the other way round", "5/min queue 9 burst 8", 14,
            "\"burst\" is one word too many; a rate has one burst or one queue",
            ""),
        ROW("both", "5/min burst 8 queue 9", 14,
            "\"queue\" is one word too many; a rate has one burst or one queue",
            ""),
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
    CHECK_STR(diag.sentence, "\"?burst\" is left over after \"5/min\"");
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
    CHECK_STR(diag.sentence, "a rate is missing; write one like 5/min");
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
