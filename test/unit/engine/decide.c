/* decide.c -- who is asking, what applies to him, and what was touched. */
#include "asking.h"

static const char text[] =
    "sluice: 1\n"
    "plans:\n"
    "  default: free\n"
    "  anonymous: guest\n"
    "  guest: {}\n"
    "  free: {}\n"
    "  pro: { aliases: [PRO_YEARLY], overage: true }\n"
    "identity:\n"
    "  user: [header.x-user]\n"
    "  org: [header.x-org]\n"
    "  region: [header.x-region]\n"
    "limits:\n"
    "  calls:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    rate: { guest: 1/min, free: 3/min, pro: unlimited }\n"
    "  pairs: { kind: token-bucket, per: [org, user], rate: 2/min,\n"
    "           missing: skip }\n"
    "  strict: { kind: token-bucket, per: org, rate: 2/min, missing: deny }\n"
    "  regional: { kind: token-bucket, per: region, rate: 2/min }\n"
    "  export: { kind: token-bucket, per: user,\n"
    "            rate: { guest: none, free: none, pro: 5/min } }\n"
    "  minutes: { kind: quota, per: org, rate: 10/month, cost: 2 }\n"
    "  shadowed: { kind: token-bucket, per: user, rate: 1/min,\n"
    "              mode: shadow }\n"
    "  both: { kind: token-bucket, per: user, rate: 3/min,\n"
    "          candidate: 1/min }\n"
    "  gone: { kind: token-bucket, per: user, rate: 1/min, mode: off }\n"
    "  all: { kind: token-bucket, per: [], rate: 2/min }\n"
    "routes:\n"
    "  - { match: /calls, limits: [calls] }\n"
    "  - { match: /pairs, limits: [pairs] }\n"
    "  - { match: /strict, limits: [strict] }\n"
    "  - { match: /regional, limits: [regional] }\n"
    "  - { match: /export, limits: [export] }\n"
    "  - { match: /pass, limits: [calls], anonymous: pass }\n"
    "  - { match: /deny, limits: [calls], anonymous: deny }\n"
    "  - { match: /roles, limits: [calls], roles: [admin, member] }\n"
    "  - { match: /beta, limits: [calls], feature: beta }\n"
    "  - { match: /shadow, limits: [calls, shadowed] }\n"
    "  - { match: /both, limits: [both] }\n"
    "  - { match: /gone, limits: [gone] }\n"
    "  - { match: /all, limits: [all] }\n"
    "  - { match: /next, limits: [calls], reset: next }\n"
    "  - { job: transcribe, limits: [minutes] }\n"
    "features:\n"
    "  beta: { enabled: false, retry_after: 60s }\n"
    "default: []\n";

static struct rig rig;

static void test_identity(void)
{
    static const struct sl_header headers[] = {
        {{"X-User", 6},   {" hal ", 5}},
        {{"x-region", 8}, {"north", 5}},
    };
    struct sl_request facts =
        GET("/calls", .headers = headers, .header_count = SL_LEN(headers));
    const struct sl_decision *d;

    CASE("headers say who it is only if they may");
    d = rig_ask(&rig, facts);
    CHECK(d->anonymous);
    CHECK_STR(d->shown[0].id, "192.0.2.1");
    facts.trusted = true;
    d = rig_ask(&rig, facts);
    CHECK(!d->anonymous);
    CHECK_STR(d->shown[0].id, "hal");
    CHECK_EQ(d->shown[0].answer.limit, 3);

    CASE("what the caller says goes before headers");
    facts.user = SL_STR("given");
    CHECK_STR(rig_ask(&rig, facts)->shown[0].id, "given");

    CASE("a scope of the policy's own");
    facts.path = SL_STR("/regional");
    d = rig_ask(&rig, facts);
    CHECK_STR(d->shown[0].id, "north");
    CHECK(sl_str_eq(d->shown[0].scope, SL_STR("region")));

    CASE("unknown callers: an address counts by its bits");
    rig_ask(&rig, FROM("/calls", "2001:db8:0:0::1"));
    d = rig_ask(&rig, FROM("/calls", "[2001:DB8::2]:443"));
    CHECK(!d->allowed);
    CHECK_STR(d->shown[0].id, "2001:db8::/64");
    d = rig_ask(&rig, FROM("/calls", "2001:db8:0:1::1"));
    CHECK(d->allowed);

    CASE("what is no address shares one allowance");
    rig_ask(&rig, FROM("/calls", "nonsense"));
    CHECK(!rig_ask(&rig, FROM("/calls", "other"))->allowed);
    CHECK(!rig_ask(&rig, FROM("/calls", ""))->allowed);

    CASE("a user called like an address is not the address");
    d = rig_ask(&rig, GET("/calls", USER("192.0.2.1")));
    CHECK(d->allowed);
    CHECK_EQ(d->shown[0].answer.remaining, 2);
}

