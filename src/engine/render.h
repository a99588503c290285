/* render.h -- a decision as status, headers and body.
 *
 * Everything that goes into a header was checked when the policy was read or
 * is cleaned here; nothing that a client sent can end a line or a string.
 */
#ifndef SL_ENGINE_RENDER_H
#define SL_ENGINE_RENDER_H

#include <string.h>

#include "base/str.h"
#include "base/timestamp.h"
#include "engine/decision.h"
#include "wire/json.h"

#define SL_HEADERS 40 /* the most that one answer has */

struct sl_out_header {
    struct sl_str name;  /* as it is sent: "X-RateLimit-Limit" */
    struct sl_str value; /* visible ASCII and blanks */
};

/* What to send. The texts live in `buf`. */
struct sl_rendered {
    int status;
    struct sl_out_header headers[SL_HEADERS];
    unsigned header_count;
    /* Both with a NUL behind them, which is not counted. */
    struct sl_str content_type; /* "" when there is no body */
    struct sl_str body;         /* JSON on one line; "" when allowed */
};

/* Headers and body of a decision. `arena` gets the texts and must outlive
 * `ret`. SLUICE_ENOMEM or SLUICE_EFULL; then *ret is not_limited. */
SL_MUST_USE int sl_render(const struct sl_decision *decision,
                          struct sl_arena *arena, struct sl_rendered *ret);

/* The verdict as the JSON of /v1/check, appended to `out`, on one line:
 * {"allowed":false,"status":429,"code":"RATE_LIMITED","message":"...","by":
 * "ai-minute","retry_after_ms":12000,"request_id":"...","degraded":false,
 * "hold":null,"limits":[{"name":...,"kind":...,"plan":...,"scope":...,
 * "limit":5,"burst":8,"remaining":0,"reset_ms":96000,"retry_after_ms":12000,
 * "mode":"enforce","allowed":false}],"headers":{...},"body":{...}} */
SL_MUST_USE int sl_render_verdict(const struct sl_decision *decision,
                                  const struct sl_rendered *rendered,
                                  struct sl_buf *out);

/* The same for /v1/explain, which says everything: each limit has a "key", and
 * behind the body come "plan", "route", "endpoint" and the text of
 * engine/render.h as "explain". */
SL_MUST_USE int sl_render_explained(const struct sl_decision *decision,
                                    const struct sl_rendered *rendered,
                                    struct sl_buf *out);

/* One of its limits alone, as /v1/explain has it. */
SL_MUST_USE int sl_render_limit(const struct sl_decision *decision,
                                const struct sl_limit_view *shown,
                                struct sl_buf *out);

/* The sentence of a denial: the rule's message with its placeholders filled
 * in, or the default for its reason. "" when allowed. */
SL_MUST_USE int sl_render_message(const struct sl_decision *decision,
                                  struct sl_buf *out);

/* ---- what of a decision is shown to clients: numbers, spans, words.
 *
 * Headers, bodies, messages and the verdict all read a decision through here,
 * so that they never tell two stories.
 *
 * Rounding: whatever says when to come back is rounded up; coming at the time
 * that was named is never too early.
 */

/* Has the limit numbers for this caller? */
bool sl_limit_view_limited(const struct sl_limit_view *shown);

/* Has the store said what is left of it? Not if it failed, or was not asked
 * since the request was refused before. */
bool sl_limit_view_answered(const struct sl_limit_view *shown);

/* The configured count, and the most that can be taken at once. */
uint64_t sl_limit_view_count(const struct sl_limit_view *shown);
uint64_t sl_limit_view_capacity(const struct sl_limit_view *shown);

/* Until the reset, as the route wants it shown (`reset: full | next`);
 * SL_NS_NONE if there is none. */
sl_ns sl_limit_view_reset_in(const struct sl_decision *decision,
                             const struct sl_limit_view *shown);

/* Enforced, and it refuses. Only where a limit is the reason. */
bool sl_decision_view_denies(const struct sl_decision *decision,
                             const struct sl_limit_view *shown);

/* The limit that a denial is about: the one that refused, or the one that the
 * plan lacks; NULL if it is about none. */
const struct sl_limit_view *
sl_decision_about(const struct sl_decision *decision);

