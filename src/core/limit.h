/* limit.h -- a limit: checked integers that an algorithm can trust.
 *
 * kind            written              capacity
 * SL_BUCKET       5/min burst 8        burst; refilled continuously
 * SL_INTERVAL     5/min burst 8        burst; a period's tokens at once, at
 *                                      every multiple of the period
 * SL_LEAKY        5/10s queue 5        queue + 1: one served, the rest waits
 * SL_FIXED        100/hour             count
 * SL_SLIDING      10/10s               count
 * SL_QUOTA        120/month            count
 * SL_PERMITS      2                    count
 * SL_LEVEL        5                    count
 * SL_PENALTY      of another limit     failures that lead to a block
 *
 * The quantum of a store: ticks of 1 ns and up to 2^24 units to a token in the
 * table, ticks of 1 us and up to 2^21 units in stores whose numbers are
 * doubles. An instant is rounded down to its tick.
 *
 * Units. A token has as many units as the period has grains. `grain` is the
 * least of 1, 2, 5, 10, 20, 50, ... ticks with which that number stays within
 * the quantum. A grain refills `count` units, so nothing is rounded at whole
 * grains.
 * A minute has grains of 5 us, an hour of 0.5 ms, a day of 10 ms. A unit
 * depends on the period alone, so an amount in units means the same under every
 * plan.
 *
 * Scale. A rate can be written in a unit that is larger than the counted one:
 * with a scale of 60, 120/month of minutes are 7,200 seconds. All numbers of a
 * limit are in the counted unit.
 */
#ifndef SL_CORE_LIMIT_H
#define SL_CORE_LIMIT_H

#include "base/base.h"
#include "base/parse.h"
#include "core/calendar.h"

enum sl_kind {
    SL_BUCKET,
    SL_INTERVAL,
    SL_LEAKY,
    SL_FIXED,
    SL_SLIDING,
    SL_QUOTA,
    SL_PERMITS,
    SL_LEVEL,
    SL_PENALTY, /* not written as a kind: `penalty` of a limit */
    SL_KINDS
};

enum sl_quantum {
    SL_QUANTUM_NS,
    SL_QUANTUM_US,
};

#define SL_COUNT_MAX  UINT64_C(0xffffffff) /* buckets, windows, permits */
#define SL_AMOUNT_MAX (UINT64_C(1) << 53)  /* quotas, levels */
#define SL_PERIOD_MIN SL_MS
#define SL_PERIOD_MAX (3653 * SL_DAY)     /* ten years */
#define SL_RATE_MAX   UINT64_C(100000000) /* per second */
#define SL_REFILL_MAX (INT64_C(1) << 61)  /* from empty to full: 73 years */

static inline bool sl_is_bucket(enum sl_kind kind)
{
    return kind == SL_BUCKET || kind == SL_INTERVAL || kind == SL_LEAKY;
}

/* Kinds whose usage is recorded in a usage database, and leased from it. */
static inline bool sl_is_durable(enum sl_kind kind)
{
    return kind == SL_QUOTA || kind == SL_LEVEL;
}

struct sl_limit {
    enum sl_kind kind;
    enum sl_quantum quantum;
    uint64_t count;    /* per period; what the user calls the limit */
    uint64_t capacity; /* at most taken at once; >= 1 */
    sl_ns period;      /* 0 for permits, levels and calendars */
    bool calendar;     /* a quota by `cal` instead of `period` */
    union {
        struct sl_calendar cal;
        struct {
            sl_ns block;     /* length of the first block; `period` is the
                              * longest */
            uint64_t growth; /* the next one is so many times as long */
        } penalty;
    };

    /* Derived. */
    sl_ns tick;     /* 1 or 1000 ns */
    uint64_t span;  /* the period in ticks */
    uint64_t grain; /* buckets: ticks in which `count` units refill; penalties:
                     * ns in which `count` failures lead to a block */
    uint64_t token; /* buckets: units of a token; span / grain, rounded up */
    uint64_t room;  /* buckets: units held, capacity * token */

