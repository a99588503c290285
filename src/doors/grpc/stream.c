/* stream.c -- one request: messages in, messages and a status out.
 *
 * A message comes behind a byte that says whether it is compressed (we take
 * none that is) and four that say how long it is. It is handed to the method
 * when it is whole: unary methods get theirs at the end of the request, so that
 * a second message, which there must not be, is seen; those that stream get
 * each as it comes.
 *
 * Whatever is wrong ends in a status and a sentence, never in silence, and
 * never in an answer that says something about a limit.
 */
#include <string.h>

#include "doors/grpc/inner.h"

#define SPARES 64 /* streams kept for the next requests */

/* What of their buffers is kept. */
#define KEPT ((size_t)4 << 10)

/* ---- life ---- */

static struct sl_grpc_stream *make(struct sl_grpc_worker *worker)
{
    struct sl_grpc_stream *stream = TAILQ_FIRST(&worker->spare_streams);

    if (stream) {
        TAILQ_REMOVE(&worker->spare_streams, stream, link);
        worker->spare_count--;
        return stream;
    }
    stream = sl_alloc_new(worker->alloc, sizeof(*stream));
    if (!stream)
        return NULL;
    sl_buf_init(&stream->in, SL_GRPC_PREFIX + SL_GRPC_MESSAGE, worker->alloc);
    sl_buf_init(&stream->out, SL_GRPC_OUT, worker->alloc);
    return stream;
}

static void clear(struct sl_grpc_stream *stream)
{
    struct sl_buf in = stream->in, out = stream->out;

    sl_buf_clear(&in);
    sl_buf_clear(&out);
    memset(stream, 0, sizeof(*stream));
    stream->in = in;
    stream->out = out;
}

struct sl_grpc_stream *sl_grpc_stream_new(struct sl_grpc_session *session,
                                          int32_t id)
{
    struct sl_grpc_stream *stream = make(session->worker);

    if (!stream)
        return NULL;
    clear(stream);
    stream->session = session;
    stream->id = id;
    stream->began = sl_loop_steady(session->worker->loop);
    TAILQ_INSERT_TAIL(&session->streams, stream, link);
    session->stream_count++;
    session->coming++;
    return stream;
}

static void discard(struct sl_grpc_worker *worker,
                    struct sl_grpc_stream *stream)
{
    sl_buf_done(&stream->in);
    sl_buf_done(&stream->out);
    sl_alloc_free(worker->alloc, stream, sizeof(*stream));
}

void sl_grpc_stream_free(struct sl_grpc_stream *stream)
{
    struct sl_grpc_session *session;
    struct sl_grpc_worker *worker;

    if (!stream)
        return;
    session = stream->session;
    worker = session->worker;
    if (stream->watches)
        TAILQ_REMOVE(&worker->watchers, stream, watch_link);
    if (stream->call)
        sl_grpc_call_leave(stream->call);
    TAILQ_REMOVE(&session->streams, stream, link);
    session->stream_count--;
    session->coming -= !stream->whole;
    if (worker->spare_count == SPARES) {
        discard(worker, stream);
        return;
    }
    if (stream->in.size > KEPT)
        sl_buf_done(&stream->in);
    if (stream->out.size > KEPT)
        sl_buf_done(&stream->out);
    TAILQ_INSERT_HEAD(&worker->spare_streams, stream, link);
    worker->spare_count++;
}

void sl_grpc_streams_done(struct sl_grpc_worker *worker)
{
    struct sl_grpc_stream *stream;

    while ((stream = TAILQ_FIRST(&worker->spare_streams)) != NULL) {
        TAILQ_REMOVE(&worker->spare_streams, stream, link);
        discard(worker, stream);
    }
    worker->spare_count = 0;
}

/* ---- messages ---- */

static size_t length_of(const struct sl_buf *in)
{
    const unsigned char *at = (const unsigned char *)in->bytes;

    return (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 |
           at[4];
}

/* Is what has come of a message right so far? */
static bool check_prefix(struct sl_grpc_stream *stream)
{
    if (stream->in.len > 0 && stream->in.bytes[0] != 0) {
        stream->only_identity = true;
        sl_grpc_refuse(stream, SL_GRPC_UNIMPLEMENTED,
                       "compressed messages are not supported; send "
                       "grpc-encoding: identity");
        return false;
    }
    if (stream->in.len >= SL_GRPC_PREFIX &&
        length_of(&stream->in) > SL_GRPC_MESSAGE) {
        sl_grpc_refuse(stream, SL_GRPC_RESOURCE_EXHAUSTED,
                       "the message has %zu bytes; the maximum is %zu",
                       length_of(&stream->in), SL_GRPC_MESSAGE);
        return false;
    }
    return true;
}

static bool has_message(const struct sl_grpc_stream *stream)
{
    return stream->in.len >= SL_GRPC_PREFIX &&
           stream->in.len - SL_GRPC_PREFIX >= length_of(&stream->in);
}

static void hand_on(struct sl_grpc_stream *stream)
{
    size_t len = length_of(&stream->in);

    stream->taken = true;
    stream->method->on_message(
        stream, (struct sl_str){stream->in.bytes + SL_GRPC_PREFIX, len});
    if (stream->method->streams)
        sl_buf_drop(&stream->in, SL_GRPC_PREFIX + len);
}

void sl_grpc_stream_data(struct sl_grpc_stream *stream, struct sl_str bytes)
{
    int err;

    if (stream->ended)
        return;
    err = sl_buf_add(&stream->in, bytes);
    if (!check_prefix(stream))
        return;
    if (err)
        sl_grpc_refuse(stream, SL_GRPC_RESOURCE_EXHAUSTED,
                       err == SLUICE_EFULL
                           ? "the request has more than one message"
                           : "out of memory");
    while (!stream->ended && stream->method->streams && check_prefix(stream) &&
           has_message(stream))
        hand_on(stream);
}

static bool is_late(const struct sl_grpc_stream *stream)
{
    return stream->deadline > 0 &&
           sl_loop_steady(stream->session->worker->loop) >= stream->deadline;
}

static void finish_unary(struct sl_grpc_stream *stream)
{
    if (!has_message(stream))
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       stream->in.len == 0
                           ? "the request has no message"
                           : "the message is shorter than its length prefix");
    else if (stream->in.len > SL_GRPC_PREFIX + length_of(&stream->in))
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the request has bytes after the message");
    else if (is_late(stream))
        sl_grpc_refuse(stream, SL_GRPC_DEADLINE_EXCEEDED,
                       "the request did not arrive within grpc-timeout");
    else
        hand_on(stream);
}

void sl_grpc_stream_end(struct sl_grpc_stream *stream)
{
    if (stream->whole)
        return;
    stream->whole = true;
    stream->session->coming--;
    if (stream->ended)
        return;
    if (!stream->method->streams)
        finish_unary(stream);
    else if (stream->in.len > 0)
        sl_grpc_refuse(stream, SL_GRPC_INVALID_ARGUMENT,
                       "the message is shorter than its length prefix");
    else
        sl_grpc_end(stream);
}
