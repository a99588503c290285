/* holds.c -- what comes back of a hold. The numbers are those of the
 * invariants in src/core/hold.h.
 *
 *   (1)  three histories of one bucket that differ in one hold alone: it was
 *        released, it never was, it was taken for good; what is used lies
 *        between the others, to the unit, ever after
 *   (2)  many holds on one bucket, each settled for some part of it, released
 *        or left to expire: what came of them all, each counted when it was
 *        taken, passes burst + L * rate in no span. In whole numbers, as in
 *        bucket.c
 *   (3)  windows, quotas, permits and levels against a list of what is held
 */
#include "oracle/history.h"

#include "base/arith.h"
#include "prop.h"

__extension__ typedef __int128 i128;

static const struct labels labels = {
    .outcome = "holds",
    .remaining = "holds",
    .retry = "holds",
    .reset = "holds",
    .wait = "holds",
    .steps = "holds",
};

/* Units used of a bucket at `now`. */
static uint64_t units_at(const struct sl_limit *limit, struct sl_cell cell,
                         sl_ns now)
{
    return sl_adjust(limit, cell, 1, now, now).next.w[1] - limit->token;
}

/* A trial is used for its random instants and costs only. */
static void begin(struct trial *t, struct rng *rng, uint64_t seed,
                  const struct spec *spec)
{
    trial_init(t, &labels, seed, spec);
    t->now = random_start(rng);
}

/* ---- (1) ---- */

enum { ENDED, NEVER, FOR_GOOD, HISTORIES };

struct between {
    struct trial t;
    struct sl_cell cell[HISTORIES];
    struct sl_hold_snapshot mark;
    uint64_t cost;
    sl_ns taken;
    bool held, over;
};

/* Beyond what a cell can hold all histories would be the same. */
static bool has_room(const struct between *b, uint64_t cost)
{
    uint64_t used = units_at(&b->t.limit, b->cell[FOR_GOOD], b->t.now);

    return used < UINT64_C(1) << 51 &&
           sl_mul_sat(cost, b->t.limit.token) < UINT64_C(1) << 51;
}

static void charge(struct between *b, unsigned history, uint64_t cost)
{
    b->cell[history] = sl_adjust(&b->t.limit, b->cell[history], (int64_t)cost,
                                 b->t.now, b->t.now)
                           .next;
}

static void begin_hold(struct between *b, uint64_t cost)
{
    b->cost = cost;
    b->taken = b->t.now;
    charge(b, ENDED, b->cost);
    charge(b, FOR_GOOD, b->cost);
    b->mark = sl_hold_snapshot_of(&b->t.limit, b->cell[ENDED]);
    b->held = true;
}

static void end_hold(struct between *b)
{
    struct sl_since since = {b->taken, b->t.now, 0};

    b->cell[ENDED] =
        sl_hold_refund(&b->t.limit, b->cell[ENDED], b->cost, &b->mark, &since);
    b->over = true;
}

static void compare(struct between *b)
{
    uint64_t used[HISTORIES];

    for (unsigned i = 0; i < HISTORIES; i++)
        used[i] = units_at(&b->t.limit, b->cell[i], b->t.now);
    if (used[ENDED] > used[FOR_GOOD])
        trial_wrong(&b->t, "hold (1)", "%" PRIu64 " used, for good %" PRIu64,
                    used[ENDED], used[FOR_GOOD]);
    if (used[ENDED] < used[NEVER])
        trial_wrong(&b->t, "hold (1)", "%" PRIu64 " used, without it %" PRIu64,
                    used[ENDED], used[NEVER]);
}

/* All cells are written at the same instants, so that what is rounded is
 * rounded alike. */
static bool between(uint64_t seed, uint64_t *steps)
{
    static const enum sl_kind kinds[] = {SL_BUCKET, SL_LEAKY, SL_INTERVAL};
    struct rng rng = {seed};
    struct spec spec = random_spec(&rng, kinds[rng_below(&rng, 3)]);
    struct between b = {.held = false};
    uint64_t length = rng_between(&rng, 5, 60);

    begin(&b.t, &rng, seed, &spec);
    for (; b.t.step < length && !b.t.bad; b.t.step++) {
        uint64_t cost = 1 + rng_log(&b.t.rng, spec.capacity - 1);

        b.t.now = random_later(&b.t);
        if (!b.held && rng_once_in(&b.t.rng, 4) && has_room(&b, cost))
            begin_hold(&b, cost);
        else if (b.held && !b.over && rng_once_in(&b.t.rng, 4))
            end_hold(&b);
        else if (has_room(&b, cost))
            for (unsigned i = 0; i < HISTORIES; i++)
                charge(&b, i, cost);
        if (b.over)
            compare(&b);
    }
    *steps += b.t.step;
    trial_done(&b.t);
    return !b.t.bad;
}

