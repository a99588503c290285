/* lifecycle.c -- signals, shutdown, and the watchdog of systemd.
 *
 *   SERVING --TERM or INT--> DRAINING --empty, or timeout----> ENDING
 *      |                        |                                  |
 *      | HUP: reload            | readyz is 503; no new            | loops
 *      |                        | connections; open requests       | stop;
 *      v                        | are finished                     | threads
 *   on_signal()             begin_drain()                          v join
 *                               +---------second TERM or INT---> end()
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "sluiced/daemon.h"
#include "sluiced/file_watch.h"

/* Admin clients get their last responses within this time. */
#define ADMIN_DRAIN (200 * SL_MS)

/* Late takes and leases are returned to a remote store: its deadline and this
 * time, if the number of operations in flight is not known. */
#define SETTLE (50 * SL_MS)

static void end(struct sl_daemon *daemon)
{
    for (unsigned i = 0; i < daemon->worker_count; i++)
        sl_loop_stop(daemon->workers[i].loop);
}

static void begin_drain(struct sl_daemon *daemon, const char *signal_name)
{
    sl_ns now = sl_loop_mono(daemon->workers[0].loop);

    sl_log(SL_LOG_INFO, "stopping", "signal", signal_name, NULL);
    sl_notify(&daemon->notify, "STOPPING=1\n"
                               "STATUS=Draining requests");
    daemon->draining = true;
    daemon->drain_until = now + daemon->settings.drain;
    for (unsigned i = 0; i < daemon->worker_count; i++)
        sl_worker_drain(&daemon->workers[i]);
}

static bool all_empty(const struct sl_daemon *daemon)
{
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (!atomic_load(&daemon->workers[i].empty))
            return false;
    return true;
}

/* The admin listener drains last: clients may ask for /readyz. Requests and the
 * store share --drain, but the store always has a moment of its own. */
static void drain_admin(struct sl_daemon *daemon, sl_ns now)
{
    sl_ns deadline = daemon->settings.deadline;

    daemon->admin_draining = true;
    if (daemon->remote.store)
        daemon->settle_until =
            now + SETTLE + (deadline < SL_S ? deadline : SL_S);
    if (daemon->remote.store && daemon->settings.in_dynamo &&
        daemon->drain_until > daemon->settle_until)
        daemon->settle_until = daemon->drain_until; /* or when all is done */
    daemon->drain_until = now + ADMIN_DRAIN;
    for (int i = SL_PROTOCOL_ADMIN; i < SL_PROTOCOLS; i++) {
        struct sl_listener_worker *admin = &daemon->workers[0].listeners[i];

        sl_listener_close(admin->listener);
        admin->listener = NULL;
        if (admin->server)
            sl_server_drain(admin->server);
    }
}

/* Connections to the admin API. */
static unsigned admin_conns(const struct sl_daemon *daemon)
{
    unsigned count = 0;

    for (int i = SL_PROTOCOL_ADMIN; i < SL_PROTOCOLS; i++)
        if (daemon->workers[0].listeners[i].server)
            count +=
                sl_conns_count(daemon->workers[0].listeners[i].server->conns);
    return count;
}

void sl_lifecycle_drained(struct sl_daemon *daemon)
{
    struct sl_worker *first = &daemon->workers[0];
    sl_ns now = sl_loop_mono(first->loop);
    bool late = now >= daemon->drain_until;

    if (daemon->admin_draining && now < daemon->settle_until &&
        sl_daemon_store_is_busy(daemon))
        return;
    if (!daemon->admin_draining && !late && sl_webhooks_is_busy(daemon))
        return;
    if (!daemon->admin_draining) {
        if (late && !all_empty(daemon))
            sl_log(SL_LOG_WARN, "drain timeout: connections closed", "why",
                   "requests took longer than --drain", NULL);
        if (late || all_empty(daemon))
            drain_admin(daemon, now);
    } else if (late || admin_conns(daemon) == 0) {
        end(daemon);
    }
}

static void on_signal(void *ctx)
{
    struct sl_daemon *daemon = ctx;
    struct signalfd_siginfo info;

    while (read(daemon->signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGHUP && !daemon->draining)
            sl_reload(daemon, SL_RELOAD_SIGNAL, NULL, NULL);
        else if (info.ssi_signo == SIGHUP)
            continue;
        else if (daemon->draining)
            end(daemon);
        else
            begin_drain(daemon, info.ssi_signo == SIGINT ? "INT" : "TERM");
    }
}

