/* set.h -- a set on its way to a verdict.
 *
 * 1. Find and read all cells, without locking anything, and judge. Whatever
 *    changes no cell (a refusal, a look) is answered from that.
 * 2. Otherwise swap the cell if it is only one; or lock what is to change,
 * check that it is still what was judged, and commit. If it is not, begin again
 *    at 1.
 */
#ifndef SL_TABLE_SET_H
#define SL_TABLE_SET_H

#include "core/limit.h"
#include "table/slot.h"
#include "table/table.h"

/* ---- keys as fingerprints, and where they may be found. */

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

/* One key of a set: one part, or several of the same key merged. */
struct sl_set_item {
    struct sl_part *part;
    struct sl_slot_key key;
    uint64_t cost;
    int64_t delta;
    int beside;          /* the item that is carried to it; -1: none */
    bool carried;        /* it is carried to another */
    bool found;          /* the key has a slot */
    bool untracked;      /* there is no room for it: on_full decides */
    bool added;          /* it gets one in this change, */
    bool evicts;         /* from a cell that still owes something */
    unsigned waited;     /* RESET: for somebody who may swap, see set.c */
    uint64_t generation; /* of its slot, if it was added */
    uint64_t returns;    /* units that this gives back to a bucket */
    uint64_t counted;    /* the sum of that over all attempts so far */
    const struct sl_hold_outcome *settled; /* SETTLE: what became of the hold */
    uint64_t old_tag;
    uint64_t head; /* not found: what says so, see sl_slot_key_find */
    struct sl_slot slot;
    struct sl_cell cell; /* as read, generation included; zeros if not found */
    struct sl_take_result taken;
};

struct sl_set;

/* Something that changes together with the cells of a set: the record of a
 * hold. */
struct sl_set_extra {
    /* Before anything is locked: false if there is nothing to ride with, and
     * the verdict is VOID. */
    bool (*ready)(struct sl_set *set);
    /* All cells are locked: lock it as well. False: begin again. */
    bool (*join)(struct sl_set *set);
    /* No cell changes: it may change alone, at once. False: begin again. Or
     * NULL if it can't. */
    bool (*alone)(struct sl_set *set);
    /* It is over: it came true, or not. */
    void (*leave)(struct sl_set *set, bool done);
};

struct sl_set {
    struct sl_table *table;
    struct sl_set_extra *extra; /* or NULL */
    struct sl_intent *intent;
    struct sl_set_item items[SL_PARTS];
    unsigned count;
    sl_ns now;
    sl_ns lag; /* how far `now` is ahead of the caller's reading */
    bool fresh;
    bool swept;
};

/* Count a verdict. */
static inline void sl_set_count(const struct sl_set *set,
                                enum sl_set_result verdict)
{
    sl_count(set->intent, SL_STAT_TAKES);
    if (verdict == SL_SET_DENY)
        sl_count(set->intent, SL_STAT_DENIED);
}

/* Begin a set of no items: find the instant at which it is judged, and end the
 * holds that have expired by then. False if the clock must be read again. */
SL_MUST_USE bool sl_set_begin(struct sl_set *set, struct sl_table *table,
                              sl_ns now, bool fresh);

/* As sl_table_decide(), with a rider. */
SL_MUST_USE enum sl_set_result sl_set_decide_with(struct sl_table *table,
                                                  struct sl_part *parts,
                                                  unsigned count, sl_ns now,
                                                  bool fresh,
                                                  struct sl_set_extra *extra);

/* Decide a set whose items have their keys, costs and parts. */
SL_MUST_USE enum sl_set_result sl_set_decide(struct sl_set *set);

/* ---- one key alone: the short way to a verdict.
 *
 * Most questions are about one key, and most keys have their slot in one of
 * the two buckets where they are looked for first. Then nothing of a set is
 * needed: say in which bucket a cell may be swapped ("Single changes" in
 * intent.h), read it, judge, swap. Whatever else turns up (a key that is new or
 * elsewhere, a locked guard, a clock that seems to have stepped) goes the long
 * way, by set.h.
 */

/* Take `part`, whose key has the tag `tag` and seems to be in `slot`; its
 * bucket was announced. False if the short way ends before there is a verdict:
 * then nothing has happened. */
SL_MUST_USE bool sl_set_decide_one(const struct sl_set *set,
                                   struct sl_part *part, uint64_t tag,
                                   struct sl_slot slot,
                                   enum sl_set_result *ret);

/* ---- who gives way when a new key needs a slot.
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
