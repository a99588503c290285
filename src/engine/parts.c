/* parts.c -- from rules to what the store is asked.
 *
 * Each rule of a route is shown in the verdict, in the route's order. Those
 * that count (enforced, with numbers) are taken as one set. Shadows and
 * candidates are asked afterwards, each for itself, when it is known whether
 * the request passes: what was refused is not counted by them either.
 */
#include "engine/parts.h"

#include <string.h>

#include "engine/conflict.h"
#include "engine/hold.h"

/* ---- keys ---- */

/* His name, if that is what was asked for: his alias is not what limits are
 * kept by. */
static void use_name(struct sl_str asked, struct sl_str name,
                     struct sl_str scope, struct sl_key_value *ret)
{
    if (sl_str_eq(ret->scope, scope) && sl_str_eq(ret->value, asked))
        ret->value = name;
}

/* What was said of number `i`, where one limit is asked by its name. */
static void use_given(const struct sl_asking *asking, unsigned i,
                      struct sl_key_value *ret)
{
    const struct sl_facts *facts = asking->facts;
    const struct sl_str *names = asking->caller.values;

    ret->value = i < facts->key_count ? facts->keys[i] : facts->key;
    if (i >= facts->key_count || !facts->key_scopes)
        return;
    ret->scope = facts->key_scopes[i];
    use_name(facts->user, names[SL_SCOPE_USER], SL_STR("user"), ret);
    use_name(facts->org, names[SL_SCOPE_ORG], SL_STR("org"), ret);
}

/* The value of `per` number `i` of a rule. False if it is missing and the rule
 * does not take anonymous callers. */
static bool find_value(struct sl_decision *d, struct sl_asking *asking,
                       const struct sl_rule *rule, unsigned i,
                       struct sl_key_value *ret)
{
    const struct sl_policy *policy = d->policy;
    unsigned scope = rule->per[i];

    ret->scope = policy->identity.scope_names[scope];
    if (asking->facts->limit.len > 0)
        use_given(asking, i, ret);
    else if (scope == SL_SCOPE_ENDPOINT)
        ret->value = d->route->endpoint;
    else if (scope == SL_SCOPE_ANON)
        *ret = sl_caller_anonymous(&asking->caller, policy, asking->facts,
                                   asking->secret);
    else if (scope == SL_SCOPE_IP)
        ret->value = sl_caller_ip(&asking->caller, policy, asking->facts);
    else
        ret->value = asking->caller.values[scope];
    if (ret->value.len > 0)
        return true;
    if (rule->missing != SL_MISSING_ANONYMOUS)
        return false;
    *ret = sl_caller_stand_in(&asking->caller, policy, asking->facts,
                              asking->secret);
    return true;
}

/* Texts joined by ':' in the decision's arena; `pick` 0 takes the scopes, 1
 * the values. */
static char *join(struct sl_decision *d, const struct sl_shown *shown, int pick)
{
    size_t len = 0;
    char *text, *at;

    for (unsigned i = 0; i < shown->value_count; i++)
        len += 1 +
               (pick ? shown->values[i].value.len : shown->values[i].scope.len);
    at = text = sl_arena_take(&d->arena, len + 1);
    if (!text)
        return NULL;
    for (unsigned i = 0; i < shown->value_count; i++) {
        struct sl_str s =
            pick ? shown->values[i].value : shown->values[i].scope;

        if (i > 0)
            *at++ = ':';
        if (s.len > 0)
            memcpy(at, s.at, s.len);
        at += s.len;
    }
    *at = '\0';
    return text;
}

/* A single value is the end of its key's bytes, and a NUL is behind them. */
static bool is_in_key(const struct sl_shown *shown)
{
    return shown->value_count == 1 &&
           shown->values[0].value.len <= SL_VALUE_MAX;
}

