/* render.c -- what clients are sent, to the letter; and what no policy can
 * bring about. The values are in test/flow/p01-headers and p02-bodies. */
#include "fixture.h"
#include "row.h"

#define NOW (INT64_C(1730822396) * SL_S) /* 2024-11-05T15:59:56Z */

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: { overage: true } }\n"
    "headers: [x-ratelimit]\n"
    "limits:\n"
    "  ai-minute: { kind: token-bucket, per: user, rate: 5/min burst 8 }\n"
    "  calls: { kind: token-bucket, per: user, rate: 3/min }\n"
    "  shadowed: { kind: token-bucket, per: user, rate: 1/min,\n"
    "              mode: shadow }\n"
    "  both: { kind: token-bucket, per: user, rate: 3/min,\n"
    "          candidate: 1/min }\n"
    "  paced: { kind: leaky-bucket, per: [], rate: 5/10s queue 5 }\n"
    "  month: { kind: quota, per: org, rate: { free: 9/month, pro: 10/month "
    "},\n"
    "           missing: skip, on_store_failure: allow }\n"
    "  free: { kind: token-bucket, per: user, rate: unlimited, mode: shadow }\n"
    "  permits: { kind: concurrency, per: user, rate: 2 }\n"
    "routes:\n"
    "  - { match: /ai, limits: [ai-minute] }\n"
    "  - { match: /off, limits: [] }\n"
    "  - { match: /calls, limits: [calls] }\n"
    "  - { match: /shadow, limits: [calls, shadowed] }\n"
    "  - { match: /both, limits: [both] }\n"
    "  - { match: /paced, limits: [paced] }\n"
    "  - { match: /month, limits: [calls, month] }\n"
    "  - { match: /free, limits: [free] }\n"
    "  - { match: /permits, limits: [permits] }\n"
    "default: []\n";

static struct rig rig;

#define ID .request_id = SL_STR("req_abc123")

static const char *verdict(struct sl_request request, sl_ns after)
{
    rig.now = NOW + after;
    rig_ask(&rig, request);
    return rig_json(&rig.d, false);
}

