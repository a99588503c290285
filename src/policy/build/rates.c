/* rates.c -- `rate` and `candidate`: one for all plans, or one for each.
 *
 * A map has a rate for every plan, since every plan can reach every route, and
 * a paying caller must not fall back to what the free ones have because a line
 * was forgotten.
 *
 * All plans of a limit count in one period: what was used is kept in units of
 * the period, and a caller who changes his plan takes it with him.
 */
#include "policy/build/build.h"

#include "base/parse.h"

/* A reading of one of the two keys. */
struct reading {
    struct sl_build *b;
    const struct sl_rule *rule;
    const struct sl_node *limit;  /* all of it */
    const struct sl_node *node;   /* the value of the key */
    struct sl_plan_limit *plans;  /* by plan */
    const struct sl_node **given; /* by plan: its rate, or NULL */
    bool bad;                     /* something was refused */
};

static bool has_numbers(const struct sl_plan_limit *limit)
{
    return sl_rate_has_numbers(limit->form);
}

/* Its count stays: it says what lies beyond it. */
struct sl_limit sl_build_open(const struct sl_limit *limit)
{
    struct sl_limit open = *limit;

    open.capacity = SL_AMOUNT_MAX;
    sl_limit_derive(&open);
    return open;
}

bool sl_build_strictest(const struct sl_policy *policy,
                        const struct sl_plan_limit *plans, struct sl_limit *ret)
{
    bool any = false;

    for (unsigned i = 0; i < policy->plans.count; i++) {
        const struct sl_limit *limit = &plans[i].numbers;

        if (!has_numbers(&plans[i]))
            continue;
        if (!any)
            *ret = *limit;
        any = true;
        if (limit->count < ret->count)
            ret->count = limit->count;
        if (limit->capacity < ret->capacity)
            ret->capacity = limit->capacity;
    }
    if (any)
        sl_limit_derive(ret);
    return any;
}

/* Read one rate. The anchor is judged later, once for all plans. */
static bool read_rate(struct reading *r, const struct sl_node *node,
                      struct sl_plan_limit *ret)
{
    struct sl_limit_options options = {.zone = r->rule->options.zone};
    struct sl_diag diag = {0};
    struct sl_rate rate;

    if (!sl_build_ok(r->b, node, sl_parse_rate(node->text, &rate, &diag),
                     &diag))
        return false;
    if (rate.form != SL_RATE_UNLIMITED && rate.form != SL_RATE_NONE) {
        if (r->rule->kind == SL_KINDS) /* can't be judged */
            return true;
        if (!sl_build_ok(r->b, node,
                         sl_limit_init(&ret->numbers, r->rule->kind, &rate,
                                       &options, &diag),
                         &diag))
            return false;
    }
    ret->form = rate.form;
    return true;
}

/* ---- a map ---- */

/* The plan that a key of the map means; -1 after saying that there is none. */
static int find_plan(struct reading *r, const struct sl_node *node)
{
    const struct sl_names *names = &r->b->box->plans;
    int plan = sl_names_find(names, node->key);
    const char *meant;
    struct sl_diag *diag;

    if (plan >= 0 || names->unsure)
        return plan;
    diag = sl_report_error(r->b->report, SL_AT_KEY(node),
                           "Unknown plan \"%s\". Define it under `plans`",
                           sl_quote(node->key).text);
    meant = sl_build_meant(r->b, diag, names, node->key);
    plan = meant ? sl_names_find(names, sl_str_c(meant)) : -1;
    /* The plan that was meant is not missing, it is misspelt. */
    if (plan >= 0 && !r->given[plan])
        r->given[plan] = node;
    return -1;
}

static void read_entry(struct reading *r, const struct sl_node *node)
{
    int plan = find_plan(r, node);

    if (plan < 0) {
        r->bad = true;
        return;
    }
    if (r->given[plan] &&
        sl_names_find(&r->b->box->plans, r->given[plan]->key) == plan) {
        sl_report_error(r->b->report, SL_AT_KEY(node),
                        "Plan \"%.64s\" already has a rate on line %u",
                        r->b->policy->plans.list[plan].name.at,
                        r->given[plan]->key_place.line);
        r->bad = true;
        return;
    }
    r->given[plan] = node;
    if (node->kind != SL_NODE_SCALAR || !read_rate(r, node, &r->plans[plan]))
        r->bad = true;
}

static void refuse_missing(struct reading *r)
{
    const struct sl_plans *plans = &r->b->policy->plans;

    for (unsigned i = 0; i < plans->count; i++) {
        const char *plan = plans->list[i].name.at;

        if (r->given[i] || r->b->box->plans.unsure)
            continue;
        r->bad = true;
        sl_hint(sl_report_error(r->b->report, SL_AT_KEY(r->node),
                                "Plan \"%.64s\" has no %s for limit \"%.64s\"",
                                plan, r->node->key.at, r->rule->name.at),
                "%.64s: RATE, or %.20s: unlimited, or %.20s: none", plan, plan,
                plan);
    }
}

