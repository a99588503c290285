/* conn.c -- the Redis protocol on connections.
 *
 * The state of a connection decides which timeout runs:
 *
 *     IDLE --bytes--> PARTIAL --the rest--> carried out, IDLE
 *       |                |                      |     ^
 *   idle_timeout    begin_timeout               v     |
 *     closed            closed              SUSPENDED -+
 *
 * The TLS handshake and the time until AUTH, where a token is set, have
 * begin_timeout, too. It starts with its state; later bytes do not extend it.
 *
 * Fairness. After `max_pipeline` commands of one connection the others have
 * their turn. A client that does not read its replies is not served:
 * sl_conn_is_full().
 */
#include <string.h>
#include <strings.h>

#include "server/resp/resp_int.h"

#define MAX_IN   (SL_RESP_COMMAND + (64 << 10))
#define MAX_OUT  ((size_t)8 << 20)
#define HIGH_OUT ((size_t)256 << 10)

#define MAX_PIPELINE 256

/* Stores answer long before. */
#define SUSPENDED_TIMEOUT (60 * SL_S)

#define KEEPALIVE_SECONDS 300

/* A command before AUTH. */
#define MAX_ANONYMOUS_WORDS 10
#define MAX_ANONYMOUS_BYTES ((size_t)16 << 10)

static bool is_full(const struct sl_resp_conn *client)
{
    return client->base.conn ? sl_conn_is_full(client->base.conn)
                             : client->out->len > HIGH_OUT;
}

/* "POST ...", "Host: ...", or a line that ends in "HTTP/1.1". A web page can
 * make a browser send commands to this port after such a line. So nothing after
 * it is carried out. */
static bool is_http(const struct sl_resp_command *c)
{
    return sl_str_eq_nocase(c->args[0], SL_STR("post")) ||
           sl_str_eq_nocase(c->args[0], SL_STR("host:")) ||
           (c->is_inline && c->count > 1 && c->args[c->count - 1].len >= 5 &&
            strncasecmp(c->args[c->count - 1].at, "HTTP/", 5) == 0);
}

/* ---- one command ---- */

static void give_up(struct sl_resp_conn *client)
{
    client->broken = client->ending = true;
}

/* Refuses the rest of the input, with a reply unless it is NULL. */
static void refuse_rest(struct sl_resp_conn *client, const char *why,
                        const char *reply)
{
    sl_server_count_refusal(client->base.worker, why);
    client->ending = true;
    if (reply && sl_resp_refuse(client, "%s", reply))
        give_up(client);
}

static bool is_too_much(const struct sl_resp_conn *client,
                        const struct sl_resp_command *c)
{
    return !client->admitted &&
           (c->count > MAX_ANONYMOUS_WORDS || c->used > MAX_ANONYMOUS_BYTES);
}

/* Will the command be collected with those before it? A command that will be
 * refused is not: their replies come first. */
static bool collects(const struct sl_resp_conn *client,
                     const struct sl_resp_row *row,
                     const struct sl_resp_command *c)
{
    return row &&
           (client->call ? row->collects : row->handle == sl_resp_check) &&
           client->admitted && c->count >= row->least && c->count <= row->most;
}

/* False if it has to wait for replies; its bytes may be unused then. */
static bool carry_out(struct sl_resp_conn *client,
                      const struct sl_resp_command *c)
{
    const struct sl_resp_row *row = sl_resp_find(c->args[0]);
    int err = 0;

    if ((client->call || client->check_count > 0) && !collects(client, row, c))
        err = sl_resp_flush(client);
    if (client->worker->checks > 0 && !(row && row->handle == sl_resp_check))
        sl_resp_time_checks(client->worker);
    if (client->suspended)
        return false;
    client->used += c->used;
    client->worker->commands++;
    if (!err && is_http(c))
        refuse_rest(client, "http", NULL);
    else if (!err && is_too_much(client, c))
        refuse_rest(client, "malformed",
                    "Protocol error: unauthenticated command is too long");
    else if (!err && sl_resp_may(client, row, c, &err)) {
        SL_HOLDS(row != NULL);
        err = row->handle(client, c);
    }
    if (err)
        give_up(client);
    return !client->suspended;
}

