/* lease_cache.h -- the leases of one loop from a remote store. Pure: nothing is
 * sent here.
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
#ifndef SL_STORE_LEASE_CACHE_H
#define SL_STORE_LEASE_CACHE_H

#include "base/buf.h"
#include "base/hash.h"
#include "store/denial_cache.h"

struct sl_lease;
struct sl_lease_cache;

/* Appends the name of a part and its numbers, so that a lease can be returned
 * after its policy is gone. */
typedef int sl_lease_keep_f(const struct sl_part *part, sl_ns near,
                            struct sl_buf *out, size_t *ret_name_len);

/* `most` keys; `shrink`: leases of buckets shrink. SLUICE_ENOMEM. */
SL_MUST_USE int sl_lease_cache_open(unsigned most, sl_lease_keep_f *keep,
                                    bool shrink, const struct sl_alloc *alloc,
                                    struct sl_lease_cache **ret);
void sl_lease_cache_close(struct sl_lease_cache *leases); /* NULL is allowed */

/* May all parts of the take be leased? */
bool sl_lease_cache_can_lease(const struct sl_take *take);

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
