/* token_verifier.c -- verifies the tokens of one thread.
 *
 *     keys changed? ------------> clear the cache
 *     in the cache? ------------> good, for the price of a SHA-256
 *     address over its limit? --> refused without a check
 *     verify -------------------> good: cache it; bad: count it
 *
 * Only a token that fails after a signature check counts as bad. Malformed
 * tokens do not count: they cost little, and a browser that sends a cookie of
 * another program would lock out its network. Tokens of unknown keys do not
 * count: the keys may have changed and not be fetched yet.
 */
#include "identity/token_verifier.h"

#include <openssl/evp.h>

#include "base/arith.h"

#define CACHED         4096
#define BAD_PER_MINUTE 60

struct tokens {
    struct sl_tokens base; /* first: callers see only this */
    struct sl_alloc alloc;
    struct sl_jwks_current *keys;
    struct sl_jwks_held held;
    struct sl_map cache;
    struct sl_bad_token limiter;
    struct sl_arena arena;
    EVP_MD *hash;
    EVP_MD_CTX *digest_ctx;
    struct sl_token token; /* the last good token */
    struct sl_tokens_stats stats;
};

/* New keys are in force from the next token on. */
static void follow_keys(struct tokens *t)
{
    if (sl_jwks_current_version(t->keys) == t->held.version)
        return;
    sl_jwks_current_release(&t->held);
    sl_jwks_current_hold(t->keys, &t->held);
    sl_map_clear(&t->cache);
}

static bool digest_of(struct tokens *t, struct sl_str text,
                      struct sl_digest *ret)
{
    return EVP_DigestInit_ex2(t->digest_ctx, t->hash, NULL) &&
           EVP_DigestUpdate(t->digest_ctx, text.at, text.len) &&
           EVP_DigestFinal_ex(t->digest_ctx, ret->bytes, NULL);
}

static bool has_cost_check(enum sl_token_error error)
{
    switch (error) {
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
    enum sl_token_error error;
    sl_ns until = SL_NS_MAX;

    if (from && sl_bad_token_denies(&t->limiter, from, now))
        return SL_TOKEN_HELD_BACK;
    sl_arena_reset(&t->arena);
    error =
        sl_token_verify(t->held.set, rules, text, now, &t->arena, token, NULL);
    if (error == SL_TOKEN_NO_KEY)
        sl_jwks_current_request_refresh(t->keys);
    if (from && has_cost_check(error))
        sl_bad_token_count(&t->limiter, from, now);
    if (error)
        return error;
    if (token->expires != SL_NS_NONE)
        until = sl_ns_add_sat(token->expires, rules->leeway);
    sl_token_cache_add(&t->cache, digest, token, token->begins - rules->leeway,
                       until);
    return SL_TOKEN_GOOD;
}

/* Leaves a good token in t->token. */
static enum sl_token_error find_or_check(struct tokens *t, struct sl_str text,
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
    if (sl_token_cache_find(&t->cache, &digest, now, &t->token)) {
        t->stats.cached++;
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

    *why = find_or_check(t, text, from, now);
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
    unsigned most = options->cached ? options->cached : CACHED;
    unsigned bad =
        options->bad_per_minute ? options->bad_per_minute : BAD_PER_MINUTE;
    int err = sl_token_cache_init(&t->cache, most, &t->alloc);

    if (!err)
        err = sl_bad_token_init(&t->limiter, bad, &t->alloc);
    if (err)
        return err;
    t->hash = EVP_MD_fetch(NULL, "SHA256", NULL);
    t->digest_ctx = EVP_MD_CTX_new();
    return t->hash && t->digest_ctx ? 0 : SLUICE_ENOMEM;
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
    sl_map_done(&t->cache);
    sl_bad_token_done(&t->limiter);
    sl_arena_done(&t->arena);
    EVP_MD_CTX_free(t->digest_ctx);
    EVP_MD_free(t->hash);
    alloc = t->alloc;
    sl_alloc_free(&alloc, t, sizeof(*t));
}

const struct sl_tokens_stats *sl_tokens_stats(const struct sl_tokens *tokens)
{
    return &((const struct tokens *)tokens)->stats;
}
