/* grpc.h -- gRPC requests to handlers, and their answers back.
 *
 *     conn --> nghttp2 --> stream --> which method? token? --> handler
 *                             ^                                   |
 *                             +------ messages, then a status ----+
 *
 * A worker serves the door on one loop and is touched by its thread only. A
 * session is a connection, a stream is one request of it, and a call is what
 * one request of the rate limit service needs while it is decided: streams are
 * small and many, calls are large and, where the store is in this process, one
 * for all.
 *
 *   session.c     connections: their deadlines, ages and ends
 *   events.c      what nghttp2 tells of them, and its floods
 *   memory.c      its memory is ours
 *   worker.c      what one thread has
 *   stream.c      requests: messages in
 *   head.c        what their fields say, and which method is meant
 *   reply.c       messages and a status out
 *   token.c       who may use it
 *   should.c      ShouldRateLimit: a message to a call, its answer back
 *   health.c      grpc.health.v1
 *   reflection.c  server reflection; files.c has the descriptors
 */
#ifndef SL_SERVER_GRPC_GRPC_H
#define SL_SERVER_GRPC_GRPC_H

#include <sys/queue.h>

#include "base/hash.h"
#include "engine/check.h"
#include "net/conn.h"
#include "server/metrics.h"

struct sl_grpc_session;
struct sl_grpc_stream;
struct sl_grpc_call;

/* What all workers share. Read only while it is open. */
struct sl_grpc_door {
    struct sl_str token;      /* "": none */
    bool accepts_client_cert; /* a client certificate serves as token; without
                               * a token, one must be shown */
    sl_ns head_deadline;      /* until a connection has begun; 0: 5 s */
    sl_ns body_deadline;      /* for a request to come; 0: 10 s */
    sl_ns idle_deadline;      /* 0: 10 min */
    sl_ns age_most;           /* a connection is asked to end; 0: never */
    struct sl_conn_limit *crowd; /* NULL: each worker has its own cap only */
};

/* Pieces of memory for the next request, by size; memory.c. */
#define SL_GRPC_SIZES 6

struct sl_grpc_pool {
    const struct sl_alloc *alloc;
    union sl_grpc_piece *kept[SL_GRPC_SIZES];
    unsigned count[SL_GRPC_SIZES];
};

struct sl_grpc_worker {
    const struct sl_grpc_door *door;
    struct sl_loop *loop;
    struct sl_engine *engine;
    const struct sl_engine_ctx *station; /* this thread's */
    struct sl_metrics *stats;            /* this thread's, or NULL */
    struct sl_tls *tls;
    const struct sl_alloc *alloc;
    struct sl_grpc_pool pool;
    struct sl_conns *conns;
    struct sl_hash_key secret; /* to compare tokens under */
    uint64_t chance;           /* the last number drawn: ages differ */
    bool draining;             /* health says so */
    TAILQ_HEAD(, sl_grpc_stream) spare_streams;
    unsigned spare_count;
    TAILQ_HEAD(sl_grpc_calls, sl_grpc_call) spare_calls, late_calls;
    TAILQ_HEAD(, sl_grpc_stream) watchers; /* of health */
};

/* `alloc` NULL is libc's, `stats` NULL counts nothing. */
SL_MUST_USE int
sl_grpc_worker_open(struct sl_grpc_worker *worker,
                    const struct sl_grpc_door *door, struct sl_loop *loop,
                    struct sl_engine *engine, struct sl_metrics *stats,
                    const struct sl_alloc *alloc, unsigned connections_most,
                    struct sl_diag *diag);
void sl_grpc_worker_close(struct sl_grpc_worker *worker);

/* A connection has come: an sl_accept_f whose ctx is the worker. */
void sl_grpc_accept(void *ctx, int fd, const struct sl_address *peer);

/* Use another TLS context from now on (NULL: none); one more reference of it
 * is taken. */
void sl_grpc_worker_tls(struct sl_grpc_worker *worker, struct sl_tls *tls);

/* Decide by another engine from now on. No call is under way. */
void sl_grpc_worker_engine(struct sl_grpc_worker *worker,
                           struct sl_engine *engine);

/* It ends: health says NOT_SERVING from now on. */
void sl_grpc_announce_drain(struct sl_grpc_worker *worker);

/* Ask all clients to go (GOAWAY), finish what is under way, and close. */
void sl_grpc_drain(struct sl_grpc_worker *worker);

#endif
