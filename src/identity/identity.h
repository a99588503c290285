/* token.h -- a verified token, as those see it who decide.
 *
 * Whoever verifies tokens (tokens.h, on OpenSSL and jansson) hands out this
 * plain struct; the engine reads it and depends on neither.
 */
#ifndef SL_TOKEN_H
#define SL_TOKEN_H

#include "base/clock.h"
#include "base/ip.h"
#include "base/str.h"

#define SL_CLAIMS 64 /* of a token that can be asked for */

/* One claim that is a text, a whole number or true or false, as text. Members
 * of objects are called by their path: "realm.role". A list of texts is one
 * text, its items joined by a space. */
struct sl_claim {
    struct sl_str path;
    struct sl_str value;
};

struct sl_token {
    struct sl_claim claims[SL_CLAIMS]; /* in the token's order */
    unsigned claim_count;
    sl_ns expires; /* SL_NS_NONE if it never does */
    sl_ns begins;  /* nbf or iat, the later one; 0 without either */
};

/* The value of a claim, or an empty slice. */
static inline struct sl_str sl_token_claim(const struct sl_token *token,
                                           struct sl_str path)
{
    for (unsigned i = 0; i < token->claim_count; i++)
        if (sl_str_eq(token->claims[i].path, path))
            return token->claims[i].value;
    return (struct sl_str){NULL, 0};
}

/* Why a token is not believed. Each has a word for metrics and a sentence for
 * people in fault.c. */
enum sl_token_error {
    SL_TOKEN_GOOD,
    SL_TOKEN_MALFORMED, /* not three parts of strict base64url and JSON */
    SL_TOKEN_TOO_LARGE, /* or too deep, or too many claims */
    SL_TOKEN_ALGORITHM, /* none, unknown, or not allowed */
    SL_TOKEN_HEADER,    /* crit, zip, b64, jku, x5u, x5c, jwk */
    SL_TOKEN_NO_KEY,    /* no key of that id, or none that fits */
    SL_TOKEN_SIGNATURE, /* does not match */
    SL_TOKEN_EXPIRED,   /* exp is over */
    SL_TOKEN_NOT_YET,   /* nbf or iat lie ahead */
    SL_TOKEN_NO_EXPIRY, /* has no exp, and must */
    SL_TOKEN_ISSUER,    /* another issuer */
    SL_TOKEN_AUDIENCE,  /* for somebody else */
    SL_TOKEN_HELD_BACK, /* too many bad ones from this address lately */
    SL_TOKEN_NO_KEYS,   /* the keys have not been fetched yet */
    SL_TOKEN_NO_MEMORY,
    SL_TOKEN_ERRORS
};

/* "expired" for metrics; "the token has expired" for people (fault.c, which
 * stands on nothing). */
const char *sl_token_error_word(enum sl_token_error fault);
const char *sl_token_error_sentence(enum sl_token_error fault);

/* Who verifies tokens on one thread. */
struct sl_tokens;

struct sl_tokens_calls {
    /* The token that `text` is, until the next call on this thread; NULL and
     * `why` if it is not believed. `from` (NULL: not known) is held to account
     * for bad ones. Never waits. */
    const struct sl_token *(*verify)(struct sl_tokens *tokens,
                                     struct sl_str text,
                                     const struct sl_ip *from, sl_ns now,
                                     enum sl_token_error *why);
};

struct sl_tokens {
    const struct sl_tokens_calls *calls;
};

#endif
