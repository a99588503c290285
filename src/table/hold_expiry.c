/* hold_expiry.c -- expiry of holds, and when permits come back. The contract is
 * in hold_record.h. */
#include "base/arith.h"
#include "table/hold_record.h"

/* ---- the next expiry of a block and of the region ---- */

static struct sl_cell read_pair(const sl_word *due)
{
    return sl_cell_of(atomic_load(&due[0]), atomic_load(&due[1]));
}

sl_word *sl_hold_expiry_of(const struct sl_region *r, uint64_t block)
{
    return sl_region_word(r, sl_region_head(r)->holds_at + block * 16);
}

static void lower(sl_word *due, uint64_t expires)
{
    struct sl_cell old;

    do {
        old = read_pair(due);
        if (old.w[0] != 0 && old.w[0] <= expires)
            return;
        SL_STEP(SL_STEP_DUE);
    } while (!sl_swap_pair(due, old,
                           sl_cell_of(old.w[0] ? expires : 0, old.w[1] + 1)));
}

/* The block first: a thread that finds the region due reads the blocks. */
void sl_hold_expiry_lower(const struct sl_region *r, uint64_t block,
                          sl_ns expires)
{
    lower(sl_hold_expiry_of(r, block), (uint64_t)expires);
    lower(sl_region_head(r)->due, (uint64_t)expires);
}

/* Begins a recount. Returns its number. */
static uint64_t begin_recount(sl_word *due)
{
    struct sl_cell old;

    do {
        old = read_pair(due);
        SL_STEP(SL_STEP_DUE);
    } while (!sl_swap_pair(due, old, sl_cell_of(0, old.w[1] + 1)));
    return old.w[1] + 1;
}

/* False: the recount is void, and the next expiry stays 0. */
static bool finish_recount(sl_word *due, uint64_t number, sl_ns found)
{
    SL_STEP(SL_STEP_DUE);
    return sl_swap_pair(due, sl_cell_of(0, number),
                        sl_cell_of((uint64_t)found, number));
}

static sl_ns next_expiry(const struct sl_region *r, uint64_t block)
{
    return (sl_ns)atomic_load(sl_hold_expiry_of(r, block));
}

/* ---- visits ---- */

typedef void visit_f(struct sl_intent *intent, uint64_t number,
                     struct sl_cell head, void *ctx);

/* Visits every held record, except in blocks without an expiry up to `until`.
 */
static void visit_held(struct sl_intent *intent, sl_ns until, visit_f *visit,
                       void *ctx)
{
    uint64_t blocks = sl_hold_record_blocks(intent->region);

    for (uint64_t b = 0; b < blocks; b++) {
        if (next_expiry(intent->region, b) > until)
            continue;
        for (uint64_t i = 0; i < SL_HOLD_BLOCK; i++) {
            uint64_t number = b * SL_HOLD_BLOCK + i;
            struct sl_cell head = sl_hold_record_head(intent, number);

            if (sl_hold_record_state(head) == SL_HELD)
                visit(intent, number, head, ctx);
        }
    }
}

#define ALL_HELD (SL_HOLD_EXPIRY_NONE - 1)

/* ---- expiry ---- */

/* Ends the hold of a record if it has expired. Returns when it expires. */
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

/* Returns the next expiry in the block; 0: unknown. */
static sl_ns expire_block(struct sl_table *table, struct sl_intent *intent,
                          uint64_t block, sl_ns now)
{
    sl_word *due = sl_hold_expiry_of(intent->region, block);
    uint64_t number = begin_recount(due);
    sl_ns found = SL_HOLD_EXPIRY_NONE;

    for (uint64_t i = 0; i < SL_HOLD_BLOCK; i++) {
        sl_ns expires =
            expire_record(table, intent, block * SL_HOLD_BLOCK + i, now);

        found = expires < found ? expires : found;
    }
    return finish_recount(due, number, found) ? found : 0;
}

/* Expired holds end in the order of their expiry: a bucket gets less back from
 * a hold that ends too late. Some hundreds are sorted at a time. After ROUNDS
 * times the rest ends in any order, so that the work stays bounded. */
#define QUEUE  512
#define ROUNDS 8

struct due {
    sl_ns expires;
    uint64_t number;
};

/* A heap of the earliest, the latest of them first. */
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

