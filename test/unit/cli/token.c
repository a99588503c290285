/* token.c -- sluice token verify: what it prints, and what it says. */
#include <unistd.h>

#include "send.h"

/* HS256 under "0123456789abcdef0123456789abcdef", made by another program:
 * {"alg":"HS256","kid":"a"} and {"sub":"ann","aud":"api","iss":"id",
 * "nbf":1000,"exp":2000,"realm":{"role":"x"}}. */
#define HEADER "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ"
#define PAYLOAD                                                                \
    "eyJzdWIiOiJhbm4iLCJhdWQiOiJhcGkiLCJpc3MiOiJpZCIsIm5iZiI6MTAwMCwiZXhwIjoy" \
    "MDAwLCJyZWFsbSI6eyJyb2xlIjoieCJ9fQ"
#define SIGNATURE "IcrO6cDeTgYZ8EdCcT2l7DdFaqtqT2NG-cSzOqXdjlI"
#define TOKEN     HEADER "." PAYLOAD "." SIGNATURE

#define K "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"

static char keys[] = "/tmp/sluice-token-XXXXXX";

static void write_keys(const char *text)
{
    FILE *file = fopen(keys, "we");

    if (!file || fputs(text, file) < 0 || fclose(file))
        abort();
}

static void begin(void)
{
    int fd = mkstemp(keys);

    if (fd < 0)
        abort();
    close(fd);
    write_keys("{\"keys\":[{\"kty\":\"oct\",\"kid\":\"a\",\"k\":\"" K "\"}]}");
}

#define AT(instant) "--jwks", keys, "--now", "1970-01-01T00:" instant "Z"

TEST(good)
{
    CASE("a good token: its claims");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), TOKEN), 0);
    CHECK_STR(sent_out, "sub         ann\n"
                        "aud         api\n"
                        "iss         id\n"
                        "nbf         1000\n"
                        "exp         2000\n"
                        "realm.role  x\n");
    CHECK_STR(sent_err, "");

    CASE("as JSON");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), "-o", "json", TOKEN), 0);
    CHECK_STR(sent_out,
              "{\"verified\":true,\"expires\":\"1970-01-01T00:33:20Z\","
              "\"claims\":{\"sub\":\"ann\",\"aud\":\"api\",\"iss\":\"id\","
              "\"nbf\":\"1000\",\"exp\":\"2000\",\"realm.role\":\"x\"}}\n");

    CASE("from standard input, with the end of its line");
    CHECK_EQ(SEND_IN(TOKEN "\r\n", "token", "verify", AT("20:00"), "-"), 0);
    CHECK_EQ(SEND_IN(" " TOKEN, "token", "verify", AT("20:00"), "-"), 1);
    CHECK_EQ(SEND_IN("", "token", "verify", AT("20:00"), "-"), 1);

    CASE("all that can be asked for at once");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), "--algorithms", "RS256,HS256",
                  "--issuer", "id", "--audience", "api", "--leeway", "5m",
                  TOKEN),
             0);

    CASE("the signature alone");
    CHECK_EQ(SEND("token", "verify", "--jwks", keys, "--signature-only", TOKEN),
             0);
    CHECK_STR(sent_out, "the signature is valid\n");
    CHECK_EQ(SEND("token", "verify", "--jwks", keys, "--signature-only", "-o",
                  "json", TOKEN),
             0);
    CHECK_STR(sent_out, "{\"verified\":true,\"expires\":null,\"claims\":{}}\n");
}

#define NOT(why)                                                               \
    do {                                                                       \
        CHECK_STR(sent_out, "");                                               \
        CHECK_STR(sent_err, "sluice token: " why "\n");                        \
    } while (0)

