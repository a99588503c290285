/* stores.h -- what a policy needs that not every store has: holds.
 *
 * Permits and guards are holds: they come back when whoever has them is done,
 * or is silent for too long. In a store without holds a permit would stay taken
 * for good, so such a policy is refused when it is loaded.
 */
#ifndef SL_POLICY_STORES_H
#define SL_POLICY_STORES_H

#include "policy/policy.h"

/* Can the policy be kept in a store without holds? SLUICE_ECONF with a
 * sentence, and *place is where the first thing stands that can't. */
SL_MUST_USE int sl_store_support_check(const struct sl_policy *policy,
                                       struct sl_source_pos *place,
                                       struct sl_diag *diag);

/* Is that the URL of a store without holds? */
bool sl_store_support_lacks_holds(struct sl_str store);

#endif
