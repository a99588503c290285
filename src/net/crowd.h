/* crowd.h -- how many connections there may be: over all loops, and from one
 * address.
 *
 * Each loop takes connections for itself; what they share is this count. It is
 * asked once when a connection comes and once when it goes, under a lock.
 *
 * An address is counted by its first 64 bits if it is IPv6: whoever has one of
 * those has them all. Those who speak for many (a trusted proxy) and those who
 * have no address (a unix socket) are counted among all, and not by address.
 *
 * Memory is fixed: a place for each connection, twice over.
 */
#ifndef SL_CONN_LIMIT_H
#define SL_CONN_LIMIT_H

#include "base/alloc.h"
#include "base/ip.h"

struct sl_conn_limit; /* opaque */

enum sl_conn_limit_answer {
    SL_CONN_LIMIT_IN,
    SL_CONN_LIMIT_FULL,     /* there are as many as there may be */
    SL_CONN_LIMIT_TOO_MANY, /* of this address */
};

/* At most `most` (> 0), and of one address at most `most_each` (> 0). NULL
 * `alloc` is libc's. SLUICE_ENOMEM, SLUICE_ESYS. */
SL_MUST_USE int sl_conn_limit_open(const struct sl_alloc *alloc, unsigned most,
                                   unsigned most_each,
                                   struct sl_conn_limit **ret);
void sl_conn_limit_close(struct sl_conn_limit *crowd); /* NULL is allowed */

/* One has come from `ip`; NULL: not counted by address. Whoever is in leaves
 * once, by the same. Any thread. */
SL_MUST_USE enum sl_conn_limit_answer
sl_conn_limit_enter(struct sl_conn_limit *crowd, const struct sl_ip *ip);
void sl_conn_limit_leave(struct sl_conn_limit *crowd, const struct sl_ip *ip);

/* How many are in; tests compare it with their own count. */
unsigned sl_conn_limit_count(struct sl_conn_limit *crowd);

#endif
