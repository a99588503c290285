/* fuzz_jws.c -- tokens.
 *
 * A text that begins with '=' is a token as it stands. Any other is a header,
 * a newline and a payload, and is signed before it is verified, so that what
 * lies behind the signature is reached.
 *
 *   (1) A token is believed only if its MAC is right, its header says HS256
 *       and nothing that is never believed.
 *   (2) It is not over, and has begun.
 *   (3) Claims have paths that are short and come once.
 *   (4) There is always memory enough.
 *   (5) The same token gets the same answer.
 */
#include "fuzz.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "identity/jwt.h"

#define NOW    (INT64_C(1700000000) * SL_S)
#define LEEWAY (30 * SL_S)

static const char secret[] = "0123456789abcdef0123456789abcdef";
static const struct sl_token_rules rules = {.leeway = LEEWAY};
static char signed_text[32 * 1024];

/* Append base64url; returns what is behind it. OpenSSL writes the usual form
 * with padding. */
static char *put_base64(char *out, const void *bytes, size_t len)
{
    size_t size =
        (size_t)EVP_EncodeBlock((unsigned char *)out, bytes, (int)len);

    while (size > 0 && out[size - 1] == '=')
        size--;
    for (size_t i = 0; i < size; i++) {
        out[i] = out[i] == '+' ? '-' : out[i];
        out[i] = out[i] == '/' ? '_' : out[i];
    }
    return out + size;
}

static char *put_mac(char *out, const char *text, const char *end)
{
    unsigned char mac[32];
    unsigned len = 0;

    HMAC(EVP_sha256(), secret, sizeof(secret) - 1, (const unsigned char *)text,
         (size_t)(end - text), mac, &len);
    return put_base64(out, mac, len);
}

static struct sl_str sign(struct sl_str text)
{
    const char *newline = text.len ? memchr(text.at, '\n', text.len) : NULL;
    size_t head = newline ? (size_t)(newline - text.at) : text.len;
    struct sl_str payload = sl_str_from(text, head + 1);
    char *at = put_base64(signed_text, text.at, head);

    *at++ = '.';
    at = put_base64(at, payload.at, payload.len);
    *at = '.';
    at = put_mac(at + 1, signed_text, at);
    return (struct sl_str){signed_text, (size_t)(at - signed_text)};
}

/* (1), by other code than ours. */
static void must_be_signed(struct sl_str token)
{
    char mac[64];
    const char *dot = memrchr(token.at, '.', token.len);
    size_t len;

    MUST(dot);
    len = (size_t)(put_mac(mac, token.at, dot) - mac);
    MUST(token.len == (size_t)(dot - token.at) + 1 + len);
    MUST(memcmp(dot + 1, mac, len) == 0);
}

static void must_be_header(struct sl_str text)
{
    const char *newline = memchr(text.at, '\n', text.len);
    size_t len = newline ? (size_t)(newline - text.at) : text.len;
    json_t *header = json_loadb(text.at, len, 0, NULL);
    const char *alg = json_string_value(json_object_get(header, "alg"));

    MUST(alg && strcmp(alg, "HS256") == 0);
    MUST(!json_object_get(header, "crit") && !json_object_get(header, "b64"));
    MUST(!json_object_get(header, "jwk") && !json_object_get(header, "jku"));
    MUST(!json_object_get(header, "x5u") && !json_object_get(header, "x5c"));
    MUST(!json_object_get(header, "zip"));
    json_decref(header);
}

static void must_be_claims(const struct sl_token *token)
{
    MUST(token->expires != SL_NS_NONE && token->expires > NOW - LEEWAY);
    MUST(token->begins >= 0 && token->begins <= NOW + LEEWAY); /* (2) */
    MUST(token->claim_count <= SL_CLAIMS);
    for (unsigned i = 0; i < token->claim_count; i++) { /* (3) */
        MUST(token->claims[i].path.len > 0);
        MUST(token->claims[i].path.len <= SL_CLAIM_PATH);
        for (unsigned j = 0; j < i; j++)
            MUST(!sl_str_eq(token->claims[i].path, token->claims[j].path));
    }
}

static enum sl_token_error verify(const struct sl_keyset *set,
                                  struct sl_str text, struct sl_arena *arena,
                                  struct sl_token *token)
{
    sl_arena_init(arena, SL_TOKEN_ARENA, &sl_alloc_libc);
    return sl_token_verify(set, &rules, text, NOW, arena, token, NULL);
}

void fuzz_jws(struct sl_str input)
{
    static struct sl_keyset *set;
    struct sl_str text;
    struct sl_arena arena, again;
    struct sl_token token, same;
    bool raw = input.len > 0 && input.at[0] == '=';
    enum sl_token_error fault;

    if (!set)
        MUST(sl_keyset_secret(SL_STR("0123456789abcdef0123456789abcdef"), 0,
                              &sl_alloc_libc, &set, NULL) == 0);
    text = raw ? sl_str_from(input, 1) : sign(input);
    fault = verify(set, text, &arena, &token);
    MUST(fault < SL_TOKEN_ERRORS && fault != SL_TOKEN_NO_MEMORY); /* (4) */
    MUST(raw || fault != SL_TOKEN_SIGNATURE);
    if (fault == SL_TOKEN_GOOD) {
        must_be_signed(text);
        if (!raw)
            must_be_header(input);
        must_be_claims(&token);
    }
    MUST(verify(set, text, &again, &same) == fault); /* (5) */
    MUST(same.claim_count == token.claim_count);
    sl_arena_done(&arena);
    sl_arena_done(&again);
}
