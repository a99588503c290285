/* fuzz_page_token.c -- tokens of the usage page.
 *
 * A text that begins with '=' is a token as it stands. Any other is a payload,
 * and is signed before it is verified, so that what lies behind the signature
 * is reached.
 *
 *   (1) A token as it stands is wrong: it has no signature of this key.
 *   (2) What is read has an organisation and an end.
 *   (3) It is written so that it is read again, and says the same.
 */
#include "fuzz.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "identity/usage_token.h"

static const uint8_t key[SL_USAGE_TOKEN_KEY] =
    "0123456789abcdef0123456789abcde";
static char text[16 * 1024];

/* Append base64url; returns what is behind it. */
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

static struct sl_str sign(struct sl_str payload)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    char *end;

    memcpy(text, "slu1.", 5);
    end = put_base64(text + 5, payload.at, payload.len);
    MUST(HMAC(EVP_sha256(), key, sizeof(key), (unsigned char *)text,
              (size_t)(end - text), mac, &len));
    *end++ = '.';
    end = put_base64(end, mac, len);
    return (struct sl_str){text, (size_t)(end - text)};
}

static void read_again(const struct sl_usage_claims *claims)
{
    struct sl_usage_claims again;
    struct sl_arena arena;
    struct sl_buf token;
    int err;

    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&token, 2 * SL_USAGE_TOKEN_MOST, &sl_alloc_libc);
    err = sl_usage_token_write(key, claims, &token);
    MUST(err == 0 || err == SLUICE_EINVAL); /* escapes may be longer */
    if (!err) {
        MUST(sl_usage_token_read(key, sl_buf_str(&token), claims->expires - 1,
                                 &arena, &again) == SL_USAGE_TOKEN_GOOD ||
             claims->expires == 0);
        MUST(sl_usage_token_read(key, sl_buf_str(&token), claims->expires,
                                 &arena, &again) == SL_USAGE_TOKEN_EXPIRED);
        MUST(sl_str_eq(again.org, claims->org)); /* (3) */
        MUST(sl_str_eq(again.name, claims->name));
        MUST(sl_str_eq(again.upgrade_url, claims->upgrade_url));
    }
    sl_buf_done(&token);
    sl_arena_done(&arena);
}

void fuzz_page_token(struct sl_str input)
{
    struct sl_usage_claims claims;
    enum sl_usage_token_fault fault;
    struct sl_arena arena;
    bool raw = input.len > 0 && input.at[0] == '=';

    if (input.len > 4096)
        return;
    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    fault = sl_usage_token_read(key, raw ? sl_str_from(input, 1) : sign(input),
                                0, &arena, &claims);
    MUST(fault != SL_USAGE_TOKEN_NO_MEMORY);
    if (raw)
        MUST(fault == SL_USAGE_TOKEN_WRONG); /* (1) */
    if (fault != SL_USAGE_TOKEN_WRONG) {
        MUST(claims.org.len > 0 && claims.expires >= 0); /* (2) */
        read_again(&claims);
    }
    sl_arena_done(&arena);
}
