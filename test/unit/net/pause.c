/* pause.c -- owners who stop listening for a while: until they go on, or until
 * the others had their turn. */
#include "guest.h"

static void test_pause(struct rig *rig)
{
    struct guest g = {.echo = true, .take = 1, .pause = true};

    CASE("while paused nothing is shown; afterwards what is left");
    guest_open(&g, rig, NULL);
    say(g.client, "abc");
    WAIT_FOR(rig, g.inputs == 1);
    CHECK_STR(hear(g.client), "a");
    say(g.client, "d");
    for (unsigned i = 0; i < 3; i++)
        turn(rig);
    CHECK_EQ(g.inputs, 1);
    sl_conn_pause(g.conn, false);
    CHECK_EQ(g.inputs, 1); /* not from here */
    WAIT_FOR(rig, g.inputs == 2);
    sl_conn_pause(g.conn, false);
    g.pause = false;
    g.take = 0;
    WAIT_FOR(rig, g.got_len == 4);
    CHECK_STR(g.got, "abcd");
    say(g.client, "e");
    WAIT_FOR(rig, g.got_len == 5);

    CASE("pausing and going on in one callback shows the rest, later");
    g.pause_shortly = true;
    g.take = 1;
    g.inputs = 0;
    say(g.client, "fgh");
    WAIT_FOR(rig, g.got_len == 8);
    CHECK_EQ(g.inputs, 3);
    CHECK_STR(g.got, "abcdefgh");
    turn(rig);
    CHECK_EQ(g.inputs, 3);
    guest_leave(&g);

    CASE("finish while paused");
    g = (struct guest){.echo = true, .pause = true, .finish = true};
    guest_open(&g, rig, NULL);
    say(g.client, "x");
    WAIT_FOR(rig, g.inputs == 1);
    CHECK_STR(hear(g.client), "x");
    CHECK_STR(hear(g.client), "-");
    guest_leave(&g);
}

static void test_yield(struct rig *rig)
{
    struct guest greedy = {.echo = true, .take = 1, .yield = true};
    struct guest other = {.echo = true};
    unsigned turns;

    CASE("who yields goes on when all others had their turn");
    guest_open(&greedy, rig, NULL);
    guest_open(&other, rig, NULL);
    say(greedy.client, "abc");
    WAIT_FOR(rig, greedy.inputs == 1);
    CHECK_STR(hear(greedy.client), "a");
    say(other.client, "x");
    WAIT_FOR(rig, other.inputs == 1);
    CHECK(greedy.inputs <= 2);
    for (turns = 0; greedy.got_len < 3 && turns < 20; turns++)
        turn(rig);
    CHECK(turns >= 1);
    CHECK_EQ(greedy.inputs, 3);
    CHECK_STR(greedy.got, "abc");

    CASE("the peer may go meanwhile");
    say(greedy.client, "de");
    WAIT_FOR(rig, greedy.inputs == 4);
    sl_conn_abort(greedy.conn);
    WAIT_FOR(rig, greedy.closes == 1);
    for (unsigned i = 0; i < 3; i++)
        turn(rig);
    CHECK_EQ(greedy.inputs, 4);
    close(greedy.client);
    guest_leave(&other);
}

int main(void)
{
    struct rig rig;

    rig_open(&rig, NULL);
    test_pause(&rig);
    test_yield(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
