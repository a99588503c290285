/* bucket.c -- token buckets, refilled continuously or by the period, and the
 * leaky bucket. The take of all three is inline in bucket.h, with the waiting
 * time of the leaky bucket.
 *
 * A bucket starts full. Its cell has the usage and the time of its last write.
 * Usage drains at the configured rate:
 *
 *   used
 *     ^  room ------------------------------------ capacity
 *     |          *  a take adds its cost
 *     |        * | .
 *     |      *   |   .   the slope is count per period
 *     |          |     .
 *     +----------+-------.--------------> time
 *             written   full again
 *
 * The cell keeps the usage, not the time when the bucket is full again, so that
 * a change of plan keeps it: new capacity and rate apply to the same usage.
 *
 * w[0]  the tick of the last write
 * w[1]  the usage then, in units (see "Units" in limit.h)
 *
 * Draining is rounded down to a unit: a token returns at most one unit late,
 * never early. At whole grains nothing is rounded. Rounding costs each take
 * less than one unit, and a token has many units. So the sustained rate is at
 * most 0.6 ppm below the configured one in the table, and 4.8 ppm in stores of
 * doubles (twice that for periods that are no whole number of grains).
 *
 * Usage may exceed the capacity after a change to a smaller plan or after a
 * charge. All of it must drain; otherwise changes of plan could remove usage.
 *
 * The interval bucket drains `count` at every multiple of the period since the
 * epoch. The leaky bucket has one request in service and `queue` waiting; an
 * admitted request waits until the usage before it has drained.
 *
 * Invariants. (test/prop/bucket.c and interval.c check each by number.)
 *   (1) Only an allowed take with cost > 0, or an adjustment, changes usage.
 *   (2) A take never raises usage above the capacity.
 *   (3) retry_in is exact: left alone, the cell denies the same take at every
 *       instant before now + retry_in and allows it at that instant.
 *   (4) In any span of length L at most burst + L * count / period tokens are
 *       allowed, and under saturation no more than 10 ppm less.
 *   (5) A clock that steps back grants nothing; remaining falls by costs only,
 *       and a key within its capacity waits at most one refill (and SL_JITTER).
 *   (6) A clock that steps forward grants at most one full capacity.
 *   (7) A changed count or burst keeps the usage: the rest of the new capacity
 *       is available.
 *   (8) Leaky: requests leave (now + wait) in the order of their arrival, at
 *       least one interval, rounded down to a tick, apart.
 */
#include "core/bucket.h"

/* The largest usage; in doubles, too. */
static uint64_t used_most(const struct sl_limit *limit)
{
    unsigned bits = limit->quantum == SL_QUANTUM_NS ? SL_CELL_W1_BITS : 53;

    return (UINT64_C(1) << bits) - 1;
}

static void bucket_take(const struct sl_limit *limit, struct sl_cell cell,
                        uint64_t cost, sl_ns now, struct sl_take_result *ret)
{
    sl_bucket_take(limit, cell, cost, now, ret);
}

static void bucket_adjust(const struct sl_limit *limit, struct sl_cell cell,
                          int64_t delta, sl_ns when, sl_ns now,
                          struct sl_take_result *ret)
{
    struct sl_bucket_state s = {cell.w[0], cell.w[1]};
    uint64_t at = sl_effective_time(limit, now, &s.written);
    bool stepped = s.written != cell.w[0];
    uint64_t units = sl_mul_sat(sl_magnitude(delta), limit->token);

    (void)when;
    if (delta == 0) {
        bucket_take(limit, cell, 0, now, ret);
        return;
    }
    s.used = sl_bucket_used(limit, s, at);
    s.written = at;
    if (delta < 0)
        s.used = sl_sub_floor(s.used, units);
    else
        s.used = sl_add_sat(s.used, units);
    if (s.used > used_most(limit))
        s.used = used_most(limit);
    bucket_take(limit, sl_bucket_cell(s), 0, now, ret);
    ret->next = sl_bucket_cell(s);
    ret->stepped = stepped;
}

static struct sl_hold_snapshot bucket_snapshot(const struct sl_limit *limit,
                                               struct sl_cell next)
{
    (void)limit;
    return (struct sl_hold_snapshot){
        {next.w[0], next.w[1]}
    };
}

/* The usage of the snapshot's bucket that certainly remains at tick `at`. If
 * the clock has stepped, an interval bucket may have refilled once more. */
static uint64_t surely_used(const struct sl_limit *limit,
                            const struct sl_hold_snapshot *snapshot,
                            uint64_t at, uint64_t stepped)
{
    struct sl_bucket_state then = {snapshot->w[0], snapshot->w[1]};

    at = sl_add_sat(at, stepped);
    if (stepped > 0 && limit->kind == SL_INTERVAL)
        at = sl_add_sat(at, limit->span);
    return sl_bucket_used(limit, then, at > then.written ? at : then.written);
}

static struct sl_cell bucket_unhold(const struct sl_limit *limit,
                                    struct sl_cell cell, uint64_t amount,
                                    const struct sl_hold_snapshot *snapshot,
                                    const struct sl_since *since)
{
    struct sl_bucket_state s = {cell.w[0], cell.w[1]};
    uint64_t at = sl_tick_of(limit, since->ends);
    uint64_t back = sl_mul_sat(amount, limit->token);
    uint64_t sure;

    if (at < s.written) /* judged at a later reading */
        at = s.written;
    sure = surely_used(limit, snapshot, at, sl_tick_of(limit, since->stepped));
    if (back > sure)
        back = sure;
    if (back == 0)
        return cell;
    s = (struct sl_bucket_state){
        at, sl_sub_floor(sl_bucket_used(limit, s, at), back)};
    return sl_bucket_cell(s);
}

const struct sl_algorithm sl_bucket = {bucket_take, bucket_adjust,
                                       bucket_snapshot, bucket_unhold};
