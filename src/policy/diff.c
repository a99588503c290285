/* diff.c -- the reload diff: what a new policy changes. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/policy_int.h"

#define PRINT_BYTES ((size_t)16 << 20) /* of a route */

#define LINE_MAX_ 1024 /* of one change; a longer one ends in "..." */

void sl_diff_line(struct sl_changes *c, const char *fmt, ...)
{
    char line[LINE_MAX_];
    va_list args;
    int len;

    va_start(args, fmt);
    len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (len >= LINE_MAX_)
        memcpy(line + LINE_MAX_ - 4, "...", 4);
    sl_writer_addf(&c->w, "%s\n", line);
}

static bool same_template(const struct sl_template *a,
                          const struct sl_template *b)
{
    if (a->count != b->count)
        return false;
    for (unsigned i = 0; i < a->count; i++) {
        const struct sl_template_piece *x = &a->pieces[i], *y = &b->pieces[i];

        if (x->kind != y->kind || (x->kind == SL_TEMPLATE_PIECE_LITERAL
                                       ? !sl_str_eq(x->literal, y->literal)
                                       : x->holder != y->holder))
            return false;
    }
    return true;
}

/* Do both print the same for these keys (NULL: all)? Secrets count. */
static bool same(struct sl_changes *c, enum sl_schema_level level,
                 const char *keys, const void *old, const void *new)
{
    struct sl_buf a, b;
    struct sl_printer p = {
        .policy = c->old, .w = {&a, 0},
             .raw = true
    };
    struct sl_printer q = {
        .policy = c->new, .w = {&b, 0},
             .raw = true
    };
    bool ret;

    sl_buf_init(&a, PRINT_BYTES, c->w.out->alloc);
    sl_buf_init(&b, PRINT_BYTES, c->w.out->alloc);
    sl_schema_print_keys(&p, level, keys, old);
    sl_schema_print_keys(&q, level, keys, new);
    ret = sl_str_eq(sl_buf_str(&a), sl_buf_str(&b));
    if (!c->w.err)
        c->w.err = p.w.err ? p.w.err : q.w.err;
    sl_buf_done(&a);
    sl_buf_done(&b);
    return ret;
}

/* ---- rates ---- */

static int add_period(const struct sl_limit *limit, struct sl_buf *out)
{
    static const char *const calendar[] = {"day", "week", "month"};
    static const enum sl_unit units[] = {SL_UNIT_SECOND, SL_UNIT_MINUTE,
                                         SL_UNIT_HOUR, SL_UNIT_DAY};
    char span[32];

    if (limit->calendar && limit->cal.every == 1)
        return sl_buf_addf(out, "/%s", calendar[limit->cal.unit]);
    if (limit->calendar)
        return sl_buf_addf(out, "/%u%s", (unsigned)limit->cal.every,
                           calendar[limit->cal.unit]);
    if (limit->period == 0)
        return 0;
    for (size_t i = 0; i < SL_LEN(units); i++)
        if (limit->period == sl_unit_length(units[i]))
            return sl_buf_addf(out, "/%s", sl_unit_name(units[i]));
    return sl_buf_addf(out, "/%s", sl_format_duration(limit->period, span));
}

int sl_rate_print(const struct sl_plan_limit *limit, struct sl_buf *out)
{
    const struct sl_limit *n = &limit->numbers;
    int err;

    if (limit->form == SL_RATE_UNLIMITED || limit->form == SL_RATE_NONE)
        return sl_buf_addf(out,
                           limit->form == SL_RATE_NONE ? "none" : "unlimited");
    err = sl_buf_addf(out, "%" PRIu64, sl_plan_limit_written(limit, n->count));
    if (!err)
        err = add_period(n, out);
    if (!err && n->kind == SL_LEAKY)
        err = sl_buf_addf(out, " queue %" PRIu64, n->capacity - 1);
    else if (!err && n->capacity != n->count)
        err = sl_buf_addf(out, " burst %" PRIu64,
                          sl_plan_limit_written(limit, n->capacity));
    return err;
}

