/* bucket.h -- the take of a bucket, inline: the table's fast path keeps its
 * result in registers. bucket.c explains what a bucket is.
 */
#ifndef SL_CORE_BUCKET_H
#define SL_CORE_BUCKET_H

#include "core/algorithm.h"

struct sl_bucket_state {
    uint64_t written; /* the tick of the last write */
    uint64_t used;    /* units, at that tick */
};

/* Without usage the cell is zeros. */
static inline struct sl_cell sl_bucket_cell(struct sl_bucket_state s)
{
    return s.used ? sl_cell_of(s.written, s.used) : sl_cell_of(0, 0);
}

static inline uint64_t sl_bucket_refill(const struct sl_limit *limit)
{
    return limit->count * limit->token;
}

/* Usage at tick `at` >= written. */
static inline uint64_t sl_bucket_used(const struct sl_limit *limit,
                                      struct sl_bucket_state s, uint64_t at)
{
    uint64_t drained;

    if (limit->kind == SL_INTERVAL)
        drained = sl_mul_sat(at / limit->span - s.written / limit->span,
                             sl_bucket_refill(limit));
    else
        drained = sl_muldiv_down(at - s.written, limit->count, limit->grain);
    return sl_sub_floor(s.used, drained);
}

/* The first tick with usage <= `most` units. */
static inline uint64_t sl_bucket_when(const struct sl_limit *limit,
                                      struct sl_bucket_state s, uint64_t most)
{
    uint64_t need = sl_sub_floor(s.used, most);
    uint64_t refill = sl_bucket_refill(limit);

    if (need == 0)
        return s.written;
    if (limit->kind == SL_INTERVAL)
        return sl_mul_sat(s.written / limit->span +
                              (need + refill - 1) / refill,
                          limit->span);
    return sl_add_sat(s.written,
                      sl_muldiv_up(need, limit->grain, limit->count));
}

static inline void sl_bucket_take(const struct sl_limit *limit,
                                  struct sl_cell cell, uint64_t cost, sl_ns now,
                                  struct sl_take_result *ret)
{
    struct sl_bucket_state s = {cell.w[0], cell.w[1]};
    uint64_t at = sl_effective_time(limit, now, &s.written);
    uint64_t used = sl_bucket_used(limit, s, at);
    uint64_t units = cost * limit->token; /* if cost <= capacity */

    sl_take_begin(limit, sl_cell_of(s.written, cell.w[1]), /* (5) */
                  s.written != cell.w[0], 0, ret);
    if (cost > limit->capacity) {
        ret->answer.outcome = SL_NEVER;
    } else if (cost > 0 && used + units > limit->room) {
        ret->answer.outcome = SL_DENY;
        ret->answer.retry_in =
            sl_until(limit, sl_bucket_when(limit, s, limit->room - units), now);
    } else {
        if (limit->kind == SL_LEAKY && used > 0) {
            uint64_t empty = sl_bucket_when(limit, s, 0);

            ret->answer.wait = sl_until(limit, empty, now);
        }
        if (cost > 0) {
            s = (struct sl_bucket_state){at, used += units};
            ret->next = sl_bucket_cell(s);
        }
    }
    ret->answer.remaining = sl_sub_floor(limit->room, used) / limit->token;
    ret->answer.reset_in =
        used ? sl_until(limit, sl_bucket_when(limit, s, 0), now) : 0;
}

/* Is it a limit that the fast path takes inline? */
static inline bool sl_bucket_is_quick(const struct sl_limit *limit)
{
    return limit->kind == SL_BUCKET && limit->quantum == SL_QUANTUM_NS;
}

/* The numbers of such a limit, with what the compiler may rely on. */
static inline struct sl_limit sl_bucket_quick(const struct sl_limit *limit)
{
    return (struct sl_limit){.kind = SL_BUCKET,
                             .quantum = SL_QUANTUM_NS,
                             .count = limit->count,
                             .capacity = limit->capacity,
                             .tick = 1,
                             .grain = limit->grain,
                             .token = limit->token,
                             .room = limit->room};
}

#endif
