/* parts.c -- from rules to the parts of a take, and the answers back.
 *
 * The verdict shows each rule of a route, in the route's order. Enforced rules
 * with numbers are taken as one set. Shadows and candidates are taken after it,
 * each for itself, and only if the request passes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_int.h"
#include "engine/hold_op.h"

/* ---- keys ---- */

/* The value number `i` of a request that names a limit, as a route finds it:
 * an alias becomes the name that limits are kept by, an address is canonical,
 * and what is not an address is "unknown". */
static void use_given(struct sl_check *c, unsigned i, struct sl_key_value *ret)
{
    static const unsigned names[] = {SL_SCOPE_USER, SL_SCOPE_ORG};
    const struct sl_request *request = c->request;
    const struct sl_policy *policy = c->decision.policy;
    const struct sl_str *scopes = policy->identity.scope_names;
    struct sl_caller *caller = &c->caller;

    ret->value = i < request->key_count ? request->keys[i] : request->key;
    if (i < request->key_count && request->key_scopes)
        ret->scope = request->key_scopes[i];
    for (size_t n = 0; n < SL_LEN(names); n++)
        if (sl_str_eq(ret->scope, scopes[names[n]]) &&
            sl_str_eq(ret->value, sl_request_given(policy, request, names[n])))
            ret->value = caller->values[names[n]];
    if (sl_str_eq(ret->scope, scopes[SL_SCOPE_IP])) {
        ret->value =
            sl_identify_ip(policy, sl_ip_key_address(ret->value), caller->ip);
        caller->values[SL_SCOPE_IP] = ret->value;
        caller->has_ip = ret->value.at == caller->ip;
    }
}

/* The request says no address at all, which no client can cause: its sender
 * left it out. One key for all such requests would deny callers for each
 * other, so the limit does not apply. Returns false. */
static bool miss_address(struct sl_check *c)
{
    if (!atomic_load_explicit(&c->engine->no_address, memory_order_relaxed))
        atomic_store_explicit(&c->engine->no_address, true,
                              memory_order_relaxed);
    return false;
}

/* The value of `per` number `i` of a rule. False if it is missing and the rule
 * excludes anonymous callers, or is per address. */
static bool find_value(struct sl_check *c, const struct sl_rule *rule,
                       unsigned i, struct sl_key_value *ret)
{
    struct sl_decision *d = &c->decision;
    const struct sl_policy *policy = d->policy;
    unsigned scope = rule->per[i];

    ret->scope = policy->identity.scope_names[scope];
    if (c->request->limit.len > 0)
        use_given(c, i, ret);
    else if (scope == SL_SCOPE_ENDPOINT)
        ret->value = d->route->endpoint;
    else if (scope == SL_SCOPE_ANON)
        *ret = sl_caller_anonymous(&c->caller, policy, c->request, c->secret);
    else if (scope == SL_SCOPE_IP && c->request->ip.len == 0)
        return miss_address(c);
    else if (scope == SL_SCOPE_IP)
        ret->value = sl_caller_ip(&c->caller, policy, c->request);
    else
        ret->value = c->caller.values[scope];
    if (ret->value.len > 0)
        return true;
    if (rule->missing != SL_MISSING_ANONYMOUS)
        return false;
    *ret = sl_caller_stand_in(&c->caller, policy, c->request, c->secret);
    return true;
}

/* The value of `per` number `i` of credits: as the limit that they pay for has
 * it, or the caller's. Anonymous callers have none, or each address would be a
 * new one. */
static bool find_payer(const struct sl_check *c, struct sl_limit_view *shown,
                       unsigned i)
{
    const struct sl_limit_view *denied = shown->pays_for;
    unsigned scope = shown->rule->per[i];
    struct sl_str name = c->decision.policy->identity.scope_names[scope];
    struct sl_key_value *ret = &shown->values[i];

    *ret = (struct sl_key_value){name, c->caller.values[scope]};
    for (unsigned k = 0; k < denied->rule->per_count; k++)
        if (denied->rule->per[k] == scope)
            *ret = denied->values[k];
    return ret->value.len > 0 && sl_str_eq(ret->scope, name);
}

/* The scopes, or the values, joined by ':' in the decision's arena. */
static char *join(struct sl_decision *d, const struct sl_limit_view *shown,
                  bool values)
{
    size_t len = 0;
    char *text, *at;

    for (unsigned i = 0; i < shown->value_count; i++)
        len += 1 + (values ? shown->values[i].value.len
                           : shown->values[i].scope.len);
    at = text = sl_arena_take(&d->arena, len + 1);
    if (!text)
        return NULL;
    for (unsigned i = 0; i < shown->value_count; i++) {
        struct sl_str s =
            values ? shown->values[i].value : shown->values[i].scope;

        if (i > 0)
            *at++ = ':';
        if (s.len > 0)
            memcpy(at, s.at, s.len);
        at += s.len;
    }
    *at = '\0';
    return text;
}

/* Copies the values, which outlive the request. A single value is the end of
 * the key's bytes, followed by a NUL. */
