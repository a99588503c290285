/* slot.h -- the words of a slot, and how they are read.
 *
 * The head of a bucket locks additions to it:
 *   bits 0..2    a key whose first choice is this bucket went to its second,
 *                third, fourth
 *   bits 3..62   number of additions
 *   bit 63       locked, see intent.h
 *
 * A tag is the limit's number (12 bits) above 52 bits of fingerprint; 0 is an
 * empty slot. With the bits that choose the bucket, two keys are taken for one
 * only if about 75 bits agree.
 *
 * The first word of a cell is the slot's lock. The top byte of the second is
 * the generation: the number of keys that the slot has had, modulo 256. See
 * "Single changes" in intent.h.
 */
#ifndef SL_TABLE_SLOT_H
#define SL_TABLE_SLOT_H

#include "base/arith.h"
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

/* Maps a hash to 0 .. range - 1. */
static inline uint64_t sl_scale(uint64_t hash, uint64_t range)
{
    return (uint64_t)(((sl_u128)hash * range) >> 64);
}

/* A hashed key. */
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

/* The first word, which is the lock. */
static inline uint64_t sl_cell_at(const struct sl_region *r, struct sl_slot s)
{
    return sl_slot_head_at(r, s.bucket) + UINT64_C(8) * sl_cell_word(s.index);
}

static inline uint64_t sl_load(const struct sl_region *r, uint64_t at)
{
    return sl_get(sl_region_word(r, at));
}

/* Reads both words of a cell as of one instant, generation included. False: the
 * slot no longer has `tag`.
 *
 * The lock may have the same value before and after a change (a permit's is
 * always 0). So a change writes the tag before the second word, and here the
 * tag is read after it: the second word of a new key is never returned for the
 * old key. If the same key has returned meanwhile, the generation differs. A
 * thread that changes the cell swaps both words or locks it, which is exact. */
static inline bool sl_slot_read(const struct sl_intent *intent,
                                struct sl_slot slot, uint64_t tag,
                                struct sl_cell *ret)
{
    const struct sl_region *r = intent->region;
    const struct sl_bucket *b = sl_region_bucket(r, slot.bucket);
    const sl_word *cell = &b->word[sl_cell_word(slot.index)];

    do {
        ret->w[0] = sl_get(cell);
        if (sl_is_locked(ret->w[0]))
            ret->w[0] = sl_intent_lock_read(intent, sl_cell_at(r, slot));
        ret->w[1] = sl_get(cell + 1);
        if (sl_get(&b->word[sl_tag_word(slot.index)]) != tag)
            return false;
    } while (sl_get(cell) != ret->w[0] || sl_get(cell + 1) != ret->w[1]);
    return true;
}

/* The cell as core knows it, without the generation. */
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

/* May the slot, which holds `cell`, go to another key? Not while a dead intent
 * may write its tag, nor, if the generation would wrap, while a swap in its
 * bucket is announced. Exact while the slot is locked, otherwise a good guess.
 */
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
