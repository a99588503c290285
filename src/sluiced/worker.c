/* worker.c -- worker threads, one loop each.
 *
 * Every worker has its own socket of each listener, its own clock and its own
 * metrics. A worker hands new connections to one that has fewer. Workers share
 * the table, which needs no lock, and the engine, whose policy each of them
 * holds for itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/request.h"
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

/* ---- a worker's part of a listener ---- */

/* The active policy decides which proxies are trusted: a reload applies to new
 * connections. */
static bool trusts(void *ctx, const struct sl_address *peer)
{
    const struct sl_listener_worker *l = ctx;
    struct sl_active_policy *active =
        sl_engine_ref_policy(l->worker->daemon->engine, NULL);
    struct sl_peer from = {.is_unix = sl_address_is_unix(peer)};
    bool trusted;

    from.has_ip = sl_address_ip(peer, &from.ip);
    trusted = sl_peer_trusted(&active->policy->identity, &from);
    sl_active_policy_unref(active);
    return trusted;
}

static void on_refused(void *ctx, const struct sl_address *peer,
                       const char *why)
{
    const struct sl_listener_worker *l = ctx;
    const char *name = l->server->server->name;
    char where[128];

    sl_address_print(peer, where, sizeof(where));
    sl_metrics_refused(l->worker->stats, name, "proxy_header");
    sl_log(SL_LOG_WARN, "connection rejected", "door", name, "peer", where,
           "why", why, NULL);
}

/* ---- spreading connections over the workers ----
 *
 * The kernel chooses a worker's socket by a hash of the addresses. With few
 * connections, as proxies open them, one worker would often have all of them.
 * So a worker that has more connections than another one hands the next over.
 * Connections stay where they were opened.
 *
 *     accepted --> PROXY header --> serve() --------------> sl_server_accept()
 *                                     +-- post --> on_handed_over() --^
 *
 * `load` of a server worker has its connections and those on their way to it;
 * it is above SL_LOAD_CLOSED after the worker has begun to drain, and nothing
 * is handed to it then.
 */

struct handed_over {
    struct sl_listener_worker *to;
    int fd;
    struct sl_address peer;
};

static void on_handed_over(void *ctx)
{
    struct handed_over *h = ctx;
    struct sl_listener_worker *l = h->to;

    atomic_fetch_sub(&l->server->load, 1);
    sl_server_accept(l->server, h->fd, &h->peer); /* counts it again */
    sl_alloc_free(&sl_alloc_libc, h, sizeof(*h));
    if (l->worker->idle_closed)
        sl_server_drain(l->server);
}

/* Reserves a place at the worker with the fewest connections. Returns NULL if
 * this one has at most an eighth more. */
static struct sl_listener_worker *less_loaded(struct sl_listener_worker *own)
{
    struct sl_worker *worker = own->worker;
    struct sl_daemon *daemon = worker->daemon;
    ptrdiff_t id = own - worker->listeners;

    for (;;) {
        unsigned least = atomic_load(&own->server->load);
        struct sl_listener_worker *to = NULL;

        if (least >= SL_LOAD_CLOSED)
            return NULL;
        for (unsigned i = 0; i < daemon->worker_count; i++) {
            struct sl_listener_worker *l = &daemon->workers[i].listeners[id];
            unsigned load = l->server ? atomic_load(&l->server->load) : least;

            if (load + load / 8 < least) {
                to = l;
                least = load;
            }
        }
        if (!to || atomic_compare_exchange_strong(&to->server->load, &least,
                                                  least + 1))
            return to;
    }
}

/* Serves a connection here, or at a worker that has fewer. */
static void serve(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_listener_worker *l = ctx, *to = less_loaded(l);
    struct handed_over *h = NULL;

    if (to)
        h = sl_alloc_new(&sl_alloc_libc, sizeof(*h));
    if (h) {
        *h = (struct handed_over){.to = to, .fd = fd, .peer = *peer};
        if (sl_loop_post(to->worker->loop, on_handed_over, h) == 0)
            return;
        sl_alloc_free(&sl_alloc_libc, h, sizeof(*h));
    }
    if (to)
        atomic_fetch_sub(&to->server->load, 1);
    sl_server_accept(l->server, fd, peer);
}

/* Passes a connection to the PROXY protocol, or to a server. */
static void on_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_listener_worker *l = ctx;

    if (l->proxy)
        sl_proxy_accept_accept(l->proxy, fd, peer);
    else
        serve(l, fd, peer);
}