static int keep_values(struct sl_decision *d, struct sl_limit_view *shown)
{
    char *scope;

    if (shown->value_count == 1 && shown->values[0].value.len <= SL_VALUE_MAX) {
        struct sl_str *value = &shown->values[0].value;

        value->at = shown->key.at + shown->key.len - value->len;
        shown->scope = shown->values[0].scope;
        shown->id = (char *)value->at;
        return 0;
    }
    for (unsigned i = 0; i < shown->value_count; i++) {
        struct sl_str *value = &shown->values[i].value;

        value->at = sl_arena_copy(&d->arena, *value);
        if (!value->at)
            return SLUICE_ENOMEM;
    }
    shown->scope = SL_STR("all");
    if (shown->value_count == 1) {
        shown->scope = shown->values[0].scope;
        shown->id = (char *)shown->values[0].value.at;
        return 0;
    }
    shown->id = join(d, shown, true);
    if (shown->value_count > 1) {
        scope = join(d, shown, false);
        shown->scope = sl_str_c(scope);
        if (!scope)
            return SLUICE_ENOMEM;
    }
    return shown->id ? 0 : SLUICE_ENOMEM;
}

static int make_key(struct sl_decision *d, struct sl_limit_view *shown,
                    const struct sl_hash_key *secret)
{
    char bytes[SL_KEY_MAX];
    size_t len = sl_key_bytes(shown->values, shown->value_count, secret, bytes);

    shown->key.len = len;
    shown->key.at = sl_arena_copy(&d->arena, (struct sl_str){bytes, len});
    return shown->key.at ? keep_values(d, shown) : SLUICE_ENOMEM;
}

/* ---- names of keys in a shared store.
 *
 * A name is made from the limit's template (policy/key.h), if the store needs
 * names. SL_KEY_CANDIDATE follows it in memory: with it, it is the name of the
 * candidate. The name of a penalty has SL_PENALTY_NAME at its end, and no
 * window: it outlives the windows of its limit.
 */

#define NAME_MOST ((size_t)16 << 10)

/* A limit of one endpoint has its keys there, also if the request names the
 * limit. */
static struct sl_key_context context_of(const struct sl_decision *d,
                                        const struct sl_limit_view *shown)
{
    struct sl_key_context context = {
        .env = d->policy->env,
        .endpoint = shown->rule->endpoint.len > 0 ? shown->rule->endpoint
                                                  : d->route->endpoint,
        .name = shown->rule->name,
        .tag = d->tagged ? shown->rule->tag : 0,
    };
    sl_ns period = shown->numbers ? shown->numbers->period : 0;

    if (period > 0)
        context.window_start_ms =
            (uint64_t)((d->now - d->now % period) / SL_MS);
    return context;
}

int sl_decision_key(const struct sl_decision *d,
                    const struct sl_limit_view *shown, struct sl_buf *out)
{
    struct sl_key_context context = context_of(d, shown);

    return sl_key_name(&shown->rule->key, &context, shown->values,
                       shown->value_count, out);
}

/* A name, and `more` behind it. It lives as long as the decision. */
static int make_text(struct sl_decision *d, const struct sl_key_template *key,
                     const struct sl_key_context *context,
                     const struct sl_key_value *values, unsigned count,
                     struct sl_str more, struct sl_str *ret)
{
    struct sl_buf name;
    char *copy = NULL;
    size_t len;
    int err;

    sl_buf_init(&name, NAME_MOST, d->arena.alloc);
    err = sl_key_name(key, context, values, count, &name);
    len = name.len;
    if (!err)
        err = sl_buf_add(&name, more);
    if (!err)
        copy = sl_arena_copy(&d->arena, sl_buf_str(&name));
    sl_buf_done(&name);
    if (!copy)
        return SLUICE_ENOMEM;
    *ret = (struct sl_str){copy, len};
    return 0;
}

static int make_name(struct sl_decision *d, const struct sl_limit_view *shown,
                     const struct sl_key_value *values, unsigned count,
                     struct sl_str *ret)
{
    struct sl_key_context context = context_of(d, shown);

    return make_text(d, &shown->rule->key, &context, values, count,
                     SL_STR(SL_KEY_CANDIDATE), ret);
}

static int make_penalty_name(struct sl_decision *d, struct sl_limit_view *shown)
{
    struct sl_key_context context = context_of(d, shown);
    int err;

    if (!shown->rule->penalty_rule)
        return 0;
    context.window_start_ms = 0;
    err = make_text(d, &shown->rule->key, &context, shown->values,
                    shown->value_count, SL_STR(SL_PENALTY_NAME),
                    &shown->penalty_name);
    if (!err)
        shown->penalty_name.len += strlen(SL_PENALTY_NAME);
    return err;
}

/* The candidate's name, or the limit's own; "" if there is none. */
static struct sl_str name_of(struct sl_str name, bool candidate)
{
    if (name.len > 0 && candidate)
        name.len += strlen(SL_KEY_CANDIDATE);
    return name;
}

/* ---- `sign_in: carry`.
 *
 * Usage of the anonymous key counts against the key of the caller's name: both
 * are in the same set (see "Carrying" in table/table.h). Nothing is moved, so
 * that it also counts after signing out. Without an address nothing is carried:
 * all callers would be the same visitor.
 */

