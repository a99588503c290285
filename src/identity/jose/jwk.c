/* jwk.c -- one key: what it is for, and what is in it. */
#include "identity/jose/jwk.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "identity/jose/base64url.h"
#include "identity/jose/object.h"
#include "identity/jose/public.h"

struct reading {
    json_t *jwk;
    enum sl_key_kind kind;
    const struct sl_alg *curve; /* EC */
    struct sl_key *key;
    size_t index;
    struct sl_diag *diag;
};

/* "key 2 (prod-2026) has ..." */
static int refuse(const struct reading *r, const char *what)
{
    struct sl_str kid;

    if (sl_object_text(r->jwk, "kid", &kid))
        return sl_refuse(r->diag, SLUICE_ECONF, "key %zu (%.*s) %s",
                         r->index + 1, (int)(kid.len > 40 ? 40 : kid.len),
                         kid.at, what);
    return sl_refuse(r->diag, SLUICE_ECONF, "key %zu %s", r->index + 1, what);
}

/* ---- what it is for ---- */

/* Say in *ret whether the key is for verifying signatures. */
static int read_purpose(const struct reading *r, bool *ret)
{
    const json_t *use = json_object_get(r->jwk, "use");
    const json_t *ops = json_object_get(r->jwk, "key_ops");
    bool verifies = !ops;

    if (use && !json_is_string(use))
        return refuse(r, "has a \"use\" that is not a string; write \"sig\"");
    if (ops && !json_is_array(ops))
        return refuse(r,
                      "has \"key_ops\" that is not a list; write [\"verify\"]");
    for (size_t i = 0; i < json_array_size(ops); i++)
        if (sl_str_eq(sl_json_slice(json_array_get(ops, i)), SL_STR("verify")))
            verifies = true;
    *ret = verifies && (!use || sl_str_eq(sl_json_slice(use), SL_STR("sig")));
    return 0;
}

/* The kind, and in *ret the algorithms of such keys; none if it is a kind that
 * we do not know. */
static int read_kind(struct reading *r, unsigned *ret)
{
    static const struct {
        const char *name;
        enum sl_key_kind kind;
    } kinds[] = {
        {"RSA", SL_KEY_RSA},
        {"EC",  SL_KEY_EC },
        {"OKP", SL_KEY_OKP},
        {"oct", SL_KEY_OCT}
    };
    struct sl_str kty, curve = {NULL, 0};

    if (!sl_object_text(r->jwk, "kty", &kty))
        return refuse(
            r,
            "has no type; write \"kty\": \"RSA\", \"EC\", \"OKP\" or \"oct\"");
    for (size_t i = 0; i < SL_LEN(kinds); i++)
        if (sl_str_eq(kty, sl_str_c(kinds[i].name))) {
            r->kind = kinds[i].kind;
            *ret = sl_alg_kind(r->kind);
        }
    if (!(*ret & (sl_alg_kind(SL_KEY_EC) | SL_ALG_EDDSA)))
        return 0;
    if (!sl_object_text(r->jwk, "crv", &curve))
        return refuse(r, "has no curve \"crv\"");
    if (r->kind == SL_KEY_EC) {
        r->curve = sl_alg_curve(curve);
        *ret = r->curve ? r->curve->bit : 0;
    } else if (!sl_public_is_okp(curve)) {
        *ret = 0;
    }
    return 0;
}

/* Narrow *algorithms to what "alg" says. An algorithm that we do not know
 * leaves none; one of another kind or curve is a contradiction. */
static int read_alg(const struct reading *r, unsigned *algorithms)
{
    const json_t *alg = json_object_get(r->jwk, "alg");
    unsigned bit;

    if (!alg)
        return 0;
    if (!json_is_string(alg))
        return refuse(r, "has an \"alg\" that is not a string");
    bit = sl_algorithm_of(sl_json_slice(alg));
    if (bit && !(bit & *algorithms))
        return refuse(
            r, "has an \"alg\" that does not match its \"kty\" and \"crv\"");
    *algorithms = bit;
    return 0;
}

