/* check.c -- SLUICE.CHECK, SLUICE.EXPLAIN, SLUICE.RESET: the policy's verdict.
 *
 * The usual answer is a map of what a program needs to go on; a decision is not
 * rendered for it. `as json` gives all of it, as POST /v1/check does.
 *
 * Checks of one pipeline are begun before the first of them is decided: while
 * one is read, the memory of those before it is on its way. Each is decided as
 * if it had come alone, in its order; what may wait, or must not be begun
 * twice, is decided at once.
 */
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "engine/render.h"
#include "server/resp/resp_int.h"
#include "wire/resp.h"

/* ---- replies ---- */

/* What the usual reply takes at most, without its texts. */
#define MAP_MOST 512

static char *put_ms(char *to, sl_ns span)
{
    return sl_resp_put_number(to, ':',
                              span < 0 ? -1 : (int64_t)sl_span_in(span, SL_MS));
}

static char *put_text(char *to, unsigned version, struct sl_str text)
{
    if (text.len > 0)
        return sl_resp_put_string(to, text);
    return version < 3 ? SL_RESP_PUT(to, "$-1\r\n") : SL_RESP_PUT(to, "_\r\n");
}

static char *put_flag(char *to, unsigned version, bool yes)
{
    if (version < 3)
        return yes ? SL_RESP_PUT(to, ":1\r\n") : SL_RESP_PUT(to, ":0\r\n");
    return yes ? SL_RESP_PUT(to, "#t\r\n") : SL_RESP_PUT(to, "#f\r\n");
}

/* The limit whose numbers are shown, if one was asked. */
static const struct sl_limit_view *shown_of(const struct sl_decision *d)
{
    int i = d->by >= 0 ? d->by : d->report;

    return i >= 0 && sl_limit_view_limited(&d->shown[i]) &&
                   sl_limit_view_answered(&d->shown[i])
               ? &d->shown[i]
               : NULL;
}

static char *put_numbers(char *to, const struct sl_decision *d)
{
    const struct sl_limit_view *shown = shown_of(d);
    int64_t limit = -1, left = -1;
    sl_ns reset = SL_NS_NONE, wait = 0;

    if (shown) {
        limit = (int64_t)sl_limit_view_count(shown);
        left = (int64_t)shown->answer.remaining;
        reset = sl_limit_view_reset_in(d, shown);
        wait = shown->answer.wait;
    }
    to = SL_RESP_PUT(to, "$5\r\nlimit\r\n");
    to = sl_resp_put_number(to, ':', limit);
    to = SL_RESP_PUT(to, "$9\r\nremaining\r\n");
    to = sl_resp_put_number(to, ':', left);
    to = SL_RESP_PUT(to, "$14\r\nretry_after_ms\r\n");
    to = put_ms(to, sl_decision_retry_in(d));
    to = SL_RESP_PUT(to, "$8\r\nreset_ms\r\n");
    to = put_ms(to, reset);
    to = SL_RESP_PUT(to, "$7\r\nwait_ms\r\n");
    return put_ms(to, wait);
}

static char *put_hold(char *to, const struct sl_decision *d)
{
    to = SL_RESP_PUT(to, "$4\r\nhold\r\n");
    to = sl_resp_put_string(to, sl_str_c(d->hold));
    to = SL_RESP_PUT(to, "$15\r\nhold_expires_ms\r\n");
    return put_ms(to, d->hold_for);
}

/* Twelve names and values, always the same ones in the same order; and two
 * more behind them if something is held. */
static char *put_map(char *to, const struct sl_decision *d, unsigned version,
                     struct sl_str by, struct sl_str message)
{
    if (version < 3)
        to = d->hold[0] ? SL_RESP_PUT(to, "*28\r\n")
                        : SL_RESP_PUT(to, "*24\r\n");
    else
        to = d->hold[0] ? SL_RESP_PUT(to, "%14\r\n")
                        : SL_RESP_PUT(to, "%12\r\n");
    to = SL_RESP_PUT(to, "$7\r\nallowed\r\n");
    to = put_flag(to, version, d->allowed);
    to = SL_RESP_PUT(to, "$6\r\nstatus\r\n");
    to = sl_resp_put_number(to, ':', sl_decision_status(d));
    to = put_numbers(to, d);
    to = SL_RESP_PUT(to, "$2\r\nby\r\n");
    to = put_text(to, version, by);
    to = SL_RESP_PUT(to, "$4\r\ncode\r\n");
    to = put_text(to, version, d->code);
    to = SL_RESP_PUT(to, "$7\r\nmessage\r\n");
    to = put_text(to, version, message);
    to = SL_RESP_PUT(to, "$10\r\nrequest_id\r\n");
    to = put_text(to, version, sl_str_c(d->request_id));
    to = SL_RESP_PUT(to, "$8\r\ndegraded\r\n");
    to = put_flag(to, version, d->degraded);
    return d->hold[0] ? put_hold(to, d) : to;
}

