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

static void write_bool(struct sl_text_writer *writer, bool value)
{
    sl_text_writer_raw(writer, value ? SL_STR("true") : SL_STR("false"));
}

static void write_null(struct sl_text_writer *writer)
{
    sl_text_writer_raw(writer, SL_STR("null"));
}

/* Milliseconds, rounded up, or null. */
static void write_ms(struct sl_text_writer *writer, sl_ns span)
{
    if (span < 0)
        write_null(writer);
    else
        sl_text_writer_number(writer, sl_span_in(span, SL_MS));
}

static void write_number_if(struct sl_text_writer *writer, bool there,
                            uint64_t number)
{
    if (there)
        sl_text_writer_number(writer, number);
    else
        write_null(writer);
}

static void write_string_if(struct sl_text_writer *writer, bool there,
                            struct sl_str text)
{
    if (there)
        sl_text_writer_string(writer, text);
    else
        write_null(writer);
}

/* ---- limits ---- */

static void write_numbers(struct sl_text_writer *writer,
                          const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;
    bool limited = sl_limit_view_limited(shown);
    bool answered = sl_limit_view_answered(shown);

    sl_text_writer_raw(writer, MEMBER("limit"));
    write_number_if(writer, limited, limited ? sl_limit_view_count(shown) : 0);
    sl_text_writer_raw(writer, MEMBER("burst"));
    write_number_if(writer, limited,
                    limited ? sl_limit_view_capacity(shown) : 0);
    sl_text_writer_raw(writer, MEMBER("remaining"));
    write_number_if(writer, answered, a->remaining);
    sl_text_writer_raw(writer, MEMBER("reset_ms"));
    write_ms(writer, answered ? a->reset_in : SL_NS_NONE);
    sl_text_writer_raw(writer, MEMBER("retry_after_ms"));
    write_ms(writer,
             answered && a->outcome == SL_DENY ? a->retry_in : SL_NS_NONE);
}

static void write_candidate(struct sl_text_writer *writer,
                            const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->candidate_answer;

    sl_text_writer_raw(writer, SL_STR(",\"candidate\":{\"limit\":"));
    sl_text_writer_number(writer, shown->candidate->count);
    sl_text_writer_raw(writer, MEMBER("remaining"));
    write_number_if(writer, a->capacity > 0, a->remaining);
    sl_text_writer_raw(writer, MEMBER("allowed"));
    write_bool(writer, a->outcome == SL_ALLOW);
    sl_text_writer_raw(writer, SL_STR("}"));
}

/* What most limits have nothing to say about. */
static void write_rare(struct sl_text_writer *writer,
                       const struct sl_limit_view *shown)
{
    if (sl_limit_view_answered(shown) && shown->answer.wait > 0) {
        sl_text_writer_raw(writer, MEMBER("wait_ms"));
        write_ms(writer, shown->answer.wait);
    }
    if (shown->overridden) {
        sl_text_writer_raw(writer, MEMBER("override"));
        sl_text_writer_string(
            writer, sl_str_c(shown->override_of && shown->override_of[0]
                                 ? shown->override_of
                                 : "request"));
    }
    if (shown->overage)
        sl_text_writer_raw(writer, SL_STR(",\"overage\":true"));
    if (shown->skipped)
        sl_text_writer_raw(writer, SL_STR(",\"skipped\":true"));
    if (shown->untracked)
        sl_text_writer_raw(writer, SL_STR(",\"untracked\":true"));
    if (shown->has_candidate)
        write_candidate(writer, shown);
}

/* A text that is made in a buffer of its own and then escaped. */
static struct sl_buf begin_text(const struct sl_text_writer *writer,
                                size_t most)
{
    struct sl_buf text;

    sl_buf_init(&text, most, writer->out->alloc);
    return text;
}

static void end_text(struct sl_text_writer *writer, struct sl_buf *text,
                     int err)
{
    if (err && !writer->err)
        writer->err = err;
    sl_text_writer_string(writer, sl_buf_str(text));
    sl_buf_done(text);
}

static void write_key(struct sl_text_writer *writer,
                      const struct sl_decision *d,
                      const struct sl_limit_view *shown)
{
    struct sl_buf key = begin_text(writer, KEY_MAX);

    sl_text_writer_raw(writer, MEMBER("key"));
    if (shown->skipped)
        write_null(writer);
    else
        end_text(writer, &key, sl_decision_key(d, shown, &key));
}

static void write_limit(struct sl_text_writer *writer,
                        const struct sl_decision *d,
                        const struct sl_limit_view *shown, bool explain)
{
    sl_text_writer_raw(writer, SL_STR("{\"name\":"));
    sl_text_writer_string(writer, shown->rule->name);
    sl_text_writer_raw(writer, MEMBER("kind"));
    sl_text_writer_string(writer, sl_str_c(sl_kind_name(shown->rule->kind)));
    sl_text_writer_raw(writer, MEMBER("plan"));
    sl_text_writer_string(writer, shown->plan_name);
    sl_text_writer_raw(writer, MEMBER("scope"));
    sl_text_writer_string(writer, shown->scope);
    write_numbers(writer, shown);
    sl_text_writer_raw(writer, MEMBER("mode"));
    sl_text_writer_string(writer, sl_str_c(sl_mode_words[shown->mode]));
    sl_text_writer_raw(writer, MEMBER("allowed"));
    write_bool(writer, shown->allowed);
    write_rare(writer, shown);
    if (explain)
        write_key(writer, d, shown);
    sl_text_writer_raw(writer, SL_STR("}"));
}

