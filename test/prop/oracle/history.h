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

#endif
