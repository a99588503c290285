/* http_check.c -- POST /v1/check and POST /v1/explain. */
#include <jansson.h>

#include "asked.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity:\n"
    "  user: [header.x-user-id]\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: { free: 2/min, pro: "
    "4/min } }\n"
    "  by-ip: { kind: fixed-window, per: ip, rate: 3/min }\n"
    "  month: { kind: quota, per: org, rate: 10/month }\n"
    "routes:\n"
    "  - { match: GET /ip, limits: [by-ip] }\n"
    "  - { match: /both, limits: [month, minute], endpoint: two }\n"
    "  - { job: mail, limits: [month] }\n"
    "default: [minute]\n";

/* The member of the answer's JSON at `path` ("limits.0.name"), as text. */
static const char *member(struct asked *a, const char *path)
{
    json_t *root = json_loadb(a->call->body.at, a->call->body.len,
                              JSON_REJECT_DUPLICATES, NULL);
    json_t *at = root;
    const char *text = "(none)";
    char part[64];

    CHECK(root != NULL);
    while (*path && at) {
        size_t len = strcspn(path, ".");

        snprintf(part, sizeof(part), "%.*s", (int)len, path);
        at = json_is_array(at)
                 ? json_array_get(at, (size_t)strtoul(part, 0, 10))
                 : json_object_get(at, part);
        path += len + (path[len] == '.');
    }
    if (at) {
        char *dumped = json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT);

        text = asked_text(a, sl_str_c(dumped));
        free(dumped);
    }
    json_decref(root);
    return text;
}

static void test_verdicts(struct asked *a)
{
    static const char ann[] = "{\"path\":\"/x\",\"user\":\"ann\"}";

    CASE("a check is answered by the verdict, allowed or not");
    CHECK_EQ(asked_check(a, ann), 200);
    CHECK_STR(asked_text(a, a->call->content_type), "application/json");
    CHECK_STR(member(a, "allowed"), "true");
    CHECK_STR(member(a, "limits.0.remaining"), "1");
    CHECK_STR(member(a, "headers.X-RateLimit-Limit"), "\"2\"");
    CHECK_STR(member(a, "body"), "null");
    CHECK_EQ(asked_check(a, ann), 200);
    CHECK_EQ(asked_check(a, ann), 200);
    CHECK_STR(member(a, "allowed"), "false");
    CHECK_STR(member(a, "status"), "429");
    CHECK_STR(member(a, "by"), "\"minute\"");
    CHECK_STR(member(a, "retry_after_ms"), "30000");
    CHECK_STR(member(a, "body.code"), "\"RATE_LIMITED\"");
    CHECK(!strchr(asked_body(a), '\n'));

    CASE("time is the worker's");
    a->worker.still = 30 * SL_S;
    CHECK_EQ(asked_check(a, ann), 200);
    CHECK_STR(member(a, "allowed"), "true");
}

static void test_members(struct asked *a)
{
    CASE("who it is: user, org, plan, role, ip, headers");
    CHECK_EQ(asked_check(a, "{\"path\":\"/x\",\"user\":\"bob\","
                            "\"plan\":\"PRO\",\"org\":null}"),
             200);
    CHECK_STR(member(a, "limits.0.plan"), "\"pro\"");
    CHECK_EQ(asked_check(a, "{\"path\":\"/ip\",\"ip\":\"192.0.2.7\"}"), 200);
    CHECK_STR(member(a, "limits.0.remaining"), "2");
    CHECK_EQ(asked_check(a, "{\"path\":\"/ip\",\"ip\":\"::ffff:192.0.2.7\"}"),
             200);
    CHECK_STR(member(a, "limits.0.remaining"), "1");
    CHECK_EQ(asked_check(a, "{\"path\":\"/x\",\"headers\":"
                            "{\"X-User-Id\":\"b\\u006fb\",\"Accept\":null}}"),
             200);
    CHECK_STR(member(a, "limits.0.remaining"), "0");
    CHECK_STR(member(a, "limits.0.scope"), "\"user\"");

    CASE("a method, a job, a request's id");
    CHECK_EQ(asked_check(a, "{\"method\":\"POST\",\"path\":\"/ip\","
                            "\"user\":\"cy\"}"),
             200);
    CHECK_STR(member(a, "limits.0.name"), "\"minute\"");
    CHECK_EQ(asked_check(a, "{\"job\":\"mail\",\"org\":\"acme\",\"cost\":4,"
                            "\"request_id\":\"r-1\"}"),
             200);
    CHECK_STR(member(a, "limits.0.remaining"), "6");
    CHECK_STR(member(a, "request_id"), "\"r-1\"");

    CASE("one limit by its name, for one key");
    CHECK_EQ(asked_check(a, "{\"limit\":\"minute\",\"key\":\"cy\"}"), 200);
    CHECK_STR(member(a, "limits.0.remaining"), "0");
    CHECK_STR(member(a, "limits.1"), "(none)");

    CASE("costs for each limit, and a cost of nothing");
    CHECK_EQ(asked_check(a, "{\"path\":\"/both\",\"org\":\"acme\",\"user\":"
                            "\"dee\",\"cost\":{\"month\":5}}"),
             200);
    CHECK_STR(member(a, "limits.0.remaining"), "1");
    CHECK_STR(member(a, "limits.1.remaining"), "1");
    CHECK_EQ(asked_check(a, "{\"job\":\"mail\",\"org\":\"acme\",\"cost\":0}"),
             200);
    CHECK_STR(member(a, "limits.0.remaining"), "1");
}

