/* set.c -- decide a set. The steps are in set.h. */
#include "table/set.h"

#include "base/arith.h"
#include "core/bucket.h"
#include "table/hold_record.h"

#define SWEEP 8 /* buckets, when a key finds no room */

/* Units that a correction refunds to a bucket. */
static uint64_t refunds_of(const struct sl_set_item *item, sl_ns now)
{
    const struct sl_limit *limit = item->part->limit;

    if (item->delta >= 0 || !sl_is_bucket(limit->kind))
        return 0;
    return sl_sub_floor(sl_units_used(limit, sl_cell_bare(item->cell), now),
                        item->taken.next.w[1]);
}

/* Is the item judged without a take? */
static bool is_peek(const struct sl_set_item *item)
{
    return item->part->op == SL_TAKE_OP_PEEK ||
           (item->cost == 0 && item->on_report);
}

/* The most common limit is judged without a call. */
static void judge_take(const struct sl_set *set, struct sl_set_item *item)
{
    const struct sl_limit *limit = item->part->limit;
    struct sl_cell cell = sl_cell_bare(item->cell);

    if (is_peek(item)) {
        item->taken =
            sl_take_peek(limit, cell, sl_set_item_least(item), set->now);
    } else if (sl_bucket_is_quick(limit)) {
        const struct sl_limit quick = sl_bucket_quick(limit);

        sl_bucket_take(&quick, cell, item->cost, set->now, &item->taken);
    } else {
        sl_algorithms[limit->kind]->take(limit, cell, item->cost, set->now,
                                         &item->taken);
    }
}

static void judge(const struct sl_set *set, struct sl_set_item *item)
{
    const struct sl_part *part = item->part;
    const struct sl_limit *limit = part->limit;
    sl_ns now = set->now, read;

    switch (part->op) {
    case SL_TAKE_OP_TAKE:
    case SL_TAKE_OP_EACH:
    case SL_TAKE_OP_PEEK:
        judge_take(set, item);
        break;
    case SL_TAKE_OP_CHARGE:
    case SL_TAKE_OP_REFUND:
        read = now - set->lag;
        item->taken =
            sl_adjust(limit, sl_cell_bare(item->cell), item->delta,
                      part->taken_at < read ? part->taken_at : read, now);
        item->refunds = refunds_of(item, now);
        break;
    case SL_TAKE_OP_SETTLE:
        sl_settle_judge(set, item);
        break;
    case SL_TAKE_OP_RESET:
        item->taken = sl_take(limit, sl_cell_of(0, 0), 0, now);
        break;
    }
}

/* Judges the item as if its cell had also used what the carried item has. Its
 * cell is changed by the cost alone. */
static void count_carried(const struct sl_set *set, struct sl_set_item *item,
                          uint64_t cost)
{
    const struct sl_limit *limit = item->part->limit;
    const struct sl_answer *a = &set->items[item->carried_from].taken.answer;
    int64_t used = (int64_t)(a->capacity - a->remaining);
    struct sl_cell cell = sl_cell_bare(item->cell), both;
    struct sl_answer would;

    if (used == 0)
        return;
    both = sl_adjust(limit, cell, used, set->now, set->now).next;
    would = sl_take(limit, both, cost, set->now).answer;
    if (would.outcome != SL_ALLOW)
        item->taken = sl_take(limit, cell, 0, set->now);
    item->taken.answer = would;
    if (is_peek(item))
        item->taken.answer = sl_take_peek(limit, both, cost, set->now).answer;
}

/* Reads the cell of an item; zeros if it has none. */
static void read_item(const struct sl_set *set, struct sl_set_item *item)
{
    do {
        item->found =
            sl_slot_key_find(set->intent, &item->key, &item->slot, &item->head);
    } while (item->found && !sl_slot_read(set->intent, item->slot,
                                          item->key.tag, &item->cell));
    if (item->found)
        item->untracked = false;
    else
        item->cell = sl_cell_of(0, 0);
    item->added = false;
}

/* A reset also changes a key that owes nothing, because it may have holds. */
static bool changes(const struct sl_set *set, const struct sl_set_item *item)
{
    return !item->untracked &&
           (!sl_cell_eq(item->taken.next, sl_cell_bare(item->cell)) ||
            (item->part->op == SL_TAKE_OP_RESET && item->found &&
             !sl_none_held(set->intent->region)));
}