/* Do both have numbers, with incompatible cells? */
static bool shapes_differ(const struct sl_plan_limit *a,
                          const struct sl_plan_limit *b)
{
    bool a_has = a->form == SL_RATE_PER || a->form == SL_RATE_PLAIN;
    bool b_has = b->form == SL_RATE_PER || b->form == SL_RATE_PLAIN;

    return a_has && b_has &&
           sl_limit_shape(&a->numbers) != sl_limit_shape(&b->numbers);
}

/* "[plan] 5/min -> 10/min" behind `what`, or nothing if they are the same. */
static void compare_rate(struct sl_changes *c, const char *what,
                         struct sl_str plan, const struct sl_plan_limit *old,
                         const struct sl_plan_limit *new)
{
    struct sl_buf from, to;
    const char *fate = shapes_differ(old, new) ? "usage reset" : "usage kept";

    sl_buf_init(&from, 256, c->w.out->alloc);
    sl_buf_init(&to, 256, c->w.out->alloc);
    if (sl_rate_print(old, &from) || sl_rate_print(new, &to))
        c->w.err = c->w.err ? c->w.err : SLUICE_ENOMEM;
    else if (!sl_str_eq(sl_buf_str(&from), sl_buf_str(&to)))
        sl_diff_line(c, "%s%s%.*s %.*s -> %.*s; %s", what,
                     plan.len > 0 ? " " : "", SL_STR_ARG(plan),
                     SL_STR_ARG(sl_buf_str(&from)), SL_STR_ARG(sl_buf_str(&to)),
                     fate);
    sl_buf_done(&from);
    sl_buf_done(&to);
}

/* Only plans that both policies have. A single plan is not named. */
static void compare_plans(struct sl_changes *c, const char *what,
                          const struct sl_plan_limit *old,
                          const struct sl_plan_limit *new)
{
    const struct sl_plans *plans = &c->new->plans;

    for (unsigned i = 0; i < plans->count; i++) {
        struct sl_str name = plans->list[i].name;
        int was = sl_policy_plan(c->old, name);

        if (was >= 0)
            compare_rate(c, what, plans->count > 1 ? name : (struct sl_str){0},
                         &old[was], &new[i]);
    }
}

struct scopes {
    char text[SL_PER_MAX * 68 + 3];
};

/* "user", "org+user", "[]" */
static struct scopes print_per(const struct sl_policy *policy,
                               const struct sl_rule *rule)
{
    struct scopes ret = {"[]"};
    size_t len = 0;

    for (unsigned i = 0; i < rule->per_count; i++) {
        struct sl_str name = policy->identity.scope_names[rule->per[i]];
        int n = snprintf(ret.text + len, sizeof(ret.text) - len, "%s%.*s",
                         i > 0 ? "+" : "", SL_STR_ARG(name));

        if (n < 0 || (size_t)n >= sizeof(ret.text) - len)
            break; /* cut in the same way for both policies */
        len += (size_t)n;
    }
    return ret;
}

static bool same_kind(enum sl_kind a, enum sl_kind b)
{
    return strcmp(sl_kind_name(a), sl_kind_name(b)) == 0;
}

static const char *refill_of(const struct sl_rule *rule)
{
    return rule->kind == SL_INTERVAL ? "interval" : "continuous";
}

int sl_policy_check_units(const struct sl_policy *old,
                          const struct sl_policy *new, struct sl_diag *diag)
{
    for (unsigned i = 0; i < new->rule_count; i++) {
        const struct sl_rule *rule = &new->rules[i];
        int was = sl_policy_rule(old, rule->name);

        if (was < 0 || old->rules[was].options.unit == rule->options.unit)
            continue;
        return sl_unit_refuse(
            diag, "the active policy", rule->name,
            &(struct sl_unit_name){sl_rule_scale(&old->rules[was]),
                                   old->rules[was].reports},
            &(struct sl_unit_name){sl_rule_scale(rule), rule->reports});
    }
    return 0;
}