/* It is refused with 400, and the detail has these words in it. */
static void refused(struct asked *a, const char *body, const char *words)
{
    bool good = CHECK_EQ(asked_check(a, body), 400);

    good &= CHECK(asked_says(a, words));
    if (!good)
        printf("# body %s\n", body);
}

static void test_no_json(struct asked *a)
{
    CASE("what is no JSON, or no check, is refused");
    refused(a, "", "the body is empty");
    refused(a, "{", "the name of a member");
    refused(a, "{\"path\":", "the text ends too early");
    refused(a, "{}", "needs a \\\"path\\\" or a");
    refused(a, "nul", "a check must be an object, not null");
    refused(a, "\"x\"", "a check must be an object, not a string");
    refused(a, "{\"path\":\"/x\"} x", "there is something after the value");
    refused(a, "{\"path\":\"/x\",}", "the name of a member");
}

static void test_members_refused(struct asked *a)
{
    CASE("a member that is wrong is named");
    refused(a, "{\"path\":\"/x\",\"path\":\"/y\"}",
            "\\\"path\\\" is given twice");
    refused(a, "{\"path\":\"/x\",\"p\\u0061th\":\"/y\"}",
            "\\\"path\\\" is given twice");
    refused(a, "{\"path\":\"/x\",\"usr\":\"ann\"}",
            "did you mean \\\"user\\\"?");
    refused(a, "{\"path\":\"/x\",\"zebra\":1}",
            "unknown member \\\"zebra\\\" of a check\"");
    refused(a, "{\"path\":7}", "\\\"path\\\" must be a string, not a number");
    refused(a, "{\"path\":\"/x\",\"user\":[]}",
            "\\\"user\\\" must be a string, not an array");
    refused(a, "{\"path\":\"/x\",\"ip\":true}",
            "\\\"ip\\\" must be a string, not a boolean");
    refused(a, "{\"path\":\"/x\",\"job\":\"mail\"}", "not both");
    refused(a, "{\"path\":\"/x\",\"limit\":\"month\",\"key\":\"a\"}",
            "must not have \\\"path\\\" or \\\"job\\\"");
    refused(a, "{\"limit\":\"month\"}", "must be given together");
    refused(a, "{\"path\":\"/x\",\"key\":\"a\"}", "must be given together");
    refused(a, "{\"limit\":\"mont\",\"key\":\"a\"}",
            "\\\"limit\\\" names the limit \\\"mont\\\", which is not in the "
            "policy; did you mean \\\"month\\\"?");
    refused(a, "{\"path\":\"/x\\u0000\"}", "not contain NUL");
    refused(a, "{\"path\":\"/\xff\"}", "invalid UTF-8");
}

static void test_costs_refused(struct asked *a)
{
    CASE("costs and headers that are wrong are named");
    refused(a, "{\"path\":\"/x\",\"cost\":-1}",
            "\\\"cost\\\" must be a whole number from 0");
    refused(a, "{\"path\":\"/x\",\"cost\":1.5}",
            "\\\"cost\\\" must be a whole number from 0");
    refused(a, "{\"path\":\"/x\",\"cost\":1e3}",
            "\\\"cost\\\" must be a whole number from 0");
    refused(a, "{\"path\":\"/x\",\"cost\":01}",
            "\\\"cost\\\" must be a whole number from 0");
    refused(a, "{\"path\":\"/x\",\"cost\":9007199254740992}",
            "to 9007199254740991");
    refused(a, "{\"path\":\"/x\",\"cost\":\"1\"}",
            "a whole number or an object of them, not a string");
    refused(a, "{\"path\":\"/x\",\"cost\":{\"minut\":1}}",
            "did you mean \\\"minute\\\"?");
    refused(a, "{\"path\":\"/x\",\"cost\":{\"minute\":\"\"}}",
            "\\\"cost.minute\\\" must be a whole number");
    refused(a, "{\"path\":\"/x\",\"cost\":{\"minute\":1,\"minute\":1}}",
            "has \\\"minute\\\" twice");
    refused(a, "{\"path\":\"/x\",\"headers\":[]}",
            "\\\"headers\\\" must be an object of strings");
    refused(a, "{\"path\":\"/x\",\"headers\":{\"A\":1}}",
            "\\\"headers.A\\\" must be a string, not a number");
    refused(a, "{\"path\":\"/x\",\"headers\":{\"A\":\"\",\"a\":\"\"}}",
            "has \\\"a\\\" twice");
}

