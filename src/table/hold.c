/* hold.c -- takes with a hold, and the end of holds. The contract is in hold.h.
 *
 * The keys of a hold are decided as a set. The head of its record is the extra
 * change of the set.
 */
#include "table/hold.h"

#include <string.h>

#include "base/arith.h"
#include "table/hold_record.h"
#include "table/set.h"

/* ---- ending one key ---- */

/* Does the key still have the slot of the take? If not, its usage is lost. */
static bool has_slot(const struct sl_set_item *item,
                     const struct sl_hold_key *kept)
{
    return kept->tracked && item->found &&
           item->slot.bucket == kept->slot.bucket &&
           item->slot.index == kept->slot.index &&
           item->cell.w[1] >> SL_CELL_W1_BITS == kept->generation;
}

/* At least the refunds of others to its bucket since the take. */
static uint64_t refunded(const struct sl_region *r,
                         const struct sl_set_item *item,
                         const struct sl_hold_key *kept)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < SL_REFUND_WORDS; i++) {
        uint64_t sum = atomic_load(sl_refund_count(r, item->key.tag, i));
        uint64_t since = sum - kept->refunds[i] - item->counted;

        if (since < least)
            least = since;
    }
    return least;
}

/* The snapshot, less the refunds of others since. */
static struct sl_hold_snapshot snapshot_now(const struct sl_region *r,
                                            const struct sl_set_item *item,
                                            const struct sl_hold_key *kept)
{
    const struct sl_limit *limit = item->part->limit;
    struct sl_refunds since;

    if (!sl_is_bucket(limit->kind))
        return kept->snapshot;
    since.all = refunded(r, item, kept);
    since.unheld =
        atomic_load(sl_unheld_count(r, item->key.tag)) - kept->unheld;
    return sl_hold_snapshot_reduce(limit, &kept->snapshot, kept->cost, &since);
}

static struct sl_cell refund(const struct sl_set *set, struct sl_set_item *item,
                             uint64_t amount)
{
    const struct sl_hold_outcome *s = item->outcome;
    const struct sl_limit *limit = item->part->limit;
    struct sl_cell cell = sl_cell_bare(item->cell);
    struct sl_hold_snapshot snapshot;
    struct sl_cell next;

    if (!has_slot(item, s->kept))
        return cell;
    snapshot = snapshot_now(set->intent->region, item, s->kept);
    next = sl_hold_refund(limit, cell, amount, &snapshot, &s->since);
    if (sl_is_bucket(limit->kind))
        item->refunds =
            sl_sub_floor(sl_units_used(limit, cell, s->since.ends), next.w[1]);
    return next;
}

/* Charges what exceeds the hold. Without its calendar a quota is not charged:
 * its limit is no longer used. */
static struct sl_cell charge(const struct sl_set *set, struct sl_set_item *item,
                             uint64_t amount)
{
    const struct sl_hold_outcome *s = item->outcome;

    if (!s->known && item->part->limit->period == 0 &&
        item->part->limit->kind == SL_QUOTA)
        return sl_cell_bare(item->cell);
    if (amount > SL_HOLD_COST_MAX)
        amount = SL_HOLD_COST_MAX;
    item->taken = sl_adjust(item->part->limit, sl_cell_bare(item->cell),
                            (int64_t)amount, set->now, set->now);
    return item->taken.next;
}

void sl_settle_judge(const struct sl_set *set, struct sl_set_item *item)
{
    const struct sl_hold_outcome *s = item->outcome;
    const struct sl_limit *limit = item->part->limit;
    struct sl_cell next = sl_cell_bare(item->cell);
    uint64_t held = s->kept->cost;
    bool stepped = false;

    item->refunds = 0;
    if (s->cost < held) {
        next = refund(set, item, held - s->cost);
    } else if (s->cost > held) {
        item->taken.stepped = false;
        next = charge(set, item, s->cost - held);
        stepped = item->taken.stepped;
    }
    if (s->known)
        item->taken = sl_take(limit, next, 0, set->now);
    else
        item->taken = (struct sl_take_result){
            .answer = {.outcome = SL_ALLOW,
                       .limit = limit->count,
                       .capacity = limit->capacity,
                       .retry_in = SL_NS_NONE,
                       .reset_in = SL_NS_NONE}
        };
    item->taken.next = next;
    item->taken.stepped = stepped;
}

