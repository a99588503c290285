/* message.c -- the sentence of a denial.
 *
 * A message of the policy may speak of what is not there: "Retry after
 * {retry_after} seconds", and the cost can never pass. Then our own sentence
 * takes its place, since that one knows what happened.
 *
 * Our own sentences name the limit and what it allows, and end with what to
 * do: come back in so many seconds, ask for less, give something back.
 */
#include "engine/render.h"
#include "identity/identity.h"

/* ---- messages of the policy ---- */

void sl_placeholder_value_write(const struct sl_decision *decision,
                                enum sl_placeholder holder,
                                struct sl_text_writer *writer)
{
    struct sl_placeholder_value value;

    sl_placeholder_value_of(decision, holder, &value);
    switch (value.kind) {
    case SL_VALUE_NUMBER:
        sl_text_writer_number(writer, value.number);
        break;
    case SL_VALUE_TEXT:
        sl_text_writer_text(writer, value.text);
        break;
    case SL_VALUE_MESSAGE:
        sl_message_write(decision, writer);
        break;
    case SL_VALUE_NONE:
        if (value.is_number)
            sl_text_writer_number(writer, 0);
        break;
    }
}

/* Is there something for every placeholder? */
static bool is_complete(const struct sl_decision *d,
                        const struct sl_template *text)
{
    struct sl_placeholder_value value;

    for (unsigned i = 0; i < text->count; i++) {
        if (text->pieces[i].kind == SL_TEMPLATE_PIECE_LITERAL)
            continue;
        sl_placeholder_value_of(d, text->pieces[i].holder, &value);
        if (value.kind == SL_VALUE_NONE || value.kind == SL_VALUE_MESSAGE)
            return false;
    }
    return true;
}

static void write_text(const struct sl_decision *d,
                       const struct sl_template *text,
                       struct sl_text_writer *writer)
{
    for (unsigned i = 0; i < text->count; i++) {
        if (text->pieces[i].kind == SL_TEMPLATE_PIECE_LITERAL)
            sl_text_writer_text(writer, text->pieces[i].literal);
        else
            sl_placeholder_value_write(d, text->pieces[i].holder, writer);
    }
}

/* What the policy says about this denial, or NULL. */
static const struct sl_template *written(const struct sl_decision *d)
{
    const struct sl_limit_view *by = sl_decision_about(d);
    const struct sl_feature *feature = sl_decision_feature(d);
    const struct sl_template *text = NULL;

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
static void write_span(sl_ns span, struct sl_text_writer *writer)
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
    sl_text_writer_number(writer, number);
    sl_text_writer_text(writer, sl_str_c(name));
}

/* "minute", "5 minutes", "500 milliseconds". */
static void write_units(uint64_t count, const char *unit,
                        struct sl_text_writer *writer)
{
    if (count != 1) {
        sl_text_writer_number(writer, count);
        sl_text_writer_text(writer, SL_STR(" "));
    }
    sl_text_writer_text(writer, sl_str_c(unit));
    if (count != 1)
        sl_text_writer_text(writer, SL_STR("s"));
}

static void write_period(const struct sl_limit *limit,
                         struct sl_text_writer *writer)
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

    sl_text_writer_text(writer, SL_STR(" per "));
    if (limit->calendar) {
        write_units(limit->cal.every, calendar[limit->cal.unit], writer);
        return;
    }
    while (i + 1 < SL_LEN(units) && limit->period % units[i].length != 0)
        i++;
    write_units(sl_span_in(limit->period, units[i].length), units[i].name,
                writer);
}

