/* penalty.c -- penalties against an oracle that replays the whole history. The
 * numbers are those of the invariants in src/core/penalty.c.
 *
 *   (1) (2)  a block begins with the failure that the list of all says, and
 *            with no other
 *   (3)      it is as long as its place in the row of blocks says
 *   (4)      failures during a block change nothing
 *   (5)      the retry is exact to the nanosecond
 *   (6)      a step back leaves no caller blocked for longer than `most`
 */
#include "core/algorithm.h"
#include "prop.h"

#define STEPS 80

struct failure {
    sl_ns at;
    int64_t count; /* < 0: refunded */
};

struct history {
    struct rng rng;
    struct sl_penalty_rate rate;
    struct sl_limit limit;
    struct sl_cell cell;
    sl_ns now;
    struct failure list[STEPS];
    unsigned count;
};

static struct sl_penalty_rate random_rate(struct rng *rng)
{
    struct sl_penalty_rate r = {
        .after = 1 + rng_below(rng, rng_once_in(rng, 3) ? 1000 : 6),
        .within = SL_S * (1 + (sl_ns)rng_log(rng, 3600)),
        .block = SL_S * (1 + (sl_ns)rng_log(rng, 7200)),
        .growth = 1 + rng_below(rng, 4),
    };

    r.most = r.block + SL_S * (sl_ns)rng_log(rng, 200000);
    return r;
}

/* The length of block number `level` of a row, by repeated multiplication. */
static sl_ns length(const struct sl_penalty_rate *r, unsigned level)
{
    __int128 length = r->block;

    for (unsigned i = 1; i < level && length < r->most; i++)
        length *= (__int128)r->growth;
    return (sl_ns)(length < r->most ? length : r->most);
}

static sl_ns floor_ms(sl_ns at)
{
    return at / SL_MS * SL_MS;
}

/* Replays all failures. Returns the end of the last block, or 0. */
static sl_ns replay(const struct history *h)
{
    const struct sl_penalty_rate *r = &h->rate;
    sl_ns end = 0, first = 0;
    int64_t failures = 0;
    unsigned level = 0;

    for (unsigned i = 0; i < h->count; i++) {
        const struct failure *f = &h->list[i];

        if (f->at - first >= r->within)
            failures = 0;
        if (f->count < 0) {
            failures = failures + f->count > 0 ? failures + f->count : 0;
            continue;
        }
        if (f->at < end) /* (4) */
            continue;
        if (failures == 0)
            first = floor_ms(f->at);
        failures += f->count;
        if (failures < (int64_t)r->after) /* (1) (2) */
            continue;
        level = level > 0 && f->at - end < r->most ? level + 1 : 1;
        end = floor_ms(f->at + length(r, level)); /* (3) */
        failures = 0;
    }
    return end;
}

static bool check_answer(const struct history *h, sl_ns at)
{
    struct sl_take_result t = sl_take(&h->limit, h->cell, 0, at);
    sl_ns end = replay(h);
    sl_ns want = end > at ? end - at : SL_NS_NONE;

    CHECK_EQ(t.answer.outcome, want < 0 ? SL_ALLOW : SL_DENY);
    CHECK_EQ(t.answer.retry_in, want);
    CHECK(sl_cell_eq(t.next, h->cell)); /* a peek changes nothing */
    CHECK_EQ(t.stepped, false);
    return t.answer.retry_in == want;
}

static sl_ns random_span(struct history *h)
{
    const struct sl_penalty_rate *r = &h->rate;
    const sl_ns spans[] = {r->within, r->block, r->most, r->within / 4, SL_MS};
    sl_ns span = spans[rng_below(&h->rng, SL_LEN(spans))];

    if (rng_once_in(&h->rng, 3))
        return span;
    return (sl_ns)rng_log(&h->rng, (uint64_t)span);
}

