/* ledger.c -- histories of holds on limits of every kind, and the comparison
 * with the model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../prop/oracle/rng.h"
#include "base/arith.h"
#include "check.h"
#include "conform.h"

#define KINDS 8
#define KEYS  2
#define HOLDS 24 /* out at once */
#define PARTS 4

/* One key of a hold. */
struct held {
    unsigned limit, key;
    uint64_t cost;
    struct sl_mark mark;
    struct sl_returned returned; /* to its key, by the take */
};

struct hold {
    struct sl_hold_id id;
    uint32_t place;
    sl_ns taken, expires;
    struct held part[PARTS];
    unsigned count;
    enum sl_hold_state state;
};

struct ledger {
    struct conform *conform;
    struct rng rng;
    uint64_t seed;
    unsigned step;
    struct sl_stored stored[KINDS];
    struct sl_limit limit[KINDS];  /* at the quantum of the table */
    struct sl_limit judged[KINDS]; /* at the store's */
    char names[KINDS][48];
    char keys[KINDS][KEYS][64];
    struct sl_cell cell[KINDS][KEYS];
    struct sl_returned returned[KINDS][KEYS]; /* to a bucket, in units */
    struct hold hold[HOLDS];
    unsigned count, next;
    bool done, bad;
};

static const struct {
    enum sl_kind kind;
    const char *rate;
} rates[KINDS] = {
    {SL_BUCKET,   "10/10s burst 20"},
    {SL_INTERVAL, "10/10s burst 20"},
    {SL_LEAKY,    "10/10s queue 19"},
    {SL_FIXED,    "20/min"         },
    {SL_SLIDING,  "20/min"         },
    {SL_QUOTA,    "30/day"         },
    {SL_PERMITS,  "20"             },
    {SL_LEVEL,    "20"             },
};

static void wrong(struct ledger *l, const char *what, int64_t want, int64_t got)
{
    if (!l->bad)
        printf("# seed %" PRIu64 " step %u now %" PRId64 ": %s: want %" PRId64
               ", got %" PRId64 "\n",
               l->seed, l->step, l->conform->now, what, want, got);
    l->bad = true;
}

static void same(struct ledger *l, const char *what, uint64_t want,
                 uint64_t got)
{
    if (want != got)
        wrong(l, what, (int64_t)want, (int64_t)got);
}

/* ---- the model ---- */

static struct sl_cell *cell_of(struct ledger *l, const struct held *p)
{
    return &l->cell[p->limit][p->key];
}

/* One key of a hold ends for `cost` at `at`. */
static void model_end_part(struct ledger *l, const struct hold *h,
                           const struct held *p, uint64_t cost, sl_ns at)
{
    const struct sl_limit *limit = &l->judged[p->limit];
    struct sl_cell *cell = cell_of(l, p), next;
    struct sl_since since = {h->taken, at, 0};
    struct sl_returned *all = &l->returned[p->limit][p->key];
    struct sl_returned returned = {all->all - p->returned.all,
                                   all->gifts - p->returned.gifts};
    struct sl_mark mark = p->mark;

    if (cost > p->cost)
        *cell = sl_adjust(limit, *cell, (int64_t)(cost - p->cost), at, at).next;
    if (cost >= p->cost)
        return;
    if (sl_is_bucket(limit->kind))
        mark = sl_mark_less(limit, &p->mark, p->cost, &returned);
    next = sl_unhold(limit, *cell, p->cost - cost, &mark, &since);
    if (sl_is_bucket(limit->kind))
        all->all += sl_sub_floor(sl_units_used(limit, *cell, at), next.w[1]);
    *cell = next;
}

static void model_end(struct ledger *l, struct hold *h, uint64_t cost, sl_ns at,
                      enum sl_hold_state state)
{
    for (unsigned i = 0; i < h->count; i++)
        model_end_part(l, h, &h->part[i], state == SL_HOLD_SETTLED ? cost : 0,
                       at);
    h->state = state;
}

/* All that has expired, in its order. */
static void model_expire(struct ledger *l)
{
    for (;;) {
        struct hold *first = NULL;

        for (unsigned i = 0; i < l->count; i++) {
            struct hold *h = &l->hold[i];

            if (h->state == SL_HOLD_HELD && h->expires <= l->conform->now &&
                (!first || h->expires < first->expires))
                first = h;
        }
        if (!first)
            return;
        model_end(l, first, 0, first->expires, SL_HOLD_EXPIRED);
    }
}

/* ---- asking ---- */

static void on_take(struct sl_take *take)
{
    struct ledger *l = take->ctx;

    l->done = true;
    if (l->conform->wake)
        l->conform->wake(l->conform->ctx);
}

static void on_hold(struct sl_hold_call *call)
{
    struct ledger *l = call->ctx;

    l->done = true;
    if (l->conform->wake)
        l->conform->wake(l->conform->ctx);
}

