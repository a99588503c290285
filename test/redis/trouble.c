/* trouble.c -- what Redis says when it does not do what it was asked: each is a
 * failure of the store, with a sentence, and never the end.
 */
#include "load.h"

static void open_at(struct client *c, const struct server *s, const char *user)
{
    char where[128];

    memset(c, 0, sizeof(*c));
    c->options.remote.deadline = 200 * SL_MS;
    c->options.look_every = 50 * SL_MS;
    snprintf(where, sizeof(where), "redis://%s127.0.0.1:%u", user, s->port);
    client_open(c, where);
}

/* A take fails, and what is said has these words. */
static void check_fails(struct client *c, const char *words)
{
    struct sl_limit limit = rate_of(SL_FIXED, "1000/day");
    int err;

    client_take(c, SL_TAKE_OP_TAKE, &limit, "troubled", 1, &err);
    CHECK_EQ(err, SLUICE_ESTORE);
    if (!CHECK(strstr(c->last[SL_STORE_EVENT_TROUBLE], words) != NULL))
        printf("# %s\n", c->last[SL_STORE_EVENT_TROUBLE]);
}

static void check_works(struct client *c)
{
    struct sl_limit limit = rate_of(SL_FIXED, "1000/day");
    int err = SLUICE_ESTORE;

    for (unsigned i = 0; err && i < 100; i++) { /* the breaker may be open */
        client_take(c, SL_TAKE_OP_TAKE, &limit, "troubled", 1, &err);
        client_run(c, 20 * SL_MS);
    }
    CHECK_EQ(err, 0);
}

static void test_oom(struct server *s)
{
    struct client c;

    CASE("maxmemory is reached");
    open_at(&c, s, "");
    client_ready(&c);
    check_works(&c);
    server_say(s, "CONFIG SET maxmemory 1");
    check_fails(&c, "maxmemory");
    server_say(s, "CONFIG SET maxmemory 0");
    check_works(&c);
    CHECK_EQ(client_stats(&c).uncertain, 0);
    client_close(&c);
}

static void test_misconf(struct server *s)
{
    struct client c;

    CASE("it can't save its data");
    open_at(&c, s, "");
    client_ready(&c);
    check_works(&c);
    server_wreck(s);
    server_say(s, "CONFIG SET save %s", "100000 1");
    server_say(s, "BGSAVE");
    client_run(&c, 300 * SL_MS);
    check_fails(&c, "cannot save");
    server_say(s, "CONFIG SET stop-writes-on-bgsave-error no");
    server_say(s, "CONFIG SET save %s", "");
    check_works(&c);
    client_close(&c);
}

static void test_busy(struct server *s)
{
    struct client c;
    redisContext *other = redisConnect("127.0.0.1", (int)s->port);
    int done = 0;

    CASE("it is busy with a script that does not end");
    open_at(&c, s, "");
    client_ready(&c);
    check_works(&c);
    server_say(s, "CONFIG SET lua-time-limit 10");
    redisAppendCommand(other, "EVAL %s 0", "while true do end");
    while (!done)
        redisBufferWrite(other, &done);
    client_run(&c, 100 * SL_MS);
    check_fails(&c, "busy");
    server_say(s, "SCRIPT KILL");
    check_works(&c);
    client_close(&c);
    redisFree(other);
}

static void test_readonly(struct server *s)
{
    struct client c;

    CASE("it has become a replica, and is a master again");
    open_at(&c, s, "");
    client_ready(&c);
    check_works(&c);
    server_say(s, "REPLICAOF 127.0.0.1 1");
    check_fails(&c, "replica");
    server_say(s, "REPLICAOF NO ONE");
    check_works(&c);
    client_close(&c);
}

/* Before the secret is known nothing is taken, and the log says why. */
static void check_never_ready(struct client *c, enum sl_store_event news,
                              const char *words)
{
    CLIENT_WAIT(c, c->news[news] > 0);
    if (!CHECK(strstr(c->last[news], words) != NULL))
        printf("# %s\n", c->last[news]);
    CHECK(!sl_remote_store_is_ready(c->store));
}

static void test_users(struct server *s)
{
    struct sl_limit limit = rate_of(SL_FIXED, "1000/day");
    struct client c;
    int err;

    CASE("a user without rights");
    server_say(s, "ACL SETUSER bare on >word +ping +auth");
    open_at(&c, s, "bare:word@");
    check_never_ready(&c, SL_STORE_EVENT_TROUBLE, "lacks permissions");
    client_take(&c, SL_TAKE_OP_TAKE, &limit, "troubled", 1, &err);
    CHECK_EQ(err, SLUICE_ESTORE);
    client_close(&c);

    CASE("a wrong password");
    open_at(&c, s, "bare:secret-word@");
    check_never_ready(&c, SL_STORE_EVENT_DOWN, "WRONGPASS");
    CHECK(!strstr(c.last[SL_STORE_EVENT_DOWN], "secret-word"));
    client_close(&c);

    CASE("a user who may do what we need, and not ask for the time");
    server_say(s, "ACL SETUSER timeless on >word ~* +ping +auth +eval +evalsha "
                  "+get +set +del");
    open_at(&c, s, "timeless:word@");
    client_ready(&c);
    check_works(&c);
    client_close(&c);

    CASE("no password where one is needed");
    server_say(s, "ACL SETUSER default >word");
    open_at(&c, s, "");
    check_never_ready(&c, SL_STORE_EVENT_DOWN, "NOAUTH");
    client_close(&c);
    open_at(&c, s, ":word@");
    client_ready(&c);
    check_works(&c);
    client_close(&c);
    server_say(s, "ACL SETUSER default nopass");
}

