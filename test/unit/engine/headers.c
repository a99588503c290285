/* headers.c -- what clients read in headers, in the usual dialects. */
#include "row.h"
#include "stage.h"

static struct stage s;

/* The limit of the first seed: 5/min burst 8, one taken. */
static struct sl_limit_view *ai_minute(void)
{
    struct sl_limit_view *shown;

    stage_open(&s);
    shown = stage_limit(&s, SL_STR("ai-minute"), SL_BUCKET, "5/min burst 8");
    stage_left(shown, 7, 11500 * SL_MS);
    return shown;
}

static void untouched(void)
{
    CASE("what is switched off has no headers at all");
    ai_minute();
    s.d.untouched = true;
    stage_render(&s);
    CHECK_EQ(s.out.header_count, 0);
    CHECK_EQ(s.out.status, 200);
    CHECK_EQ(s.out.body.len, 0);
    stage_close(&s);
}

static void allowed(void)
{
    CASE("allowed, in the usual dialects");
    ai_minute();
    stage_render(&s);
    CHECK_EQ(s.out.status, 200);
    CHECK_EQ(s.out.content_type.len + s.out.body.len, 0);
    CHECK_STR(stage_headers(&s),
              "X-RateLimit-Limit: 5\n"
              "X-RateLimit-Remaining: 7\n"
              "X-RateLimit-Reset: 1730822408\n"
              "RateLimit-Policy: \"ai-minute\";q=5;w=60;sluice-burst=8\n"
              "RateLimit: \"ai-minute\";r=7;t=12\n"
              "X-Request-Id: req_abc123\n"
              "Access-Control-Expose-Headers: X-RateLimit-Limit, "
              "X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, "
              "RateLimit, X-Request-Id\n");
    stage_close(&s);
}

static void denied(void)
{
    struct sl_limit_view *shown = ai_minute();

    CASE("denied: Retry-After, no-store, and t is the retry");
    stage_left(shown, 0, 96 * SL_S);
    stage_deny(&s, shown, 11001 * SL_MS);
    stage_render(&s);
    CHECK_EQ(s.out.status, 429);
    CHECK_STR(stage_headers(&s),
              "X-RateLimit-Limit: 5\n"
              "X-RateLimit-Remaining: 0\n"
              "X-RateLimit-Reset: 1730822492\n"
              "RateLimit-Policy: \"ai-minute\";q=5;w=60;sluice-burst=8\n"
              "RateLimit: \"ai-minute\";r=0;t=12\n"
              "Retry-After: 12\n"
              "X-Request-Id: req_abc123\n"
              "Cache-Control: no-store\n"
              "Access-Control-Expose-Headers: X-RateLimit-Limit, "
              "X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, "
              "RateLimit, Retry-After, X-Request-Id\n");
    CASE("Retry-After is at least 1");
    shown->answer.retry_in = s.d.retry_in = 1;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "Retry-After"), "1");
    s.d.retry_in = 0;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "Retry-After"), "1");
    s.d.retry_in = SL_S;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "Retry-After"), "1");
    s.d.retry_in = SL_S + 1;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "Retry-After"), "2");
    CASE("what never passes has no Retry-After");
    s.d.never = true;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "Retry-After"), NULL);
    CASE("refused although something is left: t is the retry too");
    shown->answer.retry_in = 12 * SL_S;
    shown->answer.remaining = 1;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "RateLimit"), "\"ai-minute\";r=1;t=12");
    stage_close(&s);
}

/* 002-H07 and 002-H08. */
static void seed_002(void)
{
    struct sl_limit_view *rate, *quota;

    CASE("the example 200 of seed 002");
    stage_open(&s);
    s.route.dialects = SL_DIALECT_X_RATELIMIT;
    rate = stage_limit(&s, SL_STR("search"), SL_SLIDING, "10/10s");
    quota = stage_limit(&s, SL_STR("minutes"), SL_QUOTA, "1500/month");
    stage_left(rate, 7, 9 * SL_S);
    stage_left(quota, 1487, 20 * SL_DAY);
    s.d.quota = 1;
    stage_render(&s);
    CHECK_STR(stage_headers(&s),
              "X-RateLimit-Limit: 10\n"
              "X-RateLimit-Remaining: 7\n"
              "X-RateLimit-Reset: 1730822405\n"
              "X-Org-Quota-Remaining: 1487\n"
              "X-Request-Id: req_abc123\n"
              "Access-Control-Expose-Headers: X-RateLimit-Limit, "
              "X-RateLimit-Remaining, X-RateLimit-Reset, "
              "X-Org-Quota-Remaining, X-Request-Id\n");
    CASE("the example 429 of seed 002");
    stage_left(rate, 0, 14 * SL_S);
    stage_deny(&s, rate, 9 * SL_S);
    stage_render(&s);
    CHECK_STR(stage_header(&s, "Retry-After"), "9");
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit"), "10");
    CHECK_STR(stage_header(&s, "X-RateLimit-Remaining"), "0");
    CHECK_STR(stage_header(&s, "X-RateLimit-Reset"), "1730822410");
    CASE("a quota without numbers has no header");
    quota->form = SL_RATE_UNLIMITED;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-Org-Quota-Remaining"), NULL);
    stage_close(&s);
}

