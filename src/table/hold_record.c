/* hold_record.c -- the record of a hold. The format is in hold_record.h. */
#include "table/hold_record.h"

#include "base/arith.h"

/* The words of a body, and of its parts. */
enum { ID_LO, ID_HI, TAKEN, STEPPED, LIFE, COUNT };
enum {
    HASH_LO,
    HASH_HI,
    COST,
    SLOT,
    SNAPSHOT_0,
    SNAPSHOT_1,
    RATE,
    CAPACITY,
    REFUNDS_0,
    REFUNDS_1,
    UNHELD = CAPACITY /* of buckets */
};

/* COST has the limit's number in its low bits. SLOT has two flags, the bucket,
 * the slot and its generation. RATE of a bucket has the capacity above the
 * count, both below 2^32. */
#define LIMIT_BITS 10
#define TRACKED    (UINT64_C(1) << 62)
#define BUCKET     (UINT64_C(1) << 61)
#define COUNT_BITS 32

static_assert(SL_LIMITS == 1 << LIMIT_BITS, "limits fit a part");

#define PER_ROW  (SL_HOLD_BLOCK / 2)
#define HEADS    UINT64_C(256)
#define CHOICES  2 /* blocks of each length in which an id may lie */
#define BLOCKS   (2 * CHOICES)
#define NO_BLOCK UINT64_MAX

static void put(sl_word *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* ---- where ---- */

static bool is_short(const struct sl_region *r, uint64_t block)
{
    return block < sl_region_head(r)->shorts;
}

static uint64_t body_size(unsigned parts)
{
    return sizeof(struct sl_hold_record_body) +
           parts * sizeof(struct sl_hold_record_part);
}

static uint64_t block_at(const struct sl_region *r, uint64_t block)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t few = HEADS + SL_HOLD_BLOCK * body_size(SL_HOLD_FEW);
    uint64_t many = HEADS + SL_HOLD_BLOCK * body_size(SL_HOLD_MANY);

    return is_short(r, block) ? head->short_at + block * few
                              : head->long_at + (block - head->shorts) * many;
}

/* The offset of a head in its block. */
static uint64_t head_in(uint64_t i)
{
    return (i < PER_ROW ? 1 + i : 2 + i) * 16;
}

/* From the head of record `i` to the next. */
static uint64_t head_step(uint64_t i)
{
    return i + 1 == PER_ROW ? 32 : 16;
}

uint64_t sl_hold_record_at(const struct sl_region *r, uint64_t number)
{
    return block_at(r, number / SL_HOLD_BLOCK) +
           head_in(number % SL_HOLD_BLOCK);
}

static unsigned room_of(const struct sl_region *r, uint64_t number)
{
    return is_short(r, number / SL_HOLD_BLOCK) ? SL_HOLD_FEW : SL_HOLD_MANY;
}

static struct sl_hold_record_body *body_of(const struct sl_region *r,
                                           uint64_t number)
{
    uint64_t at = block_at(r, number / SL_HOLD_BLOCK) + HEADS +
                  number % SL_HOLD_BLOCK * body_size(room_of(r, number));

    return (struct sl_hold_record_body *)(void *)(r->base + at);
}

/* The block of `id` of choice 0 .. BLOCKS - 1, the short ones first; NO_BLOCK:
 * none. */
static uint64_t block_of(const struct sl_region *r, struct sl_hold_id id,
                         unsigned choice)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t word = id.w[choice % CHOICES];

    if (choice < CHOICES)
        return head->shorts ? sl_scale(word, head->shorts) : NO_BLOCK;
    return head->longs ? head->shorts + sl_scale(word, head->longs) : NO_BLOCK;
}

void sl_hold_record_prefetch(const struct sl_region *r, struct sl_hold_id id)
{
    uint64_t block = block_of(r, id, 0);
    const char *at;

    if (block == NO_BLOCK)
        return;
    at = r->base + block_at(r, block);
    for (uint64_t i = 0; i < HEADS; i += 64)
        __builtin_prefetch(at + i, 1);
}

static void fetch_body(const struct sl_region *r, uint64_t number)
{
    const char *body = (const char *)body_of(r, number);

    __builtin_prefetch(body, 1);
    __builtin_prefetch(body + 64, 1);
    __builtin_prefetch(body + 128, 1);
}

