/* conn.c -- one connection to one Redis server, and the commands on it. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "net/resolve.h"
#include "store/redis/redis_int.h"

#define BACK_OFF_LEAST (50 * SL_MS)
#define BACK_OFF_MOST  (1 * SL_S)
#define RESOLVE_TIME   (5 * SL_S)
#define CONNECT_TIME   (1 * SL_S) /* with the handshake */
#define PATIENCE       (1 * SL_S)
#define OUT_MOST       ((size_t)64 << 20)
#define OUT_HIGH       ((size_t)8 << 20)
#define ASKING         SL_STR("*1\r\n$6\r\nASKING\r\n")

enum state { DOWN, RESOLVING, CONNECTING, HANDSHAKE, UP };

TAILQ_HEAD(cmds, sl_redis_wire_cmd);

struct sl_redis_conn {
    struct sl_redis_conn_options options;
    enum state state;
    struct sl_conn *net; /* NULL: DOWN or RESOLVING */
    struct sl_timer *timer;
    struct sl_resolve *resolve; /* RESOLVING */
    struct sl_resolved found;
    unsigned tried;        /* addresses of `found` */
    struct cmds queue;     /* to be sent when it is UP */
    struct cmds sent_list; /* sent, in order */
    unsigned count;        /* of both */
    uint64_t put;          /* bytes of commands, for this connection */
    unsigned replies_due;  /* replies to the handshake that are to come */
    unsigned failures;     /* since it was UP */
    sl_ns reconnect_at;    /* monotonic: DOWN */
    struct sl_resp_reply reader;
    char why[160];
    struct sl_jitter jitter;
};

static const struct sl_str nothing = {"", 0};

static void start_connect(struct sl_redis_conn *conn);

static void report(struct sl_redis_conn *conn, bool up)
{
    if (conn->options.on_change)
        conn->options.on_change(conn->options.ctx, up, up ? "" : conn->why);
}

/* ---- commands ---- */

static void end(struct sl_redis_conn *conn, struct cmds *list,
                struct sl_redis_wire_cmd *wire, enum sl_redis_result result,
                struct sl_str reply)
{
    TAILQ_REMOVE(list, wire, links);
    conn->count--;
    wire->done(wire, result, reply);
}

/* One pass: a done() may send its command again. */
static void end_all(struct sl_redis_conn *conn)
{
    struct cmds sent_list = TAILQ_HEAD_INITIALIZER(sent_list);
    struct cmds queue = TAILQ_HEAD_INITIALIZER(queue);
    struct sl_redis_wire_cmd *wire;

    TAILQ_CONCAT(&sent_list, &conn->sent_list, links);
    TAILQ_CONCAT(&queue, &conn->queue, links);
    while ((wire = TAILQ_FIRST(&sent_list)) != NULL)
        end(conn, &sent_list, wire, SL_UNCERTAIN, nothing);
    while ((wire = TAILQ_FIRST(&queue)) != NULL)
        end(conn, &queue, wire, SL_REDIS_NOT_SENT, nothing);
}

/* ASKING and the command, or neither: out of memory. */
static void put_out(struct sl_redis_conn *conn, struct sl_redis_wire_cmd *wire)
{
    struct sl_buf *out = &conn->net->out;
    size_t before = out->len;

    if ((wire->asking && sl_buf_add(out, ASKING)) ||
        sl_buf_add(out, wire->command)) {
        out->len = before;
        conn->count--;
        wire->done(wire, SL_REDIS_NOT_SENT, nothing);
        return;
    }
    conn->put += out->len - before;
    wire->end = conn->put;
    wire->skip = wire->asking;
    wire->sent = sl_loop_mono(conn->options.loop);
    TAILQ_INSERT_TAIL(&conn->sent_list, wire, links);
}

void sl_redis_conn_send(struct sl_redis_conn *conn,
                        struct sl_redis_wire_cmd *wire)
{
    wire->sent = 0;
    if (conn->state == DOWN || conn->count >= conn->options.most) {
        wire->done(wire, SL_REDIS_NOT_SENT, nothing);
        return;
    }
    conn->count++;
    if (conn->state != UP) {
        TAILQ_INSERT_TAIL(&conn->queue, wire, links);
        return;
    }
    put_out(conn, wire);
    sl_conn_push(conn->net);
}

