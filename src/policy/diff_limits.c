/* diff_limits.c -- what a new policy does to the limits of the old one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "policy/diff.h"
#include "policy/slots.h"

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
    err = sl_buf_addf(out, "%" PRIu64, n->count);
    if (!err)
        err = add_period(n, out);
    if (!err && n->kind == SL_LEAKY)
        err = sl_buf_addf(out, " queue %" PRIu64, n->capacity - 1);
    else if (!err && n->capacity != n->count)
        err = sl_buf_addf(out, " burst %" PRIu64, n->capacity);
    return err;
}

/* Both have numbers, and the one may not read the other's cells. */
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

    sl_buf_init(&from, 256, c->out->alloc);
    sl_buf_init(&to, 256, c->out->alloc);
    if (sl_rate_print(old, &from) || sl_rate_print(new, &to))
        c->err = c->err ? c->err : SLUICE_ENOMEM;
    else if (!sl_str_eq(sl_buf_str(&from), sl_buf_str(&to)))
        sl_changes_say(c, "%s%s%.*s %.*s -> %.*s; %s", what,
                       plan.len > 0 ? " " : "", SL_STR_ARG(plan),
                       SL_STR_ARG(sl_buf_str(&from)),
                       SL_STR_ARG(sl_buf_str(&to)), fate);
    sl_buf_done(&from);
    sl_buf_done(&to);
}

/* Plans that came or went are told of as plans. A policy with one plan need
 * not name it. */
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

/* ---- what it is kept by ---- */

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
            break; /* a long one is cut; the kinds of cuts are the same */
        len += (size_t)n;
    }
    return ret;
}

static bool same_kind(enum sl_kind a, enum sl_kind b)
{
    return strcmp(sl_kind_name(a), sl_kind_name(b)) == 0;
}

static void say_word(struct sl_changes *c, const struct sl_rule *rule,
                     const char *key, const char *old, const char *new)
{
    if (strcmp(old, new) != 0)
        sl_changes_say(c, "limit %.*s: %s %s -> %s", SL_STR_ARG(rule->name),
                       key, old, new);
}

static void compare_words(struct sl_changes *c, const struct sl_rule *old,
                          const struct sl_rule *new)
{
    char was[32], is[32];

    say_word(c, new, "mode", sl_mode_words[old->mode],
             sl_mode_words[new->mode]);
    say_word(c, new, "missing", sl_missing_words[old->missing],
             sl_missing_words[new->missing]);
    say_word(c, new, "on_store_failure", sl_failure_words[old->failure],
             sl_failure_words[new->failure]);
    say_word(c, new, "on_full", sl_full_words[old->on_full],
             sl_full_words[new->on_full]);
    say_word(c, new, "refill",
             old->kind == SL_INTERVAL ? "interval" : "continuous",
             new->kind == SL_INTERVAL ? "interval" : "continuous");
    if (old->cost != new->cost)
        sl_changes_say(c, "limit %.*s: cost %" PRIu64 " -> %" PRIu64,
                       SL_STR_ARG(new->name), old->cost, new->cost);
    if (old->marks.count != new->marks.count ||
        memcmp(old->marks.list, new->marks.list, sizeof(old->marks.list)) != 0)
        sl_changes_say(c, "limit %.*s: thresholds changed",
                       SL_STR_ARG(new->name));
    if (old->cost == new->cost && old->fixed_cost != new->fixed_cost)
        sl_changes_say(c, "limit %.*s: cost %s", SL_STR_ARG(new->name),
                       new->fixed_cost ? "fixed" : "no longer fixed");
    if (old->queue != new->queue)
        sl_changes_say(c, "limit %.*s: queue %u -> %u", SL_STR_ARG(new->name),
                       old->queue, new->queue);
    if (old->hold != new->hold)
        sl_changes_say(c, "limit %.*s: hold %s -> %s", SL_STR_ARG(new->name),
                       sl_format_duration(old->hold, was),
                       sl_format_duration(new->hold, is));
    if (old->lease != new->lease)
        sl_changes_say(c, "limit %.*s: lease %u%% -> %u%%",
                       SL_STR_ARG(new->name), old->lease, new->lease);
    if (!sl_str_eq(old->zone_name, new->zone_name) ||
        old->options.anchor != new->options.anchor)
        sl_changes_say(c, "limit %.*s: zone or anchor changed; usage kept",
                       SL_STR_ARG(new->name));
    if (!sl_str_eq(old->key_text, new->key_text))
        sl_changes_say(c,
                       "limit %.*s: key changed; usage in a remote store reset",
                       SL_STR_ARG(new->name));
    else if (old->tag != new->tag && sl_slots_wanted(c->new->server.store))
        sl_changes_say(c,
                       "limit %.*s: cluster slot changed, because it is taken "
                       "with other limits; usage reset",
                       SL_STR_ARG(new->name));
}

