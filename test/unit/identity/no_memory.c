/* no_memory.c -- the nth allocation fails, for every n: an answer or an error,
 * never a leak, and never a token that is believed by mistake.
 *
 * Ours, jansson's and OpenSSL's memory each have their own count.
 */
#include "made.h"

#include <jansson.h>

#include "fail.h"
#include "identity/token_verifier.h"
#include "material.h"

#define KEYS                                                                   \
    "{\"keys\":[{\"kty\":\"RSA\",\"kid\":\"r\",\"e\":\"AQAB\",\"n\":\"" RSA_N  \
    "\"},{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"e\",\"x\":\"" P256_X      \
    "\",\"y\":\"" P256_Y "\"},{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":"   \
    "\"o\",\"x\":\"" ED25519_X "\"}]}"

#define PAYLOAD                                                                \
    "{\"exp\":9,\"sub\":\"ann\",\"roles\":[\"a\",\"b\"],\"realm\":{\"n\":1}}"

/* ---- memory of others ---- */

struct count {
    unsigned nth, calls; /* as in struct fail */
};

static struct count json_count, openssl_count;

static bool fails(struct count *count)
{
    return ++count->calls == count->nth;
}

static void *on_json(size_t size)
{
    return fails(&json_count) ? NULL : malloc(size);
}

static void *on_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return fails(&openssl_count) ? NULL : malloc(size);
}

static void *on_realloc(void *old, size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return fails(&openssl_count) ? NULL : realloc(old, size);
}

static void on_free(void *old, const char *file, int line)
{
    (void)file;
    (void)line;
    free(old);
}

/* ---- what is tried ---- */

/* jansson does not always know why it could not go on. */
static bool is_shortage(enum sl_token_error fault)
{
    return fault == SL_TOKEN_NO_MEMORY ||
           (fault == SL_TOKEN_MALFORMED && json_count.nth > 0);
}

typedef bool try_f(const struct sl_alloc *alloc);

/* Each returns true if it went well; else it has checked how it failed. */
static bool try_keyset(const struct sl_alloc *alloc)
{
    struct sl_keyset *set = NULL;
    struct sl_diag diag;
    int err = sl_keyset_read(SL_STR(KEYS), 0, alloc, &set, &diag);

    CHECK(err ? !set : set && sl_keyset_count(set) == 3);
    sl_keyset_unref(set);
    return !err;
}

static bool try_secret(const struct sl_alloc *alloc)
{
    struct sl_keyset *set = NULL;
    int err = sl_keyset_secret(MADE_SECRET, 0, alloc, &set, NULL);

    CHECK(err ? err == SLUICE_ENOMEM && !set : set != NULL);
    sl_keyset_unref(set);
    return !err;
}

static struct sl_keyset *set;
static struct sl_str good, forged; /* made while there is memory */

static bool try_verify(const struct sl_alloc *alloc)
{
    static const struct sl_token_rules rules;
    struct sl_arena arena;
    struct sl_token token;
    enum sl_token_error fault;

    sl_arena_init(&arena, SL_TOKEN_ARENA, alloc);
    fault = sl_token_verify(set, &rules, good, SL_S, &arena, &token, NULL);
    CHECK(fault == SL_TOKEN_GOOD || is_shortage(fault));
    CHECK(fault || token.claim_count == 4);
    sl_arena_done(&arena);
    return !fault;
}

/* A forged one stays forged, whatever fails. */
static bool try_forged(const struct sl_alloc *alloc)
{
    static const struct sl_token_rules rules;
    struct sl_arena arena;
    struct sl_token token;
    enum sl_token_error fault;

    sl_arena_init(&arena, SL_TOKEN_ARENA, alloc);
    fault = sl_token_verify(set, &rules, forged, SL_S, &arena, &token, NULL);
    CHECK(fault == SL_TOKEN_SIGNATURE || is_shortage(fault));
    sl_arena_done(&arena);
    return fault == SL_TOKEN_SIGNATURE;
}

static bool try_tokens(const struct sl_alloc *alloc)
{
    static const struct sl_token_rules rules;
    struct sl_tokens_options options = {.alloc = alloc};
    struct sl_tokens *tokens = NULL;
    const struct sl_token *token = NULL;
    enum sl_token_error why = SL_TOKEN_GOOD;
    int err = sl_jwks_current_open(alloc, &options.keys);

    if (!err)
        err = sl_jwks_current_put(options.keys, set, &rules);
    if (!err)
        err = sl_tokens_open(&options, &tokens, NULL);
    CHECK(err == 0 || err == SLUICE_ENOMEM);
    for (unsigned i = 0; i < 2 && !err; i++) {
        token = tokens->calls->verify(tokens, good, NULL, SL_S, &why);
        CHECK(token ? token->claim_count == 4 : is_shortage(why));
    }
    sl_tokens_close(tokens);
    sl_jwks_current_close(options.keys);
    return token != NULL;
}

/* ---- every n ---- */

static struct sl_str kept(char *copy, size_t room, bool flip)
{
    struct sl_str text = made(HS256, PAYLOAD);

    if (text.len > room)
        abort();
    memcpy(copy, text.at, text.len);
    if (flip)
        copy[text.len - 3] ^= 1;
    return (struct sl_str){copy, text.len};
}

static const struct {
    const char *name;
    try_f *run;
} tries[] = {
    {"a set of keys",      try_keyset},
    {"a secret",           try_secret},
    {"a token",            try_verify},
    {"a forged token",     try_forged},
    {"tokens of a thread", try_tokens},
};

static void test_own(try_f *run)
{
    unsigned total;
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);

    CHECK(run(&alloc));
    total = f.calls;
    CHECK(total > 0);
    fail_check(&f);
    for (unsigned nth = 1; nth <= total; nth++) {
        f = (struct fail){.nth = nth};
        run(&alloc);
        fail_check(&f);
    }
}

static void test_others(try_f *run, struct count *count)
{
    unsigned total;

    *count = (struct count){0};
    CHECK(run(&sl_alloc_libc));
    total = count->calls;
    for (unsigned nth = 1; nth <= total; nth++) {
        *count = (struct count){.nth = nth};
        run(&sl_alloc_libc);
    }
    *count = (struct count){0};
    CHECK(run(&sl_alloc_libc));
}

int main(void)
{
    static char copies[2][512];

    if (!CRYPTO_set_mem_functions(on_malloc, on_realloc, on_free))
        return 1;
    json_set_alloc_funcs(on_json, free);
    set = made_set(0);
    good = kept(copies[0], sizeof(copies[0]), false);
    forged = kept(copies[1], sizeof(copies[1]), true);
    for (size_t i = 0; i < SL_LEN(tries); i++) {
        CASE(tries[i].name);
        test_own(tries[i].run);
        test_others(tries[i].run, &json_count);
        test_others(tries[i].run, &openssl_count);
    }
    sl_keyset_unref(set);
    return CHECK_DONE();
}