static void test_verdicts(void)
{
    CASE("allowed");
    CHECK_STR(
        verdict(GET("/ai", USER("ann"), ID), 0),
        "{\"allowed\":true,\"status\":200,\"code\":null,\"message\":null,"
        "\"by\":null,\"retry_after_ms\":null,\"request_id\":\"req_abc123\","
        "\"degraded\":false,\"hold\":null,\"limits\":[{\"name\":\"ai-minute\","
        "\"kind\":\"token-bucket\",\"plan\":\"free\",\"scope\":\"user\","
        "\"limit\":5,\"burst\":8,\"remaining\":7,\"reset_ms\":12000,"
        "\"retry_after_ms\":null,\"mode\":\"enforce\",\"allowed\":true}],"
        "\"headers\":{\"X-RateLimit-Limit\":\"5\","
        "\"X-RateLimit-Remaining\":\"7\",\"X-RateLimit-Reset\":\"1730822408\","
        "\"X-Request-Id\":\"req_abc123\",\"Access-Control-Expose-Headers\":"
        "\"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
        "X-Request-Id\"},\"append_headers\":"
        "[\"Access-Control-Expose-Headers\"],\"body\":null}");
    CASE("denied");
    rig_ask(&rig, GET("/ai", USER("ann"), COST(7)));
    CHECK_STR(
        verdict(GET("/ai", USER("ann"), ID), 0),
        "{\"allowed\":false,\"status\":429,\"code\":\"RATE_LIMITED\","
        "\"message\":\"Too many requests: the limit \\\"ai-minute\\\" allows 5 "
        "per minute. Try again in 12 s.\",\"by\":\"ai-minute\","
        "\"retry_after_ms\":12000,\"request_id\":\"req_abc123\","
        "\"degraded\":false,\"hold\":null,\"limits\":[{\"name\":\"ai-minute\","
        "\"kind\":\"token-bucket\",\"plan\":\"free\",\"scope\":\"user\","
        "\"limit\":5,\"burst\":8,\"remaining\":0,\"reset_ms\":96000,"
        "\"retry_after_ms\":12000,\"mode\":\"enforce\",\"allowed\":false}],"
        "\"headers\":{\"Content-Type\":\"application/problem+json\","
        "\"X-RateLimit-Limit\":\"5\",\"X-RateLimit-Remaining\":\"0\",\"X-"
        "RateLimit-Reset\":\"1730822492\","
        "\"Retry-After\":\"12\",\"X-Request-Id\":\"req_abc123\","
        "\"Cache-Control\":\"no-store\",\"Access-Control-Expose-Headers\":"
        "\"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
        "Retry-After, X-Request-Id\"},\"append_headers\":"
        "[\"Access-Control-Expose-Headers\"],\"body\":{\"type\":"
        "\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
        "\"title\":\"Too many requests\",\"status\":429,\"detail\":\"Too many "
        "requests: the limit \\\"ai-minute\\\" allows 5 per minute. Try again "
        "in 12 s.\",\"code\":\"RATE_LIMITED\",\"retry_after\":12,"
        "\"retry_after_ms\":12000,\"request_id\":\"req_abc123\","
        "\"violated-policies\":[\"ai-minute\"]}}");
    CASE("untouched");
    CHECK_STR(verdict(GET("/off", ID), 0),
              "{\"allowed\":true,\"status\":200,\"code\":null,\"message\":null,"
              "\"by\":null,\"retry_after_ms\":null,\"request_id\":"
              "\"req_abc123\",\"degraded\":false,\"hold\":null,\"limits\":[],"
              "\"headers\":{},\"body\":null}");
    CASE("what can never be has no retry, whatever the store said");
    verdict(GET("/ai", USER("ann")), 0);
    rig.d.shown[0].answer.outcome = SL_NEVER;
    CHECK(has(rig_json(&rig.d, false), "\"retry_after_ms\":null,\"mode\""));
    CASE("the status is the one that is sent");
    ((struct sl_policy *)(uintptr_t)rig.d.policy)
        ->errors[SL_ERROR_RATE_LIMITED]
        .status = 420;
    CHECK(has(rig_json(&rig.d, false), "{\"allowed\":false,\"status\":420,"));
}

/* Numbers of a limit, from what is left on. */
#define LEFT(remaining, reset, retry, rest)                                    \
    "\"remaining\":" remaining ",\"reset_ms\":" reset                          \
    ",\"retry_after_ms\":" retry ",\"mode\":" rest
#define NONE "\"limit\":null,\"burst\":null," LEFT("null", "null", "null", "")

#define SHOWS(why_, path_, user_, ...)                                         \
    {                                                                          \
        .why = (why_), .path = (path_), .user = (user_), .want = __VA_ARGS__   \
    }

