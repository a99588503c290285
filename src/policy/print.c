/* print.c -- a checked policy as text again.
 *
 * The order of the keys is that of the reference page. What is a list in the
 * language is printed as one even if a single name would do.
 */
#include <inttypes.h>
#include <stdio.h>

#include "policy/policy.h"
#include "policy/policy_int.h"

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

/* ---- `limits`: rules, and their rates as people write them.
 *
 * A rate has lost its words: 5/60s and 5/min are one, and so is a burst that
 * is the count and one that was not written. It gets the largest unit that
 * makes it exact, and its burst or queue in any case. Where days follow a
 * calendar, in quotas, 24 hours are no day.
 */

#define RATE_BYTES 96 /* three numbers of 20 digits, and words */

/* ---- rates ---- */

/* The largest unit of which the period is a multiple. */
static enum sl_unit unit_of(const struct sl_limit *limit)
{
    enum sl_unit unit = limit->kind == SL_QUOTA ? SL_UNIT_HOUR : SL_UNIT_DAY;

    while (unit > SL_UNIT_MS && limit->period % sl_unit_length(unit) != 0)
        unit--;
    return unit;
}

/* "5/min", "30/5min". */
static int print_per(const struct sl_limit *limit, char out[RATE_BYTES])
{
    static const enum sl_unit calendar[] = {
        [SL_CALENDAR_DAY] = SL_UNIT_DAY,
        [SL_CALENDAR_WEEK] = SL_UNIT_WEEK,
        [SL_CALENDAR_MONTH] = SL_UNIT_MONTH,
    };
    enum sl_unit unit =
        limit->calendar ? calendar[limit->cal.unit] : unit_of(limit);
    uint64_t every = limit->calendar
                         ? limit->cal.every
                         : (uint64_t)(limit->period / sl_unit_length(unit));

    if (every == 1)
        return snprintf(out, RATE_BYTES, "%" PRIu64 "/%s", limit->count,
                        sl_unit_name(unit));
    return snprintf(out, RATE_BYTES, "%" PRIu64 "/%" PRIu64 "%s", limit->count,
                    every, sl_unit_name(unit));
}

static struct sl_str print_rate(const struct sl_plan_limit *plan,
                                char out[RATE_BYTES])
{
    const struct sl_limit *limit = &plan->numbers;
    enum sl_kind kind = limit->kind;
    size_t len, size = RATE_BYTES;

    if (plan->form == SL_RATE_UNLIMITED)
        return SL_STR("unlimited");
    if (plan->form == SL_RATE_NONE)
        return SL_STR("none");
    if (plan->form == SL_RATE_PLAIN)
        len = (size_t)snprintf(out, size, "%" PRIu64, limit->count);
    else
        len = (size_t)print_per(limit, out);
    if (kind == SL_BUCKET || kind == SL_INTERVAL)
        snprintf(out + len, size - len, " burst %" PRIu64, limit->capacity);
    else if (kind == SL_LEAKY)
        snprintf(out + len, size - len, " queue %" PRIu64, limit->capacity - 1);
    return sl_str_c(out);
}

/* The rate of a plan whose line names an alias. */
static const struct sl_external_value *find_by_alias(const struct sl_printer *p,
                                                     unsigned plan)
{
    unsigned count;
    const struct sl_external_value *list = sl_print_below(p, &count);

    for (unsigned i = 0; i < count; i++) {
        struct sl_str name = sl_str_from(list[i].path, p->path_len + 1);

        if (sl_policy_plan(p->policy, name) == (int)plan)
            return &list[i];
    }
    return NULL;
}

static void print_plan_rate(struct sl_printer *p, unsigned i,
                            const struct sl_plan_limit *plan)
{
    struct sl_str name = p->policy->plans.list[i].name;
    const struct sl_external_value *from = sl_print_here(p);
    char rate[RATE_BYTES];

    if (!from)
        from = find_by_alias(p, i);
    if (from)
        sl_print_from(p, name, from);
    else
        sl_print_yaml(p, name, print_rate(plan, rate));
}

static void print_rates(struct sl_printer *p, const char *key,
                        const struct sl_plan_limit *list)
{
    const struct sl_plans *plans = &p->policy->plans;
    char rate[RATE_BYTES];

    if (!list)
        return;
    if (sl_print_only_plan(p)) {
        sl_print_yaml(p, sl_str_c(key), print_rate(&list[0], rate));
        return;
    }
    sl_print_open(p, sl_str_c(key));
    for (unsigned i = 0; i < plans->count; i++)
        print_plan_rate(p, i, &list[i]);
    sl_print_close(p);
}

