/* session.c -- connections of the grpc door.
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
#include <string.h>
#include <unistd.h>

#include "doors/grpc/inner.h"

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
    return sl_loop_steady(s->worker->loop);
}

void sl_grpc_refused(const struct sl_grpc_worker *worker, const char *why)
{
    if (worker->stats)
        sl_stats_refused(worker->stats, "grpc", why);
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
        sl_grpc_say_last(s);
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
        sl_grpc_say_last(s);
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
        sl_stats_connection(worker->stats, "grpc", -1);
    sl_standing_leave(&s->place);
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
    struct sl_standing place;
    const char *why =
        sl_standing_take(&place, worker->door->crowd, worker->engine, peer);
    struct sl_grpc_session *s = why ? NULL : new_session(worker);

    if (!s) {
        sl_standing_leave(&place);
        sl_grpc_refused(worker, why ? why : "no_memory");
        close(fd);
        return;
    }
    s->place = place;
    if (open_conn(s, fd, peer)) {
        sl_standing_leave(&place);
        sl_grpc_refused(worker, "too_many");
        nghttp2_session_del(s->h2);
        sl_alloc_free(worker->alloc, s, sizeof(*s));
        return;
    }
    if (worker->stats)
        sl_stats_connection(worker->stats, "grpc", +1);
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
    sl_conns_hurry(worker->conns);
    sl_conns_each(worker->conns, drain_one, NULL);
}
