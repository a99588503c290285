/* read_hold.c -- the bodies of /v1/holds/ID/...: JSON to a question.
 *
 *     settle    {"cost": 350} or {"cost": {"tokens": 350}}, "status": 200
 *     release   nothing, or {"status": 500}
 *     extend    {"hold": "30s"}
 *
 * As strict as a check: members that nobody knows, and members twice, are
 * refused.
 */
#include <string.h>

#include "doors/http/api/api.h"
#include "wire/json_read.h"

struct reading {
    struct sl_http_call *call;
    struct sl_json_reader json;
    enum sl_hold_verb verb;
};

/* Always false. */
static bool broken(struct reading *r)
{
    if (r->json.no_memory)
        sl_http_no_memory(r->call);
    else
        sl_http_refuse(
            r->call, 400, "BAD_JSON", "the body is not JSON: %s, at byte %zu",
            r->json.why ? r->json.why : "it can't be read", r->json.at);
    return false;
}

static bool wrong(struct reading *r, const char *member, const char *wanted)
{
    enum sl_json_kind is = sl_json_peek(&r->json);

    if (is == SL_JSON_BAD)
        return broken(r);
    sl_http_refuse(r->call, 400, "BAD_REQUEST", "\"%s\" must be %s, not %s",
                   member, wanted, sl_json_kind_name(is));
    return false;
}

static bool read_whole(struct reading *r, const char *member, uint64_t *ret)
{
    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return wrong(r, member, "a whole number");
    if (sl_json_whole(&r->json, ret))
        return true;
    sl_http_refuse(r->call, 400, "BAD_REQUEST",
                   "\"%s\" must be a whole number from 0 to 9007199254740991",
                   member);
    return false;
}

static bool is_twice(struct reading *r, const struct sl_cost *list,
                     unsigned count, struct sl_str name)
{
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(list[i].limit, name)) {
            sl_http_refuse(r->call, 400, "BAD_REQUEST",
                           "\"cost\" has \"%.*s\" twice", SL_STR_ARG(name));
            return true;
        }
    return false;
}

static bool read_costs(struct reading *r, struct sl_hold_question *q)
{
    struct sl_cost *list = sl_arena_take(
        &r->call->arena, SL_CHECK_FIELDS * sizeof(struct sl_cost));
    struct sl_str name;

    if (!list) {
        sl_http_no_memory(r->call);
        return false;
    }
    if (!sl_json_enter(&r->json, '{'))
        return wrong(r, "cost", "a whole number or an object of them");
    q->costs = list;
    while (sl_json_member(&r->json, &name)) {
        if (is_twice(r, list, q->cost_count, name))
            return false;
        if (q->cost_count == SL_CHECK_FIELDS) {
            sl_http_refuse(r->call, 400, "BAD_REQUEST",
                           "\"cost\" has more than %d members",
                           SL_CHECK_FIELDS);
            return false;
        }
        list[q->cost_count].limit = name;
        if (!read_whole(r, "cost", &list[q->cost_count].cost))
            return false;
        q->cost_count++;
    }
    return !r->json.why || broken(r);
}

static bool read_cost(struct reading *r, struct sl_hold_question *q)
{
    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return read_costs(r, q);
    q->has_cost = true;
    return read_whole(r, "cost", &q->cost);
}

static bool read_span(struct reading *r, struct sl_hold_question *q)
{
    struct sl_diag why = {.sentence = ""};
    struct sl_str text;

    if (sl_json_peek(&r->json) != SL_JSON_STRING)
        return wrong(r, "hold", "a string such as \"30s\"");
    if (!sl_json_text(&r->json, &text))
        return broken(r);
    if (!sl_hold_span(text, &q->hold, &why))
        return true;
    sl_http_refuse(r->call, 400, "BAD_REQUEST", "\"hold\": %s", why.sentence);
    return false;
}

static bool read_status(struct reading *r, unsigned *ret)
{
    uint64_t status = 0;

    if (!read_whole(r, "status", &status))
        return false;
    if (status < 100 || status > 599) {
        sl_http_refuse(r->call, 400, "BAD_REQUEST",
                       "\"status\" must be what the vendor answered, from 100 "
                       "to 599");
        return false;
    }
    *ret = (unsigned)status;
    return true;
}

/* Which members the verbs have. */
static bool read_member(struct reading *r, struct sl_str name,
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
        sl_http_refuse(r->call, 400, "BAD_REQUEST", "\"%.*s\" is there twice",
                       SL_STR_ARG(name));
    else if (r->verb == SL_VERB_SETTLE && sl_str_eq(name, SL_STR("cost")))
        return read_cost(r, q);
    else if (r->verb == SL_VERB_EXTEND && sl_str_eq(name, SL_STR("hold")))
        return read_span(r, q);
    else if (r->verb != SL_VERB_EXTEND && sl_str_eq(name, SL_STR("status")))
        return read_status(r, status);
    else
        sl_http_refuse(r->call, 400, "BAD_REQUEST",
                       "\"%.*s\" is no member here; there is %s",
                       SL_STR_ARG(name), lists[r->verb]);
    return false;
}

static bool read_members(struct reading *r, struct sl_hold_question *q,
                         unsigned *status)
{
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return wrong(r, "body", "an object");
    while (sl_json_member(&r->json, &name)) {
        if (sl_json_peek(&r->json) == SL_JSON_NULL) {
            if (!sl_json_null(&r->json))
                return broken(r);
        } else if (!read_member(r, name, q, status)) {
            return false;
        }
    }
    return (!r->json.why && sl_json_end(&r->json)) || broken(r);
}

bool sl_hold_read(struct sl_http_call *call, struct sl_hold_question *q,
                  unsigned *status)
{
    struct reading r = {.call = call, .verb = q->verb};

    *status = 0;
    sl_json_begin(&r.json, call->request->body, &call->arena);
    if (call->request->body.len > 0 && !read_members(&r, q, status))
        return false;
    if (q->verb != SL_VERB_EXTEND || q->hold > 0)
        return true;
    sl_http_refuse(call, 400, "BAD_REQUEST",
                   "for how long? send {\"hold\":\"30s\"}");
    return false;
}