void sl_hold_record_fetch_next(const struct sl_table *table,
                               struct sl_hold_id id)
{
    uint64_t block = block_of(&table->region, id, 0);
    unsigned next;

    if (block == NO_BLOCK)
        return;
    next = atomic_load_explicit(&table->hold_next[block % SL_HOLD_NEXT],
                                memory_order_relaxed);
    fetch_body(&table->region, block * SL_HOLD_BLOCK + next);
}

void sl_hold_record_note_next(struct sl_table *table, uint64_t claimed)
{
    uint64_t block = claimed / SL_HOLD_BLOCK;

    if (is_short(&table->region, block))
        atomic_store_explicit(&table->hold_next[block % SL_HOLD_NEXT],
                              (unsigned char)((claimed + 1) % SL_HOLD_BLOCK),
                              memory_order_relaxed);
}

/* ---- reading ---- */

struct sl_cell sl_hold_record_head_at(const struct sl_intent *intent,
                                      uint64_t at)
{
    const sl_word *word = sl_region_word(intent->region, at);
    struct sl_cell head;

    do {
        head.w[0] = sl_intent_lock_read(intent, at);
        head.w[1] = atomic_load(&word[1]);
    } while (atomic_load(&word[0]) != head.w[0] ||
             atomic_load(&word[1]) != head.w[1]);
    return head;
}

static void read_part(const struct sl_hold_record_part *p,
                      struct sl_hold_key *ret)
{
    uint64_t cost = sl_get(&p->word[COST]), slot = sl_get(&p->word[SLOT]);
    uint64_t place = slot & (BUCKET - 1);

    *ret = (struct sl_hold_key){
        .limit = cost & (SL_LIMITS - 1),
        .hash = {sl_get(&p->word[HASH_LO]),    sl_get(&p->word[HASH_HI])   },
        .cost = cost >> LIMIT_BITS,
        .is_bucket = slot & BUCKET,
        .tracked = slot & TRACKED,
        .slot = {place >> 16,                  (unsigned)(slot >> 8 & 0xff)},
        .generation = slot & 0xff,
        .snapshot.w = {sl_get(&p->word[SNAPSHOT_0]),
                 sl_get(&p->word[SNAPSHOT_1])                              },
        .count = sl_get(&p->word[RATE]),
        .capacity = sl_get(&p->word[CAPACITY]),
        .refunds = {sl_get(&p->word[REFUNDS_0]),  sl_get(&p->word[REFUNDS_1]) },
    };
    if (ret->is_bucket) {
        ret->unheld = sl_get(&p->word[UNHELD]);
        ret->capacity = ret->count >> COUNT_BITS;
        ret->count &= SL_COUNT_MAX;
    }
}

static void read_body(const struct sl_region *r, uint64_t number,
                      struct sl_hold_record *ret)
{
    const struct sl_hold_record_body *b = body_of(r, number);
    uint64_t count = sl_get(&b->word[COUNT]);
    unsigned room = room_of(r, number);

    ret->number = number;
    ret->at = sl_hold_record_at(r, number);
    ret->id = (struct sl_hold_id){
        {sl_get(&b->word[ID_LO]), sl_get(&b->word[ID_HI])}
    };
    ret->taken = (sl_ns)sl_get(&b->word[TAKEN]);
    ret->stepped = sl_get(&b->word[STEPPED]);
    ret->life = (sl_ns)sl_get(&b->word[LIFE]);
    ret->count = count < room ? (unsigned)count : room;
    for (unsigned i = 0; i < ret->count; i++)
        read_part(&b->part[i], &ret->part[i]);
}

bool sl_hold_record_read(const struct sl_intent *intent, uint64_t number,
                         struct sl_cell head, struct sl_hold_record *ret)
{
    const struct sl_region *r = intent->region;
    const sl_word *word;

    ret->head = head;
    read_body(r, number, ret);
    word = sl_region_word(r, ret->at);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&word[0]) == head.w[0] &&
           atomic_load(&word[1]) == head.w[1];
}

/* May this be the head of `id`? Only the body has the whole id. */
static bool may_be(struct sl_cell head, struct sl_hold_id id)
{
    enum sl_hold_record_state state = sl_hold_record_state(head);

    return head.w[1] >> 4 == id.w[0] >> 4 &&
           (state == SL_HELD || state == SL_ENDED);
}

