/* server.c -- accept, connection limit, drain, token check and ops of all
 * protocols; the wait queues of a thread. */
#include "server/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/check.h"
#include "engine/request.h"

/* ---- connection limit ---- */

/* Trusted proxies speak for many clients: they are not limited by address. */
static bool is_trusted(struct sl_engine *engine, const struct sl_peer *peer)
{
    struct sl_active_policy *active;
    bool trusted;

    if (!engine)
        return false;
    active = sl_engine_ref_policy(engine, NULL);
    trusted = sl_peer_trusted(&active->policy->identity, peer);
    sl_active_policy_unref(active);
    return trusted;
}

/* Counts a new connection. NULL, or the reason of the refusal for metrics:
 * then it is not counted. */
static const char *count_conn(const struct sl_server_worker *worker,
                              const struct sl_address *peer,
                              struct sl_conn_count *ret)
{
    struct sl_conn_limit *limit = worker->server->limit;
    struct sl_peer from = {.is_unix = !peer || sl_address_is_unix(peer)};
    enum sl_conn_limit_answer answer;

    *ret = (struct sl_conn_count){.limit = NULL};
    if (!limit)
        return NULL;
    from.has_ip = peer && sl_address_ip(peer, &from.ip);
    ret->ip = from.ip;
    ret->by_address = from.has_ip && !is_trusted(worker->engine, &from);
    answer = sl_conn_limit_enter(limit, ret->by_address ? &ret->ip : NULL);
    if (answer == SL_CONN_LIMIT_IN) {
        ret->limit = limit;
        return NULL;
    }
    return answer == SL_CONN_LIMIT_FULL ? "too_many" : "too_many_of_address";
}

static void uncount_conn(const struct sl_conn_count *count)
{
    if (count->limit)
        sl_conn_limit_leave(count->limit,
                            count->by_address ? &count->ip : NULL);
}

/* ---- connections ---- */

static void count_open(struct sl_server_worker *worker, int change)
{
    atomic_fetch_add(&worker->load, (unsigned)change);
    if (worker->stats)
        sl_metrics_connection(worker->stats, worker->server->name, change);
}

void sl_server_count_refusal(const struct sl_server_worker *worker,
                             const char *reason)
{
    if (worker->stats)
        sl_metrics_refused(worker->stats, worker->server->name, reason);
}

/* Idle connections may last for days. The kernel finds peers that vanished. */
static void set_keepalive(int fd, unsigned seconds)
{
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
}

void sl_server_conn_free(struct sl_server_conn *c)
{
    const struct sl_server_worker *worker = c->worker;

    sl_alloc_free(worker->alloc, c, worker->server->protocol->conn_size);
}

static struct sl_server_conn *new_conn(struct sl_server_worker *worker)
{
    const struct sl_protocol *protocol = worker->server->protocol;
    struct sl_server_conn *c = sl_alloc_new(worker->alloc, protocol->conn_size);

    if (!c)
        return NULL;
    memset(c, 0, protocol->conn_size);
    c->worker = worker;
    c->handshaking = worker->tls != NULL;
    if (protocol->on_new && protocol->on_new(c)) {
        sl_server_conn_free(c);
        return NULL;
    }
    return c;
}

static int open_socket(struct sl_server_conn *c, int fd,
                       const struct sl_address *peer)
{
    struct sl_server_worker *worker = c->worker;
    const struct sl_protocol *protocol = worker->server->protocol;
    struct sl_conn_options options = {
        .calls = &protocol->calls,
        .owner = c,
        .in_most = protocol->max_in(worker->server),
        .out_most = protocol->max_out,
        .out_high = protocol->high_out,
        .tls = worker->tls,
        .alloc = worker->alloc,
    };

    if (protocol->tcp_keepalive > 0 && peer && !sl_address_is_unix(peer))
        set_keepalive(fd, protocol->tcp_keepalive);
    return sl_conn_open(worker->conns, fd, peer, &options, &c->conn);
}