/* The item is judged, for now. */
static void judged(struct sl_set *set, struct sl_set_item *item)
{
    item->changes = changes(set, item);
    set->changes |= item->changes;
}

static bool denies_when_full(const struct sl_set *set,
                             const struct sl_set_item *item)
{
    return set->table->on_full == SL_FULL_DENY ||
           item->part->binding->on_full == SL_FULL_DENY;
}

/* One denies: the others show their state. */
static void judge_denied(struct sl_set *set)
{
    set->changes = false;
    for (unsigned i = 0; i < set->count; i++) {
        struct sl_set_item *item = &set->items[i];

        if (item->taken.answer.outcome == SL_ALLOW) {
            item->taken = sl_take(item->part->limit, sl_cell_bare(item->cell),
                                  0, set->now);
            if (item->carried_from >= 0)
                count_carried(set, item, 0);
        }
        judged(set, item);
    }
}

/* Reads and judges all items. */
static enum sl_set_result judge_all(struct sl_set *set)
{
    bool allowed = true;

    set->changes = false;
    for (unsigned i = 0; i < set->count; i++) {
        struct sl_set_item *item = &set->items[i];

        read_item(set, item);
        judge(set, item);
        if (item->carried_from >= 0)
            count_carried(set, item, sl_set_item_least(item));
        if (item->taken.stepped && !set->fresh)
            return SL_SET_STALE;
        if (item->untracked && item->part->op == SL_TAKE_OP_TAKE &&
            denies_when_full(set, item) &&
            item->taken.answer.outcome == SL_ALLOW)
            item->taken.answer.outcome = SL_DENY;
        allowed = allowed && item->taken.answer.outcome == SL_ALLOW;
        judged(set, item);
    }
    if (allowed)
        return SL_SET_ALLOW;
    judge_denied(set);
    return SL_SET_DENY;
}

/* ---- changing ---- */

/* A reset gives the key a new generation, so that its holds do not refund to
 * it. Where the generation would wrap, no swap in the bucket may be announced
 * (slot.h). A few retries wait for that; then the generation stays. */
#define WAIT_MOST 16

static bool is_new_to_holds(const struct sl_set_item *item)
{
    return item->part->op == SL_TAKE_OP_RESET && item->waited < WAIT_MOST;
}

static bool wraps_generation(const struct sl_set_item *item)
{
    return is_new_to_holds(item) && item->cell.w[1] >= ~SL_W1_MASK;
}

static struct sl_cell next_of(const struct sl_set_item *item)
{
    return is_new_to_holds(item) ? sl_cell_first(item->cell, item->taken.next)
                                 : sl_cell_next(item->cell, item->taken.next);
}

/* Refunds are counted before they happen: see sl_refund_count(). The count of a
 * failed attempt stays, because other threads may have seen it; item->counted
 * excludes it from this item's own difference. Both counters of a key may be
 * the same word, which counts once. */
static void count_refunds(const struct sl_set *set, struct sl_set_item *item)
{
    const struct sl_region *r = set->intent->region;
    sl_word *last = NULL;

    if (!item->refunds)
        return;
    item->counted += item->refunds;
    for (unsigned i = 0; i < SL_REFUND_WORDS; i++) {
        sl_word *word = sl_refund_count(r, item->key.tag, i);

        if (word != last)
            atomic_fetch_add(word, item->refunds);
        last = word;
    }
    if (item->part->op != SL_TAKE_OP_SETTLE)
        atomic_fetch_add(sl_unheld_count(set->intent->region, item->key.tag),
                         item->refunds);
}

/* A set of one key that has a slot: a single change. The swap is announced
 * before the lock is read. (5) */
static bool swap_slot(struct sl_set *set, struct sl_set_item *item)
{
    const struct sl_region *r = set->intent->region;
    sl_word *announced = &set->intent->actor->swap_in[SL_SWAPS];
    uint64_t at = sl_cell_at(r, item->slot), tag_at = sl_tag_at(r, item->slot);
    sl_word *cell = sl_region_word(r, at);
    bool done;

    count_refunds(set, item);
    SL_STEP(SL_STEP_SAY);
    atomic_store(announced, sl_slot_head_at(r, item->slot.bucket));
    done = atomic_load(cell) == item->cell.w[0] &&
           sl_load(r, at + 8) == item->cell.w[1] &&
           sl_load(r, tag_at) == item->key.tag;
    if (done) {
        SL_STEP(SL_STEP_SWAP);
        done = sl_swap_pair(cell, item->cell, next_of(item));
    }
    atomic_store_explicit(announced, 0, memory_order_release);
    return done;
}