TEST(refused)
{
    CASE("to the second: expired, and not yet");
    CHECK_EQ(SEND("token", "verify", AT("33:19"), TOKEN), 0);
    CHECK_EQ(SEND("token", "verify", AT("33:20"), TOKEN), 1);
    NOT("the token expired at 1970-01-01T00:33:20Z, 0s ago");
    CHECK_EQ(SEND("token", "verify", AT("38:20"), TOKEN), 1);
    NOT("the token expired at 1970-01-01T00:33:20Z, 5m ago");
    CHECK_EQ(SEND("token", "verify", AT("33:49"), "--leeway", "30s", TOKEN), 0);
    CHECK_EQ(SEND("token", "verify", AT("33:50"), "--leeway", "30s", TOKEN), 1);
    CHECK_EQ(SEND("token", "verify", AT("16:39"), TOKEN), 1);
    NOT("the token is not valid before 1970-01-01T00:16:40Z");
    CHECK_EQ(SEND("token", "verify", AT("16:40"), TOKEN), 0);
    CHECK_EQ(SEND("token", "verify", "--jwks", keys, TOKEN), 1);
    CHECK_ERR("the token expired at 1970-01-01T00:33:20Z");

    CASE("as JSON, it is data too");
    CHECK_EQ(SEND("token", "verify", AT("38:20"), "-o", "json", TOKEN), 1);
    CHECK_STR(sent_out, "{\"verified\":false,\"reason\":\"expired\","
                        "\"message\":\"the token expired at "
                        "1970-01-01T00:33:20Z, 5m ago\"}\n");
    CHECK_ERR("sluice token: the token expired");

    CASE("another issuer, audience or algorithm");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), "--issuer", "x", TOKEN), 1);
    NOT("the token is from another issuer");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), "--audience", "x", TOKEN), 1);
    NOT("the token is for another audience");
    CHECK_EQ(
        SEND("token", "verify", AT("20:00"), "--algorithms", "HS384", TOKEN),
        1);

    CASE("forged, broken, encrypted");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), TOKEN "="), 1);
    NOT("the value is not a JWT: it must have three base64url parts that "
        "contain JSON");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), HEADER "." PAYLOAD ".AAAA"),
             1);
    NOT("the token's signature is wrong");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), "a.b.c.d.e"), 1);
    CHECK_ERR("it is encrypted (JWE)");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), ""), 1);
}

TEST(keys)
{
    CASE("keys that do not serve");
    write_keys("{\"keys\":[{\"kty\":\"oct\",\"kid\":\"b\",\"k\":\"" K "\"}]}");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), TOKEN), 1);
    CHECK_ERR("has no key with the id \"a\"");
    write_keys("{\"kty\":\"oct\",\n\"k\":}");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), TOKEN), 1);
    CHECK_ERR(":2:");
    CHECK_ERR("the JWKS is not valid JSON");
    write_keys("{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), TOKEN), 1);
    CHECK_ERR("HS256 needs 32 bytes");
    CHECK(!strstr(sent_err, "c2VjcmV0"));
    CHECK_EQ(SEND("token", "verify", "--jwks", "/no/such/file", TOKEN), 1);
    CHECK_ERR("/no/such/file: No such file");

    CASE("a private key works, and is told of");
    write_keys("{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"d\":\"AA\","
               "\"x\":\"IWzLIiAQDkXWepVfrpKyyV4bwKPSyHr_W3zME-t8cvg\"}]}");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), TOKEN), 1);
    CHECK_ERR("contains a private key");
}

TEST(slips)
{
    CASE("slips");
    CHECK_EQ(SEND("token"), 2);
    CHECK_ERR("missing argument; usage: sluice token verify --jwks FILE");
    CHECK_EQ(SEND("token", "verify", "--jwks", keys), 2);
    CHECK_EQ(SEND("token", "verify", TOKEN), 2);
    CHECK_ERR("missing keys; write: sluice token verify --jwks FILE TOKEN");
    CHECK_EQ(SEND("token", "sign", "--jwks", keys, TOKEN), 2);
    CHECK_ERR("unknown action \"sign\"");
    CHECK_EQ(SEND("token", "verify", AT("20:00"), TOKEN, "more"), 2);
    CHECK_EQ(SEND("token", "verify", "--jwks", keys, "--now", "noon", TOKEN),
             2);
    CHECK_ERR("--now: ");
    CHECK_EQ(SEND("token", "verify", "--jwks", keys, "--leeway", "x", TOKEN),
             2);
    CHECK_ERR("--leeway: ");
    CHECK_EQ(SEND("token", "verify", "--jwks", keys, "--leeway", "6m", TOKEN),
             2);
    CHECK_ERR("6m is more than the maximum of 5m");
    CHECK_EQ(
        SEND("token", "verify", "--jwks", keys, "--algorithms", "RS265", TOKEN),
        2);
    CHECK_ERR("unknown algorithm \"RS265\"; did you mean RS256?");
    CHECK_EQ(SEND("token", "verify", "--jwks", keys, "--algorithms",
                  "RS256,,ES256", TOKEN),
             2);
    CHECK_ERR("unknown algorithm \"\"; write one or more of RS256, ");
}

int main(void)
{
    begin();
    RUN_TESTS();
    send_done();
    unlink(keys);
    return CHECK_DONE();
}
