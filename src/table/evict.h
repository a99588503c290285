/* evict.h -- who gives way when a new key needs a slot.
 *
 * There is no expiry list and no sweeper thread: a cell itself says when
 * nothing is owed any more, and such a cell is free space. A new key looks
 * through its four buckets and takes
 *
 *   1. an empty slot, or one whose cell owes nothing;
 *   2. else a cell that owes little: a quarter of its capacity at most. What
 *      it owed is forgiven, and counted;
 *   3. else nothing: the caller's `on_full` decides.
 *
 * A drained cell, a quota, a level and a permit never give way while they
 * count, so no flood of keys washes out a key that is being held back, even
 * if the flood's own keys are all drained.
 *
 * Each limit has slots reserved. Beyond them it shares the rest of the table
 * with the others; when that is used up, a limit that is beyond its reserve
 * may only replace.
 */
#ifndef SL_EVICT_H
#define SL_EVICT_H

#include "core/limit.h"
#include "table/slot.h"

enum sl_evict_class {
    SL_EVICT_OWES_NOTHING,
    SL_EVICT_OWES_LITTLE,
    SL_EVICT_OWES
};

/* What a cell owes, judged by the strictest plan of its limit. */
enum sl_evict_class sl_evict_class(const struct sl_region *r, uint64_t tag,
                                   struct sl_cell cell, sl_ns now);

/* A limit from what the region keeps of it. No calendar is in it, and its
 * capacity is one that no plan exceeds. */
struct sl_limit sl_limit_from(const struct sl_limit_entry *e);

/* A slot that may be given to a new key. */
struct sl_free_slot {
    struct sl_slot slot;
    uint64_t tag;        /* what it carries now; 0 = empty */
    struct sl_cell cell; /* as it is now, generation included */
    bool live;           /* it owes something */
    unsigned choice;     /* which of the key's buckets */
};

/* Find a slot for `key`, passing over those in `taken` (slots that the same
 * change already uses). False if there is none. */
bool sl_evict_find(struct sl_intent *intent, const struct sl_slot_key *key,
                   const struct sl_slot *taken, unsigned count, sl_ns now,
                   struct sl_free_slot *ret);

/* Keep the books after a slot went from one tag to another (0 = empty). */
void sl_account(const struct sl_region *r, uint64_t from, uint64_t to);

/* Count the books anew; only while nobody else uses the region. */
void sl_recount(const struct sl_region *r);

/* Empty slots that owe nothing, in the next `buckets` buckets from where the
 * last sweep stopped. Returns how many were emptied. */
unsigned sl_sweep(struct sl_intent *intent, unsigned buckets, sl_ns now);

#endif
