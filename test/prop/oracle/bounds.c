/* bounds.c -- see bounds.h.
 *
 * Local time is a saw-tooth: it rises with UTC and sometimes jumps. The first
 * instant past a midnight is found by bisection, which finds *a* crossing; if
 * the clocks were put back across midnight there is an earlier one, so the
 * six hours before are looked at once more in steps of a quarter of an hour.
 */
#include "bounds.h"

#include <stdlib.h>
#include <time.h>

#define DAY_S INT64_C(86400)

/* Civil date of a day number, through glibc. */
static struct tm date_of(int64_t days)
{
    time_t at = (time_t)(days * DAY_S);
    struct tm tm;

    gmtime_r(&at, &tm);
    return tm;
}

static int64_t days_of(int year, int month, int day)
{
    struct tm tm = {.tm_year = year - 1900, .tm_mon = month, .tm_mday = day};

    return (int64_t)timegm(&tm) / DAY_S;
}

/* Local time at `at`, as seconds since the local 1970-01-01T00:00:00. */
static int64_t local(int64_t at)
{
    time_t t = (time_t)at;
    struct tm tm;

    localtime_r(&t, &tm);
    return at + tm.tm_gmtoff;
}

/* The first instant in (low, high] with local time >= want, if there is just
 * one crossing. */
static int64_t crossing(int64_t low, int64_t high, int64_t want)
{
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;

        if (local(mid) >= want)
            high = mid;
        else
            low = mid;
    }
    return high;
}

int64_t bounds_midnight(int64_t days)
{
    int64_t want = days * DAY_S;
    int64_t found = crossing(want - 27 * 3600, want + 27 * 3600, want);

    for (int64_t early = found - 6 * 3600; early < found; early += 900)
        if (local(early) >= want)
            return crossing(early - 900, early, want);
    return found;
}

/* The last day of the month is the day before the next month's first. */
static int64_t anchored(int year, int month, int anchor)
{
    int64_t last = days_of(year, month + 1, 1) - 1;
    int64_t day = days_of(year, month, 1) + anchor - 1;

    return day < last ? day : last;
}

/* The number of the day on which period `k` begins; 0 is the one that 1970
 * counts from, or, for weeks, the one that holds 1970-01-01. */
static int64_t first_day(enum sl_calendar_unit unit, int every, int anchor,
                         int64_t k)
{
    struct tm first;
    int back;

    switch (unit) {
    case SL_CALENDAR_DAY:
        return k * every;
    case SL_CALENDAR_WEEK:
        first = date_of(0);
        back = (first.tm_wday - anchor % 7 + 7) % 7;
        return k * 7 * every - back;
    case SL_CALENDAR_MONTH:
        break;
    }
    return anchored(1970, (int)k * every, anchor);
}

void bounds_init(struct bounds *ret, const char *zone,
                 enum sl_calendar_unit unit, int every, int anchor)
{
    static const int days[] = {1, 7, 28};
    size_t room = (size_t)(150 * 366 / (days[unit] * every) + 4);

    setenv("TZ", zone, 1);
    tzset();
    ret->starts = malloc(room * sizeof(*ret->starts));
    ret->count = 0;
    if (!ret->starts)
        abort();
    for (int64_t k = -1; ret->count < room; k++) {
        int64_t day = first_day(unit, every, anchor, k);
        sl_ns start = bounds_midnight(day) * SL_S;

        /* A day that the zone skipped begins with the next one. */
        if (ret->count && start <= ret->starts[ret->count - 1])
            continue;
        ret->starts[ret->count++] = start;
        if (start > SL_TIME_END)
            break;
    }
}

void bounds_done(struct bounds *bounds)
{
    free(bounds->starts);
    bounds->starts = NULL;
    bounds->count = 0;
}

/* The index of the first start after `at`, or count. */
static size_t next(const struct bounds *bounds, sl_ns at)
{
    size_t low = 0, high = bounds->count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (bounds->starts[mid] > at)
            high = mid;
        else
            low = mid + 1;
    }
    if (low == 0)
        abort();
    return low;
}

sl_ns bounds_start(const struct bounds *bounds, sl_ns at)
{
    return bounds->starts[next(bounds, at) - 1];
}

sl_ns bounds_end(const struct bounds *bounds, sl_ns at)
{
    size_t i = next(bounds, at);

    if (i == bounds->count)
        abort();
    return bounds->starts[i];
}
