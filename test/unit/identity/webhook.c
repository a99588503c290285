/* webhook.c -- signatures that others have made, and what is not believed.
 *
 * Those of standard-webhooks are made by the npm package of that name, those
 * of stripe by Stripe's, that of hmac-sha256 is the example of GitHub's pages.
 */
#include "identity/webhook.h"

#include "check.h"
#include "row.h"

#define FIRST  "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define SECOND "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
#define STRIPE "whsec_test_secret_of_stripe"
#define GITHUB "It's a Secret to Everybody"

static const struct {
    int scheme;
    const char *secret, *id, *timestamp, *body, *signature;
    int64_t at; /* seconds */
} vectors[] = {
    ROW(SL_WEBHOOK_STANDARD, FIRST, "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330", "{\"test\": 2432232314}",
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", 1614265330),
    ROW(SL_WEBHOOK_STANDARD, SECOND, "msg_1", "1000", "{\"type\":\"done\"}",
        "v1,6rflWa/bJNOg0Xa3rNeaSFDTp16nDTPfkvREfAjSlg0=", 1000),
    ROW(SL_WEBHOOK_STANDARD, FIRST, "msg_2", "1000", "",
        "v1,SzzgTDZ+Kt/49jua3RKaKVPnB0oclKyQaEntkbduEsc=", 1000),
    ROW(SL_WEBHOOK_STRIPE, STRIPE, "", "",
        "{\"id\":\"evt_test\",\"object\":\"event\"}",
        "t=1492774577,v1=4b71453416e0aa4159b1e17a2a9efbaf9757b339a4ecd3b9f8bb5"
        "801a6c50934",
        1492774577),
    ROW(SL_WEBHOOK_HMAC, GITHUB, "", "", "Hello, World!",
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e"
        "17",
        0),
};

/* Rules with some secrets; of the first one, what `text` has. */
static struct sl_webhook_rules rules_of(int scheme, const char *first,
                                        const char *second)
{
    static uint8_t rooms[2][64];
    static struct sl_str secrets[2];
    struct sl_webhook_rules rules = {.scheme = (enum sl_webhook_scheme)scheme,
                                     .secrets = secrets,
                                     .secret_count = 1 + (second != NULL),
                                     .tolerance = 300 * SL_S};

    CHECK(sl_webhook_secret(rules.scheme, sl_str_c(first), rooms[0],
                            &secrets[0]));
    if (second)
        CHECK(sl_webhook_secret(rules.scheme, sl_str_c(second), rooms[1],
                                &secrets[1]));
    return rules;
}

static struct sl_webhook message_of(size_t i)
{
    return (struct sl_webhook){
        sl_str_c(vectors[i].id), sl_str_c(vectors[i].timestamp),
        sl_str_c(vectors[i].signature), sl_str_c(vectors[i].body)};
}

TEST(vectors)
{
    struct sl_webhook_seen seen;

    CASE("what others have signed is believed, and our signature is theirs");
    for (size_t i = 0; i < SL_LEN(vectors); i++) {
        struct sl_webhook_rules rules =
            rules_of(vectors[i].scheme, vectors[i].secret, NULL);
        struct sl_webhook message = message_of(i), mine = message;
        sl_ns now = vectors[i].at * SL_S;
        struct sl_webhook_sign sign;
        char text[SL_WEBHOOK_TEXT];

        CHECK_EQ(sl_webhook_verify(&rules, &message, now, &seen), 0);
        CHECK_EQ(seen.until, now + 300 * SL_S + 1);
        if (vectors[i].scheme == SL_WEBHOOK_STRIPE)
            mine.timestamp = seen.seconds;
        CHECK_EQ(sl_webhook_sign(&rules, &mine, &sign), 0);
        sl_webhook_write(rules.scheme, &sign, mine.timestamp, text);
        CHECK_STR(text, vectors[i].signature);
    }
}

/* Each byte that is signed or a signature, changed. */
TEST(changed)
{
    struct sl_webhook_rules rules = rules_of(SL_WEBHOOK_STANDARD, FIRST, NULL);
    struct sl_webhook message = message_of(0);
    struct sl_str *parts[] = {&message.id, &message.timestamp,
                              &message.signature, &message.body};
    struct sl_webhook_seen seen;

    CASE("no byte of it can be another");
    for (size_t p = 0; p < SL_LEN(parts); p++) {
        struct sl_str whole = *parts[p];

        for (size_t i = 0; i < whole.len; i++) {
            char copy[128];

            memcpy(copy, whole.at, whole.len);
            copy[i] = (char)(copy[i] == '7' ? '8' : '7');
            *parts[p] = (struct sl_str){copy, whole.len};
            CHECK(sl_webhook_verify(&rules, &message, 1614265330 * SL_S,
                                    &seen) != SL_WEBHOOK_GOOD);
        }
        *parts[p] = (struct sl_str){whole.at, whole.len - 1};
        CHECK(sl_webhook_verify(&rules, &message, 1614265330 * SL_S, &seen) !=
              SL_WEBHOOK_GOOD);
        *parts[p] = whole;
    }
}

TEST(times)
{
    struct sl_webhook_rules rules = rules_of(SL_WEBHOOK_STANDARD, FIRST, NULL);
    struct sl_webhook message = message_of(0);
    struct sl_webhook_seen seen;
    sl_ns at = 1614265330 * SL_S;

    CASE("within the tolerance, to the nanosecond");
    CHECK_EQ(sl_webhook_verify(&rules, &message, at + 300 * SL_S, &seen), 0);
    CHECK_EQ(sl_webhook_verify(&rules, &message, at + 300 * SL_S + 1, &seen),
             SL_WEBHOOK_TOO_OLD);
    CHECK_EQ(sl_webhook_verify(&rules, &message, at - 300 * SL_S, &seen), 0);
    CHECK_EQ(sl_webhook_verify(&rules, &message, at - 300 * SL_S - 1, &seen),
             SL_WEBHOOK_TOO_NEW);
    CASE("who has no secret learns nothing of our clock");
    message.body = SL_STR("another");
    CHECK_EQ(sl_webhook_verify(&rules, &message, 0, &seen),
             SL_WEBHOOK_SIGNATURE);
}

TEST(rotation)
{
    struct sl_webhook message = message_of(1);
    struct sl_webhook_seen seen;
    struct sl_webhook_rules rules =
        rules_of(SL_WEBHOOK_STANDARD, FIRST, SECOND);

    CASE("any of the secrets will do, and no other");
    CHECK_EQ(sl_webhook_verify(&rules, &message, 1000 * SL_S, &seen), 0);
    message.signature = SL_STR("v1,AAAA v1,6rflWa/bJNOg0Xa3rNeaSFDTp16nDTPfkvRE"
                               "fAjSlg0= v1,SzzgTDZ+Kt/49jua3RKaKVPnB0oclKyQaEn"
                               "tkbduEsc=");
    CHECK_EQ(sl_webhook_verify(&rules, &message, 1000 * SL_S, &seen), 0);
    rules.secret_count = 1;
    CHECK_EQ(sl_webhook_verify(&rules, &message, 1000 * SL_S, &seen),
             SL_WEBHOOK_SIGNATURE);
    rules.secret_count = 0;
    CHECK_EQ(sl_webhook_verify(&rules, &message, 1000 * SL_S, &seen),
             SL_WEBHOOK_SIGNATURE);
}

CHECK_MAIN()
