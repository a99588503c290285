/* hold_record.h -- the record of a hold: where it lies and what is in it.
 *
 * A record has a head of two words, which changes like a cell, and a body. The
 * body is written before the record is visible and does not change.
 *
 *   head   w[0]   when it expires (HELD, ENDED), or the claiming actor
 *          w[1]   bits 0..1 its state, bits 2..3 how it ended, bits 4..63 the
 *                 top of the id's first word
 *
 *              claim              commit              end
 *     FREE -----------> CLAIMED ----------> HELD ------------> ENDED
 *      ^                 |    ^                                  |
 *      +-----------------+    +----------------------------------+
 *          let go                 claim: its room is needed
 *
 *   claim    sl_hold_record_claim: swaps the head after the actor has recorded
 *            the claim. A claim that no actor has recorded is dead, and free
 *   commit   of the intent that takes the held parts (sl_table_hold)
 *   end      of the intent that settles (hold.c); happens once
 *   let go   sl_hold_record_let_go
 *
 * An id has two blocks of short records and two of long ones, and goes to the
 * emptier. An ended record is kept until its room is needed; the one with the
 * earliest expiry is reused first.
 *
 * A reader of a body reads the head before and after. The head has the top of
 * the id, and ids do not repeat: the same head means the same body.
 */
#ifndef SL_TABLE_HOLD_RECORD_H
#define SL_TABLE_HOLD_RECORD_H

#include <assert.h>

#include "table/hold.h"
#include "table/intent.h"
#include "table/set.h"

static_assert(SL_PARTS <= SL_HOLD_MANY, "all parts have room");

enum sl_hold_record_state { SL_FREE, SL_CLAIM, SL_HELD, SL_ENDED };

/* Counters of refunds for one key. */
#define SL_REFUND_WORDS 2

/* One key of a hold. */
struct sl_hold_key {
    uint64_t limit; /* its number in the region */
    struct sl_hash128 hash;
    uint64_t cost;
    bool is_bucket;
    bool tracked; /* the key had a slot: this one */
    struct sl_slot slot;
    uint64_t generation; /* of the slot */
    struct sl_hold_snapshot snapshot;
    uint64_t count; /* the numbers of the take */
    uint64_t capacity;
    uint64_t refunds[SL_REFUND_WORDS]; /* sl_refund_count() at the take, */
    uint64_t unheld;                   /* and sl_unheld_count(); buckets only */
};

static inline bool sl_hold_key_is_of(const struct sl_hold_key *kept,
                                     const struct sl_slot_key *key)
{
    return kept->limit == key->tag >> SL_TAG_BITS && kept->tracked &&
           sl_hash128_eq(kept->hash, key->hash);
}

/* A record as it was read. */
struct sl_hold_record {
    uint64_t number;
    uint64_t at; /* offset of its head */
    struct sl_cell head;
    struct sl_hold_id id;
    sl_ns taken;
    uint64_t stepped; /* the region's, at the take */
    sl_ns life;       /* the longest of all extensions */
    unsigned count;
    struct sl_hold_key part[SL_HOLD_MANY];
};

static inline enum sl_hold_record_state
sl_hold_record_state(struct sl_cell head)
{
    return (enum sl_hold_record_state)(head.w[1] & 3);
}

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

/* Offset of the head. */
uint64_t sl_hold_record_at(const struct sl_region *r, uint64_t number);

/* The unlocked head, by its offset. */
struct sl_cell sl_hold_record_head_at(const struct sl_intent *intent,
                                      uint64_t at);

/* The same by the number of the record. */
static inline struct sl_cell sl_hold_record_head(const struct sl_intent *intent,
                                                 uint64_t number)
{
    return sl_hold_record_head_at(intent,
                                  sl_hold_record_at(intent->region, number));
}

/* Reads a record. False: its head is no longer `head`. */
SL_MUST_USE bool sl_hold_record_read(const struct sl_intent *intent,
                                     uint64_t number, struct sl_cell head,
                                     struct sl_hold_record *ret);

/* The memory of a hold's head. */
void sl_hold_record_prefetch(const struct sl_region *r, struct sl_hold_id id);

/* The body that a new hold will probably be written to. Records of a block are
 * mostly claimed in turns, because the one that expires first is reused first.
 * So the table notes for each block which one comes next. The body is fetched
 * together with the heads, not after them. A wrong guess costs time alone. */
void sl_hold_record_fetch_next(const struct sl_table *table,
                               struct sl_hold_id id);
void sl_hold_record_note_next(struct sl_table *table, uint64_t claimed);

/* Finds the record of `id`, held or ended. */
SL_MUST_USE bool sl_hold_record_find(const struct sl_intent *intent,
                                     struct sl_hold_id id,
                                     struct sl_hold_record *ret);

/* Claims a record for record->id with room for `parts`, and sets `number` and
 * `at`. False: there is none. */
SL_MUST_USE bool sl_hold_record_claim(const struct sl_intent *intent,
                                      unsigned parts,
                                      struct sl_hold_record *record);

/* The head of a record claimed by this actor. */
struct sl_cell sl_hold_record_claimed(const struct sl_intent *intent,
                                      struct sl_hold_id id);

/* Writes the body of a claimed record. */
void sl_hold_record_fill(const struct sl_region *r,
                         const struct sl_hold_record *record);

