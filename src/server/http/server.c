/* server.c -- HTTP/1.1 connections: read a request, handle it, write the
 * answer.
 *
 * The phase of a connection decides which timeout runs:
 *
 *     IDLE --bytes--> HEAD --blank line--> BODY --complete--> answered, IDLE
 *       |               |                    |          |        ^
 *   idle_timeout   begin_timeout        body_timeout    v        |
 *     closed        408, closed          408, closed  SUSPENDED -+
 *
 * A suspended connection is paused: its call refers to the input. A STREAM has
 * no timeout. The TLS handshake has begin_timeout. A timeout starts with its
 * phase; later bytes do not extend it. A request that arrives whole stays IDLE.
 *
 * Fairness. After `max_pipeline` requests of one connection the others have
 * their turn. A client that does not read its answers is not served:
 * sl_conn_is_full().
 */
#include <string.h>

#include "base/str.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"

#define MAX_LINE ((size_t)8 << 10)
#define MAX_HEAD ((size_t)16 << 10)
#define MAX_BODY ((size_t)1 << 20)
#define MAX_OUT  ((size_t)128 << 20) /* verdicts of a large array */
#define HIGH_OUT ((size_t)256 << 10)

#define MAX_PIPELINE 64

/* Stores answer long before. */
#define SUSPENDED_TIMEOUT (60 * SL_S)

#define CONTINUE SL_STR("HTTP/1.1 100 Continue\r\n\r\n")

/* ---- settings ---- */

static sl_ns or_else(sl_ns set, sl_ns usual)
{
    return set > 0 ? set : usual;
}

static sl_ns timeout_of(const struct sl_server *server,
                        enum sl_http_phase phase)
{
    switch (phase) {
    case SL_HTTP_PHASE_HEAD:
        return or_else(server->begin_timeout, 5 * SL_S);
    case SL_HTTP_PHASE_BODY:
        return or_else(server->body_timeout, 10 * SL_S);
    case SL_HTTP_PHASE_SUSPENDED:
        return SUSPENDED_TIMEOUT;
    case SL_HTTP_PHASE_STREAM:
        return 0;
    case SL_HTTP_PHASE_IDLE:
        break;
    }
    return or_else(server->idle_timeout, 75 * SL_S);
}

static struct sl_http1_limits limits_of(const struct sl_server *server)
{
    return (struct sl_http1_limits){
        .line = MAX_LINE,
        .head = MAX_HEAD,
        .body = server->max_body > 0 ? server->max_body : MAX_BODY,
    };
}

static size_t max_in(const struct sl_server *server)
{
    struct sl_http1_limits limits = limits_of(server);

    return SL_HTTP1_CEILING(limits);
}

/* ---- phases ---- */

static void enter(struct sl_http_conn *c, enum sl_http_phase phase)
{
    if (phase == c->phase && phase != SL_HTTP_PHASE_IDLE)
        return; /* only IDLE restarts its timeout */
    c->phase = phase;
    sl_conn_deadline(c->base.conn, timeout_of(c->base.worker->server, phase));
}

static void begin(struct sl_http_conn *c)
{
    struct sl_http1_limits limits = limits_of(c->base.worker->server);

    sl_http1_begin(&c->parser, &limits);
    enter(c, SL_HTTP_PHASE_IDLE);
}

/* ---- the Date field ---- */

static char *put(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    return to;
}

/* "Sun, 15 Nov 2026 07:00:00 GMT" */
static void print_date(sl_ns second, char out[32])
{
    static const char days[][6] = {"Thu, ", "Fri, ", "Sat, ", "Sun, ",
                                   "Mon, ", "Tue, ", "Wed, "};
    static const char months[][6] = {" Jan ", " Feb ", " Mar ", " Apr ",
                                     " May ", " Jun ", " Jul ", " Aug ",
                                     " Sep ", " Oct ", " Nov ", " Dec "};
    int64_t year, month, day, since = second / 86400;
    uint64_t left = (uint64_t)(second % 86400);
    char *to = put(out, days[since % 7]);

    sl_civil_from_days(since, &year, &month, &day);
    to = sl_digits_padded((uint64_t)day, 2, to);
    to = put(to, months[month - 1]);
    to = sl_digits_padded((uint64_t)year, 4, to);
    to = sl_digits_padded(left / 3600, 2, put(to, " "));
    to = sl_digits_padded(left / 60 % 60, 2, put(to, ":"));
    to = sl_digits_padded(left % 60, 2, put(to, ":"));
    memcpy(to, " GMT", sizeof(" GMT"));
}

static struct sl_str date_of(struct sl_server_worker *worker)
{
    sl_ns second = sl_loop_now(worker->loop) / SL_S;