static void test_plans(void)
{
    const struct sl_decision *d;

    CASE("plans by alias, without case");
    d = rig_ask(&rig, GET("/calls", USER("pia"), PLAN("pro_yearly")));
    CHECK_EQ(d->shown[0].form, SL_RATE_UNLIMITED);
    CHECK_EQ(d->report, -1);

    CASE("an unknown plan is the default");
    d = rig_ask(&rig, GET("/calls", USER("pit"), PLAN("gold")));
    CHECK(sl_str_eq(d->shown[0].plan_name, SL_STR("free")));

    CASE("another plan keeps what was used");
    rig_ask(&rig, GET("/calls", USER("pam"), PLAN("free"), COST(2)));
    d = rig_ask(&rig, GET("/calls", USER("pam"), PLAN("guest")));
    CHECK(!d->allowed);
    d = rig_ask(&rig, GET("/calls", USER("pam"), PLAN("free")));
    CHECK(d->allowed);

    CASE("none is 403: the plan lacks it");
    d = rig_ask(&rig, GET("/export", USER("pam"), PLAN("free")));
    CHECK_EQ(d->status, 403);
    CHECK_EQ(d->reason, SL_REASON_CAPABILITY);
    CHECK_EQ(rig_ask(&rig, GET("/export", USER("pam"), PLAN("pro")))->status,
             200);

    CASE("an override goes before the plan, with the same state");
    d = rig_ask(&rig, GET("/calls", USER("pam"), PLAN("guest"),
                          .overrides = &(struct sl_override){SL_STR("calls"),
                                                             SL_STR("10/min")},
                          .override_count = 1));
    CHECK(d->allowed && d->shown[0].overridden);
    CHECK_EQ(d->shown[0].answer.remaining, 6);

    CASE("overage goes on beyond the quota and counts it");
    for (int i = 0; i < 6; i++)
        d = rig_ask(&rig, (struct sl_request){.job = SL_STR("transcribe"),
                                              ORG("acme"),
                                              PLAN("pro")});
    CHECK(d->allowed && d->shown[0].overage);
    CHECK_EQ(d->shown[0].answer.remaining, 0);
    CHECK_EQ(d->shown[0].answer.limit, 10);
    d = rig_ask(&rig, (struct sl_request){.job = SL_STR("transcribe"),
                                          ORG("acme"),
                                          PLAN("free")});
    CHECK_EQ(d->status, 429);
}

static void test_gates(void)
{
    const struct sl_decision *d;

    CASE("anonymous: pass touches nothing");
    d = rig_ask(&rig, GET("/pass"));
    CHECK(d->allowed && d->untouched);

    CASE("anonymous: deny is 401");
    CHECK_EQ(rig_ask(&rig, GET("/deny"))->status, 401);
    CHECK_EQ(rig_ask(&rig, GET("/deny", USER("gus")))->status, 200);

    CASE("missing: deny is 401 and names what is missing; skip skips");
    d = rig_ask(&rig, GET("/strict", USER("gus")));
    CHECK_EQ(d->status, 401);
    CHECK(sl_str_eq(d->missing_scope, SL_STR("org")));
    d = rig_ask(&rig, GET("/pairs", USER("gus")));
    CHECK(d->allowed && d->shown[0].skipped);

    CASE("roles: 403");
    CHECK_EQ(rig_ask(&rig, GET("/roles", USER("gus")))->status, 403);
    CHECK_EQ(rig_ask(&rig, GET("/roles", USER("gus"), ROLE("viewer")))->status,
             403);
    CHECK_EQ(rig_ask(&rig, GET("/roles", USER("gus"), ROLE("admin")))->status,
             200);

    CASE("a feature that is off: 503, and when to come back");
    d = rig_ask(&rig, GET("/beta", USER("gus")));
    CHECK_EQ(d->status, 503);
    CHECK_EQ(d->retry_in, 60 * SL_S);
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("beta"), true, NULL), 0);
    CHECK_EQ(rig_ask(&rig, GET("/beta", USER("gus")))->status, 200);
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("alpha"), true, &rig.diag),
             SLUICE_ENOENT);
    CHECK_STR(rig.diag.sentence, "the policy has no feature \"alpha\"");
}

