/* link.c -- one connection to one Redis, kept up, and the commands on it. */
#include "store/redis/link.h"

#include <stdio.h>
#include <string.h>

#include "base/digits.h"
#include "base/hash.h"

#define BACK_OFF_LEAST (50 * SL_MS)
#define BACK_OFF_MOST  (2 * SL_S)
#define CALL_TIME      (1 * SL_S) /* to connect and to greet */
#define PATIENCE       (1 * SL_S)
#define OUT_MOST       ((size_t)64 << 20)
#define OUT_HIGH       ((size_t)8 << 20)

enum state { DOWN, CALLING, GREETING, UP };

TAILQ_HEAD(flights, sl_flight);

struct sl_link {
    struct sl_link_options options;
    char *words; /* copies of user and password */
    size_t words_size;
    enum state state;
    struct sl_conn *conn; /* NULL: DOWN */
    struct sl_timer *timer;
    struct flights ground; /* to be sent when it is UP */
    struct flights sky;    /* sent, in order */
    unsigned count;        /* of both */
    unsigned greetings;    /* replies to our own words that are to come */
    unsigned failures;     /* since it was UP */
    sl_ns calls_at;        /* steady: DOWN */
    struct sl_resp_reply reader;
    char why[160];
    struct sl_hash_key dice;
    uint64_t thrown;
};

static sl_ns patience_of(const struct sl_link *link)
{
    return link->options.patience > 0 ? link->options.patience : PATIENCE;
}

static void say(struct sl_link *link, bool up)
{
    if (link->options.on_change)
        link->options.on_change(link->options.ctx, up, up ? "" : link->why);
}

/* ---- flights ---- */

static void end(struct sl_link *link, struct flights *list,
                struct sl_flight *flight, enum sl_landing landing,
                struct sl_str reply)
{
    TAILQ_REMOVE(list, flight, link);
    link->count--;
    flight->done(flight, landing, reply);
}

/* Those that come meanwhile are not taken: it is DOWN. */
static void end_all(struct sl_link *link)
{
    struct sl_flight *flight;

    while ((flight = TAILQ_FIRST(&link->sky)) != NULL)
        end(link, &link->sky, flight, SL_UNCERTAIN, (struct sl_str){"", 0});
    while ((flight = TAILQ_FIRST(&link->ground)) != NULL)
        end(link, &link->ground, flight, SL_GROUNDED, (struct sl_str){"", 0});
}

static bool put_out(struct sl_link *link, struct sl_flight *flight)
{
    if (sl_buf_add(&link->conn->out, flight->command))
        return false;
    flight->sent = sl_loop_steady(link->options.loop);
    TAILQ_INSERT_TAIL(&link->sky, flight, link);
    return true;
}

void sl_link_send(struct sl_link *link, struct sl_flight *flight)
{
    flight->sent = 0;
    if (link->state == DOWN || link->count >= link->options.most) {
        flight->done(flight, SL_GROUNDED, (struct sl_str){"", 0});
        return;
    }
    link->count++;
    if (link->state != UP) {
        TAILQ_INSERT_TAIL(&link->ground, flight, link);
        return;
    }
    if (!put_out(link, flight)) { /* there is no memory */
        link->count--;
        flight->done(flight, SL_GROUNDED, (struct sl_str){"", 0});
        return;
    }
    sl_conn_push(link->conn);
}

/* ---- down ---- */

static sl_ns jittered(struct sl_link *link, sl_ns most)
{
    uint64_t dice =
        sl_hash64(&link->dice, (struct sl_str){(const char *)&link->thrown,
                                               sizeof(link->thrown)});

    link->thrown++;
    return most / 2 + (sl_ns)(dice % (uint64_t)(most / 2 + 1));
}

static sl_ns back_off(struct sl_link *link)
{
    unsigned shift = link->failures < 6 ? link->failures : 6;
    sl_ns most = BACK_OFF_LEAST << shift;

    return jittered(link, most < BACK_OFF_MOST ? most : BACK_OFF_MOST);
}

static void go_down(struct sl_link *link, const char *why)
{
    bool was_up = link->state == UP;
    sl_ns wait = back_off(link);

    link->state = DOWN;
    link->failures++;
    link->calls_at = sl_loop_steady(link->options.loop) + wait;
    if (why)
        snprintf(link->why, sizeof(link->why), "%s", why);
    sl_timer_start(link->timer, wait);
    if (was_up || link->failures == 1)
        say(link, false);
    end_all(link);
}

