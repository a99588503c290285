/* usage_report.c -- usage of quotas and levels, for the usage database, and
 * back from it after a start. */
#include "base/arith.h"
#include "engine/engine.h"
#include "engine/engine_int.h"
#include "engine/hold_op.h"

sl_ns sl_rule_start(const struct sl_rule *rule, const struct sl_limit *numbers,
                    sl_ns now)
{
    sl_ns span = SL_DAY;

    if (rule->kind == SL_LEVEL || rule->kind == SL_PERMITS)
        return 0;
    if (rule->kind == SL_QUOTA && numbers->calendar)
        return sl_calendar_period(&numbers->cal, now).start;
    if (rule->kind == SL_QUOTA && numbers->period > 0)
        span = numbers->period;
    return now - now % span;
}

static void delta_of(const struct sl_decision *d,
                     const struct sl_limit_view *shown, struct sl_str *values,
                     struct sl_usage_delta *ret)
{
    const struct sl_rule *rule = shown->rule;
    bool limited = sl_rate_has_numbers(shown->form);

    for (unsigned i = 0; i < shown->value_count; i++)
        values[i] = shown->values[i].value;
    *ret = (struct sl_usage_delta){
        .fingerprint = shown->fingerprint,
        .limit = rule->name,
        .scope = shown->scope,
        .values = values,
        .value_count = shown->value_count,
        .start = sl_rule_start(rule, shown->periods, d->now),
        .at = d->now,
        .cap = limited ? shown->numbers->count : UINT64_MAX,
        .plan = shown->plan_name,
        .zone = shown->zone_name,
        .numbers = shown->periods,
        .level = rule->kind == SL_LEVEL,
        .thresholds = rule->thresholds,
    };
    if (d->plan_unknown) {
        ret->cap = SL_USAGE_CAP_KEPT;
        ret->plan = SL_STR("");
    }
}

/* A held take counts as used when the hold ends. What was not taken is not in
 * the hold. */
static bool is_held(const struct sl_decision *d,
                    const struct sl_limit_view *shown)
{
    return d->hold_asked > 0 && d->hold[0] && shown->mode == SL_MODE_ENFORCE &&
           (sl_rate_has_numbers(shown->form) || shown->counted);
}

static bool tell_hold(const struct sl_decision *d, struct sl_usage_delta *spent)
{
    struct sl_hold_name name;

    if (!sl_hold_name_read(sl_str_c(d->hold), &name))
        return false;
    spent->act = SL_USAGE_ACT_HOLD;
    spent->hold[0] = name.id.w[0];
    spent->hold[1] = name.id.w[1];
    spent->until = d->now + d->hold_for;
    return true;
}

static void tell(struct sl_usage_sink *meter, const struct sl_decision *d,
                 const struct sl_limit_view *shown, bool reset)
{
    struct sl_str values[SL_PER_MAX];
    struct sl_usage_delta spent;
    uint64_t cost = shown->cost < SL_AMOUNT_MAX ? shown->cost : SL_AMOUNT_MAX;

    if (!sl_is_durable(shown->rule->kind) || shown->skipped ||
        (!reset && cost == 0))
        return;
    delta_of(d, shown, values, &spent);
    spent.reset = reset;
    spent.elsewhere = shown->unleased;
    spent.amount = d->give_back ? -(int64_t)cost : (int64_t)cost;
    if (!reset && is_held(d, shown) && !tell_hold(d, &spent))
        return;
    meter->calls->spent(meter, &spent);
}

/* Metered usage is in the usage database already. A repeat takes nothing. */
void sl_usage_report_send(struct sl_usage_sink *meter,
                          const struct sl_decision *d, bool reset)
{
    if (!meter ||
        (!reset && (!d->spend || !d->allowed || d->metered || d->replayed)))
        return;
    for (unsigned i = 0; i < d->shown_count; i++)
        tell(meter, d, &d->shown[i], reset);
}

