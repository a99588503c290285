/* hold.h -- what a held take leaves behind, and what comes back of it.
 *
 * Whoever holds has taken; when the hold ends, what was not used is given
 * back. How much of it may be given back is what this is about.
 *
 * Windows. What was taken counts until its window ends. Until then all of it
 * comes back; afterwards it has come back by itself. The mark is the window.
 *
 * Permits and levels. All of it comes back, always.
 *
 * Buckets. A bucket drains whoever has filled it. Let U be what is used, and W
 * what would be used if the hold had never been. Right after the take they are
 * the hold's cost h apart; then both drain alike, until W is empty and U alone
 * goes on. So what may come back is
 *
 *   D = U - W = min(h, the least that U has been since the take)
 *
 * and nobody keeps a record of the least. But U falls by draining and by what
 * is given back, and by nothing else, so that
 *
 *   S = used right after the take - drained since - given back by others since
 *
 * is never more than it. Nor is
 *
 *   T = h - drained since - gifts since
 *
 * where gifts are what was given back without having been held. For the end of
 * another hold leaves no less than if that had never been (1), and where no
 * other ever was, h has been used since the take, and has but drained. So the
 * end of a younger hold takes nothing from an older one. The greater of S and T
 * is surely still used, and as much of h comes back.
 *
 * The mark is the bucket right after the take: left alone, it drains to S. What
 * others gave back is the store's to know: it takes that from the mark before
 * it asks (sl_hold_snapshot_reduce).
 *
 * A clock that has stepped back by `stepped` in between. A bucket has drained
 * that much longer than the clock shows. In a window, what was taken comes back
 * only if the clock has surely been inside it all the time.
 *
 * Invariants. (test/prop/holds.c checks each by number.)
 *   (1) What is used after the end of a hold is no less than if it had never
 *       been, and no more than if it had been taken for good.
 *   (2) A limit with holds admits no more than its bound, where a hold counts
 *       with what it was settled for.
 *   (3) Permits and levels get back exactly what was held; windows too, as
 *       long as the window of the take lasts, and nothing afterwards.
 */
#ifndef SL_CORE_HOLD_H
#define SL_CORE_HOLD_H

#include "base/arith.h"
#include "core/cell.h"
#include "core/limit.h"

/* Buckets: the tick and the units used of the cell after the take. Windows: the
 * ticks at which the window of the take begins and ends. Otherwise zeros. */
struct sl_hold_snapshot {
    uint64_t w[2];
};

/* From a take to the end of its hold. */
struct sl_since {
    sl_ns taken;   /* by the clock of then */
    sl_ns ends;    /* by the clock of now; not before the cell's own time */
    sl_ns stepped; /* how far the clock has stepped back between them */
};

static inline bool sl_is_bucket(enum sl_kind kind)
{
    return kind == SL_BUCKET || kind == SL_INTERVAL || kind == SL_LEAKY;
}

/* What was given back to a bucket since the take of a hold, in units. */
struct sl_refunds {
    uint64_t all;   /* by anybody, or more; but for the hold itself */
    uint64_t gifts; /* of it, by no hold */
};

/* The mark of a take of `cost` from a bucket, less that. S and T drain alike,
 * so that the greater stays the greater. */
static inline struct sl_hold_snapshot
sl_hold_snapshot_reduce(const struct sl_limit *limit,
                        const struct sl_hold_snapshot *mark, uint64_t cost,
                        const struct sl_refunds *since)
{
    uint64_t own = sl_sub_floor(sl_mul_sat(cost, limit->token), since->gifts);
    uint64_t all = sl_sub_floor(mark->w[1], since->all);

    return (struct sl_hold_snapshot){
        {mark->w[0], own > all ? own : all}
    };
}

/* Has the clock been inside the window of the mark from the take to the end,
 * wherever it went in between? */
static inline bool sl_hold_snapshot_lasted(const struct sl_limit *limit,
                                           const struct sl_hold_snapshot *mark,
                                           const struct sl_since *since)
{
    uint64_t tick = (uint64_t)limit->tick;
    uint64_t taken = (uint64_t)since->taken / tick;
    uint64_t ends = (uint64_t)since->ends / tick;
    uint64_t stepped = (uint64_t)since->stepped / tick;

    return stepped == 0 ||
           (taken >= mark->w[0] && taken - mark->w[0] >= stepped &&
            ends + stepped < mark->w[1]);
}

#endif
