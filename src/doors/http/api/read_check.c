/* read_check.c -- the body of /v1/check: JSON to facts.
 *
 *     {"method": "GET", "path": "/api/x", "user": "ann", "plan": "free",
 *      "ip": "192.0.2.7", "headers": {"User-Agent": "..."}, "cost": 1}
 *
 * or an array of such. Everything is refused that a caller may have meant
 * otherwise than we would take it: members that nobody knows, members twice,
 * a limit's name that the policy does not have. A null is as good as nothing.
 * What a value says is not judged here (an address that is none, a plan that
 * does not exist): that may be a client's doing, and the engine has rules for
 * it that open no way round.
 *
 * Texts without escapes stay where they are, in the request.
 */
#include <string.h>

#include "base/base64.h"
#include "doors/http/api/api.h"
#include "doors/http/body.h"

#define KEY_MOST 256 /* bytes of an idempotency key */

/* `count` things of `size` bytes, moved from the stack to where they stay. */
static void *keep(struct sl_body *r, const void *list, unsigned count,
                  size_t size)
{
    void *kept = sl_arena_take(&r->call->arena, count * size + 1);

    if (kept && count > 0)
        memcpy(kept, list, count * size);
    return kept;
}

static bool read_headers(struct sl_body *r, struct sl_facts *facts)
{
    struct sl_header list[SL_CHECK_FIELDS];
    unsigned count = 0;
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return sl_body_wrong(r, SL_STR("headers"), "an object of strings");
    r->inside = "headers.";
    while (sl_json_member(&r->json, &name)) {
        for (unsigned i = 0; i < count; i++)
            if (sl_str_eq_nocase(list[i].name, name))
                return sl_body_refuse(r, "BAD_REQUEST",
                                      "\"headers\" has \"%.*s\" twice",
                                      SL_STR_ARG(name));
        if (count == SL_CHECK_FIELDS)
            return sl_body_refuse(r, "BAD_REQUEST",
                                  "\"headers\" has more than %d members",
                                  SL_CHECK_FIELDS);
        if (sl_json_null(&r->json))
            continue;
        list[count].name = name;
        if (!sl_body_text(r, name, &list[count].value))
            return false;
        count++;
    }
    if (r->json.why)
        return sl_body_broken(r);
    facts->headers = keep(r, list, count, sizeof(list[0]));
    facts->header_count = count;
    return facts->headers || sl_body_no_memory(r);
}

/* The policy has no limit of the name that stands in `member`. */
static bool wrong_limit(struct sl_body *r, const char *member,
                        struct sl_str name)
{
    const char *near = sl_body_near_limit(r, name);

    return sl_body_refuse(
        r, "BAD_REQUEST",
        "\"%s\" names the limit \"%.*s\", which is not in the policy%s%s%s",
        member, SL_STR_ARG(name), near ? "; did you mean \"" : "",
        near ? near : "", near ? "\"?" : "");
}

static bool read_costs(struct sl_body *r, struct sl_facts *facts)
{
    const struct sl_policy *policy = r->call->ask.live->policy;
    struct sl_cost list[SL_CHECK_FIELDS];
    unsigned count = 0;
    struct sl_str name;

    if (!sl_json_enter(&r->json, '{'))
        return sl_body_wrong(r, SL_STR("cost"),
                             "a whole number or an object of them");
    r->inside = "cost.";
    while (sl_json_member(&r->json, &name)) {
        for (unsigned i = 0; i < count; i++)
            if (sl_str_eq(list[i].limit, name))
                return sl_body_refuse(r, "BAD_REQUEST",
                                      "\"cost\" has \"%.*s\" twice",
                                      SL_STR_ARG(name));
        if (sl_policy_rule(policy, name) < 0)
            return wrong_limit(r, "cost", name);
        if (count == SL_CHECK_FIELDS)
            return sl_body_refuse(r, "BAD_REQUEST",
                                  "\"cost\" has more than %d members",
                                  SL_CHECK_FIELDS);
        list[count].limit = name;
        if (!sl_body_whole(r, name, &list[count].cost))
            return false;
        count++;
    }
    if (r->json.why)
        return sl_body_broken(r);
    facts->costs = keep(r, list, count, sizeof(list[0]));
    facts->cost_count = count;
    return facts->costs || sl_body_no_memory(r);
}

static bool read_cost(struct sl_body *r, struct sl_facts *facts)
{
    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return read_costs(r, facts);
    facts->has_cost = true;
    return sl_body_whole(r, SL_STR("cost"), &facts->cost);
}

/* ---- what it brings along ---- */

