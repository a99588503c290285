/* render.h -- a decision as status, headers and body.
 *
 * Everything that goes into a header was checked when the policy was read or
 * is cleaned here; nothing that a client sent can end a line or a string.
 */
#ifndef SL_RENDER_H
#define SL_RENDER_H

#include "engine/decision.h"

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
 * `ret`. SLUICE_ENOMEM or SLUICE_EFULL; then *ret is untouched. */
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
 * engine/explain.h as "explain". */
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

#endif
