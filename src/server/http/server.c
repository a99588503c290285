/* server.c -- HTTP/1.1 on connections: read, handle, write.
 *
 * A session is a connection with a parser. Where it is shows in which deadline
 * runs:
 *
 *     IDLE --bytes--> HEAD --blank line--> BODY --all here--> answered, IDLE
 *       |               |                    |          |        ^
 *   idle_deadline   head_deadline       body_deadline   v        |
 *     closed        408, closed          408, closed  LATE ------+
 *
 * A request whose answer comes later is LATE: its connection is paused and
 * nothing of it moves, as the call has slices of it. An answer that goes on for
 * as long as somebody listens is a STREAM, which has no deadline.
 *
 * Shaking hands for TLS has the head's deadline, too. A deadline is set when
 * its phase begins and not moved by bytes that trickle in. A request that comes
 * whole, as most do, passes through no phase at all: it is read, handled and
 * answered between one read and one write.
 *
 * Fairness. Whoever sends many requests at once (pipelining) has
 * `pipeline_most` of them answered; then his connection is paused and waits
 * until all others had their turn. A client that does not take his answers is
 * not served either: sl_conn_is_full().
 */
#include <openssl/crypto.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"

#define LINE_MOST ((size_t)8 << 10)
#define HEAD_MOST ((size_t)16 << 10)
#define BODY_MOST ((size_t)1 << 20)
#define OUT_MOST  ((size_t)128 << 20) /* a large array's verdicts */
#define OUT_HIGH  ((size_t)256 << 10)

/* Whoever is asked answers long before. */
#define LATEST (60 * SL_S)

#define CONTINUE SL_STR("HTTP/1.1 100 Continue\r\n\r\n")

/* ---- settings ---- */

static sl_ns or_else(sl_ns set, sl_ns usual)
{
    return set > 0 ? set : usual;
}

static sl_ns deadline_of(const struct sl_http_door *door, enum phase phase)
{
    switch (phase) {
    case HEAD:
        return or_else(door->head_deadline, 5 * SL_S);
    case BODY:
        return or_else(door->body_deadline, 10 * SL_S);
    case LATE:
        return LATEST;
    case STREAM:
        return 0;
    case IDLE:
        break;
    }
    return or_else(door->idle_deadline, 75 * SL_S);
}

static struct sl_http1_limits limits_of(const struct sl_http_door *door)
{
    return (struct sl_http1_limits){
        .line = LINE_MOST,
        .head = HEAD_MOST,
        .body = door->body_most > 0 ? door->body_most : BODY_MOST,
    };
}

static void count_refusal(const struct sl_http_worker *worker, const char *why,
                          int status)
{
    if (!worker->stats)
        return;
    sl_metrics_refused(worker->stats, worker->door->name, why);
    if (status > 0)
        sl_metrics_request(worker->stats, worker->door->name, status);
}

/* ---- phases ---- */

static void enter(struct sl_http_session *s, enum phase phase)
{
    if (phase == s->phase && phase != IDLE)
        return; /* only coming back to IDLE is a new beginning */
    s->phase = phase;
    sl_conn_deadline(s->conn, deadline_of(s->worker->door, phase));
}

static void begin(struct sl_http_session *s)
{
    struct sl_http1_limits limits = limits_of(s->worker->door);

    sl_http1_begin(&s->parser, &limits);
    enter(s, IDLE);
}

/* ---- writing ---- */

/* From now on the connection is the stream's; or it never is. */
static void begin_stream(struct sl_http_session *s,
                         struct sl_http_stream *stream, bool begins)
{
    if (!begins) {
        stream->on_close(stream);
        return;
    }
    stream->conn = s->conn;
    s->stream = stream;
    sl_buf_clear(&s->conn->in);
    enter(s, STREAM);
}

/* Append the answer. False if the connection is at its end. */
static bool send_answer(struct sl_http_session *s,
                        const struct sl_http_call *call)
{
    struct sl_http_worker *worker = s->worker;
    bool streams =
        call->stream && !s->parser.is_head_request && !worker->draining;
    struct sl_http1_answer answer = {
        .status = call->status,
        .fields = call->fields,
        .field_count = call->field_count,
        .content_type = call->content_type,
        .body = call->body,
        .endless = streams,
        .keep_alive = s->parser.keep_alive && !call->close &&
                      !worker->draining && !streams,
        .head = s->parser.is_head_request,
        .minor = s->parser.minor,
        .date = sl_http_date(worker),
    };

    if (sl_http1_write(&s->conn->out, &answer)) {
        sl_conn_abort(s->conn);
        answer.keep_alive = streams = false;
    } else if (!answer.keep_alive && !streams) {
        sl_conn_finish(s->conn);
    }
    if (call->stream)
        begin_stream(s, call->stream, streams);
    return answer.keep_alive;
}

