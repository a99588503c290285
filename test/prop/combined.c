/* combined.c -- the combined store over a remote store that denies, fails,
 * answers late and leaves its outcome unknown, in random order.
 *
 * The quota is in a table behind quota leases; its usage database is a few
 * numbers. The remote store is one counter, and holds. Questions to both wait
 * until a random step answers them. The caller keeps some failed takes.
 *
 * Checked, by the numbers of store/combined.h:
 *   (1) the sums here and there are those of the takes that were allowed or
 *       kept: no take is half done;
 *   (2) a take that the quota denies sends only a peek;
 *   (3) a failed take is kept or undone here, even if its texts are gone;
 *   (4) what the table has is what was allowed and kept, less refunds;
 * and in the end all units of the quota can be used: none is lost. */
#include <stdlib.h>
#include <string.h>

#include "leased_db.h"
#include "net/loop.h"
#include "store/combined.h"

#define TAKES 16
#define HOLDS 16
#define ASKS  64
#define DAY_0 (20000 * SL_DAY)

struct world;

/* A take and the texts that it points at, which are overwritten after done().
 */
struct attempt {
    struct world *w;
    bool busy, sent_take;
    unsigned quota; /* index of its part; the other is remote */
    struct sl_take take;
    struct sl_part parts[2];
    struct sl_limit_binding bindings[2];
    struct sl_limit limits[2];
    char key[8];
};

struct held {
    struct sl_hold_id id;
    uint32_t place;
    uint64_t here, there;
    bool busy;
    struct sl_hold_call call;
};

struct world {
    struct sl_quota_lessor lessor;
    struct usage_db db;
    struct sl_store *table, *store;
    struct sl_store remote;
    struct sl_limit quota, window;
    struct sl_limit_binding bindings[2]; /* the window, the quota */
    bool twice;
    struct sl_clock clock;
    struct sl_loop *loop;
    sl_ns mono;

    /* The remote store. */
    uint64_t far_used, far_cap;
    struct sl_take *far_takes[TAKES];
    struct sl_hold_call *far_holds[HOLDS];
    bool kept; /* by the done() that runs */
    struct {
        struct sl_hold_id id;
        enum sl_hold_state state;
        uint64_t here, there; /* the copy, and its own part */
    } far_held[HOLDS];

    struct sl_quota_ask *asks[ASKS];
    unsigned ask_count;

    struct attempt tries[TAKES];
    struct held holds[HOLDS];
    uint64_t here, there; /* the oracle: taken, with held */
    unsigned allowed, denied, failed, kept_count;
};

static struct world w;
static struct sl_store *leases; /* before the table */

/* ---- the remote store ---- */

static void far_take(struct sl_store *store, struct sl_take *take)
{
    struct attempt *t = w.tries;

    (void)store;
    for (unsigned i = 0; i < TAKES; i++)
        if (w.tries[i].busy && w.tries[i].take.now == take->now)
            t = &w.tries[i]; /* each take has an instant of its own */
    t->sent_take |= take->op != SL_TAKE_OP_PEEK;
    for (unsigned i = 0; i < TAKES; i++)
        if (!w.far_takes[i]) {
            w.far_takes[i] = take;
            return;
        }
    abort();
}

static void far_hold(struct sl_store *store, struct sl_hold_call *call)
{
    (void)store;
    for (unsigned i = 0; i < HOLDS; i++)
        if (!w.far_holds[i]) {
            w.far_holds[i] = call;
            return;
        }
    abort();
}

static void far_keep(struct sl_store *store, struct sl_loop *loop)
{
    (void)store;
    (void)loop;
    w.kept = true;
}

static void far_close(struct sl_store *store)
{
    (void)store;
}

static const struct sl_store_calls far_calls = {
    .take = far_take, .close = far_close, .keep = far_keep, .hold = far_hold};

static uint64_t cost_there(const struct sl_take *take, bool quota)
{
    uint64_t cost = 0;

    for (unsigned i = 0; i < take->count; i++)
        if ((take->parts[i].limit->kind == SL_QUOTA) == quota)
            cost += take->parts[i].cost;
    return cost;
}

static void put_held(const struct sl_take *take)
{
    unsigned i = 0;

    while (w.far_held[i].state == SL_HOLD_HELD)
        if (++i == HOLDS)
            abort();
    w.far_held[i].id = take->hold;
    w.far_held[i].state = SL_HOLD_HELD;
    w.far_held[i].here = cost_there(take, true);
    w.far_held[i].there = cost_there(take, false);
}

