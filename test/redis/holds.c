/* holds.c -- holds in a Redis: how long what they need lives there. */
#include "load.h"

static struct sl_hold_id id_of(uint64_t number)
{
    return (struct sl_hold_id){
        {7, number}
    };
}

/* A take with a hold of `life`, if that is not 0, at `now`, if that is not. */
static struct sl_answer ask(struct client *c, const struct sl_limit *limit,
                            const char *name, uint64_t cost, uint64_t number,
                            sl_ns life, sl_ns now)
{
    struct sl_limit_binding stored = {.name = name, .strictest = *limit};
    struct asked a;

    asked_init(&a, c, SL_TAKE_OP_TAKE, limit, name, cost);
    a.part[0].binding = &stored;
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
    CHECK_EQ(a.take.err, 0);
    return a.part[0].answer;
}

static bool hold(struct client *c, const struct sl_limit *limit,
                 const char *name, uint64_t cost, uint64_t number, sl_ns life,
                 sl_ns now)
{
    return ask(c, limit, name, cost, number, life, now).outcome == SL_ALLOW;
}

static uint64_t left(struct client *c, const struct sl_limit *limit,
                     const char *name, sl_ns now)
{
    return ask(c, limit, name, 0, 0, 0, now).remaining;
}

static sl_ns retry(struct client *c, const struct sl_limit *limit,
                   const char *name, uint64_t cost, sl_ns now)
{
    struct sl_answer a = ask(c, limit, name, cost, 0, 0, now);

    CHECK_EQ(a.outcome, SL_DENY);
    return a.retry_in;
}

TEST_WITH(lives, struct server *s)
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

    client_open_at(&c, s, false);
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_limit limit = rate_of(rows[i].kind, rows[i].rate);
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

static struct sl_hold_call call_of(enum sl_hold_action op, uint64_t number,
                                   sl_ns now)
{
    return (struct sl_hold_call){.op = op, .id = id_of(number), .now = now};
}

static enum sl_hold_state call_store(struct client *c,
                                     struct sl_hold_call *call)
{
    call->loop = c->loop;
    call->done = client_on_held;
    call->ctx = c;
    c->waiting++;
    sl_store_hold(c->store, call);
    CLIENT_WAIT(c, c->waiting == 0);
    CHECK_EQ(call->err, 0);
    return call->state;
}

static void settle(struct client *c, uint64_t number, uint64_t cost, sl_ns now)
{
    struct sl_hold_call call = call_of(SL_HOLD_SETTLE, number, now);

    call.cost = cost;
    CHECK_EQ(call_store(c, &call), SL_HOLD_HELD);
}

/* The take knew its month and the next one, and no more. */
TEST_WITH(quota, struct server *s)
{
    struct sl_limit limit = rate_of(SL_QUOTA, "100/month");
    sl_ns now = 20000 * SL_DAY;
    struct client c;
    long long before;

    CASE("a quota outlives the end of a hold of two months ago");
    client_open_at(&c, s, true);
    CHECK(hold(&c, &limit, "quota", 10, 21, 100 * SL_DAY, now));
    now += 70 * SL_DAY;
    CHECK(hold(&c, &limit, "quota", 95, 0, 0, now));
    before = server_say(s, "PTTL quota");
    settle(&c, 21, 12, now);
    CHECK(server_say(s, "PTTL quota") + 10000 > before);
    client_close(&c);
}

/* Of the two parts only the permit is held: the window's is firm. */
TEST_WITH(late, struct server *s)
{
    struct sl_limit limits[] = {rate_of(SL_FIXED, "100/day"),
                                rate_of(SL_BUCKET, "100/day"),
                                rate_of(SL_PERMITS, "2")};
    static const char *const names[] = {"late:r", "late:b", "late:s"};
    struct sl_limit_binding stored[3];
    struct client c;
    struct asked a;
    int err;

    CASE("what came too late is given back, also what is not held");
    client_open_at(&c, s, false);
    client_take(&c, SL_TAKE_OP_TAKE, &limits[0], names[0], 1, &err);
    asked_init(&a, &c, SL_TAKE_OP_TAKE, &limits[0], names[0], 1);
    for (unsigned i = 0; i < SL_LEN(limits); i++) {
        stored[i] = (struct sl_limit_binding){.name = names[i], limits[i]};
        a.part[i] = (struct sl_part){.binding = &stored[i],
                                     .limit = &limits[i],
                                     .key = sl_str_c(names[i]),
                                     .name = sl_str_c(names[i]),
                                     .cost = 1};
    }
    a.take.count = SL_LEN(limits);
    a.take.hold = id_of(31);
    a.take.hold_for = SL_HOUR;
    a.part[0].not_held = a.part[1].not_held = true;
    a.take.deadline = sl_loop_mono(c.loop) + 20 * SL_MS;
    server_say(s, "CLIENT PAUSE 200 ALL");
    asked_send(&a);
    CLIENT_WAIT(&c, a.done);
    CHECK(a.take.err != 0);
    CLIENT_WAIT(&c, client_stats(&c).returned == 1);
    for (unsigned i = 0; i < SL_LEN(limits); i++)
        CHECK_EQ(client_take(&c, SL_TAKE_OP_TAKE, &limits[i], names[i], 0, &err)
                     .remaining,
                 limits[i].capacity - (i == 0));
    client_close(&c);
}

