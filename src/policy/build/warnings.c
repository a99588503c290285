/* warnings.c -- what is allowed, but was perhaps not meant. */
#include "policy/build/build.h"

/* ---- limits ---- */

/* Which rules a route, or `default`, takes from. */
static bool *find_used(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;
    bool *used = sl_build_borrow(b, policy->rule_count + 1, sizeof(*used));

    if (!used)
        return NULL;
    for (unsigned i = 0; i < policy->fallback.rule_count; i++)
        used[policy->fallback.rules[i]->index] = true;
    for (unsigned i = 0; i < policy->route_count; i++)
        for (unsigned k = 0; k < policy->routes[i].rule_count; k++)
            used[policy->routes[i].rules[k]->index] = true;
    return used;
}

/* Not where there are no routes: there, limits are taken by name. What limits
 * nobody is there to be metered. */
static void warn_of_idle(struct sl_build *b, const struct sl_rule *rule)
{
    if (rule->limited &&
        (sl_node_get(b->root, "routes") || sl_node_get(b->root, "default")))
        sl_report_warning(b->report, rule->place, "No route uses limit \"%s\"",
                          rule->name.at);
}

/* A request takes, and it is not its end that gives back. */
static void warn_of_levels(struct sl_build *b, const struct sl_rule *rule)
{
    if (rule->mode != SL_MODE_OFF && rule->kind == SL_LEVEL)
        sl_report_warning(b->report, rule->place,
                          "Units taken from level \"%s\" stay taken until "
                          "their hold is released or the level is reset",
                          rule->name.at);
}

static void warn_of_sharing(struct sl_build *b, const struct sl_node *limit,
                            const struct sl_rule *rule)
{
    if (!sl_node_get(limit, "per"))
        sl_hint(sl_report_warning(b->report, rule->place,
                                  "Limit \"%s\" has no `per`, so all callers "
                                  "share one allowance. If this is intended, "
                                  "write it explicitly",
                                  rule->name.at),
                "per: []");
}

static void warn_of_limits(struct sl_build *b)
{
    const struct sl_node *limits = sl_node_get(b->root, "limits");
    const struct sl_node *node = limits ? limits->child : NULL;
    const bool *used = find_used(b);

    for (unsigned i = 0; used && i < b->policy->rule_count && node; i++) {
        warn_of_sharing(b, node, &b->rules[i]);
        if (used[i])
            warn_of_levels(b, &b->rules[i]);
        else
            warn_of_idle(b, &b->rules[i]);
        node = node->next;
    }
}

/* ---- routes ---- */

/* `report` or `quota`. With the whole policy in shadow mode every limit is, for
 * the time being. */
static void warn_of_pick(struct sl_build *b, const struct sl_node *node,
                         const char *key, const struct sl_rule *rule)
{
    const struct sl_node *pick = sl_build_scalar(node, key);

    if (pick && rule->mode != SL_MODE_ENFORCE &&
        b->policy->mode == SL_MODE_ENFORCE)
        sl_report_warning(b->report, SL_AT(pick),
                          "`%s` is ignored. Limit \"%s\" has mode %s, and "
                          "only enforced limits are shown",
                          key, rule->name.at,
                          rule->mode == SL_MODE_OFF ? "off" : "shadow");
}

static void warn_of_routes(struct sl_build *b)
{
    const struct sl_node *routes = sl_node_get(b->root, "routes");
    const struct sl_node *node = routes ? routes->child : NULL;

    for (unsigned i = 0; i < b->policy->route_count && node; i++) {
        const struct sl_route *route = &b->policy->routes[i];

        if (!sl_node_get(node, "limits"))
            sl_hint(sl_report_warning(b->report, route->place,
                                      "The route has no `limits`, so its "
                                      "requests are not limited. If this is "
                                      "intended, write it explicitly"),
                    "limits: []");
        if (route->report >= 0)
            warn_of_pick(b, node, "report", route->rules[route->report]);
        if (route->quota >= 0)
            warn_of_pick(b, node, "quota", route->rules[route->quota]);
        node = node->next;
    }
}

static bool takes_all(const struct sl_route *route)
{
    return !route->is_job && route->pattern.methods == SL_METHOD_ANY &&
           route->pattern.count == 1 &&
           route->pattern.segments[0].kind == SL_SEGMENT_REST;
}

static void warn_of_default(struct sl_build *b)
{
    const struct sl_policy *policy = b->policy;

    if (policy->fallback.rule_count > 0)
        return;
    for (unsigned i = 0; i < policy->route_count; i++)
        if (takes_all(&policy->routes[i]))
            return;
    sl_report_warning(b->report, policy->fallback.place,
                      "Requests that match no route are not limited, because "
                      "`default` names no limits");
}

void sl_build_warnings(struct sl_build *b)
{
    warn_of_default(b);
    warn_of_routes(b);
    warn_of_limits(b);
}
