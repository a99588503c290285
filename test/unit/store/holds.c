/* holds.c -- holds with a Redis that the test plays: how calls about them are
 * written and read, and what becomes of those that come too late. */
#include "store/redis/redis.h"

#include "world.h"

#define HELD                                                                   \
    "*15\r\n:1\r\n:9\r\n:70\r\n$3\r\nkey\r\n$1\r\na\r\n:5\r\n:5\r\n"           \
    ":2\r\n:1\r\n:0\r\n:0\r\n:4\r\n:-1\r\n:10\r\n:0\r\n"

struct called {
    struct sl_hold_call call; /* first */
    unsigned done;
};

static void on_held(struct sl_hold_call *call)
{
    ((struct called *)call)->done++;
}

static void call(struct world *w, struct called *c, enum sl_hold_action op)
{
    static const struct sl_limit_binding limits[] = {{.name = "b"},
                                                     {.name = "a"}};

    *c = (struct called){
        .call = {.op = op,
                 .id = {{10, 11}},
                 .limits = limits,
                 .limits_count = SL_LEN(limits),
                 .cost = 1,
                 .hold_for = SL_S,
                 .now = 20000 * SL_DAY,
                 .loop = w->fake.rig.loop,
                 .done = on_held}
    };
    sl_store_hold(w->store, &c->call);
}

TEST_WITH(calls, struct world *w)
{
    static const struct {
        const char *why, *reply;
        bool good;
        enum sl_hold_state state;
        unsigned parts;
    } rows[] = {
  /* clang-format off */
        {"a hold that is there", HELD, true, SL_HOLD_HELD, 1},
        {"one that was settled", "*3\r\n:2\r\n:9\r\n:-1\r\n", true,
         SL_HOLD_SETTLED, 0},
        {"an unknown one", "*3\r\n:0\r\n:9\r\n:-1\r\n", true,
         SL_HOLD_UNKNOWN, 0},
        {"a state of 5", "*3\r\n:5\r\n:9\r\n:-1\r\n", false, 0, 0},
        {"too few numbers", "*2\r\n:1\r\n:9\r\n", false, 0, 0},
        {"half a part", "*4\r\n:1\r\n:9\r\n:7\r\n:7\r\n", false, 0, 0},
        {"a number for a name",
         "*15\r\n:1\r\n:9\r\n:70\r\n:3\r\n$1\r\na\r\n:5\r\n:5\r\n"
         ":2\r\n:1\r\n:0\r\n:0\r\n:4\r\n:-1\r\n:10\r\n:0\r\n", false, 0, 0},
        {"an outcome of 7",
         "*15\r\n:1\r\n:9\r\n:70\r\n$3\r\nkey\r\n$1\r\na\r\n:5\r\n:5\r\n"
         ":2\r\n:1\r\n:0\r\n:7\r\n:4\r\n:-1\r\n:10\r\n:0\r\n", false, 0, 0},
        {"an error", "-ERR what\r\n", false, 0, 0},
  /* clang-format on */
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct called c;

        CASE(rows[i].why);
        CHECK_EQ(open_store(w, NULL, 10 * SL_S), 0);
        call(w, &c, SL_HOLD_LOOK);
        CHECK(c.done == 1 && c.call.err == SLUICE_ESTORE); /* no secret yet */
        make_ready(w);
        call(w, &c, SL_HOLD_LOOK);
        CHECK(hears(w, "sluice:hold:000000000000000a000000000000000b\r\n$4\r\n"
                       "view\r\n"));
        fake_says(&w->fake, rows[i].reply);
        WAIT_FOR(&w->fake.rig, c.done);
        CHECK_EQ(c.call.err, rows[i].good ? 0 : SLUICE_ESTORE);
        if (rows[i].good) {
            CHECK_EQ(c.call.state, rows[i].state);
            CHECK_EQ(c.call.count, rows[i].parts);
        }
        if (rows[i].parts > 0) {
            CHECK(c.call.parts[0].binding == &c.call.limits[1]);
            CHECK_EQ(c.call.parts[0].held, 2);
            CHECK_EQ(c.call.parts[0].answer.remaining, 4);
            CHECK_EQ(c.call.expires_in, 70 * SL_US);
        }
        close_store(w);
        CHECK_EQ(c.done, 1);
    }
}

TEST_WITH(call_words, struct world *w)
{
    struct called c;

    CASE("a settlement says what it came to");
    CHECK_EQ(open_store(w, NULL, 10 * SL_S), 0);
    make_ready(w);
    call(w, &c, SL_HOLD_SETTLE);
    CHECK(hears(w, "settle\r\n"));
    fake_says(&w->fake, "-NOSCRIPT x\r\n");
    CHECK(hears(w, "$4\r\nEVAL\r\n"));
    fake_says(&w->fake, HELD);
    WAIT_FOR(&w->fake.rig, c.done);
    CHECK_EQ(c.call.state, SL_HOLD_HELD);
    CHECK_EQ(c.call.parts[0].cost, 1);

    CASE("a call that is lost has failed, a loop without a client as well");
    call(w, &c, SL_HOLD_EXTEND);
    CHECK(hears(w, "extend\r\n"));
    fake_hang_up(&w->fake);
    WAIT_FOR(&w->fake.rig, c.done);
    CHECK_EQ(c.call.err, SLUICE_ESTORE);
    c.call.loop = NULL;
    sl_store_hold(w->store, &c.call);
    CHECK(c.done == 2 && c.call.err == SLUICE_ESTORE);
    close_store(w);
}

static void ask_held(struct world *w, struct asked *a)
{
    static const struct sl_limit_binding stored = {.name = "a"};

    *a = (struct asked){
        .take = {.op = SL_TAKE_OP_TAKE,
                 .parts = &a->part,
                 .count = 1,
                 .now = 20000 * SL_DAY,
                 .loop = w->fake.rig.loop,
                 .hold = {{10, 11}},
                 .hold_for = SL_S,
                 .done = on_done}
    };
    a->part = (struct sl_part){.binding = &stored,
                               .limit = &w->limit,
                               .name = SL_STR("key"),
                               .cost = 1};
    sl_store_take(w->store, &a->take);
}

TEST_WITH(held_late, struct world *w)
{
    struct asked a;
    struct called c;

    CASE("a hold that is taken too late is released");
    CHECK_EQ(open_store(w, NULL, 10 * SL_MS), 0);
    make_ready(w);
    ask_held(w, &a);
    CHECK(hears(w, "hold\r\n"));
    WAIT_FOR(&w->fake.rig, a.done);
    CHECK_EQ(a.take.err, SLUICE_ESTORE);
    fake_says(&w->fake, YES);
    CHECK(hears(w, "settle\r\n"));
    fake_says(&w->fake, HELD);
    WAIT_FOR(&w->fake.rig, stats_of(w).returned == 1);

    CASE("a call that is answered too late is told once");
    call(w, &c, SL_HOLD_SETTLE);
    CHECK(play(w, 1000));
    WAIT_FOR(&w->fake.rig, c.done);
    CHECK_EQ(c.call.err, SLUICE_ESTORE);
    fake_says(&w->fake, HELD);
    CHECK(!play(w, 30));
    CHECK_EQ(c.done, 1);
    close_store(w);
}

int main(void)
{
    static struct world w;

    world_open(&w);
    RUN_TESTS_WITH(&w);
    fake_close(&w.fake);
    return CHECK_DONE();
}
