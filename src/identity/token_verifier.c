/* token_verifier.c -- verified tokens of one thread.
 *
 *     keys changed? ---> forget all
 *     remembered? -----> good, at the price of a SHA-256
 *     held back? ------> no, at no price
 *     verify ----------> good: remember it; bad: blame the address
 *
 * Blamed is only what cost the check of a signature. Garbage is refused for
 * less than it costs to send, and a browser that sends a cookie of some other
 * program with every request would otherwise shut out its whole network; so
 * would keys that have changed and are not fetched yet.
 */
#include "identity/token_verifier.h"

#include <openssl/evp.h>

#include "base/arith.h"

#define REMEMBERED     4096
#define BAD_PER_MINUTE 60

struct tokens {
    struct sl_tokens base; /* first: callers see only this */
    struct sl_alloc alloc;
    struct sl_jwks_current *keys;
    struct sl_jwks_held held;
    struct sl_token_cache recall;
    struct sl_bad_token blame;
    struct sl_arena arena;
    EVP_MD *hash;
    EVP_MD_CTX *hashing;
    struct sl_token token; /* the last one that was good */
    struct sl_tokens_stats stats;
};

/* Whoever puts keys in force finds them obeyed from the next token on. */
static void follow_keys(struct tokens *t)
{
    if (sl_jwks_current_version(t->keys) == t->held.version)
        return;
    sl_jwks_current_release(&t->held);
    sl_jwks_current_hold(t->keys, &t->held);
    sl_token_cache_forget(&t->recall);
}

static bool digest_of(struct tokens *t, struct sl_str text,
                      struct sl_digest *ret)
{
    return EVP_DigestInit_ex2(t->hashing, t->hash, NULL) &&
           EVP_DigestUpdate(t->hashing, text.at, text.len) &&
           EVP_DigestFinal_ex(t->hashing, ret->bytes, NULL);
}

static bool cost_a_check(enum sl_token_error fault)
{
    switch (fault) {
    case SL_TOKEN_SIGNATURE:
    case SL_TOKEN_EXPIRED:
    case SL_TOKEN_NOT_YET:
    case SL_TOKEN_NO_EXPIRY:
    case SL_TOKEN_ISSUER:
    case SL_TOKEN_AUDIENCE:
        return true;
    default:
        return false;
    }
}

static enum sl_token_error check(struct tokens *t, struct sl_str text,
                                 const struct sl_digest *digest,
                                 const struct sl_ip *from, sl_ns now)
{
    const struct sl_token_rules *rules = t->held.rules;
    struct sl_token *token = &t->token;
    enum sl_token_error fault;
    sl_ns until = SL_NS_MAX;

    if (from && sl_bad_token_holds(&t->blame, from, now))
        return SL_TOKEN_HELD_BACK;
    sl_arena_reset(&t->arena);
    fault =
        sl_token_verify(t->held.set, rules, text, now, &t->arena, token, NULL);
    if (fault == SL_TOKEN_NO_KEY)
        sl_jwks_current_request_refresh(t->keys);
    if (from && cost_a_check(fault))
        sl_bad_token_note(&t->blame, from, now);
    if (fault)
        return fault;
    if (token->expires != SL_NS_NONE)
        until = sl_ns_add_sat(token->expires, rules->leeway);
    sl_token_cache_keep(&t->recall, digest, token,
                        token->begins - rules->leeway, until);
    return SL_TOKEN_GOOD;
}

/* The token is in t->token if it is good. */
static enum sl_token_error look(struct tokens *t, struct sl_str text,
                                const struct sl_ip *from, sl_ns now)
{
    struct sl_digest digest;

    follow_keys(t);
    if (!t->held.set) {
        sl_jwks_current_request_refresh(t->keys);
        return SL_TOKEN_NO_KEYS;
    }
    if (text.len > SL_TOKEN_BYTES)
        return SL_TOKEN_TOO_LARGE;
    if (!digest_of(t, text, &digest))
        return SL_TOKEN_NO_MEMORY;
    if (sl_token_cache_find(&t->recall, &digest, now, &t->token)) {
        t->stats.remembered++;
        return SL_TOKEN_GOOD;
    }
    return check(t, text, &digest, from, now);
}

static const struct sl_token *verify(struct sl_tokens *tokens,
                                     struct sl_str text,
                                     const struct sl_ip *from, sl_ns now,
                                     enum sl_token_error *why)
{
    struct tokens *t = (struct tokens *)tokens;

    *why = look(t, text, from, now);
    if (*why) {
        t->stats.bad[*why]++;
        return NULL;
    }
    t->stats.good++;
    return &t->token;
}

static const struct sl_tokens_calls calls = {.verify = verify};

static int fill(struct tokens *t, const struct sl_tokens_options *options)
{
    unsigned most = options->remembered ? options->remembered : REMEMBERED;
    unsigned bad =
        options->bad_per_minute ? options->bad_per_minute : BAD_PER_MINUTE;
    int err = sl_token_cache_init(&t->recall, most, &t->alloc);

    if (!err)
        err = sl_bad_token_init(&t->blame, bad, &t->alloc);
    if (err)
        return err;
    t->hash = EVP_MD_fetch(NULL, "SHA256", NULL);
    t->hashing = EVP_MD_CTX_new();
    return t->hash && t->hashing ? 0 : SLUICE_ENOMEM;
}

int sl_tokens_open(const struct sl_tokens_options *options,
                   struct sl_tokens **ret, struct sl_diag *diag)
{
    struct tokens *t = sl_alloc_new(options->alloc, sizeof(*t));
    int err;

    if (!t)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    *t = (struct tokens){.base = {.calls = &calls},
                         .alloc = *options->alloc,
                         .keys = options->keys};
    sl_arena_init(&t->arena, SL_TOKEN_ARENA, &t->alloc);
    err = fill(t, options);
    if (err) {
        sl_tokens_close(&t->base);
        return sl_diag_error(diag, err,
                             err == SLUICE_ESYS
                                 ? "the kernel did not provide random numbers"
                                 : "out of memory");
    }
    *ret = &t->base;
    return 0;
}

void sl_tokens_close(struct sl_tokens *tokens)
{
    struct tokens *t = (struct tokens *)tokens;
    struct sl_alloc alloc;

    if (!t)
        return;
    sl_jwks_current_release(&t->held);
    sl_token_cache_done(&t->recall);
    sl_bad_token_done(&t->blame);
    sl_arena_done(&t->arena);
    EVP_MD_CTX_free(t->hashing);
    EVP_MD_free(t->hash);
    alloc = t->alloc;
    sl_alloc_free(&alloc, t, sizeof(*t));
}

const struct sl_tokens_stats *sl_tokens_stats(const struct sl_tokens *tokens)
{
    return &((const struct tokens *)tokens)->stats;
}
