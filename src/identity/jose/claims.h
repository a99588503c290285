/* claims.h -- what a signed token claims: is it for us, now; and as texts. */
#ifndef SL_CLAIMS_H
#define SL_CLAIMS_H

#include <jansson.h>

#include "identity/jwt.h"

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
