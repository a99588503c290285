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
            return SL_HOLD_EXPIRY_NONE;
        if ((sl_ns)head.w[0] > now)
            return (sl_ns)head.w[0];
        (void)sl_hold_end_expired(table, intent, number, head);
    }
}

/* Returns when the next one in the block expires; 0 if nobody knows. */
static sl_ns expire_block(struct sl_table *table, struct sl_intent *intent,
                          uint64_t block, sl_ns now)
{
    sl_word *due = sl_hold_expiry_of(intent->region, block);
    uint64_t number = sl_hold_expiry_begin(due);
    sl_ns found = SL_HOLD_EXPIRY_NONE;

    for (uint64_t i = 0; i < SL_HOLD_BLOCK; i++)
        found = earlier(found, expire_record(table, intent,
                                             block * SL_HOLD_BLOCK + i, now));
    return sl_hold_expiry_finish(due, number, found) ? found : 0;
}

/* What is due, the earliest first, as far as there is room. What comes back of
 * a bucket depends on the order in which its holds end: of those that come too
 * late it gets less. So they are put in order, some hundreds at a time; but
 * after some thousands the rest ends as it lies, or the way through all that is
 * held would be gone again and again. */
#define QUEUE  512
#define ROUNDS 8

struct due {
    sl_ns expires;
    uint64_t number;
};

/* The earliest that were seen; the latest of them is first, and each is later
 * than those at 2 i + 1 and 2 i + 2. */
struct queue {
    unsigned count;
    struct due due[QUEUE];
};

static void sink(struct queue *q, unsigned at, struct due due)
{
    for (unsigned child = 2 * at + 1; child < q->count; child = 2 * at + 1) {
        if (child + 1 < q->count &&
            q->due[child + 1].expires > q->due[child].expires)
            child++;
        if (q->due[child].expires <= due.expires)
            break;
        q->due[at] = q->due[child];
        at = child;
    }
    q->due[at] = due;
}

static void enqueue(struct queue *q, struct due due)
{
    unsigned at;

    if (q->count == QUEUE) {
        if (due.expires < q->due[0].expires)
            sink(q, 0, due);
        return;
    }
    for (at = q->count++; at > 0; at = (at - 1) / 2) {
        if (q->due[(at - 1) / 2].expires >= due.expires)
            break;
        q->due[at] = q->due[(at - 1) / 2];
    }
    q->due[at] = due;
}

/* In order: the latest goes to the end, again and again. */
static void sort(struct queue *q)
{
    unsigned all = q->count;

    while (q->count > 1) {
        struct due last = q->due[0];

        q->count--;
        sink(q, 0, q->due[q->count]);
        q->due[q->count] = last;
    }
    q->count = all;
}

static void gather(struct sl_intent *intent, struct queue *q, sl_ns now)
{
    const struct sl_region *r = intent->region;
    uint64_t blocks = sl_hold_record_blocks(r);

    q->count = 0;
    for (uint64_t b = 0; b < blocks; b++) {
        if (sl_hold_expiry_read(sl_hold_expiry_of(r, b)) > now)
            continue;
        for (uint64_t i = 0; i < SL_HOLD_BLOCK; i++) {
            struct due due = {.number = b * SL_HOLD_BLOCK + i};
            struct sl_cell head = sl_hold_record_head(intent, due.number);

            due.expires = (sl_ns)head.w[0];
            if (sl_hold_record_state(head) == SL_HELD && due.expires <= now)
                enqueue(q, due);
        }
    }
    sort(q);
}

static void expire_in_order(struct sl_table *table, struct sl_intent *intent,
                            sl_ns now)
{
    struct queue q;

    for (unsigned round = 0; round < ROUNDS; round++) {
        gather(intent, &q, now);
        for (unsigned i = 0; i < q.count; i++)
            (void)expire_record(table, intent, q.due[i].number, now);
        if (q.count < QUEUE)
            return;
    }
}

/* Afterwards it is counted when the next one is due; what has become due in
 * between is ended then. */
void sl_holds_expire(struct sl_table *table, sl_ns now)
{
    struct sl_intent *intent = sl_actor_borrow(&table->actors);
    const struct sl_region *r = &table->region;
    sl_word *all = sl_hold_expiry_of_all(r);
    uint64_t number = sl_hold_expiry_begin(all);
    uint64_t blocks = sl_hold_record_blocks(r);
    sl_ns found = SL_HOLD_EXPIRY_NONE;

    expire_in_order(table, intent, now);
    for (uint64_t b = 0; b < blocks; b++) {
        sl_ns due = sl_hold_expiry_read(sl_hold_expiry_of(r, b));

        if (due <= now)
            due = expire_block(table, intent, b, now);
        found = earlier(found, due);
    }
    if (found > 0)
        (void)sl_hold_expiry_finish(all, number, found);
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
        if (sl_hold_expiry_read(sl_hold_expiry_of(r, b)) == SL_HOLD_EXPIRY_NONE)
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
                sl_hold_end_move(intent, number, head, most))
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
    const struct sl_slot_key *key;
    uint64_t generation;
};

static bool forget(struct sl_intent *intent, uint64_t number,
                   struct sl_cell head, void *ctx)
{
    const struct forgotten *f = ctx;
    struct sl_hold_record record;

    if (!sl_hold_record_read(intent, number, head, &record))
        return true; /* it has just ended, or begun */
    for (unsigned i = 0; i < record.count; i++)
        if (sl_hold_key_is_of(&record.part[i], f->key) &&
            record.part[i].generation != f->generation)
            sl_hold_record_untrack(intent->region, &record, i);
    return true;
}

void sl_holds_forget(const struct sl_set *set, const struct sl_slot_key *key,
                     uint64_t generation)
{
    struct forgotten f = {key, generation};

    if (!sl_none_held(set->intent->region))
        visit_held(set->intent, forget, &f);
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