/* ---- ending a hold ---- */

struct ending {
    struct sl_set_extra extra; /* first: the two are cast into each other */
    struct sl_set set;
    struct sl_hold_record record;
    struct sl_cell to; /* its new head */
    unsigned begun;    /* items of earlier attempts */
    struct sl_part parts[SL_PARTS];
    struct sl_limit limits[SL_PARTS];
    struct sl_hold_outcome outcomes[SL_PARTS];
};

static struct ending *of(struct sl_set *set)
{
    return (struct ending *)(void *)set->extra;
}

static bool ready(struct sl_set *set)
{
    const struct sl_hold_record *record = &of(set)->record;

    return sl_cell_eq(sl_hold_record_head_at(set->intent, record->at),
                      record->head);
}

static bool join(struct sl_set *set)
{
    const struct ending *e = of(set);

    return sl_intent_lock_cell(set->intent, e->record.at, e->record.head,
                               e->to);
}

/* No cell changes, only the head. */
static bool alone(struct sl_set *set)
{
    const struct ending *e = of(set);

    SL_STEP(SL_STEP_SWAP);
    return sl_swap_pair(sl_region_word(set->intent->region, e->record.at),
                        e->record.head, e->to);
}

/* A quota whose subject has periods of its own is settled in those of the
 * take. */
static void use_periods_then(struct sl_limit *limit,
                             const struct sl_hold_snapshot *s)
{
    sl_ns start = (sl_ns)s->w[0] * limit->tick;
    sl_ns end = (sl_ns)s->w[1] * limit->tick;
    struct sl_period p;

    if (!limit->calendar || end == 0)
        return;
    p = sl_calendar_period(&limit->cal, start);
    if ((p.start > 0 ? p.start : 0) != start || p.end != end)
        limit->cal = sl_calendar_span(start, end);
}

/* The limit with the numbers of the take. */
static void set_limit_then(const struct sl_region *r,
                           const struct sl_hold_key *kept,
                           const struct sl_limit *now, struct sl_limit *ret)
{
    *ret = now ? *now : sl_limit_from(sl_region_limit(r, kept->limit));
    if (now)
        use_periods_then(ret, &kept->snapshot);
    ret->count = kept->count;
    ret->capacity = kept->capacity;
    ret->room = sl_is_bucket(ret->kind) ? ret->capacity * ret->token : 0;
}

static struct sl_since since(const struct sl_region *r,
                             const struct sl_hold_record *record, sl_ns ends)
{
    uint64_t stepped = atomic_load(&sl_region_head(r)->stepped);

    stepped = sl_sub_floor(stepped, record->stepped);
    return (struct sl_since){
        .taken = record->taken,
        .ends = ends,
        .stepped =
            stepped < (uint64_t)SL_TIME_END ? (sl_ns)stepped : SL_TIME_END,
    };
}

/* Makes an item of part `i` of the record. `limit` is NULL if it is unknown.
 * Keeps what earlier attempts have counted. */
static void add_kept(struct ending *e, unsigned i, const struct sl_limit *limit,
                     uint64_t cost, sl_ns ends)
{
    const struct sl_region *r = e->set.intent->region;
    const struct sl_hold_key *kept = &e->record.part[i];
    struct sl_set_item *item = &e->set.items[i];

    set_limit_then(r, kept, limit, &e->limits[i]);
    e->outcomes[i] = (struct sl_hold_outcome){
        .kept = kept,
        .cost = cost,
        .since = since(r, &e->record, ends),
        .known = limit != NULL,
    };
    e->parts[i] =
        (struct sl_part){.limit = &e->limits[i], .op = SL_TAKE_OP_SETTLE};
    *item = (struct sl_set_item){
        .part = &e->parts[i],
        .carried_from = -1,
        .counted = i < e->begun ? item->counted : 0,
        .outcome = &e->outcomes[i],
    };
    sl_slot_key_again(r, kept->limit, kept->hash, &item->key);
    e->set.count = i + 1;
    e->set.ops = 1U << SL_TAKE_OP_SETTLE;
    if (e->begun <= i)
        e->begun = i + 1;
}