static void test_later_refused(struct asked *a)
{
    CASE("what is not in this version, and which check of an array");
    refused(a, "{\"path\":\"/x\",\"wait\":\"x\"}", "\\\"wait\\\": ");
    refused(a, "{\"path\":\"/x\",\"wait\":10}", "a string such as");
    refused(a, "[{\"path\":\"/x\"},{\"path\":\"/x\",\"plan\":1}]",
            "check 1: \\\"plan\\\" must be a string");
    refused(a, "[{\"path\":\"/x\"},[]]",
            "check 1: a check must be an object, not an array");
    refused(a, "[{\"path\":\"/x\"}", "a comma or a closing bracket");
    refused(a, "[{\"path\":\"/x\"},]", "a value is expected");
}

static void test_nul(struct asked *a)
{
    CASE("a NUL byte is refused");
    CHECK_EQ(
        asked_send(a, "POST /v1/check", "", SL_STR("{\"path\":\"/x\"}\0 ")),
        400);
    CHECK_EQ(asked_send(a, "POST /v1/check", "", SL_STR("{\"path\":\"/\0x\"}")),
             400);
}

/* `count` checks of ann in an array. */
static struct sl_str many(struct asked *a, unsigned count, const char *last)
{
    char *text = sl_arena_take(&a->texts, 64 * (size_t)count + 64);
    size_t len = 1;

    if (!text)
        return (struct sl_str){"", 0};
    text[0] = '[';
    for (unsigned i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, 64,
                                "%s{\"path\":\"/x\",\"user\":\"u%u\"}",
                                i > 0 ? "," : "", i % 7);
    len += (size_t)snprintf(text + len, 64, "%s]", last);
    return (struct sl_str){text, len};
}

static void test_arrays(struct asked *a)
{
    CASE("an array is answered by an array, in order");
    CHECK_EQ(asked_check(a, " [ ] "), 200);
    CHECK_STR(asked_body(a), "[]");
    CHECK_EQ(asked_check(a, "[{\"path\":\"/x\",\"user\":\"eve\"},"
                            "{\"path\":\"/x\",\"user\":\"eve\",\"cost\":2},"
                            "{\"path\":\"/x\",\"user\":\"eve\"}]"),
             200);
    CHECK_STR(member(a, "0.allowed"), "true");
    CHECK_STR(member(a, "1.allowed"), "false");
    CHECK_STR(member(a, "2.allowed"), "true");
    CHECK_STR(member(a, "2.limits.0.remaining"), "0");
    CHECK_STR(member(a, "3"), "(none)");

    CASE("one wrong check and none is decided");
    CHECK_EQ(asked_check(a, "[{\"path\":\"/x\",\"user\":\"fay\"},{}]"), 400);
    CHECK(asked_says(a, "check 1: a check needs"));
    CHECK_EQ(asked_check(a, "{\"path\":\"/x\",\"user\":\"fay\"}"), 200);
    CHECK_STR(member(a, "limits.0.remaining"), "1");

    CASE("a thousand are the most");
    CHECK_EQ(asked_send(a, "POST /v1/check", "", many(a, 1000, "")), 200);
    CHECK_STR(member(a, "6.allowed"), "true");
    CHECK_STR(member(a, "999.allowed"), "false");
    CHECK_EQ(asked_send(a, "POST /v1/check", "", many(a, 1000, ",{}")), 400);
    CHECK(asked_says(a, "more than 1000 checks"));
}

/* A check with a member of `size` bytes. */
static int send_long(struct asked *a, const char *name, size_t size)
{
    char *text = sl_arena_take(&a->texts, size + 64);
    size_t len;

    if (!text)
        return 0;
    len = (size_t)snprintf(text, 64, "{\"path\":\"/x\",\"%s\":\"", name);
    memset(text + len, 'a', size);
    memcpy(text + len + size, "\"}", 2);
    return asked_send(a, "POST /v1/check", "",
                      (struct sl_str){text, len + size + 2});
}

