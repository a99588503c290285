/* explain.c -- a decision as text for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/parse.h"
#include "base/timestamp.h"
#include "engine/engine_int.h"
#include "engine/render.h"
#include "identity/identity.h"

static const char *const reasons[] = {
    [SL_REASON_NONE] = "",
    [SL_REASON_FEATURE] = "the feature is switched off",
    [SL_REASON_ANONYMOUS] = "the route requires an authenticated caller",
    [SL_REASON_MISSING] = "a limit requires an authenticated caller",
    [SL_REASON_ROLE] = "the route does not allow the caller's role",
    [SL_REASON_CAPABILITY] = "the plan does not include this",
    [SL_REASON_UNKNOWN_PLAN] = "the plan is unknown",
    [SL_REASON_UNKNOWN_SUBJECT] = "the caller is not registered",
    [SL_REASON_STORE] = "the store did not answer",
    [SL_REASON_WEBHOOK] = "the webhook is not valid",
    [SL_REASON_WEBHOOKS_FULL] = "the memory for webhooks is full",
    [SL_REASON_REQUIRE] =
        "a header does not meet the requirements of the route",
    [SL_REASON_COST] = "the cost cannot be read from the request",
    [SL_REASON_BACKLOG] = "too many jobs are waiting",
    [SL_REASON_RUNNING] = "the same request is already being processed",
    [SL_REASON_REUSED] = "the idempotency key was used for another request",
    [SL_REASON_PATH] = "the path is ambiguous",
    [SL_REASON_LONG_PATH] = "the path is longer than 8,192 bytes",
    [SL_REASON_HOLDS] = "no more holds are possible",
    [SL_REASON_QUEUE] = "the wait for its turn would be too long",
    [SL_REASON_CONFLICT] = "another request with the same key is running",
    [SL_REASON_BLOCKED] = "the caller is blocked",
    [SL_REASON_PENALTY] = "the caller is blocked by the penalty of the limit",
};

static sl_ns round_up(sl_ns span, sl_ns step)
{
    return span > 0 && span < SL_NS_MAX - step ? (span + step - 1) / step * step
                                               : span;
}

/* A span as people read it, rounded up: below a minute no finer than
 * milliseconds, above it two units, "3h 50m". */
static char *span_text(sl_ns span, char out[32])
{
    static const struct {
        sl_ns large, small;
        const char *names;
    } units[] = {
        {24 * 60 * 60 * SL_S, 60 * 60 * SL_S, "dh"},
        {60 * 60 * SL_S,      60 * SL_S,      "hm"},
        {60 * SL_S,           SL_S,           "ms"}
    };

    for (size_t i = 0; i < SL_LEN(units); i++) {
        sl_ns whole = round_up(span, units[i].small);

        if (span < units[i].large)
            continue;
        if (whole % units[i].large)
            snprintf(out, 32, "%" PRId64 "%c %" PRId64 "%c",
                     whole / units[i].large, units[i].names[0],
                     whole % units[i].large / units[i].small,
                     units[i].names[1]);
        else
            snprintf(out, 32, "%" PRId64 "%c", whole / units[i].large,
                     units[i].names[0]);
        return out;
    }
    return sl_format_duration(round_up(span, SL_MS), out);
}

static bool needs_quotes(struct sl_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] && strchr(" ,;\"", name.at[i]))
            return true;
    return false;
}

/* Writes bytes of a client: quoted where they could look like our own words. */
static void add_name(struct sl_writer *w, struct sl_str name)
{
    const char *quote = needs_quotes(name) ? "\"" : "";

    sl_writer_addf(w, "%s", quote);
    while (name.len > 0) {
        bool special = name.at[0] == '\\' || name.at[0] == '"';
        size_t len = special ? 0 : sl_diag_char_len(name);

        if (len > 0)
            sl_writer_add(w, (struct sl_str){name.at, len});
        else
            sl_writer_addf(w, "\\x%02x", (unsigned char)name.at[0]);
        name = sl_str_from(name, len > 0 ? len : 1);
    }
    sl_writer_addf(w, "%s", quote);
}

