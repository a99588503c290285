/* sentinel.c -- a master that sentinels watch: found by its name, followed when
 * it changes. */
#include "load.h"

#define SENTINELS 3

struct watched {
    struct server master, replica;
    struct server sentinels[SENTINELS];
    char where[160];
};

static void start_sentinel(struct server *s, unsigned master)
{
    char path[96];
    FILE *file;

    snprintf(s->dir, sizeof(s->dir), "/tmp/sluice-redis-XXXXXX");
    if (!mkdtemp(s->dir))
        server_give_up("no folder");
    s->port = free_port();
    snprintf(path, sizeof(path), "%s/sentinel.conf", s->dir);
    file = fopen(path, "w");
    fprintf(file,
            "port %u\nbind 127.0.0.1\ndir %s\nlogfile log\n"
            "sentinel monitor mymaster 127.0.0.1 %u 2\n"
            "sentinel down-after-milliseconds mymaster 500\n"
            "sentinel failover-timeout mymaster 2000\n",
            s->port, s->dir, master);
    fclose(file);
    fflush(stdout);
    s->pid = fork();
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("redis-server", "redis-server", path, "--sentinel",
               (char *)NULL);
        _exit(127);
    }
    server_meet(s);
}

static void start(struct watched *w)
{
    char port[8];

    server_start(&w->master);
    snprintf(port, sizeof(port), "%u", w->master.port);
    w->replica.extra[0] = "--repl-diskless-sync-delay";
    w->replica.extra[1] = "0";
    server_start(&w->replica);
    server_say(&w->replica, "REPLICAOF 127.0.0.1 %s", port);
    for (unsigned i = 0; i < SENTINELS; i++)
        start_sentinel(&w->sentinels[i], w->master.port);
    snprintf(w->where, sizeof(w->where),
             "redis+sentinel://127.0.0.1:1,127.0.0.1:%u,127.0.0.1:%u/mymaster",
             w->sentinels[0].port, w->sentinels[1].port);
}

static void stop(struct watched *w)
{
    for (unsigned i = 0; i < SENTINELS; i++)
        server_stop(&w->sentinels[i]);
    server_stop(&w->master);
    server_stop(&w->replica);
}

/* Do the sentinels know each other and the replica? */
static bool is_watched(struct watched *w)
{
    for (unsigned i = 0; i < SENTINELS; i++) {
        redisReply *reply =
            redisCommand(w->sentinels[i].redis, "SENTINEL CKQUORUM mymaster");
        redisReply *list =
            redisCommand(w->sentinels[i].redis, "SENTINEL REPLICAS mymaster");
        bool good = reply && reply->type == REDIS_REPLY_STATUS &&
                    strstr(reply->str, "3 usable") && list &&
                    list->type == REDIS_REPLY_ARRAY && list->elements == 1;

        freeReplyObject(reply);
        freeReplyObject(list);
        if (!good)
            return false;
    }
    return true;
}

static void check_goes_on(struct load *load)
{
    struct client *c = load->client;
    unsigned before = c->allowed;
    sl_ns began = sl_loop_mono(c->loop);

    for (unsigned i = 0; c->allowed < before + 100 && i < 5000; i++)
        load_step(load, 2 * SL_MS);
    CHECK(c->allowed >= before + 100);
    printf("# goes on after %lld ms\n",
           (long long)((sl_loop_mono(c->loop) - began) / SL_MS));
}

static void test_unknown(const struct watched *w)
{
    struct client c = {.options = {.remote.deadline = 100 * SL_MS}};
    char where[192];

    CASE("a master that no sentinel knows is not found");
    snprintf(where, sizeof(where), "%s2", w->where);
    client_open(&c, where);
    client_run(&c, 300 * SL_MS);
    CHECK(!sl_remote_store_is_ready(c.store));
    client_close(&c);
}

int main(void)
{
    static struct watched w;
    struct client c = {.options = {.remote.deadline = 100 * SL_MS}};
    struct load load;

    start(&w);
    for (unsigned i = 0; i < 1000 && !is_watched(&w); i++)
        poll(NULL, 0, 20);
    CASE("the master is found, though not every sentinel is there");
    CHECK(is_watched(&w));
    client_open(&c, w.where);
    client_ready(&c);
    load_init(&load, &c, "watched");
    check_goes_on(&load);
    load_end(&load);
    CHECK_EQ(c.failed, 0);
    load_check(&load, w.master.redis);

    CASE("a new master is followed");
    server_say(&w.sentinels[0], "SENTINEL FAILOVER mymaster");
    for (unsigned i = 0; i < 5000; i++) {
        redisReply *role = redisCommand(w.replica.redis, "ROLE");
        bool is = role && strcmp(role->element[0]->str, "master") == 0;

        freeReplyObject(role);
        if (is)
            break;
        load_step(&load, 2 * SL_MS);
    }
    for (unsigned i = 0; i < 3000 && held_in(w.replica.redis, "watched") <
                                         (long long)c.allowed / 2 + 50;
         i++)
        load_step(&load, 2 * SL_MS);
    check_goes_on(&load);

    CASE("a master is killed, and the other one takes over");
    server_kill(&w.replica, SIGKILL);
    check_goes_on(&load);
    CHECK(c.slowest < SL_S);
    load_end(&load);
    client_close(&c);
    test_unknown(&w);
    stop(&w);
    return CHECK_DONE();
}
