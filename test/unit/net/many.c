/* many.c -- ten thousand connections on one loop.
 *
 * The clients are another process, or two ends of each connection would not
 * fit below the usual ceilings of descriptors; where even one end of each does
 * not, as many as do.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "guest.h"

#define MANY 10000U

struct house {
    struct rig rig;
    struct guest *guests;
    unsigned count, refused;
};

static void on_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct house *house = ctx;
    struct guest *g = &house->guests[house->count];
    struct sl_conn_options options = guest_options(g);

    *g = (struct guest){.rig = &house->rig, .echo = true};
    if (sl_conn_open(house->rig.conns, fd, peer, &options, &g->conn)) {
        house->refused++;
        return;
    }
    sl_conn_deadline(g->conn, SL_HOUR);
    house->count++;
}

/* Connect all, then ask all, then read all, then go. */
static void be_clients(const struct sl_sockets *s, unsigned count)
{
    int *fds = calloc(count, sizeof(*fds));
    char byte;

    for (unsigned i = 0; i < count; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (fds[i] < 0 ||
            connect(fds[i], (const void *)&s->address.bytes, s->address.len))
            _exit(2);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < count; i++)
            if (send(fds[i], "x", 1, MSG_NOSIGNAL) != 1)
                _exit(3);
        for (unsigned i = 0; i < count; i++)
            if (recv(fds[i], &byte, 1, 0) != 1)
                _exit(4);
    }
    _exit(0);
}

static unsigned how_many(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > MANY + 100 ? MANY : (unsigned)limit.rlim_cur - 100;
}

int main(void)
{
    struct house house = {.count = 0};
    _Atomic uint64_t paused = 0;
    struct sl_listener *listener;
    struct sl_address any;
    struct sl_sockets s;
    unsigned many = how_many(), served = 0;
    int status = -1;
    pid_t child;

    house.guests = calloc(many, sizeof(*house.guests));
    CASE("ten thousand connections are taken, served twice and gone again");
    printf("# %u connections\n", many);
    CHECK_EQ(sl_address_parse(SL_STR("127.0.0.1:0"), &any, NULL), 0);
    CHECK_EQ(sl_sockets_open(&any, 1, &s, NULL), 0);
    fflush(stdout); /* or the child says it again */
    child = fork();
    if (child == 0)
        be_clients(&s, many);
    rig_open(&house.rig, NULL);
    CHECK_EQ(sl_listener_open(house.rig.loop, s.fds[0], on_accept, &house,
                              &listener),
             0);
    sl_listener_watch(listener, &paused);
    while (waitpid(child, &status, WNOHANG) == 0)
        tick(&house.rig);
    CHECK_EQ(status, 0);
    CHECK_EQ(house.count, many);
    CHECK_EQ(house.refused, 0);
    CHECK_EQ(paused, 0);
    WAIT_FOR(&house.rig, sl_conns_count(house.rig.conns) == 0);
    for (unsigned i = 0; i < house.count; i++)
        served += house.guests[i].got_len == 2 && house.guests[i].closes == 1;
    CHECK_EQ(served, many);
    sl_listener_close(listener);
    sl_sockets_close(&s);
    rig_close(&house.rig);
    free(house.guests);
    return CHECK_DONE();
}
