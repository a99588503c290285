/* fixed.c -- fixed windows against the oracle. The numbers are those of the
 * invariants in src/core/window.c.
 *
 *   (1)  in one window at most the limit, in any span of one period at most
 *        twice that
 *   (3) (4) (5)  random histories: retry, clock steps, changes of the limit
 */
#include "oracle/history.h"
#include "oracle/log.h"
#include "oracle/seeds.h"

#include "check.h"

static const struct labels labels = {
    .outcome = "fixed (1)",
    .remaining = "fixed (1) (5)",
    .retry = "fixed (3)",
    .reset = "fixed (3), reset_in",
    .wait = "fixed: wait",
    .steps = "fixed (4)",
};

/* What waits, waits for the end of the window. */
static void check_wait(struct trial *t)
{
    if (t->last.outcome == SL_DENY && t->last.retry_in != t->last.reset_in)
        trial_wrong(t, labels.retry, "retry_in is not the window's end");
    if (t->last.reset_in > t->spec.period + SL_JITTER)
        trial_wrong(t, labels.steps, "waits longer than a window");
}

static bool history(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct spec spec = random_spec(&rng, SL_FIXED);
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
    struct spec spec = random_spec(&rng, SL_FIXED);
    uint64_t length = rng_between(&rng, 20, 1000), span = spec_span(&spec);
    uint64_t window = 0, inside = 0;
    struct log log = {0};
    struct trial t; /* only for its taste in instants and costs */

    trial_init(&t, &labels, seed, &spec);
    t.now = random_start(&rng);
    for (; t.step < length && !t.bad; t.step++) {
        uint64_t cost = random_cost(&t), tick;
        struct sl_take_result got;

        t.now = random_later(&t);
        tick = (uint64_t)t.now / spec_tick(&spec);
        got = sl_take(&t.limit, t.cell, cost, t.now);
        if (got.answer.outcome == SL_ALLOW) {
            inside = tick / span == window ? inside + cost : cost;
            window = tick / span;
            if (inside > spec.count)
                trial_wrong(&t, labels.outcome, "a window admits too much");
            if (log_add(&log, tick, cost, span) > 2 * spec.count)
                trial_wrong(&t, labels.outcome, "a span admits too much");
        }
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
    struct seeds run = seeds_start(argc, argv, "fixed", 5000000);

    CASE("fixed (1) (3) (4) (5) histories agree with the oracle");
    CHECK(seeds_run(&run, history));
    CASE("fixed (1) a window admits the limit, any period twice that");
    CHECK(seeds_run(&run, any_span));
    return CHECK_DONE();
}