static bool wait_done(struct ledger *l, int *err)
{
    if (!l->done && l->conform->wait)
        l->conform->wait(l->conform->ctx);
    if (!l->done || *err)
        wrong(l, "the store failed", 0, *err);
    return !l->bad;
}

/* No two expire at the same instant: their order would be open. */
static sl_ns random_life(struct ledger *l)
{
    return SL_MS + (sl_ns)rng_below(&l->rng, 20000) * SL_MS +
           (sl_ns)l->step * SL_US;
}

static struct hold *new_hold(struct ledger *l)
{
    unsigned i;

    for (i = 0; i < l->count; i++)
        if (l->hold[i].state != SL_HOLD_HELD && rng_once_in(&l->rng, 3))
            break;
    if (i == l->count && l->count < HOLDS)
        l->count++;
    if (i == HOLDS)
        return NULL;
    l->hold[i] = (struct hold){
        .id = {{rng_next(&l->rng) | 1, rng_next(&l->rng)}},
        .taken = l->conform->now,
        .expires = l->conform->now + random_life(l),
    };
    return &l->hold[i];
}

/* One to PARTS different limits, each with one key. */
static unsigned make_parts(struct ledger *l, struct sl_take_part *parts,
                           struct held *held)
{
    unsigned count = 1 + (unsigned)rng_below(&l->rng, PARTS);
    unsigned from = (unsigned)rng_below(&l->rng, KINDS);

    for (unsigned i = 0; i < count; i++) {
        unsigned limit = (from + i * 3) % KINDS;
        unsigned key = (unsigned)rng_below(&l->rng, KEYS);

        held[i] = (struct held){
            .limit = limit, .key = key, .cost = 1 + rng_below(&l->rng, 6)};
        parts[i] = (struct sl_take_part){
            .of = &l->stored[limit],
            .limit = &l->limit[limit],
            .key = sl_str_c(l->keys[limit][key]),
            .name = sl_str_c(l->keys[limit][key]),
            .cost = held[i].cost,
        };
    }
    return count;
}

/* What core says, and if all allow, what is remembered. */
static bool model_take(struct ledger *l, struct held *held, unsigned count,
                       struct sl_answer *want)
{
    struct sl_taken taken[PARTS];
    bool allowed = true;

    for (unsigned i = 0; i < count; i++) {
        taken[i] = sl_take(&l->judged[held[i].limit], *cell_of(l, &held[i]),
                           held[i].cost, l->conform->now);
        want[i] = taken[i].answer;
        allowed = allowed && want[i].outcome == SL_ALLOW;
    }
    for (unsigned i = 0; allowed && i < count; i++) {
        *cell_of(l, &held[i]) = taken[i].next;
        held[i].mark = sl_mark_of(&l->judged[held[i].limit], taken[i].next);
        held[i].returned = l->returned[held[i].limit][held[i].key];
    }
    return allowed;
}

static void do_take(struct ledger *l, struct hold *h)
{
    struct sl_take_part parts[PARTS];
    struct held held[PARTS];
    struct sl_answer want[PARTS];
    struct sl_take take = {.errand = SL_ERRAND_TAKE,
                           .parts = parts,
                           .now = l->conform->now,
                           .loop = l->conform->loop,
                           .done = on_take,
                           .ctx = l};
    bool allowed;

    take.count = make_parts(l, parts, held);
    if (h) {
        take.hold = h->id;
        take.hold_for = h->expires - h->taken;
    }
    allowed = model_take(l, held, take.count, want);
    l->done = false;
    sl_store_take(l->conform->store, &take);
    if (!wait_done(l, &take.err))
        return;
    same(l, "allowed", allowed, take.allowed);
    for (unsigned i = 0; i < take.count; i++) {
        same(l, "outcome", want[i].outcome, parts[i].answer.outcome);
        if (allowed)
            same(l, rates[held[i].limit].rate, want[i].remaining,
                 parts[i].answer.remaining);
    }
    if (h && allowed) {
        h->state = SL_HOLD_HELD;
        h->place = take.place;
        h->count = take.count;
        memcpy(h->part, held, sizeof(held));
    }
}

/* ---- ending ---- */

/* By the limit: a hold has each of them once. */
static void compare_parts(struct ledger *l, const struct hold *h,
                          const struct sl_hold_call *call, uint64_t cost)
{
    same(l, "parts", h->count, call->count);
    for (unsigned i = 0; !l->bad && i < h->count; i++) {
        const struct held *p = &h->part[i];
        const struct sl_held_part *got = NULL;
        struct sl_answer want;

        for (unsigned j = 0; j < call->count; j++)
            if (call->parts[j].of == &l->stored[p->limit])
                got = &call->parts[j];
        if (!got) {
            wrong(l, "a limit of the hold", p->limit, -1);
            return;
        }
        want = sl_take(&l->judged[p->limit], *cell_of(l, p), 0, l->conform->now)
                   .answer;
        same(l, "held", p->cost, got->held);
        if (call->errand == SL_HOLD_SETTLE)
            same(l, "cost", call->release ? 0 : cost, got->cost);
        same(l, rates[p->limit].rate, want.remaining, got->answer.remaining);
    }
}