/* `the limit "ai-minute" allows 5 per minute.` */
static void write_allowance(const struct sl_limit_view *by,
                            struct sl_text_writer *writer)
{
    sl_text_writer_text(writer, SL_STR("the limit \""));
    sl_text_writer_text(writer, by->rule->name);
    sl_text_writer_text(writer, SL_STR("\" allows "));
    sl_text_writer_number(writer, sl_limit_view_count(by));
    if (by->rule->unit.len > 0) {
        sl_text_writer_text(writer, SL_STR(" "));
        sl_text_writer_text(writer, by->rule->unit);
    }
    if (by->numbers->kind == SL_PERMITS)
        sl_text_writer_text(writer, SL_STR(" at a time"));
    else if (by->numbers->kind == SL_LEVEL)
        sl_text_writer_text(writer, SL_STR(" in all"));
    else
        write_period(by->numbers, writer);
    sl_text_writer_text(writer, SL_STR("."));
}

static void write_retry(sl_ns retry_in, struct sl_text_writer *writer)
{
    if (retry_in < 0)
        return;
    sl_text_writer_text(writer, SL_STR(" Try again in "));
    write_span(retry_in, writer);
    sl_text_writer_text(writer, SL_STR("."));
}

static void write_advice(const struct sl_decision *d,
                         const struct sl_limit_view *by,
                         struct sl_text_writer *writer)
{
    sl_ns retry_in = sl_decision_retry_in(d);

    if (d->never && by->answer.outcome == SL_NEVER) {
        sl_text_writer_text(writer, SL_STR(" A cost of "));
        sl_text_writer_number(writer, by->cost);
        sl_text_writer_text(writer, SL_STR(" can never pass: the maximum is "));
        sl_text_writer_number(writer, sl_limit_view_capacity(by));
        sl_text_writer_text(writer, SL_STR("."));
    } else if (retry_in >= 0) {
        write_retry(retry_in, writer);
    } else if (by->numbers->kind == SL_PERMITS) {
        sl_text_writer_text(
            writer, SL_STR(" Try again when another request has ended."));
    } else if (by->numbers->kind == SL_LEVEL) {
        sl_text_writer_text(writer, SL_STR(" Release some first."));
    }
}

static void write_limit(const struct sl_decision *d,
                        const struct sl_limit_view *by,
                        struct sl_text_writer *writer)
{
    if (!by || !sl_limit_view_limited(by)) {
        sl_text_writer_text(writer, SL_STR("Too many requests."));
        return;
    }
    switch (by->numbers->kind) {
    case SL_QUOTA:
        sl_text_writer_text(writer, SL_STR("The quota is used up: "));
        break;
    case SL_LEVEL:
        sl_text_writer_text(writer, SL_STR("The maximum is reached: "));
        break;
    case SL_PERMITS:
        sl_text_writer_text(writer, SL_STR("Too many concurrent requests: "));
        break;
    default:
        sl_text_writer_text(writer, SL_STR("Too many requests: "));
        break;
    }
    write_allowance(by, writer);
    write_advice(d, by, writer);
}

/* A sentence with a name in it: `before "name" after`. */
static void write_about(struct sl_str before, struct sl_str name,
                        struct sl_str after, struct sl_text_writer *writer)
{
    sl_text_writer_text(writer, before);
    sl_text_writer_text(writer, SL_STR("\""));
    sl_text_writer_text(writer, name);
    sl_text_writer_text(writer, SL_STR("\""));
    sl_text_writer_text(writer, after);
}

static void write_feature(const struct sl_decision *d,
                          struct sl_text_writer *writer)
{
    const struct sl_feature *feature = sl_decision_feature(d);

    if (feature)
        write_about(SL_STR(""), feature->name,
                    SL_STR(" is switched off for now."), writer);
    else
        sl_text_writer_text(writer, SL_STR("This is switched off for now."));
    write_retry(sl_decision_retry_in(d), writer);
}

static void write_capability(const struct sl_decision *d,
                             struct sl_text_writer *writer)
{
    const struct sl_limit_view *by = sl_decision_about(d);
    struct sl_placeholder_value plan;

    sl_placeholder_value_of(d, SL_HOLD_PLAN, &plan);
    write_about(SL_STR("The plan "), plan.text, SL_STR(" does not include "),
                writer);
    if (by)
        write_about(SL_STR(""), by->rule->name, SL_STR("."), writer);
    else
        sl_text_writer_text(writer, SL_STR("this."));
}