bool sl_redis_conn_is_written(const struct sl_redis_conn *conn,
                              const struct sl_redis_wire_cmd *wire)
{
    return wire->sent > 0 && conn->net &&
           wire->end <= conn->put - conn->net->out.len;
}

bool sl_redis_conn_cancel(struct sl_redis_conn *conn,
                          struct sl_redis_wire_cmd *wire)
{
    if (wire->sent > 0)
        return false;
    TAILQ_REMOVE(&conn->queue, wire, links);
    conn->count--;
    return true;
}

/* ---- down ---- */

/* The connection ends. A server can't have the commands whose last bytes were
 * not written, so they join the queue, as if they had not been sent. */
static void take_back_unwritten(struct sl_redis_conn *conn)
{
    struct sl_redis_wire_cmd *wire;

    while ((wire = TAILQ_LAST(&conn->sent_list, cmds)) != NULL &&
           !sl_redis_conn_is_written(conn, wire)) {
        wire->sent = 0;
        TAILQ_REMOVE(&conn->sent_list, wire, links);
        TAILQ_INSERT_HEAD(&conn->queue, wire, links);
    }
}

/* Drops the connection or the lookup. */
static void disconnect(struct sl_redis_conn *conn)
{
    struct sl_conn *net = conn->net;

    sl_resolve_cancel(conn->resolve);
    conn->resolve = NULL;
    if (!net)
        return;
    take_back_unwritten(conn);
    conn->net = NULL;
    net->owner = NULL;
    sl_conn_abort(net);
}

static void go_down(struct sl_redis_conn *conn, const char *why)
{
    bool changed = conn->state == UP || conn->failures == 0;
    sl_ns wait = sl_jitter_backoff(&conn->jitter, conn->failures,
                                   BACK_OFF_LEAST, BACK_OFF_MOST);

    disconnect(conn);
    conn->state = DOWN;
    conn->failures++;
    conn->reconnect_at = sl_loop_mono(conn->options.loop) + wait;
    snprintf(conn->why, sizeof(conn->why), "%s", why);
    sl_timer_start(conn->timer, wait);
    if (changed)
        report(conn, false);
    end_all(conn);
}

void sl_redis_conn_reconnect(struct sl_redis_conn *conn, const char *why)
{
    if (conn->state != UP)
        return;
    disconnect(conn);
    snprintf(conn->why, sizeof(conn->why), "%s", why);
    start_connect(conn);
    report(conn, false);
    end_all(conn);
}

/* ---- up ---- */

static void go_up(struct sl_redis_conn *conn)
{
    struct cmds queue = TAILQ_HEAD_INITIALIZER(queue);
    struct sl_redis_wire_cmd *wire;

    conn->state = UP;
    conn->put = 0; /* all of the handshake was written */
    conn->failures = 0;
    sl_timer_start(conn->timer, conn->options.patience);
    report(conn, true);
    TAILQ_CONCAT(&queue, &conn->queue, links);
    while ((wire = TAILQ_FIRST(&queue)) != NULL) {
        TAILQ_REMOVE(&queue, wire, links);
        put_out(conn, wire);
    }
}

static void on_handshake(struct sl_redis_conn *conn, struct sl_str reply)
{
    struct sl_resp_value value = sl_resp_next(&reply);
    struct sl_diag message;

    if (value.type == SL_RESP_ERROR) {
        value.text.len = value.text.len < 100 ? value.text.len : 100;
        sl_diag_error(&message, SLUICE_ESTORE, "Redis answers: %.*s",
                      SL_STR_ARG(value.text)); /* makes it printable */
        go_down(conn, message.sentence);
    } else if (--conn->replies_due == 0) {
        go_up(conn);
    }
}

/* ---- replies ---- */