void sl_server_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_server_worker *worker = ctx;
    const struct sl_protocol *protocol = worker->server->protocol;
    struct sl_conn_count count;
    const char *reason = count_conn(worker, peer, &count);
    struct sl_server_conn *c = reason ? NULL : new_conn(worker);

    if (!c) {
        uncount_conn(&count);
        sl_server_count_refusal(worker, reason ? reason : "no_memory");
        close(fd);
        return;
    }
    c->count = count;
    if (open_socket(c, fd, peer)) { /* which has closed fd */
        uncount_conn(&count);
        sl_server_count_refusal(worker, "too_many");
        if (protocol->on_new_failed)
            protocol->on_new_failed(c);
        sl_server_conn_free(c);
        return;
    }
    count_open(worker, +1);
    protocol->on_open(c);
}

void sl_server_on_close(struct sl_conn *conn)
{
    struct sl_server_conn *c = conn->owner;

    count_open(c->worker, -1);
    uncount_conn(&c->count);
    if (!c->worker->server->protocol->on_close(c))
        sl_server_conn_free(c);
}

/* ---- ops ---- */

struct sl_server_op *sl_server_op_new(struct sl_server_worker *worker)
{
    const struct sl_protocol *protocol = worker->server->protocol;
    struct sl_server_op *op = sl_alloc_new(worker->alloc, protocol->op_size);

    if (op)
        protocol->op_init(worker, op);
    return op;
}

void sl_server_op_free(struct sl_server_worker *worker, struct sl_server_op *op)
{
    const struct sl_protocol *protocol = worker->server->protocol;

    protocol->op_done(op);
    sl_alloc_free(worker->alloc, op, protocol->op_size);
}

void sl_server_op_suspend(struct sl_server_worker *worker,
                          struct sl_server_op *op)
{
    LIST_INSERT_HEAD(&worker->suspended, op, link);
}

void sl_server_op_resume(struct sl_server_op *op)
{
    LIST_REMOVE(op, link);
}

static void free_ops(struct sl_server_worker *worker, struct sl_server_ops *ops)
{
    struct sl_server_op *op;

    while ((op = LIST_FIRST(ops)) != NULL) {
        LIST_REMOVE(op, link);
        sl_server_op_free(worker, op);
    }
}

void sl_server_free_spare(struct sl_server_worker *worker)
{
    free_ops(worker, &worker->spare);
    worker->spare_count = 0;
}

/* ---- workers ---- */

void sl_server_worker_init(struct sl_server_worker *worker,
                           const struct sl_server *server,
                           struct sl_engine *engine, struct sl_metrics *stats,
                           const struct sl_alloc *alloc)
{
    static const struct sl_engine_ctx no_ctx;
    const struct sl_protocol *protocol = server->protocol;

    memset(worker, 0, protocol->worker_size);
    worker->server = server;
    worker->engine_ctx = &no_ctx;
    worker->stats = stats;
    worker->alloc = alloc ? alloc : &sl_alloc_libc;
    LIST_INIT(&worker->spare);
    LIST_INIT(&worker->suspended);
    if (protocol->worker_init)
        protocol->worker_init(worker);
    sl_server_set_engine(worker, engine);
}

int sl_server_worker_open(struct sl_server_worker *worker, struct sl_loop *loop,
                          unsigned max_conns, struct sl_diag *diag)
{
    int err;

    worker->loop = loop;
    sl_server_set_engine(worker, worker->engine);
    if (sl_hash_key_make(&worker->token_key))
        return sl_diag_error(diag, SLUICE_ESYS,
                             "the system did not provide random bytes");
    err = sl_conns_open(loop, max_conns, &worker->conns);
    return err ? sl_diag_error(diag, err, "out of memory") : 0;
}

void sl_server_worker_close(struct sl_server_worker *worker)
{
    sl_conns_close(worker->conns);
    worker->conns = NULL;
    sl_server_set_tls(worker, NULL);
    sl_server_free_spare(worker);
    free_ops(worker, &worker->suspended);
    if (worker->server->protocol->worker_done)
        worker->server->protocol->worker_done(worker);
}

void sl_server_set_tls(struct sl_server_worker *worker, struct sl_tls *tls)
{
    struct sl_tls *old = worker->tls;

    worker->tls = tls ? sl_tls_ref(tls) : NULL;
    sl_tls_unref(old);
}

void sl_server_set_engine(struct sl_server_worker *worker,
                          struct sl_engine *engine)
{
    sl_server_free_spare(worker); /* they hold the old engine's policy */
    worker->engine = engine;
    if (worker->server->protocol->worker_engine)
        worker->server->protocol->worker_engine(worker);
}

