/* pass.c -- requests to sluiced, its replies and verdicts. */
#include "embed/pass.h"

#include <stdlib.h>

#include "check.h"

static struct sl_buf out;

static const char *text(void)
{
    if (sl_buf_add(&out, (struct sl_str){"", 1}))
        return NULL;
    return out.bytes;
}

static void start(void)
{
    if (out.bytes)
        sl_buf_done(&out);
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
}

TEST(checks)
{
    struct sl_header headers[] = {
        {SL_STR("X-User-Id"),     SL_STR("eve")     },
        {SL_STR("Authorization"), SL_STR("Bearer x")},
        {SL_STR("authorization"), SL_STR("Bearer y")},
    };
    struct sl_cost cost = {SL_STR("tokens"), 5};
    struct sl_request request = {.method = SL_STR("GET"),
                                 .path = SL_STR("/a\"b"),
                                 .user = SL_STR("ann"),
                                 .headers = headers,
                                 .header_count = 3};

    CASE("a check has what is known, and no header that names the caller");
    start();
    CHECK(sl_pass_write_check(&request, SL_STR(""), &out) == 0);
    CHECK_STR(text(),
              "POST /v1/check HTTP/1.1\r\nHost: localhost\r\n"
              "Content-Length: 95\r\n\r\n"
              "{\"method\":\"GET\",\"path\":\"/a\\\"b\",\"user\":\"ann\","
              "\"wait\":\"0s\",\"headers\":{\"Authorization\":"
              "\"Bearer x\"}}");
    CASE("costs, a hold and a token");
    request.header_count = 0;
    request.costs = &cost;
    request.cost_count = 1;
    request.hold = 1500 * SL_MS;
    start();
    CHECK(sl_pass_write_check(&request, SL_STR("secret"), &out) == 0);
    CHECK(strstr(text(), "X-Sluice-Token: secret\r\n") != NULL);
    CHECK(strstr(text(), "\"cost\":{\"tokens\":5},\"wait\":\"0s\","
                         "\"hold\":\"1500ms\"") != NULL);
    CASE("a path that no check can have is refused");
    request.path.len = (size_t)128 << 10;
    request.path.at = memset(malloc(request.path.len), 'a', request.path.len);
    start();
    CHECK(sl_pass_write_check(&request, SL_STR(""), &out) == SLUICE_EFULL);
    free((char *)request.path.at);
}

TEST(endings)
{
    struct sl_embed_actual actual = {.has_cost = true, .cost = 7};

    CASE("settle and extend");
    start();
    CHECK(sl_pass_write_settle(SL_STR("h1"), &actual, SL_STR(""), &out) == 0);
    CHECK_STR(text(), "POST /v1/holds/h1/settle HTTP/1.1\r\n"
                      "Host: localhost\r\nContent-Length: 10\r\n\r\n"
                      "{\"cost\":7}");
    start();
    CHECK(sl_pass_write_settle(SL_STR("h1"), NULL, SL_STR(""), &out) == 0);
    CHECK(strstr(text(), "\r\n\r\n{}") != NULL);
    start();
    CHECK(sl_pass_write_extend(SL_STR("h1"), SL_S, SL_STR(""), &out) == 0);
    CHECK(strstr(text(), "/extend HTTP/1.1\r\n") != NULL);
    CHECK(strstr(text(), "{\"hold\":\"1000ms\"}") != NULL);
    sl_buf_done(&out);
}

#define OK   "HTTP/1.1 200 OK\r\n"
#define LEN  "Content-Length: "
#define HEAD OK LEN "2\r\n"

#define ROW(why, state, text)                                                  \
    {                                                                          \
        why, SL_PASS_##state, text                                             \
    }

static const struct {
    const char *why;
    enum sl_pass_state state;
    const char *text;
} replies[] = {
    ROW("nothing yet", MORE, ""),
    ROW("half a head", MORE, OK "Cont"),
    ROW("half a body", MORE, HEAD "\r\n{"),
    ROW("a whole one", WHOLE, HEAD "\r\n{}"),
    ROW("to be closed", WHOLE, HEAD "Connection: close\r\n\r\n{}"),
    ROW("no length", BAD, OK "\r\n"),
    ROW("two lengths", BAD, HEAD LEN "2\r\n\r\n{}"),
    ROW("no number", BAD, OK LEN "x\r\n\r\n"),
    ROW("a large one", BAD, OK LEN "9999999\r\n\r\n"),
    ROW("chunks", BAD, HEAD "Transfer-Encoding: chunked\r\n\r\n{}"),
    ROW("another protocol", BAD, "SSH-2.0-x\r\n\r\n"),
    ROW("no status", BAD, "HTTP/1.1 2x0 OK\r\n\r\n"),
    ROW("a line without a name", BAD, HEAD "what\r\n\r\n{}"),
};

