/* evict.c -- finds a slot for a new key, and evicts a cell if there is none.
 *
 * A cell owes what its limit still counts as used. The rules R1 to R4 are in
 * set.h.
 */
#include "base/arith.h"
#include "core/algorithm.h"
#include "table/set.h"

/* A key takes its first bucket while at most this many of its slots are in use;
 * then the emptier of two. Two of five keeps three quarters of the keys in
 * their first bucket at 70 % fill. */
#define CONTENT 2

/* If the better of the two has this many in use, the third and fourth bucket
 * are searched too. Then one key in 10,000 finds all its buckets full at 77 %
 * fill, not at 67 %. */
#define CROWDED 4

#define SHARE_BITS 32 /* of a share of a capacity */

static uint64_t limit_of(uint64_t tag)
{
    return tag >> SL_TAG_BITS;
}

/* The limit of an entry, for eviction: in ticks of a nanosecond, without
 * divisions, since this runs for every cell that a new key meets. Plans of one
 * limit differ in capacity, so the largest possible capacity is used. */
struct sl_limit sl_limit_from(const struct sl_limit_entry *e)
{
    struct sl_limit limit = {
        .kind = (enum sl_kind)sl_peek(&e->kind),
        .count = sl_peek(&e->count),
        .capacity = SL_AMOUNT_MAX,
        .period = (sl_ns)sl_peek(&e->period),
        .tick = 1,
        .span = sl_peek(&e->period),
        .grain = sl_peek(&e->grain),
        .token = sl_peek(&e->token),
    };

    if (limit.kind <= SL_SLIDING)
        limit.capacity = SL_COUNT_MAX;
    limit.room = limit.capacity * limit.token;
    return limit;
}

/* The region does not know the zone of a calendar, so cells are kept for the
 * longest possible period. */
static bool period_is_over(uint64_t calendar, uint64_t written, sl_ns now)
{
    static const sl_ns longest[] = {
        [SL_CALENDAR_DAY] = SL_DAY,
        [SL_CALENDAR_WEEK] = SL_WEEK,
        [SL_CALENDAR_MONTH] = 31 * SL_DAY,
    };
    uint64_t every = calendar >> 32;
    sl_ns length = longest[(calendar & 3) - 1] * (sl_ns)every + 4 * SL_DAY;

    return now > (sl_ns)written && now - (sl_ns)written > length;
}

static uint64_t units_owed(const struct sl_limit *limit, struct sl_cell cell,
                           sl_ns now)
{
    struct sl_answer a = sl_take(limit, cell, 0, now).answer;

    return a.capacity - a.remaining;
}

enum sl_evict_class sl_evict_class(const struct sl_region *r, uint64_t tag,
                                   struct sl_cell cell, sl_ns now)
{
    const struct sl_limit_entry *e = sl_region_limit(r, limit_of(tag));
    uint64_t calendar = sl_peek(&e->calendar);
    struct sl_limit limit;
    uint64_t owed;

    cell = sl_cell_bare(cell);
    if (cell.w[0] == 0 && cell.w[1] == 0)
        return SL_EVICT_OWES_NOTHING;
    if (calendar)
        return period_is_over(calendar, cell.w[0], now) ? SL_EVICT_OWES_NOTHING
                                                        : SL_EVICT_OWES;
    limit = sl_limit_from(e);
    owed = units_owed(&limit, cell, now);
    if (owed == 0)
        return SL_EVICT_OWES_NOTHING;
    if (limit.kind == SL_QUOTA || limit.kind == SL_PERMITS ||
        limit.kind == SL_LEVEL)
        return SL_EVICT_OWES;
    return owed <= sl_peek(&e->capacity) / 4 ? SL_EVICT_OWES_LITTLE
                                             : SL_EVICT_OWES;
}

/* The share of its capacity that a cell owes, and in *units how much that is.
 * A bucket's share is measured in its smallest units, so the older of two equal
 * keys owes less. */
static uint64_t share_owed(const struct sl_region *r, uint64_t tag,
                           struct sl_cell cell, sl_ns now, uint64_t *units)
{
    const struct sl_limit_entry *e = sl_region_limit(r, limit_of(tag));
    struct sl_limit limit = sl_limit_from(e);
    uint64_t whole = sl_peek(&e->capacity), owed;

    cell = sl_cell_bare(cell);
    owed = *units = units_owed(&limit, cell, now);
    if (sl_is_bucket(limit.kind)) {
        owed = sl_units_used(&limit, cell, now);
        whole *= limit.token;
    }
    return whole ? sl_muldiv_down(owed, UINT64_C(1) << SHARE_BITS, whole) : 0;
}

