/* permits.c -- permits and levels against the oracle. The numbers are those of
 * the invariants in src/core/permits.c.
 *
 *   (1)  never more than the limit is held
 *   (2)  giving back never goes below zero
 */
#include "oracle/history.h"

#include "prop.h"

static const struct labels labels = {
    .outcome = "permits (1)",
    .remaining = "permits (1) (2)",
    .retry = "permits: retry_in",
    .reset = "permits: reset_in",
    .wait = "permits: wait",
    .steps = "permits: no clock",
};

static struct spec random_held(struct rng *rng)
{
    return random_spec(rng, rng_once_in(rng, 2) ? SL_PERMITS : SL_LEVEL);
}

/* Most of what is taken comes back. */
static void step(struct trial *t)
{
    if (rng_once_in(&t->rng, 3))
        trial_adjust(t, -(int64_t)rng_log(&t->rng, t->spec.count), t->now,
                     random_now(t));
    else
        random_step(t);
}

static bool history(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {
        .labels = &labels, .spec = random_held, .most = 400, .step = step};

    return history_run(&h, seed, steps);
}

const struct property prop_permits = {
    .name = "permits",
    .steps = 5000000,
    .cases = {{"permits (1) (2) histories agree with the oracle", history}},
};
