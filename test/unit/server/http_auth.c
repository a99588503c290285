/* http_auth.c -- /v1/auth: which request it is, whose, and the answer. */
#include "asked.h"

static const char policy[] =
    "sluice: 1\n"
    "identity:\n"
    "  user: [header.x-user-id]\n"
    "limits:\n"
    "  user: { kind: token-bucket, per: user, rate: 2/min }\n"
    "  ip: { kind: fixed-window, per: ip, rate: 1/min }\n"
    "  paid: { kind: quota, per: user, rate: 1/month, deny: { status: 402, "
    "code: PAY } }\n"
    "routes:\n"
    "  - { match: POST /ip, limits: [ip] }\n"
    "  - { match: /paid, limits: [paid] }\n"
    "  - { match: /known, limits: [user], anonymous: deny }\n"
    "  - { match: /free, limits: [] }\n"
    "default: [user]\n";

#define URI(uri)  "X-Original-URI: " uri "\r\n"
#define USER_(id) "X-User-Id: " id "\r\n"

static void test_answers(struct asked *a)
{
    CASE("allowed: 200, the headers and nothing else");
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x") USER_("ann")), 200);
    CHECK_EQ(a->call->body.len, 0);
    CHECK_STR(asked_field(a, "X-RateLimit-Remaining"), "1");
    CHECK_STR(asked_field(a, "RateLimit"), "\"user\";r=1;t=30");
    CHECK(!asked_field(a, "X-Sluice-Decision"));
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/free")), 200);
    CHECK_EQ(a->call->field_count, 0);

    CASE("denied: the verdict's status, all headers, a body");
    CHECK_EQ(asked_get(a, "PROPFIND /v1/auth", URI("/x") USER_("ann")), 200);
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x") USER_("ann")), 429);
    CHECK_STR(asked_field(a, "Retry-After"), "30");
    CHECK_STR(asked_field(a, "X-Sluice-Decision"), "deny");
    CHECK_STR(asked_field(a, "X-Sluice-Status"), "429");
    CHECK_STR(asked_field(a, "X-Sluice-Code"), "RATE_LIMITED");
    CHECK_STR(asked_text(a, a->call->content_type), "application/problem+json");
    CHECK(asked_says(a, "\"code\":\"RATE_LIMITED\""));

    CASE("deny_status marks it for nginx, and the true one is told");
    CHECK_EQ(
        asked_get(a, "GET /v1/auth?deny_status=403", URI("/x") USER_("ann")),
        403);
    CHECK_STR(asked_field(a, "X-Sluice-Status"), "429");
    CHECK(asked_says(a, "\"status\":429"));
    CHECK_EQ(
        asked_get(a, "GET /v1/auth?deny_status=403", URI("/x") USER_("amy")),
        200);
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=2", URI("/paid") USER_("ann")),
             402);
    CHECK_STR(asked_field(a, "X-Sluice-Code"), "PAY");
    CHECK_EQ(asked_get(a, "GET /v1/auth?deny_status=503", URI("/known")), 503);
    CHECK_STR(asked_field(a, "X-Sluice-Status"), "401");
    CHECK(!asked_field(a, "WWW-Authenticate"));
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/known")), 401);
    CHECK_STR(asked_field(a, "WWW-Authenticate"), "Bearer");

    CASE("decided without the store, and it shows");
    a->rig.fault = 1;
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x") USER_("ann")), 200);
    CHECK_STR(asked_field(a, "X-Sluice-Degraded"), "store");
    a->rig.fault = 0;
}

/* Sixteen of them. */
#define FOUR "a&b=1&c=2&d="
#define MANY FOUR "&" FOUR "&" FOUR "&" FOUR

/* ?cost= and ?deny_status= are the proxy's; some put the client's behind our
 * path. */
