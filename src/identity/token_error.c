/* token_error.c -- words and sentences for rejected tokens. */
#include "identity/jwt.h"

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

const char *sl_token_error_sentence(enum sl_token_error fault)
{
    switch (fault) {
    case SL_TOKEN_GOOD:
        return "the token is valid";
    case SL_TOKEN_MALFORMED:
        return "the value is not a JWT: it must have three base64url parts "
               "that contain JSON";
    case SL_TOKEN_TOO_LARGE:
        return "the token exceeds 8 KiB, 64 claims, 8 levels, or 128 bytes of "
               "\"kid\"";
    case SL_TOKEN_ALGORITHM:
        return "the token's algorithm is not allowed";
    case SL_TOKEN_HEADER:
        return "the token's header has a field that is not accepted: crit, "
               "b64, zip, jku, jwk, x5u or x5c";
    case SL_TOKEN_NO_KEY:
        return "no key matches the token";
    case SL_TOKEN_SIGNATURE:
        return "the token's signature is wrong";
    case SL_TOKEN_EXPIRED:
        return "the token has expired";
    case SL_TOKEN_NOT_YET:
        return "the token is not valid yet";
    case SL_TOKEN_NO_EXPIRY:
        return "the token has no \"exp\", which is required";
    case SL_TOKEN_ISSUER:
        return "the token is from another issuer";
    case SL_TOKEN_AUDIENCE:
        return "the token is for another audience";
    case SL_TOKEN_HELD_BACK:
        return "too many invalid tokens came from this address recently";
    case SL_TOKEN_NO_KEYS:
        return "the keys have not been fetched yet";
    default:
        return "out of memory";
    }
}
