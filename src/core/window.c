/* window.c -- sliding windows, fixed windows and quotas.
 *
 * A sliding window is estimated from two fixed ones. Time is divided into
 * buckets of one period, aligned to the epoch. Usage of the current bucket
 * counts in full, usage of the previous one by the share that the sliding
 * window still covers:
 *
 *        previous            current
 *   |------------------|------------------|
 *          |<------- one period ------>|
 *                      |<----- e ----->|now
 *
 *   taken = current + previous * (period - e) / period
 *
 * in exact integers, compared before any division.
 *
 * w[0]  bits 0..31 taken in the current bucket; bits 32..62 the low 31 bits
 *       of the bucket's index
 * w[1]  bits 0..31 taken in the previous bucket; bits 32..55 the high bits of
 *       the index
 *
 * Invariants. (test/prop/sliding.c checks each by number.)
 *   (1) A take passes exactly if taken + cost <= limit by the formula above.
 *   (2) In any span of one period less than twice the limit is taken. The
 *       worst case for a limit of 10 is 19.
 *   (3) retry_in is exact, as in bucket.c.
 *   (4) A clock that steps back grants nothing and denies for at most two
 *       periods longer; one that steps forward grants at most one limit.
 *   (5) A changed limit keeps what was taken.
 */
#include "core/algorithm.h"

#define LOW_BITS   31
#define LOW_MASK   ((UINT64_C(1) << LOW_BITS) - 1)
#define TAKEN_MASK UINT64_C(0xffffffff)

struct state {
    uint64_t index; /* of the current bucket */
    uint64_t current;
    uint64_t previous;
};

static struct state unpack(struct sl_cell cell)
{
    return (struct state){
        .index = (cell.w[0] >> 32) | (cell.w[1] >> 32) << LOW_BITS,
        .current = cell.w[0] & TAKEN_MASK,
        .previous = cell.w[1] & TAKEN_MASK,
    };
}

static struct sl_cell pack(struct state s)
{
    if (s.current == 0 && s.previous == 0)
        return sl_cell_of(0, 0);
    return sl_cell_of(s.current | (s.index & LOW_MASK) << 32,
                      s.previous | (s.index >> LOW_BITS) << 32);
}

/* The tick at which a take is judged. The cell's time is the start of its
 * bucket. After a step back all usage counts in the bucket of now: how much of
 * the previous one had expired is unknown, and less might grant something. (4)
 */
static uint64_t judged_at(const struct sl_limit *limit, sl_ns now,
                          struct state *s)
{
    uint64_t start = s->index * limit->span;
    uint64_t at = sl_effective_time(limit, now, &start);

    if (start == s->index * limit->span)
        return at;
    s->index = at / limit->span;
    s->current += s->previous;
    s->previous = 0;
    if (s->current > TAKEN_MASK)
        s->current = TAKEN_MASK;
    return at;
}

/* The state at tick `at`. */
static struct state rolled(const struct sl_limit *limit, struct state s,
                           uint64_t at)
{
    uint64_t index = at / limit->span;

    if (index == s.index)
        return s;
    if (index == s.index + 1)
        return (struct state){.index = index, .previous = s.current};
    return (struct state){.index = index};
}

/* What remains at tick `at`, in the state's bucket. */
static uint64_t left_at(const struct sl_limit *limit, struct state s,
                        uint64_t at)
{
    uint64_t ahead = (s.index + 1) * limit->span - at; /* period - e */
    uint64_t counted = sl_muldiv_up(s.previous, ahead, limit->span);

    return sl_sub_floor(limit->capacity, s.current + counted);
}

/* The first tick at which a denied take passes: when enough of the previous
 * bucket has expired, or else, in the next bucket, of the current one. `cost`
 * <= capacity.
 */
static uint64_t tick_when(const struct sl_limit *limit, struct state s,
                          uint64_t cost)
{
    uint64_t room = limit->capacity - cost;
    uint64_t next = (s.index + 1) * limit->span;

    if (s.current <= room)
        return next - sl_muldiv_down(room - s.current, limit->span, s.previous);
    return next + limit->span - sl_muldiv_down(room, limit->span, s.current);
}