/* Saved answers about its permits are dropped, because the cell may look the
 * same with another hold. */
static void forget_eta(const struct ending *e)
{
    for (unsigned i = 0; i < e->record.count; i++)
        if (e->limits[i].kind == SL_PERMITS)
            sl_permit_eta_forget(e->set.table, &e->set.items[i].key);
}

bool sl_hold_end_expired(struct sl_table *table, struct sl_intent *intent,
                         uint64_t number, struct sl_cell head)
{
    struct ending e; /* ten kilobytes, mostly unused */

    if (!sl_hold_record_read(intent, number, head, &e.record))
        return false;
    e.extra = (struct sl_set_extra){ready, join, alone, NULL};
    e.set.table = table;
    e.set.intent = intent;
    e.set.extra = &e.extra;
    e.set.count = 0;
    e.set.ops = 0;
    e.set.fresh = true;
    e.set.swept = false;
    e.set.carries = false;
    e.set.now = (sl_ns)head.w[0];
    e.to = sl_hold_record_ended(head, SL_HOLD_EXPIRED);
    e.begun = 0;
    for (unsigned i = 0; i < e.record.count; i++)
        add_kept(&e, i, NULL, 0, (sl_ns)head.w[0]);
    if (sl_set_decide(&e.set) != SL_SET_ALLOW)
        return false;
    forget_eta(&e);
    sl_count(intent, SL_STAT_EXPIRED);
    return true;
}

bool sl_hold_end_move(struct sl_intent *intent, uint64_t number,
                      struct sl_cell head, sl_ns expires)
{
    const struct sl_region *r = intent->region;

    sl_intent_begin(intent);
    if (!sl_intent_lock_cell(intent, sl_hold_record_at(r, number), head,
                             sl_cell_of((uint64_t)expires, head.w[1]))) {
        sl_intent_drop(intent);
        return false;
    }
    sl_hold_expiry_lower(r, number / SL_HOLD_BLOCK, expires);
    return sl_intent_commit(intent);
}

/* Permits of an unknown limit are refunded: no other call would do it. */
static bool is_permits(const struct ending *e, const struct sl_hold_key *kept)
{
    return sl_region_limit(e->set.intent->region, kept->limit)->kind ==
           SL_PERMITS;
}

/* Finds the limit and the actual cost of each part. */
static void add_parts(struct ending *e, const struct sl_hold_result *call)
{
    bool settles = call->op == SL_HOLD_SETTLE;

    e->set.count = 0;
    e->set.ops = 0;
    for (unsigned i = 0; i < e->record.count; i++) {
        const struct sl_hold_key *kept = &e->record.part[i];
        uint64_t cost = kept->cost;
        const struct sl_limit *limit =
            call->numbers(call->ctx, (uint32_t)kept->limit, kept->cost, &cost);

        if (!settles)
            cost = kept->cost;
        else if (call->release || (!limit && is_permits(e, kept)))
            cost = 0;
        else if (cost > kept->cost && cost > SL_HOLD_COST_MAX)
            cost =
                kept->cost > SL_HOLD_COST_MAX ? kept->cost : SL_HOLD_COST_MAX;
        add_kept(e, i, limit, cost, e->set.now);
    }
}

/* Would a take of the cost beyond the hold have been denied? */
static bool is_over(const struct ending *e, unsigned i)
{
    const struct sl_set_item *item = &e->set.items[i];
    uint64_t held = e->outcomes[i].kept->cost, cost = e->outcomes[i].cost;

    return e->outcomes[i].known && cost > held &&
           sl_take(&e->limits[i], sl_cell_bare(item->cell), cost - held,
                   e->set.now)
                   .answer.outcome != SL_ALLOW;
}

