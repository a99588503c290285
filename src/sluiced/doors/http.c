/* http.c -- the two doors that speak HTTP: decisions, and operation. */
#include "sluiced/daemon.h"

static void describe_http(struct sl_daemon *daemon,
                          struct sl_server_listener *way)
{
    way->http = (struct sl_http_door){
        .paths = sl_api_paths,
        .path_count = sl_api_path_count,
        .token = daemon->settings.access_token,
        .accepts_client_cert = way->accepts_client_cert,
        .name = "http",
        .forward = daemon->settings.forward,
    };
}

static void describe_admin(struct sl_daemon *daemon,
                           struct sl_server_listener *way)
{
    way->http = (struct sl_http_door){
        .paths = sl_admin_paths,
        .path_count = sl_admin_path_count,
        .token = daemon->settings.admin_token,
        .name = "admin",
        .ctx = &daemon->desk,
    };
}

static void gather_http(struct sl_server_listener *way)
{
    way->http.crowd = way->crowd;
}

static int open_http(struct sl_listener_worker *stand, struct sl_worker *worker,
                     const struct sl_server_listener *way, unsigned most)
{
    int err = sl_http_worker_open(&stand->http, &way->http, worker->loop,
                                  worker->daemon->engine, worker->stats, most,
                                  &worker->daemon->why);

    stand->http.station = &worker->station;
    return err;
}

static void close_http(struct sl_listener_worker *stand)
{
    sl_http_worker_close(&stand->http);
}

static void accept_http(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_listener_worker *stand = ctx;

    sl_http_accept(&stand->http, fd, peer);
}

static void certify_http(struct sl_listener_worker *stand, struct sl_tls *tls)
{
    sl_http_worker_tls(&stand->http, tls);
}

static void warn_http(struct sl_listener_worker *stand)
{
    stand->http.draining = true;
}

static void drain_http(struct sl_listener_worker *stand)
{
    sl_http_drain(&stand->http);
}

static unsigned count_http(const struct sl_listener_worker *stand)
{
    return sl_conns_count(stand->http.conns);
}

static void move_http(struct sl_listener_worker *stand,
                      struct sl_engine *engine)
{
    sl_http_worker_engine(&stand->http, engine);
}

const struct sl_protocol sl_protocol_http = {
    .name = "http",
    .describe = describe_http,
    .gather = gather_http,
    .open = open_http,
    .close = close_http,
    .accept = accept_http,
    .certify = certify_http,
    .warn = warn_http,
    .drain = drain_http,
    .count = count_http,
    .move = move_http,
};

const struct sl_protocol sl_protocol_admin = {
    .name = "admin",
    .operates = true,
    .describe = describe_admin,
    .open = open_http,
    .close = close_http,
    .accept = accept_http,
    .certify = certify_http,
    .warn = warn_http,
    .drain = drain_http,
    .count = count_http,
    .move = move_http,
};
