/* calendar.c -- every zone of this machine, every period of a century. The
 * numbers are those of the invariants in src/core/calendar.h.
 *
 * Days are walked first, period by period, and each beginning is held against
 * glibc: at it the local time is at or past midnight of its date, the second
 * before it is not, nor is any second before that (after a shift the clocks
 * may show midnight twice; the first one counts). What comes out is a table:
 * date -> the instant at which it begins. Weeks and months must then begin
 * exactly where their first day does.
 *
 * A day lasts 23 to 25 hours. Those that do not are listed below, by zone and
 * date; one that is not listed is an error, and so is one that is listed and
 * does not come (unless the zone data of this machine are older).
 */
#include "oracle/zones.h"

#include "core/calendar.h"
#include "prop.h"
#include <stdlib.h>
#include <time.h>

#define DAY_S INT64_C(86400)

/* The century, as days since 1970; the table has some room before. */
#define FIRST 10957 /* 2000-01-01 */
#define LAST  47482 /* 2100-01-01 */
#define EARLY 10500

/* The zone data that the list was made with. */
#define TZDATA "2026f"

/* Days of other lengths, in minutes. A date that a zone skipped lasts 0. Made
 * with Python's zoneinfo, by looking at every minute around each shift of more
 * than an hour. */
static const struct {
    const char *zone;
    int date; /* yyyymmdd */
    int minutes;
} odds[] = {
    {"America/Bahia_Banderas",  20100404, 1320},
    {"America/Indiana/Winamac", 20070311, 1320},
    {"Antarctica/Casey",        20091018, 1260},
    {"Antarctica/Casey",        20100305, 1620},
    {"Antarctica/Casey",        20111028, 1260},
    {"Antarctica/Casey",        20120222, 1620},
    {"Antarctica/Casey",        20161022, 1260},
    {"Antarctica/Casey",        20180311, 1620},
    {"Antarctica/Casey",        20181007, 1260},
    {"Antarctica/Casey",        20190317, 1620},
    {"Antarctica/Casey",        20191004, 1260},
    {"Antarctica/Casey",        20200308, 1620},
    {"Antarctica/Casey",        20201004, 1260},
    {"Antarctica/Casey",        20210313, 1620},
    {"Antarctica/Casey",        20211003, 1260},
    {"Antarctica/Casey",        20220312, 1620},
    {"Antarctica/Casey",        20221002, 1260},
    {"Antarctica/Casey",        20230309, 1620},
    {"Antarctica/Davis",        20091018, 1560},
    {"Antarctica/Davis",        20100311, 1320},
    {"Antarctica/Davis",        20111028, 1560},
    {"Antarctica/Davis",        20120222, 1320},
    {"Antarctica/Vostok",       20231218, 1560},
    {"Asia/Chita",              20141026, 1560},
    {"Asia/Magadan",            20141026, 1560},
    {"Europe/Simferopol",       20140330, 1320},
    {"Pacific/Apia",            20111230, 0   },
    {"Pacific/Fakaofo",         20111230, 0   },
};

static bool odd_seen[SL_LEN(odds)];

static int64_t starts[LAST - EARLY + 800]; /* date -> instant, in seconds */

static int64_t *start_of(int64_t day)
{
    return &starts[day - EARLY];
}

static int64_t day_of(int year, int month, int day)
{
    struct tm tm = {
        .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};

    return (int64_t)timegm(&tm) / DAY_S;
}

static struct tm date_of(int64_t day)
{
    time_t at = (time_t)(day * DAY_S);
    struct tm tm;

    gmtime_r(&at, &tm);
    return tm;
}

static int64_t local(int64_t at)
{
    time_t t = (time_t)at;
    struct tm tm;

    localtime_r(&t, &tm);
    return at + tm.tm_gmtoff;
}

static int64_t floor_day(int64_t seconds)
{
    return seconds / DAY_S - (seconds % DAY_S < 0);
}

static bool same(struct sl_period a, int64_t start, int64_t end)
{
    return a.start == start * SL_S && a.end == end * SL_S;
}

