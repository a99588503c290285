/* calendar.c -- days, weeks and months in a time zone.
 *
 * Periods are numbered. Three functions know the calendar: the number of the
 * period of a local day, the first local day of a period, and the first instant
 * of a local day. Days count from 1970-01-01, a Thursday; months from January
 * 1970.
 */
#include "core/calendar.h"

#include "base/arith.h"

#define DAY_S INT64_C(86400)

/* No offset from UTC reaches this many seconds (RFC 8536). */
#define OFFSET_MAX (26 * INT64_C(3600))

/* Days from 1970-01-01 back to Monday, 1969-12-29. */
#define MONDAY 3

/* The day on which a period begins in month `index` since January 1970. */
static int64_t month_start(int64_t index, int64_t anchor)
{
    int64_t year = 1970 + sl_floor_div(index, 12);
    int64_t month = index - sl_floor_div(index, 12) * 12 + 1;
    int64_t first = sl_days_from_civil(year, month, 1), next;

    if (anchor <= 28) /* which every month has */
        return first + anchor - 1;
    next = month == 12 ? sl_days_from_civil(year + 1, 1, 1)
                       : sl_days_from_civil(year, month + 1, 1);
    return first + anchor > next ? next - 1 : first + anchor - 1;
}

/* The local day on which period `number` begins. */
static int64_t first_day(const struct sl_calendar *cal, int64_t number)
{
    int64_t anchor = cal->anchor, every = cal->every, origin = cal->origin;

    switch (cal->unit) {
    case SL_CALENDAR_DAY:
        return origin + number * every;
    case SL_CALENDAR_WEEK:
        return origin + number * 7 * every - MONDAY + anchor - 1;
    case SL_CALENDAR_MONTH:
        break;
    }
    return month_start(origin + number * every, anchor);
}

/* The number of the period that a local day belongs to. */
static int64_t number_of(const struct sl_calendar *cal, int64_t day)
{
    int64_t every = cal->every, origin = cal->origin;
    int64_t year, month, unused, number;

    switch (cal->unit) {
    case SL_CALENDAR_DAY:
        return sl_floor_div(day - origin, every);
    case SL_CALENDAR_WEEK:
        return sl_floor_div(day - origin + MONDAY - cal->anchor + 1, 7 * every);
    case SL_CALENDAR_MONTH:
        break;
    }
    sl_civil_from_days(day, &year, &month, &unused);
    number = sl_floor_div((year - 1970) * 12 + month - 1 - origin, every);
    return day < first_day(cal, number) ? number - 1 : number;
}

/* The first second whose local time is at or past `local`. Tries each stretch
 * between two shifts, from the one in force before any zone can have reached
 * that time. */
static int64_t first_second(const struct sl_zone *zone, int64_t local)
{
    size_t i = sl_zone_shifts_by(zone, local - OFFSET_MAX);
    int64_t offset = i ? zone->shifts[i - 1].offset : zone->before;
    int64_t at = local - offset;

    while (i < zone->count && at >= zone->shifts[i].at) {
        at = local - zone->shifts[i].offset;
        if (at < zone->shifts[i].at)
            at = zone->shifts[i].at; /* it was skipped */
        i++;
    }
    return at;
}

sl_ns sl_calendar_day_end(const struct sl_zone *zone, int64_t day)
{
    int64_t last = (SL_TIME_END - 1) / SL_S, end = last;

    if (day < last / DAY_S + 1)
        end = first_second(zone, (day + 1) * DAY_S);
    if (end < 0)
        return 0;
    return end < last ? end * SL_S : SL_TIME_END - 1;
}

static int64_t start_of(const struct sl_calendar *cal, int64_t number)
{
    return first_second(cal->zone, first_day(cal, number) * DAY_S + cal->time);
}

static struct sl_period find_period(const struct sl_calendar *cal, sl_ns now)
{
    int64_t second = sl_floor_div(now, SL_S);
    int64_t local = second + sl_zone_offset(cal->zone, second);
    int64_t number = number_of(cal, sl_floor_div(local - cal->time, DAY_S));
    int64_t start = start_of(cal, number);
    int64_t end = start_of(cal, number + 1);
    struct sl_period p;

    /* If local time goes back over the start, the next period has begun
     * already. If a zone skipped a day, its period has no instants. */
    while (end <= second) {
        number++;
        start = end;
        end = start_of(cal, number + 1);
    }
    p = (struct sl_period){start * SL_S, end * SL_S};
    for (size_t i = 0; i < SL_LEN(cal->cuts); i++) {
        sl_ns cut = cal->cuts[i];

        if (cut == 0)
            continue;
        if (cut > p.start && cut <= now)
            p.start = cut;
        else if (cut > now && cut < p.end)
            p.end = cut;
    }
    return p;
}

#define WHOLE 100000 /* days: all time that a clock can show */

struct sl_calendar sl_calendar_span(sl_ns start, sl_ns end)
{
    return (struct sl_calendar){
        .unit = SL_CALENDAR_DAY,
        .every = WHOLE,
        .anchor = 1,
        .zone = &sl_zone_utc,
        .cuts = {start, end},
    };
}

#define LENGTH_BITS 29 /* seconds: 17 years, and a period has ten at most */
#define START_BITS  (64 - LENGTH_BITS) /* from 1970 on: a thousand years */

static bool recall(const struct sl_calendar *cal, sl_ns now,
                   struct sl_period *ret)
{
    uint64_t word = atomic_load_explicit(cal->memo, memory_order_relaxed);

    ret->start = (sl_ns)(word >> LENGTH_BITS) * SL_S;
    ret->end =
        ret->start + (sl_ns)(word & ((UINT64_C(1) << LENGTH_BITS) - 1)) * SL_S;
    return now >= ret->start && now < ret->end;
}

static void remember(const struct sl_calendar *cal, struct sl_period p)
{
    uint64_t start = (uint64_t)(p.start / SL_S);
    uint64_t length = (uint64_t)((p.end - p.start) / SL_S);

    if (p.start >= 0 && start >> START_BITS == 0 && length >> LENGTH_BITS == 0)
        atomic_store_explicit(cal->memo, start << LENGTH_BITS | length,
                              memory_order_relaxed);
}

struct sl_period sl_calendar_period(const struct sl_calendar *cal, sl_ns now)
{
    struct sl_period p;

    if (!cal->memo)
        return find_period(cal, now);
    if (!recall(cal, now, &p)) {
        p = find_period(cal, now);
        remember(cal, p);
    }
    return p;
}