static const struct {
    const char *why, *path, *user, *want;
    const char *org, *plan, *override; /* of ai-minute */
    uint64_t cost, month;              /* 0: not given */
    sl_ns after;
    int fault;
} limits[] = {
    SHOWS("spans are rounded up", "/ai", "ann",
          LEFT("0", "96000", "12000", "\"enforce\",\"allowed\":false}"),
          .after = 1),
    SHOWS("a cost that never fits", "/ai", "ann",
          LEFT("0", "96000", "null", "\"enforce\",\"allowed\":false}"),
          .cost = 9),
    SHOWS("a shadow allows", "/shadow", "sue",
          LEFT("0", "60000", "null", "\"shadow\",\"allowed\":true}")),
    SHOWS("a shadow never refuses", "/shadow", "sue",
          "{\"allowed\":true,\"status\":200,"),
    SHOWS("and says that it would", "/shadow", "sue",
          LEFT("0", "60000", "60000", "\"shadow\",\"allowed\":false}")),
    SHOWS("when the limits refuse", "/shadow", "sue",
          "\"by\":\"calls\",\"retry_after_ms\":20000,"),
    SHOWS("what the limits refuse", "/calls", "sue", "\"remaining\":0,",
          .cost = 3, .after = SL_MIN),
    SHOWS("a shadow would allow", "/shadow", "sue",
          LEFT("1", "0", "null", "\"shadow\",\"allowed\":true}"),
          .after = SL_MIN),
    SHOWS("and has not counted", "/shadow", "sue",
          LEFT("0", "60000", "null", "\"shadow\",\"allowed\":true}"),
          .after = SL_MIN + 30 * SL_S),
    SHOWS("a candidate has its own state", "/both", "cat",
          ",\"candidate\":{\"limit\":1,\"remaining\":0,\"allowed\":true}}"),
    SHOWS("and decides nothing", "/both", "cat",
          LEFT("1", "40000", "null",
               "\"enforce\",\"allowed\":true,\"candidate\":{\"limit\":1,"
               "\"remaining\":0,\"allowed\":false}}")),
    SHOWS("one that was not asked", "/both", "dan",
          LEFT("null", "null", "null",
               "\"enforce\",\"allowed\":true,\"candidate\":{\"limit\":1,"
               "\"remaining\":null,\"allowed\":true}}"),
          .fault = 1),
    SHOWS("what could not be asked has a limit", "/both", "dan",
          "\"degraded\":true,\"hold\":null,\"limits\":[{\"name\":\"both\","
          "\"kind\":\"token-bucket\",\"plan\":\"free\",\"scope\":\"user\","
          "\"limit\":3,\"burst\":3,\"remaining\":null,",
          .fault = 1),
    SHOWS("no wait", "/paced", "", "\"allowed\":true}],"),
    SHOWS("a wait, rounded up", "/paced", "",
          "\"allowed\":true,\"wait_ms\":1001}],", .after = SL_S - 1),
    SHOWS("skipped", "/month", "eve",
          NONE "\"enforce\",\"allowed\":true,\"skipped\":true}],"),
    SHOWS("several", "/month", "eve",
          "},{\"name\":\"month\",\"kind\":\"quota\",", .org = "acme"),
    SHOWS("just used up", "/month", "eve",
          "\"mode\":\"enforce\",\"allowed\":true}],", .org = "pay",
          .plan = "pro", .month = 10),
    SHOWS("overage", "/month", "fay", "\"allowed\":true,\"overage\":true}],",
          .org = "pay", .plan = "pro", .month = 7),
    SHOWS("an override of the request", "/ai", "ann",
          LEFT("11", "27000", "null",
               "\"enforce\",\"allowed\":true,\"override\":\"request\"}],"),
          .override = "20/min"),
    SHOWS("what is unlimited has no numbers", "/free", "ann",
          NONE "\"shadow\",\"allowed\":true}],"),
    SHOWS("permits have no reset", "/permits", "ann",
          "\"limit\":2,\"burst\":2," LEFT("1", "null", "null",
                                          "\"enforce\",\"allowed\":true}")),
};

static void test_limit(unsigned i)
{
    struct sl_cost month = {SL_STR("month"), limits[i].month};
    struct sl_override override = {SL_STR("ai-minute"),
                                   sl_str_c(limits[i].override)};
    struct sl_request request = GET("");

    request.path = sl_str_c(limits[i].path);
    request.user = sl_str_c(limits[i].user);
    request.org = sl_str_c(limits[i].org);
    request.plan = sl_str_c(limits[i].plan);
    request.has_cost = limits[i].cost > 0;
    request.cost = limits[i].cost;
    request.costs = &month;
    request.cost_count = limits[i].month > 0;
    request.overrides = &override;
    request.override_count = limits[i].override != NULL;
    rig.fault = limits[i].fault;
    CASE(limits[i].why);
    CHECK(has(verdict(request, limits[i].after), limits[i].want));
    rig.fault = 0;
}

