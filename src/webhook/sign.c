/* sign.c -- secrets and signatures of webhooks that go out. */
#include "webhook/sign.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash.h"
#include "identity/webhook.h"

#define KEY      32 /* bytes of an ed25519 seed, and of a public key */
#define ED_BYTES 64 /* of an ed25519 signature */
#define LEAST    24 /* bytes of a secret */
#define MOST     64

static const struct sl_str symmetric = {"whsec_", 6};
static const struct sl_str private = {"whsk_", 5};

static bool is_private(struct sl_str text)
{
    return sl_str_begins(text, private);
}

/* Decodes a secret with its prefix. */
static bool decode(struct sl_str text, uint8_t out[MOST + 2], size_t *ret_len)
{
    size_t prefix = is_private(text) ? private.len : symmetric.len;

    if (!is_private(text) && !sl_str_begins(text, symmetric))
        return false;
    text = sl_str_from(text, prefix);
    if (SL_BASE64_BYTES(text.len) > MOST + 2 ||
        !sl_base64_decode(text, out, ret_len))
        return false;
    return prefix == private.len ? *ret_len == KEY || *ret_len == 2 * KEY
                                 : *ret_len >= LEAST && *ret_len <= MOST;
}

static void print(struct sl_str prefix, const uint8_t *bytes, size_t len,
                  char out[SL_WEBHOOK_SECRET_TEXT])
{
    memcpy(out, prefix.at, prefix.len);
    sl_base64_encode((struct sl_str){(const char *)bytes, len},
                     out + prefix.len);
    out[prefix.len + SL_BASE64_LETTERS(len)] = '\0';
}

int sl_webhook_secret_make(bool asymmetric, char out[SL_WEBHOOK_SECRET_TEXT])
{
    uint8_t bytes[KEY];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return SLUICE_ESYS;
    print(asymmetric ? private : symmetric, bytes, sizeof(bytes), out);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return 0;
}

bool sl_webhook_secret_ok(struct sl_str secret)
{
    uint8_t bytes[MOST + 2];
    size_t len;
    bool good = decode(secret, bytes, &len);

    OPENSSL_cleanse(bytes, sizeof(bytes));
    return good;
}

static EVP_PKEY *open_key(struct sl_str secret)
{
    uint8_t bytes[MOST + 2];
    EVP_PKEY *key = NULL;
    size_t len;

    if (decode(secret, bytes, &len))
        key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, bytes, KEY);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return key;
}

bool sl_webhook_secret_show(struct sl_str secret,
                            char out[SL_WEBHOOK_SECRET_TEXT])
{
    uint8_t bytes[KEY];
    size_t len = sizeof(bytes);
    EVP_PKEY *key;
    bool good;

    if (!sl_webhook_secret_ok(secret))
        return false;
    if (!is_private(secret)) {
        memcpy(out, secret.at, secret.len);
        out[secret.len] = '\0';
        return true;
    }
    key = open_key(secret);
    good = key && EVP_PKEY_get_raw_public_key(key, bytes, &len) == 1;
    EVP_PKEY_free(key);
    if (good)
        print(SL_STR("whpk_"), bytes, KEY, out);
    return good;
}

/* ---- v1 ---- */

#define KNOWN 256 /* secrets that are prepared; another one takes a place */

struct known {
    struct sl_webhook_signer *signer;
    size_t len;
    char text[SL_WEBHOOK_SECRET_TEXT];
};

struct sl_webhook_secrets {
    const struct sl_alloc *alloc;
    struct sl_hash_key key;
    struct known list[KNOWN];
};

struct sl_webhook_secrets *sl_webhook_secrets_new(const struct sl_alloc *alloc)
{
    struct sl_webhook_secrets *known = sl_alloc_new(alloc, sizeof(*known));

    if (!known)
        return NULL;
    memset(known, 0, sizeof(*known));
    known->alloc = alloc;
    if (!sl_hash_key_make(&known->key))
        return known;
    sl_alloc_free(alloc, known, sizeof(*known));
    return NULL;
}

static void forget(struct known *k)
{
    sl_webhook_signer_free(k->signer);
    OPENSSL_cleanse(k, sizeof(*k));
}

