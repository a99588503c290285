/* cluster_slots.c -- where the states of a policy lie in a Redis Cluster.
 *
 * Rules that a route takes together are put into one group, and a group has
 * the scopes that all of its rules are kept per. A route whose groups have none
 * in common does not join them: it is the one that sl_slots_check() refuses,
 * unless it says `atomic: false`.
 */
#include <string.h>

#include "policy/policy.h"

struct groups {
    unsigned *parent; /* by rule; a group is called by one of its rules */
    uint32_t *scopes; /* of that rule: bits, by scope */
};

static unsigned group_of(const struct groups *g, unsigned rule)
{
    while (g->parent[rule] != rule)
        rule = g->parent[rule] = g->parent[g->parent[rule]];
    return rule;
}

/* Those that are switched off are never taken. */
static bool is_taken(const struct sl_rule *rule)
{
    return rule->mode != SL_MODE_OFF;
}

static void join(const struct groups *g, const struct sl_route *route)
{
    uint32_t common = UINT32_MAX;
    unsigned first = UINT32_MAX;

    if (route->apart)
        return;
    for (unsigned i = 0; i < route->rule_count; i++)
        if (is_taken(route->rules[i]))
            common &= g->scopes[group_of(g, route->rules[i]->index)];
    if (common == 0)
        return;
    for (unsigned i = 0; i < route->rule_count; i++) {
        unsigned group = group_of(g, route->rules[i]->index);

        if (!is_taken(route->rules[i]))
            continue;
        if (first == UINT32_MAX)
            first = group;
        g->parent[group] = first;
    }
    if (first != UINT32_MAX)
        g->scopes[first] = common;
}

static uint32_t scopes_of(const struct sl_rule *rule)
{
    uint32_t scopes = 0;

    for (unsigned i = 0; i < rule->per_count; i++)
        scopes |= UINT32_C(1) << rule->per[i];
    return scopes;
}

/* The first of the scopes: users before organisations, since there are more of
 * them, and they lie in more slots. */
static unsigned choose(const struct sl_rule *rule, uint32_t scopes)
{
    unsigned tag = 0;

    for (unsigned i = 0; i < rule->per_count; i++)
        if (scopes >> rule->per[i] & 1 &&
            (tag == 0 || rule->per[i] < rule->per[tag - 1]))
            tag = i + 1;
    return tag;
}

int sl_slots_choose(const struct sl_policy *policy, struct sl_rule *rules,
                    struct sl_arena *scratch)
{
    unsigned count = policy->rule_count;
    struct groups g = {
        .parent = sl_arena_take(scratch, count * sizeof(*g.parent)),
        .scopes = sl_arena_take(scratch, count * sizeof(*g.scopes)),
    };

    if (!g.parent || !g.scopes)
        return SLUICE_ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        g.parent[i] = i;
        g.scopes[i] = scopes_of(&rules[i]);
    }
    for (unsigned i = 0; i < policy->route_count; i++)
        join(&g, &policy->routes[i]);
    join(&g, &policy->fallback);
    for (unsigned i = 0; i < count; i++)
        rules[i].tag = choose(&rules[i], g.scopes[group_of(&g, i)]);
    return 0;
}

/* ---- checking ---- */

/* The scope whose value is in braces; SL_SCOPES if there is none. */
static unsigned tag_of(const struct sl_rule *rule)
{
    return rule->tag > 0 ? rule->per[rule->tag - 1] : SL_SCOPES;
}

static bool is_name(unsigned scope)
{
    return scope == SL_SCOPE_USER || scope == SL_SCOPE_ORG ||
           scope >= SL_SCOPE_NAMED;
}

/* Usage of a visitor is stored by address. If the name is the hash tag, it is
 * in another slot than the usage by name. */
static int check_carry(const struct sl_route *route, struct sl_diag *diag)
{
    for (unsigned i = 0; i < route->rule_count; i++)
        if (is_taken(route->rules[i]) && is_name(tag_of(route->rules[i])))
            return sl_diag_error(
                diag, SLUICE_ECONF,
                "Limit \"%.64s\" keeps the usage before sign-in "
                "and after it in different cluster slots, so "
                "`sign_in: carry` is not possible. Leave it out",
                route->rules[i]->name.at);
    return 0;
}