/* The values outlive the facts: they are copied. */
static int keep_values(struct sl_decision *d, struct sl_shown *shown)
{
    char *scope;

    if (is_in_key(shown)) {
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
    shown->id = join(d, shown, 1);
    if (shown->value_count > 1) {
        scope = join(d, shown, 0);
        shown->scope = sl_str_c(scope);
        if (!scope)
            return SLUICE_ENOMEM;
    }
    return shown->id ? 0 : SLUICE_ENOMEM;
}

static int make_key(struct sl_decision *d, struct sl_shown *shown,
                    const struct sl_hash_key *secret)
{
    char bytes[SL_KEY_MAX];
    size_t len = sl_key_bytes(shown->values, shown->value_count, secret, bytes);

    shown->key.len = len;
    shown->key.at = sl_arena_copy(&d->arena, (struct sl_str){bytes, len});
    return shown->key.at ? keep_values(d, shown) : SLUICE_ENOMEM;
}

/* ---- showing ---- */

static bool has_numbers(const struct sl_shown *shown)
{
    return !shown->skipped && sl_rate_has_numbers(shown->form);
}

static void refuse_capability(struct sl_decision *d, struct sl_shown *shown)
{
    shown->allowed = false;
    if (d->reason != SL_REASON_NONE)
        return;
    sl_refuse_request(d, SL_REASON_CAPABILITY);
    if (d->reason == SL_REASON_CAPABILITY)
        d->by = (int)(shown - d->shown);
}

static int show(struct sl_decision *d, struct sl_asking *asking,
                struct sl_shown *shown)
{
    const struct sl_rule *rule = shown->rule;
    int err = sl_parts_numbers(d, asking, shown);

    if (err)
        return err;
    shown->mode = rule->mode;
    shown->allowed = true;
    shown->id = (char *)"";
    shown->next_in = SL_NS_NONE;
    for (unsigned i = 0; i < rule->per_count; i++) {
        if (find_value(d, asking, rule, i, &shown->values[i])) {
            shown->value_count++;
            continue;
        }
        shown->skipped = true;
        shown->value_count = 0;
        if (rule->missing == SL_MISSING_DENY && rule->mode == SL_MODE_ENFORCE &&
            !asking->preflight) {
            d->missing_scope = shown->values[i].scope;
            sl_refuse_request(d, SL_REASON_MISSING);
        }
        return 0;
    }
    if (shown->form == SL_RATE_NONE && rule->mode == SL_MODE_ENFORCE)
        refuse_capability(d, shown);
    err = make_key(d, shown, asking->secret);
    if (!err && asking->live->wants_names)
        err = sl_name_make(d, shown, shown->values, shown->value_count,
                           &shown->name);
    return err ? err : sl_visitor_find(d, asking, shown);
}

/* What another side meets already is asked once, with the larger cost. */
static unsigned merge(struct sl_decision *d, unsigned before)
{
    unsigned last = d->shown_count - 1;
    const struct sl_shown *shown = &d->shown[last];

    for (unsigned i = 0; i < before; i++) {
        struct sl_shown *other = &d->shown[i];

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

static int add_shown(struct sl_decision *d, struct sl_asking *asking,
                     const struct sl_rule *rule, unsigned before)
{
    struct sl_shown *shown = &d->shown[d->shown_count];
    int err;

    if (d->shown_count == SL_PARTS)
        return sl_refuse(
            asking->diag, SLUICE_EFULL,
            "the request matches more than %d limits, the maximum for one take",
            SL_PARTS);
    memset(shown, 0, offsetof(struct sl_shown, values));
    shown->rule = rule;
    d->shown_count++;
    err = show(d, asking, shown);
    if (!err)
        asking->shown |= UINT32_C(1) << merge(d, before);
    return err;
}

int sl_parts_show(struct sl_decision *decision, struct sl_asking *asking,
                  const struct sl_rule *const *rules, unsigned count)
{
    unsigned before = decision->shown_count; /* those of other sides */
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++)
        if (rules[i]->mode != SL_MODE_OFF)
            err = add_shown(decision, asking, rules[i], before);
    return err;
}

/* ---- asking ---- */

static void add_part(struct sl_decision *d, const struct sl_live *live,
                     unsigned index, bool candidate)
{
    const struct sl_shown *shown = &d->shown[index];
    unsigned stored = 2 * shown->rule->index + candidate;
    struct sl_take_part part = {
        .of = d->on_local ? &live->local[stored] : &live->stored[stored],
        .limit = candidate ? shown->candidate : shown->numbers,
        .key = shown->key,
        .name = sl_name_of(shown->name, candidate),
        .cost = shown->cost,
        .when = d->now,
        .whose = d->step == SL_SHADOWING || d->on_local ? NULL : shown,
    };

    if (shown->open && !candidate)
        part.limit = shown->ceiling_less;
    if (d->on_local)
        part.cost = sl_local_cost(d, &part);
    if (shown->visitor.len > 0) {
        struct sl_take_part before = part;

        before.key = shown->visitor;
        before.name = sl_name_of(shown->visitor_name, candidate);
        before.cost = 0;
        before.carried = true;
        d->part_shown[d->take.count] = index;
        d->parts[d->take.count++] = before;
    }
    d->part_shown[d->take.count] = index;
    d->parts[d->take.count++] = part;
}

/* Is there room for one more, and what is carried to it? */
static bool has_room(const struct sl_decision *d, const struct sl_shown *shown)
{
    return d->take.count + 1 + (shown->visitor.len > 0) <= SL_PARTS;
}

static void begin_take(struct sl_decision *d, enum sl_step_of_decision step,
                       enum sl_errand errand)
{
    d->step = step;
    d->take.errand = errand;
    d->take.parts = d->parts;
    d->take.count = 0;
    d->take.now = d->now;
    d->take.err = 0;
    d->take.hold = (struct sl_hold_id){
        {0, 0}
    };
}

static enum sl_errand errand_of(const struct sl_decision *d,
                                enum sl_errand usual)
{
    if (!d->spend)
        return SL_ERRAND_LOOK;
    if (d->charge)
        return SL_ERRAND_CHARGE;
    return d->give_back ? SL_ERRAND_GIVE_BACK : usual;
}

void sl_parts_ask_limits(struct sl_decision *d, const struct sl_live *live)
{
    begin_take(d, SL_DECIDING, errand_of(d, SL_ERRAND_TAKE));
    for (unsigned i = 0; i < d->shown_count; i++)
        if (has_numbers(&d->shown[i]) && d->shown[i].mode == SL_MODE_ENFORCE)
            add_part(d, live, i, false);
    sl_conflict_show(d);
    for (unsigned i = 0; i < d->running_count; i++)
        add_part(d, live, d->shown_count + i, false);
    d->pending = d->take.count > 0;
    sl_hold_prepare(d, live);
}

/* Whoever counts in windows and means to count what they refuse, too: it is
 * charged. It says nothing new to the caller. */
void sl_parts_insist(struct sl_decision *d, const struct sl_live *live)
{
    begin_take(d, SL_INSISTING, SL_ERRAND_CHARGE);
    d->pending = false;
    if (!d->insist || !d->spend || d->give_back || d->allowed)
        return;
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_shown *shown = &d->shown[i];
        enum sl_kind kind = shown->rule->kind;

        if (has_numbers(shown) && shown->mode == SL_MODE_ENFORCE &&
            !shown->allowed && (kind == SL_FIXED || kind == SL_QUOTA))
            add_part(d, live, i, false);
    }
    d->pending = d->take.count > 0;
}

/* A route has at most SL_PARTS limits, and each may have a candidate: those
 * that find no room among the parts are not asked this time. */
void sl_parts_ask_shadows(struct sl_decision *d, const struct sl_live *live)
{
    begin_take(d, SL_SHADOWING,
               d->allowed ? errand_of(d, SL_ERRAND_EACH) : SL_ERRAND_LOOK);
    for (unsigned i = 0; i < d->shown_count; i++) {
        struct sl_shown *shown = &d->shown[i];

        if (has_numbers(shown) && shown->mode == SL_MODE_SHADOW)
            add_part(d, live, i, false);
    }
    for (unsigned i = 0; i < d->shown_count; i++)
        if (d->shown[i].has_candidate && !d->shown[i].skipped &&
            has_room(d, &d->shown[i]))
            add_part(d, live, i, true);
    d->pending = d->take.count > 0;
}

void sl_parts_ask_next_unit(struct sl_decision *d, const struct sl_live *live)
{
    struct sl_shown *shown;
    const struct sl_answer *a;

    begin_take(d, SL_NEXT_UNIT, SL_ERRAND_LOOK);
    d->pending = false;
    if (d->report < 0 || d->route->reset != SL_RESET_NEXT)
        return;
    shown = &d->shown[d->report];
    a = &shown->answer;
    if (!shown->allowed)
        shown->next_in = a->retry_in;
    else if (a->remaining >= a->capacity || shown->open)
        shown->next_in = 0;
    else {
        add_part(d, live, (unsigned)d->report, false);
        d->parts[d->take.count - 1].cost = a->remaining + 1;
        if (d->on_local)
            d->parts[d->take.count - 1].cost =
                sl_local_cost(d, &d->parts[d->take.count - 1]);
        d->pending = true;
    }
}

/* Also what candidates and shadows remember, and whether or not the plan has
 * numbers. */
void sl_parts_ask_reset(struct sl_decision *d, const struct sl_live *live)
{
    begin_take(d, SL_DECIDED, SL_ERRAND_RESET);
    for (unsigned i = 0; i < d->shown_count; i++) {
        const struct sl_rule *rule = d->shown[i].rule;

        if (d->shown[i].skipped || !rule->limited)
            continue;
        if (d->take.count < SL_PARTS) {
            add_part(d, live, i, false);
            d->parts[d->take.count - 1].limit = &rule->strictest;
        }
        if (rule->candidate_strictest.capacity > 0 &&
            d->take.count < SL_PARTS) {
            add_part(d, live, i, true);
            d->parts[d->take.count - 1].limit = &rule->candidate_strictest;
        }
    }
    d->pending = d->take.count > 0;
}

/* With overage the store was asked without a ceiling: show what is left of
 * the quota that was paid for. */
static void show_overage(struct sl_shown *shown)
{
    struct sl_answer *a = &shown->answer;
    uint64_t used = a->capacity > a->remaining ? a->capacity - a->remaining : 0;
    uint64_t count = shown->numbers->count;

    shown->used = used;
    a->limit = count;
    a->capacity = count;
    a->remaining = used < count ? count - used : 0;
    shown->overage = used > count;
    if (shown->overage)
        shown->over = used - count < shown->cost ? used - count : shown->cost;
}

void sl_parts_answers(struct sl_decision *d)
{
    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_take_part *part = &d->parts[i];
        struct sl_shown *shown = &d->shown[d->part_shown[i]];
        const struct sl_answer *a = &part->answer;

        if (d->step == SL_INSISTING)
            continue;
        if (d->on_local)
            sl_local_answer(d, part, shown->open || part->carried);
        if (part->carried) {
            if (d->step == SL_DECIDING)
                shown->carried = a->capacity - a->remaining;
        } else if (d->step == SL_NEXT_UNIT) {
            shown->next_in = part->answer.retry_in;
        } else if (part->limit == shown->candidate) {
            shown->candidate_answer = part->answer;
        } else {
            shown->answer = part->answer;
            shown->untracked = part->untracked;
            shown->print = part->print;
            shown->allowed = part->answer.outcome == SL_ALLOW;
            if (shown->open)
                show_overage(shown);
        }
    }
}
