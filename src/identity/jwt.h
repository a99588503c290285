/* jwt.h -- is this text a token that we believe?
 *
 * Verify only, compact form only. What the token says about itself chooses
 * nothing but a key's name: the key decides the algorithm.
 */
#ifndef SL_IDENTITY_JWT_H
#define SL_IDENTITY_JWT_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"
#include "identity/identity.h"

/* ---- the keys that tokens are verified with: a JWKS, read once.
 *
 * A set is immutable and counted by its users, on any thread. Each key has one
 * algorithm, or those of its kind that the set was read for; HMAC keys and
 * public keys never live in one set.
 */

/* Algorithms, as bits. */
enum sl_token_algorithm {
    SL_ALG_RS256 = 1 << 0,
    SL_ALG_RS384 = 1 << 1,
    SL_ALG_RS512 = 1 << 2,
    SL_ALG_PS256 = 1 << 3,
    SL_ALG_PS384 = 1 << 4,
    SL_ALG_PS512 = 1 << 5,
    SL_ALG_ES256 = 1 << 6,
    SL_ALG_ES384 = 1 << 7,
    SL_ALG_ES512 = 1 << 8,
    SL_ALG_EDDSA = 1 << 9,
    SL_ALG_HS256 = 1 << 10,
    SL_ALG_HS384 = 1 << 11,
    SL_ALG_HS512 = 1 << 12,
    SL_ALG_HMAC = SL_ALG_HS256 | SL_ALG_HS384 | SL_ALG_HS512,
};

/* The bit of "RS256" and so on, in exactly that spelling; 0 if it is none. */
unsigned sl_algorithm_of(struct sl_str name);

struct sl_keyset;

#define SL_KEYSET_BYTES ((size_t)256 << 10)
#define SL_KEYSET_KEYS  64

/* Read a JWKS or a single JWK. Keys that can't verify by any of `algorithms`
 * (0: all but HMAC) are passed over, as a provider's set may hold others; a key
 * that is broken, or HMAC and public keys together, are refused, and so is a
 * set without a key that serves: SLUICE_ECONF. */
SL_MUST_USE int sl_keyset_read(struct sl_str json, unsigned algorithms,
                               const struct sl_alloc *alloc,
                               struct sl_keyset **ret, struct sl_diag *diag);

/* A set of one HMAC key that has no name: the bytes themselves. */
SL_MUST_USE int sl_keyset_secret(struct sl_str secret, unsigned algorithms,
                                 const struct sl_alloc *alloc,
                                 struct sl_keyset **ret, struct sl_diag *diag);

struct sl_keyset *sl_keyset_ref(struct sl_keyset *set);
void sl_keyset_unref(struct sl_keyset *set); /* NULL is allowed */
unsigned sl_keyset_count(const struct sl_keyset *set);

/* Did a key that serves bring its private half? That is never read, but whoever
 * else can read the set can sign. */
bool sl_keyset_has_private(const struct sl_keyset *set);

#define SL_TOKEN_BYTES ((size_t)8 << 10)
#define SL_KID_BYTES   128
#define SL_TOKEN_DEPTH 8
#define SL_CLAIM_PATH  256 /* bytes: claims with longer paths are left out */

/* An arena of this ceiling holds what any token needs. */
#define SL_TOKEN_ARENA ((size_t)1 << 20)

struct sl_token_rules {
    unsigned algorithms;  /* bits; 0: those of the keys */
    struct sl_str issuer; /* "": any */
    const struct sl_str *audiences;
    unsigned audience_count; /* 0: any */
    sl_ns leeway;
    bool needs_no_expiry;
    bool signature_only; /* claims are not looked at, and may be no JSON */
};

/* Verify `text` by the keys of `set` at `now`. The claims are kept in `arena`
 * and *ret; a token that is refused for its times has those there, and no
 * claims. `kid` (NULL allowed) gets the name of the key that was asked for and
 * not found, for SL_TOKEN_NO_KEY. */
SL_MUST_USE enum sl_token_error
sl_token_verify(const struct sl_keyset *set, const struct sl_token_rules *rules,
                struct sl_str text, sl_ns now, struct sl_arena *arena,
                struct sl_token *ret, struct sl_str *kid);

/* ---- the keys in force, shared by all threads and changed by one.
 *
 * Whoever fetches keys puts a new set in; whoever verifies sees by one atomic
 * read that there is another one and only then takes the lock. An unknown key
 * id leaves a wish, of which there is one at a time however many ask.
 */

struct sl_jwks_current;

SL_MUST_USE int sl_jwks_current_open(const struct sl_alloc *alloc,
                                     struct sl_jwks_current **ret);
void sl_jwks_current_close(struct sl_jwks_current *keys); /* NULL is allowed */

/* Put keys (NULL: none yet) and rules in force; both are copied or counted. */
SL_MUST_USE int sl_jwks_current_put(struct sl_jwks_current *keys,
                                    struct sl_keyset *set,
                                    const struct sl_token_rules *rules);

/* Changes with every sl_jwks_current_put(); never 0. */
uint64_t sl_jwks_current_version(const struct sl_jwks_current *keys);

/* A reference to what is in force: give it back. */
struct sl_jwks_held {
    uint64_t version;
    struct sl_keyset *set; /* NULL: none yet */
    const struct sl_token_rules *rules;
    void *own;
};
void sl_jwks_current_hold(struct sl_jwks_current *keys,
                          struct sl_jwks_held *ret);
void sl_jwks_current_release(struct sl_jwks_held *held);

/* Somebody asked for a key that is not there. Cheap, from any thread. */
void sl_jwks_current_request_refresh(struct sl_jwks_current *keys);
/* Has somebody, since the last time this was asked? */
bool sl_jwks_current_refresh_requested(struct sl_jwks_current *keys);

/* ---- what a signed token claims: is it for us, now; and as texts. */

/* Hold the claims against the rules: times, issuer, audience. The times go to
 * ret->expires and ret->begins, also of a token that is refused for them. */
SL_MUST_USE enum sl_token_error
sl_claims_check(const json_t *claims, const struct sl_token_rules *rules,
                sl_ns now, struct sl_token *ret);

/* Copy the claims that can be asked for to ret->claims and `arena`: texts,
 * whole numbers, true and false, lists of texts; members of objects by their
 * path. Left out is what has no text of its own (null, fractions, other lists),
 * what has no name or one of more than SL_CLAIM_PATH bytes, and a list with an
 * item that is empty or has a blank: joined, it could be taken for others. Two
 * claims of one path ("a.b", and b in a) are SL_TOKEN_MALFORMED, more than
 * SL_CLAIMS SL_TOKEN_TOO_LARGE. */
SL_MUST_USE enum sl_token_error
sl_claims_copy(json_t *claims, struct sl_arena *arena, struct sl_token *ret);

#endif