/* The plan of the caller. */
struct sl_str sl_decision_plan(const struct sl_decision *decision);

/* The switched-off feature, if that is the reason; else NULL. */
const struct sl_feature *
sl_decision_feature(const struct sl_decision *decision);

/* Until the same request passes; SL_NS_NONE if it passed or never will. */
sl_ns sl_decision_retry_in(const struct sl_decision *decision);

/* The same in whole seconds, at least 1, as Retry-After has it. */
uint64_t sl_retry_seconds(sl_ns retry_in);

/* span / unit, rounded up. Negative spans are 0. */
static inline uint64_t sl_span_in(sl_ns span, sl_ns unit)
{
    return span <= 0 ? 0 : ((uint64_t)span - 1) / (uint64_t)unit + 1;
}

/* How its denial is told, and the status that it ends with: that of the form
 * if it has one and is the form for the decision's status. A status that no
 * form is for (418) is told by that of 429 and stays as it is. */
const struct sl_error_form *sl_decision_form(const struct sl_decision *d);
int sl_decision_status(const struct sl_decision *decision);

/* What a placeholder stands for. */
enum sl_placeholder_kind {
    SL_VALUE_NONE,
    SL_VALUE_NUMBER,
    SL_VALUE_TEXT,
    SL_VALUE_MESSAGE, /* what sl_render_message() writes */
};

struct sl_placeholder_value {
    enum sl_placeholder_kind kind;
    uint64_t number;
    struct sl_str text; /* perhaps in `room`: the value must stay in place */
    bool is_number;     /* also if there is none */
    char room[SL_TIMESTAMP_TEXT];
};

void sl_placeholder_value_of(const struct sl_decision *decision,
                             enum sl_placeholder holder,
                             struct sl_placeholder_value *ret);

/* ---- writing into a buffer, once as text and once inside of JSON.
 *
 * A message is plain text in the library's answer and the inside of a string
 * in a body. Both are written by the same code into an ink that escapes or
 * does not. The first failure stays in `err` and makes everything after it do
 * nothing, so that it is asked for once, at the end.
 */

struct sl_text_writer {
    struct sl_buf *out;
    bool json; /* texts are escaped */
    int err;
};

/* Bytes as they are: JSON of our own making. Mostly there is room, and then a
 * literal is a few moves. */
static inline void sl_text_writer_raw(struct sl_text_writer *writer,
                                      struct sl_str bytes)
{
    struct sl_buf *out = writer->out;

    if (writer->err || bytes.len == 0)
        return;
    if (bytes.len > out->size - out->len) {
        writer->err = sl_buf_add(out, bytes);
        return;
    }
    memcpy(out->bytes + out->len, bytes.at, bytes.len);
    out->len += bytes.len;
}

/* Text; anybody's. */
static inline void sl_text_writer_text(struct sl_text_writer *writer,
                                       struct sl_str text)
{
    if (!writer->err)
        writer->err = writer->json ? sl_json_inside(writer->out, text)
                                   : sl_buf_add(writer->out, text);
}

/* A JSON string, quotes included. */
static inline void sl_text_writer_string(struct sl_text_writer *writer,
                                         struct sl_str text)
{
    if (!writer->err)
        writer->err = sl_json_string(writer->out, text);
}

static inline void sl_text_writer_number(struct sl_text_writer *writer,
                                         uint64_t number)
{
    if (!writer->err)
        writer->err = sl_json_number(writer->out, number);
}

/* ---- the sentence of a denial, and how a body shows values.
 */

/* Write the message; nothing if the decision allows. */
void sl_message_write(const struct sl_decision *decision,
                      struct sl_text_writer *writer);

/* Our own sentence where a guard refused, but for when to come again. */
void sl_precheck_message(const struct sl_decision *decision,
                         struct sl_text_writer *writer);

/* Write a placeholder's value as text. Without one, a number is 0 and a text
 * is empty. */
void sl_placeholder_value_write(const struct sl_decision *decision,
                                enum sl_placeholder holder,
                                struct sl_text_writer *writer);

/* Append the JSON body of a denial. */
SL_MUST_USE int sl_message_body_write(const struct sl_decision *decision,
                                      struct sl_buf *out);