static void add_verdict(struct sl_writer *w, const struct sl_decision *d)
{
    char span[32], at[SL_TIMESTAMP_TEXT];

    sl_writer_addf(w, "verdict  %d", d->status);
    if (d->allowed) {
        sl_writer_addf(w, ", allowed%s%s%s\n",
                       d->not_limited ? ": no limit applies" : "",
                       d->replayed ? ", as before (same idempotency key)" : "",
                       d->degraded ? ", although the store failed" : "");
        return;
    }
    if (d->by >= 0)
        sl_writer_addf(w, " by %.*s", SL_STR_ARG(d->shown[d->by].rule->name));
    if (d->reason != SL_REASON_NONE)
        sl_writer_addf(w, ", denied: %s", reasons[d->reason]);
    if (d->reason == SL_REASON_MISSING)
        sl_writer_addf(w, " (%.*s)", SL_STR_ARG(d->missing_scope));
    if (d->never)
        sl_writer_addf(w, ": can never pass; the cost exceeds the limit, "
                          "or time frees nothing");
    if (d->retry_in >= 0) {
        sl_timestamp_print(d->now + d->retry_in, d->retry_in % SL_S != 0, at);
        sl_writer_addf(w, ": retry in %s, at %s", span_text(d->retry_in, span),
                       at);
    }
    sl_writer_addf(w, "\n");
}

static void add_caller(struct sl_writer *w, const struct sl_decision *d)
{
    sl_writer_addf(w, "caller   ");
    for (unsigned i = 0; i < d->who_count; i++) {
        const struct sl_key_value *who = &d->who[i];

        sl_writer_addf(w, "%s%.*s%s", i > 0 ? ", " : "", SL_STR_ARG(who->scope),
                       who->value.len ? " " : "");
        add_name(w, who->value);
    }
    sl_writer_addf(w, "; plan %.*s%s\n", SL_STR_ARG(sl_decision_plan(d)),
                   d->plan_ended ? ", because the caller's own plan has expired"
                                 : "");
}

static void add_route(struct sl_writer *w, const struct sl_decision *d)
{
    const struct sl_route *route = d->route;

    if (!d->policy->enabled || d->policy->mode == SL_MODE_OFF) {
        sl_writer_addf(w, "policy   switched off\n");
        return;
    }
    sl_writer_addf(w, "route    %.*s", SL_STR_ARG(route->text));
    if (route->place.line > 0)
        sl_writer_addf(w, ", line %u", route->place.line);
    sl_writer_addf(w, "; endpoint %.*s\n", SL_STR_ARG(route->endpoint));
    if (!d->not_limited)
        add_caller(w, d);
    for (unsigned i = 0; i < d->running_count; i++)
        sl_writer_addf(w, "guard    %.*s, %s\n", SL_STR_ARG(d->running[i].text),
                       d->reason == SL_REASON_CONFLICT
                           ? "where another request is running"
                           : "one at a time");
}

/* "90", or "90 seconds" of a unit with a scale. */
static void add_counted(struct sl_writer *w, const struct sl_rule *rule,
                        uint64_t number)
{
    sl_writer_addf(w, "%" PRIu64, number);
    if (sl_rule_is_scaled(rule)) {
        sl_writer_addf(w, " ");
        sl_writer_add(w, rule->reports);
    }
}

/* As the policy writes it. */
static void add_rate(struct sl_writer *w, const struct sl_limit_view *shown)
{
    static const char *const units[] = {"day", "week", "month"};
    const struct sl_limit *limit = shown->numbers;
    const struct sl_rule *rule = shown->rule;
    char span[32];

    sl_writer_addf(w, "%" PRIu64, sl_rule_down(rule, limit->count));
    if (limit->calendar && limit->cal.every == 1)
        sl_writer_addf(w, "/%s", units[limit->cal.unit]);
    else if (limit->calendar)
        sl_writer_addf(w, "/%u %ss", (unsigned)limit->cal.every,
                       units[limit->cal.unit]);
    else if (limit->period > 0)
        sl_writer_addf(w, "/%s", sl_format_duration(limit->period, span));
    if (limit->kind == SL_LEAKY)
        sl_writer_addf(w, " queue %" PRIu64, limit->capacity - 1);
    else if (limit->capacity != limit->count)
        sl_writer_addf(w, " burst %" PRIu64,
                       sl_rule_down(rule, limit->capacity));
    if (sl_rule_is_scaled(rule))
        sl_writer_addf(w, " (%.*s of %" PRIu64 " %.*s)", SL_STR_ARG(rule->unit),
                       rule->options.scale, SL_STR_ARG(rule->reports));
}

/* ", cost 1, 42 left" */
static void add_left(struct sl_writer *w, const struct sl_decision *d,
                     const struct sl_limit_view *shown)
{
    const struct sl_rule *rule = shown->rule;
    uint64_t left = shown->answer.remaining;

    sl_writer_addf(w, shown->on_report ? ", charged by reports" : ", cost ");
    if (!shown->on_report)
        add_counted(w, rule, shown->cost);
    if (shown->cost_from.len > 0)
        sl_writer_addf(w, " (%.*s)", SL_STR_ARG(shown->cost_from));
    sl_writer_addf(w, ", ");
    add_counted(w, rule, left);
    sl_writer_addf(w, " left");
    if (shown->carried > 0)
        sl_writer_addf(w, " (%" PRIu64 " used before signing in)",
                       shown->carried);
    if (!d->spend && d->allowed && shown->allowed && shown->cost > 0) {
        sl_writer_addf(w, ", ");
        add_counted(w, rule, sl_sub_floor(left, shown->cost));
        sl_writer_addf(w, " after this");
    }
}

