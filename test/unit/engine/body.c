/* body.c -- bodies of denials, to the letter. */
#include "fail.h"
#include "row.h"
#include "stage.h"

static struct stage s;

static void search(void)
{
    stage_open(&s);
    stage_limit(&s, SL_STR("search"), SL_BUCKET, "10/min");
}

/* ---- bodies of the policy ---- */

static struct sl_yaml_node nodes[16];
static unsigned node_count;

/* Another member of the body; a text in quotes unless it is a plain number. */
static void member(const char *key, const char *text)
{
    struct sl_yaml_node *n = &nodes[node_count++];

    *n = (struct sl_yaml_node){.kind = SL_NODE_SCALAR,
                               .key = sl_str_c(key),
                               .text = sl_str_c(text),
                               .quoted = text[0] < '0' || text[0] > '9'};
    if (node_count > 1)
        n[-1].next = n;
}

static void use_body(enum sl_error error)
{
    struct sl_yaml_node root = {
        .kind = SL_NODE_MAP, .child = nodes, .count = node_count};
    struct sl_report report;

    sl_report_init(&report, "test.yaml", SL_STR(""), &sl_alloc_libc);
    CHECK_EQ(sl_template_read_body(&root, &s.texts,
                                   &s.policy.errors[error].body, &report),
             0);
    s.policy.errors[error].has_body = true;
    sl_report_done(&report);
    node_count = 0;
}

static void seed_000(void)
{
    struct sl_limit_view *shown;

    CASE("000-E03: status, error, message, timestamp");
    stage_open(&s);
    shown = stage_limit(&s, SL_STR("ai-minute"), SL_BUCKET, "5/min burst 8");
    s.rules[0].deny.message =
        stage_words(&s, "Rate limit exceeded. Maximum {limit} AI requests per "
                        "minute. Please try again shortly.");
    member("status", "429");
    member("error", "Too Many Requests");
    member("message", "{message}");
    member("timestamp", "{now_iso}");
    use_body(SL_ERROR_RATE_LIMITED);
    s.d.now += 999 * SL_MS;
    stage_deny(&s, shown, 12 * SL_S);
    CHECK_STR(stage_body(&s),
              "{\"status\":429,\"error\":\"Too Many Requests\",\"message\":"
              "\"Rate limit exceeded. Maximum 5 AI requests per minute. "
              "Please try again shortly.\",\"timestamp\":"
              "\"2024-11-05T15:59:56Z\"}");
    CHECK_STR(stage_text(&s, s.out.content_type), "application/json");
    CHECK_EQ(s.out.status, 429);
    stage_close(&s);
}

static void seed_002(void)
{
    struct sl_limit_view *shown;

    CASE("002-E01: code, message, retryAfterSec, requestId");
    search();
    s.rules[0].deny.message =
        stage_words(&s, "Too many requests. Try again later.");
    member("code", "RATE_LIMITED");
    member("message", "{message}");
    member("retryAfterSec", "{retry_after}");
    member("requestId", "{request_id}");
    use_body(SL_ERROR_RATE_LIMITED);
    stage_deny(&s, &s.d.shown[0], 8001 * SL_MS);
    CHECK_STR(stage_body(&s),
              "{\"code\":\"RATE_LIMITED\",\"message\":\"Too many requests. Try "
              "again later.\",\"retryAfterSec\":9,\"requestId\":"
              "\"req_abc123\"}");
    stage_close(&s);

    CASE("002-E02: 402, code, message, requestId");
    stage_open(&s);
    shown = stage_limit(&s, SL_STR("transcription"), SL_QUOTA, "120/month");
    s.rules[0].deny = (struct sl_deny){
        402, SL_STR("PLAN_LIMIT_EXCEEDED"),
        stage_words(&s, "You've reached your monthly transcription minutes. "
                        "Upgrade to continue.")};
    member("code", "{code}");
    member("message", "{message}");
    member("requestId", "{request_id}");
    use_body(SL_ERROR_PLAN_LIMIT);
    stage_deny(&s, shown, 20 * SL_DAY);
    CHECK_STR(stage_body(&s),
              "{\"code\":\"PLAN_LIMIT_EXCEEDED\",\"message\":\"You've reached "
              "your monthly transcription minutes. Upgrade to continue.\","
              "\"requestId\":\"req_abc123\"}");
    CHECK_EQ(s.out.status, 402);
    stage_close(&s);
}

