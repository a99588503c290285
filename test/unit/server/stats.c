/* What decisions add to which metric; the page itself is in stats_page.c. */
#include "asking.h"
#include "counted.h"

static const char policy[] =
    "sluice: 1\n"
    "plans:\n"
    "  default: free\n"
    "  free: {}\n"
    "  pro: { overage: true }\n"
    "features: { beta: { enabled: false,"
    " retry_after: 60s } }\n"
    "limits:\n"
    "  minute:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    rate: 10/min\n"
    "  watched:\n"
    "    kind: fixed-window\n"
    "    per: user\n"
    "    mode: shadow\n"
    "    rate: 2/min\n"
    "  month:\n"
    "    kind: quota\n"
    "    per: user\n"
    "    rate: 5/month\n"
    "    deny: { status: 402 }\n"
    "  next:\n"
    "    kind: fixed-window\n"
    "    per: user\n"
    "    rate: 100/min\n"
    "    candidate: 1/min\n"
    "  local:\n"
    "    kind: fixed-window\n"
    "    per: user\n"
    "    rate: 9/min\n"
    "    on_store_failure: local\n"
    "routes:\n"
    "  - { match: /ai, endpoint: ai,"
    " limits: [minute] }\n"
    "  - { match: /watch, limits: [watched, minute] }\n"
    "  - { match: /month, limits: [month] }\n"
    "  - { match: /next, limits: [next] }\n"
    "  - { match: /local, limits: [local] }\n"
    "  - { match: /both, limits: [month, minute] }\n"
    "  - { match: /beta, limits: [minute],"
    " feature: beta }\n"
    "default: []\n";

static struct counted c;
static struct rig rig;

static void begin(void)
{
    counted_open(&c, 1);
    rig_open(&rig, policy);
    rig.now = 1000 * SL_S;
}

static void end(void)
{
    rig_close(&rig);
    counted_close(&c);
}

static void ask(struct sl_request facts, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        sl_metrics_decision(c.stats[0], rig_ask(&rig, facts), "http", SL_US);
}

static int64_t decided(const char *labels)
{
    char sample[200];

    snprintf(sample, sizeof(sample), "sluice_decisions_total{%s}", labels);
    return counted(&c, sample);
}

static void check_verdicts(void)
{
    CASE("a decision is counted once, by the limit that it speaks of");
    begin();
    ask(GET("/ai", USER("ann")), 13);
    ask(GET("/nothing", USER("ann")), 2);
    CHECK_EQ(decided("limit=\"minute\",endpoint=\"ai\",status=\"200\","
                     "result=\"allow\""),
             10);
    CHECK_EQ(decided("limit=\"minute\",endpoint=\"ai\",status=\"429\","
                     "result=\"deny\""),
             3);
    CHECK_EQ(decided("limit=\"\",endpoint=\"default\",status=\"200\","
                     "result=\"allow\""),
             2);
    CHECK_EQ(counted_sum(&c, "sluice_decisions_total"), 15);

    CASE("several limits that refuse are one refusal, of the first");
    ask(GET("/month", USER("ann")), 5);
    ask(GET("/both", USER("ann")), 1);
    CHECK_EQ(decided("limit=\"month\",endpoint=\"both\",status=\"402\","
                     "result=\"deny\""),
             1);
    CHECK_EQ(counted_sum(&c, "sluice_decisions_total"), 21);

    CASE("what a switch refuses has no limit");
    ask(GET("/beta", USER("bob")), 1);
    CHECK_EQ(decided("limit=\"\",endpoint=\"beta\",status=\"503\","
                     "result=\"deny\""),
             1);
    CHECK_EQ(counted(&c, "sluice_fail_mode_decisions_total{mode=\"deny\"}"), 0);

    CASE("no name of a caller is on the page");
    CHECK(!strstr(counted_page(&c), "ann") && !strstr(c.page.bytes, "192.0"));

    CASE("what is only explained is not counted");
    CHECK_EQ(rig_decide(&rig, &GET("/ai", USER("eve")), 1, NULL, false), 0);
    sl_metrics_decision(c.stats[0], &rig.d, "http", SL_US);
    CHECK_EQ(counted_sum(&c, "sluice_decisions_total"), 22);
    end();
}