struct gathering {
    struct queue queue;
    sl_ns now;
};

static void gather(struct sl_intent *intent, uint64_t number,
                   struct sl_cell head, void *ctx)
{
    struct gathering *g = ctx;

    (void)intent;
    if ((sl_ns)head.w[0] <= g->now)
        enqueue(&g->queue, (struct due){(sl_ns)head.w[0], number});
}

static void expire_in_order(struct sl_table *table, struct sl_intent *intent,
                            sl_ns now)
{
    struct gathering g;
    struct queue *q = &g.queue;

    g.now = now;
    for (unsigned round = 0; round < ROUNDS; round++) {
        q->count = 0;
        visit_held(intent, now, gather, &g);
        sort(q);
        for (unsigned i = 0; i < q->count; i++)
            (void)expire_record(table, intent, q->due[i].number, now);
        if (q->count < QUEUE)
            return;
    }
}

/* The recount also ends what has expired meanwhile. */
void sl_holds_expire(struct sl_table *table, sl_ns now)
{
    struct sl_intent *intent = sl_actor_borrow(&table->actors);
    const struct sl_region *r = &table->region;
    sl_word *all = sl_region_head(r)->due;
    uint64_t number = begin_recount(all);
    uint64_t blocks = sl_hold_record_blocks(r);
    sl_ns found = SL_HOLD_EXPIRY_NONE;

    expire_in_order(table, intent, now);
    for (uint64_t b = 0; b < blocks; b++) {
        sl_ns due = next_expiry(r, b);

        if (due <= now)
            due = expire_block(table, intent, b, now);
        found = due < found ? due : found;
    }
    if (found > 0)
        (void)finish_recount(all, number, found);
    sl_actor_return(&table->actors, intent);
}

/* ---- clock steps, resets, statistics ---- */

static void shorten(struct sl_intent *intent, uint64_t number,
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
}

void sl_holds_shorten(struct sl_table *table, sl_ns now)
{
    struct sl_intent *intent;

    if (sl_none_held(&table->region))
        return;
    intent = sl_actor_borrow(&table->actors);
    visit_held(intent, ALL_HELD, shorten, &now);
    sl_actor_return(&table->actors, intent);
}

struct forgotten {
    const struct sl_slot_key *key;
    uint64_t generation;
};

static void forget(struct sl_intent *intent, uint64_t number,
                   struct sl_cell head, void *ctx)
{
    const struct forgotten *f = ctx;
    struct sl_hold_record record;

    if (!sl_hold_record_read(intent, number, head, &record))
        return; /* it has just ended, or begun */
    for (unsigned i = 0; i < record.count; i++)
        if (sl_hold_key_is_of(&record.part[i], f->key) &&
            record.part[i].generation != f->generation)
            sl_hold_record_untrack(intent->region, &record, i);
}

void sl_holds_forget(const struct sl_set *set, const struct sl_slot_key *key,
                     uint64_t generation)
{
    struct forgotten f = {key, generation};

    if (!sl_none_held(set->intent->region))
        visit_held(set->intent, ALL_HELD, forget, &f);
}

static void count_one(struct sl_intent *intent, uint64_t number,
                      struct sl_cell head, void *ctx)
{
    (void)intent;
    (void)number;
    (void)head;
    ++*(uint64_t *)ctx;
}

void sl_table_hold_stats(struct sl_table *table, struct sl_hold_stats *ret)
{
    struct sl_intent *intent = sl_actor_borrow(&table->actors);

    ret->held = 0;
    ret->places = sl_hold_record_blocks(&table->region) * SL_HOLD_BLOCK;
    visit_held(intent, ALL_HELD, count_one, &ret->held);
    sl_actor_return(&table->actors, intent);
}

struct held_units {
    struct sl_slot_key key;
    uint64_t generation; /* of its slot; other holds were reset */
    uint64_t units;
};

static void add_units(struct sl_intent *intent, uint64_t number,
                      struct sl_cell head, void *ctx)
{
    struct held_units *h = ctx;
    struct sl_hold_record record;

    if (!sl_hold_record_read(intent, number, head, &record))
        return; /* it has just ended, or begun */
    for (unsigned i = 0; i < record.count; i++)
        if (sl_hold_key_is_of(&record.part[i], &h->key) &&
            record.part[i].generation == h->generation)
            h->units = sl_add_sat(h->units, record.part[i].cost);
}

