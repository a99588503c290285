/* table.c -- public calls, registered limits and keys. See table.h. */
#include "table/table.h"

#include <string.h>

#include "base/arith.h"
#include "base/clock.h"
#include "table/single.h"

#define BATCH SL_SWAPS    /* parts whose memory is fetched together */
#define RUN   (BATCH / 2) /* parts hashed before their lines are prefetched */

#define KEPT_PART 8 /* of a default reserve: one in so many slots is kept */

/* The change of usage by a charge or a refund. */
static int64_t delta_of(const struct sl_part *part)
{
    int64_t cost =
        (int64_t)(part->cost < SL_AMOUNT_MAX ? part->cost : SL_AMOUNT_MAX);

    return part->op == SL_TAKE_OP_REFUND ? -cost : cost;
}

static bool corrects(const struct sl_part *part)
{
    return part->op == SL_TAKE_OP_CHARGE || part->op == SL_TAKE_OP_REFUND;
}

/* Begins an item that has its key. Other fields are set before they are read.
 */
static void begin_item(struct sl_set_item *item, struct sl_part *part)
{
    item->part = part;
    item->cost = part->cost;
    item->delta = corrects(part) ? delta_of(part) : 0;
    item->carried_from = -1;
    item->carried = false;
    item->on_report = part->on_report;
    item->untracked = false;
    item->waited = 0;
    item->refunds = item->counted = 0;
}

/* Prefetches the lines that a key most likely needs. The second bucket, which
 * few keys need, is on another page: see sl_table_prefetch(). */
static inline void fetch(const struct sl_table *table,
                         const struct sl_slot_key *key)
{
    sl_slot_key_prefetch(table, key->bucket[0], 0);
    sl_slot_key_prefetch(table, key->bucket[0], 1);
}

static void hash_and_fetch(const struct sl_table *table,
                           const struct sl_part *part, struct sl_slot_key *ret)
{
    sl_slot_key_hash(table, part, ret);
    if (!(part->fingerprint.lo | part->fingerprint.hi))
        fetch(table, ret); /* otherwise already prefetched */
}

/* A prefetch from another page costs a third of a decision in a virtual
 * machine: the second bucket, which few keys need, is not prefetched. */
void sl_table_prefetch(const struct sl_table *table,
                       struct sl_hash128 fingerprint)
{
    struct sl_slot_key key;

    sl_slot_key_again(&table->region, 0, fingerprint, &key);
    sl_slot_key_prefetch(table, key.bucket[0], 0);
    sl_slot_key_prefetch(table, key.bucket[0], 1);
}

/* Clamped to +-SL_AMOUNT_MAX. */
static int64_t add_deltas(int64_t a, int64_t b)
{
    int64_t most = (int64_t)SL_AMOUNT_MAX, sum = a + b;

    if (sum > most)
        return most;
    return sum < -most ? -most : sum;
}

/* Adds a part to the set, or merges it with the item of the same key. Returns
 * the number of the item. Prefetches are separated by a hash on purpose: nine
 * lines in a row on as many pages were slower by a quarter. */
static unsigned add_part(struct sl_set *set, struct sl_part *part)
{
    struct sl_set_item *new = &set->items[set->count];
    uint64_t bit;
    unsigned i = 0;

    hash_and_fetch(set->table, part, &new->key);
    bit = UINT64_C(1) << new->key.tag % 64;
    if (!(set->seen & bit)) /* a key that is surely new to the set */
        i = set->count;
    set->seen |= bit;
    for (; i < set->count; i++) {
        struct sl_set_item *item = &set->items[i];

        if (item->key.tag == new->key.tag &&
            item->key.bucket[0] == new->key.bucket[0]) {
            item->cost = sl_add_sat(item->cost, part->cost);
            item->delta = add_deltas(item->delta, delta_of(part));
            item->on_report |= part->on_report;
            return i;
        }
    }
    begin_item(new, part);
    set->ops |= 1U << part->op;
    set->count++;
    return i;
}

