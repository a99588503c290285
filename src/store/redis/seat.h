/* seat.h -- what one loop has of the store: its connections, and what is on its
 * way. For redis.c and seat.c. */
#ifndef SL_REDIS_SEAT_H
#define SL_REDIS_SEAT_H

#include <stdatomic.h>

#include "store/redis/fleet/fleet.h"
#include "store/redis/redis.h"
#include "store/shared.h"

/* Counted by one thread, read by others. */
struct sl_redis_counts {
    _Atomic uint64_t taken, late, failed, returned, uncertain, strange,
        repaired, remembered, spanning, leased, lease_tokens, lease_over,
        lease_under;
    _Atomic bool up, ready, open;
    _Atomic sl_ns ahead;
};

struct sl_redis_seat;

SL_MUST_USE int sl_redis_seat_open(const struct sl_redis_options *options,
                                   struct sl_shared *shared, struct sl_tls *tls,
                                   struct sl_loop *loop,
                                   struct sl_redis_seat **ret);

/* All takes are told. Not from within one's done(). NULL is allowed. */
void sl_redis_seat_close(struct sl_redis_seat *seat);
void sl_redis_seat_take(struct sl_redis_seat *seat, struct sl_take *take);
void sl_redis_seat_hold(struct sl_redis_seat *seat, struct sl_hold_call *call);
void sl_redis_seat_keep(struct sl_redis_seat *seat);

/* All leases end. `now` counts if time is the takes' own. */
void sl_redis_seat_drain(struct sl_redis_seat *seat, sl_ns now);
sl_ns sl_redis_seat_retry_in(const struct sl_redis_seat *seat);

/* From any thread: add to *ret. */
void sl_redis_seat_stats(const struct sl_redis_seat *seat,
                         struct sl_redis_stats *ret);

#endif