/* Troll keeps two hours of summer time: days of 22 and 26 hours twice a year,
 * for ever. */
static int troll(int64_t day)
{
    struct tm tm = date_of(day);
    bool last_sunday = tm.tm_wday == 0 && tm.tm_mday > 31 - 7;

    if (!last_sunday || tm.tm_year < 105)
        return 0;
    return tm.tm_mon == 2 ? 22 * 60 : tm.tm_mon == 9 ? 26 * 60 : 0;
}

static bool length_good(const char *zone, int64_t day, int64_t seconds)
{
    struct tm tm = date_of(day);
    int date = (tm.tm_year + 1900) * 10000 + (tm.tm_mon + 1) * 100 + tm.tm_mday;

    if (day < FIRST)
        return true;
    if (strcmp(zone, "Antarctica/Troll") == 0 && troll(day))
        return seconds == troll(day) * 60;
    for (size_t i = 0; i < SL_LEN(odds); i++)
        if (strcmp(odds[i].zone, zone) == 0 && odds[i].date == date) {
            odd_seen[i] = true;
            return seconds == odds[i].minutes * 60;
        }
    if (seconds >= 23 * 3600 && seconds <= 25 * 3600)
        return true;
    printf("# {\"%s\", %d, %d}, is not listed\n", zone, date,
           (int)(seconds / 60));
    return false;
}

/* The base room's reading of the zone file agrees with glibc's. */
static bool offsets_agree(const char *name, const struct sl_zone *zone,
                          struct rng *rng)
{
    for (size_t i = 0; i < zone->count + 100; i++) {
        int64_t at = i < zone->count
                         ? zone->shifts[i].at - (int64_t)rng_below(rng, 2)
                         : (int64_t)rng_below(rng, 4600000000);

        if (at < -2000000000 || at > 4600000000)
            continue;
        if (local(at) - at != sl_zone_offset(zone, at)) {
            printf("# %s: offset at %" PRId64 ": %d, glibc says %" PRId64 "\n",
                   name, at, (int)sl_zone_offset(zone, at), local(at) - at);
            return false;
        }
    }
    return true;
}

/* At `start` (local time: `here`) it is at or past midnight of `day`, and it
 * was not at any second before, within a day or so: local time is highest just
 * before a shift and just before start. */
static bool is_first(const struct sl_zone *zone, int64_t day, int64_t start,
                     int64_t here)
{
    size_t i = sl_zone_shifts_by(zone, start);

    if (here < day * DAY_S || local(start - 1) >= day * DAY_S)
        return false;
    for (; i > 0 && zone->shifts[i - 1].at > start - 2 * DAY_S; i--)
        if (local(zone->shifts[i - 1].at - 1) >= day * DAY_S &&
            zone->shifts[i - 1].at - 1 < start)
            return false;
    return true;
}

/* Walk the days; fill the table. */
static bool walk_days(const char *name, const struct sl_zone *zone)
{
    struct sl_calendar cal = {
        SL_CALENDAR_DAY, 1, 1, zone, NULL, 0, 0, {0, 0}
    };
    struct sl_period p = sl_calendar_period(&cal, (FIRST - 400) * DAY_S * SL_S);
    int64_t here = local(p.start / SL_S), day = floor_day(here);
    bool good = true;

    while (good && day < LAST + 300) {
        struct sl_period next = sl_calendar_period(&cal, p.end);
        int64_t start = p.start / SL_S, end = p.end / SL_S;
        int64_t there = local(end), after = floor_day(there);

        good = p.start % SL_S == 0 && p.end % SL_S == 0; /* (3) */
        good = good && p.start < p.end;                  /* (1) */
        good = good && next.start == p.end;              /* (2) */
        good = good && same(sl_calendar_period(&cal, p.end - 1), start, end);
        good = good && is_first(zone, day, start, here) && after > day;
        good = good && length_good(name, day, end - start);
        *start_of(day) = start;
        for (int64_t gone = day + 1; good && gone < after; gone++) {
            *start_of(gone) = end;
            good = length_good(name, gone, 0);
        }
        if (!good) {
            struct tm tm = date_of(day);

            printf("# %s: day %d-%02d-%02d: [%" PRId64 ", %" PRId64 ")\n", name,
                   tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, start, end);
        }
        day = after;
        here = there;
        p = next;
    }
    return good;
}