static void test_query(struct asked *a)
{
    CASE("a cost in the query");
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=2", URI("/x") USER_("bob")), 200);
    CHECK_STR(asked_field(a, "X-RateLimit-Remaining"), "0");
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=0", URI("/x") USER_("cat")), 200);
    CHECK_STR(asked_field(a, "X-RateLimit-Remaining"), "2");

    CASE("slips in the query are refused");
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=x", URI("/x")), 400);
    CHECK(asked_says(a, "\\\"cost=x\\\" must be a whole number"));
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=", URI("/x")), 400);
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=1&cost=1", URI("/x")), 400);
    CHECK(asked_says(a, "twice"));
    CHECK_EQ(asked_get(a, "GET /v1/auth?deny_status=200", URI("/x")), 400);
    CHECK(asked_says(a, "401, 403, 429 and 503"));
    CHECK_EQ(asked_get(a, "GET /v1/auth?deny-status=403", URI("/x")), 400);
    CHECK(asked_says(a, "did you mean \\\"deny_status\\\"?"));
    CHECK_EQ(asked_get(a, "GET /v1/auth?c%6fst=7", URI("/x") USER_("c")), 429);

    CASE("what the client's query has too may be the client's");
    CHECK_EQ(asked_get(a, "GET /v1/auth?page=2&q=a+b",
                       URI("/x?page=2&q=a%20b") USER_("dan")),
             200);
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=0", URI("/x?cost=0")), 400);
    CHECK(asked_says(a, "in the client's query as well"));
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=0", URI("/x?a&c%6Fst=%30")), 400);
    CHECK_EQ(asked_get(a, "GET /v1/auth?a;cost=0", URI("/x?a;cost=0")), 400);
    CHECK_EQ(asked_get(a, "GET /v1/auth?cost=1", URI("/x?cost=0") USER_("d")),
             200);
    CHECK_EQ(asked_get(a, "GET /v1/auth?page=3", URI("/x?page=2")), 400);

    CASE("a client's many parameters are not all looked for in his query");
    CHECK_EQ(asked_get(a, "GET /v1/auth?" MANY "&slip=1",
                       URI("/x?" MANY) USER_("fay")),
             200);
    CHECK_EQ(asked_get(a, "GET /v1/auth?slip=1&" MANY, URI("/x?" MANY)), 400);
    CHECK_EQ(
        asked_get(a, "GET /v1/auth?" MANY "&cost=0", URI("/x?" MANY "&cost=0")),
        400);
    CHECK(asked_says(a, "in the client's query as well"));
}

static void test_families(struct asked *a)
{
    CASE("original: method and URI, or URL");
    CHECK_EQ(asked_get(a, "GET /v1/auth", ""), 400);
    CHECK(asked_says(a, "the header x-original-uri is missing"));
    CHECK_EQ(asked_get(a, "GET /v1/auth", "X_Original_URI: /x\r\n"), 400);
    CHECK_EQ(asked_get(a, "GET /v1/auth", "X-Forwarded-Uri: /free\r\n"), 400);
    CHECK_EQ(asked_get(a, "GET /v1/auth", "X-Original-URI:\r\n"), 400);
    CHECK_EQ(
        asked_get(a, "GET /v1/auth", "X-Original-URL: http://h/free?x\r\n"),
        200);
    CHECK_EQ(a->call->field_count, 0);
    CHECK_EQ(asked_get(a, "GET /v1/auth",
                       "X-Original-URL: /free\r\n" URI("/x") USER_("eve")),
             403);
    CHECK(asked_says(a, "both x-original-uri and x-original-url are sent"));
    CHECK_EQ(asked_get(a, "GET /v1/auth",
                       "X-Original-URL:\r\n" URI("/x") USER_("eve")),
             200);
    CHECK(a->call->field_count > 0);
    CHECK_EQ(asked_get(a, "GET /v1/auth",
                       "X-Original-Method: POST\r\n" URI(
                           "/ip") "X-Forwarded-For: 203.0.113.1\r\n"),
             200);
    CHECK_STR(asked_field(a, "RateLimit-Policy"), "\"ip\";q=1;w=60");
    CHECK_EQ(asked_get(a, "POST /v1/auth", URI("/ip") USER_("eve")), 200);
    CHECK_STR(asked_field(a, "RateLimit-Policy"), "\"ip\";q=1;w=60");
    CHECK_EQ(asked_get(a, "POST /v1/auth", URI("/ip") USER_("eve")), 429);

    CASE("a header twice is refused");
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x") URI("/x")), 400);
    CHECK(asked_says(a, "x-original-uri is sent twice"));
    CHECK_EQ(asked_get(a, "GET /v1/auth",
                       URI("/x") "X-Original-Method: GET\r\n"
                                 "x-original-method: POST\r\n"),
             400);
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x") USER_("eve") USER_("zoe")),
             400);
    CHECK(asked_says(a, "x-user-id is sent twice"));
    CHECK_EQ(asked_get(a, "GET /v1/auth/", URI("/x")), 404);
    CHECK_EQ(asked_get(a, "GET /v1/auth/x", URI("/x")), 404);
}

