/* header.c -- the shape of a token, its header, and which key is asked. */
#include "made.h"
#include <openssl/err.h>

#include "material.h"
#include "row.h"

#define PAYLOAD "{\"exp\":2000000000,\"sub\":\"ann\"}"
#define NOW     (INT64_C(1700000000) * SL_S)

static const struct sl_token_rules any;
static struct sl_keyset *secret;

TEST(shape)
{
    static const struct {
        const char *why;
        struct sl_str text;
        enum sl_token_error fault;
    } rows[] = {
        ROW("nothing", {"", 0}, SL_TOKEN_MALFORMED),
        ROW("dots alone", {"..", 2}, SL_TOKEN_MALFORMED),
        ROW("one part", {"eyJhbGciOiJIUzI1NiJ9", 20}, SL_TOKEN_MALFORMED),
        ROW("two parts", {"eyJhbGciOiJIUzI1NiJ9.e30", 24}, SL_TOKEN_MALFORMED),
        ROW("no signature", {"eyJhbGciOiJIUzI1NiJ9.e30.", 25},
            SL_TOKEN_MALFORMED),
        ROW("no header", {".e30.AAAA", 9}, SL_TOKEN_MALFORMED),
        ROW("four parts", {"eyJhbGciOiJIUzI1NiJ9.e30.AAAA.AAAA", 34},
            SL_TOKEN_MALFORMED),
        ROW("five parts: encrypted", {"eyJhbGciOiJkaXIifQ..AAAA.AAAA.AAAA", 34},
            SL_TOKEN_MALFORMED),
        ROW("JSON serialization", {"{\"payload\":\"e30\"}", 17},
            SL_TOKEN_MALFORMED),
        ROW("a NUL", {"eyJhbGciOiJIUzI1NiJ9.e30\0.AAAA", 30},
            SL_TOKEN_MALFORMED),
        ROW("a header that is no JSON", {"AAAA.e30.AAAA", 13},
            SL_TOKEN_MALFORMED),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_FAULT(made_verify(secret, &any, rows[i].text, NOW),
                    rows[i].fault);
        CHECK_EQ(made_token.claim_count, 0);
    }
}

static const struct {
    const char *why, *header;
    enum sl_token_error fault;
} fields[] = {
    ROW("good", HS256, SL_TOKEN_GOOD),
    ROW("with typ, cty and a thumbprint",
        "{\"typ\":\"at+jwt\",\"alg\":\"HS256\",\"x5t\":\"AA\",\"cty\":1}",
        SL_TOKEN_GOOD),
    ROW("blanks in the JSON", " { \"alg\" :\n\"HS256\" } ", SL_TOKEN_GOOD),
    ROW("an escape in the JSON", "{\"alg\":\"HS\\u0032\\u00356\"}",
        SL_TOKEN_GOOD),
    ROW("none", "{\"alg\":\"none\"}", SL_TOKEN_ALGORITHM),
    ROW("nOnE", "{\"alg\":\"nOnE\"}", SL_TOKEN_ALGORITHM),
    ROW("hs256 in small letters", "{\"alg\":\"hs256\"}", SL_TOKEN_ALGORITHM),
    ROW("a blank behind it", "{\"alg\":\"HS256 \"}", SL_TOKEN_ALGORITHM),
    ROW("an empty alg", "{\"alg\":\"\"}", SL_TOKEN_ALGORITHM),
    ROW("no alg", "{}", SL_TOKEN_MALFORMED),
    ROW("alg is a number", "{\"alg\":256}", SL_TOKEN_MALFORMED),
    ROW("alg is a list", "{\"alg\":[\"HS256\"]}", SL_TOKEN_MALFORMED),
    ROW("alg is null", "{\"alg\":null}", SL_TOKEN_MALFORMED),
    ROW("alg twice", "{\"alg\":\"HS256\",\"alg\":\"HS256\"}",
        SL_TOKEN_MALFORMED),
    ROW("alg twice, once escaped", "{\"alg\":\"HS256\",\"\\u0061lg\":\"none\"}",
        SL_TOKEN_MALFORMED),
    ROW("something behind", "{\"alg\":\"HS256\"}{}", SL_TOKEN_MALFORMED),
    ROW("a list", "[\"HS256\"]", SL_TOKEN_MALFORMED),
    ROW("a text", "\"HS256\"", SL_TOKEN_MALFORMED),
    ROW("NUL in a text", "{\"alg\":\"HS256\",\"x\":\"\\u0000\"}",
        SL_TOKEN_MALFORMED),
    ROW("not UTF-8", "{\"alg\":\"HS256\",\"x\":\"\xff\"}", SL_TOKEN_MALFORMED),
    ROW("eight deep", "{\"alg\":\"HS256\",\"x\":[[[[[[[1]]]]]]]}",
        SL_TOKEN_GOOD),
    ROW("nine deep", "{\"alg\":\"HS256\",\"x\":[[[[[[[[1]]]]]]]]}",
        SL_TOKEN_TOO_LARGE),
    ROW("brackets in texts are not deep",
        "{\"alg\":\"HS256\",\"x\":\"[[[[\\\"[[[[[[\"}", SL_TOKEN_GOOD),
    ROW("crit", "{\"alg\":\"HS256\",\"crit\":[\"x\"],\"x\":1}",
        SL_TOKEN_HEADER),
    ROW("crit, empty", "{\"alg\":\"HS256\",\"crit\":[]}", SL_TOKEN_HEADER),
    ROW("b64", "{\"alg\":\"HS256\",\"b64\":true}", SL_TOKEN_HEADER),
    ROW("zip", "{\"alg\":\"HS256\",\"zip\":\"DEF\"}", SL_TOKEN_HEADER),
    ROW("jku", "{\"alg\":\"HS256\",\"jku\":\"http://x/\"}", SL_TOKEN_HEADER),
    ROW("x5u", "{\"alg\":\"HS256\",\"x5u\":\"http://x/\"}", SL_TOKEN_HEADER),
    ROW("x5c", "{\"alg\":\"HS256\",\"x5c\":[]}", SL_TOKEN_HEADER),
    ROW("jwk", "{\"alg\":\"HS256\",\"jwk\":{\"kty\":\"oct\"}}",
        SL_TOKEN_HEADER),
    ROW("jwk, null", "{\"alg\":\"HS256\",\"jwk\":null}", SL_TOKEN_HEADER),
    ROW("kid is a number", "{\"alg\":\"HS256\",\"kid\":1}", SL_TOKEN_MALFORMED),
};