/* Locks the slot of a key if its cell is still as read. */
static inline bool lock_slot(struct sl_set *set, const struct sl_set_item *item,
                             struct sl_cell next)
{
    const struct sl_region *r = set->intent->region;

    return sl_intent_lock_cell(set->intent, sl_cell_at(r, item->slot),
                               item->cell, next) &&
           sl_load(r, sl_tag_at(r, item->slot)) == item->key.tag;
}

static inline bool lock_changing(struct sl_set *set, struct sl_set_item *item)
{
    if (!lock_slot(set, item, next_of(item)))
        return false;
    if (!wraps_generation(item) ||
        sl_slot_is_evictable(set->intent, item->slot, item->cell))
        return true;
    item->waited++;
    sl_pause(16);
    return false;
}

/* The slots of this set, which a new key must not take. */
static unsigned used_slots(const struct sl_set *set, struct sl_slot *ret)
{
    unsigned count = 0;

    for (unsigned i = 0; i < set->count; i++)
        if (set->items[i].found || set->items[i].added)
            ret[count++] = set->items[i].slot;
    return count;
}

/* Locks the head of a new key's first bucket, so that no other thread adds the
 * key. False: one may have. Two new keys of a set may share the lock. */
static bool lock_home(struct sl_set *set, const struct sl_set_item *item)
{
    struct sl_intent *intent = set->intent;
    uint64_t at = sl_slot_head_at(intent->region, item->key.bucket[0]);

    for (const struct sl_set_item *i = set->items; i < item; i++)
        if (i->added && i->key.bucket[0] == item->key.bucket[0])
            return true;
    return sl_intent_lock_head(intent, at, item->head,
                               (item->head + SL_HEADERS_ONE) & ~SL_LOCKED);
}

enum added { ADDED, AGAIN, NO_ROOM };

/* Gives a new key a slot. */
static enum added add_key(struct sl_set *set, struct sl_set_item *item)
{
    struct sl_intent *intent = set->intent;
    const struct sl_region *r = intent->region;
    struct sl_slot used[SL_PARTS];
    struct sl_free_slot v;
    struct sl_cell first;
    uint64_t at, tag_at;

    if (!lock_home(set, item))
        return AGAIN;
    if (!sl_evict_find(intent, &item->key, used, used_slots(set, used),
                       set->now, &v))
        return NO_ROOM;
    at = sl_cell_at(r, v.slot);
    tag_at = sl_tag_at(r, v.slot);
    first = sl_cell_first(v.cell, item->taken.next);
    if (!sl_intent_lock_cell(intent, at, v.cell, first) ||
        sl_load(r, tag_at) != v.tag ||
        !sl_slot_is_evictable(intent, v.slot, v.cell))
        return AGAIN;
    sl_intent_write(intent, at, tag_at, v.tag, item->key.tag);
    if (v.choice > 0)
        sl_intent_mark(intent, sl_slot_head_at(r, item->key.bucket[0]),
                       SL_HEADERS_WENT(v.choice));
    item->slot = v.slot;
    item->generation = first.w[1] >> SL_CELL_W1_BITS;
    item->added = true;
    item->old_tag = v.tag;
    item->forgets = v.owed;
    return ADDED;
}

/* Is the head of the carried item's first bucket unchanged? If another key of
 * this set goes there, the head is locked, and both items must have read the
 * same value. */
static bool is_home_still(const struct sl_set *set,
                          const struct sl_set_item *item)
{
    const struct sl_region *r = set->intent->region;
    uint64_t bucket = item->key.bucket[0];

    for (unsigned i = 0; i < set->count; i++)
        if (set->items[i].added && set->items[i].key.bucket[0] == bucket)
            return set->items[i].head == item->head;
    return sl_load(r, sl_slot_head_at(r, bucket)) == item->head;
}

/* Are carried items unchanged, now that all changing items are locked? A cell
 * is locked for this and keeps its value. A key without a slot must not have
 * been added. */
static bool is_carried_still(struct sl_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        const struct sl_set_item *item = &set->items[i];

        if (!item->carried || item->changes)
            continue; /* already locked */
        if (item->found ? !lock_slot(set, item, item->cell)
                        : !is_home_still(set, item))
            return false;
    }
    return true;
}

