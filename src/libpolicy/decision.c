/* decision.c -- the fields of a decision. */
#include "libpolicy/libpolicy.h"

#define KEY_MAX (16 * 1024)

int sluice_decision_allowed(const struct sluice_decision *d)
{
    return d && d->usable && d->check.decision.allowed;
}

int sluice_decision_status(const struct sluice_decision *d)
{
    return d && d->usable ? d->rendered.status : 0;
}

int sluice_decision_never(const struct sluice_decision *d)
{
    return d && d->usable && d->check.decision.never;
}

int sluice_decision_degraded(const struct sluice_decision *d)
{
    return d && d->usable && d->check.decision.degraded;
}

const char *sluice_decision_by(const struct sluice_decision *d)
{
    return d && d->usable && d->check.decision.by >= 0
               ? d->check.decision.shown[d->check.decision.by].rule->name.at
               : "";
}

const char *sluice_decision_code(const struct sluice_decision *d)
{
    return d && d->usable && d->check.decision.code.at
               ? d->check.decision.code.at
               : "";
}

/* The message is rendered on first use, so a decision belongs to one thread. */
const char *sluice_decision_message(const struct sluice_decision *decision)
{
    struct sluice_decision *d = (struct sluice_decision *)decision;
    const char *text;

    if (!d || !d->usable)
        return "";
    if (d->message.len > 0)
        return d->message.bytes;
    text = sl_libpolicy_text(
        &d->message, sl_render_message(&d->check.decision, &d->message));
    return text ? text : "";
}

int64_t sluice_decision_retry_in_ns(const struct sluice_decision *d)
{
    return d && d->usable && !d->check.decision.allowed
               ? d->check.decision.retry_in
               : -1;
}

uint64_t sluice_decision_quota(const struct sluice_decision *d)
{
    return d && d->usable && d->check.decision.quota >= 0
               ? sl_limit_view_remaining(
                     &d->check.decision.shown[d->check.decision.quota])
               : UINT64_MAX;
}

int sluice_decision_report(const struct sluice_decision *d)
{
    return d && d->usable ? d->check.decision.report : -1;
}

/* ---- limits ---- */

static const struct sluice_shown no_limit = {
    .name = "",
    .kind = "",
    .plan = "",
    .scope = "",
    .id = "",
    .mode = "",
    .unit = "",
    .key = "",
    .retry_in_ns = -1,
    .reset_in_ns = -1,
};

/* A NUL-terminated copy that lives as long as the decision. Made once; tried
 * again only after a lack of memory. */
static const char *keep(struct sluice_decision *d, const char **kept,
                        struct sl_str text)
{
    if (!*kept)
        *kept = sl_arena_copy(&d->arena, text);
    return *kept ? *kept : "";
}

static const char *key_of(struct sluice_decision *d, const char **kept,
                          const struct sl_limit_view *shown)
{
    struct sl_buf buf;

    if (*kept || shown->skipped)
        return *kept ? *kept : "";
    sl_buf_init(&buf, KEY_MAX, &sl_alloc_libc);
    if (!sl_decision_key(&d->check.decision, shown, &buf))
        keep(d, kept, sl_buf_str(&buf));
    sl_buf_done(&buf);
    return *kept ? *kept : "";
}

static bool has_numbers(const struct sluice_decision *d,
                        const struct sl_limit_view *shown)
{
    return !d->check.decision.no_numbers && !shown->skipped &&
           d->check.decision.reason == SL_REASON_NONE &&
           sl_rate_has_numbers(shown->form);
}

size_t sluice_decision_limits(const struct sluice_decision *d)
{
    return d && d->usable ? d->check.decision.shown_count : 0;
}

