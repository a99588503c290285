/* print.c -- a checked policy as text again.
 *
 * The order of the keys is that of the reference page. What is a list in the
 * language is printed as one even if a single name would do.
 */
#include "policy/print.h"

#include <stdio.h>

#include "policy/print/printer.h"

/* ---- lists ---- */

static struct sl_str text_of(const void *ctx, unsigned i,
                             char room[SL_PRINT_ITEM])
{
    const struct sl_str *list = ctx;

    (void)room;
    return list[i];
}

static void print_texts(struct sl_printer *p, const char *key,
                        const struct sl_str *texts, unsigned count)
{
    struct sl_print_list list = {.item = text_of, .ctx = texts, .count = count};

    sl_print_list(p, key, &list);
}

static struct sl_str rule_of(const void *ctx, unsigned i,
                             char room[SL_PRINT_ITEM])
{
    const struct sl_route *route = ctx;

    (void)room;
    return route->rules[i]->name;
}

static void print_rules(struct sl_printer *p, const char *key,
                        const struct sl_route *route)
{
    struct sl_print_list list = {
        .item = rule_of, .ctx = route, .count = route->rule_count};

    sl_print_list(p, key, &list);
}

/* ---- plans ---- */

bool sl_print_only_plan(const struct sl_printer *p)
{
    const struct sl_plans *plans = &p->policy->plans;

    return plans->count == 1 &&
           sl_str_eq(plans->list[0].name, SL_STR("default"));
}

static void print_plans(struct sl_printer *p)
{
    const struct sl_plans *plans = &p->policy->plans;

    sl_print_open(p, SL_STR("plans"));
    sl_print_text(p, "default", plans->list[plans->fallback].name);
    if (plans->anonymous != plans->fallback ||
        !sl_print_at(p, SL_STR("default")) ||
        sl_print_at(p, SL_STR("anonymous")))
        sl_print_text(p, "anonymous", plans->list[plans->anonymous].name);
    sl_print_word(p, "unknown_plan", plans->deny_unknown ? "deny" : "default");
    for (unsigned i = 0; !sl_print_only_plan(p) && i < plans->count; i++) {
        const struct sl_plan *plan = &plans->list[i];

        sl_print_open(p, plan->name);
        print_texts(p, "aliases", plan->aliases, plan->alias_count);
        sl_print_bool(p, "overage", plan->overage);
        sl_print_number(p, "weight", plan->weight);
        sl_print_close(p);
    }
    sl_print_close(p);
}

/* ---- identity ---- */

/* IPv4 networks are counted from the 96th bit on. */
static struct sl_str net_of(const void *ctx, unsigned i,
                            char room[SL_PRINT_ITEM])
{
    const struct sl_net *net = &((const struct sl_net *)ctx)[i];
    unsigned before = sl_ip_is_v4(&net->ip) ? 96 : 0;
    size_t len = sl_ip_print(&net->ip, room);

    if (net->bits < 128)
        len += (size_t)snprintf(room + len, SL_PRINT_ITEM - len, "/%u",
                                net->bits - before);
    return (struct sl_str){room, len};
}

static void print_subjects(struct sl_printer *p)
{
    const struct sl_plan_query *query = &p->policy->identity.subjects;

    if (query->text.len == 0)
        return;
    sl_print_open(p, SL_STR("subjects"));
    sl_print_text(p, "query", query->text);
    if (query->scope != SL_ASKED_ANY)
        sl_print_word(p, "scope",
                      query->scope == SL_ASKED_ORG ? "org" : "user");
    sl_print_duration(p, "life", query->life);
    sl_print_close(p);
}