static struct sl_hold_call call_of(struct ledger *l, const struct hold *h,
                                   enum sl_hold_errand errand)
{
    return (struct sl_hold_call){.errand = errand,
                                 .id = h->id,
                                 .place = h->place,
                                 .limits = l->stored,
                                 .limits_count = KINDS,
                                 .now = l->conform->now,
                                 .loop = l->conform->loop,
                                 .done = on_hold,
                                 .ctx = l};
}

static bool call_store(struct ledger *l, struct sl_hold_call *call)
{
    l->done = false;
    sl_store_hold(l->conform->store, call);
    return wait_done(l, &call->err);
}

/* What has ended may be forgotten. */
static void same_state(struct ledger *l, const struct hold *h,
                       enum sl_hold_state got)
{
    if (h->state == SL_HOLD_HELD || got != SL_HOLD_UNKNOWN)
        same(l, "state", h->state, got);
}

static void do_settle(struct ledger *l, struct hold *h)
{
    struct sl_hold_call call = call_of(l, h, SL_HOLD_SETTLE);
    bool held = h->state == SL_HOLD_HELD;

    call.release = rng_once_in(&l->rng, 2);
    call.cost = rng_below(&l->rng, 9);
    if (!call_store(l, &call))
        return;
    same_state(l, h, call.state); /* (5) */
    if (!held)
        return;
    model_end(l, h, call.cost, l->conform->now,
              call.release ? SL_HOLD_RELEASED : SL_HOLD_SETTLED);
    compare_parts(l, h, &call, call.cost);
}

static void do_extend(struct ledger *l, struct hold *h)
{
    struct sl_hold_call call =
        call_of(l, h, rng_once_in(&l->rng, 3) ? SL_HOLD_LOOK : SL_HOLD_EXTEND);
    bool held = h->state == SL_HOLD_HELD;

    call.hold_for = random_life(l);
    if (!call_store(l, &call))
        return;
    same_state(l, h, call.state);
    if (!held)
        return;
    if (call.errand == SL_HOLD_EXTEND)
        h->expires = l->conform->now + call.hold_for;
    same(l, "expires", (uint64_t)(h->expires - l->conform->now),
         (uint64_t)call.expires_in);
    compare_parts(l, h, &call, 0);
}

/* ---- histories ---- */

static bool make_limits(struct ledger *l)
{
    struct sl_limit_options own = {.quantum = l->conform->quantum};
    struct sl_diag diag;

    for (unsigned i = 0; i < KINDS; i++) {
        struct sl_rate rate;

        if (sl_parse_rate(sl_str_c(rates[i].rate), &rate, &diag) ||
            sl_limit_init(&l->limit[i], rates[i].kind, &rate, NULL, &diag) ||
            sl_limit_init(&l->judged[i], rates[i].kind, &rate, &own, &diag))
            return false;
        snprintf(l->names[i], sizeof(l->names[i]), "%sh%" PRIx64 "-%u",
                 l->conform->prefix, l->seed, i);
        l->stored[i] =
            (struct sl_stored){.name = l->names[i], .strictest = l->limit[i]};
        for (unsigned k = 0; k < KEYS; k++)
            snprintf(l->keys[i][k], sizeof(l->keys[i][k]), "%s:k%u",
                     l->names[i], k);
    }
    return !sl_store_bind(l->conform->store, l->stored, KINDS, &diag);
}

/* On by milliseconds mostly, to the instant at which something expires, or a
 * microsecond before it. */
static void move_on(struct ledger *l)
{
    sl_ns *now = &l->conform->now;

    if (l->count > 0 && rng_once_in(&l->rng, 4)) {
        sl_ns to = l->hold[rng_below(&l->rng, l->count)].expires -
                   (rng_once_in(&l->rng, 2) ? SL_US : 0);

        if (to > *now)
            *now = to;
    } else {
        *now += (sl_ns)rng_log(&l->rng, 3000) * SL_MS;
    }
    *now -= *now % SL_US;
}

bool conform_ledger(struct conform *conform, uint64_t seed, unsigned steps)
{
    static struct ledger l;

    l = (struct ledger){.conform = conform, .seed = seed, .rng = {seed}};
    if (!make_limits(&l)) {
        printf("# seed %" PRIu64 ": no limits\n", seed);
        return false;
    }
    for (; l.step < steps && !l.bad; l.step++) {
        struct hold *some =
            l.count ? &l.hold[rng_below(&l.rng, l.count)] : NULL;

        move_on(&l);
        model_expire(&l);
        if (some && some->count > 0 && rng_once_in(&l.rng, 3))
            do_settle(&l, some);
        else if (some && some->count > 0 && rng_once_in(&l.rng, 5))
            do_extend(&l, some);
        else
            do_take(&l, rng_once_in(&l.rng, 3) ? NULL : new_hold(&l));
    }
    return !l.bad;
}