/* Do both keys end at the same time? Routes that carry have only such limits,
 * but a path may have several routes. */
static bool ends_at_once(const struct sl_rule *rule)
{
    return rule->kind == SL_FIXED || rule->kind == SL_QUOTA;
}

static bool is_carried(const struct sl_check *c, const struct sl_rule *rule)
{
    bool named = false;

    for (unsigned i = 0; i < rule->per_count; i++)
        named |= sl_scope_is_name(rule->per[i]);
    return named && !c->caller.anonymous &&
           rule->missing == SL_MISSING_ANONYMOUS && ends_at_once(rule);
}

/* Sets shown->visitor, if usage before sign-in is carried over. */
static int find_visitor(struct sl_check *c, struct sl_limit_view *shown)
{
    struct sl_decision *d = &c->decision;
    const struct sl_rule *rule = shown->rule;
    struct sl_key_value values[SL_PER_MAX];
    char bytes[SL_KEY_MAX];

    if (!is_carried(c, rule))
        return 0;
    (void)sl_caller_ip(&c->caller, d->policy, c->request);
    if (!c->caller.has_ip)
        return 0;
    for (unsigned i = 0; i < rule->per_count; i++)
        values[i] = sl_scope_is_name(rule->per[i])
                        ? sl_caller_anonymous(&c->caller, d->policy, c->request,
                                              c->secret)
                        : shown->values[i];
    shown->visitor.len =
        sl_key_bytes(values, rule->per_count, c->secret, bytes);
    shown->visitor.at =
        sl_arena_copy(&d->arena, (struct sl_str){bytes, shown->visitor.len});
    if (!shown->visitor.at)
        return SLUICE_ENOMEM;
    return c->active->wants_names ? make_name(d, shown, values, rule->per_count,
                                              &shown->visitor_name)
                                  : 0;
}

/* ---- numbers and cost.
 *
 * The numbers of the plan, unless the registry or the request overrides them.
 */

static const struct sl_override *find_override(const struct sl_request *request,
                                               struct sl_str name)
{
    for (unsigned i = 0; i < request->override_count; i++)
        if (sl_str_eq(request->overrides[i].limit, name))
            return &request->overrides[i];
    return NULL;
}

static int override(struct sl_limit_view *shown, struct sl_str rate,
                    struct sl_check *c, struct sl_diag *diag)
{
    const struct sl_rule *rule = shown->rule;
    struct sl_plan_limit own;
    int err = sl_rule_rate(rule, rate, &own, diag);

    if (!err && !rule->limited)
        err = sl_diag_error(
            diag, SLUICE_ECONF,
            "limit \"%.*s\" has no rate for any plan, so it cannot "
            "be overridden",
            SL_STR_ARG(rule->name));
    if (!err && sl_rate_has_numbers(own.form))
        err = sl_active_set_strictest(c->active, rule, &own.numbers, diag);
    if (err)
        return err;
    shown->overridden = true;
    shown->override_of = "";
    shown->override_until = SL_NS_NONE;
    shown->form = own.form;
    shown->own = own.numbers;
    shown->own_uncapped = own.open;
    shown->numbers = &shown->own;
    shown->uncapped_limit = &shown->own_uncapped;
    return 0;
}

struct sl_str sl_decision_note(struct sl_decision *d, struct sl_str text)
{
    const char *copy = d->spend ? NULL : sl_arena_copy(&d->arena, text);

    return (struct sl_str){copy, copy ? text.len : 0};
}

/* A rate of the registry that does not fit the limit is ignored: the policy may
 * have changed. */
static int override_registered(struct sl_check *c, struct sl_limit_view *shown)
{
    struct sl_decision *d = &c->decision;
    const struct sl_subject_override *own;
    struct sl_diag diag = {0};
    const char *of;
    int err;

    if (!c->known->user && !c->known->org)
        return 0;
    own = sl_auth_info_rate(c->known, shown->rule->name, d->now, &of);
    if (!own)
        return 0;
    err = override(shown, own->rate, c, &diag);
    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        return sl_diag_error(&c->diag, err, "%s", diag.sentence);
    if (err) {
        shown->override_bad = sl_decision_note(d, sl_str_c(diag.sentence));
        return 0;
    }
    shown->override_of = of;
    shown->override_by = sl_decision_note(d, own->by);
    shown->override_note = sl_decision_note(d, own->note);
    shown->override_until = own->until;
    return 0;
}

/* Imposed numbers apply to limits of their period. */
static int impose(struct sl_limit_view *shown, struct sl_check *c)
{
    const struct sl_fixed_rate *imposed = &c->request->imposed;
    char rate[64] = "none";

    if (imposed->period == 0 || !sl_rate_has_numbers(shown->form) ||
        shown->numbers->period != imposed->period)
        return 0;
    if (imposed->count > 0)
        snprintf(rate, sizeof(rate), "%" PRIu64 "/%" PRId64 "s", imposed->count,
                 imposed->period / SL_S);
    return override(shown, sl_str_c(rate), c, &c->diag);
}