static void seed_003(void)
{
    struct sl_limit_view *shown;

    CASE("003-E01: error, limit, remaining, resetTime");
    stage_open(&s);
    shown = stage_limit(&s, SL_STR("sessions"), SL_FIXED, "10/h");
    member("error", "Rate limit exceeded");
    member("limit", "{limit}");
    member("remaining", "{remaining}");
    member("resetTime", "{reset_iso_ms}");
    use_body(SL_ERROR_RATE_LIMITED);
    stage_left(shown, 0, 4 * SL_S);
    stage_deny(&s, shown, 4 * SL_S);
    CHECK_STR(stage_body(&s),
              "{\"error\":\"Rate limit exceeded\",\"limit\":10,\"remaining\":0,"
              "\"resetTime\":\"2024-11-05T16:00:00.000Z\"}");
    stage_close(&s);
}

static void seed_004(void)
{
    struct sl_limit_view *shown;

    CASE("004-E03: error, message, retryAfterSeconds");
    stage_open(&s);
    shown = stage_limit(&s, SL_STR("user"), SL_BUCKET, "100/min");
    s.rules[0].deny.message = stage_words(
        &s, "User rate limit exceeded. Retry after {retry_after} seconds");
    member("error", "Rate limit exceeded");
    member("message", "{message}");
    member("retryAfterSeconds", "{retry_after}");
    use_body(SL_ERROR_RATE_LIMITED);
    stage_deny(&s, shown, 600 * SL_MS);
    CHECK_STR(
        stage_body(&s),
        "{\"error\":\"Rate limit exceeded\",\"message\":\"User rate limit "
        "exceeded. Retry after 1 seconds\",\"retryAfterSeconds\":1}");
    CASE("without a time: null, and a sentence that does not lie");
    s.d.never = true;
    shown->answer.outcome = SL_NEVER;
    shown->cost = 101;
    CHECK_STR(stage_body(&s),
              "{\"error\":\"Rate limit exceeded\",\"message\":\"Too many "
              "requests: the limit \\\"user\\\" allows 100 per minute. A cost "
              "of 101 can never pass: the maximum is 100.\","
              "\"retryAfterSeconds\":null}");
    stage_close(&s);
}

/* Every placeholder, as a value and inside a text. */
static void all_values(void)
{
    static const struct {
        const char *holder, *value, *text;
    } rows[] = {
        ROW("limit", "10", "<10>"),
        ROW("remaining", "0", "<0>"),
        ROW("retry_after", "7", "<7>"),
        ROW("retry_after_ms", "6001", "<6001>"),
        ROW("reset", "1730822405", "<1730822405>"),
        ROW("reset_ms", "8501", "<8501>"),
        ROW("reset_iso", "\"2024-11-05T16:00:05Z\"", "<2024-11-05T16:00:05Z>"),
        ROW("reset_iso_ms", "\"2024-11-05T16:00:04.501Z\"",
            "<2024-11-05T16:00:04.501Z>"),
        ROW("message", "\"no \\\"more\\\"\"", "<no \\\"more\\\">"),
        ROW("name", "\"search\"", "<search>"),
        ROW("unit", "\"requests\"", "<requests>"),
        ROW("plan", "\"free\"", "<free>"),
        ROW("scope", "\"user\"", "<user>"),
        ROW("id", "\"an\\\"n\"", "<an\\\"n>"),
        ROW("status", "429", "<429>"),
        ROW("code", "\"RATE_LIMITED\"", "<RATE_LIMITED>"),
        ROW("request_id", "\"req_abc123\"", "<req_abc123>"),
        ROW("now_iso", "\"2024-11-05T15:59:56Z\"", "<2024-11-05T15:59:56Z>"),
        ROW("now_iso_ms", "\"2024-11-05T15:59:56.000Z\"",
            "<2024-11-05T15:59:56.000Z>"),
    };
    char value[32], text[32], want[160];

    search();
    s.d.shown[0].id = (char *)"an\"n";
    s.rules[0].deny.message = stage_words(&s, "no \"more\"");
    stage_left(&s.d.shown[0], 0, 8500 * SL_MS + 1);
    stage_deny(&s, &s.d.shown[0], 6001 * SL_MS);
    CHECK_EQ(SL_LEN(rows), SL_HOLDS);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].holder);
        snprintf(value, sizeof(value), "{%s}", rows[i].holder);
        snprintf(text, sizeof(text), "<{%s}>", rows[i].holder);
        member("v", value);
        member("t", text);
        use_body(SL_ERROR_RATE_LIMITED);
        snprintf(want, sizeof(want), "{\"v\":%s,\"t\":\"%s\"}", rows[i].value,
                 rows[i].text);
        CHECK_STR(stage_body(&s), want);
    }
    CASE("the body's reset is that of the headers");
    s.route.reset = SL_RESET_NEXT;
    s.d.shown[0].next_in = 2 * SL_S;
    member("r", "{reset}");
    member("ms", "{reset_ms}");
    use_body(SL_ERROR_RATE_LIMITED);
    CHECK_STR(stage_body(&s), "{\"r\":1730822398,\"ms\":2000}");
    stage_close(&s);
}

