/* known.c -- which limits a region knows, and what they have reserved. */
#include "base/arith.h"
#include "table/table.h"

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

static int know(const struct sl_region *r, struct sl_table_limit *l)
{
    struct identity i = {.name = hash_name(r, l->name),
                         .shape = sl_limit_shape(&l->strictest)};
    uint64_t words[3] = {i.name.lo, i.name.hi, i.shape};

    i.key = hash_words(r, words, 3);
    i.claim = i.key.lo << 2 | SL_CLAIMED;
    if (!find_entry(r, &i, &l->strictest, &l->id) &&
        !make_entry(r, &i, &l->strictest, &l->id))
        return SLUICE_EFULL;
    l->key = (struct sl_hash_key){i.key.lo, i.key.hi};
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

int sl_table_add_limit(struct sl_table *table, struct sl_table_limit *l)
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
