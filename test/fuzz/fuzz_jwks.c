/* fuzz_jwks.c -- sets of keys.
 *
 * The first byte says which algorithms are wanted; the rest is the set.
 *
 *   (1) A set is read whole, or refused with a sentence and the output
 *       untouched.
 *   (2) It has 1 to 64 keys, each with an algorithm that was wanted.
 *   (3) All are secrets, or none is, and no secret is shorter than its hash.
 *   (4) No two keys of one name have an algorithm in common.
 */
#include "fuzz.h"

#include <openssl/err.h>

#include "identity/jwk.h"

static void must_be_key(const struct sl_jwk *key, unsigned wanted, bool secret)
{
    MUST(key->algorithms != 0);
    MUST((key->algorithms & ~wanted) == 0); /* (2) */
    MUST((key->secret.bytes != NULL) == secret);
    MUST((key->pkey == NULL) == secret);
    MUST(((key->algorithms & SL_ALG_HMAC) != 0) == secret); /* (3) */
    MUST(!secret || key->secret.len >= 32);
    MUST(key->kid_len <= SL_KID_BYTES);
}

static bool is_same_name(const struct sl_jwk *a, const struct sl_jwk *b)
{
    return a->has_kid && b->has_kid && a->kid_len == b->kid_len &&
           memcmp(a->kid, b->kid, a->kid_len) == 0;
}

void fuzz_jwks(struct sl_str text, unsigned choice)
{
    static const unsigned choices[] = {0, SL_ALG_HMAC, SL_ALG_ALL,
                                       SL_ALG_RS256 | SL_ALG_ES256};
    unsigned algorithms = choices[choice % 4];
    unsigned wanted =
        algorithms ? algorithms : SL_ALG_ALL & ~(unsigned)SL_ALG_HMAC;
    struct sl_diag diag = {.line = 0};
    struct sl_keyset *set = NULL;
    int err = sl_keyset_read(text, algorithms, &sl_alloc_libc, &set, &diag);

    must_agree(err, &diag, text.len); /* (1) */
    MUST((err == 0) == (set != NULL));
    MUST(ERR_peek_error() == 0);
    if (!set)
        return;
    MUST(set->count >= 1 && set->count <= SL_KEYSET_KEYS);
    for (unsigned i = 0; i < set->count; i++) {
        must_be_key(&set->keys[i], wanted, set->keys[0].secret.bytes != NULL);
        for (unsigned j = 0; j < i; j++) /* (4) */
            MUST(!is_same_name(&set->keys[i], &set->keys[j]) ||
                 !(set->keys[i].algorithms & set->keys[j].algorithms));
    }
    sl_keyset_unref(set);
}
