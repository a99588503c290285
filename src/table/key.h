/* key.h -- keys as fingerprints, and where they may be found. */
#ifndef SL_KEY_H
#define SL_KEY_H

#include "table/slot.h"
#include "table/table.h"

/* The fingerprint of a part's key under its limit, and its buckets. */
void sl_slot_key_hash(const struct sl_table *table, const struct sl_part *part,
                      struct sl_slot_key *ret);

/* The same from what was remembered of it: the limit's number and the hash. */
void sl_slot_key_again(const struct sl_region *r, uint64_t id,
                       struct sl_hash128 h, struct sl_slot_key *ret);

/* The bucket that is choice number 0, 1, ... < SL_CHOICES. Few keys ever ask
 * for the later ones. */
uint64_t sl_slot_key_bucket(const struct sl_region *r,
                            const struct sl_slot_key *key, unsigned choice);

/* Ask for the first or second line (0, 1) of a bucket. */
static inline void sl_slot_key_prefetch(const struct sl_table *table,
                                        uint64_t bucket, unsigned line)
{
    const char *at = (const char *)sl_region_bucket(&table->region, bucket);

    __builtin_prefetch(at + line * UINT64_C(64), 1);
}

/* Which slot has its tag in the first line of the bucket and carries `tag`;
 * SL_SLOTS if none does. Without branches, for nobody can guess which it is. */
static inline unsigned sl_slot_key_in_line(const struct sl_bucket *b,
                                           uint64_t tag)
{
    unsigned found = SL_SLOTS;

    for (unsigned i = 0; i < 3; i++)
        found = atomic_load_explicit(&b->word[sl_tag_word(i)],
                                     memory_order_relaxed) == tag
                    ? i
                    : found;
    return found;
}

/* The slot in `bucket` that carries `tag`, if there is one. */
bool sl_slot_key_find_in(const struct sl_region *r, uint64_t bucket,
                         uint64_t tag, struct sl_slot *ret);

/* Where the key is, in whichever of its buckets. If it is nowhere, *head is
 * the head of its first bucket when that was so: while it stays, the key has
 * not been added. */
bool sl_slot_key_find(const struct sl_intent *intent,
                      const struct sl_slot_key *key, struct sl_slot *ret,
                      uint64_t *head);

#endif
