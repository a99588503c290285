/* check.c -- SLUICE.CHECK, SLUICE.EXPLAIN, SLUICE.RESET: the policy's verdict.
 *
 * The usual reply is a map of the main numbers; the decision is not rendered
 * for it. `as json` replies with all of it, like POST /v1/check.
 *
 * Checks of one pipeline are begun before the first of them is decided: while
 * one is read, the memory of the earlier ones is prefetched. Each is decided as
 * if it had come alone, in its order. A check that may wait, or must not be
 * begun twice, is decided at once.
 */
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "engine/render.h"
#include "server/resp/resp_int.h"
#include "wire/resp.h"

/* ---- replies ---- */

#define MAP_MOST 512 /* bytes of the usual reply, without its texts */

static char *put_ms(char *to, sl_ns span)
{
    return sl_resp_put_number(to, ':',
                              span < 0 ? -1 : (int64_t)sl_span_in(span, SL_MS));
}

static char *put_text(char *to, unsigned version, struct sl_str text)
{
    if (text.len > 0)
        return sl_resp_put_string(to, text);
    return version < 3 ? SL_PUT(to, "$-1\r\n") : SL_PUT(to, "_\r\n");
}

static char *put_flag(char *to, unsigned version, bool yes)
{
    if (version < 3)
        return yes ? SL_PUT(to, ":1\r\n") : SL_PUT(to, ":0\r\n");
    return yes ? SL_PUT(to, "#t\r\n") : SL_PUT(to, "#f\r\n");
}

/* Returns the limit whose numbers are shown, or NULL. */
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
        left = (int64_t)sl_limit_view_remaining(shown);
        reset = shown->answer.reset_in;
        wait = shown->answer.wait;
    }
    to = SL_PUT(to, "$5\r\nlimit\r\n");
    to = sl_resp_put_number(to, ':', limit);
    to = SL_PUT(to, "$9\r\nremaining\r\n");
    to = sl_resp_put_number(to, ':', left);
    to = SL_PUT(to, "$14\r\nretry_after_ms\r\n");
    to = put_ms(to, sl_decision_retry_in(d));
    to = SL_PUT(to, "$8\r\nreset_ms\r\n");
    to = put_ms(to, reset);
    to = SL_PUT(to, "$7\r\nwait_ms\r\n");
    return put_ms(to, wait);
}

