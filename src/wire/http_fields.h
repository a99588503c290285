/* http_fields.h -- the field Forwarded (RFC 7239), from its end.
 *
 *     Forwarded: for=192.0.2.43;proto=https, for="[2001:db8::17]:4711"
 *                ----------- element ------  --------- element -------
 *
 * Each proxy appends an element, so the last one is the nearest proxy's and
 * what stands before it may be anything: an open quote, too. Elements are cut
 * off from the right, where they are well-formed as long as our own proxies
 * wrote them; nothing on the left reaches over.
 *
 * Strict: an element is read to its last byte or not at all. A node is an
 * address; IPv6 has brackets and quotes around it, a port needs quotes.
 * `unknown` and `_names` hide somebody: they are no address.
 */
#ifndef SL_WIRE_HTTP_FIELDS_H
#define SL_WIRE_HTTP_FIELDS_H

#include "base/ip.h"
#include "base/str.h"

/* Cut the last element off *list, without the white space around it. Looks at
 * each of its bytes at most three times. */
struct sl_str sl_forwarded_cut(struct sl_str *list);

/* The address of its `for`. False if it has none, or two, or is no element;
 * then *ret is untouched. */
SL_MUST_USE bool sl_forwarded_for(struct sl_str element, struct sl_ip *ret);

/* ---- how long an answer may be kept (RFC 9111, 5.2.2). */

/* The life that a Cache-Control field of an answer gives it, for a cache that
 * nobody shares: `max-age`; 0 for `no-store` and `no-cache`; SL_NS_NONE if it
 * says nothing, or nothing that can be read. Of several the shortest counts. */
sl_ns sl_cache_control_life(struct sl_str field);

#endif