static int read_kid(const struct reading *r)
{
    const json_t *kid = json_object_get(r->jwk, "kid");
    size_t len = json_string_length(kid);

    if (!kid)
        return 0;
    if (!json_is_string(kid))
        return refuse(r, "has a \"kid\" that is not a string");
    if (len > SL_KID_BYTES)
        return refuse(r, "has a \"kid\" of more than 128 bytes");
    memcpy(r->key->kid, json_string_value(kid), len);
    r->key->kid_len = (unsigned char)len;
    r->key->has_kid = true;
    return 0;
}

/* ---- what is in it ---- */

unsigned sl_alg_hmac_fits(size_t len)
{
    return (len >= 32 ? SL_ALG_HS256 : 0u) | (len >= 48 ? SL_ALG_HS384 : 0u) |
           (len >= 64 ? SL_ALG_HS512 : 0u);
}

static int read_secret(const struct reading *r)
{
    struct sl_key *key = r->key;
    struct sl_str text;
    int err;

    if (!sl_object_text(r->jwk, "k", &text) || text.len == 0)
        return refuse(r, "has no secret \"k\" in base64url");
    if (SL_BASE64URL_BYTES(text.len) > SL_SECRET_BYTES)
        return refuse(r, "has a secret of more than 4096 bytes");
    err = sl_secret_new(SL_BASE64URL_BYTES(text.len), &key->secret);
    if (err)
        return err;
    if (!sl_base64url_decode(text, key->secret.bytes, &key->secret.len))
        return refuse(r, "has a secret \"k\" that is not base64url");
    key->algorithms &= sl_alg_hmac_fits(key->secret.len);
    if (!key->algorithms)
        return refuse(r, "has a secret shorter than the hash: HS256 needs 32 "
                         "bytes, HS384 48, HS512 64");
    if (sl_secret_is_blank(key->secret.bytes, key->secret.len))
        return refuse(r, "has a secret that repeats one byte, which is easy to "
                         "guess; create one with openssl rand");
    return 0;
}

static int read_public(const struct reading *r)
{
    const char *why = NULL;
    int err;

    if (r->kind == SL_KEY_RSA)
        err = sl_public_rsa(r->jwk, &r->key->pkey, &why);
    else if (r->kind == SL_KEY_EC)
        err = sl_public_ec(r->jwk, r->curve, &r->key->pkey, &why);
    else
        err = sl_public_okp(r->jwk, &r->key->pkey, &why);
    r->key->is_private = json_object_get(r->jwk, "d") != NULL;
    return why ? refuse(r, why) : err;
}

void sl_jwk_wipe(json_t *jwk)
{
    static const char *const names[] = {"k", "d", "p", "q", "dp", "dq", "qi"};
    struct sl_str text;

    for (size_t i = 0; i < SL_LEN(names); i++)
        if (sl_object_text(jwk, names[i], &text))
            OPENSSL_cleanse((char *)text.at, text.len);
}

static int read_key(struct reading *r, unsigned wanted, unsigned *ret_kinds)
{
    unsigned algorithms = 0;
    bool verifies = false;
    int err;

    if (!json_is_object(r->jwk))
        return refuse(r, "is not an object; write a key as {\"kty\": ...}");
    err = read_purpose(r, &verifies);
    if (err || !verifies)
        return err;
    err = read_kind(r, &algorithms);
    if (err || !algorithms)
        return err;
    err = read_alg(r, &algorithms);
    *ret_kinds = err ? 0 : algorithms;
    if (err || !(algorithms & wanted))
        return err;
    r->key->algorithms = algorithms & wanted;
    err = read_kid(r);
    if (err)
        return err;
    return r->kind == SL_KEY_OCT ? read_secret(r) : read_public(r);
}

int sl_jwk_read(json_t *jwk, unsigned wanted, size_t index, struct sl_key *ret,
                unsigned *ret_kinds, struct sl_diag *diag)
{
    struct sl_key key = {.algorithms = 0};
    struct reading r = {.jwk = jwk, .key = &key, .index = index, .diag = diag};
    int err;

    *ret_kinds = 0;
    err = read_key(&r, wanted, ret_kinds);
    if (err)
        sl_key_done(&key);
    else
        *ret = key;
    return err;
}

void sl_key_done(struct sl_key *key)
{
    EVP_PKEY_free(key->pkey);
    key->pkey = NULL;
    sl_secret_done(&key->secret);
}