    uint64_t unit; /* sl_unit_mark(); 0: a plain unit */
};

/* Zeros are defaults: nanosecond quantum, UTC, anchor 1, scale 1. */
struct sl_limit_options {
    enum sl_quantum quantum;
    const struct sl_zone *zone; /* quotas; NULL: UTC; outlives the limit */
    uint32_t anchor;            /* quotas; 0: 1 */
    uint64_t scale; /* counts of the rate are multiplied by it; 0: 1 */
    uint64_t unit;  /* with a scale: sl_unit_mark() */
};

/* A counted unit with a scale as one number: the scale, and eleven bits of a
 * hash of its name. 0: a plain unit, whose scale is 1. */
uint64_t sl_unit_mark(uint64_t scale, struct sl_str counted);
uint64_t sl_unit_mark_scale(uint64_t mark);

/* A unit as a message names it: "units of 60 seconds", or without a name "units
 * of 60"; scale 1: "plain units". */
struct sl_unit_name {
    uint64_t scale;
    struct sl_str counted;
};

/* Returns SLUICE_ECONF: the limit is counted in the old unit in `where`, and a
 * new policy has another. */
int sl_unit_refuse(struct sl_diag *diag, const char *where, struct sl_str limit,
                   const struct sl_unit_name *old,
                   const struct sl_unit_name *new);

/* Checks `rate` against `kind` and makes a limit of it. Every range is checked
 * here. SL_RATE_UNLIMITED and SL_RATE_NONE are refused: callers handle them
 * before. */
SL_MUST_USE int sl_limit_init(struct sl_limit *ret, enum sl_kind kind,
                              const struct sl_rate *rate,
                              const struct sl_limit_options *options,
                              struct sl_diag *diag);

/* A penalty as a policy writes it; see core/penalty.c. after 0: none. */
struct sl_penalty_rate {
    uint64_t after;            /* 1 to SL_FAILURES_MAX */
    sl_ns within, block, most; /* whole seconds; block <= most */
    uint64_t growth;           /* >= 1 */
};

#define SL_FAILURES_MAX       100000
#define SL_PENALTY_WITHIN_MAX (366 * SL_DAY)
#define SL_PENALTY_MOST_MAX   (3653 * SL_DAY)

/* Makes a limit of a valid penalty. */
struct sl_limit sl_limit_penalty(const struct sl_penalty_rate *rate,
                                 enum sl_quantum quantum);

/* Fills in the derived fields of a valid limit. */
void sl_limit_derive(struct sl_limit *limit);

/* The period of a quota that `now` lies in. Limits of other kinds have days in
 * UTC: usage of them is counted by day. */
struct sl_period sl_limit_period(const struct sl_limit *limit, sl_ns now);

/* The edge of a window that is nearest to `at`: an instant at which windows,
 * periods and refills at intervals of this limit end. Kinds without windows
 * have `at`. */
sl_ns sl_limit_edge(const struct sl_limit *limit, sl_ns at);

/* The last day of a period that ends at `end`, in the zone of the limit; days
 * since 1970. */
int64_t sl_limit_last_day(const struct sl_limit *limit, sl_ns end);

/* Equal for two limits if one may read the other's cells: same kind, period and
 * quantum. Count, burst, anchor, zone and the refill of a token bucket
 * (SL_BUCKET, SL_INTERVAL) may change: usage stays. */
uint64_t sl_limit_shape(const struct sl_limit *limit);

/* As in a policy; SL_INTERVAL is "token-bucket" too. */
const char *sl_kind_name(enum sl_kind kind);

#define SL_THRESHOLDS 8
#define SL_MARK_MAX   1000

/* Percentages of a limit, rising. Each fires one event in a period. */
struct sl_thresholds {
    uint16_t list[SL_THRESHOLDS];
    unsigned count;
};

#endif
