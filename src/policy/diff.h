/* diff.h -- what a new policy changes, for those who have just loaded it.
 *
 * One line for each change: first what is said of the whole, then limits,
 * plans, routes, features and identity:
 *
 *     ai-minute free 5/min -> 10/min; usage kept
 *     limit search added
 *     limit exports: kind fixed-window -> quota; starts afresh
 *     route GET /api/search: limits [search] -> [search, api]
 *
 * What was used belongs to a limit's name, kind, `per` and period; whoever
 * changes one of these begins again, and is told.
 */
#ifndef SL_POLICY_DIFF_H
#define SL_POLICY_DIFF_H

#include "policy/policy.h"

/* Append the lines, each with a newline behind it; none if the two decide
 * alike. `server` is not looked at: the daemon knows which of its settings it
 * can change. SLUICE_ENOMEM or SLUICE_EFULL; then `out` has some of them. */
SL_MUST_USE int sl_policy_diff(const struct sl_policy *old,
                               const struct sl_policy *new, struct sl_buf *out);

/* Append the rate of a plan as a policy writes it: "5/min burst 8",
 * "120/month", "unlimited". */
SL_MUST_USE int sl_rate_print(const struct sl_plan_limit *limit,
                              struct sl_buf *out);

/* ---- between the files of the diff ---- */

/* Lines are put together here; after a failure nothing more is said. */
struct sl_changes {
    const struct sl_policy *old, *new;
    struct sl_buf *out;
    int err;
};

void sl_diff_line(struct sl_changes *c, const char *fmt, ...) SL_PRINTF(2, 3);

/* What `new` does to the limits (diff_limits.c). */
void sl_changes_limits(struct sl_changes *c);

bool sl_template_same(const struct sl_template *a, const struct sl_template *b);

#endif
