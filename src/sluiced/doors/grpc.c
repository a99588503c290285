/* grpc.c -- the door for Envoy and other clients of gRPC. */
#include "sluiced/daemon.h"

static void describe(struct sl_daemon *daemon, struct sl_server_listener *way)
{
    way->grpc = (struct sl_grpc_door){
        .token = daemon->settings.access_token,
        .accepts_client_cert = way->accepts_client_cert,
        .age_most = daemon->settings.age,
    };
}

static void gather(struct sl_server_listener *way)
{
    way->grpc.crowd = way->crowd;
}

static int open_grpc(struct sl_listener_worker *stand, struct sl_worker *worker,
                     const struct sl_server_listener *way, unsigned most)
{
    int err = sl_grpc_worker_open(&stand->grpc, &way->grpc, worker->loop,
                                  worker->daemon->engine, worker->stats, NULL,
                                  most, &worker->daemon->why);

    stand->grpc.station = &worker->station;
    return err;
}

static void close_grpc(struct sl_listener_worker *stand)
{
    sl_grpc_worker_close(&stand->grpc);
}

static void accept_grpc(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_listener_worker *stand = ctx;

    sl_grpc_accept(&stand->grpc, fd, peer);
}

static void certify(struct sl_listener_worker *stand, struct sl_tls *tls)
{
    sl_grpc_worker_tls(&stand->grpc, tls);
}

static void warn(struct sl_listener_worker *stand)
{
    sl_grpc_announce_drain(&stand->grpc);
}

static void drain(struct sl_listener_worker *stand)
{
    sl_grpc_drain(&stand->grpc);
}

static unsigned count(const struct sl_listener_worker *stand)
{
    return sl_conns_count(stand->grpc.conns);
}

static void move(struct sl_listener_worker *stand, struct sl_engine *engine)
{
    sl_grpc_worker_engine(&stand->grpc, engine);
}

const struct sl_protocol sl_protocol_grpc = {
    .name = "grpc",
    .http2 = true,
    .describe = describe,
    .gather = gather,
    .open = open_grpc,
    .close = close_grpc,
    .accept = accept_grpc,
    .certify = certify,
    .warn = warn,
    .drain = drain,
    .count = count,
    .move = move,
};
