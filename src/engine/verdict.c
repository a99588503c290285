/* verdict.c -- a decision as the JSON of /v1/check, on one line.
 *
 * Members always come in the same order, and what there is none of is null;
 * only rare ones (hold_expires_ms, wait_ms, overage, skipped, untracked,
 * candidate) are left out when there is nothing to say.
 */
#include "engine/render.h"
#include "identity/identity.h"

#define KEY_MAX  ((size_t)16 * 1024)
#define TEXT_MAX ((size_t)256 * 1024)

/* `,"name":` before a value. */
#define MEMBER(name) SL_STR(",\"" name "\":")

static void write_bool(struct sl_text_writer *ink, bool value)
{
    sl_text_writer_raw(ink, value ? SL_STR("true") : SL_STR("false"));
}

static void write_null(struct sl_text_writer *ink)
{
    sl_text_writer_raw(ink, SL_STR("null"));
}

/* Milliseconds, rounded up, or null. */
static void write_ms(struct sl_text_writer *ink, sl_ns span)
{
    if (span < 0)
        write_null(ink);
    else
        sl_text_writer_number(ink, sl_span_in(span, SL_MS));
}

static void write_number_if(struct sl_text_writer *ink, bool there,
                            uint64_t number)
{
    if (there)
        sl_text_writer_number(ink, number);
    else
        write_null(ink);
}

static void write_string_if(struct sl_text_writer *ink, bool there,
                            struct sl_str text)
{
    if (there)
        sl_text_writer_string(ink, text);
    else
        write_null(ink);
}

/* ---- limits ---- */

static void write_numbers(struct sl_text_writer *ink,
                          const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;
    bool limited = sl_limit_view_limited(shown);
    bool answered = sl_limit_view_answered(shown);

    sl_text_writer_raw(ink, MEMBER("limit"));
    write_number_if(ink, limited, limited ? sl_limit_view_count(shown) : 0);
    sl_text_writer_raw(ink, MEMBER("burst"));
    write_number_if(ink, limited, limited ? sl_limit_view_capacity(shown) : 0);
    sl_text_writer_raw(ink, MEMBER("remaining"));
    write_number_if(ink, answered, a->remaining);
    sl_text_writer_raw(ink, MEMBER("reset_ms"));
    write_ms(ink, answered ? a->reset_in : SL_NS_NONE);
    sl_text_writer_raw(ink, MEMBER("retry_after_ms"));
    write_ms(ink, answered && a->outcome == SL_DENY ? a->retry_in : SL_NS_NONE);
}

static void write_candidate(struct sl_text_writer *ink,
                            const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->candidate_answer;

    sl_text_writer_raw(ink, SL_STR(",\"candidate\":{\"limit\":"));
    sl_text_writer_number(ink, shown->candidate->count);
    sl_text_writer_raw(ink, MEMBER("remaining"));
    write_number_if(ink, a->capacity > 0, a->remaining);
    sl_text_writer_raw(ink, MEMBER("allowed"));
    write_bool(ink, a->outcome == SL_ALLOW);
    sl_text_writer_raw(ink, SL_STR("}"));
}

/* What most limits have nothing to say about. */
static void write_rare(struct sl_text_writer *ink,
                       const struct sl_limit_view *shown)
{
    if (sl_limit_view_answered(shown) && shown->answer.wait > 0) {
        sl_text_writer_raw(ink, MEMBER("wait_ms"));
        write_ms(ink, shown->answer.wait);
    }
    if (shown->overridden) {
        sl_text_writer_raw(ink, MEMBER("override"));
        sl_text_writer_string(
            ink, sl_str_c(shown->override_of && shown->override_of[0]
                              ? shown->override_of
                              : "request"));
    }
    if (shown->overage)
        sl_text_writer_raw(ink, SL_STR(",\"overage\":true"));
    if (shown->skipped)
        sl_text_writer_raw(ink, SL_STR(",\"skipped\":true"));
    if (shown->untracked)
        sl_text_writer_raw(ink, SL_STR(",\"untracked\":true"));
    if (shown->has_candidate)
        write_candidate(ink, shown);
}

/* A text that is made in a buffer of its own and then escaped. */
static struct sl_buf begin_text(const struct sl_text_writer *ink, size_t most)
{
    struct sl_buf text;

    sl_buf_init(&text, most, ink->out->alloc);
    return text;
}

static void end_text(struct sl_text_writer *ink, struct sl_buf *text, int err)
{
    if (err && !ink->err)
        ink->err = err;
    sl_text_writer_string(ink, sl_buf_str(text));
    sl_buf_done(text);
}

