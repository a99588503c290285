/* render.h -- a decision as status, headers, body, JSON and text.
 *
 * Bytes of a client are escaped or cleaned here. They never end a header line
 * or a JSON string.
 *
 * Rounding: a time at which to retry is rounded up, so that a retry at that
 * time is never too early. Of a unit with a scale, what is left is rounded
 * down, so that no more is shown than can be taken.
 */
#ifndef SL_ENGINE_RENDER_H
#define SL_ENGINE_RENDER_H

#include "base/timestamp.h"
#include "engine/decision.h"
#include "policy/policy.h"
#include "wire/json.h"

#define SL_HEADERS 40 /* of one answer, at most */

struct sl_out_header {
    struct sl_str name;  /* "X-RateLimit-Limit"; sl_render(): a constant */
    struct sl_str value; /* visible ASCII and blanks */
    bool plain;          /* neither quotes nor backslashes: JSON as it is */
};

/* What to send. */
struct sl_rendered {
    int status;
    struct sl_str message; /* see sl_render_message() */
    /* Both end with a NUL, which is not counted. */
    struct sl_str content_type; /* "" without a body */
    struct sl_str body;         /* JSON on one line; "" when allowed */
    unsigned header_count;
    struct sl_out_header headers[SL_HEADERS];
};

/* Renders a decision. `arena` holds the texts and must outlive `ret`. Returns
 * SLUICE_ENOMEM or SLUICE_EFULL; *ret is then unchanged. */
SL_MUST_USE int sl_render(const struct sl_decision *decision,
                          struct sl_arena *arena, struct sl_rendered *ret);

/* Appends the verdict as the JSON of /v1/check, on one line:
 * {"allowed":false,"status":429,"code":"RATE_LIMITED","message":"...","by":
 * "ai-minute","retry_after_ms":12000,"request_id":"...","degraded":false,
 * "hold":null,"limits":[{"name":...,"kind":...,"plan":...,"scope":...,
 * "limit":5,"burst":8,"remaining":0,"reset_ms":96000,"retry_after_ms":12000,
 * "mode":"enforce","allowed":false}],"headers":{...},"body":{...}}
 * With `explain`, as /v1/explain: each limit has a "key", and "plan", "route",
 * "endpoint", "token_fault" and "explain" follow the body. */
SL_MUST_USE int sl_render_verdict(const struct sl_decision *decision,
                                  const struct sl_rendered *rendered,
                                  bool explain, struct sl_buf *out);

/* Appends one limit, as /v1/explain has it. */
SL_MUST_USE int sl_render_limit(const struct sl_decision *decision,
                                const struct sl_limit_view *shown,
                                struct sl_buf *out);

/* Appends the message of a denial as plain text: the rule's own with its
 * placeholders filled in, or the default for its reason. Nothing if allowed. */
SL_MUST_USE int sl_render_message(const struct sl_decision *decision,
                                  struct sl_buf *out);

/* Appends the decision as text for people:
 *
 *     verdict  429 by ai-minute: retry in 12s, at 1970-01-01T00:00:12Z
 *     route    /api/v1/ai/(...), line 31; endpoint ai
 *     caller   user ann; plan free
 *     limit    ai-daily: 50/24h, cost 1, 42 left, reset in 3h 50m
 *              token-bucket for user ann, key sluice:prod:ai-daily:user:ann
 *
 * After SLUICE_ENOMEM or SLUICE_EFULL some of it may be there. */
SL_MUST_USE int sl_explain(const struct sl_decision *decision,
                           struct sl_buf *out);

/* ---- the parts of sl_render() ---- */

/* The headers, without those of the body; headers.c. */
SL_MUST_USE int sl_render_headers(const struct sl_decision *decision,
                                  struct sl_arena *arena,
                                  struct sl_rendered *ret);

/* The texts of all limits and plans of a policy, made once and then only read.
 * NULL if they are too many, or without memory. */
struct sl_limit_texts *sl_render_texts(const struct sl_policy *policy,
                                       struct sl_arena *arena);

/* Those of a limit of the decision; NULL: there are none. */
static inline const struct sl_limit_texts *
sl_limit_texts_of(const struct sl_decision *d,
                  const struct sl_limit_view *shown)
{
    unsigned index = shown->rule->index;

    return d->texts && index < d->policy->rule_count
               ? &d->texts[index * d->policy->plans.count + shown->plan]
               : NULL;
}

/* The item of a limit in RateLimit-Policy; headers.c. Returns SLUICE_ENOMEM,
 * or SLUICE_EFULL. */
SL_MUST_USE int sl_render_policy(const struct sl_rule *rule,
                                 const struct sl_limit *numbers,
                                 struct sl_arena *arena, struct sl_str *ret);

/* Appends the JSON body of a denial; message.c. */
SL_MUST_USE int sl_render_body(const struct sl_decision *decision,
                               struct sl_str message, struct sl_buf *out);