/* The second word alone excludes most heads. */
static bool find_in(const struct sl_intent *intent, uint64_t block,
                    struct sl_hold_id id, struct sl_hold_record *ret)
{
    const struct sl_region *r = intent->region;
    uint64_t at = block_at(r, block) + head_in(0);

    for (uint64_t i = 0; i < SL_HOLD_BLOCK; at += head_step(i), i++) {
        uint64_t number = block * SL_HOLD_BLOCK + i;
        const sl_word *word = sl_region_word(r, at);
        struct sl_cell head;

        if (sl_get(&word[1]) >> 4 != id.w[0] >> 4)
            continue;
        do {
            head = sl_hold_record_head_at(intent, at);
        } while (may_be(head, id) &&
                 !sl_hold_record_read(intent, number, head, ret));
        if (may_be(head, id) && ret->id.w[0] == id.w[0] &&
            ret->id.w[1] == id.w[1])
            return true;
    }
    return false;
}

bool sl_hold_record_find(const struct sl_intent *intent, struct sl_hold_id id,
                         struct sl_hold_record *ret)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint64_t block = block_of(intent->region, id, i);

        if (block != NO_BLOCK && find_in(intent, block, id, ret))
            return true;
    }
    return false;
}

/* ---- claiming ---- */

/* Is a claim dead: not recorded by its actor? */
static bool is_dead(const struct sl_region *r, uint64_t actor, uint64_t at)
{
    return actor >= SL_ACTORS ||
           atomic_load(&sl_region_actor(r, actor)->claims) != at;
}

/* A record that may be claimed. */
struct pick {
    uint64_t number;
    uint64_t at; /* offset of its head */
    struct sl_cell head;
    uint64_t rank;  /* the lowest is reused first; NO_BLOCK: none */
    unsigned taken; /* records of the block in use */
};

/* A locked record counts as in use. */
static struct pick pick_in(const struct sl_intent *intent, uint64_t block)
{
    const struct sl_region *r = intent->region;
    struct pick pick = {.rank = NO_BLOCK, .taken = 0};
    uint64_t at = block_at(r, block) + head_in(0);

    for (uint64_t i = 0; i < SL_HOLD_BLOCK; at += head_step(i), i++) {
        const sl_word *word = sl_region_word(r, at);
        struct sl_cell head = sl_cell_of(sl_get(&word[0]), sl_get(&word[1]));
        enum sl_hold_record_state state = sl_hold_record_state(head);
        uint64_t rank = state == SL_ENDED ? 1 + head.w[0] : 0;

        if (sl_is_locked(head.w[0]) || state == SL_HELD ||
            (state == SL_CLAIM && !is_dead(r, head.w[0], at))) {
            pick.taken++;
        } else if (rank < pick.rank) {
            pick.number = block * SL_HOLD_BLOCK + i;
            pick.at = at;
            pick.head = head;
            pick.rank = rank;
        }
    }
    return pick;
}

struct sl_cell sl_hold_record_claimed(const struct sl_intent *intent,
                                      struct sl_hold_id id)
{
    return sl_cell_of(intent->index, (id.w[0] & ~UINT64_C(15)) | SL_CLAIM);
}

/* Release order: the swap of the head comes after it. */
static void record_claim(const struct sl_intent *intent, uint64_t at)
{
    atomic_store_explicit(&intent->actor->claims, at, memory_order_release);
}

/* The claim is recorded before the swap. */
static bool claim(const struct sl_intent *intent, struct sl_hold_id id,
                  const struct pick *pick)
{
    const struct sl_region *r = intent->region;
    sl_word *head = sl_region_word(r, pick->at);
    bool done;

    fetch_body(r, pick->number); /* filled soon */
    record_claim(intent, pick->at);
    SL_STEP(SL_STEP_CLAIM);
    done = sl_swap_pair(head, pick->head, sl_hold_record_claimed(intent, id));
    if (!done)
        record_claim(intent, 0);
    SL_STEP(SL_STEP_CLAIMED);
    return done;
}

/* In the emptier of two blocks; in the first while it is half empty. */
static bool claim_in(const struct sl_intent *intent, unsigned choice,
                     struct sl_hold_record *record)
{
    uint64_t block = block_of(intent->region, record->id, choice);
    struct pick a, b;

