/* take.c -- a take that is held. The contract is in hold.h.
 *
 * The cells and the head of the record are guards of one intent. What is in the
 * record is written when all cells are locked, and so is what was judged.
 */
#include "base/arith.h"
#include "table/hold/due.h"
#include "table/hold/soonest.h"
#include "table/hold_record.h"

struct holding {
    struct sl_set_extra rider; /* first: the two are cast into each other */
    struct sl_hold_record record;
    sl_ns expires;
    bool claimed;
};

static struct holding *of(struct sl_set *set)
{
    return (struct holding *)(void *)set->rider;
}

/* How far the clock has stepped at `now`. If it was seen to step back since we
 * read it, what is taken now comes before that step. */
static uint64_t stepped_at(const struct sl_set *set)
{
    const struct sl_region_head *head = sl_region_head(set->intent->region);
    uint64_t stepped = atomic_load(&head->stepped);
    sl_ns ahead = set->now - (sl_ns)atomic_load(&head->latest);

    return ahead > SL_LATEST_GRAIN ? sl_sub_floor(stepped, (uint64_t)ahead)
                                   : stepped;
}

/* Is it a part of the hold? */
static bool is_held(const struct sl_set_item *item)
{
    return !item->carried && !item->part->firm;
}

/* keep() reads them while everything is locked. */
static void prefetch_returns(const struct sl_region *r,
                             const struct sl_set_item *item)
{
    if (!sl_is_bucket(item->part->limit->kind))
        return;
    for (unsigned i = 0; i < SL_RETURNS; i++)
        __builtin_prefetch((const void *)sl_refund_count(r, item->key.tag, i));
    __builtin_prefetch((const void *)sl_unheld_count(r, item->key.tag));
}

/* Who died with a claim has it until he is found dead. */
static bool ready(struct sl_set *set)
{
    struct holding *h = of(set);
    struct sl_hold_record *record = &h->record;
    unsigned parts = 0;

    if (h->claimed)
        return true;
    for (unsigned i = 0; i < set->count; i++) {
        parts += is_held(&set->items[i]);
        prefetch_returns(set->intent->region, &set->items[i]);
    }
    h->claimed =
        sl_hold_record_claim(set->intent, record->id, parts, &record->number);
    if (!h->claimed) {
        sl_actors_reap(&set->table->actors);
        h->claimed = sl_hold_record_claim(set->intent, record->id, parts,
                                          &record->number);
    }
    h->expires = sl_ns_add_sat(set->now, record->life);
    if (h->expires == SL_NS_MAX)
        h->expires--;
    record->taken = set->now;
    record->stepped = stepped_at(set);
    return h->claimed;
}

static void keep(const struct sl_region *r, const struct sl_set_item *item,
                 struct sl_hold_key *ret)
{
    const struct sl_limit *limit = item->part->limit;

    *ret = (struct sl_hold_key){
        .limit = item->part->of->id,
        .hash = item->key.hash,
        .cost = item->cost,
        .is_bucket = sl_is_bucket(limit->kind),
        .tracked = item->found || item->added,
        .slot = item->slot,
        .generation =
            item->added ? item->generation : item->cell.w[1] >> SL_CELL_W1_BITS,
        .count = limit->count,
        .capacity = limit->capacity,
    };
    if (item->cost > 0)
        ret->mark = sl_hold_snapshot_of(limit, item->taken.next);
    if (!ret->is_bucket)
        return;
    for (unsigned i = 0; i < SL_RETURNS; i++)
        ret->returns[i] = atomic_load(sl_refund_count(r, item->key.tag, i));
    ret->gifts = atomic_load(sl_unheld_count(r, item->key.tag));
}

static bool join(struct sl_set *set)
{
    struct holding *h = of(set);
    struct sl_hold_record *record = &h->record;
    struct sl_intent *intent = set->intent;
    const struct sl_region *r = intent->region;

    record->count = 0;
    for (unsigned i = 0; i < set->count; i++)
        if (is_held(&set->items[i]))
            keep(r, &set->items[i], &record->part[record->count++]);
    sl_hold_record_fill(r, record);
    sl_hold_record_sign(r, record);
    if (!sl_intent_lock_cell(
            intent, sl_hold_record_at(r, record->number),
            sl_hold_record_claimed(intent, record->id),
            sl_cell_of((uint64_t)h->expires,
                       (record->id.w[0] & ~UINT64_C(15)) | SL_HELD)))
        return false;
    sl_hold_expiry_lower(r, record->number / SL_HOLD_BLOCK, h->expires);
    return true;
}

static void leave(struct sl_set *set, bool done)
{
    struct holding *h = of(set);

    if (h->claimed)
        sl_hold_record_let_go(set->intent, h->record.id, h->record.number,
                              done);
    for (unsigned i = 0; done && i < set->count; i++)
        if (set->items[i].part->limit->kind == SL_PERMITS)
            sl_permit_eta_forget(set->table, &set->items[i].key);
}

enum sl_set_result sl_table_hold(struct sl_table *table, struct sl_part *parts,
                                 unsigned count, struct sl_hold_id id,
                                 sl_ns life, sl_ns now, bool fresh)
{
    struct holding h; /* two kilobytes of which little is used */

    sl_hold_record_prefetch(&table->region, id);
    h.rider = (struct sl_set_extra){ready, join, NULL, leave};
    h.record.id = id;
    h.record.life = life;
    h.claimed = false;
    return sl_set_decide_with(table, parts, count, now, fresh, &h.rider);
}