static void charge(struct history *h)
{
    bool back = rng_once_in(&h->rng, 8);
    int64_t n =
        1 + (int64_t)(rng_once_in(&h->rng, 4) ? rng_log(&h->rng, h->rate.after)
                                              : 0);
    struct sl_take_result t;
    sl_ns before, after;

    before = replay(h);
    h->list[h->count++] = (struct failure){h->now, back ? -n : n};
    after = replay(h);
    t = sl_adjust(&h->limit, h->cell, back ? -n : n, h->now, h->now);
    CHECK_EQ(t.answer.outcome, SL_ALLOW);
    CHECK_EQ(t.answer.wait, after != before ? after - h->now : 0);
    CHECK_EQ(t.next.w[0] >> SL_CELL_W0_BITS, 0);
    CHECK_EQ(t.next.w[1] >> SL_CELL_W1_BITS, 0);
    h->cell = t.next;
}

static void begin(struct history *h, uint64_t seed)
{
    h->rng = (struct rng){seed};
    h->rate = random_rate(&h->rng);
    h->limit = sl_limit_penalty(&h->rate, SL_QUANTUM_NS);
    h->cell = sl_cell_of(0, 0);
    h->now = 1700000000 * SL_S + (sl_ns)rng_below(&h->rng, SL_DAY);
    h->count = 0;
}

static bool agrees(uint64_t seed, uint64_t *steps)
{
    struct history h;
    sl_ns end;

    begin(&h, seed);
    for (unsigned i = 0; i < STEPS; i++, ++*steps) {
        h.now += random_span(&h);
        end = replay(&h);
        if (end > h.now && rng_once_in(&h.rng, 2))
            h.now = end - (sl_ns)rng_below(&h.rng, 2);
        charge(&h);
        if (!check_answer(&h, h.now))
            return false;
        end = replay(&h);
        if (end > h.now && /* (5) */
            (!check_answer(&h, end - 1) || !check_answer(&h, end)))
            return false;
    }
    return true;
}

/* When nothing is owed any more, the cell is as good as zeros. */
static bool forgets(uint64_t seed, uint64_t *steps)
{
    struct history h;
    struct sl_take_result t, other;
    sl_ns over;

    begin(&h, seed);
    for (unsigned i = 0; i < 8; i++, ++*steps) {
        h.now += random_span(&h);
        charge(&h);
    }
    over = h.now + sl_take(&h.limit, h.cell, 0, h.now).answer.reset_in;
    t = sl_adjust(&h.limit, h.cell, 1, over, over);
    other = sl_adjust(&h.limit, sl_cell_of(0, 0), 1, over, over);
    CHECK(sl_cell_eq(t.next, other.next));
    CHECK_EQ(sl_take(&h.limit, h.cell, 0, over).answer.remaining,
             h.limit.capacity);
    return sl_cell_eq(t.next, other.next);
}

/* (6) */
static bool steps_back(uint64_t seed, uint64_t *steps)
{
    struct history h;
    struct sl_take_result t;

    begin(&h, seed);
    for (unsigned i = 0; i < 20; i++, ++*steps) {
        h.now += random_span(&h);
        charge(&h);
    }
    h.now -= (sl_ns)rng_log(&h.rng, 2 * (uint64_t)h.rate.most);
    t = sl_take(&h.limit, h.cell, 0, h.now);
    CHECK(t.answer.retry_in <= h.rate.most + 2 * SL_MS + SL_JITTER);
    if (t.stepped)
        CHECK(!sl_cell_eq(t.next, h.cell));
    t = sl_take(&h.limit, t.next, 0, h.now);
    CHECK_EQ(t.stepped, false);
    return true;
}

const struct property prop_penalty = {
    .name = "penalty",
    .steps = 400000,
    .cases = {{"penalty (1) to (5) histories agree with the oracle", agrees},
              {"penalty: nothing stays when nothing is owed", forgets},
              {"penalty (6) a clock that steps back", steps_back}},
};
