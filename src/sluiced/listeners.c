/* listeners.c -- the listeners of the daemon: sockets, TLS, servers.
 *
 * A listener on a unix socket has no TLS: its folder protects it. The admin
 * listener checks its token and no client certificates, because /livez and
 * /metrics are public.
 */
#include <string.h>

#include <openssl/evp.h>

#include "sluiced/daemon.h"

static const struct {
    const char *name; /* for systemd, metrics and logs */
    const struct sl_protocol *protocol;
} listeners[SL_PROTOCOLS] = {
    [SL_PROTOCOL_HTTP] = {"http",  &sl_protocol_http},
    [SL_PROTOCOL_GRPC] = {"grpc",  &sl_protocol_grpc},
    [SL_PROTOCOL_RESP] = {"resp",  &sl_protocol_resp},
    [SL_PROTOCOL_ADMIN] = {"admin", &sl_protocol_http},
    [SL_PROTOCOL_LOCAL] = {"local", &sl_protocol_http},
};

/* ---- certificates ---- */

/* Whether clients need a certificate is fixed at the start. A reload that
 * changes it logs that it needs a restart, and must not lock out clients
 * without one before that. */
static const char *client_ca(const struct sl_daemon *daemon,
                             const struct sl_settings *settings)
{
    const char *first = daemon->settings.tls_client_ca;

    return first && settings->tls_client_ca ? settings->tls_client_ca : first;
}

static int open_tls(const struct sl_daemon *daemon,
                    const struct sl_settings *settings, int id,
                    struct sl_tls **ret, struct sl_diag *diag)
{
    struct sl_tls_options options = {
        .certificate = settings->tls_certificate,
        .key = settings->tls_key,
        .client_ca =
            id >= SL_PROTOCOL_ADMIN ? NULL : client_ca(daemon, settings),
        .http2 = listeners[id].protocol->http2,
    };

    *ret = NULL;
    return settings->tls_certificate ? sl_tls_open(&options, ret, diag) : 0;
}

/* All or none: listeners must not differ in their certificates. */
int sl_listeners_set_tls(struct sl_daemon *daemon,
                         const struct sl_settings *settings,
                         struct sl_diag *diag)
{
    struct sl_tls *fresh[SL_PROTOCOLS] = {NULL};
    int err = 0;

    for (int i = 0; i < SL_PROTOCOLS && !err; i++)
        if (daemon->listeners[i].open && daemon->listeners[i].tls)
            err = open_tls(daemon, settings, i, &fresh[i], diag);
    daemon->certificates_good = !err;
    for (int i = 0; i < SL_PROTOCOLS; i++) {
        if (err)
            sl_tls_unref(fresh[i]);
        if (err || !fresh[i])
            continue;
        sl_tls_unref(daemon->listeners[i].tls);
        daemon->listeners[i].tls = fresh[i];
        for (unsigned k = 0; k < daemon->worker_count; k++)
            sl_worker_set_tls(&daemon->workers[k], i, fresh[i]);
    }
    return err;
}

/* ---- sockets and settings ---- */

static struct sl_server configure(struct sl_daemon *daemon, int id)
{
    const struct sl_settings *s = &daemon->settings;
    struct sl_server server = {
        .protocol = listeners[id].protocol,
        .name = listeners[id].name,
        .token = s->access_token,
        /* Without TLS a client has no certificate. */
        .accepts_client_cert = daemon->listeners[id].tls && s->tls_client_ca,
        .max_age = s->age,
        .paths = sl_api_paths,
        .path_count = sl_api_path_count,
        .forward = s->forward,
        .hosts = s->hosts,
        .usage_page = &daemon->usage_page,
        .ctx = &daemon->admin,
    };

