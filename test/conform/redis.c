/* redis.c -- the store in Redis conforms: one server, our own client. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "conform.h"
#include "store/redis/redis.h"

static void on_wait(void *ctx)
{
    sl_loop_run(ctx);
}

static void on_wake(void *ctx)
{
    sl_loop_stop(ctx);
}

static void must(int err, const struct sl_diag *diag)
{
    if (!err)
        return;
    printf("Bail out! %d %s\n", err, diag->sentence);
    exit(1);
}

static void on_tick(void *ctx)
{
    sl_loop_stop(ctx);
}

/* Until the secret is known takes fail. */
static void wait_ready(const struct conform *conform)
{
    struct sl_timer *timer;

    must(sl_timer_new(conform->loop, on_tick, conform->loop, &timer),
         &(struct sl_diag){.sentence = "no timer"});
    for (unsigned i = 0; i < 2000 && !sl_redis_is_ready(conform->store); i++) {
        sl_timer_start(timer, SL_MS);
        sl_loop_run(conform->loop);
    }
    sl_timer_free(timer);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("SL_PROP_STEPS");
    unsigned steps = asked ? 500 : 2000;
    struct sl_redis_options options = {
        .own_now = true, .no_denials = true, .deadline = 10 * SL_S};
    struct conform conform = {.quantum = SL_QUANTUM_US,
                              .prefix = "r",
                              .wait = on_wait,
                              .wake = on_wake};
    struct sl_redis_stats stats;
    struct sl_diag diag = {.sentence = ""};
    struct sl_arena arena;
    char where[256];

    if (argc < 2)
        return 2;
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    snprintf(where, sizeof(where), "redis+unix://%s", argv[1]);
    must(sl_redis_where_read(sl_str_c(where), &arena, &options.where, &diag),
         &diag);
    must(sl_loop_open(NULL, &conform.loop, &diag), &diag);
    must(sl_redis_open(&options, &conform.store, &diag), &diag);
    must(sl_redis_attach(conform.store, conform.loop, &diag), &diag);
    conform.ctx = conform.loop;
    wait_ready(&conform);
    for (uint64_t seed = 1; seed <= 15; seed++) {
        CASE("the store in Redis answers as core does");
        CHECK(conform_run(&conform, seed, steps));
        CASE("and its holds end as core says");
        conform.now = 20000 * SL_DAY;
        CHECK(conform_ledger(&conform, seed, steps));
    }
    CASE("and was told its script once");
    sl_redis_stats(conform.store, &stats);
    CHECK(stats.repaired >= 1);
    CHECK_EQ(stats.failed + stats.late + stats.uncertain, 0);
    sl_redis_detach(conform.store, conform.loop);
    sl_store_close(conform.store);
    sl_loop_close(conform.loop);
    sl_arena_done(&arena);
    return CHECK_DONE();
}
