/* cache_control.h -- how long an answer may be kept (RFC 9111, 5.2.2). */
#ifndef SL_CACHE_CONTROL_H
#define SL_CACHE_CONTROL_H

#include "base/str.h"

/* The life that a Cache-Control field of an answer gives it, for a cache that
 * nobody shares: `max-age`; 0 for `no-store` and `no-cache`; SL_NS_NONE if it
 * says nothing, or nothing that can be read. Of several the shortest counts. */
sl_ns sl_cache_control_life(struct sl_str field);

#endif
