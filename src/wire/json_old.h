/* json.h -- JSON written, a piece at a time.
 *
 * The caller puts the commas and brackets; this knows how a string and a
 * number must look so that whatever a stranger sent comes out as data.
 */
#ifndef SL_JSON_H
#define SL_JSON_H

#include "base/buf.h"

/* The largest whole number that every reader keeps exactly, 2^53 - 1. */
#define SL_JSON_MAX UINT64_C(9007199254740991)

/* Append `text` as a JSON string, quotes included. Control bytes, quotes and
 * backslashes are escaped, U+2028 and U+2029 too; bytes that are not UTF-8
 * become U+FFFD. */
SL_MUST_USE int sl_json_string(struct sl_buf *out, struct sl_str text);

/* The same without the quotes: the inside of a string. */
SL_MUST_USE int sl_json_inside(struct sl_buf *out, struct sl_str text);

/* Append a whole number; above SL_JSON_MAX it is SL_JSON_MAX. */
SL_MUST_USE int sl_json_number(struct sl_buf *out, uint64_t number);

#endif
