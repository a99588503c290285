/* parts.c -- addresses, clocks, names, requests and replies of DynamoDB. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "fail.h"
#include "store/dynamo/dynamo.h"
#include "store/dynamo/dynamo_int.h"

static void check_text(struct sl_str got, const char *want)
{
    if (!CHECK(sl_str_eq(got, sl_str_c(want))))
        printf("#   got %.*s, want %s\n", SL_STR_ARG(got), want);
}

/* ---- addresses ---- */

/* clang-format off */
static const struct {
    const char *text, *region, *table, *endpoint, *host, *profile;
} wheres[] = {
    {"dynamodb://eu-west-1", "eu-west-1", "jobseek-users",
     "https://dynamodb.eu-west-1.amazonaws.com/",
     "dynamodb.eu-west-1.amazonaws.com", "PROFILE"},
    {"dynamodb://cn-north-1/my_table.x", "cn-north-1", "my_table.x",
     "https://dynamodb.cn-north-1.amazonaws.com.cn/",
     "dynamodb.cn-north-1.amazonaws.com.cn", "PROFILE"},
    {"dynamodb://local/abc?endpoint=http://127.0.0.1:8000", "local", "abc",
     "http://127.0.0.1:8000/", "127.0.0.1:8000", "PROFILE"},
    {"dynamodb://local/abc?endpoint=http%3A%2F%2F[::1]:80/&profile=USER%23x",
     "local", "abc", "http://[::1]:80/", "[::1]", "USER#x"},
    {"dynamodb://local/abc?endpoint=https://h:443", "local", "abc",
     "https://h:443/", "h", "PROFILE"},
};

static const struct {
    const char *text, *why;
} refused[] = {
    {"redis://x", "the table is missing; write dynamodb://REGION/TABLE"},
    {"dynamodb://", "dynamodb:// needs a region; write "
                    "dynamodb://eu-west-1/TABLE"},
    {"dynamodb://eu/ab", "\"ab\" is not a table name: 3 to 255 letters, "
                         "digits, '_', '-' or '.'"},
    {"dynamodb://eu/a\"b", "\"a\"b\" is not a table name: 3 to 255 letters, "
                           "digits, '_', '-' or '.'"},
    {"dynamodb://eu/abc?endpoint=ftp://x", "\"ftp://x\" is not an endpoint; "
     "write http://HOST:PORT or https://HOST"},
    {"dynamodb://eu/abc?endpoint=http://a/b", "\"http://a/b\" is not an "
     "endpoint; write http://HOST:PORT or https://HOST"},
    {"dynamodb://eu/abc?endpont=http://a", "unknown option \"endpont\" of "
     "dynamodb://; did you mean endpoint"},
    {"dynamodb://eu/abc?profile=", "profile must be a sort key like PROFILE, "
     "not \"\""},
};
/* clang-format on */

TEST(where)
{
    struct sl_arena arena;

    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(wheres); i++) {
        struct sl_dynamo_url where;
        struct sl_diag why = {.sentence = ""};

        CASE(wheres[i].text);
        if (!CHECK_EQ(sl_dynamo_url_read(sl_str_c(wheres[i].text), &arena,
                                         &where, &why),
                      0))
            continue;
        check_text(where.region, wheres[i].region);
        check_text(where.table, wheres[i].table);
        CHECK_STR(where.endpoint, wheres[i].endpoint);
        check_text(where.host, wheres[i].host);
        check_text(where.profile, wheres[i].profile);
    }
    for (size_t i = 0; i < SL_LEN(refused); i++) {
        struct sl_dynamo_url where;
        struct sl_diag why = {.sentence = ""};

        CASE(refused[i].text);
        CHECK_EQ(
            sl_dynamo_url_read(sl_str_c(refused[i].text), &arena, &where, &why),
            SLUICE_ECONF);
        CHECK_STR(why.sentence, refused[i].why);
    }
    sl_arena_done(&arena);
}

/* ---- clocks ---- */