/* Every placeholder where there is nothing to say. */
static void no_values(void)
{
    CASE("what there is none of is null, 0 or empty");
    search();
    stage_refuse(&s, SL_REASON_ROLE, 403, SL_STR("FORBIDDEN"));
    member("limit", "{limit}");
    member("reset", "{reset_iso}");
    member("name", "{name}");
    member("text", "[{limit}|{retry_after}|{reset_iso}|{id}]");
    member("plan", "{plan}");
    use_body(SL_ERROR_FORBIDDEN);
    CHECK_STR(stage_body(&s), "{\"limit\":null,\"reset\":null,\"name\":null,"
                              "\"text\":\"[0|0||]\",\"plan\":\"free\"}");
    CASE("a plan that nobody chose is the default");
    s.d.plan = 77;
    member("plan", "{plan}");
    use_body(SL_ERROR_FORBIDDEN);
    CHECK_STR(stage_body(&s), "{\"plan\":\"free\"}");
    CASE("a limit without numbers");
    s.d.shown[0].form = SL_RATE_NONE;
    stage_refuse(&s, SL_REASON_CAPABILITY, 403, SL_STR("FORBIDDEN"));
    member("limit", "{limit}");
    member("remaining", "{remaining}");
    member("name", "{name}");
    use_body(SL_ERROR_FORBIDDEN);
    CHECK_STR(stage_body(&s),
              "{\"limit\":null,\"remaining\":null,\"name\":\"search\"}");
    stage_close(&s);
}

/* ---- which form, which status ---- */

static void forms(void)
{
    static const struct {
        const char *why;
        int status, own;
        enum sl_error form;
        int want;
    } rows[] = {
        {"429",                        429, 0,   SL_ERROR_RATE_LIMITED, 429},
        {"402",                        402, 0,   SL_ERROR_PLAN_LIMIT,   402},
        {"403",                        403, 0,   SL_ERROR_FORBIDDEN,    403},
        {"401",                        401, 0,   SL_ERROR_UNAUTHORIZED, 401},
        {"409",                        409, 0,   SL_ERROR_CONFLICT,     409},
        {"503",                        503, 0,   SL_ERROR_UNAVAILABLE,  503},
        {"a form with a status",       429, 420, SL_ERROR_RATE_LIMITED, 420},
        {"no form: told like a 429",   418, 0,   SL_ERROR_RATE_LIMITED, 418},
        {"and its status is not lost", 418, 420, SL_ERROR_RATE_LIMITED, 418},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char want[64];

        CASE(rows[i].why);
        search();
        s.rules[0].deny.status = rows[i].status;
        stage_deny(&s, &s.d.shown[0], SL_S);
        member("s", "{status}");
        use_body(rows[i].form);
        s.policy.errors[rows[i].form].status = rows[i].own;
        snprintf(want, sizeof(want), "{\"s\":%d}", rows[i].want);
        CHECK_STR(stage_body(&s), want);
        CHECK_EQ(s.out.status, rows[i].want);
        stage_close(&s);
    }
}

/* ---- problem details ---- */

#define TYPES "{\"type\":\"https://iana.org/assignments/http-problem-types"

static void problems(void)
{
    struct sl_limit_view *shown;

    CASE("a limit");
    search();
    stage_deny(&s, &s.d.shown[0], 11400 * SL_MS);
    CHECK_STR(stage_body(&s),
              TYPES "#quota-exceeded\",\"title\":\"Too many requests\","
                    "\"status\":429,\"detail\":\"Too many requests: the limit "
                    "\\\"search\\\" allows 10 per minute. Try again in 12 s.\","
                    "\"code\":\"RATE_LIMITED\",\"retry_after\":12,"
                    "\"retry_after_ms\":11400,\"request_id\":\"req_abc123\","
                    "\"violated-policies\":[\"search\"]}");
    CHECK_STR(stage_text(&s, s.out.content_type), "application/problem+json");
    CASE("all enforced limits that deny are named");
    shown = stage_limit(&s, SL_STR("day"), SL_BUCKET, "50/day");
    stage_deny(&s, shown, 20 * SL_S);
    shown = stage_limit(&s, SL_STR("shadow"), SL_BUCKET, "50/day");
    stage_deny(&s, shown, 20 * SL_S);
    shown->mode = SL_MODE_SHADOW;
    stage_limit(&s, SL_STR("fine"), SL_BUCKET, "50/day");
    CHECK(strstr(stage_body(&s), "\"violated-policies\":[\"search\",\"day\"]"));
    CHECK(strstr(stage_body(&s), "\"retry_after\":20,"));
    CASE("what never passes has no retry");
    s.d.never = true;
    CHECK(!strstr(stage_body(&s), "retry"));
    stage_close(&s);

    CASE("a plan's limit");
    stage_open(&s);
    shown = stage_limit(&s, SL_STR("q"), SL_QUOTA, "120/month");
    s.rules[0].unit = SL_STR("minutes");
    s.rules[0].deny.status = 402;
    stage_deny(&s, shown, 20 * SL_DAY);
    CHECK_STR(stage_body(&s),
              TYPES "#quota-exceeded\",\"title\":\"Plan limit reached\","
                    "\"status\":402,\"detail\":\"The quota is used up: the "
                    "limit \\\"q\\\" allows 120 minutes per month. Try again "
                    "in 20 days.\",\"code\":\"RATE_LIMITED\","
                    "\"retry_after\":1728000,\"retry_after_ms\":1728000000,"
                    "\"request_id\":\"req_abc123\","
                    "\"violated-policies\":[\"q\"]}");
    stage_close(&s);
}

