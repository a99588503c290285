/* http.h -- HTTP requests to handlers, and their answers back.
 *
 *     conn --> http1 --> find handler --> token? --> handler --> answer
 *
 * An HTTP server is a table of paths. A request is answered before the next
 * one of its connection is read: answers come in the order of the requests.
 */
#ifndef SL_SERVER_HTTP_HTTP_H
#define SL_SERVER_HTTP_HTTP_H

#include "engine/check.h"
#include "engine/render.h"
#include "identity/usage_token.h"
#include "server/events.h"
#include "server/server.h"
#include "wire/http1.h"

struct sl_http_conn; /* see http_int.h */
struct sl_http_stream;

/* One request and its answer, with the memory that both need. It lasts until
 * it is answered; then a worker keeps it for the next request. */
struct sl_http_call {
    struct sl_server_op op; /* first */
    struct sl_server_worker *worker;
    struct sl_http_conn *client; /* NULL in tests, or if the client has gone */
    struct sl_conn *conn;        /* the client's socket, likewise */
    struct sl_http_conn
        *detached;              /* the client has gone: `request` is in it, */
    struct sl_buf detached_in;  /* and points to these bytes */
    struct sl_check check;      /* for handlers that use the engine */
    struct sl_arena arena;      /* for texts */
    struct sl_arena text_arena; /* of one decision, rendered */
    struct sl_buf text;         /* for long texts: empty at first */
    enum sl_http_stage {
        SL_HTTP_HANDLED,   /* the handler answers before it returns */
        SL_HTTP_SUSPENDED, /* the answer may come later */
        SL_HTTP_FINISHED,
    } stage;
    bool in_handler;
    bool asking;    /* sl_http_ask() runs */
    sl_ns asked_at; /* when the engine was asked */
    void (*later)(struct sl_check *check);

    const struct sl_http1 *request;
    struct sl_str path;  /* the target without query */
    struct sl_str query; /* behind the '?' */
    struct sl_str rest;  /* behind a handler's path that ends in "/" */
    int arg;             /* of the path in the table */
    bool trusted;        /* the peer is a trusted proxy */
    struct sl_ip peer;   /* if has_peer; set before sl_http_handle() */
    bool has_peer;
    bool peer_is_unix;       /* set before sl_http_handle() */
    bool shows_cert;         /* set before: a certificate of client_ca */
    bool token_in_authorize; /* Authorization held the server's token */

    /* The answer: 200 without a body, unless the handler changes it. */
    int status;
    struct sl_str content_type;
    struct sl_str body;
    struct sl_http1_field fields[SL_HEADERS + 8];
    unsigned field_count;
    bool close;                    /* close the connection afterwards */
    struct sl_http_stream *stream; /* continues the answer, which has no body
                                    * then; or NULL */
};

/* An answer that continues for as long as the client is connected: its owner
 * writes to the connection and flushes it, from any function on this thread.
 * Input is dropped. */
struct sl_http_stream {
    struct sl_conn *conn; /* whose `out` is written to; NULL before it begins */
    /* The body is a series of chunks. Set to false for clients of HTTP/1.0:
     * their body ends with the connection. */
    bool chunked;
    /* The head is in `out`. May be NULL. */
    void (*on_begin)(struct sl_http_stream *stream);
    /* sl_conn_is_full() has become false. May be NULL. */
    void (*on_room)(struct sl_http_stream *stream);
    /* The connection is gone, or the stream never began. Called once. The
     * stream belongs to its owner, and may be freed here. */
    void (*on_close)(struct sl_http_stream *stream);
};

typedef void sl_http_f(struct sl_http_call *call);

enum sl_access {
    SL_ACCESS_PUBLIC,  /* any client: /livez, /readyz, /metrics */
    SL_ACCESS_TOKEN,   /* sl_server_admits() */
    SL_ACCESS_PROGRAM, /* and not sl_http_is_page() */
    SL_ACCESS_ADMIN,   /* and sl_admin_admit() */
};

struct sl_http_path {
    const char *method; /* NULL: any; GET answers HEAD too */
    const char *path;   /* exactly, or with all below it if it ends in "/": then
                         * call->rest is what follows that slash */
    sl_http_f *handle;
    enum sl_access access;
    int arg; /* for the handler: call->arg */
};

extern const struct sl_protocol sl_protocol_http;

/* ---- for handlers ---- */

/* A handler that cannot answer before it returns calls sl_http_suspend() first,
 * and sl_http_resume_finish() when the answer is complete: on the same thread,
 * before the handler returns or in a later turn. The request and all that the
 * call owns stay valid until then, even if the client disconnects. */
void sl_http_suspend(struct sl_http_call *call);
void sl_http_resume_finish(struct sl_http_call *call);

/* The owner ends the stream. on_close is not called. */
void sl_http_stream_end(struct sl_http_stream *stream);

