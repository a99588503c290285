/* body.c -- the JSON body of a denial.
 *
 * Either the policy's own, of which everything but the values was JSON when
 * the policy was read; or problem details (RFC 9457), whose members always
 * come in the same order.
 */
#include "engine/render/message.h"

#define TYPES "https://iana.org/assignments/http-problem-types"

/* ---- the policy's own ---- */

/* A placeholder that is a whole value keeps its type; without one it is null.
 */
static void write_value(const struct sl_decision *d, enum sl_placeholder holder,
                        struct sl_writer *ink)
{
    struct sl_placeholder_value value;

    sl_placeholder_value_of(d, holder, &value);
    switch (value.kind) {
    case SL_VALUE_NUMBER:
        sl_writer_number(ink, value.number);
        break;
    case SL_VALUE_TEXT:
        sl_writer_string(ink, value.text);
        break;
    case SL_VALUE_MESSAGE:
        sl_writer_raw(ink, SL_STR("\""));
        sl_message_write(d, ink);
        sl_writer_raw(ink, SL_STR("\""));
        break;
    case SL_VALUE_NONE:
        sl_writer_raw(ink, SL_STR("null"));
        break;
    }
}

static void write_template(const struct sl_decision *d,
                           const struct sl_template *body,
                           struct sl_writer *ink)
{
    for (unsigned i = 0; i < body->count; i++) {
        const struct sl_template_piece *piece = &body->pieces[i];

        switch (piece->kind) {
        case SL_TEMPLATE_PIECE_LITERAL:
            sl_writer_raw(ink, piece->literal);
            break;
        case SL_TEMPLATE_PIECE_TEXT:
            sl_placeholder_value_write(d, piece->holder, ink);
            break;
        case SL_TEMPLATE_PIECE_VALUE:
            write_value(d, piece->holder, ink);
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

static void write_retry(const struct sl_decision *d, struct sl_writer *ink)
{
    sl_ns retry_in = sl_decision_retry_in(d);

    if (retry_in < 0)
        return;
    sl_writer_raw(ink, SL_STR(",\"retry_after\":"));
    sl_writer_number(ink, sl_retry_seconds(retry_in));
    sl_writer_raw(ink, SL_STR(",\"retry_after_ms\":"));
    sl_writer_number(ink, sl_span_in(retry_in, SL_MS));
}

static void write_violated(const struct sl_decision *d, struct sl_writer *ink)
{
    bool first = true;

    sl_writer_raw(ink, SL_STR(",\"violated-policies\":["));
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (!sl_decision_view_denies(d, &d->shown[i]))
            continue;
        if (!first)
            sl_writer_raw(ink, SL_STR(","));
        sl_writer_string(ink, d->shown[i].rule->name);
        first = false;
    }
    sl_writer_raw(ink, SL_STR("]"));
}

static void write_problem(const struct sl_decision *d, struct sl_writer *ink)
{
    int status = sl_decision_status(d);

    sl_writer_raw(ink, SL_STR("{\"type\":"));
    sl_writer_string(ink, type_of(d, status));
    sl_writer_raw(ink, SL_STR(",\"title\":"));
    sl_writer_string(ink, title_of(status));
    sl_writer_raw(ink, SL_STR(",\"status\":"));
    sl_writer_number(ink, (uint64_t)status);
    sl_writer_raw(ink, SL_STR(",\"detail\":\""));
    sl_message_write(d, ink);
    sl_writer_raw(ink, SL_STR("\",\"code\":"));
    sl_writer_string(ink, d->code);
    write_retry(d, ink);
    sl_writer_raw(ink, SL_STR(",\"request_id\":"));
    sl_writer_string(ink, sl_str_c(d->request_id));
    write_violated(d, ink);
    sl_writer_raw(ink, SL_STR("}"));
}

int sl_message_body_write(const struct sl_decision *decision,
                          struct sl_buf *out)
{
    const struct sl_error_form *form = sl_decision_form(decision);
    struct sl_writer ink = {.out = out, .json = true};
    size_t before = out->len;

    if (form->has_body)
        write_template(decision, &form->body, &ink);
    else
        write_problem(decision, &ink);
    if (ink.err)
        out->len = before;
    return ink.err;
}
