/* server.h -- what the protocols HTTP, gRPC and RESP have in common.
 *
 *     accept --> connection limit --> conn --> protocol: on_open, on_input, ...
 *
 * A server is one listener's settings and its protocol. Each worker thread
 * serves it with a server worker, which only that thread touches. The protocol
 * defines its own worker, connection and operation structs; each of them
 * begins with the struct of the same name below.
 *
 * An operation (op) is one request that the engine decides. Workers reuse ops.
 * An op is suspended while a store answers later, and survives its connection.
 */
#ifndef SL_SERVER_SERVER_H
#define SL_SERVER_SERVER_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "engine/wait.h"
#include "net/address.h"
#include "net/conn.h"
#include "net/listener.h"
#include "net/loop.h"
#include "server/metrics.h"

struct sl_http_path;
struct sl_server;
struct sl_server_conn;
struct sl_server_op;
struct sl_server_worker;
struct sl_usage_page;

/* ---- protocols ---- */

struct sl_protocol {
    size_t worker_size, conn_size, op_size;
    unsigned max_spare_ops;
    size_t max_out;         /* bytes waiting to be sent on a connection */
    size_t high_out;        /* above this, nothing is read */
    bool http2;             /* offer h2 by ALPN */
    unsigned tcp_keepalive; /* seconds of silence before a probe; 0: none */

    /* Bytes of unread input of a connection. */
    size_t (*max_in)(const struct sl_server *server);

    /* The worker is zeroed and its common part is set. May be NULL. */
    void (*worker_init)(struct sl_server_worker *worker);
    /* worker->engine or worker->loop has changed. May be NULL. */
    void (*worker_engine)(struct sl_server_worker *worker);
    /* No connection and no op is left. May be NULL. */
    void (*worker_done)(struct sl_server_worker *worker);

    /* Initialize the protocol's part of an op, and free what it owns. */
    void (*op_init)(struct sl_server_worker *worker, struct sl_server_op *op);
    void (*op_done)(struct sl_server_op *op);

    /* Prepare a connection, which has no socket yet. 0, or SLUICE_ENOMEM: then
     * nothing is left of it. May be NULL. */
    int (*on_new)(struct sl_server_conn *c);
    /* Its socket could not be opened: undo on_new(). May be NULL. */
    void (*on_new_failed)(struct sl_server_conn *c);
    /* The connection is open: set its deadline. */
    void (*on_open)(struct sl_server_conn *c);
    /* conn->owner is the sl_server_conn; on_close is sl_server_on_close. */
    struct sl_conn_calls calls;
    /* The connection is gone. True: an op still needs `c`, and frees it later
     * by sl_server_conn_free(). */
    bool (*on_close)(struct sl_server_conn *c);

    /* The worker will be drained: tell clients that ask. May be NULL. */
    void (*on_announce_drain)(struct sl_server_worker *worker);
    /* Close the connection if it is idle, or ask the client to go. */
    void (*on_drain)(struct sl_server_conn *c);
};

/* ---- servers ---- */

enum sl_forward { SL_FORWARD_ORIGINAL, SL_FORWARD_FORWARDED, SL_FORWARD_PATH };

/* Settings that all workers share. Read-only while a worker is open. */
struct sl_http_call;

struct sl_server {
    const struct sl_protocol *protocol;
    const char *name;         /* metric label `door` */
    struct sl_str token;      /* "": none */
    struct sl_str read_token; /* admin: for GET only; "": none */
    bool accepts_client_cert; /* a client certificate serves as token; without
                               * a token, it is required */
    struct sl_conn_limit *limit; /* NULL: only the worker's own limit */

    /* 0: the protocol's default. */
    sl_ns begin_timeout; /* HTTP: head; gRPC: first frames; RESP: a command */
    sl_ns body_timeout;  /* HTTP and gRPC: the rest of a request */
    sl_ns idle_timeout;
    sl_ns max_age;         /* gRPC: then the client is asked to go; 0: never */
    unsigned max_pipeline; /* requests served before others have their turn */

