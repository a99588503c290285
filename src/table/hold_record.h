/* record.h -- the record of a hold: where it lies and what is in it.
 *
 * A record has a head of two words, which changes like a cell, and a body,
 * which is written before anybody may see it and stays as it is.
 *
 *   head   w[0]   when it expires (HELD, ENDED), or whose claim it is
 *          w[1]   bits 0..1 its state, bits 2..3 how it ended, bits 4..63 the
 *                 top of the id's first word
 *
 *              claim              commit              end
 *     FREE -----------> CLAIMED ----------> HELD ------------> ENDED
 *      ^                 |    ^                                  |
 *      +-----------------+    +----------------------------------+
 *          let go                 claim: its room is needed
 *
 *   claim    sl_hold_record_claim: one swap of the head, by whoever has put
 * down in his actor's record that he claims it. A claim that no actor's record
 * speaks of is dead, and free commit   of the intent that takes what is held
 * (take.c) end      of the intent that settles it (end.c): once, whoever comes
 *   let go   sl_hold_record_let_go
 *
 * An id names two blocks of short records and two of long ones in which it
 * may lie, and goes to the emptier. What has ended is remembered until the
 * room is needed: what would have expired first goes first.
 *
 * Whoever reads a body looks at the head before and after. The top of the id
 * is in the head, and ids do not come again, so that a head which is the same
 * stands for the same body.
 */
#ifndef SL_RECORD_H
#define SL_RECORD_H

#include <assert.h>

#include "table/hold.h"
#include "table/set.h"

static_assert(SL_PARTS <= SL_HOLD_MANY, "all parts have room");

enum sl_hold_record_state { SL_FREE, SL_CLAIM, SL_HELD, SL_ENDED };

/* Words in which returns to a key are counted. */
#define SL_RETURNS 2

/* One key of a hold. */
struct sl_hold_key {
    uint64_t limit; /* its number in the region */
    struct sl_hash128 hash;
    uint64_t cost;
    bool is_bucket;
    bool tracked; /* the key has had a slot... */
    struct sl_slot slot;
    uint64_t generation; /* ...and this was whose */
    struct sl_hold_snapshot mark;
    uint64_t count; /* the numbers of the take */
    uint64_t capacity;
    uint64_t returns[SL_RETURNS]; /* buckets: sl_refund_count() by then, */
    uint64_t gifts;               /* and sl_unheld_count() */
};

/* Is it of this key, as far as the key still has the slot? */
static inline bool sl_hold_key_is_of(const struct sl_hold_key *kept,
                                     const struct sl_slot_key *key)
{
    return kept->limit == key->tag >> SL_TAG_BITS && kept->tracked &&
           kept->hash.lo == key->hash.lo && kept->hash.hi == key->hash.hi;
}

/* A record as it was read. */
struct sl_hold_record {
    uint64_t number;
    struct sl_cell head;
    struct sl_hold_id id;
    sl_ns taken;
    uint64_t stepped; /* the region's, at the take */
    sl_ns life;       /* the longest that it was ever held for at once */
    unsigned count;
    struct sl_hold_key part[SL_HOLD_MANY];
};

static inline enum sl_hold_record_state
sl_hold_record_state(struct sl_cell head)
{
    return (enum sl_hold_record_state)(head.w[1] & 3);
}

/* How it ended. */
static inline enum sl_hold_state sl_hold_record_end(struct sl_cell head)
{
    return (enum sl_hold_state)(SL_HOLD_SETTLED + (head.w[1] >> 2 & 3));
}

static inline struct sl_cell sl_hold_record_ended(struct sl_cell head,
                                                  enum sl_hold_state how)
{
    uint64_t end = (uint64_t)(how - SL_HOLD_SETTLED);

    return sl_cell_of(head.w[0],
                      (head.w[1] & ~UINT64_C(15)) | end << 2 | SL_ENDED);
}

static inline uint64_t sl_hold_record_blocks(const struct sl_region *r)
{
    return sl_region_head(r)->shorts + sl_region_head(r)->longs;
}

/* The offset of a record's head. */
uint64_t sl_hold_record_at(const struct sl_region *r, uint64_t number);

/* How many parts a record has room for. */
unsigned sl_hold_record_room(const struct sl_region *r, uint64_t number);

/* The head as it is when nobody has it locked. */
struct sl_cell sl_hold_record_head(const struct sl_intent *intent,
                                   uint64_t number);

/* Read a record whose head is `head`. False if it no longer is. */
SL_MUST_USE bool sl_hold_record_read(const struct sl_intent *intent,
                                     uint64_t number, struct sl_cell head,
                                     struct sl_hold_record *ret);

/* Ask for the lines in which the record of `id` is looked for first. */
void sl_hold_record_prefetch(const struct sl_region *r, struct sl_hold_id id);

/* Find the record of `id`, held or ended. */
SL_MUST_USE bool sl_hold_record_find(const struct sl_intent *intent,
                                     struct sl_hold_id id,
                                     struct sl_hold_record *ret);

/* Claim a record for `id` with room for `parts`. False if there is none. */
SL_MUST_USE bool sl_hold_record_claim(const struct sl_intent *intent,
                                      struct sl_hold_id id, unsigned parts,
                                      uint64_t *number);

/* The head that a claim by this actor has. */
struct sl_cell sl_hold_record_claimed(const struct sl_intent *intent,
                                      struct sl_hold_id id);

/* Write the body of a record that this actor has claimed. */
void sl_hold_record_fill(const struct sl_region *r,
                         const struct sl_hold_record *record);

/* The claim is over: the record became a hold if `done`, or else is free
 * again. */
void sl_hold_record_let_go(const struct sl_intent *intent, struct sl_hold_id id,
                           uint64_t number, bool done);

/* It has been held for longer at once than before. */
void sl_hold_record_lengthen(const struct sl_region *r, uint64_t number,
                             sl_ns life);

/* The key of part `i` of a record that was read is another by now, for good. */
void sl_hold_record_untrack(const struct sl_region *r,
                            const struct sl_hold_record *record, unsigned i);

/* How much was given back to the bucket of this tag, and perhaps to others, in
 * sum; only differences mean something. It is counted in two words, which a key
 * rarely shares with the same other: the lesser difference is nearer. */
sl_word *sl_refund_count(const struct sl_region *r, uint64_t tag,
                         unsigned which);

/* How much of that was no hold's: corrections of what was taken for good. */
sl_word *sl_unheld_count(const struct sl_region *r, uint64_t tag);

/* Is what the record says possible? Only while nobody else uses the region. A
 * claim is let go. */
bool sl_hold_record_check(const struct sl_region *r, uint64_t number);

#endif
