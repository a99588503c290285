/* redis.c -- the store with a Redis that the test plays: every end of a take,
 * and with the nth allocation failing. */
#include "store/redis/redis.h"

#include "fail.h"
#include "world.h"

static void test_answers(struct world *w)
{
    static const struct {
        const char *why, *reply;
        bool good, allowed;
    } rows[] = {
  /* clang-format off */
        {"yes", YES, true, true},
        {"no", NO, true, false},
        {"an error", "-ERR what\r\n", false, false},
        {"a nil", "$-1\r\n", false, false},
        {"too few numbers", "*3\r\n:1\r\n:1\r\n:0\r\n", false, false},
        {"words for numbers", "*1\r\n+x\r\n", false, false},
        {"a verdict of 3",
         "*8\r\n:3\r\n:1\r\n:0\r\n:0\r\n:4\r\n:-1\r\n:10\r\n:0\r\n",
         false, false},
        {"an outcome of 7",
         "*8\r\n:1\r\n:1\r\n:0\r\n:7\r\n:4\r\n:-1\r\n:10\r\n:0\r\n",
         false, false},
        {"a negative remainder",
         "*8\r\n:1\r\n:1\r\n:0\r\n:0\r\n:-4\r\n:-1\r\n:10\r\n:0\r\n",
         false, false},
        {"a retry of -2",
         "*8\r\n:1\r\n:1\r\n:0\r\n:0\r\n:4\r\n:-2\r\n:10\r\n:0\r\n",
         false, false},
  /* clang-format on */
    };

    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        struct asked a;

        CASE(rows[i].why);
        CHECK_EQ(open_store(w, NULL, 10 * SL_S), 0);
        make_ready(w);
        ask(w, &a, SL_TAKE_OP_TAKE);
        CHECK(play(w, 1000));
        fake_says(&w->fake, rows[i].reply);
        WAIT_FOR(&w->fake.rig, a.done);
        CHECK_EQ(a.take.err, rows[i].good ? 0 : SLUICE_ESTORE);
        CHECK_EQ(a.take.allowed, rows[i].allowed);
        CHECK_EQ(stats_of(w).taken, rows[i].good);
        CHECK_EQ(stats_of(w).failed, !rows[i].good);
        close_store(w);
        CHECK_EQ(a.done, 1);
    }
}

static void test_early(struct world *w)
{
    struct asked a;

    CASE("before the secret is known nothing is taken");
    CHECK_EQ(open_store(w, NULL, SL_S), 0);
    ask(w, &a, SL_TAKE_OP_TAKE);
    CHECK_EQ(a.done, 1);
    CHECK_EQ(a.take.err, SLUICE_ESTORE);
    make_ready(w);
    CHECK_EQ(sl_store_secret(w->store)->k0, 0x0123456789abcdef);
    CHECK_EQ(sl_store_secret(w->store)->k1, 0x0123456789abcdef);

    CASE("an empty set is allowed, a loop without a client is not served");
    a.take.count = 0;
    sl_store_take(w->store, &a.take);
    CHECK(a.done == 2 && a.take.allowed && !a.take.err);
    a.take.loop = NULL;
    sl_store_take(w->store, &a.take);
    CHECK(a.done == 3 && a.take.err == SLUICE_ESTORE);

    CASE("a closed client leaves its place and its numbers");
    for (unsigned i = 0; i < 300; i++) {
        sl_remote_store_detach(w->store, w->fake.rig.loop);
        fake_clear(&w->fake);
        CHECK_EQ(sl_remote_store_attach(w->store, w->fake.rig.loop, NULL), 0);
    }
    CHECK_EQ(stats_of(w).failed, 1);
    CHECK_EQ(stats_of(w).clients, 1);
    close_store(w);
}