TEST(date)
{
    sl_ns at = 0;

    CASE("dates");
    CHECK_EQ(sl_date_read(SL_STR("Thu, 01 Jan 1970 00:00:01 GMT"), &at), 0);
    CHECK_EQ(at, SL_S);
    CHECK_EQ(sl_date_read(SL_STR("Sun, 30 Aug 2015 12:36:00 GMT"), &at), 0);
    CHECK_EQ(at, INT64_C(1440938160) * SL_S);
    CHECK(sl_date_read(SL_STR("Sun, 30 Aug 2015 12:36:00 CET"), &at) != 0);
    CHECK(sl_date_read(SL_STR("Sun, 30 Abc 2015 12:36:00 GMT"), &at) != 0);
    CHECK(sl_date_read(SL_STR("Sun, 30 Aug 2015 25:36:00 GMT"), &at) != 0);
    CHECK(sl_date_read(SL_STR(""), &at) != 0);
}

/* Whatever the difference and the delays: it is found to a second and half a
 * round trip, and never overdone. */
TEST(skew)
{
    uint64_t state = 7;

    CASE("clocks that agree are left alone; others are corrected, not more");
    for (unsigned round = 0; round < 200; round++) {
        struct sl_skew skew = {.known = false};
        sl_ns ours = 1000 * SL_DAY, real;

        state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
        real = (sl_ns)(state >> 33) % (1200 * SL_S) - 600 * SL_S;
        if (round == 0)
            real = 0;
        for (unsigned i = 0; i < 50; i++) {
            sl_ns there, date;

            state = state * UINT64_C(6364136223846793005) + 1;
            there = ours + (sl_ns)(state >> 40) % (20 * SL_MS) + real;
            date = there - there % SL_S;
            sl_skew_note(&skew, date, ours, ours + 20 * SL_MS);
            ours += 137 * SL_MS + (sl_ns)(state >> 45) % SL_S;
        }
        CHECK(skew.least <= real && real <= skew.most);
        if (real >= 0)
            CHECK(sl_skew_of(&skew) <= real &&
                  real - sl_skew_of(&skew) <= SL_S + 20 * SL_MS);
        else
            CHECK(sl_skew_of(&skew) >= real &&
                  sl_skew_of(&skew) - real <= SL_S + 20 * SL_MS);
    }

    CASE("a clock that is set begins anew");
    struct sl_skew skew = {.known = false};
    sl_skew_note(&skew, 100 * SL_S, 100 * SL_S, 100 * SL_S + SL_MS);
    CHECK_EQ(sl_skew_of(&skew), 0);
    sl_skew_note(&skew, 400 * SL_S, 101 * SL_S, 101 * SL_S);
    CHECK_EQ(sl_skew_of(&skew), 299 * SL_S);
}

/* ---- names ---- */

static void check_name(struct sl_str name, const char *want)
{
    struct sl_buf out;

    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_row_name(name, &out), 0);
    check_text(sl_buf_str(&out), want);
    sl_buf_done(&out);
}

