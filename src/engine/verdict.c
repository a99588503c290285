/* verdict.c -- a decision as the JSON of /v1/check, on one line; and as status,
 * headers and body.
 *
 * Members always come in the same order. A member without a value is null;
 * only rare members (hold_expires_ms, exact, wait_ms, override, charge,
 * credits, overage, skipped, untracked, blocked, candidate) are left out.
 */
#include "base/timestamp.h"
#include "engine/engine_int.h"
#include "engine/render.h"
#include "identity/identity.h"

#define KEY_MAX  ((size_t)16 * 1024)
#define TEXT_MAX ((size_t)256 * 1024)

/* ---- limits ---- */

static void write_numbers(struct sl_writer *w,
                          const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;
    bool limited = sl_limit_view_limited(shown);
    bool answered = sl_limit_view_answered(shown);

    sl_member_uint_if(w, SL_MEMBER("limit"), limited,
                      limited ? sl_limit_view_count(shown) : 0);
    sl_member_uint_if(w, SL_MEMBER("burst"), limited,
                      limited ? sl_limit_view_capacity(shown) : 0);
    sl_member_uint_if(w, SL_MEMBER("remaining"), answered,
                      answered ? sl_limit_view_remaining(shown) : 0);
    sl_member_ms(w, SL_MEMBER("reset_ms"), answered ? a->reset_in : SL_NS_NONE);
    sl_member_ms(w, SL_MEMBER("retry_after_ms"),
                 answered && a->outcome == SL_DENY ? a->retry_in : SL_NS_NONE);
}

static void write_exact(struct sl_writer *w, const struct sl_limit_view *shown)
{
    if (!sl_rule_is_scaled(shown->rule) || !sl_limit_view_limited(shown))
        return;
    sl_member_exact(w, shown->rule);
    sl_member_uint(w, SL_MEMBER("limit"), sl_limit_view_exact_count(shown));
    sl_member_uint(w, SL_MEMBER("burst"), sl_limit_view_exact_capacity(shown));
    sl_member_uint_if(w, SL_MEMBER("remaining"), sl_limit_view_answered(shown),
                      shown->answer.remaining);
    sl_writer_add(w, SL_STR("}"));
}

static void write_rare(struct sl_writer *w, const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->candidate_answer;

    write_exact(w, shown);
    if (sl_limit_view_answered(shown) && shown->answer.wait > 0)
        sl_member_ms(w, SL_MEMBER("wait_ms"), shown->answer.wait);
    if (shown->overridden)
        sl_member_str(w, SL_MEMBER("override"),
                      sl_str_c(shown->override_of && shown->override_of[0]
                                   ? shown->override_of
                                   : "request"));
    if (shown->rule->charge == SL_CHARGE_ON_REPORT)
        sl_member_str(w, SL_MEMBER("charge"), SL_STR("on_report"));
    if (shown->credited > 0)
        sl_member_uint(w, SL_MEMBER("credits"), shown->credited);
    if (shown->overage)
        sl_member_flag(w, SL_MEMBER("overage"), true);
    if (shown->skipped)
        sl_member_flag(w, SL_MEMBER("skipped"), true);
    if (shown->untracked)
        sl_member_flag(w, SL_MEMBER("untracked"), true);
    if (!shown->has_candidate)
        return;
    sl_member_uint(w, SL_STR(",\"candidate\":{\"limit\":"),
                   sl_rule_down(shown->rule, shown->candidate->count));
    sl_member_uint_if(w, SL_MEMBER("remaining"), a->capacity > 0,
                      sl_rule_down(shown->rule, a->remaining));
    sl_member_flag(w, SL_MEMBER("allowed"), a->outcome == SL_ALLOW);
    sl_writer_add(w, SL_STR("}"));
}

/* Writes a text that was made in a buffer of its own, which is freed. */
static void write_made(struct sl_writer *w, struct sl_str member,
                       struct sl_buf *text, int err)
{
    if (err && !w->err)
        w->err = err;
    sl_member_str(w, member, sl_buf_str(text));
    sl_buf_done(text);
}

