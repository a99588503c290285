/* slot.h -- where the words of a slot are, and how they are read.
 *
 * A bucket's head guards who may be added to it:
 *   bits 0..2    a key whose first choice is this bucket went to its second,
 *                third, fourth
 *   bits 3..62   a count of additions
 *   bit 63       locked, see intent.h
 *
 * A tag is the limit's number (12 bits) above 52 bits of fingerprint; 0 is an
 * empty slot. With the bits that choose the bucket, about 75 bits must agree
 * before two keys are taken for one.
 *
 * A cell's first word is the slot's guard. The top byte of the second one is
 * the slot's generation: how many keys it has had, modulo 256. See "Single
 * changes" in intent.h.
 */
#ifndef SL_TABLE_SLOT_H
#define SL_TABLE_SLOT_H

#include "core/cell.h"
#include "table/intent.h"

#define SL_CHOICES 4 /* buckets in which a key may be */

#define SL_HEADERS_ONE (UINT64_C(1) << (SL_CHOICES - 1)) /* an addition */

/* The flag in the head for keys that went to their choice number 1, 2, ... */
#define SL_HEADERS_WENT(choice) (UINT64_C(1) << ((choice)-1))

#define SL_TAG_BITS       52
#define SL_GENERATION_ONE (UINT64_C(1) << SL_CELL_W1_BITS)
#define SL_W1_MASK        (SL_GENERATION_ONE - 1)

struct sl_slot {
    uint64_t bucket;
    unsigned index;
};

/* A key, hashed. */
struct sl_slot_key {
    uint64_t tag;
    uint64_t bucket[2]; /* the first two choices; see sl_slot_key_bucket */
    struct sl_hash128 hash;
};

static inline uint64_t sl_slot_head_at(const struct sl_region *r,
                                       uint64_t bucket)
{
    return sl_region_head(r)->buckets_at + bucket * sizeof(struct sl_bucket);
}

static inline uint64_t sl_tag_at(const struct sl_region *r, struct sl_slot s)
{
    return sl_slot_head_at(r, s.bucket) + UINT64_C(8) * sl_tag_word(s.index);
}

/* The guard; the second word follows. */
static inline uint64_t sl_cell_at(const struct sl_region *r, struct sl_slot s)
{
    return sl_slot_head_at(r, s.bucket) + UINT64_C(8) * sl_cell_word(s.index);
}

static inline struct sl_slot_offsets
sl_slot_offsets_of(const struct sl_region *r, struct sl_slot s)
{
    return (struct sl_slot_offsets){sl_slot_head_at(r, s.bucket),
                                    sl_tag_at(r, s), sl_cell_at(r, s)};
}

static inline uint64_t sl_load(const struct sl_region *r, uint64_t at)
{
    return atomic_load_explicit(sl_region_word(r, at), memory_order_acquire);
}

/* Both words of a slot as they were at one instant; false if the slot no
 * longer carries `tag`. The generation is still in w[1].
 *
 * The guard may hold the same value before and after a change (a permit's is
 * always 0). Therefore a change writes the tag before the second word, and
 * here it is read after it: the second word of a new key is never taken for
 * the old one's. And if the key itself has come back meanwhile, the second
 * word has another generation. Whoever changes the cell swaps both words, or
 * locks it, and so finds out for certain. */
static inline bool sl_slot_read(const struct sl_intent *intent,
                                struct sl_slot slot, uint64_t tag,
                                struct sl_cell *ret)
{
    const struct sl_region *r = intent->region;
    uint64_t at = sl_cell_at(r, slot);

    do {
        ret->w[0] = sl_intent_lock_read(intent, at);
        ret->w[1] = sl_load(r, at + 8);
        if (sl_load(r, sl_tag_at(r, slot)) != tag)
            return false;
    } while (sl_load(r, at) != ret->w[0] || sl_load(r, at + 8) != ret->w[1]);
    return true;
}

/* Without the generation: what core knows. */
static inline struct sl_cell sl_cell_bare(struct sl_cell cell)
{
    return sl_cell_of(cell.w[0], cell.w[1] & SL_W1_MASK);
}

/* `bare` as the next cell of the same key. */
static inline struct sl_cell sl_cell_next(struct sl_cell old,
                                          struct sl_cell bare)
{
    return sl_cell_of(bare.w[0], (old.w[1] & ~SL_W1_MASK) | bare.w[1]);
}

/* `bare` as the first cell of another key. */
static inline struct sl_cell sl_cell_first(struct sl_cell old,
                                           struct sl_cell bare)
{
    return sl_cell_of(
        bare.w[0], ((old.w[1] & ~SL_W1_MASK) + SL_GENERATION_ONE) | bare.w[1]);
}

/* May the slot, which holds `cell`, go to another key? It may not while a
 * ghost means to change its tag; nor, where generations begin again, while
 * somebody may swap a cell in its bucket. To be asked with the guard locked;
 * before that, the answer is a good guess. */
static inline bool sl_slot_is_evictable(struct sl_intent *intent,
                                        struct sl_slot slot,
                                        struct sl_cell cell)
{
    const struct sl_region *r = intent->region;

    return !sl_intent_dead_at(intent, sl_tag_at(r, slot)) &&
           (cell.w[1] < ~SL_W1_MASK ||
            !sl_swaps_any(intent, sl_slot_head_at(r, slot.bucket)));
}

#endif