/* ---- (2) ---- */

#define EVENTS 400
#define HOLDS  16

struct event_of {
    uint64_t tick, cost;
};

struct live {
    struct sl_hold_snapshot mark;
    uint64_t cost;
    unsigned event; /* where it counts */
    sl_ns taken, expires;
    uint64_t returns; /* given back by then */
};

struct permit_model {
    struct trial t;
    struct live live[HOLDS];
    unsigned count, events;
    struct event_of event[EVENTS];
    uint64_t returns;
};

static void admit(struct permit_model *c, bool held)
{
    uint64_t cost = random_cost(&c->t);
    struct sl_take_result got = sl_take(&c->t.limit, c->t.cell, cost, c->t.now);

    c->t.cell = got.next;
    c->t.last = got.answer;
    if (got.answer.outcome != SL_ALLOW || cost == 0)
        return;
    if (held)
        c->live[c->count++] = (struct live){
            .mark = sl_hold_snapshot_of(&c->t.limit, got.next),
            .cost = cost,
            .event = c->events,
            .taken = c->t.now,
            .expires = sl_ns_add_sat(random_later(&c->t), 1),
            .returns = c->returns,
        };
    c->event[c->events++] =
        (struct event_of){(uint64_t)c->t.now / spec_tick(&c->t.spec), cost};
}

/* Settle number `i` for `actual` at `at`. */
static void conclude(struct permit_model *c, unsigned i, uint64_t actual,
                     sl_ns at)
{
    struct live *l = &c->live[i];
    struct sl_since since = {l->taken, at, 0};
    struct sl_refunds returned = {c->returns - l->returns, 0};
    struct sl_hold_snapshot mark =
        sl_hold_snapshot_reduce(&c->t.limit, &l->mark, l->cost, &returned);
    struct sl_cell next;

    next =
        sl_hold_refund(&c->t.limit, c->t.cell, l->cost - actual, &mark, &since);
    if (!sl_cell_eq(next, c->t.cell))
        c->returns +=
            sl_sub_floor(units_at(&c->t.limit, c->t.cell, at), next.w[1]);
    c->t.cell = next;
    c->event[l->event].cost = actual;
    *l = c->live[--c->count];
}

/* What is due expires before anything else happens, in its order. */
static void expire(struct permit_model *c)
{
    for (;;) {
        unsigned first = HOLDS;

        for (unsigned i = 0; i < c->count; i++)
            if (c->live[i].expires <= c->t.now &&
                (first == HOLDS || c->live[i].expires < c->live[first].expires))
                first = i;
        if (first == HOLDS)
            return;
        conclude(c, first, 0, c->live[first].expires);
    }
}

/* For all i <= j: what came of i to j is at most burst + (t_j - t_i) * rate. */
static void check_spans(struct permit_model *c)
{
    const struct spec *s = &c->t.spec;
    i128 taken = 0, low = 0;

    for (unsigned i = 0; i < c->events; i++) {
        i128 time = (i128)(c->event[i].tick - c->event[0].tick) * s->count;
        i128 height = taken * spec_span(s) - time;

        if (height < low)
            low = height;
        taken += c->event[i].cost;
        if (height + (i128)c->event[i].cost * spec_span(s) - low >
            (i128)s->capacity * spec_span(s))
            trial_wrong(&c->t, "hold (2)", "a span admits too much");
    }
}

static bool any_span(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed ^ UINT64_C(0x77)};
    struct spec spec = random_spec(&rng, SL_BUCKET);
    static struct permit_model c;
    uint64_t length = rng_between(&rng, 20, EVENTS);

    c = (struct permit_model){.count = 0};
    begin(&c.t, &rng, seed, &spec);
    for (; c.t.step < length && !c.t.bad; c.t.step++) {
        c.t.now = random_later(&c.t);
        expire(&c);
        if (c.count > 0 && rng_once_in(&c.t.rng, 3)) {
            unsigned i = (unsigned)rng_below(&c.t.rng, c.count);

            conclude(&c, i, rng_log(&c.t.rng, c.live[i].cost), c.t.now);
        } else {
            admit(&c, c.count < HOLDS && !rng_once_in(&c.t.rng, 3));
        }
    }
    check_spans(&c);
    *steps += c.t.step;
    trial_done(&c.t);
    return !c.t.bad;
}