static void test_late(struct world *w)
{
    struct asked a;

    CASE("what succeeds too late is given back, once");
    CHECK_EQ(open_store(w, NULL, 10 * SL_MS), 0);
    make_ready(w);
    ask(w, &a, SL_TAKE_OP_TAKE);
    CHECK(play(w, 1000));
    WAIT_FOR(&w->fake.rig, a.done);
    CHECK_EQ(a.take.err, SLUICE_ESTORE);
    CHECK_EQ(stats_of(w).late, 1);
    fake_says(&w->fake, YES);
    CHECK(hears(w, "$4\r\nback\r\n"));
    fake_says(&w->fake, YES);
    WAIT_FOR(&w->fake.rig, stats_of(w).returned == 1);

    CASE("what was refused too late is not");
    ask(w, &a, SL_TAKE_OP_TAKE);
    CHECK(play(w, 1000));
    WAIT_FOR(&w->fake.rig, a.done);
    fake_says(&w->fake, NO);
    CHECK(!play(w, 30));
    CHECK_EQ(stats_of(w).returned, 1);
    CHECK_EQ(stats_of(w).uncertain, 0);

    CASE("what may have been given back, or not, is uncertain");
    ask(w, &a, SL_TAKE_OP_TAKE);
    CHECK(play(w, 1000));
    WAIT_FOR(&w->fake.rig, a.done);
    fake_says(&w->fake, YES);
    CHECK(hears(w, "$4\r\nback\r\n"));
    fake_hang_up(&w->fake);
    WAIT_FOR(&w->fake.rig, stats_of(w).uncertain == 1);
    close_store(w);
}

/* Nothing reads the socket, so it does not take all. */
static void test_stuck(struct world *w)
{
    static struct asked many[3000];
    const struct asked *last = &many[SL_LEN(many) - 1];

    CASE("a take that waits to be written at its deadline was not sent");
    CHECK_EQ(open_store(w, NULL, 10 * SL_MS), 0);
    make_ready(w);
    for (unsigned i = 0; i < SL_LEN(many); i++)
        ask(w, &many[i], SL_TAKE_OP_TAKE);
    WAIT_FOR(&w->fake.rig, last->done);
    CHECK_EQ(many[0].take.err, SLUICE_ESTORE);
    CHECK(many[0].take.sent);
    CHECK_EQ(last->take.err, SLUICE_ESTORE);
    CHECK(!last->take.sent);
    close_store(w);
}

/* The caller charges what was not sent, and keeps what was. */
static void on_kept(struct sl_take *take)
{
    struct sl_store *store = take->ctx;

    on_done(take);
    store->calls->keep(store, take->loop);
}

/* The takes have deadlines of their own: a connection waits for answers as long
 * as the store does, and to answer all of them takes a while. */
static void test_stuck_kept(struct world *w)
{
    static struct asked many[1000]; /* the socket takes some 500 */
    const struct asked *last = &many[SL_LEN(many) - 1];
    const char *more;
    unsigned unsent = 0;

    CASE("what was not sent at its deadline is refunded, also if it is kept");
    CHECK_EQ(open_store(w, NULL, 100 * SL_S), 0);
    make_ready(w);
    for (unsigned i = 0; i < SL_LEN(many); i++) {
        prepare_at(w, &many[i], SL_TAKE_OP_TAKE, 20000 * SL_DAY, 0);
        many[i].take.deadline = sl_loop_mono(w->fake.rig.loop) + 10 * SL_MS;
        many[i].take.done = on_kept;
        many[i].take.ctx = w->store;
        sl_store_take(w->store, &many[i].take);
    }
    WAIT_FOR(&w->fake.rig, last->done);
    for (unsigned i = 0; i < SL_LEN(many); i++)
        unsent += !many[i].take.sent;
    CHECK(unsent > 0 && unsent < SL_LEN(many));
    while (stats_of(w).returned < unsent && play(w, 1000)) {
        fake_says(&w->fake, YES);
        turn(&w->fake.rig);
    }
    while ((more = play(w, 30)) != NULL) {
        CHECK(strstr(more, "#probe") != NULL); /* the breaker may be open */
        fake_says(&w->fake, YES);
    }
    CHECK_EQ(stats_of(w).returned, unsent);
    CHECK_EQ(stats_of(w).uncertain, 0);
    close_store(w);
}

static void test_lost(struct world *w)
{
    struct asked a, b;

    CASE("a connection that is lost leaves takes uncertain, looks failed");
    CHECK_EQ(open_store(w, NULL, 10 * SL_S), 0);
    make_ready(w);
    ask(w, &a, SL_TAKE_OP_TAKE);
    ask(w, &b, SL_TAKE_OP_PEEK);
    CHECK(play(w, 1000));
    fake_hang_up(&w->fake);
    WAIT_FOR(&w->fake.rig, a.done && b.done);
    CHECK_EQ(stats_of(w).uncertain, 1);
    CHECK_EQ(stats_of(w).failed, 2);

    CASE("a store that closes tells all");
    make_ready(w);
    for (unsigned i = 0; i < 500 && !stats_of(w).up; i++)
        play(w, 30);
    ask(w, &a, SL_TAKE_OP_TAKE);
    CHECK_EQ(a.done, 0);
    close_store(w);
    CHECK_EQ(a.done, 1);
    CHECK_EQ(a.take.err, SLUICE_ESTORE);
}