/* ---- when what is held comes back ---- */

TEST_WITH(retry, struct server *s)
{
    struct sl_limit window = rate_of(SL_FIXED, "10/day");
    struct sl_limit bucket = rate_of(SL_BUCKET, "10/10s burst 20");
    struct sl_limit level = rate_of(SL_LEVEL, "5");
    sl_ns now = 20000 * SL_DAY;
    struct client c;

    CASE("who is refused is told when what is held comes back");
    client_open_at(&c, s, true);
    CHECK(hold(&c, &window, "rw", 6, 41, 9 * SL_S, now));
    CHECK(hold(&c, &window, "rw", 4, 42, 4 * SL_S, now));
    CHECK_EQ(retry(&c, &window, "rw", 3, now), 4 * SL_S);
    CHECK_EQ(retry(&c, &window, "rw", 5, now + SL_S), 8 * SL_S);
    CHECK(hold(&c, &level, "rl", 5, 43, 7 * SL_S, now));
    CHECK_EQ(retry(&c, &level, "rl", 1, now), 7 * SL_S);

    CASE("and of a bucket, what drains meanwhile");
    CHECK(hold(&c, &bucket, "rb", 10, 0, 0, now));
    CHECK(hold(&c, &bucket, "rb", 10, 44, 5 * SL_S, now));
    CHECK_EQ(retry(&c, &bucket, "rb", 4, now), 4 * SL_S);
    CHECK_EQ(retry(&c, &bucket, "rb", 12, now), 5 * SL_S);
    CHECK_EQ(retry(&c, &bucket, "rb", 17, now), 7 * SL_S);
    CHECK_EQ(left(&c, &bucket, "rb", now), 0); /* looking changes nothing */
    CHECK(hold(&c, &bucket, "rb", 17, 0, 0, now + 7 * SL_S));
    client_close(&c);
}

/* More of them than anybody looks through. */
TEST_WITH(many, struct server *s)
{
    struct sl_limit permits = rate_of(SL_PERMITS, "1200");
    struct sl_limit day = rate_of(SL_FIXED, "1200/day");
    sl_ns now = 20000 * SL_DAY;
    struct client c;

    CASE("of a thousand permits it is known when the first comes back");
    client_open_at(&c, s, true);
    for (unsigned i = 0; i < 1200; i++) {
        CHECK(hold(&c, &permits, "many", 1, 1000 + i, SL_S + i * SL_MS, now));
        CHECK(hold(&c, &day, "days", 1, 4000 + i, SL_S + i * SL_MS, now));
    }
    CHECK_EQ(retry(&c, &permits, "many", 1, now), SL_S);
    CHECK_EQ(retry(&c, &permits, "many", 900, now), SL_S + 899 * SL_MS);

    CASE("when all expire at once, no call gives all of them back");
    now += SL_MIN;
    CHECK_EQ(retry(&c, &day, "days", 1200, now), SL_MS);
    CHECK_EQ(server_say(s, "ZCARD {days}#holds"), 700);
    CHECK_EQ(retry(&c, &day, "days", 1200, now), SL_MS);
    CHECK(hold(&c, &day, "days", 1200, 0, 0, now));
    CHECK_EQ(left(&c, &permits, "many", now), 500);
    CHECK_EQ(left(&c, &permits, "many", now), 1000);
    CHECK_EQ(left(&c, &permits, "many", now), 1200);
    client_close(&c);
}

/* ---- clocks ---- */

