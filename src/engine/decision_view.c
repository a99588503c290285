/* decision_view.c -- what of a decision is shown to clients. */
#include "base/arith.h"
#include "engine/render.h"

/* ---- limits ---- */

bool sl_limit_view_limited(const struct sl_limit_view *shown)
{
    return sl_rate_has_numbers(shown->form) && !shown->skipped &&
           shown->numbers && shown->mode != SL_MODE_OFF;
}

bool sl_limit_view_answered(const struct sl_limit_view *shown)
{
    return sl_limit_view_limited(shown) && shown->answer.capacity > 0;
}

/* With overage the answer has the quota that was paid for, and `numbers` may
 * be those without a ceiling. */
uint64_t sl_limit_view_count(const struct sl_limit_view *shown)
{
    return sl_limit_view_answered(shown) ? shown->answer.limit
                                         : shown->numbers->count;
}

uint64_t sl_limit_view_capacity(const struct sl_limit_view *shown)
{
    return sl_limit_view_answered(shown) ? shown->answer.capacity
                                         : shown->numbers->capacity;
}

sl_ns sl_limit_view_reset_in(const struct sl_decision *decision,
                             const struct sl_limit_view *shown)
{
    if (!sl_limit_view_answered(shown) || shown->answer.reset_in < 0)
        return SL_NS_NONE;
    if (decision->route->reset == SL_RESET_NEXT && shown->next_in >= 0)
        return shown->next_in;
    return shown->answer.reset_in;
}

bool sl_decision_view_denies(const struct sl_decision *decision,
                             const struct sl_limit_view *shown)
{
    return !decision->allowed &&
           (decision->reason == SL_REASON_NONE ||
            decision->reason == SL_REASON_CAPABILITY) &&
           shown->mode == SL_MODE_ENFORCE && !shown->allowed;
}

/* ---- decisions ---- */

const struct sl_limit_view *
sl_decision_about(const struct sl_decision *decision)
{
    if (decision->by >= 0)
        return &decision->shown[decision->by];
    if (decision->reason != SL_REASON_CAPABILITY)
        return NULL;
    for (unsigned i = 0; i < decision->shown_count; i++)
        if (decision->shown[i].form == SL_RATE_NONE &&
            decision->shown[i].mode == SL_MODE_ENFORCE)
            return &decision->shown[i];
    return NULL;
}

/* What was refused before anybody asked for the plan has the default one. */
struct sl_str sl_decision_plan(const struct sl_decision *decision)
{
    const struct sl_plans *plans = &decision->policy->plans;
    unsigned plan = decision->plan;

    return plans->list[plan < plans->count ? plan : plans->fallback].name;
}

const struct sl_feature *sl_decision_feature(const struct sl_decision *decision)
{
    if (decision->reason != SL_REASON_FEATURE ||
        decision->route->feature >= decision->policy->feature_count)
        return NULL;
    return &decision->policy->features[decision->route->feature];
}

sl_ns sl_decision_retry_in(const struct sl_decision *decision)
{
    const struct sl_feature *feature = sl_decision_feature(decision);

    if (decision->allowed || decision->never)
        return SL_NS_NONE;
    if (decision->retry_in < 0 && feature)
        return feature->retry_after;
    return decision->retry_in;
}

uint64_t sl_retry_seconds(sl_ns retry_in)
{
    uint64_t seconds = sl_span_in(retry_in, SL_S);

    return seconds > 0 ? seconds : 1;
}

/* ---- forms ---- */

static const int form_status[SL_ERRORS] = {
    [SL_ERROR_RATE_LIMITED] = 429, [SL_ERROR_PLAN_LIMIT] = 402,
    [SL_ERROR_FORBIDDEN] = 403,    [SL_ERROR_UNAUTHORIZED] = 401,
    [SL_ERROR_CONFLICT] = 409,     [SL_ERROR_UNAVAILABLE] = 503,
};

