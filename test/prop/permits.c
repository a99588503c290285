/* permits.c -- permits and levels against the oracle. The numbers are those of
 * the invariants in src/core/take.c.
 *
 *   (1)  never more than the limit is held
 *   (2)  giving back never goes below zero
 */
#include "oracle/history.h"
#include "oracle/seeds.h"

#include "check.h"

static const struct labels labels = {
    .outcome = "permits (1)",
    .remaining = "permits (1) (2)",
    .retry = "permits: retry_in",
    .reset = "permits: reset_in",
    .wait = "permits: wait",
    .steps = "permits: no clock",
};

static bool history(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct spec spec =
        random_spec(&rng, rng_once_in(&rng, 2) ? SL_PERMITS : SL_LEVEL);
    uint64_t length = rng_between(&rng, 20, 400);
    struct trial t;
    bool good;

    trial_init(&t, &labels, seed, &spec);
    t.now = random_start(&rng);
    while (t.step < length && !t.bad) {
        if (rng_once_in(&t.rng, 3)) /* most of what is taken comes back */
            trial_adjust(&t, -(int64_t)rng_log(&t.rng, spec.count), t.now,
                         random_now(&t));
        else
            random_step(&t);
    }
    *steps += t.step;
    good = !t.bad;
    trial_done(&t);
    return good;
}

int main(int argc, char **argv)
{
    struct seeds run = seeds_start(argc, argv, "permits", 5000000);

    CASE("permits (1) (2) histories agree with the oracle");
    CHECK(seeds_run(&run, history));
    return CHECK_DONE();
}
