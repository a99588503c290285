/* timestamp.h -- instants as people and protocols write them: RFC 3339.
 */
#ifndef SL_BASE_TIMESTAMP_H
#define SL_BASE_TIMESTAMP_H

#include "base/diag.h"
#include "base/str.h"

#define SL_TIMESTAMP_TEXT 40

/* Read "2026-03-31T23:59:59.900Z" or with an offset ("+02:00"). Up to nine
 * digits of a second; more are cut. A leap second (:60) is the second after.
 * Before 1970 or after SL_TIME_END is refused. */
SL_MUST_USE int sl_timestamp_parse(struct sl_str text, sl_ns *ret,
                                   struct sl_diag *diag);

/* "2026-03-31T23:59:59Z", or with three digits of a second if `ms`; rounded
 * down. Returns the length. */
size_t sl_timestamp_print(sl_ns instant, bool ms, char out[SL_TIMESTAMP_TEXT]);

/* Read a date without a time, "2026-03-31", as days since 1970-01-01. Returns
 * false for any other text, and for a date before 1970 or after
 * SL_TIME_END. */
bool sl_day_read(struct sl_str text, int64_t *ret);

/* Days since 1970-01-01 of a civil date, and back; Gregorian throughout.
 * month 1 .. 12; day may pass the month's end and runs over. */
int64_t sl_days_from_civil(int64_t year, int64_t month, int64_t day);
void sl_civil_from_days(int64_t days, int64_t *year, int64_t *month,
                        int64_t *day);

/* ---- instants as HTTP writes them (RFC 9110, 5.6.7).
 */

/* Read one of the three forms that a recipient must understand:
 *
 *     Sun, 06 Nov 1994 08:49:37 GMT      what is written today
 *     Sunday, 06-Nov-94 08:49:37 GMT     RFC 850
 *     Sun Nov  6 08:49:37 1994           asctime()
 *
 * A year of two digits is the one that lies less than 50 years behind `now`,
 * or 50 years ahead at most. The name of the day must be one, but need not be
 * that of the date. A leap second (:60) is the second after. A date before 1970
 * is 0, and one that we cannot count to is SL_TIME_END. Returns whether the
 * whole text is such a date; else *ret is untouched. */
bool sl_httpdate_read(struct sl_str text, sl_ns now, sl_ns *ret);

#endif
