/* conn.c -- connections: input, output, ends, deadlines, ceilings. */
#include "net/conn.h"

#include <netinet/in.h>

#include "guest.h"

TEST_WITH(echo, struct rig *rig)
{
    struct guest g = {.echo = true};

    guest_open(&g, rig, NULL);
    CASE("what comes in is shown, and what is appended goes out");
    CHECK(g.conn->is_unix && g.conn->is_local && !g.conn->has_ip);
    CHECK(g.conn->loop == rig->loop);
    CHECK_EQ(sl_conns_count(rig->conns), 1);
    say(g.client, "one");
    WAIT_FOR(rig, g.inputs == 1);
    CHECK_STR(hear(g.client), "one");
    say(g.client, "two");
    WAIT_FOR(rig, g.inputs == 2);
    CHECK_STR(hear(g.client), "two");
    CHECK_STR(g.got, "onetwo");

    CASE("nothing happens while nothing comes");
    turn(rig);
    CHECK_EQ(g.inputs, 2);

    CASE("input that is left is shown again with what comes next");
    g.leave = true;
    say(g.client, "th");
    WAIT_FOR(rig, g.inputs == 3);
    turn(rig);
    CHECK_EQ(g.inputs, 3);
    g.leave = false;
    say(g.client, "ree");
    WAIT_FOR(rig, g.inputs == 4);
    CHECK_EQ(g.in_len, 5);
    CHECK_STR(hear(g.client), "three");

    CASE("a peer that goes away ends it, once");
    guest_leave(&g);
    CHECK_EQ(g.ends, 1);
    CHECK_EQ(sl_conns_count(rig->conns), 0);
}

TEST_WITH(peer, struct rig *rig)
{
    struct guest g = {0};
    struct sl_conn_options options = guest_options(&g);
    struct sl_address peer;
    int fds[2];

    CASE("the peer's address comes with it");
    pair(fds);
    g.rig = rig;
    g.client = fds[1];
    CHECK_EQ(sl_address_parse(SL_STR("192.0.2.7:99"), &peer, NULL), 0);
    CHECK_EQ(sl_conn_open(rig->conns, fds[0], &peer, &options, &g.conn), 0);
    CHECK(!g.conn->is_unix && !g.conn->is_local && g.conn->has_ip);
    CHECK(sl_ip_is_v4(&g.conn->ip));
    CHECK_EQ(g.conn->ip.bytes[15], 7);
    guest_leave(&g);
}

TEST_WITH(half_close, struct rig *rig)
{
    struct guest g = {.leave = true, .at_end = "late answer"};

    CASE("a peer that has ended its side still gets its answer");
    guest_open(&g, rig, NULL);
    say(g.client, "question");
    shutdown(g.client, SHUT_WR);
    WAIT_FOR(rig, g.closes == 1);
    CHECK_EQ(g.inputs, 1);
    CHECK_EQ(g.ends, 1);
    CHECK_STR(hear(g.client), "late answer");
    CHECK_STR(hear(g.client), "-");
    close(g.client);

    CASE("also if it takes a while");
    g = (struct guest){.pause = true};
    guest_open(&g, rig, NULL);
    say(g.client, "question");
    shutdown(g.client, SHUT_WR);
    for (unsigned i = 0; i < 5; i++)
        tick(rig);
    CHECK_EQ(g.inputs, 1);
    CHECK_EQ(g.closes, 0);
    CHECK_EQ(sl_buf_add(&g.conn->out, SL_STR("at last")), 0);
    sl_conn_flush(g.conn);
    CHECK_STR(hear(g.client), "at last");
    sl_conn_pause(g.conn, false);
    WAIT_FOR(rig, g.closes == 1);
    CHECK_EQ(g.ends, 1);
    CHECK_STR(hear(g.client), "-");
    close(g.client);
}