    if (second != worker->date_at || !worker->date[0]) {
        print_date(second, worker->date);
        worker->date_at = second;
    }
    return sl_str_c(worker->date);
}

/* ---- writing ---- */

/* The connection belongs to the stream from now on, if the stream `begins`. */
static void begin_stream(struct sl_http_conn *c, struct sl_http_stream *stream,
                         bool begins)
{
    if (!begins) {
        stream->on_close(stream);
        return;
    }
    stream->conn = c->base.conn;
    stream->chunked = stream->chunked && c->parser.minor > 0;
    c->stream = stream;
    sl_buf_clear(&c->base.conn->in);
    enter(c, SL_HTTP_PHASE_STREAM);
    if (stream->on_begin)
        stream->on_begin(stream);
}

/* Append the answer. False if the connection ends with it. */
static bool send_answer(struct sl_http_conn *c, const struct sl_http_call *call)
{
    struct sl_server_worker *worker = c->base.worker;
    struct sl_conn *conn = c->base.conn;
    bool streams =
        call->stream && !c->parser.is_head_request && !worker->draining;
    struct sl_http1_answer answer = {
        .status = call->status,
        .fields = call->fields,
        .field_count = call->field_count,
        .content_type = call->content_type,
        .body = call->body,
        .endless = streams,
        .chunked = streams && call->stream->chunked,
        .keep_alive = c->parser.keep_alive && !call->close &&
                      !worker->draining && !streams,
        .head = c->parser.is_head_request,
        .minor = c->parser.minor,
        .date = date_of(worker),
    };

    if (sl_http1_write(&conn->out, &answer)) {
        sl_conn_abort(conn);
        answer.keep_alive = streams = false;
    } else if (!answer.keep_alive && !streams) {
        sl_conn_finish(conn);
    }
    if (call->stream)
        begin_stream(c, call->stream, streams);
    return answer.keep_alive;
}

/* Refuse input that is not a request, and close. */
static void refuse(struct sl_http_conn *c, const char *reason, int status,
                   const char *code, const char *sentence)
{
    struct sl_server_worker *worker = c->base.worker;
    struct sl_http_call *call = sl_http_call_new(worker);

    sl_server_count_refusal(worker, reason);
    if (worker->stats)
        sl_metrics_request(worker->stats, worker->server->name, status);
    if (!call) {
        sl_conn_abort(c->base.conn);
        return;
    }
    sl_http_begin(call);
    sl_http_refuse(call, status, code, "%s", sentence);
    call->close = true;
    send_answer(c, call);
    sl_http_call_done(call);
}

static const char *reason_of(int status)
{
    return status == 413 || status == 414 || status == 431 ? "too_large"
                                                           : "malformed";
}

/* ---- reading ---- */

/* Answer, and prepare for the next request. False if the connection ends. */
static bool answer(struct sl_http_conn *c, struct sl_http_call *call)
{
    bool keep_alive = send_answer(c, call);

    sl_http_call_done(call);
    if (!keep_alive)
        return false;
    sl_buf_drop(&c->base.conn->in, c->parser.used);
    begin(c);
    return true;
}

void sl_http_resume(struct sl_http_call *call)
{
    struct sl_http_conn *c = call->client;

    c->call = NULL;
    answer(c, call);
    sl_conn_flush(c->base.conn);
    sl_conn_pause(c->base.conn, false); /* calls on_input if there is input */
}

/* A call for the request that was read, or NULL: then the connection ends. */
static struct sl_http_call *make_call(struct sl_http_conn *c)
{
    struct sl_conn *conn = c->base.conn;
    struct sl_http_call *call = sl_http_call_new(c->base.worker);

    if (!call) {
        sl_server_count_refusal(c->base.worker, "no_memory");
        sl_conn_abort(conn);
        return NULL;
    }
    call->client = c;
    call->conn = conn;
    call->request = &c->parser;
    call->peer = conn->ip;
    call->has_peer = conn->has_ip;
    call->peer_is_unix = conn->is_unix;
    call->shows_cert = conn->tls_client;
    return call;
}

/* The request is complete. False if nothing more can be read now. */
static bool handle(struct sl_http_conn *c)
{
    struct sl_http_call *call = make_call(c);

    if (!call)
        return false;
    if (sl_http_handle(call))
        return answer(c, call);
    c->call = call;
    sl_conn_pause(c->base.conn, true);
    enter(c, SL_HTTP_PHASE_SUSPENDED);
    return false;
}

