/* denials.h -- refusals that need not be asked for again.
 *
 * Whoever is refused and comes again at once is refused again: until the
 * instant that he was told. For a second at most, and never beyond that
 * instant, the answer is given from here, and a hot offender hardly reaches
 * the store.
 *
 * What is remembered is a set: the names, numbers and costs of all its parts.
 * Every part that refused has a clock that says when it will not; refusals by
 * permits and levels are not remembered, since those are freed by others.
 *
 * Exactness. Takes by others make a refusal last longer, never shorter. So one
 * that is remembered would have been refused there too, but for two things
 * that somebody else may have done in that second: given back (the rest of a
 * lease, too), or reset. What
 * this process gives back or resets is forgotten here, for all of its loops:
 * sl_denial_forgets counts them by name, a take carries the count of when it
 * was sent, and what was sent before the last of them landed is not remembered.
 *
 * Retry and reset are shown less the time that has passed; what remains, as it
 * was.
 */
#ifndef SL_STORE_DENIALS_H
#define SL_STORE_DENIALS_H

#include <stdatomic.h>

#include "base/hash.h"
#include "store/store.h"

#define SL_FORGETS 256

/* Of one store; shared by its loops. */
struct sl_denial_forgets {
    struct sl_hash_key key;
    _Atomic uint32_t by_name[SL_FORGETS];
};

/* The name of a part, and all that its answer depends on, beside its state;
 * with that of the parts before it. */
struct sl_hash128 sl_part_name_hash(const struct sl_denial_forgets *forgets,
                                    const struct sl_store_part *part);
uint8_t sl_part_name_place(const struct sl_denial_forgets *forgets,
                           const struct sl_store_part *part);
struct sl_hash128 sl_part_hash(const struct sl_denial_forgets *forgets,
                               const struct sl_store_part *part,
                               struct sl_hash128 name,
                               struct sl_hash128 before);

/* What a take is known by, and what was forgotten of its names so far. */
struct sl_denial_key {
    struct sl_hash128 hash;
    uint32_t forgets;
    unsigned count;          /* of parts */
    uint8_t names[SL_PARTS]; /* where their names are counted */
};
struct sl_denial_key sl_denial_key(struct sl_denial_forgets *forgets,
                                   const struct sl_take *take);

/* Something is given back or reset: forget what was refused to its names. Both
 * when that is sent and when it has landed. */
void sl_denial_forgets_add(struct sl_denial_forgets *forgets,
                           const struct sl_denial_key *key);

/* Of one loop. */
struct sl_denial_cache;

/* `most` of them; SLUICE_ENOMEM. */
SL_MUST_USE int sl_denial_caches_open(unsigned most,
                                      const struct sl_alloc *alloc,
                                      struct sl_denial_cache **ret);
void sl_denial_caches_close(
    struct sl_denial_cache *denials); /* NULL is allowed */

/* Can this be refused without asking? Then its answers are filled in. */
SL_MUST_USE bool sl_denial_cache_find(const struct sl_denial_cache *denials,
                                      const struct sl_denial_key *key,
                                      struct sl_take *take, sl_ns now);

/* It was refused: remember it, if it is one of those. `key` is from when it was
 * `sent`, and what it was told counts from then: the server was asked later.
 * `forgets` says what was forgotten until now. */
void sl_denial_cache_add(struct sl_denial_cache *denials,
                         const struct sl_denial_key *key,
                         const struct sl_denial_forgets *forgets,
                         const struct sl_take *take, sl_ns sent, sl_ns now);

#endif
