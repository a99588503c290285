/* zone.c -- TZif files: a small one that is broken in every way, rules in all
 * their forms, and failing memory. Real ones are in zoneinfo.c. */
#include "base/zone.h"

#include <stdlib.h>

#include "check.h"
#include "fail.h"
#include "row.h"

#define Y2000 INT64_C(946684800)
#define Y2100 INT64_C(4102444800)
#define DAYS  INT64_C(86400)

/* A zone with two types (+1 h and +2 h), three times and a leap second, as it
 * lies in a file. Offsets of the arrays, for those who want to break them. */
enum {
    SECOND = 44 + 7, /* the second header, behind a slim first block */
    TIMES = SECOND + 44,
    INDEXES = TIMES + 24,
    TYPES = INDEXES + 3,
    RULE = TYPES + 12 + 8 + 12, /* behind names and leaps */
};

static const char sample[] =
    "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\1" /* ... types, names */
    "\0\0\0\0\0\0\0"
    "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\3\0\0\0\2\0\0\0\10"
    "\0\0\0\0\0\0\0\144" /* 100: to +2 h */
    "\0\0\0\0\0\0\0\310" /* 200: to +1 h */
    "\0\0\0\0\0\0\1\54"  /* 300: to +1 h again, which is no shift */
    "\1\0\0"
    "\0\0\16\20\0\0"
    "\0\0\34\40\1\4"
    "CET\0EST\0"
    "\0\0\0\0\4\262\130\0\0\0\0\1";

#define SAMPLE_LEN (sizeof(sample) - 1)

/* The sample with `rule` behind it. */
static struct sl_str with_rule(const char *rule)
{
    static char bytes[1024];
    int n;

    memcpy(bytes, sample, SAMPLE_LEN);
    n = snprintf(bytes + SAMPLE_LEN, sizeof(bytes) - SAMPLE_LEN, "\n%s\n",
                 rule);
    return (struct sl_str){bytes, SAMPLE_LEN + (size_t)n};
}

TEST(sample)
{
    static const struct {
        const char *why;
        int64_t at;
        int32_t offset;
    } rows[] = {
        {"long before",                 INT64_MIN, 3600},
        {"just before the first shift", 99,        3600},
        {"at the first shift",          100,       7200},
        {"just before the second",      199,       7200},
        {"at the second",               200,       3600},
        {"ever after",                  INT64_MAX, 3600},
    };
    struct sl_diag diag = {.line = 0};
    struct sl_zone zone;

    CASE("a file without a rule just stops");
    CHECK_EQ(sl_zone_parse(with_rule(""), Y2100, &sl_alloc_libc, &zone, &diag),
             0);
    CHECK_EQ(zone.count, 2);
    CHECK_EQ(zone.before, 3600);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_EQ(sl_zone_offset(&zone, rows[i].at), rows[i].offset);
    }
    CASE("a zone that is done is UTC, and done again");
    sl_zone_done(&zone, &sl_alloc_libc);
    CHECK_EQ(zone.count, 0);
    CHECK_EQ(sl_zone_offset(&zone, 150), 0);
    sl_zone_done(&zone, &sl_alloc_libc);

    CASE("UTC");
    CHECK_EQ(sl_zone_offset(&sl_zone_utc, 0), 0);
    CHECK_EQ(sl_zone_offset(&sl_zone_utc, INT64_MAX), 0);
}

struct broken {
    const char *why;
    size_t byte; /* this byte of the sample ... */
    char value;  /* ... becomes this */
    size_t at;
    const char *sentence;
};

