/* script.c -- the script conforms, by itself: in a Redis that the test has
 * started, over a client that is not ours. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "conform.h"
#include "store/redis/redis_int.h"

struct link {
    struct sl_store store;
    redisContext *redis;
    struct sl_buf text;
    unsigned asked;
};

static int on_bind(struct sl_store *store, struct sl_limit_binding *limits,
                   unsigned count, struct sl_diag *diag)
{
    (void)store;
    (void)limits;
    (void)count;
    (void)diag;
    return 0;
}

static redisReply *ask(struct link *link, const struct sl_take *take,
                       bool whole)
{
    struct sl_script_options how = {
        .whole = whole, .own_now = true, .near = take->now};
    void *reply = NULL;

    sl_buf_clear(&link->text);
    if (sl_script_write(take, &how, &link->text) ||
        redisAppendFormattedCommand(link->redis, link->text.bytes,
                                    link->text.len) != REDIS_OK ||
        redisGetReply(link->redis, &reply) != REDIS_OK)
        return NULL;
    return reply;
}

static bool read_reply(struct sl_take *take, const redisReply *reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    struct sl_script_reply said;

    if (reply->type == REDIS_REPLY_ERROR)
        printf("# %s\n", reply->str);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements > SL_SCRIPT_NUMBERS)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        numbers[i] = reply->element[i]->integer;
    return sl_script_read(take, numbers, (unsigned)reply->elements, &said) &&
           said.strange == 0 && said.now == take->now;
}

static void on_take(struct sl_store *store, struct sl_take *take)
{
    struct link *link = (struct link *)store;
    redisReply *reply = ask(link, take, link->asked++ == 0);

    take->err = reply && read_reply(take, reply) ? 0 : SLUICE_ESTORE;
    freeReplyObject(reply);
    take->done(take);
}

static const struct sl_store_calls calls = {.bind = on_bind, .take = on_take};

/* Nothing that the history left behind lives for ever. */
static void check_lives(struct link *link)
{
    redisReply *keys = redisCommand(link->redis, "KEYS *");

    CASE("every key has an end");
    CHECK(keys->elements > 0);
    for (size_t i = 0; i < keys->elements; i++) {
        redisReply *ttl =
            redisCommand(link->redis, "PTTL %s", keys->element[i]->str);

        CHECK(ttl->integer > 0);
        freeReplyObject(ttl);
    }
    freeReplyObject(keys);
}

/* By the server's clock: what is written has the time of the reply, also in the
 * first tenth of a second, when the microseconds have fewer digits. */
static void check_server_time(struct link *link)
{
    bool short_seen = false, right = true;

    CASE("the server's time is written in full");
    while (right && !short_seen) {
        redisReply *took = redisCommand(
            link->redis,
            "EVALSHA %s 1 by-server take ~0 bucket 77 1000 100000000 1000000 "
            "1000000 1000 1 0 0 0 0",
            sl_script_sha);
        redisReply *kept = redisCommand(link->redis, "GET by-server");
        char head[64];

        right = CHECK_EQ(took->type, REDIS_REPLY_ARRAY) &&
                CHECK_EQ(kept->type, REDIS_REPLY_STRING);
        if (right) {
            long long now = took->element[1]->integer;

            snprintf(head, sizeof(head), "1:77:%lld:", now);
            right = CHECK(strncmp(kept->str, head, strlen(head)) == 0);
            short_seen = now % 1000000 < 100000;
        }
        freeReplyObject(took);
        freeReplyObject(kept);
    }
}

int main(int argc, char **argv)
{
    const char *asked = getenv("SL_PROP_STEPS");
    unsigned steps = asked ? 500 : 2000;
    struct link link = {.store.calls = &calls};
    struct conform conform = {.store = &link.store,
                              .quantum = SL_QUANTUM_US,
                              .prefix = "s",
                              .counts = true};

    if (argc < 2)
        return 2;
    link.redis = redisConnectUnix(argv[1]);
    if (!link.redis || link.redis->err) {
        printf("Bail out! no Redis at %s\n", argv[1]);
        return 1;
    }
    sl_buf_init(&link.text, 1 << 20, &sl_alloc_libc);
    for (uint64_t seed = 1; seed <= 30; seed++) {
        CASE("the script answers as core does");
        CHECK(conform_run(&conform, seed, steps));
    }
    check_lives(&link);
    check_server_time(&link); /* its keys live for seconds only */
    sl_buf_done(&link.text);
    redisFree(link.redis);
    return CHECK_DONE();
}
