/* table.c -- the doors of the table. The contract is in table.h. */
#include "table/table.h"

#include <string.h>

#include "base/arith.h"
#include "table/hold/expire.h"
#include "table/hold/soonest.h"
#include "table/single.h"

#define BATCH SL_SWAPS    /* parts whose memory is fetched together */
#define RUN   (BATCH / 2) /* of them, hashed before their lines are asked for */

/* Begin an item, whose key is there already. Field by field: what is not set
 * here is set before it is read. */
static void begin_item(struct sl_set_item *item, struct sl_part *part)
{
    item->part = part;
    item->cost = part->cost;
    item->delta = part->delta;
    item->beside = -1;
    item->carried = false;
    item->untracked = false;
    item->waited = 0;
    item->returns = item->counted = 0;
}

/* All that a key may need is fetched at once: one wait, not two. */
static void hash_and_fetch(const struct sl_table *table,
                           const struct sl_part *part, struct sl_slot_key *ret)
{
    sl_slot_key_hash(table, part, ret);
    if (part->print.lo | part->print.hi)
        return; /* it was expected: it is on its way, or there */
    sl_slot_key_prefetch(table, ret->bucket[0], 0);
    sl_slot_key_prefetch(table, ret->bucket[0], 1);
    sl_slot_key_prefetch(table, ret->bucket[1], 0); /* for a new key */
}

/* Asking for a line on another page costs as much as a third of a decision, in
 * a machine that is not a real one: the second bucket, which few need, is left
 * to them. */
void sl_table_prefetch(const struct sl_table *table, struct sl_hash128 print)
{
    struct sl_slot_key key;

    sl_slot_key_again(&table->region, 0, print, &key);
    sl_slot_key_prefetch(table, key.bucket[0], 0);
    sl_slot_key_prefetch(table, key.bucket[0], 1);
}

/* No sum of two is beyond what a limit counts, either. */
static int64_t add_deltas(int64_t a, int64_t b)
{
    int64_t most = (int64_t)SL_AMOUNT_MAX, sum = a + b;

    if (sum > most)
        return most;
    return sum < -most ? -most : sum;
}

/* Add a part to the set, or to the item that has its key already. Returns the
 * number of the item. Between the lines of two keys lies a hash, and that is
 * well: asked for in a row, nine lines on as many pages were slower by a
 * quarter (2.3 against 1.8 for a set of three, both at once, 1 GiB). */
static unsigned add_part(struct sl_set *set, struct sl_part *part)
{
    struct sl_set_item *new = &set->items[set->count];
    unsigned i;

    hash_and_fetch(set->table, part, &new->key);
    for (i = 0; i < set->count; i++) {
        struct sl_set_item *item = &set->items[i];

        if (item->key.tag == new->key.tag &&
            item->key.bucket[0] == new->key.bucket[0]) {
            item->cost = sl_add_sat(item->cost, part->cost);
            item->delta = add_deltas(item->delta, part->delta);
            return i;
        }
    }
    begin_item(new, part);
    set->count++;
    return i;
}

/* What is carried belongs to the part behind it; a key can't be carried to
 * itself. */
static void carry(struct sl_set *set, const struct sl_part *parts,
                  const unsigned *of, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        if (parts[i - 1].carried && of[i - 1] < of[i]) {
            set->items[of[i]].beside = (int)of[i - 1];
            set->items[of[i - 1]].carried = true;
        }
}

sl_ns sl_table_latest(const struct sl_table *table)
{
    return (sl_ns)atomic_load(&sl_region_head(&table->region)->latest);
}

/* The clock has stepped back, and from here on time goes on at `now`. Holds are
 * seen to first: whoever dies in between leaves it to the next. */
static void step_back(struct sl_table *table, uint64_t latest, sl_ns now)
{
    struct sl_region_head *head = sl_region_head(&table->region);
    uint64_t stepped = atomic_load(&head->stepped);

    sl_holds_shorten(table, now);
    (void)sl_swap_pair(
        &head->latest, sl_cell_of(latest, stepped),
        sl_cell_of((uint64_t)now, stepped + (latest - (uint64_t)now)));
}

/* What lies behind the latest reading; see "Time" in table.h. SL_NS_NONE if it
 * must be read again: it may be a step, and holds must not miss it. */
