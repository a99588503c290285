/* loop.c -- turns, time, posts and timers. */
#include "net/loop.h"

#include <signal.h>

#include "turns.h"

struct tally {
    struct rig *rig;
    unsigned calls;
    char order[64];
    sl_ns now[2], steady[2], instant;
    struct sl_timer *timer;
};

static void put(struct tally *t, char c)
{
    t->order[strlen(t->order)] = c;
    t->calls++;
}

static void on_a(void *ctx)
{
    put(ctx, 'a');
}

static void on_b(void *ctx)
{
    put(ctx, 'b');
}

static void on_post_more(void *ctx)
{
    struct tally *t = ctx;

    put(t, 'm');
    if (t->calls < 5)
        CHECK_EQ(sl_loop_post(t->rig->loop, on_post_more, t), 0);
}

static void on_stop(void *ctx)
{
    struct tally *t = ctx;

    put(t, 's');
    sl_loop_stop(t->rig->loop);
}

TEST_WITH(posts, struct rig *rig)
{
    struct tally t = {.rig = rig};

    CASE("posts run in their order");
    CHECK_EQ(sl_loop_post(rig->loop, on_a, &t), 0);
    CHECK_EQ(sl_loop_post(rig->loop, on_b, &t), 0);
    CHECK_EQ(sl_loop_post(rig->loop, on_a, &t), 0);
    CHECK_EQ(t.calls, 0);
    turn(rig);
    CHECK_STR(t.order, "aba");

    CASE("posts of posts wait for the next turn");
    t = (struct tally){.rig = rig};
    CHECK_EQ(sl_loop_post(rig->loop, on_post_more, &t), 0);
    turn(rig);
    /* One in the turn, and one in what is left when the loop stops. */
    CHECK_EQ(t.calls, 2);
    WAIT_FOR(rig, t.calls == 5);
    turn(rig);
    CHECK_EQ(t.calls, 5);
}

static struct sl_loop *signalled;

static void on_signal(int number)
{
    (void)number;
    sl_loop_stop(signalled);
}

TEST_WITH(stop, struct rig *rig)
{
    struct tally t = {.rig = rig};

    CASE("a stop before the loop runs makes it return at once, but once only");
    sl_loop_stop(rig->loop);
    sl_loop_run(rig->loop);
    CHECK_EQ(sl_loop_post(rig->loop, on_stop, &t), 0);
    sl_loop_run(rig->loop);
    CHECK_STR(t.order, "s");

    CASE("what was posted before the stop is done before the loop returns");
    t = (struct tally){.rig = rig};
    CHECK_EQ(sl_loop_post(rig->loop, on_a, &t), 0);
    sl_loop_stop(rig->loop);
    sl_loop_run(rig->loop);
    CHECK_STR(t.order, "a");

    CASE("a signal handler may stop it");
    signalled = rig->loop;
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    sl_loop_run(rig->loop);
    signal(SIGUSR1, SIG_DFL);
}

static sl_ns moving(void *ctx)
{
    return *(sl_ns *)ctx += SL_MS;
}

static void on_time_a(void *ctx)
{
    struct tally *t = ctx;

    for (unsigned i = 0; i < 2; i++) {
        t->now[i] = sl_loop_now(t->rig->loop);
        t->steady[i] = sl_loop_mono(t->rig->loop);
    }
    t->instant = sl_loop_instant(t->rig->loop);
}

