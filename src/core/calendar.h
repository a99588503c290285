/* calendar.h -- days, weeks and months in a time zone.
 *
 * A period is a half-open span of instants [start, end). The periods of a
 * calendar cover all time without gap or overlap.
 *
 * Days     `every` of them, counted from 1970-01-01.
 * Weeks    `every` of them, from Monday if anchor is 1 to Sunday if it is 7.
 * Months   `every` of them, counted from January 1970; each begins on day
 *          `anchor`, or on the month's last day where it has no such day. The
 *          anchor does not drift: 31 gives Jan 31, Feb 28, Mar 31.
 *
 * `origin` moves the first of them: days, weeks in days, or months. `time` is
 * the time of day at which a period begins. Both are 0 for a limit; an anchor
 * of a subject sets them (core/anchor.h).
 *
 * A local day begins at the first instant whose local time is at or past its
 * `time`: if that is skipped, at the shift; if it comes twice, at the first
 * one. A day that a zone skipped has no instants.
 *
 * `cuts` are two more instants at which a period ends and the next one begins.
 *
 * Invariants. (test/prop/calendar.c checks each by number.)
 *   (1) start <= now < end.
 *   (2) The period that contains `end` starts at `end`.
 *   (3) start and end are whole seconds, if the cuts are.
 *   (4) A day ends at the start of the next one.
 */
#ifndef SL_CORE_CALENDAR_H
#define SL_CORE_CALENDAR_H

#include <stdatomic.h>

#include "base/timestamp.h"
#include "base/zone.h"

enum sl_calendar_unit { SL_CALENDAR_DAY, SL_CALENDAR_WEEK, SL_CALENDAR_MONTH };

/* The period found last, in one word, so that threads read it whole. Most takes
 * need the same period as the take before, and finding a month takes longer
 * than the rest of a take. 0: none. */
typedef _Atomic uint64_t sl_period_memo;

struct sl_calendar {
    enum sl_calendar_unit unit;
    uint32_t every;             /* >= 1 */
    uint32_t anchor;            /* day 1; week 1 .. 7; month 1 .. 31 */
    const struct sl_zone *zone; /* borrowed; outlives the calendar */
    sl_period_memo *memo;       /* borrowed; NULL: none. Only equal calendars
                                 * share one */
    int32_t origin;
    uint32_t time; /* seconds, < 86400 */
    sl_ns cuts[2]; /* 0: none */
};

struct sl_period {
    sl_ns start;
    sl_ns end;
};

/* A calendar with the period from `start` to `end`, and one on either side of
 * it. */
struct sl_calendar sl_calendar_span(sl_ns start, sl_ns end);

/* Returns whether two calendars have the same periods. */
static inline bool sl_calendar_same(const struct sl_calendar *a,
                                    const struct sl_calendar *b)
{
    return a->unit == b->unit && a->every == b->every &&
           a->anchor == b->anchor && a->origin == b->origin &&
           a->time == b->time && a->zone == b->zone &&
           a->cuts[0] == b->cuts[0] && a->cuts[1] == b->cuts[1];
}

/* The instant at which local day `day` (since 1970-01-01) ends: the first one
 * of the next day. At least 0, and at most SL_TIME_END - 1. */
sl_ns sl_calendar_day_end(const struct sl_zone *zone, int64_t day);

/* The period that `now` lies in. */
struct sl_period sl_calendar_period(const struct sl_calendar *cal, sl_ns now);

#endif