TEST(heads)
{
    struct sl_pass_reply reply;

    for (size_t i = 0; i < SL_LEN(replies); i++) {
        CASE(replies[i].why);
        CHECK_EQ(sl_pass_read_reply(sl_str_c(replies[i].text), &reply),
                 replies[i].state);
    }
    CASE("what is in it");
    CHECK(sl_pass_read_reply(sl_str_c(replies[3].text), &reply) ==
          SL_PASS_WHOLE);
    CHECK(reply.status == 200 && reply.keep && reply.body.len == 2);
    CHECK(reply.len == strlen(replies[3].text));
    CHECK(sl_pass_read_reply(sl_str_c(replies[4].text), &reply) ==
          SL_PASS_WHOLE);
    CHECK(!reply.keep);
}

static const char denied[] =
    "{\"allowed\":false,\"status\":429,\"code\":\"RATE_LIMITED\",\"message\":"
    "\"a \\\"b\\\"\",\"by\":\"api\",\"retry_after_ms\":1500,\"request_id\":"
    "\"r1\",\"degraded\":false,\"hold\":\"h1\",\"hold_expires_ms\":60000,"
    "\"limits\":[{\"name\":\"a\",\"plan\":\"free\",\"limit\":5,\"remaining\":3,"
    "\"mode\":\"enforce\",\"allowed\":true,\"wait_ms\":20},{\"name\":\"api\","
    "\"plan\":\"free\",\"limit\":2,\"remaining\":0,\"mode\":\"enforce\","
    "\"allowed\":false},{\"name\":\"s\",\"mode\":\"shadow\",\"limit\":null,"
    "\"wait_ms\":90}],\"headers\":{\"Content-Type\":\"application/x\","
    "\"Retry-After\":\"2\"},\"append_headers\":[\"X\"],"
    "\"body\":{\"e\":[1.5e3,-2,null,true,{\"x\":\"\\u00e4\"}]}}";

static int verdict(const char *json, struct sl_embed_answer *answer,
                   struct sl_rendered *rendered, struct sl_arena *arena)
{
    sl_arena_done(arena);
    sl_arena_init(arena, 1 << 16, &sl_alloc_libc);
    return sl_pass_read_verdict(sl_str_c(json), arena, answer, rendered);
}

static const char *const no_verdicts[] = {
    "",
    "[]",
    "{}",
    "{\"status\":200",
    "{\"status\":200} x",
    "{\"status\":99}",
    "{\"status\":\"200\"}",
    "{\"status\":200,\"allowed\":1}",
    "{\"status\":200,\"headers\":{\"A\":\"x\\r\\ny\"}}",
    "{\"status\":200,\"headers\":{\"\":\"x\"}}",
    "{\"status\":200,\"retry_after_ms\":-1}",
    "{\"status\":200,\"limits\":[{\"limit\":\"x\"}]}",
    "{\"status\":200,\"hold\":\"0123456789012345678901234567890123456789012345"
    "6789012345678901234567890\"}",
};

TEST(verdicts)
{
    struct sl_embed_answer a;
    struct sl_rendered r;
    struct sl_arena arena;

    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    CASE("a denial");
    CHECK(verdict(denied, &a, &r, &arena) == 0);
    CHECK(!a.allowed && r.status == 429 && a.limited);
    CHECK(sl_str_eq(a.by, SL_STR("api")) && sl_str_eq(a.hold, SL_STR("h1")));
    CHECK(sl_str_eq(a.plan, SL_STR("free")));
    CHECK(a.retry_in == 1500 * SL_MS && a.hold_for == 60 * SL_S);
    CHECK(a.has_numbers && a.limit == 2 && a.remaining == 0);
    CHECK(a.wait == 20 * SL_MS);
    CASE("its body as it is written, and its headers");
    CHECK(sl_str_eq(r.body, SL_STR("{\"e\":[1.5e3,-2,null,true,{\"x\":\"\\u00e4"
                                   "\"}]}")));
    CHECK(sl_str_eq(r.content_type, SL_STR("application/x")));
    CHECK(r.header_count == 1 && sl_str_eq(r.headers[0].value, SL_STR("2")));
    CASE("what is no verdict");
    for (size_t i = 0; i < SL_LEN(no_verdicts); i++)
        CHECK(verdict(no_verdicts[i], &a, &r, &arena) == SLUICE_EINVAL);
    CASE("too deep");
    {
        char deep[256] = "{\"status\":200,\"body\":";

        memset(deep + strlen(deep), '[', 100);
        CHECK(verdict(deep, &a, &r, &arena) == SLUICE_EINVAL);
    }
    sl_arena_done(&arena);
}

CHECK_MAIN()