void sl_webhook_secrets_free(struct sl_webhook_secrets *known)
{
    for (unsigned i = 0; known && i < KNOWN; i++)
        if (known->list[i].signer)
            forget(&known->list[i]);
    if (known)
        sl_alloc_free(known->alloc, known, sizeof(*known));
}

static int prepare(struct sl_str text, struct sl_webhook_signer **ret)
{
    uint8_t bytes[MOST + 2];
    struct sl_webhook_signer *signer;
    size_t len = 0;

    if (is_private(text) || !decode(text, bytes, &len))
        return SLUICE_ECONF;
    signer = sl_webhook_signer_new((struct sl_str){(const char *)bytes, len});
    OPENSSL_cleanse(bytes, sizeof(bytes));
    if (!signer)
        return SLUICE_ENOMEM;
    *ret = signer;
    return 0;
}

/* The place of a secret, which another one may have. A valid one fits. */
static int look_up(struct sl_webhook_secrets *known, struct sl_str text,
                   struct sl_webhook_signer **ret)
{
    struct known *k = &known->list[sl_hash64(&known->key, text) % KNOWN];
    struct sl_webhook_signer *signer;
    int err = 0;

    if (!k->signer || !sl_str_eq((struct sl_str){k->text, k->len}, text)) {
        err = prepare(text, &signer);
        if (err)
            return err;
        forget(k);
        memcpy(k->text, text.at, text.len);
        k->len = text.len;
        k->signer = signer;
    }
    *ret = k->signer;
    return 0;
}

static int sign_hmac(struct sl_webhook_secrets *known,
                     const struct sl_webhook *message, struct sl_str text,
                     struct sl_buf *out)
{
    struct sl_webhook_signer *signer = NULL;
    struct sl_webhook_sign sign;
    char value[SL_WEBHOOK_TEXT];
    int err = known ? look_up(known, text, &signer) : prepare(text, &signer);

    if (!err)
        err = sl_webhook_signer_sign(signer, message, &sign);
    if (!err) {
        sl_webhook_write(SL_WEBHOOK_STANDARD, &sign, message->timestamp, value);
        err = sl_buf_add(out, sl_str_c(value));
    }
    if (!known)
        sl_webhook_signer_free(signer);
    return err;
}

/* ---- v1a: ed25519 signs the whole text at once ---- */

static int add_content(const struct sl_webhook *m, struct sl_buf *out)
{
    struct sl_writer w = {.out = out};

    sl_writer_add(&w, m->id);
    sl_writer_add(&w, SL_STR("."));
    sl_writer_add(&w, m->timestamp);
    sl_writer_add(&w, SL_STR("."));
    sl_writer_add(&w, m->body);
    return w.err;
}

static int sign_key(const struct sl_webhook *message, struct sl_str text,
                    struct sl_buf *out)
{
    uint8_t sign[ED_BYTES];
    char value[SL_BASE64_LETTERS(ED_BYTES)];
    size_t len = sizeof(sign);
    EVP_PKEY *key = open_key(text);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    struct sl_buf content;
    int err;

    sl_buf_init(&content, message->body.len + 1024, out->alloc);
    err = key && ctx ? add_content(message, &content) : SLUICE_ENOMEM;
    if (!err &&
        (EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) != 1 ||
         EVP_DigestSign(ctx, sign, &len, (const unsigned char *)content.bytes,
                        content.len) != 1))
        err = SLUICE_ENOMEM;
    sl_buf_done(&content);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    if (err)
        return err;
    sl_base64_encode((struct sl_str){(const char *)sign, sizeof(sign)}, value);
    err = sl_buf_add(out, SL_STR("v1a,"));
    return err ? err : sl_buf_add(out, (struct sl_str){value, sizeof(value)});
}

int sl_webhook_signatures(struct sl_webhook_secrets *known,
                          const struct sl_webhook *message,
                          const struct sl_str *secrets, unsigned count,
                          struct sl_buf *out)
{
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(" "));
        if (!err && is_private(secrets[i]) && !sl_webhook_secret_ok(secrets[i]))
            err = SLUICE_ECONF;
        if (!err)
            err = is_private(secrets[i])
                      ? sign_key(message, secrets[i], out)
                      : sign_hmac(known, message, secrets[i], out);
    }
    return err;
}