static void on_reply(struct sl_redis_conn *conn, struct sl_str reply)
{
    struct sl_redis_wire_cmd *wire = TAILQ_FIRST(&conn->sent_list);

    if (conn->state == HANDSHAKE)
        on_handshake(conn, reply);
    else if (!wire)
        go_down(conn, "unexpected reply");
    else if (wire->skip > 0)
        wire->skip--;
    else
        end(conn, &conn->sent_list, wire, SL_REDIS_REPLIED, reply);
}

static void on_input(struct sl_conn *net)
{
    struct sl_redis_conn *conn = net->owner;
    size_t used = 0;

    /* A reply may end this connection. */
    while (conn && conn->net == net && used < net->in.len) {
        struct sl_str bytes = sl_str_from(sl_buf_str(&net->in), used);
        enum sl_resp_result result = sl_resp_reply_read(&conn->reader, bytes);

        if (result == SL_RESP_MORE)
            break;
        if (result == SL_RESP_REFUSED) {
            go_down(conn, "the reply is not valid RESP (Redis protocol)");
            return;
        }
        bytes.len = conn->reader.used;
        used += bytes.len;
        sl_resp_reply_begin(&conn->reader, SL_RESP_REPLY);
        SL_HOLDS(bytes.len > 0 && bytes.at);
        if (bytes.at[0] != '>') /* a push */
            on_reply(conn, bytes);
    }
    sl_buf_drop(&net->in, used);
}

/* Appends AUTH, SELECT and PING. None of their replies may be an error. */
static int put_handshake(struct sl_redis_conn *conn)
{
    const struct sl_redis_conn_options *o = &conn->options;
    struct sl_buf *out = &conn->net->out;
    bool named = o->user.len > 0;
    char digits[SL_DIGITS];
    struct sl_str auth[3] = {SL_STR("AUTH"), named ? o->user : o->password,
                             o->password};
    struct sl_str select[2] = {
        SL_STR("SELECT"), {digits, sl_digits(o->database, digits)}
    };
    struct sl_str ping[1] = {SL_STR("PING")};
    int err = 0;

    conn->replies_due = 1;
    if (named || o->password.len > 0) {
        conn->replies_due++;
        err = sl_resp_command_write(out, auth, named ? 3 : 2);
    }
    if (!err && o->database > 0) {
        conn->replies_due++;
        err = sl_resp_command_write(out, select, 2);
    }
    return err ? err : sl_resp_command_write(out, ping, 1);
}

static void on_open(struct sl_conn *net)
{
    struct sl_redis_conn *conn = net->owner;

    if (!conn)
        return;
    conn->state = HANDSHAKE;
    if (put_handshake(conn))
        go_down(conn, "out of memory");
}

/* ---- connecting ---- */

static void connect_next(struct sl_redis_conn *conn);

static void on_close(struct sl_conn *net)
{
    struct sl_redis_conn *conn = net->owner;

    if (!conn)
        return;
    take_back_unwritten(conn);
    conn->net = NULL;
    if (conn->state == CONNECTING)
        connect_next(conn);
    else
        go_down(conn, "the connection was closed");
}

static const struct sl_conn_calls calls = {
    .on_open = on_open,
    .on_input = on_input,
    .on_close = on_close,
};

/* Tries the remaining addresses. */
static void connect_next(struct sl_redis_conn *conn)
{
    struct sl_conn_options options = {
        .calls = &calls,
        .owner = conn,
        .in_most = SL_RESP_REPLY + 1024,
        .out_most = OUT_MOST,
        .out_high = OUT_HIGH,
        .tls = conn->options.tls,
        .server_name = conn->options.name,
        .alloc = conn->options.alloc,
    };

    conn->state = CONNECTING;
    sl_resp_reply_begin(&conn->reader, SL_RESP_REPLY);
    while (conn->tried < conn->found.count) {
        const struct sl_address *to = &conn->found.list[conn->tried++];

        if (sl_conn_connect(conn->options.conns, to, &options, &conn->net)) {
            conn->net = NULL;
            continue;
        }
        sl_timer_start(conn->timer, CONNECT_TIME);
        return;
    }
    go_down(conn, "cannot connect");
}

