/* conn.c -- HTTP/2 connections of the gRPC server.
 *
 * HTTP/2 needs prior knowledge, with or without TLS. HTTP/1 clients get a text
 * that they can show. Any other first bytes get a GOAWAY (PROTOCOL_ERROR). Then
 * the connection is closed.
 *
 * Timeouts. A connection has to begin in time. A request that does not arrive
 * whole in time is reset. An idle connection is closed; one with open streams
 * gets a ping first.
 *
 * Age and drain. A first GOAWAY, which names the highest possible stream, and a
 * ping ask the client to go. When the ping comes back, a second GOAWAY names
 * the last stream. After all answers the connection is closed. So no request in
 * transit is lost.
 *
 *     OPEN --go()--> ASKED --pong--> LAST --no stream left--> closed
 */

#include "server/grpc/grpc_int.h"

#define MAX_OUT  ((size_t)2 << 20)
#define HIGH_OUT ((size_t)256 << 10)
#define MAX_IN   ((size_t)128 << 10)

/* Time for the answer to a ping, and for a client that was asked to go. */
#define PEER_WAIT (20 * SL_S)

/* The same while draining. Some clients read only when they send, and never
 * answer the ping. A request that crosses the GOAWAY is not served, as the
 * GOAWAY states. */
#define DRAIN_WAIT (200 * SL_MS)

#define WRONG_PROTOCOL                                                         \
    "HTTP/1.1 400 Bad Request\r\n"                                             \
    "Content-Type: text/plain\r\n"                                             \
    "Content-Length: 91\r\n"                                                   \
    "Connection: close\r\n\r\n"                                                \
    "this is the grpc listener, which speaks HTTP/2 with prior knowledge; "    \
    "use the http listener\n"

static sl_ns or_else(sl_ns set, sl_ns usual)
{
    return set > 0 ? set : usual;
}

static sl_ns mono_now(const struct sl_grpc_conn *c)
{
    return sl_loop_mono(c->base.worker->loop);
}

/* ---- sending ---- */

void sl_grpc_pump(struct sl_grpc_conn *c)
{
    const uint8_t *bytes;
    ssize_t len = 1;

    if (c->pumping)
        return;
    c->pumping = true;
    while (len > 0 && !sl_conn_is_full(c->base.conn)) {
        len = nghttp2_session_mem_send(c->h2, &bytes);
        if (len > 0 &&
            sl_buf_add(&c->base.conn->out,
                       (struct sl_str){(const char *)bytes, (size_t)len}))
            len = SLUICE_ENOMEM;
    }
    if (len < 0)
        sl_conn_abort(c->base.conn);
    c->pumping = false;
    if (!nghttp2_session_want_read(c->h2) && !nghttp2_session_want_write(c->h2))
        sl_conn_finish(c->base.conn);
}

/* ---- timeouts ---- */

static void set_deadline(struct sl_grpc_conn *c)
{
    const struct sl_server *server = c->worker->base.server;
    sl_ns after = or_else(server->idle_timeout, 10 * SL_MIN);

    c->waits = c->coming > 0;
    if (!c->begun)
        after = or_else(server->begin_timeout, 5 * SL_S);
    else if (c->waits)
        after = or_else(server->body_timeout, 10 * SL_S);
    else if (c->going || c->pinged)
        after = PEER_WAIT;
    if (c->ends_at > 0 && !c->going && c->ends_at - mono_now(c) < after)
        after = c->ends_at - mono_now(c);
    if (c->last_at > 0 && c->last_at - mono_now(c) < after)
        after = c->last_at - mono_now(c);
    sl_conn_deadline(c->base.conn, after > 0 ? after : 1);
}

/* Ask the client to go. */
static void go(struct sl_grpc_conn *c)
{
    if (c->going)
        return;
    c->going = true;
    if (nghttp2_submit_shutdown_notice(c->h2) ||
        nghttp2_submit_ping(c->h2, NGHTTP2_FLAG_NONE, NULL))
        sl_conn_abort(c->base.conn);
}

