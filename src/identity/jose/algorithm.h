/* algorithm.h -- what each algorithm needs, once.
 *
 *   kind    of key          signature
 *   RSA     modulus         as long as the modulus
 *   EC      curve           two numbers of exactly `scalar` bytes
 *   OKP     curve           fixed by the curve
 *   oct     secret          as long as the hash
 */
#ifndef SL_ALGORITHM_H
#define SL_ALGORITHM_H

#include <openssl/types.h>

#include "identity/keyset.h"

enum sl_jwk_kind { SL_KEY_RSA, SL_KEY_EC, SL_KEY_OKP, SL_KEY_OCT };

struct sl_alg {
    const char *name;
    unsigned bit; /* of enum sl_algorithm */
    enum sl_jwk_kind kind;
    const EVP_MD *(*hash)(void); /* NULL: the algorithm brings its own */
    size_t hash_len;
    bool pss;
    const char *curve; /* EC: the only one */
    size_t scalar;     /* EC: bytes of a coordinate, and of r and s */
};

#define SL_ALG_ALL ((1u << 13) - 1)

/* The row of one bit; NULL if it is none. */
const struct sl_alg *sl_alg_of(unsigned bit);

/* All bits of a kind of key. */
unsigned sl_alg_kind(enum sl_jwk_kind kind);

/* The algorithm of a curve of EC keys, or NULL. */
const struct sl_alg *sl_alg_curve(struct sl_str curve);

#endif