/* `usual` is the cost of a request that gives none. */
static uint64_t choose_cost(const struct sl_request *request,
                            const struct sl_rule *rule, uint64_t usual)
{
    const struct sl_cost *own =
        sl_cost_find(request->costs, request->cost_count, rule->name);

    if (own)
        return own->cost;
    /* A request is one at a time, whatever it costs. */
    if (rule->kind == SL_PERMITS && request->limit.len == 0 &&
        request->cost > 0)
        return usual;
    return request->has_cost ? request->cost : usual;
}

/* Does the request take nothing of the rule, because its usage is reported
 * later? A hold is taken. */
static bool is_on_report(const struct sl_request *request,
                         const struct sl_rule *rule)
{
    return rule->charge == SL_CHARGE_ON_REPORT && request->hold == 0 &&
           !request->charge && !request->give_back && !request->metered;
}

/* Takes up to `ceiling`. The verdict shows the plan's count, as a hold does. */
static void raise_to(struct sl_limit_view *shown, uint64_t ceiling)
{
    shown->own_uncapped = *shown->numbers;
    shown->own_uncapped.capacity = ceiling;
    sl_limit_derive(&shown->own_uncapped);
    shown->uncapped_limit = &shown->own_uncapped;
    shown->uncapped = true;
}

/* Metered requests have no ceiling. Credits raise it. */
static void raise_ceiling(const struct sl_check *c, struct sl_limit_view *shown)
{
    const struct sl_decision *d = &c->decision;
    const struct sl_rule *rule = shown->rule;
    uint64_t more, count;

    if (!sl_rate_has_numbers(shown->form) || shown->uncapped)
        return;
    count = shown->numbers->count;
    if (c->request->metered) {
        if (sl_is_durable(rule->kind))
            raise_to(shown, SL_AMOUNT_MAX);
        return;
    }
    if (rule->kind != SL_QUOTA || rule->per_count != 1 ||
        !sl_auth_info_credits(c->known))
        return;
    more = sl_auth_info_credit(c->known, rule->per[0], rule->name, count,
                               sl_rule_start(rule, shown->numbers, d->now),
                               d->now);
    if (more > 0)
        raise_to(shown,
                 count + more < SL_AMOUNT_MAX ? count + more : SL_AMOUNT_MAX);
}

/* Replaces the calendar of the limit by that of its subject. */
static void use_calendar(const struct sl_check *c, struct sl_limit_view *shown)
{
    const struct sl_decision *d = &c->decision;
    const struct sl_rule *rule = shown->rule;
    bool limited = sl_rate_has_numbers(shown->form);
    const struct sl_own_calendar *used;
    const struct sl_subject *s;

    shown->periods = limited ? shown->numbers : &rule->strictest;
    shown->zone_name = rule->zone_name;
    if (rule->kind != SL_QUOTA || rule->per_count != 1 ||
        !shown->periods->calendar)
        return;
    s = sl_auth_info_of(c->known, rule->per[0]);
    if (!s || !sl_own_calendars_any(&s->own))
        return;
    shown->own = *shown->periods;
    used = sl_own_calendars_apply(&s->own, d->now, &shown->own.cal);
    shown->periods = &shown->own;
    if (used->zone)
        shown->zone_name = used->zone_name;
    if (shown->has_candidate && shown->candidate->calendar) {
        shown->own_candidate = *shown->candidate;
        sl_own_calendars_apply(&s->own, d->now, &shown->own_candidate.cal);
        shown->candidate = &shown->own_candidate;
    }
    if (!limited)
        return;
    shown->numbers = &shown->own;
    if (shown->uncapped) {
        shown->own_uncapped = *shown->uncapped_limit;
        shown->own_uncapped.cal = shown->own.cal;
        shown->uncapped_limit = &shown->own_uncapped;
    }
}

/* Usage of a quota or level counts under an unlimited plan, too, if the table
 * of this process has it. A remote store is not asked. */
static void count_unlimited(const struct sl_check *c,
                            struct sl_limit_view *shown)
{
    const struct sl_rule *rule = shown->rule;
    const struct sl_store *store = c->engine->store;

    if (shown->form != SL_RATE_UNLIMITED || shown->pays_for || !rule->limited ||
        !sl_is_durable(rule->kind) ||
        (store->wants_names &&
         !(store->quotas_here &&
           c->active->stored[2 * rule->index].quota_leased)))
        return;
    shown->own_uncapped = *shown->periods;
    shown->own_uncapped.count = shown->own_uncapped.capacity = SL_AMOUNT_MAX;
    sl_limit_derive(&shown->own_uncapped);
    shown->uncapped_limit = &shown->own_uncapped;
    shown->uncapped = true;
    shown->counted = true;
}