/* Names the last stream: the client has seen that it should go, or has had
 * enough time. After that stream the connection ends. */
static void send_goaway(struct sl_grpc_conn *c)
{
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->h2);

    if (c->said_last)
        return;
    c->said_last = true;
    c->last_at = 0;
    if (nghttp2_submit_goaway(c->h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR,
                              NULL, 0))
        sl_conn_abort(c->base.conn);
}

/* Draining: has the client had time to see that it should go? */
static bool is_drain_due(const struct sl_grpc_conn *c)
{
    return c->last_at > 0 && mono_now(c) >= c->last_at;
}

/* Reset requests that have not arrived in time. */
static void reset_late(struct sl_grpc_conn *c)
{
    sl_ns most = or_else(c->worker->base.server->body_timeout, 10 * SL_S);
    struct sl_grpc_stream *stream;

    TAILQ_FOREACH (stream, &c->streams, link) {
        if (stream->whole || mono_now(c) - stream->began < most)
            continue;
        sl_server_count_refusal(c->base.worker, "deadline");
        if (nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, stream->id,
                                      NGHTTP2_CANCEL))
            sl_conn_abort(c->base.conn);
    }
}

/* Pings a client with open streams; ends an idle connection. */
static bool ask_alive(struct sl_grpc_conn *c)
{
    c->pinged = true;
    if (c->stream_count > 0)
        return nghttp2_submit_ping(c->h2, NGHTTP2_FLAG_NONE, NULL) == 0;
    return nghttp2_session_terminate_session(c->h2, NGHTTP2_NO_ERROR) == 0;
}

/* The timeout has passed. False if the connection is to be closed. */
static bool handle_timeout(struct sl_grpc_conn *c)
{
    bool old = !c->going && c->ends_at > 0 && mono_now(c) >= c->ends_at;

    if (is_drain_due(c))
        send_goaway(c);
    else if (c->coming > 0)
        reset_late(c);
    else if (old)
        go(c);
    else if (c->going || c->pinged)
        return false;
    else
        return ask_alive(c);
    return true;
}
static void on_deadline(struct sl_conn *conn)
{
    struct sl_grpc_conn *c = conn->owner;

    if (c->base.handshaking && !c->begun) { /* it is complete: see conn.h */
        c->base.handshaking = false;
        set_deadline(c);
        return;
    }
    if (!c->begun || !handle_timeout(c))
        return;
    set_deadline(c);
    sl_grpc_pump(c);
}

/* ---- floods.
 *
 * nghttp2 bounds what a client can make it keep: streams, CONTINUATION frames,
 * unread acknowledgements, resets per second. Frames that do no work are
 * bounded by budgets: each costs one; time and answered requests refill them.
 * Ordinary clients send up to four WINDOW_UPDATE for an answer, so these have a
 * budget of their own, which unknown frames share. When a budget is used up the
 * client gets a GOAWAY (ENHANCE_YOUR_CALM), and the connection is closed.
 */

#define PATIENCE_MOST   1000
#define PATIENCE_RATE   100 /* per second */
#define PATIENCE_EARNED 2   /* by a request */
#define UPDATES_MOST    10000
#define UPDATES_RATE    1000
#define UPDATES_EARNED  8

static void spend(struct sl_grpc_conn *c, struct sl_grpc_budget *budget,
                  int64_t most, int64_t rate)
{
    int64_t more = (mono_now(c) - budget->at) / (SL_S / rate);

    budget->left += more;
    budget->at += more * (SL_S / rate);
    if (budget->left > most)
        budget->left = most;
    if (--budget->left != 0)
        return;
    sl_server_count_refusal(c->base.worker, "flood");
    if (nghttp2_session_terminate_session(c->h2, NGHTTP2_ENHANCE_YOUR_CALM))
        sl_conn_abort(c->base.conn);
}

