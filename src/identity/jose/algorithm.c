/* algorithm.c -- the table of algorithms. */
#include "identity/jose/algorithm.h"

#include <openssl/evp.h>

static const struct sl_alg algs[] = {
    {"RS256", SL_ALG_RS256, SL_KEY_RSA, EVP_sha256, 32, false, NULL,    0 },
    {"RS384", SL_ALG_RS384, SL_KEY_RSA, EVP_sha384, 48, false, NULL,    0 },
    {"RS512", SL_ALG_RS512, SL_KEY_RSA, EVP_sha512, 64, false, NULL,    0 },
    {"PS256", SL_ALG_PS256, SL_KEY_RSA, EVP_sha256, 32, true,  NULL,    0 },
    {"PS384", SL_ALG_PS384, SL_KEY_RSA, EVP_sha384, 48, true,  NULL,    0 },
    {"PS512", SL_ALG_PS512, SL_KEY_RSA, EVP_sha512, 64, true,  NULL,    0 },
    {"ES256", SL_ALG_ES256, SL_KEY_EC,  EVP_sha256, 32, false, "P-256", 32},
    {"ES384", SL_ALG_ES384, SL_KEY_EC,  EVP_sha384, 48, false, "P-384", 48},
    {"ES512", SL_ALG_ES512, SL_KEY_EC,  EVP_sha512, 64, false, "P-521", 66},
    {"EdDSA", SL_ALG_EDDSA, SL_KEY_OKP, NULL,       0,  false, NULL,    0 },
    {"HS256", SL_ALG_HS256, SL_KEY_OCT, EVP_sha256, 32, false, NULL,    0 },
    {"HS384", SL_ALG_HS384, SL_KEY_OCT, EVP_sha384, 48, false, NULL,    0 },
    {"HS512", SL_ALG_HS512, SL_KEY_OCT, EVP_sha512, 64, false, NULL,    0 },
};

unsigned sl_algorithm_of(struct sl_str name)
{
    for (size_t i = 0; i < SL_LEN(algs); i++)
        if (sl_str_eq(name, sl_str_c(algs[i].name)))
            return algs[i].bit;
    return 0;
}

const struct sl_alg *sl_alg_of(unsigned bit)
{
    for (size_t i = 0; i < SL_LEN(algs); i++)
        if (algs[i].bit == bit)
            return &algs[i];
    return NULL;
}

unsigned sl_alg_kind(enum sl_jwk_kind kind)
{
    unsigned bits = 0;

    for (size_t i = 0; i < SL_LEN(algs); i++)
        if (algs[i].kind == kind)
            bits |= algs[i].bit;
    return bits;
}

const struct sl_alg *sl_alg_curve(struct sl_str curve)
{
    for (size_t i = 0; i < SL_LEN(algs); i++)
        if (algs[i].curve && sl_str_eq(curve, sl_str_c(algs[i].curve)))
            return &algs[i];
    return NULL;
}
