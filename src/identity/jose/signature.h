/* signature.h -- did this key sign this text? */
#ifndef SL_SIGNATURE_H
#define SL_SIGNATURE_H

#include "identity/identity.h"
#include "identity/jwk.h"

/* Check by algorithm `alg`, one of the key's. SL_TOKEN_GOOD,
 * SL_TOKEN_SIGNATURE or SL_TOKEN_NO_MEMORY. */
SL_MUST_USE enum sl_token_error sl_signature_check(const struct sl_jwk *key,
                                                   const struct sl_alg *alg,
                                                   struct sl_str text,
                                                   struct sl_str signature);

#endif