static unsigned count_open(const struct sl_daemon *daemon)
{
    unsigned count = 0;

    for (int i = 0; i < SL_PROTOCOLS; i++)
        count += daemon->listeners[i].open && i < SL_PROTOCOL_ADMIN;
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

/* The admin listener runs on the first worker only. The connection limit of a
 * listener counts all workers together, so each of them may have all
 * connections. */
static int open_listener(struct sl_worker *worker, int id)
{
    struct sl_daemon *daemon = worker->daemon;
    const struct sl_server *server = &daemon->listeners[id].server;
    struct sl_listener_worker *l = &worker->listeners[id];
    bool admin = id >= SL_PROTOCOL_ADMIN;
    struct sl_proxy_accept_options proxy = {
        .on_accept = serve,
        .server = l,
        .trusts = trusts,
        .on_refused = on_refused,
        .ctx = l,
        .alloc = &sl_alloc_libc,
    };
    int err;

    if (!daemon->listeners[id].open || (admin && worker->index > 0))
        return 0;
    l->worker = worker;
    l->server = sl_alloc_new(&sl_alloc_libc, server->protocol->worker_size);
    if (!l->server)
        return SLUICE_ENOMEM;
    sl_server_worker_init(l->server, server, daemon->engine, worker->stats,
                          NULL);
    l->server->engine_ctx = &worker->engine_ctx;
    err = sl_server_worker_open(l->server, worker->loop,
                                admin ? ADMIN_CONNECTIONS : max_conns(daemon),
                                &daemon->why);
    if (!err)
        sl_server_set_tls(l->server, daemon->listeners[id].tls);
    if (!err && daemon->settings.proxied[id])
        err = sl_proxy_accept_open(worker->loop, &proxy, &l->proxy);
    return err;
}

static void close_listener(struct sl_listener_worker *l)
{
    sl_listener_close(l->listener);
    sl_proxy_accept_close(l->proxy);
    if (l->server) {
        size_t size = l->server->server->protocol->worker_size;

        sl_server_worker_close(l->server);
        sl_alloc_free(&sl_alloc_libc, l->server, size);
    }
    sl_tls_unref(atomic_exchange(&l->next_tls, NULL));
}

static int listen_on(struct sl_worker *worker)
{
    int err = 0;

    for (int i = 0; i < SL_PROTOCOLS && !err; i++) {
        struct sl_listener_worker *l = &worker->listeners[i];
        int fd = worker->daemon->listeners[i].sockets.fds[worker->index];

        if (!l->server)
            continue;
        err = sl_listener_open(worker->loop, fd, on_accept, l, &l->listener);
        if (!err)
            sl_listener_watch(l->listener, &worker->paused);
    }
    return err;
}

/* ---- one worker ---- */

/* Listeners that close when the daemon drains: all without the admin API. */
static bool drains(const struct sl_worker *worker, int id)
{
    return worker->listeners[id].server && id < SL_PROTOCOL_ADMIN;
}

/* Connections without a complete PROXY header, and those that other workers
 * have handed over, count, too. */
static void on_drain_timer(void *ctx)
{
    struct sl_worker *worker = ctx;
    unsigned left = 0;

    sl_wait_timer_end(&worker->waiting);
    for (int i = 0; i < SL_PROTOCOLS; i++) {
        struct sl_listener_worker *l = &worker->listeners[i];

        if (!drains(worker, i))
            continue;
        if (!worker->idle_closed)
            sl_server_drain(l->server);
        left += (atomic_load(&l->server->load) & ~SL_LOAD_CLOSED) +
                (l->proxy ? sl_proxy_accept_count(l->proxy) : 0);
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
    struct sl_store *store = daemon->remote.store;
    struct sl_clock *clock =
        daemon->settings.virtual_clock ? &daemon->stopped : &worker->clock;
    const struct sl_alloc *alloc = &sl_alloc_libc;
    int err = 0;

    sl_clock_init_real(&worker->clock);
    if (sl_loop_open(clock, &worker->loop, &daemon->why))
        return SLUICE_ESYS;
    worker->engine_ctx.loop = worker->loop;
    if (sl_wait_timer_open(&worker->waiting, worker->loop, daemon->engine))
        return SLUICE_ENOMEM;
    worker->engine_ctx.wait_thread = &worker->waiting.room;
    if ((store && sl_remote_store_attach(store, worker->loop, &daemon->why)) ||
        sl_worker_open_subjects(worker) ||
        sl_metrics_open(alloc, &worker->stats) ||
        sl_top_keys_open(alloc, &daemon->top_secret, sl_loop_now(worker->loop),
                         &worker->top) ||
        sl_denial_batch_open(alloc, daemon->publisher.events,
                             &worker->denials) ||
        sl_denial_ring_open(alloc, &worker->ring) ||
        sl_recorder_open(alloc, &daemon->top_secret, &worker->recorder) ||
        sl_timer_new(worker->loop, on_drain_timer, worker,
                     &worker->drain_timer))
        return SLUICE_ENOMEM;
    sl_metrics_watch(worker->stats, worker->top, worker->denials, worker->ring,
                     worker->recorder);
    for (int i = 0; i < SL_PROTOCOLS && !err; i++)
        err = open_listener(worker, i);
    return err;
}

/* Detaches from the store first: pending takes complete while their servers
 * still exist. */
static void close_worker(struct sl_worker *worker)
{
    struct sl_store *store = worker->daemon->remote.store;

    sl_wait_timer_close(&worker->waiting);
    if (store && worker->loop)
        sl_remote_store_detach(store, worker->loop);
    for (int i = 0; i < SL_PROTOCOLS; i++)
        close_listener(&worker->listeners[i]);
    sl_timer_free(worker->drain_timer);
    sl_metrics_close(worker->stats);
    sl_top_keys_close(worker->top);
    sl_denial_batch_close(worker->denials);
    sl_denial_ring_close(worker->ring);
    sl_recorder_close(worker->recorder);
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

void sl_worker_set_tls(struct sl_worker *worker, int id, struct sl_tls *tls)
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
    struct sl_address peer = {.len = sizeof(peer.bytes)};
    int client, fd = sockets->fds[worker->index];

    atomic_fetch_or(&l->server->load, SL_LOAD_CLOSED);
    sl_listener_close(l->listener);
    l->listener = NULL;
    while ((client = accept4(fd, (struct sockaddr *)&peer.bytes, &peer.len,
                             SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        on_accept(l, client, &peer);
        peer = (struct sl_address){.len = sizeof(peer.bytes)};
    }
    if (!sockets->activated)
        shutdown(fd, SHUT_RDWR);
}

static void on_drain(void *ctx)
{
    struct sl_worker *worker = ctx;
    struct sl_store *store = worker->daemon->remote.store;

    for (int i = 0; i < SL_PROTOCOLS; i++) {
        if (!drains(worker, i))
            continue;
        stop_listening(worker, i);
        sl_server_announce_drain(worker->listeners[i].server);
    }
    if (store) /* leases are returned */
        sl_remote_store_drain(store, worker->loop, sl_loop_now(worker->loop));
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
        if (daemon->listeners[i].open && i < SL_PROTOCOL_ADMIN)
            err = sl_conn_limit_open(&sl_alloc_libc, max_conns(daemon),
                                     daemon->settings.connections_per_address,
                                     &daemon->listeners[i].server.limit);
    return err;
}

int sl_workers_begin(struct sl_daemon *daemon)
{
    size_t size = daemon->settings.threads * sizeof(*daemon->workers);
    int err;

    daemon->workers = sl_alloc_new(&sl_alloc_libc, size);
    if (!daemon->workers)
        return sl_daemon_no_memory(daemon);
    memset(daemon->workers, 0, size);
    daemon->worker_count = daemon->settings.threads;
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        daemon->workers[i].daemon = daemon;
        daemon->workers[i].index = i;
    }
    if (sl_hash_key_make(&daemon->top_secret))
        return sl_diag_error(&daemon->why, SL_EXIT_FAILED,
                             "the system did not provide random bytes");
    err = open_limits(daemon);
    for (unsigned i = 0; i < daemon->worker_count && !err; i++)
        err = open_worker(&daemon->workers[i]);
    if (err && !daemon->why.sentence[0])
        return sl_daemon_no_memory(daemon);
    return err ? SL_EXIT_FAILED : 0;
}

void sl_workers_end(struct sl_daemon *daemon)
{
    if (!daemon->workers)
        return;
    sl_denials_flush(daemon);
    sl_subjects_stop(daemon);
    for (unsigned i = 0; i < daemon->worker_count; i++)
        close_worker(&daemon->workers[i]);
    sl_alloc_free(&sl_alloc_libc, daemon->workers,
                  daemon->worker_count * sizeof(*daemon->workers));
    daemon->workers = NULL;
    daemon->worker_count = 0;
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
        if (err)
            return sl_diag_error(
                &daemon->why, SL_EXIT_FAILED,
                "cannot start thread %u of %u; reduce --threads", i + 1,
                daemon->worker_count);
    }
    sl_usage_reached_start(daemon);
    return 0;
}

void sl_workers_run_posts(struct sl_daemon *daemon)
{
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        struct sl_loop *loop = daemon->workers[i].loop;

        if (!loop)
            continue;
        sl_loop_stop(loop);
        sl_loop_run(loop);
    }
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
    sl_workers_run_posts(daemon); /* connections that were handed over last */
}
