/* jwt.h -- verifies tokens: JWS in compact form.
 *
 * A token chooses nothing but the name of a key. The key determines the
 * algorithm.
 */
#ifndef SL_IDENTITY_JWT_H
#define SL_IDENTITY_JWT_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/diag.h"
#include "base/str.h"
#include "identity/identity.h"

/* ---- key sets: a JWKS, read once.
 *
 * A set is immutable and reference-counted across threads. Each key has one
 * algorithm, or those of its kind that the set was read for. HMAC keys and
 * public keys are never in one set.
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

/* Returns the bit of "RS256" and so on, in exactly that spelling, or 0. */
unsigned sl_algorithm_of(struct sl_str name);

struct sl_keyset;

#define SL_KEYSET_BYTES ((size_t)256 << 10)
#define SL_KEYSET_KEYS  64

/* Reads a JWKS or a single JWK. Skips keys that verify none of `algorithms` (0:
 * all but HMAC). Returns SLUICE_ECONF for a broken key, HMAC and public keys
 * together, or no usable key. */
SL_MUST_USE int sl_keyset_read(struct sl_str json, unsigned algorithms,
                               const struct sl_alloc *alloc,
                               struct sl_keyset **ret, struct sl_diag *diag);

/* Makes a set of one HMAC key without a name. */
SL_MUST_USE int sl_keyset_secret(struct sl_str secret, unsigned algorithms,
                                 const struct sl_alloc *alloc,
                                 struct sl_keyset **ret, struct sl_diag *diag);

struct sl_keyset *sl_keyset_ref(struct sl_keyset *set);
void sl_keyset_unref(struct sl_keyset *set); /* NULL is allowed */
unsigned sl_keyset_count(const struct sl_keyset *set);

/* Returns whether a usable key has private members. They are not read, but
 * other readers of the file can sign with them. */
bool sl_keyset_has_private(const struct sl_keyset *set);

#define SL_TOKEN_BYTES ((size_t)8 << 10)
#define SL_KID_BYTES   128
#define SL_TOKEN_DEPTH 8
#define SL_CLAIM_PATH  256 /* bytes: claims with longer paths are omitted */

/* The limit of an arena that is enough for any token. */
#define SL_TOKEN_ARENA ((size_t)1 << 20)

struct sl_token_rules {
    unsigned algorithms;  /* bits; 0: all of the keys */
    struct sl_str issuer; /* "": any */
    const struct sl_str *audiences;
    unsigned audience_count; /* 0: any */
    sl_ns leeway;
    bool needs_no_expiry;
    bool signature_only; /* do not read the claims; they need not be JSON */
};

/* Verifies `text` with the keys of `set` at `now`. Claims are in `arena` and
 * *ret. A token rejected for its times has these and no claims. `kid` (may be
 * NULL) is the unknown key name, for SL_TOKEN_NO_KEY. */
SL_MUST_USE enum sl_token_error
sl_token_verify(const struct sl_keyset *set, const struct sl_token_rules *rules,
                struct sl_str text, sl_ns now, struct sl_arena *arena,
                struct sl_token *ret, struct sl_str *kid);

/* ---- the current key set, shared by all threads and changed by one.
 *
 * A verifier checks the version by one atomic read and locks only when it has
 * changed. An unknown key id requests a refresh; many requests count as one.
 */

struct sl_jwks_current;

SL_MUST_USE int sl_jwks_current_open(const struct sl_alloc *alloc,
                                     struct sl_jwks_current **ret);
void sl_jwks_current_close(struct sl_jwks_current *keys); /* NULL is allowed */

/* Replaces keys (NULL: none yet) and rules; both are copied or referenced. */
SL_MUST_USE int sl_jwks_current_put(struct sl_jwks_current *keys,
                                    struct sl_keyset *set,
                                    const struct sl_token_rules *rules);

/* Changes with every sl_jwks_current_put(); never 0. */
uint64_t sl_jwks_current_version(const struct sl_jwks_current *keys);

/* A reference to the current set; release it. */
struct sl_jwks_held {
    uint64_t version;
    struct sl_keyset *set; /* NULL: none yet */
    const struct sl_token_rules *rules;
    void *own;
};
void sl_jwks_current_hold(struct sl_jwks_current *keys,
                          struct sl_jwks_held *ret);
void sl_jwks_current_release(struct sl_jwks_held *held);

/* Requests a refresh, because of an unknown key. Cheap, from any thread. */
void sl_jwks_current_request_refresh(struct sl_jwks_current *keys);
/* Returns whether a refresh was requested since the last call. */
bool sl_jwks_current_refresh_requested(struct sl_jwks_current *keys);

#endif
