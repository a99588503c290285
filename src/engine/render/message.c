/* message.c -- the sentence of a denial.
 *
 * A message of the policy may speak of what is not there: "Retry after
 * {retry_after} seconds", and the cost can never pass. Then our own sentence
 * takes its place, since that one knows what happened.
 *
 * Our own sentences name the limit and what it allows, and end with what to
 * do: come back in so many seconds, ask for less, give something back.
 */
#include "engine/render/message.h"

#include "engine/render.h"
#include "identity/token.h"

/* ---- messages of the policy ---- */

void sl_value_write(const struct sl_decision *decision,
                    enum sl_place_holder holder, struct sl_ink *ink)
{
    struct sl_value value;

    sl_value_of(decision, holder, &value);
    switch (value.kind) {
    case SL_VALUE_NUMBER:
        sl_ink_number(ink, value.number);
        break;
    case SL_VALUE_TEXT:
        sl_ink_text(ink, value.text);
        break;
    case SL_VALUE_MESSAGE:
        sl_message_write(decision, ink);
        break;
    case SL_VALUE_NONE:
        if (value.is_number)
            sl_ink_number(ink, 0);
        break;
    }
}

/* Is there something for every placeholder? */
static bool is_complete(const struct sl_decision *d, const struct sl_text *text)
{
    struct sl_value value;

    for (unsigned i = 0; i < text->count; i++) {
        if (text->pieces[i].kind == SL_PIECE_LITERAL)
            continue;
        sl_value_of(d, text->pieces[i].holder, &value);
        if (value.kind == SL_VALUE_NONE || value.kind == SL_VALUE_MESSAGE)
            return false;
    }
    return true;
}

static void write_text(const struct sl_decision *d, const struct sl_text *text,
                       struct sl_ink *ink)
{
    for (unsigned i = 0; i < text->count; i++) {
        if (text->pieces[i].kind == SL_PIECE_LITERAL)
            sl_ink_text(ink, text->pieces[i].literal);
        else
            sl_value_write(d, text->pieces[i].holder, ink);
    }
}

/* What the policy says about this denial, or NULL. */
static const struct sl_text *written(const struct sl_decision *d)
{
    const struct sl_shown *by = sl_decision_about(d);
    const struct sl_feature *feature = sl_decision_feature(d);
    const struct sl_text *text = NULL;

    if (feature)
        text = &feature->message;
    else if (d->reason == SL_REASON_REQUIRE)
        text = &d->require->message;
    else if (d->reason == SL_REASON_NONE && by)
        text = &by->rule->deny.message;
    return text && text->count > 0 && is_complete(d, text) ? text : NULL;
}

/* ---- our own ---- */

/* "in 12 s": the largest unit that leaves at least two of it, rounded up. */
static void write_span(sl_ns span, struct sl_ink *ink)
{
    static const struct {
        sl_ns length;
        const char *name;
    } units[] = {
        {SL_DAY,  " days"},
        {SL_HOUR, " h"   },
        {SL_MIN,  " min" },
    };
    uint64_t number = sl_retry_seconds(span);
    const char *name = " s";

    for (size_t i = 0; i < SL_LEN(units); i++)
        if (span >= 2 * units[i].length) {
            number = sl_span_in(span, units[i].length);
            name = units[i].name;
            break;
        }
    sl_ink_number(ink, number);
    sl_ink_text(ink, sl_str_c(name));
}

/* "minute", "5 minutes", "500 milliseconds". */
static void write_units(uint64_t count, const char *unit, struct sl_ink *ink)
{
    if (count != 1) {
        sl_ink_number(ink, count);
        sl_ink_text(ink, SL_STR(" "));
    }
    sl_ink_text(ink, sl_str_c(unit));
    if (count != 1)
        sl_ink_text(ink, SL_STR("s"));
}