TEST_WITH(late_answer, struct rig *rig)
{
    struct guest g;

    CASE("an owner may begin to think when the peer has ended");
    g = (struct guest){.leave = true, .pause_at_end = true};
    guest_open(&g, rig, NULL);
    say(g.client, "question");
    shutdown(g.client, SHUT_WR);
    WAIT_FOR(rig, g.ends == 1);
    for (unsigned i = 0; i < 5; i++)
        turn(rig);
    CHECK_EQ(g.closes, 0);
    CHECK_EQ(sl_buf_add(&g.conn->out, SL_STR("well then")), 0);
    sl_conn_flush(g.conn);
    CHECK_STR(hear(g.client), "well then");
    sl_conn_pause(g.conn, false);
    WAIT_FOR(rig, g.closes == 1);
    CHECK_EQ(g.ends, 1);
    close(g.client);

    CASE("an owner who waits when the peer ends may answer afterwards");
    g = (struct guest){.leave = true};
    guest_open(&g, rig, NULL);
    say(g.client, "q");
    WAIT_FOR(rig, g.inputs == 1);
    shutdown(g.client, SHUT_WR);
    sl_conn_pause(g.conn, true);
    for (unsigned i = 0; i < 5; i++)
        tick(rig);
    CHECK_EQ(g.closes, 0);
    CHECK_EQ(sl_buf_add(&g.conn->out, SL_STR("a")), 0);
    sl_conn_pause(g.conn, false);
    sl_conn_flush(g.conn);
    CHECK_STR(hear(g.client), "a");
    WAIT_FOR(rig, g.closes == 1);
    close(g.client);
}

TEST_WITH(finish, struct rig *rig)
{
    struct guest g = {.echo = true, .finish = true};

    CASE("finish: all is sent, our side ends, the rest when the peer ends");
    guest_open(&g, rig, NULL);
    say(g.client, "bye");
    WAIT_FOR(rig, g.inputs == 1);
    CHECK_STR(hear(g.client), "bye");
    CHECK_STR(hear(g.client), "-");
    CHECK_EQ(g.closes, 0);
    say(g.client, "are you there?");
    for (unsigned i = 0; i < 3; i++)
        turn(rig);
    CHECK_EQ(g.inputs, 1);
    CHECK_EQ(g.closes, 0);
    shutdown(g.client, SHUT_WR);
    WAIT_FOR(rig, g.closes == 1);
    CHECK_EQ(g.ends, 0);
    close(g.client);

    CASE("from outside of a callback nothing is freed at once");
    g = (struct guest){.rig = rig};
    guest_open(&g, rig, NULL);
    close(g.client);
    CHECK_EQ(sl_buf_add(&g.conn->out, SL_STR("to no one")), 0);
    sl_conn_flush(g.conn);
    CHECK(g.conn != NULL);
    sl_conn_finish(g.conn);
    sl_conn_pause(g.conn, true);
    sl_conn_pause(g.conn, false);
    sl_conn_deadline(g.conn, SL_S);
    CHECK_EQ(g.closes, 0);
    WAIT_FOR(rig, g.closes == 1);

    CASE("abort closes without sending, in a callback and outside");
    g = (struct guest){.echo = true, .abort = true};
    guest_open(&g, rig, NULL);
    say(g.client, "x");
    WAIT_FOR(rig, g.closes == 1);
    CHECK(strchr("-!", *hear(g.client)));
    close(g.client);
    g = (struct guest){.rig = rig};
    guest_open(&g, rig, NULL);
    sl_conn_abort(g.conn);
    sl_conn_abort(g.conn);
    CHECK_EQ(g.closes, 0);
    WAIT_FOR(rig, g.closes == 1);
    close(g.client);
}

