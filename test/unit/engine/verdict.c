/* verdict.c -- the JSON of a verdict, to the letter. */
#include "fail.h"
#include "stage.h"

static struct stage s;

static struct sl_limit_view *ai_minute(void)
{
    stage_open(&s);
    s.route.dialects = SL_DIALECT_X_RATELIMIT;
    return stage_limit(&s, SL_STR("ai-minute"), SL_BUCKET, "5/min burst 8");
}

static void denied(void)
{
    struct sl_limit_view *shown = ai_minute();

    CASE("denied");
    stage_left(shown, 0, 96 * SL_S);
    stage_deny(&s, shown, 12 * SL_S);
    CHECK_STR(
        stage_verdict(&s),
        "{\"allowed\":false,\"status\":429,\"code\":\"RATE_LIMITED\","
        "\"message\":\"Too many requests: the limit \\\"ai-minute\\\" allows 5 "
        "per minute. Try again in 12 s.\",\"by\":\"ai-minute\","
        "\"retry_after_ms\":12000,\"request_id\":\"req_abc123\","
        "\"degraded\":false,\"hold\":null,\"limits\":[{\"name\":\"ai-minute\","
        "\"kind\":\"token-bucket\",\"plan\":\"free\",\"scope\":\"user\","
        "\"limit\":5,\"burst\":8,\"remaining\":0,\"reset_ms\":96000,"
        "\"retry_after_ms\":12000,\"mode\":\"enforce\",\"allowed\":false}],"
        "\"headers\":{\"X-RateLimit-Limit\":\"5\","
        "\"X-RateLimit-Remaining\":\"0\",\"X-RateLimit-Reset\":\"1730822492\","
        "\"Retry-After\":\"12\",\"X-Request-Id\":\"req_abc123\","
        "\"Cache-Control\":\"no-store\",\"Access-Control-Expose-Headers\":"
        "\"X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, "
        "Retry-After, X-Request-Id\"},\"body\":{\"type\":"
        "\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
        "\"title\":\"Too many requests\",\"status\":429,\"detail\":\"Too many "
        "requests: the limit \\\"ai-minute\\\" allows 5 per minute. Try again "
        "in 12 s.\",\"code\":\"RATE_LIMITED\",\"retry_after\":12,"
        "\"retry_after_ms\":12000,\"request_id\":\"req_abc123\","
        "\"violated-policies\":[\"ai-minute\"]}}");
    CASE("the status is the one that is sent");
    s.policy.errors[SL_ERROR_RATE_LIMITED].status = 420;
    CHECK(strstr(stage_verdict(&s), "{\"allowed\":false,\"status\":420,"));
    CASE("spans are rounded up");
    s.d.retry_in = shown->answer.retry_in = SL_MS + 1;
    CHECK(strstr(stage_verdict(&s), "\"retry_after_ms\":2,\"request_id\""));
    CHECK(strstr(stage_verdict(&s), "\"retry_after_ms\":2,\"mode\""));
    CASE("never");
    s.d.never = true;
    shown->answer.outcome = SL_NEVER;
    CHECK(strstr(stage_verdict(&s), "\"retry_after_ms\":null,\"request_id\""));
    CHECK(strstr(stage_verdict(&s), "\"retry_after_ms\":null,\"mode\""));
    stage_close(&s);
}

static void allowed(void)
{
    CASE("allowed");
    stage_left(ai_minute(), 7, 12 * SL_S);
    CHECK_STR(
        stage_verdict(&s),
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
        "X-Request-Id\"},\"body\":null}");
    CASE("untouched");
    s.d.untouched = true;
    s.d.shown_count = 0;
    CHECK_STR(stage_verdict(&s),
              "{\"allowed\":true,\"status\":200,\"code\":null,\"message\":null,"
              "\"by\":null,\"retry_after_ms\":null,\"request_id\":"
              "\"req_abc123\",\"degraded\":false,\"hold\":null,\"limits\":[],"
              "\"headers\":{},\"body\":null}");
    stage_close(&s);
}

/* The one limit of a verdict, from `"limit"` to the end of its object. */
static void check_limit(const char *want)
{
    const char *verdict = stage_verdict(&s);
    const char *at = strstr(verdict, ",\"limit\":");
    const char *end = at ? strstr(at, "],\"headers\"") : NULL;

    if (CHECK(at && end))
        CHECK_STR(stage_text(&s, (struct sl_str){at, (size_t)(end - at)}),
                  want);
}