static int write_map(struct sl_resp_call *call, const struct sl_decision *d)
{
    struct sl_buf *out = call->client->out;
    struct sl_str by = {NULL, 0}, message = {NULL, 0};
    int err = 0;

    if (d->by >= 0)
        by = d->shown[d->by].rule->name;
    if (!d->allowed) {
        err = sl_render_message(d, &call->text);
        message = sl_buf_str(&call->text);
    }
    if (!err)
        err = sl_buf_reserve(out, MAP_MOST + by.len + d->code.len +
                                      message.len + SL_REQUEST_ID);
    if (!err)
        out->len = (size_t)(put_map(out->bytes + out->len, d,
                                    call->client->version, by, message) -
                            out->bytes);
    return err;
}

static int write_json(struct sl_resp_call *call, const struct sl_decision *d,
                      bool explain)
{
    struct sl_rendered rendered;
    int err;

    sl_arena_reset(&call->text_arena);
    err = sl_render(d, &call->text_arena, &rendered);
    if (!err)
        err = sl_render_verdict(d, &rendered, explain, &call->text);
    return err ? err
               : sl_resp_write_string(call->client->out,
                                      sl_buf_str(&call->text));
}

/* ---- asking ---- */

static void on_answered(struct sl_check *check)
{
    sl_resp_answered(check->ctx);
}

static void on_waits(struct sl_check *check)
{
    const struct sl_resp_call *call = check->ctx;

    if (call->client && call->client->base.conn)
        sl_conn_watch_close(call->client->base.conn);
}

static void start_check(struct sl_resp_call *call, bool spend,
                        void (*done)(struct sl_check *check))
{
    call->check.done = done;
    call->check.ctx = call;
    call->check.waits = on_waits;
    sl_check_start(&call->check, &call->request, 1, spend);
}

/* What can't wait is decided at once, and what came before it even sooner. */
static bool on_defers(struct sl_check *check, bool may)
{
    struct sl_resp_call *call = check->ctx;
    struct sl_resp_conn *client = call->client;

    if (!call->begins) /* the client is suspended */
        return false;
    call->deferred = may;
    if (!may && sl_resp_decide_checks(client))
        client->broken = client->ending = true;
    return may;
}

static void begin_check(struct sl_resp_call *call)
{
    call->check.defers = on_defers;
    start_check(call, true, on_answered);
}

static void begin_explain(struct sl_resp_call *call)
{
    call->check.defers = NULL;
    start_check(call, false, on_answered);
}

/* Nobody could decide: what he sent was wrong, or there is no memory. */
static int complain(struct sl_resp_call *call)
{
    return sl_resp_refuse(call->client, "%s",
                          call->check.diag.sentence[0]
                              ? call->check.diag.sentence
                              : "out of memory");
}

/* A check that was suspended has a time of its own. */
static void count(struct sl_resp_call *call, const struct sl_decision *d)
{
    struct sl_metrics *stats = call->worker->base.stats;

    if (!stats)
        return;
    if (call->client->suspended) {
        sl_metrics_decision(stats, d, "resp", sl_resp_took(call));
        return;
    }
    call->worker->checks++;
    sl_metrics_verdict(stats, d);
}

static int reply_check(struct sl_resp_call *call)
{
    const struct sl_decision *d = &call->check.decision;

    if (call->check.err)
        return complain(call);
    count(call, d);
    return call->json ? write_json(call, d, false) : write_map(call, d);
}

int sl_resp_decide_checks(struct sl_resp_conn *client)
{
    unsigned count = client->check_count;
    int err = 0;

    client->check_count = 0;
    for (unsigned i = 0; i < count; i++)
        sl_check_resume(&client->checks[i]->check);
    for (unsigned i = 0; i < count; i++) {
        if (!err)
            err = reply_check(client->checks[i]);
        sl_resp_call_done(client->checks[i]);
    }
    return err;
}

