/* anchor.h -- the billing periods of one subject.
 *
 * A subject may have an anchor and a time zone. They replace those of a limit
 * whose periods are days, weeks or months. Period number k begins at the local
 * date and time of the anchor plus k * every days, weeks or months; where a
 * month has no such day, on its last day. Periods before the anchor are counted
 * in the same way.
 *
 * An anchor that is a date is that day's midnight. An anchor that is an instant
 * has the local date and time of that instant in the zone.
 *
 * When they change, at `since`, the current period ends and a new one begins.
 * Until then the values before the change apply.
 *
 * Invariants. (test/prop/anchor.c checks each by number.)
 *   (1) The period of a date, or of an instant whose local time comes once,
 *       that contains the anchor begins at it.
 *   (2) Without a change, periods begin where an exact calendar says.
 *   (3) At a change the period before it ends and the next one begins.
 *   (4) Those of core/calendar.h.
 */
#ifndef SL_CORE_ANCHOR_H
#define SL_CORE_ANCHOR_H

#include "base/diag.h"
#include "core/calendar.h"

enum sl_anchor_form { SL_ANCHOR_NONE, SL_ANCHOR_DATE, SL_ANCHOR_INSTANT };

struct sl_anchor {
    enum sl_anchor_form form;
    int64_t second; /* since 1970; of a date: its midnight in UTC */
};

#define SL_ANCHOR_TEXT 24

/* Reads "2026-11-17" or "2026-11-17T08:30:12Z", or with another offset. */
SL_MUST_USE int sl_anchor_parse(struct sl_str text, struct sl_anchor *ret,
                                struct sl_diag *diag);

/* Writes it in UTC, as sl_anchor_parse() reads it; "" if there is none. Returns
 * the length. */
size_t sl_anchor_print(const struct sl_anchor *anchor,
                       char out[SL_ANCHOR_TEXT]);

/* The values of a subject that apply from `since` on. */
struct sl_own_calendar {
    struct sl_anchor anchor;
    const struct sl_zone *zone; /* NULL: that of the limit */
    struct sl_str zone_name;    /* borrowed, like the zone */
    sl_ns since;                /* 0: always */
};

/* Reads the texts of a subject that were checked before; "": none. A zone that
 * this machine does not have is ignored. */
struct sl_own_calendar sl_own_calendar_read(struct sl_str anchor,
                                            struct sl_str zone);

struct sl_own_calendars {
    struct sl_own_calendar last, before;
};

static inline bool sl_own_calendars_any(const struct sl_own_calendars *own)
{
    return own->last.anchor.form != SL_ANCHOR_NONE || own->last.zone ||
           own->last.since > 0;
}

/* Replaces anchor and zone of a limit's calendar by those that the subject has
 * at `now`, and returns these. */
const struct sl_own_calendar *
sl_own_calendars_apply(const struct sl_own_calendars *own, sl_ns now,
                       struct sl_calendar *cal);

#endif