/* ---- all commands.
 *
 * Throttles are collected and taken together, and so are checks: before any
 * other command, and at the end of the input. So replies keep the order of the
 * commands. Input is dropped when all that was read from it is answered.
 */

static enum sl_resp_served settle(struct sl_resp_conn *client,
                                  struct sl_buf *in, enum sl_resp_served served)
{
    if (!client->suspended && sl_resp_flush(client))
        give_up(client);
    if (client->worker->checks > 0)
        sl_resp_time_checks(client->worker);
    if (client->suspended)
        return SL_RESP_SUSPENDED;
    sl_buf_drop(in, client->used);
    client->used = 0;
    return client->ending ? SL_RESP_ENDED : served;
}

enum sl_resp_served sl_resp_serve(struct sl_resp_conn *client,
                                  struct sl_buf *in, unsigned most)
{
    struct sl_resp_command *c = &client->worker->command;

    client->worker->clock = 0;
    while (!client->ending && client->used < in->len) {
        enum sl_resp_result result;

        if (most-- == 0 || is_full(client))
            return settle(client, in, SL_RESP_FULL);
        sl_resp_command_begin(c);
        result = sl_resp_command_read(c, in->bytes + client->used,
                                      in->len - client->used);
        if (result == SL_RESP_MORE)
            break;
        if (result == SL_RESP_REFUSED) {
            if (settle(client, in, SL_RESP_EMPTY) != SL_RESP_SUSPENDED)
                refuse_rest(client, "malformed", c->why);
            break;
        }
        if (c->count == 0)
            client->used += c->used;
        else if (!carry_out(client, c))
            return settle(client, in, SL_RESP_SUSPENDED);
    }
    return settle(client, in, SL_RESP_EMPTY);
}

/* ---- timeouts ---- */

static sl_ns begin_timeout(const struct sl_server *server)
{
    return server->begin_timeout > 0 ? server->begin_timeout : 10 * SL_S;
}

/* No command is in progress. Before AUTH the first timeout stays. */
static void rest(struct sl_resp_conn *client)
{
    const struct sl_server *server = client->base.worker->server;
    struct sl_conn *conn = client->base.conn;
    bool partial = conn->in.len > 0;

    if (client->admitted && partial && !client->partial)
        sl_conn_deadline(conn, begin_timeout(server));
    else if (client->admitted && !partial)
        sl_conn_deadline(conn, server->idle_timeout);
    client->partial = partial;
}

/* ---- connections ---- */

static void end(struct sl_resp_conn *client)
{
    if (client->broken)
        sl_conn_abort(client->base.conn);
    else
        sl_conn_finish(client->base.conn);
}

static void on_input(struct sl_conn *conn)
{
    struct sl_resp_conn *client = conn->owner;
    const struct sl_server_worker *worker = client->base.worker;
    unsigned max = worker->server->max_pipeline;

    if (client->base.handshaking) {
        client->base.handshaking = false;
        client->admitted = sl_resp_is_open(client); /* by its certificate */
    }
    switch (sl_resp_serve(client, &conn->in, max > 0 ? max : MAX_PIPELINE)) {
    case SL_RESP_FULL:
        if (!sl_conn_is_full(conn))
            sl_conn_yield(conn);
        rest(client);
        break;
    case SL_RESP_EMPTY:
        rest(client);
        if (worker->draining && conn->in.len == 0)
            sl_conn_finish(conn);
        break;
    case SL_RESP_SUSPENDED:
        sl_conn_pause(conn, true);
        sl_conn_deadline(conn, SUSPENDED_TIMEOUT);
        break;
    case SL_RESP_ENDED:
        end(client);
        break;
    }
}

