/* conn.c -- connections of the grpc door.
 *
 * HTTP/2 comes with prior knowledge: its first bytes say so, in the clear or
 * below TLS. Whoever sends something else is told in words that clients of
 * HTTP/1 can show, and the connection is closed.
 *
 * Deadlines. A connection has some seconds to begin, and each request some to
 * come whole; those that do not are reset. An idle connection is closed after a
 * while; one on which somebody waits for news is asked whether he is there.
 *
 * Ages and ends. A connection that is to end gets a GOAWAY that names no stream
 * yet, and a ping: when the ping comes back the peer knows, and a second GOAWAY
 * says which stream was the last. When all are answered it is closed. So no
 * request is lost that was on its way.
 *
 *     OPEN --go()--> WARNED --pong--> LAST --no stream left--> closed
 */
#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>

#include "server/grpc/grpc_int.h"

#define OUT_MOST ((size_t)2 << 20)
#define OUT_HIGH ((size_t)256 << 10)
#define IN_MOST  ((size_t)128 << 10)

/* How long an answer to a ping, or the end of those who were asked to go, is
 * waited for. */
#define PATIENTLY (20 * SL_S)

/* The same at our own end. Some clients read nothing while they ask nothing,
 * and never answer; what they send without having seen that they are to go
 * finds out by GOAWAY that it was not carried out. */
#define BRIEFLY (200 * SL_MS)

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

static sl_ns steady(const struct sl_grpc_session *s)
{
    return sl_loop_mono(s->worker->loop);
}

void sl_grpc_refused(const struct sl_grpc_worker *worker, const char *why)
{
    if (worker->stats)
        sl_metrics_refused(worker->stats, "grpc", why);
}

/* ---- sending ---- */

static void append(struct sl_grpc_session *s)
{
    const uint8_t *bytes;
    ssize_t len = 1;

    while (len > 0 && !sl_conn_is_full(s->conn)) {
        len = nghttp2_session_mem_send(s->h2, &bytes);
        if (len > 0 &&
            sl_buf_add(&s->conn->out,
                       (struct sl_str){(const char *)bytes, (size_t)len}))
            len = SLUICE_ENOMEM;
    }
    if (len < 0)
        sl_conn_abort(s->conn);
}

void sl_grpc_pump(struct sl_grpc_session *s)
{
    if (s->pumping)
        return;
    s->pumping = true;
    append(s);
    s->pumping = false;
    if (!nghttp2_session_want_read(s->h2) && !nghttp2_session_want_write(s->h2))
        sl_conn_finish(s->conn);
}

/* ---- time ---- */

static void set_deadline(struct sl_grpc_session *s)
{
    const struct sl_grpc_door *door = s->worker->door;
    sl_ns after = or_else(door->idle_deadline, 10 * SL_MIN);

    s->waits = s->coming > 0;
    if (!s->begun)
        after = or_else(door->head_deadline, 5 * SL_S);
    else if (s->waits)
        after = or_else(door->body_deadline, 10 * SL_S);
    else if (s->going || s->pinged)
        after = PATIENTLY;
    if (s->ends_at > 0 && !s->going && s->ends_at - steady(s) < after)
        after = s->ends_at - steady(s);
    if (s->last_at > 0 && s->last_at - steady(s) < after)
        after = s->last_at - steady(s);
    sl_conn_deadline(s->conn, after > 0 ? after : 1);
}

/* Ask the peer to go. */
static void go(struct sl_grpc_session *s)
{
    if (s->going)
        return;
    s->going = true;
    if (nghttp2_submit_shutdown_notice(s->h2) ||
        nghttp2_submit_ping(s->h2, NGHTTP2_FLAG_NONE, NULL))
        sl_conn_abort(s->conn);
}

/* We end, and he was asked to go: has he had time to see that? */
static bool has_had_time(const struct sl_grpc_session *s)
{
    return s->last_at > 0 && steady(s) >= s->last_at;
}