static void compare_keys(struct sl_changes *c, const char *of,
                         const struct sl_rule *old, const struct sl_rule *new)
{
    sl_schema_diff(c, SL_LEVEL_LIMIT, of, old, new);
    if (strcmp(refill_of(old), refill_of(new)) != 0)
        sl_diff_line(c, "%srefill %s -> %s", of, refill_of(old),
                     refill_of(new));
    if (!same(c, SL_LEVEL_LIMIT, "when", old, new))
        sl_diff_line(c, "%swhen changed", of);
    if (!same(c, SL_LEVEL_LIMIT, "thresholds", old, new))
        sl_diff_line(c, "%sthresholds changed", of);
    if (old->cost == new->cost && old->fixed_cost != new->fixed_cost)
        sl_diff_line(c, "%scost %s", of,
                     new->fixed_cost ? "fixed" : "no longer fixed");
    if (sl_rule_scale(old) != sl_rule_scale(new))
        sl_diff_line(c,
                     "%sscale of the unit %" PRIu64 " -> %" PRIu64
                     "; refused: give the limit another name",
                     of, sl_rule_scale(old), sl_rule_scale(new));
    if (old->lease != new->lease)
        sl_diff_line(c, "%slease %u%% -> %u%%", of, old->lease, new->lease);
    if (!sl_str_eq(old->zone_name, new->zone_name) ||
        old->options.anchor != new->options.anchor)
        sl_diff_line(c, "%szone or anchor changed; usage kept", of);
    if (!sl_str_eq(old->key_text, new->key_text))
        sl_diff_line(c, "%skey changed; usage in a remote store reset", of);
    else if (old->tag != new->tag && sl_slots_wanted(c->new->server.store))
        sl_diff_line(c,
                     "%scluster slot changed, because it is taken with other "
                     "limits; usage reset",
                     of);
}

static void compare_deny(struct sl_changes *c, const char *of,
                         const struct sl_rule *old, const struct sl_rule *new)
{
    sl_schema_diff(c, SL_LEVEL_DENY, of, &old->deny, &new->deny);
    sl_schema_diff(c, SL_LEVEL_PENALTY, of, &old->penalty, &new->penalty);
    if (!same(c, SL_LEVEL_DENY, "code message", &old->deny, &new->deny))
        sl_diff_line(c, "%scode or message changed", of);
    if (!same(c, SL_LEVEL_LIMIT, "unit headers", old, new))
        sl_diff_line(c, "%sheaders changed", of);
}

static void compare_candidates(struct sl_changes *c, const struct sl_rule *old,
                               const struct sl_rule *new)
{
    char what[160];

    if (old->has_candidate != new->has_candidate) {
        sl_diff_line(c, "limit %.*s: candidate %s", SL_STR_ARG(new->name),
                     new->has_candidate ? "added" : "removed");
    } else if (new->has_candidate) {
        snprintf(what, sizeof(what), "%.*s candidate", SL_STR_ARG(new->name));
        compare_plans(c, what, old->candidates, new->candidates);
    }
}

/* After a change of kind, rates and other numbers are not compared. */
static void compare_rule(struct sl_changes *c, const struct sl_rule *old,
                         const struct sl_rule *new)
{
    struct scopes was = print_per(c->old, old), is = print_per(c->new, new);
    char name[SL_NAME_MAX + 1], of[SL_NAME_MAX + 16];

    snprintf(name, sizeof(name), "%.*s", SL_STR_ARG(new->name));
    snprintf(of, sizeof(of), "limit %s: ", name);
    if (!same_kind(old->kind, new->kind)) {
        sl_diff_line(c, "%skind %s -> %s; usage reset", of,
                     sl_kind_name(old->kind), sl_kind_name(new->kind));
    } else {
        if (strcmp(was.text, is.text) != 0)
            sl_diff_line(c, "%sper %s -> %s; usage reset", of, was.text,
                         is.text);
        compare_plans(c, name, old->plans, new->plans);
        compare_candidates(c, old, new);
        compare_keys(c, of, old, new);
    }
    compare_deny(c, of, old, new);
}

