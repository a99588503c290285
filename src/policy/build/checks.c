/* checks.c -- what can be seen only when all parts are there: states that
 * would meet, ways round a limit. */
#include <stdlib.h>
#include <string.h>

#include "policy/build/build.h"
#include "policy/slots.h"
#include "policy/stores.h"

/* What a rule's name in a shared store is made of. */
struct use {
    struct sl_str scopes[SL_PER_MAX];
    struct sl_key_use use;
    struct sl_key_context context;
    const struct sl_key_form *form;
};

/* ---- names in shared stores ---- */

/* A value that a request may lack. */
static bool may_be_missing(unsigned scope)
{
    return scope != SL_SCOPE_IP && scope != SL_SCOPE_ANON &&
           scope != SL_SCOPE_ENDPOINT;
}

/* May the rule be kept by an anonymous caller's fingerprint in place of a
 * value that he lacks? */
static bool falls_back(const struct sl_rule *rule)
{
    bool any = false;

    for (unsigned i = 0; i < rule->per_count; i++)
        any |= may_be_missing(rule->per[i]);
    return any && rule->missing == SL_MISSING_ANONYMOUS;
}

static void fill_use(const struct sl_build *b, const struct sl_rule *rule,
                     struct use *use)
{
    for (unsigned i = 0; i < rule->per_count; i++)
        use->scopes[i] = b->policy->identity.scope_names[rule->per[i]];
    use->use.scopes = use->scopes;
    use->use.scope_count = rule->per_count;
    use->use.windows = rule->kind == SL_FIXED;
    use->use.anonymous = falls_back(rule);
    use->context.env = b->policy->env;
    use->context.name = rule->name;
    use->context.use = &use->use;
}

/* A rule of a route, and the route's endpoint. */
struct pair {
    unsigned rule;
    struct sl_str endpoint;
};

static int by_rule_and_endpoint(const void *left, const void *right)
{
    const struct pair *a = left, *b = right;
    size_t len =
        a->endpoint.len < b->endpoint.len ? a->endpoint.len : b->endpoint.len;
    int order = (a->rule > b->rule) - (a->rule < b->rule);

    if (!order && len > 0)
        order = memcmp(a->endpoint.at, b->endpoint.at, len);
    if (order)
        return order;
    return (a->endpoint.len > b->endpoint.len) -
           (a->endpoint.len < b->endpoint.len);
}

static size_t add_pairs(const struct sl_route *route, struct pair *pairs)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        pairs[i] = (struct pair){route->rules[i]->index, route->endpoint};
    return route->rule_count;
}

/* Count the endpoints of each rule, and keep the name of one that is the only
 * one. */
static void count_endpoints(struct sl_build *b, struct use *uses)
{
    const struct sl_policy *policy = b->policy;
    size_t most = policy->fallback.rule_count, count = 0;
    struct pair *pairs;

    for (unsigned i = 0; i < policy->route_count; i++)
        most += policy->routes[i].rule_count;
    pairs = sl_build_borrow(b, most, sizeof(*pairs));
    if (!pairs)
        return;
    for (unsigned i = 0; i < policy->route_count; i++)
        count += add_pairs(&policy->routes[i], pairs + count);
    count += add_pairs(&policy->fallback, pairs + count);
    qsort(pairs, count, sizeof(*pairs), by_rule_and_endpoint);
    for (size_t i = 0; i < count; i++) {
        struct use *use = &uses[pairs[i].rule];

        if (i > 0 && by_rule_and_endpoint(&pairs[i - 1], &pairs[i]) == 0)
            continue;
        use->context.endpoint =
            use->use.endpoints++ ? SL_STR("") : pairs[i].endpoint;
        b->rules[pairs[i].rule].endpoint = use->context.endpoint;
    }
}

/* Where to say something about a rule's key. */
static struct sl_place key_place(const struct sl_build *b, unsigned rule)
{
    return b->keys[rule] ? SL_AT(b->keys[rule]) : b->rules[rule].place;
}

/* The first rule before `j` whose names could be j's too; -1 if there is none.
 * Two that are named by their own names never meet. */
static int find_meeting(const struct sl_build *b, const struct use *uses,
                        unsigned j)
{
    for (unsigned i = 0; i < j; i++)
        if (b->sound[i] && (b->keys[i] || b->keys[j]) &&
            sl_key_forms_meet(uses[i].form, uses[j].form))
            return (int)i;
    return -1;
}

/* False without memory. */
static bool find_forms(struct sl_build *b, struct use *uses)
{
    for (unsigned i = 0; i < b->policy->rule_count && !b->no_memory; i++) {
        uses[i].form =
            sl_key_form(&b->rules[i].key, &uses[i].context, b->scratch);
        b->no_memory |= uses[i].form == NULL;
    }
    return !b->no_memory;
}

