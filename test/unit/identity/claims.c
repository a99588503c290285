/* claims.c -- what a signed token claims: times to the second, issuer,
 * audience, and how claims are called. */
#include "made.h"
#include "row.h"

#define AT(seconds) (INT64_C(seconds) * SL_S)

static struct sl_keyset *secret;

static enum sl_token_error verify_at(const char *payload, sl_ns leeway,
                                     bool needs_no_expiry, sl_ns now)
{
    struct sl_token_rules rules = {.leeway = leeway,
                                   .needs_no_expiry = needs_no_expiry};

    return made_verify(secret, &rules, made(HS256, payload), now);
}

/* exp is 1000, or as the row says. */
TEST(times)
{
    static const struct {
        const char *payload;
        sl_ns leeway, now;
        enum sl_token_error fault;
    } rows[] = {
        ROW("{\"exp\":1000}", 0, AT(0), SL_TOKEN_GOOD),
        ROW("{\"exp\":1000}", 0, AT(1000) - 1, SL_TOKEN_GOOD),
        ROW("{\"exp\":1000}", 0, AT(1000), SL_TOKEN_EXPIRED),
        ROW("{\"exp\":1000}", AT(30), AT(1030) - 1, SL_TOKEN_GOOD),
        ROW("{\"exp\":1000}", AT(30), AT(1030), SL_TOKEN_EXPIRED),
        ROW("{\"exp\":1000.0}", 0, AT(1000) - 1, SL_TOKEN_GOOD),
        ROW("{\"exp\":1e3}", 0, AT(1000), SL_TOKEN_EXPIRED),
        ROW("{\"exp\":0}", 0, 0, SL_TOKEN_EXPIRED),
        ROW("{\"exp\":1}", 0, AT(1700000000), SL_TOKEN_EXPIRED),
        ROW("{\"exp\":9007199254740992}", 0, SL_TIME_END, SL_TOKEN_GOOD),
        ROW("{\"exp\":9,\"nbf\":5}", 0, AT(5) - 1, SL_TOKEN_NOT_YET),
        ROW("{\"exp\":9,\"nbf\":5}", 0, AT(5), SL_TOKEN_GOOD),
        ROW("{\"exp\":9,\"nbf\":5}", AT(2), AT(3) - 1, SL_TOKEN_NOT_YET),
        ROW("{\"exp\":9,\"nbf\":5}", AT(2), AT(3), SL_TOKEN_GOOD),
        ROW("{\"exp\":9,\"iat\":5}", 0, AT(5) - 1, SL_TOKEN_NOT_YET),
        ROW("{\"exp\":9,\"iat\":5}", 0, AT(5), SL_TOKEN_GOOD),
        ROW("{\"exp\":9,\"iat\":5}", AT(2), AT(3) - 1, SL_TOKEN_NOT_YET),
        ROW("{\"exp\":9,\"iat\":5}", AT(2), AT(3), SL_TOKEN_GOOD),
        ROW("{\"exp\":9,\"iat\":1,\"nbf\":5}", 0, AT(4), SL_TOKEN_NOT_YET),
        ROW("{\"exp\":9,\"iat\":5,\"nbf\":1}", 0, AT(4), SL_TOKEN_NOT_YET),
        ROW("{\"exp\":9,\"nbf\":9007199254740992}", 0, AT(4), SL_TOKEN_NOT_YET),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].payload);
        CHECK_FAULT(
            verify_at(rows[i].payload, rows[i].leeway, false, rows[i].now),
            rows[i].fault);
    }

    CASE("a token that is refused for its times says which");
    CHECK_FAULT(verify_at("{\"exp\":7,\"nbf\":3}", 0, false, AT(8)),
                SL_TOKEN_EXPIRED);
    CHECK_EQ(made_token.expires, AT(7));
    CHECK_EQ(made_token.begins, AT(3));
    CHECK_EQ(made_token.claim_count, 0);
}

/* Not times; each also where the others of the three stand. */
TEST(no_times)
{
    static const char *const values[] = {
        "\"1000\"", "-1",   "-0.5",   "9007199254740993",
        "1e400",    "true", "null",   "[1000]",
        "{}",       "\"\"", "1000.5", "9223372036854775808",
        "1e20",     "1e16", "-1e400", "999999999999999999999999",
        "NaN",      "0x10", "01",     "+1",
    };
    static const char *const names[] = {"exp", "nbf", "iat"};
    char payload[128];

    CASE("what is no time");
    for (size_t i = 0; i < SL_LEN(values); i++)
        for (size_t j = 0; j < SL_LEN(names); j++) {
            snprintf(payload, sizeof(payload), "{\"%s\":%s,\"%s\":1}", names[j],
                     values[i], names[(j + 1) % 3]);
            if (!CHECK_FAULT(verify_at(payload, 0, true, AT(0)),
                             SL_TOKEN_MALFORMED))
                printf("# %s\n", payload);
        }
}