static void write_limits(struct sl_text_writer *writer,
                         const struct sl_decision *d, bool explain)
{
    sl_text_writer_raw(writer, SL_STR(",\"limits\":["));
    for (unsigned i = 0; i < d->shown_count; i++) {
        if (i > 0)
            sl_text_writer_raw(writer, SL_STR(","));
        write_limit(writer, d, &d->shown[i], explain);
    }
    sl_text_writer_raw(writer, SL_STR("]"));
}

/* ---- the whole ---- */

static void write_headers(struct sl_text_writer *writer,
                          const struct sl_rendered *r)
{
    sl_text_writer_raw(writer, SL_STR(",\"headers\":{"));
    for (unsigned i = 0; i < r->header_count; i++) {
        if (i > 0)
            sl_text_writer_raw(writer, SL_STR(","));
        sl_text_writer_string(writer, r->headers[i].name);
        sl_text_writer_raw(writer, SL_STR(":"));
        sl_text_writer_string(writer, r->headers[i].value);
    }
    sl_text_writer_raw(writer, SL_STR("}"));
}

static void write_message(struct sl_text_writer *writer,
                          const struct sl_decision *d)
{
    sl_text_writer_raw(writer, MEMBER("message"));
    if (d->allowed) {
        write_null(writer);
        return;
    }
    sl_text_writer_raw(writer, SL_STR("\""));
    sl_message_write(d, writer);
    sl_text_writer_raw(writer, SL_STR("\""));
}

/* What /v1/explain says beyond the verdict. */
static void write_explanation(struct sl_text_writer *writer,
                              const struct sl_decision *d)
{
    struct sl_buf text = begin_text(writer, TEXT_MAX);

    sl_text_writer_raw(writer, MEMBER("plan"));
    sl_text_writer_string(writer, sl_decision_plan(d));
    sl_text_writer_raw(writer, MEMBER("route"));
    sl_text_writer_string(writer, d->route->text);
    sl_text_writer_raw(writer, MEMBER("endpoint"));
    sl_text_writer_string(writer, d->route->endpoint);
    sl_text_writer_raw(writer, MEMBER("token_fault"));
    write_string_if(writer, d->token_fault != SL_TOKEN_GOOD,
                    sl_str_c(sl_token_error_word(d->token_fault)));
    sl_text_writer_raw(writer, MEMBER("explain"));
    end_text(writer, &text, sl_explain(d, &text));
}

static void write_verdict(struct sl_text_writer *writer,
                          const struct sl_decision *d,
                          const struct sl_rendered *r, bool explain)
{
    struct sl_str by = {"", 0};

    if (d->by >= 0)
        by = d->shown[d->by].rule->name;
    sl_text_writer_raw(writer, SL_STR("{\"allowed\":"));
    write_bool(writer, d->allowed);
    sl_text_writer_raw(writer, MEMBER("status"));
    sl_text_writer_number(writer, (uint64_t)r->status);
    sl_text_writer_raw(writer, MEMBER("code"));
    write_string_if(writer, d->code.len > 0, d->code);
    write_message(writer, d);
    sl_text_writer_raw(writer, MEMBER("by"));
    write_string_if(writer, d->by >= 0, by);
    sl_text_writer_raw(writer, MEMBER("retry_after_ms"));
    write_ms(writer, sl_decision_retry_in(d));
    sl_text_writer_raw(writer, MEMBER("request_id"));
    sl_text_writer_string(writer, sl_str_c(d->request_id));
    sl_text_writer_raw(writer, MEMBER("degraded"));
    write_bool(writer, d->degraded);
    sl_text_writer_raw(writer, MEMBER("hold"));
    write_string_if(writer, d->hold[0] != '\0', sl_str_c(d->hold));
    if (d->hold[0]) {
        sl_text_writer_raw(writer, MEMBER("hold_expires_ms"));
        write_ms(writer, d->hold_for);
    }
    write_limits(writer, d, explain);
    write_headers(writer, r);
    sl_text_writer_raw(writer, MEMBER("body"));
    if (r->body.len > 0)
        sl_text_writer_raw(writer, r->body);
    else
        write_null(writer);
    if (explain)
        write_explanation(writer, d);
    sl_text_writer_raw(writer, SL_STR("}"));
}

static int render(const struct sl_decision *decision,
                  const struct sl_rendered *rendered, bool explain,
                  struct sl_buf *out)
{
    struct sl_text_writer writer = {.out = out, .json = true};
    size_t before = out->len;

    write_verdict(&writer, decision, rendered, explain);
    if (writer.err)
        out->len = before;
    return writer.err;
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
    struct sl_text_writer writer = {.out = out, .json = true};
    size_t before = out->len;

    write_limit(&writer, decision, shown, true);
    if (writer.err)
        out->len = before;
    return writer.err;
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