/* ---- (3) ---- */

/* What a window holds: a list of all that was taken, and in which window. */
struct window_model {
    struct trial t;
    struct live live[HOLDS];
    uint64_t where[HOLDS];
    unsigned count;
    uint64_t now_in, current, previous; /* window by window */
};

static uint64_t window_of(const struct window_model *s)
{
    uint64_t span = spec_span(&s->t.spec);

    return span ? (uint64_t)s->t.now / spec_tick(&s->t.spec) / span : 0;
}

static void turn(struct window_model *s)
{
    uint64_t in = window_of(s);

    if (in == s->now_in)
        return;
    s->previous = in == s->now_in + 1 ? s->current : 0;
    s->current = 0;
    s->now_in = in;
}

static void window_take(struct window_model *s)
{
    uint64_t cost = random_cost(&s->t);
    struct sl_take_result got = sl_take(&s->t.limit, s->t.cell, cost, s->t.now);

    s->t.cell = got.next;
    s->t.last = got.answer;
    if (got.answer.outcome != SL_ALLOW || cost == 0)
        return;
    s->current += cost;
    if (s->count < HOLDS) {
        s->where[s->count] = s->now_in;
        s->live[s->count++] =
            (struct live){.mark = sl_hold_snapshot_of(&s->t.limit, got.next),
                          .cost = cost,
                          .taken = s->t.now};
    }
}

static void window_end(struct window_model *s)
{
    unsigned i = (unsigned)rng_below(&s->t.rng, s->count);
    struct live *l = &s->live[i];
    uint64_t back = rng_log(&s->t.rng, l->cost);
    struct sl_since since = {l->taken, s->t.now, 0};

    s->t.cell = sl_hold_refund(&s->t.limit, s->t.cell, back, &l->mark, &since);
    if (s->where[i] == s->now_in)
        s->current -= back;
    else if (s->where[i] + 1 == s->now_in)
        s->previous -= s->previous < back ? s->previous : back;
    *l = s->live[--s->count];
    s->where[i] = s->where[s->count];
}

/* What would still pass, by the list. */
static void window_check(struct window_model *s)
{
    const struct spec *spec = &s->t.spec;
    struct sl_answer a = sl_take(&s->t.limit, s->t.cell, 0, s->t.now).answer;
    uint64_t used = s->current, tick;

    if (spec->kind == SL_SLIDING) {
        tick = (uint64_t)s->t.now / spec_tick(spec);
        used +=
            sl_muldiv_up(s->previous, (s->now_in + 1) * spec_span(spec) - tick,
                         spec_span(spec));
    }
    if (a.remaining != sl_sub_floor(spec->capacity, used))
        trial_wrong(&s->t, "hold (3)",
                    "%" PRIu64 " remain, %" PRIu64 " are used of %" PRIu64,
                    a.remaining, used, spec->capacity);
}

static bool listed(uint64_t seed, uint64_t *steps)
{
    static const enum sl_kind kinds[] = {SL_FIXED, SL_SLIDING, SL_QUOTA,
                                         SL_PERMITS, SL_LEVEL};
    struct rng rng = {seed ^ UINT64_C(0x33)};
    struct spec spec = random_spec(&rng, kinds[rng_below(&rng, 5)]);
    struct window_model s = {.count = 0};
    uint64_t length = rng_between(&rng, 20, 200);

    begin(&s.t, &rng, seed, &spec);
    s.now_in = window_of(&s);
    for (; s.t.step < length && !s.t.bad; s.t.step++) {
        s.t.now = random_later(&s.t);
        turn(&s);
        if (s.count > 0 && rng_once_in(&s.t.rng, 2))
            window_end(&s);
        else
            window_take(&s);
        window_check(&s);
    }
    *steps += s.t.step;
    trial_done(&s.t);
    return !s.t.bad;
}

const struct property prop_holds = {
    .name = "holds",
    .steps = 1500000,
    .cases = {{"hold (1) between never and for good", between},
              {"hold (2) no span admits more than its bound", any_span},
              {"hold (3) windows, quotas, permits and levels, exactly",
               listed}},
};
