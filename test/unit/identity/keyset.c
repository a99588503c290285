/* keyset.c -- which keys serve, which are passed over, and which refused. */
#include "made.h"

#include <openssl/err.h>

#include "identity/jwk.h"
#include "material.h"
#include "row.h"

#define SET(keys)    "{\"keys\":[" keys "]}"
#define RSA_OF(n, e) "{\"kty\":\"RSA\",\"e\":\"" e "\",\"n\":\"" n "\"}"
#define EC(c, x, y)  EC_OF("\"" c "\"", x, y, "")
#define OKP(c, x)    "{\"kty\":\"OKP\",\"crv\":\"" c "\",\"x\":\"" x "\"}"
#define OCT(more, k) "{\"kty\":\"oct\"," more "\"k\":\"" k "\"}"
#define RSA_TAIL     "\"e\":\"AQAB\",\"n\":\"" RSA_N "\"}"
#define RSA(more)    "{\"kty\":\"RSA\"," more RSA_TAIL
#define EC_OF(c, x, y, more)                                                   \
    "{\"kty\":\"EC\",\"crv\":" c "," more "\"x\":\"" x "\",\"y\":\"" y "\"}"

#define OTHERS                                                                 \
    RSA("\"use\":\"enc\",")                                                    \
    "," RSA("\"key_ops\":[\"encrypt\"],") "," RSA(                             \
        "\"alg\":\"RSA-OAEP\",") "," OKP("X25519",                             \
                                         ED25519_X) "," EC("secp256k1",        \
                                                           P256_X,             \
                                                           P256_Y) ",{"        \
                                                                   "\"kty\":"  \
                                                                   "\"AKP\"}," \
                                                                   "{\"kty\":" \
                                                                   "\"oct\","  \
                                                                   "\"use\":"  \
                                                                   "\"enc\","  \
                                                                   "\"k\":"    \
                                                                   "\"AA\"},"

#define RS (SL_ALG_RS256 | SL_ALG_RS384 | SL_ALG_RS512)
#define PS (SL_ALG_PS256 | SL_ALG_PS384 | SL_ALG_PS512)

/* What the first key serves; 0 if the set is refused. */
TEST(served)
{
    static const struct {
        const char *why, *json;
        unsigned wanted, count, algorithms;
    } rows[] = {
        ROW("RSA serves RS and PS", RSA(""), 0, 1, RS | PS),
        ROW("or what is wanted of them", RSA(""), SL_ALG_PS384, 1,
            SL_ALG_PS384),
        ROW("or what it says", RSA("\"alg\":\"RS512\","), 0, 1, SL_ALG_RS512),
        ROW("use and key_ops say yes",
            RSA("\"use\":\"sig\",\"key_ops\":[\"x\",\"verify\"],"), 0, 1,
            RS | PS),
        ROW("P-256 is ES256", EC("P-256", P256_X, P256_Y), 0, 1, SL_ALG_ES256),
        ROW("P-384 is ES384", EC("P-384", P384_X, P384_Y), 0, 1, SL_ALG_ES384),
        ROW("P-521 is ES512", EC("P-521", P521_X, P521_Y), 0, 1, SL_ALG_ES512),
        ROW("Ed25519 is EdDSA", OKP("Ed25519", ED25519_X), 0, 1, SL_ALG_EDDSA),
        ROW("Ed448 too", OKP("Ed448", ED448_X), 0, 1, SL_ALG_EDDSA),
        ROW("secrets when wanted, as long as they are", OCT("", OCT_64),
            SL_ALG_HMAC, 1, SL_ALG_HMAC),
        ROW("32 bytes serve HS256", OCT("", OCT_32), SL_ALG_HMAC, 1,
            SL_ALG_HS256),
        ROW("a set", SET(RSA("\"kid\":\"a\",") "," RSA("\"kid\":\"b\",")), 0, 2,
            RS | PS),
        ROW("one name for two kinds",
            SET(RSA("\"kid\":\"a\",") "," EC_OF("\"P-256\"", P256_X, P256_Y,
                                                "\"kid\":\"a\",")),
            0, 2, RS | PS),
        ROW("one name for two algorithms",
            SET(RSA("\"kid\":\"a\",\"alg\":\"RS256\",") "," RSA(
                "\"kid\":\"a\",\"alg\":\"PS256\",")),
            0, 2, SL_ALG_RS256),
        ROW("keys for other work are passed over", SET(OTHERS RSA("")), 0, 1,
            RS | PS),
        ROW("also broken ones", SET(OKP("X25519", "!") "," RSA("")), 0, 1,
            RS | PS),
        ROW("members that we do not know", RSA("\"x5c\":[\"AA\"],\"ext\":1,"),
            0, 1, RS | PS),
        ROW("an exponent of three", RSA_OF(RSA_N, "Aw"), 0, 1, RS | PS),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_diag diag = {.line = 0};
        struct sl_keyset *set = NULL;

        CASE(rows[i].why);
        CHECK_EQ(sl_keyset_read(sl_str_c(rows[i].json), rows[i].wanted,
                                &sl_alloc_libc, &set, &diag),
                 0);
        CHECK_STR(diag.sentence, "");
        if (!set)
            continue;
        CHECK_EQ(sl_keyset_count(set), rows[i].count);
        CHECK_EQ(set->keys[0].algorithms, rows[i].algorithms);
        CHECK(!sl_keyset_has_private(set));
        sl_keyset_unref(set);
    }
}

