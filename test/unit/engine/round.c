/* round.c -- no way round a limit, and none to another's plan. */
#include "asking.h"

static const char text[] =
    "sluice: 1\n"
    "plans: { default: free, anonymous: guest, guest: {}, free: {},\n"
    "         pro: { overage: true } }\n"
    "identity: { key: header.x-api-key }\n"
    "limits:\n"
    "  ai: { kind: token-bucket, per: user,\n"
    "        rate: { guest: 1/min, free: 5/min, pro: 9/min } }\n"
    "  site: { kind: token-bucket, per: user, rate: 100/min }\n"
    "  keyed: { kind: token-bucket, per: key, rate: 2/min }\n"
    "  seats: { kind: quota, per: org, rate: 10/month }\n"
    "  export: { kind: token-bucket, per: user,\n"
    "            rate: { guest: none, free: none, pro: 5/min } }\n"
    "routes:\n"
    "  - { match: /api/ai/**, limits: [ai] }\n"
    "  - { match: /keyed, limits: [keyed], anonymous: deny }\n"
    "  - { match: /export, limits: [export] }\n"
    "  - { job: seat, limits: [seats] }\n"
    "default: [site]\n";

static struct rig rig;

/* Is `name` among the limits of the decision? */
static bool shows(const struct sl_decision *d, const char *name)
{
    for (unsigned i = 0; i < d->shown_count; i++)
        if (sl_str_eq(d->shown[i].rule->name, sl_str_c(name)))
            return true;
    return false;
}

static void test_detours(void)
{
    static const char *const detours[] = {
        "/api/ai/chat/..;/..;/..;/x", "/api/ai/chat/..%5c..%5c..%5cx",
        "/api/ai/..%2f..%2fx",        "/x%00/../api/ai/chat",
        "/x#/../api/ai/chat",         "/api/ai/chat/../../../x",
        "/x/../api/ai/chat",          "/api%2fai%2fchat",
    };
    const struct sl_decision *d = NULL;

    CASE("where servers read a path differently, all readings count");
    for (size_t i = 0; i < SL_LEN(detours); i++) {
        struct sl_request facts = GET("", USER("ann"), COST(0));

        facts.path = sl_str_c(detours[i]);
        if (!CHECK(shows(rig_ask(&rig, facts), "ai")))
            printf("# %s\n", detours[i]);
    }

    CASE("and the limits of all their routes are taken together");
    for (int i = 0; i < 5; i++)
        d = rig_ask(&rig, GET("/api/ai/chat/..;/..;/..;/x", USER("bob")));
    CHECK(d->allowed && shows(d, "site"));
    d = rig_ask(&rig, GET("/api/ai/chat", USER("bob")));
    CHECK_STR(by_of(d), "ai");

    CASE("a plain path has one route");
    d = rig_ask(&rig, GET("/api/ai/chat", USER("cat")));
    CHECK_EQ(d->shown_count, 1);
}

static void test_plans(void)
{
    static const struct sl_header key = {
        {"X-Api-Key", 9},
        {"k1",        2}
    };
    const struct sl_decision *d;

    CASE("a plan that nobody knows makes nobody somebody");
    d = rig_ask(&rig, GET("/api/ai/x", PLAN("bogus")));
    CHECK_EQ(d->shown[0].answer.limit, 1);

    CASE("one limit by its name: the default plan");
    d = rig_ask(
        &rig, (struct sl_request){.limit = SL_STR("ai"), .key = SL_STR("dan")});
    CHECK_EQ(d->shown[0].answer.limit, 5);

    CASE("whoever has a name of the policy's own scopes is known");
    d = rig_ask(&rig, GET("/keyed", .headers = &key, .header_count = 1,
                          .trusted = true));
    CHECK_EQ(d->status, 200);
    CHECK(!d->anonymous);
    CHECK_EQ(rig_ask(&rig, GET("/keyed"))->status, 401);

    CASE("a refusal for want of a capability names the limit");
    d = rig_ask(&rig, GET("/export", USER("eve")));
    CHECK_EQ(d->status, 403);
    CHECK_STR(by_of(d), "export");
    CHECK_EQ(d->report, -1);
}