    if (block == NO_BLOCK)
        return false;
    do {
        a = pick_in(intent, block);
        if (a.rank != NO_BLOCK && a.taken <= PER_ROW)
            continue;
        b = pick_in(intent, block_of(intent->region, record->id, choice + 1));
        if (a.rank == NO_BLOCK || (b.rank != NO_BLOCK && b.taken < a.taken))
            a = b;
        if (a.rank == NO_BLOCK)
            return false;
    } while (!claim(intent, record->id, &a));
    record->number = a.number;
    record->at = a.at;
    return true;
}

bool sl_hold_record_claim(const struct sl_intent *intent, unsigned parts,
                          struct sl_hold_record *record)
{
    return (parts <= SL_HOLD_FEW && claim_in(intent, 0, record)) ||
           claim_in(intent, CHOICES, record);
}

void sl_hold_record_let_go(const struct sl_intent *intent,
                           const struct sl_hold_record *record, bool done)
{
    if (!done)
        (void)sl_swap_pair(sl_region_word(intent->region, record->at),
                           sl_hold_record_claimed(intent, record->id),
                           sl_cell_of(0, 0));
    record_claim(intent, 0);
}

/* ---- writing ---- */

static uint64_t slot_word(const struct sl_hold_key *kept)
{
    uint64_t slot = kept->slot.bucket << 16 | kept->slot.index << 8 |
                    (kept->generation & 0xff);

    return (kept->tracked ? slot | TRACKED : 0) |
           (kept->is_bucket ? BUCKET : 0);
}

static void fill_part(struct sl_hold_record_part *p,
                      const struct sl_hold_key *kept)
{
    put(&p->word[HASH_LO], kept->hash.lo);
    put(&p->word[HASH_HI], kept->hash.hi);
    put(&p->word[COST], kept->cost << LIMIT_BITS | kept->limit);
    put(&p->word[SLOT], slot_word(kept));
    put(&p->word[SNAPSHOT_0], kept->snapshot.w[0]);
    put(&p->word[SNAPSHOT_1], kept->snapshot.w[1]);
    put(&p->word[RATE], kept->is_bucket
                            ? kept->capacity << COUNT_BITS | kept->count
                            : kept->count);
    put(&p->word[CAPACITY], kept->is_bucket ? kept->unheld : kept->capacity);
    put(&p->word[REFUNDS_0], kept->refunds[0]);
    put(&p->word[REFUNDS_1], kept->refunds[1]);
}

void sl_hold_record_fill(const struct sl_region *r,
                         const struct sl_hold_record *record)
{
    struct sl_hold_record_body *b = body_of(r, record->number);

    put(&b->word[ID_LO], record->id.w[0]);
    put(&b->word[ID_HI], record->id.w[1]);
    put(&b->word[TAKEN], (uint64_t)record->taken);
    put(&b->word[STEPPED], record->stepped);
    put(&b->word[LIFE], (uint64_t)record->life);
    put(&b->word[COUNT], record->count);
    for (unsigned i = 0; i < record->count; i++)
        fill_part(&b->part[i], &record->part[i]);
}

void sl_hold_record_lengthen(const struct sl_region *r, uint64_t number,
                             sl_ns life)
{
    sl_word *word = &body_of(r, number)->word[LIFE];
    uint64_t last = atomic_load(word);

    while (last < (uint64_t)life &&
           !atomic_compare_exchange_weak(word, &last, (uint64_t)life))
        ;
}

/* A key is in the same of its four buckets as before. */
static uint64_t grown_bucket(const struct sl_region *r,
                             const struct sl_region *old, uint64_t factor,
                             const struct sl_hold_key *kept)
{
    struct sl_slot_key was, is;

    sl_slot_key_again(old, kept->limit, kept->hash, &was);
    sl_slot_key_again(r, kept->limit, kept->hash, &is);
    for (unsigned i = 0; i < SL_CHOICES; i++)
        if (sl_slot_key_bucket(old, &was, i) == kept->slot.bucket)
            return sl_slot_key_bucket(r, &is, i);
    return kept->slot.bucket * factor; /* not reached in a checked region */
}

