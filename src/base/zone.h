/* zone.h -- the offset of local time from UTC, as a sorted list of shifts.
 *
 * The calendar in core/ does no I/O, so the shifts of a zone are handed to it.
 * sl_zone_parse() makes them from the bytes of a TZif file (RFC 8536, as in
 * /usr/share/zoneinfo); reading the file is the caller's business.
 */
#ifndef SL_ZONE_H
#define SL_ZONE_H

#include "base/alloc.h"
#include "base/diag.h"

/* From the UTC second `at` on, local time is UTC + `offset` seconds. */
struct sl_shift {
    int64_t at;
    int32_t offset;
};

/* |offset| < 26 hours everywhere (a day and two hours, as RFC 8536 allows).
 * shifts[].at strictly increases. */
struct sl_zone {
    const struct sl_shift *shifts; /* may be NULL if count is 0 */
    size_t count;
    int32_t before; /* the offset before the first shift */
};

/* UTC: no shifts, offset 0. */
extern const struct sl_zone sl_zone_utc;

/* How many shifts have happened by the UTC second `at`. */
static inline size_t sl_zone_shifts_by(const struct sl_zone *zone, int64_t at)
{
    size_t low = 0, high = zone->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (zone->shifts[mid].at <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The offset in force at the UTC second `at`. */
int32_t sl_zone_offset(const struct sl_zone *zone, int64_t at);

/* Read the bytes of a TZif file, version 2 or later, and follow its closing
 * rule (the POSIX TZ string) up to the UTC second `until`. At most 20,000
 * shifts: SLUICE_EFULL if `until` is so far away that there would be more. On
 * success *ret holds shifts from `alloc`, to be given back with
 * sl_zone_done(). */
SL_MUST_USE int sl_zone_parse(struct sl_str bytes, int64_t until,
                              const struct sl_alloc *alloc, struct sl_zone *ret,
                              struct sl_diag *diag);

void sl_zone_done(struct sl_zone *zone, const struct sl_alloc *alloc);

#endif
