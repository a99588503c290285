/* check.h -- is what a region says possible?
 *
 * Whoever opens a file alone looks at all of it before he uses it: limits,
 * what was left half done, every slot. Afterwards nothing in it can lead
 * outside the region, divide by zero or wait for a lock that nobody holds.
 */
#ifndef SL_REGION_CHECK_H
#define SL_REGION_CHECK_H

#include "table/region.h"

/* The part of the head that never changes. */
SL_MUST_USE int sl_region_check_head(const struct sl_region *r,
                                     struct sl_diag *diag);

/* May what is in a file be used? Only who has it alone can look at all of it:
 * others would change it under his eyes. What was half done is brought to its
 * end, and the seal is broken. */
SL_MUST_USE int sl_region_validate(struct sl_region *r, bool alone,
                                   struct sl_diag *diag);

#endif
