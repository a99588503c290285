/* http_deny.c -- GET /v1/deny: what nginx shows when it was told no. */
#include "asked.h"

#define TYPES "https://iana.org/assignments/http-problem-types"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 2/min }\n"
    "default: [minute]\n";

static void test_whole(struct asked *a)
{
    CASE("a denial from what a denial said");
    CHECK_EQ(asked_get(a, "GET /v1/deny",
                       "X-Sluice-Status: 429\r\nX-Sluice-Retry-After: 12\r\n"
                       "X-Sluice-RateLimit: \"m\";r=0;t=12\r\n"
                       "X-Sluice-RateLimit-Policy: \"m\";q=5;w=60\r\n"
                       "X-Sluice-Limit: 5\r\nX-Sluice-Remaining: 0\r\n"
                       "X-Sluice-Reset: 1794709212\r\n"
                       "X-Sluice-Quota-Remaining: 7\r\n"
                       "X-Sluice-Request-Id: req_1\r\n"),
             429);
    CHECK_STR(asked_field(a, "Retry-After"), "12");
    CHECK_STR(asked_field(a, "RateLimit"), "\"m\";r=0;t=12");
    CHECK_STR(asked_field(a, "RateLimit-Policy"), "\"m\";q=5;w=60");
    CHECK_STR(asked_field(a, "X-RateLimit-Limit"), "5");
    CHECK_STR(asked_field(a, "X-RateLimit-Remaining"), "0");
    CHECK_STR(asked_field(a, "X-RateLimit-Reset"), "1794709212");
    CHECK_STR(asked_field(a, "X-Org-Quota-Remaining"), "7");
    CHECK_STR(asked_field(a, "X-Request-Id"), "req_1");
    CHECK_STR(asked_field(a, "Cache-Control"), "no-store");
    CHECK_STR(asked_field(a, "Access-Control-Expose-Headers"),
              "RateLimit-Policy, RateLimit, X-RateLimit-Limit, "
              "X-RateLimit-Remaining, X-RateLimit-Reset, "
              "X-Org-Quota-Remaining, Retry-After, X-Request-Id");
    CHECK_STR(asked_text(a, a->call->content_type), "application/problem+json");
    CHECK_STR(asked_body(a),
              "{\"type\":\"" TYPES "#quota-exceeded\","
              "\"title\":\"Too many requests\","
              "\"status\":429,\"detail\":\"Too many requests. Please try again "
              "in 12 seconds.\",\"code\":\"RATE_LIMITED\",\"retry_after\":12,"
              "\"request_id\":\"req_1\"}");
}

static void test_bare(struct asked *a)
{
    CASE("from nothing: 429");
    CHECK_EQ(asked_get(a, "GET /v1/deny", ""), 429);
    CHECK_STR(asked_body(a),
              "{\"type\":\"" TYPES "#quota-exceeded\","
              "\"title\":\"Too many requests\","
              "\"status\":429,\"detail\":\"Too many requests.\",\"code\":"
              "\"RATE_LIMITED\"}");
    CHECK_EQ(a->call->field_count, 1);

    CASE("other statuses, 4xx and 5xx only");
    CHECK_EQ(asked_get(a, "GET /v1/deny",
                       "X-Sluice-Status: 402\r\nX-Sluice-Code: PAY_UP\r\n"),
             402);
    CHECK(asked_says(a, "\"code\":\"PAY_UP\""));
    CHECK_EQ(
        asked_get(a, "GET /v1/deny", "X-Sluice-Code: plan.Limit-reached\r\n"),
        429);
    CHECK(asked_says(a, "\"code\":\"plan.Limit-reached\""));
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: 401\r\n"), 401);
    CHECK(asked_says(a, "\"code\":\"UNAUTHORIZED\""));
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: 451\r\n"), 451);
    CHECK(asked_says(a, "{\"type\":\"about:blank\",\"title\":\"Unavailable For "
                        "Legal Reasons\""));
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: 503\r\n"), 503);
    CHECK(asked_says(a, "#temporary-reduced-capacity"));
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: 200\r\n"), 429);
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: 304\r\n"), 429);
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: 600\r\n"), 429);
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: 0429\r\n"), 429);
    CHECK_EQ(asked_get(a, "GET /v1/deny", "X-Sluice-Status: abc\r\n"), 429);
    CHECK_EQ(asked_get(a, "GET /v1/deny",
                       "X-Sluice-Status: 402\r\nX-Sluice-Status: 503\r\n"),
             429);
}

static void test_dirty(struct asked *a)
{
    CASE("what we would not have written is left out");
    CHECK_EQ(asked_get(a, "GET /v1/deny",
                       "X-Sluice-Retry-After: soon\r\nX-Sluice-Limit: -1\r\n"
                       "X-Sluice-Remaining: 1e3\r\n"
                       "X-Sluice-Reset: 1234567890123456\r\n"
                       "X-Sluice-RateLimit: a\tb\r\n"
                       "X-Sluice-RateLimit-Policy: \xc3\xa9\r\n"
                       "X-Sluice-Request-Id: <b> \"x\"\r\n"
                       "X-Sluice-Code: \",\"x\":\"\r\n"),
             429);
    CHECK_EQ(a->call->field_count, 1);
    CHECK_STR(asked_field(a, "Cache-Control"), "no-store");
    CHECK(asked_says(a, "\"code\":\"RATE_LIMITED\"}"));
    CHECK_EQ(asked_get(a, "GET /v1/deny",
                       "X-Sluice-Retry-After: 1\r\n"
                       "X-Sluice-Request-Id: a\r\n"
                       "X-Sluice-Request-Id: b\r\n"),
             429);
    CHECK(asked_says(a, "again in 1 second."));
    CHECK(!asked_field(a, "X-Request-Id"));
}

int main(void)
{
    struct asked a;

    asked_open(&a, policy);
    test_whole(&a);
    test_bare(&a);
    test_dirty(&a);
    asked_close(&a);
    return CHECK_DONE();
}
