/* holds.c -- POST /v1/holds/ID/settle, /release and /extend.
 *
 * A hold that has ended before is not an error: the answer is 200 with its end.
 * An unknown hold is 404.
 */
#include <string.h>

#include "server/http/api.h"
#include "server/http/http_int.h"

/* ---- the bodies ----
 *
 *     settle    {"cost": 350} or {"cost": {"tokens": 350}}, "status": 200
 *     release   nothing, or {"status": 500}
 *     extend    {"hold": "30s"}
 *
 * Unknown and repeated members are refused, as in a check.
 */

static bool is_twice(struct sl_json_body *r, const struct sl_cost *list,
                     unsigned count, struct sl_str name)
{
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(list[i].limit, name))
            return !sl_json_body_refuse(r, "BAD_REQUEST",
                                        "\"cost\" has \"%.*s\" twice",
                                        SL_STR_ARG(name));
    return false;
}

static bool read_costs(struct sl_json_body *r, struct sl_hold_op_input *q)
{
    struct sl_cost *list = sl_arena_take(
        &r->call->arena, SL_CHECK_FIELDS * sizeof(struct sl_cost));
    struct sl_str name;

    if (!list)
        return sl_json_body_no_memory(r);
    if (!sl_json_enter(&r->json, '{'))
        return sl_json_body_wrong(r, SL_STR("cost"),
                                  "a whole number or an object of them");
    q->costs = list;
    while (sl_json_member(&r->json, &name)) {
        if (is_twice(r, list, q->cost_count, name))
            return false;
        if (q->cost_count == SL_CHECK_FIELDS)
            return sl_json_body_refuse(r, "BAD_REQUEST",
                                       "\"cost\" has more than %d members",
                                       SL_CHECK_FIELDS);
        list[q->cost_count].limit = name;
        if (!sl_json_body_whole(r, SL_STR("cost"), &list[q->cost_count].cost))
            return false;
        q->cost_count++;
    }
    return !r->json.why || sl_json_body_broken(r);
}

static bool read_cost(struct sl_json_body *r, struct sl_hold_op_input *q)
{
    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return read_costs(r, q);
    q->has_cost = true;
    return sl_json_body_whole(r, SL_STR("cost"), &q->cost);
}

static bool read_status(struct sl_json_body *r, unsigned *ret)
{
    uint64_t status = 0;

    if (!sl_json_body_whole(r, SL_STR("status"), &status))
        return false;
    if (status < 100 || status > 599)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "\"status\" must be the status of the upstream "
            "response, from 100 to 599");
    *ret = (unsigned)status;
    return true;
}

/* Read a member that the verb may have. */
static bool read_member(struct sl_json_body *r, struct sl_str name,
                        struct sl_hold_op_input *q, unsigned *status)
{
    static const char *const lists[] = {
        [SL_VERB_SETTLE] = "\"cost\" and \"status\"",
        [SL_VERB_RELEASE] = "\"status\"",
        [SL_VERB_EXTEND] = "\"hold\"",
    };
    bool twice =
        (sl_str_eq(name, SL_STR("cost")) && (q->has_cost || q->costs)) ||
        (sl_str_eq(name, SL_STR("hold")) && q->hold > 0) ||
        (sl_str_eq(name, SL_STR("status")) && *status > 0);

    if (twice)
        return sl_json_body_refuse(r, "BAD_REQUEST", "\"%.*s\" is given twice",
                                   SL_STR_ARG(name));
    if (q->verb == SL_VERB_SETTLE && sl_str_eq(name, SL_STR("cost")))
        return read_cost(r, q);
    if (q->verb == SL_VERB_EXTEND && sl_str_eq(name, SL_STR("hold")))
        return sl_json_body_span(r, name, sl_hold_span, &q->hold);
    if (q->verb != SL_VERB_EXTEND && sl_str_eq(name, SL_STR("status")))
        return read_status(r, status);
    return sl_json_body_refuse(r, "BAD_REQUEST",
                               "unknown member \"%.*s\"; valid: %s",
                               SL_STR_ARG(name), lists[q->verb]);
}

