/* limits.c -- `limits`: rules, and their rates as people write them.
 *
 * A rate has lost its words: 5/60s and 5/min are one, and so is a burst that
 * is the count and one that was not written. It gets the largest unit that
 * makes it exact, and its burst or queue in any case. Where days follow a
 * calendar, in quotas, 24 hours are no day.
 */
#include <inttypes.h>
#include <stdio.h>

#include "policy/print/printer.h"

#define RATE_BYTES 96 /* three numbers of 20 digits, and words */

/* ---- rates ---- */

/* The largest unit of which the period is a multiple. */
static enum sl_unit unit_of(const struct sl_limit *limit)
{
    enum sl_unit unit = limit->kind == SL_QUOTA ? SL_UNIT_HOUR : SL_UNIT_DAY;

    while (unit > SL_UNIT_MS && limit->period % sl_unit_length(unit) != 0)
        unit--;
    return unit;
}

/* "5/min", "30/5min". */
static int print_per(const struct sl_limit *limit, char out[RATE_BYTES])
{
    static const enum sl_unit calendar[] = {
        [SL_CALENDAR_DAY] = SL_UNIT_DAY,
        [SL_CALENDAR_WEEK] = SL_UNIT_WEEK,
        [SL_CALENDAR_MONTH] = SL_UNIT_MONTH,
    };
    enum sl_unit unit =
        limit->calendar ? calendar[limit->cal.unit] : unit_of(limit);
    uint64_t every = limit->calendar
                         ? limit->cal.every
                         : (uint64_t)(limit->period / sl_unit_length(unit));

    if (every == 1)
        return snprintf(out, RATE_BYTES, "%" PRIu64 "/%s", limit->count,
                        sl_unit_name(unit));
    return snprintf(out, RATE_BYTES, "%" PRIu64 "/%" PRIu64 "%s", limit->count,
                    every, sl_unit_name(unit));
}

static struct sl_str print_rate(const struct sl_plan_limit *plan,
                                char out[RATE_BYTES])
{
    const struct sl_limit *limit = &plan->numbers;
    enum sl_kind kind = limit->kind;
    size_t len, size = RATE_BYTES;

    if (plan->form == SL_RATE_UNLIMITED)
        return SL_STR("unlimited");
    if (plan->form == SL_RATE_NONE)
        return SL_STR("none");
    if (plan->form == SL_RATE_PLAIN)
        len = (size_t)snprintf(out, size, "%" PRIu64, limit->count);
    else
        len = (size_t)print_per(limit, out);
    if (kind == SL_BUCKET || kind == SL_INTERVAL)
        snprintf(out + len, size - len, " burst %" PRIu64, limit->capacity);
    else if (kind == SL_LEAKY)
        snprintf(out + len, size - len, " queue %" PRIu64, limit->capacity - 1);
    return sl_str_c(out);
}

/* The rate of a plan whose line names an alias. */
static const struct sl_external_value *find_by_alias(const struct sl_printer *p,
                                                     unsigned plan)
{
    unsigned count;
    const struct sl_external_value *list = sl_print_below(p, &count);

    for (unsigned i = 0; i < count; i++) {
        struct sl_str name = sl_str_from(list[i].path, p->path_len + 1);

        if (sl_policy_plan(p->policy, name) == (int)plan)
            return &list[i];
    }
    return NULL;
}

static void print_plan_rate(struct sl_printer *p, unsigned i,
                            const struct sl_plan_limit *plan)
{
    struct sl_str name = p->policy->plans.list[i].name;
    const struct sl_external_value *from = sl_print_here(p);
    char rate[RATE_BYTES];

    if (!from)
        from = find_by_alias(p, i);
    if (from)
        sl_print_from(p, name, from);
    else
        sl_print_yaml(p, name, print_rate(plan, rate));
}

static void print_rates(struct sl_printer *p, const char *key,
                        const struct sl_plan_limit *list)
{
    const struct sl_plans *plans = &p->policy->plans;
    char rate[RATE_BYTES];

    if (!list)
        return;
    if (sl_print_only_plan(p)) {
        sl_print_yaml(p, sl_str_c(key), print_rate(&list[0], rate));
        return;
    }
    sl_print_open(p, sl_str_c(key));
    for (unsigned i = 0; i < plans->count; i++)
        print_plan_rate(p, i, &list[i]);
    sl_print_close(p);
}

