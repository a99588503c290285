/* message.c -- the message and the JSON body of a denial.
 *
 * The policy's own message is used if each of its placeholders has a value;
 * "Retry after {retry_after} seconds" has none if the request can never pass.
 * Otherwise a default message names the limit, what it allows, and what to do:
 * retry later, ask for less, release something.
 */
#include "base/arith.h"
#include "engine/render.h"
#include "identity/identity.h"

/* ---- placeholders ---- */

enum value_kind { NONE, NUMBER, TEXT, MESSAGE };

/* The value of a placeholder. */
struct value {
    enum value_kind kind;
    uint64_t number;
    struct sl_str text; /* may point into `room` */
    char room[SL_TIMESTAMP_TEXT];
};

static void set_number(struct value *value, uint64_t number)
{
    value->kind = NUMBER;
    value->number = number;
}

static void set_text(struct value *value, struct sl_str text)
{
    value->kind = TEXT;
    value->text = text;
}

static void set_time(struct value *value, sl_ns time, bool ms)
{
    set_text(value, (struct sl_str){value->room,
                                    sl_timestamp_print(time, ms, value->room)});
}

static struct sl_str unit_of(const struct sl_rule *rule)
{
    if (rule->unit.len > 0)
        return rule->unit;
    return rule->kind == SL_LEVEL ? SL_STR("units") : SL_STR("requests");
}

/* Placeholders of the limit that the denial is about. */
static void value_of_limit(const struct sl_limit_view *about,
                           enum sl_placeholder holder, struct value *ret)
{
    switch (holder) {
    case SL_HOLD_LIMIT:
        if (sl_limit_view_limited(about))
            set_number(ret, sl_limit_view_count(about));
        break;
    case SL_HOLD_REMAINING:
        if (sl_limit_view_answered(about))
            set_number(ret, sl_limit_view_remaining(about));
        break;
    case SL_HOLD_NAME:
        set_text(ret, about->rule->name);
        break;
    case SL_HOLD_UNIT:
        set_text(ret, unit_of(about->rule));
        break;
    case SL_HOLD_SCOPE:
        set_text(ret, about->scope);
        break;
    case SL_HOLD_ID:
        set_text(ret, sl_str_c(about->id));
        break;
    default:
        break;
    }
}

/* Times are rounded up to a whole second or millisecond. */
static void value_of_reset(const struct sl_decision *d,
                           const struct sl_limit_view *about,
                           enum sl_placeholder holder, struct value *ret)
{
    sl_ns in = about ? sl_limit_view_reset_in(d, about) : SL_NS_NONE;
    sl_ns at = sl_ns_add_sat(d->now, in);
    sl_ns unit = holder == SL_HOLD_RESET_ISO ? SL_S : SL_MS;

    if (in < 0)
        return;
    if (holder == SL_HOLD_RESET)
        set_number(ret, sl_span_in(at, SL_S));
    else if (holder == SL_HOLD_RESET_MS)
        set_number(ret, sl_span_in(in, SL_MS));
    else
        set_time(ret, sl_ns_add_sat(at, unit - 1) / unit * unit, unit == SL_MS);
}

static void value_of(const struct sl_decision *d, enum sl_placeholder holder,
                     struct value *ret)
{
    const struct sl_limit_view *about = sl_decision_about(d);
    sl_ns retry_in = sl_decision_retry_in(d);

    ret->kind = NONE;
    switch (holder) {
    case SL_HOLD_RETRY_AFTER:
        if (retry_in >= 0)
            set_number(ret, sl_retry_seconds(retry_in));
        break;
    case SL_HOLD_RETRY_AFTER_MS:
        if (retry_in >= 0)
            set_number(ret, sl_span_in(retry_in, SL_MS));
        break;
    case SL_HOLD_RESET:
    case SL_HOLD_RESET_MS:
    case SL_HOLD_RESET_ISO:
    case SL_HOLD_RESET_ISO_MS:
        value_of_reset(d, about, holder, ret);
        break;
    case SL_HOLD_MESSAGE:
        ret->kind = MESSAGE;
        break;
    case SL_HOLD_PLAN:
        set_text(ret, about ? about->plan_name : sl_decision_plan(d));
        break;
    case SL_HOLD_STATUS:
        set_number(ret, (uint64_t)sl_decision_status(d));
        break;
    case SL_HOLD_CODE:
        set_text(ret, d->code);
        break;
    case SL_HOLD_REQUEST_ID:
        set_text(ret, sl_str_c(d->request_id));
        break;
    case SL_HOLD_NOW_ISO:
    case SL_HOLD_NOW_ISO_MS:
        set_time(ret, d->now, holder == SL_HOLD_NOW_ISO_MS);
        break;
    default:
        if (about)
            value_of_limit(about, holder, ret);
        break;
    }
}

