/* conn.c -- one connection to one Redis, kept up, and the commands on it. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "net/resolve.h"
#include "store/redis/redis_int.h"

#define BACK_OFF_LEAST (50 * SL_MS)
#define BACK_OFF_MOST  (1 * SL_S)
#define FIND_TIME      (5 * SL_S) /* for the addresses of a name */
#define CALL_TIME      (1 * SL_S) /* to connect and to greet */
#define PATIENCE       (1 * SL_S)
#define OUT_MOST       ((size_t)64 << 20)
#define OUT_HIGH       ((size_t)8 << 20)
#define ASKING         SL_STR("*1\r\n$6\r\nASKING\r\n")

enum state { DOWN, FINDING, CALLING, GREETING, UP };

TAILQ_HEAD(flights, sl_redis_wire_cmd);

struct sl_redis_conn {
    struct sl_redis_conn_options options;
    char *words; /* copies of name, user and password */
    size_t words_size;
    enum state state;
    struct sl_conn *conn; /* NULL: DOWN or FINDING */
    struct sl_timer *timer;
    struct sl_resolve *resolve; /* FINDING */
    struct sl_resolved found;
    unsigned tried;        /* of those */
    struct flights ground; /* to be sent when it is UP */
    struct flights sky;    /* sent, in order */
    unsigned count;        /* of both */
    unsigned greetings;    /* replies to our own words that are to come */
    unsigned failures;     /* since it was UP */
    sl_ns calls_at;        /* steady: DOWN */
    struct sl_resp_reply reader;
    char why[160];
    struct sl_jitter dice;
};

static const struct sl_str nothing = {"", 0};

static void call(struct sl_redis_conn *link);

static sl_ns patience_of(const struct sl_redis_conn *link)
{
    return link->options.patience > 0 ? link->options.patience : PATIENCE;
}

static void say(struct sl_redis_conn *link, bool up)
{
    if (link->options.on_change)
        link->options.on_change(link->options.ctx, up, up ? "" : link->why);
}

/* ---- flights ---- */

static void end(struct sl_redis_conn *link, struct flights *list,
                struct sl_redis_wire_cmd *flight, enum sl_redis_result landing,
                struct sl_str reply)
{
    TAILQ_REMOVE(list, flight, link);
    link->count--;
    flight->done(flight, landing, reply);
}

/* Only those that are there: some may be sent again by their done(). */
static void end_all(struct sl_redis_conn *link)
{
    struct flights sky = TAILQ_HEAD_INITIALIZER(sky);
    struct flights ground = TAILQ_HEAD_INITIALIZER(ground);
    struct sl_redis_wire_cmd *flight;

    TAILQ_CONCAT(&sky, &link->sky, link);
    TAILQ_CONCAT(&ground, &link->ground, link);
    while ((flight = TAILQ_FIRST(&sky)) != NULL)
        end(link, &sky, flight, SL_UNCERTAIN, nothing);
    while ((flight = TAILQ_FIRST(&ground)) != NULL)
        end(link, &ground, flight, SL_REDIS_NOT_SENT, nothing);
}

/* Both words or none. */
static bool put_out(struct sl_redis_conn *link,
                    struct sl_redis_wire_cmd *flight)
{
    struct sl_buf *out = &link->conn->out;
    size_t before = out->len;

    if ((flight->asking && sl_buf_add(out, ASKING)) ||
        sl_buf_add(out, flight->command)) {
        out->len = before;
        return false;
    }
    flight->skip = flight->asking;
    flight->sent = sl_loop_mono(link->options.loop);
    TAILQ_INSERT_TAIL(&link->sky, flight, link);
    return true;
}

void sl_redis_conn_send(struct sl_redis_conn *link,
                        struct sl_redis_wire_cmd *flight)
{
    flight->sent = 0;
    if (link->state == DOWN || link->count >= link->options.most) {
        flight->done(flight, SL_REDIS_NOT_SENT, nothing);
        return;
    }
    link->count++;
    if (link->state != UP) {
        TAILQ_INSERT_TAIL(&link->ground, flight, link);
        return;
    }
    if (!put_out(link, flight)) { /* there is no memory */
        link->count--;
        flight->done(flight, SL_REDIS_NOT_SENT, nothing);
        return;
    }
    sl_conn_push(link->conn);
}