/* Nobody is known, perhaps since his token is not believed. */
static void write_unknown(const struct sl_decision *d,
                          struct sl_text_writer *writer)
{
    if (d->token_fault != SL_TOKEN_GOOD) {
        sl_text_writer_text(writer,
                            SL_STR("The caller is not authenticated: "));
        sl_text_writer_text(writer,
                            sl_str_c(sl_token_error_sentence(d->token_fault)));
        sl_text_writer_text(writer, SL_STR("."));
    } else if (d->reason == SL_REASON_ANONYMOUS) {
        sl_text_writer_text(
            writer,
            SL_STR("Anonymous callers are not allowed: authenticate first."));
    } else {
        write_about(SL_STR("The request does not name the "), d->missing_scope,
                    SL_STR(" of the caller, which is required."), writer);
    }
}

static void write_default(const struct sl_decision *d,
                          struct sl_text_writer *writer)
{
    switch (d->reason) {
    case SL_REASON_NONE:
        write_limit(d, sl_decision_about(d), writer);
        break;
    case SL_REASON_FEATURE:
        write_feature(d, writer);
        break;
    case SL_REASON_ANONYMOUS:
    case SL_REASON_MISSING:
        write_unknown(d, writer);
        break;
    case SL_REASON_ROLE:
        sl_text_writer_text(writer,
                            SL_STR("The caller's role does not allow this."));
        break;
    case SL_REASON_CAPABILITY:
        write_capability(d, writer);
        break;
    case SL_REASON_PATH:
        sl_text_writer_text(
            writer,
            SL_STR("The path is ambiguous; send it in normalized form."));
        break;
    case SL_REASON_WEBHOOK:
    case SL_REASON_WEBHOOKS_FULL:
    case SL_REASON_REQUIRE:
    case SL_REASON_BACKLOG:
    case SL_REASON_RUNNING:
    case SL_REASON_REUSED:
    case SL_REASON_CONFLICT:
        sl_precheck_message(d, writer);
        write_retry(sl_decision_retry_in(d), writer);
        break;
    case SL_REASON_UNKNOWN_PLAN:
        sl_text_writer_text(writer, SL_STR("The caller's plan is unknown."));
        break;
    case SL_REASON_UNKNOWN_SUBJECT:
        sl_text_writer_text(writer, SL_STR("The caller is not registered."));
        break;
    case SL_REASON_QUEUE:
        sl_text_writer_text(writer, SL_STR("Too many requests are waiting."));
        write_retry(sl_decision_retry_in(d), writer);
        break;
    case SL_REASON_HOLDS:
        sl_text_writer_text(
            writer, SL_STR("No more holds are possible at the moment."));
        write_retry(sl_decision_retry_in(d), writer);
        break;
    case SL_REASON_STORE:
        sl_text_writer_text(writer,
                            SL_STR("The store is not available, so the request "
                                   "cannot be decided."));
        write_retry(sl_decision_retry_in(d), writer);
        break;
    }
}

void sl_message_write(const struct sl_decision *decision,
                      struct sl_text_writer *writer)
{
    const struct sl_template *text;

    if (decision->allowed)
        return;
    text = written(decision);
    if (text)
        write_text(decision, text, writer);
    else
        write_default(decision, writer);
}

int sl_render_message(const struct sl_decision *decision, struct sl_buf *out)
{
    struct sl_text_writer writer = {.out = out};
    size_t before = out->len;

    sl_message_write(decision, &writer);
    if (writer.err)
        out->len = before;
    return writer.err;
}

/* ---- the JSON body of a denial.
 *
 * Either the policy's own, of which everything but the values was JSON when
 * the policy was read; or problem details (RFC 9457), whose members always
 * come in the same order.
 */

