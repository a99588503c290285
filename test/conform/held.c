/* held.c -- holds in Redis, by two nodes, against models that know nothing of
 * scripts.
 *
 * A history is made from a seed: takes with holds and without, settlements of
 * less and more, releases, extensions and looks, some of them again and again,
 * by two stores on one Redis. Checked by the numbers of store/store.h:
 *
 *   (4) permits, levels and windows: what is free is exactly what the model
 *       says, at every take;
 *   (5) a hold ends once, and later calls are told how;
 *   (6) buckets: what was held and settled, counted at the instant of its
 *       take, keeps the bound in every span.
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "held_ask.h"
#include "limit.h"

static void on_tick(void *ctx)
{
    sl_loop_stop(ctx);
}

static void open_node(struct world *w, unsigned i)
{
    struct sl_redis_options options = {.where = w->where,
                                       .remote.own_now = true,
                                       .remote.no_denials = true,
                                       .remote.deadline = 10 * SL_S};
    struct sl_timer *timer;

    if (sl_redis_open(&options, &w->nodes[i], NULL) ||
        sl_remote_store_attach(w->nodes[i], w->loop, NULL) ||
        sl_timer_new(w->loop, on_tick, w->loop, &timer))
        bail("no store");
    for (unsigned k = 0; k < 2000 && !sl_remote_store_is_ready(w->nodes[i]);
         k++) {
        sl_timer_start(timer, SL_MS);
        sl_loop_run(w->loop);
    }
    sl_timer_free(timer);
}

/* ---- steps ---- */

static void step_take(struct world *w)
{
    bool holds = rng_below(&w->rng, 4) > 0;
    struct held *h = &w->list[w->count];
    struct sl_answer answer;
    struct sl_take t;

    *h =
        (struct held){.node = (unsigned)rng_below(&w->rng, NODES),
                      .cost = 1 + rng_below(&w->rng, w->limit.capacity / 2 + 1),
                      .taken = w->now,
                      .state = SL_HOLD_HELD};
    if (holds) {
        h->id.w[0] = w->seed;
        h->id.w[1] = ++w->ids;
        h->expires = w->now + (1 + (sl_ns)rng_below(&w->rng, 5000000)) * SL_US;
    }
    t = take(w, h->node, h->cost, h->id, h->expires - w->now, &answer);
    h->place = t.place;
    judge_take(w, h->cost, t.allowed, &answer);
    if (!holds) {
        h->state = SL_HOLD_SETTLED;
        h->kept = h->cost;
    }
    w->count += t.allowed;
}

/* What is in the store must be what the model says, and how it had ended. */
static void judge_call(struct world *w, const struct held *h,
                       const struct sl_hold_call *c)
{
    enum sl_hold_state want =
        h->state == SL_HOLD_HELD && !is_live(w, h) ? SL_HOLD_EXPIRED : h->state;

    if (c->state != want || (want == SL_HOLD_HELD &&
                             (c->count != 1 || c->parts[0].held != h->cost ||
                              c->parts[0].binding != &w->stored))) {
        printf("# seed %u: found %d, not %d\n", (unsigned)w->seed,
               (int)c->state, (int)want);
        w->good = false; /* (5) */
    }
}

static void settle(struct world *w, struct held *h, uint64_t cost)
{
    bool release = rng_below(&w->rng, 3) == 0;
    struct sl_hold_call c = call(w, (unsigned)rng_below(&w->rng, NODES),
                                 SL_HOLD_SETTLE, h->id, cost, release, 0);

    judge_call(w, h, &c);
    if (!is_live(w, h))
        return;
    h->state = release ? SL_HOLD_RELEASED : SL_HOLD_SETTLED;
    h->kept = release ? 0 : cost < h->cost ? cost : h->cost;
    if (!release && cost > h->cost)
        w->extras[w->extra_count++] = (struct extra){w->now, cost - h->cost};
    if (is_exact(w) && same_window(w, h->taken)) {
        uint64_t is = used(w), capacity = w->limit.capacity;

        w->good &=
            c.parts[0].answer.remaining == (is < capacity ? capacity - is : 0);
    }
}

