/* explain.c -- a decision for people, in some lines. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/timestamp.h"
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
    [SL_REASON_BACKLOG] = "too many jobs are waiting",
    [SL_REASON_RUNNING] = "the same request is already being processed",
    [SL_REASON_REUSED] = "the idempotency key was used for another request",
    [SL_REASON_PATH] = "the path is ambiguous",
    [SL_REASON_HOLDS] = "no more holds are possible",
    [SL_REASON_QUEUE] = "the wait for its turn would be too long",
    [SL_REASON_CONFLICT] = "another request with the same key is running",
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

/* What a client chose: nothing in it may look like words of ours. */
static int add_name(struct sl_buf *out, struct sl_str name)
{
    const char *quote = needs_quotes(name) ? "\"" : "";
    int err = sl_buf_addf(out, "%s", quote);

    while (!err && name.len > 0) {
        bool special = name.at[0] == '\\' || name.at[0] == '"';
        size_t len = special ? 0 : sl_limit_view_len(name);

        if (len > 0)
            err = sl_buf_add(out, (struct sl_str){name.at, len});
        else
            err = sl_buf_addf(out, "\\x%02x", (unsigned char)name.at[0]);
        name = sl_str_from(name, len > 0 ? len : 1);
    }
    return err ? err : sl_buf_addf(out, "%s", quote);
}

static int add_verdict(struct sl_buf *out, const struct sl_decision *d)
{
    char span[32], at[SL_TIMESTAMP_TEXT];
    int err;

    if (d->allowed)
        return sl_buf_addf(out, "verdict  %d, allowed%s%s%s\n", d->status,
                           d->not_limited ? ": no limit applies" : "",
                           d->replayed ? ", as before (same idempotency key)"
                                       : "",
                           d->degraded ? ", although the store failed" : "");
    err = sl_buf_addf(out, "verdict  %d", d->status);
    if (!err && d->by >= 0)
        err = sl_buf_addf(out, " by %.*s",
                          SL_STR_ARG(d->shown[d->by].rule->name));
    if (!err && d->reason != SL_REASON_NONE)
        err = sl_buf_addf(out, ", denied: %s", reasons[d->reason]);
    if (!err && d->reason == SL_REASON_MISSING)
        err = sl_buf_addf(out, " (%.*s)", SL_STR_ARG(d->missing_scope));
    if (!err && d->never)
        err = sl_buf_addf(out, ": can never pass; the cost exceeds the limit, "
                               "or time frees nothing");
    if (!err && d->retry_in >= 0) {
        sl_timestamp_print(d->now + d->retry_in, d->retry_in % SL_S != 0, at);
        err = sl_buf_addf(out, ": retry in %s, at %s",
                          span_text(d->retry_in, span), at);
    }
    return err ? err : sl_buf_add(out, SL_STR("\n"));
}

static int add_caller(struct sl_buf *out, const struct sl_decision *d)
{
    int err = sl_buf_add(out, SL_STR("caller   "));

    for (unsigned i = 0; !err && i < d->who_count; i++) {
        const struct sl_key_value *who = &d->who[i];

        err = sl_buf_addf(out, "%s%.*s%s", i > 0 ? ", " : "",
                          SL_STR_ARG(who->scope), who->value.len ? " " : "");
        if (!err)
            err = add_name(out, who->value);
    }
    if (!err)
        err = sl_buf_addf(
            out, "; plan %.*s%s\n",
            SL_STR_ARG(d->policy->plans.list[d->plan].name),
            d->plan_ended ? ", because the caller's own plan has expired" : "");
    return err;
}

/* What it would run as. */
static int add_guards(struct sl_buf *out, const struct sl_decision *d)
{
    int err = 0;

    for (unsigned i = 0; !err && i < d->running_count; i++)
        err = sl_buf_addf(
            out, "guard    %.*s, %s\n", SL_STR_ARG(d->running[i].text),
            d->reason == SL_REASON_CONFLICT ? "where another request is running"
                                            : "one at a time");
    return err;
}

static int add_route(struct sl_buf *out, const struct sl_decision *d)
{
    const struct sl_route *route = d->route;
    int err;

    if (!d->policy->enabled || d->policy->mode == SL_MODE_OFF)
        return sl_buf_addf(out, "policy   switched off\n");
    err = sl_buf_addf(out, "route    %.*s", SL_STR_ARG(route->text));
    if (!err && route->place.line > 0)
        err = sl_buf_addf(out, ", line %u", route->place.line);
    if (!err)
        err =
            sl_buf_addf(out, "; endpoint %.*s\n", SL_STR_ARG(route->endpoint));
    if (!err && !d->not_limited)
        err = add_caller(out, d);
    return err ? err : add_guards(out, d);
}

static const char *const calendar_units[] = {"day", "week", "month"};

static int add_rate(struct sl_buf *out, const struct sl_limit *limit)
{
    char span[32];
    int err = sl_buf_addf(out, "%" PRIu64, limit->count);

    if (!err && limit->calendar)
        err = limit->cal.every == 1
                  ? sl_buf_addf(out, "/%s", calendar_units[limit->cal.unit])
                  : sl_buf_addf(out, "/%u %ss", (unsigned)limit->cal.every,
                                calendar_units[limit->cal.unit]);
    else if (!err && limit->period > 0)
        err = sl_buf_addf(out, "/%s", sl_format_duration(limit->period, span));
    if (!err && limit->kind == SL_LEAKY)
        err = sl_buf_addf(out, " queue %" PRIu64, limit->capacity - 1);
    else if (!err && limit->capacity != limit->count)
        err = sl_buf_addf(out, " burst %" PRIu64, limit->capacity);
    return err;
}