static void print_identity(struct sl_printer *p)
{
    const struct sl_identity *identity = &p->policy->identity;
    struct sl_print_list nets = {.item = net_of,
                                 .ctx = identity->trusted,
                                 .count = identity->trusted_count};

    sl_print_open(p, SL_STR("identity"));
    sl_print_sources(p, "user", &identity->scopes[SL_SCOPE_USER]);
    sl_print_sources(p, "org", &identity->scopes[SL_SCOPE_ORG]);
    sl_print_sources(p, "plan", &identity->plan);
    sl_print_sources(p, "role", &identity->role);
    sl_print_sources(p, "anonymous", &identity->anonymous);
    for (unsigned i = SL_SCOPE_NAMED; i < identity->scope_count; i++)
        sl_print_sources(p, identity->scope_names[i].at, &identity->scopes[i]);
    sl_print_list(p, "trusted_proxies", &nets);
    if (identity->forwarded != SL_FORWARDED_X_FOR ||
        sl_print_at(p, SL_STR("forwarded")))
        sl_print_word(p, "forwarded", sl_forwarded_words[identity->forwarded]);
    sl_print_number(p, "ipv6_prefix", identity->ipv6_prefix);
    sl_print_word(p, "unknown_subject",
                  sl_unknown_words[identity->unknown_subject]);
    sl_print_jwt(p);
    print_subjects(p);
    sl_print_close(p);
}

/* ---- routes ---- */

static struct sl_str part_of(const void *ctx, unsigned i,
                             char room[SL_PRINT_ITEM])
{
    const struct sl_descriptor *d = ctx;
    const struct sl_descriptor_part *part = &d->parts[i > 0 ? i - 1 : 0];
    struct sl_str end = part->value;

    (void)room;
    if (i == 0)
        return d->domain;
    if (part->kind == SL_PART_REST)
        return SL_STR("**");
    /* The key, what is between, and the value stand in a row as written. */
    if (part->kind == SL_PART_ANY)
        return part->key;
    return (struct sl_str){part->key.at,
                           (size_t)(end.at + end.len - part->key.at)};
}

static void print_descriptor(struct sl_printer *p, const struct sl_route *route)
{
    struct sl_print_list list = {.item = part_of,
                                 .ctx = &route->descriptor,
                                 .count = route->descriptor.count + 1};

    sl_print_list(p, "descriptor", &list);
    if (route->names_endpoint)
        sl_print_text(p, "endpoint", route->endpoint);
}

static struct sl_str replaced_of(const void *ctx, unsigned i,
                                 char room[SL_PRINT_ITEM])
{
    const struct sl_route *route = ctx;

    (void)room;
    return route->replaces[i]->name;
}

static void print_replaced(struct sl_printer *p, const struct sl_route *route)
{
    struct sl_print_list list = {
        .item = replaced_of, .ctx = route, .count = route->replace_count};

    sl_print_list(p, "replaces", &list);
}

static void print_target(struct sl_printer *p, const struct sl_route *route)
{
    const char *key = route->is_job ? "job" : "match";

    if (route->is_descriptor) {
        print_descriptor(p, route);
        return;
    }
    sl_print_text(p, key, route->is_job ? route->job : route->text);
    if (route->names_endpoint || !sl_print_at(p, sl_str_c(key)))
        sl_print_text(p, "endpoint", route->endpoint);
}

/* How it is answered, where the policy as a whole does not say so. */
static void print_answer(struct sl_printer *p, const struct sl_route *route)
{
    const struct sl_policy *policy = p->policy;

    if (route->dialects != policy->dialects || !sl_print_follows(p, "headers"))
        sl_print_dialects(p, route->dialects);
    if (route->reset != policy->reset || !sl_print_follows(p, "reset"))
        sl_print_word(p, "reset", sl_reset_words[route->reset]);
    if (route->count != SL_COUNT_ALL)
        sl_print_word(p, "count", sl_count_words[route->count]);
    if (route->replace_count > 0)
        print_replaced(p, route);
    if (route->wait > 0)
        sl_print_duration(p, "wait", route->wait);
    if (route->failure >= 0)
        sl_print_word(p, "on_store_failure", sl_failure_words[route->failure]);
    if (route->apart || sl_print_at(p, SL_STR("atomic")))
        sl_print_bool(p, "atomic", !route->apart);
}

