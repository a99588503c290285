/* caches.h -- caches of one loop for a remote store: leases and denials. Pure:
 * nothing is sent here.
 *
 * A lease is a number of tokens of one key, taken in advance. While it lasts,
 * takes are answered here, without a round trip.
 *
 *     taken often --> requested, with a take --> granted --> spent
 *          ^                                        |          |
 *          |          with the next take, or before its end    |
 *          +---- ended: the rest is returned <------+----------+
 *
 * A lease never grants too much. Its time counts from the request, not from the
 * grant. It lasts one second at most, not beyond its window. A bucket must not
 * refill the same tokens meanwhile: either the store knows what is leased
 * (Redis; kinds.lua), or the lease shrinks at the rate of the refill
 * (DynamoDB).
 *
 * Other loops may be denied too much: they lack what is leased and not spent.
 * For each loop that is at most the share of the capacity in the policy. It is
 * also at most twice what the loop took since its last request, plus what is
 * refilled in twice that time. A key with fewer than two takes in two seconds
 * is not leased. While most leases of a loop are returned unspent, only keys
 * with several takes in quick succession are.
 */
#ifndef SL_STORE_CACHES_H
#define SL_STORE_CACHES_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "base/hash.h"
#include "store/store.h"

/* A remote store judges at its own time, so the end of a window, counted from
 * the caller's time, is off by the round trip and by the difference of the
 * clocks. Moves it to the nearest edge of a window after take->now. A denial
 * until that end is not retried before it, nor earlier than the store says,
 * whose clock may be behind. */
void sl_take_align(struct sl_take *take);

/* ---- denial cache.
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

struct sl_lease;
struct sl_lease_cache;

/* Appends the name of a part and its numbers, so that a lease can be returned
 * after its policy is gone. */
typedef int sl_lease_keep_f(const struct sl_part *part, sl_ns near,
                            struct sl_buf *out, size_t *ret_name_len);

/* `most` keys; `melt`: leases of buckets shrink. SLUICE_ENOMEM. */
SL_MUST_USE int sl_lease_cache_open(unsigned most, sl_lease_keep_f *keep,
                                    bool melt, const struct sl_alloc *alloc,
                                    struct sl_lease_cache **ret);
void sl_lease_cache_close(struct sl_lease_cache *leases); /* NULL is allowed */

/* May all parts of the take be leased? */
bool sl_lease_cache_apply(const struct sl_take *take);

/* The keys of such a take. */
struct sl_lease_keys {
    struct sl_hash128 hash[SL_PARTS];
    uint8_t names[SL_PARTS]; /* for sl_denial_forgets */
    unsigned count;
};
void sl_lease_keys(const struct sl_denial_forgets *forgets,
                   const struct sl_take *take, struct sl_lease_keys *ret);

/* Are there enough tokens for all parts? Then they are spent and the take is
 * answered. */
SL_MUST_USE bool sl_lease_cache_spend(struct sl_lease_cache *leases,
                                      const struct sl_lease_keys *keys,
                                      struct sl_take *take, sl_ns now);

/* The lease to request for a part, and the lease that ends. Zeros: none. */
struct sl_lease_request {
    uint64_t want;
    uint64_t all, left;
    uint64_t till; /* the store's own time of the lease */
};

/* Sent with a take: leases that end and leases to request. Until they are
 * granted or lost, their keys have no lease. */
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

/* Results in tokens, for statistics. */
struct sl_lease_counts {
    uint64_t granted;
    uint64_t over;  /* spent of leases that the store no longer knew */
    uint64_t under; /* taken in advance, not spent, and lost */
};

/* The store has answered request `i`. Called once for each of the list; `grant`
 * NULL: nothing was granted. Returns false if it is not the lease requested. */
struct sl_lease_grant {
    uint64_t has;
    sl_ns life;         /* from when it was sent; SL_S at most */
    uint64_t till;      /* for the request that ends it */
    uint64_t remaining; /* of the take's answer... */
    sl_ns reset_in;     /* ...likewise */
};
bool sl_lease_cache_granted(struct sl_lease_cache *leases,
                            struct sl_lease_requests *asks, unsigned i,
                            const struct sl_lease_grant *grant, sl_ns sent);

/* The store has not answered. `unsent`: nothing has happened. */
void sl_lease_cache_lost(struct sl_lease_cache *leases,
                         struct sl_lease_requests *asks, bool unsent,
                         struct sl_lease_counts *counts);

/* When the next lease must be ended so that its rest is returned in time;
 * SL_NS_NONE: there is none. */
sl_ns sl_lease_cache_due(const struct sl_lease_cache *leases);

/* Ends the next lease that is due at `now`, or any of `all`. Returns false if
 * there is none. The texts are borrowed until its key is requested again. */
struct sl_lease_end {
    struct sl_lease_requests asks; /* to be granted or lost */
    uint8_t place;                 /* for sl_denial_forgets */
    unsigned slot;
    struct sl_str name, numbers;
};
SL_MUST_USE bool sl_lease_cache_end(struct sl_lease_cache *leases, sl_ns now,
                                    bool all, struct sl_lease_end *ret);

#endif