/* Charge for a frame that does no work. */
static void charge(struct sl_grpc_conn *c)
{
    spend(c, &c->patience, PATIENCE_MOST, PATIENCE_RATE);
}

/* ---- frames.
 *
 * nghttp2 ignores unknown frames, and DATA and HEADERS of closed streams,
 * without a callback. So the heads of frames are read here, too.
 *
 * On a closed stream DATA gets RST_STREAM (STREAM_CLOSED), and HEADERS ends the
 * connection with it, as RFC 9113, 5.1 says; or with PROTOCOL_ERROR, if the
 * client left the stream out (5.1.1). If this side has reset the stream, the
 * client may not know it yet, and the frame is ignored.
 */

struct frame {
    size_t len;
    uint8_t type;
    int32_t stream;
};

/* Reads on from byte *at to behind the next head of a frame. Returns false at
 * the end of the input. */
static bool next_frame(struct sl_grpc_frames *f, const struct sl_buf *in,
                       size_t *at, struct frame *ret)
{
    size_t skip = NGHTTP2_CLIENT_MAGIC_LEN - f->preface;

    if (skip > in->len - *at)
        skip = in->len - *at;
    f->preface += (unsigned)skip;
    *at += skip;
    skip = f->left < in->len - *at ? f->left : in->len - *at;
    f->left -= skip;
    *at += skip;
    while (f->have < SL_GRPC_FRAME_HEAD && *at < in->len)
        f->head[f->have++] = (uint8_t)in->bytes[(*at)++];
    if (f->have < SL_GRPC_FRAME_HEAD)
        return false;
    f->have = 0;
    f->left = (size_t)f->head[0] << 16 | (size_t)f->head[1] << 8 | f->head[2];
    *ret = (struct frame){
        .len = f->left,
        .type = f->head[3],
        .stream = (int32_t)((uint32_t)(f->head[5] & 0x7f) << 24 |
                            (uint32_t)f->head[6] << 16 |
                            (uint32_t)f->head[7] << 8 | f->head[8]),
    };
    return true;
}

static void note_reset(struct sl_grpc_conn *c, int32_t id)
{
    int32_t *slot = &c->resets[c->reset_count++ % SL_GRPC_RESETS];

    if (*slot > c->resets_before)
        c->resets_before = *slot;
    *slot = id;
}

/* May this side have reset the stream? */
static bool was_reset(const struct sl_grpc_conn *c, int32_t id)
{
    for (unsigned i = 0; i < SL_GRPC_RESETS; i++)
        if (c->resets[i] == id)
            return true;
    return id <= c->resets_before;
}

static void on_closed_stream(struct sl_grpc_conn *c, const struct frame *frame)
{
    bool expected = was_reset(c, frame->stream);
    bool left_out = frame->stream >= c->skipped && frame->stream < c->last_id;
    int err = 0;

    if (!expected || frame->len == 0)
        charge(c);
    if (!expected && frame->type == NGHTTP2_DATA)
        err = nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, frame->stream,
                                        NGHTTP2_STREAM_CLOSED);
    else if (!expected)
        err = nghttp2_session_terminate_session(
            c->h2, left_out ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_STREAM_CLOSED);
    if (err)
        sl_conn_abort(c->base.conn);
}

/* Gives nghttp2 the input from *from to `to`. Returns 0 or its error. */
static ssize_t feed(struct sl_grpc_conn *c, size_t *from, size_t to)
{
    const uint8_t *bytes = (const uint8_t *)c->base.conn->in.bytes;
    ssize_t used = 0;

    if (to > *from)
        used = nghttp2_session_mem_recv(c->h2, bytes + *from, to - *from);
    if (used < 0)
        return used;
    *from += (size_t)used;
    return 0;
}

