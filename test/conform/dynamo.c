/* dynamo.c -- the store in DynamoDB conforms: dynalite behind a shim that knows
 * transactions, and our own client. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "conform.h"
#include "store/dynamo/dynamo.h"

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

/* Until the secret is known takes fail. */
static void wait_ready(const struct conform *conform)
{
    struct sl_timer *timer;

    must(sl_timer_new(conform->loop, on_wake, conform->loop, &timer),
         &(struct sl_diag){.sentence = "no timer"});
    for (unsigned i = 0; i < 5000 && !sl_dynamo_is_ready(conform->store); i++) {
        sl_timer_start(timer, SL_MS);
        sl_loop_run(conform->loop);
    }
    sl_timer_free(timer);
}

static void on_news(void *ctx, enum sl_dynamo_news news, const char *sentence)
{
    (void)ctx;
    printf("# news %d: %s\n", (int)news, sentence);
}

int main(int argc, char **argv)
{
    const char *asked = getenv("SL_PROP_STEPS");
    unsigned steps = asked ? 50 : 150;
    struct sl_dynamo_options options = {
        .env = {.key_id = "id", .secret = "secret", .token = "to/ken+="},
        .own_now = true,
        .no_denials = true,
        .deadline = 10 * SL_S,
        .on_news = on_news
    };
    struct conform conform = {.quantum = SL_QUANTUM_NS,
                              .prefix = "d",
                              .wait = on_wait,
                              .wake = on_wake,
                              .never_back = true};
    struct sl_dynamo_stats stats;
    struct sl_diag diag = {.sentence = ""};
    struct sl_arena arena;
    char where[256];

    if (argc < 2)
        return 2;
    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    snprintf(where, sizeof(where),
             "dynamodb://eu-west-1?endpoint=http://127.0.0.1:%s", argv[1]);
    must(sl_dynamo_where_read(sl_str_c(where), &arena, &options.where, &diag),
         &diag);
    must(sl_loop_open(NULL, &conform.loop, &diag), &diag);
    must(sl_dynamo_open(&options, &conform.store, &diag), &diag);
    must(sl_dynamo_attach(conform.store, conform.loop, &diag), &diag);
    conform.ctx = conform.loop;
    wait_ready(&conform);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        CASE("the store in DynamoDB answers as core does");
        CHECK(conform_run(&conform, seed, steps));
    }
    CASE("and nothing failed");
    sl_dynamo_stats(conform.store, &stats);
    CHECK(stats.taken > 0);
    CHECK_EQ(stats.failed + stats.late + stats.uncertain + stats.unmet, 0);
    printf("# %llu requests for %llu takes\n", (unsigned long long)stats.asked,
           (unsigned long long)stats.taken);
    sl_dynamo_detach(conform.store, conform.loop);
    sl_store_close(conform.store);
    sl_loop_close(conform.loop);
    sl_arena_done(&arena);
    return CHECK_DONE();
}
