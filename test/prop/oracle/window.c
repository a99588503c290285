/* window.c -- the oracle of windows, quotas, permits and levels.
 *
 * Each take is an event that lies in a window; to judge is to add up the
 * events of the windows that count. A write drops those that do not: a cell
 * has no room for them, and a clock that steps back does not bring them back.
 */
#include "oracle.h"

static void drop(struct model *m, uint64_t below)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->count; i++)
        if (m->events[i].where >= below)
            m->events[kept++] = m->events[i];
    m->count = kept;
}

/* Take `amount` out of what lies in window `where`, never below zero. True if
 * there was something. */
static bool give_back(struct model *m, uint64_t where, uint64_t amount)
{
    int64_t there = model_sum(m, where);
    int64_t most = amount < (uint64_t)there ? (int64_t)amount : there;

    if (there <= 0 || most == 0)
        return false;
    model_add(m, where, -most);
    return true;
}

static uint64_t left_of(uint64_t limit, int64_t used)
{
    return (uint64_t)used < limit ? limit - (uint64_t)used : 0;
}

/* ---- fixed: where = the number of the window ---- */

static uint64_t window_of(const struct spec *s, uint64_t tick)
{
    return tick / spec_span(s);
}

static int64_t fixed_used(struct model *m, const struct spec *s, uint64_t tick)
{
    return model_sum(m, window_of(s, tick < m->at ? m->at : tick));
}

static bool fixed_passes(struct model *m, const struct spec *s, uint64_t cost,
                         uint64_t tick)
{
    return cost == 0 || cost <= left_of(s->count, fixed_used(m, s, tick));
}

static bool another_window(struct model *m, const struct spec *s, uint64_t tick)
{
    return window_of(s, tick) != window_of(s, m->eff);
}

static uint64_t fixed_remaining(struct model *m, const struct spec *s)
{
    return left_of(s->count, fixed_used(m, s, m->eff));
}

static void fixed_charge(struct model *m, const struct spec *s, uint64_t cost)
{
    drop(m, window_of(s, m->eff));
    model_add(m, window_of(s, m->eff), (int64_t)cost);
    m->at = m->eff;
    m->brimful = model_sum(m, window_of(s, m->eff)) > (int64_t)SL_COUNT_MAX;
}

static bool fixed_correct(struct model *m, const struct spec *s, int64_t delta,
                          uint64_t when)
{
    uint64_t window = window_of(s, m->eff);
    bool done;

    if (delta > 0) {
        fixed_charge(m, s, (uint64_t)delta);
        return true;
    }
    done =
        window_of(s, when) >= window && give_back(m, window, (uint64_t)-delta);
    drop(m, window);
    m->at = m->eff;
    return done;
}

static void fixed_step_back(struct model *m, const struct spec *s, uint64_t to)
{
    for (size_t i = 0; i < m->count; i++)
        m->events[i].where = window_of(s, to);
    m->at = to;
}

const struct judge judge_fixed = {
    .passes = fixed_passes,
    .over = another_window,
    .remaining = fixed_remaining,
    .charge = fixed_charge,
    .correct = fixed_correct,
    .step_back = fixed_step_back,
    .clocked = true,
};

/* ---- sliding: where = the number of the bucket, from 1 ---- */

static uint64_t bucket_of(const struct spec *s, uint64_t tick)
{
    return tick / spec_span(s) + 1;
}

static uint64_t bucket_start(const struct spec *s, uint64_t bucket)
{
    return (bucket - 1) * spec_span(s);
}

/* m->share = current + previous * unelapsed share, at `tick`. */
static void weigh(struct model *m, const struct spec *s, uint64_t tick)
{
    uint64_t at = tick < m->at ? m->at : tick;
    uint64_t bucket = bucket_of(s, at);
    uint64_t past = at - bucket_start(s, bucket);

    mpq_set_ui(m->weight, spec_span(s) - past, spec_span(s));
    mpq_canonicalize(m->weight);
    mpq_set_si(m->share, model_sum(m, bucket - 1), 1);
    mpq_mul(m->weight, m->weight, m->share);
    mpq_set_si(m->share, model_sum(m, bucket), 1);
    mpq_add(m->share, m->share, m->weight);
}

/* m->weight = limit - what weighs at `tick`. */
static void space(struct model *m, const struct spec *s, uint64_t tick)
{
    weigh(m, s, tick);
    mpq_set_ui(m->weight, s->count, 1);
    mpq_sub(m->weight, m->weight, m->share);
}

static bool sliding_passes(struct model *m, const struct spec *s, uint64_t cost,
                           uint64_t tick)
{
    if (cost == 0)
        return true;
    space(m, s, tick);
    return mpq_cmp_ui(m->weight, cost, 1) >= 0;
}

static uint64_t sliding_remaining(struct model *m, const struct spec *s)
{
    space(m, s, m->eff);
    if (mpq_sgn(m->weight) < 0)
        return 0;
    mpz_fdiv_q(m->work, mpq_numref(m->weight), mpq_denref(m->weight));
    return mpz_get_ui(m->work);
}

static void sliding_settle(struct model *m, const struct spec *s)
{
    uint64_t bucket = bucket_of(s, m->eff);

    drop(m, bucket - 1);
    m->at = bucket_start(s, bucket);
    m->brimful = model_sum(m, bucket) > (int64_t)SL_COUNT_MAX;
}

