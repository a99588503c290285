/* hold_record.h -- the record of a hold: where it lies and what is in it.
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
#ifndef SL_TABLE_HOLD_RECORD_H
#define SL_TABLE_HOLD_RECORD_H

#include <assert.h>

#include "table/hold.h"
#include "table/intent.h"
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

/* ---- what becomes of the keys of a hold when it ends. */

/* One key of a hold that ends. */
struct sl_hold_outcome {
    const struct sl_hold_key *kept;
    uint64_t cost;         /* what it came to */
    struct sl_since since; /* from its take to its end */
    bool known;            /* its limit has all its numbers; otherwise nothing
                            * can be said of a calendar */
};

/* SL_TAKE_OP_SETTLE: the item's cell as it is when the hold has ended. */
void sl_settle_judge(const struct sl_set *set, struct sl_set_item *item);

/* End a hold that has expired. False if its head is another by now. */
bool sl_hold_end_expired(struct sl_table *table, struct sl_intent *intent,
                         uint64_t number, struct sl_cell head);

/* Make it expire at another instant. False if its head is another by now. */
bool sl_hold_end_move(struct sl_intent *intent, uint64_t number,
                      struct sl_cell head, sl_ns expires);

/* ---- when the next hold expires.
 *
 * Every block of records has a pair of words, and so has the region: the
 * earliest expiry of all that is held below, and a number. It may be too early
 * (then whoever looks finds nothing due and corrects it) but never too late.
 *
 *   lower    by whoever makes an expiry come true, before it does and while
 *            the head of its record is locked
 *   recount  by whoever finds it due: set it to 0, which is always due; look
 *            through everything below; set it to the earliest that was found,
 *            if the number is still the same
 *
 * Why none is missed: whoever lowers has locked the head of the record and
 * then reads the word. If it is 0, a recount is under way that may have passed
 * by; he changes the number, and that recount is void. If it is not, any
 * recount that is still to come finds the head locked, and waits to see what
 * becomes of it. A recount whose owner has died leaves 0, and the next decision
 * does it again.
 */

#define SL_HOLD_EXPIRY_NONE SL_NS_MAX

/* Has anything expired at `now`? All that a decision pays when there are no
 * holds. */
static inline bool sl_is_due(const struct sl_region *r, sl_ns now)
{
    return (sl_ns)atomic_load_explicit(&sl_region_head(r)->due[0],
                                       memory_order_relaxed) <= now;
}

/* Are there no holds at all? */
static inline bool sl_none_held(const struct sl_region *r)
{
    return sl_is_due(r, SL_HOLD_EXPIRY_NONE - 1) == false;
}

/* The words of a block, and of the region. */
sl_word *sl_hold_expiry_of(const struct sl_region *r, uint64_t block);
sl_word *sl_hold_expiry_of_all(const struct sl_region *r);

/* The earliest expiry below; 0 while nobody knows. */
static inline sl_ns sl_hold_expiry_read(const sl_word *due)
{
    return (sl_ns)atomic_load(due);
}

/* A hold in this block is about to expire at `expires`. */
void sl_hold_expiry_lower(const struct sl_region *r, uint64_t block,
                          sl_ns expires);

/* Begin a recount, and end it with what was found. False if it was void, and
 * nobody knows. */
uint64_t sl_hold_expiry_begin(sl_word *due);
bool sl_hold_expiry_finish(sl_word *due, uint64_t number, sl_ns found);

/* ---- what is done for all holds at once. */

/* End all holds that have expired at `now`. */
void sl_holds_expire(struct sl_table *table, sl_ns now);

/* The clock has stepped back to `now`: no hold lasts longer than its life from
 * here. */
void sl_holds_shorten(struct sl_table *table, sl_ns now);

/* `key` was reset, and its slot has this generation now: holds of an earlier
 * one have nothing to give back to it, whatever generations come. */
void sl_holds_forget(const struct sl_set *set, const struct sl_slot_key *key,
                     uint64_t generation);

/* ---- when permits come back.
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
