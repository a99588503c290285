/* sliding.c -- sliding windows against the oracle. The numbers are those of
 * the invariants in src/core/window.c.
 *
 *   (2)  the formula, in rationals; in any span of one period fewer than twice
 *        the limit
 *   (3) (4) (5)  random histories: retry, clock steps, changes of the limit
 */
#include "oracle/history.h"
#include "oracle/log.h"
#include "oracle/seeds.h"

#include "check.h"

static const struct labels labels = {
    .outcome = "sliding (2)",
    .remaining = "sliding (2) (5)",
    .retry = "sliding (3)",
    .reset = "sliding (3), reset_in",
    .wait = "sliding: wait",
    .steps = "sliding (4)",
};

/* Two buckets from now nothing weighs any more. */
static void check_wait(struct trial *t)
{
    if (t->last.outcome == SL_DENY &&
        t->last.retry_in > 2 * t->spec.period + SL_JITTER)
        trial_wrong(t, labels.steps, "waits longer than two buckets");
}

static bool history(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct spec spec = random_spec(&rng, SL_SLIDING);
    uint64_t length = rng_between(&rng, 20, 400);
    struct trial t;
    bool good;

    trial_init(&t, &labels, seed, &spec);
    t.now = random_start(&rng);
    while (t.step < length && !t.bad) {
        random_step(&t);
        check_wait(&t);
    }
    *steps += t.step;
    good = !t.bad;
    trial_done(&t);
    return good;
}

static bool any_span(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed ^ UINT64_C(0x5a5a)};
    struct spec spec = random_spec(&rng, SL_SLIDING);
    uint64_t length = rng_between(&rng, 20, 1000);
    struct log log = {0};
    struct trial t; /* only for its taste in instants and costs */

    trial_init(&t, &labels, seed, &spec);
    t.now = random_start(&rng);
    for (; t.step < length && !t.bad; t.step++) {
        uint64_t cost = random_cost(&t);
        uint64_t tick;
        struct sl_take_result got;

        t.now = random_later(&t);
        tick = (uint64_t)t.now / spec_tick(&spec);
        got = sl_take(&t.limit, t.cell, cost, t.now);
        if (got.answer.outcome == SL_ALLOW &&
            log_add(&log, tick, cost, spec_span(&spec)) >= 2 * spec.count)
            trial_wrong(&t, labels.outcome, "a span admits too much");
        t.cell = got.next;
        t.last = got.answer;
    }
    *steps += t.step;
    log_done(&log);
    trial_done(&t);
    return !t.bad;
}

int main(int argc, char **argv)
{
    struct seeds run = seeds_start(argc, argv, "sliding", 4000000);

    CASE("sliding (2) (3) (4) (5) histories agree with the oracle");
    CHECK(seeds_run(&run, history));
    CASE("sliding (2) any period admits fewer than twice the limit");
    CHECK(seeds_run(&run, any_span));
    return CHECK_DONE();
}
