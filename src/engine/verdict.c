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

/* ---- values in reserved memory.
 *
 * The caller has reserved the memory. Each returns the position behind what it
 * wrote. MEMBER() begins a member: `,"name":`.
 */

#define MEMBER(to, name) SL_PUT(to, ",\"" name "\":")

static inline char *put_flag(char *to, bool flag)
{
    return flag ? SL_PUT(to, "true") : SL_PUT(to, "false");
}

static inline char *put_uint_if(char *to, bool known, uint64_t number)
{
    return known ? sl_json_put_number(to, number) : SL_PUT(to, "null");
}

/* A span in milliseconds, rounded up; SL_NS_NONE is unknown. */
static inline char *put_ms(char *to, sl_ns span)
{
    return put_uint_if(to, span >= 0, sl_span_in(span, SL_MS));
}

static char *put_str_if(char *to, bool known, struct sl_str text)
{
    return known ? sl_json_put_string(to, text) : SL_PUT(to, "null");
}

/* ---- limits ---- */

/* The names of put_limit(), and its numbers. */
#define LIMIT_ROOM ((size_t)320)

/* {"name":"ai-minute","kind":"token-bucket","plan":"free","scope": */
static int add_head(const struct sl_rule *rule, struct sl_str plan,
                    struct sl_buf *out)
{
    struct sl_writer w = {.out = out};

    sl_member_str(&w, SL_STR("{\"name\":"), rule->name);
    sl_member_str(&w, SL_MEMBER("kind"), sl_str_c(sl_kind_name(rule->kind)));
    sl_member_str(&w, SL_MEMBER("plan"), plan);
    sl_writer_add(&w, SL_MEMBER("scope"));
    return w.err;
}

static char *put_numbers(char *to, const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;
    bool limited = sl_limit_view_limited(shown);
    bool answered = sl_limit_view_answered(shown);

    to = put_uint_if(MEMBER(to, "limit"), limited,
                     limited ? sl_limit_view_count(shown) : 0);
    to = put_uint_if(MEMBER(to, "burst"), limited,
                     limited ? sl_limit_view_capacity(shown) : 0);
    to = put_uint_if(MEMBER(to, "remaining"), answered,
                     answered ? sl_limit_view_remaining(shown) : 0);
    to = put_ms(MEMBER(to, "reset_ms"), answered ? a->reset_in : SL_NS_NONE);
    return put_ms(MEMBER(to, "retry_after_ms"),
                  answered && a->outcome == SL_DENY ? a->retry_in : SL_NS_NONE);
}

