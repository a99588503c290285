/* policy.c -- a policy's life: read, counted, asked, freed.
 *
 *     text --yaml--> nodes --schema--> checked nodes --build/--> policy
 *
 * Nodes live in an arena of their own and die when the policy is there.
 */
#include "policy/policy.h"

#include <string.h>

#include "policy/policy_int.h"
#include "policy/schema.h"

/* A hundred thousand nodes, and the texts of a file that has been filled in
 * from others. */
#define NODES_MAX ((size_t)64 << 20)

/* A thousand limits with numbers for 256 plans. */
#define POLICY_MAX ((size_t)256 << 20)

/* ---- life ---- */

static struct sl_policy_box *box_of(const struct sl_policy *policy)
{
    return (struct sl_policy_box *)(uintptr_t)policy;
}

static struct sl_policy_box *new_box(const struct sl_alloc *alloc)
{
    struct sl_policy_box *box = sl_alloc_new(alloc, sizeof(*box));

    if (!box)
        return NULL;
    memset(box, 0, sizeof(*box));
    box->alloc = *alloc;
    atomic_init(&box->refs, 1);
    sl_arena_init(&box->arena, POLICY_MAX, &box->alloc);
    return box;
}

static void free_box(struct sl_policy_box *box)
{
    struct sl_alloc alloc = box->alloc;

    for (struct sl_policy_zone *zone = box->zones; zone; zone = zone->next)
        sl_zone_done(&zone->zone, &alloc);
    sl_arena_done(&box->arena);
    sl_alloc_free(&alloc, box, sizeof(*box));
}

struct sl_policy *sl_policy_ref(struct sl_policy *policy)
{
    if (policy)
        atomic_fetch_add_explicit(&box_of(policy)->refs, 1,
                                  memory_order_relaxed);
    return policy;
}

void sl_policy_unref(struct sl_policy *policy)
{
    if (policy && atomic_fetch_sub_explicit(&box_of(policy)->refs, 1,
                                            memory_order_acq_rel) == 1)
        free_box(box_of(policy));
}

/* ---- reading ---- */

static void build_parts(struct sl_build *b)
{
    static void (*const parts[])(struct sl_build * b) = {
        sl_build_general,  sl_build_plans,    sl_build_identity,
        sl_build_features, sl_build_limits,   sl_build_routes,
        sl_build_errors,   sl_build_webhooks, sl_build_checks,
        sl_build_outside,
    };

    for (size_t i = 0; i < SL_LEN(parts) && !b->no_memory; i++)
        parts[i](b);
}

static int build(struct sl_policy_box *box, struct sl_arena *scratch,
                 struct sl_report *report,
                 const struct sl_policy_options *options)
{
    struct sl_build b = {
        .box = box,
        .policy = &box->policy,
        .arena = &box->arena,
        .scratch = scratch,
        .report = report,
        .options = options,
    };
    struct sl_yaml_node *root =
        sl_yaml_read(report, &options->substitute, scratch);

    if (root && !report->no_memory) {
        b.root = root;
        if (options->posted)
            sl_build_posted(&b, root);
        sl_schema_check(root, report);
        if (root->kind == SL_NODE_MAP)
            build_parts(&b);
    }
    if (b.no_memory || report->no_memory || (!root && !report->errors))
        return SLUICE_ENOMEM;
    return report->errors ? SLUICE_ECONF : 0;
}

int sl_policy_read(struct sl_report *report,
                   const struct sl_policy_options *options,
                   struct sl_policy **ret)
{
    static const struct sl_policy_options defaults;
    struct sl_policy_box *box;
    struct sl_arena scratch;
    int err;

    if (!options)
        options = &defaults;
    box = new_box(options->alloc ? options->alloc : &sl_alloc_libc);
    if (!box)
        return SLUICE_ENOMEM;
    sl_arena_init(&scratch, NODES_MAX, &box->alloc);
    err = build(box, &scratch, report, options);
    sl_arena_done(&scratch);
    if (err)
        free_box(box);
    else
        *ret = &box->policy;
    return err;
}

/* ---- asking ---- */

int sl_policy_plan(const struct sl_policy *policy, struct sl_str name)
{
    return sl_names_find(&box_of(policy)->plans, name);
}

int sl_policy_rule(const struct sl_policy *policy, struct sl_str name)
{
    return sl_names_find(&box_of(policy)->rules, name);
}

int sl_policy_feature(const struct sl_policy *policy, struct sl_str name)
{
    return sl_names_find(&box_of(policy)->features, name);
}

/* Does the route go by the local table, and has it the rule? */
static bool is_local_in(const struct sl_route *route,
                        const struct sl_rule *rule)
{
    bool local = route->failure == SL_FAILURE_LOCAL, has = false;

    for (unsigned i = 0; i < route->rule_count; i++) {
        has = has || route->rules[i] == rule;
        local = local || (route->failure < 0 &&
                          route->rules[i]->failure == SL_FAILURE_LOCAL);
    }
    return local && has;
}

