/* table.c -- the doors of the table. The contract is in table.h. */
#include "table/table.h"

#include <string.h>

#include "base/arith.h"
#include "table/hold_record.h"
#include "table/set.h"

#define BATCH SL_SWAPS    /* parts whose memory is fetched together */
#define RUN   (BATCH / 2) /* of them, hashed before their lines are asked for */

/* What a correction adds to the usage of its key. */
static int64_t delta_of(const struct sl_part *part)
{
    int64_t cost =
        (int64_t)(part->cost < SL_AMOUNT_MAX ? part->cost : SL_AMOUNT_MAX);

    return part->op == SL_TAKE_OP_REFUND ? -cost : cost;
}

/* Begin an item, whose key is there already. Field by field: what is not set
 * here is set before it is read. */
static void begin_item(struct sl_set_item *item, struct sl_part *part)
{
    item->part = part;
    item->cost = part->cost;
    item->delta = delta_of(part);
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
    if (part->fingerprint.lo | part->fingerprint.hi)
        return; /* it was expected: it is on its way, or there */
    sl_slot_key_prefetch(table, ret->bucket[0], 0);
    sl_slot_key_prefetch(table, ret->bucket[0], 1);
    sl_slot_key_prefetch(table, ret->bucket[1], 0); /* for a new key */
}

/* Asking for a line on another page costs as much as a third of a decision, in
 * a machine that is not a real one: the second bucket, which few need, is left
 * to them. */
void sl_table_prefetch(const struct sl_table *table,
                       struct sl_hash128 fingerprint)
{
    struct sl_slot_key key;

    sl_slot_key_again(&table->region, 0, fingerprint, &key);
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
            item->delta = add_deltas(item->delta, delta_of(part));
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
    set->extra = NULL;
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

    if (slot.index < SL_SLOTS && part->op == SL_TAKE_OP_TAKE &&
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
                                     unsigned count, struct sl_set_extra *extra)
{
    unsigned of[SL_PARTS];
    enum sl_set_result verdict;

    set->count = 0;
    set->extra = extra;
    for (unsigned i = 0; i < count; i++)
        of[i] = add_part(set, &parts[i]);
    carry(set, parts, of, count);
    set->intent = sl_actor_borrow(&set->table->actors);
    verdict = sl_set_decide(set);
    if (extra)
        extra->leave(set, verdict == SL_SET_ALLOW);
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
    if (count == 1 && parts->op == SL_TAKE_OP_TAKE)
        return decide_single(&set, parts);
    return decide_set(&set, parts, count, NULL);
}

/* A hold that began before a step was seen would take it for one of its own
 * time. */
enum sl_set_result sl_set_decide_with(struct sl_table *table,
                                      struct sl_part *parts, unsigned count,
                                      sl_ns now, bool fresh,
                                      struct sl_set_extra *extra)
{
    struct sl_set set;