/* Refuse what is no request, and close. */
static void refuse(struct sl_http_session *s, const char *why, int status,
                   const char *code, const char *sentence)
{
    struct sl_http_call *call = sl_http_call_new(s->worker);

    count_refusal(s->worker, why, status);
    if (!call) {
        sl_conn_abort(s->conn);
        return;
    }
    sl_http_begin(call);
    sl_http_refuse(call, status, code, "%s", sentence);
    call->close = true;
    send_answer(s, call);
    sl_http_call_done(call);
}

static const char *why_of(int status)
{
    return status == 413 || status == 414 || status == 431 ? "too_large"
                                                           : "malformed";
}

/* ---- reading ---- */

/* Answer, and make room for the next. False if the connection is at its end. */
static bool answer(struct sl_http_session *s, struct sl_http_call *call)
{
    bool goes_on = send_answer(s, call);

    sl_http_call_done(call);
    if (!goes_on)
        return false;
    sl_buf_drop(&s->conn->in, s->parser.used);
    begin(s);
    return true;
}

static void wait_for_answer(struct sl_http_session *s,
                            struct sl_http_call *call)
{
    s->call = call;
    sl_conn_pause(s->conn, true);
    enter(s, LATE);
}

void sl_http_resume(struct sl_http_call *call)
{
    struct sl_http_session *s = call->session;

    s->call = NULL;
    answer(s, call);
    sl_conn_flush(s->conn);
    sl_conn_pause(s->conn, false); /* on_input follows, if there is more */
}

/* A call for the request that is there, or NULL: then it is at its end. */
static struct sl_http_call *make_call(struct sl_http_session *s)
{
    struct sl_conn *conn = s->conn;
    struct sl_http_call *call = sl_http_call_new(s->worker);

    if (!call) {
        count_refusal(s->worker, "no_memory", 0);
        sl_conn_abort(conn);
        return NULL;
    }
    call->session = s;
    call->conn = conn;
    call->request = &s->parser;
    call->peer = conn->ip;
    call->has_peer = conn->has_ip;
    call->peer_is_unix = conn->is_unix;
    call->shows_cert = conn->tls_client;
    return call;
}

/* The request is complete. False if there is nothing to go on with. */
static bool handle(struct sl_http_session *s)
{
    struct sl_http_call *call = make_call(s);

    if (!call)
        return false;
    if (sl_http_handle(call))
        return answer(s, call);
    wait_for_answer(s, call);
    return false;
}

/* The head is there, the body is not. False if nobody wants it. */
static bool is_welcome(struct sl_http_session *s)
{
    const struct sl_http_door *door = s->worker->door;
    struct sl_http_call *call;

    if (door->token.len == 0 && !door->accepts_client_cert)
        return true;
    call = make_call(s);
    if (!call)
        return false;
    if (!sl_http_access_check(call)) {
        call->close = true;
        sl_http_count(call);
        return answer(s, call);
    }
    sl_http_call_done(call);
    return true;
}

/* Some of a request is there. */
static void expect_more(struct sl_http_session *s)
{
    if (s->parser.body_at > 0 && s->phase != BODY && !is_welcome(s))
        return;
    if (s->parser.expect_continue) {
        s->parser.expect_continue = false;
        if (sl_buf_add(&s->conn->out, CONTINUE)) {
            sl_conn_abort(s->conn);
            return;
        }
    }
    enter(s, s->parser.body_at > 0 ? BODY : HEAD);
}

static void on_input(struct sl_conn *conn)
{
    struct sl_http_session *s = conn->owner;
    unsigned most = s->worker->door->pipeline_most;
    unsigned answered = 0;

    s->shakes = false;
    if (s->stream) { /* nothing is expected of him */
        sl_buf_clear(&conn->in);
        return;
    }
    if (most == 0)
        most = 64;
    while (conn->in.len > 0 && !sl_conn_is_full(conn)) {
        enum sl_http1_result result;

        if (answered++ == most) {
            sl_conn_yield(conn);
            return;
        }
        result = sl_http1_read(&s->parser, &conn->in);
        if (result == SL_HTTP1_REFUSED)
            refuse(s, why_of(s->parser.status), s->parser.status, "BAD_REQUEST",
                   s->parser.why);
        else if (result == SL_HTTP1_MORE)
            expect_more(s);
        if (result != SL_HTTP1_DONE || !handle(s))
            return;
    }
}

static void on_deadline(struct sl_conn *conn)
{
    struct sl_http_session *s = conn->owner;

    if (s->shakes) { /* they have, or nobody would ask */
        s->shakes = false;
        sl_conn_deadline(conn, deadline_of(s->worker->door, IDLE));
        return;
    }
    if (s->phase == IDLE || s->phase >= LATE) /* it is closed */
        return;
    s->parser.keep_alive = false;
    refuse(s, "deadline", 408, "TOO_SLOW",
           s->phase == HEAD ? "the head of the request did not arrive in time"
                            : "the body of the request did not arrive in time");
}