/* ---- the rest ---- */

struct scopes {
    const struct sl_policy *policy;
    const struct sl_rule *rule;
};

static struct sl_str scope(const void *ctx, unsigned i,
                           char room[SL_PRINT_ITEM])
{
    const struct scopes *s = ctx;

    (void)room;
    return s->policy->identity.scope_names[s->rule->per[i]];
}

static void print_per_list(struct sl_printer *p, const struct sl_rule *rule)
{
    struct scopes scopes = {p->policy, rule};
    struct sl_print_list list = {
        .item = scope, .ctx = &scopes, .count = rule->per_count};

    sl_print_list(p, "per", &list);
}

/* A quota that no plan limits may have a calendar all the same. */
static bool has_calendar(const struct sl_rule *rule)
{
    return rule->kind == SL_QUOTA &&
           (!rule->limited || rule->strictest.calendar);
}

static void print_kind(struct sl_printer *p, enum sl_kind kind)
{
    sl_print_word(p, "kind", sl_kind_name(kind));
    if (kind == SL_BUCKET || kind == SL_INTERVAL)
        sl_print_word(p, "refill",
                      kind == SL_BUCKET ? "continuous" : "interval");
}

static struct sl_str mark_item(const void *ctx, unsigned i,
                               char room[SL_PRINT_ITEM])
{
    const struct sl_thresholds *marks = ctx;
    int len = snprintf(room, SL_PRINT_ITEM, "%u%%", marks->list[i]);

    return (struct sl_str){room, (size_t)len};
}

static void print_marks(struct sl_printer *p, const struct sl_rule *rule)
{
    struct sl_print_list list = {mark_item, &rule->marks, rule->marks.count,
                                 false};

    if (rule->kind == SL_QUOTA || rule->kind == SL_LEVEL)
        sl_print_list(p, "thresholds", &list);
}

static void print_counting(struct sl_printer *p, const struct sl_rule *rule)
{
    uint32_t anchor = rule->options.anchor;

    if (rule->fixed_cost)
        sl_print_number(p, "cost", rule->cost);
    if (rule->hold > 0)
        sl_print_duration(p, "hold", rule->hold);
    sl_print_number(p, "queue", rule->queue);
    print_marks(p, rule);
    if (rule->unit.len > 0)
        sl_print_text(p, "unit", rule->unit);
    if (rule->lease > 0) {
        char text[16];

        snprintf(text, sizeof(text), "%u%%", rule->lease);
        sl_print_text(p, "lease", sl_str_c(text));
    }
    if (!has_calendar(rule))
        return;
    sl_print_text(p, "zone", rule->zone_name);
    sl_print_number(p, "anchor", anchor ? anchor : 1);
}

static void print_deny(struct sl_printer *p, const struct sl_deny *deny)
{
    sl_print_open(p, SL_STR("deny"));
    sl_print_number(p, "status", (uint64_t)deny->status);
    sl_print_text(p, "code", deny->code);
    sl_print_message(p, "message", &deny->message);
    sl_print_close(p);
}

static void print_limit(struct sl_printer *p, const struct sl_rule *rule)
{

    sl_print_open(p, rule->name);
    print_kind(p, rule->kind);
    print_per_list(p, rule);
    sl_print_word(p, "missing", sl_missing_words[rule->missing]);
    print_rates(p, "rate", rule->plans);
    print_rates(p, "candidate", rule->candidates);
    print_counting(p, rule);
    sl_print_text(p, "key", rule->key_text);
    if (rule->mode != p->policy->mode || !sl_print_follows(p, "mode"))
        sl_print_word(p, "mode", sl_mode_words[rule->mode]);
    sl_print_word(p, "on_store_failure", sl_failure_words[rule->failure]);
    sl_print_word(p, "on_full", sl_full_words[rule->on_full]);
    if (rule->dialects >= 0)
        sl_print_dialects(p, rule->dialects);
    print_deny(p, &rule->deny);
    sl_print_close(p);
}

void sl_print_limits(struct sl_printer *p)
{
    if (p->policy->rule_count == 0)
        return;
    sl_print_open(p, SL_STR("limits"));
    for (unsigned i = 0; i < p->policy->rule_count; i++)
        print_limit(p, &p->policy->rules[i]);
    sl_print_close(p);
}

/* ---- what a route asks before its limits, as text again.
 *
 * A secret is never shown. What stands in for it is read back as one.
 */

