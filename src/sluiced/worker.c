/* worker.c -- worker threads, one loop each.
 *
 * Every worker has its own socket of each listener, its own clock and its own
 * metrics. Workers share the table, which needs no lock, and the engine, whose
 * policy each of them holds for itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sluiced/daemon.h"

#define DRAIN_POLL (10 * SL_MS)

/* Input that is in transit is read within this time, before idle connections
 * are closed. */
#define DRAIN_GRACE (50 * SL_MS)

/* Descriptors that are not connections: standard ones, state, loops, sockets,
 * and a reserve. */
#define OWN_DESCRIPTORS        24
#define DESCRIPTORS_PER_WORKER 8
#define MIN_CONNECTIONS        4
#define ADMIN_CONNECTIONS      64

/* ---- one worker ---- */

static unsigned count_open(const struct sl_daemon *daemon)
{
    unsigned count = 0;

    for (int i = 0; i < SL_PROTOCOLS; i++)
        count += daemon->listeners[i].open && !sl_listener_is_admin(i);
    return count;
}

/* Connections of each listener, so that accepting stops before descriptors run
 * out. */
static unsigned max_conns(const struct sl_daemon *daemon)
{
    unsigned threads = daemon->worker_count;
    unsigned open = count_open(daemon);
    rlim_t own = OWN_DESCRIPTORS + DESCRIPTORS_PER_WORKER * (rlim_t)threads;
    rlim_t max = daemon->settings.connections;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < own + max * open)
        max = limit.rlim_cur > own ? (limit.rlim_cur - own) / open : 0;
    return max > MIN_CONNECTIONS ? (unsigned)max : MIN_CONNECTIONS;
}

/* Opens the worker's part of a listener. The listener's connection limit counts
 * all workers together, so each of them may have all connections. */
static int open_listener(struct sl_worker *worker, int id)
{
    struct sl_daemon *daemon = worker->daemon;

    if (!daemon->listeners[id].open ||
        (sl_listener_is_admin(id) && worker->index > 0))
        return 0;
    return sl_listener_worker_open(
        worker, id,
        sl_listener_is_admin(id) ? ADMIN_CONNECTIONS : max_conns(daemon));
}

/* Listeners that close when the daemon drains: all but the admin listener. */
static bool drains(const struct sl_worker *worker, int id)
{
    return worker->listeners[id].server && !sl_listener_is_admin(id);
}

static void on_drain_timer(void *ctx)
{
    struct sl_worker *worker = ctx;
    unsigned left = 0;

    sl_wait_timer_end(&worker->waiting);
    for (int i = 0; i < SL_PROTOCOLS; i++) {
        if (!drains(worker, i))
            continue;
        if (!worker->idle_closed)
            sl_server_drain(worker->listeners[i].server);
        left += sl_listener_worker_count(&worker->listeners[i]);
    }
    worker->idle_closed = true;
    if (left == 0)
        atomic_store(&worker->empty, true);
    if (worker->index == 0)
        sl_lifecycle_drained(worker->daemon);
    if (left > 0 || worker->index == 0)
        sl_timer_start(worker->drain_timer, DRAIN_POLL);
}

static int open_worker(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    bool stopped = daemon->settings.virtual_clock;
    int err;

    sl_clock_init_real(&worker->clock);
    err = sl_loop_open(stopped ? &daemon->stopped : &worker->clock,
                       &worker->loop, &daemon->why);
    worker->engine_ctx.loop = worker->loop;
    if (!err)
        err =
            sl_wait_timer_open(&worker->waiting, worker->loop, daemon->engine);
    if (!err)
        worker->engine_ctx.room = &worker->waiting.room;
    if (!err)
        err = sl_remote_attach(worker);
    if (!err)
        err = sl_worker_open_subjects(worker);
    if (!err)
        err = sl_metrics_open(&sl_alloc_libc, &worker->stats);
    if (!err)
        err = sl_top_keys_open(&sl_alloc_libc, &daemon->top_secret,
                               sl_loop_now(worker->loop), &worker->top);
    if (!err)
        err = sl_denial_batch_open(&sl_alloc_libc, daemon->publisher.events,
                                   &worker->denials);
    if (!err)
        sl_metrics_watch(worker->stats, worker->top, worker->denials);
    if (!err)
        err = sl_timer_new(worker->loop, on_drain_timer, worker,
                           &worker->drain_timer);
    for (int i = 0; i < SL_PROTOCOLS && !err; i++)
        err = open_listener(worker, i);
    return err;
}

/* Detaches from the store first: pending takes complete while their servers
 * still exist. */
static void close_worker(struct sl_worker *worker)
{
    sl_wait_timer_close(&worker->waiting);
    sl_remote_detach(worker);
    for (int i = 0; i < SL_PROTOCOLS; i++)
        sl_listener_worker_close(&worker->listeners[i]);
    sl_timer_free(worker->drain_timer);
    sl_metrics_close(worker->stats);
    sl_top_keys_close(worker->top);
    sl_denial_batch_close(worker->denials);
    sl_loop_close(worker->loop);
}

/* ---- posted to a worker ---- */

static void on_set_tls(void *ctx)
{
    struct sl_worker *worker = ctx;

    for (int i = 0; i < SL_PROTOCOLS; i++) {
        struct sl_listener_worker *l = &worker->listeners[i];
        struct sl_tls *tls = atomic_exchange(&l->next_tls, NULL);

        if (tls && l->server)
            sl_server_set_tls(l->server, tls);
        sl_tls_unref(tls);
    }
}

