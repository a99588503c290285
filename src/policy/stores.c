/* stores.c -- what a policy needs that not every store has. */
#include "policy/stores.h"

#include <string.h>

static int check_rule(const struct sl_rule *rule, struct sl_diag *diag)
{
    int err;

    if (rule->kind != SL_PERMITS || rule->mode == SL_MODE_OFF)
        return 0;
    err = sl_diag_error(
        diag, SLUICE_ECONF,
        "limit \"%s\" is of the kind concurrency, and its permits "
        "are holds, which a store in DynamoDB does not have; keep "
        "it in memory or in Redis, or count what exists by the "
        "kind level",
        rule->name.at);
    sl_diag_hint(diag, "kind: level");
    return err;
}

static int check_route(const struct sl_route *route, struct sl_diag *diag)
{
    if (!route->guards || !route->guards->guard.written)
        return 0;
    return sl_diag_error(
        diag, SLUICE_ECONF,
        "a guard is a hold, which a store in DynamoDB does not "
        "have; leave guard out, or keep the policy in memory or "
        "in Redis");
}

int sl_store_support_check(const struct sl_policy *policy,
                           struct sl_source_pos *place, struct sl_diag *diag)
{
    int err = 0;

    for (unsigned i = 0; i < policy->rule_count && !err; i++) {
        *place = policy->rules[i].place;
        err = check_rule(&policy->rules[i], diag);
    }
    for (unsigned i = 0; i < policy->route_count && !err; i++) {
        *place = policy->routes[i].place;
        err = check_route(&policy->routes[i], diag);
    }
    return err;
}

bool sl_store_support_lacks_holds(struct sl_str store)
{
    static const char scheme[] = "dynamodb://";

    return store.len >= strlen(scheme) &&
           memcmp(store.at, scheme, strlen(scheme)) == 0;
}
