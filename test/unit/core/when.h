/* when.h -- instants as people write them, and a zone to be late in. */
#ifndef SL_UNIT_CORE_WHEN_H
#define SL_UNIT_CORE_WHEN_H

#include "base/zone.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* "2026-03-08T07:00:00" (UTC) in nanoseconds. */
static inline sl_ns when(const char *text)
{
    struct tm tm = {.tm_isdst = 0};

    if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm)) {
        printf("Bail out! no instant: %s\n", text);
        exit(1);
    }
    return (sl_ns)timegm(&tm) * SL_S;
}

/* New York in 2026. */
static const struct sl_shift new_york_shifts[] = {
    {1772953200, -14400}, /* 2026-03-08T07:00Z: 02:00 EST is 03:00 EDT */
    {1793512800, -18000}, /* 2026-11-01T06:00Z: 02:00 EDT is 01:00 EST */
};
static const struct sl_zone new_york = {new_york_shifts, 2, -18000};

/* Havana in 2026: summer time begins at midnight, which is skipped, and ends
 * at one, so that the hour after midnight comes twice. */
static const struct sl_shift havana_shifts[] = {
    {1772946000, -14400}, /* 2026-03-08T05:00Z: 00:00 CST is 01:00 CDT */
    {1793509200, -18000}, /* 2026-11-01T05:00Z: 01:00 CDT is 00:00 CST */
};
static const struct sl_zone havana = {havana_shifts, 2, -18000};

/* Apia left out Friday 30 December 2011. */
static const struct sl_shift apia_shifts[] = {
    {1325239200, 50400}
};
static const struct sl_zone apia = {apia_shifts, 1, -36000};

/* Nowhere: at 00:30 the clocks go back an hour, to 23:30 of the day before, so
 * that midnight comes twice. */
static const struct sl_shift twice_shifts[] = {
    {1800, -3600}
};
static const struct sl_zone twice = {twice_shifts, 1, 0};

#endif
