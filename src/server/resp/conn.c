/* conn.c -- the Redis protocol on connections.
 *
 * Where a session is shows in which deadline runs:
 *
 *     IDLE --bytes--> PARTIAL --the rest--> carried out, IDLE
 *       |                |                      |     ^
 *   idle_deadline   command_deadline            v     |
 *     closed            closed                LATE ---+
 *
 * Shaking hands for TLS, and saying the password where one is needed, have the
 * command's deadline too. It is set when the phase begins, and not moved by
 * bytes that trickle in.
 *
 * Fairness. Of many commands sent at once `pipeline_most` are carried out; then
 * the connection is paused until all others had their turn. A client that does
 * not take its replies is not served either: sl_conn_is_full().
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/resp/resp_int.h"

#define IN_MOST  (SL_RESP_COMMAND + (64 << 10))
#define OUT_MOST ((size_t)8 << 20)
#define OUT_HIGH ((size_t)256 << 10)

/* Whoever is asked answers long before. */
#define LATEST (60 * SL_S)

/* Nobody may ever say that a peer has gone: then the kernel asks. */
#define KEEPALIVE_SECONDS 300

static void count_refusal(const struct sl_resp_worker *worker, const char *why)
{
    if (worker->stats)
        sl_metrics_refused(worker->stats, "resp", why);
}

/* ---- deadlines ---- */

static sl_ns command_deadline(const struct sl_resp_worker *worker)
{
    sl_ns set = worker->door->command_deadline;

    return set > 0 ? set : 10 * SL_S;
}

/* Nothing is under way. A stranger keeps the deadline that he came with. */
static void rest(struct sl_resp_session *s)
{
    bool partial = s->conn->in.len > 0;

    if (s->admitted && partial && !s->partial)
        sl_conn_deadline(s->conn, command_deadline(s->worker));
    else if (s->admitted && !partial)
        sl_conn_deadline(s->conn, s->worker->door->idle_deadline);
    s->partial = partial;
}

/* ---- going on ---- */

static void end(struct sl_resp_session *s)
{
    if (s->broken)
        sl_conn_abort(s->conn);
    else
        sl_conn_finish(s->conn);
}

static void on_input(struct sl_conn *conn)
{
    struct sl_resp_session *s = conn->owner;
    unsigned most = s->worker->door->pipeline_most;

    if (s->shakes) {
        s->shakes = false;
        s->admitted = sl_resp_is_open(s); /* his certificate is known now */
    }
    switch (sl_resp_serve(s, &conn->in, most > 0 ? most : 256)) {
    case SL_RESP_FULL:
        if (!sl_conn_is_full(conn))
            sl_conn_yield(conn);
        rest(s);
        break;
    case SL_RESP_EMPTY:
        rest(s);
        if (s->worker->draining && conn->in.len == 0)
            sl_conn_finish(conn);
        break;
    case SL_RESP_LATE:
        sl_conn_pause(conn, true);
        sl_conn_deadline(conn, LATEST);
        break;
    case SL_RESP_ENDED:
        end(s);
        break;
    }
}

void sl_resp_resume(struct sl_resp_session *session)
{
    struct sl_conn *conn = session->conn;

    sl_buf_drop(&conn->in, session->used);
    session->used = 0;
    if (session->ending) {
        end(session);
        return;
    }
    session->partial = false;
    rest(session);
    sl_conn_flush(conn); /* nobody else does, if there is nothing more */
    if (session->worker->draining && conn->in.len == 0)
        sl_conn_finish(conn);
    else
        sl_conn_pause(conn, false); /* on_input follows, if there is */
}

static void on_deadline(struct sl_conn *conn)
{
    struct sl_resp_session *s = conn->owner;

    if (s->shakes) { /* they have, or nobody would ask */
        s->shakes = false;
        s->admitted = sl_resp_is_open(s);
        if (s->admitted && !s->partial)
            sl_conn_deadline(conn, s->worker->door->idle_deadline);
        if (s->admitted)
            return;
    }
    if (s->partial || !s->admitted)
        count_refusal(s->worker, "deadline");
}