/* A carried part belongs to the next part. A key is not carried to itself. */
static void carry(struct sl_set *set, const struct sl_part *parts,
                  const unsigned *of, unsigned count)
{
    for (unsigned i = 1; i < count; i++)
        if (parts[i - 1].carried && of[i - 1] < of[i]) {
            set->items[of[i]].carried_from = (int)of[i - 1];
            set->items[of[i - 1]].carried = true;
            set->carries = true;
        }
}

sl_ns sl_table_latest(const struct sl_table *table)
{
    return (sl_ns)atomic_load(&sl_region_head(&table->region)->latest);
}

sl_ns sl_clock_read(sl_ns (*source)(void *ctx), void *ctx)
{
    return sl_clock_clamp(source ? source(ctx) : sl_clock_wall());
}

void sl_clock_read_again(struct sl_clock_reading *r,
                         const struct sl_table *table)
{
    sl_ns seen = sl_table_latest(table);

    r->now = sl_clock_read(r->source, r->ctx);
    r->fresh = r->tries++ > 2 || seen - r->now >= SL_LAG;
}

/* The clock has stepped back to `now`. Holds are shortened first: if this
 * process dies in between, the next one repeats it. */
static void step_back(struct sl_table *table, uint64_t latest, sl_ns now)
{
    struct sl_region_head *head = sl_region_head(&table->region);
    uint64_t stepped = atomic_load(&head->stepped);

    sl_holds_shorten(table, now);
    (void)sl_swap_pair(
        &head->latest, sl_cell_of(latest, stepped),
        sl_cell_of((uint64_t)now, stepped + (latest - (uint64_t)now)));
}

/* For a reading behind the latest one; see "Time" in table.h. SL_NS_NONE: read
 * the clock again, because holds must not miss a step. */
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

/* The instant at which a reading is judged. The word is shared by all threads,
 * so it is written rarely. */
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

/* Spans of an answer count from the caller's reading. */
static void count_from(sl_ns lag, struct sl_answer *a)
{
    if (a->retry_in > 0)
        a->retry_in += lag;
    if (a->reset_in > 0)
        a->reset_in += lag;
    if (a->wait > 0)
        a->wait += lag;
}

inline bool sl_set_begin(struct sl_set *set, struct sl_table *table, sl_ns now,
                         bool fresh)
{
    set->table = table;
    set->extra = NULL;
    set->now = judged_at(table, now, fresh);
    if (set->now < 0)
        return false;
    set->lag = set->now - now;
    set->fresh = fresh;
    set->swept = false;
    set->carries = false;
    if (sl_is_due(&table->region, set->now))
        sl_holds_expire(table, set->now);
    return true;
}

/* The expiry of holds determines when a denied permit is free. */
static void permits_retry(struct sl_set *set, const struct sl_slot_key *key,
                          struct sl_part *part, uint64_t cost)
{
    if (part->limit->kind == SL_PERMITS && part->op != SL_TAKE_OP_SETTLE &&
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
        permits_retry(set, &item->key, part, sl_set_item_least(item));
    if (set->lag)
        count_from(set->lag, &part->answer);
}

/* Searches the second line of the first bucket, and the second bucket. A guess:
 * the swap checks it. */
static struct sl_slot seek_further(const struct sl_region *r,
                                   const struct sl_slot_key *key)
{
    const struct sl_bucket *b = sl_region_bucket(r, key->bucket[0]);
    struct sl_slot slot = {key->bucket[0], SL_SLOTS};

    if (!sl_slot_key_find_in(r, key->bucket[0], key->tag, &slot) &&
        (sl_peek(&b->word[0]) & SL_HEADERS_WENT(1)))
        (void)sl_slot_key_find_in(r, key->bucket[1], key->tag, &slot);
    return slot;
}

struct sl_slot sl_single_seek(const struct sl_intent *intent,
                              const struct sl_region *r,
                              const struct sl_slot_key *key)
{
    struct sl_slot slot = seek_further(r, key);

    if (slot.index < SL_SLOTS && slot.bucket != key->bucket[0]) {
        sl_swaps_set(intent, 0, sl_slot_head_at(r, key->bucket[1]));
        sl_swaps_announce(intent, 1);
    }
    return slot;
}

/* Decides a part whose bucket is announced, by the fast path if possible. */
static enum sl_set_result decide_one(struct sl_set *set, struct sl_part *part,
                                     const struct sl_slot_key *key,
                                     struct sl_slot slot)
{
    struct sl_single single = {part->limit, part->cost, set->now, set->fresh};
    enum sl_set_result result;