/* Where there are no plans, a map is a misunderstanding. */
static bool refuse_map(struct reading *r)
{
    if (r->b->has_plans || r->b->box->plans.unsure)
        return false;
    sl_report_error(r->b->report, SL_AT_KEY(r->node),
                    "Limit \"%.64s\" has a %s for each plan, but the policy "
                    "has no plans. Write one for all, or define plans under "
                    "`plans`",
                    r->rule->name.at, r->node->key.at);
    r->bad = true;
    return true;
}

static void read_map(struct reading *r)
{
    if (refuse_map(r))
        return;
    for (const struct sl_node *n = r->node->child; n; n = n->next)
        read_entry(r, n);
    refuse_missing(r);
}

/* ---- all of it ---- */

/* The first plan with numbers, or the number of plans. */
static unsigned first_with_numbers(const struct reading *r)
{
    unsigned i = 0, count = r->b->policy->plans.count;

    while (i < count && !has_numbers(&r->plans[i]))
        i++;
    return i;
}

static void refuse_other_periods(struct reading *r, unsigned first)
{
    const struct sl_plans *plans = &r->b->policy->plans;

    for (unsigned i = first + 1; i < plans->count; i++) {
        if (!has_numbers(&r->plans[i]) ||
            sl_limit_shape(&r->plans[i].numbers) ==
                sl_limit_shape(&r->plans[first].numbers))
            continue;
        r->bad = true;
        sl_report_error(r->b->report, SL_AT(r->given[i]),
                        "The period of %s differs from the %s of plan "
                        "\"%.64s\". All plans of a limit must have the same "
                        "period",
                        sl_build_shown(r->given[i]).text,
                        sl_build_shown(r->given[first]).text,
                        plans->list[first].name.at);
    }
}

/* Does the anchor fit the period? Said at the anchor, and of a candidate only
 * if the rate had nothing to say. */
static void judge_anchor(struct reading *r, unsigned first)
{
    const struct sl_node *anchor = sl_build_scalar(r->limit, "anchor");
    struct sl_limit_options options = {.anchor = r->rule->options.anchor};
    struct sl_diag diag = {0};
    struct sl_limit limit;
    struct sl_rate rate;

    bool of_candidate = r->node != sl_node_get(r->limit, "rate");

    if (!anchor || !r->plans[first].numbers.calendar ||
        (of_candidate && !r->rule->plans) ||
        sl_parse_rate(r->given[first]->text, &rate, NULL))
        return;
    if (!sl_build_ok(r->b, anchor,
                     sl_limit_init(&limit, SL_QUOTA, &rate, &options, &diag),
                     &diag)) {
        r->bad = true;
        return;
    }
    for (unsigned i = 0; i < r->b->policy->plans.count; i++)
        if (has_numbers(&r->plans[i]))
            r->plans[i].numbers.cal.anchor = limit.cal.anchor;
}

/* All plans follow the same calendar, so they remember its period together. */
static void share_memo(struct reading *r)
{
    sl_period_memo *memo = sl_build_take(r->b, 1, sizeof(*memo));

    for (unsigned i = 0; i < r->b->policy->plans.count; i++)
        if (has_numbers(&r->plans[i]) && r->plans[i].numbers.calendar)
            r->plans[i].numbers.cal.memo = memo;
}

/* Quotas of plans that may go on when they are used up. */
static void open_overage(struct reading *r)
{
    const struct sl_plans *plans = &r->b->policy->plans;

    for (unsigned i = 0; i < plans->count; i++) {
        struct sl_plan_limit *limit = &r->plans[i];

        if (!plans->list[i].overage || !has_numbers(limit) ||
            limit->numbers.kind != SL_QUOTA)
            continue;
        limit->overage = true;
        limit->open = sl_build_open(&limit->numbers);
    }
}

static void read_all(struct reading *r)
{
    unsigned count = r->b->policy->plans.count, first;

    if (r->node->kind == SL_NODE_MAP) {
        read_map(r);
    } else {
        r->bad = !read_rate(r, r->node, &r->plans[0]);
        for (unsigned i = 0; i < count; i++) {
            r->plans[i] = r->plans[0];
            r->given[i] = r->node;
        }
    }
    first = first_with_numbers(r);
    if (first == count)
        return;
    refuse_other_periods(r, first);
    if (!r->bad)
        judge_anchor(r, first);
    if (!r->bad && r->plans[first].numbers.calendar)
        share_memo(r);
    if (!r->bad)
        open_overage(r);
}

const struct sl_plan_limit *sl_build_rates(struct sl_build *b,
                                           const struct sl_rule *rule,
                                           const struct sl_node *limit,
                                           const char *key)
{
    struct reading r = {.b = b, .rule = rule, .limit = limit};
    unsigned count = b->policy->plans.count;

    r.node = sl_node_get(limit, key);
    if (!r.node || r.node->kind == SL_NODE_EMPTY)
        return NULL;
    r.plans = sl_build_take(b, count, sizeof(*r.plans));
    r.given = sl_build_borrow(b, count, sizeof(struct sl_node *));
    if (!r.plans || !r.given)
        return NULL;
    for (unsigned i = 0; i < count; i++)
        r.plans[i].form = SL_RATE_NONE; /* until it is read */
    read_all(&r);
    return r.bad ? NULL : r.plans;
}
