/* usage_token.h -- tokens for the usage page of one organisation.
 *
 *     slu1.PAYLOAD.SIGNATURE
 *
 * Both parts are base64url. The payload is JSON: {"org":"acme","exp":SECONDS}
 * and the optional members "name" and "upgrade_url". The signature is
 * HMAC-SHA256 of "slu1.PAYLOAD". A token is not stored: who has the key can
 * verify it.
 *
 *   (1) The payload is not read before the signature is verified.
 *   (2) Signatures are compared in constant time.
 *   (3) A token has one spelling.
 */
#ifndef SL_IDENTITY_USAGE_TOKEN_H
#define SL_IDENTITY_USAGE_TOKEN_H

#include "base/arena.h"
#include "base/buf.h"

#define SL_USAGE_TOKEN_KEY  32   /* bytes */
#define SL_USAGE_TOKEN_MOST 4096 /* letters of a token */

struct sl_usage_claims {
    struct sl_str org;
    struct sl_str name;        /* of the organisation, to show; "": none */
    struct sl_str upgrade_url; /* "": none */
    sl_ns expires;             /* whole seconds */
};

enum sl_usage_token_fault {
    SL_USAGE_TOKEN_GOOD,
    SL_USAGE_TOKEN_WRONG, /* not a token, or not signed with this key */
    SL_USAGE_TOKEN_EXPIRED,
    SL_USAGE_TOKEN_NO_MEMORY,
};

/* Append the token of `claims`. Returns SLUICE_EINVAL if it would be longer
 * than SL_USAGE_TOKEN_MOST, SLUICE_ENOMEM. */
SL_MUST_USE int
sl_usage_token_write(const uint8_t key[static SL_USAGE_TOKEN_KEY],
                     const struct sl_usage_claims *claims, struct sl_buf *out);

/* Has it the form of a token? Needs no key. */
SL_MUST_USE bool sl_usage_token_has_form(struct sl_str token);

/* Verify a token. The texts of *ret are in `arena`; they are valid if the
 * token is good, and also if it has expired. */
SL_MUST_USE enum sl_usage_token_fault
sl_usage_token_read(const uint8_t key[static SL_USAGE_TOKEN_KEY],
                    struct sl_str token, sl_ns now, struct sl_arena *arena,
                    struct sl_usage_claims *ret);

#endif
