/* fixed.c -- fixed windows against the oracle. The numbers are those of the
 * invariants in src/core/window.c.
 *
 *   (1)  in one window at most the limit, in any span of one period at most
 *        twice that
 *   (3) (4) (5)  random histories: retry, clock steps, changes of the limit
 */
#include "oracle/history.h"
#include "oracle/log.h"

#include "prop.h"

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
    static const struct history h = {
        .labels = &labels, .kind = SL_FIXED, .most = 400, .check = check_wait};

    return history_run(&h, seed, steps);
}

/* What was admitted in the current window, and all of it. */
struct admitted {
    uint64_t window, inside;
    struct log log;
};

static void add(struct trial *t, uint64_t cost,
                const struct sl_take_result *got, void *ctx)
{
    uint64_t span = spec_span(&t->spec);
    uint64_t tick = (uint64_t)t->now / spec_tick(&t->spec);
    struct admitted *a = ctx;

    if (got->answer.outcome != SL_ALLOW)
        return;
    a->inside = tick / span == a->window ? a->inside + cost : cost;
    a->window = tick / span;
    if (a->inside > t->spec.count)
        trial_wrong(t, labels.outcome, "a window admits too much");
    if (log_add(&a->log, tick, cost, span) > 2 * t->spec.count)
        trial_wrong(t, labels.outcome, "a span admits too much");
}

static bool any_span(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {
        .labels = &labels, .kind = SL_FIXED, .most = 1000, .took = add};
    struct admitted a = {0};
    bool good = history_forward(&h, seed, steps, &a);

    log_done(&a.log);
    return good;
}

const struct property prop_fixed = {
    .name = "fixed",
    .steps = 5000000,
    .cases = {{"fixed (1) (3) (4) (5) histories agree with the oracle",
               history},
              {"fixed (1) a window admits the limit, any period twice that",
               any_span}},
};
