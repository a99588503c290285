/* bucket.c -- token buckets, refilled continuously or by the period, and the
 * leaky bucket that paces.
 *
 * A bucket starts full and remembers how much of it is used, and when that was
 * written. What is used drains at the configured rate:
 *
 *   used
 *     ^  room ------------------------------------ capacity
 *     |          *  a take lifts what is used by its cost
 *     |        * | .
 *     |      *   |   .   the slope is count per period
 *     |          |     .
 *     +----------+-------.--------------> time
 *             written   full again
 *
 * Keeping what is used, and not the time at which the bucket will be full
 * again, is what lets a plan change keep it: the new capacity and the new rate
 * apply to the same amount at once.
 *
 * w[0]  the tick of the last write
 * w[1]  what was used then, in units (see "Units" in limit.h)
 *
 * What has drained is rounded down to a unit, so that a token grows back late
 * by a unit at most, never early; between instants that are whole grains apart
 * nothing is rounded at all. One take loses less than one unit and takes at
 * least one token, so the sustained rate is at most 0.6 ppm below the
 * configured one in the table, and 4.8 ppm in stores of doubles (twice that
 * for periods that are no whole number of grains).
 *
 * More than the capacity may be used: after a change to a smaller plan, or
 * after a charge beyond the limit (sl_adjust). All of it must drain; whoever
 * could shed a part of it by changing plans to and fro would pass any bound.
 *
 * The interval bucket drains `count` at every multiple of the period since the
 * epoch, and nothing between. The leaky bucket holds one request in service
 * and `queue` waiting; an admitted request waits until what was there before
 * it has drained.
 *
 * Invariants. (test/prop/bucket.c and interval.c check each by number.)
 *   (1) Only an allowed take with cost > 0, or an adjustment, changes what is
 *       used.
 *   (2) A take never lifts what is used above the capacity.
 *   (3) retry_in is exact: left alone, the cell refuses the same take at every
 *       instant before now + retry_in and allows it at that instant.
 *   (4) In any span of length L at most burst + L * count / period tokens are
 *       allowed, and under saturation no more than 10 ppm less.
 *   (5) A clock that steps back grants nothing; remaining falls by costs only,
 *       and nobody who has used no more than the capacity waits longer than
 *       one refill (and SL_JITTER).
 *   (6) A clock that steps forward grants at most one full capacity.
 *   (7) A changed count or burst keeps what was used: what is available is the
 *       new capacity less what is used.
 *   (8) Leaky: requests leave (now + wait) in the order of their arrival, at
 *       least one interval, rounded down to a tick, apart.
 */
#include "core/take.h"

/* The most that can be owed, where numbers are doubles too. */
static uint64_t used_most(const struct sl_limit *limit)
{
    unsigned bits = limit->quantum == SL_QUANTUM_NS ? SL_CELL_W1_BITS : 53;

    return (UINT64_C(1) << bits) - 1;
}

struct state {
    uint64_t written; /* the tick of the last write */
    uint64_t used;    /* units, at that tick */
};

/* A bucket with nothing used is the cell of zeros, whatever its time. */
static struct sl_cell pack(struct state s)
{
    return s.used ? sl_cell_of(s.written, s.used) : sl_cell_of(0, 0);
}

/* The units that an interval bucket gets in a period. */
static uint64_t pour(const struct sl_limit *limit)
{
    return limit->count * limit->token;
}

/* What is still used at tick `at` >= written. */
static uint64_t used_at(const struct sl_limit *limit, struct state s,
                        uint64_t at)
{
    uint64_t drained;

    if (limit->kind == SL_INTERVAL)
        drained =
            sl_mul_sat(at / limit->span - s.written / limit->span, pour(limit));
    else
        drained = sl_muldiv_down(at - s.written, limit->count, limit->grain);
    return sl_sub_floor(s.used, drained);
}

/* The first tick at which no more than `most` units are used. */
static uint64_t tick_when(const struct sl_limit *limit, struct state s,
                          uint64_t most)
{
    uint64_t need = sl_sub_floor(s.used, most);

    if (need == 0)
        return s.written;
    if (limit->kind == SL_INTERVAL)
        return sl_mul_sat(s.written / limit->span +
                              (need + pour(limit) - 1) / pour(limit),
                          limit->span);
    return sl_add_sat(s.written,
                      sl_muldiv_up(need, limit->grain, limit->count));
}