/* May this limit use one more slot? (R1) */
static bool may_grow(const struct sl_region *r, uint64_t id)
{
    const struct sl_limit_entry *e = sl_region_limit(r, id);
    const struct sl_region_head *head = sl_region_head(r);

    return sl_peek(&e->occupied) < sl_peek(&e->kept) ||
           sl_peek(&head->over) <
               sl_sub_floor(sl_slots_usable(head->buckets * SL_SLOTS),
                            sl_peek(&head->kept));
}

struct wish {
    uint64_t id;                    /* the limit of the key */
    bool grow;                      /* may_grow() */
    unsigned first;                 /* of equal cells, the first from here on */
    const struct sl_slot *reserved; /* by the same change */
    unsigned count;
    sl_ns now;
};

/* May the key have a slot with `tag`? (R1, R2, R3) */
static bool may_take(const struct sl_region *r, const struct wish *wish,
                     uint64_t tag, enum sl_evict_class owes)
{
    const struct sl_limit_entry *e = sl_region_limit(r, limit_of(tag));

    if (owes == SL_EVICT_OWES_NOTHING && wish->grow)
        return true;
    if (tag == 0)
        return false; /* an empty slot: only with `grow` */
    if (limit_of(tag) == wish->id)
        return true;
    return sl_peek(&e->occupied) >
           sl_peek(owes == SL_EVICT_OWES_NOTHING ? &e->kept : &e->reserve);
}

struct offer {
    unsigned in_use; /* slots that owe something */
    bool free;
    struct sl_free_slot vacancy;
};

/* Of cells that owe little, the one that owes least. */
struct least {
    bool found;
    uint64_t share; /* what it owes */
    unsigned rank;  /* among equal ones of its bucket */
    struct sl_free_slot vacancy;
};

static bool is_reserved(const struct wish *wish, struct sl_slot slot)
{
    for (unsigned i = 0; i < wish->count; i++)
        if (wish->reserved[i].bucket == slot.bucket &&
            wish->reserved[i].index == slot.index)
            return true;
    return false;
}

/* Reads a slot and says what it owes; SL_EVICT_OWES if it cannot be had. */
static enum sl_evict_class read_slot(struct sl_intent *intent,
                                     const struct wish *wish,
                                     struct sl_free_slot *v)
{
    const struct sl_region *r = intent->region;

    v->tag = sl_load(r, sl_tag_at(r, v->slot));
    if (is_reserved(wish, v->slot) ||
        !sl_slot_read(intent, v->slot, v->tag, &v->cell))
        return SL_EVICT_OWES;
    return v->tag ? sl_evict_class(r, v->tag, v->cell, wish->now)
                  : SL_EVICT_OWES_NOTHING;
}

/* Looks for a slot that owes nothing. */
static struct offer find_free_in_bucket(struct sl_intent *intent,
                                        uint64_t bucket,
                                        const struct wish *wish)
{
    struct offer offer = {0};

    for (unsigned i = 0; i < SL_SLOTS; i++) {
        struct sl_free_slot v = {
            .slot = {bucket, i}
        };

        if (read_slot(intent, wish, &v) != SL_EVICT_OWES_NOTHING) {
            offer.in_use++;
        } else if (!offer.free &&
                   may_take(intent->region, wish, v.tag,
                            SL_EVICT_OWES_NOTHING) &&
                   sl_slot_is_evictable(intent, v.slot, v.cell)) {
            offer.free = true;
            offer.vacancy = v;
        }
    }
    return offer;
}

/* Looks for a slot that owes less than what was found in the buckets before. */
static void find_least_in_bucket(struct sl_intent *intent, uint64_t bucket,
                                 unsigned choice, const struct wish *wish,
                                 struct least *least)
{
    const struct sl_region *r = intent->region;

    for (unsigned i = 0; i < SL_SLOTS; i++) {
        unsigned rank = (i + wish->first) % SL_SLOTS;
        struct sl_free_slot v = {
            .slot = {bucket, i},
              .choice = choice
        };
        uint64_t share;

        if (read_slot(intent, wish, &v) != SL_EVICT_OWES_LITTLE ||
            !may_take(r, wish, v.tag, SL_EVICT_OWES_LITTLE) ||
            !sl_slot_is_evictable(intent, v.slot, v.cell))
            continue;
        share = share_owed(r, v.tag, v.cell, wish->now, &v.owed);
        if (!least->found || share < least->share ||
            (share == least->share && choice == least->vacancy.choice &&
             rank < least->rank))
            *least = (struct least){true, share, rank, v};
    }
}

static bool find_little(struct sl_intent *intent, const struct sl_slot_key *key,
                        const struct wish *wish, struct sl_free_slot *ret)
{
    struct least least = {.found = false};

    for (unsigned i = 0; i < SL_CHOICES; i++)
        find_least_in_bucket(intent, sl_slot_key_bucket(intent->region, key, i),
                             i, wish, &least);
    if (least.found)
        *ret = least.vacancy;
    return least.found;
}