/* ---- messages of the policy ---- */

static inline void say(struct sl_writer *w, const char *text)
{
    sl_writer_add(w, sl_str_c(text));
}

static void say_number(struct sl_writer *w, uint64_t number)
{
    if (!w->err)
        w->err = sl_json_number(w->out, number);
}

/* Does each placeholder have a value? */
static bool is_complete(const struct sl_decision *d,
                        const struct sl_template *text)
{
    struct value value;

    for (unsigned i = 0; i < text->count; i++) {
        if (text->pieces[i].kind == SL_TEMPLATE_PIECE_LITERAL)
            continue;
        value_of(d, text->pieces[i].holder, &value);
        if (value.kind == NONE || value.kind == MESSAGE)
            return false;
    }
    return true;
}

static void write_template(const struct sl_decision *d,
                           const struct sl_template *text, struct sl_writer *w)
{
    struct value value = {.kind = NONE};

    for (unsigned i = 0; i < text->count; i++) {
        if (text->pieces[i].kind == SL_TEMPLATE_PIECE_LITERAL)
            set_text(&value, text->pieces[i].literal);
        else
            value_of(d, text->pieces[i].holder, &value);
        if (value.kind == NUMBER)
            say_number(w, value.number);
        else
            sl_writer_add(w, value.text);
    }
}

/* The policy's message for this denial, or NULL. */
static const struct sl_template *own_message(const struct sl_decision *d)
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

/* ---- default messages: a limit denies ---- */

/* "12 s": the largest unit of which there are at least two, rounded up. */
static void write_span(sl_ns span, struct sl_writer *w)
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
    say_number(w, number);
    say(w, name);
}

/* " per minute", " per 5 minutes", " per 500 milliseconds" */
static void write_period(const struct sl_limit *limit, struct sl_writer *w)
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
    uint64_t count = limit->cal.every;
    size_t i = 0;

    if (!limit->calendar) {
        while (i + 1 < SL_LEN(units) && limit->period % units[i].length != 0)
            i++;
        count = sl_span_in(limit->period, units[i].length);
    }
    say(w, " per ");
    if (count != 1) {
        say_number(w, count);
        say(w, " ");
    }
    say(w, limit->calendar ? calendar[limit->cal.unit] : units[i].name);
    if (count != 1)
        say(w, "s");
}

/* `the limit "ai-minute" allows 5 per minute.` */
static void write_allowance(const struct sl_limit_view *by, struct sl_writer *w)
{
    say(w, "the limit \"");
    sl_writer_add(w, by->rule->name);
    say(w, "\" allows ");
    say_number(w, sl_limit_view_count(by));
    if (by->rule->unit.len > 0) {
        say(w, " ");
        sl_writer_add(w, by->rule->unit);
    }
    if (by->numbers->kind == SL_PERMITS)
        say(w, " at a time");
    else if (by->numbers->kind == SL_LEVEL)
        say(w, " in all");
    else
        write_period(by->numbers, w);
    say(w, ".");
}

/* "8000 seconds": the unit is named if it is not that of the policy. */
static void say_counted(struct sl_writer *w, const struct sl_rule *rule,
                        uint64_t number)
{
    say_number(w, number);
    if (!sl_rule_is_scaled(rule))
        return;
    say(w, " ");
    sl_writer_add(w, rule->reports);
}

static void write_retry(sl_ns retry_in, struct sl_writer *w)
{
    if (retry_in < 0)
        return;
    say(w, " Try again in ");
    write_span(retry_in, w);
    say(w, ".");
}

static void write_limit(const struct sl_decision *d, struct sl_writer *w)
{
    const struct sl_limit_view *by = sl_decision_about(d);
    sl_ns retry_in = sl_decision_retry_in(d);
    enum sl_kind kind;

    if (!by || !sl_limit_view_limited(by)) {
        say(w, "Too many requests.");
        return;
    }
    kind = by->numbers->kind;
    say(w, kind == SL_QUOTA     ? "The quota is used up: "
           : kind == SL_LEVEL   ? "The maximum is reached: "
           : kind == SL_PERMITS ? "Too many concurrent requests: "
                                : "Too many requests: ");
    write_allowance(by, w);
    if (d->never && by->answer.outcome == SL_NEVER) {
        say(w, " A cost of ");
        say_counted(w, by->rule, by->cost);
        say(w, " can never pass: the maximum is ");
        say_counted(w, by->rule, sl_limit_view_exact_capacity(by));
        say(w, ".");
    } else if (retry_in >= 0) {
        write_retry(retry_in, w);
    } else if (kind == SL_PERMITS) {
        say(w, " Try again when another request has ended.");
    } else if (kind == SL_LEVEL) {
        say(w, " Release some first.");
    }
}

