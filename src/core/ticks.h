/* ticks.h -- instants in the grain of a limit, and cells from the future.
 *
 * Shared by the algorithms; nobody outside core/ needs it.
 */
#ifndef SL_TICKS_H
#define SL_TICKS_H

#include "base/arith.h"
#include "core/cell.h"
#include "core/limit.h"

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