static void test_modes(void)
{
    const struct sl_decision *d;

    CASE("shadow counts and never refuses");
    d = rig_ask(&rig, GET("/shadow", USER("sue")));
    CHECK(d->allowed && d->shown[1].allowed);
    d = rig_ask(&rig, GET("/shadow", USER("sue")));
    CHECK(d->allowed && !d->shown[1].allowed);
    CHECK_STR(report_of(d), "calls");

    CASE("what is refused is not counted by a shadow either");
    rig.now += SL_MIN;
    rig_ask(&rig, GET("/calls", USER("sue"), COST(3)));
    d = rig_ask(&rig, GET("/shadow", USER("sue")));
    CHECK(!d->allowed && d->shown[1].allowed);
    rig.now += 30 * SL_S; /* half a token of the shadow's */
    d = rig_ask(&rig, GET("/shadow", USER("sue")));
    CHECK(d->allowed && d->shown[1].allowed);

    CASE("a candidate has its own state and decides nothing");
    d = rig_ask(&rig, GET("/both", USER("cat")));
    CHECK_EQ(d->shown[0].candidate_answer.outcome, SL_ALLOW);
    d = rig_ask(&rig, GET("/both", USER("cat")));
    CHECK(d->allowed);
    CHECK_EQ(d->shown[0].candidate_answer.outcome, SL_DENY);
    CHECK_EQ(d->shown[0].answer.remaining, 1);

    CASE("off is not there at all");
    d = rig_ask(&rig, GET("/gone", USER("cat")));
    CHECK(d->allowed && d->untouched);
    CHECK_EQ(d->shown_count, 0);

    CASE("per: [] is one for all");
    rig_ask(&rig, GET("/all", USER("a")));
    rig_ask(&rig, GET("/all", USER("b")));
    d = rig_ask(&rig, GET("/all", USER("c")));
    CHECK(!d->allowed);
    CHECK(sl_str_eq(d->shown[0].scope, SL_STR("all")));
}

static void test_costs(void)
{
    const struct sl_decision *d;

    CASE("the limit's own cost, a given one, one for a single limit");
    d = rig_ask(&rig, (struct sl_request){.job = SL_STR("transcribe"),
                                          ORG("cost"),
                                          PLAN("free")});
    CHECK_EQ(d->shown[0].answer.remaining, 8);
    d = rig_ask(&rig, (struct sl_request){.job = SL_STR("transcribe"),
                                          ORG("cost"),
                                          PLAN("free"),
                                          COST(1)});
    CHECK_EQ(d->shown[0].answer.remaining, 7);
    d = rig_ask(&rig, (struct sl_request){
                          .job = SL_STR("transcribe"),
                          ORG("cost"),
                          PLAN("free"),
                          COST(1),
                          .costs = &(struct sl_cost){SL_STR("minutes"), 3},
                          .cost_count = 1
    });
    CHECK_EQ(d->shown[0].answer.remaining, 4);
    CHECK_EQ(d->quota, 0);

    CASE("a cost of 0 looks");
    d = rig_ask(&rig, (struct sl_request){.job = SL_STR("transcribe"),
                                          ORG("cost"),
                                          PLAN("free"),
                                          COST(0)});
    CHECK(d->allowed);
    CHECK_EQ(d->shown[0].answer.remaining, 4);

    CASE("reset: next is when there is one more");
    d = rig_ask(&rig, GET("/next", USER("nan")));
    CHECK_EQ(d->shown[0].next_in, 20 * SL_S);
    d = rig_ask(&rig, GET("/next", USER("nan"), COST(2)));
    d = rig_ask(&rig, GET("/next", USER("nan"), COST(2)));
    CHECK(!d->allowed);
    CHECK_EQ(d->shown[0].next_in, 40 * SL_S);

    CASE("one limit by its name");
    d = rig_ask(&rig, (struct sl_request){.limit = SL_STR("calls"),
                                          .key = SL_STR("nan")});
    CHECK(!d->allowed);
    CHECK_STR(by_of(d), "calls");
    CHECK_EQ(sl_engine_decide(rig.engine, rig.live,
                              &(struct sl_request){.limit = SL_STR("cals"),
                                                   .key = SL_STR("nan")},
                              true, &rig.d, &rig.diag),
             SLUICE_ENOENT);
}