sl_ns sl_server_now(const struct sl_server_worker *worker)
{
    return worker->loop ? sl_loop_now(worker->loop) : worker->still;
}

/* ---- drain ---- */

void sl_server_announce_drain(struct sl_server_worker *worker)
{
    worker->draining = true;
    if (worker->server->protocol->on_announce_drain)
        worker->server->protocol->on_announce_drain(worker);
}

static void drain_conn(struct sl_conn *conn, void *ctx)
{
    struct sl_server_conn *c = conn->owner;

    (void)ctx;
    c->worker->server->protocol->on_drain(c);
}

void sl_server_drain(struct sl_server_worker *worker)
{
    worker->draining = true;
    sl_conns_shorten_linger(worker->conns);
    sl_conns_each(worker->conns, drain_conn, NULL);
}

/* ---- tokens ---- */

static bool is_token(const struct sl_server_worker *worker,
                     struct sl_str expected, struct sl_str token)
{
    const struct sl_hash_key *key = &worker->token_key;
    struct sl_hash128 shown = sl_hash128(key, token);
    struct sl_hash128 own = sl_hash128(key, expected);

    return CRYPTO_memcmp(&shown, &own, sizeof(own)) == 0;
}

bool sl_server_token_ok(const struct sl_server_worker *worker,
                        struct sl_str token)
{
    return is_token(worker, worker->server->token, token);
}

bool sl_server_read_token_ok(const struct sl_server_worker *worker,
                             struct sl_str token)
{
    const struct sl_server *server = worker->server;

    return server->read_token.len > 0 &&
           is_token(worker, server->read_token, token);
}

struct sl_str sl_server_bearer(struct sl_str value)
{
    static const struct sl_str scheme = {"Bearer ", 7};

    if (value.len <= scheme.len ||
        !sl_str_eq_nocase((struct sl_str){value.at, scheme.len}, scheme))
        return (struct sl_str){NULL, 0};
    return sl_str_trim(sl_str_from(value, scheme.len));
}

bool sl_server_admits(const struct sl_server_worker *worker, bool has_token,
                      bool has_cert)
{
    const struct sl_server *server = worker->server;

    if (server->token.len == 0 && !server->accepts_client_cert)
        return true;
    return (server->token.len > 0 && has_token) ||
           (server->accepts_client_cert && has_cert);
}

/* ---- wait queues of a thread ---- */

/* Serve waiters whose time has come. */
static void on_wake(void *ctx)
{
    struct sl_wait_timer *waiting = ctx;

    if (waiting->loop) /* NULL: closed after the wake-up was posted */
        sl_wait_timer_now(waiting, sl_loop_now(waiting->loop));
}

static bool wake(struct sl_wait_thread *thread)
{
    struct sl_wait_timer *waiting = thread->ctx;

    return sl_loop_post(waiting->loop, on_wake, waiting) == 0;
}

void sl_wait_timer_now(struct sl_wait_timer *waiting, sl_ns now)
{
    sl_ns next = sl_wait_thread_serve(&waiting->room, now);

    if (next < 0)
        sl_timer_stop(waiting->timer);
    else
        sl_timer_start(waiting->timer, next > now ? next - now : 0);
}

int sl_wait_timer_open(struct sl_wait_timer *waiting, struct sl_loop *loop,
                       struct sl_engine *engine)
{
    waiting->loop = loop;
    sl_wait_thread_init(&waiting->room, sl_engine_queues(engine), wake,
                        waiting);
    return sl_timer_new(loop, on_wake, waiting, &waiting->timer);
}

void sl_wait_timer_end(struct sl_wait_timer *waiting)
{
    sl_wait_thread_done(&waiting->room);
    sl_wait_thread_init(&waiting->room, NULL, wake, waiting);
}

void sl_wait_timer_engine(struct sl_wait_timer *waiting,
                          struct sl_engine *engine)
{
    sl_wait_timer_end(waiting);
    sl_wait_thread_init(&waiting->room, sl_engine_queues(engine), wake,
                        waiting);
}

void sl_wait_timer_close(struct sl_wait_timer *waiting)
{
    if (!waiting->loop)
        return;
    sl_wait_timer_end(waiting);
    sl_timer_free(waiting->timer);
    waiting->timer = NULL;
    waiting->loop = NULL;
}
