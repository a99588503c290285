/* throttle.h -- limits whose numbers come with the question, as in redis-cell.
 *
 * There is no policy: each question says how many may come in a row and how
 * far apart they must be, and the next one for the same key may say otherwise.
 * What is kept of a key is the time at which it will owe nothing any more, as
 * redis-cell keeps it (its "theoretical arrival time"), so that the answers
 * are those of redis-cell also when the numbers change in between.
 *
 * Bounds. A key is of any bytes. `capacity` is below 2^32, the interval at
 * least 1 ns, and from empty to full it takes less than 2^56 ns, which is two
 * years and three months.
 *
 * A store that is shared counts in microseconds: there, an interval is rounded
 * up to whole ones.
 *
 * Invariants. (test/prop/throttle.c checks them against a model of redis-cell.)
 *   (1) The answer is that of redis-cell for the same history, before it is
 *       rounded to seconds.
 *   (2) A negative quantity gives back, never beyond full, and always passes.
 *   (3) What was refused, and a look, leave the key as it was.
 */
#ifndef SL_ENGINE_THROTTLE_H
#define SL_ENGINE_THROTTLE_H

#include "engine/engine.h"

struct sl_loop;

/* What one thread asks with. */
struct sl_throttles {
    struct sl_engine *engine;
    struct sl_loop *loop;
    struct sl_limit_binding stored;
    bool bound; /* at the first question: whoever asks none keeps no room */
};

/* One question and its answer; the asker's until done(). */
struct sl_throttle {
    struct sl_str key;
    struct sl_str name; /* where the store wants one; else not read */
    uint64_t capacity;  /* how many may come in a row */
    sl_ns interval;     /* between two, in the long run */
    int64_t quantity;   /* 0 looks, less gives back */
    sl_ns now;
    void (*done)(struct sl_throttle *throttle);
    void *ctx;

    int err; /* SLUICE_ESTORE, SLUICE_EFULL: there is no answer */
    bool limited;
    uint64_t remaining;
    sl_ns retry_in; /* SL_NS_NONE when not limited, or when it never passes */
    sl_ns reset_in;

    /* The engine's own. */
    struct sl_limit numbers;
    struct sl_take take;
    struct sl_part part;
};

void sl_throttles_init(struct sl_throttles *throttles, struct sl_engine *engine,
                       struct sl_loop *loop);

/* What stands before the key in its name. No limit of a policy is called so. */
#define SL_THROTTLE_NAME "sluice:#throttle:"

/* Does the store want names? */
bool sl_throttles_named(const struct sl_throttles *throttles);

/* Set capacity and interval from numbers as clients send them: `count` in
 * `period_s` seconds. SLUICE_EINVAL with a sentence if they are out of bounds.
 */
SL_MUST_USE int sl_throttle_set(struct sl_throttle *throttle, int64_t capacity,
                                int64_t count, int64_t period_s,
                                struct sl_diag *diag);

#define SL_THROTTLES 64 /* asked at once */

/* Ask all of them (1 to SL_THROTTLES), each for itself, in this order where
 * keys are the same. Each is told by its done(): perhaps before this returns,
 * perhaps many turns of a loop later. */
void sl_throttle_take(struct sl_throttles *throttles,
                      struct sl_throttle *const *asked, unsigned count);

/* Forget what is kept of a key; only `key`, `now`, `done` and `ctx` are read,
 * and only `err` is answered. */
void sl_throttle_reset(struct sl_throttles *throttles,
                       struct sl_throttle *throttle);

#endif
