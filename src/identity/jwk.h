/* jwk.h -- one key: RFC 7517, and RFC 7518 and 8037 for what is in it.
 *
 * A key says what it is for: `use`, `key_ops` and `alg` bind. A key for
 * something else is passed over, since a provider's set may hold others; one
 * that is for us and broken is refused, since nobody would notice otherwise
 * until a token fails.
 *
 *   RSA   2048 bits and more; the exponent is odd, 3 and more, and fits 64
 *         bits; not made by the generator that gave its primes away (ROCA)
 *   EC    P-256, P-384, P-521; both coordinates at full length, on the curve
 *   OKP   Ed25519, Ed448
 *   oct   at least as long as the hash
 *
 * Private members are never read. That they are there is remembered, for
 * whoever can tell somebody.
 */
#ifndef SL_JWK_H
#define SL_JWK_H

#include <jansson.h>

#include "base/diag.h"
#include "identity/jose/algorithm.h"
#include "identity/jose/secret.h"
#include "identity/jwt.h"

struct sl_jwk {
    unsigned algorithms;         /* that it serves; 0: passed over */
    EVP_PKEY *pkey;              /* a public key, or NULL */
    struct sl_secure_mem secret; /* or this */
    bool is_private;             /* it had private members */
    bool has_kid;
    unsigned char kid_len;
    char kid[SL_KID_BYTES];
};

/* Wipe the secrets in it: jansson does not when it gives memory back. */
void sl_jwk_wipe(json_t *jwk);

/* Read one for any of `wanted`. `index` (from 0) is its place, for the
 * sentence. SLUICE_ECONF if it is broken, SLUICE_ENOMEM. A key that is passed
 * over has no algorithms; *ret_kinds gets those that it could serve if they
 * were wanted. */
SL_MUST_USE int sl_jwk_read(json_t *jwk, unsigned wanted, size_t index,
                            struct sl_jwk *ret, unsigned *ret_kinds,
                            struct sl_diag *diag);

void sl_jwk_done(struct sl_jwk *key);

/* HMAC algorithms for which a secret of `len` bytes is long enough. */
unsigned sl_alg_hmac_fits(size_t len);

#endif
