/* trial.c -- see trial.h. */
#include "trial.h"

#include "../cell.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* How often the first instant is searched for instead of only verified. */
#define SEARCH_ONCE_IN 16

void trial_wrong(struct trial *t, const char *invariant, const char *fmt, ...)
{
    va_list args;

    if (t->bad)
        return;
    t->bad = true;
    printf("# seed %" PRIu64 " step %" PRIu64 ", now %" PRId64 ": %s: ",
           t->seed, t->step, t->now, invariant);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n# cell %#" PRIx64 " %#" PRIx64 ", judged at tick %" PRIu64 "\n",
           t->cell.w[0], t->cell.w[1], t->model.eff);
    spec_print(&t->spec);
}

void trial_init(struct trial *t, const struct labels *labels, uint64_t seed,
                const struct spec *spec)
{
    *t = (struct trial){.labels = labels, .seed = seed, .spec = *spec};
    t->rng.state = seed;
    model_init(&t->model);
    model_init(&t->spare);
    if (!spec_limit(spec, &t->limit))
        t->bad = true;
}

void trial_done(struct trial *t)
{
    model_done(&t->model);
    model_done(&t->spare);
}

void trial_change(struct trial *t, const struct spec *spec)
{
    struct sl_limit limit;
    const char *broken;

    if (!spec_limit(spec, &limit)) {
        t->bad = true;
        return;
    }
    broken = shape_broken(&t->limit, &limit);
    if (broken)
        trial_wrong(t, broken, "%s", "see below");
    model_change(&t->model, &t->spec, spec);
    t->spec = *spec;
    t->limit = limit;
    t->calm = false;
}

void trial_forget(struct trial *t)
{
    t->cell = (struct sl_cell){
        {0, 0}
    };
    model_reset(&t->model);
    t->calm = false;
}

/* Is now + span the first instant at which the key is over (cost NULL) or
 * passes *cost? An instant too far to be named is given as SL_NS_MAX. */
static bool is_first(struct trial *t, sl_ns span, const uint64_t *cost)
{
    uint64_t tick = spec_tick(&t->spec);
    uint64_t instant = (uint64_t)t->now + (uint64_t)span;
    uint64_t m = instant / tick;

    if (model_holds(&t->model, &t->spec, cost, t->model.eff))
        return span == 0;
    if (span <= 0 || m <= t->model.eff)
        return false;
    if (model_holds(&t->model, &t->spec, cost, m - 1))
        return false;
    if (instant >= (uint64_t)SL_NS_MAX)
        return true;
    if (instant % tick || !model_holds(&t->model, &t->spec, cost, m))
        return false;
    return !rng_once_in(&t->rng, SEARCH_ONCE_IN) ||
           model_first(&t->model, &t->spec, cost) == m;
}

/* (3), asked of the algorithm itself: left alone, the cell refuses the same
 * take before, and allows it at that instant. */
static void probe(struct trial *t, uint64_t cost,
                  const struct sl_take_result *got)
{
    sl_ns in = got->answer.retry_in, early;

    if (got->answer.outcome != SL_DENY || in == SL_NS_NONE ||
        in >= SL_TIME_END - t->now)
        return;
    early = t->now + (sl_ns)rng_below(&t->rng, (uint64_t)in);
    if (sl_take(&t->limit, got->next, cost, early).answer.outcome != SL_DENY)
        trial_wrong(t, t->labels->retry, "passes before, at %" PRId64, early);
    early = t->now + in - 1;
    if (sl_take(&t->limit, got->next, cost, early).answer.outcome != SL_DENY)
        trial_wrong(t, t->labels->retry, "passes 1 ns before retry_in");
    if (sl_take(&t->limit, got->next, cost, t->now + in).answer.outcome !=
        SL_ALLOW)
        trial_wrong(t, t->labels->retry, "does not pass at retry_in");
}

static void check_times(struct trial *t, uint64_t cost,
                        const struct sl_answer *got)
{
    const struct judge *judge = judge_of(t->spec.kind);

    if (!judge->clocked || got->outcome != SL_DENY) {
        if (got->retry_in != SL_NS_NONE)
            trial_wrong(t, t->labels->retry, "retry_in %" PRId64 ", want none",
                        got->retry_in);
    } else if (!is_first(t, got->retry_in, &cost)) {
        trial_wrong(t, t->labels->retry,
                    "retry_in %" PRId64 " for %" PRIu64
                    " is wrong; first tick %" PRIu64,
                    got->retry_in, cost,
                    model_first(&t->model, &t->spec, &cost));
    }
    if (!judge->clocked) {
        if (got->reset_in != SL_NS_NONE)
            trial_wrong(t, t->labels->reset, "reset_in %" PRId64 ", want none",
                        got->reset_in);
    } else if (!is_first(t, got->reset_in, NULL)) {
        trial_wrong(t, t->labels->reset,
                    "reset_in %" PRId64 " is wrong; first tick %" PRIu64,
                    got->reset_in, model_first(&t->model, &t->spec, NULL));
    }
}

static void check_numbers(struct trial *t, const struct sl_answer *got)
{
    uint64_t want = judge_of(t->spec.kind)->remaining(&t->model, &t->spec);

    if (got->remaining != want)
        trial_wrong(t, t->labels->remaining,
                    "remaining %" PRIu64 ", want %" PRIu64, got->remaining,
                    want);
    if (got->limit != t->spec.count || got->capacity != t->spec.capacity)
        trial_wrong(t, "numbers", "limit %" PRIu64 " capacity %" PRIu64,
                    got->limit, got->capacity);
    if (got->remaining > got->capacity)
        trial_wrong(t, t->labels->steps, "more remains than there can be");
}

