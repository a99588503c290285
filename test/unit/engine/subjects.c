/* subjects.c -- whose word goes first: the request's, the user's, his
 * organisation's, the plan's. */
#include "engine/engine_int.h"

#include "asking.h"
#include "engine/render.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {}, team: {} }\n"
    "identity:\n"
    "  trusted_proxies: [127.0.0.1]\n"
    "  plan: [header.x-plan, subject.plan]\n"
    "limits:\n"
    "  api:\n"
    "    kind: fixed-window\n"
    "    per: user\n"
    "    rate: { free: 2/hour, pro: 20/hour, team: 50/hour }\n"
    "routes:\n"
    "  - match: /admin\n"
    "    roles: [admin]\n"
    "    limits: [api]\n"
    "  - { match: /x, limits: [api] }\n"
    "default: []\n";

/* Made of `policy` by one line more, or by another in its place. */
static const char *with(const char *mark, const char *line)
{
    static char text[2048];
    const char *at = strstr(policy, mark);

    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - policy), policy, line,
             at);
    return text;
}

static struct sl_subject make(const char *id, const char *plan, sl_ns expires)
{
    return (struct sl_subject){.refs = 1,
                               .known = true,
                               .id = sl_str_c(id),
                               .plan = sl_str_c(plan),
                               .expires = expires};
}

static const struct sl_decision *look(struct rig *rig, struct sl_request facts,
                                      const struct sl_auth_info *known,
                                      bool spend)
{
    facts.now = rig->now;
    rig->live = sl_engine_hold(rig->engine, rig->live);
    CHECK_EQ(sl_engine_decide_known(rig->engine, rig->live, &facts, known,
                                    spend, &rig->d, &rig->diag),
             0);
    return &rig->d;
}

static uint64_t limit_of(struct rig *rig, struct sl_request facts,
                         const struct sl_auth_info *known)
{
    const struct sl_decision *d = look(rig, facts, known, false);

    return d->shown_count > 0 && d->shown[0].numbers
               ? d->shown[0].numbers->count
               : 0;
}

static void test_plans(struct rig *rig)
{
    static const struct sl_header claims = {
        {"x-plan", 6},
        {"team",   4}
    };
    struct sl_subject ann = make("ann", "pro", 100), acme = make("acme", "", 0);
    struct sl_auth_info known = {.user = &ann, .org = &acme};
    struct sl_request facts = GET("/x", USER("ann"), ORG("acme"));
    struct sl_request told = facts;

    CASE("the user's plan, until it ends");
    rig->now = 99;
    CHECK_EQ(limit_of(rig, facts, &known), 20);
    rig->now = 100;
    CHECK_EQ(limit_of(rig, facts, &known), 2);
    CHECK(rig->d.plan_ended);

    CASE("else the organisation's");
    acme = make("acme", "team", SL_NS_NONE);
    CHECK_EQ(limit_of(rig, facts, &known), 50);
    CHECK(!rig->d.plan_ended);
    acme.expires = 50;
    CHECK_EQ(limit_of(rig, facts, &known), 2);

    CASE("what the request says goes first");
    rig->now = 1;
    told.plan = SL_STR("free");
    CHECK_EQ(limit_of(rig, told, &known), 2);

    CASE("and a source that is named before the registry");
    told.plan = (struct sl_str){NULL, 0};
    told.headers = &claims;
    told.header_count = 1;
    told.trusted = true;
    CHECK_EQ(limit_of(rig, told, &known), 50);

    CASE("a plan that nobody has is the default");
    ann = make("ann", "gold", SL_NS_NONE);
    CHECK_EQ(limit_of(rig, facts, &known), 2);
}

static void test_order(void)
{
    static const struct sl_header claims = {
        {"x-plan", 6},
        {"team",   4}
    };
    struct sl_subject ann = make("ann", "pro", 100);
    struct sl_auth_info known = {.user = &ann};
    struct sl_request facts = GET("/x", USER("ann"), .headers = &claims,
                                  .header_count = 1, .trusted = true);
    char text[2048];
    struct rig rig;

    CASE("where the registry goes first, an ended plan is the default");
    snprintf(text, sizeof(text), "%s", policy);
    memcpy(strstr(text, "[header.x-plan, subject.plan]"),
           "[subject.plan, header.x-plan]", 29);
    rig_open(&rig, text);
    CHECK_EQ(limit_of(&rig, facts, &known), 20);
    rig.now = 100; /* and not what the header says */
    CHECK_EQ(limit_of(&rig, facts, &known), 2);
    ann.plan.len = 0; /* he never had one */
    CHECK_EQ(limit_of(&rig, facts, &known), 50);
    rig_close(&rig);

    CASE("where it is not named, it goes last");
    snprintf(text, sizeof(text), "%s", policy);
    memcpy(strstr(text, ", subject.plan"), "              ", 14);
    rig_open(&rig, text);
    ann = make("ann", "pro", SL_NS_NONE);
    CHECK_EQ(limit_of(&rig, facts, &known), 50);
    facts.trusted = false;
    CHECK_EQ(limit_of(&rig, facts, &known), 20);
    rig_close(&rig);
}

