/* jwk.c -- keys and key sets, secure memory, the algorithms. */
#include "identity/jwk.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* ---- secure memory.
 *
 * Secrets are on their own pages, which core dumps omit, and are wiped before
 * they are freed.
 */

#define SECRET_BYTES 4096 /* no key is longer */

/* Allocates `room` bytes, 1 .. SECRET_BYTES; the caller sets `len`. Returns 0
 * or SLUICE_ENOMEM. */
static int secure_new(size_t room, struct sl_secure_mem *ret)
{
    void *pages = mmap(NULL, room, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return SLUICE_ENOMEM;
    /* The kernel may not support it; then there is no protection. */
    (void)madvise(pages, room, MADV_DONTDUMP);
    *ret = (struct sl_secure_mem){.bytes = pages, .room = room};
    return 0;
}

/* Returns whether all bytes are equal: a file of zeros or a placeholder is not
 * a key. */
static bool is_blank(const uint8_t *bytes, size_t len)
{
    uint8_t differs = 0;

    for (size_t i = 1; i < len; i++)
        differs |= (uint8_t)(bytes[i] ^ bytes[0]);
    return differs == 0;
}

static void secure_done(struct sl_secure_mem *secret)
{
    if (!secret->bytes)
        return;
    OPENSSL_cleanse(secret->bytes, secret->room);
    munmap(secret->bytes, secret->room);
    *secret = (struct sl_secure_mem){.bytes = NULL};
}

/* ---- the table of algorithms. */

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

static unsigned algs_of_kind(enum sl_jwk_kind kind)
{
    unsigned bits = 0;

    for (size_t i = 0; i < SL_LEN(algs); i++)
        if (algs[i].kind == kind)
            bits |= algs[i].bit;
    return bits;
}

static const struct sl_alg *alg_of_curve(struct sl_str curve)
{
    for (size_t i = 0; i < SL_LEN(algs); i++)
        if (algs[i].curve && sl_str_eq(curve, sl_str_c(algs[i].curve)))
            return &algs[i];
    return NULL;
}

/* ---- JSON objects from clients. */

/* Returns the depth of brackets outside strings. For invalid JSON the value
 * does not matter: the parser refuses it. */
static unsigned depth_of(struct sl_str text)
{
    unsigned depth = 0, most = 0;
    bool quoted = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '"') {
            quoted = !quoted;
        } else if (quoted) {
            i += c == '\\';
        } else if (c == '{' || c == '[') {
            if (++depth > most)
                most = depth;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return most;
}

static json_t *object_refuse(struct sl_json_object_why *why,
                             enum sl_json_object_error fault,
                             const json_error_t *error)
{
    *why = (struct sl_json_object_why){.fault = fault};
    if (error && error->line > 0)
        why->line = (unsigned)error->line;
    if (error && error->column > 0)
        why->column = (unsigned)error->column;
    return NULL;
}

json_t *sl_json_object_read(struct sl_str text, struct sl_json_object_why *why)
{
    json_error_t error;
    json_t *json;

    if (text.len == 0 || memchr(text.at, '\0', text.len))
        return object_refuse(why, SL_OBJECT_BROKEN, NULL);
    if (depth_of(text) > SL_OBJECT_DEPTH)
        return object_refuse(why, SL_OBJECT_DEEP, NULL);
    json = json_loadb(text.at, text.len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(json))
        return json;
    if (json) {
        json_decref(json);
        return object_refuse(why, SL_OBJECT_OTHER, NULL);
    }
    /* Without memory jansson reports nothing, or the wrong error. */
    return object_refuse(
        why, error.text[0] ? SL_OBJECT_BROKEN : SL_OBJECT_NO_MEMORY, &error);
}

bool sl_json_object_text(const json_t *object, const char *name,
                         struct sl_str *ret)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_string(value))
        return false;
    *ret = sl_json_slice(value);
    return true;
}

/* ---- base64url into an arena. */

int sl_base64url_copy(struct sl_str text, struct sl_arena *arena,
                      struct sl_str *ret)
{
    uint8_t *bytes = sl_arena_take(arena, SL_BASE64URL_BYTES(text.len));
    size_t len;

    if (!bytes)
        return SLUICE_ENOMEM;
    if (!sl_base64url_decode(text, bytes, &len))
        return SLUICE_ECONF;
    *ret = (struct sl_str){(const char *)bytes, len};
    return 0;
}

/* ---- reading a key ---- */

struct reading {
    json_t *jwk;
    enum sl_jwk_kind kind;
    const struct sl_alg *curve; /* EC */
    struct sl_jwk *key;
    size_t index;
    struct sl_diag *diag;
};

