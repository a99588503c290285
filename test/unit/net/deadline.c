/* deadline.c -- deadlines, on a clock that is moved by hand. The sweep itself
 * runs four times a second of real time, so each case waits for that.
 */
#include "guest.h"

static sl_ns by_hand;

static sl_ns read_hand(void *ctx)
{
    (void)ctx;
    return by_hand;
}

/* Let at least one sweep pass. */
static void sweep(struct rig *rig)
{
    struct sl_clock real;
    sl_ns until;

    sl_clock_init_real(&real);
    until = sl_clock_now(&real) + 300 * SL_MS;
    while (sl_clock_now(&real) < until)
        tick(rig);
}

TEST_WITH(open, struct rig *rig)
{
    struct guest never = {0}, silent = {0}, moved = {0}, off = {0};
    struct guest polite = {.at_deadline = "408"}, pings = {.again = 10 * SL_S};
    struct guest *all[] = {&never, &silent, &moved, &off, &polite, &pings};

    for (unsigned i = 0; i < SL_LEN(all); i++)
        guest_open(all[i], rig, NULL);
    for (unsigned i = 1; i < SL_LEN(all); i++)
        sl_conn_deadline(all[i]->conn, 10 * SL_S);
    by_hand += 10 * SL_S - 1;
    CASE("not a nanosecond early");
    sweep(rig);
    for (unsigned i = 0; i < SL_LEN(all); i++)
        CHECK_EQ(all[i]->deadlines, 0);

    sl_conn_deadline(moved.conn, 10 * SL_S);
    sl_conn_deadline(off.conn, 0);
    by_hand++;
    sweep(rig);
    CASE("an owner who does nothing about it is left");
    CHECK_EQ(silent.deadlines, 1);
    CHECK_EQ(silent.closes, 1);
    CASE("one who has a last word may say it");
    CHECK_EQ(polite.deadlines, 1);
    CHECK_STR(hear(polite.client), "408");
    CHECK_STR(hear(polite.client), "-");
    close(polite.client);
    WAIT_FOR(rig, polite.closes == 1);
    CASE("one who sets another goes on");
    CHECK_EQ(pings.deadlines, 1);
    CHECK_EQ(pings.closes, 0);
    CASE("one that was moved, taken back or never set is not due");
    CHECK_EQ(moved.deadlines + off.deadlines + never.deadlines, 0);

    CASE("each in its time");
    by_hand += 10 * SL_S;
    pings.again = 0;
    sweep(rig);
    CHECK_EQ(moved.closes, 1);
    CHECK_EQ(pings.deadlines, 2);
    CHECK_EQ(pings.closes, 1);
    CHECK_EQ(off.closes + never.closes, 0);
    close(silent.client);
    close(moved.client);
    close(pings.client);
    guest_leave(&off);
    guest_leave(&never);
}

TEST_WITH(closing, struct rig *rig)
{
    struct guest deaf = {.answer = 900000, .finish = true};
    struct guest stays = {.echo = true, .finish = true};

    CASE("a peer that does not read its last answer has five seconds");
    guest_open(&deaf, rig, NULL);
    say(deaf.client, "q");
    WAIT_FOR(rig, deaf.inputs == 1);
    sl_conn_deadline(deaf.conn, 1000 * SL_S); /* too late for that */
    by_hand += 5 * SL_S - 1;
    sweep(rig);
    CHECK_EQ(deaf.closes, 0);
    by_hand++;
    sweep(rig);
    CHECK_EQ(deaf.closes, 1);
    CHECK_EQ(deaf.deadlines, 0);
    close(deaf.client);

    CASE("or less, if that is what was left");
    deaf = (struct guest){.answer = 900000, .finish = true};
    guest_open(&deaf, rig, NULL);
    sl_conn_deadline(deaf.conn, SL_S);
    say(deaf.client, "q");
    WAIT_FOR(rig, deaf.inputs == 1);
    by_hand += SL_S;
    sweep(rig);
    CHECK_EQ(deaf.closes, 1);
    close(deaf.client);

    CASE("one that does not go has two");
    guest_open(&stays, rig, NULL);
    say(stays.client, "q");
    WAIT_FOR(rig, stays.inputs == 1);
    CHECK_STR(hear(stays.client), "q");
    say(stays.client, "I stay");
    by_hand += 2 * SL_S - 1;
    sweep(rig);
    CHECK_EQ(stays.closes, 0);
    by_hand++;
    sweep(rig);
    CHECK_EQ(stays.closes, 1);
    close(stays.client);
}

