/* numbers.c -- which numbers of a limit count for a caller, and what it costs.
 *
 * Those of his plan, unless somebody gave others for this one limit, or the
 * request brings some along.
 */
#include <inttypes.h>
#include <stdio.h>

#include "engine/parts.h"
#include "engine/spent.h"
#include "engine/subjects.h"

static const struct sl_override *find_override(const struct sl_facts *facts,
                                               struct sl_str name)
{
    for (unsigned i = 0; i < facts->override_count; i++)
        if (sl_str_eq(facts->overrides[i].limit, name))
            return &facts->overrides[i];
    return NULL;
}

static int override(struct sl_shown *shown, struct sl_str rate,
                    struct sl_asking *asking, struct sl_diag *diag)
{
    const struct sl_rule *rule = shown->rule;
    struct sl_plan_limit own;
    int err = sl_rule_rate(rule, rate, &own, diag);

    if (!err && !rule->limited)
        err = sl_refuse(diag, SLUICE_ECONF,
                        "limit \"%.*s\" has no rate for any plan, so it cannot "
                        "be overridden",
                        SL_STR_ARG(rule->name));
    if (!err && sl_rate_has_numbers(own.form))
        err = sl_live_tighten(asking->live, rule, &own.numbers, diag);
    if (err)
        return err;
    shown->overridden = true;
    shown->override_of = "";
    shown->override_until = SL_NS_NONE;
    shown->form = own.form;
    shown->own = own.numbers;
    shown->own_open = own.open;
    shown->numbers = &shown->own;
    shown->ceiling_less = &shown->own_open;
    return 0;
}

/* Texts of the registry that only an explanation shows. */
static struct sl_str note(struct sl_decision *d, struct sl_str text)
{
    const char *copy = d->spend ? NULL : sl_arena_copy(&d->arena, text);

    return (struct sl_str){copy, copy ? text.len : 0};
}

/* A rate of the registry that the limit can't have, after the policy changed
 * perhaps, is left aside: nobody is refused for it. */
static int use_registered(struct sl_decision *d, struct sl_shown *shown,
                          struct sl_asking *asking,
                          const struct sl_own_rate *own, const char *of)
{
    struct sl_diag diag = {0};
    int err = override(shown, own->rate, asking, &diag);

    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        return sl_refuse(asking->diag, err, "%s", diag.sentence);
    if (err) {
        shown->override_bad = note(d, sl_str_c(diag.sentence));
        return 0;
    }
    shown->override_of = of;
    shown->override_by = note(d, own->by);
    shown->override_note = note(d, own->note);
    shown->override_until = own->until;
    return 0;
}

/* Few have any. */
static int override_registered(struct sl_decision *d, struct sl_shown *shown,
                               struct sl_asking *asking)
{
    const struct sl_own_rate *own;
    const char *of;

    if (!asking->known->user && !asking->known->org)
        return 0;
    own = sl_known_rate(asking->known, shown->rule->name, d->now, &of);
    return own ? use_registered(d, shown, asking, own, of) : 0;
}

/* Numbers that the request brings along count for limits of that period. */
static int impose(struct sl_shown *shown, struct sl_asking *asking)
{
    const struct sl_imposed *imposed = &asking->facts->imposed;
    char rate[64] = "none";

    if (imposed->period == 0 || !sl_rate_has_numbers(shown->form) ||
        shown->numbers->period != imposed->period)
        return 0;
    if (imposed->count > 0)
        snprintf(rate, sizeof(rate), "%" PRIu64 "/%" PRId64 "s", imposed->count,
                 imposed->period / SL_S);
    return override(shown, sl_str_c(rate), asking, asking->diag);
}

/* Of whom else are the numbers that hold an address, if his own plan has
 * none: see `sign_in: cap`. */
static unsigned numbers_of(const struct sl_decision *d,
                           const struct sl_asking *asking,
                           const struct sl_rule *rule)
{
    bool by_address = rule->per_count == 1 && rule->per[0] == SL_SCOPE_IP;

    if (asking->cap && by_address &&
        rule->plans[d->plan].form == SL_RATE_UNLIMITED)
        return d->policy->plans.anonymous;
    return d->plan;
}

static uint64_t choose_cost(const struct sl_facts *facts,
                            const struct sl_rule *rule)
{
    for (unsigned i = 0; i < facts->cost_count; i++)
        if (sl_str_eq(facts->costs[i].limit, rule->name))
            return facts->costs[i].cost;
    /* What costs much is still one at once. */
    if (rule->kind == SL_PERMITS && facts->limit.len == 0 && facts->cost > 0)
        return rule->cost;
    return facts->has_cost ? facts->cost : rule->cost;
}

/* Ask for up to `ceiling`; what is shown is what the plan has: its count, which
 * a hold keeps, too. */
static void raise_to(struct sl_shown *shown, uint64_t ceiling)
{
    shown->own_open = *shown->numbers;
    shown->own_open.capacity = ceiling;
    sl_limit_derive(&shown->own_open);
    shown->ceiling_less = &shown->own_open;
    shown->open = true;
}

/* Whoever meters sees what lies beyond the ceiling; whoever has credits may
 * take as much more. */
static void open_up(const struct sl_decision *d, const struct sl_asking *asking,
                    struct sl_shown *shown)
{
    const struct sl_rule *rule = shown->rule;
    uint64_t more, count;

    if (!sl_rate_has_numbers(shown->form) || shown->open)
        return;
    count = shown->numbers->count;
    if (asking->facts->metered) {
        if (rule->kind == SL_QUOTA || rule->kind == SL_LEVEL)
            raise_to(shown, SL_AMOUNT_MAX);
        return;
    }
    if (rule->kind != SL_QUOTA || rule->per_count != 1 ||
        !sl_known_credits(asking->known))
        return;
    more = sl_known_credit(asking->known, rule->per[0], rule->name,
                           sl_rule_start(rule, shown->numbers, d->now), d->now);
    if (more > 0)
        raise_to(shown,
                 count + more < SL_AMOUNT_MAX ? count + more : SL_AMOUNT_MAX);
}

static int find_numbers(struct sl_decision *d, struct sl_asking *asking,
                        struct sl_shown *shown)
{
    const struct sl_rule *rule = shown->rule;
    unsigned plan = numbers_of(d, asking, rule);
    const struct sl_plan_limit *limit = &rule->plans[plan];
    const struct sl_override *o = find_override(asking->facts, rule->name);

    shown->cost = choose_cost(asking->facts, rule);
    shown->plan = plan;
    shown->plan_name = d->policy->plans.list[plan].name;
    shown->form = limit->form;
    shown->numbers = &limit->numbers;
    shown->open = limit->overage;
    shown->ceiling_less = &limit->open;
    if (rule->has_candidate &&
        sl_rate_has_numbers(rule->candidates[d->plan].form)) {
        shown->has_candidate = true;
        shown->candidate = &rule->candidates[d->plan].numbers;
    }
    if (o)
        return override(shown, o->rate, asking, asking->diag);
    if (asking->facts->imposed.period > 0)
        return impose(shown, asking);
    return override_registered(d, shown, asking);
}

int sl_parts_numbers(struct sl_decision *d, struct sl_asking *asking,
                     struct sl_shown *shown)
{
    int err = find_numbers(d, asking, shown);

    if (!err)
        open_up(d, asking, shown);
    return err;
}