static void test_rates(struct rig *rig)
{
    struct sl_subject_override own = {.limit = SL_STR("api"),
                                      .rate = SL_STR("7/hour"),
                                      .until = 50,
                                      .by = SL_STR("ops"),
                                      .note = SL_STR("launch")};
    struct sl_subject_override wide = {SL_STR("api"), SL_STR("5/hour"),
                                       SL_NS_NONE, SL_STR("boss"), SL_STR("")};
    struct sl_subject ann = make("ann", "pro", SL_NS_NONE);
    struct sl_subject acme = make("acme", "", SL_NS_NONE);
    struct sl_auth_info known = {.user = &ann, .org = &acme};
    struct sl_override asked = {SL_STR("api"), SL_STR("3/hour")};
    struct sl_request facts = GET("/x", USER("ann"), ORG("acme"));
    struct sl_buf text;

    ann.rates = &own;
    ann.rate_count = 1;
    acme.rates = &wide;
    acme.rate_count = 1;
    rig->now = 1;
    sl_buf_init(&text, 1 << 16, &sl_alloc_libc);

    CASE("the user's own rate goes before his organisation's");
    CHECK_EQ(limit_of(rig, facts, &known), 7);
    CHECK_EQ(sl_explain(&rig->d, &text), 0);
    CHECK_EQ(sl_buf_add(&text, (struct sl_str){"", 1}), 0);
    CHECK(strstr(text.bytes, "(override of user by ops until "
                             "1970-01-01T00:00:00Z: launch)"));
    CHECK(!look(rig, facts, &known, true)->shown[0].override_by.at);

    CASE("until it ends; the organisation's reaches its members");
    rig->now = 50;
    CHECK_EQ(limit_of(rig, facts, &known), 5);
    known.user = NULL;
    CHECK_EQ(limit_of(rig, facts, &known), 5);

    CASE("what the request brings goes first");
    facts.overrides = &asked;
    facts.override_count = 1;
    CHECK_EQ(limit_of(rig, facts, &known), 3);
    facts.override_count = 0;

    CASE("one that the limit can't have is left aside, and told");
    wide.rate = SL_STR("5/min");
    CHECK_EQ(limit_of(rig, facts, &known), 2);
    sl_buf_clear(&text);
    CHECK_EQ(sl_explain(&rig->d, &text), 0);
    CHECK_EQ(sl_buf_add(&text, (struct sl_str){"", 1}), 0);
    CHECK(strstr(text.bytes, "(override ignored: "));
    sl_buf_done(&text);
}

static void test_names(struct rig *rig)
{
    struct sl_str roles[] = {SL_STR("member"), SL_STR("admin")};
    struct sl_subject ann = make("ann", "pro", SL_NS_NONE);
    struct sl_auth_info known = {.user = &ann};
    struct sl_request by_mail = GET("/x", USER("ann@x")), by_id = by_mail;
    uint64_t left;

    CASE("an alias has the allowance of its name");
    by_id.user = SL_STR("ann");
    left = look(rig, by_mail, &known, true)->shown[0].answer.remaining;
    CHECK_EQ(look(rig, by_id, &known, true)->shown[0].answer.remaining,
             left - 1);

    CASE("one of several roles is enough");
    by_id.path = SL_STR("/admin");
    CHECK_EQ(look(rig, by_id, &known, true)->status, 403);
    ann.roles = roles;
    ann.role_count = 2;
    CHECK_EQ(look(rig, by_id, &known, true)->status, 200);
    by_id.role = SL_STR("guest"); /* what is said goes first */
    CHECK_EQ(look(rig, by_id, &known, true)->status, 403);
}