/* Zeros are what a new key has: from here on the cell knows no time. */
static void check_cell(struct trial *t, struct sl_cell next,
                       enum cell_duty duty)
{
    const struct judge *judge = judge_of(t->spec.kind);
    bool owed =
        judge->remaining(&t->model, &t->spec) < t->spec.capacity && !t->bad;
    const char *broken = cell_broken(t->cell, next, duty, owed);

    if (broken)
        trial_wrong(t, broken, "cell becomes %#" PRIx64 " %#" PRIx64, next.w[0],
                    next.w[1]);
    if (next.w[0] == 0 && next.w[1] == 0)
        model_reset(&t->model);
}

/* A clock that was put back must not show more than before. */
static void check_step(struct trial *t, sl_ns before, uint64_t cost,
                       const struct sl_answer *got)
{
    uint64_t had = got->remaining + (got->outcome == SL_ALLOW ? cost : 0);

    if (t->calm && t->now < before && had > t->last.remaining)
        trial_wrong(t, t->labels->steps,
                    "the clock stepped back and %" PRIu64 " became %" PRIu64,
                    t->last.remaining, had);
}

static enum sl_outcome judged(struct trial *t, uint64_t cost)
{
    if (cost > t->spec.capacity)
        return SL_NEVER;
    return model_holds(&t->model, &t->spec, &cost, t->model.eff) ? SL_ALLOW
                                                                 : SL_DENY;
}

void trial_take(struct trial *t, uint64_t cost, sl_ns now)
{
    struct sl_take_result got = sl_take(&t->limit, t->cell, cost, now);
    bool mended = model_settle(&t->model, &t->spec, now);
    enum sl_outcome want = judged(t, cost);
    bool taken = want == SL_ALLOW && cost > 0;
    sl_ns before = t->now;

    t->step++;
    t->now = now;
    if (got.stepped != mended)
        trial_wrong(t, t->labels->steps, "stepped is %d", got.stepped);
    if (got.answer.outcome != want)
        trial_wrong(t, t->labels->outcome,
                    "cost %" PRIu64 ": outcome %d, want %d", cost,
                    (int)got.answer.outcome, (int)want);
    if (t->spec.kind == SL_LEAKY && want == SL_ALLOW) {
        if (!is_first(t, got.answer.wait, NULL))
            trial_wrong(t, t->labels->wait,
                        "wait %" PRId64 " is wrong; first tick %" PRIu64,
                        got.answer.wait,
                        model_first(&t->model, &t->spec, NULL));
    } else if (got.answer.wait != 0) {
        trial_wrong(t, t->labels->wait, "wait %" PRId64, got.answer.wait);
    }
    if (taken)
        judge_of(t->spec.kind)->charge(&t->model, &t->spec, cost);
    check_numbers(t, &got.answer);
    check_times(t, cost, &got.answer);
    check_step(t, before, cost, &got.answer);
    check_cell(t, got.next, taken || mended ? CELL_DIFFERS : CELL_SAME);
    probe(t, cost, &got);
    t->cell = got.next;
    t->last = got.answer;
    t->calm = true;
}

/* A charge beyond what a cell can hold must not wrap; how much of it is
 * remembered is the cell's affair, so the key is forgotten afterwards. */
static void brimful(struct trial *t, const struct sl_take_result *got)
{
    struct sl_take_result more = sl_take(&t->limit, got->next, 1, t->now);

    if (got->answer.remaining != 0 || more.answer.outcome != SL_DENY)
        trial_wrong(t, t->labels->remaining, "a huge charge wrapped");
    check_cell(t, got->next, CELL_EITHER);
    t->last = got->answer;
    trial_forget(t);
}

/* An adjust answers like a look afterwards. */
static void check_look(struct trial *t, const struct sl_answer *got)
{
    model_settle(&t->model, &t->spec, t->now);
    if (got->outcome != SL_ALLOW)
        trial_wrong(t, t->labels->outcome, "an adjust must answer like a look");
    if (t->spec.kind == SL_LEAKY ? !is_first(t, got->wait, NULL)
                                 : got->wait != 0)
        trial_wrong(t, t->labels->wait, "wait %" PRId64, got->wait);
    check_numbers(t, got);
    check_times(t, 0, got);
}

void trial_adjust(struct trial *t, int64_t delta, sl_ns when, sl_ns now)
{
    struct sl_take_result got = sl_adjust(&t->limit, t->cell, delta, when, now);
    bool mended = model_settle(&t->model, &t->spec, now), done;
    uint64_t tick = (uint64_t)when / spec_tick(&t->spec);

    t->step++;
    t->now = now;
    if (got.stepped != mended)
        trial_wrong(t, t->labels->steps, "stepped is %d", got.stepped);
    model_copy(&t->spare, &t->model);
    done = judge_of(t->spec.kind)->correct(&t->model, &t->spec, delta, tick);
    if (t->model.brimful) {
        brimful(t, &got);
        return;
    }
    /* With nothing to give back, the cell may be left or brought up to date;
     * a delta of 0 is a look. */
    if (!done && (delta == 0 || sl_cell_eq(got.next, t->cell)))
        model_copy(&t->model, &t->spare);
    check_cell(t, got.next,
               done || (delta == 0 && mended) ? CELL_DIFFERS
               : delta == 0                   ? CELL_SAME
                                              : CELL_EITHER);
    check_look(t, &got.answer);
    t->cell = got.next;
    t->last = got.answer;
    t->calm = false;
}