/* ---- default messages: another reason ---- */

static const char *const sentences[] = {
    [SL_REASON_FEATURE] = "This is switched off for now.",
    [SL_REASON_ANONYMOUS] =
        "Anonymous callers are not allowed: authenticate first.",
    [SL_REASON_ROLE] = "The caller's role does not allow this.",
    [SL_REASON_UNKNOWN_PLAN] = "The caller's plan is unknown.",
    [SL_REASON_UNKNOWN_SUBJECT] = "The caller is not registered.",
    [SL_REASON_STORE] =
        "The store is not available, so the request cannot be decided.",
    [SL_REASON_BACKLOG] = "Too many jobs are waiting.",
    [SL_REASON_RUNNING] = "The same request is already being processed.",
    [SL_REASON_REUSED] = ("The idempotency key was used for another request; a "
                          "new request needs a new key."),
    [SL_REASON_PATH] = "The path is ambiguous; send it in normalized form.",
    [SL_REASON_LONG_PATH] = "The path is longer than 8,192 bytes.",
    [SL_REASON_HOLDS] = "No more holds are possible at the moment.",
    [SL_REASON_QUEUE] = "Too many requests are waiting.",
    [SL_REASON_CONFLICT] = "Another request with the same key is running.",
    [SL_REASON_BLOCKED] = "The caller is blocked.",
    [SL_REASON_PENALTY] = "Blocked after too many refused or failed requests.",
};

static void write_capability(const struct sl_decision *d, struct sl_writer *w)
{
    const struct sl_limit_view *by = sl_decision_about(d);
    struct sl_str plan = by ? by->plan_name : sl_decision_plan(d);

    sl_writer_addf(w, "The plan \"%.*s\" does not include ", SL_STR_ARG(plan));
    if (by)
        sl_writer_addf(w, "\"%.*s\".", SL_STR_ARG(by->rule->name));
    else
        say(w, "this.");
}

/* `The header "x-parts" must be at most 10000.` The value that was sent is not
 * repeated. */
static void write_require(const struct sl_decision *d, struct sl_writer *w)
{
    const struct sl_require *require = d->require;

    sl_writer_addf(w, "The header \"%.*s\" must be ",
                   SL_STR_ARG(require->header));
    switch (d->want) {
    case SL_WANT_NUMBER:
        say(w, "a whole number");
        break;
    case SL_WANT_LESS:
        say(w, "at most ");
        say_number(w, require->max);
        break;
    case SL_WANT_MORE:
        say(w, "at least ");
        say_number(w, require->min);
        break;
    case SL_WANT_EQUAL:
        sl_writer_addf(w, "equal to \"%.*s\"", SL_STR_ARG(require->equals));
        break;
    default:
        say(w, "present exactly once");
        break;
    }
    say(w, ".");
}

static void write_reason(const struct sl_decision *d, struct sl_writer *w)
{
    const struct sl_feature *feature = sl_decision_feature(d);
    bool unknown =
        d->reason == SL_REASON_ANONYMOUS || d->reason == SL_REASON_MISSING;

    if (feature)
        sl_writer_addf(w, "\"%.*s\" is switched off for now.",
                       SL_STR_ARG(feature->name));
    else if (unknown && d->token_fault != SL_TOKEN_GOOD)
        sl_writer_addf(w, "The caller is not authenticated: %s.",
                       sl_token_error_sentence(d->token_fault));
    else if (d->reason == SL_REASON_MISSING)
        sl_writer_addf(w,
                       "The request does not name the \"%.*s\" of the caller, "
                       "which is required.",
                       SL_STR_ARG(d->missing_scope));
    else if (d->reason == SL_REASON_CAPABILITY)
        write_capability(d, w);
    else if (d->reason == SL_REASON_WEBHOOK)
        sl_writer_addf(w, "The webhook is not valid: %s.",
                       sl_webhook_fault_sentence(d->webhook_fault));
    else if (d->reason == SL_REASON_WEBHOOKS_FULL)
        sl_writer_addf(w, "The webhook cannot be accepted now: %s.",
                       sl_webhook_fault_sentence(d->webhook_fault));
    else if (d->reason == SL_REASON_REQUIRE)
        write_require(d, w);
    else if (d->reason == SL_REASON_COST &&
             d->no_cost->from == SL_COST_FROM_SIZE)
        say(w, "The cost is the size of the body, which is not known. Send its "
               "Content-Length.");
    else if (d->reason == SL_REASON_COST)
        sl_writer_addf(w,
                       "The cost is read from \"%.*s\", which must be a whole "
                       "number.",
                       SL_STR_ARG(d->no_cost->text));
    else
        say(w, sentences[d->reason]);
    write_retry(sl_decision_retry_in(d), w);
}