TEST(no_expiry)
{
    CASE("a token must expire, unless that is not needed");
    CHECK_FAULT(verify_at("{}", 0, false, AT(1)), SL_TOKEN_NO_EXPIRY);
    CHECK_FAULT(verify_at("{\"nbf\":1}", 0, false, AT(1)), SL_TOKEN_NO_EXPIRY);
    CHECK_FAULT(verify_at("{}", 0, true, AT(1)), SL_TOKEN_GOOD);
    CHECK_EQ(made_token.expires, SL_NS_NONE);
    CHECK_FAULT(verify_at("{\"exp\":1}", 0, true, AT(1)), SL_TOKEN_EXPIRED);
    CHECK_FAULT(verify_at("{\"exp\":9}", 0, true, AT(1)), SL_TOKEN_GOOD);
    CHECK_EQ(made_token.expires, AT(9));

    CASE("claims twice, and none at all");
    CHECK_FAULT(verify_at("{\"exp\":9,\"exp\":9}", 0, false, AT(1)),
                SL_TOKEN_MALFORMED);
    CHECK_FAULT(
        verify_at("{\"exp\":9,\"a\":{\"b\":1,\"b\":1}}", 0, false, AT(1)),
        SL_TOKEN_MALFORMED);
    CHECK_FAULT(verify_at("", 0, true, AT(1)), SL_TOKEN_MALFORMED);
    CHECK_FAULT(verify_at("[]", 0, true, AT(1)), SL_TOKEN_MALFORMED);
    CHECK_FAULT(verify_at("{\"exp\":9}x", 0, true, AT(1)), SL_TOKEN_MALFORMED);
}

TEST(for_whom)
{
    static const struct sl_str ours[] = {
        {"api", 3},
        {"web", 3}
    };
    static const struct {
        const char *payload;
        unsigned audiences;
        const char *issuer;
        enum sl_token_error fault;
    } rows[] = {
        ROW("{\"aud\":\"api\"}", 2, "", SL_TOKEN_GOOD),
        ROW("{\"aud\":\"web\"}", 2, "", SL_TOKEN_GOOD),
        ROW("{\"aud\":\"web\"}", 1, "", SL_TOKEN_AUDIENCE),
        ROW("{\"aud\":\"apis\"}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{\"aud\":\"API\"}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{\"aud\":[\"x\",\"web\"]}", 2, "", SL_TOKEN_GOOD),
        ROW("{\"aud\":[\"x\",7,\"api\"]}", 2, "", SL_TOKEN_GOOD),
        ROW("{\"aud\":[\"x\"]}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{\"aud\":[]}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{\"aud\":[[\"api\"]]}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{\"aud\":{\"api\":1}}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{\"aud\":null}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{}", 2, "", SL_TOKEN_AUDIENCE),
        ROW("{}", 0, "", SL_TOKEN_GOOD),
        ROW("{\"aud\":\"other\"}", 0, "", SL_TOKEN_GOOD),
        ROW("{\"iss\":\"https://id/\"}", 0, "https://id/", SL_TOKEN_GOOD),
        ROW("{\"iss\":\"https://id\"}", 0, "https://id/", SL_TOKEN_ISSUER),
        ROW("{\"iss\":[\"https://id/\"]}", 0, "https://id/", SL_TOKEN_ISSUER),
        ROW("{\"iss\":null}", 0, "https://id/", SL_TOKEN_ISSUER),
        ROW("{}", 0, "https://id/", SL_TOKEN_ISSUER),
        ROW("{\"iss\":\"other\"}", 0, "", SL_TOKEN_GOOD),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_token_rules rules = {.issuer = sl_str_c(rows[i].issuer),
                                       .audiences = ours,
                                       .audience_count = rows[i].audiences,
                                       .needs_no_expiry = true};

        CASE(rows[i].payload);
        CHECK_FAULT(
            made_verify(secret, &rules, made(HS256, rows[i].payload), AT(1)),
            rows[i].fault);
    }
}