/* Answers one take: as it should, or it fails, and may have been done. */
static void answer_far(unsigned i)
{
    struct sl_take *take = w.far_takes[i];
    uint64_t cost = cost_there(take, false);
    bool fits = w.far_used + cost <= w.far_cap;
    bool fails = any(4) == 0, unknown = fails && any(2);
    bool taken = take->op == SL_TAKE_OP_TAKE && fits && (!fails || unknown);

    w.far_takes[i] = NULL;
    if (unknown && any(2))
        taken = false;
    for (unsigned k = 0; k < take->count; k++) {
        struct sl_answer *a = &take->parts[k].answer;

        *a = (struct sl_answer){.outcome = SL_ALLOW, .capacity = w.far_cap};
        if (take->parts[k].limit->kind != SL_QUOTA && !fits)
            a->outcome = SL_DENY;
    }
    take->err = fails ? SLUICE_ESTORE : 0;
    take->sent = unknown;
    take->allowed = !fails && fits;
    take->place = 7;
    if (taken && !fails)
        w.far_used += cost;
    if (taken && !fails && !sl_hold_id_is_none(take->hold))
        put_held(take);
    w.kept = false;
    take->done(take);
    if (taken && fails && w.kept) { /* otherwise it is refunded */
        w.far_used += cost;
        w.there += cost;
    }
}

static void answer_far_hold(unsigned i)
{
    struct sl_hold_call *call = w.far_holds[i];
    bool fails = any(4) == 0, done = !fails || any(2);

    w.far_holds[i] = NULL;
    CHECK_EQ(call->place, 7);
    call->err = fails ? SLUICE_ESTORE : 0;
    call->state = SL_HOLD_UNKNOWN;
    call->count = 0;
    for (unsigned k = 0; k < HOLDS; k++) {
        if (w.far_held[k].id.w[0] != call->id.w[0])
            continue;
        call->state = w.far_held[k].state;
        if (!done || call->state != SL_HOLD_HELD)
            continue;
        w.far_held[k].state =
            call->release ? SL_HOLD_RELEASED : SL_HOLD_SETTLED;
        if (w.far_held[k].there > 0)
            call->parts[call->count++] = (struct sl_held_part){
                .binding = &w.bindings[0], .held = w.far_held[k].there};
        if (w.far_held[k].here > 0)
            call->parts[call->count++] = (struct sl_held_part){
                .binding = &w.bindings[1], .held = w.far_held[k].here};
        if (call->release) {
            w.far_used -= w.far_held[k].there;
            w.there -= w.far_held[k].there;
        }
    }
    call->done(call);
}

/* ---- the usage database ---- */

static void ask(struct sl_quota_lessor *lessor, struct sl_quota_ask *ask)
{
    (void)lessor;
    if (w.ask_count == ASKS)
        abort();
    w.asks[w.ask_count++] = ask;
}

static void answer_ask(void)
{
    struct sl_quota_ask *one;

    if (w.ask_count == 0)
        return;
    one = w.asks[0];
    memmove(w.asks, w.asks + 1, --w.ask_count * sizeof(*w.asks));
    claim(&w.db, 0, one, w.mono);
    one->err = 0;
    one->done(one);
}

static bool name(struct sl_quota_lessor *lessor, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id)
{
    (void)lessor;
    *scope = SL_STR("org");
    return !sl_buf_add(id, part->key);
}

static void on_look(struct sl_take *take)
{
    (void)take;
}

static uint64_t count_here(void)
{
    struct sl_limit open = w.quota;
    struct sl_part part = {
        .binding = &w.bindings[1], .limit = &open, .key = SL_STR("acme")};
    struct sl_take look = {.op = SL_TAKE_OP_PEEK,
                           .parts = &part,
                           .count = 1,
                           .now = DAY_0 + w.mono,
                           .done = on_look};

    open.capacity = SL_AMOUNT_MAX;
    sl_store_take(w.table, &look);
    return part.answer.capacity - part.answer.remaining;
}

static bool count(struct sl_quota_lessor *lessor,
                  const struct sl_quota_ask *who, uint64_t *ret)
{
    (void)lessor;
    (void)who;
    *ret = count_here();
    return true;
}

/* ---- the caller ---- */

static void forget_texts(struct attempt *t)
{
    memset(t->key, 0xee, sizeof(t->key));
    memset(t->limits, 0xee, sizeof(t->limits));
    memset(t->bindings, 0xee, sizeof(t->bindings));
    memset(t->parts, 0xee, sizeof(t->parts));
    t->busy = false;
}

static void keep_hold(const struct attempt *t, uint64_t here, uint64_t there)
{
    for (unsigned i = 0; i < HOLDS; i++)
        if (sl_hold_id_is_none(w.holds[i].id)) {
            w.holds[i] = (struct held){.id = t->take.hold,
                                       .place = t->take.place,
                                       .here = here,
                                       .there = there};
            return;
        }
    abort();
}

