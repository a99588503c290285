/* redis.c SOCKET -- several loops on one store in Redis, each on its thread:
 * the count is exact, and nothing is read while another writes it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "limit.h"
#include "store/redis/redis.h"

#define LOOPS 4
#define TAKES 400 /* of each */
#define MOST  1000

struct shared {
    struct sl_store *store;
    struct sl_limit limit;
    struct sl_limit_binding leased, plain;
};

struct worker {
    struct shared *shared;
    pthread_t thread;
    struct sl_loop *loop;
    struct sl_timer *timer;
    unsigned asked, allowed, failed;
    uint64_t secret; /* as it was seen when all was ready */
    struct sl_take take;
    struct sl_part part;
};

static void ask_next(struct worker *w);

static void on_done(struct sl_take *take)
{
    struct worker *w = take->ctx;

    w->failed += take->err != 0;
    w->allowed += take->err == 0 && take->allowed;
    sl_timer_start(w->timer, 0); /* not from within: leases answer at once */
}

/* Every other take is of a limit that is leased, with plenty of room. */
static void ask_next(struct worker *w)
{
    bool leased = w->asked % 2 == 1;

    w->part = (struct sl_part){
        .binding = leased ? &w->shared->leased : &w->shared->plain,
        .limit = leased ? &w->shared->leased.strictest : &w->shared->limit,
        .name = leased ? SL_STR("threads:leased") : SL_STR("threads:plain"),
        .cost = 1};
    w->take = (struct sl_take){.op = SL_TAKE_OP_TAKE,
                               .parts = &w->part,
                               .count = 1,
                               .now = sl_loop_now(w->loop),
                               .loop = w->loop,
                               .done = on_done,
                               .ctx = w};
    w->asked++;
    sl_store_take(w->shared->store, &w->take);
}

static void on_timer(void *ctx)
{
    struct worker *w = ctx;

    w->secret ^= sl_store_secret(w->shared->store)->k0; /* it may be read */
    if (!sl_remote_store_is_ready(w->shared->store)) {
        sl_timer_start(w->timer, SL_MS);
    } else if (w->asked < 2 * TAKES) {
        ask_next(w);
    } else {
        w->secret = sl_store_secret(w->shared->store)->k0;
        sl_loop_stop(w->loop);
    }
}

static void *run(void *ctx)
{
    struct worker *w = ctx;

    sl_loop_run(w->loop);
    sl_remote_store_drain(w->shared->store, w->loop, 0);
    sl_remote_store_detach(w->shared->store, w->loop);
    return NULL;
}

static void open_worker(struct worker *w, struct shared *shared)
{
    w->shared = shared;
    if (sl_loop_open(NULL, &w->loop, NULL) ||
        sl_timer_new(w->loop, on_timer, w, &w->timer) ||
        sl_remote_store_attach(shared->store, w->loop, NULL)) {
        printf("Bail out! no loop\n");
        exit(1);
    }
    sl_timer_start(w->timer, 0);
}

static void make_limits(struct shared *s)
{
    s->limit = rate_of(SL_FIXED, "1000/3000d");
    s->plain =
        (struct sl_limit_binding){.name = "plain", .strictest = s->limit};
    s->leased = (struct sl_limit_binding){
        .name = "leased", .lease = 1, .strictest = rate_of(SL_BUCKET, "1M/s")};
}

int main(int argc, char **argv)
{
    static struct worker workers[LOOPS];
    struct sl_redis_options options = {.remote.deadline = 10 * SL_S};
    struct sl_remote_stats stats;
    struct shared shared;
    struct sl_arena arena;
    unsigned allowed = 0, failed = 0;
    char where[256];

    if (argc < 2)
        return 2;
    CASE("many loops, one store");
    memset(&shared, 0, sizeof(shared));
    make_limits(&shared);
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    snprintf(where, sizeof(where), "redis+unix://%s", argv[1]);
    CHECK_EQ(sl_redis_url_read(sl_str_c(where), &arena, &options.where, NULL),
             0);
    CHECK_EQ(sl_redis_open(&options, &shared.store, NULL), 0);
    for (unsigned i = 0; i < LOOPS; i++)
        open_worker(&workers[i], &shared);
    for (unsigned i = 0; i < LOOPS; i++)
        pthread_create(&workers[i].thread, NULL, run, &workers[i]);
    do
        sl_remote_store_stats(shared.store, &stats); /* as the daemon does */
    while (stats.taken < LOOPS * TAKES / 2);
    for (unsigned i = 0; i < LOOPS; i++) {
        pthread_join(workers[i].thread, NULL);
        allowed += workers[i].allowed;
        failed += workers[i].failed;
        CHECK_EQ(workers[i].secret, workers[0].secret);
        sl_timer_free(workers[i].timer);
    }
    CHECK_EQ(failed, 0);
    CHECK_EQ(allowed, LOOPS * TAKES + MOST); /* all that is leased passes */
    sl_remote_store_stats(shared.store, &stats);
    CHECK(stats.leased > 0);
    CHECK_EQ(stats.lease_over, 0);
    sl_store_close(shared.store);
    for (unsigned i = 0; i < LOOPS; i++)
        sl_loop_close(workers[i].loop);
    sl_arena_done(&arena);
    return CHECK_DONE();
}
