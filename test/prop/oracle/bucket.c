/* bucket.c -- the oracle of buckets: continuous, by interval, leaky.
 *
 * Kept is what is there: m->have units at tick m->at. It is below zero if the
 * capacity was lowered under what had been used, or if a charge went beyond the
 * capacity; then that much must come in before anything is there.
 */
#include "oracle.h"

/* A cell holds at most this many units of use: as many as its bits, or as a
 * double counts exactly. */
static uint64_t units_max(const struct spec *s)
{
    return (UINT64_C(1) << (s->quantum == SL_QUANTUM_NS ? 56 : 53)) - 1;
}

static void units(mpz_t ret, const struct spec *s, uint64_t tokens)
{
    mpz_set_ui(ret, tokens);
    mpz_mul_ui(ret, ret, spec_token(s));
}

/* What came in after `from`, up to and including `to`, in units. */
static void gained(mpz_t ret, const struct spec *s, uint64_t from, uint64_t to)
{
    if (s->kind == SL_INTERVAL) {
        uint64_t span = spec_span(s);

        /* As many as there are multiples of the period in (from, to]. */
        units(ret, s, to / span - from / span);
        mpz_mul_ui(ret, ret, s->count);
        return;
    }
    mpz_set_ui(ret, to - from);
    mpz_mul_ui(ret, ret, s->count);
    mpz_fdiv_q_ui(ret, ret, spec_grain(s));
}

/* m->work = what is there at `tick`. */
static void there(struct model *m, const struct spec *s, uint64_t tick)
{
    mpz_t full;

    mpz_init(full);
    units(full, s, s->capacity);
    if (m->fresh) {
        mpz_swap(m->work, full);
    } else {
        mpz_set(m->work, m->have);
        gained(m->gain, s, m->at, tick > m->at ? tick : m->at);
        mpz_add(m->work, m->work, m->gain);
        if (mpz_cmp(m->work, full) > 0)
            mpz_swap(m->work, full);
    }
    mpz_clear(full);
}

static bool passes(struct model *m, const struct spec *s, uint64_t cost,
                   uint64_t tick)
{
    if (cost == 0)
        return true;
    there(m, s, tick);
    units(m->gain, s, cost);
    return mpz_cmp(m->work, m->gain) >= 0;
}

static bool over(struct model *m, const struct spec *s, uint64_t tick)
{
    there(m, s, tick);
    units(m->gain, s, s->capacity);
    return mpz_cmp(m->work, m->gain) == 0;
}

static uint64_t remaining(struct model *m, const struct spec *s)
{
    there(m, s, m->eff);
    if (mpz_sgn(m->work) < 0)
        return 0;
    mpz_fdiv_q_ui(m->work, m->work, spec_token(s));
    return mpz_get_ui(m->work);
}

/* Keep m->work at m->eff. */
static void keep(struct model *m)
{
    mpz_set(m->have, m->work);
    m->at = m->eff;
    m->fresh = false;
}

static void charge(struct model *m, const struct spec *s, uint64_t cost)
{
    there(m, s, m->eff);
    units(m->gain, s, cost);
    mpz_sub(m->work, m->work, m->gain);
    keep(m);
}

static bool correct(struct model *m, const struct spec *s, int64_t delta,
                    uint64_t when)
{
    bool idle = delta == 0 || (delta < 0 && over(m, s, m->eff));

    (void)when;
    there(m, s, m->eff);
    mpz_set_si(m->gain, delta);
    mpz_mul_ui(m->gain, m->gain, spec_token(s));
    mpz_sub(m->work, m->work, m->gain);
    units(m->gain, s, s->capacity);
    if (mpz_cmp(m->work, m->gain) >= 0) {
        model_reset(m);
    } else {
        keep(m);
        mpz_sub(m->gain, m->gain, m->work);
        m->brimful = mpz_cmp_ui(m->gain, units_max(s)) > 0;
    }
    return !idle;
}

static void step_back(struct model *m, const struct spec *s, uint64_t to)
{
    (void)s;
    m->at = to;
}

const struct judge judge_bucket = {
    .passes = passes,
    .over = over,
    .remaining = remaining,
    .charge = charge,
    .correct = correct,
    .step_back = step_back,
    .clocked = true,
};
