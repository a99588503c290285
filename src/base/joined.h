/* joined.h -- several values in one text.
 *
 *     acme:a%3Ab    "acme" and "a:b"
 *
 * A ':' inside a value is %3A, a '%' is %25.
 */
#ifndef SL_BASE_JOINED_H
#define SL_BASE_JOINED_H

#include "base/str.h"

/* Cuts a text at each ':' into `count` values, which stay escaped. False if it
 * has another number of values, or an invalid escape. */
SL_MUST_USE bool sl_str_cut_values(struct sl_str text, unsigned count,
                                   struct sl_str *ret);

/* Writes a value without its escapes to `out`, which has room for value.len
 * bytes and may be the value itself. */
struct sl_str sl_str_unescape(struct sl_str value, char *out);

#endif