static int find_numbers(struct sl_check *c, struct sl_limit_view *shown,
                        const struct sl_rule_cost *usual)
{
    struct sl_decision *d = &c->decision;
    const struct sl_rule *rule = shown->rule;
    unsigned plan = d->plan;
    const struct sl_plan_limit *limit = &rule->plans[plan];
    const struct sl_override *o = find_override(c->request, rule->name);

    /* `sign_in: cap`: a limit per address that the plan does not have is that
     * of anonymous callers. */
    if (c->cap && rule->per_count == 1 && rule->per[0] == SL_SCOPE_IP &&
        limit->form == SL_RATE_UNLIMITED) {
        plan = d->policy->plans.anonymous;
        limit = &rule->plans[plan];
    }
    shown->on_report = is_on_report(c->request, rule);
    shown->cost =
        shown->on_report ? 0 : choose_cost(c->request, rule, usual->cost);
    shown->cost_from = usual->from;
    shown->plan = plan;
    shown->plan_name = d->policy->plans.list[plan].name;
    shown->form = limit->form;
    shown->numbers = &limit->numbers;
    shown->uncapped = limit->overage;
    shown->uncapped_limit = &limit->open;
    if (rule->has_candidate &&
        sl_rate_has_numbers(rule->candidates[d->plan].form)) {
        shown->has_candidate = true;
        shown->candidate = &rule->candidates[d->plan].numbers;
    }
    if (o)
        return override(shown, o->rate, c, &c->diag);
    if (c->request->imposed.period > 0)
        return impose(shown, c);
    return override_registered(c, shown);
}

/* ---- limits of the verdict ---- */

static bool has_numbers(const struct sl_limit_view *shown)
{
    return !shown->skipped && sl_rate_has_numbers(shown->form);
}

static void refuse_capability(struct sl_decision *d,
                              struct sl_limit_view *shown)
{
    shown->allowed = false;
    if (d->reason != SL_REASON_NONE)
        return;
    sl_decision_refuse(d, SL_REASON_CAPABILITY);
    if (d->reason == SL_REASON_CAPABILITY)
        d->by = (int)(shown - d->shown);
}

static int show(struct sl_check *c, struct sl_limit_view *shown,
                const struct sl_rule_cost *usual)
{
    struct sl_decision *d = &c->decision;
    const struct sl_rule *rule = shown->rule;
    int err = find_numbers(c, shown, usual);

    if (err)
        return err;
    use_calendar(c, shown);
    raise_ceiling(c, shown);
    count_unlimited(c, shown);
    shown->mode = rule->mode;
    shown->allowed = true;
    shown->id = (char *)"";
    shown->next_in = SL_NS_NONE;
    if (rule->when.count > 0 && c->request->limit.len == 0 &&
        (shown->unmet = sl_conditions_unmet(c, &rule->when))) {
        shown->skipped = true;
        return 0;
    }
    for (unsigned i = 0; i < rule->per_count; i++) {
        if (shown->pays_for ? find_payer(c, shown, i)
                            : find_value(c, rule, i, &shown->values[i])) {
            shown->value_count++;
            continue;
        }
        shown->skipped = true;
        shown->value_count = 0;
        if (rule->missing == SL_MISSING_DENY && rule->mode == SL_MODE_ENFORCE &&
            !c->preflight && !shown->pays_for) {
            d->missing_scope = shown->values[i].scope;
            sl_decision_refuse(d, SL_REASON_MISSING);
        }
        return 0;
    }
    if (shown->form == SL_RATE_NONE && rule->mode == SL_MODE_ENFORCE &&
        !shown->pays_for)
        refuse_capability(d, shown);
    err = make_key(d, shown, c->secret);
    if (!err && c->active->wants_names)
        err = make_name(d, shown, shown->values, shown->value_count,
                        &shown->name);
    if (!err && c->active->wants_names)
        err = make_penalty_name(d, shown);
    return err || !c->carry ? err : find_visitor(c, shown);
}

/* A limit that another request meets under the same key is taken once, with the
 * larger cost. Returns its index. */
static unsigned merge(struct sl_decision *d, unsigned before)
{
    unsigned last = d->shown_count - 1;
    const struct sl_limit_view *shown = &d->shown[last];

    for (unsigned i = 0; i < before; i++) {
        struct sl_limit_view *other = &d->shown[i];

        if (other->rule != shown->rule || other->skipped != shown->skipped ||
            !sl_str_eq(other->key, shown->key))
            continue;
        if (other->cost < shown->cost)
            other->cost = shown->cost;
        d->shown_count--;
        return i;
    }
    return last;
}

static int add_shown(struct sl_check *c, const struct sl_rule_cost *usual,
                     unsigned before)
{
    struct sl_decision *d = &c->decision;
    struct sl_limit_view *shown = &d->shown[d->shown_count];
    int err;

    if (d->shown_count == SL_PARTS)
        return sl_diag_error(
            &c->diag, SLUICE_EFULL,
            "the request matches more than %d limits, the maximum for one take",
            SL_PARTS);
    memset(shown, 0, offsetof(struct sl_limit_view, values));
    shown->rule = usual->rule;
    d->shown_count++;
    err = show(c, shown, usual);
    if (!err)
        c->shown |= UINT32_C(1) << merge(d, before);
    return err;
}

/* Adds the view of the credits of limit number `index`, unless it is there or
 * the caller has none. */
