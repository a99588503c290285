/* httpdate.h -- instants as HTTP writes them (RFC 9110, 5.6.7).
 */
#ifndef SL_HTTPDATE_H
#define SL_HTTPDATE_H

#include "base/str.h"

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