static void test_strange(struct server *s)
{
    static const char *const spoils[] = {
        "SET %s hello",
        "SET %s 1:1:1:1",
        "SET %s 1:2:x:4:5",
        "PFADD %s one two",
        "SET %s 1:0:99999999999999999999:1:1",
    };
    struct sl_limit limit = rate_of(SL_FIXED, "10/day");
    struct client c;
    int err;

    CASE("values that are none of ours are replaced, and counted");
    open_at(&c, s, "");
    client_ready(&c);
    for (unsigned i = 0; i < SL_LEN(spoils); i++) {
        char command[128];
        struct sl_answer a;

        server_say(s, "DEL strange");
        snprintf(command, sizeof(command), spoils[i], "strange");
        redisReply *reply = redisCommand(s->redis, command);
        CHECK(reply && reply->type != REDIS_REPLY_ERROR);
        freeReplyObject(reply);
        a = client_take(&c, SL_TAKE_OP_TAKE, &limit, "strange", 1, &err);
        CHECK_EQ(err, 0);
        CHECK_EQ(a.remaining, 9);
        CHECK_EQ(client_stats(&c).strange, i + 1);
        a = client_take(&c, SL_TAKE_OP_TAKE, &limit, "strange", 1, &err);
        CHECK_EQ(a.remaining, 8);
        CHECK_EQ(client_stats(&c).strange, i + 1);
        CHECK(server_say(s, "PTTL strange") > 0);
    }
    client_close(&c);
}

/* A key of another type belongs to another program. */
static void test_wrong_type(struct server *s)
{
    static const char *const spoils[] = {
        "RPUSH %s a b c", "HSET %s tokens 3 time 17",
        "ZADD %s 1 one",  "SADD %s member",
        "XADD %s * a b",
    };
    struct sl_limit limit = rate_of(SL_FIXED, "10/day");
    struct sl_limit permits = rate_of(SL_PERMITS, "10");
    uint64_t refused = 0;
    struct client c;
    int err;

    CASE("a key of another type is not touched; takes of it fail and say so");
    open_at(&c, s, "");
    client_ready(&c);
    for (unsigned i = 0; i < SL_LEN(spoils); i++) {
        char command[128];

        server_say(s, "DEL theirs");
        snprintf(command, sizeof(command), spoils[i], "theirs");
        redisReply *reply = redisCommand(s->redis, command);
        CHECK(reply && reply->type != REDIS_REPLY_ERROR);
        freeReplyObject(reply);
        (void)client_take(&c, SL_TAKE_OP_TAKE, &limit, "theirs", 1, &err);
        CHECK_EQ(err, SLUICE_ESTORE);
        CHECK_EQ(client_stats(&c).wrong_type, ++refused);
        (void)client_take(&c, SL_TAKE_OP_RESET, &limit, "theirs", 1, &err);
        CHECK_EQ(err, SLUICE_ESTORE);
        refused++;
        if (strncmp(spoils[i], "ZADD", 4) != 0) {
            (void)client_take(&c, SL_TAKE_OP_TAKE, &permits, "theirs", 1, &err);
            CHECK_EQ(err, SLUICE_ESTORE);
            refused++;
        }
        CHECK_EQ(client_stats(&c).wrong_type, refused);
        CHECK(strstr(c.last[SL_STORE_EVENT_TROUBLE], "WRONGTYPE theirs"));
        CHECK_EQ(server_say(s, "EXISTS theirs"), 1);
        CHECK_EQ(server_say(s, "PTTL theirs"), -1);
    }

    CASE("and other keys are served: the circuit breaker stays closed");
    for (unsigned i = 0; i < 200; i++)
        (void)client_take(&c, SL_TAKE_OP_TAKE, &limit, "theirs", 1, &err);
    check_works(&c);
    client_close(&c);
    server_say(s, "DEL theirs");
}

static void test_marker(struct server *s)
{
    struct client c, d;
    struct sl_hash_key secret;

    CASE("all who share a Redis have one secret");
    open_at(&c, s, "");
    client_ready(&c);
    open_at(&d, s, "");
    client_ready(&d);
    secret = *sl_store_secret(c.store);
    CHECK(secret.k0 == sl_store_secret(d.store)->k0 &&
          secret.k1 == sl_store_secret(d.store)->k1);
    CHECK_EQ(client_stats(&c).epochs, 0);

    CASE("data that was flushed is noticed, and the secret put back");
    server_say(s, "FLUSHALL");
    CLIENT_WAIT(&c, client_stats(&c).epochs == 1);
    CHECK_EQ(c.news[SL_STORE_EVENT_CHANGED], 1);
    client_run(&c, 100 * SL_MS);
    CHECK_EQ(server_say(s, "EXISTS sluice:secret sluice:epoch"), 2);
    client_close(&d);
    open_at(&d, s, "");
    client_ready(&d);
    CHECK(secret.k0 == sl_store_secret(d.store)->k0 &&
          secret.k1 == sl_store_secret(d.store)->k1);
    client_close(&d);

    CASE("a foreign secret is refused and reported");
    server_say(s, "SET sluice:secret 0123456789abcdef0123456789abcdef");
    CLIENT_WAIT(&c, strstr(c.last[SL_STORE_EVENT_CHANGED], "secret"));
    CHECK(sl_store_secret(c.store)->k0 == secret.k0);
    client_close(&c);
    server_say(s, "DEL sluice:secret");
}

int main(void)
{
    struct server s = {.pid = 0};

    server_start(&s);
    test_oom(&s);
    test_busy(&s);
    test_readonly(&s);
    test_users(&s);
    test_strange(&s);
    test_wrong_type(&s);
    test_marker(&s);
    test_misconf(&s);
    server_stop(&s);
    return CHECK_DONE();
}
