/* hold.h -- how much of a held take is refunded when the hold ends.
 *
 * Windows. Usage counts until its window ends. Until then all of it is
 * refunded, afterwards nothing. The snapshot is the window.
 *
 * Permits and levels. All of it is refunded, always.
 *
 * Buckets. Let U be the usage, and W the usage if the hold had never been.
 * After the take they differ by the hold's cost h. Then both drain alike, until
 * W is empty and U alone drains. So the refund may be
 *
 *   D = U - W = min(h, the least U since the take)
 *
 * The least is not recorded. But U falls only by draining and by refunds, so
 *
 *   S = used after the take - drained since - refunds of others since
 *
 * is a lower bound of it. A second lower bound is
 *
 *   T = h - drained since - unheld refunds since
 *
 * where unheld refunds are those that do not come from holds. T may ignore the
 * refunds of other holds: by (1) the end of a hold never lowers the usage below
 * what it would be without that hold. So the end of a younger hold takes
 * nothing from an older one. The greater of S and T is certainly still used,
 * and as much of h is refunded.
 *
 * The snapshot is the bucket after the take: left alone, it drains to S. The
 * store subtracts the refunds of others (sl_hold_snapshot_reduce).
 *
 * If the clock has stepped back by `stepped` in between, a bucket has drained
 * that much longer than the clock shows. A window refunds only if the clock has
 * certainly been inside it all the time.
 *
 * Invariants. (test/prop/holds.c checks each by number.)
 *   (1) Usage after the end of a hold is no less than if it had never been, and
 *       no more than if it had been taken for good.
 *   (2) A limit with holds admits no more than its bound, where a hold counts
 *       with its settled cost.
 *   (3) Permits and levels get back exactly what was held; windows too while
 *       the window of the take lasts, and nothing afterwards.
 */
#ifndef SL_CORE_HOLD_H
#define SL_CORE_HOLD_H

#include "base/arith.h"
#include "core/cell.h"
#include "core/limit.h"

/* Buckets: tick and units of the cell after the take. Windows: first and last
 * tick of the window of the take. Otherwise zeros. */
struct sl_hold_snapshot {
    uint64_t w[2];
};

/* From a take to the end of its hold. */
struct sl_since {
    sl_ns taken;
    sl_ns ends;    /* not before the cell's own time */
    sl_ns stepped; /* how far the clock stepped back in between */
};

/* Refunds to a bucket since the take of a hold, in units. */
struct sl_refunds {
    uint64_t all;    /* at least those of others than the hold */
    uint64_t unheld; /* those without a hold */
};

/* The snapshot less these refunds. S and T drain alike: the greater one stays.
 */
static inline struct sl_hold_snapshot
sl_hold_snapshot_reduce(const struct sl_limit *limit,
                        const struct sl_hold_snapshot *snapshot, uint64_t cost,
                        const struct sl_refunds *since)
{
    uint64_t own = sl_sub_floor(sl_mul_sat(cost, limit->token), since->unheld);
    uint64_t all = sl_sub_floor(snapshot->w[1], since->all);

    return (struct sl_hold_snapshot){
        {snapshot->w[0], own > all ? own : all}
    };
}

/* Was the clock inside the window from the take to the end, with all steps? */
static inline bool
sl_hold_snapshot_lasted(const struct sl_limit *limit,
                        const struct sl_hold_snapshot *snapshot,
                        const struct sl_since *since)
{
    uint64_t tick = (uint64_t)limit->tick;
    uint64_t taken = (uint64_t)since->taken / tick;
    uint64_t ends = (uint64_t)since->ends / tick;
    uint64_t stepped = (uint64_t)since->stepped / tick;

    return stepped == 0 ||
           (taken >= snapshot->w[0] && taken - snapshot->w[0] >= stepped &&
            ends + stepped < snapshot->w[1]);
}

#endif
