/* limits.c -- `limits`: from names and words to rules. */
#include "policy/build/build.h"

#include <inttypes.h>
#include <string.h>

#include "base/parse.h"
#include "base/zonefile.h"

/* ---- kind ---- */

static void read_kind(struct sl_build *b, const struct sl_node *node,
                      struct sl_rule *rule)
{
    static const enum sl_kind kinds[] = {SL_BUCKET,  SL_LEAKY, SL_FIXED,
                                         SL_SLIDING, SL_QUOTA, SL_PERMITS,
                                         SL_LEVEL};
    static const char *const refills[] = {"continuous", "interval"};
    const struct sl_node *kind = sl_build_scalar(node, "kind");
    const struct sl_node *refill = sl_build_scalar(node, "refill");

    rule->kind = SL_KINDS; /* not known */
    for (size_t i = 0; kind && i < SL_LEN(kinds); i++)
        if (sl_str_eq(kind->text, sl_str_c(sl_kind_name(kinds[i]))))
            rule->kind = kinds[i];
    if (!refill || rule->kind == SL_KINDS)
        return;
    if (rule->kind != SL_BUCKET)
        sl_report_error(
            b->report, SL_AT_KEY(refill),
            "`refill` is valid only for token-buckets. Limit \"%.64s\" is a %s",
            rule->name.at, sl_kind_name(rule->kind));
    else if (sl_build_choice(node, "refill", refills, 2, 0) == 1)
        rule->kind = SL_INTERVAL;
}

/* ---- per ---- */

static int find_scope(struct sl_build *b, const struct sl_node *item)
{
    const struct sl_names *names = &b->box->scopes;
    int scope = sl_names_find(names, item->text);

    if (scope < 0)
        (void)sl_build_meant(
            b,
            sl_report_error(b->report, SL_AT(item),
                            "Unknown scope \"%.64s\". Valid scopes: user, "
                            "org, ip, anon, endpoint and the scopes of "
                            "`identity`",
                            sl_build_shown(item).text),
            names, item->text);
    return scope;
}

static void read_per(struct sl_build *b, const struct sl_node *node,
                     struct sl_rule *rule)
{
    const struct sl_node *list = sl_node_get(node, "per"), *item;

    if (!list || !sl_build_short(b, list, SL_PER_MAX, "scopes"))
        return;
    for (item = sl_build_first(list); item; item = sl_build_next(list, item)) {
        int scope = find_scope(b, item);

        if (scope >= 0 && !sl_build_twice(b, list, item, "Scope"))
            rule->per[rule->per_count++] = (unsigned)scope;
    }
}

/* ---- zone and anchor ---- */

/* The zone of that name, read once for all limits. NULL if there is none. */
static struct sl_policy_zone *find_zone(struct sl_build *b,
                                        const struct sl_node *node)
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

static void refuse_calendar(struct sl_build *b, const struct sl_node *node,
                            const struct sl_rule *rule)
{
    static const char *const keys[] = {"zone", "anchor"};

    for (int i = 0; i < 2; i++) {
        const struct sl_node *n = sl_build_scalar(node, keys[i]);

        if (n)
            sl_report_error(b->report, SL_AT_KEY(n),
                            "`%s` is valid only for quotas. Limit \"%.64s\" "
                            "is a %s",
                            keys[i], rule->name.at, sl_kind_name(rule->kind));
    }
}

static void read_calendar(struct sl_build *b, const struct sl_node *node,
                          struct sl_rule *rule)
{
    const struct sl_node *zone = sl_build_scalar(node, "zone");
    struct sl_policy_zone *found;

    rule->zone_name = SL_STR("UTC");
    if (rule->kind == SL_KINDS)
        return;
    if (rule->kind != SL_QUOTA) {
        refuse_calendar(b, node, rule);
        return;
    }
    found = zone ? find_zone(b, zone) : NULL;
    if (found) {
        rule->zone_name = found->name;
        rule->options.zone = &found->zone;
    }
    rule->options.anchor =
        (uint32_t)sl_build_number(b, node, "anchor", 1, 31, 0);
}

/* A quota by the hour follows no calendar, whatever is written. */
static void refuse_idle_calendar(struct sl_build *b, const struct sl_node *node,
                                 const struct sl_rule *rule)
{
    const struct sl_node *n = sl_build_scalar(node, "zone");

    if (!n)
        n = sl_build_scalar(node, "anchor");
    if (n && rule->kind == SL_QUOTA && rule->limited &&
        !rule->strictest.calendar)
        sl_report_error(b->report, SL_AT_KEY(n),
                        "`%s` is valid only for quotas by day, week or month. "
                        "Limit \"%.64s\" has another period",
                        n->key.at, rule->name.at);
}