static void on_heartbeat(void *ctx)
{
    struct sl_worker *worker = ctx;

    atomic_fetch_add(&worker->heartbeat_seen, 1);
}

/* Every loop must have run since the last heartbeat. */
static void on_watchdog(void *ctx)
{
    struct sl_daemon *daemon = ctx;
    bool alive = true;

    for (unsigned i = 1; i < daemon->worker_count; i++) {
        struct sl_worker *worker = &daemon->workers[i];

        if (atomic_load(&worker->heartbeat_seen) < daemon->heartbeat &&
            !daemon->draining) {
            alive = false;
            sl_log(SL_LOG_ERROR, "worker thread not responding", NULL);
        } else if (sl_loop_post(worker->loop, on_heartbeat, worker)) {
            atomic_fetch_add(&worker->heartbeat_seen,
                             1); /* a lack of memory is not a hang */
        }
    }
    if (alive) {
        daemon->heartbeat++;
        sl_notify(&daemon->notify, "WATCHDOG=1");
    }
    sl_timer_start(daemon->watchdog, daemon->notify.watchdog);
}

/* The address of a listener, or NULL if it is closed. */
static const char *where(const struct sl_daemon *daemon, enum sl_protocol_id id)
{
    const struct sl_server_listener *l = &daemon->listeners[id];

    return l->open ? l->where : NULL;
}

static void announce(const struct sl_daemon *daemon)
{
    const struct sl_settings *s = &daemon->settings;
    char threads[16], store[512] = "memory";
    bool tls = false;

    for (int i = 0; i < SL_PROTOCOL_ADMIN; i++)
        tls = tls || daemon->listeners[i].tls;
    if (s->shared)
        sl_settings_mask(s->values[SL_SET_store].text, store, sizeof(store));
    else if (s->state)
        snprintf(store, sizeof(store), "%s", s->state);
    snprintf(threads, sizeof(threads), "%u", daemon->worker_count);
    sl_log(SL_LOG_INFO, "serving", "http", where(daemon, SL_PROTOCOL_HTTP),
           "grpc", where(daemon, SL_PROTOCOL_GRPC), "resp",
           where(daemon, SL_PROTOCOL_RESP), "admin",
           where(daemon, SL_PROTOCOL_ADMIN), "local",
           where(daemon, SL_PROTOCOL_LOCAL), "policy",
           daemon->path ? daemon->path : "demo", "store", store, "tls",
           tls ? "on" : NULL, "threads", threads, "version", SLUICE_VERSION,
           NULL);
    if (geteuid() == 0)
        sl_log(SL_LOG_WARN, "running as root", "why",
               "an error in the daemon would have all rights; it needs none of "
               "them",
               "instead",
               "run it as a user of its own, as the systemd unit does", NULL);
    if (!daemon->path)
        sl_demo_print(stdout, where(daemon, SL_PROTOCOL_HTTP),
                      where(daemon, SL_PROTOCOL_RESP),
                      where(daemon, SL_PROTOCOL_ADMIN), s->state);
    sl_notify(&daemon->notify, "READY=1\nSTATUS=Serving %s",
              daemon->path ? daemon->path : "the demo");
}

int sl_lifecycle_begin(struct sl_daemon *daemon)
{
    struct sl_loop *loop = daemon->workers[0].loop;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    daemon->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (daemon->signals < 0 ||
        sl_fd_watch_open(loop, daemon->signals, on_signal, daemon,
                         &daemon->signal_watch) ||
        (daemon->notify.watchdog > 0 &&
         sl_timer_new(loop, on_watchdog, daemon, &daemon->watchdog)))
        return sl_diag_error(&daemon->why, SL_EXIT_FAILED,
                             "cannot handle signals: %s", strerror(errno));
    if (daemon->watchdog)
        sl_timer_start(daemon->watchdog, daemon->notify.watchdog);
    return 0;
}

void sl_lifecycle_end(struct sl_daemon *daemon)
{
    sl_timer_free(daemon->watchdog);
    sl_fd_watch_close(daemon->signal_watch);
    if (daemon->signals > 0)
        close(daemon->signals);
}

void sl_lifecycle_run(struct sl_daemon *daemon)
{
    announce(daemon);
    sl_loop_run(daemon->workers[0].loop);
    sl_workers_join(daemon);
    sl_log(SL_LOG_INFO, "stopped", NULL);
}
