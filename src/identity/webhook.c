/* webhook.c -- verifies and signs webhooks. */
#include "identity/webhook.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <pthread.h>
#include <string.h>

/* Signs ID.TIMESTAMP.BODY, or the parts that the scheme has. */
static bool feed(EVP_MAC_CTX *mac, enum sl_webhook_scheme scheme,
                 const struct sl_webhook *message, struct sl_str seconds)
{
    const struct sl_str dot = SL_STR(".");
    struct sl_str pieces[5];
    unsigned count = 0;

    if (scheme == SL_WEBHOOK_STANDARD) {
        pieces[count++] = message->id;
        pieces[count++] = dot;
    }
    if (scheme != SL_WEBHOOK_HMAC) {
        pieces[count++] = seconds;
        pieces[count++] = dot;
    }
    pieces[count++] = message->body;
    for (unsigned i = 0; i < count; i++)
        if (pieces[i].len > 0 &&
            !EVP_MAC_update(mac, (const unsigned char *)pieces[i].at,
                            pieces[i].len))
            return false;
    return true;
}

/* secret.at NULL: the one that the context has. */
static bool sign_by(EVP_MAC_CTX *mac, struct sl_str secret,
                    enum sl_webhook_scheme scheme,
                    const struct sl_webhook *message, struct sl_str seconds,
                    struct sl_webhook_sign *ret)
{
    size_t len = 0;

    return EVP_MAC_init(mac, (const unsigned char *)secret.at, secret.len,
                        NULL) &&
           feed(mac, scheme, message, seconds) &&
           EVP_MAC_final(mac, ret->bytes, &len, sizeof(ret->bytes)) &&
           len == SL_WEBHOOK_MAC;
}

/* To fetch an algorithm takes longer than a signature: one context has both,
 * and is copied. */
static EVP_MAC_CTX *hmac_sha256;
static pthread_once_t fetched = PTHREAD_ONCE_INIT;

static void fetch_once(void)
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string("digest", digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);

    hmac_sha256 = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    EVP_MAC_free(hmac); /* the context has its own reference */
    if (hmac_sha256 && !EVP_MAC_CTX_set_params(hmac_sha256, params)) {
        EVP_MAC_CTX_free(hmac_sha256);
        hmac_sha256 = NULL;
    }
}

static EVP_MAC_CTX *open_mac(void)
{
    pthread_once(&fetched, fetch_once);
    return hmac_sha256 ? EVP_MAC_CTX_dup(hmac_sha256) : NULL;
}

/* Compares all signatures, also after a match. */
static bool match(const struct sl_webhook_said *said,
                  const struct sl_webhook_sign *own)
{
    bool found = false;

    for (unsigned i = 0; i < said->count; i++)
        found |= CRYPTO_memcmp(said->signs[i].bytes, own->bytes,
                               SL_WEBHOOK_MAC) == 0;
    return found;
}

/* ---- ed25519 ---- */

static bool verify_by(EVP_PKEY *key, const struct sl_webhook_said *said,
                      const unsigned char *text, size_t len)
{
    bool found = false;

    for (unsigned i = 0; i < said->keyed_count && !found; i++) {
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();

        found = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(ctx, said->keyed[i], SL_WEBHOOK_ED_SIGN, text,
                                 len) == 1;
        EVP_MD_CTX_free(ctx);
    }
    return found;
}

/* The text is signed as a whole. */
static enum sl_webhook_fault verify_keyed(const uint8_t *bytes,
                                          const struct sl_webhook *message,
                                          const struct sl_webhook_said *said)
{
    struct sl_str pieces[] = {message->id, SL_STR("."), said->seconds,
                              SL_STR("."), message->body};
    EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, bytes,
                                                SL_WEBHOOK_ED_KEY);
    unsigned char *text;
    size_t len = 0;
    bool good;

    for (size_t i = 0; i < SL_LEN(pieces); i++)
        len += pieces[i].len;
    text = OPENSSL_malloc(len);
    if (!key || !text) {
        EVP_PKEY_free(key);
        OPENSSL_free(text);
        return SL_WEBHOOK_NO_MEMORY;
    }
    len = 0;
    for (size_t i = 0; i < SL_LEN(pieces); len += pieces[i++].len)
        if (pieces[i].len > 0)
            memcpy(text + len, pieces[i].at, pieces[i].len);
    good = verify_by(key, said, text, len);
    EVP_PKEY_free(key);
    OPENSSL_free(text);
    return good ? SL_WEBHOOK_GOOD : SL_WEBHOOK_SIGNATURE;
}

