/* workers.c -- one thread and one loop each.
 *
 * Every worker has its own socket of the http door, its own clock, its own
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

/* So many that accepting stops before descriptors run out. */
unsigned sl_connections_most(const struct sl_daemon *daemon)
{
    unsigned threads = daemon->settings.threads;
    rlim_t own = OWN_DESCRIPTORS + DESCRIPTORS_PER_WORKER * (rlim_t)threads;
    rlim_t most = daemon->settings.connections;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < own + most)
        most = limit.rlim_cur > own ? limit.rlim_cur - own : 0;
    return most > CONNECTIONS_LEAST ? (unsigned)most : CONNECTIONS_LEAST;
}

static int open_doors(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    int err = 0;

    if (daemon->http.open) {
        err = sl_http_worker_open(&worker->http, &daemon->http.door,
                                  worker->loop, daemon->engine, worker->stats,
                                  sl_connections_most(daemon), &daemon->why);
        worker->http_up = !err;
        worker->http.station = &worker->station;
        if (!err)
            sl_http_worker_tls(&worker->http, daemon->http.tls);
    }
    if (!err && daemon->admin.open && worker->index == 0) {
        err = sl_http_worker_open(&worker->admin, &daemon->admin.door,
                                  worker->loop, daemon->engine, worker->stats,
                                  ADMIN_CONNECTIONS, &daemon->why);
        worker->admin_up = !err;
        if (!err)
            sl_http_worker_tls(&worker->admin, daemon->admin.tls);
    }
    return err;
}

static void on_emptying(void *ctx)
{
    struct sl_worker *worker = ctx;
    unsigned left;

    if (worker->http_up && !worker->idle_closed)
        sl_http_drain(&worker->http);
    worker->idle_closed = true;
    left = worker->http_up ? sl_conns_count(worker->http.conns) : 0;
    if (left == 0)
        atomic_store(&worker->empty, true);
    if (worker->index == 0)
        sl_living_emptied(worker->daemon);
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
        err = sl_worker_finds(worker);
    if (!err)
        err = sl_stats_open(&sl_alloc_libc, &worker->stats);
    if (!err)
        err = sl_top_open(&sl_alloc_libc, &daemon->top_secret,
                          sl_loop_now(worker->loop), &worker->top);
    if (!err)
        sl_stats_watch(worker->stats, worker->top);
    if (!err)
        err =
            sl_timer_new(worker->loop, on_emptying, worker, &worker->emptying);
    if (!err)
        err = open_doors(worker);
    return err;
}

static void close_worker(struct sl_worker *worker)
{
    sl_listener_close(worker->http_listener);
    sl_listener_close(worker->admin_listener);
    if (worker->http_up)
        sl_http_worker_close(&worker->http);
    if (worker->admin_up)
        sl_http_worker_close(&worker->admin);
    sl_tls_unref(atomic_exchange(&worker->next_tls, NULL));
    sl_timer_free(worker->emptying);
    sl_stats_close(worker->stats);
    sl_top_close(worker->top);
    sl_loop_close(worker->loop);
}

/* ---- errands ---- */

static void on_certify(void *ctx)
{
    struct sl_worker *worker = ctx;
    struct sl_tls *tls = atomic_exchange(&worker->next_tls, NULL);

    if (tls && worker->http_up)
        sl_http_worker_tls(&worker->http, tls);
    sl_tls_unref(tls);
}

void sl_worker_certify(struct sl_worker *worker, struct sl_tls *tls)
{
    sl_tls_unref(atomic_exchange(&worker->next_tls, sl_tls_ref(tls)));
    if (sl_loop_post(worker->loop, on_certify, worker))
        sl_log(SL_LOG_ERROR, "certificates not renewed", "why", "no memory",
               NULL);
}

/* Whoever is in the queue of the socket has connected, and will be reset if it
 * is closed: let him in. */
static void accept_rest(struct sl_worker *worker)
{
    int fd = worker->daemon->http.sockets.fds[worker->index];
    struct sl_address peer = {.len = sizeof(peer.bytes)};
    int client;

    while ((client = accept4(fd, (struct sockaddr *)&peer.bytes, &peer.len,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        sl_http_accept(&worker->http, client, &peer);
        peer = (struct sl_address){.len = sizeof(peer.bytes)};
    }
}

/* Who comes now is to be refused at once, and to try elsewhere, instead of
 * waiting for an answer that nobody gives. A socket of systemd's is left as it
 * is: whoever comes waits for the next of us. */
static void stop_listening(struct sl_worker *worker)
{
    const struct sl_sockets *sockets = &worker->daemon->http.sockets;

    accept_rest(worker);
    if (!sockets->activated)
        shutdown(sockets->fds[worker->index], SHUT_RDWR);
}

static void on_drain(void *ctx)
{
    struct sl_worker *worker = ctx;

    sl_listener_close(worker->http_listener);
    worker->http_listener = NULL;
    if (worker->http_up) {
        stop_listening(worker);
        worker->http.draining = true; /* from now on, answers say so */
    }
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

int sl_workers_begin(struct sl_daemon *daemon)
{
    size_t size = daemon->settings.threads * sizeof(*daemon->workers);

    daemon->workers = sl_alloc_new(&sl_alloc_libc, size);
    if (!daemon->workers) {
        sl_refuse(&daemon->why, SLUICE_ENOMEM, "there is no memory");
        return SL_EXIT_FAILED;
    }
    memset(daemon->workers, 0, size);
    if (sl_hash_key_make(&daemon->top_secret)) {
        sl_refuse(&daemon->why, SLUICE_ESYS,
                  "the system gives no random bytes");
        return SL_EXIT_FAILED;
    }
    daemon->worker_count = daemon->settings.threads;
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        daemon->workers[i].daemon = daemon;
        daemon->workers[i].index = i;
        if (open_worker(&daemon->workers[i])) {
            if (!daemon->why.sentence[0])
                sl_refuse(&daemon->why, SLUICE_ENOMEM, "there is no memory");
            return SL_EXIT_FAILED;
        }
    }
    return 0;
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
    struct sl_daemon *daemon = worker->daemon;
    int err = 0;

    if (worker->http_up)
        err = sl_listener_open(
            worker->loop, daemon->http.sockets.fds[worker->index],
            sl_http_accept, &worker->http, &worker->http_listener);
    if (!err && worker->http_up)
        sl_listener_watch(worker->http_listener, &worker->paused);
    if (!err && worker->admin_up)
        err = sl_listener_open(worker->loop, daemon->admin.sockets.fds[0],
                               sl_http_accept, &worker->admin,
                               &worker->admin_listener);
    if (!err && worker->admin_up)
        sl_listener_watch(worker->admin_listener, &worker->paused);
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
            sl_refuse(&daemon->why, SLUICE_ESYS,
                      "thread %u of %u can't be started; ask for fewer by "
                      "--threads",
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