static void step_call(struct world *w)
{
    struct held *h = &w->list[rng_below(&w->rng, w->count)];
    sl_ns life = (1 + (sl_ns)rng_below(&w->rng, 5000000)) * SL_US;
    unsigned node = (unsigned)rng_below(&w->rng, NODES);
    struct sl_hold_call c;

    if (sl_hold_id_is_none(h->id))
        return;
    switch (rng_below(&w->rng, 4)) {
    case 0:
        c = call(w, node, SL_HOLD_EXTEND, h->id, 0, false, life);
        judge_call(w, h, &c);
        if (is_live(w, h)) {
            h->expires = w->now + life;
            w->good &= c.expires_in == life;
        }
        break;
    case 1:
        c = call(w, node, SL_HOLD_LOOK, h->id, 0, false, 0);
        judge_call(w, h, &c);
        if (is_live(w, h))
            w->good &= c.expires_in == h->expires - w->now;
        break;
    default:
        settle(w, h, rng_below(&w->rng, h->cost * 3 / 2 + 1));
        break;
    }
}

static void run(struct world *w)
{
    w->count = w->extra_count = 0;
    w->now = 20000 * SL_DAY;
    w->good = true;
    for (unsigned i = 0; i < STEPS && w->good; i++) {
        if (rng_below(&w->rng, 3))
            w->now += (sl_ns)rng_below(&w->rng, 700000) * SL_US;
        if (w->count == 0 || rng_below(&w->rng, 2))
            step_take(w);
        else
            step_call(w);
    }
}

/* ---- buckets ---- */

__extension__ typedef __int128 wide;

static bool bucket_holds(const struct world *w)
{
    const struct sl_limit *l = &w->limit;

    for (unsigned i = 0; i < w->count; i++) {
        wide sum = 0;

        for (unsigned k = i; k < w->count; k++) {
            sl_ns from = w->list[i].taken, to = w->list[k].taken;
            wide refill = l->kind == SL_INTERVAL
                              ? (wide)(to / l->period - from / l->period) *
                                    (wide)l->count * l->period
                              : (wide)(to - from) * (wide)l->count;

            sum += counts(w, &w->list[k]);
            if ((sum - (wide)l->capacity) * l->period > refill) {
                printf("# seed %u: %u in %lld ns\n", (unsigned)w->seed,
                       (unsigned)sum, (long long)(to - from));
                return false; /* (6) */
            }
        }
    }
    return true;
}

/* ---- tests ---- */

static void make_limit(struct world *w)
{
    static const enum sl_kind kinds[] = {SL_PERMITS, SL_BUCKET, SL_FIXED,
                                         SL_LEVEL,   SL_BUCKET, SL_INTERVAL};
    static const uint64_t counts_[] = {1, 3, 10, 40};
    enum sl_kind kind = kinds[w->seed % SL_LEN(kinds)];
    bool plain = kind == SL_PERMITS || kind == SL_LEVEL;
    struct sl_rate rate = {.form = plain ? SL_RATE_PLAIN : SL_RATE_PER,
                           .unit = SL_UNIT_SECOND,
                           .every = 1 + rng_below(&w->rng, 9),
                           .count = counts_[rng_below(&w->rng, 4)]};

    if (kind == SL_BUCKET || kind == SL_INTERVAL) {
        rate.has_burst = true;
        rate.burst = counts_[rng_below(&w->rng, 4)];
    }
    if (sl_limit_init(&w->limit, kind, &rate, NULL, NULL))
        bail("no limit");
    w->stored =
        (struct sl_limit_binding){.name = "held", .strictest = w->limit};
    snprintf(w->key, sizeof(w->key), "hold:%u", (unsigned)w->seed);
}

static void test_histories(struct world *w)
{
    unsigned seeds = getenv("SL_PROP_STEPS") ? 12 : 60;

    for (w->seed = 1; w->seed <= seeds; w->seed++) {
        w->rng.state = w->seed;
        make_limit(w);
        run(w);
        CASE("holds are what the model says");
        CHECK(w->good);
        CHECK(w->count > 0);
        if (!is_exact(w))
            CHECK(bucket_holds(w));
    }
}

static void begin(struct world *w, enum sl_kind kind, const char *text,
                  const char *key)
{
    w->limit = rate_of(kind, text);
    w->stored =
        (struct sl_limit_binding){.name = "held", .strictest = w->limit};
    snprintf(w->key, sizeof(w->key), "%s", key);
    w->now = 20000 * SL_DAY;
}

