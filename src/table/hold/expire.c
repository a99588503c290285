/* expire.c -- what is done for all holds at once. The contract is in expire.h;
 * how it is known when there is something to do, in due.h. */
#include "table/hold/expire.h"

#include "base/arith.h"
#include "table/hold/end.h"

/* ---- expiry ---- */

static sl_ns earlier(sl_ns a, sl_ns b)
{
    return a < b ? a : b;
}

/* End what is due in a record; returns when it expires, if it is held. */
static sl_ns expire_record(struct sl_table *table, struct sl_intent *intent,
                           uint64_t number, sl_ns now)
{
    for (;;) {
        struct sl_cell head = sl_hold_record_head(intent, number);

        if (sl_hold_record_state(head) != SL_HELD)
            return SL_DUE_NONE;
        if ((sl_ns)head.w[0] > now)
            return (sl_ns)head.w[0];
        (void)sl_end_expired(table, intent, number, head);
    }
}

/* Returns when the next one in the block expires; 0 if nobody knows. */
static sl_ns expire_block(struct sl_table *table, struct sl_intent *intent,
                          uint64_t block, sl_ns now)
{
    sl_word *due = sl_due_of(intent->region, block);
    uint64_t number = sl_due_begin(due);
    sl_ns found = SL_DUE_NONE;

    for (uint64_t i = 0; i < SL_HOLD_BLOCK; i++)
        found = earlier(found, expire_record(table, intent,
                                             block * SL_HOLD_BLOCK + i, now));
    return sl_due_finish(due, number, found) ? found : 0;
}

/* What is due, the earliest first, as far as there is room. What comes back of
 * a bucket depends on the order in which its holds end. */
#define QUEUE 64

struct queue {
    unsigned count;
    struct {
        uint64_t number;
        struct sl_cell head;
    } due[QUEUE];
};

static void enqueue(struct queue *q, uint64_t number, struct sl_cell head)
{
    unsigned at = q->count < QUEUE ? q->count++ : QUEUE;

    for (; at > 0 && q->due[at - 1].head.w[0] > head.w[0]; at--)
        if (at < QUEUE)
            q->due[at] = q->due[at - 1];
    if (at < QUEUE) {
        q->due[at].number = number;
        q->due[at].head = head;
    }
}

static void gather(struct sl_intent *intent, struct queue *q, sl_ns now)
{
    const struct sl_region *r = intent->region;
    uint64_t blocks = sl_hold_record_blocks(r);

    q->count = 0;
    for (uint64_t b = 0; b < blocks; b++) {
        if (sl_due_read(sl_due_of(r, b)) > now)
            continue;
        for (uint64_t i = 0; i < SL_HOLD_BLOCK; i++) {
            uint64_t number = b * SL_HOLD_BLOCK + i;
            struct sl_cell head = sl_hold_record_head(intent, number);

            if (sl_hold_record_state(head) == SL_HELD &&
                (sl_ns)head.w[0] <= now)
                enqueue(q, number, head);
        }
    }
}

static void expire_in_order(struct sl_table *table, struct sl_intent *intent,
                            sl_ns now)
{
    struct queue q;

    do {
        gather(intent, &q, now);
        for (unsigned i = 0; i < q.count; i++)
            (void)sl_end_expired(table, intent, q.due[i].number, q.due[i].head);
    } while (q.count == QUEUE);
}

/* Afterwards it is counted when the next one is due; what has become due in
 * between is ended then. */
void sl_holds_expire(struct sl_table *table, sl_ns now)
{
    struct sl_intent *intent = sl_actor_borrow(&table->actors);
    const struct sl_region *r = &table->region;
    sl_word *all = sl_due_of_all(r);
    uint64_t number = sl_due_begin(all);
    uint64_t blocks = sl_hold_record_blocks(r);
    sl_ns found = SL_DUE_NONE;

    expire_in_order(table, intent, now);
    for (uint64_t b = 0; b < blocks; b++) {
        sl_ns due = sl_due_read(sl_due_of(r, b));

        if (due <= now)
            due = expire_block(table, intent, b, now);
        found = earlier(found, due);
    }
    if (found > 0)
        (void)sl_due_finish(all, number, found);
    sl_actor_return(&table->actors, intent);
}

/* ---- looking through all that is held ---- */

/* Called for every record that is held, with its head; false stops. */
typedef bool visit_f(struct sl_intent *intent, uint64_t number,
                     struct sl_cell head, void *ctx);

/* Blocks in which nothing is held are passed by. */
static void visit_held(struct sl_intent *intent, visit_f *visit, void *ctx)
{
    const struct sl_region *r = intent->region;
    uint64_t blocks = sl_hold_record_blocks(r);
    bool more = true;

    for (uint64_t b = 0; more && b < blocks; b++) {
        if (sl_due_read(sl_due_of(r, b)) == SL_DUE_NONE)
            continue;
        for (uint64_t i = 0; more && i < SL_HOLD_BLOCK; i++) {
            uint64_t number = b * SL_HOLD_BLOCK + i;
            struct sl_cell head = sl_hold_record_head(intent, number);

            if (sl_hold_record_state(head) == SL_HELD)
                more = visit(intent, number, head, ctx);
        }
    }
}

