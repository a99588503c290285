/* dialects.c -- headers as GitHub, OpenAI and Kong write them. */
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

static void github(void)
{
    ai_minute();
    CASE("github");
    s.route.dialects = SL_DIALECT_GITHUB;
    stage_render(&s);
    CHECK_STR(stage_headers(&s),
              "x-ratelimit-limit: 5\n"
              "x-ratelimit-remaining: 7\n"
              "x-ratelimit-used: 1\n"
              "x-ratelimit-reset: 1730822408\n"
              "x-ratelimit-resource: ai-minute\n"
              "X-Request-Id: req_abc123\n"
              "Access-Control-Expose-Headers: x-ratelimit-limit, "
              "x-ratelimit-remaining, x-ratelimit-used, x-ratelimit-reset, "
              "x-ratelimit-resource, X-Request-Id\n");
    CASE("github beside x-ratelimit adds what that one lacks");
    s.route.dialects = SL_DIALECT_GITHUB | SL_DIALECT_X_RATELIMIT;
    stage_render(&s);
    CHECK_EQ(s.out.header_count, 7);
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit"), "5");
    CHECK_STR(stage_header(&s, "x-ratelimit-limit"), NULL);
    CHECK_STR(stage_header(&s, "x-ratelimit-used"), "1");
    CHECK_STR(stage_header(&s, "x-ratelimit-resource"), "ai-minute");
    stage_close(&s);
}

static void openai(void)
{
    struct sl_limit_view *tokens;

    ai_minute();
    CASE("openai: requests alone");
    s.route.dialects = SL_DIALECT_OPENAI;
    stage_render(&s);
    CHECK_EQ(s.out.header_count, 5);
    CHECK_STR(stage_header(&s, "x-ratelimit-limit-requests"), "5");
    CHECK_STR(stage_header(&s, "x-ratelimit-remaining-requests"), "7");
    CHECK_STR(stage_header(&s, "x-ratelimit-reset-requests"), "11.5s");
    CASE("openai: and tokens beside them");
    tokens = stage_limit(&s, SL_STR("tpm"), SL_BUCKET, "10k/min");
    s.rules[1].unit = SL_STR("LLM Tokens");
    stage_left(tokens, 9000, 6 * SL_S);
    stage_render(&s);
    CHECK_EQ(s.out.header_count, 8);
    CHECK_STR(stage_header(&s, "x-ratelimit-limit-requests"), "5");
    CHECK_STR(stage_header(&s, "x-ratelimit-limit-tokens"), "10000");
    CHECK_STR(stage_header(&s, "x-ratelimit-remaining-tokens"), "9000");
    CHECK_STR(stage_header(&s, "x-ratelimit-reset-tokens"), "6s");
    CASE("openai: whichever is reported");
    s.d.report = 1;
    stage_limit(&s, SL_STR("other"), SL_BUCKET, "7/min");
    stage_render(&s);
    CHECK_EQ(s.out.header_count, 8);
    CHECK_STR(stage_header(&s, "x-ratelimit-limit-requests"), "5");
    CHECK_STR(stage_header(&s, "x-ratelimit-limit-tokens"), "10000");
    stage_close(&s);
}

static void go_spans(void)
{
    static const struct {
        sl_ns span;
        const char *want;
    } rows[] = {
        {0,                                 "0s"      },
        {1,                                 "1ms"     },
        {12 * SL_MS,                        "12ms"    },
        {999 * SL_MS,                       "999ms"   },
        {999 * SL_MS + 1,                   "1s"      },
        {6 * SL_S,                          "6s"      },
        {8640 * SL_MS,                      "8.64s"   },
        {1001 * SL_MS,                      "1.001s"  },
        {59999 * SL_MS,                     "59.999s" },
        {SL_MIN,                            "1m0s"    },
        {6 * SL_MIN,                        "6m0s"    },
        {6 * SL_MIN + 500 * SL_MS,          "6m0.5s"  },
        {SL_HOUR,                           "1h0m0s"  },
        {100 * SL_HOUR + 2 * SL_MIN + SL_S, "100h2m1s"},
    };
    struct sl_limit_view *shown = ai_minute();

    CASE("spans as Go prints them");
    s.route.dialects = SL_DIALECT_OPENAI;
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        shown->answer.reset_in = rows[i].span;
        stage_render(&s);
        CHECK_STR(stage_header(&s, "x-ratelimit-reset-requests"), rows[i].want);
    }
    stage_close(&s);
}

static void kong(void)
{
    static const struct {
        const char *why;
        enum sl_kind kind;
        const char *rate, *header;
    } rows[] = {
        ROW("a second", SL_FIXED, "9/s", "X-RateLimit-Limit-Second"),
        ROW("a minute", SL_FIXED, "9/min", "X-RateLimit-Limit-Minute"),
        ROW("sixty seconds", SL_BUCKET, "9/60s", "X-RateLimit-Limit-Minute"),
        ROW("an hour", SL_FIXED, "9/h", "X-RateLimit-Limit-Hour"),
        ROW("a day", SL_FIXED, "9/day", "X-RateLimit-Limit-Day"),
        ROW("a day of a calendar", SL_QUOTA, "9/day", "X-RateLimit-Limit-Day"),
        ROW("a month", SL_QUOTA, "9/month", "X-RateLimit-Limit-Month"),
        ROW("five minutes", SL_FIXED, "9/5min", NULL),
        ROW("a week", SL_QUOTA, "9/week", NULL),
        ROW("two months", SL_QUOTA, "9/2month", NULL),
        ROW("permits", SL_PERMITS, "9", NULL),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        stage_open(&s);
        s.route.dialects = SL_DIALECT_KONG;
        stage_limit(&s, SL_STR("l"), rows[i].kind, rows[i].rate);
        stage_render(&s);
        if (rows[i].header)
            CHECK_STR(stage_header(&s, rows[i].header), "9");
        else
            CHECK(!strstr(stage_headers(&s), "X-RateLimit"));
        CHECK_STR(stage_header(&s, "RateLimit-Limit"), "9");
        CHECK_STR(stage_header(&s, "RateLimit-Remaining"), "9");
        CHECK_STR(stage_header(&s, "RateLimit-Reset"),
                  rows[i].kind == SL_PERMITS ? NULL : "0");
        stage_close(&s);
    }
    CASE("kong's pair");
    ai_minute();
    s.route.dialects = SL_DIALECT_KONG;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "X-RateLimit-Limit-Minute"), "5");
    CHECK_STR(stage_header(&s, "X-RateLimit-Remaining-Minute"), "7");
    CHECK_STR(stage_header(&s, "RateLimit-Reset"), "12");
    stage_close(&s);
}

static void together(void)
{
    CASE("all dialects at once: no name twice, and ietf's policy");
    ai_minute();
    s.route.dialects = ~0;
    stage_render(&s);
    CHECK_STR(stage_header(&s, "RateLimit-Policy"),
              "\"ai-minute\";q=5;w=60;sluice-burst=8");
    for (unsigned i = 0; i < s.out.header_count; i++)
        for (unsigned k = 0; k < i; k++)
            CHECK(!sl_str_eq_nocase(s.out.headers[i].name,
                                    s.out.headers[k].name));
    CHECK_EQ(s.out.header_count, 17);
    stage_close(&s);
}

int main(void)
{
    github();
    openai();
    go_spans();
    kong();
    together();
    return CHECK_DONE();
}