static bool read_members(struct sl_json_body *r, struct sl_hold_op_input *q,
                         unsigned *status)
{
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return sl_json_body_wrong(r, SL_STR("body"), "an object");
    while (sl_json_member(&r->json, &name)) {
        if (sl_json_peek(&r->json) == SL_JSON_NULL) {
            if (!sl_json_null(&r->json))
                return sl_json_body_broken(r);
        } else if (!read_member(r, name, q, status)) {
            return false;
        }
    }
    return (!r->json.why && sl_json_end(&r->json)) || sl_json_body_broken(r);
}

static bool read_input(struct sl_http_call *call, struct sl_hold_op_input *q,
                       unsigned *status)
{
    struct sl_json_body r;

    sl_json_body_begin(&r, call, "hold");
    *status = 0;
    if (call->request->body.len > 0 && !read_members(&r, q, status))
        return false;
    if (q->verb != SL_VERB_EXTEND || q->hold > 0)
        return true;
    return sl_json_body_refuse(&r, "BAD_REQUEST",
                               "missing duration; send {\"hold\":\"30s\"}");
}

struct ending {
    struct sl_http_call *call;
    struct sl_hold_op op;
    unsigned status; /* of the upstream answer; 0: not reported */
};

static const struct verb {
    const char *path;
    enum sl_hold_verb verb;
    enum sl_hold_event event;
} verbs[] = {
    {"/settle",  SL_VERB_SETTLE,  SL_HOLD_SETTLED_NOW },
    {"/release", SL_VERB_RELEASE, SL_HOLD_RELEASED_NOW},
    {"/extend",  SL_VERB_EXTEND,  SL_HOLD_EXTENDED    },
};

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
    sl_metrics_upstream(stats, endpoint, e->status);
}

static void refuse(struct sl_http_call *call, const struct sl_hold_op *op)
{
    switch (op->err) {
    case SLUICE_ENOENT:
        sl_http_refuse(call, 404, "HOLD_UNKNOWN", "%s", op->diag.sentence);
        break;
    case SLUICE_ECONF:
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", op->diag.sentence);
        break;
    case SLUICE_ESTORE:
        sl_http_field(call, SL_STR("Retry-After"), SL_STR("1"));
        sl_http_refuse(call, 503, "SERVICE_UNAVAILABLE", "%s",
                       op->diag.sentence);
        break;
    default:
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
    else if (sl_hold_render(op, &call->text))
        sl_http_no_memory(call);
    else
        sl_http_answer(call, 200, SL_STR("application/json"),
                       sl_buf_str(&call->text));
    sl_hold_op_done(op);
    sl_http_resume_finish(call);
}

static void begin(struct sl_http_call *call, struct sl_hold_op_input *q)
{
    struct sl_server_worker *worker = call->worker;
    struct ending *e = sl_arena_take(&call->arena, sizeof(*e));

    if (!e) {
        sl_http_no_memory(call);
        return;
    }
    e->call = call;
    if (!read_input(call, q, &e->status))
        return;
    sl_hold_op_init(&e->op, worker->engine, worker->engine_ctx, worker->alloc);
    e->op.done = on_ended;
    e->op.ctx = e;
    sl_http_suspend(call);
    sl_hold_op_begin(&e->op, q);
}

void sl_http_holds(struct sl_http_call *call)
{
    struct sl_hold_op_input q = {.name = call->rest, .now = sl_http_now(call)};
    const struct verb *verb = cut_verb(&q.name);

    if (sl_http_is_page(call))
        return;
    if (!verb) {
        sl_http_refuse(
            call, 404, "NOT_FOUND",
            "unknown path %.*s; write /v1/holds/ID/settle, /release or /extend",
            SL_STR_ARG(call->path));
        return;
    }
    q.verb = verb->verb;
    begin(call, &q);
}