static void test_sizes(struct asked *a)
{
    CASE("long values are decided, and too long bodies refused");
    CHECK_EQ(send_long(a, "user", 60000), 200);
    CHECK_STR(member(a, "limits.0.remaining"), "1");
    CHECK_EQ(send_long(a, "user", 60000), 200);
    CHECK_STR(member(a, "limits.0.remaining"), "0");
    CHECK_EQ(send_long(a, "user", 59999), 200);
    CHECK_STR(member(a, "limits.0.remaining"), "1");
    CHECK_EQ(send_long(a, "ip", 60000), 200);
    CHECK_EQ(send_long(a, "user", 66000), 413);
    CHECK(asked_says(a, "\"code\":\"TOO_LARGE\""));
}

static void test_explain(struct asked *a)
{
    static const char gus[] =
        "{\"path\":\"/both\",\"user\":\"gus\",\"org\":\"o\"}";

    CASE("explain spends nothing and says everything");
    for (int i = 0; i < 5; i++)
        CHECK_EQ(asked_send(a, "POST /v1/explain", "", sl_str_c(gus)), 200);
    CHECK_STR(member(a, "allowed"), "true");
    CHECK_STR(member(a, "limits.1.remaining"), "2");
    CHECK_STR(member(a, "limits.1.key"), "\"sluice:default:minute:user:gus\"");
    CHECK_STR(member(a, "route"), "\"/both\"");
    CHECK_STR(member(a, "endpoint"), "\"two\"");
    CHECK_STR(member(a, "plan"), "\"free\"");
    CHECK(strstr(member(a, "explain"), "verdict  200, allowed\\nroute") !=
          NULL);
    CHECK_EQ(asked_check(a, gus), 200);
    CHECK_STR(member(a, "limits.1.remaining"), "1");
    CHECK_STR(member(a, "explain"), "(none)");
    CHECK_STR(member(a, "limits.1.key"), "(none)");
    CHECK_EQ(asked_send(a, "POST /v1/explain", "", SL_STR("{}")), 400);
}

static void test_pages(struct asked *a)
{
    CASE("a page in somebody's browser may not ask");
    CHECK_EQ(asked_send(a, "POST /v1/check", "Origin: https://evil.example\r\n",
                        SL_STR("{\"path\":\"/x\"}")),
             403);
    CHECK(asked_says(a, "CROSS_ORIGIN"));
    CHECK_EQ(asked_send(a, "POST /v1/explain", "Origin: null\r\n",
                        SL_STR("{\"path\":\"/x\"}")),
             403);
    CASE("but where a token is asked for, who has it may");
    a->door.token = SL_STR("secret");
    CHECK_EQ(asked_send(a, "POST /v1/check",
                        "Origin: https://own.example\r\n"
                        "X-Sluice-Token: secret\r\n",
                        SL_STR("{\"path\":\"/free\"}")),
             200);
    a->door.token = SL_STR("");
}

static void test_memory(struct asked *a)
{
    static const char body[] =
        "[{\"path\":\"/x\",\"user\":\"h\\u0061l\",\"cost\":{\"minute\":1},"
        "\"headers\":{\"a\":\"b\"}},{\"path\":\"/both\",\"user\":\"hal\"}]";
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    unsigned failed = 0;
    int status;

    CASE("without memory it is 503, and nothing leaks");
    do {
        fail.nth++;
        fail.calls = 0;
        asked_forget(a, &alloc);
        status = asked_send(a, "POST /v1/explain", "", sl_str_c(body));
        failed += status != 200;
        if (status == 503)
            CHECK(asked_says(a, "\"code\":\"NO_MEMORY\""));
        CHECK(status == 200 || status == 503 || fail.nth == 1);
    } while (status != 200 && fail.nth < 100);
    CHECK_EQ(status, 200);
    CHECK(failed >= 2);

    CASE("once warm, a usual request takes no memory");
    fail.nth = 0;
    for (int i = 0; i < 3; i++) {
        fail.calls = 0;
        CHECK_EQ(asked_check(a, "{\"path\":\"/both\",\"user\":\"ann\"}"), 200);
        status = asked_get(a, "GET /v1/auth", "X-Original-URI: /x\r\n");
    }
    CHECK_EQ(status, 429);
    CHECK_EQ(fail.calls, 0);
    asked_forget(a, NULL);
    fail_check(&fail);
}

int main(void)
{
    struct asked a;

    asked_open(&a, policy);
    test_verdicts(&a);
    test_members(&a);
    test_no_json(&a);
    test_members_refused(&a);
    test_costs_refused(&a);
    test_later_refused(&a);
    test_nul(&a);
    test_arrays(&a);
    test_sizes(&a);
    test_explain(&a);
    test_pages(&a);
    test_memory(&a);
    asked_close(&a);
    return CHECK_DONE();
}
