/* grpc_int.h -- what the files of this door share, and nobody else needs. */
#ifndef SL_SERVER_GRPC_GRPC_INT_H
#define SL_SERVER_GRPC_GRPC_INT_H

#include <nghttp2/nghttp2.h>

#include "base/arena.h"
#include "server/grpc/grpc.h"
#include "server/rls.h"
#include "server/server.h"

#define SL_GRPC_MESSAGE ((size_t)64 << 10) /* the longest we take */
#define SL_GRPC_PREFIX  5                  /* a flag and a length before it */
#define SL_GRPC_OUT     ((size_t)1 << 20)  /* waiting to be sent, of a stream */
#define SL_GRPC_STREAMS 100                /* of a connection at once */
#define SL_GRPC_HEAD    ((size_t)16 << 10) /* bytes of a request's fields */

enum sl_grpc_status {
    SL_GRPC_OK = 0,
    SL_GRPC_INVALID_ARGUMENT = 3,
    SL_GRPC_DEADLINE_EXCEEDED = 4,
    SL_GRPC_RESOURCE_EXHAUSTED = 8,
    SL_GRPC_UNIMPLEMENTED = 12,
    SL_GRPC_INTERNAL = 13,
    SL_GRPC_UNAVAILABLE = 14,
    SL_GRPC_UNAUTHENTICATED = 16,
};

struct sl_grpc_method {
    const char *path;
    /* A whole message has come. */
    void (*on_message)(struct sl_grpc_stream *stream, struct sl_str message);
    bool streams;     /* takes one message after another, and answers each */
    bool needs_token; /* health does not: whoever can reach it may ask */
};

/* One request of a connection.
 *
 *     HEAD --> BODY --> (handler) --> ANSWERED
 *                \          |             ^
 *                 \         +-- LATE -----+   the store answers later
 *                  +-- refused -----------+
 */
struct sl_grpc_stream {
    TAILQ_ENTRY(sl_grpc_stream) link;       /* of its session, or spare */
    TAILQ_ENTRY(sl_grpc_stream) watch_link; /* if `watches` */
    struct sl_grpc_session *session;
    int32_t id;
    const struct sl_grpc_method *method;
    sl_ns began;    /* steady */
    sl_ns deadline; /* steady; 0: none */

    /* The request. */
    size_t head_bytes;
    bool is_post, is_grpc, bad_timeout, shows_token;
    bool whole; /* its end has come */
    bool taken; /* a message was handed on: a second is too many */
    struct sl_buf in;

    /* The answer. */
    bool answered; /* its head is on its way */
    bool ended;    /* nothing more is to be said but the status */
    struct sl_buf out;
    size_t sent; /* of out */
    enum sl_grpc_status status;
    char why[512]; /* grpc-message, ready to be sent */
    bool only_identity;
    bool watches;
    int watched; /* the health that was told last */
    struct sl_grpc_call *call;
};

/* ---- session.c, events.c ---- */

struct sl_grpc_session {
    struct sl_grpc_worker *worker;
    struct sl_conn *conn;
    struct sl_conn_count place;
    nghttp2_session *h2;
    TAILQ_HEAD(, sl_grpc_stream) streams;
    unsigned stream_count;
    unsigned coming;  /* of them: not whole yet */
    bool waits;       /* there were some when the deadline was set */
    bool shakes;      /* TLS: hands may not be shaken yet */
    bool begun;       /* the peer speaks HTTP/2 */
    bool going;       /* he was asked to go */
    bool said_last;   /* and told which stream is the last */
    bool pinged;      /* he must answer soon */
    bool pumping;     /* inside sl_grpc_pump() */
    sl_ns ends_at;    /* steady: when he is asked to go; 0: never */
    sl_ns last_at;    /* steady: when he is told the last one; 0: not yet */
    int64_t patience; /* for frames that only cost us; see events.c */
    sl_ns patience_at;
};

/* A session of nghttp2 for the connection, with all its bounds. */
SL_MUST_USE int sl_grpc_h2_new(struct sl_grpc_session *session);

/* The peer has seen that he is to go, or has had the time: now it can be said
 * which stream is the last one. Once that has ended, so does the connection. */
void sl_grpc_send_goaway(struct sl_grpc_session *session);

