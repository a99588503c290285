/* cluster.c -- a cluster: the store conforms, and counts stay exact while slots
 * move and masters change.
 */
#include "cluster.h"
#include "conform/conform.h"
#include "load.h"
#include "store/redis/redis_int.h"

static void open_at(struct client *c, const struct cluster *cluster,
                    sl_ns deadline)
{
    memset(c, 0, sizeof(*c));
    c->options.remote.deadline = deadline;
    client_open(c, cluster->where);
    client_ready(c);
}

static void on_wait(void *ctx)
{
    sl_loop_run(ctx);
}

static void on_wake(void *ctx)
{
    sl_loop_stop(ctx);
}

static void test_conform(struct cluster *cluster)
{
    struct client c = {
        .options = {.remote.own_now = true,
                    .remote.no_denials = true,
                    .remote.deadline = 10 * SL_S}
    };
    struct conform conform = {
        .quantum = SL_QUANTUM_US, .wait = on_wait, .wake = on_wake};
    unsigned seeds = is_long() ? 40 : 9;

    client_open(&c, cluster->where);
    client_ready(&c);
    conform.store = c.store;
    conform.ctx = conform.loop = c.loop;
    for (unsigned seed = 1; seed <= seeds; seed++) {
        char prefix[16];

        CASE("the store in a cluster answers as core does");
        snprintf(prefix, sizeof(prefix), "{h%u}", seed);
        conform.prefix = prefix; /* sets are kept in one slot */
        CHECK(conform_run(&conform, seed, 300));
        conform.now = 20000 * SL_DAY;
        CHECK(conform_hold_history(&conform, seed, 300));
    }
    CHECK_EQ(client_stats(&c).failed, 0);
    client_close(&c);
}

static void on_hold_taken(struct sl_take *take)
{
    struct client *c = take->ctx;

    c->waiting--;
    sl_loop_stop(c->loop);
}

/* The hold of a set lies where the set does, wherever that is. */
static void hold_one(struct client *c, const struct sl_limit_binding *limits,
                     unsigned tag)
{
    char names[2][32];
    struct sl_part parts[2];
    struct sl_take take = {.op = SL_TAKE_OP_TAKE,
                           .parts = parts,
                           .count = 2,
                           .loop = c->loop,
                           .hold = {{tag + 1, 1}},
                           .hold_for = 60 * SL_S,
                           .done = on_hold_taken,
                           .ctx = c};
    struct sl_hold_call call = {.op = SL_HOLD_SETTLE,
                                .id = take.hold,
                                .limits = limits,
                                .limits_count = 2,
                                .cost = 1,
                                .loop = c->loop,
                                .done = client_on_held,
                                .ctx = c};

    for (unsigned i = 0; i < 2; i++) {
        snprintf(names[i], sizeof(names[i]), "h%u:{%u}", i, tag);
        parts[i] = (struct sl_part){.binding = &limits[i],
                                    .limit = &limits[i].strictest,
                                    .name = sl_str_c(names[i]),
                                    .cost = 3};
    }
    take.now = sl_loop_now(c->loop);
    c->waiting++;
    sl_store_take(c->store, &take);
    CLIENT_WAIT(c, c->waiting == 0);
    CHECK(take.err == 0 && take.allowed);
    CHECK_EQ(take.place, sl_cluster_slot_of(sl_str_c(names[0])));
    call.now = sl_loop_now(c->loop);
    call.place = take.place;
    c->waiting++;
    sl_store_hold(c->store, &call);
    CLIENT_WAIT(c, c->waiting == 0);
    CHECK_EQ(call.err, 0);
    CHECK_EQ(call.state, SL_HOLD_HELD);
    CHECK_EQ(call.count, 2);
    CHECK_EQ(call.parts[0].answer.remaining, 4); /* of 5 */
    CHECK_EQ(call.parts[1].answer.remaining, 4);
}

static void test_holds(struct cluster *cluster)
{
    static struct sl_limit_binding limits[2] = {{.name = "a"}, {.name = "b"}};
    struct client c;

    CASE("holds lie in the slots of what they hold");
    limits[0].strictest = rate_of(SL_FIXED, "5/day");
    limits[1].strictest = rate_of(SL_PERMITS, "5");
    open_at(&c, cluster, 5 * SL_S);
    for (unsigned tag = 0; tag < 20; tag++)
        hold_one(&c, limits, tag);
    CHECK_EQ(client_stats(&c).failed, 0);
    client_close(&c);
}

