/* repeats.c -- two engines on one memory of repeats, which fails by a script:
 * a call is not done, is done and its reply is lost, or is answered late; and
 * checks whose daemon dies. The rules are those of engine/idempotency.c.
 *
 *   (a) Of all requests with one key, within its life, at most one is charged
 *       and answered without `degraded`; the charges beyond it were of checks
 *       that were never answered, or said `degraded`.
 *   (b) A repeat has the numbers of a request that was charged.
 *   (c) 409, 422 and 503 charge nothing.
 *   (d) With `deny`, a key that could not be looked up gets 503.
 */
#include <stdio.h>
#include <string.h>

#include "asking.h"
#include "engine/engine_int.h"
#include "prop.h"

#define KEYS   3
#define CHECKS 6 /* at once */
#define LIMIT  1000000

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  paid: { kind: quota, per: [], rate: 1M/month, on_store_failure: deny }\n"
    "  free: { kind: quota, per: [], rate: 1M/month, on_store_failure: allow "
    "}\n"
    "routes:\n"
    "  - { match: /paid, limits: [paid] }\n"
    "  - { match: /free, limits: [free] }\n"
    "default: []\n";

/* ---- the memory ---- */

struct entry {
    bool there, done;
    struct sl_repeat_claim claim;
    char memo[SL_REPEAT_MEMO];
    size_t len;
};

struct asked {
    struct sl_check check;
    struct sl_request request;
    struct sl_repeat_call *late; /* a call that is not answered yet */
    bool busy, dead;             /* its daemon has died */
    bool failed;                 /* a BEGIN has failed */
    unsigned key, engine;
    uint64_t before; /* units that were used when it began */
    bool paid;
    char name[16];
};

struct world {
    struct sl_repeats repeats; /* first */
    struct rig rigs[2];
    struct rng rng;
    struct entry entries[2 * KEYS * 2];
    struct asked asked[CHECKS];
    struct asked *current;
    sl_ns now;
    /* Of each key and route: charged and answered without `degraded`. */
    unsigned exact[2][KEYS];
    bool bad;
};

static struct entry *find(struct world *w, const struct sl_repeat_claim *claim)
{
    struct entry *free_one = NULL;

    for (size_t i = 0; i < SL_LEN(w->entries); i++) {
        struct entry *e = &w->entries[i];

        if (e->there && sl_hash128_eq(e->claim.key, claim->key))
            return e;
        if (!e->there)
            free_one = e;
    }
    return free_one;
}

static void carry_out(struct world *w, struct sl_repeat_call *call)
{
    struct entry *e = find(w, &call->claim);
    bool own = e->there && e->claim.owner == call->claim.owner;

    call->err = 0;
    call->found = SL_REPEAT_FIRST;
    if (call->op == SL_REPEAT_DROP) {
        if (own && !e->done)
            e->there = false;
    } else if (call->op == SL_REPEAT_FINISH) {
        if (e->there && !own) {
            call->found = SL_REPEAT_OTHER;
            return;
        }
        *e = (struct entry){.there = true, .done = true, .claim = call->claim};
        memcpy(e->memo, call->memo, call->len);
        e->len = call->len;
    } else if (e->there && (e->done || e->claim.pending > call->now)) {
        call->found = e->done ? SL_REPEAT_AGAIN : SL_REPEAT_RUNNING;
        if (e->done)
            memcpy(call->memo, e->memo, call->len = e->len);
    } else {
        *e = (struct entry){.there = true, .claim = call->claim};
    }
}

static void fail(struct world *w, struct sl_repeat_call *call)
{
    call->err = SLUICE_ESTORE;
    if (call->op == SL_REPEAT_BEGIN)
        w->current->failed = true;
}

static void on_call(struct sl_repeats *repeats, struct sl_repeat_call *call)
{
    struct world *w = (struct world *)repeats;
    uint64_t pick = rng_below(&w->rng, 10);

    if (call->op == SL_REPEAT_DROP) {
        if (pick > 0)
            carry_out(w, call);
        return;
    }
    if (pick == 0) { /* not done */
        fail(w, call);
    } else if (pick == 1) { /* done, and the reply is lost */
        carry_out(w, call);
        fail(w, call);
    } else if (pick < 5) { /* later, if at all */
        w->current->late = call;
        return;
    } else {
        carry_out(w, call);
    }
    call->done(call);
}

static const struct sl_hash_key *secret(const struct sl_repeats *repeats)
{
    static const struct sl_hash_key key = {5, 6};

    (void)repeats;
    return &key;
}

/* ---- checks ---- */

