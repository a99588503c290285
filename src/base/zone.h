/* zone.h -- the offset of local time from UTC, as a sorted list of shifts.
 *
 * The calendar in core/ does no I/O, so the shifts of a zone are handed to it.
 * sl_zone_parse() makes them from the bytes of a TZif file (RFC 8536, as in
 * /usr/share/zoneinfo); reading the file is the caller's business.
 */
#ifndef SL_BASE_ZONE_H
#define SL_BASE_ZONE_H

#include "base/arena.h"
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

/* ---- the rule that closes a TZif file; for zone.c only.
 *
 * The text is a POSIX TZ string with the liberties of RFC 8536: it says the
 * offset of standard time, perhaps that of summer time, and the two days of
 * the year on which they change: CET-1CEST,M3.5.0,M10.5.0/3
 */

enum sl_day_form {
    SL_DAY_WEEKDAY, /* Mm.w.d: weekday d of week w (5 = the last) of month m */
    SL_DAY_JULIAN,  /* Jn: 1 .. 365; February 29 is not counted */
    SL_DAY_PLAIN,   /* n: 0 .. 365; February 29 is counted */
};

struct sl_zone_change {
    enum sl_day_form form;
    int month, week, weekday; /* WEEKDAY; 0 is Sunday */
    int day;                  /* the others */
    int32_t time;             /* seconds after midnight, +-167 hours */
};

/* |standard|, |summer| < 26 hours, east of Greenwich positive. */
struct sl_zone_rule {
    int32_t standard;
    int32_t summer;
    bool has_summer;
    struct sl_zone_change begin, end; /* of summer time, if there is one */
};

/* Offsets in `diag` count from the start of `text`. */
SL_MUST_USE int sl_zone_rule_parse(struct sl_str text, struct sl_zone_rule *ret,
                                   struct sl_diag *diag);

/* The two shifts of `year` (>= 1), the earlier first; of two at the same
 * moment, the one into summer time last. The rule has a summer time. */
void sl_zone_rule_year(const struct sl_zone_rule *rule, int64_t year,
                       struct sl_shift ret[2]);

/* The year, Gregorian and in UTC, of the UTC second `at` (>= 0). */
int64_t sl_zone_year(int64_t at);

/* ---- a time zone from the system's files, by name.
 *
 * The files are tzdata's: in the folder that TZDIR names, or else in
 * /usr/share/zoneinfo.
 */

/* Read the file of a zone like Europe/Berlin. On success *ret holds shifts
 * from `alloc`, to be given back with sl_zone_done(). SLUICE_ECONF if there is
 * no such zone. */
SL_MUST_USE int sl_zone_load(const char *name, const struct sl_alloc *alloc,
                             struct sl_zone *ret, struct sl_diag *diag);

struct sl_named_zone {
    struct sl_zone zone;
    struct sl_str name;
};

/* The zone of that name, read once for the whole process and never freed. From
 * any thread. NULL with a sentence if there is none. */
const struct sl_named_zone *sl_zone_shared(struct sl_str name,
                                           struct sl_diag *diag);

#endif
