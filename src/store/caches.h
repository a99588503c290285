/* caches.h -- what one loop has taken in advance, and decides by itself.
 *
 * A lease is a number of tokens of one key. They are taken in a store that is
 * shared before anybody has asked for them; while the lease lasts, whoever asks
 * is answered from here, without a round trip.
 *
 *     taken often --> asked for, with a take --> granted --> spent
 *          ^                                        |          |
 *          |          with the next take, or before its end    |
 *          +---- ended: what is left goes back <----+----------+
 *
 * It never lets too much through. Here nothing is spent after its end: a lease
 * is dated from when it was asked for, and lives for a second at most, not
 * beyond the window that it was taken from. A bucket that refills meanwhile
 * must not hand out the same tokens: either it knows what is out, and no refill
 * covers that until the lease has ended (Redis; see kinds.lua), or the lease
 * melts at the rate of the refill (DynamoDB): what the bucket has got back is
 * no longer in the lease.
 *
 * It may refuse too much, others elsewhere: by what is leased and not spent.
 * That is at most the part of the capacity that the policy names, for each
 * loop, and never more than twice what the loop has taken since it asked last,
 * and what melts in twice that time.
 * A key that is not taken from twice within two seconds is not leased at all.
 *
 * Leases are known by the names and numbers of their keys. Pure: nothing is
 * sent here.
 */
#ifndef SL_STORE_CACHES_H
#define SL_STORE_CACHES_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/hash.h"
#include "store/store.h"

/* ---- refusals that need not be asked for again.
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

struct sl_lease;
struct sl_lease_cache;

/* Append the name of a part and its numbers, so that a lease can be given back
 * when nobody remembers the policy that they came from. */
typedef int sl_lease_keep_f(const struct sl_store_part *part, sl_ns near,
                            struct sl_buf *out, size_t *ret_name_len);

/* `most` keys; `melt`: those of buckets do. SLUICE_ENOMEM. */
SL_MUST_USE int sl_lease_cache_open(unsigned most, sl_lease_keep_f *keep,
                                    bool melt, const struct sl_alloc *alloc,
                                    struct sl_lease_cache **ret);
void sl_lease_cache_close(struct sl_lease_cache *leases); /* NULL is allowed */

/* May this be decided by leases: all of its parts? */
bool sl_lease_cache_apply(const struct sl_take *take);

/* The keys of such a take. */
struct sl_lease_keys {
    struct sl_hash128 hash[SL_PARTS];
    uint8_t names[SL_PARTS]; /* for sl_denial_forgets */
    unsigned count;
};
void sl_lease_keys(const struct sl_denial_forgets *forgets,
                   const struct sl_take *take, struct sl_lease_keys *ret);

/* Is there enough for all parts? Then it is spent, and answered. */
SL_MUST_USE bool sl_lease_cache_spend(struct sl_lease_cache *leases,
                                      const struct sl_lease_keys *keys,
                                      struct sl_take *take, sl_ns now);

/* What is to be leased of a part, and which lease ends. Zeros: none. */
struct sl_lease_request {
    uint64_t want;
    uint64_t all, left;
    uint64_t till; /* what the store has said of its time */
};

/* What goes to the store with a take: leases that end, and those that are
 * wanted. Until it is landed or lost those keys have none. */
struct sl_lease_requests {
    struct sl_lease *list[SL_PARTS]; /* NULL: nothing of this part */
    struct sl_lease_request words[SL_PARTS];
    unsigned count; /* of parts; 0: nothing is asked */
    bool frees;     /* one that ends has something left */
};
void sl_lease_cache_ask(struct sl_lease_cache *leases,
                        const struct sl_lease_keys *keys,
                        const struct sl_take *take, unsigned slot, sl_ns near,
                        sl_ns now, struct sl_lease_requests *ret);

/* What has come of it, for those who count, in tokens. */
struct sl_lease_counts {
    uint64_t granted;
    uint64_t over;  /* spent of leases that the store no longer knew */
    uint64_t under; /* taken in advance, not spent, and lost */
};

/* The store has answered. Each of the list has landed, once, with what was
 * granted of it; NULL: nothing. False if that was no lease that was asked for.
 */
struct sl_lease_grant {
    uint64_t has;
    sl_ns life;         /* from when it was sent; SL_S at most */
    uint64_t till;      /* for the word that ends it */
    uint64_t remaining; /* what the take was told, and... */
    sl_ns reset_in;     /* ...when all of it is back */
};
bool sl_lease_cache_granted(struct sl_lease_cache *leases,
                            struct sl_lease_requests *asks, unsigned i,
                            const struct sl_lease_grant *grant, sl_ns sent);

/* It has not. `unsent`: nothing has happened. */
void sl_lease_cache_lost(struct sl_lease_cache *leases,
                         struct sl_lease_requests *asks, bool unsent,
                         struct sl_lease_counts *counts);

/* When the next lease must be ended so that what is left of it goes back in
 * time; SL_NS_NONE: there is none. */
sl_ns sl_lease_cache_due(const struct sl_lease_cache *leases);

/* End the next one: of those that are due at `now`, or of `all`. False if there
 * is none. What was kept of it is borrowed until its key is asked for again. */
struct sl_lease_end {
    struct sl_lease_requests asks; /* to be landed or lost */
    uint8_t place;                 /* for sl_denial_forgets */
    unsigned slot;
    struct sl_str name, numbers;
};
SL_MUST_USE bool sl_lease_cache_end(struct sl_lease_cache *leases, sl_ns now,
                                    bool all, struct sl_lease_end *ret);

#endif
