/* read.c -- the body of POST /v1/usage.
 *
 *     {"org": "acme", "limit": "transcription", "amount": 30,
 *      "idempotency_key": "job-7"}
 *
 * or an array of such. As in checks, everything is refused that could have been
 * meant otherwise.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doors/http/usage/usage.h"
#include "wire/json_read.h"

struct reading {
    struct sl_http_call *call;
    struct sl_json_reader json;
    bool is_array;
    unsigned index;
    struct sl_report_of_use *use; /* that is being read */
    struct sl_str other;          /* "key" */
    bool has_amount;
};

/* ---- refusing ---- */

static bool complain(struct reading *r, const char *code, const char *fmt, ...)
    SL_PRINTF(3, 4);

static bool complain(struct reading *r, const char *code, const char *fmt, ...)
{
    char sentence[384], where[32] = "";
    va_list args;

    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    if (r->is_array)
        snprintf(where, sizeof(where), "report %u: ", r->index);
    sl_http_refuse(r->call, 400, code, "%s%s", where, sentence);
    return false;
}

static bool no_memory(struct reading *r)
{
    sl_http_no_memory(r->call);
    return false;
}

static bool broken(struct reading *r)
{
    if (r->json.no_memory)
        return no_memory(r);
    return complain(r, "BAD_JSON", "the body is not JSON: %s, at byte %zu",
                    r->json.why ? r->json.why : "it can't be read", r->json.at);
}

static bool wrong(struct reading *r, const char *member, const char *wanted)
{
    enum sl_json_kind is = sl_json_peek(&r->json);

    if (is == SL_JSON_BAD)
        return broken(r);
    return complain(r, "BAD_REQUEST", "\"%s\" must be %s, not %s", member,
                    wanted, sl_json_kind_name(is));
}

/* ---- members ---- */

enum form { TEXT, AMOUNT, FLAG };

struct member {
    const char *name;
    enum form form;
    size_t place; /* in the report; of "key": none */
};

#define USE(name)  offsetof(struct sl_report_of_use, name)
#define FACT(name) (USE(facts) + offsetof(struct sl_facts, name))

static const struct member members[] = {
    {"org",             TEXT,   FACT(org)   },
    {"user",            TEXT,   FACT(user)  },
    {"ip",              TEXT,   FACT(ip)    },
    {"plan",            TEXT,   FACT(plan)  },
    {"limit",           TEXT,   FACT(limit) },
    {"key",             TEXT,   SIZE_MAX    },
    {"amount",          AMOUNT, USE(amount) },
    {"idempotency_key", TEXT,   USE(key)    },
    {"name",            TEXT,   USE(name)   },
    {"release",         FLAG,   USE(release)},
    {"enforce",         FLAG,   USE(enforce)},
};

static bool unknown(struct reading *r, struct sl_str name)
{
    const char *names[SL_LEN(members)];
    const char *near;

    for (size_t i = 0; i < SL_LEN(members); i++)
        names[i] = members[i].name;
    near = sl_str_nearest(name, names, SL_LEN(members));
    return near
               ? complain(r, "BAD_REQUEST",
                          "\"%.*s\" is no member of a report; did you mean "
                          "\"%s\"?",
                          SL_STR_ARG(name), near)
               : complain(r, "BAD_REQUEST", "\"%.*s\" is no member of a report",
                          SL_STR_ARG(name));
}

static bool read_amount(struct reading *r, uint64_t *place)
{
    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return wrong(r, "amount", "a whole number");
    r->has_amount = true;
    if (sl_json_whole(&r->json, place))
        return true;
    return complain(r, "BAD_REQUEST",
                    "\"amount\" must be a whole number from 0 to "
                    "9007199254740991; what was given back has \"release\": "
                    "true beside it");
}

static bool read_member(struct reading *r, const struct member *member)
{
    char *place = member->place == SIZE_MAX ? (char *)&r->other
                                            : (char *)r->use + member->place;

    if (sl_json_peek(&r->json) == SL_JSON_NULL)
        return sl_json_null(&r->json) || broken(r);
    switch (member->form) {
    case TEXT:
        if (sl_json_peek(&r->json) != SL_JSON_STRING)
            return wrong(r, member->name, "a string");
        return sl_json_text(&r->json, (struct sl_str *)place) || broken(r);
    case AMOUNT:
        return read_amount(r, (uint64_t *)place);
    case FLAG:
        if (sl_json_peek(&r->json) != SL_JSON_BOOL)
            return wrong(r, member->name, "true or false");
        return sl_json_bool(&r->json, (bool *)place) || broken(r);
    }
    return false;
}

/* ---- what it must have ---- */

static bool find_rule(struct reading *r)
{
    const struct sl_policy *policy = r->call->ask.live->policy;
    struct sl_str name = r->use->facts.limit;
    int index = sl_policy_rule(policy, name);
    const char **names;
    const char *near;

    if (name.len == 0)
        return complain(r, "BAD_REQUEST",
                        "a report needs a \"limit\": what was used");
    if (index >= 0) {
        r->use->rule = &policy->rules[index];
        return true;
    }
    names = sl_arena_take(&r->call->arena,
                          (policy->rule_count + 1) * sizeof(*names));
    if (!names)
        return no_memory(r);
    for (unsigned i = 0; i < policy->rule_count; i++)
        names[i] = policy->rules[i].name.at;
    near = sl_str_nearest(name, names, policy->rule_count);
    return complain(r, "NO_SUCH_LIMIT",
                    "the policy has no limit \"%.*s\"%s%s%s", SL_STR_ARG(name),
                    near ? "; did you mean \"" : "", near ? near : "",
                    near ? "\"?" : "");
}

