/* single.h -- the take of one key that has a slot: the fast path, inline.
 *
 * Most takes are of one key that was seen before. They need no intent ("Single
 * changes" in intent.h): announce the buckets, find the slot, judge its cell
 * and swap it. Everything is inline, so that the answer of a token bucket, the
 * most common limit, stays in registers until it is written to the caller's
 * struct. An answer that is written and then copied costs a tenth of a take.
 */
#ifndef SL_TABLE_SINGLE_H
#define SL_TABLE_SINGLE_H

#include "core/bucket.h"
#include "table/hold_record.h"
#include "table/set.h"

#define SL_INLINE static inline __attribute__((always_inline))

/* Searches the second line of the first bucket; then announces the second one
 * and searches it. */
struct sl_slot sl_single_seek(const struct sl_intent *intent,
                              const struct sl_region *r,
                              const struct sl_slot_key *key);

/* Announces the first bucket of a key and finds the key there, or in its second
 * one; index SL_SLOTS: it is elsewhere or new. A guess: the swap checks it. The
 * second bucket is known later than the first, by three rounds of the hash, so
 * it is announced only if it is needed. */
SL_INLINE struct sl_slot sl_single_find(const struct sl_intent *intent,
                                        const struct sl_region *r,
                                        const struct sl_slot_key *key)
{
    struct sl_slot slot = {.bucket = key->bucket[0]};

    sl_swaps_set(intent, 0, sl_slot_head_at(r, key->bucket[0]));
    sl_swaps_announce(intent, 1);
    slot.index =
        sl_slot_key_in_line(sl_region_bucket(r, slot.bucket), key->tag);
    return slot.index < SL_SLOTS ? slot : sl_single_seek(intent, r, key);
}

/* After a lost race for a cell a thread pauses, longer each time: two threads
 * that retry at once take the cache line from each other before either can use
 * it. */
#define SL_PAUSES_FIRST 16
#define SL_PAUSES_LAST  128

/* Swaps `old` for what was judged, or checks that it is unchanged. */
SL_INLINE bool sl_single_settle(sl_word *cell, struct sl_cell old,
                                struct sl_cell bare, unsigned *pauses)
{
    struct sl_cell next = sl_cell_next(old, bare);

    if (sl_cell_eq(next, old))
        return sl_get(cell) == old.w[0] && sl_get(cell + 1) == old.w[1];
    SL_STEP(SL_STEP_SWAP);
    if (sl_swap_pair(cell, old, next))
        return true;
    sl_pause(*pauses);
    if (*pauses < SL_PAUSES_LAST)
        *pauses *= 2;
    return false;
}

/* What is taken of a key, and when. */
struct sl_single {
    const struct sl_limit *limit;
    uint64_t cost;
    sl_ns now;
    bool fresh;
};

/* `bucket`: constant; see sl_bucket_is_quick(). Lock, second word and tag
 * are read in this order: (5) of intent.h. */
SL_INLINE bool sl_single_judge(const struct sl_region *r,
                               const struct sl_single *single, uint64_t tag,
                               struct sl_slot slot, bool bucket,
                               struct sl_answer *ret)
{
    struct sl_bucket *b = sl_region_bucket(r, slot.bucket);
    sl_word *cell = &b->word[sl_cell_word(slot.index)];
    const struct sl_limit *limit = single->limit;
    const struct sl_limit quick = sl_bucket_quick(limit);
    unsigned pauses = SL_PAUSES_FIRST;
    struct sl_take_result taken;
    struct sl_cell old;

    do {
        old.w[0] = atomic_load(cell);
        old.w[1] = sl_get(cell + 1);
        if (sl_is_locked(old.w[0]) ||
            sl_get(&b->word[sl_tag_word(slot.index)]) != tag)
            return false;
        if (bucket)
            sl_bucket_take(&quick, sl_cell_bare(old), single->cost, single->now,
                           &taken);
        else
            sl_algorithms[limit->kind]->take(limit, sl_cell_bare(old),
                                             single->cost, single->now, &taken);
        if (taken.stepped && !single->fresh)
            return false;
    } while (!sl_single_settle(cell, old, taken.next, &pauses));
    *ret = taken.answer;
    return true;
}

/* Takes from the slot of a key, whose bucket was announced. Reads the cell,
 * judges and swaps. False: nothing has changed, and the slow path decides (the
 * slot has another key, the cell is locked, or the clock seems to have
 * stepped). */
SL_INLINE bool sl_single_take(const struct sl_region *r,
                              const struct sl_single *single, uint64_t tag,
                              struct sl_slot slot, struct sl_answer *ret)
{
    if (sl_bucket_is_quick(single->limit))
        return sl_single_judge(r, single, tag, slot, true, ret);
    return sl_single_judge(r, single, tag, slot, false, ret);
}

/* Is `now` not before the latest decision, and no hold due? Then a take is
 * judged at `now`. Moves the latest decision. */
SL_INLINE bool sl_single_is_plain(const struct sl_region *r, sl_ns now)
{
    sl_word *word = &sl_region_head(r)->latest;
    uint64_t latest = sl_peek(word);

    if (now < (sl_ns)latest || sl_is_due(r, now))
        return false;
    if (now - (sl_ns)latest > SL_LATEST_GRAIN)
        atomic_compare_exchange_strong(word, &latest, (uint64_t)now);
    return true;
}

/* A take of one key, for callers that have no part. */
struct sl_ask {
    const struct sl_limit_binding *binding;
    const struct sl_limit *limit; /* the numbers that apply */
    struct sl_str key;
    uint64_t cost;
};

/* Decides the common case: the key has a slot, and the time is plain. False:
 * nothing has changed; use sl_table_decide(). */
SL_MUST_USE SL_INLINE bool sl_table_take(struct sl_table *table,
                                         const struct sl_ask *ask, sl_ns now,
                                         struct sl_answer *ret)
{
    const struct sl_region *r = &table->region;
    struct sl_single single = {ask->limit, ask->cost, now, false};
    struct sl_slot_key key;
    struct sl_intent *intent;
    struct sl_slot slot;
    bool done;

    if (!sl_single_is_plain(r, now))
        return false;
    intent = sl_actor_borrow(&table->actors);
    sl_slot_key_again(r, ask->binding->id,
                      sl_table_fingerprint(ask->binding, ask->key), &key);
    sl_slot_key_prefetch(table, key.bucket[0], 0);
    sl_slot_key_prefetch(table, key.bucket[0], 1);
    slot = sl_single_find(intent, r, &key);
    done = slot.index < SL_SLOTS &&
           sl_single_take(r, &single, key.tag, slot, ret) &&
           !(ret->outcome == SL_DENY && ask->limit->kind == SL_PERMITS);
    if (done)
        sl_set_count(intent, ret->outcome == SL_ALLOW);
    sl_swaps_withdraw(intent);
    sl_actor_return(&table->actors, intent);
    return done;
}

#endif