static void test_limits(void)
{
    rig.now = NOW;
    rig_ask(&rig, GET("/ai", USER("ann"), COST(8)));
    for (unsigned i = 0; i < SL_LEN(limits); i++)
        test_limit(i);
    CASE("untracked");
    verdict(GET("/permits", USER("bob")), 0);
    rig.d.shown[0].untracked = true;
    CHECK(has(rig_json(&rig.d, false), "\"allowed\":true,\"untracked\":true}"));
}

/* ---- bodies ---- */

static void test_body(void)
{
    static const char text[] =
        "sluice: 1\n"
        "limits: { search: { kind: token-bucket, per: user, rate: 10/min } }\n"
        "default: [search]\n"
        "errors:\n"
        "  rate_limited:\n"
        "    body: { n: 5, limit: '{limit}', remaining: '{remaining}',\n"
        "      retry: '{retry_after}', retry_ms: '{retry_after_ms}',\n"
        "      reset: '{reset}', reset_ms: '{reset_ms}', iso: '{reset_iso}',\n"
        "      message: '{message}', id: '{id}', status: '{status}',\n"
        "      text: 'at {limit}, \"{id}\"' }\n";

    CASE("a body of the policy's own keeps its order and its types");
    rig_open(&rig, text);
    verdict(GET("/", USER("an\"n"), COST(10)), 0);
    CHECK(has(verdict(GET("/", USER("an\"n")), 0),
              "\"body\":{\"n\":5,\"limit\":10,\"remaining\":0,\"retry\":6,"
              "\"retry_ms\":6000,\"reset\":1730822456,\"reset_ms\":60000,"
              "\"iso\":\"2024-11-05T16:00:56Z\",\"message\":\"Too many "
              "requests: the limit \\\"search\\\" allows 10 per minute. Try "
              "again in 6 s.\",\"id\":\"an\\\"n\",\"status\":429,\"text\":"
              "\"at 10, \\\"an\\\"n\\\"\"}}"));
    rig_close(&rig);
}

/* ---- headers that no policy brings about ---- */

static unsigned header_count;

static const char *header(const char *name)
{
    static char value[4096];
    struct sl_rendered out;
    struct sl_arena arena;
    bool found = false;

    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    CHECK_EQ(sl_render(&rig.d, &arena, &out), 0);
    header_count = out.header_count;
    for (unsigned i = 0; i < out.header_count && !found; i++) {
        found = sl_str_eq(out.headers[i].name, sl_str_c(name));
        snprintf(value, sizeof(value), "%.*s",
                 SL_STR_ARG(out.headers[i].value));
    }
    sl_arena_done(&arena);
    return found ? value : NULL;
}

static const char four[] =
    "sluice: 1\n"
    "headers: [x-ratelimit, ietf, github]\n"
    "limits:\n"
    "  a: { kind: fixed-window, per: user, rate: 5/s }\n"
    "  p: { kind: concurrency, per: user, rate: 2 }\n"
    "  q: { kind: quota, per: user, rate: 9/month }\n"
    "routes:\n"
    "  - { match: /p, limits: [p] }\n"
    "  - { match: /aq, limits: [a, q], report: a, reset: next }\n"
    "default: [a]\n";

