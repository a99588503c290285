/* trial.h -- one key, walked through a history, each step judged.
 *
 * trial_take() and trial_adjust() do the step in src/core and in the oracle
 * and compare everything: outcome, remaining, all spans to the nanosecond, and
 * the rules for cells. The first disagreement is printed with the number of
 * the invariant it breaks, and sets `bad`; an episode ends there.
 */
#ifndef SL_PROP_TRIAL_H
#define SL_PROP_TRIAL_H

#include "oracle.h"
#include "rng.h"

/* Which invariant a field shows, by number. */
struct labels {
    const char *outcome, *remaining, *retry, *reset, *wait, *steps;
};

struct trial {
    const struct labels *labels;
    struct rng rng;
    uint64_t seed, step;
    struct spec spec;
    struct sl_limit limit;
    struct sl_cell cell;
    struct model model, spare;
    sl_ns now;
    struct sl_answer last; /* of the step before */
    bool calm;             /* `last` is there, and no adjust or change since */
    bool bad;
};

/* Start with a new key under `spec`. */
void trial_init(struct trial *t, const struct labels *labels, uint64_t seed,
                const struct spec *spec);
void trial_done(struct trial *t);

/* The user edits the limit. */
void trial_change(struct trial *t, const struct spec *spec);

/* Forget the key: it starts afresh. */
void trial_forget(struct trial *t);

void trial_take(struct trial *t, uint64_t cost, sl_ns now);
void trial_adjust(struct trial *t, int64_t delta, sl_ns when, sl_ns now);

/* Say what is wrong, once. */
void trial_wrong(struct trial *t, const char *invariant, const char *fmt, ...)
    SL_PRINTF(3, 4);

#endif
