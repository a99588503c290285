/* signature.c -- checks the signature of a token.
 *
 * Lengths are checked to the byte, because OpenSSL accepts some others: a
 * signature has one spelling. Secrets are compared in constant time.
 */
#include "identity/jwk.h"

#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rsa.h>
#include <string.h>

/* Two numbers of 66 bytes with their headers, and the header of both. */
#define DER_BYTES 160

static const unsigned char *bytes_of(struct sl_str text)
{
    return (const unsigned char *)text.at;
}

static enum sl_token_error check_mac(const struct sl_jwk *key,
                                     const struct sl_alg *alg,
                                     struct sl_str text,
                                     struct sl_str signature)
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    bool same;

    if (signature.len != alg->hash_len)
        return SL_TOKEN_SIGNATURE;
    if (!HMAC(alg->hash(), key->secret.bytes, (int)key->secret.len,
              bytes_of(text), text.len, mac, &len) ||
        len != alg->hash_len)
        return SL_TOKEN_NO_MEMORY;
    same = CRYPTO_memcmp(mac, signature.at, len) == 0;
    OPENSSL_cleanse(mac, sizeof(mac));
    return same ? SL_TOKEN_GOOD : SL_TOKEN_SIGNATURE;
}

/* Encodes r and s as DER for OpenSSL. Returns the length, or 0 without memory.
 */
static size_t to_der(struct sl_str rs, unsigned char out[DER_BYTES])
{
    int half = (int)rs.len / 2, len = 0;
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(bytes_of(rs), half, NULL);
    BIGNUM *s = BN_bin2bn(bytes_of(rs) + half, half, NULL);

    if (pair && r && s && ECDSA_SIG_set0(pair, r, s)) {
        r = s = NULL; /* the pair owns them */
        len = i2d_ECDSA_SIG(pair, &out);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    return len > 0 ? (size_t)len : 0;
}

/* The padding of PS: a salt as long as the hash, and the same hash for MGF1. */
static bool set_pss(EVP_PKEY_CTX *ctx, const struct sl_alg *alg)
{
    return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) > 0 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) > 0 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, alg->hash()) > 0;
}

static enum sl_token_error check_public(const struct sl_jwk *key,
                                        const struct sl_alg *alg,
                                        struct sl_str text,
                                        struct sl_str signature)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *how = NULL;
    enum sl_token_error fault = SL_TOKEN_NO_MEMORY;

    if (ctx &&
        EVP_DigestVerifyInit(ctx, &how, alg->hash ? alg->hash() : NULL, NULL,
                             key->pkey) > 0 &&
        (!alg->pss || set_pss(how, alg)))
        fault = EVP_DigestVerify(ctx, bytes_of(signature), signature.len,
                                 bytes_of(text), text.len) == 1
                    ? SL_TOKEN_GOOD
                    : SL_TOKEN_SIGNATURE;
    EVP_MD_CTX_free(ctx);
    return fault;
}

static enum sl_token_error check(const struct sl_jwk *key,
                                 const struct sl_alg *alg, struct sl_str text,
                                 struct sl_str signature)
{
    unsigned char der[DER_BYTES];
    size_t len;

    if (alg->kind == SL_KEY_OCT)
        return check_mac(key, alg, text, signature);
    if (alg->kind != SL_KEY_EC)
        return signature.len == (size_t)EVP_PKEY_get_size(key->pkey)
                   ? check_public(key, alg, text, signature)
                   : SL_TOKEN_SIGNATURE;
    if (signature.len != 2 * alg->scalar)
        return SL_TOKEN_SIGNATURE;
    len = to_der(signature, der);
    if (len == 0)
        return SL_TOKEN_NO_MEMORY;
    return check_public(key, alg, text,
                        (struct sl_str){(const char *)der, len});
}

enum sl_token_error sl_signature_check(const struct sl_jwk *key,
                                       const struct sl_alg *alg,
                                       struct sl_str text,
                                       struct sl_str signature)
{
    enum sl_token_error fault;

    /* An error left in the queue would be taken for an error of TLS. */
    ERR_set_mark();
    fault = check(key, alg, text, signature);
    ERR_pop_to_mark();
    return fault;
}
