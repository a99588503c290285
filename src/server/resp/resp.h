/* resp.h -- the door for clients of Redis.
 *
 *     conn --> wire/resp --> find command --> may he? --> handler --> reply
 *                                                  |
 *                       throttles are collected and asked together, and so are
 *                       checks
 *
 * A worker serves the door on one loop and is touched by its thread only.
 * Replies come in the order of the commands, whatever the store does: while
 * one waits for it, nothing further of its connection is looked at.
 */
#ifndef SL_SERVER_RESP_RESP_H
#define SL_SERVER_RESP_RESP_H

#include <sys/queue.h>

#include "base/hash.h"
#include "engine/check.h"
#include "engine/throttle.h"
#include "net/conn.h"
#include "server/metrics.h"
#include "wire/resp.h"

struct sl_resp_session; /* a connection, see inner.h */
struct sl_resp_call;    /* something that is asked, likewise */

/* Settings that all workers share. Read only while the door is open. */
struct sl_resp_door {
    struct sl_str token;      /* "": none; what AUTH must bring */
    bool accepts_client_cert; /* a client certificate serves as token; without
                               * a token, one must be shown */
    sl_ns command_deadline;   /* from the first byte to the last; 0: 10 s */
    sl_ns idle_deadline;      /* 0: none, as with Redis */
    unsigned pipeline_most;   /* commands carried out per turn; 0: 256 */
    struct sl_conn_limit *crowd; /* NULL: each worker has its own cap only */
};

struct sl_resp_worker {
    const struct sl_resp_door *door;
    struct sl_loop *loop;
    struct sl_engine *engine;
    const struct sl_engine_ctx *station; /* this thread's */
    struct sl_throttles throttles;
    struct sl_metrics *stats; /* this thread's; NULL: nothing is counted */
    struct sl_tls *tls;
    const struct sl_alloc *alloc;
    struct sl_conns *conns;
    bool draining;
    sl_ns still;               /* the time, where there is no loop */
    struct sl_hash_key secret; /* to compare tokens under */
    sl_ns clock;               /* when it was last read, in this turn, or 0 */
    unsigned checks;           /* carried out since then */
    uint64_t commands;         /* carried out, for INFO */
    TAILQ_HEAD(sl_resp_calls, sl_resp_call) spare, late;
    unsigned spare_count;
    struct sl_resp_command command; /* the one that is being read */
};

/* A worker without a loop, for tests and fuzzing; see inner.h. NULL
 * `alloc` is libc's, NULL `stats` counts nothing. */
void sl_resp_worker_init(struct sl_resp_worker *worker,
                         const struct sl_resp_door *door,
                         struct sl_engine *engine, struct sl_metrics *stats,
                         const struct sl_alloc *alloc);
void sl_resp_worker_done(struct sl_resp_worker *worker);

/* Decide by another engine from now on. Nothing is under way. */
void sl_resp_worker_engine(struct sl_resp_worker *worker,
                           struct sl_engine *engine);

SL_MUST_USE int
sl_resp_worker_open(struct sl_resp_worker *worker,
                    const struct sl_resp_door *door, struct sl_loop *loop,
                    struct sl_engine *engine, struct sl_metrics *stats,
                    unsigned connections_most, struct sl_diag *diag);
void sl_resp_worker_close(struct sl_resp_worker *worker);

/* A connection has come: an sl_accept_f whose ctx is the worker. */
void sl_resp_accept(void *ctx, int fd, const struct sl_address *peer);

/* Use another TLS context from now on (NULL: none); one more reference of it
 * is taken. */
void sl_resp_worker_tls(struct sl_resp_worker *worker, struct sl_tls *tls);

/* Finish what is under way, close what is idle. All are gone when
 * sl_conns_count() says so. */
void sl_resp_drain(struct sl_resp_worker *worker);

#endif
