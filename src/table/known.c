/* known.c -- which limits a region knows, and what there is to see in it. */
#include "base/arith.h"
#include "table/evict.h"
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

/* The entry of a limit, made if it is new. An entry is taken by setting `used`
 * to a claim, which is made of the limit's fingerprint, and can be read when
 * it is 1. Whoever finds his own limit claimed fills it in as well: so two who
 * come together get the same entry, and nobody has to wait. */
static int know(const struct sl_region *r, struct sl_table_limit *l)
{
    struct sl_hash128 name = hash_name(r, l->name);
    uint64_t shape = sl_limit_shape(&l->strictest);
    uint64_t words[3] = {name.lo, name.hi, shape};
    struct sl_hash128 key = hash_words(r, words, 3);
    uint64_t claim = key.lo << 2 | SL_CLAIMED;

    for (uint32_t id = 0; id < SL_LIMITS; id++) {
        struct sl_limit_entry *e = sl_region_limit(r, id);
        uint64_t used = 0;

        if (atomic_compare_exchange_strong(&e->used, &used, claim) ||
            used == claim) {
            atomic_store(&e->name_lo, name.lo);
            atomic_store(&e->name_hi, name.hi);
            atomic_store(&e->shape, shape);
            fill(e, &l->strictest);
            atomic_store(&e->used, 1);
        } else if (used != 1 || !is_entry(e, name, shape)) {
            continue;
        } else {
            fill(e, &l->strictest);
        }
        l->id = id;
        l->key = (struct sl_hash_key){key.lo, key.hi};
        return 0;
    }
    return SLUICE_EFULL;
}

/* All entries in use: those of this policy, and of others that shared the
 * region before. */
static uint64_t reserved_by_all(const struct sl_region *r)
{
    uint64_t sum = 0;

    for (uint64_t id = 0; id < SL_LIMITS; id++)
        if (atomic_load(&sl_region_limit(r, id)->used) == 1)
            sum += atomic_load(&sl_region_limit(r, id)->reserve);
    return sum;
}

int sl_table_know(struct sl_table *table, struct sl_table_limit *l)
{
    const struct sl_region *r = &table->region;
    struct sl_region_head *head = sl_region_head(r);
    uint64_t slots = head->buckets * SL_SLOTS;
    int err = know(r, l);

    if (err)
        return err;
    atomic_store(&sl_region_limit(r, l->id)->reserve,
                 l->share ? sl_muldiv_down(slots, l->share, 1000)
                          : slots / 2 / (l->equal_parts ? l->equal_parts : 1));
    atomic_store(&head->reserved, reserved_by_all(r));
    return 0;
}

void sl_table_init(struct sl_table *table, const struct sl_region *region,
                   enum sl_on_full on_full)
{
    table->region = *region;
    table->on_full = on_full;
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
        for (unsigned s = 0; s < SL_STATS; s++)
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
