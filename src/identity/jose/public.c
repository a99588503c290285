/* public.c -- the public half of a key, from its numbers to OpenSSL's own. */
#include "identity/jose/public.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <string.h>

#include "identity/jose/base64url.h"
#include "identity/jose/object.h"

#define RSA_LEAST 2048  /* bits: RFC 7518, 3.3 */
#define RSA_MOST  16384 /* what OpenSSL would verify with */
#define E_MOST    64    /* bits: a longer one only costs time */

/* The largest number that a member may hold, with room for a sign byte. */
#define NUMBER_BYTES   (RSA_MOST / 8 + 1)
#define NUMBER_LETTERS (NUMBER_BYTES / 3 * 4 + 4)

struct number {
    uint8_t bytes[SL_BASE64URL_BYTES(NUMBER_LETTERS)];
    size_t len;
};

/* The bytes of a member; false if it is not there, no text, no base64url, or
 * too long. */
static bool number_of(const json_t *jwk, const char *name, struct number *ret)
{
    struct sl_str text;

    return sl_object_text(jwk, name, &text) && text.len <= NUMBER_LETTERS &&
           sl_base64url_decode(text, ret->bytes, &ret->len) && ret->len > 0;
}

static int refuse(const char **why, const char *what)
{
    *why = what;
    return SLUICE_ECONF;
}

/* OpenSSL did not make a key of it: memory, or `what`. */
static int refuse_made(const char **why, const char *what)
{
    if (ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE)
        return SLUICE_ENOMEM;
    return refuse(why, what);
}

static EVP_PKEY *make(const char *type, OSSL_PARAM *params)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *pkey = NULL;

    if (ctx && EVP_PKEY_fromdata_init(ctx) > 0)
        (void)EVP_PKEY_fromdata(ctx, &pkey, EVP_PKEY_PUBLIC_KEY, params);
    EVP_PKEY_CTX_free(ctx);
    return pkey;
}

/* ---- RSA ---- */

/* Is n modulo the prime p a power of 65537? */
static bool is_power(const BIGNUM *n, unsigned p)
{
    BN_ULONG rest = BN_mod_word(n, p);
    unsigned power = 1;

    do {
        if (power == rest)
            return true;
        power = power * (65537 % p) % p;
    } while (power != 1);
    return false;
}

/* CVE-2017-15361: a generator in many smart cards made primes that are powers
 * of 65537 modulo all small primes, and so are their products. They can be
 * found from the product. One in 2^27 other keys looks the same. */
static bool is_roca(const BIGNUM *n)
{
    static const unsigned char primes[] = {
        3,   5,   7,   11,  13,  17,  19,  23,  29,  31,  37,  41,  43,
        47,  53,  59,  61,  67,  71,  73,  79,  83,  89,  97,  101, 103,
        107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167};

    for (size_t i = 0; i < SL_LEN(primes); i++)
        if (!is_power(n, primes[i]))
            return false;
    return true;
}

static const char *rsa_fault(const BIGNUM *n, const BIGNUM *e)
{
    if (BN_num_bits(n) < RSA_LEAST)
        return "has fewer than 2048 bits, which is not secure";
    if (BN_num_bits(n) > RSA_MOST)
        return "has more than 16384 bits";
    if (!BN_is_odd(n))
        return "has an even modulus, which no RSA key has";
    if (!BN_is_odd(e) || BN_is_one(e) || BN_num_bits(e) > E_MOST)
        return "has an exponent \"e\" that is not odd, at least 3 and below "
               "2^64; AQAB is common";
    if (is_roca(n))
        return "was made by a generator with weak keys (CVE-2017-15361)";
    return NULL;
}

static EVP_PKEY *make_rsa(const BIGNUM *n, const BIGNUM *e)
{
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    OSSL_PARAM *params = NULL;
    EVP_PKEY *pkey = NULL;

    if (build && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e))
        params = OSSL_PARAM_BLD_to_param(build);
    if (params)
        pkey = make("RSA", params);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    return pkey;
}

