/* http.h -- HTTP requests to handlers, and their answers back.
 *
 * A door is a table of handlers. A worker serves a door on one loop: it owns
 * what its handlers need and is touched by its thread only.
 *
 *     conn --> http1 --> find handler --> token? --> handler --> answer
 *
 * A request is answered before the next one of its connection is looked at,
 * and in the order in which they came.
 */
#ifndef SL_SERVER_HTTP_HTTP_H
#define SL_SERVER_HTTP_HTTP_H

#include <sys/queue.h>

#include "base/hash.h"
#include "engine/check.h"
#include "engine/render.h"
#include "net/conn.h"
#include "net/listener.h"
#include "server/events.h"
#include "server/metrics.h"
#include "wire/http1.h"

struct sl_http_worker;
struct sl_http_session; /* a connection, see server.c */
struct sl_http_stream;

/* One request and its answer, with the memory that both need. It is made by
 * sl_http_call_new() and lasts until it is answered; a worker keeps one for
 * the next request. */
struct sl_http_call {
    struct sl_http_worker *worker;
    struct sl_http_session *session; /* NULL in tests, or if he has left */
    struct sl_conn *conn;            /* likewise */
    struct sl_http_session *left; /* if he has: what the request stands in, */
    struct sl_buf left_in;        /* and the bytes that it points to */
    struct sl_check ask;          /* for those who ask the engine */
    struct sl_arena arena;        /* for texts */
    struct sl_arena ink;          /* of one decision, rendered */
    struct sl_buf text;           /* for long texts: empty at first */
    enum sl_http_stage {
        SL_HTTP_HANDLED,   /* by a handler that answers before it returns */
        SL_HTTP_SUSPENDED, /* the answer may come later */
        SL_HTTP_FINISHED,
    } stage;
    bool in_handler;
    sl_ns asked_at;                 /* when the engine was asked */
    TAILQ_ENTRY(sl_http_call) link; /* in worker->spare or worker->late */

    const struct sl_http1 *request;
    struct sl_str path;  /* the target without query */
    struct sl_str query; /* behind the '?' */
    struct sl_str rest;  /* of a handler for all below a path: what follows */
    bool trusted;        /* the peer is one of the trusted proxies */
    struct sl_ip peer;   /* if has_peer; set before sl_http_handle() */
    bool has_peer;
    bool peer_is_unix;       /* also set before: a unix socket, no address */
    bool shows_cert;         /* also set before: a certificate of client_ca */
    bool token_in_authorize; /* Authorization held our token, and is ours */

    /* The answer: 200 and nothing, unless the handler says otherwise. */
    int status;
    struct sl_str content_type;
    struct sl_str body;
    struct sl_http1_field fields[SL_HEADERS + 8];
    unsigned field_count;
    bool close;                    /* close the connection afterwards */
    struct sl_http_stream *stream; /* what follows, or NULL */
};

/* What an answer goes on with for as long as the client listens. */
struct sl_http_stream {
    struct sl_conn *conn; /* whose `out` is written to; NULL before it begins */
    /* The connection is gone, or it never began: once. The stream is its
     * owner's, and may be freed here. */
    void (*on_close)(struct sl_http_stream *stream);
};

typedef void sl_http_f(struct sl_http_call *call);

enum sl_http_access {
    SL_HTTP_ACCESS_PUBLIC, /* anybody: /livez, /readyz, /metrics */
    SL_HTTP_ACCESS_TOKEN, /* the door's token or a client certificate, if it has
                           * the one or accepts the other */
};

struct sl_http_path {
    const char *method; /* NULL: any; GET answers HEAD too */
    const char *path;   /* exactly, or with all below it if it ends in "/": then
                         * call->rest is what follows that slash */
    sl_http_f *handle;
    enum sl_http_access guard;
};

/* A door: settings that all its workers share. Read only while it is open. */
struct sl_http_door {
    const struct sl_http_path *paths;
    unsigned path_count;
    struct sl_str token;      /* "": none */
    bool accepts_client_cert; /* a client certificate serves as token; without
                               * a token, one must be shown */
    const char *name;         /* "http", "admin": for metrics */
    size_t body_most;         /* 0: 1 MiB */
    sl_ns head_deadline, body_deadline, idle_deadline; /* 0: 5 s, 10 s, 75 s */
    unsigned pipeline_most; /* requests answered per turn; 0: 64 */
    enum sl_forward {
        SL_FORWARD_ORIGINAL,
        SL_FORWARD_FORWARDED,
        SL_FORWARD_PATH
    } forward;
    struct sl_conn_limit *crowd; /* NULL: each worker has its own cap only */
    void *ctx;                   /* admin: struct sl_admin, see admin.h */
};

struct sl_http_worker {
    const struct sl_http_door *door;
    struct sl_loop *loop;
    struct sl_engine *engine;
    const struct sl_engine_ctx *station; /* this thread's */
    struct sl_metrics *stats;            /* this thread's */
    struct sl_tls *tls;
    const struct sl_alloc *alloc;
    struct sl_conns *conns;
    bool draining; /* answers say Connection: close */
    char date[32]; /* the text of the Date field, and its second */
    sl_ns date_at;
    sl_ns still;               /* the time, where there is no loop */
    struct sl_hash_key secret; /* to compare tokens under */
    TAILQ_HEAD(sl_http_calls, sl_http_call) spare, late;
};

/* A worker without a loop, that answers by sl_http_handle() alone; for tests
 * and fuzzing. `engine` may be NULL where no handler asks for it, `stats` too:
 * then nothing is counted. Opening does this first. NULL `alloc` is libc's. */