static void other_problems(void)
{
    CASE("the store");
    search();
    stage_refuse(&s, SL_REASON_STORE, 503, SL_STR("SERVICE_UNAVAILABLE"));
    s.d.retry_in = SL_S;
    CHECK_STR(stage_body(&s),
              TYPES "#temporary-reduced-capacity\",\"title\":\"Service "
                    "unavailable\",\"status\":503,\"detail\":\"The store is "
                    "not available, so the request cannot be decided. "
                    "Try again in 1 s.\",\"code\":\"SERVICE_UNAVAILABLE\","
                    "\"retry_after\":1,\"retry_after_ms\":1000,"
                    "\"request_id\":\"req_abc123\",\"violated-policies\":[]}");
    CASE("a role");
    s.d.retry_in = SL_NS_NONE;
    stage_refuse(&s, SL_REASON_ROLE, 403, SL_STR("FORBIDDEN"));
    CHECK_STR(
        stage_body(&s),
        "{\"type\":\"about:blank\",\"title\":\"Forbidden\",\"status\":403,"
        "\"detail\":\"The caller's role does not allow this.\",\"code\":"
        "\"FORBIDDEN\",\"request_id\":\"req_abc123\","
        "\"violated-policies\":[]}");
    stage_close(&s);
}

/* ---- failures ---- */

static void no_memory(void)
{
    struct sl_rendered before;
    bool done = false;

    CASE("without memory nothing is given and nothing is lost");
    search();
    stage_deny(&s, &s.d.shown[0], SL_S);
    memset(&s.out, 0x55, sizeof(s.out));
    before = s.out;
    for (unsigned nth = 1; !done && nth < 100; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_arena arena;
        struct sl_buf buf;
        int err, message_err;

        sl_arena_init(&arena, 1 << 16, &alloc);
        sl_buf_init(&buf, 1 << 16, &alloc);
        err = sl_render(&s.d, &arena, &s.out);
        CHECK(!err || (err == SLUICE_ENOMEM &&
                       memcmp(&before, &s.out, sizeof(before)) == 0));
        message_err = sl_render_message(&s.d, &buf);
        CHECK(!message_err || (message_err == SLUICE_ENOMEM && buf.len == 0));
        done = !err && !message_err;
        sl_arena_done(&arena);
        sl_buf_done(&buf);
        fail_check(&f);
    }
    CHECK(done);
    stage_close(&s);
}

static void ceilings(void)
{
    struct sl_arena arena;
    struct sl_buf buf;

    CASE("an arena that is too small");
    search();
    stage_deny(&s, &s.d.shown[0], SL_S);
    for (size_t ceiling = 64; ceiling < 2048; ceiling += 64) {
        sl_arena_init(&arena, ceiling, &sl_alloc_libc);
        s.out.status = 77;
        if (sl_render(&s.d, &arena, &s.out))
            CHECK_EQ(s.out.status, 77);
        sl_arena_done(&arena);
    }
    CHECK_EQ(s.out.status, 429);
    CASE("a buffer that is too small keeps what it had");
    sl_buf_init(&buf, 16, &sl_alloc_libc);
    CHECK_EQ(sl_buf_add(&buf, SL_STR("x")), 0);
    CHECK_EQ(sl_render_message(&s.d, &buf), SLUICE_EFULL);
    CHECK_EQ(buf.len, 1);
    sl_buf_done(&buf);
    stage_close(&s);
}

int main(void)
{
    seed_000();
    seed_002();
    seed_003();
    seed_004();
    all_values();
    no_values();
    forms();
    problems();
    other_problems();
    no_memory();
    ceilings();
    return CHECK_DONE();
}