int sl_public_rsa(const json_t *jwk, EVP_PKEY **ret, const char **why)
{
    struct number n_bytes, e_bytes;
    BIGNUM *n, *e;
    EVP_PKEY *pkey = NULL;
    int err = SLUICE_ENOMEM;

    if (!number_of(jwk, "n", &n_bytes))
        return refuse(why, "has no modulus \"n\" in base64url");
    if (!number_of(jwk, "e", &e_bytes))
        return refuse(why, "has no exponent \"e\" in base64url");
    n = BN_bin2bn(n_bytes.bytes, (int)n_bytes.len, NULL);
    e = BN_bin2bn(e_bytes.bytes, (int)e_bytes.len, NULL);
    if (!n || !e)
        goto out;
    *why = rsa_fault(n, e);
    err = SLUICE_ECONF;
    if (*why)
        goto out;
    pkey = make_rsa(n, e);
    err = pkey ? 0 : refuse_made(why, "is not an RSA key");
    if (!err)
        *ret = pkey;
out:
    BN_free(n);
    BN_free(e);
    return err;
}

/* ---- elliptic curves ---- */

static bool is_on_curve(EVP_PKEY *pkey)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL);
    bool good = ctx && EVP_PKEY_public_check(ctx) > 0;

    EVP_PKEY_CTX_free(ctx);
    return good;
}

/* 04, x, y */
static EVP_PKEY *make_ec(const struct sl_alg *alg, const struct number *x,
                         const struct number *y)
{
    uint8_t point[1 + 2 * 66] = {0x04};
    char group[8];
    OSSL_PARAM params[3];

    memcpy(group, alg->curve, strlen(alg->curve) + 1);
    memcpy(point + 1, x->bytes, alg->scalar);
    memcpy(point + 1 + alg->scalar, y->bytes, alg->scalar);
    params[0] =
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0);
    params[1] = OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY,
                                                  point, 1 + 2 * alg->scalar);
    params[2] = OSSL_PARAM_construct_end();
    return make("EC", params);
}

int sl_public_ec(const json_t *jwk, const struct sl_alg *alg, EVP_PKEY **ret,
                 const char **why)
{
    struct number x, y;
    EVP_PKEY *pkey;

    if (!number_of(jwk, "x", &x) || !number_of(jwk, "y", &y))
        return refuse(why, "needs the coordinates \"x\" and \"y\" in "
                           "base64url");
    if (x.len != alg->scalar || y.len != alg->scalar)
        return refuse(why, "has coordinates of another length than its curve");
    pkey = make_ec(alg, &x, &y);
    if (pkey && is_on_curve(pkey)) {
        *ret = pkey;
        return 0;
    }
    EVP_PKEY_free(pkey);
    return refuse_made(why, "is not a point on its curve");
}

/* ---- Edwards curves ---- */

static const struct {
    const char *curve;
    int type;
    size_t len;
} edwards[] = {
    {"Ed25519", EVP_PKEY_ED25519, 32},
    {"Ed448",   EVP_PKEY_ED448,   57},
};

bool sl_public_is_okp(struct sl_str curve)
{
    for (size_t i = 0; i < SL_LEN(edwards); i++)
        if (sl_str_eq(curve, sl_str_c(edwards[i].curve)))
            return true;
    return false;
}

int sl_public_okp(const json_t *jwk, EVP_PKEY **ret, const char **why)
{
    struct sl_str curve = {NULL, 0};
    struct number x;
    size_t i = 0;
    EVP_PKEY *pkey;

    if (!sl_object_text(jwk, "crv", &curve) || !number_of(jwk, "x", &x))
        return refuse(why, "needs \"x\" in base64url");
    while (i < SL_LEN(edwards) - 1 &&
           !sl_str_eq(curve, sl_str_c(edwards[i].curve)))
        i++;
    if (x.len != edwards[i].len)
        return refuse(why, "has an \"x\" of another length than its curve");
    pkey = EVP_PKEY_new_raw_public_key(edwards[i].type, NULL, x.bytes, x.len);
    if (!pkey)
        return refuse_made(why, "is not a key of its curve");
    *ret = pkey;
    return 0;
}