static void check_limits(void)
{
    begin();
    CASE("units, and requests that come near");
    ask(GET("/ai", USER("ann"), COST(3)), 2);
    CHECK_EQ(counted(&c, "sluice_consumed_units_total{limit=\"minute\"}"), 6);
    CHECK_EQ(counted(&c, "sluice_near_limit_total{limit=\"minute\"}"), 0);
    ask(GET("/ai", USER("ann"), COST(2)), 1); /* four fifths: 8 of 10 */
    CHECK_EQ(counted(&c, "sluice_near_limit_total{limit=\"minute\"}"), 1);
    ask(GET("/ai", USER("ann"), COST(3)), 1); /* refused: takes nothing */
    ask(GET("/ai", USER("ann"), COST(0)), 1); /* looks */
    CHECK_EQ(counted(&c, "sluice_consumed_units_total{limit=\"minute\"}"), 8);
    CHECK_EQ(counted(&c, "sluice_near_limit_total{limit=\"minute\"}"), 1);

    CASE("refusals of a quota");
    CHECK_EQ(counted(&c, "sluice_quota_denials_total{limit=\"minute\"}"), 0);
    ask(GET("/month", USER("ann")), 7);
    CHECK_EQ(counted(&c, "sluice_quota_denials_total{limit=\"month\"}"), 2);
    ask(GET("/both", USER("ann")), 1);
    CHECK_EQ(counted(&c, "sluice_quota_denials_total{limit=\"month\"}"), 3);
    CHECK_EQ(counted(&c, "sluice_consumed_units_total{limit=\"month\"}"), 5);

    CASE("overage: only what lies beyond the quota");
    ask(GET("/month", USER("pat"), PLAN("pro"), COST(4)), 1);
    CHECK_EQ(counted(&c, "sluice_overage_units_total{limit=\"month\"}"), 0);
    ask(GET("/month", USER("pat"), PLAN("pro"), COST(3)), 1);
    CHECK_EQ(counted(&c, "sluice_overage_units_total{limit=\"month\"}"), 2);
    ask(GET("/month", USER("pat"), PLAN("pro"), COST(3)), 1);
    CHECK_EQ(counted(&c, "sluice_overage_units_total{limit=\"month\"}"), 5);

    CASE("a shadow that would refuse: the decision says so, and passes");
    ask(GET("/watch", USER("sue")), 5);
    CHECK_EQ(decided("limit=\"watched\",endpoint=\"watch\",status=\"200\","
                     "result=\"shadow_deny\""),
             3);
    CHECK_EQ(counted(&c, "sluice_shadow_denials_total{limit=\"watched\"}"), 3);
    CHECK_EQ(counted(&c, "sluice_consumed_units_total{limit=\"watched\"}"), 2);

    CASE("a candidate that would refuse");
    ask(GET("/next", USER("ann")), 4);
    CHECK_EQ(counted(&c, "sluice_candidate_denials_total{limit=\"next\"}"), 3);
    end();
}

static void check_failures(void)
{
    begin();
    rig.fault = SLUICE_ESTORE;
    CASE("without the store: let through");
    ask(GET("/ai", USER("ann")), 2);
    CHECK_EQ(decided("limit=\"\",endpoint=\"ai\",status=\"200\","
                     "result=\"error_allow\""),
             2);
    CHECK_EQ(counted(&c, "sluice_fail_mode_decisions_total{mode=\"allow\"}"),
             2);
    CHECK_EQ(counted(&c, "sluice_consumed_units_total{limit=\"minute\"}"), -1);

    CASE("refused, and that is no refusal of the quota");
    ask(GET("/month", USER("ann")), 3);
    CHECK_EQ(decided("limit=\"\",endpoint=\"month\",status=\"503\","
                     "result=\"error_deny\""),
             3);
    CHECK_EQ(counted(&c, "sluice_fail_mode_decisions_total{mode=\"deny\"}"), 3);
    CHECK_EQ(counted(&c, "sluice_quota_denials_total{limit=\"month\"}"), -1);

    CASE("or decided by the local table, as usual");
    ask(GET("/local", USER("ann")), 10);
    CHECK_EQ(decided("limit=\"local\",endpoint=\"local\",status=\"429\","
                     "result=\"deny\""),
             1);
    CHECK_EQ(counted(&c, "sluice_fail_mode_decisions_total{mode=\"local\"}"),
             10);
    CHECK_EQ(counted(&c, "sluice_store_errors_total{store=\"memory\"}"), 15);
    end();
}