static void test_time(void)
{
    sl_ns source = SL_S;
    struct sl_clock clock;
    struct rig rig;
    struct tally t = {.rig = &rig};
    sl_ns before;

    sl_clock_init_sources(&clock, moving, moving, &source);
    rig_open(&rig, &clock);
    CASE("in one turn it is one time, though the clock runs");
    CHECK_EQ(sl_loop_post(rig.loop, on_time_a, &t), 0);
    turn(&rig);
    CHECK(t.now[0] > 0);
    CHECK_EQ(t.now[0], t.now[1]);
    CHECK(t.instant > t.now[1]);
    CHECK(t.steady[0] > 0);
    CHECK_EQ(t.steady[0], t.steady[1]);

    CASE("and in the next a later one");
    before = t.now[1];
    CHECK_EQ(sl_loop_post(rig.loop, on_time_a, &t), 0);
    turn(&rig);
    CHECK(t.now[0] > before);

    CASE("no caller asks, no clock is read");
    before = source;
    turn(&rig);
    turn(&rig);
    CHECK_EQ(source, before);

    CASE("outside of a turn it is read each time");
    before = sl_loop_now(rig.loop);
    CHECK(sl_loop_now(rig.loop) > before);

    CASE("steady time does not go back when its source does");
    before = sl_loop_mono(rig.loop);
    source -= SL_S / 2;
    CHECK_EQ(sl_loop_mono(rig.loop), before);
    rig_close(&rig);

    CASE("a virtual clock stands, and steady time goes on");
    sl_clock_init_virtual(&clock, 7 * SL_S);
    rig_open(&rig, &clock);
    t.rig = &rig;
    before = sl_loop_mono(rig.loop);
    CHECK_EQ(sl_loop_post(rig.loop, on_time_a, &t), 0);
    tick(&rig);
    CHECK_EQ(t.now[0], 7 * SL_S);
    CHECK(sl_loop_mono(rig.loop) > before);
    sl_clock_set(&clock, 9 * SL_S);
    CHECK_EQ(sl_loop_now(rig.loop), 9 * SL_S);
    rig_close(&rig);
}

static void on_free_self(void *ctx)
{
    struct tally *t = ctx;

    put(t, 'f');
    sl_timer_free(t->timer);
}

static void on_again(void *ctx)
{
    struct tally *t = ctx;

    put(t, 'r');
    if (t->calls < 3)
        sl_timer_start(t->timer, 0);
}

TEST_WITH(timers, struct rig *rig)
{
    struct tally t = {.rig = rig};
    struct sl_timer *a, *b;
    sl_ns before = sl_loop_mono(rig->loop);

    CHECK_EQ(sl_timer_new(rig->loop, on_a, &t, &a), 0);
    CHECK_EQ(sl_timer_new(rig->loop, on_b, &t, &b), 0);
    CASE("timers go off in the order of their times, once");
    sl_timer_start(a, 40 * SL_MS);
    sl_timer_start(b, 20 * SL_MS);
    WAIT_FOR(rig, t.calls == 2);
    CHECK_STR(t.order, "ba");
    CHECK(sl_loop_mono(rig->loop) - before > 35 * SL_MS);
    tick(rig);
    CHECK_EQ(t.calls, 2);

    CASE("one that is stopped does not, and one that is started twice moves");
    t = (struct tally){.rig = rig};
    sl_timer_start(a, 5 * SL_MS);
    sl_timer_start(b, 5 * SL_MS);
    sl_timer_start(b, 25 * SL_MS);
    sl_timer_stop(a);
    before = sl_loop_mono(rig->loop);
    WAIT_FOR(rig, t.calls == 1);
    CHECK_STR(t.order, "b");
    CHECK(sl_loop_mono(rig->loop) - before > 20 * SL_MS);

    CASE("a time that has passed is now");
    sl_timer_start(a, -5);
    WAIT_FOR(rig, t.calls == 2);
    sl_timer_free(a);
    sl_timer_free(b);
    sl_timer_free(NULL);

    CASE("a timer may start itself again, and free itself");
    t = (struct tally){.rig = rig};
    CHECK_EQ(sl_timer_new(rig->loop, on_again, &t, &t.timer), 0);
    sl_timer_start(t.timer, 0);
    WAIT_FOR(rig, t.calls == 3);
    sl_timer_free(t.timer);
    CHECK_EQ(sl_timer_new(rig->loop, on_free_self, &t, &t.timer), 0);
    sl_timer_start(t.timer, 0);
    WAIT_FOR(rig, t.calls == 4);
}

int main(void)
{
    struct rig rig;
    struct tally t = {.rig = &rig};

    alarm(300);
    rig_open(&rig, NULL);
    RUN_TESTS_WITH(&rig);
    CASE("what is posted to a loop that closes is forgotten");
    CHECK_EQ(sl_loop_post(rig.loop, on_a, &t), 0);
    rig_close(&rig);
    sl_loop_close(NULL);
    CHECK_EQ(t.calls, 0);
    test_time();
    return CHECK_DONE();
}
