/* algorithm.h -- the algorithms and the calls that stores make.
 *
 * take      Takes `cost`; 0 peeks.
 * peek      The answer of a take of `cost`, with what remains without it.
 * adjust    Corrects usage, whatever the limit. A positive `delta` is charged
 *           even beyond the capacity, and must then refill before anything
 *           passes. A negative one is refunded, never above full; `when` is the
 *           time of the take: if its window is over, nothing is refunded.
 *           |delta| <= SL_AMOUNT_MAX. The answer is a peek afterwards.
 * snapshot  What a hold keeps of its take, from the cell after it.
 * unhold    Refunds `amount` of a hold as far as it still counts; see hold.h.
 *
 * All are pure. `now` and `when` are in [0, SL_TIME_END).
 */
#ifndef SL_CORE_ALGORITHM_H
#define SL_CORE_ALGORITHM_H

#include "base/arith.h"
#include "core/cell.h"
#include "core/hold.h"
#include "core/limit.h"

/* The result is written in place, because it has eighty bytes. */
struct sl_algorithm {
    void (*take)(const struct sl_limit *limit, struct sl_cell cell,
                 uint64_t cost, sl_ns now, struct sl_take_result *ret);
    void (*adjust)(const struct sl_limit *limit, struct sl_cell cell,
                   int64_t delta, sl_ns when, sl_ns now,
                   struct sl_take_result *ret);
    struct sl_hold_snapshot (*snapshot)(const struct sl_limit *limit,
                                        struct sl_cell next);
    struct sl_cell (*unhold)(const struct sl_limit *limit, struct sl_cell cell,
                             uint64_t amount,
                             const struct sl_hold_snapshot *snapshot,
                             const struct sl_since *since);
};

extern const struct sl_algorithm sl_bucket; /* also interval and leaky */
extern const struct sl_algorithm sl_window; /* fixed windows and quotas */
extern const struct sl_algorithm sl_sliding;
extern const struct sl_algorithm sl_permits; /* also levels */
extern const struct sl_algorithm sl_penalty;

/* By kind. */
extern const struct sl_algorithm *const sl_algorithms[SL_KINDS];

static inline struct sl_take_result sl_take(const struct sl_limit *limit,
                                            struct sl_cell cell, uint64_t cost,
                                            sl_ns now)
{
    struct sl_take_result t;

    sl_algorithms[limit->kind]->take(limit, cell, cost, now, &t);
    return t;
}

static inline struct sl_take_result sl_take_peek(const struct sl_limit *limit,
                                                 struct sl_cell cell,
                                                 uint64_t cost, sl_ns now)
{
    struct sl_answer would = sl_take(limit, cell, cost, now).answer;
    struct sl_take_result t = sl_take(limit, cell, 0, now);

    t.answer.outcome = would.outcome;
    t.answer.retry_in = would.retry_in;
    return t;
}

static inline struct sl_take_result sl_adjust(const struct sl_limit *limit,
                                              struct sl_cell cell,
                                              int64_t delta, sl_ns when,
                                              sl_ns now)
{
    struct sl_take_result t;

    sl_algorithms[limit->kind]->adjust(limit, cell, delta, when, now, &t);
    return t;
}

/* Units used of a bucket's cell at `at`. */
static inline uint64_t sl_units_used(const struct sl_limit *limit,
                                     struct sl_cell cell, sl_ns at)
{
    return sl_adjust(limit, cell, 1, at, at).next.w[1] - limit->token;
}

static inline struct sl_hold_snapshot
sl_hold_snapshot_of(const struct sl_limit *limit, struct sl_cell next)
{
    return sl_algorithms[limit->kind]->snapshot(limit, next);
}

static inline struct sl_cell
sl_hold_refund(const struct sl_limit *limit, struct sl_cell cell,
               uint64_t amount, const struct sl_hold_snapshot *snapshot,
               const struct sl_since *since)
{
    return sl_algorithms[limit->kind]->unhold(limit, cell, amount, snapshot,
                                              since);
}

/* ---- for the algorithms ---- */

/* The tick of an instant. Constant divisors avoid a division. */
static inline uint64_t sl_tick_of(const struct sl_limit *limit, sl_ns at)
{
    return limit->quantum == SL_QUANTUM_NS ? (uint64_t)at
                                           : (uint64_t)at / SL_US;
}

/* Time until `tick` begins; 0: it has begun. */
static inline sl_ns sl_until(const struct sl_limit *limit, uint64_t tick,
                             sl_ns now)
{
    uint64_t at = limit->quantum == SL_QUANTUM_NS
                      ? tick
                      : sl_mul_sat(tick, (uint64_t)SL_US);

    if (at > (uint64_t)SL_NS_MAX)
        at = (uint64_t)SL_NS_MAX;
    return (sl_ns)at > now ? (sl_ns)at - now : 0;
}

/* The tick at which a take is judged, for a cell written at tick *written; see
 * "Time in cells" in cell.h. After a step back, *written is set to now. */
static inline uint64_t sl_effective_time(const struct sl_limit *limit,
                                         sl_ns now, uint64_t *written)
{
    uint64_t tick = sl_tick_of(limit, now);

    if (*written <= tick)
        return tick;
    if (*written - tick <= sl_tick_of(limit, SL_JITTER))
        return *written;
    return *written = tick;
}

/* The answer ALLOW, for algorithms to fill in. */
static inline void sl_take_begin(const struct sl_limit *limit,
                                 struct sl_cell next, bool stepped,
                                 sl_ns reset_in, struct sl_take_result *ret)
{
    *ret = (struct sl_take_result){
        .answer = {.outcome = SL_ALLOW,
                   .limit = limit->count,
                   .capacity = limit->capacity,
                   .retry_in = SL_NS_NONE,
                   .reset_in = reset_in},
        .next = next,
        .stepped = stepped,
    };
}

/* Also for INT64_MIN. */
static inline uint64_t sl_magnitude(int64_t delta)
{
    return delta < 0 ? 0 - (uint64_t)delta : (uint64_t)delta;
}

#endif