bool sl_redis_conn_cancel(struct sl_redis_conn *link,
                          struct sl_redis_wire_cmd *flight)
{
    if (flight->sent > 0)
        return false;
    TAILQ_REMOVE(&link->ground, flight, link);
    link->count--;
    return true;
}

/* ---- down ---- */

static sl_ns back_off(struct sl_redis_conn *link)
{
    unsigned shift = link->failures < 6 ? link->failures : 6;
    sl_ns most = BACK_OFF_LEAST << shift;

    return sl_jitter_span(&link->dice,
                          most < BACK_OFF_MOST ? most : BACK_OFF_MOST);
}

/* Hang up, or stop whatever it does to get there. */
static void let_go(struct sl_redis_conn *link)
{
    struct sl_conn *conn = link->conn;

    sl_resolve_cancel(link->resolve);
    link->resolve = NULL;
    link->conn = NULL;
    if (!conn)
        return;
    conn->owner = NULL; /* it is nobody's from now on */
    sl_conn_abort(conn);
}

static void go_down(struct sl_redis_conn *link, const char *why)
{
    bool is_news = link->state == UP || link->failures == 0;
    sl_ns wait = back_off(link);

    let_go(link);
    link->state = DOWN;
    link->failures++;
    link->calls_at = sl_loop_mono(link->options.loop) + wait;
    snprintf(link->why, sizeof(link->why), "%s", why);
    sl_timer_start(link->timer, wait);
    if (is_news)
        say(link, false);
    end_all(link);
}

void sl_redis_conn_reconnect(struct sl_redis_conn *link, const char *why)
{
    if (link->state != UP)
        return; /* it is on its way already */
    let_go(link);
    snprintf(link->why, sizeof(link->why), "%s", why);
    call(link);
    say(link, false);
    end_all(link);
}

/* ---- greeting ---- */

static void take_off(struct sl_redis_conn *link)
{
    struct flights ground = TAILQ_HEAD_INITIALIZER(ground);
    struct sl_redis_wire_cmd *flight;

    TAILQ_CONCAT(&ground, &link->ground, link);
    while ((flight = TAILQ_FIRST(&ground)) != NULL) {
        TAILQ_REMOVE(&ground, flight, link);
        if (put_out(link, flight))
            continue;
        link->count--;
        flight->done(flight, SL_REDIS_NOT_SENT, nothing);
    }
}

static void go_up(struct sl_redis_conn *link)
{
    link->state = UP;
    link->failures = 0;
    sl_timer_start(link->timer, patience_of(link));
    say(link, true);
    take_off(link);
}

static void on_greeting(struct sl_redis_conn *link, struct sl_str reply)
{
    struct sl_resp_value value = sl_resp_next(&reply);
    struct sl_diag said;

    if (value.type == SL_RESP_ERROR) {
        value.text.len = value.text.len < 100 ? value.text.len : 100;
        sl_diag_error(&said, SLUICE_ESTORE, "Redis answers: %.*s",
                      SL_STR_ARG(value.text)); /* fit to be printed */
        go_down(link, said.sentence);
    } else if (--link->greetings == 0) {
        go_up(link);
    }
}

/* ---- replies ---- */

static void on_reply(struct sl_redis_conn *link, struct sl_str reply)
{
    struct sl_redis_wire_cmd *flight = TAILQ_FIRST(&link->sky);

    if (link->state == GREETING)
        on_greeting(link, reply);
    else if (!flight)
        go_down(link, "unexpected reply");
    else if (flight->skip > 0)
        flight->skip--;
    else
        end(link, &link->sky, flight, SL_REDIS_REPLIED, reply);
}

static bool is_push(struct sl_str reply)
{
    SL_HOLDS(reply.len == 0 || reply.at);
    return reply.len > 0 && reply.at[0] == '>';
}

