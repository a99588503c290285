/* take.c -- things that are held until they are given back: permits of a
 * concurrency limit, and levels such as links or gigabytes that exist.
 *
 * No clock is involved. Who holds a permit, and until when, is the business of
 * the hold records beside the table; here is only how many are out.
 *
 * w[0]  always 0
 * w[1]  how many are held
 *
 * Invariants. (test/prop/permits.c checks each by number.)
 *   (1) A take never lifts what is held above the limit.
 *   (2) Giving back never brings it below zero.
 *   (3) A changed limit keeps what is held; if that is more than the limit,
 *       nothing passes until enough was given back.
 */
#include "core/take.h"

static void permits_take(const struct sl_limit *limit, struct sl_cell cell,
                         uint64_t cost, sl_ns now, struct sl_take_result *ret)
{
    uint64_t free = sl_sub_floor(limit->capacity, cell.w[1]);

    (void)now;
    *ret = (struct sl_take_result){
        .answer = {.outcome = SL_ALLOW,
                   .limit = limit->count,
                   .capacity = limit->capacity,
                   .retry_in = SL_NS_NONE,
                   .reset_in = SL_NS_NONE},
        .next = cell,
    };
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

static struct sl_hold_snapshot permits_mark(const struct sl_limit *limit,
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
                                     const struct sl_hold_snapshot *mark,
                                     const struct sl_since *since)
{
    (void)limit;
    (void)mark;
    (void)since;
    return sl_cell_of(0, sl_sub_floor(cell.w[1], amount)); /* (2) */
}

const struct sl_algorithm sl_permits = {permits_take, permits_adjust,
                                        permits_mark, permits_unhold};

/* ---- which algorithm serves which kind. */

const struct sl_algorithm *const sl_algorithms[SL_KINDS] = {
    [SL_BUCKET] = &sl_bucket,   [SL_INTERVAL] = &sl_bucket,
    [SL_LEAKY] = &sl_bucket,    [SL_FIXED] = &sl_window,
    [SL_SLIDING] = &sl_sliding, [SL_QUOTA] = &sl_window,
    [SL_PERMITS] = &sl_permits, [SL_LEVEL] = &sl_permits,
};
