/* diff.c -- what a new policy changes: plans, routes, features, the rest. */
#include "policy/diff.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX_ 1024 /* of one change; a longer one ends in "..." */

void sl_changes_say(struct sl_changes *c, const char *fmt, ...)
{
    char line[LINE_MAX_];
    va_list args;
    int len;

    if (c->err)
        return;
    va_start(args, fmt);
    len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (len >= LINE_MAX_)
        memcpy(line + LINE_MAX_ - 4, "...", 4);
    c->err = sl_buf_addf(c->out, "%s\n", line);
}

bool sl_text_same(const struct sl_text *a, const struct sl_text *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++) {
        const struct sl_piece *x = &a->pieces[i], *y = &b->pieces[i];

        if (x->kind != y->kind ||
            (x->kind == SL_PIECE_LITERAL ? !sl_str_eq(x->literal, y->literal)
                                         : x->holder != y->holder))
            return false;
    }
    return true;
}

static bool lists_same(const struct sl_str *a, unsigned a_count,
                       const struct sl_str *b, unsigned b_count)
{
    if (a_count != b_count)
        return false;
    for (unsigned i = 0; i < a_count; i++)
        if (!sl_str_eq(a[i], b[i]))
            return false;
    return true;
}

/* ---- plans ---- */

static void compare_plan(struct sl_changes *c, const struct sl_plan *old,
                         const struct sl_plan *new)
{
    if (!lists_same(old->aliases, old->alias_count, new->aliases,
                    new->alias_count))
        sl_changes_say(c, "plan %.*s: aliases changed", SL_STR_ARG(new->name));
    if (old->overage != new->overage)
        sl_changes_say(c, "plan %.*s: overage %s", SL_STR_ARG(new->name),
                       new->overage ? "on" : "off");
    if (old->weight != new->weight)
        sl_changes_say(c, "plan %.*s: weight %u -> %u", SL_STR_ARG(new->name),
                       old->weight, new->weight);
}

static void say_plan(struct sl_changes *c, const char *key, unsigned old,
                     unsigned new)
{
    struct sl_str was = c->old->plans.list[old].name;
    struct sl_str is = c->new->plans.list[new].name;

    if (!sl_str_eq_nocase(was, is))
        sl_changes_say(c, "plans: %s %.*s -> %.*s", key, SL_STR_ARG(was),
                       SL_STR_ARG(is));
}

static void changes_plans(struct sl_changes *c)
{
    const struct sl_plans *old = &c->old->plans, *new = &c->new->plans;

    for (unsigned i = 0; i < new->count; i++) {
        int was = sl_policy_plan(c->old, new->list[i].name);

        if (was >= 0)
            compare_plan(c, &old->list[was], &new->list[i]);
        else
            sl_changes_say(c, "plan %.*s added", SL_STR_ARG(new->list[i].name));
    }
    for (unsigned i = 0; i < old->count; i++)
        if (sl_policy_plan(c->new, old->list[i].name) < 0)
            sl_changes_say(c, "plan %.*s removed",
                           SL_STR_ARG(old->list[i].name));
    say_plan(c, "default", old->fallback, new->fallback);
    say_plan(c, "anonymous", old->anonymous, new->anonymous);
    if (old->deny_unknown != new->deny_unknown)
        sl_changes_say(c, "plans: unknown_plan %s",
                       new->deny_unknown ? "default -> deny"
                                         : "deny -> default");
}

/* ---- routes ---- */

/* The route of the same text, or NULL: texts are what a person knows a route
 * by. Most stand behind the one that was found last, *near, where the search
 * begins; one that is not there costs O(n). */
static const struct sl_route *find_route(const struct sl_policy *policy,
                                         struct sl_str text, unsigned *near)
{
    for (unsigned k = 0; k < policy->route_count; k++) {
        unsigned i = (*near + k) % policy->route_count;

        if (sl_str_eq(policy->routes[i].text, text)) {
            *near = i + 1;
            return &policy->routes[i];
        }
    }
    return NULL;
}

static bool same_rules(const struct sl_route *a, const struct sl_route *b)
{
    if (a->rule_count != b->rule_count)
        return false;
    for (unsigned i = 0; i < a->rule_count; i++)
        if (!sl_str_eq(a->rules[i]->name, b->rules[i]->name))
            return false;
    return true;
}

static void print_rules(const struct sl_route *route, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < route->rule_count && len < size; i++) {
        int n = snprintf(out + len, size - len, "%s%.*s", i > 0 ? ", " : "",
                         SL_STR_ARG(route->rules[i]->name));

        len += n > 0 ? (size_t)n : 0;
    }
}

static struct sl_str feature_of(const struct sl_policy *policy,
                                const struct sl_route *route)
{
    return route->feature == SL_NO_FEATURE
               ? SL_STR("")
               : policy->features[route->feature].name;
}