void sl_link_drop(struct sl_link *link, const char *why)
{
    struct sl_conn *conn = link->conn;

    if (!conn)
        return;
    link->conn = NULL;
    conn->owner = NULL; /* it is nobody's from now on */
    sl_conn_abort(conn);
    go_down(link, why);
}

/* ---- greeting ---- */

static int greet_with(struct sl_link *link, const struct sl_str *words,
                      unsigned count)
{
    link->greetings++;
    return sl_resp_command_write(&link->conn->out, words, count);
}

static int greet(struct sl_link *link)
{
    const struct sl_link_options *o = &link->options;
    char digits[SL_DIGITS];
    struct sl_str auth[3] = {SL_STR("AUTH"), o->user, o->password};
    struct sl_str plain[2] = {SL_STR("AUTH"), o->password};
    struct sl_str select[2] = {
        SL_STR("SELECT"), {digits, sl_digits(o->database, digits)}
    };
    struct sl_str ping[1] = {SL_STR("PING")};
    int err = 0;

    link->greetings = 0;
    if (o->user.len > 0)
        err = greet_with(link, auth, 3);
    else if (o->password.len > 0)
        err = greet_with(link, plain, 2);
    if (!err && o->database > 0)
        err = greet_with(link, select, 2);
    return err ? err : greet_with(link, ping, 1);
}

static void take_off(struct sl_link *link)
{
    struct sl_flight *flight;

    while ((flight = TAILQ_FIRST(&link->ground)) != NULL) {
        TAILQ_REMOVE(&link->ground, flight, link);
        if (put_out(link, flight))
            continue;
        link->count--;
        flight->done(flight, SL_GROUNDED, (struct sl_str){"", 0});
    }
}

/* True if the greeting was understood so far. */
static bool on_greeting(struct sl_link *link, struct sl_str reply)
{
    struct sl_resp_value value = sl_resp_next(&reply);

    if (value.type == SL_RESP_ERROR) {
        char why[sizeof(link->why)];

        snprintf(why, sizeof(why), "it answers: %.100s",
                 value.text.len > 0 ? value.text.at : "");
        why[value.text.len < 100 ? 12 + value.text.len : 112] = '\0';
        sl_link_drop(link, why);
        return false;
    }
    if (--link->greetings > 0)
        return true;
    link->state = UP;
    link->failures = 0;
    sl_timer_start(link->timer, patience_of(link));
    say(link, true);
    take_off(link);
    return true;
}

/* ---- replies ---- */

static bool on_reply(struct sl_link *link, struct sl_str reply)
{
    struct sl_flight *flight = TAILQ_FIRST(&link->sky);

    if (link->state == GREETING)
        return on_greeting(link, reply);
    if (!flight) {
        sl_link_drop(link, "it answers what nobody asked");
        return false;
    }
    end(link, &link->sky, flight, SL_LANDED, reply);
    return link->conn != NULL;
}

static bool is_push(struct sl_str reply)
{
    return reply.len > 0 && reply.at[0] == '>';
}

static void on_input(struct sl_conn *conn)
{
    struct sl_link *link = conn->owner;
    size_t used = 0;

    while (link && used < conn->in.len) {
        struct sl_str bytes = sl_str_from(sl_buf_str(&conn->in), used);
        enum sl_resp_result result = sl_resp_reply_read(&link->reader, bytes);

        if (result == SL_RESP_MORE)
            break;
        if (result == SL_RESP_REFUSED) {
            sl_link_drop(link, "it does not speak the Redis protocol");
            return;
        }
        bytes.len = link->reader.used;
        used += bytes.len;
        sl_resp_reply_begin(&link->reader, SL_RESP_REPLY);
        if (!is_push(bytes) && !on_reply(link, bytes))
            return; /* it was dropped */
    }
    sl_buf_drop(&conn->in, used);
}

static void on_open(struct sl_conn *conn)
{
    struct sl_link *link = conn->owner;

    if (!link)
        return;
    link->state = GREETING;
    if (greet(link))
        sl_link_drop(link, "there is no memory");
}

