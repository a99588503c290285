/* instant.h -- instants as people and protocols write them: RFC 3339.
 */
#ifndef SL_TIMESTAMP_H
#define SL_TIMESTAMP_H

#include "base/diag.h"

#define SL_TIMESTAMP_TEXT 40

/* Read "2026-03-31T23:59:59.900Z" or with an offset ("+02:00"). Up to nine
 * digits of a second; more are cut. A leap second (:60) is the second after.
 * Before 1970 or after SL_TIME_END is refused. */
SL_MUST_USE int sl_timestamp_parse(struct sl_str text, sl_ns *ret,
                                   struct sl_diag *diag);

/* "2026-03-31T23:59:59Z", or with three digits of a second if `ms`; rounded
 * down. Returns the length. */
size_t sl_timestamp_print(sl_ns instant, bool ms, char out[SL_TIMESTAMP_TEXT]);

/* Days since 1970-01-01 of a civil date, and back; Gregorian throughout.
 * month 1 .. 12; day may pass the month's end and runs over. */
int64_t sl_days_from_civil(int64_t year, int64_t month, int64_t day);
void sl_civil_from_days(int64_t days, int64_t *year, int64_t *month,
                        int64_t *day);

#endif
