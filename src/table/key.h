/* key.h -- keys as fingerprints, and where they may be found. */
#ifndef SL_KEY_H
#define SL_KEY_H

#include "table/slot.h"
#include "table/table.h"

/* The fingerprint of a part's key under its limit, and its buckets. */
void sl_key_hash(const struct sl_table *table, const struct sl_part *part,
                 struct sl_key *ret);

/* Ask for the first or second line (0, 1) of a bucket. */
void sl_key_prefetch(const struct sl_table *table, uint64_t bucket,
                     unsigned line);

/* The slot in `bucket` that carries `tag`, if there is one. */
bool sl_key_find_in(const struct sl_region *r, uint64_t bucket, uint64_t tag,
                    struct sl_slot *ret);

/* Where the key is, in whichever of its buckets. If it is nowhere, *head is
 * the head of its first bucket when that was so: while it stays, the key has
 * not been added. */
bool sl_key_find(const struct sl_intent *intent, const struct sl_key *key,
                 struct sl_slot *ret, uint64_t *head);

#endif
