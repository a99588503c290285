/* worker.c -- one thread and one loop each.
 *
 * Every worker has its own socket of each door, its own clock, its own
 * counters. They share the table, which needs no lock, and the engine, whose
 * policy each holds for itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sluiced/daemon.h"

#define LOOK_AGAIN (10 * SL_MS)

/* What has been sent already is read within this, before connections that seem
 * to be idle are closed. */
#define GRACE (50 * SL_MS)

/* Descriptors that are not connections: standard ones, state, loops, sockets,
 * and some to spare. */
#define OWN_DESCRIPTORS        24
#define DESCRIPTORS_PER_WORKER 8
#define CONNECTIONS_LEAST      4
#define ADMIN_CONNECTIONS      64

/* ---- one worker ---- */

static unsigned open_doors_of(const struct sl_daemon *daemon)
{
    unsigned count = 0;

    for (int i = 0; i < SL_PROTOCOLS; i++)
        count += daemon->doors[i].open && !sl_protocols[i]->operates;
    return count;
}

/* At each door so many that accepting stops before descriptors run out. */
static unsigned connections_most(const struct sl_daemon *daemon)
{
    unsigned threads = daemon->worker_count;
    unsigned doors = open_doors_of(daemon);
    rlim_t own = OWN_DESCRIPTORS + DESCRIPTORS_PER_WORKER * (rlim_t)threads;
    rlim_t most = daemon->settings.connections;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur < own + most * doors)
        most = limit.rlim_cur > own ? (limit.rlim_cur - own) / doors : 0;
    return most > CONNECTIONS_LEAST ? (unsigned)most : CONNECTIONS_LEAST;
}

/* Where all loops count together, each may have all there are. */
static unsigned connections_each(const struct sl_daemon *daemon,
                                 const struct sl_server_listener *way)
{
    unsigned most = connections_most(daemon);

    if (way->crowd)
        return most;
    most /= daemon->worker_count;
    return most > CONNECTIONS_LEAST ? most : CONNECTIONS_LEAST;
}

static int open_stand(struct sl_worker *worker, enum sl_protocol_id door)
{
    struct sl_daemon *daemon = worker->daemon;
    const struct sl_protocol *kind = sl_protocols[door];
    const struct sl_server_listener *way = &daemon->doors[door];
    struct sl_listener_worker *stand = &worker->stands[door];
    int err;

    if (!way->open || (kind->operates && worker->index > 0))
        return 0;
    err = kind->open(stand, worker, way,
                     kind->operates ? ADMIN_CONNECTIONS
                                    : connections_each(daemon, way));
    stand->up = !err;
    if (!err)
        kind->certify(stand, way->tls);
    if (!err && daemon->settings.proxied[door])
        err = sl_proxy_listeners_open(worker, kind, stand);
    return err;
}

/* All doors that close when it ends; the admin listener is not one of them. */
static bool drains(const struct sl_worker *worker, int door)
{
    return worker->stands[door].up && !sl_protocols[door]->operates;
}

static void on_emptying(void *ctx)
{
    struct sl_worker *worker = ctx;
    unsigned left = 0;

    sl_wait_timer_end(&worker->waiting);
    for (int i = 0; i < SL_PROTOCOLS; i++) {
        if (!drains(worker, i))
            continue;
        if (!worker->idle_closed)
            sl_protocols[i]->drain(&worker->stands[i]);
        left += sl_protocols[i]->count(&worker->stands[i]) +
                sl_proxy_listeners_count(worker->stands[i].proxied);
    }
    worker->idle_closed = true;
    if (left == 0)
        atomic_store(&worker->empty, true);
    if (worker->index == 0)
        sl_lifecycle_drained(worker->daemon);
    if (left > 0 || worker->index == 0)
        sl_timer_start(worker->emptying, LOOK_AGAIN);
}

static int open_worker(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    bool stopped = daemon->settings.virtual_clock;
    int err;

    sl_clock_init_real(&worker->clock);
    err = sl_loop_open(stopped ? &daemon->stopped : &worker->clock,
                       &worker->loop, &daemon->why);
    worker->station.loop = worker->loop;
    if (!err)
        err =
            sl_wait_timer_open(&worker->waiting, worker->loop, daemon->engine);
    if (!err)
        worker->station.room = &worker->waiting.room;
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
        err = sl_denial_batch_open(&sl_alloc_libc, daemon->tidings.events,
                                   &worker->denials);
    if (!err)
        sl_metrics_watch(worker->stats, worker->top, worker->denials);
    if (!err)
        err =
            sl_timer_new(worker->loop, on_emptying, worker, &worker->emptying);
    for (int i = 0; i < SL_PROTOCOLS && !err; i++)
        err = open_stand(worker, (enum sl_protocol_id)i);
    return err;
}