/* ---- all of them ---- */

static enum sl_webhook_fault compare(const struct sl_webhook_rules *rules,
                                     const struct sl_webhook *message,
                                     const struct sl_webhook_said *said)
{
    enum sl_webhook_fault fault = SL_WEBHOOK_SIGNATURE;
    EVP_MAC_CTX *mac = open_mac();
    struct sl_webhook_sign own;

    if (!mac)
        return SL_WEBHOOK_NO_MEMORY;
    for (unsigned i = 0; i < rules->secret_count; i++) {
        const uint8_t *key;

        /* A public key is no secret: it makes no HMAC. */
        if (sl_webhook_is_public(rules->secrets[i], &key)) {
            if (said->keyed_count > 0 && fault == SL_WEBHOOK_SIGNATURE)
                fault = verify_keyed(key, message, said);
            continue;
        }
        if (!sign_by(mac, rules->secrets[i], rules->scheme, message,
                     said->seconds, &own)) {
            fault = SL_WEBHOOK_NO_MEMORY;
            break;
        }
        if (match(said, &own))
            fault = SL_WEBHOOK_GOOD;
        OPENSSL_cleanse(&own, sizeof(own));
    }
    EVP_MAC_CTX_free(mac);
    return fault;
}

enum sl_webhook_fault sl_webhook_verify(const struct sl_webhook_rules *rules,
                                        const struct sl_webhook *message,
                                        sl_ns now, struct sl_webhook_seen *ret)
{
    struct sl_webhook_said said;
    enum sl_webhook_fault fault =
        sl_webhook_read(rules->scheme, message, &said);

    if (!fault)
        fault = compare(rules, message, &said);
    if (fault)
        return fault;
    if (said.timed && now - said.at > rules->tolerance)
        return SL_WEBHOOK_TOO_OLD;
    if (said.timed && said.at - now > rules->tolerance)
        return SL_WEBHOOK_TOO_NEW;
    ret->seconds = said.seconds;
    /* Valid up to this instant; kept beyond it against replays. */
    ret->until = (said.timed ? said.at : now) + rules->tolerance + 1;
    return SL_WEBHOOK_GOOD;
}

int sl_webhook_sign(const struct sl_webhook_rules *rules,
                    const struct sl_webhook *message,
                    struct sl_webhook_sign *ret)
{
    EVP_MAC_CTX *mac;
    const uint8_t *key;
    bool done;

    if (sl_webhook_is_public(rules->secrets[0], &key))
        return SLUICE_ECONF; /* it verifies only */
    mac = open_mac();
    if (!mac)
        return SLUICE_ENOMEM;
    done = sign_by(mac, rules->secrets[0], rules->scheme, message,
                   message->timestamp, ret);
    EVP_MAC_CTX_free(mac);
    return done ? 0 : SLUICE_ENOMEM;
}

/* ---- many signatures by one secret: the type is that of OpenSSL ---- */

struct sl_webhook_signer *sl_webhook_signer_new(struct sl_str secret)
{
    EVP_MAC_CTX *mac = open_mac();

    if (mac && !EVP_MAC_init(mac, (const unsigned char *)secret.at, secret.len,
                             NULL)) {
        EVP_MAC_CTX_free(mac);
        mac = NULL;
    }
    return (struct sl_webhook_signer *)mac;
}

void sl_webhook_signer_free(struct sl_webhook_signer *signer)
{
    EVP_MAC_CTX_free((EVP_MAC_CTX *)signer); /* cleanses it */
}

int sl_webhook_signer_sign(struct sl_webhook_signer *signer,
                           const struct sl_webhook *message,
                           struct sl_webhook_sign *ret)
{
    return sign_by((EVP_MAC_CTX *)signer, (struct sl_str){NULL, 0},
                   SL_WEBHOOK_STANDARD, message, message->timestamp, ret)
               ? 0
               : SLUICE_ENOMEM;
}