void sl_worker_set_tls(struct sl_worker *worker, enum sl_protocol_id id,
                       struct sl_tls *tls)
{
    struct sl_listener_worker *l = &worker->listeners[id];

    if (!l->server)
        return;
    sl_tls_unref(atomic_exchange(&l->next_tls, sl_tls_ref(tls)));
    if (sl_loop_post(worker->loop, on_set_tls, worker))
        sl_log(SL_LOG_ERROR, "certificates not renewed", "why", "out of memory",
               NULL);
}

/* New clients must be refused at once, so that they try another server. Clients
 * in the socket's queue are connected already: accept them, because closing
 * would reset them. A socket of systemd stays open for the next daemon. */
static void stop_listening(struct sl_worker *worker, int id)
{
    const struct sl_sockets *sockets = &worker->daemon->listeners[id].sockets;
    struct sl_listener_worker *l = &worker->listeners[id];
    int fd = sockets->fds[worker->index];

    sl_listener_close(l->listener);
    l->listener = NULL;
    sl_listener_worker_accept_queued(l, fd);
    if (!sockets->activated)
        shutdown(fd, SHUT_RDWR);
}

static void on_drain(void *ctx)
{
    struct sl_worker *worker = ctx;

    for (int i = 0; i < SL_PROTOCOLS; i++) {
        if (!drains(worker, i))
            continue;
        stop_listening(worker, i);
        sl_server_announce_drain(worker->listeners[i].server);
    }
    sl_remote_drain(worker);
    sl_timer_start(worker->drain_timer, DRAIN_GRACE);
}

void sl_worker_drain(struct sl_worker *worker)
{
    if (worker->index == 0)
        on_drain(worker); /* this thread */
    else if (sl_loop_post(worker->loop, on_drain, worker))
        atomic_store(&worker->empty, true); /* then without a drain */
}

/* ---- all workers ---- */

/* One connection limit over all workers, in total and per address. */
static int open_limits(struct sl_daemon *daemon)
{
    int err = 0;

    for (int i = 0; i < SL_PROTOCOLS && !err; i++)
        if (daemon->listeners[i].open && !sl_listener_is_admin(i))
            err = sl_conn_limit_open(&sl_alloc_libc, max_conns(daemon),
                                     daemon->settings.connections_per_address,
                                     &daemon->listeners[i].server.limit);
    return err;
}

static int open_all(struct sl_daemon *daemon)
{
    int err = open_limits(daemon);

    for (unsigned i = 0; i < daemon->worker_count && !err; i++) {
        daemon->workers[i].daemon = daemon;
        daemon->workers[i].index = i;
        err = open_worker(&daemon->workers[i]);
    }
    return err;
}

int sl_workers_begin(struct sl_daemon *daemon)
{
    size_t size = daemon->settings.threads * sizeof(*daemon->workers);

    daemon->workers = sl_alloc_new(&sl_alloc_libc, size);
    if (!daemon->workers) {
        sl_diag_error(&daemon->why, SLUICE_ENOMEM, "out of memory");
        return SL_EXIT_FAILED;
    }
    memset(daemon->workers, 0, size);
    if (sl_hash_key_make(&daemon->top_secret)) {
        sl_diag_error(&daemon->why, SLUICE_ESYS,
                      "the system did not provide random bytes");
        return SL_EXIT_FAILED;
    }
    daemon->worker_count = daemon->settings.threads;
    if (!open_all(daemon))
        return 0;
    if (!daemon->why.sentence[0])
        sl_diag_error(&daemon->why, SLUICE_ENOMEM, "out of memory");
    return SL_EXIT_FAILED;
}

void sl_workers_end(struct sl_daemon *daemon)
{
    if (!daemon->workers)
        return;
    sl_subjects_stop(daemon);
    for (unsigned i = 0; i < daemon->worker_count; i++)
        close_worker(&daemon->workers[i]);
    sl_alloc_free(&sl_alloc_libc, daemon->workers,
                  daemon->worker_count * sizeof(*daemon->workers));
    daemon->workers = NULL;
    daemon->worker_count = 0;
}

static int listen_on(struct sl_worker *worker)
{
    int err = 0;

    for (int i = 0; i < SL_PROTOCOLS && !err; i++)
        if (worker->listeners[i].server)
            err = sl_listener_worker_listen(worker, i);
    return err;
}

static void *run(void *arg)
{
    struct sl_worker *worker = arg;

    sl_loop_run(worker->loop);
    return NULL;
}

/* Threads begin with the signals blocked that the main thread reads. */
int sl_workers_start(struct sl_daemon *daemon)
{
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        struct sl_worker *worker = &daemon->workers[i];
        int err = listen_on(worker);

        if (!err && i > 0) {
            err = pthread_create(&worker->thread, NULL, run, worker);
            worker->has_thread = !err;
        }
        if (err) {
            sl_diag_error(&daemon->why, SLUICE_ESYS,
                          "cannot start thread %u of %u; reduce --threads",
                          i + 1, daemon->worker_count);
            return SL_EXIT_FAILED;
        }
    }
    return 0;
}

void sl_workers_join(struct sl_daemon *daemon)
{
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        struct sl_worker *worker = &daemon->workers[i];

        if (!worker->has_thread)
            continue;
        sl_loop_stop(worker->loop);
        pthread_join(worker->thread, NULL);
        worker->has_thread = false;
    }
}