/* The head is complete, the body is not. False if the head was refused. */
static bool admits_body(struct sl_http_conn *c)
{
    struct sl_http1 *parser = &c->parser;
    struct sl_http_call *call;
    bool is_public;

    if (sl_server_admits(c->base.worker, false, false))
        return true;
    call = make_call(c);
    if (!call)
        return false;
    if (!sl_http_access_check(call, &is_public)) {
        call->close = true;
        sl_http_count(call);
        return answer(c, call);
    }
    sl_http_call_done(call);
    if (!is_public)
        return true;
    if (parser->body.len > SL_PUBLIC_BODY ||
        parser->left > SL_PUBLIC_BODY - parser->body.len) {
        refuse(c, "too_large", 413, "BAD_REQUEST", "the body is too long");
        return false;
    }
    parser->limits.body = SL_PUBLIC_BODY; /* of chunks that follow */
    return true;
}

/* A part of a request was read. */
static void expect_more(struct sl_http_conn *c)
{
    bool in_body = c->parser.body_at > 0;

    if (in_body && c->phase != SL_HTTP_PHASE_BODY && !admits_body(c))
        return;
    if (c->parser.expect_continue) {
        c->parser.expect_continue = false;
        if (sl_buf_add(&c->base.conn->out, CONTINUE)) {
            sl_conn_abort(c->base.conn);
            return;
        }
    }
    enter(c, in_body ? SL_HTTP_PHASE_BODY : SL_HTTP_PHASE_HEAD);
}

static void on_input(struct sl_conn *conn)
{
    struct sl_http_conn *c = conn->owner;
    unsigned max = c->base.worker->server->max_pipeline;
    unsigned answered = 0;

    c->base.handshaking = false;
    if (c->stream) { /* input is ignored */
        sl_buf_clear(&conn->in);
        return;
    }
    if (max == 0)
        max = MAX_PIPELINE;
    while (conn->in.len > 0 && !sl_conn_is_full(conn)) {
        enum sl_http1_result result;

        if (answered++ == max) {
            sl_conn_yield(conn);
            return;
        }
        result = sl_http1_read(&c->parser, &conn->in);
        if (result == SL_HTTP1_REFUSED)
            refuse(c, reason_of(c->parser.status), c->parser.status,
                   "BAD_REQUEST", c->parser.why);
        else if (result == SL_HTTP1_MORE)
            expect_more(c);
        if (result != SL_HTTP1_DONE || !handle(c))
            return;
    }
}

static void on_room(struct sl_conn *conn)
{
    struct sl_http_conn *c = conn->owner;

    if (c->stream && c->stream->on_room)
        c->stream->on_room(c->stream);
}

/* Without an answer here, conn.c closes the connection. */
static void on_deadline(struct sl_conn *conn)
{
    struct sl_http_conn *c = conn->owner;

    if (c->base.handshaking) { /* the handshake is complete: see conn.h */
        c->base.handshaking = false;
        sl_conn_deadline(
            conn, timeout_of(c->base.worker->server, SL_HTTP_PHASE_IDLE));
        return;
    }
    if (c->phase != SL_HTTP_PHASE_HEAD && c->phase != SL_HTTP_PHASE_BODY)
        return;
    c->parser.keep_alive = false;
    refuse(c, "deadline", 408, "TOO_SLOW",
           c->phase == SL_HTTP_PHASE_HEAD
               ? "the head of the request did not arrive in time"
               : "the body of the request did not arrive in time");
}

/* ---- the protocol ---- */

static void on_open(struct sl_server_conn *base)
{
    struct sl_http_conn *c = (struct sl_http_conn *)base;

    begin(c);
    if (base->handshaking)
        sl_conn_deadline(base->conn,
                         timeout_of(base->worker->server, SL_HTTP_PHASE_HEAD));
}

static void close_stream(struct sl_http_conn *c)
{
    struct sl_http_stream *stream = c->stream;

    c->stream = NULL;
    if (stream)
        stream->on_close(stream);
}

/* An op in progress keeps the connection's parser and input. A check that
 * waits in a queue is cancelled. */
static bool on_close(struct sl_server_conn *base)
{
    struct sl_http_conn *c = (struct sl_http_conn *)base;
    struct sl_http_call *call = c->call;
    struct sl_buf *in = &base->conn->in;

    close_stream(c);
    if (!call)
        return false;
    call->client = NULL;
    call->conn = NULL;
    call->detached = c;
    call->detached_in = *in;
    sl_buf_init(in, in->ceiling, in->alloc);
    sl_check_cancel(&call->check);
    return true;
}

static void on_drain(struct sl_server_conn *base)
{
    struct sl_http_conn *c = (struct sl_http_conn *)base;

    if (c->stream)
        close_stream(c);
    else if (c->phase != SL_HTTP_PHASE_IDLE || base->conn->in.len > 0)
        return;
    sl_conn_finish(base->conn);
}

