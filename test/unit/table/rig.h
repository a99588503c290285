/* rig.h -- what the tests of the table are made of.
 *
 * Time stands still at NOW unless a test moves it, so that what is used is
 * what was taken, and so that cells come back to exactly the same bytes.
 */
#ifndef SL_UNIT_TABLE_RIG_H
#define SL_UNIT_TABLE_RIG_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "limit.h"
#include "region_version.h"
#include "table/set.h"
#include "table/table.h"

#define MIB (UINT64_C(1) << 20)
#define NOW (INT64_C(1700000000) * SL_S)

/* A limit of one plan, not known to any table yet. */
static inline struct sl_limit_binding
limit_of(const char *name, enum sl_kind kind, const char *text, uint32_t share)
{
    return (struct sl_limit_binding){
        .name = name, .strictest = rate_of(kind, text), .share = share};
}

/* Zeroed memory that children share. */
static inline void *shared_pages(uint64_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        abort();
    return pages;
}

static inline void open_heap(struct sl_table *table, uint64_t size,
                             enum sl_on_full on_full)
{
    struct sl_region region;

    if (sl_region_open_heap(&region, size, NULL))
        abort();
    sl_table_init(table, &region, on_full);
}

static inline void open_pages(struct sl_table *table, void *pages,
                              uint64_t size)
{
    struct sl_region region;

    if (sl_region_open_memory(&region, pages, size, NULL))
        abort();
    sl_table_init(table, &region, SL_FULL_ALLOW);
}

static inline void know(struct sl_table *table, struct sl_limit_binding *limit)
{
    if (sl_table_add_limit(table, limit))
        abort();
}

static inline void add_limit(struct sl_table *table,
                             struct sl_limit_binding *limit, const char *name,
                             enum sl_kind kind, const char *text,
                             uint32_t share)
{
    *limit = limit_of(name, kind, text, share);
    know(table, limit);
}

/* The key is borrowed for the life of the part. */
static inline struct sl_part part_of(const struct sl_limit_binding *of,
                                     const char *key, uint64_t cost)
{
    return (struct sl_part){.binding = of,
                            .limit = &of->strictest,
                            .key = sl_str_c(key),
                            .cost = cost};
}

/* Makes it a charge or a refund. */
static inline void set_delta(struct sl_part *part, int64_t delta)
{
    part->op = delta < 0 ? SL_TAKE_OP_REFUND : SL_TAKE_OP_CHARGE;
    part->cost = (uint64_t)(delta < 0 ? -delta : delta);
}

static inline enum sl_set_result take_at(struct sl_table *table,
                                         const struct sl_limit_binding *of,
                                         const char *key, uint64_t cost,
                                         sl_ns now)
{
    struct sl_part part = part_of(of, key, cost);

    return sl_table_decide(table, &part, 1, now, true);
}

static inline enum sl_set_result take(struct sl_table *table,
                                      const struct sl_limit_binding *of,
                                      const char *key, uint64_t cost)
{
    return take_at(table, of, key, cost, NOW);
}

static inline void adjust(struct sl_table *table,
                          const struct sl_limit_binding *of, const char *key,
                          int64_t delta)
{
    struct sl_part part = part_of(of, key, 0);

    set_delta(&part, delta);
    part.taken_at = NOW;
    CHECK_EQ(sl_table_decide(table, &part, 1, NOW, true), SL_SET_ALLOW);
}

static inline void reset(struct sl_table *table,
                         const struct sl_limit_binding *of, const char *key)
{
    struct sl_part part = part_of(of, key, 0);

    part.op = SL_TAKE_OP_RESET;
    CHECK_EQ(sl_table_decide(table, &part, 1, NOW, true), SL_SET_ALLOW);
}

/* What a key has used of its limit at NOW. */
static inline uint64_t used(struct sl_table *table,
                            const struct sl_limit_binding *of, const char *key)
{
    struct sl_part part = part_of(of, key, 0);

    part.op = SL_TAKE_OP_PEEK;
    if (sl_table_decide(table, &part, 1, NOW, true) != SL_SET_ALLOW)
        abort();
    return part.answer.capacity - part.answer.remaining;
}

static inline uint64_t counted(struct sl_table *table, enum sl_stat stat)
{
    struct sl_table_stats stats;

    sl_table_stats(table, &stats);
    return stats.counted[stat];
}

/* Guards that are locked, in the whole region. A lock word whose number is not
 * the current one of its actor would break (3) of intent.h: it is counted in
 * *stray. */
static inline uint64_t locks_left(const struct sl_region *r, uint64_t *stray)
{
    const struct sl_region_head *head = sl_region_head(r);
    uint64_t locks = 0;

    *stray = 0;
    for (uint64_t b = 0; b < head->buckets; b++)
        for (unsigned i = 0; i <= SL_SLOTS; i++) {
            const struct sl_bucket *bucket = sl_region_bucket(r, b);
            uint64_t word =
                atomic_load(&bucket->word[i ? sl_cell_word(i - 1) : 0]);
            uint64_t index = word >> 55 & (SL_ACTORS - 1);

            if (!sl_is_locked(word))
                continue;
            locks++;
            *stray += atomic_load(&sl_region_actor(r, index)->status) >> 2 !=
                      (word & ((UINT64_C(1) << 55) - 1));
        }
    return locks;
}

/* Slots that carry a key, by looking at all of them. */
static inline uint64_t slots_taken(const struct sl_region *r)
{
    uint64_t taken = 0;

    for (uint64_t b = 0; b < sl_region_head(r)->buckets; b++)
        for (unsigned i = 0; i < SL_SLOTS; i++)
            taken += sl_load(r, sl_tag_at(r, (struct sl_slot){b, i})) != 0;
    return taken;
}

#endif