static const struct broken broken[] = {
    ROW("no magic", 0, 'X', 0,
        "Not a time zone file. The header must begin with \"TZif\""),
    ROW("no magic in the second header", SECOND, 'X', SECOND,
        "Not a time zone file. The header must begin with \"TZif\""),
    ROW("version 1", 4, '\0', 4,
        "The time zone file has no 64-bit times. It must have version 2 or "
        "later"),
    ROW("no version at all", SECOND + 4, 'x', SECOND + 4,
        "The time zone file has no 64-bit times. It must have version 2 or "
        "later"),
    ROW("millions of leap seconds in the first block", 28, 1, 28,
        "The time zone file has 16777216 entries of one kind. The maximum is "
        "20000"),
    ROW("millions of shifts in the second", SECOND + 32, 1, SECOND + 32,
        "The time zone file has 16777219 entries of one kind. The maximum is "
        "20000"),
    ROW("more shifts than there are bytes", SECOND + 35, 90, SAMPLE_LEN + 2,
        "The time zone file is truncated after 156 bytes"),
    ROW("no types", SECOND + 39, 0, SECOND + 36,
        "The time zone file has 0 types of local time. It must have 1 to 256"),
    ROW("a type of 37 hours", TYPES + 1, 2, TYPES,
        "A local time is 134672 s from UTC. It must be less than 26 hours"),
    ROW("a type far away", TYPES, 0x7f, TYPES,
        "A local time is 2130710032 s from UTC. It must be less than 26 hours"),
    ROW("a type far away on the other side", TYPES, (char)0x80, TYPES,
        "A local time is -2147480048 s from UTC. It must be less than 26 "
        "hours"),
    ROW("a type that is neither summer nor not", TYPES + 4, 2, TYPES + 4,
        "Type 0 of the time zone file is invalid"),
    ROW("a type whose name lies outside", TYPES + 11, 8, TYPES + 10,
        "Type 1 of the time zone file is invalid"),
    ROW("a time before all time", TIMES, (char)0x80, TIMES,
        "Shift 0 of the time zone file is out of range"),
    ROW("a time after all time", TIMES + 16, 0x7f, TIMES + 16,
        "Shift 2 of the time zone file is out of range"),
    ROW("the same time twice", TIMES + 15, 100, TIMES + 8,
        "Shift 1 of the time zone file is not later than the shift before it"),
    ROW("a time earlier than the one before", TIMES + 22, 0, TIMES + 16,
        "Shift 2 of the time zone file is not later than the shift before it"),
    ROW("a type that does not exist", INDEXES + 1, 2, INDEXES + 1,
        "Shift 1 of the time zone file has type 2, but the number of types is "
        "2"),
    ROW("no newline before the rule", RULE, ' ', RULE,
        "The time zone file must end with a rule between two newlines"),
    ROW("no newline behind it", RULE + 1, ' ', RULE,
        "The time zone file must end with a rule between two newlines"),
};

TEST(broken)
{
    for (size_t i = 0; i < SL_LEN(broken); i++) {
        struct sl_str good = with_rule("");
        struct sl_zone zone = {.before = 77};
        struct sl_diag diag = {.line = 0};
        char bytes[SAMPLE_LEN + 2];

        memcpy(bytes, good.at, good.len);
        bytes[broken[i].byte] = broken[i].value;
        CASE(broken[i].why);
        CHECK_EQ(sl_zone_parse((struct sl_str){bytes, sizeof(bytes)}, Y2100,
                               &sl_alloc_libc, &zone, &diag),
                 SLUICE_ECONF);
        CHECK_STR(diag.sentence, broken[i].sentence);
        CHECK_EQ(diag.at, broken[i].at);
        CHECK_EQ(zone.before, 77);
    }
}

TEST(cut_off)
{
    struct sl_str whole = with_rule("CET-1CEST,M3.5.0,M10.5.0/3");

    CASE("cut off anywhere, a file is refused");
    for (size_t len = 0; len < whole.len; len++) {
        /* A copy of just this size, so that a sanitizer sees who reads on. */
        char *bytes = malloc(len + 1);
        struct sl_diag diag = {.line = 0};
        struct sl_zone zone = {.before = 77};

        if (!bytes)
            abort();
        memcpy(bytes, whole.at, len);
        bytes = realloc(bytes, len ? len : 1);
        CHECK_EQ(sl_zone_parse((struct sl_str){bytes, len}, Y2100,
                               &sl_alloc_libc, &zone, &diag),
                 SLUICE_ECONF);
        CHECK(diag.sentence[0] != '\0');
        CHECK(diag.at <= len);
        CHECK_EQ(zone.before, 77);
        free(bytes);
    }
}