    /* HTTP only. */
    const struct sl_http_path *paths;
    unsigned path_count;
    size_t max_body; /* 0: 1 MiB */
    enum sl_forward forward;
    bool sessions;       /* admin: browsers may have a session, session.c */
    struct sl_str hosts; /* names of this machine, "a.example,b.example" */
    void *ctx;           /* admin: struct sl_admin, see admin.h */
    struct sl_usage_page *usage_page;               /* see http.h; NULL: none */
    void (*on_answer)(const struct sl_http_call *); /* for tests; NULL: none */
};

/* ---- workers ---- */

LIST_HEAD(sl_server_ops, sl_server_op);

#define SL_SESSIONS_ENDED 64

/* A session of a browser: session.c. */
struct sl_session {
    uint64_t number; /* of its sign-in, from 1 */
    sl_ns begin;     /* the sign-in */
    sl_ns until;     /* end of its last cookie */
    bool read_only;  /* it began with the read-only token */
};

/* All sessions that began with one token. */
struct sl_sessions {
    uint64_t begun;                    /* number of the last sign-in */
    uint64_t ended_to;                 /* all up to this number have ended */
    uint64_t ended[SL_SESSIONS_ENDED]; /* signed out; 0: free */
};

/* Wrong tokens of an address since its minute began. */
#define SL_WRONG_TOKENS 32
struct sl_wrong_tokens {
    struct sl_ip from; /* IPv6: its /64; unix sockets: all zero */
    unsigned count;    /* 0: free */
    sl_ns since;
};

struct sl_server_worker {
    const struct sl_server *server;
    struct sl_loop *loop; /* NULL in tests */
    struct sl_engine *engine;
    const struct sl_engine_ctx *engine_ctx; /* this thread's */
    struct sl_metrics *stats; /* this thread's; NULL: no counting */
    struct sl_tls *tls;
    const struct sl_alloc *alloc;
    struct sl_conns *conns;
    _Atomic unsigned load; /* connections; the daemon adds those that are on
                            * their way from other workers. Any thread */
    bool draining;
    sl_ns still;                  /* the time, if there is no loop */
    struct sl_hash_key token_key; /* tokens are compared hashed with it */
    struct sl_server_ops spare, suspended;
    unsigned spare_count;
    struct sl_wrong_tokens wrong[SL_WRONG_TOKENS]; /* admin; session.c */
    struct sl_sessions sessions[2]; /* admin; by sl_session.read_only */
    char date[32]; /* HTTP only: text of the Date field, and its second */
    sl_ns date_at;
};

#define SL_LOAD_CLOSED (1u << 31) /* a bit of `load`: accepts no more */

/* Initialize a worker without a loop. `engine` may be NULL where no handler
 * uses it, and so may `stats`. A NULL `alloc` is libc's. Tests stop here. */
void sl_server_worker_init(struct sl_server_worker *worker,
                           const struct sl_server *server,
                           struct sl_engine *engine, struct sl_metrics *stats,
                           const struct sl_alloc *alloc);

/* Serve on `loop`, with at most `max_conns` connections. On failure, too, the
 * caller closes the worker. */
SL_MUST_USE int sl_server_worker_open(struct sl_server_worker *worker,
                                      struct sl_loop *loop, unsigned max_conns,
                                      struct sl_diag *diag);

/* Close all connections and free everything. The worker may be without a
 * loop. */
void sl_server_worker_close(struct sl_server_worker *worker);

/* An sl_accept_f whose ctx is the worker. */
void sl_server_accept(void *ctx, int fd, const struct sl_address *peer);

/* Use another TLS context for new connections (NULL: none). Takes one more
 * reference to it. */
void sl_server_set_tls(struct sl_server_worker *worker, struct sl_tls *tls);

/* Use another engine from now on. No op is in use. */
void sl_server_set_engine(struct sl_server_worker *worker,
                          struct sl_engine *engine);

/* The worker will be drained: answers may say so from now on. */
void sl_server_announce_drain(struct sl_server_worker *worker);

/* Finish requests in progress and close idle connections. All are gone when
 * sl_conns_count(worker->conns) is 0. */
void sl_server_drain(struct sl_server_worker *worker);

