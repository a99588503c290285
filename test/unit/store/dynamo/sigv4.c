/* sigv4.c -- signatures: the values that AWS has published. */
#include "store/dynamo/aws.h"

#include "check.h"
#include "fail.h"

/* 2015-08-30T12:36:00Z */
#define AT (INT64_C(1440938160) * SL_S)

#define TOKEN                                                                  \
    "AQoDYXdzEPT//////////"                                                    \
    "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSP"  \
    "fIeoIYRqTflfKD8YUuwthAx7mSEI/"                                            \
    "qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5"   \
    "VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+"                               \
    "xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvK"  \
    "Tr4rvx3iSIlTJabIQwj2ICCR/oLxBA=="

#define H(name, value)                                                         \
    {                                                                          \
        {name, sizeof(name) - 1},                                              \
        {                                                                      \
            value, sizeof(value) - 1                                           \
        }                                                                      \
    }
#define HOST H("host", "example.amazonaws.com")
#define DATE H("x-amz-date", "20150830T123600Z")
#define FORM H("content-type", "application/x-www-form-urlencoded")

/* Of the suite aws-sig-v4-test-suite: service "service" in us-east-1. The last
 * is of the documentation of IAM. */
static const struct {
    const char *why, *method, *path, *query, *body, *service;
    struct sl_sigv4_header headers[4];
    unsigned count;
    const char *names, *signature;
} rows[] = {
  /* clang-format off */
    {"get-vanilla", "GET", "/", "", "", "service",
     {DATE, HOST}, 2, "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"post-vanilla", "POST", "/", "", "", "service",
     {HOST, DATE}, 2, "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"post-x-www-form-urlencoded", "POST", "/", "", "Param1=value1", "service",
     {HOST, FORM, DATE}, 3, "content-type;host;x-amz-date",
     "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"},
    {"get-header-key-duplicate", "GET", "/", "", "", "service",
     {HOST, H("my-header1", "value2,value2,value1"), DATE}, 3,
     "host;my-header1;x-amz-date",
     "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
    {"get-header-value-trim", "GET", "/", "", "", "service",
     {H("my-header2", " \"a   b   c\""), HOST, H("my-header1", " value1"),
      DATE}, 4, "host;my-header1;my-header2;x-amz-date",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"get-utf8", "GET", "/%E1%88%B4", "", "", "service",
     {HOST, DATE}, 2, "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-vanilla-query-order-key-case", "GET", "/",
     "Param1=value1&Param2=value2", "", "service", {HOST, DATE}, 2,
     "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"post-sts-header-before", "POST", "/", "", "", "service",
     {HOST, DATE, H("x-amz-security-token", TOKEN)}, 3,
     "host;x-amz-date;x-amz-security-token",
     "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"},
    {"ListUsers of IAM", "GET", "/", "Action=ListUsers&Version=2010-05-08", "",
     "iam",
     {H("content-type", "application/x-www-form-urlencoded; charset=utf-8"),
      H("host", "iam.amazonaws.com"), DATE}, 3, "content-type;host;x-amz-date",
     "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
  /* clang-format on */
};

static const struct sl_aws_keys keys = {
    .id = {"AKIDEXAMPLE",                              11},
    .secret = {"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", 40},
};

static struct sl_sigv4 request_of(size_t i)
{
    return (struct sl_sigv4){
        .keys = &keys,
        .region = SL_STR("us-east-1"),
        .service = sl_str_c(rows[i].service),
        .method = sl_str_c(rows[i].method),
        .path = sl_str_c(rows[i].path),
        .query = sl_str_c(rows[i].query),
        .body = sl_str_c(rows[i].body),
        .headers = rows[i].headers,
        .header_count = rows[i].count,
        .now = AT,
    };
}

TEST(vectors)
{
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_sigv4 what = request_of(i);
        struct sl_buf out;
        char want[512];

        CASE(rows[i].why);
        snprintf(want, sizeof(want),
                 "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/"
                 "%s/aws4_request, SignedHeaders=%s, Signature=%s",
                 rows[i].service, rows[i].names, rows[i].signature);
        sl_buf_init(&out, 1024, &sl_alloc_libc);
        CHECK_EQ(sl_sigv4_sign(&what, &out), 0);
        CHECK_EQ(sl_buf_addf(&out, "%c", '\0'), 0);
        CHECK_STR(out.bytes, want);
        sl_buf_done(&out);
    }
}

/* Each byte that is signed changes it. */
TEST(change)
{
    struct sl_sigv4 what = request_of(2);
    struct sl_buf out[5];

    CASE("another body, port, region or second is another signature");
    for (unsigned i = 0; i < SL_LEN(out); i++) {
        struct sl_sigv4_header moved[] = {
            H("host", "example.amazonaws.com:8000"), FORM, DATE};
        struct sl_sigv4 other = what;

        if (i == 1)
            other.body = SL_STR("Param1=value2");
        if (i == 2)
            other.headers = moved;
        if (i == 3)
            other.region = SL_STR("eu-west-1");
        if (i == 4)
            other.now += SL_S;
        sl_buf_init(&out[i], 1024, &sl_alloc_libc);
        CHECK_EQ(sl_sigv4_sign(&other, &out[i]), 0);
        for (unsigned k = 0; k < i; k++)
            CHECK(!sl_str_eq(sl_buf_str(&out[i]), sl_buf_str(&out[k])));
    }
    for (unsigned i = 0; i < SL_LEN(out); i++)
        sl_buf_done(&out[i]);
}

TEST(refused)
{
    struct sl_sigv4 what = request_of(0);
    struct sl_aws_keys long_one = keys;
    static char secret[300];
    unsigned nth = 0;
    int err;

    CASE("too many headers, a secret that is too long");
    what.header_count = SL_SIGV4_HEADERS + 1;
    struct sl_buf out;
    sl_buf_init(&out, 1024, &sl_alloc_libc);
    CHECK_EQ(sl_sigv4_sign(&what, &out), SLUICE_EINVAL);
    what = request_of(0);
    memset(secret, 'x', sizeof(secret));
    long_one.secret = (struct sl_str){secret, sizeof(secret)};
    what.keys = &long_one;
    CHECK_EQ(sl_sigv4_sign(&what, &out), SLUICE_EINVAL);
    CHECK_EQ(out.len, 0);
    sl_buf_done(&out);

    CASE("no memory: nothing is appended, nothing is lost");
    what = request_of(0);
    do {
        struct fail f = {.nth = ++nth};
        struct sl_alloc alloc = fail_alloc(&f);

        sl_buf_init(&out, 1024, &alloc);
        err = sl_sigv4_sign(&what, &out);
        CHECK(!err || (err == SLUICE_ENOMEM && out.len == 0));
        sl_buf_done(&out);
        fail_check(&f);
    } while (err && nth < 50);
    CHECK(nth > 2 && nth < 50);
}

TEST(date)
{
    char date[SL_SIGV4_DATE];

    CASE("instants");
    sl_sigv4_date(AT, date);
    CHECK_STR(date, "20150830T123600Z");
    sl_sigv4_date(0, date);
    CHECK_STR(date, "19700101T000000Z");
    sl_sigv4_date(SL_DAY - 1, date);
    CHECK_STR(date, "19700101T235959Z");
}

CHECK_MAIN()