/* "(a secret, which is not shown)" in base64, for all schemes alike. */
#define SECRET "whsec_KGEgc2VjcmV0LCB3aGljaCBpcyBub3Qgc2hvd24p"

static struct sl_str secret_of(const void *ctx, unsigned i,
                               char room[SL_PRINT_ITEM])
{
    (void)ctx;
    (void)i;
    (void)room;
    return SL_STR(SECRET);
}

static void print_verify(struct sl_printer *p, const struct sl_verify *verify)
{
    static const struct sl_external_value secret = {
        .written = {SECRET, sizeof(SECRET) - 1}
    };
    const struct sl_webhook_rules *rules = &verify->rules;
    struct sl_print_list list = {.item = secret_of,
                                 .count = rules->secret_count};

    if (!verify->written)
        return;
    sl_print_open(p, SL_STR("verify"));
    sl_print_word(p, "scheme", sl_webhook_words[rules->scheme]);
    if (list.count == 1)
        sl_print_from(p, SL_STR("secret"), &secret);
    else
        sl_print_list(p, "secret", &list);
    sl_print_duration(p, "tolerance", rules->tolerance);
    sl_print_text(p, "header", verify->header);
    sl_print_close(p);
}

static struct sl_str header_of(struct sl_str name, char room[SL_PRINT_ITEM])
{
    int len = snprintf(room, SL_PRINT_ITEM, "header.%.*s", SL_STR_ARG(name));

    return (struct sl_str){room, (size_t)len};
}

static struct sl_str trait_of(const void *ctx, unsigned i,
                              char room[SL_PRINT_ITEM])
{
    const struct sl_dedupe_field *trait =
        &((const struct sl_dedupe *)ctx)->traits[i];

    return trait->kind == SL_DEDUPE_FIELD_HEADER
               ? header_of(trait->header, room)
               : sl_str_c(sl_dedupe_field_words[trait->kind]);
}

static void print_dedupe(struct sl_printer *p, const struct sl_dedupe *dedupe)
{
    struct sl_print_list list = {
        .item = trait_of, .ctx = dedupe, .count = dedupe->trait_count};
    char room[SL_PRINT_ITEM];

    if (!dedupe->written)
        return;
    sl_print_open(p, SL_STR("dedupe"));
    sl_print_text(p, "key", header_of(dedupe->header, room));
    sl_print_duration(p, "life", dedupe->life);
    sl_print_number(p, "repeats", dedupe->repeats);
    sl_print_list(p, "fingerprint", &list);
    sl_print_close(p);
}

static void print_require(struct sl_printer *p,
                          const struct sl_require *require)
{
    char room[SL_PRINT_ITEM];

    sl_print_open(p, header_of(require->header, room));
    if (require->has_min)
        sl_print_number(p, "min", require->min);
    if (require->has_max)
        sl_print_number(p, "max", require->max);
    if (require->equals.len > 0)
        sl_print_text(p, "equals", header_of(require->equals, room));
    sl_print_bool(p, "required", !require->optional);
    sl_print_number(p, "status", (uint64_t)require->status);
    sl_print_text(p, "code", require->code);
    sl_print_message(p, "message", &require->message);
    sl_print_close(p);
}

static void print_backlog(struct sl_printer *p,
                          const struct sl_backlog *backlog)
{
    if (!backlog->written)
        return;
    sl_print_open(p, SL_STR("backlog"));
    sl_print_text(p, "name", p->policy->backlogs[backlog->index]);
    sl_print_number(p, "max", backlog->max);
    sl_print_duration(p, "retry_after", backlog->retry_after);
    sl_print_duration(p, "stale", backlog->stale);
    sl_print_close(p);
}

static void print_guard(struct sl_printer *p, const struct sl_guard *guard)
{
    if (!guard->written)
        return;
    sl_print_open(p, SL_STR("guard"));
    sl_print_text(p, "key", guard->text);
    sl_print_duration(p, "hold", guard->hold);
    sl_print_word(p, "missing", guard->skip ? "skip" : "deny");
    sl_print_close(p);
}

void sl_print_guards(struct sl_printer *p, const struct sl_prechecks *guards)
{
    if (!guards)
        return;
    print_verify(p, &guards->verify);
    if (guards->require_count > 0)
        sl_print_open(p, SL_STR("require"));
    for (unsigned i = 0; i < guards->require_count; i++)
        print_require(p, &guards->requires[i]);
    if (guards->require_count > 0)
        sl_print_close(p);
    print_backlog(p, &guards->backlog);
    print_dedupe(p, &guards->dedupe);
    print_guard(p, &guards->guard);
}