static void sliding_take(const struct sl_limit *limit, struct sl_cell cell,
                         uint64_t cost, sl_ns now, struct sl_take_result *ret)
{
    struct state old = unpack(cell);
    uint64_t at = judged_at(limit, now, &old);
    struct state s = rolled(limit, old, at);
    uint64_t left = left_at(limit, s, at);

    sl_take_begin(limit, pack(old), old.index != unpack(cell).index, /* (4) */
                  sl_until(limit, (s.index + 1) * limit->span, now), ret);
    if (cost > limit->capacity) {
        ret->answer.outcome = SL_NEVER;
    } else if (cost > left) {
        ret->answer.outcome = SL_DENY;
        ret->answer.retry_in = sl_until(limit, tick_when(limit, s, cost), now);
    } else if (cost > 0) {
        s.current += cost;
        left -= cost;
        ret->next = pack(s);
    }
    ret->answer.remaining = left;
}

static void sliding_adjust(const struct sl_limit *limit, struct sl_cell cell,
                           int64_t delta, sl_ns when, sl_ns now,
                           struct sl_take_result *ret)
{
    struct state s = unpack(cell);
    uint64_t at = judged_at(limit, now, &s);
    uint64_t then = sl_tick_of(limit, when) / limit->span;
    bool stepped = s.index != unpack(cell).index;

    s = rolled(limit, s, at);
    if (delta == 0 || (delta < 0 && then + 1 < s.index)) {
        sliding_take(limit, cell, 0, now, ret); /* nothing to correct */
        return;
    }
    if (delta > 0)
        s.current = sl_add_sat(s.current, sl_magnitude(delta));
    else if (then < s.index)
        s.previous = sl_sub_floor(s.previous, sl_magnitude(delta));
    else
        s.current = sl_sub_floor(s.current, sl_magnitude(delta));
    if (s.current > TAKEN_MASK)
        s.current = TAKEN_MASK;
    sliding_take(limit, pack(s), 0, now, ret);
    ret->next = pack(s);
    ret->stepped = stepped;
}

static struct sl_hold_snapshot sliding_snapshot(const struct sl_limit *limit,
                                                struct sl_cell next)
{
    uint64_t start = unpack(next).index * limit->span;

    return (struct sl_hold_snapshot){
        {start, start + limit->span}
    };
}

/* Refunds where it was counted: in the current bucket or the previous one. */
static struct sl_cell sliding_unhold(const struct sl_limit *limit,
                                     struct sl_cell cell, uint64_t amount,
                                     const struct sl_hold_snapshot *snapshot,
                                     const struct sl_since *since)
{
    struct state s = unpack(cell);
    uint64_t then = snapshot->w[0] / limit->span;

    if (!sl_hold_snapshot_lasted(limit, snapshot, since))
        return cell;
    if (s.index == then)
        s.current = sl_sub_floor(s.current, amount);
    else if (s.index == then + 1 && since->stepped == 0)
        s.previous = sl_sub_floor(s.previous, amount);
    return pack(s);
}

const struct sl_algorithm sl_sliding = {sliding_take, sliding_adjust,
                                        sliding_snapshot, sliding_unhold};

/* ---- fixed windows and quotas.
 *
 * A fixed window is one period, aligned to the epoch. A quota's period is that,
 * or days, weeks or months of a calendar. Usage counts until the window ends.
 *
 * w[0]  the tick of the last write
 * w[1]  what was taken in the window that this tick lies in
 *
 * The cell has the time of its last take, not the start of its window: a change
 * of zone or anchor keeps the usage while that take is in the new period, too.
 *
 * Invariants. (test/prop/fixed.c and quota.c check each by number.)
 *   (1) At most `limit` is taken in one window.
 *   (2) In any span of one period at most twice the limit is taken: the worst
 *       case is the end of one window and the start of the next.
 *   (3) retry_in and reset_in are the end of the window, exactly.
 *   (4) A clock that steps back grants nothing and denies for at most one more
 *       window; one that steps forward grants at most one limit.
 *   (5) A changed limit, zone or anchor keeps what was used.
 */

/* A window in ticks; the start may be negative. */
struct span {
    int64_t start;
    int64_t end;
};

