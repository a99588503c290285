/* anchor.c -- the billing periods of one subject. */
#include "core/anchor.h"

#include <string.h>

#include "base/arith.h"

#define DAY_S INT64_C(86400)

/* Days from Monday, 1969-12-29, to 1970-01-01. */
#define MONDAY 3

static bool is_date(struct sl_str text)
{
    return text.len == 10 && text.at[4] == '-' && text.at[7] == '-';
}

int sl_anchor_parse(struct sl_str text, struct sl_anchor *ret,
                    struct sl_diag *diag)
{
    static const char midnight[] = "T00:00:00Z";
    char whole[SL_TIMESTAMP_TEXT];
    bool date = is_date(text);
    sl_ns at;

    if (date) {
        memcpy(whole, text.at, text.len);
        memcpy(whole + text.len, midnight, sizeof(midnight));
        text = sl_str_c(whole);
    }
    if (sl_timestamp_parse(text, &at, NULL))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "it is not a date since 1970; write the day on "
                             "which a billing period begins, as 2026-11-17, or "
                             "the instant, as 2026-11-17T08:30:12Z");
    if (at % SL_S != 0)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "it has a fraction of a second; write whole "
                             "seconds, as 2026-11-17T08:30:12Z");
    *ret = (struct sl_anchor){date ? SL_ANCHOR_DATE : SL_ANCHOR_INSTANT,
                              at / SL_S};
    return 0;
}

size_t sl_anchor_print(const struct sl_anchor *anchor, char out[SL_ANCHOR_TEXT])
{
    char text[SL_TIMESTAMP_TEXT];
    size_t len = 0;

    if (anchor->form != SL_ANCHOR_NONE)
        len = sl_timestamp_print(anchor->second * SL_S, false, text);
    if (anchor->form == SL_ANCHOR_DATE)
        len = 10;
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

/* Moves the periods to an anchor, in the zone of the calendar. */
static void set_anchor(const struct sl_anchor *anchor, struct sl_calendar *cal)
{
    int64_t local = anchor->second, day, year, month, of_month;

    if (anchor->form == SL_ANCHOR_INSTANT)
        local += sl_zone_offset(cal->zone, local);
    day = sl_floor_div(local, DAY_S);
    cal->time = (uint32_t)(local - day * DAY_S);
    cal->anchor = 1;
    cal->origin = (int32_t)day;
    if (cal->unit == SL_CALENDAR_WEEK)
        cal->origin += MONDAY;
    if (cal->unit != SL_CALENDAR_MONTH)
        return;
    sl_civil_from_days(day, &year, &month, &of_month);
    cal->anchor = (uint32_t)of_month;
    cal->origin = (int32_t)((year - 1970) * 12 + month - 1);
}

struct sl_own_calendar sl_own_calendar_read(struct sl_str anchor,
                                            struct sl_str zone)
{
    struct sl_own_calendar own = {.since = 0};
    const struct sl_named_zone *named =
        zone.len > 0 ? sl_zone_shared(zone, NULL) : NULL;

    if (anchor.len > 0 && sl_anchor_parse(anchor, &own.anchor, NULL))
        own.anchor.form = SL_ANCHOR_NONE;
    if (named) {
        own.zone = &named->zone;
        own.zone_name = named->name;
    }
    return own;
}

const struct sl_own_calendar *
sl_own_calendars_apply(const struct sl_own_calendars *own, sl_ns now,
                       struct sl_calendar *cal)
{
    bool changed = now >= own->last.since;
    const struct sl_own_calendar *c = changed ? &own->last : &own->before;

    if (c->zone)
        cal->zone = c->zone;
    if (c->anchor.form != SL_ANCHOR_NONE)
        set_anchor(&c->anchor, cal);
    cal->cuts[0] = c->since;
    cal->cuts[1] = changed ? 0 : own->last.since;
    cal->memo = NULL; /* it is the limit's */
    return c;
}
