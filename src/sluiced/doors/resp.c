/* resp.c -- the door for clients of Redis. */
#include "sluiced/daemon.h"

static void describe(struct sl_daemon *daemon, struct sl_server_listener *way)
{
    way->resp = (struct sl_resp_door){
        .token = daemon->settings.access_token,
        .accepts_client_cert = way->accepts_client_cert,
    };
}

static void gather(struct sl_server_listener *way)
{
    way->resp.crowd = way->crowd;
}

static int open_resp(struct sl_listener_worker *stand, struct sl_worker *worker,
                     const struct sl_server_listener *way, unsigned most)
{
    int err = sl_resp_worker_open(&stand->resp, &way->resp, worker->loop,
                                  worker->daemon->engine, worker->stats, most,
                                  &worker->daemon->why);

    stand->resp.station = &worker->station;
    return err;
}

static void close_resp(struct sl_listener_worker *stand)
{
    sl_resp_worker_close(&stand->resp);
}

static void accept_resp(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_listener_worker *stand = ctx;

    sl_resp_accept(&stand->resp, fd, peer);
}

static void certify(struct sl_listener_worker *stand, struct sl_tls *tls)
{
    sl_resp_worker_tls(&stand->resp, tls);
}

/* A reply has no room to say so; its connection is closed behind it. */
static void warn(struct sl_listener_worker *stand)
{
    stand->resp.draining = true;
}

static void drain(struct sl_listener_worker *stand)
{
    sl_resp_drain(&stand->resp);
}

static unsigned count(const struct sl_listener_worker *stand)
{
    return sl_conns_count(stand->resp.conns);
}

static void move(struct sl_listener_worker *stand, struct sl_engine *engine)
{
    sl_resp_worker_engine(&stand->resp, engine);
}

const struct sl_protocol sl_protocol_resp = {
    .name = "resp",
    .describe = describe,
    .gather = gather,
    .open = open_resp,
    .close = close_resp,
    .accept = accept_resp,
    .certify = certify,
    .warn = warn,
    .drain = drain,
    .count = count,
    .move = move,
};