/* Bytes of all kinds, with braces here and there. */
static void test_slots(struct cluster *cluster)
{
    uint64_t state = 12345;

    CASE("keys lie in the slots that Redis says");
    for (unsigned i = 0; i < 500; i++) {
        char key[24];
        size_t len = i % sizeof(key);
        redisReply *reply;

        for (size_t k = 0; k < len; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            key[k] = "{}{}ab\0\xff\n:"[(state >> 33) % 11];
        }
        reply = redisCommand(cluster->list[0].redis, "CLUSTER KEYSLOT %b", key,
                             len);
        CHECK_EQ(sl_cluster_slot_of((struct sl_str){key, len}), reply->integer);
        freeReplyObject(reply);
    }
}

static void test_spanning(struct cluster *cluster)
{
    struct sl_limit limit = rate_of(SL_FIXED, "10/day");
    struct client c;
    struct asked a;

    CASE("a set in several slots fails, and is counted");
    open_at(&c, cluster, SL_S);
    asked_init(&a, &c, SL_TAKE_OP_TAKE, &limit, "{a}x", 1);
    a.part[1] = a.part[0];
    a.part[1].name = SL_STR("{b}x");
    a.take.count = 2;
    asked_send(&a);
    CHECK(a.done && a.take.err == SLUICE_ESTORE);
    CHECK_EQ(client_stats(&c).spanning, 1);
    CHECK(strstr(c.last[SL_STORE_EVENT_TROUBLE], "hash tag"));
    client_close(&c);
}

static bool is_master(struct server *s)
{
    redisReply *role = redisCommand(s->redis, "ROLE");
    bool is = role && strcmp(role->element[0]->str, "master") == 0;

    freeReplyObject(role);
    return is;
}

/* The slot of the key moves to another master and back, with a set of two keys
 * asked for all the time. */
static void move_slot(struct cluster *cluster, struct load *load, unsigned slot,
                      struct server *from, struct server *to)
{
    char id[2][64];

    snprintf(id[0], 64, "%s", cluster_id(from));
    snprintf(id[1], 64, "%s", cluster_id(to));
    server_say(to, "CLUSTER SETSLOT %u IMPORTING %s", slot, id[0]);
    server_say(from, "CLUSTER SETSLOT %u MIGRATING %s", slot, id[1]);
    for (unsigned i = 0; i < 5; i++)
        load_step(load, 2 * SL_MS);
    for (long long left = 1; left > 0;) {
        redisReply *keys =
            redisCommand(from->redis, "CLUSTER GETKEYSINSLOT %u 1", slot);

        left = keys ? (long long)keys->elements : 0;
        if (left > 0)
            server_say(from, "MIGRATE 127.0.0.1 %u %s 0 1000", to->port,
                       keys->element[0]->str);
        freeReplyObject(keys);
        load_step(load, SL_MS);
    }
    server_say(to, "CLUSTER SETSLOT %u NODE %s", slot, id[1]);
    for (unsigned i = 0; i < CLUSTER; i++)
        if (&cluster->list[i] != to && is_master(&cluster->list[i]))
            server_say(&cluster->list[i], "CLUSTER SETSLOT %u NODE %s", slot,
                       id[1]);
    for (unsigned i = 0; i < 10; i++)
        load_step(load, 2 * SL_MS);
}

static struct server *other_master(struct cluster *cluster,
                                   const struct server *s)
{
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

    for (unsigned i = 0; i < SL_LEN(keys); i++) {
        struct server *master = cluster_master(cluster, keys[i]);

        if (master && master != s)
            return master;
    }
    server_give_up("no other master");
    return NULL;
}