static void test_unknown(void)
{
    struct sl_subject nobody = {.refs = 1, .id = SL_STR("eve")};
    struct sl_subject acme = make("acme", "", SL_NS_NONE);
    struct sl_auth_info known = {.user = &nobody}, none = {0};
    struct sl_request eve = GET("/x", USER("eve")), told = eve,
                      anyone = GET("/x");
    struct rig rig;

    told.plan = SL_STR("pro");

    CASE("whom the registry does not know has the default plan");
    rig_open(&rig, policy);
    CHECK_EQ(limit_of(&rig, eve, &known), 2);
    rig_close(&rig);

    CASE("or is refused");
    rig_open(&rig, with("  plan:", "  unknown_subject: deny\n"));
    CHECK_EQ(look(&rig, eve, &known, true)->status, 403);
    CHECK_EQ(rig.d.reason, SL_REASON_UNKNOWN_SUBJECT);
    CHECK_EQ(look(&rig, eve, &none, true)->status, 403); /* nobody is known */
    CHECK_EQ(look(&rig, told, &known, true)->status, 200);
    CHECK_EQ(look(&rig, anyone, &none, true)->status, 200); /* not named */
    known.org = &acme;
    CHECK_EQ(look(&rig, eve, &known, true)->status, 200);
    known.org = NULL;
    rig_close(&rig);

    CASE("or passes, where anybody is registered at all");
    rig_open(&rig, with("  plan:", "  unknown_subject: pass\n"));
    CHECK(look(&rig, eve, &known, true)->untouched);
    CHECK_EQ(limit_of(&rig, eve, &none), 2);
    CHECK_EQ(limit_of(&rig, told, &known), 20);
    CHECK(!look(&rig, anyone, &none, true)->untouched);
    rig_close(&rig);
}

static void test_failure(void)
{
    static const struct {
        const char *line;
        int status;
        bool blind;
    } rows[] = {
        {"    on_store_failure: allow\n", 200, true },
        {"    on_store_failure: deny\n",  503, false},
        {"    on_store_failure: local\n", 200, false},
    };
    struct sl_auth_info known = {.subjects_failed = true};
    struct sl_request ann = GET("/x", USER("ann")), told = ann;
    struct rig rig;

    told.plan = SL_STR("pro");
    CASE("a registry that fails is a store that fails, never a 429");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        rig_open(&rig, with("    per: user", rows[i].line));
        look(&rig, ann, &known, true);
        CHECK_EQ(rig.d.status, rows[i].status);
        CHECK_EQ(rig.d.blind, rows[i].blind);
        CHECK(rig.d.degraded);
        CHECK(!look(&rig, told, &known, true)->degraded);
        CHECK_EQ(rig.d.shown[0].numbers->count, 20);
        rig_close(&rig);
    }
}

static void test_switches(void)
{
    static const char text[] = "sluice: 1\n"
                               "features: { ask: { enabled: false } }\n"
                               "limits:\n"
                               "  a: { kind: level, per: user, rate: 5 }\n"
                               "routes:\n"
                               "  - { match: /x, feature: ask, limits: [a] }\n"
                               "default: []\n";
    struct sl_request ask = GET("/x", USER("ann"));
    struct sl_policy *again = rig_policy(text);
    struct rig rig;

    CASE("a switch stays over another policy, until it is left to it");
    rig_open(&rig, text);
    CHECK_EQ(rig_ask(&rig, ask)->status, 503);
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("ask"), 1, &rig.diag), 0);
    CHECK_EQ(rig_ask(&rig, ask)->status, 200);
    CHECK(sl_engine_is_kept(rig.engine, SL_STR("ask")));
    CHECK_EQ(sl_engine_use(rig.engine, again, &rig.diag), 0);
    CHECK_EQ(rig_ask(&rig, ask)->status, 200);
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("ask"), -1, &rig.diag), 0);
    CHECK_EQ(rig_ask(&rig, ask)->status, 503);
    CHECK(!sl_engine_is_kept(rig.engine, SL_STR("ask")));
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("no"), 1, &rig.diag),
             SLUICE_ENOENT);
    CHECK_EQ(sl_engine_keep(rig.engine, SL_STR("no"), 1, &rig.diag), 0);
    sl_policy_unref(again);
    rig_close(&rig);
}

int main(void)
{
    struct rig rig;

    rig_open(&rig, policy);
    test_plans(&rig);
    test_rates(&rig);
    test_names(&rig);
    rig_close(&rig);
    test_order();
    test_unknown();
    test_failure();
    test_switches();
    return CHECK_DONE();
}