static int add_credits(struct sl_check *c, unsigned index)
{
    struct sl_decision *d = &c->decision;
    const struct sl_rule *rule = d->shown[index].rule->credits;
    struct sl_rule_cost usual = {
        rule, 0, {"", 0}
    };
    struct sl_limit_view *shown = &d->shown[d->shown_count];
    int err;

    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].rule == rule)
            return 0;
    if (c->request_count > 1 || c->carry || d->shown[index].skipped ||
        d->shown_count + SL_RUNNING >= SL_PARTS)
        return 0;
    memset(shown, 0, offsetof(struct sl_limit_view, values));
    shown->rule = rule;
    shown->pays_for = &d->shown[index];
    err = show(c, shown, &usual);
    if (err || !has_numbers(shown) || shown->mode != SL_MODE_ENFORCE)
        return err;
    shown->skipped = true;
    shown->cost = 0;
    d->shown_count++;
    return 0;
}

int sl_parts_add(struct sl_check *c, const struct sl_rule_cost *rules,
                 unsigned count)
{
    const struct sl_decision *d = &c->decision;
    unsigned before = d->shown_count; /* of earlier requests */
    unsigned limits;
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++)
        if (rules[i].rule->mode != SL_MODE_OFF)
            err = add_shown(c, &rules[i], before);
    limits = d->shown_count;
    for (unsigned i = before; i < limits && !err; i++)
        if (d->shown[i].rule->credits)
            err = add_credits(c, i);
    return err;
}

bool sl_sign_in_fits(const struct sl_decision *d)
{
    unsigned count = d->shown_count + d->running_count;

    for (unsigned i = 0; i < d->shown_count; i++)
        count += d->shown[i].visitor.len > 0;
    return count + sl_penalty_most(d) <= SL_PARTS;
}

/* ---- takes ---- */

/* Adds limit number `index` of the decision, or its candidate, to the take.
 * A key that is carried to it goes before it. */
static void add_part(struct sl_check *c, unsigned index, bool candidate)
{
    struct sl_decision *d = &c->decision;
    const struct sl_limit_view *shown = &d->shown[index];
    unsigned stored = 2 * shown->rule->index + candidate;
    bool carries = shown->visitor.len > 0;
    struct sl_part *part = &d->parts[d->take.count + carries];

    *part = (struct sl_part){
        .binding = d->on_local ? &c->active->local[stored]
                               : &c->active->stored[stored],
        .limit = candidate ? shown->candidate : shown->numbers,
        .key = shown->key,
        .name = name_of(shown->name, candidate),
        .cost = shown->cost,
        .on_report = shown->on_report,
        .taken_at = d->now,
        .view = c->state == SL_CHECK_SHADOW || d->on_local ? NULL : shown,
    };
    if (shown->uncapped && !candidate)
        part->limit = shown->uncapped_limit;
    if (d->on_local && part->limit->kind != SL_PENALTY)
        part->cost = sl_local_cost(shown, part);
    d->part_shown[d->take.count + carries] = index;
    if (carries) {
        part[-1] = *part;
        part[-1].key = shown->visitor;
        part[-1].name = name_of(shown->visitor_name, candidate);
        part[-1].cost = 0;
        part[-1].on_report = false;
        part[-1].carried = true;
        d->part_shown[d->take.count] = index;
    }
    d->take.count += 1 + carries;
}

/* Is there room for the limit and what is carried to it? */
static bool has_room(const struct sl_decision *d,
                     const struct sl_limit_view *shown)
{
    return d->take.count + 1 + (shown->visitor.len > 0) <= SL_PARTS;
}

static void begin_take(struct sl_decision *d, enum sl_take_op op)
{
    d->take.op = op;
    d->take.parts = d->parts;
    d->take.count = 0;
    d->take.now = d->now;
    d->take.err = 0;
    d->take.taken = 0;
    d->take.counted = false;
    d->take.hold = (struct sl_hold_id){
        {0, 0}
    };
}

static enum sl_take_op op_of(const struct sl_decision *d, enum sl_take_op usual)
{
    if (!d->spend)
        return SL_TAKE_OP_PEEK;
    if (d->charge)
        return SL_TAKE_OP_CHARGE;
    return d->give_back ? SL_TAKE_OP_REFUND : usual;
}

/* 1 + the part of the limit of a penalty in the take. */
static uint8_t limit_of_penalty(const struct sl_decision *d, unsigned index)
{
    unsigned i = 0;

    while (
        i < d->take.count &&
        (d->part_shown[i] != d->shown[index].penalty_of || d->parts[i].carried))
        i++;
    return i < d->take.count ? (uint8_t)(i + 1) : 0;
}

/* Adds the penalties of all limits, which take nothing. A store that can counts
 * a refusal, unless the request may wait. */
static void add_penalties(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    unsigned first = sl_penalty_first(d);
    bool waits = c->engine_ctx->wait_thread && sl_wait_check_longest(c) > 0;

    sl_penalty_show(d);
    for (unsigned i = first; i < first + d->penalty_count; i++) {
        uint8_t of = waits ? 0 : limit_of_penalty(d, i);

        add_part(c, i, false);
        d->parts[d->take.count - 1].penalty_of = of;
    }
}

/* Adds one failure to the penalty of each limit that has refused. */
static void add_failures(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    unsigned first = sl_penalty_first(d);

    for (unsigned i = first; i < first + d->penalty_count; i++)
        if (sl_penalty_is_due(d, i)) {
            d->shown[i].cost = 1;
            add_part(c, i, false);
        }
}

