/* slots.h -- where the states of a policy lie in a Redis Cluster.
 *
 * A cluster takes a set in one step only if all of its names lie in one slot,
 * and a slot is chosen by what stands in braces in a name. So each limit has a
 * value that is put in braces there: one that it shares with the limits that
 * it is taken with, if there is one.
 *
 *     per: org           ratelimit:tenant:{acme}
 *     per: [org, user]   ratelimit:user:{acme}:ann
 *
 * Elsewhere there are no braces, and names are as the templates have them.
 */
#ifndef SL_SLOTS_H
#define SL_SLOTS_H

#include "policy/policy.h"

/* Choose rule->tag of all rules, by the routes that need them together.
 * SLUICE_ENOMEM if `scratch` has no room. */
SL_MUST_USE int sl_slots_choose(const struct sl_policy *policy,
                                struct sl_rule *rules,
                                struct sl_arena *scratch);

/* Can the policy be kept on a cluster? SLUICE_ECONF with a sentence, and *place
 * is where the first thing stands that can't. */
SL_MUST_USE int sl_slots_check(const struct sl_policy *policy,
                               struct sl_source_pos *place,
                               struct sl_diag *diag);

/* Is that the URL of a cluster? */
bool sl_slots_wanted(struct sl_str store);

#endif