/* "blocked":true,"blocked_until":"2026-11-15T12:15:00Z" */
static void write_block(struct sl_writer *w, const struct sl_decision *d,
                        const struct sl_limit_view *shown)
{
    sl_ns span = sl_penalty_blocked_for(d, shown);
    char end[SL_TIMESTAMP_TEXT];

    if (span == SL_NS_NONE)
        return;
    span = sl_ns_add_sat(d->now, span);
    sl_timestamp_print(span, span % SL_S != 0, end);
    sl_member_flag(w, SL_MEMBER("blocked"), true);
    sl_member_str(w, SL_MEMBER("blocked_until"), sl_str_c(end));
}

static void write_limit(struct sl_writer *w, const struct sl_decision *d,
                        const struct sl_limit_view *shown, bool explain)
{
    struct sl_buf key;

    sl_member_str(w, SL_STR("{\"name\":"), shown->rule->name);
    sl_member_str(w, SL_MEMBER("kind"),
                  sl_str_c(sl_kind_name(shown->rule->kind)));
    sl_member_str(w, SL_MEMBER("plan"), shown->plan_name);
    sl_member_str(w, SL_MEMBER("scope"), shown->scope);
    write_numbers(w, shown);
    sl_member_str(w, SL_MEMBER("mode"), sl_str_c(sl_mode_words[shown->mode]));
    sl_member_flag(w, SL_MEMBER("allowed"), shown->allowed);
    write_rare(w, shown);
    if (d->penalty_count > 0 && !d->no_numbers)
        write_block(w, d, shown);
    sl_buf_init(&key, KEY_MAX, w->out->alloc);
    if (explain && shown->skipped)
        sl_member_null(w, SL_MEMBER("key"));
    else if (explain)
        write_made(w, SL_MEMBER("key"), &key, sl_decision_key(d, shown, &key));
    sl_writer_add(w, SL_STR("}"));
}

/* ---- the whole ---- */

/* The members of /v1/explain beyond the verdict. */
static void write_explanation(struct sl_writer *w, const struct sl_decision *d)
{
    struct sl_buf text;

    sl_buf_init(&text, TEXT_MAX, w->out->alloc);
    sl_member_str(w, SL_MEMBER("plan"), sl_decision_plan(d));
    sl_member_str(w, SL_MEMBER("route"), d->route->text);
    sl_member_str(w, SL_MEMBER("endpoint"), d->route->endpoint);
    sl_member_str_if(w, SL_MEMBER("token_fault"),
                     d->token_fault != SL_TOKEN_GOOD,
                     sl_str_c(sl_token_error_word(d->token_fault)));
    write_made(w, SL_MEMBER("explain"), &text, sl_explain(d, &text));
}

static void write_limits(struct sl_writer *w, const struct sl_decision *d,
                         bool explain)
{
    sl_writer_add(w, SL_STR(",\"limits\":["));
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (sl_limit_view_hidden(&d->shown[i]))
            continue; /* the last ones */
        if (i > 0)
            sl_writer_add(w, SL_STR(","));
        write_limit(w, d, &d->shown[i], explain);
    }
    sl_writer_add(w, SL_STR("]"));
}

static void write_header(struct sl_writer *w, bool first, struct sl_str name,
                         struct sl_str value)
{
    sl_member_str(w, first ? SL_STR("") : SL_STR(","), name);
    sl_member_str(w, SL_STR(":"), value);
}

/* The headers of the answer to the client, with the type of its body. A list
 * that the application may have, too, is in `append_headers`. */
static void write_headers(struct sl_writer *w, const struct sl_rendered *r)
{
    static const struct sl_str list = {"Access-Control-Expose-Headers", 29};
    bool first = r->body.len == 0, has_list = false;

    sl_writer_add(w, SL_STR(",\"headers\":{"));
    if (!first)
        write_header(w, true, SL_STR("Content-Type"), r->content_type);
    for (unsigned i = 0; i < r->header_count; i++) {
        write_header(w, first && i == 0, r->headers[i].name,
                     r->headers[i].value);
        has_list = has_list || sl_str_eq(r->headers[i].name, list);
    }
    sl_writer_add(w, SL_STR("}"));
    if (has_list)
        sl_writer_add(w, SL_STR(",\"append_headers\":["
                                "\"Access-Control-Expose-Headers\"]"));
}

