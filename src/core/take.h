/* take.h -- the table of algorithms and the calls that stores make.
 *
 * take    Ask for `cost`. 0 looks without taking.
 * adjust  Correct what was taken, whatever the limit says. A positive `delta`
 *         is charged even beyond the capacity (and is then a debt that must
 *         refill before anything passes). A negative one gives back, never
 *         above full; `when` is the instant of the take that is corrected: if
 *         its window or period is over there is nothing to give back. |delta|
 *         is at most SL_AMOUNT_MAX. The answer is that of a look afterwards.
 *
 * mark    What to remember of a take that is held, so that it can be given
 *         back: made from the cell right after it.
 * unhold  Give back `amount` of what was held, as far as it is surely still
 *         counted. The rule is in hold.h.
 *
 * All are pure. `now` and `when` lie in [0, SL_TIME_END).
 */
#ifndef SL_CORE_TAKE_H
#define SL_CORE_TAKE_H

#include "base/arith.h"
#include "core/cell.h"
#include "core/hold.h"
#include "core/limit.h"

/* One algorithm; see bucket.c, window.c, sliding.c, permits.c. The result is
 * written in place: eighty bytes are worth not copying. */
struct sl_algorithm {
    void (*take)(const struct sl_limit *limit, struct sl_cell cell,
                 uint64_t cost, sl_ns now, struct sl_take_result *ret);
    void (*adjust)(const struct sl_limit *limit, struct sl_cell cell,
                   int64_t delta, sl_ns when, sl_ns now,
                   struct sl_take_result *ret);
    struct sl_hold_snapshot (*mark)(const struct sl_limit *limit,
                                    struct sl_cell next);
    struct sl_cell (*unhold)(const struct sl_limit *limit, struct sl_cell cell,
                             uint64_t amount,
                             const struct sl_hold_snapshot *mark,
                             const struct sl_since *since);
};

extern const struct sl_algorithm sl_bucket; /* also interval and leaky */
extern const struct sl_algorithm sl_window; /* fixed windows and quotas */
extern const struct sl_algorithm sl_sliding;
extern const struct sl_algorithm sl_permits; /* also levels */

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

static inline struct sl_take_result sl_adjust(const struct sl_limit *limit,
                                              struct sl_cell cell,
                                              int64_t delta, sl_ns when,
                                              sl_ns now)
{
    struct sl_take_result t;

    sl_algorithms[limit->kind]->adjust(limit, cell, delta, when, now, &t);
    return t;
}

/* The units that a bucket's cell has used at `at`. */
static inline uint64_t sl_units_used(const struct sl_limit *limit,
                                     struct sl_cell cell, sl_ns at)
{
    return sl_adjust(limit, cell, 1, at, at).next.w[1] - limit->token;
}

static inline struct sl_hold_snapshot
sl_hold_snapshot_of(const struct sl_limit *limit, struct sl_cell next)
{
    return sl_algorithms[limit->kind]->mark(limit, next);
}

static inline struct sl_cell sl_hold_refund(const struct sl_limit *limit,
                                            struct sl_cell cell,
                                            uint64_t amount,
                                            const struct sl_hold_snapshot *mark,
                                            const struct sl_since *since)
{
    return sl_algorithms[limit->kind]->unhold(limit, cell, amount, mark, since);
}

/* ---- instants in the grain of a limit, and cells from the future.
 *
 * Shared by the algorithms; nobody outside core/ needs it.
 */

/* The tick that an instant lies in. The divisor is a constant on both sides,
 * so that no division is left. */
static inline uint64_t sl_tick_of(const struct sl_limit *limit, sl_ns at)
{
    return limit->quantum == SL_QUANTUM_NS ? (uint64_t)at
                                           : (uint64_t)at / SL_US;
}

/* From `now` until `tick` begins; 0 if it has begun. */
static inline sl_ns sl_until(const struct sl_limit *limit, uint64_t tick,
                             sl_ns now)
{
    uint64_t at = sl_mul_sat(tick, (uint64_t)limit->tick);

    if (at > (uint64_t)SL_NS_MAX)
        at = (uint64_t)SL_NS_MAX;
    return (sl_ns)at > now ? (sl_ns)at - now : 0;
}

/* The tick at which a take at `now` is judged, for a cell that was written at
 * tick *written (see "Time in cells" in cell.h). If the clock has stepped
 * back, *written is pulled back to now. */
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

/* The magnitude of a delta; INT64_MIN has one too. */
static inline uint64_t sl_magnitude(int64_t delta)
{
    return delta < 0 ? 0 - (uint64_t)delta : (uint64_t)delta;
}

#endif