/* The wall time of this turn of the loop, or worker->still. */
sl_ns sl_server_now(const struct sl_server_worker *worker);

/* Count a refusal before any decision, by reason. */
void sl_server_count_refusal(const struct sl_server_worker *worker,
                             const char *reason);

/* ---- tokens ---- */

/* Is `token` the server's? The time that this takes depends neither on where
 * the two differ nor on the length of the server's. */
bool sl_server_token_ok(const struct sl_server_worker *worker,
                        struct sl_str token);

/* Is `token` the server's read-only token? */
bool sl_server_read_token_ok(const struct sl_server_worker *worker,
                             struct sl_str token);

/* The token of "Bearer TOKEN", or an empty slice. */
struct sl_str sl_server_bearer(struct sl_str value);

/* May a client that has shown the token, or a certificate, use the server? */
bool sl_server_admits(const struct sl_server_worker *worker, bool has_token,
                      bool has_cert);

/* ---- connections ---- */

/* What a connection counts against. */
struct sl_conn_count {
    struct sl_conn_limit *limit; /* NULL: nothing */
    bool by_address;             /* also against the limit of `ip` */
    struct sl_ip ip;
};

struct sl_server_conn {
    struct sl_server_worker *worker;
    struct sl_conn *conn; /* NULL in tests */
    struct sl_conn_count count;
    bool handshaking; /* the TLS handshake may not be complete */
};

/* The on_close of every protocol's calls. */
void sl_server_on_close(struct sl_conn *conn);

void sl_server_conn_free(struct sl_server_conn *c);

/* ---- ops ---- */

struct sl_server_op {
    LIST_ENTRY(sl_server_op) link; /* in worker->spare or ->suspended */
};

/* Allocate or free an op: use get and put. */
SL_MUST_USE struct sl_server_op *
sl_server_op_new(struct sl_server_worker *worker);
void sl_server_op_free(struct sl_server_worker *worker,
                       struct sl_server_op *op);

/* A spare op or a new one; NULL without memory. */
SL_MUST_USE static inline struct sl_server_op *
sl_server_op_get(struct sl_server_worker *worker)
{
    struct sl_server_op *op = LIST_FIRST(&worker->spare);

    if (!op)
        return sl_server_op_new(worker);
    LIST_REMOVE(op, link);
    worker->spare_count--;
    return op;
}

/* Keep the op for the next request, or free it if enough are spare. */
static inline void sl_server_op_put(struct sl_server_worker *worker,
                                    struct sl_server_op *op)
{
    if (worker->spare_count == worker->server->protocol->max_spare_ops) {
        sl_server_op_free(worker, op);
        return;
    }
    LIST_INSERT_HEAD(&worker->spare, op, link);
    worker->spare_count++;
}

/* The answer comes later; the answer has come. */
void sl_server_op_suspend(struct sl_server_worker *worker,
                          struct sl_server_op *op);
void sl_server_op_resume(struct sl_server_op *op);

/* Free spare ops, with the policies that they hold. */
void sl_server_free_spare(struct sl_server_worker *worker);

/* ---- wait queues of a thread: a wake-up is posted to the loop, and a timer
 * of the loop serves waiters whose time has come. A loop on a virtual clock
 * needs sl_wait_timer_now() when the clock is set. */

struct sl_wait_timer {
    struct sl_wait_thread room;
    struct sl_loop *loop;
    struct sl_timer *timer;
};

SL_MUST_USE int sl_wait_timer_open(struct sl_wait_timer *waiting,
                                   struct sl_loop *loop,
                                   struct sl_engine *engine);

/* Answers all waiters. Zeros are allowed. */
void sl_wait_timer_close(struct sl_wait_timer *waiting);

/* Answers all waiters. No check waits from now on. */
void sl_wait_timer_end(struct sl_wait_timer *waiting);

/* Use another engine from now on. */
void sl_wait_timer_engine(struct sl_wait_timer *waiting,
                          struct sl_engine *engine);

/* Serve waiters whose time has come at `now`, which the loop shows in its next
 * turn. On the loop's thread. */
void sl_wait_timer_now(struct sl_wait_timer *waiting, sl_ns now);

#endif
