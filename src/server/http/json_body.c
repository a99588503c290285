/* json_body.c -- reads the JSON body of a request, or refuses it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/http/http_int.h"

#define COSTS_MOST 100

void sl_json_body_begin(struct sl_json_body *body, struct sl_http_call *call,
                        const char *one)
{
    sl_json_begin(&body->json, call->request->body, &call->arena);
    body->one = one;
    body->inside = "";
    body->is_array = false;
    body->call = call;
    body->policy = NULL;
    body->status = 400;
}

/* ---- refusing ---- */

bool sl_json_body_refuse(struct sl_json_body *body, const char *code,
                         const char *fmt, ...)
{
    int len = 0;
    va_list args;

    if (body->is_array)
        len = snprintf(body->sentence, sizeof(body->sentence),
                       "%s %u: ", body->one, body->index);
    va_start(args, fmt);
    vsnprintf(body->sentence + len, sizeof(body->sentence) - (size_t)len, fmt,
              args);
    va_end(args);
    body->code = code;
    return false;
}

bool sl_json_body_no_memory(struct sl_json_body *body)
{
    body->json.no_memory = true;
    return sl_json_body_refuse(body, "NO_MEMORY", "out of memory");
}

bool sl_json_body_broken(struct sl_json_body *body)
{
    const struct sl_json_reader *json = &body->json;

    if (json->no_memory)
        return sl_json_body_no_memory(body);
    return sl_json_body_refuse(
        body, "BAD_JSON", "the body is not JSON: %s, at byte %zu",
        json->why ? json->why : "it cannot be read", json->at);
}

bool sl_json_body_wrong(struct sl_json_body *body, struct sl_str member,
                        const char *wanted)
{
    enum sl_json_kind is = sl_json_peek(&body->json);

    if (is == SL_JSON_BAD || body->json.no_memory)
        return sl_json_body_broken(body);
    return sl_json_body_refuse(
        body, "BAD_REQUEST", "\"%s%.*s\" must be %s, not %s", body->inside,
        SL_STR_ARG(member), wanted, sl_json_kind_name(is));
}

bool sl_json_body_answer(struct sl_json_body *body)
{
    if (body->json.no_memory)
        return sl_http_no_memory(body->call);
    return sl_http_refuse(body->call, body->status, body->code, "%s",
                          body->sentence);
}

struct sl_hint sl_hint_of(const char *near, const char *otherwise)
{
    struct sl_hint hint;

    snprintf(hint.text, sizeof(hint.text),
             near ? "; did you mean \"%s\"?" : "%s", near ? near : otherwise);
    return hint;
}

struct sl_hint sl_hint_limit(const struct sl_policy *policy, struct sl_str name,
                             const char *otherwise)
{
    const char *names[256];
    unsigned count = 0;

    for (; count < policy->rule_count && count < SL_LEN(names); count++)
        names[count] = policy->rules[count].name.at;
    return sl_hint_of(sl_str_nearest(name, names, count), otherwise);
}

/* ---- objects ---- */

static bool refuse_unknown(struct sl_json_body *body, struct sl_str name,
                           const struct sl_json_field *fields, unsigned count,
                           const char *unknown)
{
    const char *names[32];

    if (unknown)
        return sl_json_body_refuse(body, "BAD_REQUEST",
                                   "unknown member \"%.*s\"%s",
                                   SL_STR_ARG(name), unknown);
    for (unsigned i = 0; i < count; i++)
        names[i] = fields[i].name.at;
    return sl_json_body_refuse(
        body, "BAD_REQUEST", "unknown member \"%.*s\" of a %s%s",
        SL_STR_ARG(name), body->one,
        sl_hint_of(sl_str_nearest(name, names, count), "").text);
}

/* Returns the index of a name, or `count`. */
static unsigned find_field(const struct sl_json_field *fields, unsigned count,
                           struct sl_str name)
{
    unsigned i = 0;

    while (i < count && (fields[i].name.len != name.len ||
                         memcmp(fields[i].name.at, name.at, name.len) != 0))
        i++;
    return i;
}

bool sl_json_body_fields(struct sl_json_body *body,
                         const struct sl_json_field *fields, unsigned count,
                         const char *unknown, void *object)
{
    unsigned seen = 0, nulls = 0;
    enum sl_json_kind is;
    struct sl_str name;

    if (!sl_json_enter(&body->json, '{')) {
        is = sl_json_peek(&body->json);
        return is == SL_JSON_BAD
                   ? sl_json_body_broken(body)
                   : sl_json_body_refuse(body, "BAD_REQUEST",
                                         "a %s must be an object, not %s",
                                         body->one, sl_json_kind_name(is));
    }
    while (sl_json_member(&body->json, &name)) {
        unsigned i = find_field(fields, count, name);

        if (i == count)
            return refuse_unknown(body, name, fields, count, unknown);
        if (seen & 1u << i)
            return sl_json_body_refuse(body, "BAD_REQUEST",
                                       "\"%s\" is given twice",
                                       fields[i].name.at);
        seen |= 1u << i;
        body->inside = "";
        if (sl_json_peek(&body->json) == SL_JSON_NULL) {
            if (!sl_json_null(&body->json))
                return sl_json_body_broken(body);
            nulls |= 1u << i;
        } else if (!fields[i].read(body, fields[i].name,
                                   (char *)object + fields[i].offset)) {
            return false;
        }
    }
    body->seen = seen;
    body->nulls = nulls;
    return !body->json.why || sl_json_body_broken(body);
}