/* ---- the headers of one answer, while they are written.
 *
 * Values are written one after the other into a piece of memory that is known
 * to be large enough; should it not be, `full` says so and nothing is written
 * past its end. A name is sent once: whoever comes second is left out.
 *
 * Every answer comes by here, so what is short is inline: a literal is then
 * written by a store or two.
 */

/* The largest integer of structured fields (RFC 9651); no header says more. */
#define SL_HEADERS_MAX UINT64_C(999999999999999)

struct sl_header_writer {
    struct sl_out_header list[SL_HEADERS];
    unsigned count;
    uint64_t seen; /* a bit for each name; the same for some others */
    char *at, *end;
    bool full;
};

static inline void sl_headers_bytes(struct sl_header_writer *head,
                                    struct sl_str bytes)
{
    if ((size_t)(head->end - head->at) < bytes.len) {
        head->full = true;
        return;
    }
    if (bytes.len > 0)
        memcpy(head->at, bytes.at, bytes.len);
    head->at += bytes.len;
}

static inline void sl_headers_digits(struct sl_header_writer *head,
                                     uint64_t number)
{
    if (head->end - head->at < SL_DIGITS) {
        head->full = true;
        return;
    }
    head->at +=
        sl_digits(number < SL_HEADERS_MAX ? number : SL_HEADERS_MAX, head->at);
}

/* A name's bit in `seen`: the same for names that are equal but for their case,
 * and rarely for others. */
static inline uint64_t sl_headers_bit(struct sl_str name)
{
    unsigned letter = (unsigned char)name.at[name.len - 3] | 0x20U;

    return UINT64_C(1) << ((name.len + 5 * letter) & 63);
}

/* For the next one alone: is the name there? */
bool sl_headers_has(const struct sl_header_writer *head, struct sl_str name);

/* Begin a header; false if its name was sent already. `name` is borrowed, and
 * has three letters at least. */
static inline bool sl_headers_begin(struct sl_header_writer *head,
                                    struct sl_str name)
{
    uint64_t bit = sl_headers_bit(name);

    if ((head->seen & bit) && sl_headers_has(head, name))
        return false;
    if (head->count == SL_HEADERS) {
        head->full = true;
        return false;
    }
    head->seen |= bit;
    head->list[head->count].name = name;
    head->list[head->count].value.at = head->at;
    return true;
}

static inline void sl_headers_end(struct sl_header_writer *head)
{
    struct sl_str *value = &head->list[head->count++].value;

    value->len = (size_t)(head->at - value->at);
}

/* A whole one. */
static inline void sl_headers_number(struct sl_header_writer *head,
                                     struct sl_str name, uint64_t number)
{
    if (!sl_headers_begin(head, name))
        return;
    sl_headers_digits(head, number);
    sl_headers_end(head);
}

/* Anybody's text, made fit for a header. As it is if all its bytes are visible
 * ASCII; otherwise every byte that is not, and every '%', is %xx. */
void sl_headers_clean(struct sl_header_writer *head, struct sl_str text);

/* The same as a String of structured fields: in quotes, with a backslash before
 * quotes and backslashes; blanks may stay. */
void sl_headers_string(struct sl_header_writer *head, struct sl_str text);

/* All headers of a decision, without those of a body. */
void sl_headers_write(struct sl_header_writer *head,
                      const struct sl_decision *decision);

/* Bytes that the values of a decision's headers may need. */
size_t sl_headers_room(const struct sl_decision *decision);

/* The headers that tell of limits, in all dialects that are wanted; and how
 * many there are at most. */
void sl_headers_dialects(struct sl_header_writer *head,
                         const struct sl_decision *decision);
unsigned sl_dialect_fields(const struct sl_decision *decision);

/* ---- a decision for people, in some lines.
 *
 *     verdict  429 by ai-minute: come back in 12s, at 1970-01-01T00:00:12Z
 *     route    /api/v1/ai/(...), line 31; endpoint ai
 *     caller   user ann; plan free
 *     limit    ai-daily: 50/24h, 42 left, full again in 3h50m
 *              token-bucket for user ann, key sluice:prod:ai-daily:user:ann
 *     ...
 */

/* Append it. SLUICE_ENOMEM or SLUICE_EFULL: some of it may be there. */
SL_MUST_USE int sl_explain(const struct sl_decision *decision,
                           struct sl_buf *out);

#endif