static enum sl_error error_of(int status)
{
    for (enum sl_error e = 0; e < SL_ERRORS; e++)
        if (form_status[e] == status)
            return e;
    return SL_ERROR_RATE_LIMITED;
}

const struct sl_error_form *sl_decision_form(const struct sl_decision *d)
{
    return &d->policy->errors[error_of(d->status)];
}

int sl_decision_status(const struct sl_decision *decision)
{
    int own;

    if (decision->allowed)
        return decision->status;
    own = sl_decision_form(decision)->status;
    if (own == 0 || form_status[error_of(decision->status)] != decision->status)
        return decision->status;
    return own;
}

/* ---- values ---- */

static void set_number(struct sl_placeholder_value *value, uint64_t number)
{
    value->kind = SL_VALUE_NUMBER;
    value->number = number;
}

static void set_text(struct sl_placeholder_value *value, struct sl_str text)
{
    value->kind = SL_VALUE_TEXT;
    value->text = text;
}

/* `instant` rounded up to a whole `unit`: SL_S or SL_MS. */
static void set_instant(struct sl_placeholder_value *value, sl_ns instant,
                        sl_ns unit)
{
    sl_ns up = sl_ns_add_sat(instant, unit - 1) / unit * unit;
    size_t len = sl_timestamp_print(up, unit == SL_MS, value->room);

    set_text(value, (struct sl_str){value->room, len});
}

static struct sl_str unit_of(const struct sl_rule *rule)
{
    if (rule->unit.len > 0)
        return rule->unit;
    return rule->kind == SL_LEVEL ? SL_STR("units") : SL_STR("requests");
}

/* Those that speak of the limit that the denial is about. */
static void value_of_limit(const struct sl_limit_view *about,
                           enum sl_placeholder holder,
                           struct sl_placeholder_value *ret)
{
    switch (holder) {
    case SL_HOLD_LIMIT:
        if (sl_limit_view_limited(about))
            set_number(ret, sl_limit_view_count(about));
        break;
    case SL_HOLD_REMAINING:
        if (sl_limit_view_answered(about))
            set_number(ret, about->answer.remaining);
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

static void value_of_reset(const struct sl_decision *d,
                           const struct sl_limit_view *about,
                           enum sl_placeholder holder,
                           struct sl_placeholder_value *ret)
{
    sl_ns in = about ? sl_limit_view_reset_in(d, about) : SL_NS_NONE;
    sl_ns at = sl_ns_add_sat(d->now, in);

    if (in < 0)
        return;
    if (holder == SL_HOLD_RESET)
        set_number(ret, sl_span_in(at, SL_S));
    else if (holder == SL_HOLD_RESET_MS)
        set_number(ret, sl_span_in(in, SL_MS));
    else
        set_instant(ret, at, holder == SL_HOLD_RESET_ISO ? SL_S : SL_MS);
}

static void value_of_now(const struct sl_decision *d, bool ms,
                         struct sl_placeholder_value *ret)
{
    size_t len = sl_timestamp_print(d->now, ms, ret->room);

    set_text(ret, (struct sl_str){ret->room, len});
}

static bool is_number(enum sl_placeholder holder)
{
    return holder <= SL_HOLD_RESET_MS || holder == SL_HOLD_STATUS;
}

void sl_placeholder_value_of(const struct sl_decision *d,
                             enum sl_placeholder holder,
                             struct sl_placeholder_value *ret)
{
    const struct sl_limit_view *about = sl_decision_about(d);
    sl_ns retry_in = sl_decision_retry_in(d);

    ret->kind = SL_VALUE_NONE;
    ret->is_number = is_number(holder);
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
        ret->kind = SL_VALUE_MESSAGE;
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
        value_of_now(d, holder == SL_HOLD_NOW_ISO_MS, ret);
        break;
    default:
        if (about)
            value_of_limit(about, holder, ret);
        break;
    }
}