/* "key 2 (prod-2026) has ..." */
static int refuse(const struct reading *r, const char *what)
{
    struct sl_str kid;

    if (sl_json_object_text(r->jwk, "kid", &kid))
        return sl_diag_error(r->diag, SLUICE_ECONF, "key %zu (%.*s) %s",
                             r->index + 1, (int)(kid.len > 40 ? 40 : kid.len),
                             kid.at, what);
    return sl_diag_error(r->diag, SLUICE_ECONF, "key %zu %s", r->index + 1,
                         what);
}

/* ---- public keys, from numbers to OpenSSL ---- */

#define RSA_LEAST 2048  /* bits: RFC 7518, 3.3 */
#define RSA_MOST  16384 /* the most that OpenSSL accepts */
#define E_MOST    64    /* bits: a longer one only costs time */

/* The largest number that a member may hold, with room for a sign byte. */
#define NUMBER_BYTES   (RSA_MOST / 8 + 1)
#define NUMBER_LETTERS (NUMBER_BYTES / 3 * 4 + 4)

struct number {
    uint8_t bytes[SL_BASE64URL_BYTES(NUMBER_LETTERS)];
    size_t len;
};

/* Reads the bytes of a member. Returns false if it is missing, no text, no
 * base64url, or too long. */
static bool number_of(const json_t *jwk, const char *name, struct number *ret)
{
    struct sl_str text;

    return sl_json_object_text(jwk, name, &text) &&
           text.len <= NUMBER_LETTERS &&
           sl_base64url_decode(text, ret->bytes, &ret->len) && ret->len > 0;
}

/* OpenSSL did not make a key: no memory, or `what`. */
static int refuse_made(const struct reading *r, const char *what)
{
    if (ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE)
        return SLUICE_ENOMEM;
    return refuse(r, what);
}

static EVP_PKEY *make_key(const char *type, OSSL_PARAM *params)
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
 * of 65537 modulo all small primes, and so are their products. Such keys can be
 * factored. One in 2^27 good keys looks the same. */
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
        pkey = make_key("RSA", params);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    return pkey;
}

static int read_rsa(const struct reading *r)
{
    struct number n_bytes, e_bytes;
    BIGNUM *n, *e;
    const char *fault;
    int err = SLUICE_ENOMEM;

    if (!number_of(r->jwk, "n", &n_bytes))
        return refuse(r, "has no modulus \"n\" in base64url");
    if (!number_of(r->jwk, "e", &e_bytes))
        return refuse(r, "has no exponent \"e\" in base64url");
    n = BN_bin2bn(n_bytes.bytes, (int)n_bytes.len, NULL);
    e = BN_bin2bn(e_bytes.bytes, (int)e_bytes.len, NULL);
    if (!n || !e)
        goto out;
    fault = rsa_fault(n, e);
    r->key->pkey = fault ? NULL : make_rsa(n, e);
    if (fault)
        err = refuse(r, fault);
    else
        err = r->key->pkey ? 0 : refuse_made(r, "is not an RSA key");
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
    return make_key("EC", params);
}