/* ---- deny ---- */

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

static void read_deny(struct sl_build *b, const struct sl_node *node,
                      struct sl_deny *deny)
{
    const struct sl_node *code = sl_build_scalar(node, "code");

    deny->status = sl_build_status(b, node, 429);
    deny->code = sl_str_c(preset_code(deny->status));
    sl_build_message(b, node, &deny->message);
    if (!code)
        return;
    deny->code = sl_build_keep(b, code->text);
    if (!is_code(code->text))
        sl_report_error(b->report, SL_AT(code),
                        "Invalid code \"%.64s\". A code has up to 64 letters, "
                        "digits, '_', '.' and '-', like RATE_LIMITED",
                        sl_build_shown(code).text);
}

/* ---- the rest ---- */

static enum sl_failure preset_failure(enum sl_kind kind)
{
    switch (kind) {
    case SL_QUOTA:
    case SL_LEVEL:
    case SL_PERMITS:
        return SL_FAILURE_DENY;
    default:
        return SL_FAILURE_ALLOW;
    }
}

static void read_words(struct sl_build *b, const struct sl_node *node,
                       struct sl_rule *rule)
{
    int mode = sl_build_choice(node, "mode", sl_mode_words, 3, SL_MODE_ENFORCE);

    rule->missing = (enum sl_missing)sl_build_choice(node, "missing",
                                                     sl_missing_words, 3, 0);
    rule->mode =
        mode > (int)b->policy->mode ? (enum sl_mode)mode : b->policy->mode;
    rule->failure = (enum sl_failure)sl_build_choice(
        node, "on_store_failure", sl_failure_words, 3,
        (int)preset_failure(rule->kind));
    rule->on_full =
        (enum sl_on_full)sl_build_choice(node, "on_full", sl_full_words, 2, 0);
    rule->unit = sl_build_text(b, node, "unit");
    rule->dialects = sl_build_dialects(b, sl_node_get(node, "headers"), -1);
}

static void read_cost(struct sl_build *b, const struct sl_node *node,
                      struct sl_rule *rule)
{
    const struct sl_node *cost = sl_build_scalar(node, "cost");
    struct sl_diag diag = {0};
    uint64_t n = 1;

    if (cost &&
        sl_build_ok(b, cost, sl_parse_count(cost->text, &n, &diag), &diag) &&
        n == 0)
        sl_report_error(b->report, SL_AT(cost),
                        "A cost of 0 counts nothing. Remove the limit from "
                        "the route instead");
    rule->cost = n ? n : 1;
    rule->fixed_cost = cost != NULL;
}

/* "10%" */
static bool read_percent(struct sl_str text, unsigned *ret)
{
    unsigned n = 0;

    if (text.len < 2 || text.len > 4 || text.at[text.len - 1] != '%')
        return false;
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        n = n * 10 + (unsigned)(text.at[i] - '0');
    }
    *ret = n;
    return n >= 1 && n <= 100;
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

static void read_lease(struct sl_build *b, const struct sl_node *node,
                       struct sl_rule *rule)
{
    const struct sl_node *lease = sl_build_scalar(node, "lease");
    const char *why = unleased(rule->kind);

    if (!lease)
        return;
    if (!read_percent(lease->text, &rule->lease)) {
        rule->lease = 0;
        sl_hint(
            sl_report_error(b->report, SL_AT(lease),
                            "`lease` must be a part of the capacity, from 1%% "
                            "to 100%%, not %s",
                            sl_build_shown(lease).text),
            "lease: 10%%");
    } else if (why) {
        rule->lease = 0;
        sl_report_error(b->report, SL_AT(lease), "%s. Leave `lease` out", why);
    }
}

/* A request that costs more than a plan can ever hold never passes. */
static void warn_of_cost(struct sl_build *b, const struct sl_node *node,
                         const struct sl_rule *rule)
{
    const struct sl_node *cost = sl_build_scalar(node, "cost");

    for (unsigned i = 0; cost && i < b->policy->plans.count; i++) {
        const struct sl_plan_limit *plan = &rule->plans[i];

        if (!sl_rate_has_numbers(plan->form) ||
            plan->numbers.capacity >= rule->cost)
            continue;
        sl_report_warning(b->report, SL_AT(cost),
                          "A request costs %" PRIu64 ", but plan \"%.64s\" "
                          "has at most %" PRIu64 ". All its requests are "
                          "denied",
                          rule->cost, b->policy->plans.list[i].name.at,
                          plan->numbers.capacity);
        return;
    }
}