static const struct {
    const char *why, *json, *sentence;
} refused[] = {
    ROW("nothing", "", "the JWKS is not valid JSON, or has a duplicate name"),
    ROW("no JSON", "keys", "the JWKS is not valid JSON"),
    ROW("a name twice", "{\"keys\":[],\"keys\":[]}", "has a duplicate name"),
    ROW("a list", "[]", "a JWKS is a JSON object"),
    ROW("nine deep", "{\"keys\":[[[[[[[[1]]]]]]]]}",
        "nested more than 8 levels"),
    ROW("an object", "{\"key\":1}", "neither a JWKS"),
    ROW("keys that is not a list", "{\"keys\":{}}", "must be a list of keys"),
    ROW("no keys", SET(""), "the set has no keys"),
    ROW("a key that is no object", SET("7"), "key 1 is not an object"),
    ROW("no kty", SET("{}"), "key 1 has no type"),
    ROW("the second, by name",
        SET(RSA("") ",{\"kty\":\"RSA\",\"kid\":\"x y\"}"),
        "key 2 (x y) has no modulus"),
    ROW("1024 bits", RSA_OF(SMALL_N, "AQAB"), "fewer than 2048 bits"),
    ROW("an even modulus", RSA_OF(RSA_N "AAAA", "AQAB"), "even modulus"),
    ROW("an exponent of one", RSA_OF(RSA_N, "AQ"), "an exponent \"e\""),
    ROW("an even exponent", RSA_OF(RSA_N, "AQAA"), "an exponent \"e\""),
    ROW("an exponent of 65 bits", RSA_OF(RSA_N, "AQAAAAAAAAAB"),
        "an exponent \"e\""),
    ROW("no exponent", RSA_OF(RSA_N, ""), "no exponent"),
    ROW("padding", RSA_OF(RSA_N "==", "AQAB"), "no modulus"),
    ROW("a key that gives its primes away", RSA_OF(ROCA_N, "AQAB"),
        "CVE-2017-15361"),
    ROW("a point off the curve", EC("P-256", P256_X, P256_X),
        "not a point on its curve"),
    ROW("a point of another curve", EC("P-384", P256_X, P256_Y),
        "another length"),
    ROW("a point at nowhere",
        EC("P-256", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
           "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        "not a point on its curve"),
    ROW("half a point", EC("P-256", P256_X, ""), "needs the coordinates"),
    ROW("no curve", "{\"kty\":\"EC\"}", "has no curve"),
    ROW("a short Ed25519", OKP("Ed25519", "AAAA"), "another length"),
    ROW("alg of another kind", RSA("\"alg\":\"ES256\","),
        "does not match its \"kty\""),
    ROW("alg of another curve",
        EC_OF("\"P-256\"", P256_X, P256_Y, "\"alg\":\"ES384\","),
        "does not match its \"kty\""),
    ROW("alg that is not a string", RSA("\"alg\":1,"), "is not a string"),
    ROW("use that is not a string", RSA("\"use\":1,"), "is not a string"),
    ROW("key_ops that is not a list", RSA("\"key_ops\":\"verify\","),
        "is not a list"),
    ROW("key_ops without verify", RSA("\"key_ops\":[\"sign\"],"),
        "none of the 1 keys can be used"),
    ROW("key_ops in one text", RSA("\"key_ops\":[\"sign, verify\"],"),
        "none of the 1 keys can be used"),
    ROW("use in capitals", RSA("\"use\":\"SIG\","),
        "none of the 1 keys can be used"),
    ROW("kid that is not a string", RSA("\"kid\":1,"), "is not a string"),
    ROW("a secret where none is wanted", OCT("", OCT_64),
        "none of the 1 keys can be used"),
    ROW("a secret beside public keys", SET(RSA("") "," OCT("", OCT_64)),
        "key 2 mixes secrets and public keys"),
    ROW("public keys beside a secret", SET(OCT("", OCT_64) "," RSA("")),
        "key 2 mixes secrets and public keys"),
    ROW("one name twice", SET(RSA("\"kid\":\"a\",") "," RSA("\"kid\":\"a\",")),
        "key 2 has the same id (a)"),
};

TEST(refused)
{
    for (size_t i = 0; i < SL_LEN(refused); i++) {
        struct sl_diag diag = {.line = 0};
        struct sl_keyset *set = NULL;

        CASE(refused[i].why);
        CHECK_EQ(sl_keyset_read(sl_str_c(refused[i].json), 0, &sl_alloc_libc,
                                &set, &diag),
                 SLUICE_ECONF);
        CHECK(!set);
        if (!CHECK(strstr(diag.sentence, refused[i].sentence)))
            printf("# %s\n", diag.sentence);
        CHECK_EQ(sl_keyset_read(sl_str_c(refused[i].json), 0, &sl_alloc_libc,
                                &set, NULL),
                 SLUICE_ECONF);
        CHECK_EQ(ERR_peek_error(), 0);
    }
}

/* Secrets of all lengths around the lengths of the hashes. */
TEST(secrets)
{
    static const char bytes[5000] = "a secret, and then nothing more";
    static const char blank[64];
    char json[8000];
    struct sl_keyset *set;

    CASE("one byte over and over is no secret");
    CHECK_EQ(sl_keyset_secret((struct sl_str){blank, 64}, 0, &sl_alloc_libc,
                              &set, NULL),
             SLUICE_ECONF);
    CHECK_EQ(sl_keyset_read(SL_STR("{\"kty\":\"oct\",\"k\":"
                                   "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                                   "AAA\"}"),
                            SL_ALG_HMAC, &sl_alloc_libc, &set, NULL),
             SLUICE_ECONF);

    CASE("a secret is at least as long as the hash, and 4096 bytes at most");
    for (size_t len = 0; len <= 4100; len += len < 70 ? 1 : 403) {
        unsigned fits = (len >= 32 ? SL_ALG_HS256 : 0u) |
                        (len >= 48 ? SL_ALG_HS384 : 0u) |
                        (len >= 64 ? SL_ALG_HS512 : 0u);
        bool good = fits && len <= 4096;
        char *at = json + snprintf(json, sizeof(json),
                                   "{\"kty\":\"oct\",\"k\":"
                                   "\"");

        set = NULL;
        CHECK_EQ(sl_keyset_secret((struct sl_str){bytes, len}, 0,
                                  &sl_alloc_libc, &set, NULL),
                 good ? 0 : SLUICE_ECONF);
        CHECK_EQ(set ? set->keys[0].algorithms : 0, good ? fits : 0);
        sl_keyset_unref(set);

        set = NULL;
        at = made_base64(at, bytes, len);
        memcpy(at, "\"}", 3);
        CHECK_EQ(sl_keyset_read(sl_str_c(json), SL_ALG_HMAC, &sl_alloc_libc,
                                &set, NULL),
                 fits && len <= 4094 ? 0 : SLUICE_ECONF);
        CHECK(!set || set->keys[0].secret.len == len);
        sl_keyset_unref(set);
    }
    CASE("a secret of 32 bytes is none for HS512, whatever is said");
    CHECK_EQ(sl_keyset_secret((struct sl_str){bytes, 32}, SL_ALG_HS512,
                              &sl_alloc_libc, &set, NULL),
             SLUICE_ECONF);
    CHECK_EQ(sl_keyset_secret((struct sl_str){bytes, 99}, SL_ALG_RS256,
                              &sl_alloc_libc, &set, NULL),
             SLUICE_ECONF);
}

TEST(bounds)
{
    static char json[SL_KEYSET_BYTES + 64];
    struct sl_keyset *set = NULL;
    struct sl_diag diag;
    size_t len;

    CASE("64 keys, and one more");
    for (unsigned most = 64; most <= 65; most++) {
        len = (size_t)snprintf(json, sizeof(json), "{\"keys\":[");
        for (unsigned i = 0; i < most; i++)
            len += (size_t)snprintf(json + len, sizeof(json) - len, "%s%s",
                                    i ? "," : "", OKP("Ed25519", ED25519_X));
        snprintf(json + len, sizeof(json) - len, "]}");
        set = NULL;
        CHECK_EQ(sl_keyset_read(sl_str_c(json), 0, &sl_alloc_libc, &set, &diag),
                 most == 64 ? 0 : SLUICE_ECONF);
        CHECK_EQ(set ? sl_keyset_count(set) : 0, most == 64 ? 64 : 0);
        sl_keyset_unref(set);
    }

    CASE("256 KiB, and one byte more");
    for (len = SL_KEYSET_BYTES; len <= SL_KEYSET_BYTES + 1; len++) {
        memset(json, ' ', len);
        memcpy(json, OKP("Ed25519", ED25519_X),
               strlen(OKP("Ed25519", ED25519_X)));
        set = NULL;
        CHECK_EQ(sl_keyset_read((struct sl_str){json, len}, 0, &sl_alloc_libc,
                                &set, &diag),
                 len == SL_KEYSET_BYTES ? 0 : SLUICE_ECONF);
        sl_keyset_unref(set);
    }

    CASE("NUL behind it");
    CHECK_EQ(sl_keyset_read((struct sl_str){RSA(""), sizeof(RSA(""))}, 0,
                            &sl_alloc_libc, &set, &diag),
             SLUICE_ECONF);

    CASE("a kid of 128 bytes, and one more");
    for (int kid = 128; kid <= 129; kid++) {
        snprintf(json, sizeof(json),
                 "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"" ED25519_X
                 "\",\"kid\":\"%0*d\"}",
                 kid, 7);
        set = NULL;
        CHECK_EQ(sl_keyset_read(sl_str_c(json), 0, &sl_alloc_libc, &set, &diag),
                 kid == 128 ? 0 : SLUICE_ECONF);
        sl_keyset_unref(set);
    }
}

TEST(private)
{
    struct sl_keyset *set;

    CASE("a private half is not read, but seen");
    set = made_read(RSA("\"d\":\"!not base64!\",\"p\":7,"), 0);
    CHECK(sl_keyset_has_private(set));
    sl_keyset_unref(set);
    CASE("counted by its users");
    set = made_read(RSA(""), 0);
    CHECK(sl_keyset_ref(set) == set);
    sl_keyset_unref(set);
    CHECK_EQ(sl_keyset_count(set), 1);
    sl_keyset_unref(set);
    sl_keyset_unref(NULL);
}

/* The line of flags of the mapping that `at` lies in, from /proc. */
static bool is_dumped(const void *at)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    uintptr_t place = (uintptr_t)at, from, to;
    bool inside = false, dumped = true;
    char line[512];

    if (!maps)
        abort();
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            inside = place >= from && place < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            dumped = !strstr(line, " dd");
    }
    fclose(maps);
    return dumped;
}

TEST(dump)
{
    struct sl_keyset *one = made_set(0);
    struct sl_keyset *two = made_read(OCT("", OCT_64), SL_ALG_HMAC);

    CASE("no core dump has a secret");
    CHECK(is_dumped(one));
    CHECK(!is_dumped(one->keys[0].secret.bytes));
    CHECK(!is_dumped(two->keys[0].secret.bytes));
    sl_keyset_unref(one);
    sl_keyset_unref(two);
}

TEST(names)
{
    static const char *const names[] = {
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256",
        "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"};

    CASE("names of algorithms, in exactly one spelling");
    for (unsigned i = 0; i < SL_LEN(names); i++)
        CHECK_EQ(sl_algorithm_of(sl_str_c(names[i])), 1u << i);
    CHECK_EQ(sl_algorithm_of(SL_STR("rs256")), 0);
    CHECK_EQ(sl_algorithm_of(SL_STR("RS2566")), 0);
    CHECK_EQ(sl_algorithm_of(SL_STR("EDDSA")), 0);
    CHECK_EQ(sl_algorithm_of(SL_STR("")), 0);
}

CHECK_MAIN()