TEST(fields)
{
    for (size_t i = 0; i < SL_LEN(fields); i++) {
        CASE(fields[i].why);
        CHECK_FAULT(
            made_verify(secret, &any, made(fields[i].header, PAYLOAD), NOW),
            fields[i].fault);
    }
}

TEST(algorithms)
{
    struct sl_token_rules only = {.algorithms = SL_ALG_HS384};
    struct sl_keyset *pinned = made_set(SL_ALG_HS512);
    struct sl_str token;

    CASE("the rules and the key must both allow it");
    CHECK_FAULT(made_verify(secret, &only, made(HS256, PAYLOAD), NOW),
                SL_TOKEN_ALGORITHM);
    token =
        made_bytes("{\"alg\":\"HS384\"}", PAYLOAD, strlen(PAYLOAD), "SHA384");
    CHECK_FAULT(made_verify(secret, &only, token, NOW), SL_TOKEN_GOOD);
    CHECK_FAULT(made_verify(pinned, &any, token, NOW), SL_TOKEN_NO_KEY);
    token =
        made_bytes("{\"alg\":\"HS512\"}", PAYLOAD, strlen(PAYLOAD), "SHA512");
    CHECK_FAULT(made_verify(pinned, &any, token, NOW), SL_TOKEN_GOOD);

    CASE("a MAC of another hash");
    token =
        made_bytes("{\"alg\":\"HS512\"}", PAYLOAD, strlen(PAYLOAD), "SHA256");
    CHECK_FAULT(made_verify(pinned, &any, token, NOW), SL_TOKEN_SIGNATURE);
    sl_keyset_unref(pinned);
}

/* An HMAC whose secret is what everybody can read must not be believed. */
TEST(confusion)
{
    struct sl_keyset *set = made_read("{\"kty\":\"RSA\",\"kid\":\"r\",\"e\":"
                                      "\"AQAB\",\"n\":\"" RSA_N "\"}",
                                      0);

    CASE("HS256 by a public key");
    CHECK_FAULT(made_verify(set, &any, made(HS256, PAYLOAD), NOW),
                SL_TOKEN_NO_KEY);
    CHECK_FAULT(made_verify(set, &any,
                            made("{\"alg\":\"HS256\",\"kid\":\"r\"}", PAYLOAD),
                            NOW),
                SL_TOKEN_ALGORITHM);
    CASE("a short signature by an RSA key");
    CHECK_FAULT(made_verify(set, &any,
                            made("{\"alg\":\"RS256\",\"kid\":\"r\"}", PAYLOAD),
                            NOW),
                SL_TOKEN_SIGNATURE);
    sl_keyset_unref(set);
}

#define OCT(kid, k) "{\"kty\":\"oct\"," kid "\"k\":\"" k "\"}"
#define OTHER       "MTIzNDU2MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA"

