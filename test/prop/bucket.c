/* bucket.c -- token and leaky buckets against the oracle and against the
 * ideal. The numbers are those of the invariants in src/core/bucket.c.
 *
 *   (1) (2) (3) (5) (6) (7)  random histories, every answer to the last unit
 *   (4)  admitted tokens, counted over every span, never pass burst + L * rate;
 *        a greedy client gets that less at most 10 ppm; a steady one under the
 *        rate is never refused
 *   (7)  a change of the limit, at once
 *   (8)  departures from a leaky bucket
 *
 * The ideal is reckoned in whole numbers too: a token is `span` ticks' worth of
 * `count`, so S tokens by tick t are S * span - t * count over the rate, and no
 * fraction is left.
 */
#include "oracle/history.h"

#include "base/arith.h"
#include "prop.h"

__extension__ typedef __int128 i128;

static const struct labels labels = {
    .outcome = "bucket (2)",
    .remaining = "bucket (1) (7)",
    .retry = "bucket (3)",
    .reset = "bucket (3), reset_in",
    .wait = "bucket (8)",
    .steps = "bucket (5) (6)",
};

/* 10 ppm of `span` if the period is not a whole number of grains: then a token
 * is rounded up to whole units and grows that much slower. */
static uint64_t slack(const struct spec *s, uint64_t span)
{
    return spec_span(s) % spec_grain(s) ? span / 100000 + 1 : 0;
}

/* (5) A client that has used no more than the capacity waits for one refill at
 * most. */
static void check_wait(struct trial *t)
{
    const struct spec *s = &t->spec;
    uint64_t refill = sl_muldiv_up(s->capacity, (uint64_t)s->period, s->count);

    if (s->kind == SL_INTERVAL)
        refill = ((s->capacity - 1) / s->count + 1) * (uint64_t)s->period;
    if (t->last.outcome == SL_DENY && mpz_sgn(t->model.have) >= 0 &&
        (uint64_t)t->last.retry_in >
            refill + slack(s, refill) + SL_JITTER + spec_tick(s))
        trial_wrong(t, labels.steps, "waits %" PRId64 ", a refill is %" PRIu64,
                    t->last.retry_in, refill);
}

static struct spec random_bucket(struct rng *rng)
{
    return random_spec(rng, rng_once_in(rng, 3) ? SL_LEAKY : SL_BUCKET);
}

static bool history(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {.labels = &labels,
                                     .spec = random_bucket,
                                     .most = 400,
                                     .check = check_wait};

    return history_run(&h, seed, steps);
}

/* (4) For all i <= j: what was admitted from i to j is at most burst +
 * (t_j - t_i) * rate. With height_i = S_i * span - t_i * count, that is
 * height_j - (height_i before i) <= burst * span; the lowest one is enough. */
struct spans {
    i128 taken, low;
    uint64_t origin;
    bool any;
};

static void spans_add(struct trial *t, uint64_t cost,
                      const struct sl_take_result *got, void *ctx)
{
    const struct spec *s = &t->spec;
    uint64_t tick = (uint64_t)t->now / spec_tick(s);
    struct spans *a = ctx;
    i128 height;

    if (got->answer.outcome != SL_ALLOW || cost == 0)
        return;
    if (!a->any)
        *a = (struct spans){.origin = tick, .any = true};
    height = a->taken * spec_span(s) - (i128)(tick - a->origin) * s->count;
    if (height < a->low)
        a->low = height;
    a->taken += cost;
    if (height + (i128)cost * spec_span(s) - a->low >
        (i128)s->capacity * spec_span(s))
        trial_wrong(t, "bucket (4)", "a span admits too much");
}

static bool any_span(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {
        .labels = &labels, .kind = SL_BUCKET, .most = 2000, .took = spans_add};

    return history_forward(&h, seed, steps, &(struct spans){0});
}

/* Rates from one in ten years to the fastest there is. The burst is large
 * enough that what grows during one tick (and, for clients that come late,
 * during one interval) is not lost at the brim. */