/* What is remembered of a period counts from its first instant to its last, and
 * not a nanosecond before or after. */
static bool memo_good(const struct sl_calendar *cal, int64_t start, int64_t end,
                      int64_t mid)
{
    sl_period_memo memo = 0;
    struct sl_calendar c = *cal;

    c.memo = &memo;
    return same(sl_calendar_period(&c, mid * SL_S), start, end) && memo != 0 &&
           same(sl_calendar_period(&c, start * SL_S), start, end) &&
           same(sl_calendar_period(&c, end * SL_S - 1), start, end) &&
           sl_calendar_period(&c, end * SL_S).start == end * SL_S &&
           same(sl_calendar_period(&c, mid * SL_S), start, end) &&
           sl_calendar_period(&c, start * SL_S - 1).end == start * SL_S;
}

/* The period from `day` to `then` must be found from its first instant, its
 * last, and one between. */
static bool period_good(const char *name, const struct sl_calendar *cal,
                        int64_t day, int64_t then, struct rng *rng)
{
    int64_t start = *start_of(day), end = *start_of(then);
    int64_t mid;

    if (start == end) /* a date that was skipped */
        return true;
    mid = start + (int64_t)rng_below(rng, (uint64_t)(end - start));
    if (same(sl_calendar_period(cal, start * SL_S), start, end) &&
        same(sl_calendar_period(cal, end * SL_S - 1), start, end) &&
        same(sl_calendar_period(cal, mid * SL_S + 7), start, end) &&
        sl_calendar_day_end(cal->zone, then - 1) == end * SL_S &&
        (rng_below(rng, 8) ||
         memo_good(cal, start, end, mid))) /* some of them */
        return true;
    printf("# %s: unit %d every %u anchor %u: want [%" PRId64 ", %" PRId64
           ")\n",
           name, (int)cal->unit, cal->every, cal->anchor, start, end);
    return false;
}

static bool days_good(const char *name, const struct sl_zone *zone,
                      struct rng *rng)
{
    static const int every[] = {2, 3, 10};
    bool good = true;

    for (size_t i = 0; i < SL_LEN(every); i++) {
        struct sl_calendar cal = {
            SL_CALENDAR_DAY, (uint32_t)every[i], 1, zone, NULL, 0, 0, {0, 0}
        };

        for (int64_t day = FIRST - FIRST % every[i]; good && day < LAST;
             day += every[i])
            good = period_good(name, &cal, day, day + every[i], rng);
    }
    return good;
}

/* Where a row of several weeks begins is asked, not known; that it goes on
 * from there is checked. */
static bool weeks_good(const char *name, const struct sl_zone *zone,
                       struct rng *rng)
{
    bool good = true;

    for (uint32_t anchor = 1; good && anchor <= 7; anchor++) {
        for (int every = 1; good && every <= 3; every++) {
            struct sl_calendar cal = {
                SL_CALENDAR_WEEK,
                (uint32_t)every,
                anchor,
                zone,
                NULL,
                0,
                0,
                {0, 0}
            };
            struct sl_period p =
                sl_calendar_period(&cal, *start_of(FIRST + 6) * SL_S);
            int64_t day = floor_day(local(p.start / SL_S));

            good = date_of(day).tm_wday == (int)anchor % 7;
            for (; good && day < LAST; day += 7 * every)
                good = period_good(name, &cal, day, day + 7 * every, rng);
        }
    }
    return good;
}

/* The day on which the month with that number begins, for each anchor. */
static int64_t anchored[131 * 12][32];

static void anchor_months(void)
{
    static const int length[] = {31, 28, 31, 30, 31, 30,
                                 31, 31, 30, 31, 30, 31};

    for (int month = 0; month < 131 * 12; month++) {
        int year = 1970 + month / 12, m = month % 12;
        bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        int last = length[m] + (m == 1 && leap);

        for (int anchor = 1; anchor <= 31; anchor++)
            anchored[month][anchor] =
                day_of(year, m + 1, anchor < last ? anchor : last);
    }
}