static void close_stand(struct sl_listener_worker *stand,
                        const struct sl_protocol *kind)
{
    sl_listener_close(stand->listener);
    sl_proxy_listeners_close(stand->proxied);
    if (stand->up)
        kind->close(stand);
    sl_tls_unref(atomic_exchange(&stand->next_tls, NULL));
}

/* The seat first: whoever still waits for the store is told, and his door is
 * there to hear it. */
static void close_worker(struct sl_worker *worker)
{
    sl_wait_timer_close(&worker->waiting);
    sl_remote_detach(worker);
    for (int i = 0; i < SL_PROTOCOLS; i++)
        close_stand(&worker->stands[i], sl_protocols[i]);
    sl_timer_free(worker->emptying);
    sl_metrics_close(worker->stats);
    sl_top_keys_close(worker->top);
    sl_denial_batch_close(worker->denials);
    sl_loop_close(worker->loop);
}

/* Who takes the connections of a stand: its door, or somebody before it.
 * Returns his ctx. */
static void *entrance(struct sl_listener_worker *stand, int door,
                      sl_accept_f **ret)
{
    *ret = stand->proxied ? sl_proxy_listeners_accept : NULL;
    if (stand->proxied)
        return stand->proxied;
    if (sl_protocols[door])
        *ret = sl_protocols[door]->accept;
    return stand;
}

/* ---- errands ---- */

static void on_certify(void *ctx)
{
    struct sl_worker *worker = ctx;

    for (int i = 0; i < SL_PROTOCOLS; i++) {
        struct sl_listener_worker *stand = &worker->stands[i];
        struct sl_tls *tls = atomic_exchange(&stand->next_tls, NULL);

        if (tls && stand->up)
            sl_protocols[i]->certify(stand, tls);
        sl_tls_unref(tls);
    }
}

void sl_worker_set_tls(struct sl_worker *worker, enum sl_protocol_id door,
                       struct sl_tls *tls)
{
    struct sl_listener_worker *stand = &worker->stands[door];

    if (!stand->up)
        return;
    sl_tls_unref(atomic_exchange(&stand->next_tls, sl_tls_ref(tls)));
    if (sl_loop_post(worker->loop, on_certify, worker))
        sl_log(SL_LOG_ERROR, "certificates not renewed", "why", "out of memory",
               NULL);
}

/* Whoever is in the queue of the socket has connected, and will be reset if it
 * is closed: let him in. */
static void accept_rest(sl_accept_f *accept, void *ctx, int fd)
{
    struct sl_address peer = {.len = sizeof(peer.bytes)};
    int client;

    while ((client = accept4(fd, (struct sockaddr *)&peer.bytes, &peer.len,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        accept(ctx, client, &peer);
        peer = (struct sl_address){.len = sizeof(peer.bytes)};
    }
}

/* Who comes now is to be refused at once, and to try elsewhere, instead of
 * waiting for an answer that nobody gives. A socket of systemd's is left as it
 * is: whoever comes waits for the next of us. */
static void stop_listening(struct sl_worker *worker, int door)
{
    const struct sl_sockets *sockets = &worker->daemon->doors[door].sockets;
    int fd = sockets->fds[worker->index];

    sl_accept_f *accept;
    void *ctx = entrance(&worker->stands[door], door, &accept);

    sl_listener_close(worker->stands[door].listener);
    worker->stands[door].listener = NULL;
    accept_rest(accept, ctx, fd);
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
        sl_protocols[i]->warn(&worker->stands[i]);
    }
    sl_remote_drain(worker);
    sl_timer_start(worker->emptying, GRACE);
}

void sl_worker_drain(struct sl_worker *worker)
{
    if (worker->index == 0)
        on_drain(worker); /* we are there */
    else if (sl_loop_post(worker->loop, on_drain, worker))
        atomic_store(&worker->empty, true); /* then without good manners */
}

/* ---- all of them ---- */

/* One cap over all loops, and one for each address. */
static int count_crowds(struct sl_daemon *daemon)
{
    int err = 0;

    for (int i = 0; i < SL_PROTOCOLS && !err; i++) {
        struct sl_server_listener *way = &daemon->doors[i];

        if (way->open && sl_protocols[i]->gather)
            err = sl_conn_limit_open(&sl_alloc_libc, connections_most(daemon),
                                     daemon->settings.connections_per_address,
                                     &way->crowd);
        if (!err && way->crowd)
            sl_protocols[i]->gather(way);
    }
    return err;
}

static int open_all(struct sl_daemon *daemon)
{
    int err = count_crowds(daemon);

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

    for (int i = 0; i < SL_PROTOCOLS && !err; i++) {
        struct sl_listener_worker *stand = &worker->stands[i];
        sl_accept_f *accept;
        void *ctx = entrance(stand, i, &accept);

        if (!stand->up)
            continue;
        err = sl_listener_open(
            worker->loop, worker->daemon->doors[i].sockets.fds[worker->index],
            accept, ctx, &stand->listener);
        if (!err)
            sl_listener_watch(stand->listener, &worker->paused);
    }
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
