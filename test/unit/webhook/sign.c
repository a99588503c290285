/* sign.c -- signatures that others verify.
 *
 * The vector of v1 is from the npm package standardwebhooks; that of ed25519 is
 * the key of RFC 8032, test 1, whose signatures are deterministic.
 */
#include "webhook/sign.h"

#include <openssl/evp.h>

#include "check.h"
#include "identity/webhook.h"

#define FIRST  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SECOND "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
#define SEED   "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
#define PUBLIC "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="

static const struct sl_webhook message = {
    .id = {"msg_p5jXN8AQM9LWM0D4loKWxJek", 28},
    .timestamp = {"1614265330",                   10},
    .body = {"{\"test\": 2432232314}",       20},
};

static struct sl_webhook_secrets *known;

static const char *sign(const char *a, const char *b, int *err)
{
    static struct sl_buf out;
    struct sl_str secrets[] = {sl_str_c(a), sl_str_c(b)};

    if (out.alloc)
        sl_buf_done(&out);
    sl_buf_init(&out, 4096, &sl_alloc_libc);
    *err = sl_webhook_signatures(known, &message, secrets, b ? 2 : 1, &out);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    return out.bytes;
}

TEST(v1)
{
    const char *text;
    int err;

    CASE("v1 is what standardwebhooks makes");
    text = sign(FIRST, NULL, &err);
    CHECK_EQ(err, 0);
    CHECK_STR(text, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/* Our own verification accepts a header by any of the secrets. */
static bool verifies(const char *text, const char *secret)
{
    uint8_t room[64];
    struct sl_str key;
    struct sl_webhook_rules rules = {.scheme = SL_WEBHOOK_STANDARD,
                                     .secrets = &key,
                                     .secret_count = 1,
                                     .tolerance = 300 * SL_S};
    struct sl_webhook got = message;
    struct sl_webhook_seen seen;

    got.signature = sl_str_c(text);
    CHECK(sl_webhook_secret(SL_WEBHOOK_STANDARD, sl_str_c(secret), room, &key));
    return sl_webhook_verify(&rules, &got, INT64_C(1614265330) * SL_S, &seen) ==
           SL_WEBHOOK_GOOD;
}

TEST(rotation)
{
    const char *text;
    int err;

    CASE("with two secrets, both verify, and a third does not");
    text = sign(FIRST, SECOND, &err);
    CHECK_EQ(err, 0);
    CHECK(verifies(text, FIRST));
    CHECK(verifies(text, SECOND));
    CHECK(!verifies(text, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx"));
    CASE("beside v1a, too");
    text = sign(SEED, FIRST, &err);
    CHECK_EQ(err, 0);
    CHECK(verifies(text, FIRST));
}

TEST(v1a)
{
    static const char content[] =
        "msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{\"test\": 2432232314}";
    char shown[SL_WEBHOOK_SECRET_TEXT];
    uint8_t bytes[96], public[48];
    size_t len, public_len;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY *key;
    const char *text;
    int err;

    CASE("v1a verifies with the public key that is shown");
    CHECK(sl_webhook_secret_show(SL_STR(SEED), shown));
    CHECK_STR(shown, PUBLIC);
    text = sign(SEED, NULL, &err);
    CHECK_EQ(err, 0);
    CHECK(strncmp(text, "v1a,", 4) == 0);
    CHECK(sl_base64_decode(sl_str_c(text + 4), bytes, &len));
    CHECK_EQ(len, 64);
    CHECK(sl_base64_decode(sl_str_c(PUBLIC + 5), public, &public_len));
    key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public, 32);
    CHECK_EQ(EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key), 1);
    CHECK_EQ(EVP_DigestVerify(ctx, bytes, 64, (const uint8_t *)content,
                              sizeof(content) - 1),
             1);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
}

TEST(secrets)
{
    char a[SL_WEBHOOK_SECRET_TEXT], b[SL_WEBHOOK_SECRET_TEXT];
    char shown[SL_WEBHOOK_SECRET_TEXT];
    int err;

    CASE("secrets that are made can sign, and differ");
    CHECK_EQ(sl_webhook_secret_make(false, a), 0);
    CHECK_EQ(sl_webhook_secret_make(false, b), 0);
    CHECK(strcmp(a, b) != 0);
    CHECK(sl_webhook_secret_ok(sl_str_c(a)));
    CHECK(sl_webhook_secret_show(sl_str_c(a), shown));
    CHECK_STR(shown, a);
    CHECK(verifies(sign(a, NULL, &err), a));
    CHECK_EQ(sl_webhook_secret_make(true, a), 0);
    CHECK(sl_webhook_secret_ok(sl_str_c(a)));
    CHECK(sl_webhook_secret_show(sl_str_c(a), shown));
    CHECK(strncmp(shown, "whpk_", 5) == 0);
    CASE("other texts are no secrets");
    CHECK(!sl_webhook_secret_ok(SL_STR("")));
    CHECK(!sl_webhook_secret_ok(SL_STR("secret")));
    CHECK(!sl_webhook_secret_ok(SL_STR("whsec_")));
    CHECK(!sl_webhook_secret_ok(SL_STR("whsec_c2hvcnQ=")));
    CHECK(!sl_webhook_secret_ok(SL_STR("whsk_c2hvcnQ=")));
    CHECK(!sl_webhook_secret_ok(SL_STR(PUBLIC)));
    CHECK(!sl_webhook_secret_show(SL_STR("x"), shown));
    sign("whsec_c2hvcnQ=", NULL, &err);
    CHECK_EQ(err, SLUICE_ECONF);
}

/* More secrets than are kept: each takes the place of another one. */
TEST(prepared)
{
    char made[600][SL_WEBHOOK_SECRET_TEXT];
    unsigned good = 0;
    int err;

    known = sl_webhook_secrets_new(&sl_alloc_libc);
    CHECK(known);
    CASE("a prepared secret signs the same, each time");
    for (int i = 0; i < 3; i++)
        CHECK_STR(sign(FIRST, NULL, &err),
                  "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    CASE("beside another one");
    CHECK(verifies(sign(SECOND, FIRST, &err), FIRST));
    CHECK(verifies(sign(SECOND, FIRST, &err), SECOND));
    CHECK(verifies(sign(SEED, FIRST, &err), FIRST));
    CASE("a text that is no secret is refused, and not kept");
    for (int i = 0; i < 2; i++) {
        sign("whsec_c2hvcnQ=", NULL, &err);
        CHECK_EQ(err, SLUICE_ECONF);
        sign("whsk_c2hvcnQ=", NULL, &err);
        CHECK_EQ(err, SLUICE_ECONF);
    }
    CASE("many secrets, twice");
    for (unsigned i = 0; i < SL_LEN(made); i++)
        CHECK_EQ(sl_webhook_secret_make(false, made[i]), 0);
    for (unsigned i = 0; i < 2 * SL_LEN(made); i++) {
        const char *secret = made[i % SL_LEN(made)];

        good += verifies(sign(secret, NULL, &err), secret);
    }
    CHECK_EQ(good, 2 * SL_LEN(made));
    sl_webhook_secrets_free(known);
    known = NULL;
}

CHECK_MAIN()