static void on_resolved(void *ctx, const struct sl_resolved *resolved)
{
    struct sl_redis_conn *conn = ctx;
    char why[sizeof(conn->why)];

    conn->resolve = NULL;
    if (resolved->count == 0) {
        snprintf(why, sizeof(why), "it %s", resolved->why);
        go_down(conn, why);
        return;
    }
    conn->found = *resolved;
    connect_next(conn);
}

static void start_connect(struct sl_redis_conn *conn)
{
    const struct sl_redis_conn_options *o = &conn->options;

    conn->tried = 0;
    conn->state = RESOLVING;
    if (sl_resolve_digits(o->name, o->port, &conn->found)) {
        connect_next(conn);
        return;
    }
    sl_timer_start(conn->timer, RESOLVE_TIME);
    if (o->port == 0)
        go_down(conn, "the path of the socket is too long");
    else if (sl_resolve_begin(o->loop, o->name, o->port, on_resolved, conn,
                              &conn->resolve))
        go_down(conn, "cannot start the address lookup");
}

/* ---- time ---- */

/* Has the oldest command waited for too long? */
static void watch(struct sl_redis_conn *conn)
{
    const struct sl_redis_wire_cmd *oldest = TAILQ_FIRST(&conn->sent_list);
    sl_ns patience = conn->options.patience;
    sl_ns waited = oldest ? sl_loop_mono(conn->options.loop) - oldest->sent : 0;

    if (waited >= patience)
        go_down(conn, "no reply in time");
    else
        sl_timer_start(conn->timer, patience - waited);
}

static void on_timer(void *ctx)
{
    struct sl_redis_conn *conn = ctx;

    switch (conn->state) {
    case DOWN:
        start_connect(conn);
        break;
    case RESOLVING:
        go_down(conn, "the address lookup timed out");
        break;
    case CONNECTING:
        disconnect(conn);
        connect_next(conn);
        break;
    case HANDSHAKE:
        go_down(conn, "no reply in time");
        break;
    case UP:
        watch(conn);
        break;
    }
}

bool sl_redis_conn_is_up(const struct sl_redis_conn *conn)
{
    return conn->state == UP;
}

bool sl_redis_conn_is_accepting(const struct sl_redis_conn *conn)
{
    return conn->state != DOWN && conn->count < conn->options.most;
}

unsigned sl_redis_conn_count(const struct sl_redis_conn *conn)
{
    return conn->count;
}

sl_ns sl_redis_conn_reconnect_in(const struct sl_redis_conn *conn)
{
    sl_ns now = sl_loop_mono(conn->options.loop);

    return conn->state == DOWN && conn->reconnect_at > now
               ? conn->reconnect_at - now
               : 0;
}

/* ---- open and close ---- */

int sl_redis_conn_open(const struct sl_redis_conn_options *options,
                       struct sl_redis_conn **ret)
{
    struct sl_redis_conn *conn = sl_alloc_new(options->alloc, sizeof(*conn));
    int err;

    if (!conn)
        return SLUICE_ENOMEM;
    *conn = (struct sl_redis_conn){.options = *options, .state = DOWN};
    if (conn->options.patience == 0)
        conn->options.patience = PATIENCE;
    TAILQ_INIT(&conn->queue);
    TAILQ_INIT(&conn->sent_list);
    sl_tls_ref(options->tls);
    err = sl_timer_new(options->loop, on_timer, conn, &conn->timer);
    if (!err)
        err = sl_jitter_init(&conn->jitter);
    if (err) {
        sl_redis_conn_close(conn);
        return err;
    }
    *ret = conn;
    start_connect(conn);
    return 0;
}

void sl_redis_conn_close(struct sl_redis_conn *conn)
{
    if (!conn)
        return;
    conn->options.on_change = NULL;
    disconnect(conn);
    conn->state = DOWN;
    end_all(conn);
    sl_timer_free(conn->timer);
    sl_tls_unref(conn->options.tls);
    sl_alloc_free(conn->options.alloc, conn, sizeof(*conn));
}