static void test_names(void)
{
    static const struct {
        const char *why, *name, *string, *plain;
    } rows[] = {
        ROW("quotes and backslashes", "a\"b\\c", "\"a\\\"b\\\\c\"", "a\"b\\c"),
        ROW("blanks", "a b", "\"a b\"", "a%20b"),
        ROW("line ends", "a\r\nSet-Cookie: x=1%",
            "\"a%0d%0aSet-Cookie: x=1%25\"", "a%0d%0aSet-Cookie:%20x=1%25"),
        ROW("other tongues", "\xc3\xa4\x7f", "\"%c3%a4%7f\"", "%c3%a4%7f"),
        ROW("percent signs stay where all is well", "50%", "\"50%\"", "50%"),
    };
    struct sl_rule rule;
    char want[128];

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        rig_ask(&rig, GET("/", USER("ann"), COST(0)));
        rule = *rig.d.shown[0].rule;
        rule.name = sl_str_c(rows[i].name);
        rig.d.shown[0].rule = &rule;
        rig.d.texts = NULL; /* they have the name of the policy */
        memcpy(rig.d.request_id, rows[i].name, strlen(rows[i].name) + 1);
        snprintf(want, sizeof(want), "%s;r=5;t=1", rows[i].string);
        CHECK_STR(header("RateLimit"), want);
        snprintf(want, sizeof(want), "%s;q=5;w=1", rows[i].string);
        CHECK_STR(header("RateLimit-Policy"), want);
        CHECK_STR(header("x-ratelimit-resource"), rows[i].plain);
        CHECK_STR(header("X-Request-Id"), rows[i].plain);
    }
}

static void test_rare(void)
{
    CASE("a reset beyond the end of time");
    rig.now = 0;
    rig_ask(&rig, GET("/", USER("ann")));
    rig.d.now = SL_TIME_END - 1;
    rig.d.shown[0].answer.reset_in = SL_NS_MAX;
    CHECK_STR(header("X-RateLimit-Reset"), "9223372037");
    CASE("without a next unit it is the full reset");
    rig_ask(&rig, GET("/aq", USER("ann"), COST(0)));
    rig.d.shown[0].next_in = SL_NS_NONE;
    CHECK_STR(header("X-RateLimit-Reset"), "1");
    CASE("the reported limit is listed even as a shadow");
    rig.d.shown[0].mode = rig.d.shown[1].mode = SL_MODE_SHADOW;
    CHECK_STR(header("RateLimit-Policy"), "\"a\";q=5;w=1");
    CASE("a quota without numbers has no header");
    rig.d.quota = 1;
    CHECK_STR(header("X-Org-Quota-Remaining"), "9");
    rig.d.shown[1].form = SL_RATE_UNLIMITED;
    CHECK_STR(header("X-Org-Quota-Remaining"), NULL);
    CASE("without numbers nothing is said");
    rig.d.shown[0].answer = (struct sl_answer){.outcome = SL_ALLOW};
    CHECK_STR(header("X-RateLimit-Limit"), NULL);
    CASE("Retry-After is never 0");
    rig_ask(&rig, GET("/", USER("ann"), COST(4)));
    rig_ask(&rig, GET("/", USER("ann"), COST(2)));
    rig.d.retry_in = 0;
    CHECK_STR(header("Retry-After"), "1");
    CASE("permits without a retry");
    rig_ask(&rig, GET("/p", USER("ann")));
    rig_ask(&rig, GET("/p", USER("ann")));
    rig_ask(&rig, GET("/p", USER("ann")));
    rig.d.retry_in = rig.d.shown[0].answer.retry_in = SL_NS_NONE;
    CHECK(has(rig_json(&rig.d, false),
              "Too many concurrent requests: the limit \\\"p\\\" allows 2 at a "
              "time. Try "
              "again when another request has ended.\""));
    CASE("an unknown plan is the default");
    rig.d.plan = 77;
    CHECK(has(rig_json(&rig.d, true), ",\"plan\":\"default\",\"route\""));
}

