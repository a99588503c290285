/* seat.h -- what one loop has of the store: its connection, and what is on its
 * way. For redis.c and seat.c. */
#ifndef SL_REDIS_SEAT_H
#define SL_REDIS_SEAT_H

#include <stdatomic.h>

#include "store/redis/link.h"
#include "store/redis/redis.h"

/* Counted by one thread, read by others. */
struct sl_redis_counts {
    _Atomic uint64_t taken, late, failed, returned, uncertain, strange,
        repaired;
    _Atomic bool up, open;
    _Atomic sl_ns ahead;
};

struct sl_redis_seat;

SL_MUST_USE int sl_redis_seat_open(const struct sl_redis_options *options,
                                   const struct sl_address *to,
                                   struct sl_tls *tls, struct sl_loop *loop,
                                   struct sl_redis_seat **ret);
void sl_redis_seat_close(struct sl_redis_seat *seat);
void sl_redis_seat_take(struct sl_redis_seat *seat, struct sl_take *take);
const struct sl_redis_counts *
sl_redis_seat_counts(const struct sl_redis_seat *seat);

#endif