uint64_t sl_table_held_units(struct sl_table *table, uint32_t limit_id,
                             struct sl_hash128 fingerprint)
{
    struct sl_intent *intent = sl_actor_borrow(&table->actors);
    struct held_units h = {.units = 0};
    struct sl_slot slot;
    struct sl_cell cell;
    uint64_t head;

    sl_slot_key_again(&table->region, limit_id, fingerprint, &h.key);
    if (sl_slot_key_find(intent, &h.key, &slot, &head) &&
        sl_slot_read(intent, slot, h.key.tag, &cell)) {
        h.generation = cell.w[1] >> SL_CELL_W1_BITS;
        visit_held(intent, ALL_HELD, add_units, &h);
    }
    sl_actor_return(&table->actors, intent);
    return h.units;
}

/* ---- when permits come back; see hold_record.h.
 *
 * The search is bounded: a denied caller must not keep the thread busy. A block
 * costs four words, a record some cache lines.
 */
#define BLOCKS_MOST 2048 /* blocks whose signs are read */
#define READ_MOST   2048 /* records that are read */
#define FIRST_MOST  256  /* holds that must expire */

#define NUMBER_BITS 40 /* of a record */
#define NONE        ((UINT64_C(1) << NUMBER_BITS) - 1)

#define SIGN_BITS 16
#define ANY_SIGN  UINT64_C(0xffff) /* of several keys */
#define PER_WORD  (64 / SIGN_BITS)
#define PER_ROW   (SL_HOLD_BLOCK / 2)
#define ROW       UINT64_C(128)
#define EACH_SIGN UINT64_C(0x0001000100010001)
#define ALL_SIGNS UINT64_MAX
#define TOP_FREE                                                               \
    (ALL_SIGNS >> SIGN_BITS) /* the second word of a row has three */

/* The word with the sign of a record, and its shift. */
static sl_word *sign_of(const struct sl_region *r, uint64_t number,
                        unsigned *shift)
{
    uint64_t at = sl_hold_record_at(r, number);
    uint64_t in_row = at % ROW / 16 - 1;

    *shift = (unsigned)(in_row % PER_WORD) * SIGN_BITS;
    return sl_region_word(r, at - at % ROW + in_row / PER_WORD * 8);
}

/* Neither 0 nor ANY_SIGN. */
static uint64_t sign_for(struct sl_hash128 hash)
{
    return 1 + hash.lo % (ANY_SIGN - 1);
}

static bool holds_permit(const struct sl_region *r,
                         const struct sl_hold_key *kept)
{
    return kept->cost > 0 &&
           sl_region_limit(r, kept->limit)->kind == SL_PERMITS;
}

void sl_hold_record_sign(const struct sl_region *r,
                         const struct sl_hold_record *record)
{
    unsigned shift;
    sl_word *word = sign_of(r, record->number, &shift);
    uint64_t last = atomic_load_explicit(word, memory_order_relaxed);
    uint64_t sign = 0, next;

    for (unsigned i = 0; i < record->count; i++)
        if (holds_permit(r, &record->part[i]))
            sign = sign ? ANY_SIGN : sign_for(record->part[i].hash);
    do {
        next = (last & ~(ANY_SIGN << shift)) | sign << shift;
    } while (next != last && !atomic_compare_exchange_weak(word, &last, next));
}

/* The earliest holds of a key's permits, in order of expiry. */
struct soonest {
    const struct sl_slot_key *key;
    uint64_t generation; /* of its slot; other holds were reset */
    unsigned read;
    unsigned most; /* entries needed */
    unsigned count;
    struct {
        sl_ns expires;
        uint64_t cost;
        uint64_t number;
    } held[FIRST_MOST];
};

static void put_in_order(struct soonest *s, sl_ns expires, uint64_t cost,
                         uint64_t number)
{
    unsigned at = s->count < s->most ? s->count++ : s->most;

    for (; at > 0 && s->held[at - 1].expires > expires; at--)
        if (at < s->most)
            s->held[at] = s->held[at - 1];
    if (at < s->most) {
        s->held[at].expires = expires;
        s->held[at].cost = cost;
        s->held[at].number = number;
    }
}