static void limits(void)
{
    struct sl_limit_view *shown = ai_minute();
    struct sl_limit candidate = {.count = 3, .capacity = 4};

    CASE("a candidate, a wait and overage are named when there are any");
    shown->answer.wait = SL_S + 1;
    shown->overage = shown->untracked = true;
    shown->has_candidate = true;
    shown->candidate = &candidate;
    shown->candidate_answer = (struct sl_answer){SL_DENY, 3, 4, 0, 1, 1, 0};
    check_limit(",\"limit\":5,\"burst\":8,\"remaining\":8,\"reset_ms\":0,"
                "\"retry_after_ms\":null,\"mode\":\"enforce\",\"allowed\":true,"
                "\"wait_ms\":1001,\"overage\":true,\"untracked\":true,"
                "\"candidate\":{\"limit\":3,\"remaining\":0,"
                "\"allowed\":false}}");
    CASE("a candidate that was not asked");
    shown->candidate_answer = (struct sl_answer){.outcome = SL_ALLOW};
    CHECK(strstr(stage_verdict(&s), "\"candidate\":{\"limit\":3,\"remaining\":"
                                    "null,\"allowed\":true}"));
    stage_close(&s);

    CASE("what is unlimited has no numbers");
    shown = ai_minute();
    shown->form = SL_RATE_UNLIMITED;
    shown->mode = SL_MODE_SHADOW;
    check_limit(",\"limit\":null,\"burst\":null,\"remaining\":null,"
                "\"reset_ms\":null,\"retry_after_ms\":null,\"mode\":\"shadow\","
                "\"allowed\":true}");
    CASE("nor has what was skipped");
    shown->form = SL_RATE_PER;
    shown->skipped = true;
    check_limit(",\"limit\":null,\"burst\":null,\"remaining\":null,"
                "\"reset_ms\":null,\"retry_after_ms\":null,\"mode\":\"shadow\","
                "\"allowed\":true,\"skipped\":true}");
    CASE("what nobody could ask has a limit, and nothing is known of the rest");
    shown->skipped = false;
    shown->answer = (struct sl_answer){.outcome = SL_ALLOW};
    s.d.degraded = true;
    check_limit(",\"limit\":5,\"burst\":8,\"remaining\":null,"
                "\"reset_ms\":null,\"retry_after_ms\":null,\"mode\":\"shadow\","
                "\"allowed\":true}");
    CHECK(strstr(stage_verdict(&s), "\"degraded\":true,"));
    CASE("permits have no reset");
    stage_close(&s);
    stage_open(&s);
    stage_limit(&s, SL_STR("p"), SL_PERMITS, "2");
    check_limit(
        ",\"limit\":2,\"burst\":2,\"remaining\":2,\"reset_ms\":null,"
        "\"retry_after_ms\":null,\"mode\":\"enforce\",\"allowed\":true}");
    CASE("several");
    stage_limit(&s, SL_STR("q"), SL_QUOTA, "9/month");
    CHECK(strstr(stage_verdict(&s), "},{\"name\":\"q\",\"kind\":\"quota\","));
    stage_close(&s);
}

static void no_memory(void)
{
    bool done = false;

    CASE("without memory the buffer is as it was");
    stage_deny(&s, ai_minute(), SL_S);
    stage_render(&s);
    for (unsigned nth = 1; !done && nth < 100; nth++) {
        struct fail f = {.nth = nth};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_buf buf;
        int err;

        sl_buf_init(&buf, 1 << 16, &alloc);
        err = sl_render_verdict(&s.d, &s.out, &buf);
        done = err == 0;
        CHECK(done || (err == SLUICE_ENOMEM && buf.len == 0));
        sl_buf_done(&buf);
        fail_check(&f);
    }
    CHECK(done);
    CASE("beyond the ceiling too");
    sl_buf_done(&s.buf);
    sl_buf_init(&s.buf, 100, &sl_alloc_libc);
    CHECK_EQ(sl_buf_add(&s.buf, SL_STR("x")), 0);
    CHECK_EQ(sl_render_verdict(&s.d, &s.out, &s.buf), SLUICE_EFULL);
    CHECK_EQ(s.buf.len, 1);
    stage_close(&s);
}

int main(void)
{
    denied();
    allowed();
    limits();
    no_memory();
    return CHECK_DONE();
}
