/* hold_history.c -- histories of holds on limits of every kind, and the
 * comparison with the model. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "hold_history.h"

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

static void wrong(struct hold_history *l, const char *what, int64_t want,
                  int64_t got)
{
    if (!l->bad)
        printf("# seed %" PRIu64 " step %u now %" PRId64 ": %s: want %" PRId64
               ", got %" PRId64 "\n",
               l->seed, l->step, l->conform->now, what, want, got);
    l->bad = true;
}

static void same(struct hold_history *l, const char *what, uint64_t want,
                 uint64_t got)
{
    if (want != got)
        wrong(l, what, (int64_t)want, (int64_t)got);
}

/* ---- asking ---- */

static void on_take(struct sl_take *take)
{
    struct hold_history *l = take->ctx;

    l->done = true;
    if (l->conform->wake)
        l->conform->wake(l->conform->ctx);
}

static void on_hold(struct sl_hold_call *call)
{
    struct hold_history *l = call->ctx;

    l->done = true;
    if (l->conform->wake)
        l->conform->wake(l->conform->ctx);
}

static bool wait_done(struct hold_history *l, int *err)
{
    if (!l->done && l->conform->wait)
        l->conform->wait(l->conform->ctx);
    if (!l->done || *err)
        wrong(l, "the store failed", 0, *err);
    return !l->bad;
}

/* No two expire at the same instant: their order would be open. */
static sl_ns random_life(struct hold_history *l)
{
    return SL_MS + (sl_ns)rng_below(&l->rng, 20000) * SL_MS +
           (sl_ns)l->step * SL_US;
}

static struct hold *new_hold(struct hold_history *l)
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
        .life = random_life(l),
    };
    l->hold[i].expires = l->hold[i].taken + l->hold[i].life;
    return &l->hold[i];
}

static struct sl_part part_of(const struct hold_history *l,
                              const struct held *held)
{
    const char *key = l->keys[held->limit][held->key];

    return (struct sl_part){
        .binding = &l->stored[held->limit],
        .limit = &l->limit[held->limit],
        .key = sl_str_c(key),
        .name = sl_str_c(key),
        .cost = held->cost,
    };
}

/* One to PARTS different limits, each with one key. */
static unsigned make_parts(struct hold_history *l, struct sl_part *parts,
                           struct held *held)
{
    unsigned count = 1 + (unsigned)rng_below(&l->rng, PARTS);
    unsigned from = (unsigned)rng_below(&l->rng, KINDS);

    for (unsigned i = 0; i < count; i++) {
        unsigned limit = (from + i * 3) % KINDS;
        unsigned key = (unsigned)rng_below(&l->rng, KEYS);

        held[i] = (struct held){
            .limit = limit, .key = key, .cost = 1 + rng_below(&l->rng, 6)};
        parts[i] = part_of(l, &held[i]);
    }
    return count;
}

/* Of vague keys nothing is known; the others must all have allowed. */
static void compare_take(struct hold_history *l, const struct sl_take *take,
                         const struct held *held, const struct sl_answer *want,
                         bool allowed)
{
    bool vague = false;

    for (unsigned i = 0; i < take->count; i++) {
        const struct sl_answer *got = &take->parts[i].answer;

        vague = vague || is_vague(l, &held[i]);
        if (is_vague(l, &held[i]))
            continue;
        same(l, "outcome", want[i].outcome, got->outcome);
        if (take->allowed)
            same(l, rates[held[i].limit].rate, want[i].remaining,
                 got->remaining);
        else if (want[i].outcome == SL_DENY &&
                 rates[held[i].limit].kind == SL_PERMITS)
            same(l, "retry", (uint64_t)hold_history_retry(l, &held[i]),
                 (uint64_t)got->retry_in);
    }
    if (!vague || take->allowed)
        same(l, "allowed", allowed, take->allowed);
}

/* Some parts of a hold are not held, but not all of them. */
static void mark_not_held(struct hold_history *l, const struct sl_take *take,
                          struct held *held)
{
    for (unsigned i = 1; i < take->count; i++)
        if (rng_once_in(&l->rng, 4))
            take->parts[i].not_held = held[i].not_held = true;
}

static void keep_hold(struct hold *h, const struct sl_take *take,
                      const struct held *held)
{
    h->state = SL_HOLD_HELD;
    h->place = take->place;
    for (unsigned i = 0; i < take->count; i++)
        if (!held[i].not_held)
            h->part[h->count++] = held[i];
}