/* ---- a clock that has stepped back ---- */

static bool shorten(struct sl_intent *intent, uint64_t number,
                    struct sl_cell head, void *ctx)
{
    sl_ns now = *(sl_ns *)ctx;
    struct sl_hold_record record;

    while (sl_hold_record_state(head) == SL_HELD) {
        if (sl_hold_record_read(intent, number, head, &record)) {
            sl_ns most = sl_ns_add_sat(now, record.life);

            if ((sl_ns)head.w[0] <= most ||
                sl_end_move(intent, number, head, most))
                break;
        }
        head = sl_hold_record_head(intent, number);
    }
    return true;
}

void sl_holds_shorten(struct sl_table *table, sl_ns now)
{
    struct sl_intent *intent;

    if (sl_none_held(&table->region))
        return;
    intent = sl_actor_borrow(&table->actors);
    visit_held(intent, shorten, &now);
    sl_actor_return(&table->actors, intent);
}

/* ---- a key that was reset ---- */

struct forgotten {
    const struct sl_key *key;
    uint64_t generation;
};

static bool is_of(const struct sl_kept *kept, const struct sl_key *key)
{
    return kept->limit == key->tag >> SL_TAG_BITS && kept->tracked &&
           kept->hash.lo == key->hash.lo && kept->hash.hi == key->hash.hi;
}

static bool forget(struct sl_intent *intent, uint64_t number,
                   struct sl_cell head, void *ctx)
{
    const struct forgotten *f = ctx;
    struct sl_hold_record record;

    if (!sl_hold_record_read(intent, number, head, &record))
        return true; /* it has just ended, or begun */
    for (unsigned i = 0; i < record.count; i++)
        if (is_of(&record.part[i], f->key) &&
            record.part[i].generation != f->generation)
            sl_hold_record_untrack(intent->region, &record, i);
    return true;
}

void sl_holds_forget(const struct sl_set *set, const struct sl_key *key,
                     uint64_t generation)
{
    struct forgotten f = {key, generation};

    if (!sl_none_held(set->intent->region))
        visit_held(set->intent, forget, &f);
}

/* ---- the soonest that permits come back ---- */

/* So many holds are looked through, and no more: somebody who is refused must
 * not be able to keep us busy. With more of them out, nobody knows. */
#define SOONEST_MOST 256

struct soonest {
    const struct sl_key *key;
    unsigned seen;
    unsigned count;
    struct {
        sl_ns expires;
        uint64_t cost;
    } held[SOONEST_MOST];
};

static bool collect(struct sl_intent *intent, uint64_t number,
                    struct sl_cell head, void *ctx)
{
    struct soonest *s = ctx;
    struct sl_hold_record record;

    if (++s->seen > SOONEST_MOST)
        return false;
    if (!sl_hold_record_read(intent, number, head, &record))
        return true;
    for (unsigned i = 0; i < record.count; i++) {
        const struct sl_kept *k = &record.part[i];

        if (is_of(k, s->key) && k->cost > 0) {
            s->held[s->count].expires = (sl_ns)head.w[0];
            s->held[s->count++].cost = k->cost;
            break;
        }
    }
    return true;
}

/* Take the earliest out, again and again, until enough is free. */
static sl_ns when_free(struct soonest *s, uint64_t need)
{
    while (s->count > 0) {
        unsigned first = 0;

        for (unsigned i = 1; i < s->count; i++)
            if (s->held[i].expires < s->held[first].expires)
                first = i;
        if (s->held[first].cost >= need)
            return s->held[first].expires;
        need -= s->held[first].cost;
        s->held[first] = s->held[--s->count];
    }
    return SL_NS_NONE;
}

sl_ns sl_holds_soonest(struct sl_set *set, const struct sl_key *key,
                       uint64_t capacity, uint64_t cost)
{
    struct soonest s = {.key = key, .seen = 0, .count = 0};
    struct sl_slot slot;
    struct sl_cell cell;
    uint64_t head, out;
    sl_ns when;

    if (sl_none_held(set->intent->region) ||
        !sl_key_find(set->intent, key, &slot, &head) ||
        !sl_slot_read(set->intent, slot, key->tag, &cell))
        return SL_NS_NONE;
    out = sl_cell_bare(cell).w[1];
    visit_held(set->intent, collect, &s);
    if (s.seen > SOONEST_MOST)
        return SL_NS_NONE;
    when = when_free(&s, sl_sub_floor(sl_add_sat(out, cost), capacity));
    return when > set->now ? when - set->now : SL_NS_NONE;
}

/* ---- statistics ---- */

static bool count_one(struct sl_intent *intent, uint64_t number,
                      struct sl_cell head, void *ctx)
{
    (void)intent;
    (void)number;
    (void)head;
    ++*(uint64_t *)ctx;
    return true;
}

void sl_table_hold_stats(struct sl_table *table, struct sl_hold_stats *ret)
{
    struct sl_intent *intent = sl_actor_borrow(&table->actors);

    ret->held = 0;
    ret->places = sl_hold_record_blocks(&table->region) * SL_HOLD_BLOCK;
    visit_held(intent, count_one, &ret->held);
    sl_actor_return(&table->actors, intent);
}
