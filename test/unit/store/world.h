/* world.h -- a store with a Redis that the test plays. */
#ifndef SL_TEST_STORE_WORLD_H
#define SL_TEST_STORE_WORLD_H

#include "fake.h"
#include "limit.h"
#include "store/redis/redis.h"

#define MARK "$32\r\n0123456789abcdef0123456789abcdef\r\n"
#define YES  "*8\r\n:1\r\n:1\r\n:0\r\n:0\r\n:4\r\n:-1\r\n:10\r\n:0\r\n"
#define NO   "*8\r\n:0\r\n:1\r\n:0\r\n:1\r\n:0\r\n:50\r\n:50\r\n:0\r\n"

struct world {
    struct fake fake;
    struct sl_store *store;
    struct sl_arena arena;
    struct sl_limit limit;
    unsigned troubles;
    char said[256];
};

struct asked {
    struct sl_take take; /* first */
    struct sl_part part;
    unsigned done;
};

static inline void on_done(struct sl_take *take)
{
    ((struct asked *)take)->done++;
}

static inline void on_news(void *ctx, enum sl_store_event news,
                           const char *sentence)
{
    struct world *w = ctx;

    w->troubles += news == SL_STORE_EVENT_TROUBLE;
    snprintf(w->said, sizeof(w->said), "%s", sentence);
}

static inline int open_store(struct world *w, const struct sl_alloc *alloc,
                             sl_ns deadline)
{
    struct sl_redis_options o = {.remote.deadline = deadline,
                                 .remote.alloc = alloc,
                                 .look_every = 100 * SL_S,
                                 .remote.on_event = on_news,
                                 .remote.ctx = w};
    char where[96];
    int err;

    snprintf(where, sizeof(where), "redis+unix://%s", w->fake.path);
    sl_arena_init(&w->arena, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_redis_url_read(sl_str_c(where), &w->arena, &o.where, NULL), 0);
    w->troubles = 0;
    w->store = NULL;
    err = sl_redis_open(&o, &w->store, NULL);
    if (!err)
        err = sl_remote_store_attach(w->store, w->fake.rig.loop, NULL);
    return err;
}

static inline void close_store(struct world *w)
{
    sl_store_close(w->store);
    sl_arena_done(&w->arena);
    turn(&w->fake.rig);
    fake_clear(&w->fake);
}

/* The connection, and the questions before all else. The first command that is
 * a take, when it was heard; NULL: none. */
static inline const char *play(struct world *w, unsigned rounds)
{
    const char *command;

    for (unsigned i = 0; i < rounds; i++) {
        fake_called(&w->fake);
        while ((command = fake_hears(&w->fake)) != NULL) {
            if (strstr(command, "EVALSHA") || strstr(command, "muldiv"))
                return command;
            fake_says(&w->fake, strstr(command, "sluice:") ? MARK : "+OK\r\n");
        }
        step(&w->fake.rig, i);
    }
    return NULL;
}

/* A take is heard, and has this in it. */
static inline bool hears(struct world *w, const char *words)
{
    const char *command = play(w, 1000);

    return command && strstr(command, words);
}

static inline void make_ready(struct world *w)
{
    for (unsigned i = 0; i < 1000 && !sl_remote_store_is_ready(w->store); i++)
        play(w, 2);
    CHECK(sl_remote_store_is_ready(w->store));
}

/* A take at `now` of the key with this number, which is not asked for yet. */
static inline void prepare_at(struct world *w, struct asked *a,
                              enum sl_take_op op, sl_ns now, unsigned key)
{
    static const char *const names[] = {"key",  "key1", "key2",
                                        "key3", "key4", "key5"};

    *a = (struct asked){
        .take = {.op = op,
                 .parts = &a->part,
                 .count = 1,
                 .now = now,
                 .loop = w->fake.rig.loop,
                 .done = on_done}
    };
    a->part = (struct sl_part){
        .limit = &w->limit, .name = sl_str_c(names[key]), .cost = 1};
}

static inline void ask_at(struct world *w, struct asked *a, enum sl_take_op op,
                          sl_ns now, unsigned key)
{
    prepare_at(w, a, op, now, key);
    sl_store_take(w->store, &a->take);
}

static inline void ask(struct world *w, struct asked *a, enum sl_take_op op)
{
    ask_at(w, a, op, 20000 * SL_DAY, 0);
}

static inline struct sl_remote_stats stats_of(const struct world *w)
{
    struct sl_remote_stats stats;

    sl_remote_store_stats(w->store, &stats);
    return stats;
}

static inline void world_open(struct world *w)
{
    fake_open(&w->fake);
    CASE("a limit");
    w->limit = rate_of(SL_FIXED, "5/min");
}

#endif