static void add_numbers(struct sl_writer *w, const struct sl_decision *d,
                        const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;
    char span[32];

    add_rate(w, shown);
    add_left(w, d, shown);
    if (a->reset_in > 0)
        sl_writer_addf(w, ", reset in %s", span_text(a->reset_in, span));
    if (a->wait > 0)
        sl_writer_addf(w, ", wait %s", span_text(a->wait, span));
    if (shown->overage)
        sl_writer_addf(w, ", above the plan's quota, counted as overage");
    if (!shown->allowed && a->retry_in >= 0)
        sl_writer_addf(w, "; denies, retry in %s",
                       span_text(a->retry_in, span));
    else if (!shown->allowed)
        sl_writer_addf(w, "; denies permanently");
}

/* " (override of org by ops until 2026-12-01T00:00:00Z: launch week)" */
static void add_override(struct sl_writer *w, const struct sl_limit_view *shown)
{
    bool registered = shown->override_of && shown->override_of[0];
    char at[SL_TIMESTAMP_TEXT];

    if (shown->override_bad.len > 0) {
        sl_writer_addf(w, " (override ignored: ");
        add_name(w, shown->override_bad);
        sl_writer_addf(w, ")");
        return;
    }
    if (!shown->overridden)
        return;
    sl_writer_addf(w, registered ? " (override of %s" : " (override",
                   shown->override_of);
    if (shown->override_by.len > 0) {
        sl_writer_addf(w, " by ");
        add_name(w, shown->override_by);
    }
    if (registered && shown->override_until != SL_NS_NONE) {
        sl_timestamp_print(shown->override_until, false, at);
        sl_writer_addf(w, " until %s", at);
    }
    if (shown->override_note.len > 0) {
        sl_writer_addf(w, ": ");
        add_name(w, shown->override_note);
    }
    sl_writer_addf(w, ")");
}

/* "plan: [pro, team]" */
static void add_condition(struct sl_writer *w,
                          const struct sl_condition *condition)
{
    if (condition->net_count > condition->value_count) { /* from a file */
        sl_writer_addf(w, "%.*s: %u networks", SL_STR_ARG(condition->key),
                       condition->net_count);
        return;
    }
    if (condition->is_hidden) {
        sl_writer_addf(w, "%.*s: (not shown)", SL_STR_ARG(condition->key));
        return;
    }
    sl_writer_addf(w, "%.*s: [", SL_STR_ARG(condition->key));
    for (unsigned i = 0; i < condition->value_count; i++) {
        if (i > 0)
            sl_writer_addf(w, ", ");
        if (i == 4 && condition->value_count > 5) {
            sl_writer_addf(w, "and %u more", condition->value_count - i);
            break;
        }
        add_name(w, condition->values[i]);
    }
    sl_writer_addf(w, "]");
}

static void add_conditions(struct sl_writer *w, const struct sl_decision *d)
{
    for (unsigned i = 0; i < d->skipped_count; i++) {
        sl_writer_addf(w, "skipped  %.*s, line %u: ",
                       SL_STR_ARG(d->skipped[i].route->text),
                       d->skipped[i].route->place.line);
        add_condition(w, d->skipped[i].unmet);
        sl_writer_addf(w, " does not hold\n");
    }
    for (unsigned i = 0; i < d->route->when.count; i++) {
        sl_writer_addf(w, "when     ");
        add_condition(w, &d->route->when.list[i]);
        sl_writer_addf(w, " holds\n");
    }
    if (d->exempt) {
        sl_writer_addf(w, "exempt   ");
        add_condition(w, d->exempt);
        sl_writer_addf(w, " holds, so no limit applies\n");
    }
}

/* "blocked  user, by ops, until 2026-12-01T00:00:00Z: scraping"; "blocked  ip
 * 203.0.113.0/24, ..." */