int sl_render_message(const struct sl_decision *d, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    size_t before = out->len;
    const struct sl_template *own;

    if (d->allowed)
        return 0;
    own = own_message(d);
    if (own)
        write_template(d, own, &w);
    else if (d->reason == SL_REASON_NONE)
        write_limit(d, &w);
    else
        write_reason(d, &w);
    if (w.err)
        out->len = before;
    return w.err;
}

/* ---- the policy's own body: JSON, but for the values ---- */

static bool is_number(enum sl_placeholder holder)
{
    return holder <= SL_HOLD_RESET_MS || holder == SL_HOLD_STATUS;
}

/* A placeholder that is a whole value keeps its type; without a value it is
 * null. Inside a string a missing number is 0 and a missing text empty. */
static void write_value(const struct sl_decision *d,
                        const struct sl_template_piece *piece,
                        struct sl_str message, struct sl_writer *w)
{
    bool whole = piece->kind == SL_TEMPLATE_PIECE_VALUE;
    struct value value;

    value_of(d, piece->holder, &value);
    if (value.kind == MESSAGE)
        set_text(&value, message);
    if (value.kind == NUMBER)
        say_number(w, value.number);
    else if (value.kind == TEXT && !w->err)
        w->err = whole ? sl_json_string(w->out, value.text)
                       : sl_json_inside(w->out, value.text);
    else if (whole)
        say(w, "null");
    else if (is_number(piece->holder))
        say(w, "0");
}

/* ---- problem details (RFC 9457) ---- */

#define TYPES "https://iana.org/assignments/http-problem-types"

static struct sl_str type_of(const struct sl_decision *d, int status)
{
    if (status == 503)
        return SL_STR(TYPES "#temporary-reduced-capacity");
    if (d->reason == SL_REASON_NONE)
        return SL_STR(TYPES "#quota-exceeded");
    return SL_STR("about:blank");
}

static const char *title_of(int status)
{
    static const struct {
        int status;
        const char *title;
    } titles[] = {
        {400, "Bad request"        },
        {401, "Unauthorized"       },
        {402, "Plan limit reached" },
        {403, "Forbidden"          },
        {409, "Conflict"           },
        {413, "Too large"          },
        {414, "URI too long"       },
        {422, "Unprocessable"      },
        {503, "Service unavailable"},
    };

    for (size_t i = 0; i < SL_LEN(titles); i++)
        if (titles[i].status == status)
            return titles[i].title;
    return "Too many requests";
}

static void write_problem(const struct sl_decision *d, struct sl_str message,
                          struct sl_writer *w)
{
    int status = sl_decision_status(d);
    sl_ns retry = sl_decision_retry_in(d);
    bool first = true;

    sl_member_str(w, SL_STR("{\"type\":"), type_of(d, status));
    sl_member_str(w, SL_MEMBER("title"), sl_str_c(title_of(status)));
    sl_member_uint(w, SL_MEMBER("status"), (uint64_t)status);
    sl_member_str(w, SL_MEMBER("detail"), message);
    sl_member_str(w, SL_MEMBER("code"), d->code);
    if (retry >= 0) {
        sl_member_uint(w, SL_MEMBER("retry_after"), sl_retry_seconds(retry));
        sl_member_ms(w, SL_MEMBER("retry_after_ms"), retry);
    }
    sl_member_str(w, SL_MEMBER("request_id"), sl_str_c(d->request_id));
    sl_writer_add(w, SL_MEMBER("violated-policies"));
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (!sl_decision_view_denies(d, &d->shown[i]))
            continue;
        sl_member_str(w, first ? SL_STR("[") : SL_STR(","),
                      d->shown[i].rule->name);
        first = false;
    }
    sl_writer_add(w, first ? SL_STR("[]}") : SL_STR("]}"));
}

int sl_render_body(const struct sl_decision *d, struct sl_str message,
                   struct sl_buf *out)
{
    const struct sl_error_form *form = sl_decision_form(d);
    struct sl_writer w = {.out = out};

    if (!form->has_body)
        write_problem(d, message, &w);
    for (unsigned i = 0; form->has_body && i < form->body.count; i++) {
        const struct sl_template_piece *piece = &form->body.pieces[i];

        if (piece->kind == SL_TEMPLATE_PIECE_LITERAL)
            sl_writer_add(&w, piece->literal);
        else
            write_value(d, piece, message, &w);
    }
    return w.err;
}