static sl_ns judged_behind(struct sl_table *table, uint64_t latest, sl_ns now,
                           bool fresh)
{
    if (fresh)
        step_back(table, latest, now);
    else if ((sl_ns)latest - now < SL_LAG)
        return (sl_ns)latest;
    else if (!sl_none_held(&table->region))
        return SL_NS_NONE;
    return now;
}

/* The instant at which a reading is judged. The word is shared by all and read
 * by everyone, so it is written rarely. */
static inline sl_ns judged_at(struct sl_table *table, sl_ns now, bool fresh)
{
    sl_word *word = &sl_region_head(&table->region)->latest;
    uint64_t latest = atomic_load_explicit(word, memory_order_relaxed);

    if (now < (sl_ns)latest)
        return judged_behind(table, latest, now, fresh);
    if (now - (sl_ns)latest > SL_LATEST_GRAIN)
        atomic_compare_exchange_strong(word, &latest, (uint64_t)now);
    return now;
}

/* Spans of an answer count from the reading, not from when it was judged. */
static void count_from(sl_ns lag, struct sl_answer *a)
{
    if (a->retry_in > 0)
        a->retry_in += lag;
    if (a->reset_in > 0)
        a->reset_in += lag;
    if (a->wait > 0)
        a->wait += lag;
}

/* On the way of every decision. */
static inline bool begin_set(struct sl_set *set, struct sl_table *table,
                             sl_ns now, bool fresh)
{
    set->table = table;
    set->rider = NULL;
    set->now = judged_at(table, now, fresh);
    if (set->now < 0)
        return false;
    set->lag = set->now - now;
    set->fresh = fresh;
    set->swept = false;
    if (sl_is_due(&table->region, set->now))
        sl_holds_expire(table, set->now);
    return true;
}

bool sl_set_begin(struct sl_set *set, struct sl_table *table, sl_ns now,
                  bool fresh)
{
    return begin_set(set, table, now, fresh);
}

/* When permits are out, who holds them says when one comes back. */
static void permits_retry(struct sl_set *set, const struct sl_slot_key *key,
                          struct sl_part *part, uint64_t cost)
{
    if (part->limit->kind == SL_PERMITS && part->act != SL_ACT_SETTLE &&
        part->answer.outcome == SL_DENY && !part->untracked)
        part->answer.retry_in =
            sl_holds_soonest(set, key, part->limit->capacity, cost);
}

static void answer(struct sl_set *set, const struct sl_set_item *item,
                   struct sl_part *part)
{
    part->answer = item->taken.answer;
    part->untracked = item->untracked;
    if (part->answer.outcome == SL_DENY)
        permits_retry(set, &item->key, part, item->cost);
    if (set->lag)
        count_from(set->lag, &part->answer);
}

/* A key that is not in the first line of its first bucket: is it in the second,
 * or in the second bucket? A guess; whoever swaps looks again. */
static struct sl_slot seek_on(const struct sl_table *table,
                              const struct sl_slot_key *key)
{
    const struct sl_region *r = &table->region;
    const struct sl_bucket *b = sl_region_bucket(r, key->bucket[0]);
    struct sl_slot slot = {key->bucket[0], SL_SLOTS};

    if (!sl_slot_key_find_in(r, key->bucket[0], key->tag, &slot) &&
        (atomic_load_explicit(&b->word[0], memory_order_relaxed) &
         SL_HEADERS_WENT(1)))
        (void)sl_slot_key_find_in(r, key->bucket[1], key->tag, &slot);
    return slot;
}

/* The bucket of a part is announced: decide it by the short way or the long
 * one. */
static enum sl_set_result decide_one(struct sl_set *set, struct sl_part *part,
                                     const struct sl_slot_key *key,
                                     struct sl_slot slot)
{
    enum sl_set_result verdict;

    if (slot.index < SL_SLOTS && part->act == SL_PART_OP_TAKE &&
        sl_set_decide_one(set, part, key->tag, slot, &verdict)) {
        if (verdict == SL_SET_DENY)
            permits_retry(set, key, part, part->cost);
        if (set->lag)
            count_from(set->lag, &part->answer);
        return verdict;
    }
    set->count = 1;
    set->items[0].key = *key;
    begin_item(&set->items[0], part);
    set->swept = false;
    verdict = sl_set_decide(set);
    if (verdict != SL_SET_STALE)
        answer(set, &set->items[0], part);
    return verdict;
}

