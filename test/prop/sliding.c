/* sliding.c -- sliding windows against the oracle. The numbers are those of
 * the invariants in src/core/window.c.
 *
 *   (2)  the formula, in rationals; in any span of one period fewer than twice
 *        the limit
 *   (3) (4) (5)  random histories: retry, clock steps, changes of the limit
 */
#include "oracle/history.h"
#include "oracle/log.h"

#include "prop.h"

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
    static const struct history h = {.labels = &labels,
                                     .kind = SL_SLIDING,
                                     .most = 400,
                                     .check = check_wait};

    return history_run(&h, seed, steps);
}

static void add(struct trial *t, uint64_t cost,
                const struct sl_take_result *got, void *ctx)
{
    uint64_t tick = (uint64_t)t->now / spec_tick(&t->spec);

    if (got->answer.outcome == SL_ALLOW &&
        log_add(ctx, tick, cost, spec_span(&t->spec)) >= 2 * t->spec.count)
        trial_wrong(t, labels.outcome, "a span admits too much");
}

static bool any_span(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {
        .labels = &labels, .kind = SL_SLIDING, .most = 1000, .took = add};
    struct log log = {0};
    bool good = history_forward(&h, seed, steps, &log);

    log_done(&log);
    return good;
}

const struct property prop_sliding = {
    .name = "sliding",
    .steps = 2000000,
    .cases = {{"sliding (2) (3) (4) (5) histories agree with the oracle",
               history},
              {"sliding (2) any period admits fewer than twice the limit",
               any_span}},
};
