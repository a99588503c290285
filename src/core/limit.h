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
 *
 * The quantum is what a store counts in: ticks of 1 ns and up to 2^24 units to
 * a token in the table, ticks of 1 us and up to 2^21 units in stores whose
 * numbers are doubles. An instant is rounded down to its tick.
 *
 * Units. The period is cut into as many grains as a token has units: `grain`
 * is the least of 1, 2, 5, 10, 20, 50, ... ticks that makes them not too many.
 * A rate of one per period pours one unit in a grain, and `count` per period
 * pours `count` units: whatever the count, nothing is rounded at whole grains.
 * A minute has grains of 5 us, an hour of 0.5 ms, a day of 10 ms. And since a
 * unit depends on the period alone, an amount in units means the same under
 * every plan.
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
    SL_KINDS /* how many there are */
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

struct sl_limit {
    enum sl_kind kind;
    enum sl_quantum quantum;
    uint64_t count;    /* per period; what the user calls the limit */
    uint64_t capacity; /* the most that can be taken at once; >= 1 */
    sl_ns period;      /* 0 for permits, levels and calendars */
    bool calendar;     /* a quota that follows cal instead of period */
    struct sl_calendar cal;

    /* Derived. */
    sl_ns tick;     /* 1 or 1000 ns */
    uint64_t span;  /* the period in ticks */
    uint64_t grain; /* buckets: ticks in which `count` units are poured */
    uint64_t token; /* buckets: units of a token; span / grain, rounded up */
    uint64_t room;  /* buckets: units held, capacity * token */
};

/* What sl_limit_init() needs beside the rate. Zeros are good defaults: the
 * nanosecond quantum, UTC, anchor 1. */
struct sl_limit_options {
    enum sl_quantum quantum;
    const struct sl_zone *zone; /* quotas; NULL = UTC; borrowed for the
                                 * limit's life */
    uint32_t anchor;            /* quotas: 0 = 1 */
};

/* Check `rate` against `kind` and make a limit of it. Refuses with a sentence:
 * counts of 0, counts, periods and rates out of range, a burst where there is
 * none, weeks and months outside quotas, and so on. SL_RATE_UNLIMITED and
 * SL_RATE_NONE are no limits and are refused too: whoever reads plans handles
 * them first. */
SL_MUST_USE int sl_limit_init(struct sl_limit *ret, enum sl_kind kind,
                              const struct sl_rate *rate,
                              const struct sl_limit_options *options,
                              struct sl_diag *diag);

/* Fill in the derived fields of a limit whose others are known to be right:
 * for stores that keep the numbers of a limit and make it again from them. */
void sl_limit_derive(struct sl_limit *limit);

/* A number that two limits share exactly if one may read the other's cells:
 * same kind, same period, same quantum. Count, burst, anchor and zone may
 * change, and a token bucket its way of refilling (SL_BUCKET, SL_INTERVAL):
 * what was used stays used. */
uint64_t sl_limit_shape(const struct sl_limit *limit);

/* "token-bucket", "leaky-bucket", ... as in a policy. SL_INTERVAL is
 * "token-bucket" too. */
const char *sl_kind_name(enum sl_kind kind);

/* ---- how much of a limit is used, where people want to be told. */

#define SL_THRESHOLDS 8
#define SL_MARK_MAX   1000

/* Percent of a limit, rising. At each of them one event is told in a period. */
struct sl_thresholds {
    uint16_t list[SL_THRESHOLDS];
    unsigned count;
};

#endif