static void add_block(struct sl_writer *w, const struct sl_decision *d)
{
    const struct sl_block *block = &d->block;
    char at[SL_TIMESTAMP_TEXT];

    if (d->reason != SL_REASON_BLOCKED)
        return;
    sl_writer_addf(w, "blocked  %s", d->block_of);
    if (d->block_id && strcmp(d->block_of, "ip") == 0)
        sl_writer_addf(w, " %s", d->block_id);
    if (block->by.len > 0) {
        sl_writer_addf(w, ", by ");
        add_name(w, block->by);
    }
    if (block->until != SL_NS_NONE) {
        sl_timestamp_print(block->until, block->until % SL_S != 0, at);
        sl_writer_addf(w, ", until %s", at);
    } else {
        sl_writer_addf(w, ", without an end");
    }
    if (block->note.len > 0) {
        sl_writer_addf(w, ": ");
        add_name(w, block->note);
    }
    sl_writer_addf(w, "\n");
}

/* "penalty  after 5 refusals within 10m: blocked for 15m, each time 2 times as
 * long, at most 24h; blocked now, for 14m" */
static void add_penalty(struct sl_writer *w, const struct sl_decision *d,
                        const struct sl_limit_view *shown)
{
    const struct sl_penalty_rate *p = &shown->rule->penalty;
    const struct sl_limit_view *view = &d->shown[sl_penalty_first(d)];
    unsigned index = (unsigned)(shown - d->shown);
    char span[32];

    if (!shown->rule->penalty_rule)
        return;
    sl_writer_addf(w, "         penalty after %" PRIu64 " refusals within %s",
                   p->after, span_text(p->within, span));
    sl_writer_addf(w, ": blocked for %s", span_text(p->block, span));
    if (p->growth > 1)
        sl_writer_addf(w, ", each time %" PRIu64 " times as long, at most %s",
                       p->growth, span_text(p->most, span));
    for (unsigned i = 0; i < d->penalty_count && !d->no_numbers; i++) {
        if (view[i].penalty_of != index)
            continue;
        if (!view[i].allowed)
            sl_writer_addf(w, "; blocked now, for %s",
                           span_text(view[i].answer.retry_in, span));
        else if (view[i].answer.remaining > 0)
            sl_writer_addf(w, "; %" PRIu64 " counted",
                           p->after - view[i].answer.remaining);
        else
            sl_writer_addf(w, "; it was blocked before");
    }
    sl_writer_addf(w, "\n");
}

static void add_limit(struct sl_writer *w, const struct sl_decision *d,
                      const struct sl_limit_view *shown)
{
    static const char *const modes[] = {"", " (shadow: never denies)", ""};
    char span[32];

    sl_writer_addf(w, "limit    %.*s%s: ", SL_STR_ARG(shown->rule->name),
                   modes[shown->mode]);
    if (shown->unmet) {
        sl_writer_addf(w, "does not apply: ");
        add_condition(w, shown->unmet);
        sl_writer_addf(w, " does not hold\n");
        return;
    }
    if (shown->skipped) {
        sl_writer_addf(w, "does not apply: a `per` attribute is missing\n");
        return;
    }
    if (shown->form == SL_RATE_UNLIMITED)
        sl_writer_addf(w, "unlimited");
    else if (shown->form == SL_RATE_NONE)
        sl_writer_addf(w, "none: not included in the plan");
    else if (d->no_numbers || d->reason != SL_REASON_NONE)
        add_rate(w, shown);
    else
        add_numbers(w, d, shown);
    add_override(w, shown);
    if (shown->credited > 0)
        sl_writer_addf(w, "; denies, and %" PRIu64 " credits of %.*s pay",
                       shown->credited, SL_STR_ARG(shown->rule->credits->name));
    sl_writer_addf(w, "\n         %s for %.*s%s",
                   sl_kind_name(shown->rule->kind), SL_STR_ARG(shown->scope),
                   shown->id[0] ? " " : "");
    add_name(w, sl_str_c(shown->id));
    if (shown->rule->kind == SL_PERMITS)
        sl_writer_addf(w, ", held for %s unless the check sets another time",
                       span_text(shown->rule->hold, span));
    sl_writer_addf(w, ", key ");
    if (!w->err)
        w->err = sl_decision_key(d, shown, w->out);
    sl_writer_addf(w, "\n");
    add_penalty(w, d, shown);
}

int sl_explain(const struct sl_decision *decision, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};

    add_verdict(&w, decision);
    add_route(&w, decision);
    add_conditions(&w, decision);
    add_block(&w, decision);
    if (decision->token_fault != SL_TOKEN_GOOD)
        sl_writer_addf(&w, "token    rejected: %s\n",
                       sl_token_error_sentence(decision->token_fault));
    for (unsigned i = 0; i < decision->shown_count; i++)
        if (!sl_limit_view_hidden(&decision->shown[i]))
            add_limit(&w, decision, &decision->shown[i]);
    return w.err;
}