void sl_http_stream_end(struct sl_http_stream *stream)
{
    struct sl_http_conn *c;

    if (!stream->conn)
        return;
    c = stream->conn->owner;
    c->stream = NULL;
    sl_conn_finish(stream->conn);
}

const struct sl_protocol sl_protocol_http = {
    .worker_size = sizeof(struct sl_server_worker),
    .conn_size = sizeof(struct sl_http_conn),
    .op_size = sizeof(struct sl_http_call),
    .max_spare_ops = 1,
    .max_out = MAX_OUT,
    .high_out = HIGH_OUT,
    .max_in = max_in,
    .op_init = sl_http_call_init,
    .op_done = sl_http_call_free,
    .on_open = on_open,
    .calls = {.on_input = on_input,
              .on_room = on_room,
              .on_deadline = on_deadline,
              .on_close = sl_server_on_close},
    .on_close = on_close,
    .on_drain = on_drain,
};

/* ---- tokens ----
 *
 * The token comes as `Authorization: Bearer TOKEN`; or as `X-Sluice-Token`,
 * for proxies that forward their client's own Authorization. Browsers have a
 * session, see session.c.
 */

/* The field's value if it was sent once. With two values it is unknown which
 * of them a proxy has checked. */
static struct sl_str find_once(const struct sl_http_call *call,
                               struct sl_str name)
{
    unsigned count = 0;
    struct sl_str value = sl_http1_field(call->request, name, &count);

    return count == 1 ? value : (struct sl_str){NULL, 0};
}

enum sl_http_shown sl_http_shown(struct sl_http_call *call)
{
    struct sl_str bearer =
        sl_server_bearer(find_once(call, SL_STR("authorization")));
    struct sl_str own = find_once(call, SL_STR("x-sluice-token"));

    if (bearer.len > 0 && sl_server_token_ok(call->worker, bearer)) {
        call->token_in_authorize = true;
        return SL_SHOWN_TOKEN;
    }
    if (own.len > 0 && sl_server_token_ok(call->worker, own))
        return SL_SHOWN_TOKEN;
    if (bearer.len > 0 && sl_server_read_token_ok(call->worker, bearer))
        return SL_SHOWN_READ_TOKEN;
    return SL_SHOWN_NONE;
}

/* The read-only token and sessions of browsers. Returns 1: admitted, -1 after
 * a refusal, 0: there are none. */
static int admit_otherwise(struct sl_http_call *call, bool shows_read_token)
{
    bool reads = sl_str_eq(call->request->method, SL_STR("GET")) ||
                 sl_str_eq(call->request->method, SL_STR("HEAD"));
    enum sl_http_session session;

    if (shows_read_token)
        session = reads ? SL_SESSION_GOOD : SL_SESSION_READ_ONLY;
    else
        session = sl_http_session(call);
    if (session == SL_SESSION_READ_ONLY)
        sl_http_refuse(call, 403, "READ_ONLY",
                       "admin_read_token may only read; changes need "
                       "admin_token");
    else if (session == SL_SESSION_NO_CSRF)
        sl_http_refuse(call, 403, "NO_CSRF",
                       "a change by a session needs the header X-Sluice-CSRF "
                       "with `csrf` of GET /v1/session");
    if (session == SL_SESSION_READ_ONLY || session == SL_SESSION_NO_CSRF)
        return -1;
    return session == SL_SESSION_GOOD;
}

bool sl_http_admit(struct sl_http_call *call)
{
    bool has_token = call->worker->server->token.len > 0;
    enum sl_http_shown shown = SL_SHOWN_NONE;
    int otherwise = 0;

    call->token_in_authorize = false;
    if (has_token)
        shown = sl_http_shown(call);
    if (sl_server_admits(call->worker, shown == SL_SHOWN_TOKEN,
                         call->shows_cert))
        return true;
    if (has_token && call->worker->server->sessions)
        otherwise = admit_otherwise(call, shown == SL_SHOWN_READ_TOKEN);
    if (otherwise != 0)
        return otherwise > 0;
    sl_http_field(call, SL_STR("WWW-Authenticate"),
                  SL_STR("Bearer realm=\"sluice\""));
    if (has_token)
        sl_http_refuse(
            call, 401, "UNAUTHORIZED",
            "missing or wrong token; send it as Authorization: Bearer TOKEN");
    else
        sl_http_refuse(call, 401, "UNAUTHORIZED",
                       "missing client certificate; it must be signed by the "
                       "listener's client_ca");
    return false;
}