static int reply_explain(struct sl_resp_call *call)
{
    const struct sl_resp_conn *client = call->client;
    int err;

    if (call->check.err)
        return complain(call);
    if (call->json)
        return write_json(call, &call->check.decision, true);
    err = sl_explain(&call->check.decision, &call->text);
    return err ? err
               : sl_resp_write_verbatim(client->out, client->version, "txt",
                                        sl_buf_str(&call->text));
}

/* ---- forgetting ---- */

static void on_forgotten(struct sl_check *check)
{
    if (check->err)
        sl_diag_error(&check->diag, check->err,
                      "the store did not answer in time");
    sl_resp_answered(check->ctx);
}

/* The decision says which limits they are. */
static void on_looked(struct sl_check *check)
{
    check->done = on_forgotten;
    if (check->err)
        sl_resp_answered(check->ctx);
    else
        sl_check_reset(check);
}

static void begin_forget(struct sl_resp_call *call)
{
    call->check.defers = NULL;
    start_check(call, false, on_looked);
}

static int reply_forget(struct sl_resp_call *call)
{
    if (call->check.err)
        return complain(call);
    return sl_resp_write_integer(call->client->out,
                                 call->check.decision.take.count);
}

static void on_throttle_forgotten(struct sl_throttle *t)
{
    sl_resp_answered(t->ctx);
}

static void begin_forget_throttle(struct sl_resp_call *call)
{
    sl_throttle_reset(&call->worker->throttles, &call->throttles[0]);
}

static int reply_forget_throttle(struct sl_resp_call *call)
{
    if (call->throttles[0].err)
        return sl_resp_refuse(call->client, "the store did not answer in time");
    return sl_resp_write_integer(call->client->out, 1);
}

static int forget_throttle(struct sl_resp_call *call, struct sl_str key)
{
    struct sl_throttle *t = &call->throttles[0];

    t->key = key;
    t->now = sl_server_now(&call->worker->base);
    t->done = on_throttle_forgotten;
    t->ctx = call;
    if (sl_resp_name(call, t)) {
        struct sl_resp_conn *client = call->client;

        sl_resp_call_done(call);
        return sl_resp_refuse(client, "out of memory");
    }
    return sl_resp_ask(call, 1, begin_forget_throttle, reply_forget_throttle);
}

/* ---- commands ---- */

static int check(struct sl_resp_conn *client, const struct sl_resp_command *c,
                 void (*begin_f)(struct sl_resp_call *call),
                 int (*reply)(struct sl_resp_call *call))
{
    struct sl_resp_call *call = sl_resp_call_new(client);
    struct sl_diag why;
    int err;

    if (call && sl_resp_read_check(call, c, &why))
        return sl_resp_ask(call, 1, begin_f, reply);
    if (call)
        sl_resp_call_done(call);
    err = sl_resp_decide_checks(client);
    return err ? err
               : sl_resp_refuse(client, "%s",
                                call ? why.sentence : "out of memory");
}

int sl_resp_check(struct sl_resp_conn *client,
                  const struct sl_resp_command *command)
{
    return check(client, command, begin_check, reply_check);
}

int sl_resp_explain(struct sl_resp_conn *client,
                    const struct sl_resp_command *command)
{
    return check(client, command, begin_explain, reply_explain);
}

int sl_resp_forget(struct sl_resp_conn *client,
                   const struct sl_resp_command *command)
{
    struct sl_resp_call *call;

    if (!sl_str_eq_nocase(command->args[1], SL_STR("throttle")) ||
        command->count != 3)
        return check(client, command, begin_forget, reply_forget);
    call = sl_resp_call_new(client);
    return call ? forget_throttle(call, command->args[2])
                : sl_resp_refuse(client, "out of memory");
}

/* ---- the words behind SLUICE.CHECK, EXPLAIN and RESET.
 *
 *     METHOD PATH | JOB name | LIMIT name key     what is asked for
 *     user U  org O  plan P  role R  ip A         who asks
 *     header.NAME value
 *     cost N  cost.LIMIT N                        how much; 0 looks
 *     hold 30s                                    for how long it is held
 *     wait 10s                                    for how long it may wait
 *     id ID                                       the request's
 *     idempotency_key KEY                         repeats have the same
 *     body BYTES                                  of a webhook
 *     as json                                     how it is answered
 *
 * They are those of flow files, parted by blanks instead of '='. Names of
 * fields count in whatever case, and each is there once.
 */