/* Requests that have not come in time are given up. */
static void give_up_late(struct sl_grpc_session *s)
{
    sl_ns most = or_else(s->worker->door->body_deadline, 10 * SL_S);
    struct sl_grpc_stream *stream;

    TAILQ_FOREACH(stream, &s->streams, link)
    {
        if (stream->whole || steady(s) - stream->began < most)
            continue;
        sl_grpc_refused(s->worker, "deadline");
        if (nghttp2_submit_rst_stream(s->h2, NGHTTP2_FLAG_NONE, stream->id,
                                      NGHTTP2_CANCEL))
            sl_conn_abort(s->conn);
    }
}

/* Nothing has come for a while. False if it is to be closed. */
static bool bear_silence(struct sl_grpc_session *s)
{
    if (has_had_time(s)) {
        sl_grpc_send_goaway(s);
        return true;
    }
    if (s->coming > 0) {
        give_up_late(s);
        return true;
    }
    if (!s->going && s->ends_at > 0 && steady(s) >= s->ends_at) {
        go(s);
        return true;
    }
    if (s->going || s->pinged)
        return false;
    s->pinged = true;
    if (s->stream_count > 0) /* is anybody there? */
        return nghttp2_submit_ping(s->h2, NGHTTP2_FLAG_NONE, NULL) == 0;
    return nghttp2_session_terminate_session(s->h2, NGHTTP2_NO_ERROR) == 0;
}

static void on_deadline(struct sl_conn *conn)
{
    struct sl_grpc_session *s = conn->owner;

    if (s->shakes && !s->begun) { /* they have, or nobody would ask */
        s->shakes = false;
        set_deadline(s);
        return;
    }
    if (!s->begun || !bear_silence(s))
        return;
    set_deadline(s);
    sl_grpc_pump(s);
}

/* ---- input ---- */

static void refuse_protocol(struct sl_grpc_session *s)
{
    sl_grpc_refused(s->worker, "malformed");
    if (sl_buf_add(&s->conn->out, SL_STR(WRONG_PROTOCOL)))
        sl_conn_abort(s->conn);
    sl_conn_finish(s->conn);
}

/* It can't go on. What nghttp2 has to say about it is sent. */
static void refuse_input(struct sl_grpc_session *s, ssize_t why)
{
    sl_buf_clear(&s->conn->in);
    if (why == NGHTTP2_ERR_BAD_CLIENT_MAGIC) {
        refuse_protocol(s);
        return;
    }
    sl_grpc_refused(s->worker,
                    why == NGHTTP2_ERR_FLOODED ? "flood" : "malformed");
    if (why == NGHTTP2_ERR_NOMEM ||
        nghttp2_session_terminate_session(s->h2, NGHTTP2_ENHANCE_YOUR_CALM))
        sl_conn_abort(s->conn);
    sl_grpc_pump(s);
    sl_conn_finish(s->conn);
}

static void on_input(struct sl_conn *conn)
{
    struct sl_grpc_session *s = conn->owner;
    ssize_t used;

    s->pinged = false;
    if (s->ends_at > 0 && !s->going && steady(s) >= s->ends_at)
        go(s);
    used = nghttp2_session_mem_recv(s->h2, (const uint8_t *)conn->in.bytes,
                                    conn->in.len);
    if (used < 0) {
        refuse_input(s, used);
        return;
    }
    sl_buf_drop(&conn->in, (size_t)used);
    if (has_had_time(s))
        sl_grpc_send_goaway(s);
    if (s->coming == 0 || !s->waits)
        set_deadline(s);
    sl_grpc_pump(s);
}

static void on_room(struct sl_conn *conn)
{
    sl_grpc_pump(conn->owner);
}

static void on_close(struct sl_conn *conn)
{
    struct sl_grpc_session *s = conn->owner;
    struct sl_grpc_worker *worker = s->worker;
    struct sl_grpc_stream *stream;

    s->pumping = true; /* nothing is sent any more */
    while ((stream = TAILQ_FIRST(&s->streams)) != NULL)
        sl_grpc_stream_free(stream);
    nghttp2_session_del(s->h2);
    if (worker->stats)
        sl_metrics_connection(worker->stats, "grpc", -1);
    sl_conn_count_leave(&s->place);
    sl_alloc_free(worker->alloc, s, sizeof(*s));
}