static void write_key(struct sl_text_writer *ink, const struct sl_decision *d,
                      const struct sl_limit_view *shown)
{
    struct sl_buf key = begin_text(ink, KEY_MAX);

    sl_text_writer_raw(ink, MEMBER("key"));
    if (shown->skipped)
        write_null(ink);
    else
        end_text(ink, &key, sl_decision_key(d, shown, &key));
}

static void write_limit(struct sl_text_writer *ink, const struct sl_decision *d,
                        const struct sl_limit_view *shown, bool explain)
{
    sl_text_writer_raw(ink, SL_STR("{\"name\":"));
    sl_text_writer_string(ink, shown->rule->name);
    sl_text_writer_raw(ink, MEMBER("kind"));
    sl_text_writer_string(ink, sl_str_c(sl_kind_name(shown->rule->kind)));
    sl_text_writer_raw(ink, MEMBER("plan"));
    sl_text_writer_string(ink, shown->plan_name);
    sl_text_writer_raw(ink, MEMBER("scope"));
    sl_text_writer_string(ink, shown->scope);
    write_numbers(ink, shown);
    sl_text_writer_raw(ink, MEMBER("mode"));
    sl_text_writer_string(ink, sl_str_c(sl_mode_words[shown->mode]));
    sl_text_writer_raw(ink, MEMBER("allowed"));
    write_bool(ink, shown->allowed);
    write_rare(ink, shown);
    if (explain)
        write_key(ink, d, shown);
    sl_text_writer_raw(ink, SL_STR("}"));
}

static void write_limits(struct sl_text_writer *ink,
                         const struct sl_decision *d, bool explain)
{
    sl_text_writer_raw(ink, SL_STR(",\"limits\":["));
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (i > 0)
            sl_text_writer_raw(ink, SL_STR(","));
        write_limit(ink, d, &d->shown[i], explain);
    }
    sl_text_writer_raw(ink, SL_STR("]"));
}

/* ---- the whole ---- */

static void write_headers(struct sl_text_writer *ink,
                          const struct sl_rendered *r)
{
    sl_text_writer_raw(ink, SL_STR(",\"headers\":{"));
    for (unsigned i = 0; i < r->header_count; i++) {
        if (i > 0)
            sl_text_writer_raw(ink, SL_STR(","));
        sl_text_writer_string(ink, r->headers[i].name);
        sl_text_writer_raw(ink, SL_STR(":"));
        sl_text_writer_string(ink, r->headers[i].value);
    }
    sl_text_writer_raw(ink, SL_STR("}"));
}

static void write_message(struct sl_text_writer *ink,
                          const struct sl_decision *d)
{
    sl_text_writer_raw(ink, MEMBER("message"));
    if (d->allowed) {
        write_null(ink);
        return;
    }
    sl_text_writer_raw(ink, SL_STR("\""));
    sl_message_write(d, ink);
    sl_text_writer_raw(ink, SL_STR("\""));
}

/* What /v1/explain says beyond the verdict. */
static void write_explanation(struct sl_text_writer *ink,
                              const struct sl_decision *d)
{
    struct sl_buf text = begin_text(ink, TEXT_MAX);

    sl_text_writer_raw(ink, MEMBER("plan"));
    sl_text_writer_string(ink, sl_decision_plan(d));
    sl_text_writer_raw(ink, MEMBER("route"));
    sl_text_writer_string(ink, d->route->text);
    sl_text_writer_raw(ink, MEMBER("endpoint"));
    sl_text_writer_string(ink, d->route->endpoint);
    sl_text_writer_raw(ink, MEMBER("token_fault"));
    write_string_if(ink, d->token_fault != SL_TOKEN_GOOD,
                    sl_str_c(sl_token_error_word(d->token_fault)));
    sl_text_writer_raw(ink, MEMBER("explain"));
    end_text(ink, &text, sl_explain(d, &text));
}

