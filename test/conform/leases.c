/* leases.c -- several nodes that lease from one Redis, or one DynamoDB, admit
 * no more than the limit, in any span, whatever they do.
 *
 * Each node is a store of its own. A history is made from a seed: at instants
 * that go on by microseconds or by seconds, some node is asked for a take; now
 * and then one is drained or simply gone, with its leases, and another comes in
 * its place. What was admitted is written down and judged by an oracle that
 * knows nothing of leases:
 *
 *   bucket           in any span of length L at most burst + L * rate
 *   interval bucket  at most burst + count for each multiple of the period
 *                    that lies in the span
 *   fixed, quota     in each window at most the limit
 *   sliding          at each take, what its formula says
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "far.h"
#include "rng.h"

#define NODES 3
#define TAKES 1500
#define LONG  20 /* of the steps, one in so many is of seconds */

struct world {
    struct far far;
    struct sl_store *nodes[NODES];
    struct rng rng;
    uint64_t seed;
    struct sl_limit limit;
    struct sl_limit_binding stored;
    char key[64];
    sl_ns now;
    struct {
        sl_ns at;
        uint64_t cost;
    } taken[TAKES]; /* what was admitted */
    unsigned count;
    unsigned takes;        /* in a history */
    uint64_t leased, over; /* of nodes that are gone */
    bool done;
};

static void bail(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

/* ---- nodes ---- */

static void close_node(struct world *w, unsigned i)
{
    struct far_stats stats;

    far_stats(w->nodes[i], &stats);
    w->leased += stats.leased;
    w->over += stats.lease_over;
    far_close(&w->far, w->nodes[i]);
}

static void on_done(struct sl_take *take)
{
    struct world *w = take->ctx;

    w->done = true;
    sl_loop_stop(w->far.loop);
}

static bool ask(struct world *w, unsigned node, enum sl_take_op op,
                uint64_t cost)
{
    struct sl_part part = {.binding = &w->stored,
                           .limit = &w->limit,
                           .key = sl_str_c(w->key),
                           .name = sl_str_c(w->key),
                           .cost = cost};
    struct sl_take take = {.op = op,
                           .parts = &part,
                           .count = 1,
                           .now = w->now,
                           .loop = w->far.loop,
                           .done = on_done,
                           .ctx = w};

    w->done = false;
    sl_store_take(w->nodes[node], &take);
    while (!w->done)
        sl_loop_run(w->far.loop);
    if (take.err)
        bail("the store failed");
    return take.allowed;
}

static bool take(struct world *w, unsigned node, uint64_t cost)
{
    return ask(w, node, SL_TAKE_OP_TAKE, cost);
}

/* ---- histories ---- */

static void make_limit(struct world *w)
{
    static const enum sl_kind kinds[] = {SL_BUCKET,  SL_BUCKET, SL_INTERVAL,
                                         SL_SLIDING, SL_FIXED,  SL_QUOTA};
    static const uint64_t counts[] = {1, 3, 10, 40, 100};
    enum sl_kind kind = kinds[w->seed % SL_LEN(kinds)];
    struct sl_rate rate = {.form = SL_RATE_PER,
                           .unit = SL_UNIT_SECOND,
                           .every = 1 + rng_below(&w->rng, 5),
                           .count = counts[rng_below(&w->rng, 5)]};

    if (kind == SL_BUCKET || kind == SL_INTERVAL) {
        rate.has_burst = true;
        rate.burst = counts[rng_below(&w->rng, 5)];
    }
    if (kind == SL_QUOTA)
        rate.unit = SL_UNIT_DAY;
    if (sl_limit_init(&w->limit, kind, &rate, NULL, NULL))
        bail("no limit");
    w->stored = (struct sl_limit_binding){
        .name = "leased",
        .strictest = w->limit,
        .lease = 1 + (unsigned)rng_below(&w->rng, 100)};
    snprintf(w->key, sizeof(w->key), "lease:%u", (unsigned)w->seed);
}

static void move_time(struct world *w)
{
    if (rng_below(&w->rng, LONG) == 0)
        w->now += (sl_ns)rng_below(&w->rng, 3000000) * SL_US;
    else if (rng_below(&w->rng, 2))
        w->now += (sl_ns)rng_below(&w->rng, 20000) * SL_US;
    if (w->limit.kind == SL_QUOTA && rng_below(&w->rng, 100) == 0)
        w->now += SL_DAY / 3;
}

/* A node goes, with good manners or without, and another comes. */
static void change_nodes(struct world *w)
{
    unsigned i = (unsigned)rng_below(&w->rng, NODES);

    if (rng_below(&w->rng, 150) > 0)
        return;
    if (rng_below(&w->rng, 2))
        far_drain(&w->far, w->nodes[i], w->now);
    close_node(w, i);
    w->nodes[i] = far_open(&w->far);
}

/* Nodes outlive histories, and so do their leases: time goes on. */
static sl_ns next_day(const struct world *w)
{
    return (w->now / SL_DAY + 2) * SL_DAY;
}

static void run(struct world *w)
{
    w->count = 0;
    w->now = next_day(w) + (sl_ns)rng_below(&w->rng, 86400) * SL_S;
    for (unsigned i = 0; i < w->takes; i++) {
        unsigned node = (unsigned)rng_below(&w->rng, NODES);
        uint64_t cost = rng_below(&w->rng, 8) ? 1 : 1 + rng_below(&w->rng, 4);

        move_time(w);
        change_nodes(w);
        if (take(w, node, cost)) {
            w->taken[w->count].at = w->now;
            w->taken[w->count++].cost = cost;
        }
    }
}

/* ---- oracles ---- */

__extension__ typedef __int128 wide;

/* What a bucket may get between two instants, times the period. */
static wide refill(const struct sl_limit *l, sl_ns from, sl_ns to)
{
    if (l->kind == SL_INTERVAL)
        return (wide)(to / l->period - from / l->period) * (wide)l->count *
               l->period;
    return (wide)(to - from) * (wide)l->count;
}

static bool bucket_holds(const struct world *w)
{
    const struct sl_limit *l = &w->limit;

    for (unsigned i = 0; i < w->count; i++) {
        wide sum = 0;

        for (unsigned k = i; k < w->count; k++) {
            sum += w->taken[k].cost;
            if ((sum - (wide)l->capacity) * l->period >
                refill(l, w->taken[i].at, w->taken[k].at)) {
                printf("# seed %u: %u admitted in %lld ns\n", (unsigned)w->seed,
                       (unsigned)sum,
                       (long long)(w->taken[k].at - w->taken[i].at));
                return false;
            }
        }
    }
    return true;
}

static sl_ns window_of(const struct sl_limit *l, sl_ns at)
{
    return l->calendar ? sl_calendar_period(&l->cal, at).start / SL_DAY
                       : at / l->period;
}

static bool window_holds(const struct world *w)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < w->count; i++) {
        if (i > 0 && window_of(&w->limit, w->taken[i].at) !=
                         window_of(&w->limit, w->taken[i - 1].at))
            sum = 0;
        sum += w->taken[i].cost;
        if (sum > w->limit.capacity) {
            printf("# seed %u: %u in a window\n", (unsigned)w->seed,
                   (unsigned)sum);
            return false;
        }
    }
    return true;
}