/* Names with their lengths: most differ in that alone, and are not looked at.
 */
static const struct field {
    struct sl_str name;
    size_t place; /* of the slice in the facts */
} fields[] = {
#define FIELD(name, place)                                                     \
    {                                                                          \
        {name, sizeof(name) - 1}, offsetof(struct sl_request, place)           \
    }
    FIELD("user", user), FIELD("org", org),
    FIELD("plan", plan), FIELD("role", role),
    FIELD("ip", ip),     FIELD("id", request_id),
    FIELD("body", body), FIELD("idempotency_key", idempotency_key),
};

/* Those that are read otherwise, so that they can be guessed too. */
static const char *const others[] = {"cost", "hold",    "wait",
                                     "as",   "header.", "cost."};

#define IS(word, literal) sl_str_eq_nocase(word, SL_STR(literal))

static bool refuse(struct sl_diag *why, const char *sentence,
                   struct sl_str word)
{
    sl_diag_error(why, SLUICE_EINVAL, sentence, sl_resp_quote(word).text);
    return false;
}

static bool unknown(struct sl_str word, struct sl_diag *why)
{
    const char *names[SL_LEN(fields) + SL_LEN(others)];
    const char *near;

    for (size_t i = 0; i < SL_LEN(fields); i++)
        names[i] = fields[i].name.at;
    for (size_t i = 0; i < SL_LEN(others); i++)
        names[SL_LEN(fields) + i] = others[i];
    near = sl_str_nearest(word, names, SL_LEN(names));
    sl_diag_error(why, SLUICE_EINVAL, "unknown word '%s'%s%s%s",
                  sl_resp_quote(word).text, near ? "; did you mean '" : "",
                  near ? near
                       : "; valid are user, org, plan, role, ip, id, body, "
                         "idempotency_key, cost, cost.LIMIT, hold, wait, "
                         "header.NAME and as",
                  near ? "'?" : "");
    return false;
}

static bool read_amount(struct sl_str word, uint64_t *ret, struct sl_diag *why)
{
    int64_t n;

    if (!sl_resp_integer(word, &n) || n < 0)
        return refuse(why,
                      "the cost must be a whole number of at least 0, not '%s'",
                      word);
    *ret = (uint64_t)n;
    return true;
}

static bool read_cost(struct sl_resp_call *call, struct sl_str name,
                      struct sl_str value, struct sl_diag *why)
{
    struct sl_request *request = &call->request;
    struct sl_cost *cost = &call->costs[request->cost_count];

    if (name.len == 0) {
        if (request->has_cost)
            return refuse(
                why, "the cost is given twice, the second time as '%s'", value);
        request->has_cost = true;
        return read_amount(value, &request->cost, why);
    }
    for (unsigned i = 0; i < request->cost_count; i++)
        if (sl_str_eq(call->costs[i].limit, name))
            return refuse(why, "the cost of '%s' is given twice", name);
    if (request->cost_count == SL_RESP_FACTS)
        return refuse(why, "too many costs, at '%s'", name);
    cost->limit = name;
    request->cost_count++;
    return read_amount(value, &cost->cost, why);
}

static bool read_header(struct sl_resp_call *call, struct sl_str name,
                        struct sl_str value, struct sl_diag *why)
{
    struct sl_request *request = &call->request;

    for (unsigned i = 0; i < request->header_count; i++)
        if (sl_str_eq_nocase(call->headers[i].name, name))
            return refuse(why, "the header '%s' is given twice", name);
    if (request->header_count == SL_RESP_FACTS)
        return refuse(why, "too many headers, at '%s'", name);
    call->headers[request->header_count++] = (struct sl_header){name, value};
    return true;
}

static bool read_span(sl_ns *span, struct sl_str name, struct sl_str value,
                      int (*read)(struct sl_str, sl_ns *, struct sl_diag *),
                      struct sl_diag *why)
{
    if (*span != 0)
        return refuse(why, "'%s' is given twice", name);
    return !read(value, span, why);
}