static bool months_good(const char *name, const struct sl_zone *zone, int every,
                        struct rng *rng)
{
    bool good = true;

    for (int anchor = 1; good && anchor <= 31; anchor++) {
        struct sl_calendar cal = {
            SL_CALENDAR_MONTH,
            (uint32_t)every,
            (uint32_t)anchor,
            zone,
            NULL,
            0,
            0,
            {0, 0}
        };

        for (int month = 30 * 12; good && month < 130 * 12 - every;
             month += every)
            good = period_good(name, &cal, anchored[month][anchor],
                               anchored[month + every][anchor], rng);
    }
    return good;
}

static bool zone_good(const char *name, struct rng *rng, bool all)
{
    struct sl_zone zone;
    bool good;

    setenv("TZ", name, 1);
    tzset();
    if (!zones_load(name, &zone))
        return false;
    good = offsets_agree(name, &zone, rng) && walk_days(name, &zone);
    good = good && weeks_good(name, &zone, rng);
    good = good && months_good(name, &zone, 1, rng);
    if (good && all)
        good = days_good(name, &zone, rng) &&
               months_good(name, &zone, 2, rng) &&
               months_good(name, &zone, 3, rng) &&
               months_good(name, &zone, 12, rng);
    sl_zone_done(&zone, &sl_alloc_libc);
    return good;
}

/* Whether the zone data are at least as new as the list. */
static bool data_new(void)
{
    char version[64] = "";
    FILE *file = fopen(ZONES_DIR "/tzdata.zi", "r");

    if (file) {
        if (fscanf(file, "# version %63s", version) != 1)
            version[0] = '\0';
        fclose(file);
    }
    printf("# tzdata %s\n", version);
    return strcmp(version, TZDATA) >= 0;
}

/* sl_days_from_civil() and back, against glibc. */
static void civil(uint64_t steps, struct rng *rng)
{
    bool good = true;

    CASE("civil dates and day numbers agree with glibc");
    for (uint64_t i = 0; good && i < steps; i++) {
        int64_t day = (int64_t)rng_below(rng, 200000) - 50000, y, m, d;
        struct tm tm = date_of(day);

        sl_civil_from_days(day, &y, &m, &d);
        good = y == tm.tm_year + 1900 && m == tm.tm_mon + 1 &&
               d == tm.tm_mday && sl_days_from_civil(y, m, d) == day &&
               sl_days_from_civil(y, m, d + 40) == day + 40;
    }
    CHECK(good);
}

/* With few steps only some of the zones are walked: a step is a zone. */
static void finish(uint64_t steps)
{
    struct rng rng = {1};
    bool all = steps >= 100000;
    struct zones zones;
    size_t bad = 0;

    anchor_months();
    zones_list(&zones);
    CASE("the zones are there");
    printf("# %zu zones\n", zones.count);
    CHECK(zones.count > 300);
    CASE("calendar (1) (2) (3) (4) periods follow each other, as glibc has "
         "them");
    for (size_t i = 0; i < zones.count && bad < 5; i++) {
        if (!all && !rng_once_in(&rng, 1 + 100000 / (steps + 1)))
            continue;
        if (!CHECK(zone_good(zones.names[i], &rng, i % 8 == 0))) {
            printf("# in %s\n", zones.names[i]);
            bad++;
        }
    }
    CASE("days of other than 23 to 25 hours are those that are known");
    CHECK(bad == 0);
    all = all && data_new();
    for (size_t i = 0; all && i < SL_LEN(odds); i++)
        if (!CHECK(odd_seen[i]))
            printf("# %s %d did not come\n", odds[i].zone, odds[i].date);
    zones_done(&zones);
    civil(steps, &rng);
}

const struct property prop_calendar = {
    .name = "calendar",
    .steps = 40000,
    .finish = finish,
};
