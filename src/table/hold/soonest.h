/* soonest.h -- when permits come back.
 *
 * Whoever is refused a permit is told when enough of them expire. Holds are not
 * kept by key, so all of them are looked through; but most of them at a glance:
 * the two spare words of a row of heads (region.h) have sixteen bits for each
 * record, a sign of the key whose permit it holds. Those of other keys, and
 * those that hold none, are passed by.
 */
#ifndef SL_SOONEST_H
#define SL_SOONEST_H

#include "table/hold/record.h"

/* Sign a record that this actor has claimed, before it is held. */
void sl_hold_record_sign(const struct sl_region *r,
                         const struct sl_hold_record *record);

/* How long until so many permits of `key` have expired that `cost` of
 * `capacity` are free; SL_NS_NONE if they never do, or if looking for it would
 * take too long (BLOCKS_MOST and READ_MOST in soonest.c). */
sl_ns sl_holds_soonest(struct sl_set *set, const struct sl_key *key,
                       uint64_t capacity, uint64_t cost);

#endif