/* What a request would leave that was only looked at. */
static int add_after(struct sl_buf *out, const struct sl_decision *d,
                     const struct sl_limit_view *shown)
{
    uint64_t left = shown->answer.remaining;

    if (d->spend || !d->allowed || !shown->allowed || shown->cost == 0)
        return 0;
    return sl_buf_addf(out, ", %" PRIu64 " after this",
                       left > shown->cost ? left - shown->cost : 0);
}

static int add_numbers(struct sl_buf *out, const struct sl_decision *d,
                       const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;
    char span[32];
    int err = add_rate(out, shown->numbers);

    if (!err)
        err = sl_buf_addf(out, ", cost %" PRIu64 ", %" PRIu64 " left",
                          shown->cost, a->remaining);
    if (!err && shown->carried > 0)
        err = sl_buf_addf(out, " (%" PRIu64 " used before signing in)",
                          shown->carried);
    if (!err)
        err = add_after(out, d, shown);
    if (!err && a->reset_in > 0)
        err = sl_buf_addf(out, ", reset in %s", span_text(a->reset_in, span));
    if (!err && a->wait > 0)
        err = sl_buf_addf(out, ", wait %s", span_text(a->wait, span));
    if (!err && shown->overage)
        err = sl_buf_addf(out, ", above the plan's quota, counted as overage");
    if (!err && !shown->allowed && a->retry_in >= 0)
        err = sl_buf_addf(out, "; denies, retry in %s",
                          span_text(a->retry_in, span));
    else if (!err && !shown->allowed)
        err = sl_buf_addf(out, "; denies permanently");
    return err;
}

/* " (override of org by ops until 2026-12-01T00:00:00Z: launch week)" */
static int add_override(struct sl_buf *out, const struct sl_limit_view *shown)
{
    bool registered = shown->override_of && shown->override_of[0];
    char at[SL_TIMESTAMP_TEXT];
    int err = 0;

    if (shown->override_bad.len > 0) {
        err = sl_buf_addf(out, " (override ignored: ");
        if (!err)
            err = add_name(out, shown->override_bad);
        return err ? err : sl_buf_addf(out, ")");
    }
    if (!shown->overridden)
        return 0;
    err = sl_buf_addf(out, registered ? " (override of %s" : " (override",
                      shown->override_of);
    if (!err && shown->override_by.len > 0)
        err = sl_buf_addf(out, " by ");
    if (!err && shown->override_by.len > 0)
        err = add_name(out, shown->override_by);
    if (!err && registered && shown->override_until != SL_NS_NONE) {
        sl_timestamp_print(shown->override_until, false, at);
        err = sl_buf_addf(out, " until %s", at);
    }
    if (!err && shown->override_note.len > 0)
        err = sl_buf_addf(out, ": ");
    if (!err && shown->override_note.len > 0)
        err = add_name(out, shown->override_note);
    return err ? err : sl_buf_addf(out, ")");
}

static int add_limit(struct sl_buf *out, const struct sl_decision *d,
                     const struct sl_limit_view *shown)
{
    static const char *const modes[] = {"", " (shadow: never denies)", ""};
    char span[32];
    int err =
        sl_buf_addf(out, "limit    %.*s%s: ", SL_STR_ARG(shown->rule->name),
                    modes[shown->mode]);

    if (err)
        return err;
    if (shown->skipped)
        return sl_buf_addf(out,
                           "does not apply: a `per` attribute is missing\n");
    if (shown->form == SL_RATE_UNLIMITED)
        err = sl_buf_addf(out, "unlimited");
    else if (shown->form == SL_RATE_NONE)
        err = sl_buf_addf(out, "none: not included in the plan");
    else if (d->no_numbers || d->reason != SL_REASON_NONE)
        err = add_rate(out, shown->numbers);
    else
        err = add_numbers(out, d, shown);
    if (!err)
        err = add_override(out, shown);
    if (!err)
        err = sl_buf_addf(out, "\n         %s for %.*s%s",
                          sl_kind_name(shown->rule->kind),
                          SL_STR_ARG(shown->scope), shown->id[0] ? " " : "");
    if (!err)
        err = add_name(out, sl_str_c(shown->id));
    if (!err && shown->rule->kind == SL_PERMITS)
        err =
            sl_buf_addf(out, ", held for %s unless the check sets another time",
                        span_text(shown->rule->hold, span));
    if (!err)
        err = sl_buf_addf(out, ", key ");
    if (!err)
        err = sl_decision_key(d, shown, out);
    return err ? err : sl_buf_add(out, SL_STR("\n"));
}

int sl_explain(const struct sl_decision *decision, struct sl_buf *out)
{
    int err = add_verdict(out, decision);

    if (!err)
        err = add_route(out, decision);
    if (!err && decision->token_fault != SL_TOKEN_GOOD)
        err = sl_buf_addf(out, "token    rejected: %s\n",
                          sl_token_error_sentence(decision->token_fault));
    for (unsigned i = 0; !err && i < decision->shown_count; i++)
        err = add_limit(out, decision, &decision->shown[i]);
    return err;
}