    if (slot.index < SL_SLOTS && part->op == SL_TAKE_OP_TAKE &&
        !part->on_report &&
        sl_single_take(&set->table->region, &single, key->tag, slot,
                       &part->answer)) {
        result = part->answer.outcome == SL_ALLOW ? SL_SET_ALLOW : SL_SET_DENY;
        part->untracked = false;
        sl_set_count(set->intent, result == SL_SET_ALLOW);
        if (result == SL_SET_DENY)
            permits_retry(set, key, part, part->cost);
        if (set->lag)
            count_from(set->lag, &part->answer);
        return result;
    }
    set->count = 1;
    set->items[0].key = *key;
    begin_item(&set->items[0], part);
    set->ops = 1U << part->op;
    set->swept = false;
    result = sl_set_decide(set);
    if (result != SL_SET_STALE)
        answer(set, &set->items[0], part);
    return result;
}

/* A take of one key. */
static enum sl_set_result decide_single(struct sl_set *set,
                                        struct sl_part *part)
{
    enum sl_set_result result;
    struct sl_slot_key key;

    hash_and_fetch(set->table, part, &key);
    set->intent = sl_actor_borrow(&set->table->actors);
    result = decide_one(set, part, &key,
                        sl_single_find(set->intent, &set->table->region, &key));
    sl_swaps_withdraw(set->intent);
    sl_actor_return(&set->table->actors, set->intent);
    return result;
}

static enum sl_set_result decide_set(struct sl_set *set, struct sl_part *parts,
                                     unsigned count, struct sl_set_extra *extra)
{
    unsigned of[SL_PARTS];
    enum sl_set_result result;

    set->count = 0;
    set->ops = 0;
    set->seen = 0;
    set->extra = extra;
    for (unsigned i = 0; i < count; i++)
        of[i] = add_part(set, &parts[i]);
    carry(set, parts, of, count);
    set->intent = sl_actor_borrow(&set->table->actors);
    result = sl_set_decide(set);
    if (extra)
        extra->leave(set, result == SL_SET_ALLOW);
    if (result == SL_SET_ALLOW || result == SL_SET_DENY)
        for (unsigned i = 0; i < count; i++)
            answer(set, &set->items[of[i]], &parts[i]);
    sl_actor_return(&set->table->actors, set->intent);
    return result;
}

enum sl_set_result sl_table_decide(struct sl_table *table,
                                   struct sl_part *parts, unsigned count,
                                   sl_ns now, bool fresh)
{
    struct sl_set set;

    if (!sl_set_begin(&set, table, now, fresh))
        return SL_SET_STALE;
    if (count == 1 && parts->op == SL_TAKE_OP_TAKE)
        return decide_single(&set, parts);
    return decide_set(&set, parts, count, NULL);
}

/* A reading behind a step is not used for a hold: the hold would count the step
 * as its own time. */
enum sl_set_result sl_set_decide_with(struct sl_table *table,
                                      struct sl_part *parts, unsigned count,
                                      sl_ns now, bool fresh,
                                      struct sl_set_extra *extra)
{
    struct sl_set set;