/* Is the limit unlimited, but counted? A peek has nothing to count. */
static bool is_counted(const struct sl_decision *d,
                       const struct sl_limit_view *shown)
{
    return shown->counted && !shown->skipped && shown->cost > 0 && d->spend &&
           !d->on_local && !d->no_numbers;
}

bool sl_parts_ask_limits(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    begin_take(d, op_of(d, SL_TAKE_OP_TAKE));
    for (unsigned i = 0; i < d->shown_count && !d->failed; i++)
        if ((has_numbers(&d->shown[i]) || is_counted(d, &d->shown[i])) &&
            d->shown[i].mode == SL_MODE_ENFORCE)
            add_part(c, i, false);
    sl_guard_show(d);
    for (unsigned i = 0; i < d->running_count; i++)
        add_part(c, d->shown_count + i, false);
    add_penalties(c);
    sl_hold_prepare(c);
    return d->take.count > 0 && d->reason == SL_REASON_NONE;
}

/* ---- credits ----
 *
 * A rate can name a quota that pays for what the rate denies (`credits`). The
 * rates are asked first. If all limits that deny have credits, a second take
 * has the other limits and the credits: all or nothing, as every take. The view
 * of credits is `skipped` unless they pay.
 *
 * Invariants. (test/prop/credits.c checks each by number.)
 *   (1) A request that the rates allow takes no credits.
 *   (2) A request that is denied takes nothing, of any limit.
 *   (3) Credits pay the whole cost of a request, once: the largest of the costs
 *       that the same credits pay. The rates that denied take nothing.
 *   (4) The credits of a period never pay more than the quota.
 */

static bool denies(const struct sl_decision *d,
                   const struct sl_limit_view *shown)
{
    return sl_limit_view_counts(d, shown) && !shown->allowed;
}

/* The view of the credits of a limit, or NULL. */
static struct sl_limit_view *credits_of(struct sl_decision *d,
                                        const struct sl_limit_view *shown)
{
    for (unsigned i = 0; i < d->shown_count && shown->rule->credits; i++)
        if (d->shown[i].pays_for && d->shown[i].rule == shown->rule->credits)
            return &d->shown[i];
    return NULL;
}

void sl_parts_drop_credits(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].pays_for) {
            d->shown[i].skipped = true;
            d->shown[i].cost = 0;
        }
}

/* Do all limits that deny have credits? Then these are part of the take. */
static bool find_credits(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->shown_count; i++)
        if (denies(d, &d->shown[i]) && !credits_of(d, &d->shown[i]))
            return false;
    for (unsigned i = 0; i < d->shown_count; i++) {
        struct sl_limit_view *credits = credits_of(d, &d->shown[i]);

        if (!credits || !denies(d, &d->shown[i]))
            continue;
        credits->skipped = false;
        if (credits->cost < d->shown[i].cost)
            credits->cost = d->shown[i].cost;
    }
    return true;
}

bool sl_parts_ask_credits(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    if (d->allowed || d->reason != SL_REASON_NONE || d->on_local ||
        d->metered || d->charge || d->give_back || !find_credits(d))
        return false;
    begin_take(d, op_of(d, SL_TAKE_OP_TAKE));
    for (unsigned i = 0; i < d->shown_count; i++)
        if ((sl_limit_view_counts(d, &d->shown[i]) && d->shown[i].allowed) ||
            (is_counted(d, &d->shown[i]) &&
             d->shown[i].mode == SL_MODE_ENFORCE))
            add_part(c, i, false);
    sl_guard_show(d);
    for (unsigned i = 0; i < d->running_count; i++)
        add_part(c, d->shown_count + i, false);
    sl_hold_prepare(c);
    if (d->reason != SL_REASON_NONE)
        sl_parts_drop_credits(d);
    return d->reason == SL_REASON_NONE;
}

void sl_parts_pay(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->shown_count; i++) {
        struct sl_limit_view *shown = &d->shown[i];

        if (!denies(d, shown))
            continue;
        shown->credited = shown->cost;
        shown->cost = 0;
        shown->allowed = true;
        shown->answer.outcome = SL_ALLOW;
    }
}

/* `insist`: windows and quotas are charged for denied requests. The verdict
 * does not change. Penalties count them, if the store has not, unless the
 * request may wait. */
bool sl_parts_count_denied(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    bool count = d->penalty_count > 0 && !d->take.counted && c->wait == 0;

    if (!d->spend || d->charge || d->give_back || d->allowed ||
        (!d->insist && !count))
        return false;
    begin_take(d, SL_TAKE_OP_CHARGE);
    if (count)
        add_failures(c);
    for (unsigned i = 0; i < d->shown_count && d->insist; i++) {
        const struct sl_limit_view *shown = &d->shown[i];
        enum sl_kind kind = shown->rule->kind;

        if (has_numbers(shown) && shown->mode == SL_MODE_ENFORCE &&
            !shown->allowed && (kind == SL_FIXED || kind == SL_QUOTA))
            add_part(c, i, false);
    }
    return d->take.count > 0;
}

