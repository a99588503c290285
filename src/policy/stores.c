/* stores.c -- what a policy needs that not every store has. */
#include "policy/stores.h"

#include <string.h>

static int check_rule(const struct sl_rule *rule, struct sl_diag *diag)
{
    int err;

    if (rule->kind != SL_PERMITS || rule->mode == SL_MODE_OFF)
        return 0;
    err = sl_refuse(diag, SLUICE_ECONF,
                    "Limit \"%s\" has the kind concurrency, and a DynamoDB "
                    "store does not support its holds. Use a store in memory "
                    "or in Redis, or use the kind level",
                    rule->name.at);
    sl_hint(diag, "kind: level");
    return err;
}

static int check_route(const struct sl_route *route, struct sl_diag *diag)
{
    if (!route->guards || !route->guards->guard.written)
        return 0;
    return sl_refuse(diag, SLUICE_ECONF,
                     "A guard is a hold, and a DynamoDB store does not "
                     "support holds. Leave `guard` out, or use a store in "
                     "memory or in Redis");
}

int sl_stores_check(const struct sl_policy *policy, struct sl_place *place,
                    struct sl_diag *diag)
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

bool sl_stores_lacks_holds(struct sl_str store)
{
    static const char scheme[] = "dynamodb://";

    return store.len >= strlen(scheme) &&
           memcmp(store.at, scheme, strlen(scheme)) == 0;
}
