/* conclude.c -- the numbered rules of one verdict over several limits. */
#include "asking.h"

static const char two[] =
    "sluice: 1\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 2/min burst 2 }\n"
    "  day: { kind: fixed-window, per: user, rate: 3/day,\n"
    "         deny: { status: 402 } }\n"
    "routes:\n"
    "  - { match: /both, limits: [day, minute] }\n"
    "  - { match: /shown, limits: [day, minute], report: day }\n"
    "default: [minute]\n";

static void test_order(void)
{
    struct rig rig;
    const struct sl_decision *d;

    rig_open(&rig, two);

    CASE("(1) all allow; (4) the one with the least share left is shown");
    d = rig_ask(&rig, GET("/both", USER("ann")));
    CHECK(d->allowed);
    CHECK_EQ(d->status, 200);
    CHECK_STR(report_of(d), "minute");
    CHECK_EQ(d->retry_in, SL_NS_NONE);

    CASE("(4) `report` names another");
    d = rig_ask(&rig, GET("/shown", USER("bob")));
    CHECK_STR(report_of(d), "day");

    CASE("(2) the one that refuses, with its status and its time");
    rig_ask(&rig, GET("/both", USER("ann")));
    d = rig_ask(&rig, GET("/both", USER("ann")));
    CHECK(!d->allowed);
    CHECK_STR(by_of(d), "minute");
    CHECK_STR(report_of(d), "minute");
    CHECK_EQ(d->status, 429);
    CHECK_EQ(d->retry_in, 30 * SL_S);
    CHECK_EQ(d->shown[0].answer.remaining, 1); /* nothing was charged */

    CASE("(2) the first of two that refuse; (3) the longer of their times");
    rig.now = 30 * SL_S;
    d = rig_ask(&rig, GET("/both", USER("ann")));
    CHECK(d->allowed);
    d = rig_ask(&rig, GET("/both", USER("ann")));
    CHECK_STR(by_of(d), "day");
    CHECK_EQ(d->status, 402);
    CHECK_EQ(d->retry_in, SL_DAY - 30 * SL_S);

    CASE("(3) one that never passes makes it never");
    d = rig_ask(&rig, GET("/both", USER("eve"), COST(3)));
    CHECK(!d->allowed);
    CHECK(d->never);
    CHECK_STR(by_of(d), "minute");
    CHECK_EQ(d->retry_in, SL_NS_NONE);
    rig_close(&rig);
}

static const char levels[] =
    "sluice: 1\n"
    "limits:\n"
    "  slow: { kind: token-bucket, per: user, rate: 1/hour }\n"
    "  fast: { kind: token-bucket, per: user, rate: 1/min }\n"
    "  links: { kind: level, per: user, rate: 1 }\n"
    "  more: { kind: token-bucket, per: user, rate: 9/hour }\n"
    "routes:\n"
    "  - { match: /two, limits: [fast, slow] }\n"
    "  - { match: /link, limits: [links] }\n"
    "  - { match: /both, limits: [fast, links] }\n"
    "default: [more]\n";

static void test_retry(void)
{
    struct rig rig;
    const struct sl_decision *d;

    rig_open(&rig, levels);
    CASE("(3) the largest, wherever it stands");
    CHECK(rig_ask(&rig, GET("/two", USER("ann")))->allowed);
    d = rig_ask(&rig, GET("/two", USER("ann")));
    CHECK_STR(by_of(d), "fast");
    CHECK_EQ(d->retry_in, SL_HOUR);

    CASE("(3) no clock frees a level: never");
    CHECK(rig_ask(&rig, GET("/link", USER("bob")))->allowed);
    d = rig_ask(&rig, GET("/link", USER("bob")));
    CHECK(!d->allowed && d->never);
    CHECK_EQ(d->retry_in, SL_NS_NONE);

    CASE("(3) and it makes the whole never, also behind another");
    CHECK(rig_ask(&rig, (struct sl_request){.limit = SL_STR("fast"),
                                            .key = SL_STR("bob")})
              ->allowed);
    d = rig_ask(&rig, GET("/both", USER("bob")));
    CHECK_STR(by_of(d), "fast");
    CHECK(d->never);
    CHECK_EQ(d->retry_in, SL_NS_NONE);
    rig_close(&rig);
}

static const char failing[] =
    "sluice: 1\n"
    "limits:\n"
    "  open: { kind: token-bucket, per: user, rate: 2/min,\n"
    "          on_store_failure: allow }\n"
    "  near: { kind: token-bucket, per: user, rate: 1/min,\n"
    "          on_store_failure: local }\n"
    "  shut: { kind: token-bucket, per: user, rate: 2/min,\n"
    "          on_store_failure: deny }\n"
    "routes:\n"
    "  - { match: /open, limits: [open] }\n"
    "  - { match: /near, limits: [open, near] }\n"
    "  - { match: /shut, limits: [open, near, shut] }\n"
    "  - { match: /route, limits: [shut], on_store_failure: allow }\n"
    "default: [open]\n";

/* A step back of the clock is one for the local table too: it reads the
 * engine's clock, not the machine's. */
static void test_local_clock(void)
{
    struct rig rig;

    rig_open(&rig, failing);
    rig.fault = 1;
    rig.now = SL_HOUR;
    CASE("the local table's time is the engine's");
    CHECK(rig_ask(&rig, GET("/near", USER("tim")))->allowed);
    rig.now = SL_HOUR - SL_MIN;
    CHECK(!rig_ask(&rig, GET("/near", USER("tim")))->allowed);
    rig_close(&rig);
}

static void test_failure(void)
{
    struct rig rig;
    const struct sl_decision *d;

    rig_open(&rig, failing);
    rig.fault = 1;

    CASE("(5) allow: passes, says so, and has no numbers to show");
    d = rig_ask(&rig, GET("/open", USER("ann")));
    CHECK(d->allowed && d->degraded);
    CHECK_EQ(d->report, -1);

    CASE("(5) local goes before allow: a table of our own decides");
    d = rig_ask(&rig, GET("/near", USER("ann")));
    CHECK(d->allowed && d->degraded);
    CHECK_STR(report_of(d), "near");
    d = rig_ask(&rig, GET("/near", USER("ann")));
    CHECK(!d->allowed && d->degraded);
    CHECK_EQ(d->status, 429);
    CHECK_STR(by_of(d), "near");

    CASE("(5) deny goes before all: 503, never 429, and when to come back");
    d = rig_ask(&rig, GET("/shut", USER("ann")));
    CHECK(!d->allowed && d->degraded);
    CHECK_EQ(d->status, 503);
    CHECK_EQ(d->reason, SL_REASON_STORE);
    CHECK_EQ(d->by, -1);
    CHECK(d->retry_in > 0);

    CASE("the route's own wish counts for all its limits");
    d = rig_ask(&rig, GET("/route", USER("ann")));
    CHECK(d->allowed && d->degraded);

    CASE("when the store is back, what passed without it is charged");
    rig.fault = 0;
    d = rig_ask(&rig, GET("/near", USER("ann")));
    CHECK(!d->allowed && !d->degraded);
    CHECK_STR(by_of(d), "open");
    d = rig_ask(&rig, GET("/near", USER("bob")));
    CHECK(d->allowed && !d->degraded);
    CHECK_EQ(d->shown[0].answer.remaining, 1);
    rig_close(&rig);
}

int main(void)
{
    test_order();
    test_retry();
    test_failure();
    test_local_clock();
    return CHECK_DONE();
}
