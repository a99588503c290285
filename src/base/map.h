/* map.h -- a hash map with least-recently-used eviction and expiry.
 *
 * Entries are intrusive: the caller's struct begins with a sl_map_entry, and
 * the caller allocates it. Chains are never resized; a map of more than `most`
 * entries cannot exist. The map has no lock.
 *
 * Invariants (sl_map_check asserts them):
 *   (1) Every entry is in one chain, the chain of its hash, and in the list of
 *       use. Both hold `count` entries.
 *   (2) The sizes of the entries add up to `bytes`.
 *   (3) count <= most, and bytes <= most_bytes unless there is one entry only.
 */
#ifndef SL_BASE_MAP_H
#define SL_BASE_MAP_H

#include <sys/queue.h>

#include "base/arena.h"

struct sl_map_entry {
    TAILQ_ENTRY(sl_map_entry) use;
    struct sl_map_entry *chained;
    uint64_t hash;
    size_t size;   /* counts against most_bytes */
    sl_ns expires; /* SL_NS_MAX: never */
};

struct sl_map_options {
    unsigned most;     /* entries; > 0 */
    size_t most_bytes; /* 0: unlimited */
    bool (*equals)(const struct sl_map_entry *entry, const void *key);
    void (*free)(void *ctx, struct sl_map_entry *entry); /* after removal */
    void *ctx;
    const struct sl_alloc *alloc; /* of the chains; borrowed */
};

struct sl_map {
    struct sl_map_options options;
    struct sl_map_entry **chains;
    size_t chain_count;                       /* a power of two */
    TAILQ_HEAD(sl_map_use, sl_map_entry) use; /* most recently used first */
    unsigned count;
    size_t bytes;
};

/* Returns 0 or SLUICE_ENOMEM. */
SL_MUST_USE int sl_map_init(struct sl_map *map,
                            const struct sl_map_options *options);

/* Frees all entries and the chains. A map of zeros is allowed. */
void sl_map_done(struct sl_map *map);

/* Returns the entry of `key`, now the most recently used, or NULL. Removes the
 * entry if it expired at or before `now`. */
struct sl_map_entry *sl_map_find(struct sl_map *map, uint64_t hash,
                                 const void *key, sl_ns now);

/* Adds an entry whose hash, size and expires are set; the key must not be in
 * the map. Evicts the least recently used entries until there is room. An
 * entry larger than most_bytes stays, alone. */
void sl_map_add(struct sl_map *map, struct sl_map_entry *entry);

void sl_map_remove(struct sl_map *map, struct sl_map_entry *entry);
void sl_map_clear(struct sl_map *map);

/* Asserts the invariants. */
void sl_map_check(const struct sl_map *map);

#endif
