/* keyset.h -- the keys that tokens are verified with: a JWKS, read once.
 *
 * A set is immutable and counted by its users, on any thread. Each key has one
 * algorithm, or those of its kind that the set was read for; HMAC keys and
 * public keys never live in one set.
 */
#ifndef SL_KEYSET_H
#define SL_KEYSET_H

#include "base/alloc.h"
#include "base/diag.h"
#include "base/str.h"

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

#endif
