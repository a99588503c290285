/* redis.h -- the store in a Redis, shared by many machines.
 *
 * Every take is one command and one round trip: the script takes the set where
 * the cells are, by the server's clock. All takes of a turn go out together.
 *
 * Each loop has a seat: its own connection and what is on its way. A take must
 * be asked for on the loop's thread (take->loop).
 *
 * A take that is not answered by its deadline has failed: SLUICE_ESTORE. If it
 * turns out later that it succeeded, what it took is given back; if nobody can
 * tell, it is counted as uncertain. Nothing is sent twice unless it is certain
 * that it did not happen the first time.
 *
 * After FAILURES_MOST failures in a row nobody is made to wait any more: takes
 * fail at once, but for one now and then that tries (the breaker).
 */
#ifndef SL_REDIS_H
#define SL_REDIS_H

#include "net/loop.h"
#include "store/redis/where.h"
#include "store/store.h"

struct sl_redis_options {
    struct sl_redis_where where; /* its texts outlive the store */
    sl_ns deadline;              /* 0: 20 ms */
    bool own_now;                /* test builds: take->now is the time */
    unsigned in_flight_most;     /* of a loop; 0: 8192 */
    const struct sl_alloc *alloc;
};

SL_MUST_USE int sl_redis_open(const struct sl_redis_options *options,
                              struct sl_store **ret, struct sl_diag *diag);

/* A seat for `loop`: before it runs, or on its thread. */
SL_MUST_USE int sl_redis_attach(struct sl_store *store, struct sl_loop *loop,
                                struct sl_diag *diag);

/* Whatever is on its way fails. On the loop's thread, or when it has stopped.
 */
void sl_redis_detach(struct sl_store *store, struct sl_loop *loop);

/* What all seats have counted. */
struct sl_redis_stats {
    uint64_t taken;     /* answered in time */
    uint64_t late;      /* deadlines that passed */
    uint64_t failed;    /* refused, lost or not sent */
    uint64_t returned;  /* late, had succeeded, and were given back */
    uint64_t uncertain; /* nobody can tell */
    uint64_t strange;   /* values that were none of ours */
    uint64_t repaired;  /* the server did not know the script */
    unsigned up, seats;
    bool open;   /* the breaker, of any seat */
    sl_ns ahead; /* of the server's clock, against ours; SL_NS_NONE */
};
void sl_redis_stats(const struct sl_store *store, struct sl_redis_stats *ret);

#endif