static void on_close(struct sl_conn *conn)
{
    struct sl_link *link = conn->owner;

    if (!link)
        return;
    link->conn = NULL;
    go_down(link, link->state == CALLING ? "it can't be reached"
                                         : "it has closed the connection");
}

static const struct sl_conn_calls calls = {
    .on_open = on_open,
    .on_input = on_input,
    .on_close = on_close,
};

/* ---- calling ---- */

static void call(struct sl_link *link)
{
    struct sl_conn_options options = {
        .calls = &calls,
        .owner = link,
        .in_most = SL_RESP_REPLY + 1024,
        .out_most = OUT_MOST,
        .out_high = OUT_HIGH,
        .tls = link->options.tls,
        .server_name = link->options.server_name,
        .alloc = link->options.alloc,
    };

    link->state = CALLING;
    sl_resp_reply_begin(&link->reader, SL_RESP_REPLY);
    if (sl_conn_dial(link->options.conns, &link->options.to, &options,
                     &link->conn)) {
        link->conn = NULL;
        go_down(link, "it can't be reached");
        return;
    }
    sl_timer_start(link->timer, CALL_TIME);
}

/* The oldest flight has waited for too long, or we have looked too early. */
static void watch(struct sl_link *link)
{
    const struct sl_flight *oldest = TAILQ_FIRST(&link->sky);
    sl_ns patience = patience_of(link);
    sl_ns waited =
        oldest ? sl_loop_steady(link->options.loop) - oldest->sent : 0;

    if (waited >= patience)
        sl_link_drop(link, "it does not answer");
    else
        sl_timer_start(link->timer, patience - waited);
}

static void on_timer(void *ctx)
{
    struct sl_link *link = ctx;

    switch (link->state) {
    case DOWN:
        call(link);
        break;
    case UP:
        watch(link);
        break;
    default:
        sl_link_drop(link, "it does not answer");
    }
}

void sl_link_retry(struct sl_link *link)
{
    if (link->state == DOWN)
        sl_timer_start(link->timer, 0);
}

bool sl_link_is_up(const struct sl_link *link)
{
    return link->state == UP;
}

bool sl_link_takes(const struct sl_link *link)
{
    return link->state != DOWN && link->count < link->options.most;
}

sl_ns sl_link_calls_in(const struct sl_link *link)
{
    sl_ns now = sl_loop_steady(link->options.loop);

    return link->state == DOWN && link->calls_at > now ? link->calls_at - now
                                                       : 0;
}

/* ---- life ---- */

static bool keep_words(struct sl_link *link)
{
    struct sl_str *user = &link->options.user;
    struct sl_str *password = &link->options.password;

    link->words_size = user->len + password->len + 1;
    link->words = sl_alloc_new(link->options.alloc, link->words_size);
    if (!link->words)
        return false;
    if (user->len > 0)
        memcpy(link->words, user->at, user->len);
    if (password->len > 0)
        memcpy(link->words + user->len, password->at, password->len);
    user->at = link->words;
    password->at = link->words + user->len;
    return true;
}

int sl_link_open(const struct sl_link_options *options, struct sl_link **ret)
{
    struct sl_link *link = sl_alloc_new(options->alloc, sizeof(*link));
    int err = SLUICE_ENOMEM;

    if (!link)
        return err;
    *link = (struct sl_link){.options = *options, .state = DOWN};
    TAILQ_INIT(&link->ground);
    TAILQ_INIT(&link->sky);
    sl_tls_ref(options->tls);
    if (keep_words(link))
        err = sl_timer_new(options->loop, on_timer, link, &link->timer);
    if (!err && sl_hash_key_make(&link->dice))
        err = SLUICE_ESYS;
    if (err) {
        sl_link_close(link);
        return err;
    }
    call(link);
    *ret = link;
    return 0;
}

void sl_link_close(struct sl_link *link)
{
    if (!link)
        return;
    link->options.on_change = NULL;
    if (link->conn)
        sl_link_drop(link, "we have closed it");
    end_all(link);
    sl_timer_free(link->timer);
    sl_tls_unref(link->options.tls);
    if (link->words) {
        explicit_bzero(link->words, link->words_size);
        sl_alloc_free(link->options.alloc, link->words, link->words_size);
    }
    sl_alloc_free(link->options.alloc, link, sizeof(*link));
}
