/* interval.c -- token buckets that get a period's tokens at once, against the
 * oracle. The numbers are those of the invariants in src/core/bucket.c.
 *
 *   (1) (2) (3) (5) (6) (7)  random histories; a change may also switch
 *        between refill by interval and continuous refill
 *   (4)  in any span at most burst + count for every multiple of the period
 *        in it; a greedy client gets exactly that
 */
#include "oracle/history.h"

#include "prop.h"

__extension__ typedef __int128 i128;

static const struct labels labels = {
    .outcome = "interval (2)",
    .remaining = "interval (1) (7)",
    .retry = "interval (3)",
    .reset = "interval (3), reset_in",
    .wait = "interval: wait",
    .steps = "interval (5) (6)",
};

static bool history(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {
        .labels = &labels, .kind = SL_INTERVAL, .most = 400};

    return history_run(&h, seed, steps);
}

/* (4) Height = tokens taken - count * multiples so far; see bucket.c. */
struct spans {
    i128 taken, low;
    bool any;
};

static void add(struct trial *t, uint64_t cost,
                const struct sl_take_result *got, void *ctx)
{
    struct spans *s = ctx;
    i128 height;

    if (got->answer.outcome != SL_ALLOW)
        return;
    height = s->taken - (i128)t->spec.count * (t->now / t->spec.period);
    s->low = s->any && s->low < height ? s->low : height;
    s->any = true;
    s->taken += cost;
    if (height + cost - s->low > t->spec.capacity)
        trial_wrong(t, "interval (4)", "a span admits too much");
}

static bool any_span(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {
        .labels = &labels, .kind = SL_INTERVAL, .most = 2000, .took = add};

    return history_forward(&h, seed, steps, &(struct spans){0});
}

/* Take one by one, waiting as told: the burst, and then count a period. */
static bool greedy(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct spec spec = random_spec(&rng, SL_INTERVAL);
    struct sl_cell cell = {
        {0, 0}
    };
    struct sl_limit limit;
    sl_ns now = random_start(&rng), start;
    i128 taken = 0;

    spec.count = 1 + spec.count % 100;
    spec.capacity = spec.count + rng_below(&rng, 3);
    now = now / SL_TIME_END ? 0 : now % (SL_TIME_END / 2);
    start = now;
    if (spec.period > SL_DAY || !spec_limit(&spec, &limit))
        return true;
    for (int i = 0; i < 1000; i++, ++*steps) {
        struct sl_take_result got = sl_take(&limit, cell, 1, now);

        cell = got.next;
        if (got.answer.outcome == SL_ALLOW)
            taken++;
        else if (taken == (i128)spec.capacity +
                              (i128)spec.count *
                                  (now / spec.period - start / spec.period))
            now += got.answer.retry_in;
        else
            return false;
    }
    return true;
}

const struct property prop_interval = {
    .name = "interval",
    .steps = 1500000,
    .cases = {{"interval (1) to (3), (5) to (7) agree with the oracle",
               history},
              {"interval (4) a span admits burst + count per multiple",
               any_span},
              {"interval (4) greedy clients get exactly that", greedy}},
};