/* What stands behind `prefix`; false if it is not there. */
static bool is_below(struct sl_str word, struct sl_str prefix,
                     struct sl_str *rest)
{
    *rest = sl_str_from(word, prefix.len);
    return word.len > prefix.len &&
           sl_str_eq_nocase((struct sl_str){word.at, prefix.len}, prefix);
}

static bool read_field(struct sl_resp_call *call, struct sl_str name,
                       struct sl_str value, struct sl_diag *why)
{
    struct sl_str rest = {NULL, 0};

    for (size_t i = 0; i < SL_LEN(fields); i++) {
        struct sl_str *at =
            (struct sl_str *)(void *)((char *)&call->request + fields[i].place);

        if (!sl_str_eq_nocase(name, fields[i].name))
            continue;
        if (at->at)
            return refuse(why, "'%s' is given twice", name);
        *at = value;
        return true;
    }
    if (IS(name, "cost") || is_below(name, SL_STR("cost."), &rest))
        return read_cost(call,
                         IS(name, "cost") ? (struct sl_str){NULL, 0} : rest,
                         value, why);
    if (is_below(name, SL_STR("header."), &rest))
        return read_header(call, rest, value, why);
    if (IS(name, "hold"))
        return read_span(&call->request.hold, name, value, sl_hold_span, why);
    if (IS(name, "wait"))
        return read_span(&call->request.wait, name, value, sl_wait_span, why);
    if (!IS(name, "as"))
        return unknown(name, why);
    call->json = IS(value, "json");
    return call->json ||
           refuse(why, "the answer can be requested 'as json', not as '%s'",
                  value);
}

/* A word of ours where a method should be: the path was forgotten. */
static bool is_field(struct sl_str word)
{
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_str_eq_nocase(word, fields[i].name))
            return true;
    return IS(word, "cost") || IS(word, "hold") || IS(word, "wait") ||
           IS(word, "as");
}

/* The first words: how many they are, or 0. A path may be spelt in whatever
 * way a server would take it. */
static unsigned read_subject(struct sl_request *request,
                             const struct sl_resp_command *c)
{
    if (IS(c->args[1], "job")) {
        request->job = c->args[2];
        return 3;
    }
    if (!IS(c->args[1], "limit")) {
        request->method = c->args[1];
        request->path = c->args[2];
        return request->path.len > 0 && !is_field(request->method) ? 3 : 0;
    }
    request->limit = c->args[2];
    request->key = c->count > 3 ? c->args[3] : (struct sl_str){NULL, 0};
    return request->key.len > 0 ? 4 : 0;
}

bool sl_resp_read_check(struct sl_resp_call *call,
                        const struct sl_resp_command *c, struct sl_diag *why)
{
    struct sl_request *request = &call->request;
    const struct sl_active_policy *before = call->check.active;
    unsigned at;

    if (sl_check_hold(&call->check) != before && before)
        sl_server_free_spare(&call->worker->base);
    *request = (struct sl_request){
        .trusted = true, /* he has the password, or sits on this machine */
        .headers = call->headers,
        .costs = call->costs,
        .now = sl_server_now(&call->worker->base),
    };
    call->json = false;
    at = read_subject(request, c);
    if (at == 0)
        return refuse(
            why, "write METHOD /path, JOB name or LIMIT name key, not '%s'",
            c->args[1]);
    for (; at + 1 < c->count; at += 2)
        if (!read_field(call, c->args[at], c->args[at + 1], why))
            return false;
    if (at < c->count)
        return refuse(why, "'%s' has no value after it", c->args[at]);
    request->has_body = request->body.at != NULL;
    return sl_request_check(call->check.active->policy, request, why) == 0;
}

/* ---- the life of a call.
 *
 *     spare --> collects, or is read --> asked --> all answered --> spare
 *                                          |            ^
 *                                          +- suspended +
 *
 * With a store in this process a thread has as many calls as checks that are
 * decided together. With a remote store it has one for each waiting
 * connection; those beyond SL_RESP_CHECKS are freed afterwards, with the
 * policies that they hold.
 */

#define MAX_TEXT   ((size_t)1 << 20)
#define SPARE_TEXT ((size_t)64 << 10) /* that a spare call keeps */