/* The most that one answer can have fits. */
static void test_many(void)
{
    static struct sl_rule rules[SL_PARTS];
    static char name[300];
    struct sl_route route = *rig.d.route;

    CASE("sixteen limits with long and hostile names, in all dialects");
    memset(name, '\xff', sizeof(name));
    rig_ask(&rig, GET("/", USER("ann")));
    route.dialects = ~0;
    rig.d.route = &route;
    rig.d.texts = NULL;
    for (unsigned i = 0; i < SL_PARTS; i++) {
        rules[i] = *rig.d.shown[0].rule;
        rules[i].dialects = -1;
        rules[i].name = (struct sl_str){name, sizeof(name)};
        if (i > 0)
            rig.d.shown[i] = rig.d.shown[0];
        rig.d.shown[i].answer.limit = rig.d.shown[i].answer.remaining =
            UINT64_MAX;
        rig.d.shown[i].answer.reset_in = SL_NS_MAX;
    }
    for (unsigned i = 0; i < SL_PARTS; i++)
        rig.d.shown[i].rule = &rules[i];
    rules[1].unit = SL_STR("tokens");
    rig.d.shown_count = SL_PARTS;
    memset(rig.d.request_id, '\xff', SL_REQUEST_ID);
    rig.d.degraded = true;
    rig.d.quota = 3;
    rig.d.allowed = rig.d.shown[0].allowed = false;
    rig.d.by = rig.d.report = 0;
    rig.d.status = 429;
    rig.d.retry_in = rig.d.shown[0].answer.retry_in = SL_NS_MAX;
    CHECK_EQ(strlen(header("X-Request-Id")), 3 * SL_REQUEST_ID);
    CHECK_STR(header("x-ratelimit-remaining-tokens"), "999999999999999");
    CHECK_EQ(header_count, 24);
}

/* ---- failures ---- */

static void test_no_memory(void)
{
    struct sl_rendered before, out;
    bool done = false;

    CASE("without memory nothing is given and nothing is lost");
    rig_ask(&rig, GET("/", USER("ann"), COST(6)));
    memset(&before, 0x55, sizeof(before));
    for (unsigned nth = 1; !done && nth < 100; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_arena arena;
        struct sl_buf buf;
        int err, message_err;

        sl_arena_init(&arena, 1 << 16, &alloc);
        sl_buf_init(&buf, 1 << 16, &alloc);
        out = before;
        err = sl_render(&rig.d, &arena, &out);
        CHECK(!err || (err == SLUICE_ENOMEM &&
                       memcmp(&before, &out, sizeof(before)) == 0));
        message_err = sl_render_message(&rig.d, &buf);
        CHECK(!message_err || (message_err == SLUICE_ENOMEM && buf.len == 0));
        sl_buf_clear(&buf);
        if (!err)
            err = sl_render_verdict(&rig.d, &out, false, &buf);
        CHECK(!err || err == SLUICE_ENOMEM);
        CHECK(!err || buf.len == 0);
        done = !err && !message_err;
        sl_arena_done(&arena);
        sl_buf_done(&buf);
        fail_check(&f);
    }
    CHECK(done);
}

static void test_ceilings(void)
{
    struct sl_rendered out;
    struct sl_arena arena;
    struct sl_buf buf;

    CASE("an arena that is too small");
    for (size_t ceiling = 64; ceiling < 4096; ceiling += 64) {
        sl_arena_init(&arena, ceiling, &sl_alloc_libc);
        out.status = 77;
        if (sl_render(&rig.d, &arena, &out))
            CHECK_EQ(out.status, 77);
        if (ceiling + 64 < 4096)
            sl_arena_done(&arena);
    }
    CHECK_EQ(out.status, 429);
    CASE("a buffer that is too small keeps what it had");
    sl_buf_init(&buf, 50, &sl_alloc_libc);
    CHECK_EQ(sl_buf_add(&buf, SL_STR("x")), 0);
    CHECK_EQ(sl_render_message(&rig.d, &buf), SLUICE_EFULL);
    CHECK_EQ(sl_render_verdict(&rig.d, &out, false, &buf), SLUICE_EFULL);
    CHECK_EQ(buf.len, 1);
    sl_buf_done(&buf);
    sl_arena_done(&arena);
}

int main(void)
{
    rig_open(&rig, policy);
    test_limits();
    rig_close(&rig);
    rig_open(&rig, policy);
    test_verdicts();
    rig_close(&rig);
    test_body();
    rig_open(&rig, four);
    rig_ask(&rig, GET("/"));
    test_names();
    test_rare();
    test_many();
    test_no_memory();
    test_ceilings();
    rig_close(&rig);
    return CHECK_DONE();
}