static void count_added(const struct sl_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        const struct sl_set_item *item = &set->items[i];

        if (!item->added)
            continue;
        sl_account(set->intent->region, item->old_tag, item->key.tag);
        sl_count(set->intent, SL_STAT_INSERTED);
        if (item->forgets > 0)
            sl_count_evicted(set->intent, item->forgets);
    }
}

/* Sweeps once. If that does not help, on_full decides. */
static void no_room(struct sl_set *set, struct sl_set_item *item)
{
    if (!set->swept) {
        set->swept = true;
        if (sl_sweep(set->intent, SWEEP, set->now) > 0)
            return;
    }
    item->untracked = true;
    sl_count(set->intent, SL_STAT_FULL);
}

/* Commits what was judged, together with `extra` (may be NULL). False: begin
 * again. */
static bool change_all(struct sl_set *set, const struct sl_set_extra *extra)
{
    enum added added = ADDED;
    struct sl_set_item *item = NULL;

    sl_intent_begin(set->intent);
    for (unsigned i = 0; i < set->count && added == ADDED; i++) {
        item = &set->items[i];
        if (!item->changes)
            continue;
        if (!item->found)
            added = add_key(set, item);
        else if (!lock_changing(set, item))
            added = AGAIN;
    }
    if (added == ADDED && set->carries && !is_carried_still(set))
        added = AGAIN;
    if (added == ADDED && extra && !extra->join(set))
        added = AGAIN;
    if (added != ADDED) {
        sl_intent_drop(set->intent);
        if (added == NO_ROOM)
            no_room(set, item);
        return false;
    }
    for (unsigned i = 0; set->ops != 1U << SL_TAKE_OP_TAKE && i < set->count;
         i++)
        count_refunds(set, &set->items[i]);
    if (!sl_intent_commit(set->intent))
        return false;
    if (set->intent->writes > 0)
        count_added(set);
    return true;
}

/* A peek at several keys reads them as of one instant: all are locked while
 * each is compared with what was read. (2) */
static bool stands_still(struct sl_set *set)
{
    struct sl_intent *intent = set->intent;
    const struct sl_region *r = intent->region;
    bool still = true;

    sl_intent_begin(intent);
    for (unsigned i = 0; still && i < set->count; i++) {
        const struct sl_set_item *item = &set->items[i];

        if (item->found)
            still = lock_slot(set, item, item->cell);
    }
    for (unsigned i = 0; still && i < set->count; i++) {
        const struct sl_set_item *item = &set->items[i];

        still =
            item->found ||
            sl_load(r, sl_slot_head_at(r, item->key.bucket[0])) == item->head;
    }
    sl_intent_drop(intent);
    return still;
}

static bool only_peeks(const struct sl_set *set)
{
    for (unsigned i = 0; i < set->count; i++)
        if (set->items[i].part->op != SL_TAKE_OP_PEEK && set->items[i].cost > 0)
            return false;
    return set->count > 1;
}

/* Holds of a reset key are detached from it before its generation repeats. */
static void forget_holds(struct sl_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        const struct sl_set_item *item = &set->items[i];
        uint64_t now;

        if (!item->found || !item->changes)
            continue;
        now = next_of(item).w[1] >> SL_CELL_W1_BITS;
        if (now % 64 == 0)
            sl_holds_forget(set, &item->key, now);
    }
}

enum sl_set_result sl_set_decide(struct sl_set *set)
{
    enum sl_set_result result;
    bool done;

    do {
        result = judge_all(set);
        if (result == SL_SET_STALE)
            return result;
        if (set->extra && result == SL_SET_ALLOW) {
            if (!set->extra->ready(set))
                return SL_SET_NO_HOLD_ROOM;
            done = set->extra->alone && !set->changes
                       ? set->extra->alone(set)
                       : change_all(set, set->extra);
        } else if (!set->changes)
            done = !only_peeks(set) || stands_still(set);
        else if (set->count == 1 && set->items[0].found &&
                 !wraps_generation(&set->items[0]))
            done = swap_slot(set, &set->items[0]);
        else
            done = change_all(set, NULL);
    } while (!done);
    if (set->ops & 1U << SL_TAKE_OP_RESET)
        forget_holds(set);
    sl_set_count(set->intent, result != SL_SET_DENY);
    return result;
}
