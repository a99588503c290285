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

int main(int argc, char **argv)
{
    const char *asked = getenv("SL_PROP_STEPS");
    unsigned steps = asked ? 500 : 2000;
    struct sl_redis_options options = {.own_now = true, .deadline = 10 * SL_S};
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
    for (uint64_t seed = 1; seed <= 15; seed++) {
        CASE("the store in Redis answers as core does");
        CHECK(conform_run(&conform, seed, steps));
    }
    CASE("and was told its script once");
    sl_redis_stats(conform.store, &stats);
    CHECK_EQ(stats.repaired, 1);
    CHECK_EQ(stats.failed + stats.late + stats.uncertain, 0);
    sl_redis_detach(conform.store, conform.loop);
    sl_store_close(conform.store);
    sl_loop_close(conform.loop);
    sl_arena_done(&arena);
    return CHECK_DONE();
}