static int read_ec(const struct reading *r)
{
    const struct sl_alg *alg = r->curve;
    struct number x, y;

    if (!number_of(r->jwk, "x", &x) || !number_of(r->jwk, "y", &y))
        return refuse(r, "needs the coordinates \"x\" and \"y\" in base64url");
    if (x.len != alg->scalar || y.len != alg->scalar)
        return refuse(r, "has coordinates of another length than its curve");
    r->key->pkey = make_ec(alg, &x, &y);
    return r->key->pkey && is_on_curve(r->key->pkey)
               ? 0
               : refuse_made(r, "is not a point on its curve");
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

/* Returns the number of a curve of EdDSA, or SL_LEN(edwards). */
static size_t find_edwards(struct sl_str curve)
{
    size_t i = 0;

    while (i < SL_LEN(edwards) && !sl_str_eq(curve, sl_str_c(edwards[i].curve)))
        i++;
    return i;
}

static int read_okp(const struct reading *r)
{
    struct sl_str curve = {NULL, 0};
    struct number x;
    size_t i;

    if (!sl_json_object_text(r->jwk, "crv", &curve) ||
        !number_of(r->jwk, "x", &x))
        return refuse(r, "needs \"x\" in base64url");
    i = find_edwards(curve);
    if (x.len != edwards[i].len)
        return refuse(r, "has an \"x\" of another length than its curve");
    r->key->pkey =
        EVP_PKEY_new_raw_public_key(edwards[i].type, NULL, x.bytes, x.len);
    return r->key->pkey ? 0 : refuse_made(r, "is not a key of its curve");
}

/* ---- purpose ---- */

/* Sets *ret if the key is for verifying signatures. */
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

/* Reads the kind; *ret are the algorithms of such keys, 0 for an unknown kind.
 */
static int read_kind(struct reading *r, unsigned *ret)
{
    static const struct {
        const char *name;
        enum sl_jwk_kind kind;
    } kinds[] = {
        {"RSA", SL_KEY_RSA},
        {"EC",  SL_KEY_EC },
        {"OKP", SL_KEY_OKP},
        {"oct", SL_KEY_OCT}
    };
    struct sl_str kty, curve = {NULL, 0};

    if (!sl_json_object_text(r->jwk, "kty", &kty))
        return refuse(
            r,
            "has no type; write \"kty\": \"RSA\", \"EC\", \"OKP\" or \"oct\"");
    for (size_t i = 0; i < SL_LEN(kinds); i++)
        if (sl_str_eq(kty, sl_str_c(kinds[i].name))) {
            r->kind = kinds[i].kind;
            *ret = algs_of_kind(r->kind);
        }
    if (!(*ret & (algs_of_kind(SL_KEY_EC) | SL_ALG_EDDSA)))
        return 0;
    if (!sl_json_object_text(r->jwk, "crv", &curve))
        return refuse(r, "has no curve \"crv\"");
    if (r->kind == SL_KEY_EC) {
        r->curve = alg_of_curve(curve);
        *ret = r->curve ? r->curve->bit : 0;
    } else if (find_edwards(curve) == SL_LEN(edwards)) {
        *ret = 0;
    }
    return 0;
}

/* Restricts *algorithms to "alg". An unknown algorithm leaves none; one of
 * another kind or curve is an error. */
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

/* ---- material ---- */

static unsigned hmac_fits(size_t len)
{
    return (len >= 32 ? SL_ALG_HS256 : 0u) | (len >= 48 ? SL_ALG_HS384 : 0u) |
           (len >= 64 ? SL_ALG_HS512 : 0u);
}

static int read_secret(const struct reading *r)
{
    struct sl_jwk *key = r->key;
    struct sl_str text;
    int err;

    if (!sl_json_object_text(r->jwk, "k", &text) || text.len == 0)
        return refuse(r, "has no secret \"k\" in base64url");
    if (SL_BASE64URL_BYTES(text.len) > SECRET_BYTES)
        return refuse(r, "has a secret of more than 4096 bytes");
    err = secure_new(SL_BASE64URL_BYTES(text.len), &key->secret);
    if (err)
        return err;
    if (!sl_base64url_decode(text, key->secret.bytes, &key->secret.len))
        return refuse(r, "has a secret \"k\" that is not base64url");
    key->algorithms &= hmac_fits(key->secret.len);
    if (!key->algorithms)
        return refuse(r, "has a secret shorter than the hash: HS256 needs 32 "
                         "bytes, HS384 48, HS512 64");
    if (is_blank(key->secret.bytes, key->secret.len))
        return refuse(r, "has a secret that repeats one byte, which is easy to "
                         "guess; create one with openssl rand");
    return 0;
}

static int read_public(const struct reading *r)
{
    r->key->is_private = json_object_get(r->jwk, "d") != NULL;
    if (r->kind == SL_KEY_RSA)
        return read_rsa(r);
    return r->kind == SL_KEY_EC ? read_ec(r) : read_okp(r);
}

/* Wipes the secrets: jansson does not. */
static void wipe(json_t *jwk)
{
    static const char *const names[] = {"k", "d", "p", "q", "dp", "dq", "qi"};
    struct sl_str text;

    for (size_t i = 0; i < SL_LEN(names); i++)
        if (sl_json_object_text(jwk, names[i], &text))
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

static void jwk_done(struct sl_jwk *key)
{
    EVP_PKEY_free(key->pkey);
    key->pkey = NULL;
    secure_done(&key->secret);
}

/* Reads a key for any of `wanted`. `index` (from 0) is its position, for the
 * sentence. Returns 0, SLUICE_ECONF if it is broken, or SLUICE_ENOMEM. A
 * skipped key has no algorithms; *ret_kinds are those that it could verify. */
static int jwk_read(json_t *jwk, unsigned wanted, size_t index,
                    struct sl_jwk *ret, unsigned *ret_kinds,
                    struct sl_diag *diag)
{
    struct sl_jwk key = {.algorithms = 0};
    struct reading r = {.jwk = jwk, .key = &key, .index = index, .diag = diag};
    int err;

    *ret_kinds = 0;
    err = read_key(&r, wanted, ret_kinds);
    if (err)
        jwk_done(&key);
    else
        *ret = key;
    return err;
}

/* ---- key sets.
 *
 * Invariants.
 *   (1) Every key verifies at least one wanted algorithm.
 *   (2) All keys are secrets, or none is.
 *   (3) No two keys of one name verify the same algorithm.
 */

static size_t size_of(unsigned room)
{
    return sizeof(struct sl_keyset) + room * sizeof(struct sl_jwk);
}

static struct sl_keyset *make(unsigned room, const struct sl_alloc *alloc)
{
    struct sl_keyset *set = sl_alloc_new(alloc, size_of(room));

    if (!set)
        return NULL;
    *set = (struct sl_keyset){.alloc = *alloc, .room = room};
    atomic_init(&set->refs, 1);
    return set;
}

static bool is_same_name(const struct sl_jwk *a, const struct sl_jwk *b)
{
    return a->has_kid && b->has_kid &&
           sl_str_eq((struct sl_str){a->kid, a->kid_len},
                     (struct sl_str){b->kid, b->kid_len});
}

/* (3) */
static int check_name(const struct sl_keyset *set, const struct sl_jwk *key,
                      size_t index, struct sl_diag *diag)
{
    for (unsigned i = 0; i < set->count; i++)
        if (is_same_name(&set->keys[i], key) &&
            (set->keys[i].algorithms & key->algorithms))
            return sl_diag_error(
                diag, SLUICE_ECONF,
                "key %zu has the same id (%.*s) and algorithm as "
                "another key, so tokens would be ambiguous",
                index + 1, (int)(key->kid_len > 40 ? 40 : key->kid_len),
                key->kid);
    return 0;
}

/* Adds the keys that can verify. Skipped keys count for (2) only. */
static int add_keys(struct sl_keyset *set, json_t *keys, unsigned wanted,
                    struct sl_diag *diag)
{
    unsigned seen = 0, could;

    for (size_t i = 0; i < json_array_size(keys); i++) {
        struct sl_jwk *key = &set->keys[set->count];
        int err =
            jwk_read(json_array_get(keys, i), wanted, i, key, &could, diag);

        if (err)
            return err;
        seen |= could;
        if ((seen & SL_ALG_HMAC) && (seen & ~(unsigned)SL_ALG_HMAC)) /* (2) */
            err = sl_diag_error(
                diag, SLUICE_ECONF,
                "key %zu mixes secrets and public keys in one set; use two "
                "sets, because a public set must not contain secrets",
                i + 1);
        else if (key->algorithms)
            err = check_name(set, key, i, diag);
        if (err) {
            jwk_done(key);
            return err;
        }
        set->count += key->algorithms != 0; /* (1) */
        set->has_private |= key->algorithms && key->is_private;
    }
    return 0;
}

static int refuse_none(size_t keys, struct sl_diag *diag)
{
    if (keys == 0)
        return sl_diag_error(diag, SLUICE_ECONF, "the set has no keys");
    return sl_diag_error(diag, SLUICE_ECONF,
                         "none of the %zu keys can be used: \"kty\", \"crv\", "
                         "\"alg\", \"use\" or \"key_ops\" do not match",
                         keys);
}

static int read_array(json_t *keys, unsigned wanted,
                      const struct sl_alloc *alloc, struct sl_keyset **ret,
                      struct sl_diag *diag)
{
    size_t count = json_array_size(keys);
    struct sl_keyset *set;
    int err;

    if (count > SL_KEYSET_KEYS)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "there are %zu keys; the maximum is %d", count,
                             SL_KEYSET_KEYS);
    set = make((unsigned)count, alloc);
    if (!set)
        return SLUICE_ENOMEM;
    err = add_keys(set, keys, wanted, diag);
    if (!err && set->count == 0)
        err = refuse_none(count, diag);
    if (err)
        sl_keyset_unref(set);
    else
        *ret = set;
    return err;
}

/* Returns a new reference to the array of keys, or NULL. A single key is an
 * array of one. */
static json_t *keys_of(json_t *root, struct sl_diag *diag, int *err)
{
    json_t *keys = json_object_get(root, "keys");

    *err = SLUICE_ENOMEM;
    if (keys && !json_is_array(keys)) {
        *err =
            sl_diag_error(diag, SLUICE_ECONF,
                          "\"keys\" must be a list of keys: {\"keys\": [{...}, "
                          "...]}");
        return NULL;
    }
    if (keys)
        return json_incref(keys);
    if (!json_object_get(root, "kty")) {
        *err = sl_diag_error(diag, SLUICE_ECONF,
                             "this is neither a JWKS, {\"keys\": [...]}, nor a "
                             "JWK, {\"kty\": ...}");
        return NULL;
    }
    keys = json_array();
    if (keys && json_array_append(keys, root)) {
        json_decref(keys);
        return NULL;
    }
    return keys;
}

static int refuse_object(const struct sl_json_object_why *why,
                         struct sl_diag *diag)
{
    static const char *const sentences[] = {
        [SL_OBJECT_BROKEN] =
            "the JWKS is not valid JSON, or has a duplicate name",
        [SL_OBJECT_OTHER] = "a JWKS is a JSON object: {\"keys\": [...]}",
        [SL_OBJECT_DEEP] = "the JWKS is nested more than 8 levels deep",
    };

    if (why->fault == SL_OBJECT_NO_MEMORY)
        return SLUICE_ENOMEM;
    if (diag && why->line) {
        diag->line = why->line;
        diag->column = why->column;
    }
    return sl_diag_error(diag, SLUICE_ECONF, "%s", sentences[why->fault]);
}

int sl_keyset_read(struct sl_str json, unsigned algorithms,
                   const struct sl_alloc *alloc, struct sl_keyset **ret,
                   struct sl_diag *diag)
{
    unsigned wanted =
        algorithms ? algorithms : SL_ALG_ALL & ~(unsigned)SL_ALG_HMAC;
    struct sl_json_object_why why;
    json_t *root, *keys;
    int err;

    if (json.len > SL_KEYSET_BYTES)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "the JWKS has %zu bytes; the maximum is 256 KiB",
                             json.len);
    root = sl_json_object_read(json, &why);
    if (!root)
        return refuse_object(&why, diag);
    keys = keys_of(root, diag, &err);
    if (keys) {
        /* Errors of OpenSSL must not reach the next caller. */
        ERR_set_mark();
        err = read_array(keys, wanted, alloc, ret, diag);
        ERR_pop_to_mark();
    }
    for (size_t i = 0; i < json_array_size(keys); i++)
        wipe(json_array_get(keys, i));
    json_decref(keys);
    json_decref(root);
    return err;
}

