/* history.h -- random limits, costs, instants and corrections, with a liking
 * for edges: exactly at retry_in and one nanosecond before, at the borders of
 * windows, within and just beyond SL_JITTER, back to 1970 and out to the end
 * of time; costs of zero, of all there is, of one more, of everything.
 */
#ifndef SL_PROP_HISTORY_H
#define SL_PROP_HISTORY_H

#include "trial.h"

/* A limit of `kind` with a period; the rate and the refill are in range. */
struct spec random_spec(struct rng *rng, enum sl_kind kind);

/* Another count and capacity for the same shape. */
struct spec random_change(struct rng *rng, const struct spec *spec);

/* Where a history begins. */
sl_ns random_start(struct rng *rng);

/* The next instant; may go back. */
sl_ns random_now(struct trial *t);

uint64_t random_cost(struct trial *t);

/* One step: mostly a take, at times an adjust or a change of the limit. */
void random_step(struct trial *t);

/* The next instant for a clock that never goes back. */
sl_ns random_later(struct trial *t);

/* How the histories of a kind of limit are made. */
struct history {
    const struct labels *labels;
    enum sl_kind kind;
    struct spec (*spec)(struct rng *rng); /* or NULL: random_spec() of kind */
    uint64_t most;                        /* steps: 20 to this many */
    bool by_one;                          /* forward: each take costs 1 */

    void (*step)(struct trial *t);  /* or NULL: random_step() */
    void (*check)(struct trial *t); /* called after each step; or NULL */
    void (*took)(struct trial *t, uint64_t cost,
                 const struct sl_take_result *got,
                 void *ctx); /* forward: called after each take */
};

/* Walks one key through random steps. The oracle judges each of them. Returns
 * false if something disagreed. */
bool history_run(const struct history *h, uint64_t seed, uint64_t *steps);

/* Takes on a clock that never goes back; no adjusts, no changes of the limit,
 * no oracle. took() judges each take. */
bool history_forward(const struct history *h, uint64_t seed, uint64_t *steps,
                     void *ctx);

#endif