static bool sliding_holds(const struct world *w)
{
    const struct sl_limit *l = &w->limit;
    uint64_t current = 0, previous = 0;
    sl_ns index = -2;

    for (unsigned i = 0; i < w->count; i++) {
        sl_ns at = w->taken[i].at, is = at / l->period;

        if (is != index) {
            previous = is == index + 1 ? current : 0;
            current = 0;
            index = is;
        }
        current += w->taken[i].cost;
        if ((wide)previous * ((is + 1) * l->period - at) >
            ((wide)l->capacity - (wide)current) * l->period) {
            printf("# seed %u: %u and %u of %u\n", (unsigned)w->seed,
                   (unsigned)current, (unsigned)previous,
                   (unsigned)l->capacity);
            return false;
        }
    }
    return true;
}

static bool holds(const struct world *w)
{
    if (w->limit.kind == SL_SLIDING)
        return sliding_holds(w);
    if (w->limit.kind == SL_FIXED || w->limit.kind == SL_QUOTA)
        return window_holds(w);
    return bucket_holds(w);
}

/* ---- tests ---- */

TEST_WITH(histories, struct world *w)
{
    unsigned seeds = getenv("SL_PROP_STEPS") || !w->far.in_redis ? 12 : 48;

    for (w->seed = 1; w->seed <= seeds; w->seed++) {
        w->rng.state = w->seed;
        make_limit(w);
        run(w);
        CASE("never more than the limit");
        CHECK(holds(w));
        CHECK(w->count > 0);
    }
}

/* One node that takes all it can gets all there is, but for a lease; where
 * leases shrink, but for a part of a token of each. */
TEST_WITH(enough, struct world *w)
{
    const sl_ns step = 3 * SL_MS, span = 5 * SL_S;
    struct sl_rate rate = {.form = SL_RATE_PER,
                           .unit = SL_UNIT_SECOND,
                           .every = 1,
                           .count = 100,
                           .has_burst = true,
                           .burst = 50};
    uint64_t got = 0;

    CASE("a lease takes little from a busy node");
    CHECK_EQ(sl_limit_init(&w->limit, SL_BUCKET, &rate, NULL, NULL), 0);
    w->stored = (struct sl_limit_binding){
        .name = "leased", .strictest = w->limit, .lease = 20};
    snprintf(w->key, sizeof(w->key), "lease:enough");
    w->now = next_day(w);
    for (sl_ns at = 0; at < span; at += step, w->now += step)
        got += take(w, 0, 1);
    printf("# %u of 550\n", (unsigned)got);
    CHECK(got <= 550);
    CHECK(got >= (w->far.in_redis ? 550 - 10 - 1 : 520)); /* they shrink */
}