static bool same_replaced(const struct sl_route *a, const struct sl_route *b)
{
    if (a->replace_count != b->replace_count)
        return false;
    for (unsigned i = 0; i < a->replace_count; i++)
        if (!sl_str_eq(a->replaces[i]->name, b->replaces[i]->name))
            return false;
    return true;
}

static bool same_manners(const struct sl_changes *c, const struct sl_route *a,
                         const struct sl_route *b)
{
    return sl_str_eq(a->endpoint, b->endpoint) &&
           a->anonymous == b->anonymous && a->sign_in == b->sign_in &&
           lists_same(a->roles, a->role_count, b->roles, b->role_count) &&
           sl_str_eq(feature_of(c->old, a), feature_of(c->new, b)) &&
           a->report == b->report && a->quota == b->quota &&
           a->dialects == b->dialects && a->reset == b->reset &&
           a->count == b->count && same_replaced(a, b) &&
           a->failure == b->failure && a->apart == b->apart &&
           a->wait == b->wait && sl_guards_same(a->guards, b->guards);
}

static void compare_route(struct sl_changes *c, const char *what,
                          const struct sl_route *old,
                          const struct sl_route *new)
{
    char was[LINE_MAX_ / 3], is[LINE_MAX_ / 3];

    if (!same_rules(old, new)) {
        print_rules(old, was, sizeof(was));
        print_rules(new, is, sizeof(is));
        sl_changes_say(c, "%s: limits [%s] -> [%s]", what, was, is);
    } else if (!same_manners(c, old, new)) {
        sl_changes_say(c, "%s changed", what);
    }
}

/* Do those that both have stand in another order? Of several that match, the
 * first counts. */
static bool order_differs(const struct sl_changes *c)
{
    unsigned last = 0, near = 0;

    for (unsigned i = 0; i < c->new->route_count; i++) {
        const struct sl_route *was =
            find_route(c->old, c->new->routes[i].text, &near);

        if (was && was->index < last)
            return true;
        if (was)
            last = was->index;
    }
    return false;
}

static void changes_routes(struct sl_changes *c)
{
    unsigned near = 0;

    for (unsigned i = 0; i < c->new->route_count; i++) {
        const struct sl_route *route = &c->new->routes[i];
        const struct sl_route *was = find_route(c->old, route->text, &near);
        char what[LINE_MAX_ / 4];

        snprintf(what, sizeof(what), "route %.*s", SL_STR_ARG(route->text));
        if (was)
            compare_route(c, what, was, route);
        else
            sl_changes_say(c, "%s added", what);
    }
    near = 0;
    for (unsigned i = 0; i < c->old->route_count; i++)
        if (!find_route(c->new, c->old->routes[i].text, &near))
            sl_changes_say(c, "route %.*s removed",
                           SL_STR_ARG(c->old->routes[i].text));
    if (order_differs(c))
        sl_changes_say(c, "routes: order changed");
    compare_route(c, "default", &c->old->fallback, &c->new->fallback);
}

/* ---- features ---- */

static void compare_feature(struct sl_changes *c, const struct sl_feature *old,
                            const struct sl_feature *new)
{
    if (old->enabled != new->enabled)
        sl_changes_say(c, "feature %.*s %s", SL_STR_ARG(new->name),
                       new->enabled ? "off -> on" : "on -> off");
    if (old->retry_after != new->retry_after ||
        !sl_text_same(&old->message, &new->message))
        sl_changes_say(c, "feature %.*s: message or retry_after changed",
                       SL_STR_ARG(new->name));
}

static void changes_features(struct sl_changes *c)
{
    for (unsigned i = 0; i < c->new->feature_count; i++) {
        const struct sl_feature *feature = &c->new->features[i];
        int was = sl_policy_feature(c->old, feature->name);

        if (was >= 0)
            compare_feature(c, &c->old->features[was], feature);
        else
            sl_changes_say(c, "feature %.*s added (%s)",
                           SL_STR_ARG(feature->name),
                           feature->enabled ? "on" : "off");
    }
    for (unsigned i = 0; i < c->old->feature_count; i++)
        if (sl_policy_feature(c->new, c->old->features[i].name) < 0)
            sl_changes_say(c, "feature %.*s removed",
                           SL_STR_ARG(c->old->features[i].name));
}

/* ---- identity ---- */

static bool same_sources(const struct sl_sources *a, const struct sl_sources *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (a->list[i].kind != b->list[i].kind ||
            !sl_str_eq(a->list[i].name, b->list[i].name))
            return false;
    return true;
}

static bool same_scopes(const struct sl_identity *a,
                        const struct sl_identity *b)
{
    if (!lists_same(a->scope_names, a->scope_count, b->scope_names,
                    b->scope_count))
        return false;
    for (unsigned i = 0; i < a->scope_count; i++)
        if (!same_sources(&a->scopes[i], &b->scopes[i]))
            return false;
    return same_sources(&a->plan, &b->plan) && same_sources(&a->role, &b->role);
}

