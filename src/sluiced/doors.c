/* doors.c -- where clients come in: sockets, tokens and certificates.
 *
 * TLS is for addresses; a unix socket is guarded by its folder. Clients of
 * the admin listener are told by its token, not by certificates: /livez and
 * /metrics are for anybody who can reach them.
 */
#include <string.h>

#include "sluiced/daemon.h"

/* ---- certificates ---- */

static int open_tls(const struct sl_settings *settings, bool admin,
                    struct sl_tls **ret, struct sl_diag *diag)
{
    struct sl_tls_options options = {
        .certificate = settings->tls_certificate,
        .key = settings->tls_key,
        .client_ca = admin ? NULL : settings->tls_client_ca,
    };

    *ret = NULL;
    return settings->tls_certificate ? sl_tls_open(&options, ret, diag) : 0;
}

static bool has_tls(const struct sl_doorway *way)
{
    return way->open && way->tls;
}

int sl_doors_certify(struct sl_daemon *daemon,
                     const struct sl_settings *settings, struct sl_diag *diag)
{
    struct sl_tls *http = NULL, *admin = NULL;
    int err = 0;

    if (has_tls(&daemon->http))
        err = open_tls(settings, false, &http, diag);
    if (!err && has_tls(&daemon->admin))
        err = open_tls(settings, true, &admin, diag);
    daemon->certificates_good = !err;
    if (err) {
        sl_tls_unref(http);
        return err;
    }
    if (http) {
        sl_tls_unref(daemon->http.tls);
        daemon->http.tls = http;
        for (unsigned i = 0; i < daemon->worker_count; i++)
            sl_worker_certify(&daemon->workers[i], http);
    }
    if (admin) {
        sl_tls_unref(daemon->admin.tls);
        daemon->admin.tls = admin;
        if (daemon->worker_count > 0)
            sl_http_worker_tls(&daemon->workers[0].admin, admin);
    }
    return 0;
}

/* ---- sockets ---- */

/* The socket of this name that systemd opened, or one of our own. */
static int bind_door(struct sl_daemon *daemon, struct sl_doorway *way,
                     const char *name, const struct sl_address *address,
                     unsigned loops)
{
    int fd = sl_activated_find(&daemon->activated, name);
    int err;

    if (fd >= 0)
        err = sl_sockets_adopt(fd, loops, &way->sockets, &daemon->why);
    else
        err = sl_sockets_open(address, loops, &way->sockets, &daemon->why);
    if (err)
        return SL_EXIT_FAILED;
    way->open = true;
    sl_address_print(&way->sockets.address, way->where, sizeof(way->where));
    return 0;
}

static int open_door(struct sl_daemon *daemon, struct sl_doorway *way,
                     bool admin, const struct sl_address *address,
                     unsigned loops)
{
    int status =
        bind_door(daemon, way, admin ? "admin" : "http", address, loops);

    if (!status)
        status = sl_settings_guard(&daemon->settings, admin,
                                   &way->sockets.address, &daemon->why);
    if (!status && !sl_address_is_unix(&way->sockets.address) &&
        open_tls(&daemon->settings, admin, &way->tls, &daemon->why))
        status = SL_EXIT_FAILED;
    /* Where there is no TLS nobody can show a certificate. */
    way->door.accepts_client_cert =
        !admin && way->tls && daemon->settings.tls_client_ca;
    return status;
}

/* One cap over all workers, and one for each address. */
static int count_crowd(struct sl_daemon *daemon)
{
    struct sl_doorway *way = &daemon->http;

    if (sl_crowd_open(&sl_alloc_libc, sl_connections_most(daemon),
                      daemon->settings.connections_per_address, &way->crowd)) {
        sl_refuse(&daemon->why, SLUICE_ENOMEM, "there is no memory");
        return SL_EXIT_FAILED;
    }
    way->door.crowd = way->crowd;
    return 0;
}

int sl_doors_begin(struct sl_daemon *daemon)
{
    const struct sl_settings *s = &daemon->settings;
    int status = 0;

    daemon->http.door = (struct sl_http_door){
        .paths = sl_api_paths,
        .path_count = sl_api_path_count,
        .token = s->access_token,
        .name = "http",
        .forward = s->forward,
    };
    daemon->admin.door = (struct sl_http_door){
        .paths = sl_admin_paths,
        .path_count = sl_admin_path_count,
        .token = s->admin_token,
        .name = "admin",
        .ctx = &daemon->desk,
    };
    sl_desk_open(daemon);
    if (s->http_open || sl_activated_find(&daemon->activated, "http") >= 0)
        status = open_door(daemon, &daemon->http, false, &s->http, s->threads);
    if (!status && daemon->http.open)
        status = count_crowd(daemon);
    if (!status &&
        (s->admin_open || sl_activated_find(&daemon->activated, "admin") >= 0))
        status = open_door(daemon, &daemon->admin, true, &s->admin, 1);
    return status;
}

static void close_door(struct sl_doorway *way)
{
    if (way->open)
        sl_sockets_close(&way->sockets);
    way->open = false;
    sl_tls_unref(way->tls);
    way->tls = NULL;
    sl_crowd_close(way->crowd);
    way->crowd = NULL;
}

void sl_doors_end(struct sl_daemon *daemon)
{
    close_door(&daemon->http);
    close_door(&daemon->admin);
}