static void write_period(const struct sl_limit *limit, struct sl_ink *ink)
{
    static const struct {
        sl_ns length;
        const char *name;
    } units[] = {
        {SL_DAY,  "day"        },
        {SL_HOUR, "hour"       },
        {SL_MIN,  "minute"     },
        {SL_S,    "second"     },
        {SL_MS,   "millisecond"},
    };
    static const char *const calendar[] = {
        [SL_CALENDAR_DAY] = "day",
        [SL_CALENDAR_WEEK] = "week",
        [SL_CALENDAR_MONTH] = "month",
    };
    size_t i = 0;

    sl_ink_text(ink, SL_STR(" per "));
    if (limit->calendar) {
        write_units(limit->cal.every, calendar[limit->cal.unit], ink);
        return;
    }
    while (i + 1 < SL_LEN(units) && limit->period % units[i].length != 0)
        i++;
    write_units(sl_span_in(limit->period, units[i].length), units[i].name, ink);
}

/* `the limit "ai-minute" allows 5 per minute.` */
static void write_allowance(const struct sl_shown *by, struct sl_ink *ink)
{
    sl_ink_text(ink, SL_STR("the limit \""));
    sl_ink_text(ink, by->rule->name);
    sl_ink_text(ink, SL_STR("\" allows "));
    sl_ink_number(ink, sl_shown_count(by));
    if (by->rule->unit.len > 0) {
        sl_ink_text(ink, SL_STR(" "));
        sl_ink_text(ink, by->rule->unit);
    }
    if (by->numbers->kind == SL_PERMITS)
        sl_ink_text(ink, SL_STR(" at a time"));
    else if (by->numbers->kind == SL_LEVEL)
        sl_ink_text(ink, SL_STR(" in all"));
    else
        write_period(by->numbers, ink);
    sl_ink_text(ink, SL_STR("."));
}

static void write_retry(sl_ns retry_in, struct sl_ink *ink)
{
    if (retry_in < 0)
        return;
    sl_ink_text(ink, SL_STR(" Try again in "));
    write_span(retry_in, ink);
    sl_ink_text(ink, SL_STR("."));
}

static void write_advice(const struct sl_decision *d, const struct sl_shown *by,
                         struct sl_ink *ink)
{
    sl_ns retry_in = sl_decision_retry_in(d);

    if (d->never && by->answer.outcome == SL_NEVER) {
        sl_ink_text(ink, SL_STR(" A cost of "));
        sl_ink_number(ink, by->cost);
        sl_ink_text(ink, SL_STR(" can never pass: the maximum is "));
        sl_ink_number(ink, sl_shown_capacity(by));
        sl_ink_text(ink, SL_STR("."));
    } else if (retry_in >= 0) {
        write_retry(retry_in, ink);
    } else if (by->numbers->kind == SL_PERMITS) {
        sl_ink_text(ink, SL_STR(" Try again when another request has ended."));
    } else if (by->numbers->kind == SL_LEVEL) {
        sl_ink_text(ink, SL_STR(" Release some first."));
    }
}

static void write_limit(const struct sl_decision *d, const struct sl_shown *by,
                        struct sl_ink *ink)
{
    if (!by || !sl_shown_limited(by)) {
        sl_ink_text(ink, SL_STR("Too many requests."));
        return;
    }
    switch (by->numbers->kind) {
    case SL_QUOTA:
        sl_ink_text(ink, SL_STR("The quota is used up: "));
        break;
    case SL_LEVEL:
        sl_ink_text(ink, SL_STR("The maximum is reached: "));
        break;
    case SL_PERMITS:
        sl_ink_text(ink, SL_STR("Too many concurrent requests: "));
        break;
    default:
        sl_ink_text(ink, SL_STR("Too many requests: "));
        break;
    }
    write_allowance(by, ink);
    write_advice(d, by, ink);
}

/* A sentence with a name in it: `before "name" after`. */
static void write_about(struct sl_str before, struct sl_str name,
                        struct sl_str after, struct sl_ink *ink)
{
    sl_ink_text(ink, before);
    sl_ink_text(ink, SL_STR("\""));
    sl_ink_text(ink, name);
    sl_ink_text(ink, SL_STR("\""));
    sl_ink_text(ink, after);
}