static void test_noscript(struct world *w)
{
    struct asked a;

    CASE("a server that does not know the script is told, for ever if need be");
    CHECK_EQ(open_store(w, NULL, 10 * SL_S), 0);
    make_ready(w);
    ask(w, &a, SL_TAKE_OP_TAKE);
    CHECK(play(w, 1000));
    fake_says(&w->fake, "-NOSCRIPT No matching script.\r\n");
    CHECK(hears(w, "$4\r\nEVAL\r\n"));
    fake_says(&w->fake, YES);
    WAIT_FOR(&w->fake.rig, a.done);
    CHECK_EQ(a.take.err, 0);
    CHECK_EQ(stats_of(w).repaired, 1);

    CASE("but one that never learns it is a failure");
    ask(w, &a, SL_TAKE_OP_TAKE);
    for (unsigned i = 0; i < 4 && !a.done; i++) {
        CHECK(play(w, 1000));
        fake_says(&w->fake, "-NOSCRIPT No matching script.\r\n");
    }
    WAIT_FOR(&w->fake.rig, a.done);
    CHECK_EQ(a.take.err, SLUICE_ESTORE);
    close_store(w);
}

/* With the nth allocation failing: a take is told once, nothing is left. */
static void test_memory(struct world *w)
{
    unsigned n = 1;

    CASE("without memory a take fails, and says so");
    for (bool failed = true; failed && n < 200; n++) {
        struct fail fail = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&fail);
        struct asked a = {.done = 0};

        if (open_store(w, &alloc, 5 * SL_MS) == 0) {
            for (unsigned i = 0; i < 300 && !sl_remote_store_is_ready(w->store);
                 i++)
                play(w, 2);
            ask(w, &a, SL_TAKE_OP_TAKE);
            if (play(w, 40))
                fake_says(&w->fake, "-NOSCRIPT x\r\n");
            if (play(w, 40))
                fake_says(&w->fake, YES);
            for (unsigned i = 0; i < 100 && !a.done; i++)
                play(w, 30);
            CHECK_EQ(a.done, 1);
        }
        close_store(w);
        failed = fail.calls >= n;
        fail_check(&fail);
    }
    CHECK(n > 10);
    printf("# %u allocations\n", n);
}

/* Twelve seconds into a minute: by a server whose clock is behind, equal, or
 * ahead. */
static void test_reset(struct world *w)
{
    static const struct {
        bool allowed;
        int64_t left_us; /* by the server's clock */
        sl_ns retry_in;
    } rows[] = {
        {true,  48006000, SL_NS_NONE           },
        {true,  48000000, SL_NS_NONE           },
        {true,  47994000, SL_NS_NONE           },
        {true,  47100000, SL_NS_NONE           },
        {false, 47994000, 48 * SL_S            },
        {false, 48006000, 48 * SL_S + 6 * SL_MS},
    };

    CASE("the end of a window is exact, whatever the server's clock says");
    CHECK_EQ(open_store(w, NULL, 10 * SL_S), 0);
    make_ready(w);
    for (unsigned i = 0; i < SL_LEN(rows); i++) {
        long long left = rows[i].left_us;
        struct asked a;
        char reply[128];

        snprintf(reply, sizeof(reply),
                 "*8\r\n:%d\r\n:1\r\n:0\r\n:%d\r\n:0\r\n:%lld\r\n:%lld\r\n"
                 ":0\r\n",
                 rows[i].allowed, !rows[i].allowed, rows[i].allowed ? -1 : left,
                 left);
        ask_at(w, &a, SL_TAKE_OP_TAKE, 20000 * SL_DAY + 12 * SL_S, i);
        CHECK(play(w, 1000));
        fake_says(&w->fake, reply);
        WAIT_FOR(&w->fake.rig, a.done);
        CHECK_EQ(a.take.err, 0);
        CHECK_EQ(a.part.answer.reset_in, 48 * SL_S);
        CHECK_EQ(a.part.answer.retry_in, rows[i].retry_in);
    }
    close_store(w);
}

int main(void)
{
    static struct world w;

    world_open(&w);
    test_early(&w);
    test_answers(&w);
    test_reset(&w);
    test_late(&w);
    test_stuck(&w);
    test_stuck_kept(&w);
    test_lost(&w);
    test_noscript(&w);
    test_memory(&w);
    fake_close(&w.fake);
    return CHECK_DONE();
}
