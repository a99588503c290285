/* grpc_int.h -- what the files of this folder share. */
#ifndef SL_SERVER_GRPC_GRPC_INT_H
#define SL_SERVER_GRPC_GRPC_INT_H

#include <nghttp2/nghttp2.h>

#include "base/arena.h"
#include "server/grpc/grpc.h"
#include "server/rls.h"

#define SL_GRPC_MESSAGE ((size_t)64 << 10) /* largest */
#define SL_GRPC_SPARES  256 /* calls and streams that a worker keeps */
#define SL_GRPC_PREFIX  5   /* a flag and a length before it */
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
    void (*on_message)(struct sl_grpc_stream *stream, struct sl_str message);
    bool streams; /* answers one message after another */
    bool needs_token;
};

/* One request of a connection.
 *
 *     HEAD --> BODY --> (handler) --> ANSWERED
 *                \          |             ^
 *                 \         +-- LATE -----+   the store answers later
 *                  +-- refused -----------+
 */
struct sl_grpc_stream {
    TAILQ_ENTRY(sl_grpc_stream) link;       /* of its connection, or spare */
    TAILQ_ENTRY(sl_grpc_stream) watch_link; /* if `watches` */
    struct sl_grpc_conn *client;
    int32_t id;
    const struct sl_grpc_method *method;
    sl_ns began;    /* monotonic */
    sl_ns deadline; /* monotonic; 0: none */

    /* The request. */
    size_t head_bytes;
    bool is_post, is_grpc, bad_timeout, shows_token;
    bool not_grpc; /* it is refused at its end */
    bool whole;    /* its end has come */
    struct sl_buf in;

    /* The answer. */
    bool answered; /* its head is submitted */
    bool ended;    /* only the status follows */
    struct sl_buf out;
    size_t sent; /* of out */
    enum sl_grpc_status status;
    char why[512]; /* grpc-message, ready to be sent */
    bool only_identity;
    bool watches;
    int watched; /* the health that was sent last */
    struct sl_grpc_call *call;
};

/* ---- connections: conn.c ---- */

#define SL_GRPC_FRAME_HEAD 9
#define SL_GRPC_RESETS     32

/* Frames that a client may send; time and answered requests refill it. */
struct sl_grpc_budget {
    int64_t left;
    sl_ns at; /* mono: refilled until then */
};

/* The frames of the input, as far as they have come. */
struct sl_grpc_frames {
    unsigned preface; /* bytes of it */
    unsigned have;    /* bytes of `head` */
    uint8_t head[SL_GRPC_FRAME_HEAD];
    size_t left;      /* bytes of the payload that are to come */
    bool after_reset; /* the frame before was RST_STREAM */
};

struct sl_grpc_conn {
    struct sl_server_conn base; /* first */
    struct sl_grpc_worker *worker;
    nghttp2_session *h2;
    TAILQ_HEAD(, sl_grpc_stream) streams;
    unsigned stream_count;
    unsigned coming; /* of them: not whole yet */
    bool waits;      /* for some of them, when the deadline was set */
    bool begun;      /* the client speaks HTTP/2 */
    bool going;      /* the client was asked to go */
    bool said_last;  /* GOAWAY with the last stream was sent */
    bool pinged;     /* and has to answer */
    bool pumping;    /* inside sl_grpc_pump() */
    sl_ns ends_at;   /* mono: when the client is asked to go; 0: never */
    sl_ns last_at;   /* mono: when the last stream is named; 0: not yet */
    struct sl_grpc_budget patience; /* for frames that do no work */
    struct sl_grpc_budget updates;  /* for WINDOW_UPDATE and unknown frames */
    struct sl_grpc_frames frames;
    int32_t last_head; /* the highest stream of a HEADERS frame */
    int32_t last_id;   /* the highest stream that has begun */
    int32_t skipped;   /* the lowest one that the client left out before it */
    int32_t
        resets[SL_GRPC_RESETS]; /* the latest streams that this side reset */
    unsigned reset_count;
    int32_t resets_before; /* no such stream above it is missing in `resets` */
};