/* Answer with a text in the arena, in call->text or static. */
void sl_http_answer(struct sl_http_call *call, int status,
                    struct sl_str content_type, struct sl_str body);

/* Refuse with problem details (RFC 9457) on one line: {"type":"about:blank",
 * "title":"Not Found","status":404,"detail":SENTENCE,"code":CODE}. Returns
 * false. */
bool sl_http_refuse(struct sl_http_call *call, int status, const char *code,
                    const char *fmt, ...) SL_PRINTF(4, 5);

/* Add a field. Both texts live as long as the body. Line breaks are left out
 * when it is written. */
void sl_http_field(struct sl_http_call *call, struct sl_str name,
                   struct sl_str value);

/* sl_server_now() of the call's worker. */
sl_ns sl_http_now(const struct sl_http_call *call);

/* A call for a request; NULL without memory. */
struct sl_http_call *sl_http_call_new(struct sl_server_worker *worker);

/* The answer is written. NULL is allowed. */
void sl_http_call_done(struct sl_http_call *call);

/* Handle one request without a socket: find the handler, check the token, call
 * the handler. `call` has the request and the peer; the rest is set here. False
 * if the answer comes later. */
bool sl_http_handle(struct sl_http_call *call);

/* The API description, as JSON on one line; made at build time. */
extern const struct sl_str sl_openapi;

/* The paths of the http and the admin listener. */
extern const struct sl_http_path sl_api_paths[];
extern const unsigned sl_api_path_count;
extern const struct sl_http_path sl_admin_paths[];
extern const unsigned sl_admin_path_count;

/* ---- usage tokens: usage_tokens.c ----
 *
 * A daemon with a database signs tokens with a key that is a row of the
 * database, which is read when it is needed for the first time. So daemons
 * that share a database accept each other's tokens. Other daemons have a key
 * from the settings, or a random one that ends with the process.
 */

struct sl_usage_page {
    struct sl_str origins; /* "https://a.example,https://b.example": pages that
                            * may show the usage page in a frame, and ask for
                            * its data; "": none */
    bool demo;             /* makes tokens for web/demo */

    /* Written once by one thread, which sets the state to KNOWN then. */
    _Atomic int key_state;
    uint8_t key[SL_USAGE_TOKEN_KEY];

    /* The database did not have the key at this time; 0: it was not asked.
     * It is not asked again for SL_USAGE_KEY_PAUSE. */
    _Atomic sl_ns key_failed;
};

#define SL_USAGE_KEY_PAUSE SL_S

enum { SL_USAGE_KEY_UNKNOWN, SL_USAGE_KEY_WRITING, SL_USAGE_KEY_KNOWN };

/* ---- the event stream: GET /v1/events ----
 *
 *     retry: 2000
 *
 *     id: 1794739796905-7
 *     event: denial
 *     data: {"at":"...","limit":"api","scope":"user","key":"ann","count":3,...}
 *
 * Server-sent events, for browsers and curl -N. A client has a place in the
 * ring of events.h. A timer sends new events to every client that reads.
 * Nothing is kept for a client: a slow one loses the oldest events and receives
 * `event: lost` with their count. After a silence a comment is sent, so that
 * proxies keep the connection.
 *
 * If the maximum of clients is reached, a new client replaces the oldest,
 * unless that one connected less than forty silences (ten minutes) ago.
 *
 * All functions are for one loop.
 */

#define SL_EVENT_STREAM_LISTENERS 16

struct sl_event_stream; /* opaque */

/* `events` is borrowed. After `silence` (0: 15 s) a comment is sent. NULL
 * `alloc` is libc's. */
SL_MUST_USE int sl_event_stream_open(struct sl_loop *loop,
                                     struct sl_events *events, sl_ns silence,
                                     const struct sl_alloc *alloc,
                                     struct sl_event_stream **ret);

/* Disconnects all clients. NULL is allowed. */
void sl_event_stream_close(struct sl_event_stream *feed);

/* Send events to the client of `call` as its answer, beginning with `from`.
 * Returns SLUICE_EFULL if the maximum is reached, SLUICE_ENOMEM. */
SL_MUST_USE int sl_event_stream_join(struct sl_event_stream *feed,
                                     struct sl_http_call *call, uint64_t from);

/* A cookie of a session of this worker was renewed: it ends later. */
void sl_event_stream_renew(struct sl_event_stream *feed,
                           const struct sl_server_worker *worker,
                           const struct sl_session *session);

/* Disconnect the clients whose session is over, as the timer does. */
void sl_event_stream_end_sessions(struct sl_event_stream *feed);

/* Returns the number of clients; for tests. */
unsigned sl_event_stream_count(const struct sl_event_stream *feed);

/* Send new events to all clients, as the timer does. */
void sl_event_stream_pump(struct sl_event_stream *feed);

#endif