static void check_keys(struct sl_build *b, struct use *uses)
{
    if (!find_forms(b, uses))
        return;
    for (unsigned j = 0; j < b->policy->rule_count; j++) {
        struct sl_diag diag = {0};
        int i, err;

        if (!b->sound[j])
            continue;
        err = sl_key_template_check(&b->rules[j].key, &uses[j].use, &diag);
        if (err)
            sl_report_diag(b->report, key_place(b, j), &diag);
        i = err ? -1 : find_meeting(b, uses, j);
        if (i >= 0)
            sl_hint(sl_report_error(
                        b->report, key_place(b, b->keys[j] ? j : (unsigned)i),
                        "Limits \"%s\" and \"%s\" could share state, because "
                        "their keys can be equal. Put {name} into both keys",
                        b->rules[i].name.at, b->rules[j].name.at),
                    "%s", SL_KEY_DEFAULT);
    }
}

/* ---- ways round ---- */

static bool is_per(const struct sl_rule *rule, unsigned scope)
{
    for (unsigned i = 0; i < rule->per_count; i++)
        if (rule->per[i] == scope)
            return true;
    return false;
}

/* Does somebody who lies about a header get another state of this rule? */
static bool is_keyed_by_fingerprint(const struct sl_rule *rule)
{
    return is_per(rule, SL_SCOPE_ANON) || falls_back(rule);
}

/* Does `guard` hold back an address whatever its callers say they are, at
 * least as firmly as `rule` does? */
static bool guards(const struct sl_build *b, const struct sl_rule *guard,
                   const struct sl_rule *rule)
{
    if (guard->per_count != 1 || guard->per[0] != SL_SCOPE_IP ||
        guard->mode > rule->mode)
        return false;
    return !guard->plans ||
           guard->plans[b->policy->plans.anonymous].form != SL_RATE_UNLIMITED;
}

/* Where `anonymous` is pass or deny, callers have a name; one that they lack
 * is stood in for by their address, so that only a limit that is kept per
 * fingerprint itself can be escaped. */
static bool is_escapable(const struct sl_route *route,
                         const struct sl_rule *rule)
{
    if (rule->mode == SL_MODE_OFF)
        return false;
    if (route->anonymous == SL_ANONYMOUS_LIMIT)
        return is_keyed_by_fingerprint(rule);
    return is_per(rule, SL_SCOPE_ANON);
}

/* A limit that callers can slip out of by changing a header needs another
 * beside it that they can't. */
static void check_guard(struct sl_build *b, const struct sl_route *route)
{
    for (unsigned i = 0; i < route->rule_count; i++) {
        const struct sl_rule *rule = route->rules[i];
        bool guarded = !is_escapable(route, rule);

        for (unsigned k = 0; !guarded && k < route->rule_count; k++)
            guarded = guards(b, route->rules[k], rule);
        if (guarded)
            continue;
        sl_report_error(b->report, route->place,
                        "Clients can avoid limit \"%s\": `anonymous` has a "
                        "header, and a client that changes it gets a new "
                        "allowance. Add an enforced limit with `per: ip`",
                        rule->name.at);
        return;
    }
}

static bool has_header(const struct sl_sources *sources)
{
    for (unsigned i = 0; i < sources->count; i++)
        if (sources->list[i].kind == SL_SOURCE_HEADER)
            return true;
    return false;
}

/* Not jobs: what is known of them is said by the service that asks, not by its
 * clients. */
static void check_guards(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;

    if (!has_header(&policy->identity.anonymous))
        return;
    for (unsigned i = 0; i < policy->route_count; i++)
        if (!policy->routes[i].is_job)
            check_guard(b, &policy->routes[i]);
    check_guard(b, &policy->fallback);
}

/* ---- stores ---- */

static void check_slots(struct sl_build *b)
{
    struct sl_place place;
    struct sl_diag diag = {0};

    if (sl_slots_choose(b->policy, b->rules, b->scratch))
        b->no_memory = true;
    else if (sl_slots_wanted(b->policy->server.store) &&
             sl_slots_check(b->policy, &place, &diag))
        sl_report_diag(b->report, place, &diag);
}

static void check_holds(struct sl_build *b)
{
    struct sl_place place;
    struct sl_diag diag = {0};

    if (sl_stores_lacks_holds(b->policy->server.store) &&
        sl_stores_check(b->policy, &place, &diag))
        sl_report_diag(b->report, place, &diag);
}

void sl_build_checks(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;
    struct use *uses =
        sl_build_borrow(b, policy->rule_count + 1, sizeof(*uses));

    if (!uses)
        return;
    for (unsigned i = 0; i < policy->rule_count; i++)
        fill_use(b, &policy->rules[i], &uses[i]);
    count_endpoints(b, uses);
    if (b->no_memory)
        return;
    check_keys(b, uses);
    check_guards(b);
    sl_build_sign_in(b);
    check_slots(b);
    check_holds(b);
    /* In a file with errors something may be idle because it is misspelt. */
    if (b->report->errors == 0)
        sl_build_warnings(b);
}
