/* soonest.h -- when permits come back.
 *
 * Whoever is refused a permit is told when enough of them expire. Holds are not
 * kept by key, so all of them are looked through; but most of them at a glance:
 * the two spare words of a row of heads (region.h) have sixteen bits for each
 * record, a sign of the key whose permit it holds. Those of other keys, and
 * those that hold none, are passed by.
 *
 * Whoever is refused comes again, so what was found is remembered in this
 * process: which record it was, with a sum over it, the key's cell, and what
 * was asked. It counts while all of that is the same and no hold of the key was
 * begun, extended or ended in this process, for an instant (EPOCH): in another
 * process one may have been.
 */
#ifndef SL_PERMIT_ETA_H
#define SL_PERMIT_ETA_H

#include "table/hold_record.h"

/* Sign a record that this actor has claimed, before it is held. */
void sl_hold_record_sign(const struct sl_region *r,
                         const struct sl_hold_record *record);

/* A hold of the key's permits has begun or ended, or expires at another time
 * than it did: what is remembered does not count, nor what is found by somebody
 * who has begun to look before this. */
void sl_permit_eta_forget(struct sl_table *table,
                          const struct sl_slot_key *key);

/* How long until so many permits of `key` have expired that `cost` of
 * `capacity` are free; SL_NS_NONE if they never do, or if looking for it would
 * take too long (BLOCKS_MOST and READ_MOST in soonest.c). */
sl_ns sl_holds_soonest(struct sl_set *set, const struct sl_slot_key *key,
                       uint64_t capacity, uint64_t cost);

#endif