/* Twelve names and values, always in the same order; two more for a hold. */
static char *put_map(char *to, const struct sl_decision *d, unsigned version,
                     struct sl_str by, struct sl_str message)
{
    if (version < 3)
        to = d->hold[0] ? SL_PUT(to, "*28\r\n") : SL_PUT(to, "*24\r\n");
    else
        to = d->hold[0] ? SL_PUT(to, "%14\r\n") : SL_PUT(to, "%12\r\n");
    to = SL_PUT(to, "$7\r\nallowed\r\n");
    to = put_flag(to, version, d->allowed);
    to = SL_PUT(to, "$6\r\nstatus\r\n");
    to = sl_resp_put_number(to, ':', sl_decision_status(d));
    to = put_numbers(to, d);
    to = SL_PUT(to, "$2\r\nby\r\n");
    to = put_text(to, version, by);
    to = SL_PUT(to, "$4\r\ncode\r\n");
    to = put_text(to, version, d->code);
    to = SL_PUT(to, "$7\r\nmessage\r\n");
    to = put_text(to, version, message);
    to = SL_PUT(to, "$10\r\nrequest_id\r\n");
    to = put_text(to, version, sl_str_c(d->request_id));
    to = SL_PUT(to, "$8\r\ndegraded\r\n");
    to = put_flag(to, version, d->degraded);
    if (!d->hold[0])
        return to;
    to = SL_PUT(to, "$4\r\nhold\r\n");
    to = sl_resp_put_string(to, sl_str_c(d->hold));
    to = SL_PUT(to, "$15\r\nhold_expires_ms\r\n");
    return put_ms(to, d->hold_for);
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

/* A check that cannot be deferred is decided at once, after all that came
 * before it. */
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

static void start_check(struct sl_resp_call *call, bool spend,
                        void (*done)(struct sl_check *check))
{
    call->check.done = done;
    call->check.ctx = call;
    call->check.waits = on_waits;
    call->check.defers = spend ? on_defers : NULL;
    sl_check_start(&call->check, &call->request, 1, spend);
}

static void begin_check(struct sl_resp_call *call)
{
    start_check(call, true, on_answered);
}

static void begin_explain(struct sl_resp_call *call)
{
    start_check(call, false, on_answered);
}

/* A check that was suspended has a time of its own. */
static void count(struct sl_resp_call *call, const struct sl_decision *d)
{
    struct sl_metrics *stats = call->worker->base.stats;

    if (!stats)
        return;
    if (call->check.spend)
        sl_metrics_record(stats, &call->check);
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
        return sl_resp_fail(call->client, &call->check.diag);
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
        return sl_resp_fail(call->client, &call->check.diag);
    if (call->json)
        return write_json(call, &call->check.decision, true);
    err = sl_explain(&call->check.decision, &call->text);
    return err ? err
               : sl_resp_write_verbatim(client->out, client->version, "txt",
                                        sl_buf_str(&call->text));
}

static void on_reset(struct sl_check *check)
{
    if (check->err)
        sl_diag_error(&check->diag, check->err,
                      "the store did not answer in time");
    sl_resp_answered(check->ctx);
}

/* The decision names the limits to reset. */
static void on_explained(struct sl_check *check)
{
    check->done = on_reset;
    if (check->err)
        sl_resp_answered(check->ctx);
    else
        sl_check_reset(check);
}

static void begin_reset(struct sl_resp_call *call)
{
    start_check(call, false, on_explained);
}

/* Candidates and penalties are reset with their limit, and not counted. */
static int reply_reset(struct sl_resp_call *call)
{
    const struct sl_decision *d = &call->check.decision;
    unsigned count = 0;

    if (call->check.err)
        return sl_resp_fail(call->client, &call->check.diag);
    for (unsigned i = 0; i < d->shown_count; i++)
        count += !d->shown[i].skipped && d->shown[i].rule->limited;
    return sl_resp_write_integer(call->client->out, count);
}

/* ---- the words after SLUICE.CHECK, EXPLAIN and RESET.
 *
 *     METHOD PATH | JOB name | LIMIT name key     the subject of the check
 *     user U  org O  plan P  role R  ip A         the caller
 *     header.NAME value
 *     cost N  cost.LIMIT N                        0 peeks
 *     hold 30s                                    duration of the hold
 *     wait 10s                                    longest wait
 *     id ID                                       of the request
 *     idempotency_key KEY                         the same for repeats
 *     body BYTES                                  of a webhook
 *     as json                                     form of the reply
 *
 * They are the words of flow files, separated by blanks instead of '='. The
 * case of names does not matter. Each name is given once.
 */

/* Names with their lengths: most differ in length, and are not compared. */
static const struct field {
    struct sl_str name;
    enum { TEXT, COST, HOLD, WAIT, AS } kind;
    size_t offset; /* TEXT: of the slice in the request */
} fields[] = {
#define FIELD(name, kind, offset)                                              \
    {                                                                          \
        {name, sizeof(name) - 1}, kind, offset                                 \
    }
#define TEXT(name, field) FIELD(name, TEXT, offsetof(struct sl_request, field))
    TEXT("user", user),     TEXT("org", org),
    TEXT("plan", plan),     TEXT("role", role),
    TEXT("ip", ip),         TEXT("id", request_id),
    TEXT("body", body),     TEXT("idempotency_key", idempotency_key),
    FIELD("cost", COST, 0), FIELD("hold", HOLD, 0),
    FIELD("wait", WAIT, 0), FIELD("as", AS, 0),
};

#define COST_PREFIX   "cost."
#define HEADER_PREFIX "header."

static const struct field *find_field(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(fields); i++)
        if (sl_str_eq_nocase(name, fields[i].name))
            return &fields[i];
    return NULL;
}