static bool same_trust(const struct sl_identity *a, const struct sl_identity *b)
{
    if (a->trusted_count != b->trusted_count)
        return false;
    for (unsigned i = 0; i < a->trusted_count; i++)
        if (a->trusted[i].bits != b->trusted[i].bits ||
            memcmp(&a->trusted[i].ip, &b->trusted[i].ip,
                   sizeof(a->trusted[i].ip)) != 0)
            return false;
    return true;
}

static bool same_rules_of_tokens(const struct sl_jwt *a, const struct sl_jwt *b)
{
    return same_sources(&a->from, &b->from) && a->algorithms == b->algorithms &&
           sl_str_eq(a->issuer, b->issuer) &&
           lists_same(a->audiences, a->audience_count, b->audiences,
                      b->audience_count) &&
           a->leeway == b->leeway && a->stale == b->stale &&
           a->expiry_optional == b->expiry_optional;
}

static void changes_tokens(struct sl_changes *c, const struct sl_jwt *old,
                           const struct sl_jwt *new)
{
    if (old->written != new->written) {
        sl_changes_say(c, "identity: jwt %s",
                       new->written ? "added" : "removed");
        return;
    }
    if (!sl_str_eq(old->jwks, new->jwks) ||
        !sl_str_eq(old->secret, new->secret))
        sl_changes_say(c, "identity: source of token keys changed");
    if (!same_rules_of_tokens(old, new))
        sl_changes_say(c, "identity: rules for tokens changed");
}

static void changes_identity(struct sl_changes *c)
{
    const struct sl_identity *old = &c->old->identity;
    const struct sl_identity *new = &c->new->identity;

    if (!same_scopes(old, new))
        sl_changes_say(c, "identity: sources changed");
    if (!same_trust(old, new))
        sl_changes_say(c, "identity: trusted_proxies changed");
    if (old->forwarded != new->forwarded)
        sl_changes_say(c, "identity: forwarded %s -> %s",
                       sl_forwarded_words[old->forwarded],
                       sl_forwarded_words[new->forwarded]);
    if (!same_sources(&old->anonymous, &new->anonymous))
        sl_changes_say(c, "identity: anonymous changed; usage of anonymous "
                          "callers reset");
    if (old->ipv6_prefix != new->ipv6_prefix)
        sl_changes_say(c,
                       "identity: ipv6_prefix %u -> %u; usage of IPv6 "
                       "addresses reset",
                       old->ipv6_prefix, new->ipv6_prefix);
    if (old->unknown_subject != new->unknown_subject)
        sl_changes_say(c, "identity: unknown_subject %s -> %s",
                       sl_unknown_words[old->unknown_subject],
                       sl_unknown_words[new->unknown_subject]);
    changes_tokens(c, &old->jwt, &new->jwt);
    if (!sl_str_eq(old->subjects.text, new->subjects.text) ||
        old->subjects.scope != new->subjects.scope ||
        old->subjects.life != new->subjects.life)
        sl_changes_say(c, "identity: subjects changed; needs a restart");
}

/* ---- the rest ---- */

static bool same_errors(const struct sl_policy *a, const struct sl_policy *b)
{
    for (unsigned i = 0; i < SL_ERRORS; i++)
        if (a->errors[i].status != b->errors[i].status ||
            a->errors[i].has_body != b->errors[i].has_body ||
            !sl_text_same(&a->errors[i].body, &b->errors[i].body))
            return false;
    return true;
}

static void changes_general(struct sl_changes *c)
{
    const struct sl_policy *old = c->old, *new = c->new;
    char was[32], is[32];

    if (old->enabled != new->enabled)
        sl_changes_say(c, "enabled %s",
                       new->enabled ? "false -> true" : "true -> false");
    if (old->mode != new->mode)
        sl_changes_say(c, "mode %s -> %s", sl_mode_words[old->mode],
                       sl_mode_words[new->mode]);
    if (!sl_str_eq(old->env, new->env))
        sl_changes_say(c, "env \"%.*s\" -> \"%.*s\"", SL_STR_ARG(old->env),
                       SL_STR_ARG(new->env));
    if (old->dialects != new->dialects)
        sl_changes_say(c, "headers changed");
    if (old->reset != new->reset)
        sl_changes_say(c, "reset %s",
                       new->reset == SL_RESET_NEXT ? "full -> next"
                                                   : "next -> full");
    if (old->hold_max != new->hold_max)
        sl_changes_say(c, "hold_max %s -> %s",
                       sl_format_duration(old->hold_max, was),
                       sl_format_duration(new->hold_max, is));
    if (!same_errors(old, new))
        sl_changes_say(c, "errors changed");
}

int sl_policy_diff(const struct sl_policy *old, const struct sl_policy *new,
                   struct sl_buf *out)
{
    struct sl_changes c = {.old = old, .new = new, .out = out};

    changes_general(&c);
    sl_changes_limits(&c);
    changes_plans(&c);
    changes_routes(&c);
    changes_features(&c);
    changes_identity(&c);
    return c.err;
}