static void resets(void)
{
    struct sl_limit_view *shown = ai_minute();

    CASE("reset: next shows the next unit, in every dialect but ietf");
    s.route.reset = SL_RESET_NEXT;
    s.route.dialects = SL_DIALECT_X_RATELIMIT | SL_DIALECT_IETF |
                       SL_DIALECT_IETF_06 | SL_DIALECT_OPENAI;
    shown->next_in = 2500 * SL_MS;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Reset"), "1730822399");
    CHECK_STR(stage_header(&s, "RateLimit-Reset"), "3");
    CHECK_STR(stage_header(&s, "x-ratelimit-reset-requests"), "2.5s");
    CHECK_STR(stage_header(&s, "RateLimit"), "\"ai-minute\";r=7;t=12");
    CASE("a whole second is not rounded up");
    shown->next_in = 2 * SL_S;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Reset"), "1730822398");
    CASE("reset: full does not");
    s.route.reset = SL_RESET_FULL;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Reset"), "1730822408");
    CASE("without a next unit it is the full reset");
    s.route.reset = SL_RESET_NEXT;
    shown->next_in = SL_NS_NONE;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Reset"), "1730822408");
    stage_close(&s);
}

static void policies(void)
{
    static const struct {
        const char *why;
        enum sl_kind kind;
        const char *rate, *want;
    } rows[] = {
        ROW("a bucket", SL_BUCKET, "5/min", "\"l\";q=5;w=60"),
        ROW("with a burst", SL_BUCKET, "5/min burst 8",
            "\"l\";q=5;w=60;sluice-burst=8"),
        ROW("a leaky one holds its queue and one more", SL_LEAKY,
            "5/10s queue 5", "\"l\";q=5;w=10;sluice-burst=6"),
        ROW("a window below a second", SL_FIXED, "5/500ms", "\"l\";q=5;w=1"),
        ROW("a window of a second and a half", SL_FIXED, "5/1500ms",
            "\"l\";q=5;w=2"),
        ROW("days of a calendar", SL_QUOTA, "100/2d", "\"l\";q=100;w=172800"),
        ROW("weeks", SL_QUOTA, "100/week", "\"l\";q=100;w=604800"),
        ROW("a month has no length", SL_QUOTA, "120/month", "\"l\";q=120"),
        ROW("permits", SL_PERMITS, "2", "\"l\";q=2;qu=\"concurrent-requests\""),
        ROW("a level", SL_LEVEL, "5", "\"l\";q=5"),
        ROW("more than a structured field holds", SL_QUOTA,
            "9007199254740992/month", "\"l\";q=999999999999999"),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        stage_open(&s);
        stage_limit(&s, SL_STR("l"), rows[i].kind, rows[i].rate);
        stage_render(&s);
        CHECK_STR(stage_header(&s, "RateLimit-Policy"), rows[i].want);
        stage_close(&s);
    }
}

/* Which limits RateLimit-Policy lists. */
static void listed(void)
{
    struct sl_limit_view *b, *c;

    CASE("all limits that count are listed, in order");
    stage_open(&s);
    stage_limit(&s, SL_STR("a"), SL_BUCKET, "1/s");
    b = stage_limit(&s, SL_STR("b"), SL_BUCKET, "2/s");
    c = stage_limit(&s, SL_STR("c"), SL_BUCKET, "3/s");
    s.d.report = 2;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "RateLimit-Policy"),
              "\"a\";q=1;w=1, \"b\";q=2;w=1, \"c\";q=3;w=1");
    CHECK_STR(stage_header(&s, "RateLimit"), "\"c\";r=3;t=0");
    CASE("shadows are not, nor what is unlimited or was skipped");
    b->mode = SL_MODE_SHADOW;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "RateLimit-Policy"),
              "\"a\";q=1;w=1, \"c\";q=3;w=1");
    b->mode = SL_MODE_ENFORCE;
    b->form = SL_RATE_UNLIMITED;
    s.d.shown[0].skipped = true;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "RateLimit-Policy"), "\"c\";q=3;w=1");
    CASE("nor those with other dialects of their own");
    s.d.shown[0].skipped = false;
    s.rules[0].dialects = SL_DIALECT_KONG;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "RateLimit-Policy"), "\"c\";q=3;w=1");
    CASE("but the reported one always is");
    c->mode = SL_MODE_SHADOW;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "RateLimit-Policy"), "\"c\";q=3;w=1");
    stage_close(&s);
}

