/* public.h -- the public half of a key, from its numbers to OpenSSL's own.
 *
 * Each hands over a new key; SLUICE_ECONF if the numbers are not good ones,
 * and then *why is the rest of a sentence that begins with the key's name.
 */
#ifndef SL_PUBLIC_H
#define SL_PUBLIC_H

#include <jansson.h>
#include <openssl/types.h>

#include "base/str.h"
#include "identity/jose/algorithm.h"

SL_MUST_USE int sl_jwk_public_rsa(const json_t *jwk, EVP_PKEY **ret,
                                  const char **why);
SL_MUST_USE int sl_jwk_public_ec(const json_t *jwk, const struct sl_alg *alg,
                                 EVP_PKEY **ret, const char **why);

/* Is `curve` one that EdDSA signs on? */
bool sl_jwk_public_is_okp(struct sl_str curve);
SL_MUST_USE int sl_jwk_public_okp(const json_t *jwk, EVP_PKEY **ret,
                                  const char **why);

#endif
