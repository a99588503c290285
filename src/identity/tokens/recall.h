/* recall.h -- tokens that were good a moment ago.
 *
 * A token is known by its SHA-256, so that what is kept is no token and two
 * never meet. Each has a span of time in which it is good; the one that was
 * asked for longest ago gives way when there are too many, or too many bytes.
 *
 * Invariants.
 *   (1) Every entry is in one chain, that of its digest, and in the line of
 *       use; count entries are.
 *   (2) count <= most, and bytes <= most * SL_TOKEN_CACHE_BYTES, unless there
 * is but one.
 */
#ifndef SL_TOKEN_CACHE_H
#define SL_TOKEN_CACHE_H

#include "base/alloc.h"
#include "identity/identity.h"

#define SL_TOKEN_CACHE_BYTES 2048 /* of one entry, on average */

struct sl_digest {
    uint8_t bytes[32];
};

struct sl_token_cache_entry;

struct sl_token_cache_chain {
    struct sl_token_cache_entry *first;
};

struct sl_token_cache {
    struct sl_token_cache_chain *chains;
    struct sl_token_cache_entry *newest, *oldest; /* the line of use */
    unsigned chain_count;                         /* a power of two */
    unsigned count, most;
    size_t bytes;
    const struct sl_alloc *alloc;
};

/* most > 0. `alloc` is borrowed. */
SL_MUST_USE int sl_token_cache_init(struct sl_token_cache *recall,
                                    unsigned most,
                                    const struct sl_alloc *alloc);
void sl_token_cache_done(struct sl_token_cache *recall); /* one of zeros too */

/* The token of that digest if it is good at `now`; its texts live until the
 * next call that changes something. One that is over is forgotten. */
SL_MUST_USE bool sl_token_cache_find(struct sl_token_cache *recall,
                                     const struct sl_digest *digest, sl_ns now,
                                     struct sl_token *ret);

/* Keep a copy of a token that is not there yet; it is good in [from, until).
 * Without memory it is just not kept. */
void sl_token_cache_keep(struct sl_token_cache *recall,
                         const struct sl_digest *digest,
                         const struct sl_token *token, sl_ns from, sl_ns until);

void sl_token_cache_forget(struct sl_token_cache *recall);

/* Assert the invariants. */
void sl_token_cache_check(const struct sl_token_cache *recall);

#endif
