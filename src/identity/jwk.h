/* jwk.h -- one key: RFC 7517, RFC 7518 and RFC 8037.
 *
 * `use`, `key_ops` and `alg` restrict a key. A key for another purpose is
 * skipped, because a provider's set may have such keys. A broken key for our
 * purpose is refused, because it would otherwise be noticed only when a token
 * fails.
 *
 *   RSA   2048 bits and more; the exponent is odd, 3 and more, and fits 64
 *         bits; not made by a generator with weak primes (ROCA)
 *   EC    P-256, P-384, P-521; both coordinates at full length, on the curve
 *   OKP   Ed25519, Ed448
 *   oct   at least as long as the hash
 *
 * Private members are never read. Their presence is recorded for a warning.
 */
#ifndef SL_IDENTITY_JWK_H
#define SL_IDENTITY_JWK_H

#include <jansson.h>
#include <openssl/types.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/diag.h"
#include "base/str.h"
#include "identity/identity.h"
#include "identity/jwt.h"

struct sl_secure_mem {
    uint8_t *bytes; /* NULL: none */
    size_t len;     /* 1 .. room */
    size_t room;
};

/* ---- algorithms.
 *
 *   kind    of key          signature
 *   RSA     modulus         as long as the modulus
 *   EC      curve           two numbers of exactly `scalar` bytes
 *   OKP     curve           fixed by the curve
 *   oct     secret          as long as the hash
 */

enum sl_jwk_kind { SL_KEY_RSA, SL_KEY_EC, SL_KEY_OKP, SL_KEY_OCT };

struct sl_alg {
    const char *name;
    unsigned bit; /* of enum sl_algorithm */
    enum sl_jwk_kind kind;
    const EVP_MD *(*hash)(void); /* NULL: part of the algorithm */
    size_t hash_len;
    bool pss;
    const char *curve; /* EC: the only one */
    size_t scalar;     /* EC: bytes of a coordinate, and of r and s */
};

#define SL_ALG_ALL ((1u << 13) - 1)

/* Returns the row of one bit, or NULL. */
const struct sl_alg *sl_alg_of(unsigned bit);

struct sl_jwk {
    unsigned algorithms;         /* that it can verify; 0: skipped */
    EVP_PKEY *pkey;              /* a public key, or NULL */
    struct sl_secure_mem secret; /* or a secret */
    bool is_private;             /* it had private members */
    bool has_kid;
    unsigned char kid_len;
    char kid[SL_KID_BYTES];
};

/* ---- JSON objects from clients.
 *
 * jansson keeps the whole object on the heap, so its size is limited: the
 * length by the caller, the depth here. NUL bytes and duplicate names are
 * refused.
 */

#define SL_OBJECT_DEPTH SL_TOKEN_DEPTH /* the object itself is 1 */

enum sl_json_object_error {
    SL_OBJECT_BROKEN, /* not JSON, a NUL, a duplicate name */
    SL_OBJECT_OTHER,  /* JSON, but no object */
    SL_OBJECT_DEEP,
    SL_OBJECT_NO_MEMORY,
};

/* The error and its position, if known. The text is not quoted: it may be a
 * secret. */
struct sl_json_object_why {
    enum sl_json_object_error fault;
    unsigned line, column; /* from 1; 0: unknown */
};

/* Returns a new reference, or NULL and *why. */
SL_MUST_USE json_t *sl_json_object_read(struct sl_str text,
                                        struct sl_json_object_why *why);

/* Reads the text `name`. Returns false if it is missing or no text. */
SL_MUST_USE bool sl_json_object_text(const json_t *object, const char *name,
                                     struct sl_str *ret);

/* The slice of a JSON string. */
static inline struct sl_str sl_json_slice(const json_t *string)
{
    return (struct sl_str){json_string_value(string),
                           json_string_length(string)};
}

/* ---- signatures. */

/* Checks a signature by algorithm `alg` of the key. Returns SL_TOKEN_GOOD,
 * SL_TOKEN_SIGNATURE or SL_TOKEN_NO_MEMORY. */
SL_MUST_USE enum sl_token_error sl_signature_check(const struct sl_jwk *key,
                                                   const struct sl_alg *alg,
                                                   struct sl_str text,
                                                   struct sl_str signature);

/* ---- base64url into an arena.
 *
 * A token has one spelling only: see base/str.h.
 */

/* SLUICE_ECONF if it is not base64url, SLUICE_ENOMEM without room. */
SL_MUST_USE int sl_base64url_copy(struct sl_str text, struct sl_arena *arena,
                                  struct sl_str *ret);

/* ---- key sets. */

struct sl_keyset {
    atomic_uint refs;
    struct sl_alloc alloc;
    unsigned count, room; /* count <= room */
    bool has_private;
    struct sl_jwk keys[];
};

#endif
