/* json_body.c -- reads the JSON body of a request, or refuses it. */
#include <stdarg.h>
#include <stdio.h>

#include "server/http/http_int.h"

void sl_json_body_begin(struct sl_json_body *body, struct sl_http_call *call,
                        const char *one)
{
    *body = (struct sl_json_body){.call = call, .one = one, .inside = ""};
    sl_json_begin(&body->json, call->request->body, &call->arena);
}

/* ---- refusing ---- */

bool sl_json_body_refuse(struct sl_json_body *body, const char *code,
                         const char *fmt, ...)
{
    char sentence[384], where[32] = "";
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    if (body->is_array)
        snprintf(where, sizeof(where), "%s %u: ", body->one, body->index);
    sl_http_refuse(body->call, 400, code, "%s%s", where, sentence);
    return false;
}

bool sl_json_body_no_memory(struct sl_json_body *body)
{
    sl_http_no_memory(body->call);
    return false;
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

    if (is == SL_JSON_BAD)
        return sl_json_body_broken(body);
    return sl_json_body_refuse(
        body, "BAD_REQUEST", "\"%s%.*s\" must be %s, not %s", body->inside,
        SL_STR_ARG(member), wanted, sl_json_kind_name(is));
}

bool sl_json_body_unknown(struct sl_json_body *body, struct sl_str name,
                          const char *const *names, size_t count)
{
    const char *near = sl_str_nearest(name, names, count);

    return sl_json_body_refuse(
        body, "BAD_REQUEST", "unknown member \"%.*s\" of a %s%s%s%s",
        SL_STR_ARG(name), body->one, near ? "; did you mean \"" : "",
        near ? near : "", near ? "\"?" : "");
}

/* ---- reading ---- */

bool sl_json_body_enter(struct sl_json_body *body)
{
    enum sl_json_kind is;

    if (sl_json_enter(&body->json, '{'))
        return true;
    is = sl_json_peek(&body->json);
    if (is == SL_JSON_BAD)
        return sl_json_body_broken(body);
    return sl_json_body_refuse(body, "BAD_REQUEST",
                               "a %s must be an object, not %s", body->one,
                               sl_json_kind_name(is));
}

bool sl_json_body_text(struct sl_json_body *body, struct sl_str member,
                       struct sl_str *ret)
{
    if (sl_json_peek(&body->json) != SL_JSON_STRING)
        return sl_json_body_wrong(body, member, "a string");
    return sl_json_text(&body->json, ret) || sl_json_body_broken(body);
}

bool sl_json_body_whole(struct sl_json_body *body, struct sl_str member,
                        uint64_t *ret)
{
    if (sl_json_peek(&body->json) != SL_JSON_NUMBER)
        return sl_json_body_wrong(body, member, "a whole number");
    if (sl_json_whole(&body->json, ret))
        return true;
    return sl_json_body_refuse(body, "BAD_REQUEST",
                               "\"%s%.*s\" must be a whole number from 0 to "
                               "9007199254740991",
                               body->inside, SL_STR_ARG(member));
}

bool sl_json_body_span(struct sl_json_body *body, struct sl_str member,
                       sl_json_body_span_f *read, sl_ns *ret)
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

const char *sl_json_body_near_limit(struct sl_json_body *body,
                                    struct sl_str name)
{
    const struct sl_policy *policy = body->call->check.active->policy;
    const char **names = sl_arena_take(
        &body->call->arena, (policy->rule_count + 1) * sizeof(*names));

    for (unsigned i = 0; names && i < policy->rule_count; i++)
        names[i] = policy->rules[i].name.at;
    return names ? sl_str_nearest(name, names, policy->rule_count) : NULL;
}