#define TYPES "https://iana.org/assignments/http-problem-types"

/* ---- the policy's own ---- */

/* A placeholder that is a whole value keeps its type; without one it is null.
 */
static void write_value(const struct sl_decision *d, enum sl_placeholder holder,
                        struct sl_text_writer *writer)
{
    struct sl_placeholder_value value;

    sl_placeholder_value_of(d, holder, &value);
    switch (value.kind) {
    case SL_VALUE_NUMBER:
        sl_text_writer_number(writer, value.number);
        break;
    case SL_VALUE_TEXT:
        sl_text_writer_string(writer, value.text);
        break;
    case SL_VALUE_MESSAGE:
        sl_text_writer_raw(writer, SL_STR("\""));
        sl_message_write(d, writer);
        sl_text_writer_raw(writer, SL_STR("\""));
        break;
    case SL_VALUE_NONE:
        sl_text_writer_raw(writer, SL_STR("null"));
        break;
    }
}

static void write_template(const struct sl_decision *d,
                           const struct sl_template *body,
                           struct sl_text_writer *writer)
{
    for (unsigned i = 0; i < body->count; i++) {
        const struct sl_template_piece *piece = &body->pieces[i];

        switch (piece->kind) {
        case SL_TEMPLATE_PIECE_LITERAL:
            sl_text_writer_raw(writer, piece->literal);
            break;
        case SL_TEMPLATE_PIECE_TEXT:
            sl_placeholder_value_write(d, piece->holder, writer);
            break;
        case SL_TEMPLATE_PIECE_VALUE:
            write_value(d, piece->holder, writer);
            break;
        }
    }
}

/* ---- problem details ---- */

static struct sl_str type_of(const struct sl_decision *d, int status)
{
    if (status == 503)
        return SL_STR(TYPES "#temporary-reduced-capacity");
    if (d->reason == SL_REASON_NONE)
        return SL_STR(TYPES "#quota-exceeded");
    return SL_STR("about:blank");
}

static struct sl_str title_of(int status)
{
    switch (status) {
    case 400:
        return SL_STR("Bad request");
    case 401:
        return SL_STR("Unauthorized");
    case 402:
        return SL_STR("Plan limit reached");
    case 403:
        return SL_STR("Forbidden");
    case 409:
        return SL_STR("Conflict");
    case 413:
        return SL_STR("Too large");
    case 422:
        return SL_STR("Unprocessable");
    case 503:
        return SL_STR("Service unavailable");
    default:
        return SL_STR("Too many requests");
    }
}

static void body_write_retry(const struct sl_decision *d,
                             struct sl_text_writer *writer)
{
    sl_ns retry = sl_decision_retry_in(d);

    if (retry < 0)
        return;
    sl_text_writer_raw(writer, SL_STR(",\"retry_after\":"));
    sl_text_writer_number(writer, sl_retry_seconds(retry));
    sl_text_writer_raw(writer, SL_STR(",\"retry_after_ms\":"));
    sl_text_writer_number(writer, sl_span_in(retry, SL_MS));
}

static void write_violated(const struct sl_decision *d,
                           struct sl_text_writer *writer)
{
    bool first = true;

    sl_text_writer_raw(writer, SL_STR(",\"violated-policies\":["));
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (!sl_decision_view_denies(d, &d->shown[i]))
            continue;
        if (!first)
            sl_text_writer_raw(writer, SL_STR(","));
        sl_text_writer_string(writer, d->shown[i].rule->name);
        first = false;
    }
    sl_text_writer_raw(writer, SL_STR("]"));
}

static void write_problem(const struct sl_decision *d,
                          struct sl_text_writer *writer)
{
    int status = sl_decision_status(d);

