/* explain.c -- a decision for people, in some lines. */
#include "engine/explain.h"

#include <inttypes.h>

#include "base/instant.h"
#include "base/parse.h"

static const char *const reasons[] = {
    [SL_REASON_NONE] = "",
    [SL_REASON_FEATURE] = "its feature is switched off",
    [SL_REASON_ANONYMOUS] = "the route wants to know who asks",
    [SL_REASON_MISSING] = "a limit needs to know who asks",
    [SL_REASON_ROLE] = "the caller's role is not among those of the route",
    [SL_REASON_CAPABILITY] = "the plan does not have this",
    [SL_REASON_UNKNOWN_PLAN] = "there is no such plan",
    [SL_REASON_STORE] = "the store did not answer",
};

/* A span as people read it: no finer than milliseconds, rounded up. */
static char *span_text(sl_ns span, char out[32])
{
    if (span > 0 && span % SL_MS)
        span += SL_MS - span % SL_MS;
    return sl_format_duration(span, out);
}

static int add_verdict(struct sl_buf *out, const struct sl_decision *d)
{
    char span[32], at[SL_INSTANT_TEXT];
    int err;

    if (d->allowed)
        return sl_buf_addf(out, "verdict  %d, passes%s%s\n", d->status,
                           d->untouched ? ": no limit applies" : "",
                           d->degraded ? ", although the store failed" : "");
    err = sl_buf_addf(out, "verdict  %d", d->status);
    if (!err && d->by >= 0)
        err = sl_buf_addf(out, " by %.*s",
                          SL_STR_ARG(d->shown[d->by].rule->name));
    if (!err && d->reason != SL_REASON_NONE)
        err = sl_buf_addf(out, ", refused: %s", reasons[d->reason]);
    if (!err && d->reason == SL_REASON_MISSING)
        err = sl_buf_addf(out, " (%.*s)", SL_STR_ARG(d->missing_scope));
    if (!err && d->never)
        err = sl_buf_addf(out, ": will never pass; it asks for more than the "
                               "limit can hold, or no clock frees it");
    if (!err && d->retry_in >= 0) {
        sl_instant_print(d->now + d->retry_in, d->retry_in % SL_S != 0, at);
        err = sl_buf_addf(out, ": come back in %s, at %s",
                          span_text(d->retry_in, span), at);
    }
    return err ? err : sl_buf_add(out, SL_STR("\n"));
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
    if (!err && !d->untouched)
        err = sl_buf_addf(out, "caller   %s; plan %.*s\n",
                          d->anonymous ? "anonymous" : "known",
                          SL_STR_ARG(d->policy->plans.list[d->plan].name));
    return err;
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

static int add_numbers(struct sl_buf *out, const struct sl_shown *shown)
{
    const struct sl_answer *a = &shown->answer;
    char span[32];
    int err = add_rate(out, shown->numbers);

    if (!err)
        err = sl_buf_addf(out, ", cost %" PRIu64 ", %" PRIu64 " left",
                          shown->cost, a->remaining);
    if (!err && a->reset_in > 0)
        err = sl_buf_addf(out, ", reset in %s", span_text(a->reset_in, span));
    if (!err && a->wait > 0)
        err = sl_buf_addf(out, ", wait %s", span_text(a->wait, span));
    if (!err && shown->overage)
        err = sl_buf_addf(out, ", beyond the plan and counted");
    if (!err && !shown->allowed && a->retry_in >= 0)
        err = sl_buf_addf(out, "; refuses, retry in %s",
                          span_text(a->retry_in, span));
    else if (!err && !shown->allowed)
        err = sl_buf_addf(out, "; refuses for good");
    return err;
}

static int add_limit(struct sl_buf *out, const struct sl_decision *d,
                     const struct sl_shown *shown)
{
    static const char *const modes[] = {"", " (shadow: never refuses)", ""};
    int err =
        sl_buf_addf(out, "limit    %.*s%s: ", SL_STR_ARG(shown->rule->name),
                    modes[shown->mode]);

    if (err)
        return err;
    if (shown->skipped)
        return sl_buf_addf(out, "does not apply: an attribute that it is kept "
                                "per is not known\n");
    if (shown->form == SL_RATE_UNLIMITED)
        err = sl_buf_addf(out, "unlimited");
    else if (shown->form == SL_RATE_NONE)
        err = sl_buf_addf(out, "none: the plan lacks it");
    else if (d->blind || d->reason != SL_REASON_NONE)
        err = add_rate(out, shown->numbers);
    else
        err = add_numbers(out, shown);
    if (!err && shown->overridden)
        err = sl_buf_addf(out, " (override)");
    if (!err)
        err = sl_buf_addf(out, "\n         %s for %.*s %s, key ",
                          sl_kind_name(shown->rule->kind),
                          SL_STR_ARG(shown->scope), shown->id);
    if (!err)
        err = sl_decision_key(d, shown, out);
    return err ? err : sl_buf_add(out, SL_STR("\n"));
}

int sl_explain(const struct sl_decision *decision, struct sl_buf *out)
{
    int err = add_verdict(out, decision);

    if (!err)
        err = add_route(out, decision);
    for (unsigned i = 0; !err && i < decision->shown_count; i++)
        err = add_limit(out, decision, &decision->shown[i]);
    return err;
}
