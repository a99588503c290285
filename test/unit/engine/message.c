/* message.c -- the sentences of denials that no policy wrote. */
#include "row.h"
#include "stage.h"

static struct stage s;

static void limit_messages(void)
{
    static const struct {
        const char *why;
        enum sl_kind kind;
        const char *rate, *unit;
        sl_ns retry_in;
        const char *want;
    } rows[] = {
        ROW("a minute", SL_BUCKET, "5/min burst 8", "", 12 * SL_S,
            "Too many requests: the limit \"l\" allows 5 per minute. Try again "
            "in 12 s."),
        ROW("ten seconds", SL_SLIDING, "10/10s", "", 1,
            "Too many requests: the limit \"l\" allows 10 per 10 seconds. Try "
            "again in 1 s."),
        ROW("half a second", SL_FIXED, "10/500ms", "", 500 * SL_MS,
            "Too many requests: the limit \"l\" allows 10 per 500 "
            "milliseconds. Try again in 1 s."),
        ROW("a unit", SL_BUCKET, "10k/h", "tokens", 2 * SL_MIN,
            "Too many requests: the limit \"l\" allows 10000 tokens per hour. "
            "Try again in 2 min."),
        ROW("just below two minutes", SL_BUCKET, "1/h", "", 2 * SL_MIN - 1,
            "Too many requests: the limit \"l\" allows 1 per hour. Try again "
            "in 120 s."),
        ROW("hours are rounded up", SL_FIXED, "1/day", "", 2 * SL_HOUR + 1,
            "Too many requests: the limit \"l\" allows 1 per day. Try again in "
            "3 h."),
        ROW("weeks", SL_QUOTA, "7/2week", "", 2 * SL_DAY,
            "The quota is used up: the limit \"l\" allows 7 per 2 weeks. Try "
            "again in 2 days."),
        ROW("permits", SL_PERMITS, "2", "", SL_NS_NONE,
            "Too many concurrent requests: the limit \"l\" allows 2 at a time. "
            "Try again "
            "when another request has ended."),
        ROW("permits that expire", SL_PERMITS, "2", "", 5 * SL_S,
            "Too many concurrent requests: the limit \"l\" allows 2 at a time. "
            "Try again "
            "in 5 s."),
        ROW("a level", SL_LEVEL, "5", "links", SL_NS_NONE,
            "The maximum is reached: the limit \"l\" allows 5 links in all. "
            "Release some first."),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        stage_open(&s);
        stage_limit(&s, SL_STR("l"), rows[i].kind, rows[i].rate);
        s.rules[0].unit = sl_str_c(rows[i].unit);
        CHECK_STR(stage_message(&s), "");
        stage_deny(&s, &s.d.shown[0], rows[i].retry_in);
        CHECK_STR(stage_message(&s), rows[i].want);
        stage_close(&s);
    }
}

static void reason_messages(void)
{
    stage_open(&s);
    stage_limit(&s, SL_STR("search"), SL_BUCKET, "10/min");
    CASE("a feature");
    s.feature = (struct sl_feature){.name = SL_STR("assistant"),
                                    .retry_after = SL_NS_NONE};
    s.policy.features = &s.feature;
    s.policy.feature_count = 1;
    s.route.feature = 0;
    stage_refuse(&s, SL_REASON_FEATURE, 503, SL_STR("X"));
    CHECK_STR(stage_message(&s), "\"assistant\" is switched off for now.");
    CASE("with its own time, also in Retry-After");
    s.feature.retry_after = SL_MIN;
    CHECK_STR(stage_message(&s),
              "\"assistant\" is switched off for now. Try again in 60 s.");
    stage_render(&s);
    CHECK_STR(stage_header(&s, "Retry-After"), "60");
    CASE("and its own message");
    s.feature.message = stage_words(&s, "Back in {retry_after} s");
    CHECK_STR(stage_message(&s), "Back in 60 s");
    CASE("unless that speaks of what there is not");
    s.feature.message = stage_words(&s, "Only {limit}");
    CHECK_STR(stage_message(&s),
              "\"assistant\" is switched off for now. Try again in 60 s.");
    CASE("nobody");
    stage_refuse(&s, SL_REASON_ANONYMOUS, 401, SL_STR("X"));
    CHECK_STR(stage_message(&s),
              "Anonymous callers are not allowed: authenticate first.");
    CASE("somebody, but of which organisation?");
    s.d.missing_scope = SL_STR("org");
    stage_refuse(&s, SL_REASON_MISSING, 401, SL_STR("X"));
    CHECK_STR(stage_message(&s), "The request does not name the \"org\" of the "
                                 "caller, which is required.");
    CASE("a plan that lacks it");
    s.d.shown[0].form = SL_RATE_NONE;
    stage_refuse(&s, SL_REASON_CAPABILITY, 403, SL_STR("X"));
    CHECK_STR(stage_message(&s),
              "The plan \"free\" does not include \"search\".");
    CASE("a plan that nobody knows");
    stage_refuse(&s, SL_REASON_UNKNOWN_PLAN, 403, SL_STR("X"));
    CHECK_STR(stage_message(&s), "The caller's plan is unknown.");
    stage_close(&s);
}

int main(void)
{
    limit_messages();
    reason_messages();
    return CHECK_DONE();
}
