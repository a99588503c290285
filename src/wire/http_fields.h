/* http_fields.h -- the fields Forwarded (RFC 7239) and Cache-Control.
 *
 *     Forwarded: for=192.0.2.43;proto=https, for="[2001:db8::17]:4711"
 *                ----------- element ------  --------- element -------
 *
 * Each proxy appends an element, so the last one is from the nearest proxy and
 * earlier ones are untrusted; they may contain an open quote. Elements are
 * removed from the right. They are well-formed as long as trusted proxies wrote
 * them, and nothing on the left affects them.
 *
 * Strict: an element is valid as a whole or not at all. A node is an address;
 * IPv6 needs brackets and quotes, a port needs quotes. `unknown` and `_names`
 * are not addresses.
 */
#ifndef SL_WIRE_HTTP_FIELDS_H
#define SL_WIRE_HTTP_FIELDS_H

#include "base/ip.h"
#include "base/str.h"

/* Remove the last element from *list, without white space around it. Reads each
 * of its bytes at most three times. */
struct sl_str sl_forwarded_cut(struct sl_str *list);

/* The address of its `for`. False if there is none, if there are two, or if the
 * element is invalid; then *ret is untouched. */
SL_MUST_USE bool sl_forwarded_for(struct sl_str element, struct sl_ip *ret);

/* ---- Cache-Control (RFC 9111, 5.2.2) ---- */

/* The lifetime of an answer in a private cache: `max-age`; 0 for `no-store` and
 * `no-cache`; SL_NS_NONE if there is no valid directive. The shortest of
 * several counts. */
sl_ns sl_cache_control_life(struct sl_str field);

#endif