/* DATA or HEADERS of a stream that has begun, and is not open? */
static bool is_closed(const struct sl_grpc_conn *c, const struct frame *frame,
                      int32_t last)
{
    return (frame->type == NGHTTP2_DATA || frame->type == NGHTTP2_HEADERS) &&
           frame->stream % 2 == 1 && frame->stream <= last &&
           !nghttp2_session_find_stream(c->h2, frame->stream);
}

/* A frame begins at `at`. nghttp2 gets what stands before it, if that may open
 * or close its stream. Other frames close none before an answer is sent. */
static ssize_t on_head(struct sl_grpc_conn *c, const struct frame *frame,
                       size_t *fed, size_t at)
{
    bool matters = c->frames.after_reset || is_closed(c, frame, c->last_head);
    ssize_t err = 0;

    if (matters && at > *fed)
        err = feed(c, fed, at);
    c->frames.after_reset = frame->type == NGHTTP2_RST_STREAM;
    if (frame->type == NGHTTP2_HEADERS && frame->stream > c->last_head)
        c->last_head = frame->stream;
    if (err)
        return err;
    if (frame->type == NGHTTP2_WINDOW_UPDATE ||
        frame->type > NGHTTP2_CONTINUATION)
        spend(c, &c->updates, UPDATES_MOST, UPDATES_RATE);
    if (is_closed(c, frame, c->last_id))
        on_closed_stream(c, frame);
    return 0;
}

/* Gives nghttp2 the input. Returns its length, or the error of nghttp2. */
static ssize_t receive(struct sl_grpc_conn *c)
{
    const struct sl_buf *in = &c->base.conn->in;
    size_t fed = 0, at = 0;
    struct frame frame;
    ssize_t err = 0;

    while (!err && next_frame(&c->frames, in, &at, &frame))
        err = on_head(c, &frame, &fed,
                      at > SL_GRPC_FRAME_HEAD ? at - SL_GRPC_FRAME_HEAD : 0);
    if (!err)
        err = feed(c, &fed, in->len);
    return err ? err : (ssize_t)fed;
}

/* ---- input ---- */

/* The input is invalid. Sends the error of nghttp2, and closes. */
static void refuse_input(struct sl_grpc_conn *c, ssize_t why)
{
    struct sl_conn *conn = c->base.conn;
    bool speaks_http1 =
        memmem(conn->in.bytes, conn->in.len, " HTTP/1.", 8) != NULL;

    sl_buf_clear(&conn->in);
    sl_server_count_refusal(c->base.worker,
                            why == NGHTTP2_ERR_FLOODED ? "flood" : "malformed");
    if (why == NGHTTP2_ERR_BAD_CLIENT_MAGIC && speaks_http1) {
        if (sl_buf_add(&conn->out, SL_STR(WRONG_PROTOCOL)))
            sl_conn_abort(conn);
    } else {
        if (why == NGHTTP2_ERR_NOMEM ||
            nghttp2_session_terminate_session(
                c->h2, why == NGHTTP2_ERR_BAD_CLIENT_MAGIC
                           ? NGHTTP2_PROTOCOL_ERROR
                           : NGHTTP2_ENHANCE_YOUR_CALM))
            sl_conn_abort(conn);
        sl_grpc_pump(c);
    }
    sl_conn_finish(conn);
}

static void on_input(struct sl_conn *conn)
{
    struct sl_grpc_conn *c = conn->owner;
    ssize_t used;

    c->pinged = false;
    if (c->ends_at > 0 && !c->going && mono_now(c) >= c->ends_at)
        go(c);
    used = receive(c);
    if (used < 0) {
        refuse_input(c, used);
        return;
    }
    sl_buf_drop(&conn->in, (size_t)used);
    if (is_drain_due(c))
        send_goaway(c);
    if (c->coming == 0 || !c->waits)
        set_deadline(c);
    sl_grpc_pump(c);
}

static void on_room(struct sl_conn *conn)
{
    sl_grpc_pump(conn->owner);
}