/* Who used it: one value for each that the limit is kept per. */
static bool find_keys(struct reading *r)
{
    struct sl_report_of_use *use = r->use;
    const struct sl_rule *rule = use->rule;
    const struct sl_policy *policy = r->call->ask.live->policy;

    for (unsigned i = 0; i < rule->per_count; i++) {
        struct sl_str scope = policy->identity.scope_names[rule->per[i]];
        struct sl_str value = r->other;
        const char *member = "key";

        if (rule->per[i] == SL_SCOPE_ORG)
            value = use->facts.org, member = "org";
        if (rule->per[i] == SL_SCOPE_USER)
            value = use->facts.user, member = "user";
        if (rule->per[i] == SL_SCOPE_IP)
            value = use->facts.ip, member = "ip";
        if (value.len == 0)
            return complain(r, "BAD_REQUEST",
                            "limit \"%.*s\" is kept per %.*s: say whose it "
                            "is by \"%s\"",
                            SL_STR_ARG(rule->name), SL_STR_ARG(scope), member);
        if (value.len > SL_VALUE_MAX)
            return complain(r, "BAD_REQUEST", "\"%s\" has more than %d bytes",
                            member, SL_VALUE_MAX);
        use->keys[i] = value;
        use->scopes[i] = scope;
    }
    return true;
}

static bool check_texts(struct reading *r)
{
    struct sl_report_of_use *use = r->use;

    if (use->key.len > SL_USAGE_KEY || use->name.len > SL_USAGE_KEY)
        return complain(r, "BAD_REQUEST",
                        "\"idempotency_key\" and \"name\" have at most %d "
                        "bytes",
                        SL_USAGE_KEY);
    if (use->name.len > 0 && use->rule->kind != SL_LEVEL)
        return complain(r, "BAD_REQUEST",
                        "things with a \"name\" are counted by a limit of "
                        "kind level; \"%.*s\" is a %s",
                        SL_STR_ARG(use->rule->name),
                        sl_kind_name(use->rule->kind));
    if (use->rule->kind == SL_PERMITS)
        return complain(r, "BAD_REQUEST",
                        "\"%.*s\" has permits, which are held and given back; "
                        "nothing of them is used up",
                        SL_STR_ARG(use->rule->name));
    if (!r->has_amount && use->name.len == 0)
        return complain(r, "BAD_REQUEST",
                        "a report needs an \"amount\": how much was used");
    if (!r->has_amount)
        use->amount = 1;
    return true;
}

static bool finish_use(struct reading *r)
{
    struct sl_report_of_use *use = r->use;

    if (!find_rule(r) || !find_keys(r) || !check_texts(r))
        return false;
    use->facts.keys = use->keys;
    use->facts.key_scopes = use->scopes;
    use->facts.key_count = use->rule->per_count;
    return true;
}

/* ---- the body ---- */

static bool read_use(struct reading *r)
{
    unsigned seen = 0;
    struct sl_str name;

    memset(r->use, 0, sizeof(*r->use));
    r->use->facts.trusted = r->use->facts.metered = true;
    r->use->facts.now = sl_http_now(r->call);
    r->use->facts.has_cost = true;
    r->other = (struct sl_str){"", 0};
    r->has_amount = false;
    if (!sl_json_enter(&r->json, '{')) {
        enum sl_json_kind is = sl_json_peek(&r->json);

        return is == SL_JSON_BAD ? broken(r)
                                 : complain(r, "BAD_REQUEST",
                                            "a report must be an object, not "
                                            "%s",
                                            sl_json_kind_name(is));
    }
    while (sl_json_member(&r->json, &name)) {
        size_t i = 0;

        while (i < SL_LEN(members) &&
               !sl_str_eq(name, sl_str_c(members[i].name)))
            i++;
        if (i == SL_LEN(members))
            return unknown(r, name);
        if (seen & 1u << i)
            return complain(r, "BAD_REQUEST", "\"%s\" is there twice",
                            members[i].name);
        seen |= 1u << i;
        if (!read_member(r, &members[i]))
            return false;
    }
    return r->json.why ? broken(r) : finish_use(r);
}

static bool add_use(struct reading *r, struct sl_reports_of_use *ret)
{
    r->index = ret->count;
    if (ret->count == SL_REPORTS)
        return complain(r, "TOO_MANY",
                        "there are more than %d reports in the array",
                        SL_REPORTS);
    r->use = &ret->list[ret->count++];
    return read_use(r);
}

/* How many objects the array can have at the most: an upper bound, for room. */
static size_t count_most(struct sl_str body)
{
    size_t count = 1;

    for (size_t i = 0; i < body.len && count < SL_REPORTS; i++)
        count += body.at[i] == '{';
    return count;
}

bool sl_uses_read(struct sl_http_call *call, struct sl_reports_of_use *ret)
{
    struct sl_str body = call->request->body;
    struct reading r = {.call = call};

    *ret = (struct sl_reports_of_use){.count = 0};
    if (body.len == 0)
        return complain(&r, "BAD_REQUEST",
                        "the body is empty; send a report such as "
                        "{\"org\":\"acme\",\"limit\":\"minutes\","
                        "\"amount\":30}");
    ret->list =
        sl_arena_take(&call->arena, count_most(body) * sizeof(*ret->list));
    if (!ret->list)
        return no_memory(&r);
    sl_json_begin(&r.json, body, &call->arena);
    ret->is_array = r.is_array = sl_json_enter(&r.json, '[');
    if (!ret->is_array && !add_use(&r, ret))
        return false;
    while (ret->is_array && sl_json_item(&r.json))
        if (!add_use(&r, ret))
            return false;
    r.is_array = false;
    return sl_json_end(&r.json) || broken(&r);
}