static const struct {
    uint64_t count, every;
    enum sl_unit unit;
    uint64_t burst;
} rates[] = {
    {1,          3653,      SL_UNIT_DAY,    3   },
    {1,          1,         SL_UNIT_DAY,    3   },
    {1000,       1,         SL_UNIT_DAY,    8   },
    {7,          1,         SL_UNIT_MINUTE, 3   },
    {100,        1,         SL_UNIT_MINUTE, 100 },
    {3,          1,         SL_UNIT_SECOND, 3   },
    {9,          10,        SL_UNIT_SECOND, 4   },
    {997,        1009,      SL_UNIT_MS,     5   },
    {1000000,    1,         SL_UNIT_SECOND, 10  },
    {999983,     1,         SL_UNIT_SECOND, 10  },
    {99999989,   1,         SL_UNIT_SECOND, 1000},
    {100000000,  1,         SL_UNIT_SECOND, 1000},
    {4294967295, 1,         SL_UNIT_MINUTE, 1000},
    {1,          3600001,   SL_UNIT_MS,     3   },
    {1000,       16777217,  SL_UNIT_MS,     3   },
    {7,          86399001,  SL_UNIT_MS,     3   },
    {99999,      315619199, SL_UNIT_SECOND, 10  },
    {99999,      2097153,   SL_UNIT_MS,     10  },
    {2097153,    2097153,   SL_UNIT_MS,     10  },
    {4294967291, 315619,    SL_UNIT_SECOND, 10  },
};

static struct spec rate_spec(size_t i, enum sl_quantum quantum)
{
    struct spec s = {.kind = SL_BUCKET,
                     .quantum = quantum,
                     .count = rates[i].count,
                     .capacity = rates[i].burst,
                     .every = rates[i].every,
                     .unit = rates[i].unit};

    s.period = (sl_ns)s.every * sl_unit_length(s.unit);
    return s;
}

/* Take whatever there is, as soon as there is something (late = 0) or a while
 * after, and at least `takes`. Returns, at the last refusal, how far below the
 * ideal the total is: in spans, of which one is a token. */
static i128 greedy(const struct sl_limit *limit, const struct spec *s,
                   uint64_t takes, uint64_t late, i128 *ideal)
{
    struct sl_cell cell = {
        {0, 0}
    };
    struct rng rng = {late};
    sl_ns now = 0;
    uint64_t taken = 0;

    for (;;) {
        struct sl_take_result got = sl_take(limit, cell, 1, now);

        cell = got.next;
        if (got.answer.outcome == SL_ALLOW) {
            taken++;
            continue;
        }
        *ideal = (i128)s->capacity * spec_span(s) +
                 (i128)((uint64_t)now / spec_tick(s)) * s->count;
        if (taken >= takes || got.answer.retry_in > SL_TIME_END / 2 - now)
            return *ideal - (i128)taken * spec_span(s);
        now += got.answer.retry_in + (sl_ns)rng_below(&rng, late);
    }
}

static void sustained(uint64_t takes)
{
    CASE("bucket (4) greedy clients get the rate, less at most 10 ppm");
    for (size_t i = 0; i < 2 * SL_LEN(rates); i++) {
        struct spec s = rate_spec(i / 2, i % 2 ? SL_QUANTUM_US : SL_QUANTUM_NS);
        uint64_t interval = (uint64_t)s.period / s.count;
        struct sl_limit limit;

        if (!CHECK(spec_limit(&s, &limit)))
            continue;
        for (uint64_t late = 0; late <= 1; late++) {
            i128 ideal, missing;

            missing = greedy(&limit, &s, takes, late * (interval + 1), &ideal);
            if (!CHECK(missing >= 0) ||
                !CHECK(missing <= spec_span(&s) + ideal / 100000))
                spec_print(&s);
        }
    }
}

/* `gap` is never shorter than an interval, or two of them never shorter than
 * two intervals and the burst is three: then no take is ever denied. */