/* Keys that come and go, so that the slot always has some to move. */
static void test_reshard(struct cluster *cluster)
{
    struct client c;
    struct load load;
    unsigned slot = sl_cluster_slot_of(SL_STR("{moved}a"));
    unsigned rounds = is_long() ? 50 : 4;
    redisContext *redis;

    CASE("a slot that moves: exact, and without an error");
    open_at(&c, cluster, 5 * SL_S);
    load_init(&load, &c, "{moved}a");
    load.second = "{moved}b";
    for (unsigned i = 0; i < 20; i++)
        load_step(&load, 2 * SL_MS);
    for (unsigned i = 0; i < rounds; i++) {
        struct server *from = cluster_master(cluster, "{moved}a");
        struct server *to = from ? other_master(cluster, from) : NULL;

        if (!CHECK(to != NULL))
            break;
        move_slot(cluster, &load, slot, from, to);
    }
    load_end(&load);
    CHECK_EQ(c.failed, 0);
    CHECK(client_stats(&c).redirected > 0);
    CHECK_EQ(client_stats(&c).storms, 0);
    redis = cluster_master(cluster, "{moved}a")->redis;
    load_check(&load, redis);
    CHECK_EQ(held_in(redis, "{moved}a"), c.allowed);
    CHECK_EQ(held_in(redis, "{moved}b"), c.allowed);
    client_close(&c);
}

/* The replica of a master, by its port. */
static struct server *replica_of(struct cluster *cluster,
                                 const struct server *master)
{
    for (unsigned i = 0; i < CLUSTER; i++) {
        redisReply *role = redisCommand(cluster->list[i].redis, "ROLE");
        bool is = role && strcmp(role->element[0]->str, "slave") == 0 &&
                  role->element[2]->integer == (long long)master->port;

        freeReplyObject(role);
        if (is)
            return &cluster->list[i];
    }
    return NULL;
}

static void check_goes_on(struct load *load)
{
    struct client *c = load->client;
    unsigned before = c->allowed;
    sl_ns began = sl_loop_mono(c->loop);

    for (unsigned i = 0; c->allowed < before + 100 && i < 30000; i++)
        load_step(load, 2 * SL_MS);
    CHECK(c->allowed >= before + 100);
    printf("# goes on after %lld ms\n",
           (long long)((sl_loop_mono(c->loop) - began) / SL_MS));
}

static void test_failover(struct cluster *cluster)
{
    struct client c;
    struct load load;

    CASE("a master hands over to its replica: exact");
    open_at(&c, cluster, 2 * SL_S);
    load_init(&load, &c, "handed");
    for (unsigned i = 0; i < (is_long() ? 10 : 2); i++) {
        struct server *master = cluster_master(cluster, "handed");
        struct server *replica = master ? replica_of(cluster, master) : NULL;

        load_run(&load, 100 * SL_MS);
        if (!CHECK(replica != NULL))
            break;
        for (unsigned k = 0; k < 2000 && replica_of(cluster, replica) != master;
             k++) {
            if (k % 200 == 0) /* it may not be in step yet */
                server_say(replica, "CLUSTER FAILOVER");
            load_step(&load, 2 * SL_MS);
        }
        CHECK(replica_of(cluster, replica) == master);
        check_goes_on(&load);
    }
    load_end(&load);
    load_check(&load, cluster_master(cluster, "handed")->redis);
    client_close(&c);
}

static void test_lost_master(struct cluster *cluster)
{
    struct client c;
    struct load load;
    struct server *handed = cluster_master(cluster, "handed");
    struct server *master = handed;
    char key[16];

    /* Where no master was elected just before: for some seconds, Redis 7.0
     * takes the votes of then for those of a second election. */
    for (unsigned i = 0; i < 64 && master == handed; i++) {
        snprintf(key, sizeof(key), "lost%u", i);
        master = cluster_master(cluster, key);
    }
    CHECK(master && master != handed);
    CASE("a master is killed, and its replica takes over");
    open_at(&c, cluster, 200 * SL_MS);
    load_init(&load, &c, key);
    load_run(&load, 100 * SL_MS);
    CHECK(c.allowed > 0);
    cluster_settle(cluster); /* with a replica that may take over */
    server_kill(master, SIGKILL);
    check_goes_on(&load);
    CHECK(c.slowest < 5 * SL_S);
    load_end(&load);
    client_close(&c);
    server_spawn(master);
    cluster_settle(cluster);
}

int main(void)
{
    static struct cluster cluster;

    cluster_start(&cluster);
    test_slots(&cluster);
    test_conform(&cluster);
    test_holds(&cluster);
    test_spanning(&cluster);
    test_reshard(&cluster);
    test_failover(&cluster);
    test_lost_master(&cluster);
    cluster_stop(&cluster);
    return CHECK_DONE();
}
