/* jwk.h -- one key: RFC 7517, and RFC 7518 and 8037 for what is in it.
 *
 * A key says what it is for: `use`, `key_ops` and `alg` bind. A key for
 * something else is passed over, since a provider's set may hold others; one
 * that is for us and broken is refused, since nobody would notice otherwise
 * until a token fails.
 *
 *   RSA   2048 bits and more; the exponent is odd, 3 and more, and fits 64
 *         bits; not made by the generator that gave its primes away (ROCA)
 *   EC    P-256, P-384, P-521; both coordinates at full length, on the curve
 *   OKP   Ed25519, Ed448
 *   oct   at least as long as the hash
 *
 * Private members are never read. That they are there is remembered, for
 * whoever can tell somebody.
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

/* ---- bytes that nobody else shall see.
 *
 * They lie on pages of their own, which are left out of core dumps, and are
 * wiped before they are given back.
 */

#define SL_SECRET_BYTES 4096 /* no key is longer */

struct sl_secure_mem {
    uint8_t *bytes; /* NULL: there is none */
    size_t len;     /* 1 .. room */
    size_t room;
};

/* Room for `room` bytes, 1 .. SL_SECRET_BYTES; `len` is the caller's to set.
 * SLUICE_ENOMEM if the kernel gives none. */
SL_MUST_USE int sl_secure_mem_new(size_t room, struct sl_secure_mem *ret);
void sl_secure_mem_done(
    struct sl_secure_mem *secret); /* one without bytes too */

/* Is it one byte over and over? Such a key is a mistake, a file of zeros or a
 * placeholder, and the first that anybody tries. */
bool sl_secure_mem_is_blank(const uint8_t *bytes, size_t len);

/* ---- what each algorithm needs, once.
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

struct sl_jwk {
    unsigned algorithms;         /* that it serves; 0: passed over */
    EVP_PKEY *pkey;              /* a public key, or NULL */
    struct sl_secure_mem secret; /* or this */
    bool is_private;             /* it had private members */
    bool has_kid;
    unsigned char kid_len;
    char kid[SL_KID_BYTES];
};

/* Wipe the secrets in it: jansson does not when it gives memory back. */
void sl_jwk_wipe(json_t *jwk);

/* Read one for any of `wanted`. `index` (from 0) is its place, for the
 * sentence. SLUICE_ECONF if it is broken, SLUICE_ENOMEM. A key that is passed
 * over has no algorithms; *ret_kinds gets those that it could serve if they
 * were wanted. */
SL_MUST_USE int sl_jwk_read(json_t *jwk, unsigned wanted, size_t index,
                            struct sl_jwk *ret, unsigned *ret_kinds,
                            struct sl_diag *diag);

void sl_jwk_done(struct sl_jwk *key);

/* HMAC algorithms for which a secret of `len` bytes is long enough. */
unsigned sl_alg_hmac_fits(size_t len);

/* ---- the public half of a key, from its numbers to OpenSSL's own.
 *
 * Each hands over a new key; SLUICE_ECONF if the numbers are not good ones,
 * and then *why is the rest of a sentence that begins with the key's name.
 */

SL_MUST_USE int sl_jwk_public_rsa(const json_t *jwk, EVP_PKEY **ret,
                                  const char **why);
SL_MUST_USE int sl_jwk_public_ec(const json_t *jwk, const struct sl_alg *alg,
                                 EVP_PKEY **ret, const char **why);

/* Is `curve` one that EdDSA signs on? */
bool sl_jwk_public_is_okp(struct sl_str curve);
SL_MUST_USE int sl_jwk_public_okp(const json_t *jwk, EVP_PKEY **ret,
                                  const char **why);

/* ---- one JSON object that a stranger wrote.
 *
 * Read by jansson, which holds whatever it reads on the heap; so what goes in
 * is bounded before, in length by the caller and in depth here. A NUL byte is
 * refused, names that come twice too.
 */

#define SL_OBJECT_DEPTH SL_TOKEN_DEPTH /* the object itself is 1 */

enum sl_json_object_error {
    SL_OBJECT_BROKEN, /* not JSON, a NUL, a name twice */
    SL_OBJECT_OTHER,  /* JSON, but no object */
    SL_OBJECT_DEEP,
    SL_OBJECT_NO_MEMORY,
};

/* Why, and where if that is known. What was read is not quoted: it may be a
 * secret. */
struct sl_json_object_why {
    enum sl_json_object_error fault;
    unsigned line, column; /* from 1; 0: not known */
};

/* A new reference, or NULL and *why. */
SL_MUST_USE json_t *sl_json_object_read(struct sl_str text,
                                        struct sl_json_object_why *why);

/* The text called `name`: false if there is none or if it is no text. */
SL_MUST_USE bool sl_json_object_text(const json_t *object, const char *name,
                                     struct sl_str *ret);

/* The slice of a JSON string. */
static inline struct sl_str sl_json_slice(const json_t *string)
{
    return (struct sl_str){json_string_value(string),
                           json_string_length(string)};
}

/* ---- did this key sign this text? */

/* Check by algorithm `alg`, one of the key's. SL_TOKEN_GOOD,
 * SL_TOKEN_SIGNATURE or SL_TOKEN_NO_MEMORY. */
SL_MUST_USE enum sl_token_error sl_signature_check(const struct sl_jwk *key,
                                                   const struct sl_alg *alg,
                                                   struct sl_str text,
                                                   struct sl_str signature);

/* ---- what is written in base64url, into an arena.
 *
 * No two spellings of a token pass as the same: see base64.h.
 */

/* SLUICE_ECONF if it is not base64url, SLUICE_ENOMEM without room. */
SL_MUST_USE int sl_base64url_copy(struct sl_str text, struct sl_arena *arena,
                                  struct sl_str *ret);

/* ---- what a set of keys is made of; for those who verify. */

struct sl_keyset {
    atomic_uint refs;
    struct sl_alloc alloc;
    unsigned count, room; /* count <= room */
    bool has_private;
    struct sl_jwk keys[];
};

#endif