static bool refuse_name(struct sl_str word, struct sl_diag *why)
{
    const char *names[SL_LEN(fields) + 2];
    const char *near;

    for (size_t i = 0; i < SL_LEN(fields); i++)
        names[i] = fields[i].name.at;
    names[SL_LEN(fields)] = HEADER_PREFIX;
    names[SL_LEN(fields) + 1] = COST_PREFIX;
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

bool sl_resp_read_cost(struct sl_str word, uint64_t *ret, struct sl_diag *why)
{
    int64_t n;

    if (!sl_resp_integer(word, &n) || n < 0)
        return sl_resp_bad_word(
            why, "the cost must be a whole number of at least 0, not '%s'",
            word);
    *ret = (uint64_t)n;
    return true;
}

static bool read_cost_of(struct sl_resp_call *call, struct sl_str name,
                         struct sl_str value, struct sl_diag *why)
{
    struct sl_request *request = &call->request;
    struct sl_cost *cost = &call->costs[request->cost_count];

    for (unsigned i = 0; i < request->cost_count; i++)
        if (sl_str_eq(call->costs[i].limit, name))
            return sl_resp_bad_word(why, "the cost of '%s' is given twice",
                                    name);
    if (request->cost_count == SL_RESP_FACTS)
        return sl_resp_bad_word(why, "too many costs, at '%s'", name);
    cost->limit = name;
    request->cost_count++;
    return sl_resp_read_cost(value, &cost->cost, why);
}

static bool read_header(struct sl_resp_call *call, struct sl_str name,
                        struct sl_str value, struct sl_diag *why)
{
    struct sl_request *request = &call->request;

    for (unsigned i = 0; i < request->header_count; i++)
        if (sl_str_eq_nocase(call->headers[i].name, name))
            return sl_resp_bad_word(why, "the header '%s' is given twice",
                                    name);
    if (request->header_count == SL_RESP_FACTS)
        return sl_resp_bad_word(why, "too many headers, at '%s'", name);
    call->headers[request->header_count++] = (struct sl_header){name, value};
    return true;
}

static bool has_prefix(struct sl_str word, struct sl_str prefix)
{
    return word.len > prefix.len &&
           sl_str_eq_nocase((struct sl_str){word.at, prefix.len}, prefix);
}

static bool read_field(struct sl_resp_call *call, struct sl_str name,
                       struct sl_str value, struct sl_diag *why)
{
    struct sl_request *request = &call->request;
    const struct field *field = find_field(name);
    struct sl_str *at;

    if (!field && has_prefix(name, SL_STR(COST_PREFIX)))
        return read_cost_of(call, sl_str_from(name, strlen(COST_PREFIX)), value,
                            why);
    if (!field && has_prefix(name, SL_STR(HEADER_PREFIX)))
        return read_header(call, sl_str_from(name, strlen(HEADER_PREFIX)),
                           value, why);
    if (!field)
        return refuse_name(name, why);
    switch (field->kind) {
    case TEXT:
        at = (struct sl_str *)(void *)((char *)request + field->offset);
        if (at->at)
            break;
        *at = value;
        return true;
    case COST:
        if (request->has_cost)
            return sl_resp_bad_word(
                why, "the cost is given twice, the second time as '%s'", value);
        request->has_cost = true;
        return sl_resp_read_cost(value, &request->cost, why);
    case HOLD:
        if (request->hold != 0)
            break;
        return !sl_hold_span(value, &request->hold, why);
    case WAIT:
        if (request->wait != 0)
            break;
        return !sl_wait_span(value, &request->wait, why);
    case AS:
        call->json = sl_str_eq_nocase(value, SL_STR("json"));
        return call->json ||
               sl_resp_bad_word(
                   why, "the answer can be requested 'as json', not as '%s'",
                   value);
    }
    return sl_resp_bad_word(why, "'%s' is given twice", name);
}

/* Reads the first words. Returns their number, or 0. A path may have any
 * spelling that a server accepts. A field in place of a method means that the
 * path is missing. */
static unsigned read_subject(struct sl_request *request,
                             const struct sl_resp_command *c)
{
    if (sl_str_eq_nocase(c->args[1], SL_STR("job"))) {
        request->job = c->args[2];
        return 3;
    }
    if (!sl_str_eq_nocase(c->args[1], SL_STR("limit"))) {
        request->method = c->args[1];
        request->path = c->args[2];
        return request->path.len > 0 && !find_field(request->method) ? 3 : 0;
    }
    request->limit = c->args[2];
    request->key = c->count > 3 ? c->args[3] : (struct sl_str){NULL, 0};
    return request->key.len > 0 ? 4 : 0;
}

/* Reads a command into call->request, which borrows its words, and holds the
 * active policy. Returns false with a sentence. */
static bool read_check(struct sl_resp_call *call,
                       const struct sl_resp_command *c, struct sl_diag *why)
{
    struct sl_request *request = &call->request;
    const struct sl_active_policy *before = call->check.active;
    unsigned at;

    if (sl_check_ref_policy(&call->check) != before && before)
        sl_server_free_spare(&call->worker->base);
    *request = (struct sl_request){
        .trusted = true, /* a password, or this machine */
        .headers = call->headers,
        .costs = call->costs,
        .now = sl_server_now(&call->worker->base),
    };
    call->json = false;
    at = read_subject(request, c);
    if (at == 0)
        return sl_resp_bad_word(
            why, "write METHOD /path, JOB name or LIMIT name key, not '%s'",
            c->args[1]);
    for (; at + 1 < c->count; at += 2)
        if (!read_field(call, c->args[at], c->args[at + 1], why))
            return false;
    if (at < c->count)
        return sl_resp_bad_word(why, "'%s' has no value after it", c->args[at]);
    request->has_body = request->body.at != NULL;
    return sl_request_check(call->check.active->policy, request, why) == 0;
}

/* ---- commands ---- */

static int check(struct sl_resp_conn *client, const struct sl_resp_command *c,
                 void (*begin)(struct sl_resp_call *call),
                 int (*then)(struct sl_resp_call *call))
{
    struct sl_resp_call *call = sl_resp_call_new(client);
    struct sl_diag why;
    int err;

    if (call && read_check(call, c, &why))
        return sl_resp_ask(call, 1, begin, then);
    if (call)
        sl_resp_call_done(call);
    err = sl_resp_decide_checks(client);
    return err ? err
               : sl_resp_refuse(client, "%s",
                                call ? why.sentence : "out of memory");
}

int sl_resp_check(struct sl_resp_conn *client, const struct sl_resp_command *c)
{
    return check(client, c, begin_check, reply_check);
}

int sl_resp_explain(struct sl_resp_conn *client,
                    const struct sl_resp_command *c)
{
    return check(client, c, begin_explain, reply_explain);
}

int sl_resp_sluice_reset(struct sl_resp_conn *client,
                         const struct sl_resp_command *c)
{
    if (c->count == 3 && sl_str_eq_nocase(c->args[1], SL_STR("throttle")))
        return sl_resp_reset_throttle(client, c->args[2]);
    return check(client, c, begin_reset, reply_reset);
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
    if (call->open == 0) { /* nothing is in flight */
        sl_resp_call_done(call);
        return;
    }
    call->client = NULL;
    call->kept = *in;
    sl_buf_init(in, call->kept.ceiling, call->kept.alloc);
    sl_check_cancel(&call->check);
}

/* ---- asking ---- */

/* A begun check is decided with later ones. */
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
    if (call->open == 0) {
        if (!err)
            err = then(call);
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
    if (client && call->reply(call))
        client->broken = client->ending = true;
    sl_resp_call_done(call);
    if (!client)
        return;
    client->suspended = false;
    sl_resp_resume(client);
}