/* ---- connections ---- */

static const struct sl_conn_calls calls = {
    .on_input = on_input,
    .on_room = on_room,
    .on_deadline = on_deadline,
    .on_close = on_close,
};

/* Nine to eleven tenths of the age, so that those who came together do not go
 * together. */
static sl_ns choose_end(struct sl_grpc_session *s)
{
    struct sl_grpc_worker *worker = s->worker;
    sl_ns age = worker->door->age_most;
    uint64_t chance;

    if (age == 0)
        return 0;
    chance = sl_hash64(
        &worker->secret,
        (struct sl_str){(const char *)&worker->chance, sizeof(worker->chance)});
    worker->chance++;
    return steady(s) + age / 10 * 9 + (sl_ns)(chance % 1024) * (age / 5120);
}

static int open_conn(struct sl_grpc_session *s, int fd,
                     const struct sl_address *peer)
{
    struct sl_grpc_worker *worker = s->worker;
    struct sl_conn_options options = {
        .calls = &calls,
        .owner = s,
        .in_most = IN_MOST,
        .out_most = OUT_MOST,
        .out_high = OUT_HIGH,
        .tls = worker->tls,
        .alloc = worker->alloc,
    };

    return sl_conn_open(worker->conns, fd, peer, &options, &s->conn);
}

static struct sl_grpc_session *new_session(struct sl_grpc_worker *worker)
{
    struct sl_grpc_session *s = sl_alloc_new(worker->alloc, sizeof(*s));

    if (!s)
        return NULL;
    memset(s, 0, sizeof(*s));
    s->worker = worker;
    TAILQ_INIT(&s->streams);
    if (sl_grpc_h2_new(s)) {
        sl_alloc_free(worker->alloc, s, sizeof(*s));
        return NULL;
    }
    s->shakes = worker->tls != NULL;
    s->ends_at = choose_end(s);
    return s;
}

void sl_grpc_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_grpc_worker *worker = ctx;
    struct sl_conn_count place;
    const char *why =
        sl_conn_count_take(&place, worker->door->crowd, worker->engine, peer);
    struct sl_grpc_session *s = why ? NULL : new_session(worker);

    if (!s) {
        sl_conn_count_leave(&place);
        sl_grpc_refused(worker, why ? why : "no_memory");
        close(fd);
        return;
    }
    s->place = place;
    if (open_conn(s, fd, peer)) {
        sl_conn_count_leave(&place);
        sl_grpc_refused(worker, "too_many");
        nghttp2_session_del(s->h2);
        sl_alloc_free(worker->alloc, s, sizeof(*s));
        return;
    }
    if (worker->stats)
        sl_metrics_connection(worker->stats, "grpc", +1);
    set_deadline(s);
}

static void drain_one(struct sl_conn *conn, void *ctx)
{
    struct sl_grpc_session *s = conn->owner;

    (void)ctx;
    if (!s->begun) {
        sl_conn_finish(conn);
        return;
    }
    go(s);
    if (!s->said_last)
        s->last_at = steady(s) + BRIEFLY;
    set_deadline(s);
    sl_grpc_pump(s);
    sl_conn_flush(conn);
}

void sl_grpc_drain(struct sl_grpc_worker *worker)
{
    sl_grpc_end_watching(worker);
    sl_conns_shorten_linger(worker->conns);
    sl_conns_each(worker->conns, drain_one, NULL);
}

/* ---- what nghttp2 tells of a connection, and what it is told.
 *
 * Floods. nghttp2 bounds what a peer can make it keep: streams, frames that
 * continue a head, answers to pings and settings that he does not read, resets
 * per second; all of that is set here. Frames that cost us and do nothing, sent
 * as fast as can be, are bounded by patience: each takes one of a budget that
 * comes back with time and with requests that are answered. Whoever has used it
 * up is told to calm down (GOAWAY), and the connection is closed.
 */

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

