/* far.c -- a store that is elsewhere, as the tests of this folder open it. */
#include "far.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

static void must(int err, const struct sl_diag *diag)
{
    if (!err)
        return;
    printf("Bail out! %d %s\n", err, diag->sentence);
    exit(1);
}

static void on_wait(void *ctx)
{
    sl_loop_run(ctx);
}

static void on_wake(void *ctx)
{
    sl_loop_stop(ctx);
}

static void on_dynamo_news(void *ctx, enum sl_store_event news,
                           const char *sentence)
{
    (void)ctx;
    printf("# news %d: %s\n", (int)news, sentence);
}

void far_init(struct far *far, const char *arg)
{
    struct sl_diag diag = {.sentence = "no socket and no port was given"};
    char where[256];

    must(arg ? 0 : SLUICE_EINVAL, &diag);
    *far = (struct far){.in_redis = arg[0] == '/'};
    sl_arena_init(&far->arena, 1 << 16, &sl_alloc_libc);
    snprintf(where, sizeof(where),
             far->in_redis
                 ? "redis+unix://%s"
                 : "dynamodb://eu-west-1?endpoint=http://127.0.0.1:%s",
             arg);
    far->redis = (struct sl_redis_options){.remote.own_now = true,
                                           .remote.no_denials = true,
                                           .remote.deadline = 10 * SL_S};
    far->dynamo = (struct sl_dynamo_options){
        .env = {.key_id = "id", .secret = "secret", .token = "to/ken+="},
        .remote.own_now = true,
        .remote.no_denials = true,
        .remote.deadline = 10 * SL_S,
        .remote.on_event = on_dynamo_news,
    };
    must(far->in_redis ? sl_redis_url_read(sl_str_c(where), &far->arena,
                                           &far->redis.where, &diag)
                       : sl_dynamo_url_read(sl_str_c(where), &far->arena,
                                            &far->dynamo.where, &diag),
         &diag);
    must(sl_loop_open(NULL, &far->loop, &diag), &diag);
}

void far_done(struct far *far)
{
    sl_loop_close(far->loop);
    sl_arena_done(&far->arena);
}

/* Until the secret is known takes fail. */
static void wait_ready(const struct far *far, const struct sl_store *store)
{
    struct sl_diag diag = {.sentence = "no timer"};
    struct sl_timer *timer;

    must(sl_timer_new(far->loop, on_wake, far->loop, &timer), &diag);
    for (unsigned i = 0; i < 5000 && !sl_remote_store_is_ready(store); i++) {
        sl_timer_start(timer, SL_MS);
        sl_loop_run(far->loop);
    }
    sl_timer_free(timer);
}

struct sl_store *far_open(struct far *far)
{
    struct sl_store *store = NULL;
    struct sl_diag diag = {.sentence = ""};

    must(far->in_redis ? sl_redis_open(&far->redis, &store, &diag)
                       : sl_dynamo_open(&far->dynamo, &store, &diag),
         &diag);
    must(sl_remote_store_attach(store, far->loop, &diag), &diag);
    wait_ready(far, store);
    return store;
}

void far_close(struct far *far, struct sl_store *store)
{
    sl_remote_store_detach(store, far->loop);
    sl_store_close(store);
}

void far_drain(struct far *far, struct sl_store *store, sl_ns now)
{
    sl_remote_store_drain(store, far->loop, now);
}

void far_stats(const struct sl_store *store, struct far_stats *ret)
{
    struct sl_remote_stats s;

    sl_remote_store_stats(store, &s);
    *ret = (struct far_stats){
        .taken = s.taken,
        .failed = s.failed,
        .late = s.late,
        .uncertain = s.uncertain,
        .repaired = s.repaired + s.unmet,
        .leased = s.leased,
        .lease_over = s.lease_over,
        .asked = s.asked,
    };
}

void far_conform(struct far *far, struct conform *ret)
{
    *ret = (struct conform){
        .store = far_open(far),
        .loop = far->loop,
        .quantum = far->in_redis ? SL_QUANTUM_US : SL_QUANTUM_NS,
        .prefix = far->in_redis ? "r" : "d",
        .wait = on_wait,
        .wake = on_wake,
        .ctx = far->loop,
        .names_windows = !far->in_redis,
        .counts = true,
        .lag = far->in_redis ? 0 : 2 * SL_S,
    };
}
