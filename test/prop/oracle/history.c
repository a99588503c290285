/* history.c -- see history.h. */
#include "history.h"

#include "base/arith.h"

static const struct {
    uint64_t every;
    enum sl_unit unit;
} periods[] = {
    {1,    SL_UNIT_MS    },
    {1,    SL_UNIT_SECOND},
    {1,    SL_UNIT_SECOND},
    {1,    SL_UNIT_MINUTE},
    {1,    SL_UNIT_HOUR  },
    {1,    SL_UNIT_DAY   },
    {3653, SL_UNIT_DAY   },
    {7,    SL_UNIT_SECOND},
    {5,    SL_UNIT_MINUTE},
    {10,   SL_UNIT_SECOND},
    {999,  SL_UNIT_MS    },
    {24,   SL_UNIT_HOUR  },
    {2,    SL_UNIT_MS    },
    {3600, SL_UNIT_HOUR  },
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* 1 .. most, edges preferred. */
static uint64_t random_count(struct rng *rng, uint64_t most)
{
    static const uint64_t edges[] = {1,  2,  3,   5,    7,
                                     10, 60, 100, 1000, 99999989};

    switch (rng_below(rng, 4)) {
    case 0:
        return most;
    case 1:
        return least(most, 1 + rng_log(rng, most - 1));
    default:
        return least(most, edges[rng_below(rng, SL_LEN(edges))]);
    }
}

/* The most tokens that refill within SL_REFILL_MAX. */
static uint64_t burst_max(const struct spec *s)
{
    return least(SL_COUNT_MAX, sl_muldiv_down((uint64_t)SL_REFILL_MAX, s->count,
                                              (uint64_t)s->period));
}

static void random_numbers(struct rng *rng, struct spec *s)
{
    uint64_t most = SL_COUNT_MAX;

    if (s->period)
        most = least(most, (uint64_t)s->period / 10); /* SL_RATE_MAX */
    s->count = random_count(rng, most);
    switch (s->kind) {
    case SL_BUCKET:
    case SL_INTERVAL:
    case SL_LEAKY:
        s->capacity = rng_once_in(rng, 4) ? least(s->count, burst_max(s))
                                          : random_count(rng, burst_max(s));
        break;
    case SL_LEVEL:
        s->count = random_count(rng, SL_AMOUNT_MAX);
        s->capacity = s->count;
        break;
    default:
        s->capacity = s->count;
    }
}

struct spec random_spec(struct rng *rng, enum sl_kind kind)
{
    size_t i = rng_below(rng, SL_LEN(periods));
    struct spec s = {
        .kind = kind,
        .quantum = rng_once_in(rng, 2) ? SL_QUANTUM_NS : SL_QUANTUM_US,
        .every = periods[i].every,
        .unit = periods[i].unit,
    };

    if (rng_once_in(rng, 8)) {
        s.every = rng_between(rng, 1, 100000);
        s.unit = SL_UNIT_MS;
    }
    if (kind == SL_QUOTA && s.unit == SL_UNIT_DAY)
        s.unit = SL_UNIT_HOUR;
    if (kind != SL_PERMITS && kind != SL_LEVEL)
        s.period = (sl_ns)s.every * sl_unit_length(s.unit);
    random_numbers(rng, &s);
    return s;
}

struct spec random_change(struct rng *rng, const struct spec *spec)
{
    struct spec s = *spec;

    if (s.kind == SL_BUCKET || s.kind == SL_INTERVAL) /* one shape */
        s.kind = rng_once_in(rng, 4) ? SL_INTERVAL : SL_BUCKET;
    if (rng_once_in(rng, 2))
        random_numbers(rng, &s);
    else if (s.kind <= SL_LEAKY) /* the burst alone */
        s.capacity = random_count(rng, burst_max(&s));
    else
        s.capacity = s.count = random_count(rng, s.count);
    return s;
}

sl_ns random_start(struct rng *rng)
{
    static const sl_ns starts[] = {
        0, 1, 1500 * SL_MS, 1794700000 * SL_S, 4102444800 * SL_S,
    };

    return starts[rng_below(rng, SL_LEN(starts))];
}

static sl_ns clamp(sl_ns at)
{
    return at < 0 ? 0 : at >= SL_TIME_END ? SL_TIME_END - 1 : at;
}

/* One interval of the rate, or something like it. */
static uint64_t stride(const struct spec *s)
{
    return s->period ? (uint64_t)s->period / s->count + 1 : 1000;
}

/* Around the next multiple of the period. */
static sl_ns to_border(struct trial *t)
{
    sl_ns period = t->spec.period ? t->spec.period : SL_DAY;

    return (t->now / period + 1) * period - 1 +
           (sl_ns)rng_below(&t->rng, 3) * (sl_ns)rng_below(&t->rng, 1000);
}

/* When the step before said that something would happen. */
static sl_ns to_promise(struct trial *t)
{
    sl_ns in = rng_once_in(&t->rng, 2) ? t->last.retry_in : t->last.reset_in;

    if (in == SL_NS_NONE)
        in = t->last.wait;
    if (in > SL_TIME_END - t->now)
        return t->now;
    return t->now + in - (sl_ns)rng_below(&t->rng, 2);
}

sl_ns random_later(struct trial *t)
{
    uint64_t period = (uint64_t)(t->spec.period ? t->spec.period : SL_DAY);
    struct rng *rng = &t->rng;
    sl_ns now = t->now, next;

    switch (rng_below(rng, 14)) {
    case 0:
        next = now + 1;
        break;
    case 1:
        next = now + (sl_ns)rng_below(rng, 3 * spec_tick(&t->spec));
        break;
    case 2:
        next = now + (sl_ns)rng_below(rng, 2 * stride(&t->spec));
        break;
    case 3:
        next = now + (sl_ns)rng_below(rng, 2 * period);
        break;
    case 4:
        next = to_border(t);
        break;
    case 5:
        next = now + (sl_ns)rng_below(rng, SL_JITTER);
        break;
    case 6:
        next = now + (sl_ns)rng_log(rng, 8 * stride(&t->spec));
        break;
    case 7:
        next = rng_once_in(rng, 8)
                   ? now + (sl_ns)rng_log(rng, 100 * 365 * SL_DAY)
                   : now;
        break;
    case 8:
    case 9:
    case 10:
        next = to_promise(t);
        break;
    default:
        next = now;
    }
    return clamp(next < now ? now : next);
}

sl_ns random_now(struct trial *t)
{
    uint64_t period = (uint64_t)(t->spec.period ? t->spec.period : SL_DAY);
    struct rng *rng = &t->rng;
    sl_ns now = t->now;

    switch (rng_below(rng, 32)) {
    case 0:
    case 1:
        return clamp(now - (sl_ns)rng_below(rng, SL_JITTER + 1));
    case 2:
        return clamp(now - SL_JITTER);
    case 3:
        return clamp(now - SL_JITTER - (sl_ns)rng_below(rng, 2001));
    case 4:
        return clamp(now - (sl_ns)rng_below(rng, 2 * period));
    case 5:
        return clamp(now - (sl_ns)rng_log(rng, (uint64_t)now));
    case 6:
        return rng_once_in(rng, 4) ? random_start(rng) : now;
    case 7:
        return rng_once_in(rng, 8) ? (sl_ns)rng_below(rng, SL_TIME_END) : now;
    default:
        return random_later(t);
    }
}

uint64_t random_cost(struct trial *t)
{
    struct rng *rng = &t->rng;
    uint64_t cap = t->spec.capacity;

    switch (rng_below(rng, 24)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return cap;
    case 3:
        return cap + 1;
    case 4:
        return rng_below(rng, cap + 1);
    case 5:
    case 6:
    case 7:
        return t->last.remaining;
    case 8:
    case 9:
        return t->last.remaining + 1;
    case 10:
        return rng_once_in(rng, 4) ? UINT64_MAX - rng_below(rng, 3) : 1;
    case 11:
        return rng_log(rng, UINT64_MAX);
    case 12:
    case 13:
        return rng_log(rng, cap);
    default:
        return 1;
    }
}

static int64_t random_delta(struct trial *t)
{
    struct rng *rng = &t->rng;
    uint64_t most = least(t->spec.capacity, SL_AMOUNT_MAX);
    int64_t size;

    switch (rng_below(rng, 8)) {
    case 0:
        size = 0;
        break;
    case 1:
        size = (int64_t)rng_log(rng, SL_AMOUNT_MAX);
        break;
    case 2:
        size = (int64_t)least(t->last.remaining + 1, SL_AMOUNT_MAX);
        break;
    case 3:
        size = (int64_t)rng_log(rng, most);
        break;
    case 4:
        size = (int64_t)most;
        break;
    default:
        size = 1;
    }
    return rng_once_in(rng, 2) ? size : -size;
}

static sl_ns random_when(struct trial *t)
{
    uint64_t period = (uint64_t)(t->spec.period ? t->spec.period : SL_DAY);
    struct rng *rng = &t->rng;

    switch (rng_below(rng, 4)) {
    case 0:
        return clamp(t->now - (sl_ns)rng_below(rng, 2 * period));
    case 1:
        return clamp(t->now - (sl_ns)rng_log(rng, 4 * period));
    case 2:
        return clamp(t->now + (sl_ns)rng_below(rng, SL_MS));
    default:
        return t->now;
    }
}

void random_step(struct trial *t)
{
    struct rng *rng = &t->rng;
    sl_ns now = random_now(t);

    if (rng_once_in(rng, 40)) {
        struct spec changed = random_change(rng, &t->spec);

        trial_change(t, &changed);
    }
    if (rng_once_in(rng, 16))
        trial_adjust(t, random_delta(t), random_when(t), now);
    else
        trial_take(t, random_cost(t), now);
}

static uint64_t begin(const struct history *h, struct rng *rng, uint64_t seed,
                      struct trial *t)
{
    struct spec spec = h->spec ? h->spec(rng) : random_spec(rng, h->kind);
    uint64_t length = rng_between(rng, 20, h->most);

    trial_init(t, h->labels, seed, &spec);
    t->now = random_start(rng);
    return length;
}

static bool end(struct trial *t, uint64_t *steps)
{
    *steps += t->step;
    trial_done(t);
    return !t->bad;
}

bool history_run(const struct history *h, uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct trial t;
    uint64_t length = begin(h, &rng, seed, &t);

    while (t.step < length && !t.bad) {
        (h->step ? h->step : random_step)(&t);
        if (h->check)
            h->check(&t);
    }
    return end(&t, steps);
}

bool history_forward(const struct history *h, uint64_t seed, uint64_t *steps,
                     void *ctx)
{
    struct rng rng = {seed ^ UINT64_C(0x5a5a)};
    struct trial t;
    uint64_t length = begin(h, &rng, seed, &t);

    for (; t.step < length && !t.bad; t.step++) {
        uint64_t cost = h->by_one ? 1 : random_cost(&t);
        struct sl_take_result got;

        t.now = random_later(&t);
        got = sl_take(&t.limit, t.cell, cost, t.now);
        h->took(&t, cost, &got, ctx);
        t.cell = got.next;
        t.last = got.answer;
    }
    return end(&t, steps);
}
