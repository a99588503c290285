/* token_verifier.h -- verifies the tokens of one thread and caches valid ones.
 *
 * Checking a signature costs more than the rest of a decision. A valid token is
 * found in the cache by its digest until it expires. An invalid token is
 * verified each time, but an address that sends many of them must wait before
 * the next signature is checked. Its cached tokens are still accepted.
 *
 * All threads share the keys and rules (sl_jwks_current in jwt.h). The cache is
 * cleared when they change.
 */
#ifndef SL_IDENTITY_TOKEN_VERIFIER_H
#define SL_IDENTITY_TOKEN_VERIFIER_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/ip.h"
#include "base/map.h"
#include "identity/identity.h"
#include "identity/jwt.h"

struct sl_tokens_options {
    struct sl_jwks_current *keys; /* borrowed, outlives the verifier */
    unsigned cached;              /* most tokens in the cache; 0: 4096 */
    unsigned bad_per_minute;      /* from one address; 0: 60, in bursts of 20 */
    const struct sl_alloc *alloc;
};

/* `cached` counts those of the `good` tokens that were in the cache. */
struct sl_tokens_stats {
    uint64_t good, cached, bad[SL_TOKEN_ERRORS];
};

SL_MUST_USE int sl_tokens_open(const struct sl_tokens_options *options,
                               struct sl_tokens **ret, struct sl_diag *diag);
void sl_tokens_close(struct sl_tokens *tokens); /* NULL is allowed */
const struct sl_tokens_stats *sl_tokens_stats(const struct sl_tokens *tokens);

/* ---- the cache of verified tokens.
 *
 * A map from the SHA-256 of a token to its claims. The token itself is not
 * kept. The cache is a plain sl_map: clear, check and free it with the calls
 * of base/map.h.
 */

#define SL_TOKEN_CACHE_BYTES 2048 /* of one entry, on average */

struct sl_digest {
    uint8_t bytes[32];
};

/* most > 0. `alloc` is borrowed. Returns 0 or SLUICE_ENOMEM. */
SL_MUST_USE int sl_token_cache_init(struct sl_map *cache, unsigned most,
                                    const struct sl_alloc *alloc);

/* Finds the token of a digest if it is valid at `now`. Its texts live until
 * the cache changes. A token that is not valid at `now` is removed. */
SL_MUST_USE bool sl_token_cache_find(struct sl_map *cache,
                                     const struct sl_digest *digest, sl_ns now,
                                     struct sl_token *ret);

/* Adds a copy of a token that is not in the cache; it is valid in
 * [from, until). Does nothing without memory. */
void sl_token_cache_add(struct sl_map *cache, const struct sl_digest *digest,
                        const struct sl_token *token, sl_ns from, sl_ns until);

/* ---- the limiter of bad tokens.
 *
 * An address may send a burst of bad tokens and then `per_minute`. Beyond that
 * no signature from it is checked until its debt is paid by time. IPv6
 * addresses count by /64.
 *
 * The table has a fixed size. An address has four slots to choose from; when
 * all are taken, the slot with the smallest debt is replaced.
 *
 * Invariant: no address waits longer than `most` from its next request on,
 * also when the clock steps back.
 */

struct sl_bad_token_slot {
    uint64_t fingerprint; /* of the address; 0: free */
    sl_ns paid_at;        /* when the debt is zero */
};

struct sl_bad_token {
    struct sl_hash_key secret;
    sl_ns step, most; /* debt for one bad token; largest debt */
    struct sl_bad_token_slot *slots;
    const struct sl_alloc *alloc;
};

/* `per_minute` > 0, in bursts of a third of it. Returns 0, SLUICE_ENOMEM or
 * SLUICE_ESYS. */
SL_MUST_USE int sl_bad_token_init(struct sl_bad_token *limiter,
                                  unsigned per_minute,
                                  const struct sl_alloc *alloc);
void sl_bad_token_done(struct sl_bad_token *limiter); /* zeros are allowed */

/* Returns whether `ip` must wait. Not const: corrects debts after the clock
 * stepped back. */
bool sl_bad_token_denies(struct sl_bad_token *limiter, const struct sl_ip *ip,
                         sl_ns now);

/* Counts a bad token from `ip`. */
void sl_bad_token_count(struct sl_bad_token *limiter, const struct sl_ip *ip,
                        sl_ns now);

#endif
