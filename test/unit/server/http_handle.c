/* http_handle.c -- paths, methods and tokens of the door. */
#include "asked.h"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 2/min }\n"
    "default: [minute]\n";

static const char check[] = "{\"path\":\"/x\",\"user\":\"ann\"}";

static void say(struct sl_http_call *call)
{
    sl_http_answer(call, 200, SL_STR("text/plain"), call->rest);
}

static const struct sl_http_path few[] = {
    {"GET",  "/livez",  say, SL_HTTP_ACCESS_PUBLIC},
    {"GET",  "/v1/at/", say, SL_HTTP_ACCESS_TOKEN },
    {"PUT",  "/v1/at/", say, SL_HTTP_ACCESS_TOKEN },
    {"POST", "/v1/at",  say, SL_HTTP_ACCESS_TOKEN },
};

static void test_paths(struct asked *a)
{
    CASE("paths are what they are, and a query is no part of them");
    CHECK_EQ(asked_send(a, "POST /v1/check?x=1", "", sl_str_c(check)), 200);
    CHECK_STR(asked_text(a, a->call->query), "x=1");
    CHECK_EQ(asked_send(a, "POST http://sluice/v1/check", "", sl_str_c(check)),
             200);
    CHECK_EQ(asked_send(a, "POST /v1/Check", "", sl_str_c(check)), 404);
    CHECK_EQ(asked_send(a, "POST /v1//check", "", sl_str_c(check)), 404);
    CHECK_EQ(asked_send(a, "POST /v1/chec%6b", "", sl_str_c(check)), 404);
    CHECK_EQ(asked_get(a, "OPTIONS *", ""), 404);

    CASE("an unknown path has a hint where one is near");
    CHECK_EQ(asked_send(a, "POST /v1/chek", "", sl_str_c(check)), 404);
    CHECK_STR(asked_body(a),
              "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":"
              "404,\"detail\":\"unknown path /v1/chek; did you mean "
              "/v1/check?\",\"code\":\"NOT_FOUND\"}");
    CHECK_STR(asked_text(a, a->call->content_type), "application/problem+json");
    CHECK_EQ(asked_get(a, "GET /v1/check/", ""), 404);
    CHECK(asked_says(a, "did you mean /v1/check?"));
    CHECK_EQ(asked_get(a, "GET /far/away/from/everything", ""), 404);
    CHECK(!strstr(asked_body(a), "did you mean"));
    CHECK_EQ(asked_get(a, "GET /\"><script>", ""), 404);
    CHECK(asked_says(a, "unknown path /\\\"><script>"));

    CASE("another method is 405 and says which there are");
    CHECK_EQ(asked_get(a, "GET /v1/check", ""), 405);
    CHECK_STR(asked_field(a, "Allow"), "POST");
    CHECK(asked_says(a, "/v1/check does not support GET; it supports POST"));
    CHECK_EQ(asked_get(a, "POST /v1/deny", ""), 405);
    CHECK_STR(asked_field(a, "Allow"), "GET, HEAD");
    CHECK_EQ(asked_get(a, "HEAD /v1/deny", ""), 429);
    CHECK_EQ(asked_get(a, "get /v1/deny", ""), 405);
}

static void test_below(struct asked *a)
{
    a->door.paths = few;
    a->door.path_count = SL_LEN(few);
    CASE("a path that ends in a slash has all below it");
    CHECK_EQ(asked_get(a, "GET /v1/at/a/b%20c?q", ""), 200);
    CHECK_STR(asked_body(a), "a/b%20c");
    CHECK_EQ(asked_get(a, "GET /v1/at/", ""), 200);
    CHECK_STR(asked_body(a), "");
    CHECK_EQ(asked_get(a, "GET /v1/at", ""), 405);
    CHECK_STR(asked_field(a, "Allow"), "POST");
    CHECK_EQ(asked_get(a, "DELETE /v1/at/x", ""), 405);
    CHECK_STR(asked_field(a, "Allow"), "GET, HEAD, PUT");
    CHECK_EQ(asked_get(a, "GET /v1/atx", ""), 404);
}

static void test_tokens(struct asked *a)
{
    CASE("the token opens, and nothing else");
    a->door.token = SL_STR("s3cret");
    CHECK_EQ(asked_get(a, "GET /v1/at/", ""), 401);
    CHECK_STR(asked_field(a, "WWW-Authenticate"), "Bearer realm=\"sluice\"");
    CHECK(asked_says(a, "\"code\":\"UNAUTHORIZED\""));
    CHECK_EQ(asked_get(a, "GET /v1/at/", "Authorization: Bearer s3cret\r\n"),
             200);
    CHECK(a->call->token_in_authorize);
    CHECK(!asked_field(a, "WWW-Authenticate"));
    CHECK_EQ(asked_get(a, "GET /v1/at/", "authorization: BEARER   s3cret\r\n"),
             200);
    CHECK_EQ(asked_get(a, "GET /v1/at/", "X-Sluice-Token: s3cret\r\n"), 200);
    CHECK(!a->call->token_in_authorize);

    CASE("a token that is nearly right is wrong");
    CHECK_EQ(asked_get(a, "GET /v1/at/", "Authorization: Bearer s3cre\r\n"),
             401);
    CHECK_EQ(asked_get(a, "GET /v1/at/", "Authorization: Bearer s3crets\r\n"),
             401);
    CHECK_EQ(asked_get(a, "GET /v1/at/", "Authorization: Bearer S3CRET\r\n"),
             401);
    CHECK_EQ(asked_get(a, "GET /v1/at/", "Authorization: Bearer \r\n"), 401);
    CHECK_EQ(asked_get(a, "GET /v1/at/", "Authorization: s3cret\r\n"), 401);
    CHECK_EQ(asked_get(a, "GET /v1/at/", "Authorization: Basic s3cret\r\n"),
             401);
    CHECK_EQ(asked_get(a, "GET /v1/at/",
                       "Authorization: Bearer s3cret\r\n"
                       "Authorization: Bearer other\r\n"),
             401);

    CASE("whoever may not come in does not learn what there is");
    CHECK_EQ(asked_get(a, "GET /nowhere", ""), 401);
    CHECK_EQ(asked_get(a, "DELETE /v1/at/", ""), 401);
    CHECK_EQ(asked_get(a, "GET /livez", ""), 200);
    CHECK_EQ(asked_get(a, "GET /nowhere", "X-Sluice-Token: s3cret\r\n"), 404);
}

static void test_certificates(struct asked *a)
{
    CASE("a client certificate serves as token where it is accepted");
    a->shows_cert = true;
    CHECK_EQ(asked_get(a, "GET /v1/at/", ""), 401);
    a->door.accepts_client_cert = true;
    CHECK_EQ(asked_get(a, "GET /v1/at/", ""), 200);
    a->shows_cert = false;
    CHECK_EQ(asked_get(a, "GET /v1/at/", ""), 401);
    CHECK_EQ(asked_get(a, "GET /v1/at/", "X-Sluice-Token: s3cret\r\n"), 200);
    a->door.token = SL_STR("");
    CHECK_EQ(asked_get(a, "GET /v1/at/", "X-Sluice-Token: \r\n"), 401);
    CHECK(asked_says(a, "missing client certificate"));
}

int main(void)
{
    struct asked a;

    asked_open(&a, policy);
    test_paths(&a);
    test_below(&a);
    test_tokens(&a);
    test_certificates(&a);
    asked_close(&a);
    return CHECK_DONE();
}