bool sl_usage_report_is_full(const struct sl_usage_sink *meter,
                             const struct sl_decision *d)
{
    if (!meter || !meter->full || !d->spend || d->metered || d->give_back ||
        d->on_local)
        return false;
    for (unsigned i = 0; i < d->shown_count; i++)
        if (sl_is_durable(d->shown[i].rule->kind) && !d->shown[i].skipped &&
            d->shown[i].cost > 0)
            return true;
    return false;
}

/* One limit of a hold that has ended, or goes on. */
static void tell_end(const struct sl_hold_op *ask, const struct sl_rule *rule,
                     uint64_t cost, bool elsewhere)
{
    struct sl_usage_sink *meter = ask->engine_ctx->meter;
    sl_ns now = ask->call.now;
    struct sl_usage_delta spent;

    if (!rule || !sl_is_durable(rule->kind))
        return;
    spent = (struct sl_usage_delta){
        .act = ask->verb == SL_VERB_EXTEND ? SL_USAGE_ACT_HOLD_EXTEND
                                           : SL_USAGE_ACT_HOLD_END,
        .hold = {ask->name.id.w[0], ask->name.id.w[1]},
        .until = now + ask->call.expires_in,
        .limit = rule->name,
        .scope = SL_STR(""),
        .start = sl_rule_start(rule, &rule->strictest, now),
        .zone = rule->zone_name,
        .numbers = &rule->strictest,
        .at = now,
        .amount = (int64_t)(cost < SL_AMOUNT_MAX ? cost : SL_AMOUNT_MAX),
        .level = rule->kind == SL_LEVEL,
        .elsewhere = elsewhere,
        .thresholds = rule->thresholds,
    };
    meter->calls->spent(meter, &spent);
}

/* The hold had ended before, perhaps by this settlement, whose answer was lost.
 * The usage database ignores a second end. */
static void tell_again(const struct sl_hold_op *ask)
{
    const struct sl_hold_call *call = &ask->call;
    const struct sl_rule *rules = ask->active->policy->rules;

    for (unsigned i = 0; i < call->actual_count; i++)
        tell_end(ask, &rules[(call->actual[i].of - call->limits) / 2],
                 call->actual[i].cost, false);
}

void sl_usage_report_hold_end(const struct sl_hold_op *op)
{
    if (!op->engine_ctx || !op->engine_ctx->meter)
        return;
    if (op->call.state == SL_HOLD_SETTLED && op->verb == SL_VERB_SETTLE)
        tell_again(op);
    if (op->call.state != SL_HOLD_HELD)
        return;
    for (unsigned i = 0; i < op->call.count; i++)
        tell_end(op, sl_hold_rule(op, i), op->call.parts[i].cost,
                 op->call.parts[i].elsewhere);
}

/* ---- after a start ---- */

static void on_taken(struct sl_take *take)
{
    (void)take; /* the store has answered before it returned */
}

static uint64_t ask(struct sl_store *store, struct sl_part *part,
                    enum sl_take_op op, sl_ns now)
{
    struct sl_take take = {
        .op = op, .parts = part, .count = 1, .now = now, .done = on_taken};

    sl_store_take(store, &take);
    return part->answer.capacity - part->answer.remaining;
}

unsigned sl_usage_scopes(struct sl_str scope, struct sl_str *ret)
{
    unsigned count = 0;
    size_t from = 0;

    if (sl_str_eq(scope, SL_STR("all")))
        return 0;

    for (size_t i = 0; i <= scope.len && count < SL_PER_MAX; i++)
        if (i == scope.len || scope.at[i] == ':') {
            ret[count++] = (struct sl_str){scope.at + from, i - from};
            from = i + 1;
        }
    return count;
}

static size_t make_key(struct sl_engine *engine,
                       const struct sl_usage_delta *spent, char out[SL_KEY_MAX])
{
    struct sl_str scopes[SL_PER_MAX];
    struct sl_key_value values[SL_PER_MAX];

    (void)sl_usage_scopes(spent->scope, scopes);
    for (unsigned i = 0; i < spent->value_count; i++)
        values[i] = (struct sl_key_value){scopes[i], spent->values[i]};
    return sl_key_bytes(values, spent->value_count,
                        sl_store_secret(engine->store), out);
}

