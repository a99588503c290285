/* read.c -- the body of POST /v1/usage.
 *
 *     {"org": "acme", "limit": "transcription", "amount": 30,
 *      "idempotency_key": "job-7"}
 *
 * or an array of such. As in checks, everything is refused that could have been
 * meant otherwise.
 */
#include <string.h>

#include "doors/http/body.h"
#include "doors/http/usage/usage.h"

struct reading {
    struct sl_body body;
    struct sl_report_of_use *use; /* that is being read */
    struct sl_str other;          /* "key" */
    bool has_amount;
};

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

    for (size_t i = 0; i < SL_LEN(members); i++)
        names[i] = members[i].name;
    return sl_body_unknown(&r->body, name, names, SL_LEN(members));
}

static bool read_amount(struct reading *r, uint64_t *place)
{
    if (sl_json_peek(&r->body.json) != SL_JSON_NUMBER)
        return sl_body_wrong(&r->body, SL_STR("amount"), "a whole number");
    r->has_amount = true;
    if (sl_json_whole(&r->body.json, place))
        return true;
    return sl_body_refuse(
        &r->body, "BAD_REQUEST",
        "\"amount\" must be a whole number from 0 to 9007199254740991; for a "
        "refund add \"release\": true");
}

static bool read_member(struct reading *r, const struct member *member)
{
    char *place = member->place == SIZE_MAX ? (char *)&r->other
                                            : (char *)r->use + member->place;

    if (sl_json_peek(&r->body.json) == SL_JSON_NULL)
        return sl_json_null(&r->body.json) || sl_body_broken(&r->body);
    switch (member->form) {
    case TEXT:
        return sl_body_text(&r->body, sl_str_c(member->name),
                            (struct sl_str *)place);
    case AMOUNT:
        return read_amount(r, (uint64_t *)place);
    case FLAG:
        if (sl_json_peek(&r->body.json) != SL_JSON_BOOL)
            return sl_body_wrong(&r->body, sl_str_c(member->name),
                                 "true or false");
        return sl_json_bool(&r->body.json, (bool *)place) ||
               sl_body_broken(&r->body);
    }
    return false;
}

/* ---- what it must have ---- */

static bool find_rule(struct reading *r)
{
    const struct sl_policy *policy = r->body.call->ask.live->policy;
    struct sl_str name = r->use->facts.limit;
    int index = sl_policy_rule(policy, name);
    const char *near;

    if (name.len == 0)
        return sl_body_refuse(&r->body, "BAD_REQUEST",
                              "a report needs a \"limit\"");
    if (index >= 0) {
        r->use->rule = &policy->rules[index];
        return true;
    }
    near = sl_body_near_limit(&r->body, name);
    return sl_body_refuse(&r->body, "NO_SUCH_LIMIT",
                          "the policy has no limit \"%.*s\"%s%s%s",
                          SL_STR_ARG(name), near ? "; did you mean \"" : "",
                          near ? near : "", near ? "\"?" : "");
}

/* Who used it: one value for each that the limit is kept per. */
static bool find_keys(struct reading *r)
{
    struct sl_report_of_use *use = r->use;
    const struct sl_rule *rule = use->rule;
    const struct sl_policy *policy = r->body.call->ask.live->policy;

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
            return sl_body_refuse(&r->body, "BAD_REQUEST",
                                  "limit \"%.*s\" is per %.*s: add \"%s\"",
                                  SL_STR_ARG(rule->name), SL_STR_ARG(scope),
                                  member);
        if (value.len > SL_VALUE_MAX)
            return sl_body_refuse(&r->body, "BAD_REQUEST",
                                  "\"%s\" has more than %d bytes", member,
                                  SL_VALUE_MAX);
        use->keys[i] = value;
        use->scopes[i] = scope;
    }
    return true;
}

static bool check_texts(struct reading *r)
{
    struct sl_report_of_use *use = r->use;

    if (use->key.len > SL_USAGE_KEY || use->name.len > SL_USAGE_KEY)
        return sl_body_refuse(
            &r->body, "BAD_REQUEST",
            "\"idempotency_key\" and \"name\" have at most %d "
            "bytes",
            SL_USAGE_KEY);
    if (use->name.len > 0 && use->rule->kind != SL_LEVEL)
        return sl_body_refuse(
            &r->body, "BAD_REQUEST",
            "\"name\" is only for limits of kind level; \"%.*s\" is a %s",
            SL_STR_ARG(use->rule->name), sl_kind_name(use->rule->kind));
    if (use->rule->kind == SL_PERMITS)
        return sl_body_refuse(&r->body, "BAD_REQUEST",
                              "\"%.*s\" has permits, which are held and "
                              "released; their usage cannot be reported",
                              SL_STR_ARG(use->rule->name));
    if (!r->has_amount && use->name.len == 0)
        return sl_body_refuse(&r->body, "BAD_REQUEST",
                              "a report needs an \"amount\"");
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
    r->use->facts.now = sl_http_now(r->body.call);
    r->use->facts.has_cost = true;
    r->other = (struct sl_str){"", 0};
    r->has_amount = false;
    if (!sl_body_enter(&r->body))
        return false;
    while (sl_json_member(&r->body.json, &name)) {
        size_t i = 0;

        while (i < SL_LEN(members) &&
               !sl_str_eq(name, sl_str_c(members[i].name)))
            i++;
        if (i == SL_LEN(members))
            return unknown(r, name);
        if (seen & 1u << i)
            return sl_body_refuse(&r->body, "BAD_REQUEST",
                                  "\"%s\" is given twice", members[i].name);
        seen |= 1u << i;
        if (!read_member(r, &members[i]))
            return false;
    }
    return r->body.json.why ? sl_body_broken(&r->body) : finish_use(r);
}

static bool add_use(struct reading *r, struct sl_reports_of_use *ret)
{
    r->body.index = ret->count;
    if (ret->count == SL_REPORTS)
        return sl_body_refuse(&r->body, "TOO_MANY",
                              "the array has more than %d reports", SL_REPORTS);
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
    struct reading r = {.use = NULL};

    sl_body_begin(&r.body, call, "report");
    *ret = (struct sl_reports_of_use){.count = 0};
    if (body.len == 0)
        return sl_body_refuse(&r.body, "BAD_REQUEST",
                              "the body is empty; send a report such as "
                              "{\"org\":\"acme\",\"limit\":\"minutes\","
                              "\"amount\":30}");
    ret->list =
        sl_arena_take(&call->arena, count_most(body) * sizeof(*ret->list));
    if (!ret->list)
        return sl_body_no_memory(&r.body);
    ret->is_array = r.body.is_array = sl_json_enter(&r.body.json, '[');
    if (!ret->is_array && !add_use(&r, ret))
        return false;
    while (ret->is_array && sl_json_item(&r.body.json))
        if (!add_use(&r, ret))
            return false;
    r.body.is_array = false;
    return sl_json_end(&r.body.json) || sl_body_broken(&r.body);
}
