/* listeners.c -- where clients come in: sockets, tokens and certificates.
 *
 * TLS is for addresses; a unix socket is guarded by its folder. Clients of
 * the admin listener are told by its token, not by certificates: /livez and
 * /metrics are for anybody who can reach them.
 */
#include <string.h>

#include "engine/request.h"
#include "sluiced/daemon.h"

/* ---- certificates ---- */

/* Whether clients must show a certificate is settled at the start: a reload
 * that begins or ceases to ask for them says that it needs a restart, and must
 * not lock out those who have none before that. */
static const char *client_ca(const struct sl_daemon *daemon,
                             const struct sl_settings *settings)
{
    const char *first = daemon->settings.tls_client_ca;

    return first && settings->tls_client_ca ? settings->tls_client_ca : first;
}

static int open_tls(const struct sl_daemon *daemon,
                    const struct sl_settings *settings,
                    const struct sl_protocol *kind, struct sl_tls **ret,
                    struct sl_diag *diag)
{
    struct sl_tls_options options = {
        .certificate = settings->tls_certificate,
        .key = settings->tls_key,
        .client_ca = kind->operates ? NULL : client_ca(daemon, settings),
        .http2 = kind->http2,
    };

    *ret = NULL;
    return settings->tls_certificate ? sl_tls_open(&options, ret, diag) : 0;
}

/* All or none: a door of the old and one of the new would be neither. */
static int make_contexts(const struct sl_daemon *daemon,
                         const struct sl_settings *settings,
                         struct sl_tls *ret[SL_PROTOCOLS], struct sl_diag *diag)
{
    int err = 0;

    for (int i = 0; i < SL_PROTOCOLS && !err; i++)
        if (daemon->doors[i].open && daemon->doors[i].tls)
            err = open_tls(daemon, settings, sl_protocols[i], &ret[i], diag);
    for (int i = 0; i < SL_PROTOCOLS && err; i++)
        sl_tls_unref(ret[i]);
    return err;
}

int sl_listeners_set_tls(struct sl_daemon *daemon,
                         const struct sl_settings *settings,
                         struct sl_diag *diag)
{
    struct sl_tls *fresh[SL_PROTOCOLS] = {NULL};
    int err = make_contexts(daemon, settings, fresh, diag);

    daemon->certificates_good = !err;
    if (err)
        return err;
    for (int i = 0; i < SL_PROTOCOLS; i++) {
        if (!fresh[i])
            continue;
        sl_tls_unref(daemon->doors[i].tls);
        daemon->doors[i].tls = fresh[i];
        for (unsigned k = 0; k < daemon->worker_count; k++)
            sl_worker_set_tls(&daemon->workers[k], (enum sl_protocol_id)i,
                              fresh[i]);
    }
    return 0;
}

/* ---- sockets ---- */

/* The socket of this name that systemd opened, or one of our own. */
static int bind_door(struct sl_daemon *daemon, enum sl_protocol_id door,
                     unsigned loops)
{
    struct sl_server_listener *way = &daemon->doors[door];
    int fd = sl_activated_find(&daemon->activated, sl_protocols[door]->name);
    int err;

    if (fd >= 0)
        err = sl_sockets_adopt(fd, loops, &way->sockets, &daemon->why);
    else
        err = sl_sockets_open(&daemon->settings.at[door], loops, &way->sockets,
                              &daemon->why);
    if (err)
        return SL_EXIT_FAILED;
    way->open = true;
    sl_address_print(&way->sockets.address, way->where, sizeof(way->where));
    return 0;
}

static int open_door(struct sl_daemon *daemon, enum sl_protocol_id door)
{
    const struct sl_settings *s = &daemon->settings;
    const struct sl_protocol *kind = sl_protocols[door];
    struct sl_server_listener *way = &daemon->doors[door];
    int status = bind_door(daemon, door, kind->operates ? 1 : s->threads);

    if (!status)
        status = sl_settings_check_exposed(s, door, &way->sockets.address,
                                           &daemon->why);
    if (!status && !sl_address_is_unix(&way->sockets.address) &&
        open_tls(daemon, s, kind, &way->tls, &daemon->why))
        status = SL_EXIT_FAILED;
    if (status)
        return status;
    /* Where there is no TLS nobody can show a certificate. */
    way->accepts_client_cert = !kind->operates && way->tls && s->tls_client_ca;
    kind->describe(daemon, way);
    return 0;
}

int sl_listeners_begin(struct sl_daemon *daemon)
{
    int status = 0;

    sl_admin_ops_open(daemon);
    for (int i = 0; i < SL_PROTOCOLS && !status; i++)
        if (sl_protocols[i] &&
            (daemon->settings.open[i] ||
             sl_activated_find(&daemon->activated, sl_protocols[i]->name) >= 0))
            status = open_door(daemon, (enum sl_protocol_id)i);
    return status;
}

static void close_door(struct sl_server_listener *way)
{
    if (way->open)
        sl_sockets_close(&way->sockets);
    way->open = false;
    sl_tls_unref(way->tls);
    way->tls = NULL;
    sl_conn_limit_close(way->crowd);
    way->crowd = NULL;
}