static void which_dialects(void)
{
    struct sl_limit_view *shown = ai_minute();

    CASE("a limit's own dialects go before the route's");
    s.rules[0].dialects = SL_DIALECT_IETF_06;
    stage_render(&s);
    CHECK_STR(stage_headers(&s),
              "RateLimit-Limit: 5\n"
              "RateLimit-Remaining: 7\n"
              "RateLimit-Reset: 12\n"
              "RateLimit-Policy: 5;w=60\n"
              "X-Request-Id: req_abc123\n"
              "Access-Control-Expose-Headers: RateLimit-Limit, "
              "RateLimit-Remaining, RateLimit-Reset, RateLimit-Policy, "
              "X-Request-Id\n");
    CASE("none is a dialect too");
    s.rules[0].dialects = 0;
    stage_render(&s);
    CHECK_STR(stage_headers(&s),
              "X-Request-Id: req_abc123\n"
              "Access-Control-Expose-Headers: X-Request-Id\n");
    CASE("a shadow's numbers are shown too");
    s.rules[0].dialects = SL_DIALECT_X_RATELIMIT;
    shown->mode = SL_MODE_SHADOW;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit"), "5");
    CASE("without numbers nothing is said");
    shown->form = SL_RATE_UNLIMITED;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit"), NULL);
    shown->form = SL_RATE_PER;
    shown->answer = (struct sl_answer){.outcome = SL_ALLOW};
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit"), NULL);
    s.d.report = -1;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit"), NULL);
    CASE("decided without the store");
    s.d.degraded = true;
    stage_render(&s);
    CHECK_STR(stage_headers(&s),
              "X-Sluice-Degraded: store\n"
              "X-Request-Id: req_abc123\n"
              "Access-Control-Expose-Headers: X-Sluice-Degraded, "
              "X-Request-Id\n");
    stage_close(&s);
}

static void permits(void)
{
    CASE("permits have no reset");
    stage_open(&s);
    s.route.dialects = ~0;
    stage_limit(&s, SL_STR("at-once"), SL_PERMITS, "2");
    stage_render(&s);
    CHECK(!strstr(stage_headers(&s), "eset"));
    CHECK_STR(stage_header(&s, "RateLimit"), "\"at-once\";r=2");
    CHECK_STR(stage_header(&s, "X-RateLimit-Remaining"), "2");
    stage_close(&s);
}

static void large(void)
{
    struct sl_limit_view *shown;

    CASE("no number is larger than clients can read");
    stage_open(&s);
    s.route.dialects = ~0;
    shown = stage_limit(&s, SL_STR("l"), SL_QUOTA, "9007199254740992/month");
    stage_left(shown, 9007199254740992, 1);
    s.d.quota = 0;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit"), "999999999999999");
    CHECK_STR(stage_header(&s, "X-RateLimit-Remaining"), "999999999999999");
    CHECK_STR(stage_header(&s, "RateLimit"), "\"l\";r=999999999999999;t=1");
    CHECK_STR(stage_header(&s, "X-Org-Quota-Remaining"), "999999999999999");
    CASE("a reset beyond the end of time");
    s.d.now = SL_TIME_END - 1;
    shown->answer.reset_in = SL_NS_MAX;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Reset"), "9223372037");
    stage_close(&s);
}

static void names(void)
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

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        char want[128];

        CASE(rows[i].why);
        stage_open(&s);
        s.route.dialects = SL_DIALECT_IETF | SL_DIALECT_GITHUB;
        stage_limit(&s, sl_str_c(rows[i].name), SL_BUCKET, "5/s");
        memcpy(s.d.request_id, rows[i].name, strlen(rows[i].name) + 1);
        stage_render(&s);
        snprintf(want, sizeof(want), "%s;r=5;t=0", rows[i].string);
        CHECK_STR(stage_header(&s, "RateLimit"), want);
        snprintf(want, sizeof(want), "%s;q=5;w=1", rows[i].string);
        CHECK_STR(stage_header(&s, "RateLimit-Policy"), want);
        CHECK_STR(stage_header(&s, "x-ratelimit-resource"), rows[i].plain);
        CHECK_STR(stage_header(&s, "X-Request-Id"), rows[i].plain);
        stage_close(&s);
    }
}

/* The most that one answer can have fits. */
static void crowd(void)
{
    char name[300];

    CASE("sixteen limits with long and hostile names, in all dialects");
    stage_open(&s);
    s.route.dialects = ~0;
    memset(name, '\xff', sizeof(name));
    for (unsigned i = 0; i < SL_PARTS; i++)
        stage_left(stage_limit(&s, (struct sl_str){name, sizeof(name)},
                               SL_LEAKY, "4294967295/day queue 4294967290"),
                   UINT64_MAX, SL_NS_MAX);
    s.rules[1].unit = SL_STR("tokens");
    memset(s.d.request_id, '\xff', SL_REQUEST_ID);
    s.d.degraded = true;
    s.d.quota = 3;
    stage_deny(&s, &s.d.shown[0], SL_NS_MAX);
    s.d.shown[0].answer.remaining = UINT64_MAX;
    stage_render(&s);
    CHECK_EQ(s.out.header_count, 24);
    CHECK_EQ(strlen(stage_header(&s, "X-Request-Id")), 3 * SL_REQUEST_ID);
    stage_close(&s);
}

int main(void)
{
    untouched();
    allowed();
    denied();
    seed_002();
    resets();
    policies();
    listed();
    which_dialects();
    permits();
    large();
    names();
    crowd();
    return CHECK_DONE();
}