/* Rules, and the first two shifts that they make in 2000 or later. */
static const struct {
    const char *why, *rule;
    int64_t first; /* seconds since 2000 began, in UTC */
    int64_t first_offset;
    int64_t second;
    int64_t second_offset;
} rules[] = {
    ROW("the last Sundays of March and October", "CET-1CEST,M3.5.0,M10.5.0/3",
        85 * DAYS + 3600, 7200, 302 * DAYS + 3600, 3600),
    ROW("the second Sunday and the first, two o'clock",
        "EST5EDT,M3.2.0,M11.1.0", 71 * DAYS + 25200, -14400, 309 * DAYS + 21600,
        -18000),
    ROW("the southern half of the world", "AEST-10AEDT,M10.1.0,M4.1.0/3",
        92 * DAYS - 28800, 36000, 273 * DAYS + 57600, 39600),
    ROW("summer that is winter", "IST-1GMT0,M10.5.0,M3.5.0/1", 85 * DAYS + 3600,
        3600, 302 * DAYS + 3600, 0),
    ROW("names of signs and digits", "<+0330>-3:30<+0430>,J79/24,J263/24",
        80 * DAYS - 12600, 16200, 264 * DAYS - 16200, 12600),
    ROW("days without February 29", "AAA0BBB,J59/0,J60/0", 58 * DAYS, 3600,
        60 * DAYS - 3600, 0),
    ROW("days with February 29", "AAA0BBB,59/0,60/0", 59 * DAYS, 3600,
        60 * DAYS - 3600, 0),
    ROW("a plus, minutes and seconds", "AAA+1:30:15BBB+0:30:15,0/+1,1/1:00:01",
        3600 + 5415, -1815, DAYS + 3601 + 1815, -5415),
    ROW("hours beyond the day", "EET-2EEST,M3.4.4/50,M10.4.4/50", 84 * DAYS,
        10800, 301 * DAYS - 3600, 7200),
    ROW("hours before it", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 85 * DAYS + 3600,
        -3600, 302 * DAYS + 3600, -7200),
    ROW("the most that is allowed", "AAA24:59:59BBB-24:59:59,1/-167,300/167",
        1 * DAYS - 601200 + 89999, 89999, 300 * DAYS + 601200 - 89999, -89999),
};

TEST(rules)
{
    for (size_t i = 0; i < SL_LEN(rules); i++) {
        struct sl_diag diag = {.line = 0};
        struct sl_zone zone;
        size_t k = 0;

        CASE(rules[i].why);
        if (!CHECK_EQ(sl_zone_parse(with_rule(rules[i].rule), Y2100,
                                    &sl_alloc_libc, &zone, &diag),
                      0)) {
            printf("# %s\n", diag.sentence);
            continue;
        }
        while (k < zone.count && zone.shifts[k].at < Y2000 - 10 * DAYS)
            k++;
        if (CHECK(k + 1 < zone.count)) {
            CHECK_EQ(zone.shifts[k].at - Y2000, rules[i].first);
            CHECK_EQ(zone.shifts[k].offset, rules[i].first_offset);
            CHECK_EQ(zone.shifts[k + 1].at - Y2000, rules[i].second);
            CHECK_EQ(zone.shifts[k + 1].offset, rules[i].second_offset);
        }
        CHECK(zone.shifts[zone.count - 1].at <= Y2100);
        CHECK(zone.shifts[zone.count - 1].at > Y2100 - 366 * DAYS);
        sl_zone_done(&zone, &sl_alloc_libc);
    }
}

TEST(years)
{
    int64_t start = 0;

    CASE("each year begins at its first second, and not one before");
    for (int64_t year = 1970; year < 2800; year++) {
        bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

        CHECK_EQ(sl_zone_year(start), year);
        start += (leap ? 366 : 365) * DAYS;
        CHECK_EQ(sl_zone_year(start - 1), year);
    }
}

