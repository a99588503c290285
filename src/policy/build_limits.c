/* build_limits.c -- `limits`: from names and words to rules. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/zone.h"
#include "policy/policy_int.h"

static bool refuse_for(struct sl_build *b, const struct sl_yaml_node *node,
                       const char *valid, const struct sl_rule *rule)
{
    return sl_build_key_error(
        b, node, "`%s` is valid only for %s. Limit \"%.64s\" is a %s",
        node->key.at, valid, rule->name.at, sl_kind_name(rule->kind));
}

static void read_kind(struct sl_build *b, const struct sl_yaml_node *node,
                      struct sl_rule *rule)
{
    static const enum sl_kind kinds[] = {SL_BUCKET,  SL_LEAKY, SL_FIXED,
                                         SL_SLIDING, SL_QUOTA, SL_PERMITS,
                                         SL_LEVEL};
    const struct sl_yaml_node *kind = sl_build_get(node, "kind");
    const struct sl_yaml_node *refill = sl_build_get(node, "refill");

    rule->kind = SL_KINDS; /* not known */
    for (size_t i = 0; kind && i < SL_LEN(kinds); i++)
        if (sl_str_eq(kind->text, sl_str_c(sl_kind_name(kinds[i]))))
            rule->kind = kinds[i];
    if (!refill || rule->kind == SL_KINDS)
        return;
    if (rule->kind != SL_BUCKET)
        refuse_for(b, refill, "token-buckets", rule);
    else if (sl_str_eq(refill->text, SL_STR("interval")))
        rule->kind = SL_INTERVAL;
}

static void read_per(struct sl_build *b, const struct sl_yaml_node *list,
                     struct sl_rule *rule)
{
    const struct sl_names *names = &b->box->scopes;
    const struct sl_yaml_node *item;

    if (!list || !sl_build_short(b, list, SL_PER_MAX, "scopes"))
        return;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item)) {
        int scope = sl_names_find(names, item->text);

        if (scope < 0)
            sl_build_error(b, item,
                           "Unknown scope \"%.64s\". Valid scopes: user, org, "
                           "ip, anon, endpoint and the scopes of "
                           "`identity`" SL_HINT "%s",
                           sl_build_shown(item).text,
                           sl_build_guess(b, names, item->text));
        else if (!sl_build_twice(b, list, item, "Scope"))
            rule->per[rule->per_count++] = (unsigned)scope;
    }
}

/* The zone of that name, read once for all limits. NULL if there is none. */
static struct sl_policy_zone *find_zone(struct sl_build *b,
                                        const struct sl_yaml_node *node)
{
    struct sl_policy_zone *zone = b->box->zones;
    struct sl_diag diag = {0};
    int err = 0;

    while (zone && !sl_str_eq(zone->name, node->text))
        zone = zone->next;
    if (zone)
        return zone;
    zone = sl_build_take(b, 1, sizeof(*zone));
    if (!zone)
        return NULL;
    zone->name = sl_build_keep(b, node->text);
    if (!sl_str_eq(node->text, SL_STR("UTC"))) /* which needs no file */
        err = sl_zone_load(zone->name.at, &b->box->alloc, &zone->zone, &diag);
    if (!sl_build_ok(b, node, err, &diag))
        return NULL;
    zone->next = b->box->zones;
    b->box->zones = zone;
    return zone;
}

static void read_calendar(struct sl_build *b, const struct sl_yaml_node *node,
                          struct sl_rule *rule)
{
    const struct sl_yaml_node *zone = sl_build_get(node, "zone");
    const struct sl_yaml_node *anchor = sl_build_get(node, "anchor");
    struct sl_policy_zone *found;

    rule->zone_name = SL_STR("UTC");
    if (rule->kind == SL_KINDS)
        return;
    if (rule->kind != SL_QUOTA) {
        if (zone)
            refuse_for(b, zone, "quotas", rule);
        if (anchor)
            refuse_for(b, anchor, "quotas", rule);
        return;
    }
    found = zone ? find_zone(b, zone) : NULL;
    if (found) {
        rule->zone_name = found->name;
        rule->options.zone = &found->zone;
    }
    rule->options.anchor = (uint32_t)sl_build_number(b, anchor, 1, 31, 0);
}