static void write_verdict(struct sl_text_writer *ink,
                          const struct sl_decision *d,
                          const struct sl_rendered *r, bool explain)
{
    struct sl_str by = {"", 0};

    if (d->by >= 0)
        by = d->shown[d->by].rule->name;
    sl_text_writer_raw(ink, SL_STR("{\"allowed\":"));
    write_bool(ink, d->allowed);
    sl_text_writer_raw(ink, MEMBER("status"));
    sl_text_writer_number(ink, (uint64_t)r->status);
    sl_text_writer_raw(ink, MEMBER("code"));
    write_string_if(ink, d->code.len > 0, d->code);
    write_message(ink, d);
    sl_text_writer_raw(ink, MEMBER("by"));
    write_string_if(ink, d->by >= 0, by);
    sl_text_writer_raw(ink, MEMBER("retry_after_ms"));
    write_ms(ink, sl_decision_retry_in(d));
    sl_text_writer_raw(ink, MEMBER("request_id"));
    sl_text_writer_string(ink, sl_str_c(d->request_id));
    sl_text_writer_raw(ink, MEMBER("degraded"));
    write_bool(ink, d->degraded);
    sl_text_writer_raw(ink, MEMBER("hold"));
    write_string_if(ink, d->hold[0] != '\0', sl_str_c(d->hold));
    if (d->hold[0]) {
        sl_text_writer_raw(ink, MEMBER("hold_expires_ms"));
        write_ms(ink, d->hold_for);
    }
    write_limits(ink, d, explain);
    write_headers(ink, r);
    sl_text_writer_raw(ink, MEMBER("body"));
    if (r->body.len > 0)
        sl_text_writer_raw(ink, r->body);
    else
        write_null(ink);
    if (explain)
        write_explanation(ink, d);
    sl_text_writer_raw(ink, SL_STR("}"));
}

static int render(const struct sl_decision *decision,
                  const struct sl_rendered *rendered, bool explain,
                  struct sl_buf *out)
{
    struct sl_text_writer ink = {.out = out, .json = true};
    size_t before = out->len;

    write_verdict(&ink, decision, rendered, explain);
    if (ink.err)
        out->len = before;
    return ink.err;
}

int sl_render_verdict(const struct sl_decision *decision,
                      const struct sl_rendered *rendered, struct sl_buf *out)
{
    return render(decision, rendered, false, out);
}

int sl_render_explained(const struct sl_decision *decision,
                        const struct sl_rendered *rendered, struct sl_buf *out)
{
    return render(decision, rendered, true, out);
}

int sl_render_limit(const struct sl_decision *decision,
                    const struct sl_limit_view *shown, struct sl_buf *out)
{
    struct sl_text_writer ink = {.out = out, .json = true};
    size_t before = out->len;

    write_limit(&ink, decision, shown, true);
    if (ink.err)
        out->len = before;
    return ink.err;
}

/* ---- a decision as status, headers and body.
 *
 * The way of an allowed decision is short: one piece of the arena, written
 * from front to back. A denial adds a body, in a buffer that grows inside the
 * arena.
 */

#define BODY_MAX ((size_t)16 * 1024 * 1024)

/* Most bodies fit, and so nothing of the arena is outgrown. */
#define BODY_USUAL 512

/* Memory for a buffer from an arena: what is outgrown dies with the rest. */
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

static int render_body(const struct sl_decision *decision,
                       struct sl_arena *arena, struct sl_str *ret)
{
    struct sl_alloc alloc = {.resize = arena_resize, .ctx = arena};
    struct sl_buf out;
    int err;

    sl_buf_init(&out, BODY_MAX, &alloc);
    err = sl_buf_reserve(&out, BODY_USUAL);
    if (!err)
        err = sl_message_body_write(decision, &out);
    if (!err)
        err = sl_buf_add(&out, (struct sl_str){"", 1}); /* a NUL */
    if (!err)
        *ret = (struct sl_str){out.bytes, out.len - 1};
    return err;
}

static int render_head(const struct sl_decision *decision,
                       struct sl_arena *arena, struct sl_header_writer *head)
{
    size_t room = sl_headers_room(decision);

    head->count = 0;
    head->seen = 0;
    head->full = false;
    head->at = sl_arena_take(arena, room);
    if (!head->at)
        return SLUICE_ENOMEM;
    head->end = head->at + room;
    sl_headers_write(head, decision);
    return head->full ? SLUICE_EFULL : 0;
}

static struct sl_str content_type(const struct sl_decision *decision)
{
    return sl_decision_form(decision)->has_body
               ? SL_STR("application/json")
               : SL_STR("application/problem+json");
}

int sl_render(const struct sl_decision *decision, struct sl_arena *arena,
              struct sl_rendered *ret)
{
    bool denied = !decision->allowed;
    struct sl_str body = {"", 0};
    struct sl_header_writer head;
    int err = render_head(decision, arena, &head);

    if (!err && denied)
        err = render_body(decision, arena, &body);
    if (err)
        return err;
    ret->status = sl_decision_status(decision);
    ret->header_count = head.count;
    memcpy(ret->headers, head.list, head.count * sizeof(head.list[0]));
    ret->content_type = denied ? content_type(decision) : SL_STR("");
    ret->body = body;
    return 0;
}
