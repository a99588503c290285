/* bounds.h -- the periods of a calendar, as glibc sees them.
 *
 * Made once, as a sorted list of the instants at which periods begin, with
 * localtime_r() as the only source. Neither base/zone.c nor core/calendar.c
 * has a part in it.
 */
#ifndef SL_PROP_BOUNDS_H
#define SL_PROP_BOUNDS_H

#include "core/calendar.h"

struct bounds {
    sl_ns *starts; /* strictly increasing */
    size_t count;
};

/* List the beginnings from before 1970 to after the end of time (2116). The
 * process's TZ is left set to `zone`. */
void bounds_init(struct bounds *ret, const char *zone,
                 enum sl_calendar_unit unit, int every, int anchor);
void bounds_done(struct bounds *bounds);

/* The first instant (in seconds) whose local time is at or past midnight of
 * the local date that lies `days` after 1970-01-01, in the zone that TZ names
 * (tzset() was called). */
int64_t bounds_midnight(int64_t days);

/* The beginning and the end of the period around `at`. */
sl_ns bounds_start(const struct bounds *bounds, sl_ns at);
sl_ns bounds_end(const struct bounds *bounds, sl_ns at);

#endif
