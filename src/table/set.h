/* set.h -- how a set is decided.
 *
 * 1. Find and read all cells without locks, and judge. If no cell changes (a
 *    denial, a peek), that is the answer.
 * 2. Otherwise swap the cell if there is only one; or lock what changes, check
 *    that it is still as judged, and commit. If it is not, begin again at 1.
 */
#ifndef SL_TABLE_SET_H
#define SL_TABLE_SET_H

#include "core/limit.h"
#include "table/slot.h"
#include "table/table.h"

/* The fingerprint of a part's key, and its buckets. */
void sl_slot_key_hash(const struct sl_table *table, const struct sl_part *part,
                      struct sl_slot_key *ret);

/* The same from the limit's number and the fingerprint. */
static inline void sl_slot_key_again(const struct sl_region *r, uint64_t id,
                                     struct sl_hash128 h,
                                     struct sl_slot_key *ret)
{
    uint64_t buckets = sl_region_head(r)->buckets;
    uint64_t fingerprint = h.hi & ((UINT64_C(1) << SL_TAG_BITS) - 1);

    ret->tag = id << SL_TAG_BITS | (fingerprint ? fingerprint : 1);
    ret->bucket[0] = sl_scale(h.lo, buckets);
    ret->bucket[1] = sl_scale((h.lo << 32 | h.lo >> 32) ^ h.hi, buckets);
    ret->hash = h;
}

/* The bucket of choice 0 .. SL_CHOICES - 1. Few keys need the later ones. */
uint64_t sl_slot_key_bucket(const struct sl_region *r,
                            const struct sl_slot_key *key, unsigned choice);

static inline void sl_slot_key_prefetch(const struct sl_table *table,
                                        uint64_t bucket, unsigned line)
{
    const char *at = (const char *)sl_region_bucket(&table->region, bucket);

    __builtin_prefetch(at + line * UINT64_C(64), 1);
}

/* The slot with `tag` among those whose tag is in the first line of the bucket;
 * SL_SLOTS: none. Without branches, because they would be mispredicted, and
 * without a loop, which gcc keeps. */
static inline unsigned sl_slot_key_in_line(const struct sl_bucket *b,
                                           uint64_t tag)
{
    unsigned found = SL_SLOTS;

    found = sl_peek(&b->word[sl_tag_word(2)]) == tag ? 2 : found;
    found = sl_peek(&b->word[sl_tag_word(1)]) == tag ? 1 : found;
    return sl_peek(&b->word[sl_tag_word(0)]) == tag ? 0 : found;
}

bool sl_slot_key_find_in(const struct sl_region *r, uint64_t bucket,
                         uint64_t tag, struct sl_slot *ret);

/* Finds the slot of a key that is not in the first line of its first bucket;
 * otherwise as sl_slot_key_find(). */
bool sl_slot_key_seek(const struct sl_intent *intent,
                      const struct sl_slot_key *key, struct sl_slot *ret,
                      uint64_t *head);

/* Finds the slot of a key. False: *head is the head of its first bucket at that
 * time; while it is the same, the key has not been added. */
static inline bool sl_slot_key_find(const struct sl_intent *intent,
                                    const struct sl_slot_key *key,
                                    struct sl_slot *ret, uint64_t *head)
{
    unsigned index = sl_slot_key_in_line(
        sl_region_bucket(intent->region, key->bucket[0]), key->tag);

    if (index == SL_SLOTS)
        return sl_slot_key_seek(intent, key, ret, head);
    *ret = (struct sl_slot){key->bucket[0], index};
    return true;
}

/* One key of a set: one part, or several of the same key merged. */
struct sl_set_item {
    struct sl_part *part;
    struct sl_slot_key key;
    uint64_t cost;
    int64_t delta;
    int carried_from;    /* the item that is carried to it; -1: none */
    bool carried;        /* it is carried to another */
    bool on_report;      /* cost 0: denied if nothing is left */
    bool found;          /* the key has a slot */
    bool untracked;      /* no room for it: on_full decides */
    bool changes;        /* as judged, its cell is written */
    bool added;          /* it gets a slot in this change */
    unsigned waited;     /* RESET: for swaps of other threads, see set.c */
    uint64_t forgets;    /* added: units that the evicted cell owed */
    uint64_t generation; /* added: of its slot */
    uint64_t refunds;    /* units refunded to a bucket by this attempt */
    uint64_t counted;    /* the sum over all attempts */
    const struct sl_hold_outcome *outcome; /* SETTLE: of the hold */
    uint64_t old_tag;                      /* added: of its slot */
    uint64_t head;                         /* not found: see sl_slot_key_find */
    struct sl_slot slot;
    struct sl_cell cell; /* as read, with generation; zeros if not found */
    struct sl_take_result taken;
};

/* Units that must be left for the item to pass. */
static inline uint64_t sl_set_item_least(const struct sl_set_item *item)
{
    return item->cost > 0 ? item->cost : item->on_report;
}

struct sl_set;