static bool is_too_late(const struct soonest *s, sl_ns expires)
{
    return s->count == s->most && expires >= s->held[s->most - 1].expires;
}

static void collect(const struct sl_intent *intent, uint64_t number,
                    struct soonest *s)
{
    struct sl_cell head = sl_hold_record_head(intent, number);
    struct sl_hold_record record;

    if (sl_hold_record_state(head) != SL_HELD ||
        is_too_late(s, (sl_ns)head.w[0]))
        return;
    s->read++;
    if (!sl_hold_record_read(intent, number, head, &record))
        return;
    for (unsigned i = 0; i < record.count; i++)
        if (sl_hold_key_is_of(&record.part[i], s->key) &&
            record.part[i].cost > 0 &&
            record.part[i].generation == s->generation) {
            put_in_order(s, (sl_ns)head.w[0], record.part[i].cost, number);
            break;
        }
}

/* The highest bit of each of four signs that is 0, and perhaps of the sign
 * above such a sign. */
static uint64_t zeros(uint64_t signs)
{
    return (signs - EACH_SIGN) & ~signs & EACH_SIGN << (SIGN_BITS - 1);
}

/* Reads the records whose sign is that of the key or ANY_SIGN. `used` has a bit
 * for each sign that has a record. */
static void collect_word(const struct sl_intent *intent, const sl_word *word,
                         uint64_t used, uint64_t first, struct soonest *s)
{
    uint64_t signs = atomic_load_explicit(word, memory_order_acquire);
    uint64_t hits =
        zeros(signs ^ sign_for(s->key->hash) * EACH_SIGN) | zeros(~signs);

    hits &= used;
    for (; hits; hits &= hits - 1)
        collect(intent, first + (uint64_t)__builtin_ctzll(hits) / SIGN_BITS, s);
}

static void collect_block(const struct sl_intent *intent, uint64_t block,
                          struct soonest *s)
{
    const struct sl_region *r = intent->region;
    uint64_t number = block * SL_HOLD_BLOCK;
    uint64_t at = sl_hold_record_at(r, number);
    const sl_word *row = sl_region_word(r, at - at % ROW);

    for (unsigned i = 0; i < 2; i++) {
        collect_word(intent, row, ALL_SIGNS, number, s);
        collect_word(intent, row + 1, TOP_FREE, number + PER_WORD, s);
        row += ROW / sizeof(*row);
        number += PER_ROW;
    }
}

/* False: too many. The next expiry of a block is never too late, so later
 * blocks are skipped. */
static bool collect_all(const struct sl_intent *intent, struct soonest *s)
{
    const struct sl_region *r = intent->region;
    uint64_t blocks = sl_hold_record_blocks(r), looked = 0;

    for (uint64_t b = 0; b < blocks; b++) {
        sl_ns due = next_expiry(r, b);

        if (due == SL_HOLD_EXPIRY_NONE || is_too_late(s, due))
            continue;
        if (looked++ == BLOCKS_MOST || s->read > READ_MOST)
            return false;
        collect_block(intent, b, s);
    }
    return true;
}

/* The record whose expiry frees enough, and when; NONE: none. */
static uint64_t find_record(const struct soonest *s, uint64_t need,
                            sl_ns *expires)
{
    for (unsigned i = 0; i < s->count; i++) {
        if (s->held[i].cost >= need) {
            *expires = s->held[i].expires;
            return s->held[i].number;
        }
        need -= s->held[i].cost;
    }
    *expires = SL_NS_NONE;
    return NONE;
}

/* The saved answers. The second word is the number of a record below a version,
 * the first a hash of what the answer depends on. */
#define EPOCH_BITS 27 /* of ns: an eighth of a second */

/* A row has two entries, so that two keys can share it. */
static struct sl_saved_answer *row_of(struct sl_table *table,
                                      const struct sl_slot_key *key)
{
    return &table->memo[key->tag % (SL_SAVED_ANSWERS / 2) * 2];
}

void sl_permit_eta_forget(struct sl_table *table, const struct sl_slot_key *key)
{
    struct sl_saved_answer *row = row_of(table, key);

    for (unsigned i = 0; i < 2; i++)
        atomic_fetch_add(&row[i].word[1], UINT64_C(1) << NUMBER_BITS);
}

