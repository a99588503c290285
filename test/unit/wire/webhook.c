/* webhook.c -- what the headers of signed webhooks say. */
#include "wire/webhook.h"

#include "check.h"
#include "row.h"

#define MAC64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define MACHEX                                                                 \
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

#define S SL_WEBHOOK_STANDARD
#define T SL_WEBHOOK_STRIPE
#define H SL_WEBHOOK_HMAC
enum {
    GOOD = SL_WEBHOOK_GOOD,
    BAD = SL_WEBHOOK_MALFORMED,
    NONE = SL_WEBHOOK_NO_SIGNATURE,
};

#define FOUR "v1," MAC64 " v1," MAC64 " v1," MAC64 " v1," MAC64 " "

static const struct {
    const char *why;
    int scheme;
    const char *id, *timestamp, *signature;
    int fault;
    unsigned count;
} rows[] = {
    ROW("one", S, "m", "5", "v1," MAC64, GOOD, 1),
    ROW("two, and blanks", S, "m", "5", "v1," MAC64 " v1," MAC64 " ", GOOD, 2),
    ROW("others beside it", S, "m", "5", "v1a,x v2,y v1," MAC64, GOOD, 1),
    ROW("only others", S, "m", "5", "v1a,x v2," MAC64, NONE, 0),
    ROW("nothing", S, "m", "5", "", NONE, 0),
    ROW("no version", S, "m", "5", MAC64, NONE, 0),
    ROW("too short", S, "m", "5", "v1,AAEC", NONE, 0),
    ROW("hex", S, "m", "5", "v1," MACHEX, NONE, 0),
    ROW("a bad one and a good one", S, "m", "5", "v1,AAEC v1," MAC64, GOOD, 1),
    ROW("sixteen", S, "m", "5", FOUR FOUR FOUR FOUR, GOOD, 16),
    ROW("seventeen", S, "m", "5", FOUR FOUR FOUR FOUR "v1," MAC64, BAD, 0),
    ROW("no id", S, "", "5", "v1," MAC64, BAD, 0),
    ROW("an id with a dot", S, "m.5", "5", "v1," MAC64, BAD, 0),
    ROW("an id with a blank", S, "m 5", "5", "v1," MAC64, BAD, 0),
    ROW("no time", S, "m", "", "v1," MAC64, BAD, 0),
    ROW("a time with a sign", S, "m", "+5", "v1," MAC64, BAD, 0),
    ROW("a negative time", S, "m", "-5", "v1," MAC64, BAD, 0),
    ROW("a time with junk", S, "m", "5s", "v1," MAC64, BAD, 0),
    ROW("a time with a point", S, "m", "5.0", "v1," MAC64, BAD, 0),
    ROW("the end of time", S, "m", "4611686019", "v1," MAC64, BAD, 0),
    ROW("a second before", S, "m", "4611686017", "v1," MAC64, GOOD, 1),
    ROW("a very long time", S, "m", "184467440737095516165", "v1," MAC64, BAD,
        0),
    ROW("stripe", T, "", "", "t=5,v1=" MACHEX, GOOD, 1),
    ROW("stripe, rotating", T, "", "", "t=5,v1=" MACHEX ",v1=" MACHEX, GOOD, 2),
    ROW("stripe, in any order", T, "", "", "v1=" MACHEX " , v0=x,t=5", GOOD, 1),
    ROW("stripe, without a time", T, "", "", "v1=" MACHEX, BAD, 0),
    ROW("stripe, with two times", T, "", "", "t=5,t=5,v1=" MACHEX, BAD, 0),
    ROW("stripe, of version 0", T, "", "", "t=5,v0=" MACHEX, NONE, 0),
    ROW("stripe, in base64", T, "", "", "t=5,v1=" MAC64, NONE, 0),
    ROW("stripe, nothing", T, "", "", "", BAD, 0),
    ROW("stripe, a bad time", T, "", "", "t=,v1=" MACHEX, BAD, 0),
    ROW("hex alone", H, "", "", MACHEX, GOOD, 1),
    ROW("hex with its name", H, "", "", "sha256=" MACHEX, GOOD, 1),
    ROW("base64", H, "", "", " " MAC64 " ", GOOD, 1),
    ROW("another digest", H, "", "", "sha1=0001", NONE, 0),
    ROW("a letter too many", H, "", "", MACHEX "0", NONE, 0),
    ROW("no hex", H, "", "", "sha256=g0010203", NONE, 0),
};

