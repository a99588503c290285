/* doors.c -- where clients come in: sockets, tokens and certificates.
 *
 * TLS is for addresses; a unix socket is guarded by its folder. Clients of
 * the admin listener are told by its token, not by certificates: /livez and
 * /metrics are for anybody who can reach them.
 */
#include <string.h>

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