static void changes_limits(struct sl_changes *c)
{
    for (unsigned i = 0; i < c->new->rule_count; i++) {
        const struct sl_rule *rule = &c->new->rules[i];
        int was = sl_policy_rule(c->old, rule->name);

        if (was >= 0)
            compare_rule(c, &c->old->rules[was], rule);
        else
            sl_diff_line(c, "limit %.*s added", SL_STR_ARG(rule->name));
    }
    for (unsigned i = 0; i < c->old->rule_count; i++)
        if (sl_policy_rule(c->new, c->old->rules[i].name) < 0)
            sl_diff_line(c, "limit %.*s removed",
                         SL_STR_ARG(c->old->rules[i].name));
}

/* ---- plans ---- */

static void compare_plan(struct sl_changes *c, const struct sl_plan *old,
                         const struct sl_plan *new)
{
    char of[SL_NAME_MAX + 16];

    if (!same(c, SL_LEVEL_PLAN, "aliases", old, new))
        sl_diff_line(c, "plan %.*s: aliases changed", SL_STR_ARG(new->name));
    if (old->overage != new->overage)
        sl_diff_line(c, "plan %.*s: overage %s", SL_STR_ARG(new->name),
                     new->overage ? "on" : "off");
    snprintf(of, sizeof(of), "plan %.*s: ", SL_STR_ARG(new->name));
    sl_schema_diff(c, SL_LEVEL_PLAN, of, old, new);
}

static void say_plan(struct sl_changes *c, const char *key, unsigned old,
                     unsigned new)
{
    struct sl_str was = c->old->plans.list[old].name;
    struct sl_str is = c->new->plans.list[new].name;

    if (!sl_str_eq_nocase(was, is))
        sl_diff_line(c, "plans: %s %.*s -> %.*s", key, SL_STR_ARG(was),
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
            sl_diff_line(c, "plan %.*s added", SL_STR_ARG(new->list[i].name));
    }
    for (unsigned i = 0; i < old->count; i++)
        if (sl_policy_plan(c->new, old->list[i].name) < 0)
            sl_diff_line(c, "plan %.*s removed", SL_STR_ARG(old->list[i].name));
    say_plan(c, "default", old->fallback, new->fallback);
    say_plan(c, "anonymous", old->anonymous, new->anonymous);
    sl_schema_diff(c, SL_LEVEL_PLANS, "plans: ", old, new);
}

/* ---- routes ---- */

/* The route with the same text, or NULL. The search begins behind the last
 * result, *near; a missing route costs O(n). */
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

static void compare_route(struct sl_changes *c, const char *what,
                          const struct sl_route *old,
                          const struct sl_route *new)
{
    char was[LINE_MAX_ / 3], is[LINE_MAX_ / 3];

    if (!same(c, SL_LEVEL_ROUTE, "limits", old, new)) {
        print_rules(old, was, sizeof(was));
        print_rules(new, is, sizeof(is));
        sl_diff_line(c, "%s: limits [%s] -> [%s]", what, was, is);
    } else if (!same(c, SL_LEVEL_ROUTE, NULL, old, new)) {
        sl_diff_line(c, "%s changed", what);
    }
}

/* Do the routes of both policies have another order? */
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
            sl_diff_line(c, "%s added", what);
    }
    near = 0;
    for (unsigned i = 0; i < c->old->route_count; i++)
        if (!find_route(c->new, c->old->routes[i].text, &near))
            sl_diff_line(c, "route %.*s removed",
                         SL_STR_ARG(c->old->routes[i].text));
    if (order_differs(c))
        sl_diff_line(c, "routes: order changed");
    compare_route(c, "default", &c->old->fallback, &c->new->fallback);
}