TEST(names)
{
    static char text[SL_ROW_NAME_MOST + 1];

    CASE("names as they are");
    check_name(SL_STR("search:user:123"), "search:user:123");
    check_name(SL_STR("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");

    CASE("no UTF-8, too long, or like one of ours: by a hash");
    check_name(SL_STR("\xff"), "sha256:a8100ae6aa1940d0b663bb31cd466142ebbdbd51"
                               "87131b92d93818987832eb89");
    check_name(SL_STR(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b"
                           "934ca495991b7852b855");
    check_name(SL_STR("sha256:"), "sha256:9fd714ce6f63c3b320c944b70e80a5"
                                  "d105fd2f3e2d30ae2fa81370e223f50d07");
    memset(text, 'x', sizeof(text));
    struct sl_buf out;
    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_row_name((struct sl_str){text, sizeof(text)}, &out), 0);
    CHECK_EQ(out.len, 71);
    sl_buf_done(&out);
}

/* ---- replies ---- */

#define V1      "com.amazonaws.dynamodb.v20120810#"
#define SAYS(t) "{\"__type\":\"" V1 t "\",\"message\":\"m\"}"
#define REASON(code)                                                           \
    "{\"__type\":\"" V1 "TransactionCanceledException\","                      \
    "\"CancellationReasons\":[{\"Code\":\"None\"},{\"Code\":\"" code "\"}]}"

/* clang-format off */
static const struct {
    const char *why, *body;
    int status;
    enum sl_dynamo_status means;
    bool told, found;
    uint64_t count;
} replies[] = {
    {"an item", "{\"Item\":{\"count\":{\"N\":\"45\"},\"x\":{\"L\":[]}}}", 200,
     SL_DYNAMO_ANSWERED, true, true, 45},
    {"none", "{}", 200, SL_DYNAMO_ANSWERED, false, false, 0},
    {"after an update", "{\"Attributes\":{\"count\":{\"N\":\"1\"}}}", 200,
     SL_DYNAMO_ANSWERED, true, true, 1},
    {"a row of another program", "{\"Item\":{\"name\":{\"S\":\"x\"}}}", 200,
     SL_DYNAMO_ANSWERED, true, false, 0},
    {"no number", "{\"Item\":{\"count\":{\"S\":\"45\"}}}", 200, SL_REFUSED,
     true, false, 0},
    {"a negative one", "{\"Item\":{\"count\":{\"N\":\"-1\"}}}", 200,
     SL_REFUSED, true, false, 0},
    {"a fraction", "{\"Item\":{\"count\":{\"N\":\"1.5\"}}}", 200, SL_REFUSED,
     true, false, 0},
    {"too large", "{\"Item\":{\"count\":{\"N\":\"9999999999999999999\"}}}",
     200, SL_REFUSED, true, false, 0},
    {"keys that are left", "{\"Responses\":{},\"UnprocessedKeys\":{\"t\":{}}}",
     200, SL_THROTTLED, false, false, 0},
    {"a condition", SAYS("ConditionalCheckFailedException"), 400, SL_UNMET,
     false, false, 0},
    {"a condition, and what is there",
     "{\"__type\":\"x#ConditionalCheckFailedException\",\"Item\":"
     "{\"count\":{\"N\":\"10\"}}}", 400, SL_UNMET, true, true, 10},
    {"throttled", SAYS("ProvisionedThroughputExceededException"), 400,
     SL_THROTTLED, false, false, 0},
    {"another region", SAYS("ReplicatedWriteConflictException"), 400, SL_UNMET,
     false, false, 0},
    {"throttled, too", SAYS("ThrottlingException"), 400, SL_THROTTLED, false,
     false, 0},
    {"429", "", 429, SL_THROTTLED, false, false, 0},
    {"a transaction's condition", REASON("ConditionalCheckFailed"), 400,
     SL_UNMET, false, false, 0},
    {"another transaction", REASON("TransactionConflict"), 400, SL_UNMET,
     false, false, 0},
    {"a throttled one", REASON("ThrottlingError"), 400, SL_THROTTLED, false,
     false, 0},
    {"a wrong one", REASON("ValidationError"), 400, SL_REFUSED, false, false,
     0},
    {"500", SAYS("InternalServerError"), 500, SL_UNSURE, false, false, 0},
    {"503 of another program", "<html>", 503, SL_UNSURE, false, false, 0},
    {"200 of another program", "<html>", 200, SL_UNSURE, false, false, 0},
    {"no table", SAYS("ResourceNotFoundException"), 400, SL_NO_TABLE, false,
     false, 0},
    {"no transactions", SAYS("UnknownOperationException"), 400,
     SL_NO_TRANSACTION, false, false, 0},
    {"wrong keys", SAYS("UnrecognizedClientException"), 400, SL_FORBIDDEN,
     false, false, 0},
    {"an old signature", "{\"__type\":\"x#InvalidSignatureException\","
     "\"message\":\"Signature expired: 2 is now earlier than 1\"}", 400,
     SL_SKEWED, false, false, 0},
    {"not understood", SAYS("ValidationException"), 400, SL_REFUSED, false,
     false, 0},
};
/* clang-format on */

TEST(replies)
{
    for (size_t i = 0; i < SL_LEN(replies); i++) {
        struct sl_row row = {.name = SL_STR("n"), .is_window = true};
        char why[SL_REPLY_WHY];
        bool told;

        CASE(replies[i].why);
        CHECK_EQ(sl_dynamo_reply_read(replies[i].status,
                                      sl_str_c(replies[i].body), &row, 1,
                                      SL_DAY, &told, why),
                 replies[i].means);
        CHECK_EQ(row.found, replies[i].found);
        CHECK_EQ(row.cell.w[1], replies[i].count);
        CHECK_EQ(told, replies[i].told);
        CHECK((sl_dynamo_status_sentence(replies[i].means)[0] != '\0') ==
              (replies[i].means != SL_DYNAMO_ANSWERED));
    }
}

/* ---- requests ---- */

TEST(requests)
{
    struct sl_row row = {.name = SL_STR("a\"b"),
                         .sort = "RATE_LIMIT#0",
                         .is_window = true,
                         .reset_ms = 3600000,
                         .ttl = 7200};
    unsigned nth = 0;
    int err;

    CASE("what is asked of a window");
    struct sl_buf out;
    sl_buf_init(&out, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_row_put_count(&out, SL_STR("tab"), &row,
                              &(struct sl_row_count){.add = 2, .most = 8}),
             0);
    check_text(
        sl_buf_str(&out),
        "{\"TableName\":\"tab\",\"Key\":{\"userId\":{\"S\":\"a\\\"b\"},"
        "\"dataType\":{\"S\":\"RATE_LIMIT#0\"}},\"UpdateExpression\":"
        "\"SET #a = if_not_exists(#a, :z) + :c, #r = :r, #t = :t\","
        "\"ConditionExpression\":\"attribute_not_exists(#a) OR #a <= :m\","
        "\"ExpressionAttributeNames\":{\"#a\":\"count\",\"#r\":\"resetTime\","
        "\"#t\":\"ttl\"},\"ExpressionAttributeValues\":{\":z\":{\"N\":\"0\"},"
        "\":c\":{\"N\":\"2\"},\":m\":{\"N\":\"8\"},"
        "\":r\":{\"N\":\"3600000\"},\":t\":{\"N\":\"7200\"}},"
        "\"ReturnValues\":\"ALL_NEW\","
        "\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}");
    sl_buf_done(&out);

    CASE("no memory");
    do {
        struct fail f = {.nth = ++nth};
        struct sl_alloc alloc = fail_alloc(&f);

        sl_buf_init(&out, 4096, &alloc);
        err = sl_row_put_set(&out, SL_STR("tab"), &row, 1);
        CHECK(!err || err == SLUICE_ENOMEM);
        sl_buf_done(&out);
        fail_check(&f);
    } while (err && nth < 50);
    CHECK(nth < 50);
}

/* ---- dates ---- */

static sl_ns a_day_later(void *ctx)
{
    sl_ns *now = ctx;

    return *now += SL_DAY;
}

static void on_keys(void *ctx, bool good, const char *sentence)
{
    struct sl_loop **loop = ctx;

    CHECK(good);
    (void)sentence;
    sl_loop_stop(*loop);
}

/* The text behind `word` in a header of the call. */
static const char *behind(const struct sl_dynamo_call *call, const char *word)
{
    for (unsigned i = 0; call->headers[i]; i++) {
        const char *at = strstr(call->headers[i], word);

        if (at)
            return at + strlen(word);
    }
    return "";
}

TEST(dates)
{
    struct sl_dynamo_url where;
    struct sl_aws_env env = {.key_id = "id", .secret = "secret"};
    struct sl_dynamo_http_options options = {.where = &where,
                                             .env = &env,
                                             .alloc = &sl_alloc_libc,
                                             .on_keys = on_keys,
                                             .ctx = &options.loop};
    struct sl_dynamo_http *client;
    struct sl_dynamo_call call;
    struct sl_arena arena;
    struct sl_clock clock;
    sl_ns now = 20000 * SL_DAY;

    CASE("the date is the one of the signature, however late it gets");
    sl_arena_init(&arena, 1 << 12, &sl_alloc_libc);
    sl_clock_init_sources(&clock, a_day_later, a_day_later, &now);
    CHECK_EQ(sl_dynamo_url_read(
                 SL_STR("dynamodb://eu-west-1?endpoint=http://127.0.0.1:1"),
                 &arena, &where, NULL),
             0);
    CHECK_EQ(sl_loop_open(&clock, &options.loop, NULL), 0);
    CHECK_EQ(sl_dynamo_http_open(&options, &client), 0);
    sl_loop_run(options.loop);
    sl_dynamo_call_init(&call, client);
    CHECK_EQ(sl_dynamo_call_send(&call, "GetItem", SL_S), 0);
    CHECK_EQ(strtol(behind(&call, "Credential=id/"), NULL, 10),
             strtol(behind(&call, "X-Amz-Date: "), NULL, 10));
    sl_dynamo_call_done(&call);
    sl_dynamo_http_close(client);
    sl_loop_close(options.loop);
    sl_arena_done(&arena);
}

CHECK_MAIN()