static struct sl_hold_id fresh(struct world *w)
{
    return (struct sl_hold_id){
        {77, ++w->ids}
    };
}

static void test_bucket(struct world *w)
{
    struct sl_hold_id a = fresh(w), b = fresh(w);
    struct sl_hold_id none = {
        {0, 0}
    };
    struct sl_answer answer;

    begin(w, SL_BUCKET, "1/s burst 20", "hold:bucket");
    CASE("what is released at once is all there again");
    CHECK(take(w, 0, 20, a, SL_S, &answer).allowed);
    CHECK(!take(w, 1, 1, none, 0, &answer).allowed);
    CHECK_EQ(call(w, 1, SL_HOLD_SETTLE, a, 0, true, 0).state, SL_HOLD_HELD);
    CHECK(take(w, 1, 20, none, 0, &answer).allowed);

    CASE("the same refill is not handed out twice");
    w->now += 20 * SL_S;
    a = fresh(w);
    CHECK(take(w, 0, 10, a, SL_MIN, &answer).allowed);
    CHECK(take(w, 0, 10, b, SL_MIN, &answer).allowed);
    CHECK_EQ(call(w, 0, SL_HOLD_SETTLE, a, 0, true, 0).state, SL_HOLD_HELD);
    w->now += 10 * SL_S; /* nothing is used now */
    CHECK(take(w, 0, 10, none, 0, &answer).allowed);
    CHECK_EQ(call(w, 0, SL_HOLD_SETTLE, b, 0, true, 0).state, SL_HOLD_HELD);
    (void)take(w, 0, 0, none, 0, &answer);
    CHECK_EQ(answer.remaining, 10);

    CASE("an expired hold comes back as of its expiry, to the microsecond");
    begin(w, SL_LEVEL, "5", "hold:level");
    a = fresh(w);
    CHECK(take(w, 0, 5, a, SL_S, &answer).allowed);
    w->now += SL_S - SL_US;
    CHECK(!take(w, 1, 1, none, 0, &answer).allowed);
    w->now += SL_US;
    CHECK(take(w, 1, 5, none, 0, &answer).allowed);
    CHECK_EQ(call(w, 1, SL_HOLD_SETTLE, a, 1, false, 0).state, SL_HOLD_EXPIRED);

    CASE("more than was held is charged, and said");
    begin(w, SL_FIXED, "10/min", "hold:fixed");
    a = fresh(w);
    CHECK(take(w, 0, 4, a, SL_S, &answer).allowed);
    {
        struct sl_hold_call c = call(w, 0, SL_HOLD_SETTLE, a, 14, false, 0);

        CHECK_EQ(c.parts[0].cost, 14);
        CHECK(c.parts[0].over);
        CHECK_EQ(c.parts[0].answer.remaining, 0);
        CHECK_EQ(c.parts[0].answer.limit, 10);
    }
    CASE("a hold that never was is unknown");
    CHECK_EQ(call(w, 0, SL_HOLD_LOOK, fresh(w), 0, false, 0).state,
             SL_HOLD_UNKNOWN);
}

static void test_permits(struct world *w)
{
    struct sl_hold_id a = fresh(w);
    struct sl_hold_id none = {
        {0, 0}
    };
    struct sl_answer answer;

    CASE("permits of a limit that is not named come back");
    begin(w, SL_PERMITS, "3", "hold:permits");
    CHECK(take(w, 0, 3, a, SL_S, &answer).allowed);
    w->as_held = true;
    CHECK_EQ(call(w, 0, SL_HOLD_SETTLE, a, 0, false, 0).state, SL_HOLD_HELD);
    w->as_held = false;
    CHECK(take(w, 0, 3, none, 0, &answer).allowed);
}