    if (!fresh && sl_table_latest(table) - now >= SL_LAG)
        return SL_SET_STALE;
    if (!sl_set_begin(&set, table, now, fresh))
        return SL_SET_STALE;
    return decide_set(&set, parts, count, extra);
}

/* Searches the first line of the bucket. If the key is elsewhere, prefetches
 * the second line, and the second bucket if any key went there. */
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

/* Hashes some parts, then prefetches their lines. Alternating is slower: a
 * stalled prefetch delays the next hash. */
static void hash_some(const struct sl_set *set, struct sl_part *const *parts,
                      struct sl_slot_key *keys, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        sl_slot_key_hash(set->table, parts[i], &keys[i]);
    for (unsigned i = from; i < to; i++)
        sl_slot_key_prefetch(set->table, keys[i].bucket[0], 0);
}

/* Four passes: hash and prefetch the first lines; prefetch more where that was
 * not enough; find the rest and announce all; decide. */
static void batch_some(struct sl_set *set, struct sl_part *const *parts,
                       enum sl_set_result *results, unsigned count)
{
    struct sl_slot_key keys[BATCH];
    struct sl_slot slots[BATCH];

    for (unsigned i = 0; i < count; i += RUN)
        hash_some(set, parts, keys, i, count - i < RUN ? count : i + RUN);
    for (unsigned i = 0; i < count; i++)
        slots[i] = seek(set->table, &keys[i]);
    for (unsigned i = 0; i < count; i++) {
        if (slots[i].index == SL_SLOTS)
            slots[i] = seek_further(&set->table->region, &keys[i]);
        sl_swaps_set(set->intent, i,
                     sl_slot_head_at(&set->table->region, slots[i].bucket));
    }
    sl_swaps_announce(set->intent, count);
    for (unsigned i = 0; i < count; i++)
        results[i] = decide_one(set, parts[i], &keys[i], slots[i]);
    sl_swaps_withdraw(set->intent);
}

void sl_table_batch(struct sl_table *table, struct sl_part *const *parts,
                    enum sl_set_result *results, unsigned count, sl_ns now,
                    bool fresh)
{
    struct sl_set set;

    if (!sl_set_begin(&set, table, now, fresh)) {
        for (unsigned i = 0; i < count; i++)
            results[i] = SL_SET_STALE;
        return;
    }
    set.intent = sl_actor_borrow(&table->actors);
    for (unsigned i = 0; i < count; i += BATCH)
        batch_some(&set, parts + i, results + i,
                   count - i < BATCH ? count - i : BATCH);
    sl_actor_return(&table->actors, set.intent);
}

void sl_table_init(struct sl_table *table, const struct sl_region *region,
                   enum sl_on_full on_full)
{
    table->region = *region;
    table->on_full = on_full;
    memset(table->memo, 0, sizeof(table->memo));
    memset(table->hold_next, 0, sizeof(table->hold_next));
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
    for (uint64_t i = 0; i < SL_ACTORS; i++) {
        const struct sl_actor *actor = sl_region_actor(r, i);

        for (unsigned s = 0; s < SL_METRICS; s++)
            ret->counted[s] += sl_peek(&actor->stats[s]);
        ret->forgotten += sl_peek(&actor->forgotten);
    }
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

/* ---- registered limits and their reserved slots ---- */

static struct sl_hash128 hash(const struct sl_region *r, const void *at,
                              size_t len)
{
    return sl_hash128(&sl_region_head(r)->key, (struct sl_str){at, len});
}

static bool is_entry(const struct sl_limit_entry *e, struct sl_hash128 name,
                     uint64_t shape)
{
    return atomic_load(&e->name_lo) == name.lo &&
           atomic_load(&e->name_hi) == name.hi &&
           atomic_load(&e->shape) == shape;
}

static void fill(struct sl_limit_entry *e, const struct sl_limit *limit)
{
    uint64_t calendar = 0;

    if (limit->calendar)
        calendar =
            (uint64_t)limit->cal.every << 32 | (1 + (uint64_t)limit->cal.unit);
    atomic_store(&e->kind, limit->kind);
    atomic_store(&e->count, limit->count);
    atomic_store(&e->capacity, limit->capacity);
    atomic_store(&e->period, (uint64_t)limit->period);
    atomic_store(&e->grain, limit->grain);
    atomic_store(&e->token, limit->token);
    atomic_store(&e->calendar, calendar);
}

/* Numbers of an entry in use only fall, because other processes may use
 * stricter plans. Entries are marked stale when a file is opened by one process
 * alone. */
static void refresh(struct sl_limit_entry *e, const struct sl_limit *limit)
{
    struct sl_limit strictest = *limit;
    uint64_t stale = 1;

    if (!atomic_compare_exchange_strong(&e->stale, &stale, 0)) {
        uint64_t count = atomic_load(&e->count);
        uint64_t capacity = atomic_load(&e->capacity);

        if (count < strictest.count)
            strictest.count = count;
        if (capacity < strictest.capacity)
            strictest.capacity = capacity;
    }
    fill(e, &strictest);
}

/* A limit by its fingerprints. */
struct identity {
    struct sl_hash128 name;
    uint64_t shape;
    struct sl_hash128 key;
    uint64_t claim; /* value of `used` while an entry is made */
};

static bool find_entry(const struct sl_region *r, const struct identity *i,
                       const struct sl_limit *strictest, uint32_t *id)
{
    for (*id = 0; *id < SL_LIMITS; ++*id) {
        struct sl_limit_entry *e = sl_region_limit(r, *id);

        if (atomic_load(&e->used) == 1 && is_entry(e, i->name, i->shape)) {
            refresh(e, strictest);
            return true;
        }
    }
    return false;
}

/* An entry is taken by setting `used` to a claim, and readable when it is 1. A
 * thread that finds its own limit claimed fills it in as well: two threads get
 * the same entry without waiting. */
static bool make_entry(const struct sl_region *r, const struct identity *i,
                       const struct sl_limit *strictest, uint32_t *id)
{
    for (*id = 0; *id < SL_LIMITS; ++*id) {
        struct sl_limit_entry *e = sl_region_limit(r, *id);
        uint64_t used = 0;

        if (!atomic_compare_exchange_strong(&e->used, &used, i->claim) &&
            used != i->claim && !(used == 1 && is_entry(e, i->name, i->shape)))
            continue;
        atomic_store(&e->name_lo, i->name.lo);
        atomic_store(&e->name_hi, i->name.hi);
        atomic_store(&e->shape, i->shape);
        atomic_store(&e->unit, strictest->unit);
        fill(e, strictest);
        atomic_store(&e->used, 1);
        return true;
    }
    return false;
}

static int add_entry(const struct sl_region *r, struct sl_limit_binding *l)
{
    struct identity i = {.name = hash(r, l->name, strlen(l->name)),
                         .shape = sl_limit_shape(&l->strictest)};
    uint64_t words[3] = {i.name.lo, i.name.hi, i.shape};

    i.key = hash(r, words, sizeof(words));
    i.claim = i.key.lo << 2 | SL_CLAIMED;
    if (!find_entry(r, &i, &l->strictest, &l->id) &&
        !make_entry(r, &i, &l->strictest, &l->id))
        return SLUICE_EFULL;
    sl_hasher_init(&l->hasher, &(struct sl_hash_key){i.key.lo, i.key.hi},
                   sl_region_fingerprints(r));
    return 0;
}

/* Sums up what is kept for all limits, and what they use beyond it. */
static void sum_up(const struct sl_region *r)
{
    struct sl_region_head *head = sl_region_head(r);
    uint64_t all = 0, over = 0;

    for (uint64_t id = 0; id < SL_LIMITS; id++) {
        const struct sl_limit_entry *e = sl_region_limit(r, id);
        uint64_t kept = atomic_load(&e->kept);

        if (atomic_load(&e->used) != 1)
            continue;
        all += kept;
        over += sl_sub_floor(atomic_load(&e->occupied), kept);
    }
    atomic_store(&head->kept, all);
    atomic_store(&head->over, over);
}

struct sl_reserve sl_reserve_of(uint64_t slots, uint32_t share,
                                uint32_t equal_parts)
{
    uint64_t reserve = slots / 2 / (equal_parts ? equal_parts : 1);

    if (share) {
        reserve = sl_muldiv_down(slots, share, 1000);
        return (struct sl_reserve){reserve, reserve};
    }
    return (struct sl_reserve){reserve, reserve / KEPT_PART};
}

bool sl_table_has_unit(const struct sl_table *table,
                       const struct sl_limit_binding *l, uint64_t *ret)
{
    const struct sl_region *r = &table->region;
    struct sl_hash128 name = hash(r, l->name, strlen(l->name));

    for (uint64_t id = 0; id < SL_LIMITS; id++) {
        const struct sl_limit_entry *e = sl_region_limit(r, id);

        *ret = atomic_load(&e->unit);
        if (atomic_load(&e->used) == 1 && atomic_load(&e->occupied) > 0 &&
            is_entry(e, name, atomic_load(&e->shape)) &&
            *ret != l->strictest.unit)
            return true;
    }
    return false;
}

int sl_table_add_limit(struct sl_table *table, struct sl_limit_binding *l)
{
    const struct sl_region *r = &table->region;
    struct sl_reserve reserve = sl_reserve_of(
        sl_region_head(r)->buckets * SL_SLOTS, l->share, l->equal_parts);
    int err = add_entry(r, l);

    if (err)
        return err;
    atomic_store(&sl_region_limit(r, l->id)->reserve, reserve.slots);
    atomic_store(&sl_region_limit(r, l->id)->kept, reserve.kept);
    sum_up(r);
    return 0;
}

/* ---- keys ---- */

void sl_slot_key_hash(const struct sl_table *table, const struct sl_part *part,
                      struct sl_slot_key *ret)
{
    struct sl_hash128 fingerprint = part->fingerprint;