TEST_WITH(step_back, struct server *s)
{
    static const struct {
        const char *what, *name, *rate;
        enum sl_kind kind;
    } rows[] = {
        {"permits",  "sp", "5",     SL_PERMITS},
        {"a level",  "sl", "5",     SL_LEVEL  },
        {"a window", "sw", "5/day", SL_FIXED  },
    };
    struct client c;

    client_open_at(&c, s, true);
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct sl_limit limit = rate_of(rows[i].kind, rows[i].rate);
        sl_ns now = 20000 * SL_DAY + 5 * SL_HOUR;
        uint64_t id = 51 + 10 * i;
        struct sl_hold_call look;

        CASE(rows[i].what);
        CHECK(hold(&c, &limit, rows[i].name, 2, id, 10 * SL_S, now));
        CHECK(hold(&c, &limit, rows[i].name, 2, id + 1, SL_S, now));
        CHECK(hold(&c, &limit, rows[i].name, 1, id + 2, 20 * SL_S, now));
        now -= SL_HOUR; /* the longest is not the last to be seen */
        CHECK_EQ(retry(&c, &limit, rows[i].name, 1, now), SL_S);
        CHECK_EQ(left(&c, &limit, rows[i].name, now + SL_S - SL_US), 0);
        CHECK_EQ(left(&c, &limit, rows[i].name, now + SL_S), 2);
        look = call_of(SL_HOLD_LOOK, id, now + 2 * SL_S);
        CHECK_EQ(call_store(&c, &look), SL_HOLD_HELD);
        CHECK_EQ(look.expires_in, 8 * SL_S);
        look = call_of(SL_HOLD_LOOK, id + 1, now + 2 * SL_S);
        CHECK_EQ(call_store(&c, &look), SL_HOLD_EXPIRED);
        CHECK_EQ(left(&c, &limit, rows[i].name, now + 10 * SL_S), 4);
        CHECK_EQ(left(&c, &limit, rows[i].name, now + 20 * SL_S), 5);
    }
    client_close(&c);
}

TEST_WITH(longest, struct server *s)
{
    struct sl_limit limit = rate_of(SL_PERMITS, "1");
    sl_ns now = 20000 * SL_DAY;
    struct sl_hold_call extend = call_of(SL_HOLD_EXTEND, 91, now + SL_S);
    struct client c;

    CASE("after a step a hold lasts as long as it ever did at once");
    client_open_at(&c, s, true);
    CHECK(hold(&c, &limit, "ext", 1, 91, 5 * SL_S, now));
    extend.hold_for = 9 * SL_S;
    CHECK_EQ(call_store(&c, &extend), SL_HOLD_HELD);
    CHECK_EQ(retry(&c, &limit, "ext", 1, now - SL_DAY), 9 * SL_S);
    CHECK_EQ(left(&c, &limit, "ext", now - SL_DAY + 9 * SL_S), 1);
    client_close(&c);
}

/* Two months after its take a hold comes to more: that is used this month. */
TEST_WITH(more, struct server *s)
{
    struct sl_limit limit = rate_of(SL_QUOTA, "100/month");
    struct sl_limit_binding stored = {.name = "months", .strictest = limit};
    sl_ns now = 20000 * SL_DAY;
    struct sl_hold_call call;
    struct client c;

    CASE("what is charged beyond a hold is charged to the month of now");
    client_open_at(&c, s, true);
    CHECK(hold(&c, &limit, "months", 10, 22, 200 * SL_DAY, now));
    CHECK(hold(&c, &limit, "months", 10, 23, 200 * SL_DAY, now));
    CHECK(hold(&c, &limit, "months", 10, 24, 200 * SL_DAY, now));
    now += 30 * SL_DAY;
    CHECK(hold(&c, &limit, "months", 60, 0, 0, now));
    now += 70 * SL_DAY;
    call = call_of(SL_HOLD_SETTLE, 22, now);
    call.cost = 25;
    call.limits = &stored;
    call.limits_count = 1;
    CHECK_EQ(call_store(&c, &call), SL_HOLD_HELD);
    CHECK_EQ(call.parts[0].answer.remaining, 85);
    CHECK_EQ(left(&c, &limit, "months", now), 85);

    CASE("and nothing to an unknown month");
    settle(&c, 23, 40, now);
    CHECK_EQ(left(&c, &limit, "months", now), 85);
    CHECK_EQ(hold(&c, &limit, "months", 85, 0, 0, now), true);
    settle(&c, 24, 0, now);
    CHECK_EQ(left(&c, &limit, "months", now), 0);
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
