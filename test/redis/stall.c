/* stall.c -- a Redis that stalls, forgets its script, is killed and comes back.
 *
 * However it fails: answers come by their deadline, Redis has what was allowed,
 * and takes succeed again when Redis does.
 */
#include "load.h"

#define DEADLINE (20 * SL_MS)
#define PATIENT  (10 * SL_S) /* for what must not fail on a busy machine */

/* Generous for a busy machine, but shorter than a stall. */
#define SOON (2 * SL_S)

static void open_client(struct client *c, const struct server *s,
                        sl_ns deadline)
{
    char where[64];

    memset(c, 0, sizeof(*c));
    c->options.remote.deadline = deadline;
    snprintf(where, sizeof(where), "redis://127.0.0.1:%u", s->port);
    client_open(c, where);
    client_ready(c);
}

/* On a busy machine, many takes can miss their deadline before some pass. */
static void run_until_allowed(struct load *load, unsigned allowed)
{
    for (unsigned i = 0; load->client->allowed < allowed && i < 15000; i++)
        load_step(load, 2 * SL_MS);
    CHECK(load->client->allowed >= allowed);
}

/* Takes are allowed again soon. */
static void check_recovery(struct load *load)
{
    struct client *c = load->client;
    sl_ns began = sl_loop_mono(c->loop);

    run_until_allowed(load, c->allowed + 100);
    printf("# goes on after %lld ms\n",
           (long long)((sl_loop_mono(c->loop) - began) / SL_MS));
    load_end(load);
}

static void test_stall(struct server *s, const char *name, const char *what,
                       sl_ns span)
{
    struct client c;
    struct load load;
    redisContext *other = redisConnect("127.0.0.1", (int)s->port);

    open_client(&c, s, DEADLINE);
    load_init(&load, &c, name);
    load_run(&load, 50 * SL_MS);
    run_until_allowed(&load, 1);
    if (strcmp(what, "SIGSTOP") == 0) {
        server_kill(s, SIGSTOP);
    } else {
        redisAppendCommand(other, what);
        int done = 0;
        while (!done)
            redisBufferWrite(other, &done);
    }
    load_run(&load, span);
    CHECK(c.failed > 0);
    CHECK(c.slowest < SOON);
    CHECK(client_stats(&c).open);
    CHECK(c.news[SL_STORE_EVENT_OPENED] >= 1);
    if (strcmp(what, "SIGSTOP") == 0)
        server_kill(s, SIGCONT);
    check_recovery(&load);
    CHECK(!client_stats(&c).open);
    load_run(&load, 100 * SL_MS);
    load_end(&load);
    client_run(&c, 50 * SL_MS); /* refunds */
    load_check(&load, s->redis);
    client_close(&c);
    redisFree(other);
}

/* Late, but on the same connection: all of it is refunded. */
static void test_late(struct server *s)
{
    struct client c;
    struct load load;
    struct sl_remote_stats stats;

    open_client(&c, s, DEADLINE);
    load_init(&load, &c, "late");
    load_run(&load, 50 * SL_MS);
    server_say(s, "CLIENT PAUSE 300");
    load_run(&load, 300 * SL_MS);
    check_recovery(&load);
    CLIENT_WAIT(&c, client_stats(&c).returned > 0);
    client_run(&c, 50 * SL_MS);
    load_check(&load, s->redis);
    stats = client_stats(&c);
    CHECK_EQ(stats.uncertain, 0);
    CHECK_EQ(held_in(s->redis, "late"), c.allowed);
    client_close(&c);
}

static void test_flush(struct server *s)
{
    struct client c;
    struct load load;
    unsigned rounds = is_long() ? 200 : 20;

    open_client(&c, s, PATIENT);
    load_init(&load, &c, "flushed");
    for (unsigned i = 0; i < rounds; i++) {
        load_run(&load, is_long() ? 100 * SL_MS : 20 * SL_MS);
        server_say(s, "SCRIPT FLUSH");
    }
    load_end(&load);
    load_check(&load, s->redis);
    CHECK_EQ(c.failed, 0);
    CHECK(client_stats(&c).repaired >= rounds / 2);
    client_close(&c);
}

static void test_kill(struct server *s)
{
    struct client c;
    struct load load;

    open_client(&c, s, DEADLINE);
    load_init(&load, &c, "killed");
    for (unsigned i = 0; i < (is_long() ? 10 : 2); i++) {
        load_run(&load, 50 * SL_MS);
        server_kill(s, SIGKILL);
        load_run(&load, 300 * SL_MS);
        CHECK(c.news[SL_STORE_EVENT_DOWN] >= 1);
        server_spawn(s);
        check_recovery(&load);
    }
    CHECK(c.slowest < SOON);
    CHECK(held_in(s->redis, "killed") >= 100);
    CHECK(client_stats(&c).epochs >= 1);
    client_close(&c);
}

int main(void)
{
    struct server s = {.pid = 0};

    server_start(&s);
    CASE("a server that is paused");
    test_stall(&s, "paused", "CLIENT PAUSE 3000", 1200 * SL_MS);
    CASE("a server that sleeps");
    test_stall(&s, "slept", "DEBUG SLEEP 3", 1200 * SL_MS);
    CASE("a server that is stopped");
    test_stall(&s, "stopped", "SIGSTOP", is_long() ? 10 * SL_S : 1200 * SL_MS);
    CASE("a late success is refunded once");
    test_late(&s);
    CASE("a server that forgets its scripts: nothing is lost");
    test_flush(&s);
    CASE("a server that is killed and comes back");
    test_kill(&s);
    server_stop(&s);
    return CHECK_DONE();
}