    if ((fingerprint.lo | fingerprint.hi) == 0)
        fingerprint = sl_table_fingerprint(part->binding, part->key);
    sl_slot_key_again(&table->region, part->binding->id, fingerprint, ret);
}

uint64_t sl_slot_key_bucket(const struct sl_region *r,
                            const struct sl_slot_key *key, unsigned choice)
{
    uint64_t buckets = sl_region_head(r)->buckets;

    if (choice == 2)
        return sl_scale(key->hash.lo * UINT64_C(0x9e3779b97f4a7c15), buckets);
    if (choice == 3)
        return sl_scale(key->hash.hi * UINT64_C(0xd1342543de82ef95), buckets);
    return key->bucket[choice];
}

bool sl_slot_key_find_in(const struct sl_region *r, uint64_t bucket,
                         uint64_t tag, struct sl_slot *ret)
{
    const struct sl_bucket *b = sl_region_bucket(r, bucket);

    for (unsigned i = 0; i < SL_SLOTS; i++)
        if (atomic_load_explicit(&b->word[sl_tag_word(i)],
                                 memory_order_acquire) == tag) {
            *ret = (struct sl_slot){bucket, i};
            return true;
        }
    return false;
}

/* The head of the first bucket tells whether any key went to the others. While
 * it is locked, another thread may be adding the key. */
bool sl_slot_key_seek(const struct sl_intent *intent,
                      const struct sl_slot_key *key, struct sl_slot *ret,
                      uint64_t *head)
{
    const struct sl_region *r = intent->region;
    uint64_t at = sl_slot_head_at(r, key->bucket[0]);

    for (;;) {
        *head = sl_load(r, at);
        for (unsigned i = 0; i < SL_CHOICES; i++)
            if ((i == 0 || sl_is_locked(*head) || *head & SL_HEADERS_WENT(i)) &&
                sl_slot_key_find_in(r, sl_slot_key_bucket(r, key, i), key->tag,
                                    ret))
                return true;
        if (!sl_is_locked(*head))
            return false;
        (void)sl_intent_lock_read(intent, at);
    }
}
