/* listener.c -- taking connections, also when there is no room for them. */
#include "net/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include "turns.h"

#define MANY 200

struct guests {
    struct rig *rig;
    _Atomic uint64_t paused;
    struct sl_listener *listener;
    int fds[MANY];
    unsigned count;
    struct sl_address last;
    unsigned close_at; /* close the listener at this guest; 0: never */
};

static void on_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct guests *g = ctx;

    g->fds[g->count++] = fd;
    g->last = *peer;
    if (g->count == g->close_at) {
        sl_listener_close(g->listener);
        g->listener = NULL;
    }
}

static void send_home(struct guests *g)
{
    while (g->count > 0)
        close(g->fds[--g->count]);
}

static void open_sockets(const char *text, unsigned loops, struct sl_sockets *s)
{
    struct sl_address a;
    struct sl_diag diag = {0};

    CHECK_EQ(sl_address_parse(sl_str_c(text), &a, &diag), 0);
    if (sl_sockets_open(&a, loops, s, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
}

static void listen_on(struct guests *g, const struct sl_sockets *s)
{
    CHECK_EQ(
        sl_listener_open(g->rig->loop, s->fds[0], on_accept, g, &g->listener),
        0);
    g->paused = 0;
    sl_listener_watch(g->listener, &g->paused);
}

TEST_WITH(accept, struct rig *rig)
{
    struct guests g = {.rig = rig};
    struct sl_sockets s;
    int clients[MANY], on = 0;
    socklen_t len = sizeof(on);
    struct sl_ip ip;

    open_sockets("127.0.0.1:0", 1, &s);
    listen_on(&g, &s);
    CASE("a connection comes with its peer, does not block, does not delay");
    clients[0] = dial(&s);
    WAIT_FOR(rig, g.count == 1);
    CHECK(sl_address_ip(&g.last, &ip));
    CHECK(sl_address_is_local(&g.last));
    CHECK(fcntl(g.fds[0], F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(g.fds[0], F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(getsockopt(g.fds[0], IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    CHECK(on);

    CASE("at one wake-up only so many are taken, in the end all");
    for (unsigned i = 1; i < MANY; i++)
        clients[i] = dial(&s);
    turn(rig);
    CHECK(g.count > 1 && g.count < MANY / 2);
    WAIT_FOR(rig, g.count == MANY);
    CHECK_EQ(g.paused, 0);

    CASE("a closed listener takes no more, and leaves the socket open");
    sl_listener_close(g.listener);
    sl_listener_close(NULL);
    send_home(&g);
    close(clients[0]);
    clients[0] = dial(&s);
    CHECK(clients[0] >= 0);
    turn(rig);
    CHECK_EQ(g.count, 0);

    CASE("it may be closed while it takes one");
    g.close_at = 1;
    listen_on(&g, &s);
    WAIT_FOR(rig, g.count == 1);
    CHECK(!g.listener);
    turn(rig);
    send_home(&g);
    for (unsigned i = 0; i < MANY; i++)
        close(clients[i]);
    sl_sockets_close(&s);
}

TEST_WITH(shared, struct rig *rig)
{
    struct guests a = {.rig = rig}, b = {.rig = rig};
    struct sl_sockets s;
    char path[64];
    int clients[40];
    struct sl_ip ip;

    CASE("a unix socket shared by two loops: each connection once");
    snprintf(path, sizeof(path), "unix:/tmp/sluice-listener-%d", (int)getpid());
    open_sockets(path, 2, &s);
    CHECK_EQ(sl_listener_open(rig->loop, s.fds[0], on_accept, &a, &a.listener),
             0);
    CHECK_EQ(sl_listener_open(rig->loop, s.fds[1], on_accept, &b, &b.listener),
             0);
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        clients[i] = dial(&s);
    WAIT_FOR(rig, a.count + b.count == SL_LEN(clients));
    CHECK(a.count > 0 && b.count > 0);
    CHECK(sl_address_is_unix(&a.last));
    CHECK(!sl_address_ip(&a.last, &ip));
    sl_listener_close(a.listener);
    sl_listener_close(b.listener);
    send_home(&a);
    send_home(&b);
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        close(clients[i]);
    sl_sockets_close(&s);
}

/* No descriptor above the `more` next ones. */
static void leave_descriptors(unsigned more, struct rlimit *was)
{
    struct rlimit limit;
    int fd = open("/dev/null", O_RDONLY);

    getrlimit(RLIMIT_NOFILE, was);
    limit = *was;
    limit.rlim_cur = (rlim_t)fd + more;
    close(fd);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_WITH(descriptors, struct rig *rig)
{
    struct guests g = {.rig = rig};
    struct sl_sockets s;
    struct rlimit was;
    int clients[10];
    unsigned ended = 0;
    sl_ns before;

    open_sockets("127.0.0.1:0", 1, &s);
    listen_on(&g, &s);
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    leave_descriptors(4, &was);

    CASE("out of descriptors: pause, and turn one away so that it knows");
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        if (connect(clients[i], (void *)&s.address.bytes, s.address.len))
            CHECK_EQ(errno, EINPROGRESS);
    WAIT_FOR(rig, g.paused == 1);
    CHECK_EQ(g.count, 4);
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        ended += strcmp(hear(clients[i]), "-") == 0;
    CHECK_EQ(ended, 1);

    CASE("it does not spin, but tries again more and more rarely");
    before = sl_loop_mono(rig->loop);
    while (sl_loop_mono(rig->loop) - before < 200 * SL_MS)
        tick(rig);
    CHECK(g.paused >= 2);
    CHECK(g.paused <= 6);
    CHECK_EQ(g.count, 4);

    CASE("when there are some again, those who waited are taken");
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    WAIT_FOR(rig, g.count + g.paused == 10);
    CHECK(g.count > 4);
    sl_listener_close(g.listener);

    CASE("a listener can be closed while it pauses");
    send_home(&g);
    listen_on(&g, &s);
    leave_descriptors(0, &was);
    close(clients[1]);
    close(clients[2]); /* two descriptors: for the client and one too many */
    clients[1] = dial(&s);
    clients[2] = dial(&s);
    WAIT_FOR(rig, g.paused == 1);
    sl_listener_close(g.listener);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    tick(rig);
    for (unsigned i = 0; i < SL_LEN(clients); i++)
        close(clients[i]);
    sl_sockets_close(&s);
}

int main(void)
{
    struct rig rig;

    rig_open(&rig, NULL);
    RUN_TESTS_WITH(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