static void report(const struct ending *e, struct sl_hold_result *call)
{
    call->state = SL_HOLD_HELD;
    call->count = e->record.count;
    for (unsigned i = 0; i < e->record.count; i++)
        call->parts[i] = (struct sl_hold_part){
            .limit_id = (uint32_t)e->record.part[i].limit,
            .known = e->outcomes[i].known,
            .held = e->record.part[i].cost,
            .cost = e->outcomes[i].cost,
            .over = is_over(e, i),
            .answer = e->set.items[i].taken.answer,
        };
}

static enum sl_set_result settle(struct ending *e, struct sl_hold_result *call)
{
    enum sl_set_result result;

    e->to = sl_hold_record_ended(
        e->record.head, call->release ? SL_HOLD_RELEASED : SL_HOLD_SETTLED);
    e->set.extra = &e->extra;
    add_parts(e, call);
    result = sl_set_decide(&e->set);
    if (result == SL_SET_ALLOW) {
        forget_eta(e);
        report(e, call);
    }
    return result;
}

/* EXTEND and LOOK: reads the keys without ending the hold. */
static enum sl_set_result look(struct ending *e, struct sl_hold_result *call)
{
    sl_ns expires = (sl_ns)e->record.head.w[0];
    enum sl_set_result result;

    if (call->op == SL_HOLD_EXTEND) {
        expires = sl_ns_add_sat(e->set.now, call->life);
        if (expires == SL_NS_MAX)
            expires--;
        sl_hold_record_lengthen(e->set.intent->region, e->record.number,
                                call->life);
        if (!sl_hold_end_move(e->set.intent, e->record.number, e->record.head,
                              expires))
            return SL_SET_NO_HOLD_ROOM;
    }
    e->set.extra = NULL;
    add_parts(e, call);
    if (call->op == SL_HOLD_EXTEND)
        forget_eta(e);
    result = sl_set_decide(&e->set);
    if (result == SL_SET_ALLOW)
        report(e, call);
    call->expires_in = expires - e->set.now + e->set.lag;
    return result;
}

/* NO_HOLD_ROOM: another thread has changed the hold; begin again. */
static enum sl_set_result try_end(struct ending *e, struct sl_hold_result *call)
{
    struct sl_intent *intent = e->set.intent;
    struct sl_hold_record *record = &e->record;

    if (!sl_hold_record_find(intent, call->id, record)) {
        call->state = SL_HOLD_UNKNOWN;
        return SL_SET_ALLOW;
    }
    if (sl_hold_record_state(record->head) == SL_ENDED) {
        call->state = sl_hold_record_end(record->head);
        return SL_SET_ALLOW;
    }
    if ((sl_ns)record->head.w[0] <= e->set.now) {
        (void)sl_hold_end_expired(e->set.table, intent, record->number,
                                  record->head);
        return SL_SET_NO_HOLD_ROOM;
    }
    return call->op == SL_HOLD_SETTLE ? settle(e, call) : look(e, call);
}

enum sl_set_result sl_table_end(struct sl_table *table,
                                struct sl_hold_result *call, sl_ns now,
                                bool fresh)
{
    struct ending e; /* ten kilobytes, mostly unused */
    enum sl_set_result result;

    sl_hold_record_prefetch(&table->region, call->id);
    e.extra = (struct sl_set_extra){ready, join, alone, NULL};
    call->count = 0;
    call->expires_in = SL_NS_NONE;
    if (!sl_set_begin(&e.set, table, now, fresh))
        return SL_SET_STALE;
    e.set.intent = sl_actor_borrow(&table->actors);
    e.begun = 0;
    do {
        result = try_end(&e, call);
    } while (result == SL_SET_NO_HOLD_ROOM);
    sl_actor_return(&table->actors, e.set.intent);
    for (unsigned i = 0; e.set.lag && i < call->count; i++)
        if (call->parts[i].answer.reset_in > 0)
            call->parts[i].answer.reset_in += e.set.lag;
    return result;
}

/* ---- a take with a hold. The record is written while all cells are locked, so
 * it shows what was judged. */