TEST(texts)
{
    CASE("claims are texts");
    CHECK_FAULT(
        verify_at("{\"sub\":\"ann\",\"n\":42,\"m\":-9223372036854775808,"
                  "\"yes\":true,\"no\":false,\"none\":null,\"half\":0.5,"
                  "\"empty\":\"\",\"u\":\"\\u00e9\\ud83d\\ude00\","
                  "\"realm\":{\"role\":\"admin\",\"deep\":{\"er\":1}}}",
                  0, true, AT(1)),
        SL_TOKEN_GOOD);
    CHECK_STR(made_claim("sub"), "ann");
    CHECK_STR(made_claim("n"), "42");
    CHECK_STR(made_claim("m"), "-9223372036854775808");
    CHECK_STR(made_claim("yes"), "true");
    CHECK_STR(made_claim("no"), "false");
    CHECK_STR(made_claim("none"), "");
    CHECK_STR(made_claim("half"), "");
    CHECK_STR(made_claim("u"), "\xc3\xa9\xf0\x9f\x98\x80");
    CHECK_STR(made_claim("realm.role"), "admin");
    CHECK_STR(made_claim("realm.deep.er"), "1");
    CHECK_STR(made_claim("realm"), "");
    CHECK_EQ(made_token.claim_count, 9);
    CHECK(sl_str_eq(made_token.claims[0].path, SL_STR("sub")));
    CHECK(sl_str_eq(made_token.claims[8].path, SL_STR("realm.deep.er")));

    CASE("lists of texts are joined, if that can be undone");
    CHECK_FAULT(verify_at("{\"roles\":[\"a\",\"b\",\"c\"],\"one\":[\"x\"],"
                          "\"none\":[],\"two\":[\"a b\",\"c\"],"
                          "\"hole\":[\"a\",\"\"],\"mixed\":[\"a\",1],"
                          "\"lists\":[[\"a\"]]}",
                          0, true, AT(1)),
                SL_TOKEN_GOOD);
    CHECK_STR(made_claim("roles"), "a b c");
    CHECK_STR(made_claim("one"), "x");
    CHECK_EQ(made_token.claim_count, 2);

    CASE("two claims of one path");
    CHECK_FAULT(verify_at("{\"a.b\":1,\"a\":{\"b\":2}}", 0, true, AT(1)),
                SL_TOKEN_MALFORMED);
    CHECK_FAULT(verify_at("{\"a\":{\"b\":2},\"a.b\":1}", 0, true, AT(1)),
                SL_TOKEN_MALFORMED);
}

TEST(bounds)
{
    static char payload[8192];
    size_t len;

    CASE("64 claims, and one more");
    for (unsigned most = 64; most <= 65; most++) {
        len = (size_t)snprintf(payload, sizeof(payload), "{");
        for (unsigned i = 0; i < most; i++)
            len += (size_t)snprintf(payload + len, sizeof(payload) - len,
                                    "%s\"c%u\":%u", i ? "," : "", i, i);
        snprintf(payload + len, sizeof(payload) - len, "}");
        CHECK_FAULT(verify_at(payload, 0, true, AT(1)),
                    most == 64 ? SL_TOKEN_GOOD : SL_TOKEN_TOO_LARGE);
    }

    CASE("names of 256 bytes, and longer ones, which are left out");
    for (unsigned name = 256; name <= 257; name++) {
        snprintf(payload, sizeof(payload), "{\"%0*d\":\"v\",\"\":\"w\"}",
                 (int)name, 7);
        CHECK_FAULT(verify_at(payload, 0, true, AT(1)), SL_TOKEN_GOOD);
        CHECK_EQ(made_token.claim_count, name == 256);
    }

    CASE("many members of a long name fit");
    len = (size_t)snprintf(payload, sizeof(payload), "{\"%0*d\":{", 250, 7);
    for (unsigned i = 0; i < 500; i++)
        len += (size_t)snprintf(payload + len, sizeof(payload) - len,
                                "%s\"%u\":{}", i ? "," : "", i);
    snprintf(payload + len, sizeof(payload) - len, "}}");
    CHECK_FAULT(verify_at(payload, 0, true, AT(1)), SL_TOKEN_GOOD);
}

TEST(signature_only)
{
    struct sl_token_rules rules = {.signature_only = true};

    CASE("with the signature alone, payloads are any bytes");
    CHECK_FAULT(made_verify(secret, &rules,
                            made_bytes(HS256, "\0\xff", 2, "SHA256"), AT(1)),
                SL_TOKEN_GOOD);
    CHECK_EQ(made_token.claim_count, 0);
    CHECK_FAULT(made_verify(secret, &rules, made(HS256, ""), AT(1)),
                SL_TOKEN_GOOD);
}

TEST(words)
{
    CASE("each fault has a word of its own, and a sentence");
    for (unsigned i = 0; i < SL_TOKEN_ERRORS; i++) {
        CHECK(strlen(sl_token_error_sentence(i)) > 10);
        CHECK(strspn(sl_token_error_word(i), "abcdefghijklmnopqrstuvwxyz_") ==
              strlen(sl_token_error_word(i)));
        for (unsigned j = 0; j < i; j++)
            CHECK(strcmp(sl_token_error_word(i), sl_token_error_word(j)));
    }
}

int main(void)
{
    secret = made_set(0);
    RUN_TESTS();
    sl_keyset_unref(secret);
    made_done();
    return CHECK_DONE();
}