/* Send what nghttp2 has, as far as the connection takes it. */
void sl_grpc_pump(struct sl_grpc_session *session);

/* Count something that was refused before anybody decided. */
void sl_grpc_refused(const struct sl_grpc_worker *worker, const char *why);

/* ---- memory.c ---- */

/* nghttp2's allocator over ours: one pool for all sessions of a worker. */
nghttp2_mem sl_grpc_memory(struct sl_grpc_pool *pool);

/* Give back what is kept. All sessions have ended. */
void sl_grpc_pool_done(struct sl_grpc_pool *pool);

/* ---- stream.c, head.c, reply.c ---- */

struct sl_grpc_stream *sl_grpc_stream_new(struct sl_grpc_session *session,
                                          int32_t id);
void sl_grpc_stream_free(struct sl_grpc_stream *stream);
void sl_grpc_streams_done(struct sl_grpc_worker *worker);

/* A field of its head has come. False if it is too long. */
bool sl_grpc_stream_field(struct sl_grpc_stream *stream, struct sl_str name,
                          struct sl_str value);
void sl_grpc_stream_head(struct sl_grpc_stream *stream);
void sl_grpc_stream_data(struct sl_grpc_stream *stream, struct sl_str bytes);
void sl_grpc_stream_end(struct sl_grpc_stream *stream);

/* Room for a message of `size` bytes, to be written by sl_pb; NULL: none. It is
 * sent by sl_grpc_send() with the length that it has become. */
SL_MUST_USE char *sl_grpc_message(struct sl_grpc_stream *stream, size_t size);
void sl_grpc_send(struct sl_grpc_stream *stream, size_t len);

/* Have sent what there is; more may follow. */
void sl_grpc_flow(struct sl_grpc_stream *stream);

/* That was all: the status OK. */
void sl_grpc_end(struct sl_grpc_stream *stream);

/* End with another status and a sentence. */
void sl_grpc_refuse(struct sl_grpc_stream *stream, enum sl_grpc_status status,
                    const char *fmt, ...) SL_PRINTF(3, 4);

/* It is no gRPC at all: in the words of HTTP. */
void sl_grpc_refuse_http(struct sl_grpc_stream *stream);

/* ---- token.c ---- */

/* One of the fields in which a token may come. */
void sl_grpc_take_token(struct sl_grpc_stream *stream, struct sl_str name,
                        struct sl_str value);

/* May the stream use what is guarded? */
bool sl_grpc_admits(const struct sl_grpc_stream *stream);

/* ---- should.c ---- */

/* One request of the rate limit service while it is decided. */
struct sl_grpc_call {
    struct sl_rls_call rls;
    TAILQ_ENTRY(sl_grpc_call) link;
    struct sl_grpc_worker *worker;
    struct sl_grpc_stream *stream; /* NULL: it has gone meanwhile */
    struct sl_buf left;            /* then: its message, which the question
                                    * points into */
    bool is_late;                  /* it is in worker->late_calls */
};

void sl_grpc_should_rate_limit(struct sl_grpc_stream *stream,
                               struct sl_str message);
void sl_grpc_calls_done(struct sl_grpc_worker *worker);

/* Its stream has gone: it is decided all the same, for nobody. */
void sl_grpc_call_leave(struct sl_grpc_call *call);

/* ---- health.c ---- */

void sl_grpc_check(struct sl_grpc_stream *stream, struct sl_str message);
void sl_grpc_watch(struct sl_grpc_stream *stream, struct sl_str message);

/* Tell all who watch how it is; and that nothing more will be told. */
void sl_grpc_tell_watchers(struct sl_grpc_worker *worker);
void sl_grpc_end_watching(struct sl_grpc_worker *worker);

/* ---- reflection.c, files.c ---- */

void sl_grpc_reflect(struct sl_grpc_stream *stream, struct sl_str message);

/* The name of the file that is called so, or has the symbol; NULL: none. */
const char *sl_grpc_file_named(struct sl_str name);
const char *sl_grpc_file_of(struct sl_str symbol);

/* Write its FileDescriptorProto. False if there is none of that name. */
SL_MUST_USE bool sl_grpc_file(struct sl_str name, struct sl_pb_out *out);

#endif