void sl_hold_record_grow(const struct sl_region *r, const struct sl_region *old,
                         uint64_t factor)
{
    uint64_t records = sl_hold_record_blocks(r) * SL_HOLD_BLOCK;

    for (uint64_t n = 0; n < records; n++) {
        struct sl_hold_record_body *b = body_of(r, n);
        struct sl_hold_record record;

        read_body(r, n, &record);
        for (unsigned i = 0; i < record.count; i++) {
            struct sl_hold_key *kept = &record.part[i];

            if (!kept->tracked)
                continue;
            kept->slot.bucket = grown_bucket(r, old, factor, kept);
            put(&b->part[i].word[SLOT], slot_word(kept));
        }
    }
}

/* Does nothing if the record was reused: its slot word has another generation.
 */
void sl_hold_record_untrack(const struct sl_region *r,
                            const struct sl_hold_record *record, unsigned i)
{
    sl_word *word = &body_of(r, record->number)->part[i].word[SLOT];
    uint64_t last = slot_word(&record->part[i]);

    (void)atomic_compare_exchange_strong(word, &last, last & ~TRACKED);
}

/* ---- checking ---- */

static bool possible_part(const struct sl_region *r,
                          const struct sl_hold_key *p)
{
    const struct sl_limit_entry *e = sl_region_limit(r, p->limit);
    uint64_t most =
        sl_get(&e->kind) > SL_SLIDING ? SL_AMOUNT_MAX : SL_COUNT_MAX;

    return sl_get(&e->used) == 1 &&
           p->is_bucket == sl_is_bucket((enum sl_kind)sl_get(&e->kind)) &&
           (sl_get(&e->kind) == SL_QUOTA || sl_get(&e->calendar) == 0) &&
           p->cost <= SL_AMOUNT_MAX && p->count - 1 < most &&
           p->capacity - 1 < most &&
           (!p->tracked || (p->slot.bucket < sl_region_head(r)->buckets &&
                            p->slot.index < SL_SLOTS));
}

static bool possible_body(const struct sl_region *r, uint64_t number)
{
    struct sl_hold_record record;

    if (sl_get(&body_of(r, number)->word[COUNT]) > room_of(r, number))
        return false;
    read_body(r, number, &record);
    for (unsigned i = 0; i < record.count; i++)
        if (!possible_part(r, &record.part[i]))
            return false;
    return record.taken >= 0 && record.taken < SL_TIME_END && record.life > 0 &&
           record.life <= SL_TIME_END;
}

bool sl_hold_record_check(const struct sl_region *r, uint64_t number)
{
    sl_word *word = sl_region_word(r, sl_hold_record_at(r, number));
    struct sl_cell head = sl_cell_of(sl_get(&word[0]), sl_get(&word[1]));

    switch (sl_hold_record_state(head)) {
    case SL_FREE:
        return head.w[0] == 0 && head.w[1] == 0;
    case SL_CLAIM:
        put(&word[0], 0);
        put(&word[1], 0);
        return true;
    case SL_HELD:
    case SL_ENDED:
        break;
    }
    return head.w[0] > 0 && head.w[0] < (uint64_t)SL_NS_MAX &&
           (head.w[1] >> 2 & 3) < 3 && possible_body(r, number);
}

/* ---- counters of refunds. Their purpose is in core/hold.h. */

/* An eighth of the words is for refunds without a hold, which are rare. */
static uint64_t refund_words(const struct sl_region_head *head)
{
    return head->refunds - head->refunds / 8;
}

sl_word *sl_refund_count(const struct sl_region *r, uint64_t tag,
                         unsigned which)
{
    static const uint64_t odd[SL_REFUND_WORDS] = {UINT64_C(0x9e3779b97f4a7c15),
                                                  UINT64_C(0xd6e8feb86659fd93)};
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t i = sl_scale((tag ^ tag >> 32) * odd[which], refund_words(head));

    return sl_region_word(r, head->refunds_at + i * 8);
}

sl_word *sl_unheld_count(const struct sl_region *r, uint64_t tag)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t first = refund_words(head);
    uint64_t i = sl_scale((tag ^ tag >> 32) * UINT64_C(0xa0761d6478bd642f),
                          head->refunds - first);

    return sl_region_word(r, head->refunds_at + (first + i) * 8);
}