static bool never_refused(const struct spec *s, uint64_t takes, bool uneven)
{
    uint64_t tick = spec_tick(s);
    uint64_t ticks = sl_muldiv_up(spec_span(s), 1, s->count);
    uint64_t interval = (ticks + slack(s, ticks)) * tick;
    struct rng rng = {takes};
    struct sl_limit limit;
    struct sl_cell cell = {
        {0, 0}
    };
    sl_ns now = 0;

    if (!spec_limit(s, &limit))
        return false;
    for (uint64_t i = 0; i < takes; i++) {
        struct sl_take_result got = sl_take(&limit, cell, 1, now);
        uint64_t off = uneven ? rng_below(&rng, interval / tick) * tick : 0;

        if (got.answer.outcome != SL_ALLOW)
            return false;
        got = sl_take(&limit, got.next, uneven ? 1 : 0,
                      now + (sl_ns)(interval - off));
        if (got.answer.outcome != SL_ALLOW)
            return false;
        cell = got.next;
        now += (sl_ns)((uneven ? 2 : 1) * interval);
        if (now > SL_TIME_END - SL_DAY * 3653 * 3)
            break;
    }
    return true;
}

static void steady(uint64_t takes)
{
    CASE("bucket (4) a steady client under the rate is never refused");
    for (size_t i = 0; i < 2 * SL_LEN(rates); i++) {
        struct spec s = rate_spec(i / 2, i % 2 ? SL_QUANTUM_US : SL_QUANTUM_NS);

        s.capacity = 1;
        if (!CHECK(never_refused(&s, takes, false)))
            spec_print(&s);
        s.capacity = 3;
        if (!CHECK(never_refused(&s, takes, true)))
            spec_print(&s);
    }
}

/* (7) At the same instant: available = new capacity - used. */
static bool change(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct spec a = random_spec(&rng, SL_BUCKET);
    struct spec b = random_change(&rng, &a);
    struct sl_cell cell = {
        {0, 0}
    };
    struct sl_limit old, new;
    sl_ns now = (sl_ns)rng_below(&rng, SL_TIME_END);
    uint64_t used = rng_log(&rng, a.capacity), want;
    struct sl_take_result got;

    ++*steps;
    if (!spec_limit(&a, &old) || !spec_limit(&b, &new))
        return false;
    cell = sl_take(&old, cell, used, now).next;
    got = sl_take(&new, cell, 0, now);
    want = used < b.capacity ? b.capacity - used : 0;
    if (got.answer.remaining == want && sl_cell_eq(got.next, cell))
        return true;
    printf("# bucket (7): used %" PRIu64 " of %" PRIu64 ", now of %" PRIu64
           ": remaining %" PRIu64 "\n",
           used, a.capacity, b.capacity, got.answer.remaining);
    return false;
}

/* (8) Unit takes leave in the order in which they came, one interval (whole
 * ticks, rounded down) after the other. */
struct departure {
    uint64_t tick;
    bool any;
};

static void depart(struct trial *t, uint64_t cost,
                   const struct sl_take_result *got, void *ctx)
{
    uint64_t interval = spec_span(&t->spec) / t->spec.count, leaves;
    struct departure *last = ctx;

    (void)cost;
    if (got->answer.outcome != SL_ALLOW)
        return;
    leaves = (uint64_t)(t->now + got->answer.wait) / spec_tick(&t->spec);
    if (last->any && leaves < last->tick + interval)
        trial_wrong(t, labels.wait, "leaves %" PRIu64 " after %" PRIu64, leaves,
                    last->tick);
    *last = (struct departure){leaves, true};
}

static bool departures(uint64_t seed, uint64_t *steps)
{
    static const struct history h = {.labels = &labels,
                                     .kind = SL_LEAKY,
                                     .most = 1000,
                                     .by_one = true,
                                     .took = depart};

    return history_forward(&h, seed, steps, &(struct departure){0});
}

static void finish(uint64_t steps)
{
    sustained(steps / 4);
    steady(steps / 16);
}

const struct property prop_bucket = {
    .name = "bucket",
    .steps = 1500000,
    .cases = {{"bucket (1) to (3), (5) to (7) histories agree with the oracle",
               history},
              {"bucket (4) no span admits more than burst + L * rate",
               any_span},
              {"bucket (8) a leaky bucket spaces and orders departures",
               departures},
              {"bucket (7) a changed limit keeps what was used, at once",
               change, 4}},
    .finish = finish,
};