struct sluice_shown
sluice_decision_limit(const struct sluice_decision *decision, size_t index)
{
    struct sluice_decision *d = (struct sluice_decision *)decision;
    const struct sl_limit_view *shown;
    struct sl_libpolicy_texts *texts;
    struct sluice_shown ret = no_limit;

    if (index >= sluice_decision_limits(d))
        return ret;
    shown = &d->check.decision.shown[index];
    texts = &d->texts[index];
    ret.name = shown->rule->name.at;
    ret.kind = sl_kind_name(shown->rule->kind);
    ret.plan = shown->overridden ? "override"
                                 : keep(d, &texts->plan, shown->plan_name);
    ret.scope = keep(d, &texts->scope, shown->scope);
    ret.id = shown->id;
    ret.mode = sl_mode_words[shown->mode];
    ret.unit = keep(d, &texts->unit, shown->rule->unit);
    ret.key = key_of(d, &texts->key, shown);
    ret.cost = shown->cost;
    ret.allowed = shown->allowed;
    ret.limited = has_numbers(d, shown);
    if (ret.limited) {
        ret.limit = sl_rule_down(shown->rule, shown->answer.limit);
        ret.burst = sl_rule_down(shown->rule, shown->answer.capacity);
        ret.remaining = sl_limit_view_remaining(shown);
        ret.retry_in_ns = shown->allowed ? -1 : shown->answer.retry_in;
        ret.reset_in_ns = shown->answer.reset_in;
        ret.wait_ns = shown->answer.wait;
    }
    return ret;
}

struct sluice_exact
sluice_decision_exact(const struct sluice_decision *decision, size_t index)
{
    struct sluice_decision *d = (struct sluice_decision *)decision;
    const struct sl_limit_view *shown;
    struct sluice_exact ret = {.unit = "", .scale = 1};

    if (index >= sluice_decision_limits(d))
        return ret;
    shown = &d->check.decision.shown[index];
    ret.unit = keep(d, &d->texts[index].counted, sl_rule_counted(shown->rule));
    if (sl_rule_is_scaled(shown->rule))
        ret.scale = shown->rule->options.scale;
    if (has_numbers(d, shown)) {
        ret.limit = shown->answer.limit;
        ret.burst = shown->answer.capacity;
        ret.remaining = shown->answer.remaining;
    }
    return ret;
}

const char *sluice_decision_hold(const struct sluice_decision *d)
{
    return d && d->usable ? d->check.decision.hold : "";
}

int64_t sluice_decision_hold_ns(const struct sluice_decision *d)
{
    return d && d->usable && d->check.decision.hold[0]
               ? d->check.decision.hold_for
               : -1;
}

/* ---- headers and body ---- */

/* NUL-terminated copies of all headers. */
static bool make_headers(struct sluice_decision *d)
{
    size_t count = d->rendered.header_count;
    struct sluice_header *headers;

    if (d->headers || count == 0)
        return true;
    headers = sl_arena_take(&d->arena, count * sizeof(*headers));
    if (!headers)
        return false;
    for (size_t i = 0; i < count; i++) {
        headers[i].name = sl_arena_copy(&d->arena, d->rendered.headers[i].name);
        headers[i].value =
            sl_arena_copy(&d->arena, d->rendered.headers[i].value);
        if (!headers[i].name || !headers[i].value)
            return false;
    }
    d->headers = headers;
    return true;
}

size_t sluice_decision_headers(const struct sluice_decision *d)
{
    return d && d->usable ? d->rendered.header_count : 0;
}

struct sluice_header
sluice_decision_header(const struct sluice_decision *decision, size_t index)
{
    struct sluice_decision *d = (struct sluice_decision *)decision;

    if (index >= sluice_decision_headers(d) || !make_headers(d))
        return (struct sluice_header){"", ""};
    return d->headers[index];
}

const char *sluice_decision_content_type(const struct sluice_decision *d)
{
    return d && d->usable ? d->rendered.content_type.at : "";
}

const char *sluice_decision_body(const struct sluice_decision *d)
{
    return d && d->usable ? d->rendered.body.at : "";
}

const char *sluice_decision_json(struct sluice_decision *d)
{
    if (!d || !d->usable)
        return NULL;
    return d->json.len > 0 ? d->json.bytes
                           : sl_libpolicy_text(
                                 &d->json, sl_render_verdict(&d->check.decision,
                                                             &d->rendered,
                                                             false, &d->json));
}

const char *sluice_decision_text(struct sluice_decision *d)
{
    if (!d || !d->usable)
        return NULL;
    return d->text.len > 0
               ? d->text.bytes
               : sl_libpolicy_text(&d->text,
                                   sl_explain(&d->check.decision, &d->text));
}