void sl_resp_call_free(struct sl_server_op *op)
{
    struct sl_resp_call *call = (struct sl_resp_call *)op;

    sl_check_done(&call->check);
    sl_hold_op_done(&call->hold);
    sl_arena_done(&call->text_arena);
    sl_buf_done(&call->text);
    sl_buf_done(&call->kept);
}

void sl_resp_call_init(struct sl_server_worker *worker, struct sl_server_op *op)
{
    struct sl_resp_call *call = (struct sl_resp_call *)op;
    const struct sl_alloc *alloc = worker->alloc;

    call->worker = (struct sl_resp_worker *)worker;
    sl_check_init(&call->check, worker->engine, worker->engine_ctx, alloc);
    sl_hold_op_init(&call->hold, worker->engine, worker->engine_ctx, alloc);
    sl_arena_init(&call->text_arena, MAX_TEXT, alloc);
    sl_buf_init(&call->text, MAX_TEXT, alloc);
    sl_buf_init(&call->kept, 1, alloc);
}

struct sl_resp_call *sl_resp_call_new(struct sl_resp_conn *client)
{
    struct sl_resp_call *call =
        (struct sl_resp_call *)sl_server_op_get(client->base.worker);

    if (!call)
        return NULL;
    call->client = client;
    call->count = call->open = 0;
    call->begins = call->deferred = false;
    client->call = call;
    return call;
}

void sl_resp_call_done(struct sl_resp_call *call)
{
    if (call->client && call->client->call == call)
        call->client->call = NULL;
    sl_buf_done(&call->kept);
    sl_arena_reset(&call->text_arena);
    sl_buf_clear(&call->text);
    if (call->text.size > SPARE_TEXT)
        sl_buf_done(&call->text);
    sl_server_op_put(&call->worker->base, &call->op);
}

void sl_resp_call_leave(struct sl_resp_call *call, struct sl_buf *in)
{
    if (call->open == 0) { /* nothing was asked */
        sl_resp_call_done(call);
        return;
    }
    call->client = NULL;
    call->kept = *in;
    sl_buf_init(in, call->kept.ceiling, call->kept.alloc);
    sl_check_cancel(&call->check);
}

/* ---- asking ---- */

static int reply(struct sl_resp_call *call)
{
    int err = call->reply(call);

    sl_resp_call_done(call);
    return err;
}

/* It is begun, and decided with those behind it. */
static int defer(struct sl_resp_call *call)
{
    struct sl_resp_conn *client = call->client;

    client->call = NULL;
    client->checks[client->check_count++] = call;
    return client->check_count == SL_RESP_CHECKS ? sl_resp_decide_checks(client)
                                                 : 0;
}

int sl_resp_ask(struct sl_resp_call *call, unsigned count,
                void (*begin)(struct sl_resp_call *call),
                int (*then)(struct sl_resp_call *call))
{
    struct sl_resp_conn *client = call->client;
    int err;

    call->open = count;
    call->reply = then;
    if (call->worker->clock == 0)
        call->worker->clock = sl_clock_wall();
    call->asked_at = call->worker->clock;
    call->begins = true;
    begin(call);
    if (call->deferred)
        return defer(call);
    call->begins = false;
    err = sl_resp_decide_checks(client); /* which came before it */
    if (call->open == 0 && !err)
        return reply(call);
    if (call->open == 0) {
        sl_resp_call_done(call);
        return err;
    }
    client->suspended = true;
    sl_server_op_suspend(&call->worker->base, &call->op);
    return err;
}

sl_ns sl_resp_took(struct sl_resp_call *call)
{
    sl_ns now = sl_clock_wall(), took = now - call->asked_at;

    call->worker->clock = now;
    return took > 0 ? took : 0;
}

void sl_resp_time_checks(struct sl_resp_worker *worker)
{
    sl_ns now = sl_clock_wall();

    sl_metrics_took(worker->base.stats, "resp", now - worker->clock,
                    worker->checks);
    worker->checks = 0;
    worker->clock = now;
}

void sl_resp_answered(struct sl_resp_call *call)
{
    struct sl_resp_conn *client = call->client;

    if (--call->open > 0 || call->begins)
        return;
    sl_server_op_resume(&call->op);
    if (!client) {
        sl_resp_call_done(call);
        return;
    }
    if (reply(call))
        client->broken = client->ending = true;
    client->suspended = false;
    sl_resp_resume(client);
}
