/* window.c -- so many in a window: fixed windows and quotas.
 *
 * A fixed window is a span of one period aligned to the epoch; a quota's
 * period is either that or a day, week or month of a calendar. What was taken
 * counts until the window ends, and then all of it comes back at once.
 *
 * w[0]  the tick of the last write
 * w[1]  what was taken in the window that this tick lies in
 *
 * The cell keeps the time of its last take, not the start of its window, so
 * that a change of zone or anchor keeps what was used as long as that take
 * lies in the new period too.
 *
 * Invariants. (test/prop/fixed.c and quota.c check each by number.)
 *   (1) At most `limit` is taken in one window.
 *   (2) In any span of one period at most twice the limit is taken: the worst
 *       case is the end of one window and the start of the next.
 *   (3) retry_in and reset_in are the end of the window, exactly.
 *   (4) A clock that steps back grants nothing and locks nobody out for longer
 *       than one window; one that steps forward grants at most one window's
 *       worth.
 *   (5) A changed limit, zone or anchor keeps what was used.
 */
#include "core/take.h"
#include "core/ticks.h"

/* The window that `tick` lies in, in ticks; the start may be negative. */
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

/* The cell as it stands at `now`. */
struct view {
    uint64_t written; /* the tick of the last write, mended */
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

    *ret = (struct sl_take_result){
        .answer = {.outcome = SL_ALLOW,
                   .limit = limit->count,
                   .capacity = limit->capacity,
                   .retry_in = SL_NS_NONE,
                   .reset_in = end},
        .next = {{v.written, cell.w[1]}}, /* (4) */
        .stepped = v.written != cell.w[0],
    };
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
        delta = 0; /* that window is over: nothing to give back */
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

static struct sl_hold_snapshot window_mark(const struct sl_limit *limit,
                                           struct sl_cell next)
{
    struct span window = window_of(limit, next.w[0]);
    uint64_t start = window.start > 0 ? (uint64_t)window.start : 0;

    return (struct sl_hold_snapshot){
        {start, (uint64_t)window.end}
    };
}

/* What the cell holds was taken in the window that it was written in; nothing
 * else need be known of a calendar. */
static struct sl_cell window_unhold(const struct sl_limit *limit,
                                    struct sl_cell cell, uint64_t amount,
                                    const struct sl_hold_snapshot *mark,
                                    const struct sl_since *since)
{
    uint64_t left = sl_sub_floor(cell.w[1], amount);

    if (cell.w[0] < mark->w[0] || cell.w[0] >= mark->w[1] ||
        !sl_hold_snapshot_lasted(limit, mark, since))
        return cell;
    return left ? sl_cell_of(cell.w[0], left) : sl_cell_of(0, 0);
}

const struct sl_algorithm sl_window = {window_take, window_adjust, window_mark,
                                       window_unhold};
