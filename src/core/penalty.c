/* penalty.c -- the penalty of a limit: too many failures block the caller.
 *
 * A failure is a refusal by the limit, or a reported failed attempt. `count`
 * failures within `within` of the first of them begin a block. The first one
 * has the length `block`; each further one is `growth` times as long as the
 * one before, at most `most`. A block that begins `most` after the end of the
 * last one, or later, is a first one again.
 *
 *     failures  x  x x|                      x    x  x|
 *               <within>                     <within->
 *     blocked         [== block ==]                   [= block * growth =]
 *                                 <---- less than most --->
 *
 * A charge of n adds n failures; a refund removes failures that have not led
 * to a block. Both are allowed always, with retry_in if there is a block then;
 * `wait` is the same if it has begun with the charge, else 0.
 * A take never changes the cell: it is denied during a block.
 *
 * w[0]  end of the last block in ms, 0: none; 19 bits: failures
 * w[1]  time of the first of them in ms; 12 bits: blocks in a row
 *
 * Times are in whole ms, rounded down: a block that begins is told as long as
 * it is written.
 *
 * Invariants. (test/prop/penalty.c checks each by number.)
 *   (1) A block begins only with a failure, and only if `count` failures, this
 *       one included, came within `within` and after the last block.
 *   (2) `count` failures within `within` less 1 ms, of which the first one is
 *       the first after a block or after the time of earlier ones, begin one.
 *   (3) A block has the length that the list above says, or less
 *       than 1 ms less.
 *   (4) Failures during a block change nothing: it ends as was said.
 *   (5) retry_in is exact: left alone, the cell denies until then, not after.
 *   (6) A clock that steps back leaves no caller blocked beyond `most` from
 *       now.
 */
#include "core/algorithm.h"

#define FAILURE_BITS 19
#define LEVEL_BITS   12
#define FAILURES     ((UINT64_C(1) << FAILURE_BITS) - 1)
#define TIMES        ((UINT64_C(1) << 43) - 1) /* beyond SL_TIME_END */
#define LEVELS       64 /* blocks in a row that are counted */

struct state {
    sl_ns end, first; /* whole ms; 0: none */
    uint64_t failures, level;
};

static struct state unpack(struct sl_cell cell)
{
    return (struct state){
        .end = (sl_ns)(cell.w[0] >> FAILURE_BITS & TIMES) * SL_MS,
        .first = (sl_ns)(cell.w[1] >> LEVEL_BITS & TIMES) * SL_MS,
        .failures = cell.w[0] & FAILURES,
        .level = cell.w[1] & (LEVELS | (LEVELS - 1)),
    };
}

static struct sl_cell pack(const struct state *s)
{
    return sl_cell_of((uint64_t)(s->end / SL_MS) << FAILURE_BITS | s->failures,
                      (uint64_t)(s->first / SL_MS) << LEVEL_BITS | s->level);
}

/* Brings times of the future back to now. True if there were any. (6) */
static bool heal(const struct sl_limit *limit, struct state *s, sl_ns now)
{
    sl_ns ms = now - now % SL_MS;
    bool ahead = s->first > now + SL_JITTER;
    bool late = s->end - limit->period > ms + SL_MS + SL_JITTER;

    if (ahead)
        s->first = ms;
    if (late)
        s->end = ms + limit->period;
    return ahead || late;
}

/* Forgets what no longer counts. */
static void forget(const struct sl_limit *limit, struct state *s, sl_ns now)
{
    if (now - s->first >= (sl_ns)limit->grain)
        s->failures = 0;
    if (s->failures == 0)
        s->first = 0;
    if (now - s->end >= limit->period)
        s->level = 0;
    if (s->level == 0)
        s->end = 0;
}

static sl_ns length_of(const struct sl_limit *limit, uint64_t level)
{
    uint64_t most = (uint64_t)limit->period;
    uint64_t length = (uint64_t)limit->penalty.block;

    for (; level > 1 && length < most; level--)
        length = sl_mul_sat(length, limit->penalty.growth);
    return (sl_ns)(length < most ? length : most);
}

static void block(const struct sl_limit *limit, struct state *s, sl_ns now)
{
    s->level += s->level < LEVELS;
    s->end = now + length_of(limit, s->level);
    s->end -= s->end % SL_MS;
    s->failures = 0;
    s->first = 0;
}

/* The answer of a peek at `s`, from which `cell` was made. */
static void answer(const struct sl_limit *limit, struct state s,
                   struct sl_cell cell, bool stepped, sl_ns now,
                   struct sl_take_result *ret)
{
    sl_ns over = 0;

    forget(limit, &s, now);
    if (s.failures > 0)
        over = s.first + (sl_ns)limit->grain - now;
    if (s.level > 0 && s.end + limit->period - now > over)
        over = s.end + limit->period - now;
    sl_take_begin(limit, cell, stepped, over, ret);
    if (s.level == 0)
        ret->answer.remaining = sl_sub_floor(limit->capacity, s.failures);
    if (s.end > now) {
        ret->answer.outcome = SL_DENY;
        ret->answer.retry_in = s.end - now; /* (5) */
    }
}

static void penalty_take(const struct sl_limit *limit, struct sl_cell cell,
                         uint64_t cost, sl_ns now, struct sl_take_result *ret)
{
    struct state s = unpack(cell);
    bool stepped = heal(limit, &s, now);

    (void)cost;
    answer(limit, s, stepped ? pack(&s) : cell, stepped, now, ret);
}

/* Adds `delta` failures. True if a block begins. */
static bool change(const struct sl_limit *limit, struct state *s, int64_t delta,
                   sl_ns now)
{
    bool begins = false;

    forget(limit, s, now);
    if (delta < 0) {
        s->failures = sl_sub_floor(s->failures, sl_magnitude(delta));
    } else if (s->end <= now) { /* (4) */
        if (s->failures == 0)
            s->first = now - now % SL_MS;
        s->failures = sl_add_sat(s->failures, sl_magnitude(delta));
        begins = s->failures >= limit->count; /* (1) */
        if (begins)
            block(limit, s, now);
    }
    forget(limit, s, now);
    return begins;
}

static void penalty_adjust(const struct sl_limit *limit, struct sl_cell cell,
                           int64_t delta, sl_ns when, sl_ns now,
                           struct sl_take_result *ret)
{
    struct state s = unpack(cell);
    bool stepped = heal(limit, &s, now);
    bool begins = delta != 0 && change(limit, &s, delta, now);

    (void)when;
    answer(limit, s, stepped || delta != 0 ? pack(&s) : cell, stepped, now,
           ret);
    ret->answer.outcome = SL_ALLOW;
    ret->answer.wait = begins ? ret->answer.retry_in : 0;
}

static struct sl_hold_snapshot penalty_snapshot(const struct sl_limit *limit,
                                                struct sl_cell next)
{
    (void)limit;
    (void)next;
    return (struct sl_hold_snapshot){
        {0, 0}
    };
}

/* Nothing of a penalty is held. */
static struct sl_cell penalty_unhold(const struct sl_limit *limit,
                                     struct sl_cell cell, uint64_t amount,
                                     const struct sl_hold_snapshot *snapshot,
                                     const struct sl_since *since)
{
    (void)limit;
    (void)amount;
    (void)snapshot;
    (void)since;
    return cell;
}

const struct sl_algorithm sl_penalty = {penalty_take, penalty_adjust,
                                        penalty_snapshot, penalty_unhold};