    sl_text_writer_raw(writer, SL_STR("{\"type\":"));
    sl_text_writer_string(writer, type_of(d, status));
    sl_text_writer_raw(writer, SL_STR(",\"title\":"));
    sl_text_writer_string(writer, title_of(status));
    sl_text_writer_raw(writer, SL_STR(",\"status\":"));
    sl_text_writer_number(writer, (uint64_t)status);
    sl_text_writer_raw(writer, SL_STR(",\"detail\":\""));
    sl_message_write(d, writer);
    sl_text_writer_raw(writer, SL_STR("\",\"code\":"));
    sl_text_writer_string(writer, d->code);
    body_write_retry(d, writer);
    sl_text_writer_raw(writer, SL_STR(",\"request_id\":"));
    sl_text_writer_string(writer, sl_str_c(d->request_id));
    write_violated(d, writer);
    sl_text_writer_raw(writer, SL_STR("}"));
}

int sl_message_body_write(const struct sl_decision *decision,
                          struct sl_buf *out)
{
    const struct sl_error_form *form = sl_decision_form(decision);
    struct sl_text_writer writer = {.out = out, .json = true};
    size_t before = out->len;

    if (form->has_body)
        write_template(decision, &form->body, &writer);
    else
        write_problem(decision, &writer);
    if (writer.err)
        out->len = before;
    return writer.err;
}

/* ---- the sentence of a request that a guard refused. */

static void write_header(struct sl_str header, struct sl_text_writer *writer)
{
    sl_text_writer_text(writer, SL_STR("\""));
    sl_text_writer_text(writer, header);
    sl_text_writer_text(writer, SL_STR("\""));
}

/* `"x-parts" must be at most 10000.` What was sent is not repeated. */
static void write_require(const struct sl_decision *d,
                          struct sl_text_writer *writer)
{
    const struct sl_require *require = d->require;

    sl_text_writer_text(writer, SL_STR("The header "));
    write_header(require->header, writer);
    switch (d->want) {
    case SL_WANT_NUMBER:
        sl_text_writer_text(writer, SL_STR(" must be a whole number"));
        break;
    case SL_WANT_LESS:
        sl_text_writer_text(writer, SL_STR(" must be at most "));
        sl_text_writer_number(writer, require->max);
        break;
    case SL_WANT_MORE:
        sl_text_writer_text(writer, SL_STR(" must be at least "));
        sl_text_writer_number(writer, require->min);
        break;
    case SL_WANT_EQUAL:
        sl_text_writer_text(writer, SL_STR(" must be equal to "));
        write_header(require->equals, writer);
        break;
    default:
        sl_text_writer_text(writer, SL_STR(" must be present exactly once"));
        break;
    }
    sl_text_writer_text(writer, SL_STR("."));
}

static void write_webhook(const struct sl_decision *d,
                          struct sl_text_writer *writer)
{
    sl_text_writer_text(writer,
                        d->reason == SL_REASON_WEBHOOK
                            ? SL_STR("The webhook is not valid: ")
                            : SL_STR("The webhook cannot be accepted now: "));
    sl_text_writer_text(writer,
                        sl_str_c(sl_webhook_fault_sentence(d->webhook_fault)));
    sl_text_writer_text(writer, SL_STR("."));
}

void sl_precheck_message(const struct sl_decision *d,
                         struct sl_text_writer *writer)
{
    switch (d->reason) {
    case SL_REASON_WEBHOOK:
    case SL_REASON_WEBHOOKS_FULL:
        write_webhook(d, writer);
        break;
    case SL_REASON_REQUIRE:
        write_require(d, writer);
        break;
    case SL_REASON_BACKLOG:
        sl_text_writer_text(writer, SL_STR("Too many jobs are waiting."));
        break;
    case SL_REASON_RUNNING:
        sl_text_writer_text(
            writer, SL_STR("The same request is already being processed."));
        break;
    case SL_REASON_CONFLICT:
        sl_text_writer_text(
            writer, SL_STR("Another request with the same key is running."));
        break;
    default:
        sl_text_writer_text(writer,
                            SL_STR("The idempotency key was used for another "
                                   "request; a new request needs a new key."));
        break;
    }
}
