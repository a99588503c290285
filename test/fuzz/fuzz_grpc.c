/* fuzz_grpc.c -- frames of any bytes at the gRPC server.
 *
 * The first byte says whether what follows comes after a good beginning
 * (preface and settings) or is all there is, and how it is cut. It goes through
 * a pair of sockets, the loop and nghttp2, as it would from a client.
 *
 *   (1) Nothing crashes, leaks or hangs, whatever comes and wherever it is cut.
 *   (2) In the end the connection is gone, and a good client is answered.
 */
#include "engine.h"

#include <sys/socket.h>
#include <unistd.h>

#include "server/grpc/grpc.h"

static const char policy_text[] =
    "sluice: 1\n"
    "limits: { api: { kind: fixed-window, per: user, rate: 5/day } }\n"
    "routes:\n"
    "  - { job: api, limits: [api] }\n"
    "  - { descriptor: [d, \"k=a*\", \"**\"], limits: [api], count: each }\n"
    "default: []\n";

static const char beginning[] =
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

static struct {
    struct sl_engine *engine;
    struct sl_loop *loop;
    struct sl_timer *tick;
    struct sl_server door;
    struct sl_grpc_worker worker;
} house;

static void stop(void *ctx)
{
    sl_loop_stop(ctx);
}

static void turn(void)
{
    MUST(sl_loop_post(house.loop, stop, house.loop) == 0);
    sl_loop_run(house.loop);
}

static void open_house(void)
{
    house.engine = fuzz_engine(policy_text);
    MUST(sl_loop_open(NULL, &house.loop, NULL) == 0);
    house.door.protocol = &sl_protocol_grpc;
    sl_server_worker_init(&house.worker.base, &house.door, house.engine, NULL,
                          NULL);
    MUST(sl_server_worker_open(&house.worker.base, house.loop, 10, NULL) == 0);
}

/* Send what can be sent, and throw away what comes. */
static void talk(int fd, const char *bytes, size_t len, size_t cut)
{
    char dropped[4096];

    while (len > 0) {
        size_t size = len < cut ? len : cut;
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        turn();
        while (recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT) > 0)
            turn();
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

void fuzz_grpc(struct sl_str text, unsigned choice)
{
    int fds[2];

    if (!house.engine)
        open_house();
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    sl_server_accept(&house.worker.base, fds[0], NULL);
    if (choice & 1)
        talk(fds[1], beginning, sizeof(beginning) - 1, sizeof(beginning));
    talk(fds[1], text.at, text.len, choice & 2 ? 8192 : 1 + choice / 4);
    close(fds[1]);
    for (int i = 0; i < 100 && sl_conns_count(house.worker.base.conns) > 0; i++)
        turn();
    MUST(sl_conns_count(house.worker.base.conns) == 0); /* (2) */
}
