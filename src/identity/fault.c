/* fault.c -- why a token is not believed, in words. */
#include "identity/verify.h"

static const char *const words[SL_TOKEN_FAULTS] = {
    [SL_TOKEN_GOOD] = "good",           [SL_TOKEN_MALFORMED] = "malformed",
    [SL_TOKEN_TOO_LARGE] = "too_large", [SL_TOKEN_ALGORITHM] = "algorithm",
    [SL_TOKEN_HEADER] = "header",       [SL_TOKEN_NO_KEY] = "no_key",
    [SL_TOKEN_SIGNATURE] = "signature", [SL_TOKEN_EXPIRED] = "expired",
    [SL_TOKEN_NOT_YET] = "not_yet",     [SL_TOKEN_NO_EXPIRY] = "no_expiry",
    [SL_TOKEN_ISSUER] = "issuer",       [SL_TOKEN_AUDIENCE] = "audience",
    [SL_TOKEN_HELD_BACK] = "held_back", [SL_TOKEN_NO_KEYS] = "no_keys",
    [SL_TOKEN_NO_MEMORY] = "no_memory",
};

static const char *const sentences[SL_TOKEN_FAULTS] = {
    [SL_TOKEN_GOOD] = "the token is good",
    [SL_TOKEN_MALFORMED] = "this is no token: not three parts of base64url "
                           "with the JSON of a token in them",
    [SL_TOKEN_TOO_LARGE] = "the token has more than 8 KiB, 64 claims, 8 "
                           "levels, or 128 bytes of \"kid\"",
    [SL_TOKEN_ALGORITHM] = "the token's algorithm is not one that is allowed",
    [SL_TOKEN_HEADER] = "the token's header has a field that is never "
                        "believed: crit, b64, zip, jku, jwk, x5u or x5c",
    [SL_TOKEN_NO_KEY] = "there is no key that could verify the token",
    [SL_TOKEN_SIGNATURE] = "the token's signature is wrong",
    [SL_TOKEN_EXPIRED] = "the token has expired",
    [SL_TOKEN_NOT_YET] = "the token is not good yet",
    [SL_TOKEN_NO_EXPIRY] = "the token has no \"exp\", and must expire",
    [SL_TOKEN_ISSUER] = "the token is from another issuer",
    [SL_TOKEN_AUDIENCE] = "the token is for another audience",
    [SL_TOKEN_HELD_BACK] = "too many bad tokens came from this address lately",
    [SL_TOKEN_NO_KEYS] = "the keys have not been fetched yet",
    [SL_TOKEN_NO_MEMORY] = "there is no memory left",
};

const char *sl_token_fault_word(enum sl_token_fault fault)
{
    return words[fault];
}

const char *sl_token_fault_sentence(enum sl_token_fault fault)
{
    return sentences[fault];
}