static void test_other_families(struct asked *a)
{
    CASE("forwarded: and no other");
    a->door.forward = SL_FORWARD_FORWARDED;
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/free")), 400);
    CHECK(asked_says(a, "the header x-forwarded-uri is missing"));
    CHECK_EQ(asked_get(a, "GET /v1/auth",
                       "X-Forwarded-Method: POST\r\nX-Forwarded-Uri: /ip\r\n"
                       "X-Forwarded-For: 203.0.113.2\r\n" URI("/free")),
             200);
    CHECK_STR(asked_field(a, "RateLimit-Policy"), "\"ip\";q=1;w=60");
    CHECK_EQ(asked_get(a, "GET /v1/auth",
                       "X-Forwarded-Uri: /x\r\nX-Forwarded-Host: a\r\n"
                       "X-Forwarded-Host: b\r\n"),
             400);

    CASE("path: its own method, and what is behind /v1/auth");
    a->door.forward = SL_FORWARD_PATH;
    CHECK_EQ(asked_get(a, "GET /v1/auth/free", URI("/x")), 200);
    CHECK_EQ(a->call->field_count, 0);
    CHECK_EQ(asked_get(a, "POST /v1/auth/ip?cost=0&z",
                       "X-Forwarded-For: 203.0.113.3\r\n"),
             200);
    CHECK_STR(asked_field(a, "X-RateLimit-Remaining"), "0");
    CHECK_EQ(asked_get(a, "POST /v1/auth/x/../ip?deny_status=403",
                       "X-Forwarded-For: 203.0.113.3\r\n"),
             429);
    CHECK_EQ(asked_get(a, "GET /v1/auth", USER_("fay")), 200);
    a->door.forward = SL_FORWARD_ORIGINAL;
}

static const char *left_of(struct asked *a, const char *fields)
{
    a->rig.now += SL_MIN;
    a->worker.still = a->rig.now;
    CHECK_EQ(asked_get(a, "POST /v1/auth?cost=0", fields), 200);
    return asked_field(a, "X-RateLimit-Remaining");
}

static void test_peers(struct asked *a)
{
    CASE("strangers speak for nobody");
    asked_from(a, "198.51.100.7");
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x")), 403);
    CHECK(asked_says(a, "198.51.100.7 is not a trusted proxy"));
    CHECK_EQ(asked_get(a, "GET /v1/deny", ""), 403);

    CASE("by its path a stranger may ask, as himself");
    a->door.forward = SL_FORWARD_PATH;
    CHECK_EQ(asked_get(a, "POST /v1/auth/ip",
                       USER_("gus") "X-Forwarded-For: 203.0.113.9\r\n"),
             200);
    CHECK_EQ(asked_get(a, "POST /v1/auth/ip",
                       USER_("hal") "X-Forwarded-For: 203.0.113.8\r\n"),
             429);
    CHECK_EQ(asked_get(a, "GET /v1/auth/known", USER_("gus")), 401);
    asked_from(a, LOCAL);
    CHECK_EQ(asked_get(a, "GET /v1/auth/known", USER_("gus")), 200);
    a->door.forward = SL_FORWARD_ORIGINAL;

    CASE("a unix socket is trusted, and has no address");
    asked_from(a, NULL);
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x") USER_("ivy")), 200);
    CHECK_STR(left_of(a, URI("/ip") "X-Forwarded-For: 203.0.113.9\r\n"), "1");
    asked_from(a, LOCAL);
}

static void test_token(struct asked *a)
{
    CASE("our token is no header of the client's");
    a->door.token = SL_STR("s3cret");
    CHECK_EQ(asked_get(a, "GET /v1/auth", URI("/x")), 401);
    CHECK_EQ(asked_get(a, "GET /v1/auth",
                       URI("/x")
                           USER_("jo") "Authorization: Bearer s3cret\r\n"),
             200);
    a->door.token = SL_STR("");
}

static void test_memory(struct asked *a)
{
    CASE("long paths are read to their end");
    sl_buf_clear(&a->text);
    CHECK_EQ(sl_buf_addf(&a->text, "X-Original-URI: "), 0);
    for (int i = 0; i < 4500; i++)
        CHECK_EQ(sl_buf_addf(&a->text, "/."), 0);
    CHECK_EQ(sl_buf_addf(&a->text, "/known\r\n"), 0);
    CHECK_EQ(sl_buf_add(&a->text, (struct sl_str){"", 1}), 0);
    CHECK_EQ(asked_get(a, "GET /v1/auth", asked_text(a, sl_buf_str(&a->text))),
             401);
}

int main(void)
{
    struct asked a;

    asked_open(&a, policy);
    test_answers(&a);
    test_query(&a);
    test_families(&a);
    test_other_families(&a);
    test_peers(&a);
    test_token(&a);
    test_memory(&a);
    asked_close(&a);
    return CHECK_DONE();
}