/* Ends a claim. The record is now a hold (`done`), or free again. */
void sl_hold_record_let_go(const struct sl_intent *intent,
                           const struct sl_hold_record *record, bool done);

void sl_hold_record_lengthen(const struct sl_region *r, uint64_t number,
                             sl_ns life);

/* `r` is a copy of `old` with `factor` times the buckets: corrects the slots in
 * its records. */
void sl_hold_record_grow(const struct sl_region *r, const struct sl_region *old,
                         uint64_t factor);

/* Part `i` no longer has a slot. */
void sl_hold_record_untrack(const struct sl_region *r,
                            const struct sl_hold_record *record, unsigned i);

/* A running sum of refunds to the bucket with this tag, and perhaps to others;
 * only differences are used. Two counters are kept, which two keys rarely share
 * both; the smaller difference is nearer. Few keys have the same word twice. */
sl_word *sl_refund_count(const struct sl_region *r, uint64_t tag,
                         unsigned which);

/* The refunds among them that did not come from holds. */
sl_word *sl_unheld_count(const struct sl_region *r, uint64_t tag);

/* Validates a record and drops a claim. Only while no other process uses the
 * region. */
bool sl_hold_record_check(const struct sl_region *r, uint64_t number);

/* One key of a hold that ends. */
struct sl_hold_outcome {
    const struct sl_hold_key *kept;
    uint64_t cost;         /* actual */
    struct sl_since since; /* from its take to its end */
    bool known;            /* the limit is complete; otherwise its calendar is
                            * unknown */
};

/* SL_TAKE_OP_SETTLE: judges the item's cell as after the end of the hold. */
void sl_settle_judge(const struct sl_set *set, struct sl_set_item *item);

/* Ends an expired hold. False: its head has changed. */
bool sl_hold_end_expired(struct sl_table *table, struct sl_intent *intent,
                         uint64_t number, struct sl_cell head);

/* Changes the expiry of a hold. False: its head has changed. */
bool sl_hold_end_move(struct sl_intent *intent, uint64_t number,
                      struct sl_cell head, sl_ns expires);

/* ---- the next expiry.
 *
 * Every block of records and the region have a pair of words: the earliest
 * expiry of their holds, and a number. The expiry may be too early (then a
 * recount corrects it) but never too late.
 *
 *   lower    before an expiry takes effect, while the head of the record is
 *            locked
 *   recount  when it is due: set it to 0, which is always due; look through
 *            all holds; set it to the earliest found if the number is the same
 *
 * None is missed: `lower` has locked the head and then reads the word. If it is
 * 0, a running recount may have passed the record; `lower` changes the number
 * and the recount is void. Otherwise a later recount finds the head locked and
 * waits for the outcome. A recount whose process dies leaves 0, and the next
 * decision repeats it.
 */

#define SL_HOLD_EXPIRY_NONE SL_NS_MAX

/* Has a hold expired? The only cost of a decision without holds. */
static inline bool sl_is_due(const struct sl_region *r, sl_ns now)
{
    return (sl_ns)atomic_load_explicit(&sl_region_head(r)->due[0],
                                       memory_order_relaxed) <= now;
}

static inline bool sl_none_held(const struct sl_region *r)
{
    return sl_is_due(r, SL_HOLD_EXPIRY_NONE - 1) == false;
}

/* The pair of words of a block. */
sl_word *sl_hold_expiry_of(const struct sl_region *r, uint64_t block);

/* A hold of this block will expire at `expires`. */
void sl_hold_expiry_lower(const struct sl_region *r, uint64_t block,
                          sl_ns expires);

/* Ends all holds that have expired at `now`. */
void sl_holds_expire(struct sl_table *table, sl_ns now);

/* The clock has stepped back to `now`: every hold expires within its life from
 * now. */
void sl_holds_shorten(struct sl_table *table, sl_ns now);

/* `key` was reset, and its slot has this generation now. Holds of other
 * generations get nothing back. */
void sl_holds_forget(const struct sl_set *set, const struct sl_slot_key *key,
                     uint64_t generation);

/* ---- when permits come back.
 *
 * The answer to a denied permit says when enough permits expire. Holds are not
 * indexed by key, so all are looked through. Most are skipped by their sign:
 * the two spare words of a row of heads (region.h) have sixteen bits for each
 * record, a hash of the key whose permit it holds.
 *
 * The answer is saved in this process: the record, and a hash of the record's
 * head, the key's cell and the request. It is used while all of these are the
 * same and no hold of the key was begun, extended or ended in this process, for
 * at most an EPOCH: another process may have changed one.
 */

/* Sets the sign of a claimed record. */
void sl_hold_record_sign(const struct sl_region *r,
                         const struct sl_hold_record *record);

/* A hold of the key's permits has begun, ended or was extended: saved answers,
 * also those of searches under way, are not used. */
void sl_permit_eta_forget(struct sl_table *table,
                          const struct sl_slot_key *key);

/* Time until enough permits of `key` have expired that `cost` of `capacity` are
 * free. SL_NS_NONE: never, or the search would take too long. */
sl_ns sl_holds_soonest(struct sl_set *set, const struct sl_slot_key *key,
                       uint64_t capacity, uint64_t cost);

#endif
