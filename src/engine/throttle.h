/* throttle.h -- limits whose numbers come with the request, as in redis-cell.
 *
 * Each request has its own numbers, and the next one for the same key may have
 * others. A key keeps the time at which it owes nothing, as redis-cell does
 * (its "theoretical arrival time"), so that answers are the same also when the
 * numbers change.
 *
 * Bounds. A key may have any bytes. `capacity` is below 2^32, the interval at
 * least 1 ns, and from empty to full it takes less than 2^56 ns (833 days). A
 * shared store counts in microseconds: intervals are rounded up to them.
 *
 * Invariants. (test/prop/throttle.c checks them against a model of redis-cell.)
 *   (1) The answer is that of redis-cell for the same history, before it is
 *       rounded to seconds.
 *   (2) A negative quantity refunds, never beyond full, and always passes.
 *   (3) Denied requests and peeks change nothing.
 */
#ifndef SL_ENGINE_THROTTLE_H
#define SL_ENGINE_THROTTLE_H

#include "engine/engine.h"

struct sl_loop;

/* The part of the table that is kept for these limits, in 1/1000. Beyond it
 * they use what the limits of the policy leave. */
#define SL_THROTTLE_SHARE 8

/* Of one thread. */
struct sl_throttles {
    struct sl_engine *engine;
    struct sl_loop *loop;
    struct sl_limit_binding stored;
    bool bound; /* at the first request, so that it needs no room before */
};

/* One request and its answer. It belongs to the caller until done(). */
struct sl_throttle {
    struct sl_str key;
    struct sl_str name; /* where the store wants one; else not read */
    uint64_t capacity;  /* how many may come in a row */
    sl_ns interval;     /* between two, in the long run */
    int64_t quantity;   /* 0 peeks, below 0 refunds */
    sl_ns now;
    void (*done)(struct sl_throttle *throttle);
    void *ctx;

    int err; /* SLUICE_ESTORE, SLUICE_EFULL: there is no answer */
    bool limited;
    uint64_t remaining;
    sl_ns retry_in; /* SL_NS_NONE when not limited, or when it never passes */
    sl_ns reset_in;

    /* Private to the engine. */
    struct sl_limit numbers;
    struct sl_take take;
    struct sl_part part;
};

void sl_throttles_init(struct sl_throttles *throttles, struct sl_engine *engine,
                       struct sl_loop *loop);

/* The prefix of names. No limit of a policy can have it. */
#define SL_THROTTLE_NAME "sluice:#throttle:"

/* Does the store need names? */
bool sl_throttles_named(const struct sl_throttles *throttles);

/* Set capacity and interval from numbers as clients send them: `count` in
 * `period_s` seconds. SLUICE_EINVAL with a sentence if they are out of bounds.
 */
SL_MUST_USE int sl_throttle_set(struct sl_throttle *throttle, int64_t capacity,
                                int64_t count, int64_t period_s,
                                struct sl_diag *diag);

#define SL_THROTTLES 64 /* in one call */

/* Takes 1 to SL_THROTTLES requests, each for itself, in this order where keys
 * are the same. done() of each is called before this returns, or later from the
 * loop. */
void sl_throttle_take(struct sl_throttles *throttles,
                      struct sl_throttle *const *asked, unsigned count);

/* Resets a key. Only `key`, `now`, `done` and `ctx` are read, and only `err` is
 * set. */
void sl_throttle_reset(struct sl_throttles *throttles,
                       struct sl_throttle *throttle);

#endif
