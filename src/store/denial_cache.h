/* denial_cache.h -- the denials of a remote store, remembered by one loop.
 * Pure: nothing is sent here.
 *
 * A denied caller that repeats its request at once is denied again, until its
 * retry time. The cache answers for one second at most, and never beyond that
 * time, so that a busy caller hardly reaches the store.
 *
 * An entry is a set: the names, numbers and costs of all its parts. Every part
 * that denied has a retry time; denials by permits and levels are not cached,
 * since other callers free those. Of a set with penalties only denials by a
 * block are cached: the others are counted.
 *
 * Exactness. Takes by others only make a denial last longer. So the store would
 * deny too, unless another process refunded or reset the key in that second, or
 * returned a lease. Refunds and resets of this process drop entries for all of
 * its loops: sl_denial_forgets counts them by name, a take carries the count of
 * when it was sent, and a denial sent before the last of them ended is not
 * cached.
 *
 * Retry and reset are shown less the time that has passed; `remaining` stays.
 */
#ifndef SL_STORE_DENIAL_CACHE_H
#define SL_STORE_DENIAL_CACHE_H

#include <stdatomic.h>

#include "base/hash.h"
#include "store/store.h"

#define SL_FORGETS 256

/* Of one store; shared by its loops. */
struct sl_denial_forgets {
    struct sl_hash_key key;
    _Atomic uint32_t by_name[SL_FORGETS];
};

/* Identifies a take, with the count of its names so far. */
struct sl_denial_key {
    struct sl_hash128 hash;
    uint32_t forgets;
    unsigned count;          /* of parts */
    uint8_t names[SL_PARTS]; /* where their names are counted */
};
struct sl_denial_key sl_denial_key(struct sl_denial_forgets *forgets,
                                   const struct sl_take *take);

/* The hash of a part's name, numbers and cost, chained to the parts `before`
 * it. *ret_name is where its name is counted. */
struct sl_hash128 sl_denial_part_hash(const struct sl_denial_forgets *forgets,
                                      const struct sl_part *part,
                                      struct sl_hash128 before,
                                      uint8_t *ret_name);

/* A refund or reset: drops the denials of these names. Called when it is sent
 * and when it has ended. */
void sl_denial_forgets_add(struct sl_denial_forgets *forgets,
                           const struct sl_denial_key *key);
void sl_denial_forgets_add_name(struct sl_denial_forgets *forgets,
                                struct sl_str name);

/* Of one loop. */
struct sl_denial_cache;

/* `most` of them; SLUICE_ENOMEM. */
SL_MUST_USE int sl_denial_cache_open(unsigned most,
                                     const struct sl_alloc *alloc,
                                     struct sl_denial_cache **ret);
void sl_denial_cache_close(
    struct sl_denial_cache *denials); /* NULL is allowed */

/* Is the take denied by the cache? Then its answers are filled in. */
SL_MUST_USE bool sl_denial_cache_find(const struct sl_denial_cache *denials,
                                      const struct sl_denial_key *key,
                                      struct sl_take *take, sl_ns now);

/* Caches a denial, if its kind allows it. `key` is from when the take was
 * `sent`; its retry time counts from then. `forgets` is the count of now. */
void sl_denial_cache_add(struct sl_denial_cache *denials,
                         const struct sl_denial_key *key,
                         const struct sl_denial_forgets *forgets,
                         const struct sl_take *take, sl_ns sent, sl_ns now);

#endif