static struct sl_take take_of(struct hold_history *l, enum sl_take_op op,
                              struct sl_part *parts)
{
    return (struct sl_take){.op = op,
                            .parts = parts,
                            .now = l->conform->now,
                            .loop = l->conform->loop,
                            .done = on_take,
                            .ctx = l};
}

static bool ask_store(struct hold_history *l, struct sl_take *take)
{
    l->done = false;
    sl_store_take(l->conform->store, take);
    return wait_done(l, &take->err);
}

static void do_take(struct hold_history *l, struct hold *h)
{
    struct sl_part parts[PARTS];
    struct held held[PARTS];
    struct sl_answer want[PARTS];
    struct sl_take take = take_of(l, SL_TAKE_OP_TAKE, parts);
    bool allowed;

    take.count = make_parts(l, parts, held);
    if (h) {
        take.hold = h->id;
        take.hold_for = h->life;
        mark_not_held(l, &take, held);
    }
    allowed = hold_history_judge(l, held, take.count, want);
    if (!ask_store(l, &take))
        return;
    compare_take(l, &take, held, want, allowed);
    if (l->bad || !take.allowed)
        return;
    hold_history_take(l, held, take.count);
    if (h)
        keep_hold(h, &take, held);
}

/* ---- correcting, resetting, stepping back ---- */

/* One key, of a limit that has a clock, or a level. */
static void do_back(struct hold_history *l)
{
    struct sl_part parts[PARTS];
    struct held held[PARTS];
    struct sl_take take = take_of(l, SL_TAKE_OP_REFUND, parts);

    do {
        (void)make_parts(l, parts, held);
    } while (rates[held[0].limit].kind == SL_PERMITS);
    take.count = 1;
    parts[0].taken_at = l->conform->now - (sl_ns)rng_below(&l->rng, 90) * SL_S;
    if (ask_store(l, &take))
        hold_history_back(l, &held[0], parts[0].taken_at);
}

static void do_reset(struct hold_history *l)
{
    struct sl_part parts[PARTS];
    struct held held[PARTS];
    struct sl_take take = take_of(l, SL_TAKE_OP_RESET, parts);

    take.count = make_parts(l, parts, held);
    if (ask_store(l, &take))
        for (unsigned i = 0; i < take.count; i++)
            hold_history_reset(l, &held[i]);
}

/* A look at all keys. */
static void look_at_all(struct hold_history *l)
{
    for (unsigned i = 0; i < KINDS * KEYS && !l->bad; i++) {
        struct held held = {.limit = i / KEYS, .key = i % KEYS};
        struct sl_part part = part_of(l, &held);
        struct sl_take take = take_of(l, SL_TAKE_OP_PEEK, &part);

        take.count = 1;
        part.cost = 1;
        if (ask_store(l, &take))
            *cell_of(l, &held) = sl_take(&l->judged[held.limit],
                                         *cell_of(l, &held), 0, l->conform->now)
                                     .next;
    }
}

/* Behind the last instant that anybody decided at. Stores that look at a key
 * alone learn that a hold has expired, and that the clock has stepped, when
 * they look: they are made to, before and after. Without anything held none
 * need see it: then it does not step. */
static bool do_step(struct hold_history *l)
{
    bool any = false;

    for (unsigned i = 0; i < l->count; i++)
        any = any || l->hold[i].state == SL_HOLD_HELD;
    if (!any || l->conform->names_windows)
        return false;
    look_at_all(l);
    l->conform->now -= 2 * SL_S + (sl_ns)rng_log(&l->rng, 7200000) * SL_MS;
    hold_history_step(l);
    look_at_all(l);
    return true;
}

/* ---- ending ---- */

/* By the limit: a hold has each of them once. */
static void compare_parts(struct hold_history *l, const struct hold *h,
                          const struct sl_hold_call *call, uint64_t cost)
{
    same(l, "parts", h->count, call->count);
    for (unsigned i = 0; !l->bad && i < h->count; i++) {
        const struct held *p = &h->part[i];
        const struct sl_held_part *got = NULL;
        struct sl_answer want;

        for (unsigned j = 0; j < call->count; j++)
            if (call->parts[j].binding == &l->stored[p->limit])
                got = &call->parts[j];
        if (!got) {
            wrong(l, "a limit of the hold", p->limit, -1);
            return;
        }
        want = sl_take(&l->judged[p->limit], *cell_of(l, p), 0, l->conform->now)
                   .answer;
        same(l, "held", p->cost, got->held);
        if (call->op == SL_HOLD_SETTLE)
            same(l, "cost", call->release ? 0 : cost, got->cost);
        if (!is_vague(l, p))
            same(l, rates[p->limit].rate, want.remaining,
                 got->answer.remaining);
    }
}