static void on_done(struct sl_take *take)
{
    struct attempt *t = take->ctx;
    uint64_t here = t->parts[t->quota].cost;
    uint64_t there = take->count > 1 ? t->parts[1 - t->quota].cost : 0;
    bool quota_denies = t->parts[t->quota].answer.outcome != SL_ALLOW;

    if (take->err) {
        w.failed++;
        if ((take->sent || take->taken) && any(2)) {
            w.store->calls->keep(w.store, take->loop);
            w.kept_count++;
            if (take->taken || w.twice) { /* (3) */
                w.here += here;
                record(&w.db, 0, here);
            }
            /* Whether the remote store has it is its own to know. */
        }
    } else if (take->allowed) {
        w.allowed++;
        w.here += here;
        w.there += there;
        if (sl_hold_id_is_none(take->hold))
            record(&w.db, 0, here);
        else
            keep_hold(t, here, there);
    } else {
        w.denied++;
        CHECK(!quota_denies || !t->sent_take); /* (2) */
    }
    forget_texts(t);
}

static unsigned free_holds(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < HOLDS; i++)
        n += sl_hold_id_is_none(w.holds[i].id);
    for (unsigned i = 0; i < TAKES; i++)
        n -= n > 0 && w.tries[i].busy;
    return n;
}

static struct attempt *find_try(void)
{
    for (unsigned i = 0; i < TAKES; i++)
        if (!w.tries[i].busy)
            return &w.tries[i];
    return NULL;
}

static void fill_part(struct attempt *t, unsigned i, bool quota, uint64_t cost)
{
    t->bindings[i] = w.bindings[quota];
    t->limits[i] = quota ? w.quota : w.window;
    t->parts[i] = (struct sl_part){
        .binding = &t->bindings[i],
        .limit = &t->limits[i],
        .key = {t->key, 4},
        .cost = cost,
        .taken_at = DAY_0 + w.mono,
        .view = (const void *)t
    };
}

static void start(uint64_t cost, bool both, bool hold)
{
    struct attempt *t = find_try();

    if (!t)
        return;
    w.mono += SL_US;
    *t = (struct attempt){.w = &w, .busy = true};
    memcpy(t->key, "acme", 4);
    t->quota = both ? (unsigned)any(2) : 0;
    fill_part(t, t->quota, true, cost);
    if (both)
        fill_part(t, 1 - t->quota, false, 1 + any(3));
    t->take = (struct sl_take){.op = SL_TAKE_OP_TAKE,
                               .parts = t->parts,
                               .count = both ? 2 : 1,
                               .now = DAY_0 + w.mono,
                               .loop = w.loop,
                               .done = on_done,
                               .ctx = t};
    if (hold && free_holds() > 0) {
        t->take.hold = (struct sl_hold_id){
            {rng_next(&chance) | 1, 1}
        };
        t->take.hold_for = SL_DAY;
    }
    sl_store_take(w.store, &t->take);
}

static void on_ended(struct sl_hold_call *call)
{
    struct held *h = call->ctx;
    bool here = false;

    h->busy = false;
    if (call->err)
        return; /* it is repeated */
    CHECK(call->state == SL_HOLD_HELD || call->state == SL_HOLD_SETTLED ||
          call->state == SL_HOLD_RELEASED);
    for (unsigned i = 0; i < call->count; i++) {
        CHECK(!call->parts[i].elsewhere);
        here |= call->parts[i].binding == &w.bindings[1];
    }
    CHECK(here); /* it ends here once, whatever the remote store said */
    if (call->release)
        w.here -= h->here;
    else
        record(&w.db, 0, h->here);
    h->id = (struct sl_hold_id){
        {0, 0}
    };
}

/* A hold that was to be released stays so: the first call may have been done.
 */
static void end_one(unsigned i)
{
    struct held *h = &w.holds[i];

    if (sl_hold_id_is_none(h->id) || h->busy)
        return;
    h->busy = true;
    h->call = (struct sl_hold_call){.op = SL_HOLD_SETTLE,
                                    .id = h->id,
                                    .place = h->place,
                                    .limits = w.bindings,
                                    .limits_count = 2,
                                    .release = h->id.w[0] >> 20 & 1,
                                    .as_held = true,
                                    .now = DAY_0 + w.mono,
                                    .loop = w.loop,
                                    .done = on_ended,
                                    .ctx = h};
    sl_store_hold(w.store, &h->call);
}

/* ---- steps ---- */

static bool is_busy(void)
{
    for (unsigned i = 0; i < TAKES; i++)
        if (w.tries[i].busy || w.far_takes[i])
            return true;
    for (unsigned i = 0; i < HOLDS; i++)
        if (w.far_holds[i])
            return true;
    return w.ask_count > 0;
}