static void print_route(struct sl_printer *p, const struct sl_route *route)
{
    const struct sl_rule *const *rules = route->rules;

    sl_print_open_item(p, route->index);
    print_target(p, route);
    sl_print_word(p, "anonymous", sl_anonymous_words[route->anonymous]);
    if (route->sign_in != SL_SIGN_IN_FRESH || sl_print_at(p, SL_STR("sign_in")))
        sl_print_word(p, "sign_in", sl_sign_in_words[route->sign_in]);
    if (route->feature != SL_NO_FEATURE)
        sl_print_text(p, "feature", p->policy->features[route->feature].name);
    if (route->role_count > 0)
        print_texts(p, "roles", route->roles, route->role_count);
    sl_print_guards(p, route->guards);
    print_rules(p, "limits", route);
    if (route->report >= 0)
        sl_print_text(p, "report", rules[route->report]->name);
    if (route->quota >= 0)
        sl_print_text(p, "quota", rules[route->quota]->name);
    print_answer(p, route);
    sl_print_close_item(p);
}

/* A policy without routes has none on purpose: its limits are taken by name.
 * An empty list would be taken for something that was forgotten. */
static void print_routes(struct sl_printer *p)
{
    const struct sl_policy *policy = p->policy;

    if (policy->route_count > 0) {
        sl_print_open(p, SL_STR("routes"));
        for (unsigned i = 0; i < policy->route_count; i++)
            print_route(p, &policy->routes[i]);
        sl_print_close(p);
    }
    if (policy->route_count > 0 || policy->fallback.rule_count > 0)
        print_rules(p, "default", &policy->fallback);
}

/* ---- features and errors ---- */

static void print_features(struct sl_printer *p)
{
    if (p->policy->feature_count == 0)
        return;
    sl_print_open(p, SL_STR("features"));
    for (unsigned i = 0; i < p->policy->feature_count; i++) {
        const struct sl_feature *feature = &p->policy->features[i];

        sl_print_open(p, feature->name);
        sl_print_bool(p, "enabled", feature->enabled);
        sl_print_message(p, "message", &feature->message);
        if (feature->retry_after != SL_NS_NONE)
            sl_print_duration(p, "retry_after", feature->retry_after);
        sl_print_close(p);
    }
    sl_print_close(p);
}

static bool is_written(const struct sl_error_form *form)
{
    return form->status != 0 || form->has_body;
}

static void print_errors(struct sl_printer *p)
{
    static const char *const names[SL_ERRORS] = {
        [SL_ERROR_RATE_LIMITED] = "rate_limited",
        [SL_ERROR_PLAN_LIMIT] = "plan_limit",
        [SL_ERROR_FORBIDDEN] = "forbidden",
        [SL_ERROR_UNAUTHORIZED] = "unauthorized",
        [SL_ERROR_CONFLICT] = "conflict",
        [SL_ERROR_UNAVAILABLE] = "unavailable",
    };
    bool any = false;

    for (int i = 0; i < SL_ERRORS; i++)
        any |= is_written(&p->policy->errors[i]);
    if (!any)
        return;
    sl_print_open(p, SL_STR("errors"));
    for (int i = 0; i < SL_ERRORS; i++) {
        const struct sl_error_form *form = &p->policy->errors[i];

        if (!is_written(form))
            continue;
        sl_print_open(p, sl_str_c(names[i]));
        if (form->status != 0)
            sl_print_number(p, "status", (uint64_t)form->status);
        if (form->has_body)
            sl_print_yaml(p, SL_STR("body"), form->printed);
        sl_print_close(p);
    }
    sl_print_close(p);
}

/* ---- all of it ---- */

int sl_policy_print(const struct sl_policy *policy, struct sl_buf *out)
{
    struct sl_printer p = {.policy = policy, .out = out};
    size_t before = out->len;

    sl_print_word(&p, "sluice", "1");
    sl_print_text(&p, "env", policy->env);
    sl_print_bool(&p, "enabled", policy->enabled);
    sl_print_word(&p, "mode", sl_mode_words[policy->mode]);
    sl_print_dialects(&p, policy->dialects);
    sl_print_word(&p, "reset", sl_reset_words[policy->reset]);
    sl_print_duration(&p, "hold_max", policy->hold_max);
    print_plans(&p);
    print_identity(&p);
    sl_print_limits(&p);
    print_routes(&p);
    print_features(&p);
    print_errors(&p);
    sl_print_server(&p);
    if (p.err)
        out->len = before;
    return p.err;
}