static uint64_t add_up(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return sum ^ sum >> 32;
}

/* What an answer depends on. */
struct question {
    const struct sl_slot_key *key;
    struct sl_cell cell;
    uint64_t need;
    sl_ns now;
};

static uint64_t sum_of(const struct question *q, uint64_t second,
                       struct sl_cell head)
{
    uint64_t sum = add_up(q->key->tag, q->key->hash.lo);

    sum = add_up(sum, q->key->hash.hi);
    sum = add_up(sum, q->cell.w[0]);
    sum = add_up(sum, q->cell.w[1]);
    sum = add_up(sum, q->need);
    sum = add_up(sum, (uint64_t)q->now >> EPOCH_BITS);
    sum = add_up(sum, second);
    return add_up(add_up(sum, head.w[0]), head.w[1]);
}

/* Zeros for NONE. */
static struct sl_cell head_of(const struct sl_intent *intent, uint64_t number)
{
    return number == NONE ? sl_cell_of(0, 0)
                          : sl_hold_record_head(intent, number);
}

static bool is_it(struct sl_set *set, const struct question *q,
                  struct sl_cell memo, sl_ns *when)
{
    const struct sl_region *r = set->intent->region;
    uint64_t number = memo.w[1] & NONE;
    struct sl_cell head;

    if (number != NONE && number / SL_HOLD_BLOCK >= sl_hold_record_blocks(r))
        return false;
    head = head_of(set->intent, number);
    *when = number == NONE ? SL_NS_NONE : (sl_ns)head.w[0];
    return memo.w[0] == sum_of(q, memo.w[1], head);
}

/* Is the answer saved? `memos` becomes the saved entries as read. */
static bool recall(struct sl_set *set, const struct question *q,
                   struct sl_cell memos[2], sl_ns *when)
{
    const struct sl_saved_answer *row = row_of(set->table, q->key);

    for (unsigned i = 0; i < 2; i++) {
        memos[i].w[1] = atomic_load(&row[i].word[1]);
        memos[i].w[0] = atomic_load(&row[i].word[0]);
        if (is_it(set, q, memos[i], when))
            return true;
    }
    return false;
}

/* Saves in a random entry of the row, unless its version has changed: a hold
 * has begun or ended meanwhile. */
static void remember(struct sl_set *set, const struct question *q,
                     const struct sl_cell memos[2], uint64_t number)
{
    unsigned i = (unsigned)(add_up((uint64_t)q->now, 0) >> 63);
    uint64_t second = (memos[i].w[1] & ~NONE) | number;
    uint64_t sum = sum_of(q, second, head_of(set->intent, number));

    (void)sl_swap_pair(row_of(set->table, q->key)[i].word, memos[i],
                       sl_cell_of(sum, second));
}

static sl_ns look(struct sl_set *set, const struct question *q)
{
    struct soonest s; /* six kilobytes, mostly unused */
    struct sl_cell memos[2];
    uint64_t number = NONE;
    sl_ns when;

    if (recall(set, q, memos, &when))
        return when;
    s.key = q->key;
    s.read = s.count = 0;
    s.generation = q->cell.w[1] >> SL_CELL_W1_BITS;
    s.most = q->need < FIRST_MOST ? (unsigned)q->need : FIRST_MOST;
    when = SL_NS_NONE;
    if (collect_all(set->intent, &s))
        number = find_record(&s, q->need, &when);
    remember(set, q, memos, number);
    return when;
}

sl_ns sl_holds_soonest(struct sl_set *set, const struct sl_slot_key *key,
                       uint64_t capacity, uint64_t cost)
{
    struct question q = {.key = key, .now = set->now};
    struct sl_slot slot;
    uint64_t head;
    sl_ns when;

    if (sl_none_held(set->intent->region) ||
        !sl_slot_key_find(set->intent, key, &slot, &head) ||
        !sl_slot_read(set->intent, slot, key->tag, &q.cell))
        return SL_NS_NONE;
    q.need =
        sl_sub_floor(sl_add_sat(sl_cell_bare(q.cell).w[1], cost), capacity);
    if (q.need == 0)
        return SL_NS_NONE; /* free by now */
    when = look(set, &q);
    return when > set->now ? when - set->now : SL_NS_NONE;
}