/* A refusal must not be lost because the client still sends. */
TEST_WITH(refusal, struct rig *rig)
{
    struct guest g = {.answer = 1, .take = 9, .finish = true};
    struct sl_address any;
    struct sl_sockets s;
    struct sl_conn_options options = guest_options(&g);
    char body[60000];
    int fd;

    CASE("the peer reads the answer though its input is not read");
    memset(body, 'b', sizeof(body));
    CHECK_EQ(sl_address_parse(SL_STR("127.0.0.1:0"), &any, NULL), 0);
    CHECK_EQ(sl_sockets_open(&any, 1, &s, NULL), 0);
    g.rig = rig;
    g.client = dial(&s);
    while ((fd = accept4(s.fds[0], NULL, NULL, SOCK_NONBLOCK)) < 0)
        ;
    CHECK_EQ(send(g.client, body, sizeof(body), 0), sizeof(body));
    CHECK_EQ(sl_conn_open(rig->conns, fd, &s.address, &options, &g.conn), 0);
    CHECK(g.conn->is_local && !g.conn->is_unix && g.conn->has_ip);
    WAIT_FOR(rig, g.inputs == 1);
    for (unsigned i = 0; i < 20; i++)
        if (send(g.client, body, sizeof(body), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            turn(rig);
    CHECK_STR(hear(g.client), "xxxxxxxxx");
    CHECK_STR(hear(g.client), "-");
    guest_leave(&g);
    sl_sockets_close(&s);
}

TEST_WITH(flush, struct rig *rig)
{
    struct guest g = {.echo = true, .flush = true};

    CASE("flush in a callback sends at once, and only once");
    guest_open(&g, rig, NULL);
    say(g.client, "now");
    WAIT_FOR(rig, g.inputs == 1);
    CHECK_STR(hear(g.client), "now");
    CHECK_STR(hear(g.client), "");

    CASE("an owner may speak without being asked");
    CHECK_EQ(sl_buf_add(&g.conn->out, SL_STR("event")), 0);
    sl_conn_flush(g.conn);
    CHECK_STR(hear(g.client), "event");
    CHECK_EQ(g.conn->out.len, 0);

    CASE("flushing to a peer that has gone");
    close(g.client);
    CHECK_EQ(sl_buf_add(&g.conn->out, SL_STR("event")), 0);
    sl_conn_flush(g.conn);
    CHECK_EQ(g.closes, 0);
    WAIT_FOR(rig, g.closes == 1);
}

/* Read all that the client has, letting the loop turn. */
static size_t hear_all(struct guest *g, size_t want)
{
    size_t all = 0;

    for (unsigned i = 0; i < 10000 && all < want; i++) {
        const char *text = hear(g->client);

        all += strlen(text);
        if (!*text)
            step(g->rig, i);
    }
    return all;
}

TEST_WITH(slow_reader, struct rig *rig)
{
    struct guest g = {.answer = 1000, .take = 100};
    struct sl_conn_options options = guest_options(&g);
    char many[2000];
    unsigned inputs;

    CASE("a peer that does not read is not served more");
    memset(many, 'q', sizeof(many));
    guest_open(&g, rig, &options);
    CHECK_EQ(send(g.client, many, sizeof(many), 0), sizeof(many));
    for (unsigned i = 0; i < 30; i++)
        turn(rig);
    inputs = g.inputs;
    CHECK(sl_conn_is_full(g.conn));
    CHECK(inputs >= 1 && inputs < 20);
    CHECK(g.conn->out.len <= 100000);
    CHECK_EQ(send(g.client, "more", 4, 0), 4);
    turn(rig);
    CHECK_EQ(g.inputs, inputs);

    CASE("when it reads it gets everything, without having to ask again");
    CHECK_EQ(hear_all(&g, 2004000), 2004000);
    CHECK_EQ(g.got_len, 2004);
    CHECK(!sl_conn_is_full(g.conn));
    CHECK_STR(hear(g.client), "");
    guest_leave(&g);

    CASE("one that ends and reads late still gets all of it");
    g = (struct guest){.answer = 400000};
    guest_open(&g, rig, NULL);
    say(g.client, "q");
    shutdown(g.client, SHUT_WR);
    for (unsigned i = 0; i < 10; i++)
        turn(rig);
    CHECK_EQ(g.closes, 0);
    CHECK_EQ(hear_all(&g, 400000), 400000);
    WAIT_FOR(rig, g.closes == 1);
    CHECK_STR(hear(g.client), "-");
    close(g.client);
}

TEST_WITH(ceilings, struct rig *rig)
{
    struct guest g = {.leave = true};
    struct sl_conn_options options = guest_options(&g);
    char many[300];

    CASE("input has a ceiling; an owner who takes nothing of it is left");
    memset(many, 'q', sizeof(many));
    options.in_most = 200;
    guest_open(&g, rig, &options);
    CHECK_EQ(send(g.client, many, 199, 0), 199);
    WAIT_FOR(rig, g.inputs == 1);
    turn(rig);
    CHECK_EQ(g.closes, 0);
    CHECK_EQ(send(g.client, many, 300, 0), 300);
    WAIT_FOR(rig, g.closes == 1);
    CHECK_EQ(g.in_len, 200);
    close(g.client);

    CASE("but not while the owner just waits");
    g = (struct guest){.leave = true, .pause = true};
    options.owner = &g;
    guest_open(&g, rig, &options);
    CHECK_EQ(send(g.client, many, 300, 0), 300);
    WAIT_FOR(rig, g.inputs == 1);
    for (unsigned i = 0; i < 3; i++)
        turn(rig);
    CHECK_EQ(g.closes, 0);
    g.leave = g.pause = false;
    g.echo = true;
    sl_conn_pause(g.conn, false);
    WAIT_FOR(rig, g.got_len == 300);
    guest_leave(&g);

    CASE("output has one too, and the owner is told");
    g = (struct guest){.leave = true};
    options = guest_options(&g);
    options.out_most = 100;
    guest_open(&g, rig, &options);
    CHECK_EQ(sl_buf_add(&g.conn->out, (struct sl_str){many, 101}),
             SLUICE_EFULL);
    sl_conn_abort(g.conn);
    WAIT_FOR(rig, g.closes == 1);
    close(g.client);
}

/* Both are ready in the same turn, and the first to be served ends the other,
 * whose own event follows. */
TEST_WITH(victims, struct rig *rig)
{
    struct guest a = {.echo = true}, b = {.echo = true};

    CASE("a connection that another one's owner has ended is not served");
    guest_open(&a, rig, NULL);
    guest_open(&b, rig, NULL);
    a.victim = &b;
    b.victim = &a;
    say(a.client, "a");
    say(b.client, "b");
    turn(rig);
    turn(rig);
    CHECK_EQ(a.inputs + b.inputs, 1);
    CHECK_EQ(a.closes + b.closes, 1);
    a.victim = b.victim = NULL;
    close(a.client);
    close(b.client);
    WAIT_FOR(rig, a.closes + b.closes == 2);
}

static void finish_each(struct sl_conn *conn, void *ctx)
{
    ++*(unsigned *)ctx;
    sl_conn_finish(conn);
}

TEST_WITH(set, struct rig *rig)
{
    struct guest guests[5] = {{0}}, late = {0};
    struct sl_conns *few;
    struct rig small = *rig;
    struct sl_conn_options options = guest_options(&late);
    unsigned each = 0;
    int fds[2];

    CASE("there are so many and no more; who comes late is sent away");
    CHECK_EQ(sl_conns_open(rig->loop, 5, &few), 0);
    small.conns = few;
    for (unsigned i = 0; i < 5; i++)
        guest_open(&guests[i], &small, NULL);
    CHECK_EQ(sl_conns_count(few), 5);
    pair(fds);
    CHECK_EQ(sl_conn_open(few, fds[0], NULL, &options, &late.conn),
             SLUICE_EFULL);
    CHECK_STR(hear(fds[1]), "-");
    close(fds[1]);

    CASE("one goes, another may come");
    guest_leave(&guests[1]);
    CHECK_EQ(sl_conns_count(few), 4);
    guests[1] = (struct guest){0};
    guest_open(&guests[1], &small, NULL);

    CASE("each is seen once, and may be finished there");
    sl_conns_each(few, finish_each, &each);
    CHECK_EQ(each, 5);
    CHECK_EQ(sl_conns_count(few), 5);
    turn(rig);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_STR(hear(guests[i].client), "-");
        guest_leave(&guests[i]);
    }

    CASE("closing the set closes all that are left, and tells them");
    sl_conns_close(few);
    sl_conns_close(NULL);
    for (unsigned i = 0; i < 5; i++) {
        CHECK_EQ(guests[i].closes, 1);
        if (i >= 3)
            close(guests[i].client);
    }
}

/* Three that do not close: one with its own linger, one that lingers when it
 * is shortened, and one that is finished afterwards. */
TEST_WITH(hurry, struct rig *rig)
{
    struct guest slow = {0}, before = {0}, after = {0};
    struct rig ending = *rig;

    CASE("at the end a peer that stays is not waited for so long");
    CHECK_EQ(sl_conns_open(rig->loop, 5, &ending.conns), 0);
    guest_open(&slow, rig, NULL);
    guest_open(&before, &ending, NULL);
    guest_open(&after, &ending, NULL);
    sl_conn_finish(slow.conn);
    sl_conn_finish(before.conn);
    turn(rig);
    CHECK_STR(hear(before.client), "-");
    sl_conns_shorten_linger(ending.conns);
    sl_conn_finish(after.conn);
    WAIT_FOR(rig, before.closes == 1 && after.closes == 1);
    CHECK_STR(hear(after.client), "-");
    CHECK_EQ(slow.closes, 0);
    sl_conns_close(ending.conns);
    close(before.client);
    close(after.client);
    guest_leave(&slow);
}

int main(void)
{
    struct rig rig;

    alarm(300);
    rig_open(&rig, NULL);
    RUN_TESTS_WITH(&rig);
    CASE("no connection is left");
    CHECK_EQ(sl_conns_count(rig.conns), 0);
    rig_close(&rig);
    return CHECK_DONE();
}