/* The body of the request that is asked for, as text or in base64. */
static bool read_body(struct sl_body *r, bool base64, struct sl_facts *facts)
{
    struct sl_str text;
    uint8_t *bytes;

    if (facts->has_body)
        return sl_body_refuse(
            r, "BAD_REQUEST",
            "a check can have \"body\" or \"body_base64\", not both");
    if (!sl_body_text(r, base64 ? SL_STR("body_base64") : SL_STR("body"),
                      &text))
        return false;
    facts->has_body = true;
    facts->body = text;
    if (!base64)
        return true;
    bytes = sl_arena_take(&r->call->arena, SL_BASE64_BYTES(text.len) + 1);
    if (!bytes)
        return sl_body_no_memory(r);
    facts->body.at = (const char *)bytes;
    return sl_base64_decode(text, bytes, &facts->body.len) ||
           sl_body_refuse(
               r, "BAD_REQUEST",
               "\"body_base64\" is not base64 (RFC 4648, with padding)");
}

static bool check_key(struct sl_body *r, struct sl_str key)
{
    if (key.len > 0 && key.len <= KEY_MOST)
        return true;
    return sl_body_refuse(r, "BAD_REQUEST",
                          "an idempotency key must have 1 to %d bytes, not %zu",
                          KEY_MOST, key.len);
}

/* The key of the whole call counts for each of its checks, by its place. */
static bool take_key(struct sl_body *r, struct sl_facts *facts)
{
    unsigned count = 0;
    struct sl_str key =
        sl_http1_field(r->call->request, SL_STR("idempotency-key"), &count);

    if (count == 0 || facts->idempotency_key.len > 0)
        return true;
    if (count > 1)
        return sl_body_refuse(r, "BAD_REQUEST",
                              "Idempotency-Key is sent twice");
    facts->idempotency_key = key;
    facts->idempotency_index = r->is_array ? r->index + 1 : 0;
    return check_key(r, key);
}

/* ---- members ---- */

enum form { TEXT, HEADERS, COST, SPAN, WAIT, BODY, BASE64, KEY };

struct member {
    const char *name;
    size_t len;
    enum form form;
    size_t place; /* TEXT: of the slice in the facts */
};

#define AT(name)   offsetof(struct sl_facts, name)
#define NAME(text) "" text, sizeof(text) - 1

static const struct member members[] = {
    {NAME("method"),          TEXT,    AT(method)    },
    {NAME("path"),            TEXT,    AT(path)      },
    {NAME("user"),            TEXT,    AT(user)      },
    {NAME("org"),             TEXT,    AT(org)       },
    {NAME("plan"),            TEXT,    AT(plan)      },
    {NAME("ip"),              TEXT,    AT(ip)        },
    {NAME("cost"),            COST,    0             },
    {NAME("headers"),         HEADERS, 0             },
    {NAME("role"),            TEXT,    AT(role)      },
    {NAME("job"),             TEXT,    AT(job)       },
    {NAME("request_id"),      TEXT,    AT(request_id)},
    {NAME("limit"),           TEXT,    AT(limit)     },
    {NAME("key"),             TEXT,    AT(key)       },
    {NAME("hold"),            SPAN,    AT(hold)      },
    {NAME("wait"),            WAIT,    AT(wait)      },
    {NAME("idempotency_key"), KEY,     0             },
    {NAME("body"),            BODY,    0             },
    {NAME("body_base64"),     BASE64,  0             },
};

static bool unknown(struct sl_body *r, struct sl_str name)
{
    const char *names[SL_LEN(members)];

    for (size_t i = 0; i < SL_LEN(members); i++)
        names[i] = members[i].name;
    return sl_body_unknown(r, name, names, SL_LEN(members));
}

static bool read_member(struct sl_body *r, const struct member *member,
                        struct sl_facts *facts)
{
    r->inside = "";
    if (sl_json_peek(&r->json) == SL_JSON_NULL)
        return sl_json_null(&r->json) || sl_body_broken(r);
    switch (member->form) {
    case TEXT:
        return sl_body_text(r, sl_str_c(member->name),
                            (struct sl_str *)((char *)facts + member->place));
    case HEADERS:
        return read_headers(r, facts);
    case COST:
        return read_cost(r, facts);
    case BODY:
    case BASE64:
        return read_body(r, member->form == BASE64, facts);
    case KEY:
        return sl_body_text(r, sl_str_c(member->name),
                            &facts->idempotency_key) &&
               check_key(r, facts->idempotency_key);
    case SPAN:
        return sl_body_span(r, sl_str_c(member->name), sl_hold_span,
                            &facts->hold);
    case WAIT:
        return sl_body_span(r, sl_str_c(member->name), sl_wait_span,
                            &facts->wait);
    }
    return false;
}