static void compare_deny(struct sl_changes *c, const struct sl_rule *old,
                         const struct sl_rule *new)
{
    if (old->deny.status != new->deny.status)
        sl_changes_say(c, "limit %.*s: status %d -> %d", SL_STR_ARG(new->name),
                       old->deny.status, new->deny.status);
    if (!sl_str_eq(old->deny.code, new->deny.code) ||
        !sl_text_same(&old->deny.message, &new->deny.message))
        sl_changes_say(c, "limit %.*s: code or message changed",
                       SL_STR_ARG(new->name));
    if (!sl_str_eq(old->unit, new->unit) || old->dialects != new->dialects)
        sl_changes_say(c, "limit %.*s: headers changed", SL_STR_ARG(new->name));
}

static void compare_candidates(struct sl_changes *c, const struct sl_rule *old,
                               const struct sl_rule *new)
{
    char what[160];

    if (old->has_candidate != new->has_candidate) {
        sl_changes_say(c, "limit %.*s: candidate %s", SL_STR_ARG(new->name),
                       new->has_candidate ? "added" : "removed");
    } else if (new->has_candidate) {
        snprintf(what, sizeof(what), "%.*s candidate", SL_STR_ARG(new->name));
        compare_plans(c, what, old->candidates, new->candidates);
    }
}

/* Kind and `per` say all: the rates of two kinds are not compared. */
static void compare_rule(struct sl_changes *c, const struct sl_rule *old,
                         const struct sl_rule *new)
{
    struct scopes was = print_per(c->old, old), is = print_per(c->new, new);
    char name[128];

    snprintf(name, sizeof(name), "%.*s", SL_STR_ARG(new->name));
    if (!same_kind(old->kind, new->kind)) {
        sl_changes_say(c, "limit %s: kind %s -> %s; usage reset", name,
                       sl_kind_name(old->kind), sl_kind_name(new->kind));
    } else {
        if (strcmp(was.text, is.text) != 0)
            sl_changes_say(c, "limit %s: per %s -> %s; usage reset", name,
                           was.text, is.text);
        compare_plans(c, name, old->plans, new->plans);
        compare_candidates(c, old, new);
        compare_words(c, old, new);
    }
    compare_deny(c, old, new);
}

void sl_changes_limits(struct sl_changes *c)
{
    for (unsigned i = 0; i < c->new->rule_count; i++) {
        const struct sl_rule *rule = &c->new->rules[i];
        int was = sl_policy_rule(c->old, rule->name);

        if (was >= 0)
            compare_rule(c, &c->old->rules[was], rule);
        else
            sl_changes_say(c, "limit %.*s added", SL_STR_ARG(rule->name));
    }
    for (unsigned i = 0; i < c->old->rule_count; i++)
        if (sl_policy_rule(c->new, c->old->rules[i].name) < 0)
            sl_changes_say(c, "limit %.*s removed",
                           SL_STR_ARG(c->old->rules[i].name));
}
