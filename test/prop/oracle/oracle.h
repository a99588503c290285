/* oracle.h -- what the algorithms must answer, found in another way.
 *
 * src/core keeps what is USED and computes instants by formulas, in 128-bit
 * integers. The oracle keeps what is AVAILABLE (buckets) or the list of events
 * (windows, quotas, permits) in numbers of any size (GMP), and computes no
 * instant at all: it only knows whether a take would pass, or whether all is
 * over, at a given tick, if the key is left alone. The judge asks it at the
 * tick that was claimed and at the one before; now and then it looks for the
 * first tick by bisection.
 *
 * It derives nothing from struct sl_limit: a spec is what a user would write.
 *
 * The clock.  n = floor(now / tick). A key that was last written at T <= n is
 * judged at n. T up to SL_JITTER ahead: judged at T. Further ahead: the clock
 * was stepped; T becomes n and the amounts stay.
 *
 * The grain.  A continuous refill is rounded down to a whole unit each time a
 * cell is written; the oracle rounds the same way, since a store must agree
 * with it to the last unit. How far that lies below an ideal bucket is another
 * question, which bucket.c asks.
 */
#ifndef SL_PROP_ORACLE_H
#define SL_PROP_ORACLE_H

#include "bounds.h"
#include "core/algorithm.h"
#include <gmp.h>

/* A limit as a user writes it. */
struct spec {
    enum sl_kind kind;
    enum sl_quantum quantum;
    uint64_t count;
    uint64_t capacity;
    uint64_t every; /* of unit */
    enum sl_unit unit;
    sl_ns period; /* every x unit; 0 where a calendar or nothing rules */

    /* Quotas that follow a calendar. */
    const struct bounds *bounds;
    const struct sl_zone *zone;
    uint32_t anchor;
};

static inline uint64_t spec_tick(const struct spec *s)
{
    return s->quantum == SL_QUANTUM_NS ? 1 : 1000;
}

static inline uint64_t spec_span(const struct spec *s)
{
    return (uint64_t)s->period / spec_tick(s);
}

/* The grain: the least of 1, 2, 5, 10, ... ticks that cuts the period into at
 * most 2^24 (2^21) parts. A token has as many units as the period has grains,
 * the last one perhaps not whole; `count` units come in during each. */
static inline uint64_t spec_grain(const struct spec *s)
{
    uint64_t most = UINT64_C(1) << (s->quantum == SL_QUANTUM_NS ? 24 : 21);
    uint64_t grain = 1;

    while (grain * most < spec_span(s)) {
        uint64_t lead = grain;

        while (lead >= 10)
            lead /= 10;
        grain = lead == 2 ? grain / 2 * 5 : grain * 2;
    }
    return grain;
}

static inline uint64_t spec_token(const struct spec *s)
{
    return (spec_span(s) + spec_grain(s) - 1) / spec_grain(s);
}

static inline uint64_t spec_jitter(const struct spec *s)
{
    return (uint64_t)SL_JITTER / spec_tick(s);
}

/* Make the limit that `s` describes. Prints the reason if it is refused. */
SL_MUST_USE bool spec_limit(const struct spec *s, struct sl_limit *ret);

void spec_print(const struct spec *s);

/* Something that happened: `amount` taken (or given back) in window `where`. */
struct event {
    uint64_t where;
    int64_t amount;
};

/* One key. */
struct model {
    bool fresh;   /* nothing was ever taken */
    bool brimful; /* a charge went beyond what a cell can hold */
    uint64_t at;  /* T: the tick of the last write */
    uint64_t eff; /* the tick at which the last question was judged */

    mpz_t have; /* buckets: units there at T; negative if over capacity */
    mpz_t work, gain;
    mpq_t share, weight; /* sliding windows: scratch */

    struct event *events; /* all others; only those that still count */
    size_t count, room;
};

/* What a kind of limit can say. `tick` is never before m->eff. */
struct judge {
    bool (*passes)(struct model *m, const struct spec *s, uint64_t cost,
                   uint64_t tick);
    bool (*over)(struct model *m, const struct spec *s, uint64_t tick);
    uint64_t (*remaining)(struct model *m, const struct spec *s);
    void (*charge)(struct model *m, const struct spec *s, uint64_t cost);
    /* True if it changed anything. */
    bool (*correct)(struct model *m, const struct spec *s, int64_t delta,
                    uint64_t when);
    void (*step_back)(struct model *m, const struct spec *s, uint64_t to);
    bool clocked; /* false: no instant helps, times are SL_NS_NONE */
};

extern const struct judge judge_bucket; /* and interval and leaky */
extern const struct judge judge_fixed;
extern const struct judge judge_sliding;
extern const struct judge judge_quota;
extern const struct judge judge_held; /* permits and levels */

const struct judge *judge_of(enum sl_kind kind);

void model_init(struct model *m);
void model_done(struct model *m);

void model_copy(struct model *to, const struct model *from);

/* Forget everything. */
void model_reset(struct model *m);

/* The user changed the limit from `old` to `s`; the shape stays. */
void model_change(struct model *m, const struct spec *old,
                  const struct spec *s);

/* Settle at which tick `now` is judged. True if the key had to be mended. */
bool model_settle(struct model *m, const struct spec *s, sl_ns now);

/* Whether the key, left alone, is `over` (cost NULL) or passes `*cost`. */
bool model_holds(struct model *m, const struct spec *s, const uint64_t *cost,
                 uint64_t tick);

/* The first tick after m->eff at which that holds, by doubling and
 * bisection. UINT64_MAX if it is beyond 2^63. */
uint64_t model_first(struct model *m, const struct spec *s,
                     const uint64_t *cost);

/* Events, for the kinds that keep them. */
void model_add(struct model *m, uint64_t where, int64_t amount);
int64_t model_sum(const struct model *m, uint64_t where);

#endif