static void read_rates(struct sl_build *b, const struct sl_node *node,
                       struct sl_rule *rule)
{
    rule->plans = sl_build_rates(b, rule, node, "rate");
    if (rule->plans) {
        rule->limited =
            sl_build_strictest(b->policy, rule->plans, &rule->strictest);
        refuse_idle_calendar(b, node, rule);
        warn_of_cost(b, node, rule);
    }
    rule->candidates = sl_build_rates(b, rule, node, "candidate");
    if (rule->candidates)
        rule->has_candidate = sl_build_strictest(b->policy, rule->candidates,
                                                 &rule->candidate_strictest);
}

static void read_key(struct sl_build *b, const struct sl_node *node,
                     struct sl_rule *rule)
{
    const struct sl_node *key = sl_build_scalar(node, "key");
    struct sl_diag diag = {0};
    int err;

    rule->key_text = key ? sl_build_keep(b, key->text) : SL_STR(SL_KEY_DEFAULT);
    b->keys[rule->index] = key;
    err = sl_key_template_read(rule->key_text, b->arena, &rule->key, &diag);
    if (sl_build_ok(b, key ? key : node, err, &diag) && key &&
        strstr(rule->key_text.at, SL_KEY_CANDIDATE))
        sl_report_error(b->report, SL_AT(key),
                        "A key must not contain " SL_KEY_CANDIDATE ", which "
                        "marks the keys of candidates");
    else if (!err && key && strstr(rule->key_text.at, SL_GUARD_NAME))
        sl_report_error(b->report, SL_AT(key),
                        "A key must not contain " SL_GUARD_NAME ", which "
                        "marks the keys of guards");
}

static bool has_holes(const struct sl_node *node)
{
    bool holes = sl_build_refused(node);

    if (node && node->kind == SL_NODE_LIST)
        for (const struct sl_node *n = node->child; n; n = n->next)
            holes |= sl_build_refused(n);
    return holes;
}

static void read_limit(struct sl_build *b, const struct sl_node *node,
                       struct sl_rule *rule)
{
    unsigned errors;

    (void)sl_build_key_name(b, "a limit", node);
    rule->name = sl_build_keep(b, node->key);
    rule->place = SL_AT_KEY(node);
    rule->kind = SL_KINDS;
    if (node->kind != SL_NODE_MAP)
        return; /* the schema has said it */
    read_kind(b, node, rule);
    read_calendar(b, node, rule);
    read_words(b, node, rule);
    read_cost(b, node, rule);
    sl_build_marks(b, node, rule);
    sl_build_hold(b, node, rule);
    read_lease(b, node, rule);
    read_deny(b, sl_node_get(node, "deny"), &rule->deny);
    errors = b->report->errors;
    read_per(b, node, rule);
    read_key(b, node, rule);
    b->sound[rule->index] = b->report->errors == errors &&
                            rule->kind != SL_KINDS &&
                            !has_holes(sl_node_get(node, "per")) &&
                            !has_holes(sl_node_get(node, "missing")) &&
                            !has_holes(sl_node_get(node, "key"));
    read_rates(b, node, rule);
}

/* Limits, and candidates, which are limits of their own to the table. */
static bool too_many(struct sl_build *b, const struct sl_node *node)
{
    unsigned count = node->count;

    for (const struct sl_node *n = node->child; n; n = n->next)
        count += sl_node_get(n, "candidate") != NULL;
    if (count <= SL_LIMITS)
        return false;
    sl_report_error(b->report, SL_AT_KEY(node),
                    "%u limits and candidates are too many. The maximum is %d",
                    count, SL_LIMITS);
    return true;
}

void sl_build_limits(struct sl_build *b)
{
    const struct sl_node *node = sl_node_get(b->root, "limits");
    struct sl_names *names = &b->box->rules;
    unsigned i = 0;

    names->unsure = sl_build_refused(node);
    if (!node || node->kind != SL_NODE_MAP)
        return;
    if (too_many(b, node)) {
        names->unsure = true;
        return;
    }
    /* And one more, for guards. */
    b->rules = sl_build_take(b, node->count + 1, sizeof(*b->rules));
    b->keys = sl_build_borrow(b, node->count + 1, sizeof(struct sl_node *));
    b->sound = sl_build_borrow(b, node->count + 1, sizeof(*b->sound));
    if (!b->rules || !b->keys || !b->sound ||
        !sl_names_init(names, node->count, false, b->arena)) {
        b->no_memory = true;
        return;
    }
    for (const struct sl_node *n = node->child; n; n = n->next, i++) {
        b->rules[i].index = i;
        read_limit(b, n, &b->rules[i]);
        sl_names_add(names, b->rules[i].name, i, SL_AT_KEY(n));
    }
    sl_names_close(names);
    b->policy->rules = b->rules;
    b->policy->rule_count = b->policy->rule_total = i;
}