/* made_secret is OCT_64; the others are other keys. */
TEST(names)
{
    static const struct {
        const char *why, *set, *kid;
        enum sl_token_error fault;
    } rows[] = {
        ROW("by its name",
            OCT("\"kid\":\"b\",", OTHER) "," OCT("\"kid\":\"a\",", OCT_64), "a",
            SL_TOKEN_GOOD),
        ROW("by another's name",
            OCT("\"kid\":\"b\",", OTHER) "," OCT("\"kid\":\"a\",", OCT_64), "b",
            SL_TOKEN_SIGNATURE),
        ROW("by an unknown name",
            OCT("\"kid\":\"b\",", OTHER) "," OCT("\"kid\":\"a\",", OCT_64), "c",
            SL_TOKEN_NO_KEY),
        ROW("without a name all are tried",
            OCT("\"kid\":\"b\",", OTHER) "," OCT("\"kid\":\"a\",", OCT_64),
            NULL, SL_TOKEN_GOOD),
        ROW("the only key without a name serves any",
            OCT("\"kid\":\"b\",", OTHER) "," OCT("", OCT_64), "c",
            SL_TOKEN_GOOD),
        ROW("but not one that has its own",
            OCT("\"kid\":\"b\",", OTHER) "," OCT("", OCT_64), "b",
            SL_TOKEN_SIGNATURE),
        ROW("two keys without a name serve none that has one",
            OCT("", OTHER) "," OCT("", OCT_64), "c", SL_TOKEN_NO_KEY),
        ROW("the empty name is a name", OCT("\"kid\":\"\",", OCT_64), "",
            SL_TOKEN_GOOD),
        ROW("a path is a name like others",
            OCT("\"kid\":\"../../dev/null\",", OCT_64), "../../dev/null",
            SL_TOKEN_GOOD),
        ROW("four are tried",
            OCT("", OTHER) "," OCT("", OTHER) "," OCT("", OTHER) "," OCT(
                "", OCT_64),
            NULL, SL_TOKEN_GOOD),
        ROW("and not five",
            OCT("", OTHER) "," OCT("", OTHER) "," OCT("", OTHER) "," OCT(
                "", OTHER) "," OCT("", OCT_64),
            NULL, SL_TOKEN_SIGNATURE),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char json[2048], header[256];
        struct sl_keyset *set;

        CASE(rows[i].why);
        snprintf(json, sizeof(json), "{\"keys\":[%s]}", rows[i].set);
        set = made_read(json, SL_ALG_HMAC);
        snprintf(header, sizeof(header), "{\"alg\":\"HS256\"%s%s%s}",
                 rows[i].kid ? ",\"kid\":\"" : "",
                 rows[i].kid ? rows[i].kid : "", rows[i].kid ? "\"" : "");
        CHECK_FAULT(made_verify(set, &any, made(header, PAYLOAD), NOW),
                    rows[i].fault);
        if (rows[i].fault == SL_TOKEN_NO_KEY)
            CHECK(sl_str_eq(made_kid, sl_str_c(rows[i].kid)));
        else
            CHECK(!made_kid.at);
        sl_keyset_unref(set);
    }
}

TEST(sizes)
{
    static char payload[8000], header[512];
    char name[130] = "";
    struct sl_str token;
    size_t len;

    CASE("a name of 128 bytes, and one more");
    for (size_t kid = 128; kid <= 129; kid++) {
        memset(name, 'k', kid);
        snprintf(header, sizeof(header), "{\"alg\":\"HS256\",\"kid\":\"%s\"}",
                 name);
        CHECK_FAULT(made_verify(secret, &any, made(header, PAYLOAD), NOW),
                    kid == 128 ? SL_TOKEN_GOOD : SL_TOKEN_TOO_LARGE);
    }

    CASE("a token of 8 KiB, and a longer one");
    for (len = 6000; len < 6200; len++) {
        int head =
            snprintf(payload, sizeof(payload), "{\"exp\":2000000000,\"x\":\"");

        memset(payload + head, 'x', len - (size_t)head - 2);
        memcpy(payload + len - 2, "\"}", 3);
        token = made(HS256, payload);
        CHECK_FAULT(made_verify(secret, &any, token, NOW),
                    token.len <= 8192 ? SL_TOKEN_GOOD : SL_TOKEN_TOO_LARGE);
    }
    CHECK(token.len > 8192);
}

/* TLS on the same thread looks into the queue. */
TEST(queue)
{
    struct sl_keyset *set = made_read("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":"
                                      "\"" P256_X "\",\"y\":\"" P256_Y "\"}",
                                      0);
    struct sl_str token =
        made_bytes("{\"alg\":\"ES256\"}", PAYLOAD, strlen(PAYLOAD), "SHA512");

    CASE("what OpenSSL says stays with us");
    CHECK_FAULT(made_verify(set, &any, token, NOW), SL_TOKEN_SIGNATURE);
    CHECK_EQ(ERR_peek_error(), 0);
    sl_keyset_unref(set);
}

int main(void)
{
    secret = made_set(0);
    RUN_TESTS();
    sl_keyset_unref(secret);
    made_done();
    return CHECK_DONE();
}
