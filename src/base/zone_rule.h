/* zone_rule.h -- the rule that closes a TZif file; for zone.c only.
 *
 * The text is a POSIX TZ string with the liberties of RFC 8536: it says the
 * offset of standard time, perhaps that of summer time, and the two days of
 * the year on which they change: CET-1CEST,M3.5.0,M10.5.0/3
 */
#ifndef SL_ZONE_RULE_H
#define SL_ZONE_RULE_H

#include "base/diag.h"
#include "base/zone.h"

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

#endif
