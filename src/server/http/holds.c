/* holds.c -- POST /v1/holds/ID/settle, /release and /extend.
 *
 * A hold that has ended before is not an error: the answer is 200 with its end.
 * An unknown hold is 404.
 */
#include <string.h>

#include "server/http/http_int.h"

/* ---- the bodies ----
 *
 *     settle    {"cost": 350} or {"cost": {"tokens": 350}}, "status": 200
 *     release   nothing, or {"status": 500}
 *     extend    {"hold": "30s"}
 */

struct ending {
    struct sl_http_call *call;
    struct sl_hold_op op;
    struct sl_request input; /* cost and hold */
    uint64_t status;         /* of the upstream answer; 0: not reported */
};

static bool read_status(struct sl_json_body *r, struct sl_str member, void *at)
{
    uint64_t *status = at;

    if (!sl_json_body_whole(r, member, status))
        return false;
    if (*status >= 100 && *status <= 599)
        return true;
    return sl_json_body_refuse(r, "BAD_REQUEST",
                               "\"status\" must be the status of the upstream "
                               "response, from 100 to 599");
}

static const struct sl_json_field fields[] = {
    SL_JSON_FIELD("cost", offsetof(struct ending, input), sl_json_body_cost),
    SL_JSON_FIELD("status", offsetof(struct ending, status), read_status),
    SL_JSON_FIELD("hold", offsetof(struct ending, input.hold),
                  sl_json_body_hold),
};

/* A verb may have `count` fields, from `first` on. */
static const struct verb {
    const char *path;
    enum sl_hold_verb verb;
    enum sl_hold_event event;
    unsigned first, count;
} verbs[] = {
    {"/settle",  SL_VERB_SETTLE,  SL_HOLD_SETTLED_NOW,  0, 2},
    {"/release", SL_VERB_RELEASE, SL_HOLD_RELEASED_NOW, 1, 1},
    {"/extend",  SL_VERB_EXTEND,  SL_HOLD_EXTENDED,     2, 1},
};

static const char *const valid[] = {
    [SL_VERB_SETTLE] = "; valid: \"cost\" and \"status\"",
    [SL_VERB_RELEASE] = "; valid: \"status\"",
    [SL_VERB_EXTEND] = "; valid: \"hold\"",
};

static bool read_input(struct sl_json_body *r, struct ending *e,
                       const struct verb *verb)
{
    if (r->json.text.len > 0) {
        if (!sl_json_body_fields(r, fields + verb->first, verb->count,
                                 valid[verb->verb], e))
            return false;
        if (!sl_json_end(&r->json))
            return sl_json_body_broken(r);
    }
    return verb->verb != SL_VERB_EXTEND || e->input.hold > 0 ||
           sl_json_body_refuse(r, "BAD_REQUEST",
                               "missing duration; send {\"hold\":\"30s\"}");
}

/* Cut the verb off the path. Returns its row, or NULL. */
static const struct verb *cut_verb(struct sl_str *name)
{
    for (size_t i = 0; i < SL_LEN(verbs); i++) {
        size_t len = strlen(verbs[i].path);

        if (name->len > len &&
            memcmp(name->at + name->len - len, verbs[i].path, len) == 0) {
            name->len -= len;
            return &verbs[i];
        }
    }
    return NULL;
}

static void count(const struct ending *e)
{
    struct sl_metrics *stats = e->call->worker->stats;
    const struct sl_hold_op *op = &e->op;
    struct sl_str endpoint;

    if (!stats)
        return;
    if (op->err == SLUICE_ENOENT)
        sl_metrics_hold(stats, SL_HOLD_MISSED);
    if (op->err)
        return;
    sl_metrics_hold(stats, sl_hold_is_again(op) ? SL_HOLD_AGAIN
                                                : verbs[op->verb].event);
    if (e->status == 0 || sl_hold_is_again(op))
        return;
    endpoint = sl_hold_find_endpoint(op->active->policy, op->name.endpoint);
    sl_metrics_upstream(stats, endpoint, (unsigned)e->status);
}

static void refuse(struct sl_http_call *call, const struct sl_hold_op *op)
{
    const char *why = op->diag.sentence;

    if (op->err == SLUICE_ENOENT) {
        sl_http_refuse(call, 404, "HOLD_UNKNOWN", "%s", why);
    } else if (op->err == SLUICE_ECONF) {
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", why);
    } else if (op->err == SLUICE_ESTORE) {
        sl_http_field(call, SL_STR("Retry-After"), SL_STR("1"));
        sl_http_refuse(call, 503, "SERVICE_UNAVAILABLE", "%s", why);
    } else {
        sl_http_no_memory(call);
    }
}

static void on_ended(struct sl_hold_op *op)
{
    struct ending *e = op->ctx;
    struct sl_http_call *call = e->call;

    count(e);
    if (op->err)
        refuse(call, op);
    else
        sl_http_answer_json(call, sl_hold_render(op, &call->text));
    sl_hold_op_done(op);
    sl_http_resume_finish(call);
}

static void begin(struct sl_http_call *call, const struct verb *verb,
                  struct sl_str name)
{
    struct sl_server_worker *worker = call->worker;
    struct ending *e = sl_http_new(call, sizeof(*e));
    struct sl_hold_op_input q = {
        .verb = verb->verb, .name = name, .now = sl_http_now(call)};
    struct sl_json_body body;

    if (!e)
        return;
    e->call = call;
    sl_json_body_begin(&body, call, "hold");
    if (!read_input(&body, e, verb)) {
        sl_json_body_answer(&body);
        return;
    }
    q.has_cost = e->input.has_cost;
    q.cost = e->input.cost;
    q.costs = e->input.costs;
    q.cost_count = e->input.cost_count;
    q.hold = e->input.hold;
    sl_hold_op_init(&e->op, worker->engine, worker->engine_ctx, worker->alloc);
    e->op.done = on_ended;
    e->op.ctx = e;
    sl_http_suspend(call);
    sl_hold_op_begin(&e->op, &q);
}

void sl_http_holds(struct sl_http_call *call)
{
    struct sl_str name = call->rest;
    const struct verb *verb = cut_verb(&name);

    if (verb)
        begin(call, verb, name);
    else
        sl_http_refuse(
            call, 404, "NOT_FOUND",
            "unknown path %.*s; write /v1/holds/ID/settle, /release or /extend",
            SL_STR_ARG(call->path));
}
