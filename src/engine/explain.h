/* explain.h -- a decision for people, in some lines.
 *
 *     verdict  429 by ai-minute: come back in 12s, at 1970-01-01T00:00:12Z
 *     route    /api/v1/ai/(...), line 31; endpoint ai
 *     caller   user ann; plan free
 *     limit    ai-daily: 50/24h, 42 left, full again in 3h50m
 *              token-bucket for user ann, key sluice:prod:ai-daily:user:ann
 *     ...
 */
#ifndef SL_EXPLAIN_H
#define SL_EXPLAIN_H

#include "engine/decision.h"

/* Append it. SLUICE_ENOMEM or SLUICE_EFULL: some of it may be there. */
SL_MUST_USE int sl_explain(const struct sl_decision *decision,
                           struct sl_buf *out);

#endif