/* Send what nghttp2 has, until the connection is full. */
void sl_grpc_pump(struct sl_grpc_conn *client);

/* ---- alloc.c ---- */

/* One pool for all sessions of a worker. */
nghttp2_mem sl_grpc_memory(struct sl_grpc_pool *pool);

/* Frees the kept pieces. All sessions have ended. */
void sl_grpc_pool_done(struct sl_grpc_pool *pool);

/* ---- streams: stream.c ---- */

struct sl_grpc_stream *sl_grpc_stream_new(struct sl_grpc_conn *client,
                                          int32_t id);
void sl_grpc_stream_free(struct sl_grpc_stream *stream);
void sl_grpc_streams_done(struct sl_grpc_worker *worker);

/* A field of its head has come. False if it is too long. */
bool sl_grpc_stream_field(struct sl_grpc_stream *stream, struct sl_str name,
                          struct sl_str value);
void sl_grpc_stream_head(struct sl_grpc_stream *stream);
void sl_grpc_stream_data(struct sl_grpc_stream *stream, struct sl_str bytes);
void sl_grpc_stream_end(struct sl_grpc_stream *stream);

/* Reserves room for a message of `size` bytes, to be written by sl_pb. Without
 * memory the stream is refused, and false is returned. sl_grpc_send() appends
 * the message. */
SL_MUST_USE bool sl_grpc_message(struct sl_grpc_stream *stream, size_t size,
                                 struct sl_pb_out *ret);
void sl_grpc_send(struct sl_grpc_stream *stream, size_t len);

/* Sends the messages; more may follow. */
void sl_grpc_flow(struct sl_grpc_stream *stream);

/* Sends the messages and the status OK. */
void sl_grpc_end(struct sl_grpc_stream *stream);

/* Ends with another status and a sentence. */
void sl_grpc_refuse(struct sl_grpc_stream *stream, enum sl_grpc_status status,
                    const char *fmt, ...) SL_PRINTF(3, 4);

/* ---- services: services.c ---- */

/* One request of the rate limit service while it is decided. */
struct sl_grpc_call {
    struct sl_server_op op; /* first */
    struct sl_rls_call rls;
    struct sl_grpc_worker *worker;
    struct sl_grpc_stream *stream; /* NULL: it has gone */
    struct sl_buf detached;        /* then: its message, which the request
                                    * points into */
    bool is_suspended;
};

/* The protocol's op_init and op_done. */
void sl_grpc_call_init(struct sl_server_worker *worker,
                       struct sl_server_op *op);
void sl_grpc_call_free(struct sl_server_op *op);

void sl_grpc_should_rate_limit(struct sl_grpc_stream *stream,
                               struct sl_str message);

/* The stream of the call has gone. The decision completes without it. */
void sl_grpc_call_leave(struct sl_grpc_call *call);

void sl_grpc_check(struct sl_grpc_stream *stream, struct sl_str message);
void sl_grpc_watch(struct sl_grpc_stream *stream, struct sl_str message);

/* Send the current health to all watchers. */
void sl_grpc_notify_watchers(struct sl_server_worker *base);

/* End the watching streams of a connection. */
void sl_grpc_end_watching(struct sl_grpc_conn *client);

void sl_grpc_reflect(struct sl_grpc_stream *stream, struct sl_str message);

/* ---- descriptors.c ---- */

/* Return the file of a name, or the file that has a symbol; NULL: none. */
const struct sl_grpc_row *sl_grpc_file_named(struct sl_str name);
const struct sl_grpc_row *sl_grpc_file_of(struct sl_str symbol);

/* Writes the FileDescriptorProto of a file. */
void sl_grpc_file_write(const struct sl_grpc_row *file, struct sl_pb_out *out);

#endif
