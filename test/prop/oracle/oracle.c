/* oracle.c -- what all kinds share: the clock, the list, the search. */
#include "oracle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool spec_limit(const struct spec *s, struct sl_limit *ret)
{
    bool held = s->kind == SL_PERMITS || s->kind == SL_LEVEL;
    struct sl_rate rate = {
        .form = held ? SL_RATE_PLAIN : SL_RATE_PER,
        .count = s->count,
        .every = s->every,
        .unit = s->unit,
        .has_burst = s->kind == SL_BUCKET || s->kind == SL_INTERVAL,
        .burst = s->capacity,
        .has_queue = s->kind == SL_LEAKY,
        .queue = s->capacity - 1,
    };
    struct sl_limit_options options = {
        .quantum = s->quantum, .zone = s->zone, .anchor = s->anchor};
    struct sl_diag diag = {.line = 0};

    if (sl_limit_init(ret, s->kind, &rate, &options, &diag) == 0)
        return true;
    printf("# a good limit was refused: %s\n", diag.sentence);
    spec_print(s);
    return false;
}

void spec_print(const struct spec *s)
{
    printf("# %s%s %" PRIu64 "/%" PRIu64 "%s capacity %" PRIu64
           ", tick %" PRIu64 " ns\n",
           sl_kind_name(s->kind), s->kind == SL_INTERVAL ? " (interval)" : "",
           s->count, s->every, sl_unit_name(s->unit), s->capacity,
           spec_tick(s));
}

const struct judge *judge_of(enum sl_kind kind)
{
    switch (kind) {
    case SL_FIXED:
        return &judge_fixed;
    case SL_SLIDING:
        return &judge_sliding;
    case SL_QUOTA:
        return &judge_quota;
    case SL_PERMITS:
    case SL_LEVEL:
        return &judge_held;
    default:
        return &judge_bucket;
    }
}

void model_init(struct model *m)
{
    *m = (struct model){.fresh = true};
    mpz_inits(m->have, m->work, m->gain, NULL);
    mpq_inits(m->share, m->weight, NULL);
}

void model_done(struct model *m)
{
    mpz_clears(m->have, m->work, m->gain, NULL);
    mpq_clears(m->share, m->weight, NULL);
    free(m->events);
}

void model_copy(struct model *to, const struct model *from)
{
    to->brimful = from->brimful;
    to->at = from->at;
    to->eff = from->eff;
    mpz_set(to->have, from->have);
    to->count = 0;
    for (size_t i = 0; i < from->count; i++)
        model_add(to, from->events[i].where, from->events[i].amount);
    to->fresh = from->fresh;
}

void model_reset(struct model *m)
{
    m->fresh = true;
    m->brimful = false;
    m->at = 0;
    m->count = 0;
}

/* Available = new capacity - used, at once. Only buckets keep what is
 * available; a list of events does not depend on the limit. */
void model_change(struct model *m, const struct spec *old, const struct spec *s)
{
    mpz_set_ui(m->work, s->capacity);
    mpz_sub_ui(m->work, m->work, old->capacity);
    mpz_mul_ui(m->work, m->work, spec_token(s));
    mpz_add(m->have, m->have, m->work);
}

bool model_settle(struct model *m, const struct spec *s, sl_ns now)
{
    uint64_t n = (uint64_t)now / spec_tick(s);

    m->eff = n;
    if (m->fresh || m->at <= n || !judge_of(s->kind)->clocked)
        return false;
    if (m->at - n <= spec_jitter(s)) {
        m->eff = m->at;
        return false;
    }
    judge_of(s->kind)->step_back(m, s, n);
    return true;
}

bool model_holds(struct model *m, const struct spec *s, const uint64_t *cost,
                 uint64_t tick)
{
    const struct judge *judge = judge_of(s->kind);

    return cost ? judge->passes(m, s, *cost, tick) : judge->over(m, s, tick);
}

uint64_t model_first(struct model *m, const struct spec *s,
                     const uint64_t *cost)
{
    uint64_t low = m->eff, reach = 1;

    while (!model_holds(m, s, cost, low + reach)) {
        low += reach;
        if (reach >> 62)
            return UINT64_MAX;
        reach *= 2;
    }
    while (reach > 1) {
        uint64_t half = reach / 2;

        if (model_holds(m, s, cost, low + half)) {
            reach = half;
        } else {
            low += half;
            reach -= half;
        }
    }
    return low + 1;
}

void model_add(struct model *m, uint64_t where, int64_t amount)
{
    m->fresh = false;
    if (m->count && m->events[m->count - 1].where == where) {
        m->events[m->count - 1].amount += amount;
        return;
    }
    if (m->count == m->room) {
        m->room = m->room ? 2 * m->room : 16;
        m->events = realloc(m->events, m->room * sizeof(*m->events));
        if (!m->events)
            abort();
    }
    m->events[m->count++] = (struct event){where, amount};
}

int64_t model_sum(const struct model *m, uint64_t where)
{
    int64_t sum = 0;

    for (size_t i = 0; i < m->count; i++)
        if (m->events[i].where == where)
            sum += m->events[i].amount;
    return sum;
}