/* Candidates without room among the SL_PARTS are skipped. */
bool sl_parts_ask_shadows(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    bool any = false;

    for (unsigned i = 0; i < d->shown_count && !any; i++)
        any = d->shown[i].mode == SL_MODE_SHADOW || d->shown[i].has_candidate;
    if (!any)
        return false;
    begin_take(d, d->allowed ? op_of(d, SL_TAKE_OP_EACH) : SL_TAKE_OP_PEEK);
    for (unsigned i = 0; i < d->shown_count; i++) {
        struct sl_limit_view *shown = &d->shown[i];

        if (has_numbers(shown) && shown->mode == SL_MODE_SHADOW)
            add_part(c, i, false);
    }
    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].has_candidate && !d->shown[i].skipped &&
            has_room(d, &d->shown[i]))
            add_part(c, i, true);
    return d->take.count > 0;
}

bool sl_parts_peek_next(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    struct sl_limit_view *shown;
    const struct sl_answer *a;

    if (d->report < 0 || d->route->reset != SL_RESET_NEXT)
        return false;
    begin_take(d, SL_TAKE_OP_PEEK);
    shown = &d->shown[d->report];
    a = &shown->answer;
    if (!shown->allowed)
        shown->next_in = a->retry_in;
    else if (a->remaining >= a->capacity || shown->uncapped)
        shown->next_in = 0;
    else {
        add_part(c, (unsigned)d->report, false);
        d->parts[d->take.count - 1].cost = a->remaining + 1;
        if (d->on_local)
            d->parts[d->take.count - 1].cost =
                sl_local_cost(shown, &d->parts[d->take.count - 1]);
    }
    return d->take.count > 0;
}

/* Adds a limit and what is carried to it, if there is room. The plan may have
 * no numbers: the strictest of all plans are used. */
static void add_reset(struct sl_check *c, unsigned index, bool candidate,
                      const struct sl_limit *strictest)
{
    struct sl_decision *d = &c->decision;
    unsigned first = d->take.count;

    if (!has_room(d, &d->shown[index]))
        return;
    add_part(c, index, candidate);
    for (unsigned i = first; i < d->take.count; i++)
        d->parts[i].limit = strictest;
}

/* With shadows and candidates, also if the plan has no numbers. Of a request
 * about failed attempts, the penalties only. */
bool sl_parts_ask_reset(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    begin_take(d, SL_TAKE_OP_RESET);
    for (unsigned i = 0; i < d->shown_count && !d->failed; i++) {
        const struct sl_rule *rule = d->shown[i].rule;

        if (d->shown[i].skipped || !rule->limited)
            continue;
        add_reset(c, i, false, &rule->strictest);
        if (rule->candidate_strictest.capacity > 0)
            add_reset(c, i, true, &rule->candidate_strictest);
    }
    for (unsigned i = 0; i < d->penalty_count; i++) {
        unsigned index = sl_penalty_first(d) + i;

        add_reset(c, index, false, &d->shown[index].rule->strictest);
    }
    return d->take.count > 0;
}

/* With overage the take had no ceiling: shows what is left of the plan's quota.
 */
static void show_overage(struct sl_limit_view *shown)
{
    struct sl_answer *a = &shown->answer;
    uint64_t used = a->capacity > a->remaining ? a->capacity - a->remaining : 0;
    uint64_t count = shown->numbers->count;

    shown->used = used;
    a->limit = count;
    a->capacity = count;
    a->remaining = used < count ? count - used : 0;
    shown->overage = used + shown->on_report > count;
    if (used > count)
        shown->overage_units =
            used - count < shown->cost ? used - count : shown->cost;
}

bool sl_parts_drop_full(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;
    bool any = false;

    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_limit_view *shown = &d->shown[d->part_shown[i]];

        if (!shown->counted || d->parts[i].answer.outcome == SL_ALLOW)
            continue;
        shown->counted = shown->uncapped = false;
        any = true;
    }
    return any && sl_parts_ask_limits(c);
}

void sl_parts_answers(struct sl_check *c)
{
    struct sl_decision *d = &c->decision;

    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_part *part = &d->parts[i];
        struct sl_limit_view *shown = &d->shown[d->part_shown[i]];
        const struct sl_answer *a = &part->answer;

        if (c->state == SL_CHECK_COUNT_DENIED &&
            part->limit->kind != SL_PENALTY)
            continue;
        if (d->on_local)
            sl_local_answer(shown, part, shown->uncapped || part->carried);
        if (part->carried) {
            if (c->state == SL_CHECK_TAKE)
                shown->carried = a->capacity - a->remaining;
        } else if (c->state == SL_CHECK_NEXT_UNIT) {
            shown->next_in = part->answer.retry_in;
        } else if (part->limit == shown->candidate) {
            shown->candidate_answer = part->answer;
        } else {
            shown->unleased = part->unleased;
            shown->fingerprint = part->fingerprint;
            if (shown->counted)
                continue;
            shown->answer = part->answer;
            shown->untracked = part->untracked;
            shown->allowed = part->answer.outcome == SL_ALLOW;
            if (shown->uncapped)
                show_overage(shown);
        }
    }
    if (c->state == SL_CHECK_COUNT_DENIED)
        sl_penalty_counted(d);
}