static void on_close(struct sl_conn *conn)
{
    struct sl_http_session *s = conn->owner;
    struct sl_http_worker *worker = s->worker;

    if (worker->stats)
        sl_metrics_connection(worker->stats, worker->door->name, -1);
    sl_http_stream_forget(s);
    sl_conn_count_leave(&s->place);
    if (s->call)
        sl_http_leave_behind(s); /* what waits for a turn ends here */
    else
        sl_http_session_free(s);
}

static const struct sl_conn_calls calls = {
    .on_input = on_input,
    .on_deadline = on_deadline,
    .on_close = on_close,
};

/* ---- connections ---- */

static int open_conn(struct sl_http_session *s, int fd,
                     const struct sl_address *peer)
{
    struct sl_http_worker *worker = s->worker;
    struct sl_http1_limits limits = limits_of(worker->door);
    struct sl_conn_options options = {
        .calls = &calls,
        .owner = s,
        .in_most = SL_HTTP1_CEILING(limits),
        .out_most = OUT_MOST,
        .out_high = OUT_HIGH,
        .tls = worker->tls,
        .alloc = worker->alloc,
    };

    return sl_conn_open(worker->conns, fd, peer, &options, &s->conn);
}

void sl_http_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_http_worker *worker = ctx;
    struct sl_conn_count place;
    const char *why =
        sl_conn_count_take(&place, worker->door->crowd, worker->engine, peer);
    struct sl_http_session *s =
        why ? NULL : sl_alloc_new(worker->alloc, sizeof(*s));

    if (!s) {
        sl_conn_count_leave(&place);
        count_refusal(worker, why ? why : "no_memory", 0);
        close(fd);
        return;
    }
    s->worker = worker;
    s->place = place;
    s->call = NULL;
    s->stream = NULL;
    s->shakes = worker->tls != NULL;
    s->phase = IDLE;
    if (open_conn(s, fd, peer)) {
        count_refusal(worker, "too_many", 0);
        sl_conn_count_leave(&place);
        sl_alloc_free(worker->alloc, s, sizeof(*s));
        return;
    }
    if (worker->stats)
        sl_metrics_connection(worker->stats, worker->door->name, +1);
    begin(s);
    if (s->shakes)
        sl_conn_deadline(s->conn, deadline_of(worker->door, HEAD));
}

static void drain_one(struct sl_conn *conn, void *ctx)
{
    struct sl_http_session *s = conn->owner;

    (void)ctx;
    if (s->stream)
        sl_http_stream_forget(s);
    else if (s->phase != IDLE || conn->in.len > 0)
        return;
    sl_conn_finish(conn);
}

void sl_http_drain(struct sl_http_worker *worker)
{
    worker->draining = true;
    sl_conns_shorten_linger(worker->conns);
    sl_conns_each(worker->conns, drain_one, NULL);
}

/* ---- workers ---- */

int sl_http_worker_open(struct sl_http_worker *worker,
                        const struct sl_http_door *door, struct sl_loop *loop,
                        struct sl_engine *engine, struct sl_metrics *stats,
                        unsigned connections_most, struct sl_diag *diag)
{
    int err;

    sl_http_worker_init(worker, door, engine, stats, NULL);
    worker->loop = loop;
    if (sl_hash_key_make(&worker->secret))
        return sl_diag_error(diag, SLUICE_ESYS,
                             "the system did not provide random bytes");
    err = sl_conns_open(loop, connections_most, &worker->conns);
    if (err) {
        sl_http_worker_close(worker);
        return sl_diag_error(diag, err, "out of memory");
    }
    return 0;
}

/* ---- how a connection of a door ends for those who still hold it. */

void sl_http_stream_forget(struct sl_http_session *s)
{
    struct sl_http_stream *stream = s->stream;

    s->stream = NULL;
    if (stream)
        stream->on_close(stream);
}

void sl_http_stream_end(struct sl_http_stream *stream)
{
    struct sl_http_session *s;

    if (!stream->conn)
        return;
    s = stream->conn->owner;
    s->stream = NULL;
    sl_conn_finish(s->conn);
}

void sl_http_session_free(struct sl_http_session *s)
{
    sl_alloc_free(s->worker->alloc, s, sizeof(*s));
}

void sl_http_leave_behind(struct sl_http_session *s)
{
    struct sl_http_call *call = s->call;
    struct sl_buf *in = &s->conn->in;

    call->session = NULL;
    call->conn = NULL;
    call->left = s;
    call->left_in = *in;
    sl_buf_init(in, in->ceiling, in->alloc);
    sl_check_cancel(&call->ask);
}

