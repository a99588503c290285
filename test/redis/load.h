/* load.h -- many takes of one key, some at a time, counted exactly.
 *
 * The limit is a level: what was taken stays taken, so that the number in Redis
 * must be what was allowed, and what is not known.
 */
#ifndef SL_TEST_LOAD_H
#define SL_TEST_LOAD_H

#include "client.h"
#include "server.h"

#define LOAD_WIDE 32

struct load {
    struct client *client;
    struct sl_limit limit;
    const char *name;
    const char *second; /* of a set of two; or NULL */
    struct asked list[LOAD_WIDE];
    unsigned sent;
};

static inline void load_init(struct load *load, struct client *client,
                             const char *name)
{
    memset(load, 0, sizeof(*load));
    load->client = client;
    load->name = name;
    load->limit = rate_of(SL_LEVEL, "1000000000");
    for (unsigned i = 0; i < LOAD_WIDE; i++)
        load->list[i].done = true;
}

/* Send what can be sent, and let the loop run a little. */
static inline void load_step(struct load *load, sl_ns span)
{
    for (unsigned i = 0; i < LOAD_WIDE; i++) {
        if (!load->list[i].done)
            continue;
        asked_init(&load->list[i], load->client, SL_TAKE_OP_TAKE, &load->limit,
                   load->name, 1);
        if (load->second) {
            load->list[i].part[1] = load->list[i].part[0];
            load->list[i].part[1].name = sl_str_c(load->second);
            load->list[i].take.count = 2;
        }
        load->sent++;
        asked_send(&load->list[i]);
    }
    client_run(load->client, span);
}

static inline void load_end(struct load *load)
{
    CLIENT_WAIT(load->client, load->client->waiting == 0);
}

/* What is in Redis under the name: 1:SHAPE:0:HELD:0 */
static inline long long held_in(redisContext *redis, const char *name)
{
    redisReply *reply = redisCommand(redis, "GET %s", name);
    long long held = reply && reply->type == REDIS_REPLY_NIL ? 0 : -1;
    unsigned long long shape;

    if (reply && reply->type == REDIS_REPLY_STRING &&
        sscanf(reply->str, "1:%llu:0:%lld:0", &shape, &held) != 2)
        held = -1;
    if (reply && reply->type == REDIS_REPLY_ERROR)
        printf("# GET %s: %s\n", name, reply->str);
    freeReplyObject(reply);
    return held;
}

/* (1) Nothing that was allowed is missing, and nothing is there twice. */
static inline void load_check(struct load *load, redisContext *redis)
{
    struct sl_remote_stats stats = client_stats(load->client);
    long long held = held_in(redis, load->name);

    printf("# %u sent: %u allowed, %u failed (%llu late); held %lld, "
           "%llu given back, %llu uncertain, %llu repaired, %llu sent on; "
           "slowest %lld ms\n",
           load->sent, load->client->allowed, load->client->failed,
           (unsigned long long)stats.late, held,
           (unsigned long long)stats.returned,
           (unsigned long long)stats.uncertain,
           (unsigned long long)stats.repaired,
           (unsigned long long)stats.redirected,
           (long long)(load->client->slowest / SL_MS));
    CHECK(held >= (long long)load->client->allowed);
    CHECK(held <= (long long)(load->client->allowed + stats.uncertain));
}

static inline bool is_long(void)
{
    return getenv("SL_LONG") != NULL;
}

/* Steps for `span`. */
static inline void load_run(struct load *load, sl_ns span)
{
    sl_ns until = sl_loop_mono(load->client->loop) + span;

    while (sl_loop_mono(load->client->loop) < until)
        load_step(load, 2 * SL_MS);
}

/* A client of the server, ready. With `own_now` the time is take->now. */
static inline void client_open_at(struct client *c, const struct server *s,
                                  bool own_now)
{
    char where[128];

    memset(c, 0, sizeof(*c));
    c->options.remote.deadline = 2 * SL_S;
    c->options.remote.own_now = own_now;
    snprintf(where, sizeof(where), "redis://127.0.0.1:%u", s->port);
    client_open(c, where);
    client_ready(c);
}

/* A call about a hold is answered. */
static inline void client_on_held(struct sl_hold_call *call)
{
    struct client *c = call->ctx;

    c->waiting--;
    sl_loop_stop(c->loop);
}

#endif