/* ---- the rest ---- */

struct scopes {
    const struct sl_policy *policy;
    const struct sl_rule *rule;
};

static struct sl_str scope(const void *ctx, unsigned i,
                           char room[SL_PRINT_ITEM])
{
    const struct scopes *s = ctx;

    (void)room;
    return s->policy->identity.scope_names[s->rule->per[i]];
}

static void print_per_list(struct sl_printer *p, const struct sl_rule *rule)
{
    struct scopes scopes = {p->policy, rule};
    struct sl_print_list list = {
        .item = scope, .ctx = &scopes, .count = rule->per_count};

    sl_print_list(p, "per", &list);
}

/* A quota that no plan limits may have a calendar all the same. */
static bool has_calendar(const struct sl_rule *rule)
{
    return rule->kind == SL_QUOTA &&
           (!rule->limited || rule->strictest.calendar);
}

static void print_kind(struct sl_printer *p, enum sl_kind kind)
{
    sl_print_word(p, "kind", sl_kind_name(kind));
    if (kind == SL_BUCKET || kind == SL_INTERVAL)
        sl_print_word(p, "refill",
                      kind == SL_BUCKET ? "continuous" : "interval");
}

static struct sl_str mark_item(const void *ctx, unsigned i,
                               char room[SL_PRINT_ITEM])
{
    const struct sl_thresholds *marks = ctx;
    int len = snprintf(room, SL_PRINT_ITEM, "%u%%", marks->list[i]);

    return (struct sl_str){room, (size_t)len};
}

static void print_marks(struct sl_printer *p, const struct sl_rule *rule)
{
    struct sl_print_list list = {mark_item, &rule->marks, rule->marks.count,
                                 false};

    if (rule->kind == SL_QUOTA || rule->kind == SL_LEVEL)
        sl_print_list(p, "thresholds", &list);
}

static void print_counting(struct sl_printer *p, const struct sl_rule *rule)
{
    uint32_t anchor = rule->options.anchor;

    if (rule->fixed_cost)
        sl_print_number(p, "cost", rule->cost);
    if (rule->hold > 0)
        sl_print_duration(p, "hold", rule->hold);
    sl_print_number(p, "queue", rule->queue);
    print_marks(p, rule);
    if (rule->unit.len > 0)
        sl_print_text(p, "unit", rule->unit);
    if (rule->lease > 0) {
        char text[16];

        snprintf(text, sizeof(text), "%u%%", rule->lease);
        sl_print_text(p, "lease", sl_str_c(text));
    }
    if (!has_calendar(rule))
        return;
    sl_print_text(p, "zone", rule->zone_name);
    sl_print_number(p, "anchor", anchor ? anchor : 1);
}

static void print_deny(struct sl_printer *p, const struct sl_deny *deny)
{
    sl_print_open(p, SL_STR("deny"));
    sl_print_number(p, "status", (uint64_t)deny->status);
    sl_print_text(p, "code", deny->code);
    sl_print_message(p, "message", &deny->message);
    sl_print_close(p);
}

static void print_limit(struct sl_printer *p, const struct sl_rule *rule)
{

    sl_print_open(p, rule->name);
    print_kind(p, rule->kind);
    print_per_list(p, rule);
    sl_print_word(p, "missing", sl_missing_words[rule->missing]);
    print_rates(p, "rate", rule->plans);
    print_rates(p, "candidate", rule->candidates);
    print_counting(p, rule);
    sl_print_text(p, "key", rule->key_text);
    if (rule->mode != p->policy->mode || !sl_print_follows(p, "mode"))
        sl_print_word(p, "mode", sl_mode_words[rule->mode]);
    sl_print_word(p, "on_store_failure", sl_failure_words[rule->failure]);
    sl_print_word(p, "on_full", sl_full_words[rule->on_full]);
    if (rule->dialects >= 0)
        sl_print_dialects(p, rule->dialects);
    print_deny(p, &rule->deny);
    sl_print_close(p);
}

void sl_print_limits(struct sl_printer *p)
{
    if (p->policy->rule_count == 0)
        return;
    sl_print_open(p, SL_STR("limits"));
    for (unsigned i = 0; i < p->policy->rule_count; i++)
        print_limit(p, &p->policy->rules[i]);
    sl_print_close(p);
}