static void test_ids(void)
{
    static const struct sl_header preflight[] = {
        {{"Origin", 6},                         {"https://a.example", 17}},
        {{"Access-Control-Request-Method", 29}, {"POST", 4}              },
    };
    const struct sl_decision *d;
    char first[SL_REQUEST_ID + 1];

    CASE("a request's id is kept if it is clean, and made otherwise");
    d = rig_ask(&rig,
                GET("/calls", USER("ida"), .request_id = SL_STR("req_abc123")));
    CHECK_STR(d->request_id, "req_abc123");
    d = rig_ask(&rig, GET("/calls", USER("ida"),
                          .request_id = SL_STR("a\r\nSet-Cookie: x")));
    CHECK(strncmp(d->request_id, "req_", 4) == 0);
    memcpy(first, d->request_id, sizeof(first));
    d = rig_ask(&rig, GET("/calls", USER("ida")));
    CHECK(strcmp(first, d->request_id) != 0);

    CASE("a browser's question before the request needs no name");
    d = rig_ask(&rig,
                OPTIONS("/deny", .headers = preflight, .header_count = 2));
    CHECK_EQ(d->status, 200);
    d = rig_ask(&rig,
                OPTIONS("/roles", .headers = preflight, .header_count = 2));
    CHECK(d->reason == SL_REASON_NONE);
    d = rig_ask(&rig,
                OPTIONS("/strict", .headers = preflight, .header_count = 2));
    CHECK_EQ(d->status, 200);
    d = rig_ask(&rig,
                OPTIONS("/deny", .headers = preflight, .header_count = 1));
    CHECK_EQ(d->status, 401);

    CASE("but it takes from the limits like anybody without a name");
    d = rig_ask(&rig,
                OPTIONS("/calls", .headers = preflight, .header_count = 2));
    CHECK(!d->allowed);
    CHECK_STR(by_of(d), "calls");

    CASE("what no route matches takes the default");
    d = rig_ask(&rig, GET("/nowhere", USER("ida")));
    CHECK(d->allowed && d->untouched);
}

static char long_path[20000], long_user[2][2000];

/* The name of the first limit's state in a shared store. */
static void name_of(const struct sl_decision *d, char out[4096])
{
    struct sl_buf buf;

    sl_buf_init(&buf, 4095, &sl_alloc_libc);
    CHECK_EQ(sl_decision_key(d, &d->shown[0], &buf), 0);
    memcpy(out, buf.bytes, buf.len);
    out[buf.len] = '\0';
    sl_buf_done(&buf);
}

static void test_long(void)
{
    char names[2][4096];
    struct sl_request facts = GET("", USER("lea"));

    CASE("a long way to write a path hides nothing");
    for (size_t i = 0; i < sizeof(long_path); i += 2)
        memcpy(long_path + i, "/.", 2);
    memcpy(long_path + sizeof(long_path) - 6, "/calls", 6);
    facts.path = (struct sl_str){long_path, sizeof(long_path)};
    CHECK(sl_str_eq(rig_ask(&rig, facts)->route->text, SL_STR("/calls")));

    CASE("long names that differ at their end are two");
    facts.path = SL_STR("/calls");
    for (int i = 0; i < 2; i++) {
        memset(long_user[i], 'u', sizeof(long_user[i]));
        long_user[i][sizeof(long_user[i]) - 1] = (char)('a' + i);
        facts.user = (struct sl_str){long_user[i], sizeof(long_user[i])};
        CHECK_EQ(rig_ask(&rig, facts)->shown[0].answer.remaining, 2);
        name_of(&rig.d, names[i]);
    }
    CHECK(strcmp(names[0], names[1]) != 0);
}

int main(void)
{
    rig_open(&rig, text);
    test_long();
    test_identity();
    test_plans();
    test_gates();
    test_modes();
    test_costs();
    test_ids();
    rig_close(&rig);
    return CHECK_DONE();
}