/* Read until there is nothing left. */
static void swallow(int fd)
{
    char bytes[65536];

    while (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

TEST_WITH(deaf, struct rig *rig)
{
    struct guest deaf = {.answer = 900000}, slow = {.answer = 900000};

    CASE("a peer that reads nothing is closed after ten seconds");
    guest_open(&deaf, rig, NULL);
    guest_open(&slow, rig, NULL);
    say(deaf.client, "q");
    say(slow.client, "q");
    WAIT_FOR(rig, deaf.inputs == 1 && slow.inputs == 1);
    sl_conn_deadline(deaf.conn, 1000 * SL_S);
    by_hand += 10 * SL_S - 1;
    swallow(slow.client);
    sweep(rig);
    CHECK_EQ(deaf.closes + slow.closes, 0);
    by_hand++;
    sweep(rig);
    CHECK_EQ(deaf.closes, 1);
    CHECK_EQ(deaf.deadlines, 0);
    close(deaf.client);

    CASE("who takes some has as much time again");
    CHECK_EQ(slow.closes, 0);
    by_hand += 10 * SL_S;
    sweep(rig);
    CHECK_EQ(slow.closes, 1);
    close(slow.client);

    CASE("who has taken all may stay");
    slow = (struct guest){.answer = 900000};
    guest_open(&slow, rig, NULL);
    say(slow.client, "q");
    WAIT_FOR(rig, slow.inputs == 1);
    for (unsigned i = 0; i < 100 && slow.conn->out.len > 0; i++) {
        swallow(slow.client);
        tick(rig);
    }
    by_hand += 100 * SL_S;
    sweep(rig);
    CHECK_EQ(slow.closes, 0);
    guest_leave(&slow);
}

TEST_WITH(many, struct rig *rig)
{
    static struct guest guests[100];
    unsigned closed = 0;

    CASE("those who are due go, and no others, whatever their order");
    for (unsigned i = 0; i < 100; i++) {
        guest_open(&guests[i], rig, NULL);
        sl_conn_deadline(guests[i].conn, (i * 37 % 100 + 1) * SL_S);
    }
    by_hand += 50 * SL_S;
    sweep(rig);
    for (unsigned i = 0; i < 100; i++) {
        CHECK_EQ(guests[i].closes, i * 37 % 100 < 50);
        closed += guests[i].closes;
    }
    CHECK_EQ(closed, 50);
    CHECK_EQ(sl_conns_count(rig->conns), 50);
    by_hand += 50 * SL_S;
    sweep(rig);
    CHECK_EQ(sl_conns_count(rig->conns), 0);
    for (unsigned i = 0; i < 100; i++)
        close(guests[i].client);

    CASE("an owner who has a last word and forgets to finish");
    {
        struct guest g = {.at_deadline = "408", .unfinished = true};

        guest_open(&g, rig, NULL);
        sl_conn_deadline(g.conn, 1);
        by_hand++;
        sweep(rig);
        CHECK_STR(hear(g.client), "408");
        CHECK_STR(hear(g.client), "-");
        guest_leave(&g);
    }

    CASE("an owner without a callback for it is left, too");
    {
        struct sl_conn_calls calls = {.on_input = guest_input};
        struct guest g = {0};
        struct sl_conn_options options = guest_options(&g);

        options.calls = &calls;
        guest_open(&g, rig, &options);
        sl_conn_deadline(g.conn, SL_NS_MAX);
        by_hand += 1000 * SL_DAY;
        sweep(rig);
        CHECK_EQ(sl_conns_count(rig->conns), 1);
        sl_conn_deadline(g.conn, 1);
        by_hand++;
        sweep(rig);
        CHECK_EQ(sl_conns_count(rig->conns), 0);
        close(g.client);
    }
}

int main(void)
{
    struct rig rig;
    struct sl_clock clock;

    alarm(300);
    by_hand = 1000 * SL_S;
    sl_clock_init_sources(&clock, read_hand, read_hand, NULL);
    rig_open(&rig, &clock);
    RUN_TESTS_WITH(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