static const struct member *find_member(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(members); i++)
        if (members[i].len == name.len &&
            memcmp(members[i].name, name.at, name.len) == 0)
            return &members[i];
    return NULL;
}

/* One limit by its name: {"limit": "api", "key": "ann"}. */
static bool check_limit(struct sl_body *r, const struct sl_facts *facts)
{
    const struct sl_policy *policy = r->call->ask.live->policy;

    if (facts->limit.len == 0 && facts->key.len == 0)
        return true;
    if (facts->limit.len == 0 || facts->key.len == 0)
        return sl_body_refuse(r, "BAD_REQUEST",
                              "\"limit\" and \"key\" must be given together");
    return sl_policy_rule(policy, facts->limit) >= 0 ||
           wrong_limit(r, "limit", facts->limit);
}

static bool check_facts(struct sl_body *r, struct sl_facts *facts)
{
    bool has_path = facts->path.len > 0, has_job = facts->job.len > 0;
    bool has_limit = facts->limit.len > 0;

    if (!check_limit(r, facts))
        return false;
    if (has_path + has_job + has_limit > 1)
        return sl_body_refuse(
            r, "BAD_REQUEST",
            has_limit
                ? "a check with \"limit\" must not have \"path\" or \"job\""
                : "a check can have \"path\" or \"job\", not both");
    if (!has_path && !has_job && !has_limit)
        return sl_body_refuse(r, "BAD_REQUEST",
                              "a check needs a \"path\" or a \"job\"");
    if (facts->method.len == 0)
        facts->method = SL_STR("GET");
    return true;
}

/* Whoever calls holds the token or sits on this machine: he may say who it
 * is. */
static bool read_check(struct sl_body *r, struct sl_facts *facts)
{
    const struct member *member;
    unsigned seen = 0;
    struct sl_str name;

    *facts = (struct sl_facts){.trusted = true, .now = sl_http_now(r->call)};
    if (!sl_body_enter(r))
        return false;
    while (sl_json_member(&r->json, &name)) {
        member = find_member(name);
        if (!member)
            return unknown(r, name);
        if (seen & 1u << (member - members))
            return sl_body_refuse(r, "BAD_REQUEST", "\"%s\" is given twice",
                                  member->name);
        seen |= 1u << (member - members);
        if (!read_member(r, member, facts))
            return false;
    }
    return r->json.why ? sl_body_broken(r)
                       : check_facts(r, facts) && take_key(r, facts);
}

static bool add_check(struct sl_body *r, struct sl_check ***last,
                      struct sl_checks *checks)
{
    struct sl_check *check;

    r->index = checks->count;
    if (checks->count == SL_CHECKS)
        return sl_body_refuse(r, "TOO_MANY",
                              "the array has more than %d checks", SL_CHECKS);
    check = sl_arena_take(&r->call->arena, sizeof(*check));
    if (!check)
        return sl_body_no_memory(r);
    check->next = NULL;
    **last = check;
    *last = &check->next;
    checks->count++;
    return read_check(r, &check->facts);
}

/* ---- the body ---- */

/* A single one is small, unless it brings a body along. */
static bool is_short(struct sl_body *r, const struct sl_check *check)
{
    if (r->json.text.len <= SL_CHECK_BYTES || check->facts.has_body)
        return true;
    sl_http_refuse(r->call, 413, "TOO_LARGE",
                   "the body has %zu bytes; the maximum is %zu, and more for "
                   "an array or a check with a \"body\"",
                   r->json.text.len, SL_CHECK_BYTES);
    return false;
}

static bool read_all(struct sl_body *r, struct sl_checks *ret)
{
    struct sl_check **last = &ret->first;

    ret->is_array = r->is_array = sl_json_enter(&r->json, '[');
    if (!ret->is_array) {
        if (!add_check(r, &last, ret) || !is_short(r, ret->first))
            return false;
    } else {
        while (sl_json_item(&r->json))
            if (!add_check(r, &last, ret))
                return false;
    }
    r->is_array = false; /* what is wrong behind it belongs to no check */
    return sl_json_end(&r->json) || sl_body_broken(r);
}

bool sl_checks_read(struct sl_http_call *call, struct sl_checks *ret)
{
    struct sl_body r;

    sl_body_begin(&r, call, "check");
    *ret = (struct sl_checks){.count = 0};
    if (call->request->body.len == 0)
        return sl_body_refuse(&r, "BAD_REQUEST",
                              "the body is empty; send a check such as "
                              "{\"path\":\"/api/x\",\"user\":\"ann\"}");
    return read_all(&r, ret);
}