/* The first bucket if it is empty enough, else the emptier of the first two,
 * else the emptiest of all, else the cell that owes least. */
bool sl_evict_find(struct sl_intent *intent, const struct sl_slot_key *key,
                   const struct sl_slot *taken, unsigned count, sl_ns now,
                   struct sl_free_slot *ret)
{
    uint64_t id = limit_of(key->tag);
    struct wish wish = {id,
                        may_grow(intent->region, id),
                        (unsigned)(key->hash.hi >> 56),
                        taken,
                        count,
                        now};
    struct offer o[SL_CHOICES];
    unsigned best = SL_CHOICES;

    o[0] = find_free_in_bucket(intent, key->bucket[0], &wish);
    if (o[0].free && o[0].in_use <= CONTENT) {
        best = 0;
    } else {
        o[1] = find_free_in_bucket(intent, key->bucket[1], &wish);
        if (o[1].free && (!o[0].free || o[1].in_use < o[0].in_use))
            best = 1;
        else if (o[0].free)
            best = 0;
    }
    if (best == SL_CHOICES || o[best].in_use >= CROWDED)
        for (unsigned i = 2; i < SL_CHOICES; i++) {
            o[i] = find_free_in_bucket(
                intent, sl_slot_key_bucket(intent->region, key, i), &wish);
            if (o[i].free &&
                (best == SL_CHOICES || o[i].in_use < o[best].in_use))
                best = i;
        }
    if (best == SL_CHOICES)
        return find_little(intent, key, &wish, ret);
    *ret = o[best].vacancy;
    ret->choice = best;
    return true;
}

/* Subtracts 1, but not below 0: a process killed between a change and its count
 * leaves the count too low. Returns the old value. */
static uint64_t one_less(sl_word *word)
{
    uint64_t value = sl_peek(word);

    while (value > 0 && !atomic_compare_exchange_weak(word, &value, value - 1))
        ;
    return value;
}

static void account_one(const struct sl_region *r, uint64_t id, bool more)
{
    struct sl_limit_entry *e = sl_region_limit(r, id);
    sl_word *over = &sl_region_head(r)->over;
    uint64_t kept = sl_peek(&e->kept);

    if (more) {
        if (atomic_fetch_add(&e->occupied, 1) >= kept)
            atomic_fetch_add(over, 1);
    } else if (one_less(&e->occupied) > kept) {
        (void)one_less(over);
    }
}

void sl_account(const struct sl_region *r, uint64_t from, uint64_t to)
{
    if (from && to && limit_of(from) == limit_of(to))
        return;
    if (from)
        account_one(r, limit_of(from), false);
    if (to)
        account_one(r, limit_of(to), true);
}

void sl_account_all(const struct sl_region *r, const uint64_t *keys)
{
    uint64_t over = 0;

    for (uint64_t i = 0; i < SL_LIMITS; i++) {
        struct sl_limit_entry *e = sl_region_limit(r, i);

        atomic_store(&e->occupied, keys[i]);
        over += sl_sub_floor(keys[i], sl_peek(&e->kept));
    }
    atomic_store(&sl_region_head(r)->over, over);
}

/* Empties a slot that owes nothing. */
static bool empty_slot(struct sl_intent *intent, struct sl_slot slot, sl_ns now)
{
    const struct sl_region *r = intent->region;
    uint64_t tag_at = sl_tag_at(r, slot), cell_at = sl_cell_at(r, slot);
    uint64_t tag = sl_load(r, tag_at);
    struct sl_cell cell;

    if (tag == 0 || !sl_slot_read(intent, slot, tag, &cell) ||
        sl_evict_class(r, tag, cell, now) != SL_EVICT_OWES_NOTHING)
        return false;
    sl_intent_begin(intent);
    if (!sl_intent_lock_cell(intent, cell_at, cell,
                             sl_cell_first(cell, sl_cell_of(0, 0))) ||
        sl_load(r, tag_at) != tag ||
        !sl_slot_is_evictable(intent, slot, cell)) {
        sl_intent_drop(intent);
        return false;
    }
    sl_intent_write(intent, cell_at, tag_at, tag, 0);
    if (!sl_intent_commit(intent))
        return false;
    sl_account(r, tag, 0);
    return true;
}

unsigned sl_sweep(struct sl_intent *intent, unsigned buckets, sl_ns now)
{
    struct sl_region_head *head = sl_region_head(intent->region);
    uint64_t hand = atomic_fetch_add(&head->hand, buckets);
    unsigned emptied = 0;

    for (unsigned b = 0; b < buckets; b++)
        for (unsigned i = 0; i < SL_SLOTS; i++)
            emptied += empty_slot(
                intent, (struct sl_slot){(hand + b) % head->buckets, i}, now);
    return emptied;
}