/* ---- what one thread needs to handle requests. */

void sl_http_worker_init(struct sl_http_worker *worker,
                         const struct sl_http_door *door,
                         struct sl_engine *engine, struct sl_metrics *stats,
                         const struct sl_alloc *alloc)
{
    static const struct sl_engine_ctx bare;

    if (!alloc)
        alloc = &sl_alloc_libc;
    memset(worker, 0, sizeof(*worker));
    worker->door = door;
    worker->engine = engine;
    worker->station = &bare;
    worker->stats = stats;
    worker->alloc = alloc;
    TAILQ_INIT(&worker->spare);
    TAILQ_INIT(&worker->late);
}

void sl_http_worker_done(struct sl_http_worker *worker)
{
    sl_http_calls_free(&worker->spare);
    sl_http_calls_free(&worker->late);
}

void sl_http_worker_engine(struct sl_http_worker *worker,
                           struct sl_engine *engine)
{
    sl_http_calls_free(&worker->spare); /* with the old one's policy */
    worker->engine = engine;
}

void sl_http_worker_close(struct sl_http_worker *worker)
{
    if (worker->conns)
        sl_conns_close(worker->conns);
    worker->conns = NULL;
    sl_tls_unref(worker->tls);
    worker->tls = NULL;
    sl_http_worker_done(worker);
}

void sl_http_worker_tls(struct sl_http_worker *worker, struct sl_tls *tls)
{
    struct sl_tls *old = worker->tls;

    worker->tls = tls ? sl_tls_ref(tls) : NULL;
    sl_tls_unref(old);
}

/* ---- who may use a door.
 *
 * The token comes as `Authorization: Bearer TOKEN`; or as `X-Sluice-Token`,
 * for proxies that hand on their client's own Authorization.
 *
 * Neither where two tokens differ nor how long the right one is shows in the
 * time that comparing takes: what is compared are fingerprints of one size,
 * under a secret that nobody outside has seen.
 */

static bool is_same(const struct sl_http_worker *worker, struct sl_str shown)
{
    struct sl_hash128 is = sl_hash128(&worker->secret, shown);
    struct sl_hash128 want = sl_hash128(&worker->secret, worker->door->token);

    return CRYPTO_memcmp(&is, &want, sizeof(is)) == 0;
}

/* The token of "Bearer TOKEN", or an empty slice. */
static struct sl_str read_bearer(struct sl_str value)
{
    static const struct sl_str scheme = {"Bearer ", 7};

    if (value.len <= scheme.len ||
        !sl_str_eq_nocase((struct sl_str){value.at, scheme.len}, scheme))
        return (struct sl_str){NULL, 0};
    return sl_str_trim(sl_str_from(value, scheme.len));
}

/* Sent twice, it is not known which of the two a proxy has checked. */
static struct sl_str find_once(const struct sl_http_call *call,
                               struct sl_str name)
{
    unsigned count = 0;
    struct sl_str value = sl_http1_field(call->request, name, &count);

    return count == 1 ? value : (struct sl_str){NULL, 0};
}

static bool shows_token(struct sl_http_call *call)
{
    struct sl_str bearer =
        read_bearer(find_once(call, SL_STR("authorization")));
    struct sl_str own = find_once(call, SL_STR("x-sluice-token"));

    if (bearer.len > 0 && is_same(call->worker, bearer)) {
        call->token_in_authorize = true;
        return true;
    }
    return own.len > 0 && is_same(call->worker, own);
}

bool sl_http_admit(struct sl_http_call *call)
{
    const struct sl_http_door *door = call->worker->door;

    call->token_in_authorize = false;
    if (door->token.len == 0 && !door->accepts_client_cert)
        return true;
    if (door->token.len > 0 && shows_token(call))
        return true;
    if (door->accepts_client_cert && call->shows_cert)
        return true;
    sl_http_field(call, SL_STR("WWW-Authenticate"),
                  SL_STR("Bearer realm=\"sluice\""));
    if (door->token.len > 0)
        sl_http_refuse(
            call, 401, "UNAUTHORIZED",
            "missing or wrong token; send it as Authorization: Bearer TOKEN");
    else
        sl_http_refuse(call, 401, "UNAUTHORIZED",
                       "missing client certificate; it must be signed by the "
                       "listener's client_ca");
    return false;
}

/* ---- the text of the Date field, which changes once a second. */

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

/* RFC 9110, 5.6.7; the text changes once a second. */
struct sl_str sl_http_date(struct sl_http_worker *worker)
{
    sl_ns second = sl_loop_now(worker->loop) / SL_S;

    if (second != worker->date_at || !worker->date[0]) {
        print_date(second, worker->date);
        worker->date_at = second;
    }
    return sl_str_c(worker->date);
}
