/* cost.c -- what a request costs: one recv(), one send(), and nothing else.
 *
 * The program has its own recv(), send() and epoll_ctl(), which count; the
 * linker prefers them to those of libc. An allocator that counts shows that
 * there is no allocation per request and no memory per idle connection.
 */
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "fail.h"
#include "guest.h"

static unsigned recvs, sends, ctls, waits;

ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    recvs++;
    return syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    sends++;
    return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    ctls++;
    return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

int epoll_wait(int epfd, struct epoll_event *events, int most, int timeout)
{
    waits++;
    return (int)syscall(SYS_epoll_wait, epfd, events, most, timeout);
}

static void reset(void)
{
    recvs = sends = ctls = waits = 0;
}

/* The client's calls are ours too: they go around the counters. */
static void ask(struct guest *g, unsigned want)
{
    char text[64];

    CHECK_EQ(write(g->client, "GET / HTTP/1.1", 14), 14);
    WAIT_FOR(g->rig, g->inputs == want);
    CHECK_EQ(read(g->client, text, sizeof(text)), 14);
}

TEST_WITH(calls, struct rig *rig)
{
    struct guest g = {.echo = true};
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_conn_options options = guest_options(&g);
    struct sl_conns *own;
    struct rig mine = *rig;
    unsigned calls;

    CHECK_EQ(sl_conns_open(rig->loop, 10, &own), 0);
    mine.conns = own;
    options.alloc = &alloc;
    guest_open(&g, &mine, &options);
    ask(&g, 1); /* the first ones bring the memory */
    ask(&g, 2);
    calls = f.calls;

    CASE("a request is one recv() and one send()");
    reset();
    for (unsigned i = 0; i < 100; i++) {
        sl_conn_deadline(g.conn, SL_MIN);
        ask(&g, i + 3);
    }
    CHECK_EQ(recvs, 100);
    CHECK_EQ(sends, 100);
    CASE("nothing is added to or taken from epoll for it");
    CHECK_EQ(ctls, 0);
    CASE("nothing is allocated for it");
    CHECK_EQ(f.calls, calls);

    CASE("nor for one whose answer takes a while");
    g.pause = true;
    g.echo = false;
    reset();
    for (unsigned i = 0; i < 100; i++) {
        char text[64];

        CHECK_EQ(write(g.client, "GET", 3), 3);
        WAIT_FOR(rig, g.inputs == i + 103);
        CHECK_EQ(sl_buf_add(&g.conn->out, SL_STR("answer")), 0);
        sl_conn_flush(g.conn);
        sl_conn_pause(g.conn, false);
        CHECK_EQ(read(g.client, text, sizeof(text)), 6);
    }
    CHECK_EQ(recvs, 100);
    CHECK_EQ(sends, 100);
    CHECK_EQ(ctls, 0);
    CHECK_EQ(f.calls, calls);
    guest_leave(&g);
    sl_conns_close(own);
    fail_check(&f);
}

/* How often the loop wakes up in some milliseconds in which nothing can be
 * done; the timer that ends it included. */
static unsigned wake_ups(struct rig *rig)
{
    turn(rig); /* whatever can be done */
    turn(rig);
    reset();
    sl_timer_start(rig->tick, 30 * SL_MS);
    sl_loop_run(rig->loop);
    return waits;
}

TEST_WITH(spinning, struct rig *rig)
{
    struct guest g = {.pause = true};
    struct sl_conn_options options = guest_options(&g);

    CASE("the counter counts");
    guest_open(&g, rig, NULL);
    CHECK(wake_ups(rig) > 0);

    CASE("the loop rests while a paused connection has more input");
    CHECK_EQ(write(g.client, "one", 3), 3);
    WAIT_FOR(rig, g.inputs == 1);
    CHECK_EQ(write(g.client, "two", 3), 3);
    CHECK(wake_ups(rig) < 20);
    g.pause = false;
    sl_conn_pause(g.conn, false);
    WAIT_FOR(rig, g.inputs == 2);
    guest_leave(&g);

    CASE("and while a peer that has ended does not read");
    g = (struct guest){.answer = 900000};
    options.out_high = options.out_most; /* or nothing would be read anyway */
    guest_open(&g, rig, &options);
    CHECK_EQ(write(g.client, "q", 1), 1);
    shutdown(g.client, SHUT_WR);
    WAIT_FOR(rig, g.ends == 1);
    CHECK(g.conn->out.len > 0);
    CHECK(wake_ups(rig) < 20);
    CASE("nor is sending tried again before there is room");
    CHECK_EQ(sends, 0);
    CHECK_EQ(g.closes, 0);
    guest_leave(&g);

    CASE("a socket that took a part of the answer is not asked again at once");
    g = (struct guest){.answer = 900000};
    guest_open(&g, rig, NULL);
    CHECK_EQ(write(g.client, "q", 1), 1);
    reset();
    WAIT_FOR(rig, g.inputs == 1);
    CHECK_EQ(sends, 1);
    CHECK(g.conn->out.len > 0);
    guest_leave(&g);
}

TEST_WITH(idle, struct rig *rig)
{
    static struct guest guests[500];
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    struct sl_conns *own;
    struct rig mine = *rig;
    size_t each;

    CASE("an idle connection has no buffers");
    CHECK_EQ(sl_conns_open(rig->loop, 500, &own), 0);
    mine.conns = own;
    for (unsigned i = 0; i < 500; i++) {
        struct sl_conn_options options = guest_options(&guests[i]);

        options.alloc = &alloc;
        guests[i].echo = true;
        guest_open(&guests[i], &mine, &options);
    }
    each = f.bytes / 500;
    CHECK(each < 1024);
    for (unsigned i = 0; i < 500; i++)
        ask(&guests[i], 1);
    CHECK(f.bytes - 500 * each < 200000);
    CHECK(guests[7].conn->in.bytes == NULL);
    for (unsigned i = 0; i < 500; i++)
        close(guests[i].client);
    WAIT_FOR(rig, sl_conns_count(own) == 0);
    sl_conns_close(own);
    fail_check(&f);
}

int main(void)
{
    struct rig rig;

    rig_open(&rig, NULL);
    CASE("the counters count");
    reset();
    {
        struct guest g = {.echo = true};

        guest_open(&g, &rig, NULL);
        CHECK_EQ(ctls, 1);
        ask(&g, 1);
        CHECK_EQ(recvs, 1);
        CHECK_EQ(sends, 1);
        guest_leave(&g);
        CHECK_EQ(ctls, 2);
    }
    RUN_TESTS_WITH(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
