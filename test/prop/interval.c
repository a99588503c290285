/* interval.c -- token buckets that get a period's tokens at once, against the
 * oracle. The numbers are those of the invariants in src/core/bucket.c.
 *
 *   (1) (2) (3) (5) (6) (7)  random histories; a change may also switch
 *        between refill by interval and continuous refill
 *   (4)  in any span at most burst + count for every multiple of the period
 *        in it; a greedy client gets exactly that
 */
#include "oracle/history.h"
#include "oracle/seeds.h"

#include "check.h"

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
    struct rng rng = {seed};
    struct spec spec = random_spec(&rng, SL_INTERVAL);
    uint64_t length = rng_between(&rng, 20, 400);
    struct trial t;
    bool good;

    trial_init(&t, &labels, seed, &spec);
    t.now = random_start(&rng);
    while (t.step < length && !t.bad)
        random_step(&t);
    *steps += t.step;
    good = !t.bad;
    trial_done(&t);
    return good;
}

/* (4) Height = tokens taken - count * multiples so far; see bucket.c. */
static bool any_span(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed ^ UINT64_C(0x5a5a)};
    struct spec spec = random_spec(&rng, SL_INTERVAL);
    uint64_t length = rng_between(&rng, 20, 2000);
    struct trial t; /* only for its taste in instants and costs */
    i128 taken = 0, low = 0;

    trial_init(&t, &labels, seed, &spec);
    t.now = random_start(&rng);
    low = -(i128)spec.count * (t.now / spec.period);
    for (; t.step < length && !t.bad; t.step++) {
        uint64_t cost = random_cost(&t);
        struct sl_take_result got;

        t.now = random_later(&t);
        got = sl_take(&t.limit, t.cell, cost, t.now);
        if (got.answer.outcome == SL_ALLOW) {
            i128 height = taken - (i128)spec.count * (t.now / spec.period);

            low = height < low ? height : low;
            taken += cost;
            if (height + cost - low > spec.capacity)
                trial_wrong(&t, "interval (4)", "a span admits too much");
        }
        t.cell = got.next;
        t.last = got.answer;
    }
    *steps += t.step;
    trial_done(&t);
    return !t.bad;
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

int main(int argc, char **argv)
{
    struct seeds run = seeds_start(argc, argv, "interval", 4000000);

    CASE("interval (1) (2) (3) (5) (6) (7) histories agree with the oracle");
    CHECK(seeds_run(&run, history));
    CASE("interval (4) no span admits more than burst + count per multiple");
    CHECK(seeds_run(&run, any_span));
    CASE("interval (4) greedy clients get exactly that");
    CHECK(seeds_run(&run, greedy));
    return CHECK_DONE();
}
