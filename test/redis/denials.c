/* denials.c -- refusals that need not be asked for again, with a Redis. */
#include "load.h"

static long long commands_of(struct server *s)
{
    redisReply *reply = redisCommand(s->redis, "INFO stats");
    const char *at = strstr(reply->str, "total_commands_processed:");
    long long n = at ? strtoll(at + 25, NULL, 10) : -1;

    freeReplyObject(reply);
    return n;
}

TEST_WITH(offender, struct server *s)
{
    struct sl_limit limit = rate_of(SL_FIXED, "5/day");
    struct sl_limit more = rate_of(SL_FIXED, "6/day");
    struct client c;
    long long before;
    int err;

    client_open_at(&c, s, false);
    CASE("a hot offender hardly reaches Redis");
    before = commands_of(s);
    for (unsigned i = 0; i < 3000; i++)
        client_take(&c, SL_TAKE_OP_TAKE, &limit, "hot", 1, &err);
    CHECK_EQ(c.allowed, 5);
    CHECK_EQ(c.denied, 2995);
    CHECK(commands_of(s) - before < 200);
    CHECK(client_stats(&c).remembered > 2900);

    CASE("another cost, and other numbers, are other questions");
    CHECK_EQ(client_take(&c, SL_TAKE_OP_TAKE, &more, "hot", 1, &err).outcome,
             SL_ALLOW);
    CHECK_EQ(client_take(&c, SL_TAKE_OP_TAKE, &limit, "hot", 0, &err).outcome,
             SL_ALLOW);
    CHECK_EQ(client_take(&c, SL_TAKE_OP_PEEK, &limit, "hot", 1, &err).outcome,
             SL_DENY);

    CASE("what is given back here is taken at once");
    client_take(&c, SL_TAKE_OP_TAKE, &limit, "hot", 1, &err);
    client_take(&c, SL_TAKE_OP_REFUND, &limit, "hot", 3, &err);
    CHECK_EQ(client_take(&c, SL_TAKE_OP_TAKE, &limit, "hot", 1, &err).outcome,
             SL_ALLOW);
    while (client_take(&c, SL_TAKE_OP_TAKE, &limit, "hot", 1, &err).outcome ==
           SL_ALLOW)
        ;
    client_take(&c, SL_TAKE_OP_RESET, &limit, "hot", 0, &err);
    CHECK_EQ(client_take(&c, SL_TAKE_OP_TAKE, &limit, "hot", 5, &err).outcome,
             SL_ALLOW);
    client_close(&c);
}

/* A bucket of one: refused until it is there again, and not a tick longer. */
TEST_WITH(edge, struct server *s)
{
    struct sl_limit limit = rate_of(SL_BUCKET, "10/s burst 1");
    struct client c;
    struct asked a;
    sl_ns at = 20000 * SL_DAY;

    client_open_at(&c, s, true);
    CASE("a refusal ends at the instant that it named");
    for (unsigned i = 0; i < 300; i++, at += 7 * SL_MS) {
        bool want = i % 15 == 0; /* 105 ms */

        asked_init(&a, &c, SL_TAKE_OP_TAKE, &limit, "edge", 1);
        a.take.now = at;
        a.stops = true;
        asked_send(&a);
        for (unsigned k = 0; !a.done && k < 20; k++)
            client_run(&c, SL_S);
        CHECK_EQ(a.take.allowed, want);
        if (!want)
            CHECK_EQ(a.part[0].answer.retry_in,
                     100 * SL_MS - (sl_ns)(i % 15) * 7 * SL_MS);
    }
    CHECK(client_stats(&c).remembered > 200);
    client_close(&c);
}

TEST_WITH(permits, struct server *s)
{
    struct sl_limit limit = rate_of(SL_LEVEL, "1");
    struct client c;
    int err;

    client_open_at(&c, s, false);
    CASE("what others may free at any time is not remembered");
    client_take(&c, SL_TAKE_OP_TAKE, &limit, "level", 1, &err);
    for (unsigned i = 0; i < 10; i++)
        client_take(&c, SL_TAKE_OP_TAKE, &limit, "level", 1, &err);
    CHECK_EQ(c.denied, 10);
    CHECK_EQ(client_stats(&c).remembered, 0);
    client_close(&c);
}

static bool take_at(struct client *c, const struct sl_limit *limit,
                    uint64_t cost, sl_ns life, sl_ns at)
{
    struct sl_limit_binding stored = {.name = "held", .strictest = *limit};
    struct asked a;

    asked_init(&a, c, SL_TAKE_OP_TAKE, limit, "held", cost);
    a.part[0].binding = &stored;
    a.take.now = at;
    a.take.hold.w[0] = life > 0;
    a.take.hold_for = life;
    asked_send(&a);
    CLIENT_WAIT(c, a.done);
    return a.take.allowed;
}

TEST_WITH(held, struct server *s)
{
    struct sl_limit limit = rate_of(SL_BUCKET, "10/day");
    sl_ns at = 20000 * SL_DAY;
    struct client c;

    client_open_at(&c, s, true);
    CASE("a refusal is not remembered over the expiry of a hold");
    CHECK(take_at(&c, &limit, 10, 5 * SL_S, at));
    CHECK(!take_at(&c, &limit, 1, 0, at + SL_S));
    CHECK(!take_at(&c, &limit, 1, 0, at + SL_S + SL_MS));
    CHECK_EQ(client_stats(&c).remembered, 1); /* there is time */
    CHECK(!take_at(&c, &limit, 1, 0, at + 5 * SL_S - SL_MS));
    CHECK(take_at(&c, &limit, 1, 0, at + 5 * SL_S));
    client_close(&c);
}

int main(void)
{
    struct server s = {.pid = 0};

    server_start(&s);
    RUN_TESTS_WITH(&s);
    server_stop(&s);
    return CHECK_DONE();
}