static bool is_of(const struct sl_rule *rule,
                  const struct sl_usage_delta *spent)
{
    struct sl_str scopes[SL_PER_MAX];
    unsigned count = sl_usage_scopes(spent->scope, scopes);

    return sl_is_durable(rule->kind) && rule->limited &&
           rule->mode != SL_MODE_OFF && count == spent->value_count &&
           count == rule->per_count;
}

/* The index of its rule; -1: the policy has none. */
static int rule_of(const struct sl_active_policy *active,
                   const struct sl_usage_delta *spent)
{
    int index = sl_policy_rule(active->policy, spent->limit);

    return index >= 0 && is_of(&active->policy->rules[index], spent) ? index
                                                                     : -1;
}

static void open_up(const struct sl_rule *rule, struct sl_limit *ret)
{
    *ret = rule->strictest;
    ret->count = ret->capacity = SL_AMOUNT_MAX;
    sl_limit_derive(ret);
}

/* Charges what the table has less. If it has more, refunds what it owes.
 * Returns what it has beyond that: takes that were not reported. */
static uint64_t correct(struct sl_store *store, struct sl_part *part,
                        uint64_t used, uint64_t owed, sl_ns now)
{
    uint64_t known = ask(store, part, SL_TAKE_OP_PEEK, now);
    uint64_t beyond = sl_sub_floor(known, used);

    part->cost = beyond < owed ? beyond : owed;
    if (known < used) {
        part->cost = used - known;
        (void)ask(store, part, SL_TAKE_OP_CHARGE, now);
        return 0;
    }
    if (part->cost > 0)
        (void)ask(store, part, SL_TAKE_OP_REFUND, now);
    return beyond - part->cost;
}

/* Sets the period of a row: the present one of the rule, or of its subject.
 * Returns false if it is over. */
static bool set_period(const struct sl_rule *rule,
                       const struct sl_usage_delta *spent, sl_ns now,
                       struct sl_limit *limit)
{
    if (spent->end > 0 && now >= spent->end && limit->calendar)
        return false;
    if (sl_rule_start(rule, limit, now) == spent->start)
        return true;
    if (!limit->calendar || spent->end == 0 || now < spent->start)
        return false;
    limit->cal = sl_calendar_span(spent->start, spent->end);
    return true;
}

/* The part of a current period; `open` and `key` are buffers. Returns false if
 * the policy has no such limit, or the period is over. */
static bool find_cell(struct sl_engine *engine,
                      const struct sl_active_policy *active,
                      const struct sl_usage_delta *spent, sl_ns now,
                      struct sl_limit *open, char key[SL_KEY_MAX],
                      struct sl_part *ret)
{
    int index = rule_of(active, spent);

    if (index < 0)
        return false;
    open_up(&active->policy->rules[index], open);
    if (!set_period(&active->policy->rules[index], spent, now, open))
        return false;
    *ret = (struct sl_part){
        .binding = &active->stored[2 * index],
        .limit = open,
        .key = {key, make_key(engine, spent, key)},
        .taken_at = now
    };
    return true;
}

static uint64_t restore(struct sl_engine *engine,
                        const struct sl_active_policy *active,
                        const struct sl_usage_delta *spent, uint64_t used,
                        sl_ns now)
{
    struct sl_limit open;
    struct sl_part part;
    char key[SL_KEY_MAX];

    if (!find_cell(engine, active, spent, now, &open, key, &part))
        return 0;
    return correct(engine->store, &part, used, (uint64_t)-spent->amount, now);
}

uint64_t sl_usage_report_restore(struct sl_engine *engine,
                                 const struct sl_usage_delta *spent,
                                 uint64_t used, sl_ns now)
{
    struct sl_active_policy *active;
    uint64_t beyond;

    if (sl_engine_is_shared(engine))
        return 0; /* the store has the state */
    active = sl_engine_ref_policy(engine, NULL);
    beyond = restore(engine, active, spent, used, now);
    sl_active_policy_unref(active);
    return beyond;
}