TEST(still)
{
    static const struct {
        const char *why, *rule;
        size_t count;
        int32_t offset;
    } rows[] = {
        {"no summer time",                 "CET-1",               2, 3600  },
        {"summer all the year",            "EST5EDT,0/0,J365/25", 3, -14400},
        {"summer at the offset of winter", "AAA-1BBB-1,J60,J300", 2, 3600  },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_zone zone;

        CASE(rows[i].why);
        CHECK_EQ(sl_zone_parse(with_rule(rows[i].rule), Y2100, &sl_alloc_libc,
                               &zone, NULL),
                 0);
        CHECK_EQ(zone.count, rows[i].count);
        CHECK_EQ(sl_zone_offset(&zone, Y2100 - 200 * DAYS), rows[i].offset);
        sl_zone_done(&zone, &sl_alloc_libc);
    }
}

static const struct {
    const char *why, *rule;
    size_t at; /* in the rule */
    const char *needs;
} bad_rules[] = {
    ROW("too short a name", "CE-1", 2, "a name of three letters or more"),
    ROW("no name", "-1", 0, "a name of three letters or more"),
    ROW("an open bracket", "<+01-1", 6, "a \">\""),
    ROW("too short a name in brackets", "<+1>-1", 3,
        "a name of three letters or more"),
    ROW("no offset", "CET", 3, "an offset from 0 to 24 hours"),
    ROW("an offset of 25 hours", "CET-25", 4, "an offset from 0 to 24 hours"),
    ROW("minutes of 60", "CET-1:60", 6, "minutes from 0 to 59"),
    ROW("no minutes", "CET-1:", 6, "minutes from 0 to 59"),
    ROW("seconds of 60", "CET-1:00:60", 9, "seconds from 0 to 59"),
    ROW("summer without days", "CET-1CEST", 9, "an offset from 0 to 24 hours"),
    ROW("summer with an offset and no days", "CET-1CEST-2", 11,
        "a comma and the day of a change"),
    ROW("summer without an end", "CET-1CEST,M3.5.0", 16,
        "a comma and the day of a change"),
    ROW("a month 13", "CET-1CEST,M13.5.0,J60", 11, "a month from 1 to 12"),
    ROW("a month 0", "CET-1CEST,M0.5.0,J60", 11, "a month from 1 to 12"),
    ROW("a week 6", "CET-1CEST,M3.6.0,J60", 13, "a week from 1 to 5"),
    ROW("a week 0", "CET-1CEST,M3.0.0,J60", 13, "a week from 1 to 5"),
    ROW("a weekday 7", "CET-1CEST,M3.5.7,J60", 15,
        "a day of the week from 0 to 6"),
    ROW("no week", "CET-1CEST,M3,J60", 12, "a \".\""),
    ROW("no weekday", "CET-1CEST,M3.5,J60", 14, "a \".\""),
    ROW("a day J0", "CET-1CEST,J0,J60", 11, "a day from 1 to 365"),
    ROW("a day J366", "CET-1CEST,J366,J60", 11, "a day from 1 to 365"),
    ROW("a day 366", "CET-1CEST,366,J60", 10, "a day: Mm.w.d, Jn or 0 to 365"),
    ROW("a time of 168 hours", "CET-1CEST,J1/168,J60", 13,
        "a time from 0 to 167 hours"),
    ROW("a time of four digits", "CET-1CEST,J1/0001,J60", 16,
        "a comma and the day of a change"),
    ROW("something behind", "CET-1CEST,M3.5.0,M10.5.0/3 ", 26, "the end"),
};