/* A take of one key. While its memory is on the way, it is announced. */
static enum sl_set_result decide_single(struct sl_set *set,
                                        struct sl_part *part)
{
    const struct sl_region *r = &set->table->region;
    enum sl_set_result verdict;
    struct sl_slot slot;
    struct sl_slot_key key;

    hash_and_fetch(set->table, part, &key);
    set->intent = sl_actor_borrow(&set->table->actors);
    sl_swaps_set(set->intent, 0, sl_slot_head_at(r, key.bucket[0]));
    sl_swaps_set(set->intent, 1, sl_slot_head_at(r, key.bucket[1]));
    sl_swaps_announce(set->intent, 2);
    slot.bucket = key.bucket[0];
    slot.index =
        sl_slot_key_in_line(sl_region_bucket(r, key.bucket[0]), key.tag);
    if (slot.index == SL_SLOTS)
        slot = seek_on(set->table, &key);
    verdict = decide_one(set, part, &key, slot);
    sl_swaps_withdraw(set->intent);
    sl_actor_return(&set->table->actors, set->intent);
    return verdict;
}

/* A set, with a rider or without. */
static enum sl_set_result decide_set(struct sl_set *set, struct sl_part *parts,
                                     unsigned count, struct sl_set_extra *rider)
{
    unsigned of[SL_PARTS];
    enum sl_set_result verdict;

    set->count = 0;
    set->rider = rider;
    for (unsigned i = 0; i < count; i++)
        of[i] = add_part(set, &parts[i]);
    carry(set, parts, of, count);
    set->intent = sl_actor_borrow(&set->table->actors);
    verdict = sl_set_decide(set);
    if (rider)
        rider->leave(set, verdict == SL_SET_ALLOW);
    if (verdict == SL_SET_ALLOW || verdict == SL_SET_DENY)
        for (unsigned i = 0; i < count; i++)
            answer(set, &set->items[of[i]], &parts[i]);
    sl_actor_return(&set->table->actors, set->intent);
    return verdict;
}

enum sl_set_result sl_table_decide(struct sl_table *table,
                                   struct sl_part *parts, unsigned count,
                                   sl_ns now, bool fresh)
{
    struct sl_set set;

    if (!begin_set(&set, table, now, fresh))
        return SL_SET_STALE;
    if (count == 1 && parts->act == SL_PART_OP_TAKE)
        return decide_single(&set, parts);
    return decide_set(&set, parts, count, NULL);
}

/* A hold that began before a step was seen would take it for one of its own
 * time. */
enum sl_set_result sl_set_decide_with(struct sl_table *table,
                                      struct sl_part *parts, unsigned count,
                                      sl_ns now, bool fresh,
                                      struct sl_set_extra *rider)
{
    struct sl_set set;

    if (!fresh && sl_table_latest(table) - now >= SL_LAG)
        return SL_SET_STALE;
    if (!begin_set(&set, table, now, fresh))
        return SL_SET_STALE;
    return decide_set(&set, parts, count, rider);
}

/* Where in the first line of its bucket is the key? What that does not settle
 * is fetched: the second line, and the second bucket if any key went there. */
static struct sl_slot seek(const struct sl_table *table,
                           const struct sl_slot_key *key)
{
    const struct sl_bucket *b =
        sl_region_bucket(&table->region, key->bucket[0]);
    struct sl_slot slot = {key->bucket[0], sl_slot_key_in_line(b, key->tag)};

    if (slot.index >= 2)
        sl_slot_key_prefetch(table, key->bucket[0], 1);
    if (slot.index == SL_SLOTS &&
        (atomic_load_explicit(&b->word[0], memory_order_relaxed) &
         SL_HEADERS_WENT(1))) {
        sl_slot_key_prefetch(table, key->bucket[1], 0);
        sl_slot_key_prefetch(table, key->bucket[1], 1);
    }
    return slot;
}

/* Hash some parts, and only then ask for their lines: by turns it is slower,
 * for a line that cannot be asked for at once holds up the next hash. */