static void test_overrides(void)
{
    struct sl_override more = {SL_STR("seats"), SL_STR("20/month")};
    struct sl_override less = {SL_STR("ai"), SL_STR("1/min")};
    struct sl_request seat = {.job = SL_STR("seat"),
                              ORG("acme"),
                              PLAN("pro"),
                              .overrides = &more,
                              .override_count = 1};
    const struct sl_decision *d = NULL;
    char name[16];

    CASE("an override does not take a paid overage away");
    for (int i = 0; i < 25; i++)
        d = rig_ask(&rig, seat);
    CHECK(d->allowed && d->shown[0].overage);
    CHECK_EQ(d->shown[0].answer.limit, 20);

    CASE("whoever an override holds back is not washed out by a flood");
    d = rig_ask(&rig, GET("/api/ai/x", USER("bad"), .overrides = &less,
                          .override_count = 1));
    CHECK(d->allowed);
    for (unsigned i = 0; i < 200000; i++) {
        struct sl_request other = GET("/api/ai/x", PLAN("pro"));

        other.user = (struct sl_str){
            name, (size_t)snprintf(name, sizeof(name), "u%u", i)};
        rig_ask(&rig, other);
    }
    d = rig_ask(&rig, GET("/api/ai/x", USER("bad"), .overrides = &less,
                          .override_count = 1));
    CHECK(!d->allowed);
}

/* A name that is lacking is stood in for by what the caller can't choose. */
static void test_stand_in(void)
{
    static const char team[] =
        "sluice: 1\n"
        "identity: { anonymous: [ip, header.user-agent] }\n"
        "limits:\n"
        "  team: { kind: token-bucket, per: org, rate: 1/min }\n"
        "  address: { kind: token-bucket, per: ip, rate: 100/min }\n"
        "routes:\n"
        "  - { match: /team, limits: [team], anonymous: deny }\n"
        "default: [address]\n";
    struct sl_header agent = {SL_STR("user-agent"), SL_STR("one")};
    struct sl_request facts =
        GET("/team", USER("ann"), .headers = &agent, .header_count = 1);

    rig_close(&rig);
    rig_open(&rig, team);
    CASE("whoever has a name can't make up others by his headers");
    CHECK(rig_ask(&rig, facts)->allowed);
    CHECK_STR(rig.d.shown[0].id, "192.0.2.1");
    agent.value = SL_STR("two");
    CHECK(!rig_ask(&rig, facts)->allowed);
}

static void test_shadow(void)
{
    static const char shadow[] =
        "sluice: 1\n"
        "mode: shadow\n"
        "plans: { default: free, unknown_plan: deny, free: {} }\n"
        "limits:\n"
        "  one: { kind: token-bucket, per: org, rate: 1/hour,\n"
        "         missing: deny }\n"
        "  lacking: { kind: token-bucket, per: user, rate: none }\n"
        "features: { off: { enabled: false } }\n"
        "routes:\n"
        "  - { match: /a, limits: [one], anonymous: deny, roles: [admin] }\n"
        "  - { match: /b, limits: [lacking] }\n"
        "  - { match: /c, limits: [one], feature: off }\n"
        "default: [one]\n";
    const struct sl_decision *d;

    rig_close(&rig);
    rig_open(&rig, shadow);
    CASE("a policy in shadow refuses nobody");
    CHECK_EQ(rig_ask(&rig, GET("/a"))->status, 200);
    CHECK_EQ(rig_ask(&rig, GET("/a", USER("u"), ROLE("x")))->status, 200);
    CHECK_EQ(rig_ask(&rig, GET("/a", ORG("o"), PLAN("gold")))->status, 200);
    d = rig_ask(&rig, GET("/b", USER("u")));
    CHECK(d->allowed && d->by < 0);
    rig_ask(&rig, GET("/a", ORG("o")));
    CHECK(rig_ask(&rig, GET("/a", ORG("o")))->allowed);

    CASE("but what somebody has switched off is off");
    CHECK_EQ(rig_ask(&rig, GET("/c", ORG("o")))->status, 503);
}

int main(void)
{
    rig_open(&rig, text);
    test_detours();
    test_plans();
    test_overrides();
    test_stand_in();
    test_shadow();
    rig_close(&rig);
    return CHECK_DONE();
}
