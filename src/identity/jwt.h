/* verify.h -- is this text a token that we believe?
 *
 * Verify only, compact form only. What the token says about itself chooses
 * nothing but a key's name: the key decides the algorithm.
 */
#ifndef SL_VERIFY_H
#define SL_VERIFY_H

#include "base/arena.h"
#include "identity/identity.h"
#include "identity/keyset.h"

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

#endif
