/* token_verifier.h -- verified tokens of one thread, remembered until they
 * expire.
 *
 * A signature costs more than all else of a decision. A token that was good a
 * moment ago is known by its digest; one that was bad is verified again, but
 * whoever sends many bad ones from one address has to wait before the next
 * signature is checked (the check of his good ones that are remembered costs
 * nothing and goes on).
 *
 * Keys and rules come from keys.h, which all threads share, and change while
 * tokens are verified: what was remembered under other keys is forgotten.
 */
#ifndef SL_IDENTITY_TOKEN_VERIFIER_H
#define SL_IDENTITY_TOKEN_VERIFIER_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/ip.h"
#include "identity/identity.h"
#include "identity/jwt.h"

struct sl_tokens_options {
    struct sl_jwks_current *keys; /* borrowed, outlives it */
    unsigned remembered;          /* tokens; 0: 4096 */
    unsigned bad_per_minute;      /* from one address; 0: 60, in bursts of 20 */
    const struct sl_alloc *alloc;
};

/* `remembered` of the `good` ones cost no check of a signature. */
struct sl_tokens_stats {
    uint64_t good, remembered, bad[SL_TOKEN_ERRORS];
};

SL_MUST_USE int sl_tokens_open(const struct sl_tokens_options *options,
                               struct sl_tokens **ret, struct sl_diag *diag);
void sl_tokens_close(struct sl_tokens *tokens); /* NULL is allowed */
const struct sl_tokens_stats *sl_tokens_stats(const struct sl_tokens *tokens);

/* ---- tokens that were good a moment ago.
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

/* ---- who sent bad tokens lately.
 *
 * An address may send a burst of bad ones and then so many a minute; beyond
 * that no signature of his is checked until the time is over. IPv6 counts by
 * /64, since whoever has one address of it has all.
 *
 * The table has a fixed size. An address has four places where it may stand;
 * if all are taken, whoever owes least gives way.
 *
 * Invariant: from the next question on nobody waits longer than `most`, also
 * when the clock steps back.
 */

struct sl_bad_token_place {
    uint64_t who; /* fingerprint; 0: nobody */
    sl_ns over;   /* when nothing is owed any more */
};

struct sl_bad_token {
    struct sl_hash_key secret;
    sl_ns step, most; /* owed for one; the most that is owed */
    struct sl_bad_token_place *places;
    const struct sl_alloc *alloc;
};

/* `per_minute` > 0, in bursts of a third of that. SLUICE_ENOMEM, SLUICE_ESYS.
 */
SL_MUST_USE int sl_bad_token_init(struct sl_bad_token *blame,
                                  unsigned per_minute,
                                  const struct sl_alloc *alloc);
void sl_bad_token_done(struct sl_bad_token *blame); /* one of zeros too */

/* Not const: a clock that stepped back is noticed here. */
bool sl_bad_token_holds(struct sl_bad_token *blame, const struct sl_ip *ip,
                        sl_ns now);
void sl_bad_token_note(struct sl_bad_token *blame, const struct sl_ip *ip,
                       sl_ns now);

#endif
