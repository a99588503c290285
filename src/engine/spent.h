/* spent.h -- what a decision took of quotas and levels, for the books. */
#ifndef SL_USAGE_DELTA_H
#define SL_USAGE_DELTA_H

#include "engine/decision.h"
#include "identity/meter.h"

/* When the period began that `now` lies in. What has no period of its own
 * (buckets) is counted by days in UTC; levels have none: 0. */
sl_ns sl_rule_start(const struct sl_rule *rule, const struct sl_limit *numbers,
                    sl_ns now);

/* What the books call a shown limit; `values` has SL_PER_MAX of room. The rest
 * is empty. */
void sl_usage_report_of(const struct sl_decision *decision,
                        const struct sl_limit_view *shown,
                        struct sl_str *values, struct sl_usage_delta *ret);

/* Tell `meter` what was taken by a decision that is made; or, if `reset`, that
 * nothing was. NULL is allowed. */
void sl_usage_report_send(struct sl_usage_sink *meter,
                          const struct sl_decision *decision, bool reset);

/* A hold has ended or was extended: tell the station's meter. */
struct sl_hold_op;
void sl_usage_report_hold_end(const struct sl_hold_op *ask);

/* After a start: let the table know of `used` units that the books have for
 * these values, if it has less; if it has more, give back what it is still
 * owed: an amount below 0. Only what is of the period of `now` counts, and
 * limits that the policy still has. On a store that answers at once. */
struct sl_engine;
void sl_usage_report_restore(struct sl_engine *engine,
                             const struct sl_usage_delta *spent, uint64_t used,
                             sl_ns now);

/* What the table has of these values in the period that began at spent->start,
 * or in the last one in which anything was taken. False if the policy has no
 * such limit. */
SL_MUST_USE bool sl_usage_report_look(struct sl_engine *engine,
                                      const struct sl_usage_delta *spent,
                                      sl_ns now, uint64_t *ret);

#endif
