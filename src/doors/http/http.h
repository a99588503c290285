/* http.h -- HTTP requests to handlers, and their answers back.
 *
 * A door is a table of handlers. A worker serves a door on one loop: it owns
 * what its handlers need and is touched by its thread only.
 *
 *     conn --> http1 --> find handler --> token? --> handler --> answer
 */
#ifndef SL_HTTP_H
#define SL_HTTP_H

#include "doors/stats.h"
#include "engine/engine.h"
#include "engine/render.h"
#include "net/conn.h"
#include "wire/http1.h"

struct sl_http_worker;

/* One request and its answer. */
struct sl_http_call {
    struct sl_http_worker *worker;
    struct sl_conn *conn; /* NULL in tests */
    const struct sl_http1 *request;
    struct sl_str path;  /* the target without query */
    struct sl_str query; /* behind the '?' */
    struct sl_str rest;  /* of a handler for all below a path: what follows */
    bool trusted;        /* the peer is one of the trusted proxies */
    struct sl_ip peer;
    bool has_peer;

    /* The answer: 200 and nothing, unless the handler says otherwise. Texts
     * live in worker->arena. */
    int status;
    struct sl_str content_type;
    struct sl_str body;
    struct sl_http1_field fields[SL_HEADERS + 8];
    unsigned field_count;
    bool close; /* close the connection afterwards */
};

typedef void sl_http_f(struct sl_http_call *call);

enum sl_http_guard {
    SL_GUARD_NONE,  /* anybody: /livez, /readyz, /metrics */
    SL_GUARD_TOKEN, /* the door's token, if it has one */
};

struct sl_http_path {
    const char *method; /* NULL: any */
    const char *path;   /* exactly, or with all below it if it ends in "/" */
    sl_http_f *handle;
    enum sl_http_guard guard;
};

/* A door: settings that all its workers share. Read only while it is open. */
struct sl_http_door {
    const struct sl_http_path *paths;
    unsigned path_count;
    struct sl_str token;      /* "": none */
    bool accepts_client_cert; /* a client certificate serves as token */
    const char *name;         /* "http", "admin": for metrics */
    size_t body_most;
    sl_ns head_deadline, body_deadline, idle_deadline; /* 0: 5 s, 10 s, 75 s */
    unsigned pipeline_most; /* requests answered per turn; 0: 64 */
    enum sl_forward {
        SL_FORWARD_ORIGINAL,
        SL_FORWARD_FORWARDED,
        SL_FORWARD_PATH
    } forward;
    void *ctx; /* admin: struct sl_admin, see admin.h */
};

struct sl_http_worker {
    const struct sl_http_door *door;
    struct sl_loop *loop;
    struct sl_engine *engine;
    struct sl_live *live; /* held; refreshed at each request */
    struct sl_decision decision;
    struct sl_arena arena;  /* of one request */
    struct sl_stats *stats; /* this thread's */
    struct sl_tls *tls;
    const struct sl_alloc *alloc;
    struct sl_conns *conns;
    bool draining; /* answers say Connection: close */
    char date[32]; /* the text of the Date field, and its second */
    sl_ns date_at;
};

SL_MUST_USE int
sl_http_worker_open(struct sl_http_worker *worker,
                    const struct sl_http_door *door, struct sl_loop *loop,
                    struct sl_engine *engine, struct sl_stats *stats,
                    unsigned connections_most, struct sl_diag *diag);
void sl_http_worker_close(struct sl_http_worker *worker);

/* A connection has come: an sl_accept_f whose ctx is the worker. */
void sl_http_accept(void *worker, int fd, const struct sl_address *peer);

/* Use another TLS context from now on (NULL: none). */
void sl_http_worker_tls(struct sl_http_worker *worker, struct sl_tls *tls);

/* Finish what is under way and close idle connections. */
void sl_http_drain(struct sl_http_worker *worker);

/* ---- for handlers ---- */

/* Answer with a text that lives long enough (in the arena, or for ever). */
void sl_http_answer(struct sl_http_call *call, int status,
                    struct sl_str content_type, struct sl_str body);

/* Answer {"error":{"code":...,"message":...}} as problem+json. */
void sl_http_refuse(struct sl_http_call *call, int status, const char *code,
                    const char *fmt, ...) SL_PRINTF(4, 5);

void sl_http_field(struct sl_http_call *call, struct sl_str name,
                   struct sl_str value);

/* Carry out one request without a socket: find the handler, check the token,
 * call it. For tests, fuzzing, and the server itself. */
void sl_http_handle(struct sl_http_call *call);

/* The doors. */
extern const struct sl_http_path sl_api_paths[];
extern const unsigned sl_api_path_count;
extern const struct sl_http_path sl_admin_paths[];
extern const unsigned sl_admin_path_count;

#endif