static uint64_t used(struct world *w, const struct asked *a)
{
    struct sl_request look = {.limit =
                                  a->paid ? SL_STR("paid") : SL_STR("free"),
                              .key = SL_STR("x"),
                              .has_cost = true,
                              .now = w->now};
    struct rig *rig = &w->rigs[a->engine];

    CHECK_EQ(rig_decide(rig, &look, 1, NULL, true), 0);
    return LIMIT - rig->d.shown[0].answer.remaining;
}

static void must(struct world *w, bool is, const char *what)
{
    if (!is && !w->bad)
        printf("# %s\n", what);
    w->bad |= !is;
}

static void judge(struct world *w, struct asked *a)
{
    const struct sl_decision *d = &a->check.decision;

    if (a->dead)
        return;
    if (a->failed && a->paid)
        must(w, d->status == 503, "(d) a failed look-up is refused");
    if (d->status == 200 && !d->replayed && !d->degraded)
        must(w, ++w->exact[a->paid][a->key] <= 1, "(a) charged twice");
    if (d->status == 200 && d->replayed)
        must(w, d->no_numbers || d->shown[0].answer.remaining < LIMIT,
             "(b) the numbers of a charge");
    must(w, d->status == 200 || d->status == 409 || d->status == 503,
         "another status");
}

static void on_done(struct sl_check *check)
{
    struct asked *a = check->ctx;

    a->busy = false;
}

static void begin(struct world *w, struct asked *a)
{
    a->engine = (unsigned)rng_below(&w->rng, 2);
    a->key = (unsigned)rng_below(&w->rng, KEYS);
    a->paid = rng_below(&w->rng, 2);
    a->dead = a->failed = false;
    a->late = NULL;
    a->busy = true;
    snprintf(a->name, sizeof(a->name), "k%u", a->key);
    a->request =
        (struct sl_request){.method = SL_STR("GET"),
                            .path = a->paid ? SL_STR("/paid") : SL_STR("/free"),
                            .user = SL_STR("ann"),
                            .idempotency_key = sl_str_c(a->name),
                            .now = w->now};
    a->check.engine = w->rigs[a->engine].engine;
    a->check.done = on_done;
    a->check.ctx = a;
    w->current = a;
    a->before = used(w, a);
    sl_check_ref_policy(&a->check);
    sl_check_start(&a->check, &a->request, 1, true);
}

/* The memory answers a late call, or its daemon has died meanwhile. */
static void go_on(struct world *w, struct asked *a)
{
    struct sl_repeat_call *call = a->late;

    a->late = NULL;
    w->current = a;
    if (a->dead || rng_below(&w->rng, 4) == 0)
        fail(w, call);
    else
        carry_out(w, call);
    call->done(call);
}

static void step(struct world *w)
{
    struct asked *a = &w->asked[rng_below(&w->rng, CHECKS)];
    bool refused;
    uint64_t after;

    if (rng_below(&w->rng, 8) == 0)
        w->now += (sl_ns)rng_below(&w->rng, 20) * SL_S;
    if (!a->busy) {
        begin(w, a);
    } else if (rng_below(&w->rng, 10) == 0) {
        a->dead = true; /* what it had sent is not answered */
    } else {
        a->before = used(w, a);
        go_on(w, a);
    }
    if (a->busy)
        return;
    after = used(w, a);
    refused = a->check.decision.status != 200 || a->check.decision.replayed;
    must(w, !refused || after == a->before || a->dead,
         "(c) a refusal or a repeat is charged");
    judge(w, a);
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    w.rng.state = seed;
    w.repeats = (struct sl_repeats){on_call, secret};
    w.now = 20000 * SL_DAY;
    for (int i = 0; i < 2; i++) {
        rig_open(&w.rigs[i], policy);
        w.rigs[i].engine->shared = &w.repeats;
    }
    for (int i = 0; i < CHECKS; i++)
        rig_check(&w.asked[i].check, w.rigs[0].engine, &sl_alloc_libc);
    for (unsigned i = 0; i < 60 && !w.bad; i++, ++*steps) {
        w.rigs[0].now = w.rigs[1].now = w.now;
        step(&w);
    }
    for (int i = 0; i < CHECKS; i++) {
        while (w.asked[i].busy) {
            w.asked[i].dead = true;
            go_on(&w, &w.asked[i]);
        }
        sl_active_policy_unref(w.asked[i].check.active);
        w.asked[i].check.active = NULL;
        sl_check_done(&w.asked[i].check);
    }
    for (int i = 0; i < 2; i++)
        rig_close(&w.rigs[i]);
    return !w.bad;
}

const struct property prop_repeats = {
    .name = "repeats",
    .steps = 60000,
    .cases = {{"a key is charged once, whatever fails", episode, 0}},
};