static void write_feature(const struct sl_decision *d, struct sl_ink *ink)
{
    const struct sl_feature *feature = sl_decision_feature(d);

    if (feature)
        write_about(SL_STR(""), feature->name,
                    SL_STR(" is switched off for now."), ink);
    else
        sl_ink_text(ink, SL_STR("This is switched off for now."));
    write_retry(sl_decision_retry_in(d), ink);
}

static void write_capability(const struct sl_decision *d, struct sl_ink *ink)
{
    const struct sl_shown *by = sl_decision_about(d);
    struct sl_value plan;

    sl_value_of(d, SL_HOLD_PLAN, &plan);
    write_about(SL_STR("The plan "), plan.text, SL_STR(" does not include "),
                ink);
    if (by)
        write_about(SL_STR(""), by->rule->name, SL_STR("."), ink);
    else
        sl_ink_text(ink, SL_STR("this."));
}

/* Nobody is known, perhaps since his token is not believed. */
static void write_unknown(const struct sl_decision *d, struct sl_ink *ink)
{
    if (d->token_fault != SL_TOKEN_GOOD) {
        sl_ink_text(ink, SL_STR("The caller is not authenticated: "));
        sl_ink_text(ink, sl_str_c(sl_token_fault_sentence(d->token_fault)));
        sl_ink_text(ink, SL_STR("."));
    } else if (d->reason == SL_REASON_ANONYMOUS) {
        sl_ink_text(
            ink,
            SL_STR("Anonymous callers are not allowed: authenticate first."));
    } else {
        write_about(SL_STR("The request does not name the "), d->missing_scope,
                    SL_STR(" of the caller, which is required."), ink);
    }
}

static void write_default(const struct sl_decision *d, struct sl_ink *ink)
{
    switch (d->reason) {
    case SL_REASON_NONE:
        write_limit(d, sl_decision_about(d), ink);
        break;
    case SL_REASON_FEATURE:
        write_feature(d, ink);
        break;
    case SL_REASON_ANONYMOUS:
    case SL_REASON_MISSING:
        write_unknown(d, ink);
        break;
    case SL_REASON_ROLE:
        sl_ink_text(ink, SL_STR("The caller's role does not allow this."));
        break;
    case SL_REASON_CAPABILITY:
        write_capability(d, ink);
        break;
    case SL_REASON_PATH:
        sl_ink_text(
            ink, SL_STR("The path is ambiguous; send it in normalized form."));
        break;
    case SL_REASON_WEBHOOK:
    case SL_REASON_WEBHOOKS_FULL:
    case SL_REASON_REQUIRE:
    case SL_REASON_BACKLOG:
    case SL_REASON_RUNNING:
    case SL_REASON_REUSED:
    case SL_REASON_CONFLICT:
        sl_guard_message(d, ink);
        write_retry(sl_decision_retry_in(d), ink);
        break;
    case SL_REASON_UNKNOWN_PLAN:
        sl_ink_text(ink, SL_STR("The caller's plan is unknown."));
        break;
    case SL_REASON_UNKNOWN_SUBJECT:
        sl_ink_text(ink, SL_STR("The caller is not registered."));
        break;
    case SL_REASON_QUEUE:
        sl_ink_text(ink, SL_STR("Too many requests are waiting."));
        write_retry(sl_decision_retry_in(d), ink);
        break;
    case SL_REASON_HOLDS:
        sl_ink_text(ink, SL_STR("No more holds are possible at the moment."));
        write_retry(sl_decision_retry_in(d), ink);
        break;
    case SL_REASON_STORE:
        sl_ink_text(ink, SL_STR("The store is not available, so the request "
                                "cannot be decided."));
        write_retry(sl_decision_retry_in(d), ink);
        break;
    }
}

void sl_message_write(const struct sl_decision *decision, struct sl_ink *ink)
{
    const struct sl_text *text;

    if (decision->allowed)
        return;
    text = written(decision);
    if (text)
        write_text(decision, text, ink);
    else
        write_default(decision, ink);
}

int sl_render_message(const struct sl_decision *decision, struct sl_buf *out)
{
    struct sl_ink ink = {.out = out};
    size_t before = out->len;

    sl_message_write(decision, &ink);
    if (ink.err)
        out->len = before;
    return ink.err;
}