static void on_close(struct sl_conn *conn)
{
    struct sl_resp_session *s = conn->owner;
    struct sl_resp_worker *worker = s->worker;

    if (s->call)
        sl_resp_call_leave(s->call, &conn->in);
    if (worker->stats)
        sl_metrics_connection(worker->stats, "resp", -1);
    sl_conn_count_leave(&s->place);
    sl_alloc_free(worker->alloc, s, sizeof(*s));
}

static const struct sl_conn_calls calls = {
    .on_input = on_input,
    .on_deadline = on_deadline,
    .on_close = on_close,
};

/* ---- connections ---- */

static int open_conn(struct sl_resp_session *s, int fd,
                     const struct sl_address *peer)
{
    struct sl_resp_worker *worker = s->worker;
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

/* Connections may be idle for days; one whose peer has vanished may not. */
static void keep_alive(int fd)
{
    int on = 1, seconds = KEEPALIVE_SECONDS;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
}

void sl_resp_accept(void *ctx, int fd, const struct sl_address *peer)
{
    struct sl_resp_worker *worker = ctx;
    struct sl_conn_count place;
    const char *why =
        sl_conn_count_take(&place, worker->door->crowd, worker->engine, peer);
    struct sl_resp_session *s =
        why ? NULL : sl_alloc_new(worker->alloc, sizeof(*s));

    if (!s) {
        sl_conn_count_leave(&place);
        count_refusal(worker, why ? why : "no_memory");
        close(fd);
        return;
    }
    sl_resp_session_init(s, worker, NULL);
    s->place = place;
    s->shakes = worker->tls != NULL;
    if (peer && !sl_address_is_unix(peer))
        keep_alive(fd);
    if (open_conn(s, fd, peer)) {
        count_refusal(worker, "too_many");
        sl_conn_count_leave(&place);
        sl_alloc_free(worker->alloc, s, sizeof(*s));
        return;
    }
    s->out = &s->conn->out;
    s->admitted = sl_resp_is_open(s);
    if (worker->stats)
        sl_metrics_connection(worker->stats, "resp", +1);
    if (s->shakes || !s->admitted)
        sl_conn_deadline(s->conn, command_deadline(worker));
    else
        sl_conn_deadline(s->conn, worker->door->idle_deadline);
}

static void drain_one(struct sl_conn *conn, void *ctx)
{
    struct sl_resp_session *s = conn->owner;

    (void)ctx;
    if (!s->late && conn->in.len == 0)
        sl_conn_finish(conn);
}

void sl_resp_drain(struct sl_resp_worker *worker)
{
    worker->draining = true;
    sl_conns_shorten_linger(worker->conns);
    sl_conns_each(worker->conns, drain_one, NULL);
}

/* ---- workers ---- */

int sl_resp_worker_open(struct sl_resp_worker *worker,
                        const struct sl_resp_door *door, struct sl_loop *loop,
                        struct sl_engine *engine, struct sl_metrics *stats,
                        unsigned connections_most, struct sl_diag *diag)
{
    int err;

    sl_resp_worker_init(worker, door, engine, stats, NULL);
    worker->loop = worker->throttles.loop = loop;
    if (sl_hash_key_make(&worker->secret))
        return sl_diag_error(diag, SLUICE_ESYS,
                             "the system did not provide random bytes");
    err = sl_conns_open(loop, connections_most, &worker->conns);
    if (err) {
        sl_resp_worker_close(worker);
        return sl_diag_error(diag, err, "out of memory");
    }
    return 0;
}

void sl_resp_worker_close(struct sl_resp_worker *worker)
{
    if (worker->conns)
        sl_conns_close(worker->conns);
    worker->conns = NULL;
    sl_tls_unref(worker->tls);
    worker->tls = NULL;
    sl_resp_worker_done(worker);
}

void sl_resp_worker_tls(struct sl_resp_worker *worker, struct sl_tls *tls)
{
    struct sl_tls *old = worker->tls;

    worker->tls = tls ? sl_tls_ref(tls) : NULL;
    sl_tls_unref(old);
}