static void answer_any(void)
{
    unsigned i = (unsigned)any(TAKES);

    if (any(3) == 0)
        answer_ask();
    else if (w.far_takes[i])
        answer_far(i);
    else if (w.far_holds[i])
        answer_far_hold(i);
}

static void settle(void)
{
    while (is_busy())
        answer_any();
}

static void step(void)
{
    uint64_t what = any(20);

    if (what < 7)
        start(1 + any(6), any(3) > 0, any(4) == 0);
    else if (what < 17)
        answer_any();
    else if (what < 19)
        end_one((unsigned)any(HOLDS));
    else
        sl_quota_leases_heartbeat(leases, w.loop, DAY_0 + (w.mono += SL_S));
}

static sl_ns read_mono(void *ctx)
{
    (void)ctx;
    return w.mono;
}

static sl_ns read_wall(void *ctx)
{
    (void)ctx;
    return DAY_0 + w.mono;
}

static void make_limits(void)
{
    struct sl_rate rate;

    if (sl_parse_rate(SL_STR("1/month"), &rate, NULL))
        abort();
    rate.count = w.db.cap;
    if (sl_limit_init(&w.quota, SL_QUOTA, &rate, &(struct sl_limit_options){0},
                      NULL))
        abort();
    if (sl_parse_rate(SL_STR("5/min"), &rate, NULL) ||
        sl_limit_init(&w.window, SL_FIXED, &rate, NULL, NULL))
        abort();
    w.bindings[0] =
        (struct sl_limit_binding){.name = "window", .strictest = w.window};
    w.bindings[1] = (struct sl_limit_binding){
        .name = "units", .strictest = w.quota, .quota_leased = true};
}

static void open_world(void)
{
    struct sl_quota_leases_options options = {
        .lessor = &w.lessor, .patience = SL_S, .mono = read_mono};
    struct sl_combined_options both = {.remote = &w.remote};

    memset(&w, 0, sizeof(w));
    w.db.cap = 1 + any(any(2) ? 40 : 1500);
    w.twice = both.twice = any(3) == 0;
    w.far_cap = any(4) ? 4 * w.db.cap : any(30);
    w.mono = SL_HOUR;
    sl_clock_init_sources(&w.clock, read_mono, read_mono, &w);
    make_limits();
    w.lessor =
        (struct sl_quota_lessor){.ask = ask, .name = name, .count = count};
    w.remote.calls = &far_calls;
    if (sl_loop_open(&w.clock, &w.loop, NULL) ||
        sl_memory_open(
            &(struct sl_memory_options){.size = 1 << 20, .now = read_wall},
            &w.table, NULL))
        abort();
    options.store = w.table;
    if (sl_quota_leases_open(&options, &leases))
        abort();
    both.local = leases;
    if (sl_combined_store_open(&both, &w.store) ||
        sl_store_bind(w.store, w.bindings, 2, NULL))
        abort();
}

static bool check_sums(unsigned step)
{
    if (is_busy())
        return true;
    CHECK_EQ(count_here(), w.here); /* (1) (4) */
    CHECK_EQ(w.far_used, w.there);  /* (1) */
    CHECK(w.here <= w.db.cap);
    if (count_here() == w.here && w.here <= w.db.cap)
        return true;
    printf("# at step %u: %llu here, want %llu\n", step,
           (unsigned long long)count_here(), (unsigned long long)w.here);
    return false;
}

/* All units can be used: what failed or was denied has none. */
static void use_up(void)
{
    unsigned ended;

    do {
        settle();
        ended = 0;
        for (unsigned i = 0; i < HOLDS; i++) {
            ended += !sl_hold_id_is_none(w.holds[i].id);
            end_one(i);
        }
    } while (ended > 0);
    settle();
    w.mono += 2 * SL_DAY; /* a kept take is not held any more: it stays */
    CHECK_EQ(count_here(), w.here);
    for (unsigned i = 0; i < 3 * w.db.cap + 20 && w.here < w.db.cap; i++) {
        start(1, false, false);
        settle();
        w.mono += 200 * SL_MS; /* a refusal is remembered for less */
    }
    CHECK_EQ(w.db.used, w.db.cap);
    CHECK_EQ(count_here(), w.db.cap);
}

static bool episode(uint64_t seed, uint64_t *steps)
{
    bool good = true;

    chance.state = seed;
    open_world();
    for (unsigned i = 0; i < 1500 && good; i++) {
        step();
        if (any(40) == 0)
            settle();
        good = check_sums(i);
    }
    *steps += 50;
    if (!good)
        return false;
    use_up();
    sl_store_close(w.store);
    sl_loop_close(w.loop);
    return true;
}

const struct property prop_combined = {
    .name = "combined",
    .steps = 10000,
    .cases = {{"quotas here and rates there, in any order", episode}},
};