static int refuse_apart(const struct sl_rule *a, const struct sl_rule *b,
                        bool fallback, struct sl_diag *diag)
{
    sl_diag_error(
        diag, SLUICE_ECONF,
        "Limits \"%.32s\" and \"%.32s\" cannot be in one cluster slot, "
        "because the limits of the route have no common value in `per`. "
        "%s `atomic: false`, they are taken one after another",
        a->name.at, b->name.at, fallback ? "In a route with" : "With");
    if (!fallback)
        sl_diag_hint(diag, "atomic: false");
    return SLUICE_ECONF;
}

static int check_route(const struct sl_route *route, bool fallback,
                       struct sl_diag *diag)
{
    const struct sl_rule *first = NULL;

    if (route->guards && route->guards->guard.written && route->rule_count > 0)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "The guard and the limits of this route cannot be in "
            "one cluster slot. Put the guard on a route without "
            "limits");
    for (unsigned i = 0; i < route->rule_count && !route->apart; i++) {
        const struct sl_rule *rule = route->rules[i];

        if (!is_taken(rule))
            continue;
        if (first && (tag_of(rule) != tag_of(first) || rule->tag == 0))
            return refuse_apart(first, rule, fallback, diag);
        if (!first)
            first = rule;
    }
    return route->sign_in == SL_SIGN_IN_CARRY ? check_carry(route, diag) : 0;
}

static int check_key(const struct sl_rule *rule, struct sl_diag *diag)
{
    if (rule->credits)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "The credits of limit \"%.64s\" are taken in one step with the "
            "other limits of a route, which a cluster cannot do. Leave "
            "`credits` out, or use one Redis",
            rule->name.at);
    for (unsigned i = 0; i < rule->key.count; i++) {
        const struct sl_key_piece *piece = &rule->key.pieces[i];

        if (piece->is_literal && piece->literal.len > 0 &&
            memchr(piece->literal.at, '{', piece->literal.len))
            return sl_diag_error(
                diag, SLUICE_ECONF,
                "The braces in the key of limit \"%.64s\" would "
                "choose its cluster slot. Leave them out. Sluice "
                "puts braces around the right value",
                rule->name.at);
    }
    return 0;
}

int sl_slots_check(const struct sl_policy *policy, struct sl_source_pos *place,
                   struct sl_diag *diag)
{
    int err = 0;

    for (unsigned i = 0; i < policy->rule_count && !err; i++) {
        *place = policy->rules[i].place;
        err = check_key(&policy->rules[i], diag);
    }
    for (unsigned i = 0; i < policy->route_count && !err; i++) {
        *place = policy->routes[i].place;
        err = check_route(&policy->routes[i], false, diag);
    }
    if (!err) {
        *place = policy->fallback.place;
        err = check_route(&policy->fallback, true, diag);
    }
    return err;
}

bool sl_slots_wanted(struct sl_str store)
{
    static const char *const schemes[] = {"redis+cluster://",
                                          "rediss+cluster://"};

    for (unsigned i = 0; i < SL_LEN(schemes); i++)
        if (store.len >= strlen(schemes[i]) &&
            memcmp(store.at, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return false;
}

/* ---- what a policy needs that not every store has. */

static int check_rule(const struct sl_rule *rule, struct sl_diag *diag)
{
    int err;

    if (rule->kind != SL_PERMITS || rule->mode == SL_MODE_OFF)
        return 0;
    err =
        sl_diag_error(diag, SLUICE_ECONF,
                      "Limit \"%s\" has the kind concurrency, and a DynamoDB "
                      "store does not support its holds. Use a store in memory "
                      "or in Redis, or use the kind level",
                      rule->name.at);
    sl_diag_hint(diag, "kind: level");
    return err;
}

static int stores_check_route(const struct sl_route *route,
                              struct sl_diag *diag)
{
    if (!route->guards || !route->guards->guard.written)
        return 0;
    return sl_diag_error(diag, SLUICE_ECONF,
                         "A guard is a hold, and a DynamoDB store does not "
                         "support holds. Leave `guard` out, or use a store in "
                         "memory or in Redis");
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
        err = stores_check_route(&policy->routes[i], diag);
    }
    return err;
}

bool sl_store_support_lacks_holds(struct sl_str store)
{
    static const char scheme[] = "dynamodb://";

    return store.len >= strlen(scheme) &&
           memcmp(store.at, scheme, strlen(scheme)) == 0;
}