static struct span window_of(const struct sl_limit *limit, uint64_t tick)
{
    struct sl_period p;
    int64_t start;

    if (!limit->calendar) {
        start = (int64_t)(tick - tick % limit->span);
        return (struct span){start, start + (int64_t)limit->span};
    }
    p = sl_calendar_period(&limit->cal, (sl_ns)tick * limit->tick);
    return (struct span){p.start / limit->tick, p.end / limit->tick};
}

/* The cell at `now`. */
struct view {
    uint64_t written; /* the tick of the last write, corrected */
    uint64_t at;      /* the tick at which the take is judged */
    struct span window;
    uint64_t taken; /* in this window */
};

static struct view look(const struct sl_limit *limit, struct sl_cell cell,
                        sl_ns now)
{
    struct view v = {.written = cell.w[0]};

    v.at = sl_effective_time(limit, now, &v.written);
    v.window = window_of(limit, v.at);
    v.taken = (int64_t)v.written >= v.window.start ? cell.w[1] : 0;
    return v;
}

static void window_take(const struct sl_limit *limit, struct sl_cell cell,
                        uint64_t cost, sl_ns now, struct sl_take_result *ret)
{
    struct view v = look(limit, cell, now);
    sl_ns end = sl_until(limit, (uint64_t)v.window.end, now);

    sl_take_begin(limit, sl_cell_of(v.written, cell.w[1]), /* (4) */
                  v.written != cell.w[0], end, ret);
    if (cost > limit->capacity) {
        ret->answer.outcome = SL_NEVER;
    } else if (cost > 0 && v.taken + cost > limit->capacity) {
        ret->answer.outcome = SL_DENY;
        ret->answer.retry_in = end;
    } else if (cost > 0) {
        v.taken += cost;
        ret->next = sl_cell_of(v.at, v.taken);
    }
    ret->answer.remaining = sl_sub_floor(limit->capacity, v.taken);
}

static void window_adjust(const struct sl_limit *limit, struct sl_cell cell,
                          int64_t delta, sl_ns when, sl_ns now,
                          struct sl_take_result *ret)
{
    struct view v = look(limit, cell, now);
    uint64_t most = limit->kind == SL_FIXED ? SL_COUNT_MAX : SL_AMOUNT_MAX;
    bool stepped = v.written != cell.w[0];
    struct sl_cell next;

    if (delta < 0 && (int64_t)sl_tick_of(limit, when) < v.window.start)
        delta = 0; /* that window is over */
    if (delta == 0) {
        window_take(limit, cell, 0, now, ret);
        return;
    }
    if (delta < 0)
        v.taken = sl_sub_floor(v.taken, sl_magnitude(delta));
    else
        v.taken = sl_add_sat(v.taken, sl_magnitude(delta));
    if (v.taken > most)
        v.taken = most;
    next = sl_cell_of(v.taken ? v.at : 0, v.taken);
    window_take(limit, next, 0, now, ret);
    ret->next = next;
    ret->stepped = stepped;
}

static struct sl_hold_snapshot window_snapshot(const struct sl_limit *limit,
                                               struct sl_cell next)
{
    struct span window = window_of(limit, next.w[0]);
    uint64_t start = window.start > 0 ? (uint64_t)window.start : 0;

    return (struct sl_hold_snapshot){
        {start, (uint64_t)window.end}
    };
}

/* Usage belongs to the window of the last write, so no calendar is needed. */
static struct sl_cell window_unhold(const struct sl_limit *limit,
                                    struct sl_cell cell, uint64_t amount,
                                    const struct sl_hold_snapshot *snapshot,
                                    const struct sl_since *since)
{
    uint64_t left = sl_sub_floor(cell.w[1], amount);

    if (cell.w[0] < snapshot->w[0] || cell.w[0] >= snapshot->w[1] ||
        !sl_hold_snapshot_lasted(limit, snapshot, since))
        return cell;
    return left ? sl_cell_of(cell.w[0], left) : sl_cell_of(0, 0);
}

const struct sl_algorithm sl_window = {window_take, window_adjust,
                                       window_snapshot, window_unhold};
