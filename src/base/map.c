/* map.c -- a hash map with least-recently-used eviction and expiry. */
#include "base/map.h"

#include <assert.h>
#include <string.h>

int sl_map_init(struct sl_map *map, const struct sl_map_options *options)
{
    size_t count = 1, size;

    while (count < options->most)
        count *= 2;
    size = count * sizeof(struct sl_map_entry *);
    *map = (struct sl_map){.options = *options, .chain_count = count};
    TAILQ_INIT(&map->use);
    map->chains = sl_alloc_new(options->alloc, size);
    if (!map->chains)
        return SLUICE_ENOMEM;
    memset(map->chains, 0, size);
    return 0;
}

void sl_map_done(struct sl_map *map)
{
    if (!map->chains)
        return;
    sl_map_clear(map);
    sl_alloc_free(map->options.alloc, map->chains,
                  map->chain_count * sizeof(struct sl_map_entry *));
    map->chains = NULL;
}

static struct sl_map_entry **chain_of(const struct sl_map *map, uint64_t hash)
{
    return &map->chains[hash & (map->chain_count - 1)];
}

void sl_map_remove(struct sl_map *map, struct sl_map_entry *entry)
{
    struct sl_map_entry **link = chain_of(map, entry->hash);

    while (*link != entry)
        link = &(*link)->chained;
    *link = entry->chained;
    TAILQ_REMOVE(&map->use, entry, use);
    map->count--;
    map->bytes -= entry->size;
    map->options.free(map->options.ctx, entry);
}

void sl_map_clear(struct sl_map *map)
{
    while (!TAILQ_EMPTY(&map->use))
        sl_map_remove(map, TAILQ_FIRST(&map->use));
}

struct sl_map_entry *sl_map_find(struct sl_map *map, uint64_t hash,
                                 const void *key, sl_ns now)
{
    struct sl_map_entry *entry = *chain_of(map, hash);

    while (entry && (entry->hash != hash || !map->options.equals(entry, key)))
        entry = entry->chained;
    if (!entry)
        return NULL;
    if (now >= entry->expires) {
        sl_map_remove(map, entry);
        return NULL;
    }
    if (entry != TAILQ_FIRST(&map->use)) {
        TAILQ_REMOVE(&map->use, entry, use);
        TAILQ_INSERT_HEAD(&map->use, entry, use);
    }
    return entry;
}

static bool is_full(const struct sl_map *map, size_t size)
{
    const struct sl_map_options *o = &map->options;

    return map->count == o->most ||
           (o->most_bytes > 0 && map->bytes + size > o->most_bytes);
}

void sl_map_add(struct sl_map *map, struct sl_map_entry *entry)
{
    struct sl_map_entry **chain = chain_of(map, entry->hash);

    while (map->count > 0 && is_full(map, entry->size)) /* (3) */
        sl_map_remove(map, TAILQ_LAST(&map->use, sl_map_use));
    entry->chained = *chain;
    *chain = entry;
    TAILQ_INSERT_HEAD(&map->use, entry, use);
    map->count++;
    map->bytes += entry->size;
}

void sl_map_check(const struct sl_map *map)
{
    const struct sl_map_entry *entry;
    unsigned count = 0, chained = 0;
    size_t bytes = 0;

    TAILQ_FOREACH (entry, &map->use, use) {
        bytes += entry->size;
        count++;
    }
    for (size_t i = 0; i < map->chain_count; i++)
        for (entry = map->chains[i]; entry; entry = entry->chained) {
            assert(chain_of(map, entry->hash) == &map->chains[i]);
            chained++;
        }
    assert(count == map->count && chained == count); /* (1) */
    assert(bytes == map->bytes);                     /* (2) */
    assert(count <= map->options.most);              /* (3) */
    assert(count <= 1 || !is_full(map, 0) || count == map->options.most);
    (void)bytes;
    (void)chained;
}
