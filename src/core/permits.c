/* permits.c -- permits of a concurrency limit, levels, and the algorithms by
 * kind.
 *
 * Permits and levels do not depend on time. Hold records of the store know
 * which permits are out until when.
 *
 * w[0]  always 0
 * w[1]  how many are held
 *
 * Invariants. (test/prop/permits.c checks each by number.)
 *   (1) A take never raises what is held above the limit.
 *   (2) A refund never brings it below zero.
 *   (3) A changed limit keeps what is held. If that exceeds the limit, takes
 *       are denied until enough was refunded.
 */
#include "core/algorithm.h"

static void permits_take(const struct sl_limit *limit, struct sl_cell cell,
                         uint64_t cost, sl_ns now, struct sl_take_result *ret)
{
    uint64_t free = sl_sub_floor(limit->capacity, cell.w[1]);

    (void)now;
    sl_take_begin(limit, cell, false, SL_NS_NONE, ret);
    if (cost > limit->capacity) {
        ret->answer.outcome = SL_NEVER;
    } else if (cost > free) {
        ret->answer.outcome = SL_DENY;
    } else {
        ret->next.w[1] += cost;
        free -= cost;
    }
    ret->answer.remaining = free;
}

static void permits_adjust(const struct sl_limit *limit, struct sl_cell cell,
                           int64_t delta, sl_ns when, sl_ns now,
                           struct sl_take_result *ret)
{
    uint64_t held = cell.w[1];

    (void)when;
    if (delta < 0)
        held = sl_sub_floor(held, sl_magnitude(delta)); /* (2) */
    else
        held = sl_add_sat(held, sl_magnitude(delta));
    if (held > SL_AMOUNT_MAX)
        held = SL_AMOUNT_MAX;
    cell.w[1] = held;
    permits_take(limit, cell, 0, now, ret);
}

static struct sl_hold_snapshot permits_snapshot(const struct sl_limit *limit,
                                                struct sl_cell next)
{
    (void)limit;
    (void)next;
    return (struct sl_hold_snapshot){
        {0, 0}
    };
}

static struct sl_cell permits_unhold(const struct sl_limit *limit,
                                     struct sl_cell cell, uint64_t amount,
                                     const struct sl_hold_snapshot *snapshot,
                                     const struct sl_since *since)
{
    (void)limit;
    (void)snapshot;
    (void)since;
    return sl_cell_of(0, sl_sub_floor(cell.w[1], amount)); /* (2) */
}

const struct sl_algorithm sl_permits = {permits_take, permits_adjust,
                                        permits_snapshot, permits_unhold};

const struct sl_algorithm *const sl_algorithms[SL_KINDS] = {
    [SL_BUCKET] = &sl_bucket,   [SL_INTERVAL] = &sl_bucket,
    [SL_LEAKY] = &sl_bucket,    [SL_FIXED] = &sl_window,
    [SL_SLIDING] = &sl_sliding, [SL_QUOTA] = &sl_window,
    [SL_PERMITS] = &sl_permits, [SL_LEVEL] = &sl_permits,
    [SL_PENALTY] = &sl_penalty,
};