static struct sl_hold_call call_of(struct hold_history *l, const struct hold *h,
                                   enum sl_hold_action op)
{
    return (struct sl_hold_call){.op = op,
                                 .id = h->id,
                                 .place = h->place,
                                 .limits = l->stored,
                                 .limits_count = KINDS,
                                 .now = l->conform->now,
                                 .loop = l->conform->loop,
                                 .done = on_hold,
                                 .ctx = l};
}

static bool call_store(struct hold_history *l, struct sl_hold_call *call)
{
    l->done = false;
    sl_store_hold(l->conform->store, call);
    return wait_done(l, &call->err);
}

/* What has ended may be forgotten. */
static void same_state(struct hold_history *l, const struct hold *h,
                       enum sl_hold_state got)
{
    if (h->state == SL_HOLD_HELD || got != SL_HOLD_UNKNOWN)
        same(l, "state", h->state, got);
}

static void do_settle(struct hold_history *l, struct hold *h)
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
    hold_history_end(l, h, call.cost, l->conform->now,
                     call.release ? SL_HOLD_RELEASED : SL_HOLD_SETTLED);
    compare_parts(l, h, &call, call.cost);
}

static void do_extend(struct hold_history *l, struct hold *h)
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
    if (call.op == SL_HOLD_EXTEND) {
        h->expires = l->conform->now + call.hold_for;
        if (call.hold_for > h->life)
            h->life = call.hold_for;
    }
    same(l, "expires", (uint64_t)(h->expires - l->conform->now),
         (uint64_t)call.expires_in);
    compare_parts(l, h, &call, 0);
}

/* ---- histories ---- */

static bool make_limits(struct hold_history *l)
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
        l->stored[i] = (struct sl_limit_binding){.name = l->names[i],
                                                 .strictest = l->limit[i]};
    }
    return !sl_store_bind(l->conform->store, l->stored, KINDS, &diag);
}

static bool shares(const struct hold_history *l, const struct held *one)
{
    const struct conform *conform = l->conform;
    struct sl_part mine = part_of(l, one);

    for (unsigned i = 0; i < one->limit * KEYS + one->key; i++) {
        struct held other = {.limit = i / KEYS, .key = i % KEYS};
        struct sl_part part = part_of(l, &other);

        if (conform->share(conform->store, &mine, &part))
            return true;
    }
    return false;
}

/* Different names are tried until no two keys share a counter. */
static void make_keys(struct hold_history *l)
{
    for (unsigned i = 0; i < KINDS * KEYS; i++) {
        struct held held = {.limit = i / KEYS, .key = i % KEYS};
        char *key = l->keys[held.limit][held.key];
        unsigned number = held.key;

        do {
            snprintf(key, sizeof(l->keys[0][0]), "%sh%" PRIx64 "-%u:k%u",
                     l->conform->prefix, l->seed, held.limit, number);
            number += KEYS;
        } while (l->conform->share && shares(l, &held));
    }
}

/* On by milliseconds mostly, to the instant at which something expires, or a
 * microsecond before it. */
static void move_on(struct hold_history *l)
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

bool conform_hold_history(struct conform *conform, uint64_t seed,
                          unsigned steps)
{
    static struct hold_history l;

    l = (struct hold_history){.conform = conform, .seed = seed, .rng = {seed}};
    if (!make_limits(&l)) {
        printf("# seed %" PRIu64 ": no limits\n", seed);
        return false;
    }
    make_keys(&l);
    for (; l.step < steps && !l.bad; l.step++) {
        struct hold *some =
            l.count ? &l.hold[rng_below(&l.rng, l.count)] : NULL;

        if (!rng_once_in(&l.rng, 60) || !do_step(&l))
            move_on(&l);
        hold_history_expire(&l);
        if (some && some->count > 0 && rng_once_in(&l.rng, 3))
            do_settle(&l, some);
        else if (some && some->count > 0 && rng_once_in(&l.rng, 5))
            do_extend(&l, some);
        else if (rng_once_in(&l.rng, 20))
            do_back(&l);
        else if (rng_once_in(&l.rng, 15))
            do_reset(&l);
        else
            do_take(&l, rng_once_in(&l.rng, 3) ? NULL : new_hold(&l));
    }
    return !l.bad;
}