/* What is not spent goes back when a node is drained. */
TEST_WITH(drain, struct world *w)
{
    struct sl_rate rate = {
        .form = SL_RATE_PER, .unit = SL_UNIT_DAY, .every = 1, .count = 20};
    uint64_t got = 0;

    CASE("a drained node gives back what it has not spent");
    CHECK_EQ(sl_limit_init(&w->limit, SL_FIXED, &rate, NULL, NULL), 0);
    w->stored = (struct sl_limit_binding){
        .name = "leased", .strictest = w->limit, .lease = 100};
    snprintf(w->key, sizeof(w->key), "lease:drain");
    w->now = next_day(w);
    for (unsigned i = 0; i < 3; i++)
        got += take(w, 0, 1);
    far_drain(&w->far, w->nodes[0], w->now);
    for (unsigned i = 0; i < 20; i++)
        got += take(w, 0, 1); /* and takes without leases from now on */
    CHECK_EQ(got, 20);
}

/* Node 0 has a lease of a window of ten seconds, or days; node 1 has none. */
static void begin_lease(struct world *w, enum sl_kind kind, const char *why)
{
    struct sl_rate rate = {
        .form = SL_RATE_PER, .unit = SL_UNIT_SECOND, .every = 10, .count = 20};

    CASE(why);
    if (kind == SL_QUOTA)
        rate.unit = SL_UNIT_DAY;
    CHECK_EQ(sl_limit_init(&w->limit, kind, &rate, NULL, NULL), 0);
    w->stored = (struct sl_limit_binding){
        .name = "leased", .strictest = w->limit, .lease = 50};
    snprintf(w->key, sizeof(w->key), "lease:%s:%u", why, (unsigned)kind);
    w->now = next_day(w) + 10 * SL_DAY;
    w->now += 10 * SL_DAY - w->now % (10 * SL_DAY) + 100 * SL_MS;
    for (unsigned i = 0; i < 3; i++) /* the last from a lease of two */
        CHECK(take(w, 0, 1));
    w->stored.lease = 0;
}

/* Node 0 is drained, and opened again. */
static void end_lease(struct world *w)
{
    far_drain(&w->far, w->nodes[0], w->now);
    ask(w, 0, SL_TAKE_OP_PEEK, 1); /* on the same connection, behind it */
    close_node(w, 0);
    w->nodes[0] = far_open(&w->far);
}

static uint64_t take_all(struct world *w)
{
    uint64_t got = 0;

    while (got < 50 && take(w, 1, 1))
        got++;
    return got;
}

/* What is leased stays used when a key is reset, so that it can come back. */
static void test_reset(struct world *w)
{
    static const enum sl_kind kinds[] = {SL_BUCKET, SL_FIXED, SL_SLIDING,
                                         SL_QUOTA};

    for (unsigned i = 0; i < SL_LEN(kinds); i++) {
        uint64_t got;

        begin_lease(w, kinds[i], "reset");
        ask(w, 1, SL_TAKE_OP_RESET, 0);
        got = take_all(w);
        CHECK(got < 20);
        end_lease(w);
        got += take_all(w);
        CHECK(got <= 20);
        CHECK(got >= 16);
    }
}

/* A lease of a window that the clock was put back from: in that window all can
 * be had again, once. */
static void test_step(struct world *w)
{
    static const enum sl_kind kinds[] = {SL_FIXED, SL_SLIDING, SL_QUOTA};

    for (unsigned i = 0; i < SL_LEN(kinds); i++) {
        sl_ns ahead;
        uint64_t got;

        begin_lease(w, kinds[i], "step");
        ahead = w->now;
        w->now -= SL_S;
        CHECK(take(w, 1, 1));
        w->now = ahead;
        got = take_all(w);
        end_lease(w);
        got += take_all(w);
        CHECK(got <= 20);
    }
}

int main(int argc, char **argv)
{
    static struct world w;

    far_init(&w.far, argc > 1 ? argv[1] : NULL);
    w.takes = w.far.in_redis ? TAKES : TAKES / 5; /* dynalite takes its time */
    w.now = 20000 * SL_DAY;
    for (unsigned i = 0; i < NODES; i++)
        w.nodes[i] = far_open(&w.far);
    RUN_TESTS_WITH(&w);
    for (unsigned i = 0; i < NODES; i++) {
        close_node(&w, i);
        w.nodes[i] = far_open(&w.far);
    }
    CASE("many were decided by leases, and the store knew all of those");
    CHECK(w.leased > w.takes / 2);
    CHECK_EQ(w.over, 0);
    test_reset(&w);
    test_step(&w);
    for (unsigned i = 0; i < NODES; i++)
        close_node(&w, i);
    printf("# %u takes by leases\n", (unsigned)w.leased);
    far_done(&w.far);
    return CHECK_DONE();
}
