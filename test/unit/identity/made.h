/* made.h -- tokens of our own making, signed by HMAC. */
#ifndef SL_TEST_MADE_H
#define SL_TEST_MADE_H

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include "check.h"
#include "identity/jwt.h"

/* A test that runs out of these is one that never stops. */
#define MADE_BYTES (64 * 1024)

static const char made_secret[] = "0123456789abcdef0123456789abcdef"
                                  "0123456789abcdef0123456789abcdef";
#define MADE_SECRET ((struct sl_str){made_secret, sizeof(made_secret) - 1})

/* Append the base64url of some bytes; returns what is behind it. */
static inline char *made_base64(char *out, const void *bytes, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789-_";
    const unsigned char *p = bytes;
    unsigned held = 0, bits = 0;

    for (size_t i = 0; i < len; i++) {
        held = held << 8 | p[i];
        for (bits += 8; bits >= 6; bits -= 6)
            *out++ = letters[held >> (bits - 6) & 63];
        held &= (1u << bits) - 1;
    }
    if (bits)
        *out++ = letters[held << (6 - bits) & 63];
    *out = '\0';
    return out;
}

/* Sign "header.payload", the latter of `len` bytes. Valid until the next. */
static inline struct sl_str made_bytes(const char *header, const char *payload,
                                       size_t len, const char *hash)
{
    static char token[MADE_BYTES];
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned mac_len = 0;
    char *at;

    if (strlen(header) + len > MADE_BYTES / 2)
        abort();
    at = made_base64(token, header, strlen(header));
    *at++ = '.';
    at = made_base64(at, payload, len);
    HMAC(EVP_get_digestbyname(hash), made_secret, sizeof(made_secret) - 1,
         (unsigned char *)token, (size_t)(at - token), mac, &mac_len);
    *at++ = '.';
    at = made_base64(at, mac, mac_len);
    return (struct sl_str){token, (size_t)(at - token)};
}

static inline struct sl_str made(const char *header, const char *payload)
{
    return made_bytes(header, payload, strlen(payload), "SHA256");
}

#define HS256 "{\"alg\":\"HS256\"}"

/* What the last made_verify() found. */
static struct sl_token made_token;
static struct sl_arena made_arena;
static struct sl_str made_kid;

static inline enum sl_token_error
made_verify(const struct sl_keyset *set, const struct sl_token_rules *rules,
            struct sl_str text, sl_ns now)
{
    sl_arena_done(&made_arena);
    sl_arena_init(&made_arena, SL_TOKEN_ARENA, &sl_alloc_libc);
    made_kid = (struct sl_str){NULL, 0};
    return sl_token_verify(set, rules, text, now, &made_arena, &made_token,
                           &made_kid);
}

/* A claim of it as a C string; "" if there is none. */
static inline const char *made_claim(const char *path)
{
    const char *text =
        sl_arena_copy(&made_arena, sl_token_claim(&made_token, sl_str_c(path)));

    return text ? text : "no memory";
}

/* The set of made_secret, as one nameless key. */
static inline struct sl_keyset *made_set(unsigned algorithms)
{
    struct sl_keyset *set = NULL;

    if (sl_keyset_secret(MADE_SECRET, algorithms, &sl_alloc_libc, &set, NULL))
        abort();
    return set;
}

static inline struct sl_keyset *made_read(const char *json, unsigned algorithms)
{
    struct sl_keyset *set = NULL;

    if (sl_keyset_read(sl_str_c(json), algorithms, &sl_alloc_libc, &set, NULL))
        abort();
    return set;
}

static inline void made_done(void)
{
    sl_arena_done(&made_arena);
}

#define CHECK_FAULT(got, want)                                                 \
    CHECK_STR(sl_token_error_word(got), sl_token_error_word(want))

#endif