static void on_input(struct sl_conn *conn)
{
    struct sl_redis_conn *link = conn->owner;
    size_t used = 0;

    /* It may be dropped by what it says, and is somebody else's then. */
    while (link && link->conn == conn && used < conn->in.len) {
        struct sl_str bytes = sl_str_from(sl_buf_str(&conn->in), used);
        enum sl_resp_result result = sl_resp_reply_read(&link->reader, bytes);

        if (result == SL_RESP_MORE)
            break;
        if (result == SL_RESP_REFUSED) {
            go_down(link, "the reply is not valid RESP (Redis protocol)");
            return;
        }
        bytes.len = link->reader.used;
        used += bytes.len;
        sl_resp_reply_begin(&link->reader, SL_RESP_REPLY);
        if (!is_push(bytes))
            on_reply(link, bytes);
    }
    sl_buf_drop(&conn->in, used);
}

static void on_open(struct sl_conn *conn)
{
    struct sl_redis_conn *link = conn->owner;
    struct sl_redis_handshake greeting;

    if (!link)
        return;
    greeting = (struct sl_redis_handshake){
        link->options.user, link->options.password, link->options.database};
    link->state = GREETING;
    if (sl_redis_conn_handshake(&link->conn->out, &greeting, &link->greetings))
        go_down(link, "out of memory");
}

/* ---- calling ---- */

static void dial_next(struct sl_redis_conn *link);

static void on_close(struct sl_conn *conn)
{
    struct sl_redis_conn *link = conn->owner;

    if (!link)
        return;
    link->conn = NULL;
    if (link->state == CALLING)
        dial_next(link);
    else
        go_down(link, "the connection was closed");
}

static const struct sl_conn_calls calls = {
    .on_open = on_open,
    .on_input = on_input,
    .on_close = on_close,
};

/* Try the addresses from the next one on. */
static void dial_next(struct sl_redis_conn *link)
{
    struct sl_conn_options options = {
        .calls = &calls,
        .owner = link,
        .in_most = SL_RESP_REPLY + 1024,
        .out_most = OUT_MOST,
        .out_high = OUT_HIGH,
        .tls = link->options.tls,
        .server_name = link->options.name,
        .alloc = link->options.alloc,
    };

    link->state = CALLING;
    sl_resp_reply_begin(&link->reader, SL_RESP_REPLY);
    while (link->tried < link->found.count) {
        const struct sl_address *to = &link->found.list[link->tried++];

        if (sl_conn_connect(link->options.conns, to, &options, &link->conn)) {
            link->conn = NULL;
            continue;
        }
        sl_timer_start(link->timer, CALL_TIME);
        return;
    }
    go_down(link, "cannot connect");
}

static void on_resolved(void *ctx, const struct sl_resolved *resolved)
{
    struct sl_redis_conn *link = ctx;
    char why[sizeof(link->why)];

    link->resolve = NULL;
    if (resolved->count == 0) {
        snprintf(why, sizeof(why), "the server %s", resolved->why);
        go_down(link, why);
        return;
    }
    link->found = *resolved;
    dial_next(link);
}

static void call(struct sl_redis_conn *link)
{
    const struct sl_redis_conn_options *o = &link->options;

    link->tried = 0;
    link->state = FINDING;
    if (sl_resolve_digits(o->name, o->port, &link->found)) {
        dial_next(link);
        return;
    }
    sl_timer_start(link->timer, FIND_TIME);
    if (o->port == 0)
        go_down(link, "the path of the socket is too long");
    else if (sl_resolve_begin(o->loop, o->name, o->port, on_resolved, link,
                              &link->resolve))
        go_down(link, "cannot start the address lookup");
}

/* ---- time ---- */

/* The oldest flight has waited for too long, or we have looked too early. */
static void watch(struct sl_redis_conn *link)
{
    const struct sl_redis_wire_cmd *oldest = TAILQ_FIRST(&link->sky);
    sl_ns patience = patience_of(link);
    sl_ns waited = oldest ? sl_loop_mono(link->options.loop) - oldest->sent : 0;

    if (waited >= patience)
        go_down(link, "the connection timed out");
    else
        sl_timer_start(link->timer, patience - waited);
}

static void on_timer(void *ctx)
{
    struct sl_redis_conn *link = ctx;

    switch (link->state) {
    case DOWN:
        call(link);
        break;
    case FINDING:
        go_down(link, "the address lookup timed out");
        break;
    case CALLING:
        let_go(link);
        dial_next(link);
        break;
    case GREETING:
        go_down(link, "no reply in time");
        break;
    case UP:
        watch(link);
        break;
    }
}