/* ---- what one thread has of the grpc door. */

int sl_grpc_worker_open(struct sl_grpc_worker *worker,
                        const struct sl_grpc_door *door, struct sl_loop *loop,
                        struct sl_engine *engine, struct sl_metrics *stats,
                        const struct sl_alloc *alloc, unsigned connections_most,
                        struct sl_diag *diag)
{
    static const struct sl_engine_ctx bare;
    int err;

    memset(worker, 0, sizeof(*worker));
    worker->door = door;
    worker->loop = loop;
    worker->engine = engine;
    worker->station = &bare;
    worker->stats = stats;
    worker->alloc = alloc ? alloc : &sl_alloc_libc;
    worker->pool.alloc = worker->alloc;
    TAILQ_INIT(&worker->spare_streams);
    TAILQ_INIT(&worker->spare_calls);
    TAILQ_INIT(&worker->late_calls);
    TAILQ_INIT(&worker->watchers);
    if (sl_hash_key_make(&worker->secret))
        return sl_diag_error(diag, SLUICE_ESYS,
                             "the system did not provide random bytes");
    err = sl_conns_open(loop, connections_most, &worker->conns);
    return err ? sl_diag_error(diag, err, "out of memory") : 0;
}

void sl_grpc_worker_close(struct sl_grpc_worker *worker)
{
    sl_conns_close(worker->conns);
    worker->conns = NULL;
    sl_tls_unref(worker->tls);
    worker->tls = NULL;
    sl_grpc_calls_done(worker);
    sl_grpc_streams_done(worker);
    sl_grpc_pool_done(&worker->pool);
}

void sl_grpc_worker_tls(struct sl_grpc_worker *worker, struct sl_tls *tls)
{
    struct sl_tls *old = worker->tls;

    worker->tls = tls ? sl_tls_ref(tls) : NULL;
    sl_tls_unref(old);
}

void sl_grpc_worker_engine(struct sl_grpc_worker *worker,
                           struct sl_engine *engine)
{
    sl_grpc_calls_done(worker); /* they hold the old one's policy */
    worker->engine = engine;
}

void sl_grpc_announce_drain(struct sl_grpc_worker *worker)
{
    worker->draining = true;
    sl_grpc_tell_watchers(worker);
}

/* ---- who may use the grpc door.
 *
 * The token comes as metadata, `authorization: Bearer TOKEN`, or as
 * `x-sluice-token`; or a certificate that the door's client_ca has signed
 * serves instead. Neither where two tokens differ nor how long the right one
 * is shows in the time that comparing takes.
 */

static bool is_same(const struct sl_grpc_worker *worker, struct sl_str shown)
{
    struct sl_hash128 is = sl_hash128(&worker->secret, shown);
    struct sl_hash128 want = sl_hash128(&worker->secret, worker->door->token);

    return CRYPTO_memcmp(&is, &want, sizeof(is)) == 0;
}

void sl_grpc_take_token(struct sl_grpc_stream *stream, struct sl_str name,
                        struct sl_str value)
{
    static const struct sl_str scheme = {"Bearer ", 7};
    const struct sl_grpc_worker *worker = stream->session->worker;

    if (worker->door->token.len == 0)
        return;
    if (sl_str_eq(name, SL_STR("authorization"))) {
        if (value.len <= scheme.len ||
            !sl_str_eq_nocase((struct sl_str){value.at, scheme.len}, scheme))
            return;
        value = sl_str_trim(sl_str_from(value, scheme.len));
    }
    stream->shows_token = stream->shows_token || is_same(worker, value);
}

bool sl_grpc_admits(const struct sl_grpc_stream *stream)
{
    const struct sl_grpc_door *door = stream->session->worker->door;

    if (door->token.len == 0 && !door->accepts_client_cert)
        return true;
    if (door->token.len > 0 && stream->shows_token)
        return true;
    return door->accepts_client_cert && stream->session->conn->tls_client;
}