    if (!fresh && sl_table_latest(table) - now >= SL_LAG)
        return SL_SET_STALE;
    if (!begin_set(&set, table, now, fresh))
        return SL_SET_STALE;
    return decide_set(&set, parts, count, extra);
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
static void hash_some(const struct sl_set *set, struct sl_part *const *parts,
                      struct sl_slot_key *keys, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        sl_slot_key_hash(set->table, parts[i], &keys[i]);
    for (unsigned i = from; i < to; i++)
        sl_slot_key_prefetch(set->table, keys[i].bucket[0], 0);
}

/* Four passes over a handful of parts: hash and prefetch the first line, see
 * whom that does not serve and prefetch more, see where these are and announce
 * all, decide. */
static void batch_some(struct sl_set *set, struct sl_part *const *parts,
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
        verdicts[i] = decide_one(set, parts[i], &keys[i], slots[i]);
    sl_swaps_withdraw(set->intent);
}

void sl_table_batch(struct sl_table *table, struct sl_part *const *parts,
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

/* ---- which limits a region knows, and what they have reserved. */

static struct sl_hash128 hash_words(const struct sl_region *r,
                                    const uint64_t *words, size_t count)
{
    return sl_hash128(&sl_region_head(r)->key,
                      (struct sl_str){(const char *)words, count * 8});
}

static struct sl_hash128 hash_name(const struct sl_region *r, const char *name)
{
    return sl_hash128(&sl_region_head(r)->key, sl_str_c(name));
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

/* Others may use the limit with a stricter plan, and cells are judged by the
 * strictest: numbers of an entry in use only fall. Whoever opens a file alone
 * has marked its entries as stale. */
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
    uint64_t claim; /* what `used` holds while an entry is being made */
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

/* An entry is taken by setting `used` to a claim and can be read when it is 1.
 * Whoever finds his own limit claimed fills it in as well: so two who come
 * together get the same entry, and nobody has to wait. */
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
        fill(e, strictest);
        atomic_store(&e->used, 1);
        return true;
    }
    return false;
}

static int know(const struct sl_region *r, struct sl_limit_binding *l)
{
    struct identity i = {.name = hash_name(r, l->name),
                         .shape = sl_limit_shape(&l->strictest)};
    uint64_t words[3] = {i.name.lo, i.name.hi, i.shape};

    i.key = hash_words(r, words, 3);
    i.claim = i.key.lo << 2 | SL_CLAIMED;
    if (!find_entry(r, &i, &l->strictest, &l->id) &&
        !make_entry(r, &i, &l->strictest, &l->id))
        return SLUICE_EFULL;
    l->hash_key = (struct sl_hash_key){i.key.lo, i.key.hi};
    return 0;
}

/* What all limits have reserved, and what they use beyond it. */
static void sum_up(const struct sl_region *r)
{
    struct sl_region_head *head = sl_region_head(r);
    uint64_t reserved = 0, over = 0;

    for (uint64_t id = 0; id < SL_LIMITS; id++) {
        const struct sl_limit_entry *e = sl_region_limit(r, id);
        uint64_t reserve = atomic_load(&e->reserve);

        if (atomic_load(&e->used) != 1)
            continue;
        reserved += reserve;
        over += sl_sub_floor(atomic_load(&e->occupied), reserve);
    }
    atomic_store(&head->reserved, reserved);
    atomic_store(&head->over, over);
}

int sl_table_add_limit(struct sl_table *table, struct sl_limit_binding *l)
{
    const struct sl_region *r = &table->region;
    uint64_t slots = sl_region_head(r)->buckets * SL_SLOTS;
    int err = know(r, l);

    if (err)
        return err;
    atomic_store(&sl_region_limit(r, l->id)->reserve,
                 l->share ? sl_muldiv_down(slots, l->share, 1000)
                          : slots / 2 / (l->equal_parts ? l->equal_parts : 1));
    sum_up(r);
    return 0;
}

/* ---- keys as fingerprints, and where they may be found. */

static uint64_t scale(uint64_t hash, uint64_t range)
{
    return (uint64_t)(((sl_u128)hash * range) >> 64);
}

void sl_slot_key_again(const struct sl_region *r, uint64_t id,
                       struct sl_hash128 h, struct sl_slot_key *ret)
{
    uint64_t buckets = sl_region_head(r)->buckets;
    uint64_t fingerprint = h.hi & ((UINT64_C(1) << SL_TAG_BITS) - 1);

    ret->tag = id << SL_TAG_BITS | (fingerprint ? fingerprint : 1);
    ret->bucket[0] = scale(h.lo, buckets);
    ret->bucket[1] = scale((h.lo << 32 | h.lo >> 32) ^ h.hi, buckets);
    ret->hash = h;
}

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
        return scale(key->hash.lo * UINT64_C(0x9e3779b97f4a7c15), buckets);
    if (choice == 3)
        return scale(key->hash.hi * UINT64_C(0xd1342543de82ef95), buckets);
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

/* The first bucket's head says whether any key went on to the others. While it
 * is locked somebody may have added the key and not yet written its tag. */
bool sl_slot_key_find(const struct sl_intent *intent,
                      const struct sl_slot_key *key, struct sl_slot *ret,
                      uint64_t *head)
{
    const struct sl_region *r = intent->region;
    uint64_t at = sl_slot_head_at(r, key->bucket[0]);
    unsigned slot =
        sl_slot_key_in_line(sl_region_bucket(r, key->bucket[0]), key->tag);

    if (slot < SL_SLOTS) {
        *ret = (struct sl_slot){key->bucket[0], slot};
        return true;
    }
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