/* ---- features ---- */

static void compare_feature(struct sl_changes *c, const struct sl_feature *old,
                            const struct sl_feature *new)
{
    if (old->enabled != new->enabled)
        sl_diff_line(c, "feature %.*s %s", SL_STR_ARG(new->name),
                     new->enabled ? "off -> on" : "on -> off");
    if (!same(c, SL_LEVEL_FEATURE, "message retry_after", old, new))
        sl_diff_line(c, "feature %.*s: message or retry_after changed",
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
            sl_diff_line(c, "feature %.*s added (%s)",
                         SL_STR_ARG(feature->name),
                         feature->enabled ? "on" : "off");
    }
    for (unsigned i = 0; i < c->old->feature_count; i++)
        if (sl_policy_feature(c->new, c->old->features[i].name) < 0)
            sl_diff_line(c, "feature %.*s removed",
                         SL_STR_ARG(c->old->features[i].name));
}

/* ---- identity ---- */

static void changes_tokens(struct sl_changes *c, const struct sl_jwt *old,
                           const struct sl_jwt *new)
{
    if (old->written != new->written) {
        sl_diff_line(c, "identity: jwt %s", new->written ? "added" : "removed");
        return;
    }
    if (!same(c, SL_LEVEL_JWT, "jwks secret", old, new))
        sl_diff_line(c, "identity: source of token keys changed");
    if (!same(c, SL_LEVEL_JWT,
              "from algorithms issuer audience leeway expiry stale", old, new))
        sl_diff_line(c, "identity: rules for tokens changed");
}

static void changes_identity(struct sl_changes *c)
{
    const struct sl_identity *old = &c->old->identity;
    const struct sl_identity *new = &c->new->identity;

    if (!same(c, SL_LEVEL_IDENTITY, "user org plan role *", old, new))
        sl_diff_line(c, "identity: sources changed");
    if (!same(c, SL_LEVEL_IDENTITY, "trusted_proxies", old, new))
        sl_diff_line(c, "identity: trusted_proxies changed");
    if (!same(c, SL_LEVEL_IDENTITY, "anonymous", old, new))
        sl_diff_line(c, "identity: anonymous changed; usage of anonymous "
                        "callers reset");
    sl_schema_diff(c, SL_LEVEL_IDENTITY, "identity: ", old, new);
    changes_tokens(c, &old->jwt, &new->jwt);
    if (!same(c, SL_LEVEL_SUBJECTS, NULL, &old->subjects, &new->subjects))
        sl_diff_line(c, "identity: subjects changed; needs a restart");
}

/* ---- the rest ---- */

static bool same_errors(const struct sl_policy *a, const struct sl_policy *b)
{
    for (unsigned i = 0; i < SL_ERRORS; i++)
        if (a->errors[i].status != b->errors[i].status ||
            a->errors[i].has_body != b->errors[i].has_body ||
            !same_template(&a->errors[i].body, &b->errors[i].body))
            return false;
    return true;
}

int sl_policy_diff(const struct sl_policy *old, const struct sl_policy *new,
                   struct sl_buf *out)
{
    struct sl_changes c = {
        .old = old, .new = new, .w = {out, 0}
    };

    sl_schema_diff(&c, SL_LEVEL_TOP, "", old, new);
    if (!same_errors(old, new))
        sl_diff_line(&c, "errors changed");
    if (!same(&c, SL_LEVEL_METRICS, NULL, &old->metrics, &new->metrics))
        sl_diff_line(&c, "metrics: series of tenants changed");
    if (!same(&c, SL_LEVEL_WEBHOOKS, NULL, &old->webhooks, &new->webhooks))
        sl_diff_line(&c, "webhooks changed");
    changes_limits(&c);
    changes_plans(&c);
    changes_routes(&c);
    changes_features(&c);
    changes_identity(&c);
    return c.w.err;
}