/* The value is of another limit by now, and stays what it is. */
static void test_other_limit(struct world *w)
{
    static const struct {
        const char *what;
        enum sl_kind kind_then;
        const char *then;
        enum sl_kind kind_now;
        const char *now;
    } rows[] = {
        {"another bucket", SL_BUCKET,  "10/day", SL_BUCKET,  "10/hour"},
        {"another window", SL_FIXED,   "10/day", SL_FIXED,   "10/hour"},
        {"was permits",    SL_PERMITS, "10",     SL_FIXED,   "10/hour"},
        {"permits by now", SL_FIXED,   "10/day", SL_PERMITS, "10"     },
    };
    struct sl_hold_id none = {
        {0, 0}
    };
    struct sl_answer answer;
    char key[32];

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_hold_id a = fresh(w), b = fresh(w), c = fresh(w);

        CASE(rows[i].what);
        snprintf(key, sizeof(key), "hold:other:%u", i);
        begin(w, rows[i].kind_then, rows[i].then, key);
        CHECK(take(w, 0, 2, a, SL_HOUR, &answer).allowed);
        CHECK(take(w, 0, 2, b, SL_HOUR, &answer).allowed);
        CHECK(take(w, 0, 2, c, SL_HOUR, &answer).allowed);
        begin(w, rows[i].kind_now, rows[i].now, key);
        CHECK(take(w, 0, 10, none, 0, &answer).allowed);
        CHECK_EQ(call(w, 0, SL_HOLD_EXTEND, a, 0, false, SL_HOUR).state,
                 SL_HOLD_HELD);
        CHECK(!take(w, 1, 1, none, 0, &answer).allowed);
        CHECK_EQ(call(w, 0, SL_HOLD_SETTLE, a, 1, false, 0).state,
                 SL_HOLD_HELD);
        CHECK_EQ(call(w, 0, SL_HOLD_SETTLE, b, 3, false, 0).state,
                 SL_HOLD_HELD);
        CHECK_EQ(call(w, 0, SL_HOLD_SETTLE, c, 0, true, 0).state, SL_HOLD_HELD);
        CHECK(!take(w, 1, 1, none, 0, &answer).allowed);
    }
}

/* Hold 10 of 10, take what has come back since, step back, and release: what
 * was had once is not had again. */
static void test_step_back(struct world *w)
{
    static const struct {
        const char *what;
        enum sl_kind kind;
        sl_ns held, taken, back; /* seconds */
    } rows[] = {
        {"a step back grants a bucket nothing",      SL_BUCKET,   0, 10, 1},
        {"a step back grants an interval nothing",   SL_INTERVAL, 0, 10, 1},
        {"a step back grants a window nothing",      SL_FIXED,    5, 12, 8},
        {"a step back grants no window that slides", SL_SLIDING,  5, 25, 8},
    };
    struct sl_hold_id none = {
        {0, 0}
    };
    struct sl_answer answer;
    char key[32];

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_hold_id a = fresh(w);
        sl_ns from;

        CASE(rows[i].what);
        snprintf(key, sizeof(key), "hold:step:%u", i);
        begin(w, rows[i].kind, "10/10s", key);
        from = w->now;
        w->now = from + rows[i].held * SL_S;
        CHECK(take(w, 0, 10, a, SL_HOUR, &answer).allowed);
        w->now = from + rows[i].taken * SL_S;
        CHECK(take(w, 0, 10, none, 0, &answer).allowed);
        w->now = from + rows[i].back * SL_S;
        CHECK(!take(w, 0, 1, none, 0, &answer).allowed);
        CHECK_EQ(call(w, 0, SL_HOLD_SETTLE, a, 0, true, 0).state, SL_HOLD_HELD);
        CHECK(!take(w, 0, 1, none, 0, &answer).allowed);
    }
}

int main(int argc, char **argv)
{
    static struct world w;
    struct sl_arena arena;
    char where[256];

    if (argc < 2)
        return 2;
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    snprintf(where, sizeof(where), "redis+unix://%s", argv[1]);
    if (sl_redis_url_read(sl_str_c(where), &arena, &w.where, NULL) ||
        sl_loop_open(NULL, &w.loop, NULL))
        bail("no loop");
    for (unsigned i = 0; i < NODES; i++)
        open_node(&w, i);
    test_bucket(&w);
    test_permits(&w);
    test_other_limit(&w);
    test_step_back(&w);
    test_histories(&w);
    for (unsigned i = 0; i < NODES; i++) {
        sl_remote_store_detach(w.nodes[i], w.loop);
        sl_store_close(w.nodes[i]);
    }
    sl_loop_close(w.loop);
    sl_arena_done(&arena);
    return CHECK_DONE();
}
