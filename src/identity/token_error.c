/* token_error.c -- words and sentences for rejected tokens. The engine links
 * this file alone.
 */
#include "identity/identity.h"

static const char *const words[SL_TOKEN_ERRORS] = {
    [SL_TOKEN_GOOD] = "good",           [SL_TOKEN_MALFORMED] = "malformed",
    [SL_TOKEN_TOO_LARGE] = "too_large", [SL_TOKEN_ALGORITHM] = "algorithm",
    [SL_TOKEN_HEADER] = "header",       [SL_TOKEN_NO_KEY] = "no_key",
    [SL_TOKEN_SIGNATURE] = "signature", [SL_TOKEN_EXPIRED] = "expired",
    [SL_TOKEN_NOT_YET] = "not_yet",     [SL_TOKEN_NO_EXPIRY] = "no_expiry",
    [SL_TOKEN_ISSUER] = "issuer",       [SL_TOKEN_AUDIENCE] = "audience",
    [SL_TOKEN_HELD_BACK] = "held_back", [SL_TOKEN_NO_KEYS] = "no_keys",
    [SL_TOKEN_NO_MEMORY] = "no_memory",
};

const char *sl_token_error_word(enum sl_token_error fault)
{
    return words[fault];
}

static const char *const sentences[SL_TOKEN_ERRORS] = {
    [SL_TOKEN_GOOD] = "the token is valid",
    [SL_TOKEN_MALFORMED] = ("the value is not a JWT: it must have three "
                            "base64url parts that contain JSON"),
    [SL_TOKEN_TOO_LARGE] =
        "the token exceeds 8 KiB, 64 claims, 8 levels, or 128 bytes of \"kid\"",
    [SL_TOKEN_ALGORITHM] = "the token's algorithm is not allowed",
    [SL_TOKEN_HEADER] = ("the token's header has a field that is not accepted: "
                         "crit, b64, zip, jku, jwk, x5u or x5c"),
    [SL_TOKEN_NO_KEY] = "no key matches the token",
    [SL_TOKEN_SIGNATURE] = "the token's signature is wrong",
    [SL_TOKEN_EXPIRED] = "the token has expired",
    [SL_TOKEN_NOT_YET] = "the token is not valid yet",
    [SL_TOKEN_NO_EXPIRY] = "the token has no \"exp\", which is required",
    [SL_TOKEN_ISSUER] = "the token is from another issuer",
    [SL_TOKEN_AUDIENCE] = "the token is for another audience",
    [SL_TOKEN_HELD_BACK] =
        "too many invalid tokens came from this address recently",
    [SL_TOKEN_NO_KEYS] = "the keys have not been fetched yet",
    [SL_TOKEN_NO_MEMORY] = "out of memory",
};

const char *sl_token_error_sentence(enum sl_token_error fault)
{
    return sentences[fault];
}
