/* seat.h -- what one loop has of the store: its connections, and what is on its
 * way. For redis.c and seat.c. */
#ifndef SL_REDIS_CLIENT_H
#define SL_REDIS_CLIENT_H

#include <stdatomic.h>

#include "store/redis/fleet/fleet.h"
#include "store/redis/redis.h"
#include "store/remote.h"

/* Counted by one thread, read by others. */
struct sl_redis_counts {
    _Atomic uint64_t taken, late, failed, returned, uncertain, strange,
        repaired, remembered, spanning, leased, lease_tokens, lease_over,
        lease_under;
    _Atomic bool up, ready, open;
    _Atomic sl_ns ahead;
};

struct sl_redis_client;

SL_MUST_USE int sl_redis_client_open(const struct sl_redis_options *options,
                                     struct sl_store_identity *shared,
                                     struct sl_tls *tls, struct sl_loop *loop,
                                     struct sl_redis_client **ret);

/* All takes are told. Not from within one's done(). NULL is allowed. */
void sl_redis_client_close(struct sl_redis_client *seat);
void sl_redis_client_take(struct sl_redis_client *seat, struct sl_take *take);
void sl_redis_client_hold(struct sl_redis_client *seat,
                          struct sl_hold_call *call);
void sl_redis_client_keep(struct sl_redis_client *seat);

/* All leases end. `now` counts if time is the takes' own. */
void sl_redis_client_drain(struct sl_redis_client *seat, sl_ns now);
sl_ns sl_redis_client_retry_in(const struct sl_redis_client *seat);

/* From any thread: add to *ret. */
void sl_redis_client_stats(const struct sl_redis_client *seat,
                           struct sl_redis_stats *ret);

#endif
