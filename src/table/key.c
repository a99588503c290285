/* key.c -- keys as fingerprints, and where they may be found. */
#include "table/key.h"

#include "base/arith.h"

static uint64_t scale(uint64_t hash, uint64_t range)
{
    return (uint64_t)(((sl_u128)hash * range) >> 64);
}

void sl_slot_key_again(const struct sl_region *r, uint64_t id,
                       struct sl_hash128 h, struct sl_slot_key *ret)
{
    uint64_t buckets = sl_region_head(r)->buckets;
    uint64_t print = h.hi & ((UINT64_C(1) << SL_TAG_BITS) - 1);

    ret->tag = id << SL_TAG_BITS | (print ? print : 1);
    ret->bucket[0] = scale(h.lo, buckets);
    ret->bucket[1] = scale((h.lo << 32 | h.lo >> 32) ^ h.hi, buckets);
    ret->hash = h;
}

void sl_slot_key_hash(const struct sl_table *table, const struct sl_part *part,
                      struct sl_slot_key *ret)
{
    struct sl_hash128 print = part->print;

    if ((print.lo | print.hi) == 0)
        print = sl_table_fingerprint(part->of, part->key);
    sl_slot_key_again(&table->region, part->of->id, print, ret);
}

uint64_t sl_slot_key_bucket(const struct sl_region *r,
                            const struct sl_slot_key *key, unsigned choice)
{
    uint64_t buckets = sl_region_head(r)->buckets;

    if (choice == 2)
        return scale(key->hash.lo * UINT64_C(0x9e3779b97f4a7c15), buckets);
    if (choice == 3)
        return scale(key->hash.hi * UINT64_C(0xd1342543de82ef95), buckets);
    return key->bucket[choice];
}

bool sl_slot_key_find_in(const struct sl_region *r, uint64_t bucket,
                         uint64_t tag, struct sl_slot *ret)
{
    const struct sl_bucket *b = sl_region_bucket(r, bucket);

    for (unsigned i = 0; i < SL_SLOTS; i++)
        if (atomic_load_explicit(&b->word[sl_tag_word(i)],
                                 memory_order_acquire) == tag) {
            *ret = (struct sl_slot){bucket, i};
            return true;
        }
    return false;
}

/* The first bucket's head says whether any key went on to the others. While it
 * is locked somebody may have added the key and not yet written its tag. */
bool sl_slot_key_find(const struct sl_intent *intent,
                      const struct sl_slot_key *key, struct sl_slot *ret,
                      uint64_t *head)
{
    const struct sl_region *r = intent->region;
    uint64_t at = sl_slot_head_at(r, key->bucket[0]);
    unsigned slot =
        sl_slot_key_in_line(sl_region_bucket(r, key->bucket[0]), key->tag);

    if (slot < SL_SLOTS) {
        *ret = (struct sl_slot){key->bucket[0], slot};
        return true;
    }
    for (;;) {
        *head = sl_load(r, at);
        for (unsigned i = 0; i < SL_CHOICES; i++)
            if ((i == 0 || sl_is_locked(*head) || *head & SL_HEADERS_WENT(i)) &&
                sl_slot_key_find_in(r, sl_slot_key_bucket(r, key, i), key->tag,
                                    ret))
                return true;
        if (!sl_is_locked(*head))
            return false;
        (void)sl_intent_lock_read(intent, at);
    }
}