void sl_listeners_end(struct sl_daemon *daemon)
{
    for (int i = 0; i < SL_PROTOCOLS; i++)
        close_door(&daemon->doors[i]);
}

/* ---- the two doors that speak HTTP: decisions, and operation. */

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

/* ---- the door for Envoy and other clients of gRPC. */

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

/* ---- the door for clients of Redis. */

static void resp_describe(struct sl_daemon *daemon,
                          struct sl_server_listener *way)
{
    way->resp = (struct sl_resp_door){
        .token = daemon->settings.access_token,
        .accepts_client_cert = way->accepts_client_cert,
    };
}

static void resp_gather(struct sl_server_listener *way)
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

static void resp_certify(struct sl_listener_worker *stand, struct sl_tls *tls)
{
    sl_resp_worker_tls(&stand->resp, tls);
}

/* A reply has no room to say so; its connection is closed behind it. */
static void resp_warn(struct sl_listener_worker *stand)
{
    stand->resp.draining = true;
}

static void resp_drain(struct sl_listener_worker *stand)
{
    sl_resp_drain(&stand->resp);
}

static unsigned resp_count(const struct sl_listener_worker *stand)
{
    return sl_conns_count(stand->resp.conns);
}

static void resp_move(struct sl_listener_worker *stand,
                      struct sl_engine *engine)
{
    sl_resp_worker_engine(&stand->resp, engine);
}

const struct sl_protocol sl_protocol_resp = {
    .name = "resp",
    .describe = resp_describe,
    .gather = resp_gather,
    .open = open_resp,
    .close = close_resp,
    .accept = accept_resp,
    .certify = resp_certify,
    .warn = resp_warn,
    .drain = resp_drain,
    .count = resp_count,
    .move = resp_move,
};

/* ---- which doors there are. */

const struct sl_protocol *const sl_protocols[SL_PROTOCOLS] = {
    [SL_PROTOCOL_HTTP] = &sl_protocol_http,
    [SL_PROTOCOL_GRPC] = &sl_protocol_grpc,
    [SL_PROTOCOL_RESP] = &sl_protocol_resp,
    [SL_PROTOCOL_ADMIN] = &sl_protocol_admin,
};

/* ---- doors that balancers stand before: who may say whom they speak
 * for, and what is heard of the others.
 *
 * Trusted are those of the policy in force when a connection comes: a reload
 * changes who is let in next.
 */

struct sl_proxy_listeners {
    struct sl_worker *worker;
    const struct sl_protocol *kind;
    struct sl_proxy_accept *preface;
};

static bool trusts(void *ctx, const struct sl_address *peer)
{
    struct sl_proxy_listeners *p = ctx;
    struct sl_active_policy *live =
        sl_engine_hold(p->worker->daemon->engine, NULL);
    struct sl_peer who = {.is_unix = sl_address_is_unix(peer)};
    bool trusted;

    who.has_ip = sl_address_ip(peer, &who.ip);
    trusted = sl_peer_trusted(&live->policy->identity, &who);
    sl_active_policy_release(live);
    return trusted;
}

static void on_refused(void *ctx, const struct sl_address *peer,
                       const char *why)
{
    struct sl_proxy_listeners *p = ctx;
    char where[128];

    sl_address_print(peer, where, sizeof(where));
    sl_metrics_refused(p->worker->stats, p->kind->name, "proxy_header");
    sl_log(SL_LOG_WARN, "connection rejected", "door", p->kind->name, "peer",
           where, "why", why, NULL);
}

int sl_proxy_listeners_open(struct sl_worker *worker,
                            const struct sl_protocol *kind,
                            struct sl_listener_worker *stand)
{
    struct sl_proxy_listeners *p = sl_alloc_new(&sl_alloc_libc, sizeof(*p));
    struct sl_proxy_accept_options options = {
        .on_accept = kind->accept,
        .door = stand,
        .trusts = trusts,
        .on_refused = on_refused,
        .ctx = p,
        .alloc = &sl_alloc_libc,
    };
    int err;

    if (!p)
        return SLUICE_ENOMEM;
    *p = (struct sl_proxy_listeners){.worker = worker, .kind = kind};
    err = sl_proxy_accept_open(worker->loop, &options, &p->preface);
    if (err) {
        sl_alloc_free(&sl_alloc_libc, p, sizeof(*p));
        return err;
    }
    stand->proxied = p;
    return 0;
}

void sl_proxy_listeners_close(struct sl_proxy_listeners *proxied)
{
    if (!proxied)
        return;
    sl_proxy_accept_close(proxied->preface);
    sl_alloc_free(&sl_alloc_libc, proxied, sizeof(*proxied));
}

void sl_proxy_listeners_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_proxy_listeners *p = ctx;

    sl_proxy_accept_accept(p->preface, fd, peer);
}

unsigned sl_proxy_listeners_count(const struct sl_proxy_listeners *proxied)
{
    return proxied ? sl_proxy_accept_count(proxied->preface) : 0;
}