TEST(bad_rules)
{
    char sentence[256];

    for (size_t i = 0; i < SL_LEN(bad_rules); i++) {
        struct sl_zone zone = {.before = 77};
        struct sl_diag diag = {.line = 0};

        CASE(bad_rules[i].why);
        snprintf(sentence, sizeof(sentence),
                 "Invalid closing rule \"%s\". Expected %s at byte %zu",
                 bad_rules[i].rule, bad_rules[i].needs, bad_rules[i].at + 1);
        CHECK_EQ(sl_zone_parse(with_rule(bad_rules[i].rule), Y2100,
                               &sl_alloc_libc, &zone, &diag),
                 SLUICE_ECONF);
        CHECK_STR(diag.sentence, sentence);
        CHECK_EQ(diag.at, RULE + 1 + bad_rules[i].at);
        CHECK_EQ(sl_zone_parse(with_rule(bad_rules[i].rule), Y2100,
                               &sl_alloc_libc, &zone, NULL),
                 SLUICE_ECONF);
        CHECK_EQ(zone.before, 77);
    }
}

TEST(far)
{
    struct sl_str bytes = with_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    struct sl_diag diag = {.line = 0};
    struct sl_zone zone = {.before = 77};

    CASE("until the end of time is too long");
    CHECK_EQ(sl_zone_parse(bytes, INT64_MAX, &sl_alloc_libc, &zone, &diag),
             SLUICE_EFULL);
    CHECK_STR(diag.sentence, "The time zone has, up to the year 292277026597, "
                             "more than 20000 shifts");
    CHECK_EQ(zone.before, 77);

    CASE("but not where there is no summer");
    CHECK_EQ(sl_zone_parse(with_rule("CET-1"), INT64_MAX, &sl_alloc_libc, &zone,
                           &diag),
             0);
    sl_zone_done(&zone, &sl_alloc_libc);

    CASE("until before the last shift, the rule has nothing to say");
    bytes = with_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    CHECK_EQ(sl_zone_parse(bytes, 250, &sl_alloc_libc, &zone, &diag), 0);
    CHECK_EQ(zone.count, 2);
    sl_zone_done(&zone, &sl_alloc_libc);

    CASE("a shift at the very second of until is one");
    CHECK_EQ(sl_zone_parse(bytes, Y2000 + 85 * DAYS + 3600, &sl_alloc_libc,
                           &zone, &diag),
             0);
    CHECK_EQ(zone.shifts[zone.count - 1].at, Y2000 + 85 * DAYS + 3600);
    sl_zone_done(&zone, &sl_alloc_libc);

    CASE("a rule whose years get in each other's way is refused");
    CHECK_EQ(sl_zone_parse(with_rule("AAA0BBB,0/-167,J365/167"), Y2100,
                           &sl_alloc_libc, &zone, &diag),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "The closing rule puts a shift of the year 1971 "
                             "before a shift of the previous year");
}

/* The sample's last time is 300. */
TEST(seam)
{
    static const struct {
        const char *why, *rule;
        int64_t at; /* of the first shift that the rule makes */
    } rows[] = {
        ROW("at the file's last second, the file is right",
            "AAA-1BBB,0/1:05,J300", 365 * DAYS + 300),
        ROW("a second later, the rule is", "AAA-1BBB,0/1:05:01,J300", 301),
        ROW("last year's rule may reach into this year",
            "AAA-1BBB,J365/100,J100", 3 * DAYS + 10800),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_zone zone;

        CASE(rows[i].why);
        CHECK_EQ(sl_zone_parse(with_rule(rows[i].rule), Y2100, &sl_alloc_libc,
                               &zone, NULL),
                 0);
        CHECK_EQ(zone.shifts[2].at, rows[i].at);
        CHECK_EQ(zone.shifts[2].offset, 7200);
        sl_zone_done(&zone, &sl_alloc_libc);
    }
}

TEST(failures)
{
    struct sl_str bytes = with_rule("CET-1CEST,M3.5.0,M10.5.0/3");
    int err = SLUICE_ENOMEM;
    unsigned n;

    CASE("with the nth allocation failing: ENOMEM, untouched, no leak");
    for (n = 1; err; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_zone zone = {.before = 77};

        err = sl_zone_parse(bytes, Y2100, &alloc, &zone, NULL);
        CHECK(!err || (err == SLUICE_ENOMEM && zone.before == 77));
        if (!err)
            sl_zone_done(&zone, &alloc);
        fail_check(&f);
    }
    CHECK_EQ(n, 4);
}

CHECK_MAIN()
