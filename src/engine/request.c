/* facts.c -- which facts of a request a policy can use at all. */
#include "engine/request.h"

struct sl_str sl_request_single(const struct sl_request *facts,
                                struct sl_str name)
{
    struct sl_str value = {NULL, 0};
    unsigned count = 0;

    for (unsigned i = 0; i < facts->header_count; i++)
        if (sl_str_eq_nocase(facts->headers[i].name, name) && count++ == 0)
            value = facts->headers[i].value;
    return count == 1 ? value : (struct sl_str){NULL, 0};
}

static bool names(const struct sl_sources *sources, struct sl_str header)
{
    for (unsigned i = 0; i < sources->count; i++) {
        const struct sl_source *source = &sources->list[i];

        if (source->kind == SL_SOURCE_HEADER &&
            sl_str_eq_nocase(source->name, header))
            return true;
        if (source->kind == SL_SOURCE_COOKIE &&
            sl_str_eq_nocase(SL_STR("cookie"), header))
            return true;
    }
    return false;
}

bool sl_request_wanted(const struct sl_policy *policy, struct sl_str header)
{
    static const struct sl_str always[] = {
        {"x-request-id",                  12},
        {"origin",                        6 },
        {"access-control-request-method", 29},
    };
    const struct sl_identity *identity = &policy->identity;

    for (size_t i = 0; i < SL_LEN(always); i++)
        if (sl_str_eq_nocase(always[i], header))
            return true;
    for (unsigned s = 0; s < identity->scope_count; s++)
        if (names(&identity->scopes[s], header))
            return true;
    for (const struct sl_prechecks *g = policy->guarded; g; g = g->next)
        if (sl_prechecks_read(g, header))
            return true;
    return names(&identity->plan, header) || names(&identity->role, header) ||
           names(&identity->anonymous, header) ||
           names(&identity->jwt.from, header);
}

/* The limit that was meant by `typo`, or NULL. */
static const struct sl_rule *nearest(const struct sl_policy *policy,
                                     struct sl_str typo)
{
    const struct sl_rule *best = NULL;
    unsigned least = UINT32_MAX;

    for (unsigned i = 0; i < policy->rule_count; i++) {
        const struct sl_rule *rule = &policy->rules[i];
        unsigned far = sl_str_distance(typo, rule->name, 3);

        if (far < least && sl_str_nearest(typo, &rule->name.at, 1)) {
            least = far;
            best = rule;
        }
    }
    return best;
}

static int check_name(const struct sl_policy *policy, struct sl_str name,
                      struct sl_diag *diag)
{
    const struct sl_rule *meant;

    if (sl_policy_rule(policy, name) >= 0)
        return 0;
    meant = nearest(policy, name);
    if (meant)
        return sl_diag_error(diag, SLUICE_ENOENT,
                             "the policy has no limit \"%.*s\"; did you mean "
                             "\"%.*s\"?",
                             SL_STR_ARG(name), SL_STR_ARG(meant->name));
    return sl_diag_error(diag, SLUICE_ENOENT,
                         "the policy has no limit \"%.*s\"", SL_STR_ARG(name));
}

int sl_request_check(const struct sl_policy *policy,
                     const struct sl_request *facts, struct sl_diag *diag)
{
    int err = 0;

    for (unsigned i = 0; !err && i < facts->cost_count; i++)
        err = check_name(policy, facts->costs[i].limit, diag);
    for (unsigned i = 0; !err && i < facts->override_count; i++)
        err = check_name(policy, facts->overrides[i].limit, diag);
    return err;
}