static void bucket_take(const struct sl_limit *limit, struct sl_cell cell,
                        uint64_t cost, sl_ns now, struct sl_take_result *ret)
{
    struct state s = {cell.w[0], cell.w[1]};
    uint64_t at = sl_effective_time(limit, now, &s.written);
    uint64_t used = used_at(limit, s, at);
    uint64_t units = cost * limit->token; /* if cost <= capacity */

    *ret = (struct sl_take_result){
        .answer = {.outcome = SL_ALLOW,
                   .limit = limit->count,
                   .capacity = limit->capacity,
                   .retry_in = SL_NS_NONE},
        .next = {{s.written, cell.w[1]}}, /* (5) */
        .stepped = s.written != cell.w[0],
    };
    if (cost > limit->capacity) {
        ret->answer.outcome = SL_NEVER;
    } else if (cost > 0 && used + units > limit->room) {
        ret->answer.outcome = SL_DENY;
        ret->answer.retry_in =
            sl_until(limit, tick_when(limit, s, limit->room - units), now);
    } else {
        if (limit->kind == SL_LEAKY && used > 0)
            ret->answer.wait = sl_until(limit, tick_when(limit, s, 0), now);
        if (cost > 0) {
            s = (struct state){at, used += units};
            ret->next = pack(s);
        }
    }
    ret->answer.remaining = sl_sub_floor(limit->room, used) / limit->token;
    ret->answer.reset_in =
        used ? sl_until(limit, tick_when(limit, s, 0), now) : 0;
}

static void bucket_adjust(const struct sl_limit *limit, struct sl_cell cell,
                          int64_t delta, sl_ns when, sl_ns now,
                          struct sl_take_result *ret)
{
    struct state s = {cell.w[0], cell.w[1]};
    uint64_t at = sl_effective_time(limit, now, &s.written);
    bool stepped = s.written != cell.w[0];
    uint64_t units = sl_mul_sat(sl_magnitude(delta), limit->token);

    (void)when; /* what came back since then is a gift to the key, no more */
    if (delta == 0) {
        bucket_take(limit, cell, 0, now, ret);
        return;
    }
    s.used = used_at(limit, s, at);
    s.written = at;
    if (delta < 0)
        s.used = sl_sub_floor(s.used, units);
    else
        s.used = sl_add_sat(s.used, units);
    if (s.used > used_most(limit))
        s.used = used_most(limit);
    bucket_take(limit, pack(s), 0, now, ret);
    ret->next = pack(s);
    ret->stepped = stepped;
}

static struct sl_hold_snapshot bucket_mark(const struct sl_limit *limit,
                                           struct sl_cell next)
{
    (void)limit;
    return (struct sl_hold_snapshot){
        {next.w[0], next.w[1]}
    };
}

/* What is surely still used of the bucket that the mark shows, at tick `at` of
 * the clock of now. An interval bucket is refilled by the calendar of a clock
 * that went its own way: it may have been once more. */
static uint64_t surely_used(const struct sl_limit *limit,
                            const struct sl_hold_snapshot *mark, uint64_t at,
                            uint64_t stepped)
{
    struct state then = {mark->w[0], mark->w[1]};

    at = sl_add_sat(at, stepped);
    if (stepped > 0 && limit->kind == SL_INTERVAL)
        at = sl_add_sat(at, limit->span);
    return used_at(limit, then, at > then.written ? at : then.written);
}

static struct sl_cell bucket_unhold(const struct sl_limit *limit,
                                    struct sl_cell cell, uint64_t amount,
                                    const struct sl_hold_snapshot *mark,
                                    const struct sl_since *since)
{
    struct state s = {cell.w[0], cell.w[1]};
    uint64_t at = sl_tick_of(limit, since->ends);
    uint64_t back = sl_mul_sat(amount, limit->token);
    uint64_t sure;

    if (at < s.written) /* the cell has been judged at a later reading */
        at = s.written;
    sure = surely_used(limit, mark, at, sl_tick_of(limit, since->stepped));
    if (back > sure)
        back = sure;
    if (back == 0)
        return cell;
    s = (struct state){at, sl_sub_floor(used_at(limit, s, at), back)};
    return pack(s);
}

const struct sl_algorithm sl_bucket = {bucket_take, bucket_adjust, bucket_mark,
                                       bucket_unhold};