/* All that a limit has, without its rare members and the brace. */
static void write_usual(struct sl_writer *w, const struct sl_decision *d,
                        const struct sl_limit_view *shown)
{
    const struct sl_limit_texts *texts = sl_limit_texts_of(d, shown);
    struct sl_buf *out = w->out;
    char *to;

    if (!w->err && !texts)
        w->err = add_head(shown->rule, shown->plan_name, out);
    if (!w->err)
        w->err =
            sl_buf_reserve(out, LIMIT_ROOM + (texts ? texts->head.len : 0) +
                                    SL_JSON_ROOM(shown->scope.len));
    if (w->err)
        return;
    to = out->bytes + out->len;
    if (texts)
        to = sl_str_put(to, texts->head);
    to = sl_json_put_string(to, shown->scope);
    to = put_numbers(to, shown);
    to = MEMBER(to, "mode");
    to = shown->mode == SL_MODE_ENFORCE
             ? SL_PUT(to, "\"enforce\"")
             : sl_json_put_string(to, sl_str_c(sl_mode_words[shown->mode]));
    to = put_flag(MEMBER(to, "allowed"), shown->allowed);
    out->len = (size_t)(to - out->bytes);
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

    write_usual(w, d, shown);
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

/* "NAME":"VALUE". Names are literals that need no escape. */
static char *put_header(char *to, const struct sl_out_header *header)
{
    *to++ = '"';
    to = sl_str_put(to, header->name);
    to = SL_PUT(to, "\":");
    if (!header->plain)
        return sl_json_put_string(to, header->value);
    *to++ = '"';
    to = sl_str_put(to, header->value);
    *to++ = '"';
    return to;
}

static size_t room_of(const struct sl_rendered *r)
{
    size_t room = 128 + SL_JSON_ROOM(r->content_type.len);

    for (unsigned i = 0; i < r->header_count; i++)
        room +=
            4 + r->headers[i].name.len + SL_JSON_ROOM(r->headers[i].value.len);
    return room;
}

/* The headers of the answer to the client, with the type of its body. A list
 * that the application may have, too, is in `append_headers`. */
static char *put_headers(char *to, const struct sl_rendered *r)
{
    static const struct sl_str list = {"Access-Control-Expose-Headers", 29};
    bool has_list = false;

    to = SL_PUT(to, ",\"headers\":{");
    if (r->body.len > 0) {
        to = SL_PUT(to, "\"Content-Type\":");
        to = sl_json_put_string(to, r->content_type);
    }
    for (unsigned i = 0; i < r->header_count; i++) {
        if (i > 0 || r->body.len > 0)
            *to++ = ',';
        to = put_header(to, &r->headers[i]);
        has_list = has_list || sl_str_eq(r->headers[i].name, list);
    }
    *to++ = '}';
    return has_list ? SL_PUT(to, ",\"append_headers\":["
                                 "\"Access-Control-Expose-Headers\"]")
                    : to;
}

static void write_headers(struct sl_writer *w, const struct sl_rendered *r)
{
    if (!w->err)
        w->err = sl_buf_reserve(w->out, room_of(r));
    if (!w->err)
        w->out->len = (size_t)(put_headers(w->out->bytes + w->out->len, r) -
                               w->out->bytes);
}

/* The names of write_front(), and its numbers. */
#define FRONT_ROOM ((size_t)256)

/* The members between the message and the limits. */
static char *put_cause(char *to, const struct sl_decision *d, struct sl_str by)
{
    bool held = d->hold[0] != '\0';

    to = put_str_if(MEMBER(to, "by"), d->by >= 0, by);
    to = put_ms(MEMBER(to, "retry_after_ms"), sl_decision_retry_in(d));
    to = sl_json_put_string(MEMBER(to, "request_id"), sl_str_c(d->request_id));
    to = put_flag(MEMBER(to, "degraded"), d->degraded);
    to = put_str_if(MEMBER(to, "hold"), held, sl_str_c(d->hold));
    return held ? put_ms(MEMBER(to, "hold_expires_ms"), d->hold_for) : to;
}

/* All members before the limits. Only the message may be long. */
static void write_front(struct sl_writer *w, const struct sl_decision *d,
                        const struct sl_rendered *r)
{
    struct sl_buf *out = w->out;
    struct sl_str by = {"", 0};
    char *to;

    if (d->by >= 0)
        by = d->shown[d->by].rule->name;
    w->err = sl_buf_reserve(out, FRONT_ROOM + SL_JSON_ROOM(d->code.len));
    if (w->err)
        return;
    to = put_flag(SL_PUT(out->bytes + out->len, "{\"allowed\":"), d->allowed);
    to = sl_json_put_number(MEMBER(to, "status"), (uint64_t)r->status);
    to = put_str_if(MEMBER(to, "code"), d->code.len > 0, d->code);
    out->len = (size_t)(to - out->bytes);
    sl_member_str_if(w, SL_MEMBER("message"), !d->allowed, r->message);
    if (!w->err)
        w->err = sl_buf_reserve(out, FRONT_ROOM + SL_JSON_ROOM(by.len) +
                                         SL_JSON_ROOM(SL_REQUEST_ID) +
                                         SL_JSON_ROOM(SL_HOLD_TEXT));
    if (!w->err)
        out->len =
            (size_t)(put_cause(out->bytes + out->len, d, by) - out->bytes);
}

int sl_render_verdict(const struct sl_decision *d, const struct sl_rendered *r,
                      bool explain, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};
    size_t before = out->len;

    write_front(&w, d, r);
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

/* ---- texts ---- */

#define TEXTS_MOST 4096 /* limits times plans; beyond, none are kept */

static bool make_texts(const struct sl_policy *policy, unsigned rule,
                       unsigned plan, struct sl_arena *arena,
                       struct sl_limit_texts *ret)
{
    const struct sl_rule *of = &policy->rules[rule];
    const struct sl_plan_limit *numbers = &of->plans[plan];
    struct sl_buf head;
    int err;

    sl_buf_init(&head, KEY_MAX, arena->alloc);
    err = add_head(of, policy->plans.list[plan].name, &head);
    ret->head = (struct sl_str){
        err ? NULL : sl_arena_copy(arena, sl_buf_str(&head)), head.len};
    sl_buf_done(&head);
    ret->policy = (struct sl_str){"", 0};
    if (ret->head.at && sl_rate_has_numbers(numbers->form))
        err = sl_render_policy(of, &numbers->numbers, arena, &ret->policy);
    return ret->head.at && !err;
}

struct sl_limit_texts *sl_render_texts(const struct sl_policy *policy,
                                       struct sl_arena *arena)
{
    unsigned plans = policy->plans.count;
    size_t count = (size_t)policy->rule_count * plans;
    struct sl_limit_texts *texts = NULL;

    if (count > 0 && count <= TEXTS_MOST)
        texts = sl_arena_take(arena, count * sizeof(*texts));
    for (unsigned i = 0; i < count && texts; i++)
        if (!make_texts(policy, i / plans, i % plans, arena, &texts[i]))
            texts = NULL;
    if (!texts)
        sl_arena_done(arena);
    return texts;
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
