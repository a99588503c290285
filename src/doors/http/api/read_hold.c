/* read_hold.c -- the bodies of /v1/holds/ID/...: JSON to a question.
 *
 *     settle    {"cost": 350} or {"cost": {"tokens": 350}}, "status": 200
 *     release   nothing, or {"status": 500}
 *     extend    {"hold": "30s"}
 *
 * As strict as a check: members that nobody knows, and members twice, are
 * refused.
 */
#include "doors/http/api/api.h"
#include "doors/http/body.h"

static bool is_twice(struct sl_body *r, const struct sl_cost *list,
                     unsigned count, struct sl_str name)
{
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(list[i].limit, name))
            return !sl_body_refuse(r, "BAD_REQUEST",
                                   "\"cost\" has \"%.*s\" twice",
                                   SL_STR_ARG(name));
    return false;
}

static bool read_costs(struct sl_body *r, struct sl_hold_question *q)
{
    struct sl_cost *list = sl_arena_take(
        &r->call->arena, SL_CHECK_FIELDS * sizeof(struct sl_cost));
    struct sl_str name;

    if (!list)
        return sl_body_no_memory(r);
    if (!sl_json_enter(&r->json, '{'))
        return sl_body_wrong(r, SL_STR("cost"),
                             "a whole number or an object of them");
    q->costs = list;
    while (sl_json_member(&r->json, &name)) {
        if (is_twice(r, list, q->cost_count, name))
            return false;
        if (q->cost_count == SL_CHECK_FIELDS)
            return sl_body_refuse(r, "BAD_REQUEST",
                                  "\"cost\" has more than %d members",
                                  SL_CHECK_FIELDS);
        list[q->cost_count].limit = name;
        if (!sl_body_whole(r, SL_STR("cost"), &list[q->cost_count].cost))
            return false;
        q->cost_count++;
    }
    return !r->json.why || sl_body_broken(r);
}

static bool read_cost(struct sl_body *r, struct sl_hold_question *q)
{
    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return read_costs(r, q);
    q->has_cost = true;
    return sl_body_whole(r, SL_STR("cost"), &q->cost);
}

static bool read_status(struct sl_body *r, unsigned *ret)
{
    uint64_t status = 0;

    if (!sl_body_whole(r, SL_STR("status"), &status))
        return false;
    if (status < 100 || status > 599)
        return sl_body_refuse(r, "BAD_REQUEST",
                              "\"status\" must be the status of the upstream "
                              "response, from 100 to 599");
    *ret = (unsigned)status;
    return true;
}

/* Which members the verbs have. */
static bool read_member(struct sl_body *r, struct sl_str name,
                        struct sl_hold_question *q, unsigned *status)
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
        return sl_body_refuse(r, "BAD_REQUEST", "\"%.*s\" is given twice",
                              SL_STR_ARG(name));
    if (q->verb == SL_VERB_SETTLE && sl_str_eq(name, SL_STR("cost")))
        return read_cost(r, q);
    if (q->verb == SL_VERB_EXTEND && sl_str_eq(name, SL_STR("hold")))
        return sl_body_span(r, name, sl_hold_span, &q->hold);
    if (q->verb != SL_VERB_EXTEND && sl_str_eq(name, SL_STR("status")))
        return read_status(r, status);
    return sl_body_refuse(r, "BAD_REQUEST",
                          "unknown member \"%.*s\"; valid: %s",
                          SL_STR_ARG(name), lists[q->verb]);
}

static bool read_members(struct sl_body *r, struct sl_hold_question *q,
                         unsigned *status)
{
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return sl_body_wrong(r, SL_STR("body"), "an object");
    while (sl_json_member(&r->json, &name)) {
        if (sl_json_peek(&r->json) == SL_JSON_NULL) {
            if (!sl_json_null(&r->json))
                return sl_body_broken(r);
        } else if (!read_member(r, name, q, status)) {
            return false;
        }
    }
    return (!r->json.why && sl_json_end(&r->json)) || sl_body_broken(r);
}

bool sl_hold_read(struct sl_http_call *call, struct sl_hold_question *q,
                  unsigned *status)
{
    struct sl_body r;

    sl_body_begin(&r, call, "hold");
    *status = 0;
    if (call->request->body.len > 0 && !read_members(&r, q, status))
        return false;
    if (q->verb != SL_VERB_EXTEND || q->hold > 0)
        return true;
    return sl_body_refuse(&r, "BAD_REQUEST",
                          "missing duration; send {\"hold\":\"30s\"}");
}