int sl_keyset_secret(struct sl_str secret, unsigned algorithms,
                     const struct sl_alloc *alloc, struct sl_keyset **ret,
                     struct sl_diag *diag)
{
    unsigned wanted = algorithms ? algorithms : SL_ALG_HMAC;
    unsigned fits = hmac_fits(secret.len);
    struct sl_keyset *set;
    struct sl_jwk *key;

    if (!(wanted & SL_ALG_HMAC))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret can only be used with HS256, HS384 and HS512");
    if (!(fits & wanted))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret of %zu bytes is too short: HS256 needs 32 "
            "bytes, HS384 48, HS512 64",
            secret.len);
    if (is_blank((const uint8_t *)secret.at, secret.len))
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret that repeats one byte is not secure; create "
            "one with openssl rand -base64 64");
    if (secret.len > SECRET_BYTES)
        return sl_diag_error(
            diag, SLUICE_ECONF,
            "a secret of %zu bytes is too long; the maximum is 4096",
            secret.len);
    set = make(1, alloc);
    if (!set)
        return SLUICE_ENOMEM;
    key = &set->keys[0];
    *key = (struct sl_jwk){.algorithms = fits & wanted};
    if (secure_new(secret.len, &key->secret)) {
        sl_keyset_unref(set);
        return SLUICE_ENOMEM;
    }
    memcpy(key->secret.bytes, secret.at, secret.len);
    key->secret.len = secret.len;
    set->count = 1;
    *ret = set;
    return 0;
}

struct sl_keyset *sl_keyset_ref(struct sl_keyset *set)
{
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    return set;
}

void sl_keyset_unref(struct sl_keyset *set)
{
    struct sl_alloc alloc;

    if (!set ||
        atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (unsigned i = 0; i < set->count; i++)
        jwk_done(&set->keys[i]);
    alloc = set->alloc;
    sl_alloc_free(&alloc, set, size_of(set->room));
}

unsigned sl_keyset_count(const struct sl_keyset *set)
{
    return set->count;
}

bool sl_keyset_has_private(const struct sl_keyset *set)
{
    return set->has_private;
}