bool sl_redis_conn_is_up(const struct sl_redis_conn *link)
{
    return link->state == UP;
}

bool sl_redis_conn_is_accepting(const struct sl_redis_conn *link)
{
    return link->state != DOWN && link->count < link->options.most;
}

unsigned sl_redis_conn_count(const struct sl_redis_conn *link)
{
    return link->count;
}

sl_ns sl_redis_conn_reconnect_in(const struct sl_redis_conn *link)
{
    sl_ns now = sl_loop_mono(link->options.loop);

    return link->state == DOWN && link->calls_at > now ? link->calls_at - now
                                                       : 0;
}

/* ---- life ---- */

/* Name, NUL, user, password. */
static bool keep_words(struct sl_redis_conn *link)
{
    struct sl_redis_conn_options *o = &link->options;
    size_t name = strlen(o->name) + 1;
    char *at;

    link->words_size = name + o->user.len + o->password.len;
    at = link->words = sl_alloc_new(o->alloc, link->words_size);
    if (!at)
        return false;
    memcpy(at, o->name, name);
    if (o->user.len > 0)
        memcpy(at + name, o->user.at, o->user.len);
    if (o->password.len > 0)
        memcpy(at + name + o->user.len, o->password.at, o->password.len);
    o->name = at;
    o->user.at = at + name;
    o->password.at = at + name + o->user.len;
    return true;
}

int sl_redis_conn_open(const struct sl_redis_conn_options *options,
                       struct sl_redis_conn **ret)
{
    struct sl_redis_conn *link = sl_alloc_new(options->alloc, sizeof(*link));
    int err = SLUICE_ENOMEM;

    if (!link)
        return err;
    *link = (struct sl_redis_conn){.options = *options, .state = DOWN};
    TAILQ_INIT(&link->ground);
    TAILQ_INIT(&link->sky);
    sl_tls_ref(options->tls);
    if (keep_words(link))
        err = sl_timer_new(options->loop, on_timer, link, &link->timer);
    if (!err)
        err = sl_jitter_init(&link->dice);
    if (err) {
        sl_redis_conn_close(link);
        return err;
    }
    *ret = link;
    call(link);
    return 0;
}

void sl_redis_conn_close(struct sl_redis_conn *link)
{
    const struct sl_alloc *alloc;

    if (!link)
        return;
    alloc = link->options.alloc;
    link->options.on_change = NULL;
    let_go(link);
    link->state = DOWN;
    end_all(link);
    sl_timer_free(link->timer);
    sl_tls_unref(link->options.tls);
    if (link->words) {
        explicit_bzero(link->words, link->words_size);
        sl_alloc_free(alloc, link->words, link->words_size);
    }
    sl_alloc_free(alloc, link, sizeof(*link));
}

/* ---- the first words to a Redis. */

static int handshake_say(struct sl_buf *out, const struct sl_str *words,
                         unsigned count, unsigned *replies)
{
    ++*replies;
    return sl_resp_command_write(out, words, count);
}

int sl_redis_conn_handshake(struct sl_buf *out,
                            const struct sl_redis_handshake *greeting,
                            unsigned *ret_replies)
{
    char digits[SL_DIGITS];
    struct sl_str auth[3] = {SL_STR("AUTH"), greeting->user,
                             greeting->password};
    struct sl_str plain[2] = {SL_STR("AUTH"), greeting->password};
    struct sl_str select[2] = {
        SL_STR("SELECT"), {digits, sl_digits(greeting->database, digits)}
    };
    struct sl_str ping[1] = {SL_STR("PING")};
    int err = 0;

    *ret_replies = 0;
    if (greeting->user.len > 0)
        err = handshake_say(out, auth, 3, ret_replies);
    else if (greeting->password.len > 0)
        err = handshake_say(out, plain, 2, ret_replies);
    if (!err && greeting->database > 0)
        err = handshake_say(out, select, 2, ret_replies);
    return err ? err : handshake_say(out, ping, 1, ret_replies);
}