void sl_http_worker_init(struct sl_http_worker *worker,
                         const struct sl_http_door *door,
                         struct sl_engine *engine, struct sl_metrics *stats,
                         const struct sl_alloc *alloc);
void sl_http_worker_done(struct sl_http_worker *worker);

/* Decide by another engine from now on. No call is under way. */
void sl_http_worker_engine(struct sl_http_worker *worker,
                           struct sl_engine *engine);

SL_MUST_USE int
sl_http_worker_open(struct sl_http_worker *worker,
                    const struct sl_http_door *door, struct sl_loop *loop,
                    struct sl_engine *engine, struct sl_metrics *stats,
                    unsigned connections_most, struct sl_diag *diag);
void sl_http_worker_close(struct sl_http_worker *worker);

/* A connection has come: an sl_accept_f whose ctx is the worker. */
void sl_http_accept(void *ctx, int fd, const struct sl_address *peer);

/* Use another TLS context from now on (NULL: none); one more reference of it
 * is taken. */
void sl_http_worker_tls(struct sl_http_worker *worker, struct sl_tls *tls);

/* Finish what is under way and close idle connections; what is answered from
 * now on closes its connection. All are gone when sl_conns_count() says so. */
void sl_http_drain(struct sl_http_worker *worker);

/* ---- for handlers ---- */

/* A handler that can't answer before it returns calls sl_http_suspend() first
 * and, when there is an answer, sl_http_resume_finish(): perhaps before the
 * handler has returned, perhaps many turns later, on the same thread. Meanwhile
 * the request and all that the call owns stay as they are, and the connection
 * waits. Of a client who has left meanwhile it knows nothing. */
void sl_http_suspend(struct sl_http_call *call);
void sl_http_resume_finish(struct sl_http_call *call);

/* Go on after the fields of the answer, which has no body then: write to the
 * connection and flush it, from any call on this thread. What the client sends
 * is dropped. */
void sl_http_stream(struct sl_http_call *call, struct sl_http_stream *stream);

/* The owner ends it; on_close is not called. */
void sl_http_stream_end(struct sl_http_stream *stream);

/* Answer with a text that lives long enough (in the arena, or for ever). */
void sl_http_answer(struct sl_http_call *call, int status,
                    struct sl_str content_type, struct sl_str body);

/* Refuse with problem details (RFC 9457) on one line: {"type":"about:blank",
 * "title":"Not Found","status":404,"detail":SENTENCE,"code":CODE}. */
void sl_http_refuse(struct sl_http_call *call, int status, const char *code,
                    const char *fmt, ...) SL_PRINTF(4, 5);

/* One more field. Both texts live as the body's do; what would break a line is
 * left out when it is written. */
void sl_http_field(struct sl_http_call *call, struct sl_str name,
                   struct sl_str value);

/* The loop's wall time of this turn; worker->still without a loop. */
sl_ns sl_http_now(const struct sl_http_call *call);

/* A call to carry out a request with; NULL without memory. */
struct sl_http_call *sl_http_call_new(struct sl_http_worker *worker);

/* The answer is written. NULL is allowed. */
void sl_http_call_done(struct sl_http_call *call);

/* Carry out one request without a socket: find the handler, check the token,
 * call it. `call` has the request and the peer; all else is set here. False if
 * the answer comes later. For tests, fuzzing, and the server itself. */
bool sl_http_handle(struct sl_http_call *call);

/* The doors. */
extern const struct sl_http_path sl_api_paths[];
extern const unsigned sl_api_path_count;
extern const struct sl_http_path sl_admin_paths[];
extern const unsigned sl_admin_path_count;

/* ---- those who listen to events over HTTP: GET /v1/events.
 *
 *     retry: 2000
 *
 *     id: 1794739796905-7
 *     event: denial
 *     data: {"at":"...","limit":"api","scope":"user","key":"ann","count":3,...}
 *
 * Server-sent events, as browsers and curl -N read them. A listener has a
 * place in the ring of events.h; some times a second everybody is sent what is
 * new to him, as long as he takes it. Nothing is kept for him: a slow one is
 * overtaken and reads `event: lost` with a count. Whoever hears nothing for a
 * while gets a comment, so that he and those between know that we are there.
 *
 * Places are few. When all are taken, a newcomer has that of the listener who
 * came first, unless he came less than forty silences (ten minutes) ago.
 *
 * All of it happens on one loop.
 */

#define SL_EVENT_STREAM_LISTENERS 16

struct sl_event_stream; /* opaque */

/* `events` is borrowed. After `silence` (0: 15 s) a listener is sent a comment.
 * NULL `alloc` is libc's. */
SL_MUST_USE int sl_event_stream_open(struct sl_loop *loop,
                                     struct sl_events *events, sl_ns silence,
                                     const struct sl_alloc *alloc,
                                     struct sl_event_stream **ret);

/* Everybody is cut off. NULL is allowed. */
void sl_event_stream_close(struct sl_event_stream *feed);

/* Let the client of `call` listen from event `from` on, as its answer.
 * SLUICE_EFULL: there are as many as there may be, and all have come only now;
 * SLUICE_ENOMEM. */
SL_MUST_USE int sl_event_stream_join(struct sl_event_stream *feed,
                                     struct sl_http_call *call, uint64_t from);

/* How many listen; for tests. */
unsigned sl_event_stream_count(const struct sl_event_stream *feed);

/* Send everybody what is new to him; the timer does it too. */
void sl_event_stream_pump(struct sl_event_stream *feed);

#endif
