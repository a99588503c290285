/* holds.c -- holds in a Redis: how long what they need lives there. */
#include "load.h"

static void open_at(struct client *c, const struct server *s, bool own_now)
{
    char where[128];

    memset(c, 0, sizeof(*c));
    c->options.deadline = 2 * SL_S;
    c->options.own_now = own_now;
    snprintf(where, sizeof(where), "redis://127.0.0.1:%u", s->port);
    client_open(c, where);
    client_ready(c);
}

static struct sl_hold_id id_of(uint64_t number)
{
    return (struct sl_hold_id){
        {7, number}
    };
}

/* A take with a hold, at `now` if that is not 0. */
static bool hold(struct client *c, const struct sl_limit *limit,
                 const char *name, uint64_t cost, uint64_t number, sl_ns life,
                 sl_ns now)
{
    struct sl_stored stored = {.name = name, .strictest = *limit};
    struct asked a;

    asked_init(&a, c, SL_ERRAND_TAKE, limit, name, cost);
    a.part[0].of = &stored;
    if (life) {
        a.take.hold = id_of(number);
        a.take.hold_for = life;
    }
    if (now)
        a.take.now = now;
    a.stops = true;
    asked_send(&a);
    for (unsigned i = 0; !a.done && i < 20; i++)
        client_run(c, SL_S);
    CHECK(a.done);
    return !a.take.err && a.take.allowed;
}

static void test_lives(struct server *s)
{
    static const struct {
        const char *what, *name, *rate;
        enum sl_kind kind;
    } rows[] = {
        {"a bucket", "bucket", "50/day", SL_BUCKET},
        {"a window", "window", "50/day", SL_FIXED },
        {"a level",  "level",  "50",     SL_LEVEL },
    };
    struct client c;

    open_at(&c, s, false);
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_limit limit = client_limit(rows[i].kind, rows[i].rate);
        long long value, set;

        CASE(rows[i].what);
        CHECK(hold(&c, &limit, rows[i].name, 50, 1 + i, SL_S, 0));
        value = server_say(s, "PTTL %s", rows[i].name);
        set = server_say(s, "PTTL {%s}#holds", rows[i].name);
        CHECK(value > 0);
        CHECK(set + 1000 > value); /* as long as what it is held of */
    }
    client_close(&c);
}

static void on_settled(struct sl_hold_call *call)
{
    struct client *c = call->ctx;

    c->waiting--;
    sl_loop_stop(c->loop);
}

static void settle(struct client *c, uint64_t number, uint64_t cost, sl_ns now)
{
    struct sl_hold_call call = {.errand = SL_HOLD_SETTLE,
                                .id = id_of(number),
                                .cost = cost,
                                .now = now,
                                .loop = c->loop,
                                .done = on_settled,
                                .ctx = c};

    c->waiting++;
    sl_store_hold(c->store, &call);
    CLIENT_WAIT(c, c->waiting == 0);
    CHECK_EQ(call.err, 0);
    CHECK_EQ(call.state, SL_HOLD_HELD);
}

/* The take knew its month and the next one, and no more. */
static void test_quota(struct server *s)
{
    struct sl_limit limit = client_limit(SL_QUOTA, "100/month");
    sl_ns now = 20000 * SL_DAY;
    struct client c;
    long long before;

    CASE("a quota outlives the end of a hold of two months ago");
    open_at(&c, s, true);
    CHECK(hold(&c, &limit, "quota", 10, 21, 100 * SL_DAY, now));
    now += 70 * SL_DAY;
    CHECK(hold(&c, &limit, "quota", 95, 0, 0, now));
    before = server_say(s, "PTTL quota");
    settle(&c, 21, 12, now);
    CHECK(server_say(s, "PTTL quota") + 10000 > before);
    client_close(&c);
}

/* Of the two parts only the permit is held: the window's is firm. */
static void test_late(struct server *s)
{
    struct sl_limit limits[] = {client_limit(SL_FIXED, "100/day"),
                                client_limit(SL_BUCKET, "100/day"),
                                client_limit(SL_PERMITS, "2")};
    static const char *const names[] = {"late:r", "late:b", "late:s"};
    struct sl_stored stored[3];
    struct client c;
    struct asked a;
    int err;

    CASE("what came too late is given back, also what is not held");
    open_at(&c, s, false);
    client_take(&c, SL_ERRAND_TAKE, &limits[0], names[0], 1, &err);
    asked_init(&a, &c, SL_ERRAND_TAKE, &limits[0], names[0], 1);
    for (unsigned i = 0; i < SL_LEN(limits); i++) {
        stored[i] = (struct sl_stored){.name = names[i], limits[i]};
        a.part[i] = (struct sl_take_part){.of = &stored[i],
                                          .limit = &limits[i],
                                          .key = sl_str_c(names[i]),
                                          .name = sl_str_c(names[i]),
                                          .cost = 1};
    }
    a.take.count = SL_LEN(limits);
    a.take.hold = id_of(31);
    a.take.hold_for = SL_HOUR;
    a.take.firm = 3;
    a.take.deadline = sl_loop_steady(c.loop) + 20 * SL_MS;
    server_say(s, "CLIENT PAUSE 200 ALL");
    asked_send(&a);
    CLIENT_WAIT(&c, a.done);
    CHECK(a.take.err != 0);
    CLIENT_WAIT(&c, client_stats(&c).returned == 1);
    for (unsigned i = 0; i < SL_LEN(limits); i++)
        CHECK_EQ(client_take(&c, SL_ERRAND_TAKE, &limits[i], names[i], 0, &err)
                     .remaining,
                 limits[i].capacity - (i == 0));
    client_close(&c);
}

int main(void)
{
    struct server s = {.pid = 0};

    server_start(&s);
    test_lives(&s);
    test_quota(&s);
    test_late(&s);
    server_stop(&s);
    return CHECK_DONE();
}