TEST(rows)
{
    static struct sl_webhook_said said;

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_webhook message = {
            sl_str_c(rows[i].id),
            sl_str_c(rows[i].timestamp),
            sl_str_c(rows[i].signature),
            {"", 0}
        };

        CASE(rows[i].why);
        CHECK_EQ(sl_webhook_read((enum sl_webhook_scheme)rows[i].scheme,
                                 &message, &said),
                 rows[i].fault);
        if (rows[i].fault != GOOD)
            continue;
        CHECK_EQ(said.count, rows[i].count);
        CHECK_EQ(said.timed, rows[i].scheme != H);
        for (unsigned k = 0; k < said.count; k++)
            for (unsigned b = 0; b < SL_WEBHOOK_MAC; b++)
                CHECK_EQ(said.signs[k].bytes[b], b);
    }
}

TEST(secrets)
{
    uint8_t room[64];
    struct sl_str secret;

    CASE("a secret of standard-webhooks is decoded, with its prefix or not");
    CHECK(sl_webhook_secret(S, sl_str_c("whsec_Zm9v"), room, &secret));
    CHECK(sl_str_eq(secret, SL_STR("foo")));
    CHECK(sl_webhook_secret(S, sl_str_c("Zm9v"), room, &secret));
    CHECK(sl_str_eq(secret, SL_STR("foo")));
    CHECK(!sl_webhook_secret(S, sl_str_c("whsec_"), room, &secret));
    CHECK(!sl_webhook_secret(S, sl_str_c("whsk_Zm9v"), room, &secret));
    CHECK(!sl_webhook_secret(S, sl_str_c("not base64!"), room, &secret));
    CASE("that of others is taken as it is, prefix and all");
    CHECK(sl_webhook_secret(T, sl_str_c("whsec_Zm9v"), room, &secret));
    CHECK(sl_str_eq(secret, SL_STR("whsec_Zm9v")));
    CHECK(!sl_webhook_secret(H, sl_str_c(""), room, &secret));
}

TEST(writing)
{
    struct sl_webhook_sign sign;
    char text[SL_WEBHOOK_TEXT];

    CASE("what is written is what is read");
    for (unsigned b = 0; b < SL_WEBHOOK_MAC; b++)
        sign.bytes[b] = (uint8_t)b;
    sl_webhook_write(S, &sign, SL_STR("5"), text);
    CHECK_STR(text, "v1," MAC64);
    sl_webhook_write(T, &sign, SL_STR("5"), text);
    CHECK_STR(text, "t=5,v1=" MACHEX);
    sl_webhook_write(H, &sign, SL_STR("5"), text);
    CHECK_STR(text, "sha256=" MACHEX);
    sl_webhook_write(T, &sign, SL_STR("123456789012345678901234567890"), text);
    CHECK_EQ(strlen(text), 2 + 20 + 4 + 64);
}

TEST(words)
{
    CASE("every fault has a word and a sentence of its own");
    for (int i = 0; i < SL_WEBHOOK_FAULTS; i++)
        for (int k = 0; k < i; k++) {
            enum sl_webhook_fault a = (enum sl_webhook_fault)i;
            enum sl_webhook_fault b = (enum sl_webhook_fault)k;

            CHECK(strcmp(sl_webhook_fault_word(a), sl_webhook_fault_word(b)) !=
                  0);
            CHECK(strcmp(sl_webhook_fault_sentence(a),
                         sl_webhook_fault_sentence(b)) != 0);
        }
}

CHECK_MAIN()