static void hash_some(const struct sl_set *set, const struct sl_part *parts,
                      struct sl_slot_key *keys, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        sl_slot_key_hash(set->table, &parts[i], &keys[i]);
    for (unsigned i = from; i < to; i++)
        sl_slot_key_prefetch(set->table, keys[i].bucket[0], 0);
}

/* Four passes over a handful of parts: hash and prefetch the first line, see
 * whom that does not serve and prefetch more, see where these are and announce
 * all, decide. */
static void batch_some(struct sl_set *set, struct sl_part *parts,
                       enum sl_set_result *verdicts, unsigned count)
{
    struct sl_slot_key keys[BATCH];
    struct sl_slot slots[BATCH];

    for (unsigned i = 0; i < count; i += RUN)
        hash_some(set, parts, keys, i, count - i < RUN ? count : i + RUN);
    for (unsigned i = 0; i < count; i++)
        slots[i] = seek(set->table, &keys[i]);
    for (unsigned i = 0; i < count; i++) {
        if (slots[i].index == SL_SLOTS)
            slots[i] = seek_on(set->table, &keys[i]);
        sl_swaps_set(set->intent, i,
                     sl_slot_head_at(&set->table->region, slots[i].bucket));
    }
    sl_swaps_announce(set->intent, count);
    for (unsigned i = 0; i < count; i++)
        verdicts[i] = decide_one(set, &parts[i], &keys[i], slots[i]);
    sl_swaps_withdraw(set->intent);
}

void sl_table_batch(struct sl_table *table, struct sl_part *parts,
                    enum sl_set_result *verdicts, unsigned count, sl_ns now,
                    bool fresh)
{
    struct sl_set set;

    if (!begin_set(&set, table, now, fresh)) {
        for (unsigned i = 0; i < count; i++)
            verdicts[i] = SL_SET_STALE;
        return;
    }
    set.intent = sl_actor_borrow(&table->actors);
    for (unsigned i = 0; i < count; i += BATCH)
        batch_some(&set, parts + i, verdicts + i,
                   count - i < BATCH ? count - i : BATCH);
    sl_actor_return(&table->actors, set.intent);
}

void sl_table_init(struct sl_table *table, const struct sl_region *region,
                   enum sl_on_full on_full)
{
    table->region = *region;
    table->on_full = on_full;
    memset(table->memo, 0, sizeof(table->memo));
    sl_actors_init(&table->actors, &table->region);
}

void sl_table_done(struct sl_table *table)
{
    sl_region_close(&table->region);
}

void sl_table_stats(struct sl_table *table, struct sl_table_stats *ret)
{
    const struct sl_region *r = &table->region;
    const struct sl_region_head *head = sl_region_head(r);

    *ret = (struct sl_table_stats){.slots = head->buckets * SL_SLOTS,
                                   .bytes = head->size};
    for (uint64_t i = 0; i < SL_LIMITS; i++)
        ret->occupied += atomic_load(&sl_region_limit(r, i)->occupied);
    for (uint64_t i = 0; i < SL_ACTORS; i++)
        for (unsigned s = 0; s < SL_METRICS; s++)
            ret->counted[s] += atomic_load_explicit(
                &sl_region_actor(r, i)->stats[s], memory_order_relaxed);
}

void sl_table_visit(struct sl_table *table, sl_table_visit_f *visit, void *ctx)
{
    const struct sl_region *r = &table->region;
    struct sl_intent *intent = sl_actor_borrow(&table->actors);
    uint64_t buckets = sl_region_head(r)->buckets;
    bool more = true;

    for (uint64_t at = 0; more && at < buckets * SL_SLOTS; at++) {
        struct sl_slot slot = {at / SL_SLOTS, (unsigned)(at % SL_SLOTS)};
        uint64_t tag = sl_load(r, sl_tag_at(r, slot));
        struct sl_cell cell;

        if (tag != 0 && sl_slot_read(intent, slot, tag, &cell))
            more = visit(ctx, (uint32_t)(tag >> SL_TAG_BITS),
                         tag & ((UINT64_C(1) << SL_TAG_BITS) - 1),
                         sl_cell_bare(cell));
    }
    sl_actor_return(&table->actors, intent);
}