/* ---- values ---- */

bool sl_json_body_text(struct sl_json_body *body, struct sl_str member,
                       void *at)
{
    if (sl_json_peek(&body->json) != SL_JSON_STRING)
        return sl_json_body_wrong(body, member, "a string");
    return sl_json_text(&body->json, at) || sl_json_body_broken(body);
}

bool sl_json_body_whole(struct sl_json_body *body, struct sl_str member,
                        void *at)
{
    if (sl_json_peek(&body->json) != SL_JSON_NUMBER)
        return sl_json_body_wrong(body, member, "a whole number");
    return sl_json_whole(&body->json, at) ||
           sl_json_body_refuse(body, "BAD_REQUEST",
                               "\"%s%.*s\" must be a whole number from 0 to "
                               "9007199254740991",
                               body->inside, SL_STR_ARG(member));
}

bool sl_json_body_flag(struct sl_json_body *body, struct sl_str member,
                       void *at)
{
    if (sl_json_peek(&body->json) != SL_JSON_BOOL)
        return sl_json_body_wrong(body, member, "true or false");
    return sl_json_bool(&body->json, at) || sl_json_body_broken(body);
}

static bool read_span(struct sl_json_body *body, struct sl_str member,
                      int (*read)(struct sl_str text, sl_ns *ret,
                                  struct sl_diag *why),
                      sl_ns *ret)
{
    struct sl_diag why = {.sentence = ""};
    struct sl_str text;

    if (sl_json_peek(&body->json) != SL_JSON_STRING)
        return sl_json_body_wrong(body, member, "a string such as \"30s\"");
    if (!sl_json_text(&body->json, &text))
        return sl_json_body_broken(body);
    return !read(text, ret, &why) ||
           sl_json_body_refuse(body, "BAD_REQUEST", "\"%.*s\": %s",
                               SL_STR_ARG(member), why.sentence);
}

bool sl_json_body_hold(struct sl_json_body *body, struct sl_str member,
                       void *at)
{
    return read_span(body, member, sl_hold_span, at);
}

bool sl_json_body_wait(struct sl_json_body *body, struct sl_str member,
                       void *at)
{
    return read_span(body, member, sl_wait_span, at);
}

/* ---- costs: 5, or {"tokens": 5} ---- */

static bool read_costs(struct sl_json_body *body, struct sl_request *request)
{
    struct sl_cost list[COSTS_MOST], *kept;
    unsigned count = 0;
    struct sl_str name;

    body->inside = "cost.";
    while (sl_json_member(&body->json, &name)) {
        for (unsigned i = 0; i < count; i++)
            if (sl_str_eq(list[i].limit, name))
                return sl_json_body_refuse(body, "BAD_REQUEST",
                                           "\"cost\" has \"%.*s\" twice",
                                           SL_STR_ARG(name));
        if (body->policy && sl_policy_rule(body->policy, name) < 0)
            return sl_json_body_refuse(
                body, "BAD_REQUEST",
                "\"cost\" names the limit \"%.*s\", which is not in the "
                "policy%s",
                SL_STR_ARG(name), sl_hint_limit(body->policy, name, "").text);
        if (count == COSTS_MOST)
            return sl_json_body_refuse(body, "BAD_REQUEST",
                                       "\"cost\" has more than %d members",
                                       COSTS_MOST);
        list[count].limit = name;
        if (!sl_json_body_whole(body, name, &list[count].cost))
            return false;
        count++;
    }
    if (body->json.why)
        return sl_json_body_broken(body);
    kept = sl_arena_take(body->json.arena, count * sizeof(list[0]) + 1);
    if (!kept)
        return sl_json_body_no_memory(body);
    memcpy(kept, list, count * sizeof(list[0]));
    request->costs = kept;
    request->cost_count = count;
    return true;
}

bool sl_json_body_cost(struct sl_json_body *body, struct sl_str member,
                       void *at)
{
    struct sl_request *request = at;

    if (sl_json_enter(&body->json, '{'))
        return read_costs(body, request);
    if (sl_json_peek(&body->json) != SL_JSON_NUMBER)
        return sl_json_body_wrong(body, member,
                                  "a whole number or an object of them");
    request->has_cost = true;
    return sl_json_body_whole(body, member, &request->cost);
}
