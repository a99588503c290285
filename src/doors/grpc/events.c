/* events.c -- what nghttp2 tells of a connection, and what it is told.
 *
 * Floods. nghttp2 bounds what a peer can make it keep: streams, frames that
 * continue a head, answers to pings and settings that he does not read, resets
 * per second; all of that is set here. Frames that cost us and do nothing, sent
 * as fast as can be, are bounded by patience: each takes one of a budget that
 * comes back with time and with requests that are answered. Whoever has used it
 * up is told to calm down (GOAWAY), and the connection is closed.
 */
#include "server/grpc/grpc_int.h"

#define SETTINGS_MOST      32 /* in one frame */
#define CONTINUATIONS_MOST 8
#define ACKS_MOST          100
#define RESETS_BURST       1000
#define RESETS_RATE        33 /* per second */
#define PATIENCE_MOST      1000
#define PATIENCE_RATE      100 /* per second */
#define PATIENCE_EARNED    2   /* by a request */

static struct sl_grpc_stream *stream_of(nghttp2_session *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2, id);
}

/* A frame that only costs us. */
static void charge(struct sl_grpc_session *s)
{
    sl_ns now = sl_loop_mono(s->worker->loop);
    int64_t more = (now - s->patience_at) / (SL_S / PATIENCE_RATE);

    s->patience += more;
    s->patience_at += more * (SL_S / PATIENCE_RATE);
    if (s->patience > PATIENCE_MOST)
        s->patience = PATIENCE_MOST;
    if (--s->patience != 0)
        return;
    sl_grpc_refused(s->worker, "flood");
    if (nghttp2_session_terminate_session(s->h2, NGHTTP2_ENHANCE_YOUR_CALM))
        sl_conn_abort(s->conn);
}

/* ---- requests ---- */

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame,
                            void *ctx)
{
    struct sl_grpc_stream *stream;

    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    stream = sl_grpc_stream_new(ctx, frame->hd.stream_id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, stream);
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame,
                     const uint8_t *name, size_t name_len, const uint8_t *value,
                     size_t value_len, uint8_t flags, void *ctx)
{
    const struct sl_grpc_session *s = ctx;
    struct sl_grpc_stream *stream = stream_of(h2, frame->hd.stream_id);

    (void)flags;
    if (!stream)
        return 0;
    if (sl_grpc_stream_field(stream,
                             (struct sl_str){(const char *)name, name_len},
                             (struct sl_str){(const char *)value, value_len}))
        return 0;
    sl_grpc_refused(s->worker, "too_large");
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data_chunk(nghttp2_session *h2, uint8_t flags, int32_t id,
                         const uint8_t *bytes, size_t len, void *ctx)
{
    struct sl_grpc_stream *stream = stream_of(h2, id);

    (void)flags;
    (void)ctx;
    if (stream)
        sl_grpc_stream_data(stream, (struct sl_str){(const char *)bytes, len});
    return 0;
}

static void on_stream_frame(nghttp2_session *h2, const nghttp2_frame *frame)
{
    struct sl_grpc_stream *stream = stream_of(h2, frame->hd.stream_id);

    if (!stream)
        return;
    if (frame->hd.type == NGHTTP2_HEADERS &&
        frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        sl_grpc_stream_head(stream);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        sl_grpc_stream_end(stream);
}

/* Who has had his answer need not send the rest of the question. Earlier than
 * this, the answer would go with the stream. */
static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *ctx)
{
    const struct sl_grpc_stream *stream;

    (void)ctx;
    if (frame->hd.type != NGHTTP2_HEADERS ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    stream = stream_of(h2, frame->hd.stream_id);
    if (!stream || stream->whole)
        return 0;
    return nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, stream->id,
                                     NGHTTP2_NO_ERROR)
               ? NGHTTP2_ERR_CALLBACK_FAILURE
               : 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t id, uint32_t error,
                           void *ctx)
{
    struct sl_grpc_session *s = ctx;
    struct sl_grpc_stream *stream = stream_of(h2, id);

    if (error == NGHTTP2_NO_ERROR)
        s->patience += PATIENCE_EARNED;
    else
        charge(s);
    sl_grpc_stream_free(stream);
    return 0;
}

/* ---- the connection ---- */

void sl_grpc_send_goaway(struct sl_grpc_session *s)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(s->h2);

    if (s->said_last)
        return;
    s->said_last = true;
    s->last_at = 0;
    if (nghttp2_submit_goaway(s->h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR,
                              NULL, 0))
        sl_conn_abort(s->conn);
}

static void on_ping(struct sl_grpc_session *s, const nghttp2_frame *frame)
{
    if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
        charge(s);
    else if (s->going)
        sl_grpc_send_goaway(s);
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *ctx)
{
    struct sl_grpc_session *s = ctx;

    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 &&
            !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            charge(s);
        on_stream_frame(h2, frame);
        break;
    case NGHTTP2_HEADERS:
        on_stream_frame(h2, frame);
        break;
    case NGHTTP2_PING:
        on_ping(s, frame);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        break;
    case NGHTTP2_SETTINGS:
        s->begun = true;
        charge(s);
        break;
    default:
        charge(s);
    }
    return 0;
}

/* Frames that it refuses are not told to on_frame(). */
static int on_invalid(nghttp2_session *h2, const nghttp2_frame *frame, int err,
                      void *ctx)
{
    (void)h2;
    (void)frame;
    (void)err;
    charge(ctx);
    return 0;
}

/* ---- making one ---- */

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *c;

    if (nghttp2_session_callbacks_new(&c))
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(c,
                                                            on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid);
    return c;
}

static nghttp2_option *make_option(void)
{
    nghttp2_option *o;

    if (nghttp2_option_new(&o))
        return NULL;
    nghttp2_option_set_max_settings(o, SETTINGS_MOST);
    nghttp2_option_set_max_continuations(o, CONTINUATIONS_MOST);
    nghttp2_option_set_max_outbound_ack(o, ACKS_MOST);
    nghttp2_option_set_stream_reset_rate_limit(o, RESETS_BURST, RESETS_RATE);
    nghttp2_option_set_peer_max_concurrent_streams(o, SL_GRPC_STREAMS);
    nghttp2_option_set_no_closed_streams(o, 1);
    return o;
}

static int begin(struct sl_grpc_session *s,
                 const nghttp2_session_callbacks *callbacks,
                 const nghttp2_option *option)
{
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, SL_GRPC_STREAMS},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,   SL_GRPC_HEAD   },
    };
    nghttp2_mem memory = sl_grpc_memory(&s->worker->pool);

    if (nghttp2_session_server_new3(&s->h2, callbacks, s, option, &memory))
        return SLUICE_ENOMEM;
    if (nghttp2_submit_settings(s->h2, NGHTTP2_FLAG_NONE, settings,
                                SL_LEN(settings))) {
        nghttp2_session_del(s->h2);
        s->h2 = NULL;
        return SLUICE_ENOMEM;
    }
    return 0;
}

int sl_grpc_h2_new(struct sl_grpc_session *s)
{
    nghttp2_session_callbacks *callbacks = make_callbacks();
    nghttp2_option *option = make_option();
    int err = callbacks && option ? begin(s, callbacks, option) : SLUICE_ENOMEM;

    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    s->patience = PATIENCE_MOST;
    s->patience_at = sl_loop_mono(s->worker->loop);
    return err;
}
