/* hold_expiry.c -- what is done for all holds at once. The contract is in
 * expire.h; how it is known when there is something to do, in due.h. */
#include "base/arith.h"
#include "table/hold_record.h"

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

/* ---- when the next hold expires. The essay is in due.h. */

static struct sl_cell read_pair(const sl_word *due)
{
    return sl_cell_of(atomic_load(&due[0]), atomic_load(&due[1]));
}

sl_word *sl_hold_expiry_of(const struct sl_region *r, uint64_t block)
{
    return sl_region_word(r, sl_region_head(r)->holds_at + block * 16);
}

sl_word *sl_hold_expiry_of_all(const struct sl_region *r)
{
    return sl_region_head(r)->due;
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

/* The block first: whoever finds the region due looks at the blocks. */
void sl_hold_expiry_lower(const struct sl_region *r, uint64_t block,
                          sl_ns expires)
{
    lower(sl_hold_expiry_of(r, block), (uint64_t)expires);
    lower(sl_hold_expiry_of_all(r), (uint64_t)expires);
}

uint64_t sl_hold_expiry_begin(sl_word *due)
{
    struct sl_cell old;

    do {
        old = read_pair(due);
        SL_STEP(SL_STEP_DUE);
    } while (!sl_swap_pair(due, old, sl_cell_of(0, old.w[1] + 1)));
    return old.w[1] + 1;
}

bool sl_hold_expiry_finish(sl_word *due, uint64_t number, sl_ns found)
{
    SL_STEP(SL_STEP_DUE);
    return sl_swap_pair(due, sl_cell_of(0, number),
                        sl_cell_of((uint64_t)found, number));
}

/* ---- when permits come back. The essay is in soonest.h. */

/* So much is looked through, and no more: somebody who is refused must not be
 * able to keep us busy. A block that may have something is four words, a record
 * that may expire in time some lines. */
#define BLOCKS_MOST 2048 /* of 14 records each, whose signs are looked at */
#define READ_MOST   2048 /* records that are read */
#define FIRST_MOST  256  /* that must expire before enough is free */

#define NUMBER_BITS 40 /* of a record */
#define NONE        ((UINT64_C(1) << NUMBER_BITS) - 1)

/* ---- signs ---- */

#define SIGN_BITS 16
#define ANY_SIGN  UINT64_C(0xffff) /* of several keys */
#define PER_WORD  (64 / SIGN_BITS)
#define PER_ROW   (SL_HOLD_BLOCK / 2)
#define ROW       UINT64_C(128)
#define EACH_SIGN UINT64_C(0x0001000100010001)
#define ALL_SIGNS UINT64_MAX
#define TOP_FREE  (ALL_SIGNS >> SIGN_BITS) /* a row's second word has three */

/* The word that has the sign of a record, and how far up. */
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

/* ---- looking ---- */

/* The earliest of a key's permits, in their order. */
struct soonest {
    const struct sl_slot_key *key;
    uint64_t generation; /* of its slot: what was held before a reset is gone */
    unsigned read;
    unsigned most; /* of them are needed, at most */
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

/* What expires at `expires` would not be among them. */
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

/* The highest bit of each of four signs that is 0, and perhaps of one above
 * such: whoever finds none has missed none. */
static uint64_t zeros(uint64_t signs)
{
    return (signs - EACH_SIGN) & ~signs & EACH_SIGN << (SIGN_BITS - 1);
}

/* Four signs at a time: those of the key, and those of several; none where
 * there is no record. */
static void collect_word(const struct sl_intent *intent, const sl_word *word,
                         uint64_t there, uint64_t first, struct soonest *s)
{
    uint64_t signs = atomic_load_explicit(word, memory_order_acquire);
    uint64_t hits =
        zeros(signs ^ sign_for(s->key->hash) * EACH_SIGN) | zeros(~signs);

    hits &= there;
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

/* False if there are too many. A block whose next expiry is too late is passed
 * by: when that is, it never says too late. */
static bool collect_all(const struct sl_intent *intent, struct soonest *s)
{
    const struct sl_region *r = intent->region;
    uint64_t blocks = sl_hold_record_blocks(r), looked = 0;

    for (uint64_t b = 0; b < blocks; b++) {
        sl_ns due = sl_hold_expiry_read(sl_hold_expiry_of(r, b));

        if (due == SL_HOLD_EXPIRY_NONE || is_too_late(s, due))
            continue;
        if (looked++ == BLOCKS_MOST || s->read > READ_MOST)
            return false;
        collect_block(intent, b, s);
    }
    return true;
}

/* The record with which enough is free, and when; NONE: there is none. */
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

/* ---- what was found last ---- */

/* The second word is the number of a record below a version, the first a sum
 * over what it was found by. */
#define EPOCH_BITS 27 /* of ns: an eighth of a second */

/* Two keys that meet in a row need not drive each other out. */
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

/* What was asked, and of whom. */
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

/* The head of a record that was found; zeros if none was. */
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

/* Is it known already? In `memos` is what was remembered when we looked. */
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

/* In the one or the other, as it happens. Not if somebody has begun or ended a
 * hold meanwhile: then the version is another. */
static void remember(struct sl_set *set, const struct question *q,
                     const struct sl_cell memos[2], uint64_t number)
{
    unsigned i = (unsigned)(add_up((uint64_t)q->now, 0) >> 63);
    uint64_t second = (memos[i].w[1] & ~NONE) | number;
    uint64_t sum = sum_of(q, second, head_of(set->intent, number));

    (void)sl_swap_pair(row_of(set->table, q->key)[i].word, memos[i],
                       sl_cell_of(sum, second));
}

/* ---- the answer ---- */

static sl_ns look(struct sl_set *set, const struct question *q)
{
    struct soonest s; /* six kilobytes of which little is used */
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
        return SL_NS_NONE; /* it has become free meanwhile */
    when = look(set, &q);
    return when > set->now ? when - set->now : SL_NS_NONE;
}