/* A change that is part of a set: the record of a hold. */
struct sl_set_extra {
    /* Before the locks. False: the result is NO_HOLD_ROOM. */
    bool (*ready)(struct sl_set *set);
    /* All cells are locked: lock the record. False: begin again. */
    bool (*join)(struct sl_set *set);
    /* No cell changes: change the record alone. False: begin again. NULL: use
     * join. */
    bool (*alone)(struct sl_set *set);
    /* The set is decided, and allowed or not. */
    void (*leave)(struct sl_set *set, bool done);
};

struct sl_set {
    struct sl_table *table;
    struct sl_set_extra *extra; /* or NULL */
    struct sl_intent *intent;
    struct sl_set_item items[SL_PARTS];
    unsigned count;
    unsigned ops;  /* of the items' parts: a bit for each sl_take_op */
    uint64_t seen; /* while it is made: a bit for each tag, modulo 64 */
    sl_ns now;
    sl_ns lag; /* `now` minus the caller's reading */
    bool fresh;
    bool swept;
    bool carries; /* an item is carried to another */
    bool changes; /* any item */
};

static inline void sl_set_count(const struct sl_intent *intent, bool allowed)
{
    sl_count(intent, SL_STAT_TAKES);
    if (!allowed)
        sl_count(intent, SL_STAT_DENIED);
}

/* Begins an empty set: finds the instant at which it is judged and ends expired
 * holds. False: the clock must be read again. */
SL_MUST_USE bool sl_set_begin(struct sl_set *set, struct sl_table *table,
                              sl_ns now, bool fresh);

/* As sl_table_decide(), with an extra change. */
SL_MUST_USE enum sl_set_result sl_set_decide_with(struct sl_table *table,
                                                  struct sl_part *parts,
                                                  unsigned count, sl_ns now,
                                                  bool fresh,
                                                  struct sl_set_extra *extra);

/* Decides a set whose items have keys, costs and parts. */
SL_MUST_USE enum sl_set_result sl_set_decide(struct sl_set *set);

/* ---- eviction: slots for new keys.
 *
 * There is no expiry list and no sweeper thread. A cell shows when it owes
 * nothing, and is then free. A new key looks through its four buckets and takes
 *
 *   1. an empty slot, or a cell that owes nothing;
 *   2. else, of the cells that owe at most a quarter of their capacity, the one
 *      that owes the smallest share. Its usage is lost, and counted in
 *      SL_STAT_EVICTED and `forgotten`;
 *   3. else nothing: `on_full` decides.
 *
 * Drained cells, quotas, levels and permits are never evicted while they count,
 * so a flood of keys cannot remove a key that is being limited. A key that asks
 * again while a flood passes owes more than the keys of the flood, and stays.
 *
 * Each limit has a reserve: slots that other limits cannot take from it. The
 * slots of an idle reserve are lent. They come back from cells that owe little.
 * Cells that owe more cannot be evicted, so some slots of each reserve are
 * kept: other limits leave them free. At most 14 of 16 slots are used, because
 * a key must find a slot in one of its four buckets.
 *
 * Invariants. (test/prop/reserve.c checks them, without concurrent changes.)
 *   (R1) Slots in use beyond what is kept, plus what is kept, are at most the
 *        usable slots: a limit below its kept slots may always add a key.
 *   (R2) A cell that owes something goes to a key of another limit only if its
 *        own limit uses more than its reserve.
 *   (R3) A cell that owes nothing goes to a key of another limit if that limit
 *        may grow, or if its own limit uses more than what is kept for it.
 *   (R4) A new key is refused a slot only if none of its four buckets has a
 *        slot that (R1) to (R3) allow.
 */

enum sl_evict_class {
    SL_EVICT_OWES_NOTHING,
    SL_EVICT_OWES_LITTLE,
    SL_EVICT_OWES
};

enum sl_evict_class sl_evict_class(const struct sl_region *r, uint64_t tag,
                                   struct sl_cell cell, sl_ns now);

/* A limit from its entry in the region, without its calendar, and with the
 * largest possible capacity. */
struct sl_limit sl_limit_from(const struct sl_limit_entry *e);

/* A slot for a new key. */
struct sl_free_slot {
    struct sl_slot slot;
    uint64_t tag;        /* present; 0: empty */
    struct sl_cell cell; /* present, with generation */
    uint64_t owed;       /* units that it owes */
    unsigned choice;     /* of the key's buckets */
};

/* Finds a slot for `key`, except those in `taken` (used by the same change).
 * False: there is none. */
bool sl_evict_find(struct sl_intent *intent, const struct sl_slot_key *key,
                   const struct sl_slot *taken, unsigned count, sl_ns now,
                   struct sl_free_slot *ret);

/* Updates the slot counts after a slot has changed its tag (0: empty). */
void sl_account(const struct sl_region *r, uint64_t from, uint64_t to);

/* Sets the slot counts of all limits to keys[]; only while no other thread uses
 * the region. */
void sl_account_all(const struct sl_region *r, const uint64_t *keys);

/* Empties slots that owe nothing, in the `buckets` buckets after the last
 * sweep. Returns their number. */
unsigned sl_sweep(struct sl_intent *intent, unsigned buckets, sl_ns now);

#endif