/* ---- nghttp2: callbacks and options ---- */

#define SETTINGS_MOST      32 /* in one frame */
#define CONTINUATIONS_MOST 8
#define ACKS_MOST          100
#define RESETS_BURST       1000
#define RESETS_RATE        33 /* per second */

static struct sl_grpc_stream *stream_of(nghttp2_session *h2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h2, id);
}

static int on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame,
                            void *ctx)
{
    struct sl_grpc_conn *c = ctx;
    struct sl_grpc_stream *stream;

    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    c->skipped = c->last_id + (c->last_id > 0 ? 2 : 1);
    c->last_id = frame->hd.stream_id;
    stream = sl_grpc_stream_new(c, frame->hd.stream_id);
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, stream);
    return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame,
                     const uint8_t *name, size_t name_len, const uint8_t *value,
                     size_t value_len, uint8_t flags, void *ctx)
{
    const struct sl_grpc_conn *c = ctx;
    struct sl_grpc_stream *stream = stream_of(h2, frame->hd.stream_id);

    (void)flags;
    if (!stream)
        return 0;
    if (sl_grpc_stream_field(stream,
                             (struct sl_str){(const char *)name, name_len},
                             (struct sl_str){(const char *)value, value_len}))
        return 0;
    sl_server_count_refusal(c->base.worker, "too_large");
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

/* After the answer the client need not send the rest of its request. A reset
 * before this point would drop the answer. */
static int on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *ctx)
{
    const struct sl_grpc_stream *stream;

    if (frame->hd.type == NGHTTP2_RST_STREAM)
        note_reset(ctx, frame->hd.stream_id);
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
    struct sl_grpc_conn *c = ctx;
    struct sl_grpc_stream *stream = stream_of(h2, id);

    if (error == NGHTTP2_NO_ERROR) {
        c->patience.left += PATIENCE_EARNED;
        c->updates.left += UPDATES_EARNED;
    } else {
        charge(c);
    }
    sl_grpc_stream_free(stream);
    return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *ctx)
{
    struct sl_grpc_conn *c = ctx;

    switch (frame->hd.type) {
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 &&
            !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
            charge(c);
        on_stream_frame(h2, frame);
        break;
    case NGHTTP2_HEADERS:
        on_stream_frame(h2, frame);
        break;
    case NGHTTP2_PING:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
            charge(c);
        else if (c->going)
            send_goaway(c);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        break;
    case NGHTTP2_SETTINGS:
        c->begun = true;
        charge(c);
        break;
    default:
        charge(c);
    }
    return 0;
}

/* nghttp2 does not report invalid frames to on_frame(). */
static int on_invalid(nghttp2_session *h2, const nghttp2_frame *frame, int err,
                      void *ctx)
{
    (void)h2;
    if (frame->hd.type == NGHTTP2_HEADERS && err == NGHTTP2_ERR_REFUSED_STREAM)
        note_reset(ctx, frame->hd.stream_id);
    charge(ctx);
    return 0;
}

/* ---- a new session ---- */

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

/* Makes the connection's session, with all its bounds. */
static int new_session(struct sl_grpc_conn *c)
{
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, SL_GRPC_STREAMS},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,   SL_GRPC_HEAD   },
    };
    nghttp2_mem memory = sl_grpc_memory(&c->worker->pool);
    nghttp2_session_callbacks *callbacks = make_callbacks();
    nghttp2_option *option = make_option();
    bool good =
        callbacks && option &&
        !nghttp2_session_server_new3(&c->h2, callbacks, c, option, &memory) &&
        !nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, settings,
                                 SL_LEN(settings));

    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    c->patience = (struct sl_grpc_budget){PATIENCE_MOST, mono_now(c)};
    c->updates = (struct sl_grpc_budget){UPDATES_MOST, mono_now(c)};
    if (good)
        return 0;
    nghttp2_session_del(c->h2);
    c->h2 = NULL;
    return SLUICE_ENOMEM;
}

