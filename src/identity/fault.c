/* fault.c -- why a token is not believed, in words. */
#include "identity/verify.h"

static const struct {
    const char *word, *sentence;
} faults[SL_TOKEN_FAULTS] = {
    [SL_TOKEN_GOOD] = {"good",      "the token is good"                                     },
    [SL_TOKEN_MALFORMED] = {"malformed",
                       "this is no token: not three parts of base64url "
                            "with JSON in them"                                             },
    [SL_TOKEN_TOO_LARGE] = {"too_large",
                       "the token is longer than 8 KiB, nested more than "
                            "8 deep, or has more than 64 claims"                            },
    [SL_TOKEN_ALGORITHM] = {"algorithm",
                       "the token's algorithm is not one that is allowed"                   },
    [SL_TOKEN_HEADER] = {"header",    "the token's header has a field that is "
                                   "never believed: crit, b64, zip, jku, jwk, "
                                   "x5u or x5c"             },
    [SL_TOKEN_NO_KEY] = {"no_key",    "there is no key that the token could be "
                                   "verified with"          },
    [SL_TOKEN_SIGNATURE] = {"signature", "the token's signature is wrong"                        },
    [SL_TOKEN_EXPIRED] = {"expired",   "the token has expired"                                 },
    [SL_TOKEN_NOT_YET] = {"not_yet",   "the token is not good yet"                             },
    [SL_TOKEN_NO_EXPIRY] = {"no_expiry", "the token never expires, and must"                     },
    [SL_TOKEN_ISSUER] = {"issuer",    "the token was made by another issuer"                  },
    [SL_TOKEN_AUDIENCE] = {"audience",  "the token is for another audience"                     },
    [SL_TOKEN_HELD_BACK] = {"held_back", "too many bad tokens came from this "
                                         "address lately"},
    [SL_TOKEN_NO_KEYS] = {"no_keys",   "the keys are not there yet"                            },
    [SL_TOKEN_NO_MEMORY] = {"no_memory", "there is no memory left"                               },
};

const char *sl_token_fault_word(enum sl_token_fault fault)
{
    return faults[fault].word;
}

const char *sl_token_fault_sentence(enum sl_token_fault fault)
{
    return faults[fault].sentence;
}