/* A quota by the hour has no calendar. */
static void refuse_idle_calendar(struct sl_build *b,
                                 const struct sl_yaml_node *node,
                                 const struct sl_rule *rule)
{
    const struct sl_yaml_node *n = sl_build_get(node, "zone");

    if (!n)
        n = sl_build_get(node, "anchor");
    if (n && rule->kind == SL_QUOTA && rule->limited &&
        !rule->strictest.calendar)
        sl_build_key_error(
            b, n,
            "`%s` is valid only for quotas by day, week or month. Limit "
            "\"%.64s\" has another period",
            n->key.at, rule->name.at);
}

static const char *preset_code(int status)
{
    static const struct {
        int status;
        const char *code;
    } codes[] = {
        {429, "RATE_LIMITED"       },
        {402, "PLAN_LIMIT_EXCEEDED"},
        {403, "FORBIDDEN"          },
        {401, "UNAUTHORIZED"       },
        {409, "CONFLICT"           },
        {503, "UNAVAILABLE"        },
    };

    for (size_t i = 0; i < SL_LEN(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return "DENIED";
}

static bool is_code(struct sl_str text)
{
    size_t len = strspn(text.at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789_.-");

    return len == text.len && len > 0 && len <= 64;
}

/* The row of `status` comes first: it decides the preset. */
void sl_fill_code(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *code, void *into)
{
    struct sl_deny *deny = into;

    (void)row;
    deny->code = code ? sl_build_keep(b, code->text)
                      : sl_str_c(preset_code(deny->status));
    if (code && !is_code(code->text))
        sl_build_error(b, code,
                       "Invalid code \"%.64s\". A code has up to 64 letters, "
                       "digits, '_', '.' and '-', like RATE_LIMITED",
                       sl_build_shown(code).text);
}

/* The mode of a limit is the weaker one of its own and of the policy's. */
void sl_fill_mode(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *node, void *into)
{
    int64_t mode = node ? sl_schema_value(row, node->text) : 0;

    sl_schema_set(row, into, mode > b->policy->mode ? mode : b->policy->mode);
}

void sl_fill_cost(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *cost, void *into)
{
    struct sl_rule *rule = into;
    struct sl_diag diag = {0};
    uint64_t n = 1;

    (void)row;
    if (cost &&
        sl_build_ok(b, cost, sl_parse_count(cost->text, &n, &diag), &diag) &&
        n == 0)
        sl_build_error(b, cost,
                       "A cost of 0 counts nothing. Remove the limit from the "
                       "route instead");
    rule->cost = n ? n : 1;
    rule->fixed_cost = cost != NULL;
}

/* Why a kind can't be leased; NULL if it can. */
static const char *unleased(enum sl_kind kind)
{
    switch (kind) {
    case SL_LEAKY:
        return "A leaky bucket spaces the requests of all nodes together";
    case SL_PERMITS:
        return "A permit cannot be taken in advance";
    case SL_LEVEL:
        return "A level counts what exists. It cannot be taken in advance";
    default:
        return NULL;
    }
}

/* "80" or "80%", from 1 to `most`. */
static bool read_percent(struct sl_str text, uint64_t most, uint64_t *ret)
{
    if (text.len > 1 && text.at[text.len - 1] == '%')
        text.len--;
    return !sl_parse_number(text, ret, NULL) && *ret > 0 && *ret <= most;
}

void sl_fill_lease(struct sl_build *b, const struct sl_schema_key *row,
                   const struct sl_yaml_node *lease, void *into)
{
    struct sl_rule *rule = into;
    const char *why = unleased(rule->kind);
    uint64_t percent;

    (void)row;
    if (!lease)
        return;
    if (lease->text.len < 2 || lease->text.len > 4 ||
        lease->text.at[lease->text.len - 1] != '%' ||
        !read_percent(lease->text, 100, &percent))
        sl_build_error(b, lease,
                       "`lease` must be a part of the capacity, from 1%% to "
                       "100%%, not %s" SL_HINT "lease: 10%%",
                       sl_build_shown(lease).text);
    else if (why)
        sl_build_error(b, lease, "%s. Leave `lease` out", why);
    else
        rule->lease = (unsigned)percent;
}

/* ---- `rate` and `candidate`: one for all plans, or one for each.
 *
 * A map has a rate for every plan, since every plan can reach every route, and
 * a paying caller must not get the rate of a free plan because a line is
 * missing.
 *
 * All plans of a limit count in one period: what was used is kept in units of
 * the period, and callers keep it when they change their plan.
 */

/* A reading of one of the two keys. */
struct reading {
    struct sl_build *b;
    const struct sl_rule *rule;
    const struct sl_yaml_node *limit;  /* all of it */
    const struct sl_yaml_node *node;   /* the value of the key */
    struct sl_plan_limit *plans;       /* by plan */
    const struct sl_yaml_node **given; /* by plan: its rate, or NULL */
    bool bad;                          /* something was refused */
};

static bool has_numbers(const struct sl_plan_limit *limit)
{
    return sl_rate_has_numbers(limit->form);
}

/* The count stays: usage above it is overage. */
struct sl_limit sl_build_open(const struct sl_limit *limit)
{
    struct sl_limit open = *limit;

    open.capacity = SL_AMOUNT_MAX;
    sl_limit_derive(&open);
    return open;
}

/* The smallest count and capacity over the plans with numbers; false if none
 * has numbers. */
static bool find_strictest(const struct sl_policy *policy,
                           const struct sl_plan_limit *plans,
                           struct sl_limit *ret)
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
static bool read_rate(struct reading *r, const struct sl_yaml_node *node,
                      struct sl_plan_limit *ret)
{
    struct sl_limit_options options = {.zone = r->rule->options.zone,
                                       .scale = r->rule->options.scale,
                                       .unit = r->rule->options.unit};
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
    ret->scale = options.scale;
    return true;
}

/* The plan that a key of the map means; -1 after saying that there is none. */
static int find_plan(struct reading *r, const struct sl_yaml_node *node)
{
    const struct sl_names *names = &r->b->box->plans;
    int plan = sl_names_find(names, node->key);
    const char *guess;

    if (plan >= 0 || names->unsure)
        return plan;
    guess = sl_build_guess(r->b, names, node->key);
    sl_build_key_error(
        r->b, node, "Unknown plan \"%s\". Define it under `plans`" SL_HINT "%s",
        sl_quote(node->key).text, guess);
    plan = sl_names_find(names, sl_str_c(guess));
    /* The plan that was meant is not missing, it is misspelt. */
    if (plan >= 0 && !r->given[plan])
        r->given[plan] = node;
    return -1;
}

static void read_entry(struct reading *r, const struct sl_yaml_node *node)
{
    int plan = find_plan(r, node);

    if (plan < 0) {
        r->bad = true;
        return;
    }
    if (r->given[plan] &&
        sl_names_find(&r->b->box->plans, r->given[plan]->key) == plan) {
        sl_build_key_error(r->b, node,
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
        sl_build_key_error(
            r->b, r->node,
            "Plan \"%.64s\" has no %s for limit \"%.64s\"" SL_HINT
            "%.64s: RATE, or %.20s: unlimited, or %.20s: none",
            plan, r->node->key.at, r->rule->name.at, plan, plan, plan);
    }
}

static void read_map(struct reading *r)
{
    if (!r->b->has_plans && !r->b->box->plans.unsure) {
        sl_build_key_error(r->b, r->node,
                           "Limit \"%.64s\" has a %s for each plan, but the "
                           "policy has no plans. Write one for all, or define "
                           "plans under `plans`",
                           r->rule->name.at, r->node->key.at);
        r->bad = true;
        return;
    }
    for (const struct sl_yaml_node *n = r->node->child; n; n = n->next)
        read_entry(r, n);
    refuse_missing(r);
}

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
        sl_build_error(
            r->b, r->given[i],
            "The period of %s differs from the %s of plan \"%.64s\". All plans "
            "of a limit must have the same period",
            sl_build_shown(r->given[i]).text,
            sl_build_shown(r->given[first]).text, plans->list[first].name.at);
    }
}

/* Does the anchor fit the period? Said at the anchor, and of a candidate only
 * if the rate had nothing to say. */
static void judge_anchor(struct reading *r, unsigned first)
{
    const struct sl_yaml_node *anchor = sl_build_get(r->limit, "anchor");
    struct sl_limit_options options = {.anchor = r->rule->options.anchor};
    struct sl_diag diag = {0};
    struct sl_limit limit;
    struct sl_rate rate;

    bool of_candidate = r->node != sl_yaml_node_get(r->limit, "rate");

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

/* The numbers of each plan from `rate` or `candidate`; NULL if they are missing
 * or invalid. */
static const struct sl_plan_limit *
read_plan_rates(struct sl_build *b, const struct sl_rule *rule,
                const struct sl_yaml_node *limit, const char *key)
{
    struct reading r = {.b = b, .rule = rule, .limit = limit};
    unsigned count = b->policy->plans.count;

    r.node = sl_yaml_node_get(limit, key);
    if (!r.node || r.node->kind == SL_NODE_EMPTY)
        return NULL;
    r.plans = sl_build_take(b, count, sizeof(*r.plans));
    r.given = sl_build_borrow(b, count, sizeof(struct sl_yaml_node *));
    if (!r.plans || !r.given)
        return NULL;
    for (unsigned i = 0; i < count; i++)
        r.plans[i].form = SL_RATE_NONE; /* until it is read */
    read_all(&r);
    return r.bad ? NULL : r.plans;
}

/* ---- `unit` ---- */

/* A permit and a request in a queue have no parts. */
void sl_fill_unit(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *node, void *into)
{
    struct sl_rule *rule = into;

    if (!node)
        return;
    if (node->kind == SL_NODE_SCALAR) {
        rule->unit = sl_build_keep(b, node->text);
        return;
    }
    sl_schema_fill(b, row->below, node, rule);
    if (rule->options.scale > 0 &&
        (rule->kind == SL_PERMITS || rule->kind == SL_LEAKY)) {
        refuse_for(b, sl_yaml_node_get(node, "of"),
                   "quotas, levels, token-buckets and windows", rule);
        rule->options.scale = 0;
    }
    rule->options.unit = sl_unit_mark(rule->options.scale, rule->reports);
}

/* ---- a limit ---- */

void sl_build_warn_of_cost(struct sl_build *b, const struct sl_yaml_node *node,
                           const struct sl_rule *rule, uint64_t cost)
{
    const struct sl_plans *plans = &b->policy->plans;

    for (unsigned i = 0; rule->plans && i < plans->count; i++) {
        const struct sl_plan_limit *plan = &rule->plans[i];

        if (!sl_rate_has_numbers(plan->form) || plan->overage ||
            plan->numbers.capacity >= cost)
            continue;
        sl_report_warning(b->report, node->place,
                          "A request costs %" PRIu64 " of limit \"%.64s\", but "
                          "plan \"%.64s\" has at most %" PRIu64
                          ". All its requests are denied",
                          cost, rule->name.at, plans->list[i].name.at,
                          plan->numbers.capacity);
        return;
    }
}

/* Why checks of a kind must take something; NULL if they need not. */
static const char *always_taken(enum sl_kind kind)
{
    switch (kind) {
    case SL_LEAKY:
        return "A leaky bucket spaces requests when they are checked";
    case SL_PERMITS:
        return "A permit is taken by a check and released, not reported";
    default:
        return NULL;
    }
}

/* What a limit that reports charge does not use. */
static void warn_of_charge(struct sl_build *b, const struct sl_yaml_node *node,
                           const struct sl_rule *rule)
{
    const struct sl_yaml_node *cost = sl_build_get(node, "cost");
    const struct sl_yaml_node *usage =
        sl_build_get(sl_yaml_node_get(b->root, "server"), "usage");

    if (cost)
        sl_report_warning(b->report, cost->place,
                          "Only checks with a hold have a cost here. Others "
                          "take nothing of limit \"%.64s\" (`charge: "
                          "on_report`)",
                          rule->name.at);
    if (usage && sl_str_eq(usage->text, SL_STR("none")))
        sl_report_warning(b->report, usage->place,
                          "Limit \"%.64s\" is charged by reports, and a daemon "
                          "without a usage database accepts none",
                          rule->name.at);
}

static void check_charge(struct sl_build *b, const struct sl_yaml_node *node,
                         const struct sl_rule *rule)
{
    const struct sl_yaml_node *charge = sl_build_get(node, "charge");
    const struct sl_yaml_node *lease = sl_build_get(node, "lease");
    const char *why = always_taken(rule->kind);

    if (rule->charge != SL_CHARGE_ON_REPORT)
        return;
    if (why)
        sl_build_error(b, charge, "%s. Leave `charge` out", why);
    else if (lease)
        sl_build_key_error(b, lease,
                           "`lease` takes units in advance, but a check of "
                           "limit \"%.64s\" takes none (`charge: on_report`). "
                           "Leave `lease` out",
                           rule->name.at);
    else
        warn_of_charge(b, node, rule);
}

static void read_rates(struct sl_build *b, const struct sl_yaml_node *node,
                       struct sl_rule *rule)
{
    rule->plans = read_plan_rates(b, rule, node, "rate");
    if (rule->plans) {
        rule->limited =
            find_strictest(b->policy, rule->plans, &rule->strictest);
        refuse_idle_calendar(b, node, rule);
        if (sl_build_get(node, "cost"))
            sl_build_warn_of_cost(b, sl_build_get(node, "cost"), rule,
                                  rule->cost);
    }
    rule->candidates = read_plan_rates(b, rule, node, "candidate");
    if (rule->candidates)
        rule->has_candidate = find_strictest(b->policy, rule->candidates,
                                             &rule->candidate_strictest);
}

static void read_key(struct sl_build *b, const struct sl_yaml_node *node,
                     struct sl_rule *rule)
{
    const struct sl_yaml_node *key = sl_build_get(node, "key");
    struct sl_diag diag = {0};
    int err;

    b->keys[rule->index] = key;
    err = sl_key_template_read(rule->key_text, b->arena, &rule->key, &diag);
    if (sl_build_ok(b, key ? key : node, err, &diag) && key &&
        strstr(rule->key_text.at, SL_KEY_CANDIDATE))
        sl_build_error(b, key,
                       "A key must not contain " SL_KEY_CANDIDATE
                       ", which marks the keys of candidates");
    else if (!err && key && strstr(rule->key_text.at, SL_GUARD_NAME))
        sl_build_error(b, key,
                       "A key must not contain " SL_GUARD_NAME
                       ", which marks the keys of guards");
    else if (!err && key && strstr(rule->key_text.at, SL_PENALTY_NAME))
        sl_build_error(b, key,
                       "A key must not contain " SL_PENALTY_NAME
                       ", which marks the keys of penalties");
}

static bool has_holes(const struct sl_yaml_node *node)
{
    bool holes = sl_build_refused(node);

    if (node && node->kind == SL_NODE_LIST)
        for (const struct sl_yaml_node *n = node->child; n; n = n->next)
            holes |= sl_build_refused(n);
    return holes;
}

static void read_limit(struct sl_build *b, const struct sl_yaml_node *node,
                       struct sl_rule *rule)
{
    unsigned errors;

    (void)sl_build_key_name(b, "a limit", node);
    rule->name = sl_build_keep(b, node->key);
    rule->place = node->key_place;
    rule->kind = SL_KINDS;
    if (node->kind != SL_NODE_MAP)
        return; /* reported by the schema */
    read_kind(b, node, rule);
    read_calendar(b, node, rule);
    rule->failure = rule->kind == SL_QUOTA || rule->kind == SL_LEVEL ||
                            rule->kind == SL_PERMITS
                        ? SL_FAILURE_DENY
                        : SL_FAILURE_ALLOW;
    rule->key_text = SL_STR(SL_KEY_DEFAULT);
    sl_schema_fill(b, SL_LEVEL_LIMIT, node, rule);
    errors = b->report->errors;
    read_per(b, sl_build_get(node, "per"), rule);
    read_key(b, node, rule);
    b->sound[rule->index] = b->report->errors == errors &&
                            rule->kind != SL_KINDS &&
                            !has_holes(sl_yaml_node_get(node, "per")) &&
                            !has_holes(sl_yaml_node_get(node, "missing")) &&
                            !has_holes(sl_yaml_node_get(node, "key"));
    read_rates(b, node, rule);
    check_charge(b, node, rule);
}

/* Limits, and candidates and penalties, which are limits of their own to the
 * table. */
static bool too_many(struct sl_build *b, const struct sl_yaml_node *node)
{
    unsigned count = node->count;

    for (const struct sl_yaml_node *n = node->child; n; n = n->next) {
        count += sl_yaml_node_get(n, "candidate") != NULL;
        count += sl_yaml_node_get(n, "penalty") != NULL;
    }
    if (count <= SL_LIMITS)
        return false;
    sl_build_key_error(b, node,
                       "%u limits, candidates and penalties are too many. The "
                       "maximum is %d",
                       count, SL_LIMITS);
    return true;
}

/* ---- `credits` of a limit: the quota that pays for what it denies. ---- */

static bool is_rate(enum sl_kind kind)
{
    return kind == SL_BUCKET || kind == SL_INTERVAL || kind == SL_FIXED ||
           kind == SL_SLIDING;
}

static const struct sl_plan *find_unlimited(const struct sl_build *b,
                                            const struct sl_rule *pool)
{
    const struct sl_plans *plans = &b->policy->plans;

    for (unsigned i = 0; pool->plans && i < plans->count; i++)
        if (pool->plans[i].form == SL_RATE_UNLIMITED)
            return &plans->list[i];
    return NULL;
}

static bool check_pool(struct sl_build *b, const struct sl_yaml_node *item,
                       const struct sl_rule *rule, const struct sl_rule *pool)
{
    const struct sl_plan *open = find_unlimited(b, pool);

    if (!is_rate(rule->kind))
        return sl_build_error(b, item,
                              "Credits pay for what a rate denies: of a token "
                              "bucket or a window. Leave `credits` out");
    if (rule->penalty.after > 0)
        return sl_build_error(b, item,
                              "Credits pay for what the limit denies, and its "
                              "`penalty` blocks for it. Leave one of them out, "
                              "or give the penalty to a limit of its own");
    if (pool->kind != SL_QUOTA)
        return sl_build_error(b, item,
                              "Credits are a quota, and limit \"%.64s\" is "
                              "another kind. Write the name of a quota",
                              pool->name.at);
    if (rule->charge == SL_CHARGE_ON_REPORT ||
        pool->charge == SL_CHARGE_ON_REPORT)
        return sl_build_error(b, item,
                              "Credits are taken by checks, and `charge: "
                              "on_report` takes nothing then. Leave one of "
                              "them out");
    if ((sl_rule_is_scaled(rule) || sl_rule_is_scaled(pool)) &&
        rule->options.scale != pool->options.scale)
        return sl_build_error(
            b, item,
            "A request has one cost in limit \"%.32s\" and in "
            "its credits. Give both the same `unit`, or none "
            "with `of`",
            rule->name.at);
    return !open ||
           sl_build_error(b, item,
                          "Limit \"%.32s\" is unlimited for plan \"%.32s\", so "
                          "credits would lift limit \"%.32s\". If that is "
                          "meant, write unlimited there",
                          pool->name.at, open->name.at, rule->name.at);
}

static void read_credits(struct sl_build *b, const struct sl_yaml_node *node,
                         struct sl_rule *rule)
{
    const struct sl_yaml_node *item =
        rule->credits_name.len > 0 ? sl_build_get(node, "credits") : NULL;
    int index = item ? sl_build_find(b, &b->box->rules, item, "limit") : -1;

    if (index >= 0 && check_pool(b, item, rule, &b->rules[index]))
        rule->credits = &b->rules[index];
}

/* ---- `penalty` of a limit. */

static bool is_whole(struct sl_build *b, const struct sl_yaml_node *map,
                     const char *key, sl_ns span)
{
    if (span % SL_S == 0)
        return true;
    sl_build_error(b, sl_build_get(map, key), "`%s` must be whole seconds",
                   key);
    return false;
}

void sl_fill_penalty(struct sl_build *b, const struct sl_schema_key *row,
                     const struct sl_yaml_node *node, void *into)
{
    struct sl_rule *rule = into;
    struct sl_penalty_rate *p = &rule->penalty;
    unsigned errors = b->report->errors;
    char text[32];

    if (!node)
        return;
    sl_schema_fill(b, row->below, node, p);
    if (b->report->errors != errors || p->after == 0 ||
        !is_whole(b, node, "within", p->within) ||
        !is_whole(b, node, "block", p->block) ||
        !is_whole(b, node, "most", p->most))
        return;
    if (p->block > p->most)
        sl_build_error(b, sl_build_get(node, "block"),
                       "`block` is longer than `most`, %s. Write `most` too",
                       sl_format_duration(p->most, text));
}

/* Adds the rule of a limit's penalty. */
static void add_penalty(struct sl_build *b, struct sl_rule *rule,
                        struct sl_rule *ret)
{
    char name[SL_NAME_MAX + sizeof(SL_PENALTY_NAME)];
    int len = snprintf(name, sizeof(name), "%.*s" SL_PENALTY_NAME,
                       SL_STR_ARG(rule->name));

    *ret = (struct sl_rule){
        .name = sl_build_keep(b, (struct sl_str){name, (size_t)len}),
        .index = (unsigned)(ret - b->rules),
        .kind = SL_PENALTY,
        .mode = SL_MODE_ENFORCE,
        .failure = rule->failure,
        .on_full = rule->on_full,
        .limited = true,
        .strictest = sl_limit_penalty(&rule->penalty, SL_QUANTUM_NS),
    };
    rule->penalty_rule = ret;
}

static void add_penalties(struct sl_build *b)
{
    struct sl_policy *policy = b->policy;
    unsigned next = policy->rule_count + 1; /* behind the rule of guards */

    for (unsigned i = 0; i < policy->rule_count; i++)
        if (b->rules[i].penalty.after > 0)
            add_penalty(b, &b->rules[i], &b->rules[next++]);
    if (next > policy->rule_count + 1)
        policy->rule_total = next;
}

void sl_build_limits(struct sl_build *b)
{
    const struct sl_yaml_node *node = sl_build_get(b->root, "limits");
    struct sl_names *names = &b->box->rules;
    unsigned i = 0;

    names->unsure = sl_build_refused(sl_yaml_node_get(b->root, "limits"));
    if (!node)
        return;
    if (too_many(b, node)) {
        names->unsure = true;
        return;
    }
    /* And one more, for guards; and penalties. */
    b->rules = sl_build_take(b, 2 * node->count + 1, sizeof(*b->rules));
    b->keys =
        sl_build_borrow(b, node->count + 1, sizeof(struct sl_yaml_node *));
    b->sound = sl_build_borrow(b, node->count + 1, sizeof(*b->sound));
    if (!sl_names_init(names, b, b->arena, node->count, false))
        return;
    for (const struct sl_yaml_node *n = node->child; n; n = n->next, i++) {
        b->rules[i].index = i;
        read_limit(b, n, &b->rules[i]);
        sl_names_add(names, b->rules[i].name, i, n->key_place);
    }
    sl_names_close(names);
    i = 0;
    for (const struct sl_yaml_node *n = node->child; n; n = n->next, i++)
        read_credits(b, n, &b->rules[i]);
    b->policy->rules = b->rules;
    b->policy->rule_count = b->policy->rule_total = i;
    add_penalties(b);
}

/* ---- `thresholds` of a limit: the usage at which events are sent. */

static void add_threshold(struct sl_build *b, const struct sl_yaml_node *item,
                          struct sl_thresholds *thresholds)
{
    unsigned last =
        thresholds->count > 0 ? thresholds->list[thresholds->count - 1] : 0;
    uint64_t percent;

    if (!read_percent(item->text, SL_MARK_MAX, &percent))
        sl_build_error(b, item,
                       "A threshold must be a percentage from 1%% to %d%%, not "
                       "\"%.64s\"",
                       SL_MARK_MAX, sl_build_shown(item).text);
    else if (last >= percent)
        sl_build_error(b, item,
                       "Thresholds must increase. %.64s is not above %u%%",
                       sl_build_shown(item).text, last);
    else
        thresholds->list[thresholds->count++] = (uint16_t)percent;
}

void sl_fill_thresholds(struct sl_build *b, const struct sl_schema_key *row,
                        const struct sl_yaml_node *list, void *into)
{
    static const struct sl_thresholds usual = {
        {80, 100},
        2
    };
    struct sl_rule *rule = into;
    bool valid = rule->kind == SL_QUOTA || rule->kind == SL_LEVEL;

    (void)row;
    if (!list && valid)
        rule->thresholds = usual;
    if (!list)
        return;
    if (!valid && rule->kind != SL_KINDS) {
        sl_build_key_error(b, list,
                           "Thresholds are valid only for quotas and levels. A "
                           "%s has none",
                           sl_kind_name(rule->kind));
        return;
    }
    if (!sl_build_short(b, list, SL_THRESHOLDS, "thresholds"))
        return;
    for (const struct sl_yaml_node *i = sl_build_first(list); i;
         i = sl_build_next(list, i))
        add_threshold(b, i, &rule->thresholds);
}

/* ---- how long units are held, and how long requests wait. */

#define HOLD_PRESET (60 * SL_S)

/* A duration in (0, most]. `limit` is put behind `most` in the message. */
static sl_ns read_span(struct sl_build *b, const struct sl_yaml_node *node,
                       sl_ns preset, sl_ns most, const char *limit)
{
    sl_ns span = sl_build_duration(b, node, preset);
    char text[32];

    if (!node || (span > 0 && span <= most))
        return span;
    sl_build_error(b, node, "`%s` must be longer than 0 and at most %s%s",
                   node->key.at, sl_format_duration(most, text), limit);
    return preset < most ? preset : most;
}

void sl_fill_span(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *node, void *into)
{
    sl_schema_set(row, into, read_span(b, node, row->preset, row->most, ""));
}

void sl_fill_hold(struct sl_build *b, const struct sl_schema_key *row,
                  const struct sl_yaml_node *node, void *into)
{
    sl_ns most = b->policy->hold_max;

    sl_schema_set(row, into,
                  read_span(b, node, HOLD_PRESET < most ? HOLD_PRESET : most,
                            most, ", the `hold_max` of the policy"));
}

void sl_fill_permit_hold(struct sl_build *b, const struct sl_schema_key *row,
                         const struct sl_yaml_node *node, void *into)
{
    const struct sl_rule *rule = into;

    if (rule->kind == SL_PERMITS)
        sl_fill_hold(b, row, node, into);
    else if (node && rule->kind != SL_KINDS)
        sl_build_key_error(b, node,
                           "`hold` is valid only for concurrency limits. Limit "
                           "\"%.64s\" is a %s, and each check sets its own "
                           "hold time",
                           rule->name.at, sl_kind_name(rule->kind));
}