int sl_render_verdict(const struct sl_decision *d, const struct sl_rendered *r,
                      bool explain, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    size_t before = out->len;
    bool held = d->hold[0] != '\0';
    struct sl_str by = {"", 0};

    if (d->by >= 0)
        by = d->shown[d->by].rule->name;
    sl_member_flag(&w, SL_STR("{\"allowed\":"), d->allowed);
    sl_member_uint(&w, SL_MEMBER("status"), (uint64_t)r->status);
    sl_member_str_if(&w, SL_MEMBER("code"), d->code.len > 0, d->code);
    sl_member_str_if(&w, SL_MEMBER("message"), !d->allowed, r->message);
    sl_member_str_if(&w, SL_MEMBER("by"), d->by >= 0, by);
    sl_member_ms(&w, SL_MEMBER("retry_after_ms"), sl_decision_retry_in(d));
    sl_member_str(&w, SL_MEMBER("request_id"), sl_str_c(d->request_id));
    sl_member_flag(&w, SL_MEMBER("degraded"), d->degraded);
    sl_member_str_if(&w, SL_MEMBER("hold"), held, sl_str_c(d->hold));
    if (held)
        sl_member_ms(&w, SL_MEMBER("hold_expires_ms"), d->hold_for);
    write_limits(&w, d, explain);
    write_headers(&w, r);
    sl_writer_add(&w, SL_MEMBER("body"));
    sl_writer_add(&w, r->body.len > 0 ? r->body : SL_STR("null"));
    if (explain)
        write_explanation(&w, d);
    sl_writer_add(&w, SL_STR("}"));
    if (w.err)
        out->len = before;
    return w.err;
}

int sl_render_limit(const struct sl_decision *decision,
                    const struct sl_limit_view *shown, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    size_t before = out->len;

    write_limit(&w, decision, shown, true);
    if (w.err)
        out->len = before;
    return w.err;
}

/* ---- status, headers and body.
 *
 * An allowed decision needs one piece of the arena. A denial adds a message
 * and a body, in buffers that grow inside the arena.
 */

#define BODY_MAX ((size_t)16 * 1024 * 1024)

/* Most messages and bodies fit, so that no piece of the arena is outgrown. */
#define MESSAGE_USUAL 192
#define BODY_USUAL    512

/* Memory for a buffer from an arena. Outgrown pieces stay in the arena. */
static void *arena_resize(void *ctx, void *old, size_t old_size,
                          size_t new_size)
{
    void *fresh;

    if (new_size == 0)
        return NULL;
    fresh = sl_arena_take(ctx, new_size);
    if (fresh && old_size > 0)
        memcpy(fresh, old, old_size < new_size ? old_size : new_size);
    return fresh;
}

static int render_denial(const struct sl_decision *decision,
                         struct sl_arena *arena, struct sl_rendered *ret)
{
    struct sl_alloc alloc = {.resize = arena_resize, .ctx = arena};
    struct sl_buf message, body;
    int err;

    sl_buf_init(&message, BODY_MAX, &alloc);
    sl_buf_init(&body, BODY_MAX, &alloc);
    err = sl_buf_reserve(&message, MESSAGE_USUAL);
    if (!err)
        err = sl_buf_reserve(&body, BODY_USUAL);
    if (!err)
        err = sl_render_message(decision, &message);
    if (!err)
        err = sl_render_body(decision, sl_buf_str(&message), &body);
    if (!err)
        err = sl_buf_add(&body, (struct sl_str){"", 1}); /* a NUL */
    if (err)
        return err;
    ret->message = sl_buf_str(&message);
    ret->body = (struct sl_str){body.bytes, body.len - 1};
    ret->content_type = sl_decision_form(decision)->has_body
                            ? SL_STR("application/json")
                            : SL_STR("application/problem+json");
    return 0;
}

int sl_render(const struct sl_decision *decision, struct sl_arena *arena,
              struct sl_rendered *ret)
{
    struct sl_rendered made;
    int err = sl_render_headers(decision, arena, &made);

    made.status = sl_decision_status(decision);
    made.message = made.content_type = made.body = SL_STR("");
    if (!err && !decision->allowed)
        err = render_denial(decision, arena, &made);
    if (!err)
        memcpy(ret, &made,
               offsetof(struct sl_rendered, headers) +
                   made.header_count * sizeof(made.headers[0]));
    return err;
}
