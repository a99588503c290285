/* sign_in.c -- `sign_in`: may what was used before be carried, or capped?
 *
 * carry  The key that stood in for the name is looked at beside the name's, and
 *        both must end together. In a bucket, a pace or a sliding window they
 *        would not: each flows back by itself, and no retry that is told would
 *        be right. Refused rather than told wrong.
 * cap    Limits kept per address count everybody who comes from it, also those
 *        whose plan has no number there: they have the visitors'.
 */
#include "policy/build/build.h"

static bool has_ip(const struct sl_sources *sources)
{
    for (unsigned i = 0; i < sources->count; i++)
        if (sources->list[i].kind == SL_SOURCE_IP)
            return true;
    return false;
}

/* Is the rule kept by something in place of a name that is missing? */
static bool stands_in(const struct sl_rule *rule)
{
    for (unsigned i = 0; i < rule->per_count; i++)
        if (rule->per[i] != SL_SCOPE_IP && rule->per[i] != SL_SCOPE_ANON &&
            rule->per[i] != SL_SCOPE_ENDPOINT)
            return rule->missing == SL_MISSING_ANONYMOUS &&
                   rule->mode != SL_MODE_OFF;
    return false;
}

static bool ends_at_once(const struct sl_rule *rule)
{
    return rule->kind == SL_FIXED || rule->kind == SL_QUOTA ||
           rule->kind == SL_KINDS; /* what is wrong with it was said */
}

static void refuse_kind(struct sl_build *b, const struct sl_route *route,
                        const struct sl_rule *rule)
{
    sl_hint(sl_report_error(b->report, route->place,
                            "`sign_in: carry` cannot carry the usage of limit "
                            "\"%s\", because the usage of a %s decays "
                            "gradually. Make it a fixed-window or a quota",
                            rule->name.at, sl_kind_name(rule->kind)),
            "sign_in: cap");
}

/* And mark what it carries to. */
static void check_carry(struct sl_build *b, const struct sl_route *route)
{
    unsigned carried = 0;

    if (!has_ip(&b->policy->identity.anonymous))
        sl_report_error(b->report, route->place,
                        "`sign_in: carry` could carry the usage of other "
                        "clients that send the same headers. Put ip into "
                        "identity: anonymous");
    for (unsigned i = 0; i < route->rule_count; i++) {
        const struct sl_rule *rule = route->rules[i];

        if (!stands_in(rule))
            continue;
        carried++;
        b->rules[rule->index].carried = true;
        if (!ends_at_once(rule))
            refuse_kind(b, route, rule);
    }
    if (carried == 0 || route->anonymous != SL_ANONYMOUS_LIMIT)
        sl_report_error(b->report, route->place,
                        "`sign_in: carry` has nothing to carry. No limit of "
                        "the route counts callers without identity in place "
                        "of users");
    else if (route->rule_count + carried > SL_PARTS)
        sl_report_error(b->report, route->place,
                        "%u limits, and the usage carried to %u of them, are "
                        "too many for one route. The maximum is %d",
                        route->rule_count, carried, SL_PARTS);
}

/* Does it hold an address, whoever comes from there? */
static bool caps(const struct sl_build *b, const struct sl_rule *rule)
{
    return rule->per_count == 1 && rule->per[0] == SL_SCOPE_IP &&
           rule->mode != SL_MODE_OFF &&
           (!rule->plans ||
            rule->plans[b->policy->plans.anonymous].form != SL_RATE_UNLIMITED);
}

static void check_cap(struct sl_build *b, const struct sl_route *route)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        if (caps(b, route->rules[i]))
            return;
    sl_report_error(b->report, route->place,
                    "`sign_in: cap` needs a limit with `per: ip` that has a "
                    "number for callers without identity");
}

void sl_build_sign_in(struct sl_build *b)
{
    for (unsigned i = 0; i < b->policy->route_count; i++) {
        const struct sl_route *route = &b->policy->routes[i];

        if (route->sign_in == SL_SIGN_IN_CARRY)
            check_carry(b, route);
        else if (route->sign_in == SL_SIGN_IN_CAP)
            check_cap(b, route);
    }
}