/* Changes the cell, if there is one of the present period. */
static void change(struct sl_engine *engine, const struct sl_usage_delta *spent,
                   enum sl_take_op op, sl_ns now)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    struct sl_limit open;
    struct sl_part part;
    char key[SL_KEY_MAX];

    if (find_cell(engine, active, spent, now, &open, key, &part)) {
        part.cost = (uint64_t)spent->amount;
        (void)ask(engine->store, &part, op, now);
    }
    sl_active_policy_unref(active);
}

void sl_usage_report_charge(struct sl_engine *engine,
                            const struct sl_usage_delta *spent, sl_ns now)
{
    change(engine, spent, SL_TAKE_OP_CHARGE, now);
}

void sl_usage_report_set(struct sl_engine *engine,
                         const struct sl_usage_delta *spent, uint64_t used,
                         sl_ns now)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    struct sl_limit open;
    struct sl_part part;
    char key[SL_KEY_MAX];

    if (find_cell(engine, active, spent, now, &open, key, &part)) {
        uint64_t known = ask(engine->store, &part, SL_TAKE_OP_PEEK, now);
        bool more = known < used;

        part.cost = more ? used - known : known - used;
        (void)ask(engine->store, &part,
                  more ? SL_TAKE_OP_CHARGE : SL_TAKE_OP_REFUND, now);
    }
    sl_active_policy_unref(active);
}

void sl_usage_report_empty(struct sl_engine *engine,
                           const struct sl_usage_delta *spent, sl_ns now)
{
    change(engine, spent, SL_TAKE_OP_RESET, now);
}

/* Has the subject periods of its own? */
static bool is_own(const struct sl_limit *limit, sl_ns start)
{
    return limit->calendar &&
           sl_calendar_period(&limit->cal, start).start != start;
}

/* A cell keeps the usage of the period of its last take. If that is over, it is
 * read with a limit whose period never ends. One of a subject with periods of
 * its own has what was taken since the start. */
static uint64_t look(struct sl_engine *engine,
                     const struct sl_active_policy *active, int index,
                     const struct sl_usage_delta *spent, sl_ns now)
{
    const struct sl_rule *rule = &active->policy->rules[index];
    struct sl_limit open;
    char key[SL_KEY_MAX];
    struct sl_part part = {
        .binding = &active->stored[2 * index],
        .limit = &open,
        .key = {key, make_key(engine, spent, key)},
    };
    uint64_t now_has;
    bool own;

    open_up(rule, &open);
    own = is_own(&open, spent->start);
    if (own)
        open.cal = sl_calendar_span(spent->start, 0);
    now_has = ask(engine->store, &part, SL_TAKE_OP_PEEK, now);
    if (own || now_has > 0 ||
        sl_rule_start(rule, &rule->strictest, now) <= spent->start)
        return now_has;
    open.calendar = false;
    open.span = (uint64_t)SL_TIME_END;
    return ask(engine->store, &part, SL_TAKE_OP_PEEK, now);
}

bool sl_usage_report_look(struct sl_engine *engine,
                          const struct sl_usage_delta *spent, sl_ns now,
                          uint64_t *ret)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    int index = rule_of(active, spent);

    if (index >= 0)
        *ret = look(engine, active, index, spent, now);
    sl_active_policy_unref(active);
    return index >= 0;
}

bool sl_usage_report_key(struct sl_engine *engine,
                         const struct sl_usage_delta *spent,
                         uint32_t *ret_limit_id,
                         struct sl_hash128 *ret_fingerprint)
{
    struct sl_active_policy *active = sl_engine_ref_policy(engine, NULL);
    int index = rule_of(active, spent);
    char key[SL_KEY_MAX];

    if (index >= 0) {
        const struct sl_limit_binding *binding = &active->stored[2 * index];
        struct sl_str text = {key, make_key(engine, spent, key)};

        *ret_limit_id = binding->id;
        *ret_fingerprint = sl_table_fingerprint(binding, text);
    }
    sl_active_policy_unref(active);
    return index >= 0;
}