static void check_histograms(void)
{
    begin();
    CASE("waits of the refused, by endpoint");
    ask(GET("/ai", USER("ann")), 12); /* the next token comes in 6 s */
    ask(GET("/beta", USER("ann")), 1);
    CHECK_EQ(counted(&c, "sluice_retry_after_seconds_bucket{endpoint=\"ai\","
                         "le=\"5.0\"}"),
             0);
    CHECK_EQ(counted(&c, "sluice_retry_after_seconds_bucket{endpoint=\"ai\","
                         "le=\"10.0\"}"),
             2);
    CHECK_EQ(counted(&c, "sluice_retry_after_seconds_bucket{endpoint=\"ai\","
                         "le=\"+Inf\"}"),
             2);
    CHECK(counted_reads(&c, "sluice_retry_after_seconds_sum{endpoint=\"ai\"}",
                        "12.0"));
    CHECK_EQ(counted(&c, "sluice_retry_after_seconds_bucket{"
                         "endpoint=\"beta\",le=\"60.0\"}"),
             1);

    CASE("a cost that never fits has no wait");
    ask(GET("/next", USER("ann"), COST(1000)), 1);
    CHECK_EQ(counted(&c, "sluice_retry_after_seconds_count{endpoint=\"next\"}"),
             -1);

    CASE("how long decisions took, by door; bounds belong to their bucket");
    rig_ask(&rig, GET("/ai", USER("bob")));
    sl_metrics_decision(c.stats[0], &rig.d, "grpc", 10 * SL_US);
    sl_metrics_decision(c.stats[0], &rig.d, "grpc", 10 * SL_US + 1);
    sl_metrics_decision(c.stats[0], &rig.d, "grpc", 2 * SL_S);
    sl_metrics_decision(c.stats[0], &rig.d, "grpc", -5); /* the clock was set */
    CHECK_EQ(counted(&c, "sluice_decision_duration_seconds_bucket{"
                         "door=\"grpc\",le=\"0.00001\"}"),
             2);
    CHECK_EQ(counted(&c, "sluice_decision_duration_seconds_bucket{"
                         "door=\"grpc\",le=\"1.0\"}"),
             3);
    CHECK_EQ(counted(&c, "sluice_decision_duration_seconds_count{"
                         "door=\"grpc\"}"),
             4);
    CHECK(counted_reads(&c,
                        "sluice_decision_duration_seconds_sum{door=\"grpc\"}",
                        "2.000020001"));

    CASE("many in a row have taken the same time each");
    for (unsigned i = 0; i < 3; i++)
        sl_metrics_verdict(c.stats[0], &rig.d);
    sl_metrics_took(c.stats[0], "resp", 75 * SL_US, 3);
    CHECK_EQ(counted(&c, "sluice_decision_duration_seconds_bucket{"
                         "door=\"resp\",le=\"0.00001\"}"),
             0);
    CHECK_EQ(counted(&c, "sluice_decision_duration_seconds_bucket{"
                         "door=\"resp\",le=\"0.000025\"}"),
             3);
    CHECK(counted_reads(
        &c, "sluice_decision_duration_seconds_sum{door=\"resp\"}", "0.000075"));
    end();
}

/* The same indices mean other names after a reload. */
static void check_reload(void)
{
    static const char swapped[] =
        "sluice: 1\n"
        "limits:\n"
        "  second: { kind: token-bucket, per: user, rate: 10/min }\n"
        "  minute: { kind: token-bucket, per: user, rate: 10/min }\n"
        "routes:\n"
        "  - { match: /x, endpoint: x, limits: [second] }\n"
        "  - { match: /ai, endpoint: ai, limits: [minute] }\n"
        "default: []\n";
    struct sl_policy *next = rig_policy(swapped);

    begin();
    CASE("series outlive a reload, and their names move with them");
    ask(GET("/ai", USER("ann")), 1);
    CHECK_EQ(sl_engine_use(rig.engine, next, NULL), 0);
    sl_policy_unref(next);
    ask(GET("/ai", USER("ann")), 1);
    ask(GET("/x", USER("ann")), 1);
    CHECK_EQ(decided("limit=\"minute\",endpoint=\"ai\",status=\"200\","
                     "result=\"allow\""),
             2);
    CHECK_EQ(decided("limit=\"second\",endpoint=\"x\",status=\"200\","
                     "result=\"allow\""),
             1);
    CHECK_EQ(counted(&c, "sluice_consumed_units_total{limit=\"minute\"}"), 2);
    end();
}

int main(void)
{
    check_verdicts();
    check_limits();
    check_failures();
    check_histograms();
    check_reload();
    return CHECK_DONE();
}