bool sl_policy_is_local(const struct sl_policy *policy,
                        const struct sl_rule *rule)
{
    bool local = rule->failure == SL_FAILURE_LOCAL ||
                 is_local_in(&policy->fallback, rule);

    for (unsigned i = 0; i < policy->route_count && !local; i++)
        local = is_local_in(&policy->routes[i], rule);
    return local;
}

const struct sl_zone *sl_policy_date_zone(const struct sl_policy *policy)
{
    const struct sl_rule *first = NULL;

    for (unsigned i = 0; i < policy->rule_count; i++) {
        const struct sl_rule *rule = &policy->rules[i];

        if (rule->kind != SL_QUOTA ||
            (rule->limited && !rule->strictest.calendar))
            continue;
        if (first && !sl_str_eq(rule->zone_name, first->zone_name))
            return &sl_zone_utc;
        first = rule;
    }
    return first && first->options.zone ? first->options.zone : &sl_zone_utc;
}

int sl_policy_job(const struct sl_policy *policy, struct sl_str name,
                  unsigned from)
{
    if (from == 0)
        return sl_names_find(&box_of(policy)->jobs, name);
    for (unsigned i = from; i < policy->route_count; i++)
        if (policy->routes[i].is_job && sl_str_eq(policy->routes[i].job, name))
            return (int)i;
    return -1;
}

/* Those of other domains and other lengths are passed over quickly; of those
 * that are left every one is looked at. A tree would be worth it for thousands
 * of values under one key. */
int sl_policy_descriptor(const struct sl_policy *policy, struct sl_str domain,
                         const struct sl_descriptor_entry *entries,
                         unsigned count)
{
    for (unsigned i = 0; i < policy->descriptor_count; i++) {
        const struct sl_route *route = &policy->routes[policy->descriptors[i]];

        if (sl_descriptor_matches(&route->descriptor, domain, entries, count))
            return (int)route->index;
    }
    return -1;
}

/* ---- overrides ---- */

static int check_shape(const struct sl_rule *rule, struct sl_str text,
                       const struct sl_limit *numbers, struct sl_diag *diag)
{
    if (!rule->limited)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "Limit \"%s\" has no rate in any plan, so %s has no "
            "period to match",
            rule->name.at, sl_quote(text).text);
    if (sl_limit_shape(numbers) != sl_limit_shape(&rule->strictest))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "The period of %s differs from the plans of limit "
                             "\"%s\". The usage would be lost",
                             sl_quote(text).text, rule->name.at);
    return 0;
}

int sl_rule_rate(const struct sl_rule *rule, struct sl_str rate,
                 struct sl_plan_limit *ret, struct sl_diag *diag)
{
    struct sl_plan_limit limit = {.scale = rule->options.scale};
    struct sl_rate read;
    int err = sl_parse_rate(rate, &read, diag);

    if (err)
        return err;
    limit.form = read.form;
    if (sl_rate_has_numbers(read.form)) {
        err = sl_limit_init(&limit.numbers, rule->kind, &read, &rule->options,
                            diag);
        if (!err)
            err = check_shape(rule, rate, &limit.numbers, diag);
        if (!err)
            limit.numbers.cal.memo = rule->strictest.cal.memo;
        if (!err && rule->kind == SL_QUOTA)
            limit.open = sl_build_open(&limit.numbers);
    }
    if (!err)
        *ret = limit;
    return err;
}

const char *const sl_dedupe_field_words[4] = {"method", "path", "cost", "body"};

static bool is(struct sl_str name, struct sl_str header)
{
    return name.len > 0 && sl_str_eq_nocase(name, header);
}

bool sl_prechecks_read(const struct sl_prechecks *guards, struct sl_str header)
{
    const struct sl_dedupe *dedupe = &guards->dedupe;

    for (size_t i = 0; i < SL_LEN(guards->verify.names); i++)
        if (is(guards->verify.names[i], header))
            return true;
    for (unsigned i = 0; i < guards->require_count; i++)
        if (is(guards->requires[i].header, header) ||
            is(guards->requires[i].equals, header))
            return true;
    for (unsigned i = 0; i < guards->cost_count; i++)
        if (guards->costs[i].from == SL_COST_FROM_SIZE
                ? is(SL_STR("content-length"), header) ||
                      is(SL_STR("transfer-encoding"), header)
                : guards->costs[i].from == SL_COST_FROM_HEADER &&
                      is(guards->costs[i].source, header))
            return true;
    for (unsigned i = 0; i < dedupe->trait_count; i++)
        if (is(dedupe->traits[i].header, header))
            return true;
    for (unsigned i = 0; i < guards->guard.count; i++)
        if (guards->guard.pieces[i].header &&
            is(guards->guard.pieces[i].header->header, header))
            return true;
    return is(dedupe->header, header);
}

/* ---- how choices are written in a policy, by their values. */

const char *const sl_mode_words[3] = {"enforce", "shadow", "off"};
const char *const sl_forwarded_words[2] = {"x-forwarded-for", "forwarded"};
const char *const sl_failure_words[3] = {"allow", "local", "deny"};
