/* anchor.c -- periods of subjects in random zones, against glibc. The numbers
 * are those of the invariants in src/core/anchor.h.
 *
 * The oracle adds days, weeks or months to the local date of the anchor with
 * timegm(), and finds the first instant at or past that local time with
 * localtime_r() alone.
 */
#include "oracle/zones.h"

#include "core/anchor.h"
#include "prop.h"
#include <stdlib.h>
#include <time.h>

#define DAY_S INT64_C(86400)
#define STEP  900 /* at most one shift in so many seconds */

static struct zones zones;

static int64_t local(int64_t at)
{
    time_t t = (time_t)at;
    struct tm tm;

    localtime_r(&t, &tm);
    return at + tm.tm_gmtoff;
}

/* The shift in (low, high]. */
static int64_t shift_in(int64_t low, int64_t high)
{
    int64_t offset = local(low) - low;

    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;

        if (local(middle) - middle == offset)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* The first second whose local time is at or past `want`. */
static int64_t first_second(int64_t want)
{
    int64_t at = want - 27 * 3600;

    for (;; at += STEP) {
        int64_t offset = local(at) - at, shift;

        if (local(at + STEP) - at - STEP == offset) {
            if (at + STEP + offset >= want)
                return want - offset;
            continue;
        }
        shift = shift_in(at, at + STEP);
        if (shift - 1 + offset >= want)
            return want - offset;
        if (local(shift) >= want)
            return shift;
        if (local(at + STEP) >= want)
            return want - (local(shift) - shift);
    }
}

struct trial {
    struct sl_anchor anchor;
    struct sl_calendar cal; /* of the limit */
    int64_t day, time;      /* of the anchor, local */
};

/* The local time at which period `k` begins, in seconds. */
static int64_t start_local(const struct trial *t, int64_t k)
{
    time_t at = (time_t)(t->day * DAY_S);
    int64_t many = k * (int64_t)t->cal.every;
    struct tm tm;

    if (t->cal.unit != SL_CALENDAR_MONTH)
        return (t->day + many * (t->cal.unit == SL_CALENDAR_WEEK ? 7 : 1)) *
                   DAY_S +
               t->time;
    gmtime_r(&at, &tm);
    for (int day = tm.tm_mday;; day--) {
        struct tm want = {.tm_year = tm.tm_year,
                          .tm_mon = tm.tm_mon + (int)many,
                          .tm_mday = day};
        int month = ((want.tm_mon % 12) + 12) % 12;
        int64_t seconds = (int64_t)timegm(&want);

        if (want.tm_mon == month) /* it did not run over */
            return seconds + t->time;
    }
}

static struct trial make(struct rng *rng, const struct sl_zone *zone)
{
    struct trial t = {
        .cal = {.anchor = 1, .zone = zone}
    };
    uint64_t many = rng_once_in(rng, 2) ? 1 : 14;
    int64_t at;

    t.anchor.form = rng_once_in(rng, 2) ? SL_ANCHOR_DATE : SL_ANCHOR_INSTANT;
    t.anchor.second = (int64_t)rng_below(rng, UINT64_C(3000000000));
    t.cal.unit = (enum sl_calendar_unit)rng_below(rng, 3);
    t.cal.every = 1 + (uint32_t)rng_below(rng, many);
    if (t.anchor.form == SL_ANCHOR_DATE)
        t.anchor.second -= t.anchor.second % DAY_S;
    at = t.anchor.form == SL_ANCHOR_DATE ? t.anchor.second
                                         : local(t.anchor.second);
    t.day = at / DAY_S - (at % DAY_S < 0);
    t.time = at - t.day * DAY_S;
    return t;
}

static sl_ns within(struct rng *rng, int64_t start, int64_t end)
{
    return start * SL_S +
           (sl_ns)rng_below(rng, (uint64_t)((end - start) * SL_S));
}

static bool wrong(const struct trial *t, const char *zone, int number, sl_ns at,
                  struct sl_period got, int64_t start, int64_t end)
{
    printf("# (%d) %s anchor %d:%lld unit %d every %u at %lld: got %lld..%lld, "
           "want %lld..%lld\n",
           number, zone, t->anchor.form, (long long)t->anchor.second,
           t->cal.unit, t->cal.every, (long long)at, (long long)got.start,
           (long long)got.end, (long long)start, (long long)end);
    return false;
}

/* (2) and (4), at random instants of some periods. */
static bool periods_good(struct trial *t, const char *zone,
                         const struct sl_own_calendars *own, struct rng *rng,
                         int64_t k)
{
    int64_t start = first_second(start_local(t, k));
    int64_t end = first_second(start_local(t, k + 1));
    struct sl_calendar cal = t->cal;
    struct sl_period p;
    sl_ns at;

    if (start >= end || start < 0)
        return true;
    at = rng_once_in(rng, 4)   ? start * SL_S
         : rng_once_in(rng, 4) ? end * SL_S - 1
                               : within(rng, start, end);
    sl_own_calendars_apply(own, at, &cal);
    p = sl_calendar_period(&cal, at);
    if (p.start != start * SL_S || p.end != end * SL_S)
        return wrong(t, zone, 2, at, p, start, end);
    return true;
}

/* (1) */
static bool anchor_good(const struct trial *t, const char *zone,
                        const struct sl_own_calendars *own)
{
    struct sl_calendar cal = t->cal;
    int64_t start = first_second(t->day * DAY_S + t->time);
    struct sl_period p;

    if (start < 0)
        return true;
    sl_own_calendars_apply(own, start * SL_S, &cal);
    p = sl_calendar_period(&cal, start * SL_S);
    return p.start == start * SL_S ||
           wrong(t, zone, 1, start * SL_S, p, start, 0);
}

/* (3): the period before the change ends at it, the next one begins at it, and
 * both have their other bound where it is without the change. */
static bool change_good(const struct trial *t, const char *zone,
                        struct sl_own_calendars own, struct rng *rng)
{
    sl_ns since = within(rng, 86400, 3000000000);
    struct sl_calendar old = t->cal, new = t->cal, cal = t->cal;
    struct sl_period was, is, p;

    since -= since % SL_S;
    sl_own_calendars_apply(&own, since, &new);
    was = sl_calendar_period(&old, since - 1);
    is = sl_calendar_period(&new, since);
    own.last.since = since;
    sl_own_calendars_apply(&own, since - 1, &cal);
    p = sl_calendar_period(&cal, since - 1);
    if (p.start != was.start || p.end != since)
        return wrong(t, zone, 3, since - 1, p, was.start, since);
    cal = t->cal;
    sl_own_calendars_apply(&own, since, &cal);
    p = sl_calendar_period(&cal, since);
    if (p.start != since || p.end != is.end)
        return wrong(t, zone, 3, since, p, since, is.end);
    p = sl_calendar_period(&cal, is.end);
    return p.start == is.end || wrong(t, zone, 3, is.end, p, is.end, 0);
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    const char *name = zones.names[rng_below(&rng, zones.count)];
    struct sl_zone zone;
    bool good = true;

    setenv("TZ", name, 1);
    tzset();
    if (!zones_load(name, &zone))
        return false;
    for (int i = 0; i < 20 && good; i++, ++*steps) {
        struct trial t = make(&rng, &zone);
        struct sl_own_calendars own = {.last = {.anchor = t.anchor}};

        good = anchor_good(&t, name, &own) && change_good(&t, name, own, &rng);
        for (int n = 0; n < 4 && good; n++)
            good = periods_good(&t, name, &own, &rng,
                                (int64_t)rng_below(&rng, 60) - 20);
    }
    sl_zone_done(&zone, &sl_alloc_libc);
    return good;
}

static bool open_zones(void)
{
    zones_list(&zones);
    return zones.count > 0;
}

static void finish(uint64_t steps)
{
    (void)steps;
    zones_done(&zones);
    setenv("TZ", "UTC", 1);
    tzset();
}

const struct property prop_anchor = {
    .name = "anchor",
    .steps = 4000,
    .cases = {{"periods of subjects", episode, 0}},
    .open = open_zones,
    .finish = finish,
};
