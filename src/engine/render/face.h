/* face.h -- what of a decision is shown to clients: numbers, spans, words.
 *
 * Headers, bodies, messages and the verdict all read a decision through here,
 * so that they never tell two stories.
 *
 * Rounding: whatever says when to come back is rounded up; coming at the time
 * that was named is never too early.
 */
#ifndef SL_ENGINE_FACE_H
#define SL_ENGINE_FACE_H

#include "base/timestamp.h"
#include "engine/decision.h"

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

#endif