static void sliding_charge(struct model *m, const struct spec *s, uint64_t cost)
{
    model_add(m, bucket_of(s, m->eff), (int64_t)cost);
    sliding_settle(m, s);
}

static bool sliding_correct(struct model *m, const struct spec *s,
                            int64_t delta, uint64_t when)
{
    uint64_t now = bucket_of(s, m->eff), then = bucket_of(s, when);
    bool done = true;

    if (delta > 0)
        model_add(m, now, delta);
    else if (then >= now)
        done = give_back(m, now, (uint64_t)-delta);
    else if (then == now - 1)
        done = give_back(m, then, (uint64_t)-delta);
    else
        done = false;
    sliding_settle(m, s);
    return done;
}

/* The newest bucket and the one before it become that of `to`; a cell counts
 * no further than SL_COUNT_MAX. */
static void sliding_step_back(struct model *m, const struct spec *s,
                              uint64_t to)
{
    uint64_t bucket = bucket_of(s, to);
    int64_t sum;

    for (size_t i = 0; i < m->count; i++)
        if (m->events[i].where + 1 >= bucket_of(s, m->at))
            m->events[i].where = bucket;
    sum = model_sum(m, bucket);
    if (sum > (int64_t)SL_COUNT_MAX)
        model_add(m, bucket, (int64_t)SL_COUNT_MAX - sum);
    m->at = bucket_start(s, bucket);
}

const struct judge judge_sliding = {
    .passes = sliding_passes,
    .over = another_window,
    .remaining = sliding_remaining,
    .charge = sliding_charge,
    .correct = sliding_correct,
    .step_back = sliding_step_back,
    .clocked = true,
};

/* ---- quota: where = 0; what counts is whether the last write lies in the
 * period, whichever zone and anchor it has by now ---- */

static uint64_t period_start(const struct spec *s, uint64_t tick)
{
    sl_ns start;

    if (!s->bounds)
        return tick / spec_span(s) * spec_span(s);
    start = bounds_start(s->bounds, (sl_ns)(tick * spec_tick(s)));
    return start > 0 ? (uint64_t)start / spec_tick(s) : 0;
}

static int64_t quota_used(struct model *m, const struct spec *s, uint64_t tick)
{
    uint64_t at = tick < m->at ? m->at : tick;

    return m->at >= period_start(s, at) ? model_sum(m, 0) : 0;
}

static bool quota_passes(struct model *m, const struct spec *s, uint64_t cost,
                         uint64_t tick)
{
    return cost == 0 || cost <= left_of(s->count, quota_used(m, s, tick));
}

static bool another_period(struct model *m, const struct spec *s, uint64_t tick)
{
    return period_start(s, tick) != period_start(s, m->eff);
}

static uint64_t quota_remaining(struct model *m, const struct spec *s)
{
    return left_of(s->count, quota_used(m, s, m->eff));
}

static void quota_charge(struct model *m, const struct spec *s, uint64_t cost)
{
    if (quota_used(m, s, m->eff) == 0)
        m->count = 0;
    model_add(m, 0, (int64_t)cost);
    m->at = m->eff;
    m->brimful = model_sum(m, 0) > (int64_t)SL_AMOUNT_MAX;
}

static bool quota_correct(struct model *m, const struct spec *s, int64_t delta,
                          uint64_t when)
{
    bool done;

    if (delta > 0) {
        quota_charge(m, s, (uint64_t)delta);
        return true;
    }
    done = when >= period_start(s, m->eff) && quota_used(m, s, m->eff) > 0 &&
           give_back(m, 0, (uint64_t)-delta);
    if (quota_used(m, s, m->eff) == 0)
        m->count = 0;
    m->at = m->eff;
    return done;
}

static void quota_step_back(struct model *m, const struct spec *s, uint64_t to)
{
    (void)s;
    m->at = to;
}

const struct judge judge_quota = {
    .passes = quota_passes,
    .over = another_period,
    .remaining = quota_remaining,
    .charge = quota_charge,
    .correct = quota_correct,
    .step_back = quota_step_back,
    .clocked = true,
};

/* ---- permits and levels: what is held, at any time ---- */

static bool held_passes(struct model *m, const struct spec *s, uint64_t cost,
                        uint64_t tick)
{
    (void)tick;
    return cost == 0 || cost <= left_of(s->count, model_sum(m, 0));
}

static bool held_over(struct model *m, const struct spec *s, uint64_t tick)
{
    (void)s, (void)tick;
    return model_sum(m, 0) == 0;
}

static uint64_t held_remaining(struct model *m, const struct spec *s)
{
    return left_of(s->count, model_sum(m, 0));
}

static void held_charge(struct model *m, const struct spec *s, uint64_t cost)
{
    (void)s;
    model_add(m, 0, (int64_t)cost);
    m->brimful = model_sum(m, 0) > (int64_t)SL_AMOUNT_MAX;
}

static bool held_correct(struct model *m, const struct spec *s, int64_t delta,
                         uint64_t when)
{
    (void)when;
    if (delta <= 0)
        return give_back(m, 0, (uint64_t)-delta);
    held_charge(m, s, (uint64_t)delta);
    return true;
}

const struct judge judge_held = {
    .passes = held_passes,
    .over = held_over,
    .remaining = held_remaining,
    .charge = held_charge,
    .correct = held_correct,
    .clocked = false,
};