/* ---- what of a decision is shown; decision.c ---- */

/* Does the limit have numbers for this caller? */
bool sl_limit_view_limited(const struct sl_limit_view *shown);

/* Does it have the store's answer? Not if the store failed, or the request was
 * refused before. */
bool sl_limit_view_answered(const struct sl_limit_view *shown);

/* The configured count, the most that can be taken at once, and what is left,
 * in whole units of the policy. */
uint64_t sl_limit_view_count(const struct sl_limit_view *shown);
uint64_t sl_limit_view_capacity(const struct sl_limit_view *shown);
static inline uint64_t
sl_limit_view_remaining(const struct sl_limit_view *shown)
{
    return sl_rule_down(shown->rule, shown->answer.remaining);
}

/* The same in the counted unit; `answer` has what is left. */
uint64_t sl_limit_view_exact_count(const struct sl_limit_view *shown);
uint64_t sl_limit_view_exact_capacity(const struct sl_limit_view *shown);

/* Time until the reset that the route shows (`reset: full | next`);
 * SL_NS_NONE if there is none. */
sl_ns sl_limit_view_reset_in(const struct sl_decision *decision,
                             const struct sl_limit_view *shown);

/* Is it enforced, and does it deny? Only where a limit is the reason. */
bool sl_decision_view_denies(const struct sl_decision *decision,
                             const struct sl_limit_view *shown);

/* The limit that a denial is about: it denies, or the plan lacks it. NULL if
 * there is none. */
const struct sl_limit_view *
sl_decision_about(const struct sl_decision *decision);

/* The plan of the caller. */
struct sl_str sl_decision_plan(const struct sl_decision *decision);

/* The switched-off feature, if that is the reason; else NULL. */
const struct sl_feature *
sl_decision_feature(const struct sl_decision *decision);

/* Time until the same request passes; SL_NS_NONE if it passed or never will. */
sl_ns sl_decision_retry_in(const struct sl_decision *decision);

/* The same in whole seconds, at least 1, for Retry-After. */
uint64_t sl_retry_seconds(sl_ns retry_in);

/* span / unit, rounded up. Negative spans are 0. */
static inline uint64_t sl_span_in(sl_ns span, sl_ns unit)
{
    return span <= 0 ? 0 : ((uint64_t)span - 1) / (uint64_t)unit + 1;
}

/* The form of a denial, and the status that is sent: that of the form, if it
 * has one and is the form for the decision's status. A status without a form
 * (418) uses the form of 429 and stays as it is. */
const struct sl_error_form *sl_decision_form(const struct sl_decision *d);
int sl_decision_status(const struct sl_decision *decision);

/* ---- JSON members.
 *
 * `member` is a literal that ends with the colon, usually SL_MEMBER("name").
 * The `_if` functions write null instead of an unknown value.
 */

#define SL_MEMBER(name) SL_STR(",\"" name "\":")

static inline void sl_member_null(struct sl_writer *w, struct sl_str member)
{
    sl_writer_add(w, member);
    sl_writer_add(w, SL_STR("null"));
}

static inline void sl_member_flag(struct sl_writer *w, struct sl_str member,
                                  bool flag)
{
    sl_writer_add(w, member);
    sl_writer_add(w, flag ? SL_STR("true") : SL_STR("false"));
}

static inline void sl_member_str(struct sl_writer *w, struct sl_str member,
                                 struct sl_str text)
{
    sl_writer_add(w, member);
    if (!w->err)
        w->err = sl_json_string(w->out, text);
}

static inline void sl_member_str_if(struct sl_writer *w, struct sl_str member,
                                    bool known, struct sl_str text)
{
    if (known)
        sl_member_str(w, member, text);
    else
        sl_member_null(w, member);
}

static inline void sl_member_uint(struct sl_writer *w, struct sl_str member,
                                  uint64_t number)
{
    sl_writer_add(w, member);
    if (!w->err)
        w->err = sl_json_number(w->out, number);
}

static inline void sl_member_uint_if(struct sl_writer *w, struct sl_str member,
                                     bool known, uint64_t number)
{
    if (known)
        sl_member_uint(w, member, number);
    else
        sl_member_null(w, member);
}

/* Begins "exact": the numbers of a limit with a scale in the counted unit. The
 * caller adds them, and the brace. */
static inline void sl_member_exact(struct sl_writer *w,
                                   const struct sl_rule *rule)
{
    sl_member_str(w, SL_STR(",\"exact\":{\"unit\":"), rule->reports);
    sl_member_uint(w, SL_MEMBER("scale"), rule->options.scale);
}

/* A span in milliseconds, rounded up; SL_NS_NONE is unknown. */
static inline void sl_member_ms(struct sl_writer *w, struct sl_str member,
                                sl_ns span)
{
    sl_member_uint_if(w, member, span >= 0, sl_span_in(span, SL_MS));
}

#endif