void sl_resp_resume(struct sl_resp_conn *client)
{
    struct sl_conn *conn = client->base.conn;

    if (!conn)
        return; /* a test's */
    sl_buf_drop(&conn->in, client->used);
    client->used = 0;
    if (client->ending) {
        end(client);
        return;
    }
    client->partial = false;
    rest(client);
    sl_conn_flush(conn); /* without more input, nothing else does */
    if (client->base.worker->draining && conn->in.len == 0)
        sl_conn_finish(conn);
    else
        sl_conn_pause(conn, false); /* calls on_input if there is input */
}

static void on_deadline(struct sl_conn *conn)
{
    struct sl_resp_conn *client = conn->owner;
    const struct sl_server_worker *worker = client->base.worker;

    if (client->base.handshaking) { /* it is complete: see conn.h */
        client->base.handshaking = false;
        client->admitted = sl_resp_is_open(client);
        if (client->admitted && !client->partial)
            sl_conn_deadline(conn, worker->server->idle_timeout);
        if (client->admitted)
            return;
    }
    if (client->partial || !client->admitted)
        sl_server_count_refusal(worker, "deadline");
}

bool sl_resp_is_open(const struct sl_resp_conn *client)
{
    const struct sl_conn *conn = client->base.conn;

    return sl_server_admits(client->base.worker, false,
                            conn && conn->tls_client);
}

void sl_resp_conn_init(struct sl_resp_conn *client,
                       struct sl_resp_worker *worker, struct sl_buf *out)
{
    static _Atomic uint64_t last;

    memset(client, 0, sizeof(*client));
    client->base.worker = &worker->base;
    client->worker = worker;
    client->out = out;
    client->version = 2;
    client->id = ++last;
    client->since = sl_server_now(&worker->base);
    client->admitted = sl_resp_is_open(client);
}

/* ---- the protocol ---- */

static size_t max_in(const struct sl_server *server)
{
    (void)server;
    return MAX_IN;
}

static void worker_engine(struct sl_server_worker *base)
{
    struct sl_resp_worker *worker = (struct sl_resp_worker *)base;

    sl_throttles_init(&worker->throttles, base->engine, base->loop);
}

static void on_open(struct sl_server_conn *base)
{
    struct sl_resp_conn *client = (struct sl_resp_conn *)base;
    struct sl_server_conn common = *base;
    const struct sl_server *server = base->worker->server;

    sl_resp_conn_init(client, (struct sl_resp_worker *)base->worker,
                      &base->conn->out);
    *base = common;
    client->admitted = sl_resp_is_open(client); /* by the connection */
    sl_conn_deadline(base->conn, base->handshaking || !client->admitted
                                     ? begin_timeout(server)
                                     : server->idle_timeout);
}

static bool on_close(struct sl_server_conn *base)
{
    struct sl_resp_conn *client = (struct sl_resp_conn *)base;

    if (client->call)
        sl_resp_call_leave(client->call, &base->conn->in);
    return false;
}

static void on_drain(struct sl_server_conn *base)
{
    struct sl_resp_conn *client = (struct sl_resp_conn *)base;

    if (!client->suspended && base->conn->in.len == 0)
        sl_conn_finish(base->conn);
}

const struct sl_protocol sl_protocol_resp = {
    .worker_size = sizeof(struct sl_resp_worker),
    .conn_size = sizeof(struct sl_resp_conn),
    .op_size = sizeof(struct sl_resp_call),
    .max_spare_ops = SL_RESP_CHECKS,
    .max_out = MAX_OUT,
    .high_out = HIGH_OUT,
    .tcp_keepalive = KEEPALIVE_SECONDS,
    .max_in = max_in,
    .worker_engine = worker_engine,
    .op_init = sl_resp_call_init,
    .op_done = sl_resp_call_free,
    .on_open = on_open,
    .calls = {.on_input = on_input,
              .on_deadline = on_deadline,
              .on_close = sl_server_on_close},
    .on_close = on_close,
    .on_drain = on_drain,
};
