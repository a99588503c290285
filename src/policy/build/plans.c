/* plans.c -- `plans`: names, aliases, and which plan is whose. */
#include "policy/build/build.h"

/* The keys of `plans` that are no plans; and what the schema refused, for
 * nobody knows what that was meant to be. */
static bool is_setting(const struct sl_node *node)
{
    return sl_build_refused(node) || sl_str_eq(node->key, SL_STR("default")) ||
           sl_str_eq(node->key, SL_STR("anonymous")) ||
           sl_str_eq(node->key, SL_STR("unknown_plan"));
}

static bool has_holes(const struct sl_node *plans)
{
    for (const struct sl_node *n = plans ? plans->child : NULL; n; n = n->next)
        if (sl_build_refused(n))
            return true;
    return false;
}

static unsigned count_plans(const struct sl_node *plans)
{
    unsigned count = 0;

    for (const struct sl_node *n = plans ? plans->child : NULL; n; n = n->next)
        count += !is_setting(n);
    return count;
}

/* A policy without plans has one. */
static void make_only_plan(struct sl_build *b)
{
    struct sl_plan *plan = sl_build_take(b, 1, sizeof(*plan));

    if (!plan || !sl_names_init(&b->box->plans, 1, true, b->arena)) {
        b->no_memory = true;
        return;
    }
    plan->name = SL_STR("default");
    plan->weight = 1;
    sl_names_add(&b->box->plans, plan->name, 0, (struct sl_place){0, 0});
    b->policy->plans.list = plan;
    b->policy->plans.count = 1;
}

static void read_aliases(struct sl_build *b, const struct sl_node *node,
                         struct sl_plan *plan, unsigned index)
{
    const struct sl_node *list = sl_node_get(node, "aliases"), *item;
    struct sl_str *aliases =
        sl_build_take(b, sl_build_most(list) + 1, sizeof(*aliases));

    plan->aliases = aliases;
    if (!aliases)
        return;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item)) {
        if (item->text.len == 0) {
            sl_report_error(b->report, SL_AT(item),
                            "An alias of a plan must not be empty");
            continue;
        }
        aliases[plan->alias_count] = sl_build_keep(b, item->text);
        sl_names_add(&b->box->plans, aliases[plan->alias_count++], index,
                     SL_AT(item));
    }
}

static void read_plan(struct sl_build *b, const struct sl_node *node,
                      struct sl_plan *plan, unsigned index)
{
    (void)sl_build_key_name(b, "a plan", node);
    plan->name = sl_build_keep(b, node->key);
    plan->overage = sl_build_bool(node, "overage", false);
    plan->weight = (unsigned)sl_build_number(b, node, "weight", 1, 1000, 1);
    sl_names_add(&b->box->plans, plan->name, index, SL_AT_KEY(node));
    read_aliases(b, node, plan, index);
}

/* Names and aliases of all plans. */
static unsigned count_names(const struct sl_node *plans)
{
    unsigned count = 0;

    for (const struct sl_node *n = plans->child; n; n = n->next)
        if (!is_setting(n))
            count += 1 + sl_build_most(sl_node_get(n, "aliases"));
    return count;
}

static void refuse_same_names(struct sl_build *b)
{
    const struct sl_names *names = &b->box->plans;

    for (unsigned i = 1; i < names->count; i++) {
        const struct sl_name *name = &names->list[i], *before = name - 1;

        if (!sl_names_again(names, i))
            continue;
        if (name->index == before->index)
            sl_report_warning(b->report, name->place,
                              "The plan already has the name \"%.64s\". Plan "
                              "names ignore case",
                              name->name.at);
        else
            sl_report_error(b->report, name->place,
                            "Duplicate plan or alias \"%.64s\". The first one "
                            "is on line %u. Plan names ignore case",
                            name->name.at, before->place.line);
    }
}

static void read_plans(struct sl_build *b, const struct sl_node *node,
                       unsigned count)
{
    struct sl_plan *list = sl_build_take(b, count, sizeof(*list));
    unsigned i = 0;

    if (!list ||
        !sl_names_init(&b->box->plans, count_names(node), true, b->arena)) {
        b->no_memory = true;
        return;
    }
    b->has_plans = true;
    b->policy->plans.list = list;
    b->policy->plans.count = count;
    for (const struct sl_node *n = node->child; n; n = n->next)
        if (!is_setting(n)) {
            read_plan(b, n, &list[i], i);
            i++;
        }
    sl_names_close(&b->box->plans);
    refuse_same_names(b);
}

/* The plan that `key` names; `preset` if it names none. */
static unsigned named_plan(struct sl_build *b, const struct sl_node *plans,
                           const char *key, unsigned preset)
{
    const struct sl_node *node = sl_build_scalar(plans, key);
    int index;

    if (!node)
        return preset;
    index = sl_names_find(&b->box->plans, node->text);
    if (index < 0 && !b->has_plans && !b->box->plans.unsure)
        sl_hint(sl_report_error(b->report, SL_AT(node),
                                "`%s` names the plan \"%s\", but the policy "
                                "has no plans",
                                key, sl_build_shown(node).text),
                "%s: {}", sl_build_shown(node).text);
    else if (index < 0)
        (void)sl_build_find(b, &b->box->plans, node, "plan");
    return index < 0 ? preset : (unsigned)index;
}

/* Which plan have those whose plan is not known, if nothing is written? */
static unsigned guess_default(struct sl_build *b, const struct sl_node *plans)
{
    const struct sl_plans *p = &b->policy->plans;
    int index = sl_names_find(&b->box->plans, SL_STR("free"));

    if (index < 0)
        index = sl_names_find(&b->box->plans, SL_STR("default"));
    if (index >= 0)
        return (unsigned)index;
    if (b->has_plans && !sl_node_get(plans, "default") && !b->box->plans.unsure)
        sl_hint(sl_report_error(b->report, SL_AT_KEY(plans),
                                "`plans` needs a `default`, the plan of "
                                "callers without a known plan"),
                "default: %.64s", p->list[0].name.at);
    return 0;
}

void sl_build_plans(struct sl_build *b)
{
    const struct sl_node *node = sl_node_get(b->root, "plans");
    struct sl_plans *plans = &b->policy->plans;
    static const char *const unknown[] = {"default", "deny"};
    unsigned count = count_plans(node);
    bool too_many = count > SL_PLANS_MAX ||
                    (count && count_names(node) > SL_PLAN_NAMES_MAX);

    if (too_many) {
        sl_report_error(b->report, SL_AT_KEY(node),
                        "Too many plans. The maximum is %d plans, and %d "
                        "names with all aliases",
                        SL_PLANS_MAX, SL_PLAN_NAMES_MAX);
        count = 0;
    }
    if (count > 0)
        read_plans(b, node, count);
    else
        make_only_plan(b);
    if (b->no_memory)
        return;
    b->box->plans.unsure =
        too_many || sl_build_refused(node) || has_holes(node);
    plans->fallback = named_plan(b, node, "default", guess_default(b, node));
    plans->anonymous = named_plan(b, node, "anonymous", plans->fallback);
    plans->deny_unknown =
        sl_build_choice(node, "unknown_plan", unknown, 2, 0) == 1;
}