/* ---- the protocol ---- */

static size_t max_in(const struct sl_server *server)
{
    (void)server;
    return MAX_IN;
}

static void worker_init(struct sl_server_worker *base)
{
    struct sl_grpc_worker *worker = (struct sl_grpc_worker *)base;

    worker->pool.alloc = base->alloc;
    TAILQ_INIT(&worker->spare_streams);
    TAILQ_INIT(&worker->watchers);
}

static void worker_done(struct sl_server_worker *base)
{
    struct sl_grpc_worker *worker = (struct sl_grpc_worker *)base;

    sl_grpc_streams_done(worker);
    sl_grpc_pool_done(&worker->pool);
}

/* 90 to 110 percent of the age, so that connections that were opened together
 * do not end together. */
static sl_ns choose_end(struct sl_grpc_conn *c)
{
    struct sl_grpc_worker *worker = c->worker;
    sl_ns age = worker->base.server->max_age;
    uint64_t random;

    if (age == 0)
        return 0;
    random = sl_hash64(&worker->base.token_key,
                       (struct sl_str){(const char *)&worker->random_seed,
                                       sizeof(worker->random_seed)});
    worker->random_seed++;
    return mono_now(c) + age / 10 * 9 + (sl_ns)(random % 1024) * (age / 5120);
}

static int on_new(struct sl_server_conn *base)
{
    struct sl_grpc_conn *c = (struct sl_grpc_conn *)base;

    c->worker = (struct sl_grpc_worker *)base->worker;
    TAILQ_INIT(&c->streams);
    if (new_session(c))
        return SLUICE_ENOMEM;
    c->ends_at = choose_end(c);
    return 0;
}

static void on_new_failed(struct sl_server_conn *base)
{
    nghttp2_session_del(((struct sl_grpc_conn *)base)->h2);
}

static void on_open(struct sl_server_conn *base)
{
    set_deadline((struct sl_grpc_conn *)base);
}

static bool on_close(struct sl_server_conn *base)
{
    struct sl_grpc_conn *c = (struct sl_grpc_conn *)base;
    struct sl_grpc_stream *stream;

    c->pumping = true; /* nothing is sent any more */
    while ((stream = TAILQ_FIRST(&c->streams)) != NULL)
        sl_grpc_stream_free(stream);
    nghttp2_session_del(c->h2);
    return false;
}

static void on_drain(struct sl_server_conn *base)
{
    struct sl_grpc_conn *c = (struct sl_grpc_conn *)base;

    if (!c->begun) {
        sl_conn_finish(base->conn);
        return;
    }
    sl_grpc_end_watching(c);
    go(c);
    if (!c->said_last)
        c->last_at = mono_now(c) + DRAIN_WAIT;
    set_deadline(c);
    sl_grpc_pump(c);
    sl_conn_flush(base->conn);
}

const struct sl_protocol sl_protocol_grpc = {
    .worker_size = sizeof(struct sl_grpc_worker),
    .conn_size = sizeof(struct sl_grpc_conn),
    .op_size = sizeof(struct sl_grpc_call),
    .max_spare_ops = SL_GRPC_SPARES,
    .max_out = MAX_OUT,
    .high_out = HIGH_OUT,
    .http2 = true,
    .max_in = max_in,
    .worker_init = worker_init,
    .worker_done = worker_done,
    .op_init = sl_grpc_call_init,
    .op_done = sl_grpc_call_free,
    .on_new = on_new,
    .on_new_failed = on_new_failed,
    .on_open = on_open,
    .calls = {.on_input = on_input,
              .on_room = on_room,
              .on_deadline = on_deadline,
              .on_close = sl_server_on_close},
    .on_close = on_close,
    .on_announce_drain = sl_grpc_notify_watchers,
    .on_drain = on_drain,
};