struct holding {
    struct sl_set_extra extra; /* first: the two are cast into each other */
    struct sl_hold_record record;
    sl_ns expires;
    bool claimed;
};

static struct holding *take_of(struct sl_set *set)
{
    return (struct holding *)(void *)set->extra;
}

/* How far the clock had stepped back at `now`. If a step was seen after `now`
 * was read, the take comes before it. */
static uint64_t stepped_at(const struct sl_set *set)
{
    const struct sl_region_head *head = sl_region_head(set->intent->region);
    uint64_t stepped = atomic_load(&head->stepped);
    sl_ns ahead = set->now - (sl_ns)atomic_load(&head->latest);

    return ahead > SL_LATEST_GRAIN ? sl_sub_floor(stepped, (uint64_t)ahead)
                                   : stepped;
}

static bool is_held(const struct sl_set_item *item)
{
    return !item->carried && !item->part->not_held;
}

/* keep() reads the counters while everything is locked. */
static void prefetch_refunds(const struct sl_region *r,
                             const struct sl_set_item *item)
{
    if (!sl_is_bucket(item->part->limit->kind))
        return;
    for (unsigned i = 0; i < SL_REFUND_WORDS; i++)
        __builtin_prefetch((const void *)sl_refund_count(r, item->key.tag, i));
    __builtin_prefetch((const void *)sl_unheld_count(r, item->key.tag));
}

/* A dead process keeps its claim until it is reaped. */
static bool take_ready(struct sl_set *set)
{
    struct holding *h = take_of(set);
    struct sl_hold_record *record = &h->record;
    unsigned parts = 0;

    if (h->claimed)
        return true;
    for (unsigned i = 0; i < set->count; i++) {
        parts += is_held(&set->items[i]);
        prefetch_refunds(set->intent->region, &set->items[i]);
    }
    h->claimed = sl_hold_record_claim(set->intent, parts, record);
    if (!h->claimed) {
        sl_actors_reap(&set->table->actors);
        h->claimed = sl_hold_record_claim(set->intent, parts, record);
    }
    if (h->claimed)
        sl_hold_record_note_next(set->table, record->number);
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
        .limit = item->part->binding->id,
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
        ret->snapshot = sl_hold_snapshot_of(limit, item->taken.next);
    if (!ret->is_bucket)
        return;
    for (unsigned i = 0; i < SL_REFUND_WORDS; i++)
        ret->refunds[i] = atomic_load(sl_refund_count(r, item->key.tag, i));
    ret->unheld = atomic_load(sl_unheld_count(r, item->key.tag));
}

static bool take_join(struct sl_set *set)
{
    struct holding *h = take_of(set);
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
            intent, record->at, sl_hold_record_claimed(intent, record->id),
            sl_cell_of((uint64_t)h->expires,
                       (record->id.w[0] & ~UINT64_C(15)) | SL_HELD)))
        return false;
    sl_hold_expiry_lower(r, record->number / SL_HOLD_BLOCK, h->expires);
    return true;
}

static void leave(struct sl_set *set, bool done)
{
    struct holding *h = take_of(set);

    if (h->claimed)
        sl_hold_record_let_go(set->intent, &h->record, done);
    for (unsigned i = 0; done && i < set->count; i++)
        if (set->items[i].part->limit->kind == SL_PERMITS)
            sl_permit_eta_forget(set->table, &set->items[i].key);
}

enum sl_set_result sl_table_hold(struct sl_table *table, struct sl_part *parts,
                                 unsigned count, struct sl_hold_id id,
                                 sl_ns life, sl_ns now, bool fresh)
{
    struct holding h; /* two kilobytes, mostly unused */

    sl_hold_record_prefetch(&table->region, id);
    sl_hold_record_fetch_next(table, id);
    h.extra = (struct sl_set_extra){take_ready, take_join, NULL, leave};
    h.record.id = id;
    h.record.life = life;
    h.claimed = false;
    return sl_set_decide_with(table, parts, count, now, fresh, &h.extra);
}
