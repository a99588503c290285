/* fuzz_policy.c -- whole policies.
 *
 *   (1) A file is read, or it is refused with at least one error; one with
 *       errors is never read.
 *   (2) Every problem says something fit to be printed, and lies in the file.
 *   (3) What is read can be used: indices are in range, and names are found
 *       again.
 *   (4) All memory is given back, in the size in which it was taken.
 */
#include "fuzz.h"

#include "policy/policy.h"

/* libfyaml 0.7.12 forgets its own list of the parts of a scalar that has many
 * escapes. What is ours is counted. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml.so\n";
}

static const char *env(void *ctx, const char *name)
{
    (void)ctx;
    return name[0] == 'F' ? NULL : "5/min";
}

static void use_rule(const struct sl_policy *policy, unsigned i)
{
    const struct sl_rule *rule = &policy->rules[i];
    struct sl_plan_limit limit;

    MUST(rule->index == i && rule->kind < SL_KINDS);
    MUST(rule->per_count <= SL_PER_MAX && rule->plans && rule->cost > 0);
    MUST(sl_policy_rule(policy, rule->name) == (int)i);
    for (unsigned k = 0; k < rule->per_count; k++)
        MUST(rule->per[k] < policy->identity.scope_count);
    MUST(sl_rule_rate(rule, SL_STR("unlimited"), &limit, NULL) == 0);
    for (unsigned k = 0; k < policy->plans.count; k++) {
        const struct sl_plan_limit *plan = &rule->plans[k];

        if (!sl_rate_has_numbers(plan->form))
            continue;
        MUST(rule->limited && plan->numbers.kind == rule->kind);
        MUST(rule->strictest.count <= plan->numbers.count);
        MUST(rule->strictest.capacity <= plan->numbers.capacity);
        MUST(sl_limit_shape(&rule->strictest) ==
             sl_limit_shape(&plan->numbers));
    }
}

static void use_route(const struct sl_policy *policy,
                      const struct sl_route *route)
{
    MUST(route->rule_count <= SL_PARTS && route->endpoint.len > 0);
    MUST(route->report < (int)route->rule_count);
    MUST(route->quota < (int)route->rule_count);
    MUST(route->feature == SL_NO_FEATURE ||
         route->feature < policy->feature_count);
    if (route->is_job)
        MUST(sl_policy_job(policy, route->job, 0) == (int)route->index);
}

static void use(const struct sl_policy *policy)
{
    char room[8] = "/a/b";
    struct sl_path path;
    unsigned found;

    MUST(policy->plans.fallback < policy->plans.count);
    MUST(policy->plans.anonymous < policy->plans.count);
    for (unsigned i = 0; i < policy->plans.count; i++)
        MUST(sl_policy_plan(policy, policy->plans.list[i].name) == (int)i);
    for (unsigned i = 0; i < policy->rule_count; i++)
        use_rule(policy, i);
    for (unsigned i = 0; i < policy->route_count; i++)
        use_route(policy, &policy->routes[i]);
    use_route(policy, &policy->fallback);
    sl_path_read(SL_STR("/a/b"), room, &path);
    found = sl_routes_find(policy->tree, SL_METHOD_GET, &path, 0);
    MUST(found == SL_NO_ROUTE || found < policy->route_count);
}

static void must_print(const struct sl_report *report)
{
    struct sl_buf out;

    for (unsigned i = 0; i < report->kept; i++)
        must_explain(&report->problems[i].diag, SIZE_MAX); /* (2) */
    sl_buf_init(&out, (size_t)1 << 20, &fuzz_alloc);
    MUST(sl_report_print(report, &out) == 0);
    sl_buf_done(&out);
}

void fuzz_policy(struct sl_str text)
{
    struct sl_policy_options options = {.alloc = &fuzz_alloc,
                                        .substitute.env = env};
    struct sl_policy *policy = NULL;
    struct sl_report report;
    int err;

    sl_report_init(&report, "fuzz.yaml", text, &fuzz_alloc);
    err = sl_policy_read(&report, &options, &policy);
    MUST(err == 0 || err == SLUICE_ECONF);
    MUST((err == 0) == (report.errors == 0) &&
         (err == 0) == !!policy); /* (1) */
    must_print(&report);
    if (policy)
        use(policy); /* (3) */
    sl_policy_unref(policy);
    sl_report_done(&report);
}
