/* serve.c -- from bytes to commands, one after the other.
 *
 * Throttles are collected and asked together, and so are checks, before
 * anything else is carried out and when there is nothing more to read: so
 * replies keep the order of the commands. Bytes are dropped when all that was
 * read from them is answered.
 *
 * A browser can be made to send what it likes to this port, behind a line and
 * fields of HTTP. So whoever sends those is not listened to any further, before
 * anything of what follows is carried out.
 */
#include <string.h>

#include "server/resp/resp_int.h"

#define OUT_HIGH ((size_t)256 << 10) /* where there is no connection */

/* Of one who has not said who he is. */
#define STRANGER_WORDS 10
#define STRANGER_BYTES ((size_t)16 << 10)

static bool is_full(const struct sl_resp_session *s)
{
    return s->conn ? sl_conn_is_full(s->conn) : s->out->len > OUT_HIGH;
}

static void count_refusal(const struct sl_resp_session *s, const char *why)
{
    if (s->worker->stats)
        sl_metrics_refused(s->worker->stats, "resp", why);
}

/* ---- HTTP ---- */

static bool begins(struct sl_str word, const char *with)
{
    size_t len = strlen(with);

    return word.len >= len &&
           sl_str_eq_nocase((struct sl_str){word.at, len}, sl_str_c(with));
}

/* "POST ...", "Host: ...", or whatever ends in "HTTP/1.1". */
static bool is_http(const struct sl_resp_command *c)
{
    return sl_str_eq_nocase(c->args[0], SL_STR("post")) ||
           sl_str_eq_nocase(c->args[0], SL_STR("host:")) ||
           (c->is_inline && c->count > 1 &&
            begins(c->args[c->count - 1], "HTTP/"));
}

/* ---- one command ---- */

static void give_up(struct sl_resp_session *s)
{
    s->broken = s->ending = true;
}

static void end(struct sl_resp_session *s, const char *why)
{
    count_refusal(s, why);
    s->ending = true;
}

/* What is no command: nothing behind it can be understood. */
static void refuse(struct sl_resp_session *s, const char *why)
{
    end(s, "malformed");
    if (sl_resp_refuse(s, "%s", why))
        give_up(s);
}

static bool is_too_much(const struct sl_resp_session *s,
                        const struct sl_resp_command *c)
{
    return !s->admitted &&
           (c->count > STRANGER_WORDS || c->used > STRANGER_BYTES);
}

/* Will it be collected with its neighbours? What is refused is not, and waits
 * for their replies like everything else. */
static bool collects(const struct sl_resp_session *s,
                     const struct sl_resp_row *row,
                     const struct sl_resp_command *c)
{
    return row && (s->call ? row->collects : row->handle == sl_resp_check) &&
           s->admitted && c->count >= row->least && c->count <= row->most;
}

/* False if it is to be carried out later: then it was not used. */
static bool carry_out(struct sl_resp_session *s,
                      const struct sl_resp_command *c)
{
    const struct sl_resp_row *row = sl_resp_find(c->args[0]);
    int err = 0;

    if ((s->call || s->check_count > 0) && !collects(s, row, c))
        err = sl_resp_flush(s);
    if (s->worker->checks > 0 && !(row && row->handle == sl_resp_check))
        sl_resp_time_checks(s->worker);
    if (s->late)
        return false;
    s->used += c->used;
    s->worker->commands++;
    if (!err && is_http(c))
        end(s, "http");
    else if (!err && is_too_much(s, c))
        refuse(s, "Protocol error: unauthenticated command is too long");
    else if (!err && sl_resp_may(s, row, c, &err)) {
        SL_HOLDS(row != NULL);
        err = row->handle(s, c);
    }
    if (err)
        give_up(s);
    return !s->late;
}

/* ---- all of them ---- */

static enum sl_resp_served settle(struct sl_resp_session *s, struct sl_buf *in,
                                  enum sl_resp_served served)
{
    if (!s->late && sl_resp_flush(s))
        give_up(s);
    if (s->worker->checks > 0)
        sl_resp_time_checks(s->worker);
    if (s->late)
        return SL_RESP_LATE;
    sl_buf_drop(in, s->used);
    s->used = 0;
    return s->ending ? SL_RESP_ENDED : served;
}

enum sl_resp_served sl_resp_serve(struct sl_resp_session *s, struct sl_buf *in,
                                  unsigned most)
{
    struct sl_resp_command *c = &s->worker->command;

    s->worker->clock = 0;
    while (!s->ending && s->used < in->len) {
        enum sl_resp_result result;

        if (most-- == 0 || is_full(s))
            return settle(s, in, SL_RESP_FULL);
        sl_resp_command_begin(c);
        result =
            sl_resp_command_read(c, in->bytes + s->used, in->len - s->used);
        if (result == SL_RESP_MORE)
            break;
        if (result == SL_RESP_REFUSED) {
            if (settle(s, in, SL_RESP_EMPTY) != SL_RESP_LATE)
                refuse(s, c->why);
            break;
        }
        if (c->count == 0)
            s->used += c->used;
        else if (!carry_out(s, c))
            return settle(s, in, SL_RESP_LATE);
    }
    return settle(s, in, SL_RESP_EMPTY);
}

/* ---- what one thread needs to serve, without a loop. */

void sl_resp_worker_init(struct sl_resp_worker *worker,
                         const struct sl_resp_door *door,
                         struct sl_engine *engine, struct sl_metrics *stats,
                         const struct sl_alloc *alloc)
{
    static const struct sl_engine_ctx bare;

    memset(worker, 0, sizeof(*worker));
    worker->door = door;
    worker->engine = engine;
    worker->station = &bare;
    worker->stats = stats;
    worker->alloc = alloc ? alloc : &sl_alloc_libc;
    TAILQ_INIT(&worker->spare);
    TAILQ_INIT(&worker->late);
    sl_throttles_init(&worker->throttles, engine, NULL);
}

void sl_resp_worker_done(struct sl_resp_worker *worker)
{
    sl_resp_calls_free(&worker->spare);
    sl_resp_calls_free(&worker->late);
}

void sl_resp_worker_engine(struct sl_resp_worker *worker,
                           struct sl_engine *engine)
{
    sl_resp_calls_free(&worker->spare); /* with the old one's policy */
    worker->engine = engine;
    sl_throttles_init(&worker->throttles, engine, worker->loop);
}

sl_ns sl_resp_now(const struct sl_resp_worker *worker)
{
    return worker->loop ? sl_loop_now(worker->loop) : worker->still;
}

bool sl_resp_is_open(const struct sl_resp_session *session)
{
    const struct sl_resp_door *door = session->worker->door;

    if (door->token.len == 0 && !door->accepts_client_cert)
        return true;
    return door->accepts_client_cert && session->conn &&
           session->conn->tls_client;
}

void sl_resp_session_init(struct sl_resp_session *session,
                          struct sl_resp_worker *worker, struct sl_buf *out)
{
    static _Atomic uint64_t last;

    memset(session, 0, sizeof(*session));
    session->worker = worker;
    session->out = out;
    session->version = 2;
    session->id = ++last;
    session->since = sl_resp_now(worker);
    session->admitted = sl_resp_is_open(session);
}
