/* client.h -- a store over a Redis that the test has started, and takes that
 * are asked for one after the other or many at a time. */
#ifndef SL_TEST_CLIENT_H
#define SL_TEST_CLIENT_H

#include <poll.h>
#include <stdlib.h>

#include "check.h"
#include "limit.h"
#include "store/redis/redis.h"

struct client {
    struct sl_redis_options options;
    struct sl_store *store;
    struct sl_loop *loop;
    struct sl_timer *timer;
    struct sl_arena arena;
    unsigned waiting; /* takes that are not done */
    unsigned allowed, denied, failed;
    sl_ns slowest;    /* steady, of those that were done */
    unsigned news[6]; /* by kind */
    char last[6][256];
};

static void client_on_news(void *ctx, enum sl_store_event news,
                           const char *sentence)
{
    struct client *c = ctx;

    c->news[news]++;
    snprintf(c->last[news], sizeof(c->last[news]), "%s", sentence);
}

static void client_stop(void *ctx)
{
    sl_loop_stop(ctx);
}

static inline void client_must(int err, const struct sl_diag *diag)
{
    if (!err)
        return;
    printf("Bail out! %d %s\n", err, diag->sentence);
    exit(1);
}

/* Let the loop run for `span`, or until it is stopped. */
static inline void client_run(struct client *c, sl_ns span)
{
    sl_timer_start(c->timer, span);
    sl_loop_run(c->loop);
    sl_timer_stop(c->timer);
}

#define CLIENT_WAIT(c, cond)                                                   \
    do {                                                                       \
        for (unsigned i_ = 0; !(cond) && i_ < 6000; i_++)                      \
            client_run((c), 2 * SL_MS);                                        \
        CHECK(cond);                                                           \
    } while (0)

static inline struct sl_remote_stats client_stats(const struct client *c)
{
    struct sl_remote_stats stats;

    sl_remote_store_stats(c->store, &stats);
    return stats;
}

/* c->options but for where it is are the caller's. */
static inline void client_open(struct client *c, const char *where)
{
    struct sl_diag diag = {.sentence = ""};

    sl_arena_init(&c->arena, 1 << 16, &sl_alloc_libc);
    client_must(
        sl_redis_url_read(sl_str_c(where), &c->arena, &c->options.where, &diag),
        &diag);
    c->options.remote.on_event = client_on_news;
    c->options.remote.ctx = c;
    client_must(sl_loop_open(NULL, &c->loop, &diag), &diag);
    client_must(sl_timer_new(c->loop, client_stop, c->loop, &c->timer), &diag);
    client_must(sl_redis_open(&c->options, &c->store, &diag), &diag);
    client_must(sl_remote_store_attach(c->store, c->loop, &diag), &diag);
}

static inline void client_ready(struct client *c)
{
    CLIENT_WAIT(c, sl_remote_store_is_ready(c->store));
}

static inline void client_close(struct client *c)
{
    sl_remote_store_detach(c->store, c->loop);
    CHECK_EQ(c->waiting, 0);
    sl_store_close(c->store);
    sl_timer_free(c->timer);
    sl_loop_close(c->loop);
    sl_arena_done(&c->arena);
}

/* ---- takes ---- */

struct asked {
    struct sl_take take;
    struct sl_part part[4];
    sl_ns asked;
    bool done;
    bool stops; /* the loop, when it is done */
};

static void client_on_done(struct sl_take *take)
{
    struct asked *a = (struct asked *)take;
    struct client *c = take->ctx;
    sl_ns took = sl_loop_mono(c->loop) - a->asked;

    a->done = true;
    c->waiting--;
    c->slowest = took > c->slowest ? took : c->slowest;
    if (take->err)
        c->failed++;
    else if (take->allowed)
        c->allowed++;
    else
        c->denied++;
    if (a->stops)
        sl_loop_stop(c->loop);
}

/* One part; more may be added before it is sent. */
static inline void asked_init(struct asked *a, struct client *c,
                              enum sl_take_op op, const struct sl_limit *limit,
                              const char *name, uint64_t cost)
{
    *a = (struct asked){
        .take = {.op = op,
                 .parts = a->part,
                 .count = 1,
                 .now = sl_loop_now(c->loop),
                 .loop = c->loop,
                 .done = client_on_done,
                 .ctx = c}
    };
    a->part[0] = (struct sl_part){.limit = limit,
                                  .key = sl_str_c(name),
                                  .name = sl_str_c(name),
                                  .cost = cost};
}

static inline void asked_send(struct asked *a)
{
    struct client *c = a->take.ctx;

    c->waiting++;
    a->asked = sl_loop_mono(c->loop);
    sl_store_take(c->store, &a->take);
}

/* One take, waited for. */
static inline struct sl_answer client_take(struct client *c, enum sl_take_op op,
                                           const struct sl_limit *limit,
                                           const char *name, uint64_t cost,
                                           int *ret_err)
{
    struct asked a;

    asked_init(&a, c, op, limit, name, cost);
    a.stops = true;
    asked_send(&a);
    for (unsigned i = 0; !a.done && i < 20; i++)
        client_run(c, SL_S);
    CHECK(a.done);
    *ret_err = a.take.err;
    return a.part[0].answer;
}

#endif