    if (id >= SL_PROTOCOL_ADMIN)
        server = (struct sl_server){
            .protocol = server.protocol,
            .name = server.name,
            .token = s->admin_token,
            .read_token = s->admin_read_token,
            .sessions = true,
            .paths = sl_admin_paths,
            .path_count = sl_admin_path_count,
            .hosts = s->hosts,
            .ctx = &daemon->admin,
            .usage_page = &daemon->usage_page,
        };
#ifdef SL_VIRTUAL_CLOCK
    server.on_answer = sl_test_answers();
#endif
    return server;
}

/* Use the socket of this name that systemd opened, or bind one. */
static int bind_listener(struct sl_daemon *daemon, int id)
{
    struct sl_server_listener *l = &daemon->listeners[id];
    unsigned loops = id >= SL_PROTOCOL_ADMIN ? 1 : daemon->settings.threads;
    int fd = sl_activated_find(&daemon->activated, listeners[id].name);
    int err;

    if (fd >= 0)
        err = sl_sockets_adopt(fd, loops, &l->sockets, &daemon->why);
    else
        err = sl_sockets_open(&daemon->settings.at[id], loops, &l->sockets,
                              &daemon->why);
    if (err)
        return SL_EXIT_FAILED;
    l->open = true;
    sl_address_print(&l->sockets.address, l->where, sizeof(l->where));
    return 0;
}

static int open_listener(struct sl_daemon *daemon, enum sl_protocol_id id)
{
    const struct sl_settings *s = &daemon->settings;
    struct sl_server_listener *l = &daemon->listeners[id];
    int status = bind_listener(daemon, id);

    if (!status)
        status =
            sl_settings_check_exposed(s, id, &l->sockets.address, &daemon->why);
    if (!status && !sl_address_is_unix(&l->sockets.address) &&
        open_tls(daemon, s, id, &l->tls, &daemon->why))
        status = SL_EXIT_FAILED;
    if (!status)
        l->server = configure(daemon, id);
    return status;
}

/* The key of the settings, or a random one if there is no database that has
 * one. */
static int choose_key(const struct sl_daemon *daemon, struct sl_usage_page *ret)
{
    struct sl_str key = daemon->settings.usage_token_key;
    struct sl_hash_key random[2];
    bool done = true;

    if (key.len > 0)
        done = EVP_Digest(key.at, key.len, ret->key, NULL, EVP_sha256(), NULL);
    else if (daemon->registry)
        return 0; /* usage_tokens.c reads it */
    else if (sl_hash_key_make(&random[0]) || sl_hash_key_make(&random[1]))
        done = false;
    else
        memcpy(ret->key, random, sizeof(ret->key));
    if (done)
        atomic_store(&ret->key_state, SL_USAGE_KEY_KNOWN);
    return done ? 0 : SLUICE_ESYS;
}

static int open_usage_page(struct sl_daemon *daemon)
{
    struct sl_usage_page *page = &daemon->usage_page;

    page->origins = daemon->settings.usage_origins;
    page->demo = !daemon->path && !daemon->compat;
    if (!choose_key(daemon, page))
        return 0;
    return sl_diag_error(&daemon->why, SL_EXIT_FAILED,
                         "there is no key for usage tokens: the kernel gave no "
                         "random bytes");
}

int sl_listeners_begin(struct sl_daemon *daemon)
{
    int status = open_usage_page(daemon);

    sl_admin_ops_open(daemon);
    for (int i = 0; i < SL_PROTOCOLS && !status; i++)
        if (daemon->settings.open[i] ||
            (daemon->settings.only != SL_ONLY_WEBHOOKS &&
             sl_activated_find(&daemon->activated, listeners[i].name) >= 0))
            status = open_listener(daemon, (enum sl_protocol_id)i);
    return status;
}

void sl_listeners_end(struct sl_daemon *daemon)
{
    for (int i = 0; i < SL_PROTOCOLS; i++) {
        struct sl_server_listener *l = &daemon->listeners[i];

        if (l->open)
            sl_sockets_close(&l->sockets);
        l->open = false;
        sl_tls_unref(l->tls);
        l->tls = NULL;
        sl_conn_limit_close(l->server.limit);
        l->server.limit = NULL;
    }
}
