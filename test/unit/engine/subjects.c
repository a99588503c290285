/* subjects.c -- what the registry says of a caller: aliases, roles, rates of
 * one's own and failures. Plans are in test/flow/a03-subjects and a05-plans. */
#include "engine/engine_int.h"

#include "fixture.h"

#define POLICY(more, failure)                                                  \
    "sluice: 1\n"                                                              \
    "plans: { default: free, free: {}, pro: {} }\n"                            \
    "identity: { trusted_proxies: [127.0.0.1]" more " }\n"                     \
    "limits:\n"                                                                \
    "  api: { kind: fixed-window, per: user" failure ",\n"                     \
    "         rate: { free: 2/hour, pro: 20/hour } }\n"                        \
    "routes:\n"                                                                \
    "  - { match: /admin, roles: [admin], limits: [api] }\n"                   \
    "  - { match: /x, limits: [api] }\n"                                       \
    "default: []\n"

static struct rig rig;

static struct sl_subject make(const char *id, const char *plan, sl_ns expires)
{
    return (struct sl_subject){.refs = 1,
                               .known = true,
                               .id = sl_str_c(id),
                               .plan = sl_str_c(plan),
                               .expires = expires};
}

static const struct sl_decision *
look(struct sl_request request, const struct sl_auth_info *known, bool spend)
{
    request.now = rig.now;
    CHECK_EQ(rig_decide(&rig, &request, 1, known, spend), 0);
    return &rig.d;
}

static uint64_t limit_of(struct sl_request request,
                         const struct sl_auth_info *known)
{
    const struct sl_decision *d = look(request, known, false);

    return d->shown_count > 0 && d->shown[0].numbers
               ? d->shown[0].numbers->count
               : 0;
}

static void test_plan_ended(void)
{
    struct sl_subject ann = make("ann", "pro", 100), acme = make("acme", "", 0);
    struct sl_auth_info known = {.user = &ann, .org = &acme};
    struct sl_request request = GET("/x", USER("ann"), ORG("acme"));

    CASE("a plan that has ended is told, unless there is another");
    rig.now = 99;
    CHECK_EQ(limit_of(request, &known), 20);
    CHECK(!rig.d.plan_ended);
    rig.now = 100;
    CHECK_EQ(limit_of(request, &known), 2);
    CHECK(rig.d.plan_ended);
    acme = make("acme", "pro", SL_NS_NONE);
    CHECK_EQ(limit_of(request, &known), 20);
    CHECK(!rig.d.plan_ended);
    CASE("a plan that no policy has is the default");
    ann = make("ann", "gold", SL_NS_NONE);
    CHECK_EQ(limit_of(request, &known), 2);
    rig.now = 0;
}

static void test_rates(void)
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
    struct sl_request request = GET("/x", USER("ann"), ORG("acme"));

    ann.rates = &own;
    ann.rate_count = 1;
    acme.rates = &wide;
    acme.rate_count = 1;

    CASE("the user's own rate is explained, and copied for that alone");
    CHECK_EQ(limit_of(request, &known), 7);
    CHECK(has(rig_explained(&rig.d), "(override of user by ops until "
                                     "1970-01-01T00:00:00Z: launch)"));
    CHECK(!look(request, &known, true)->shown[0].override_by.at);
    CASE("until it ends, to the nanosecond");
    rig.now = 49;
    CHECK_EQ(limit_of(request, &known), 7);
    rig.now = 50;
    CHECK_EQ(limit_of(request, &known), 5);
    CASE("what the request brings goes first");
    request.overrides = &asked;
    request.override_count = 1;
    CHECK_EQ(limit_of(request, &known), 3);
    request.override_count = 0;
    CASE("one that the limit can't have is left aside, and told");
    wide.rate = SL_STR("5/min");
    CHECK_EQ(limit_of(request, &known), 20);
    CHECK(has(rig_explained(&rig.d), "(override ignored: "));
    rig.now = 0;
}

static void test_names(void)
{
    struct sl_str roles[] = {SL_STR("member"), SL_STR("admin")};
    struct sl_subject bob = make("bob", "pro", SL_NS_NONE);
    struct sl_auth_info known = {.user = &bob};
    struct sl_request by_mail = GET("/x", USER("bob@x")), by_id = by_mail;

    CASE("an alias has the allowance of its name");
    by_id.user = SL_STR("bob");
    CHECK_EQ(look(by_mail, &known, true)->shown[0].answer.remaining, 19);
    CHECK_EQ(look(by_id, &known, true)->shown[0].answer.remaining, 18);

    CASE("one of several roles is enough");
    by_id.path = SL_STR("/admin");
    CHECK_EQ(look(by_id, &known, true)->status, 403);
    bob.roles = roles;
    bob.role_count = 2;
    CHECK_EQ(look(by_id, &known, true)->status, 200);
    by_id.role = SL_STR("guest"); /* what is said goes first */
    CHECK_EQ(look(by_id, &known, true)->status, 403);
}

static void test_unknown(void)
{
    struct sl_subject unknown = {.refs = 1, .id = SL_STR("eve")};
    struct sl_auth_info known = {.user = &unknown, .has_registered = true};
    struct sl_auth_info none = {0}, blocks = {.user = &unknown};
    struct sl_request eve = GET("/x", USER("eve"));

    CASE("a caller that is not registered has the default plan");
    rig_open(&rig, POLICY("", ""));
    CHECK_EQ(limit_of(eve, &known), 2);
    rig_close(&rig);
    CASE("or is refused");
    rig_open(&rig, POLICY(", unknown_subject: deny", ""));
    CHECK_EQ(look(eve, &known, true)->reason, SL_REASON_UNKNOWN_SUBJECT);
    CHECK_EQ(look(eve, &none, true)->status, 403); /* an empty registry */
    rig_close(&rig);
    CASE("or passes, where anybody is registered at all");
    rig_open(&rig, POLICY(", unknown_subject: pass", ""));
    CHECK(look(eve, &known, true)->not_limited);
    CHECK_EQ(limit_of(eve, &none), 2);
    CHECK_EQ(limit_of(eve, &blocks), 2); /* a registry of blocks alone */
    rig_close(&rig);
}

static void test_failure(void)
{
    static const char *const policies[] = {
        POLICY("", ", on_store_failure: allow"),
        POLICY("", ", on_store_failure: deny"),
        POLICY("", ", on_store_failure: local"),
        POLICY(", unknown_subject: default", ""),
        POLICY(", unknown_subject: deny", ""),
        POLICY(", unknown_subject: pass", ""),
    };
    static const int statuses[] = {200, 200, 200, 200, 503, 200};
    struct sl_auth_info known = {.subjects_failed = true};

    CASE("if the registry fails the default plan counts, unless "
         "unknown_subject says otherwise");
    for (size_t i = 0; i < SL_LEN(policies); i++) {
        rig_open(&rig, policies[i]);
        look(GET("/x", USER("ann")), &known, true);
        CHECK_EQ(rig.d.status, statuses[i]);
        CHECK_EQ(rig.d.no_numbers, i == 5);
        CHECK(rig.d.degraded);
        if (rig.d.allowed && !rig.d.no_numbers)
            CHECK_EQ(rig.d.shown[0].answer.remaining, 1); /* of two: taken */
        look(GET("/x", USER("ann"), PLAN("pro")), &known, true);
        CHECK(!rig.d.degraded);
        CHECK_EQ(rig.d.shown[0].numbers->count, 20);
        rig_close(&rig);
    }
}

static void test_switches(void)
{
    static const char text[] = "sluice: 1\n"
                               "features: { ask: { enabled: false } }\n"
                               "default: []\n";

    CASE("a switch is kept until it is left to the policy");
    rig_open(&rig, text);
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("ask"), 1, &rig.diag), 0);
    CHECK(sl_engine_is_kept(rig.engine, SL_STR("ask")));
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("ask"), -1, &rig.diag), 0);
    CHECK(!sl_engine_is_kept(rig.engine, SL_STR("ask")));
    rig.active = sl_check_ref_policy(&rig.check);
    CHECK(!atomic_load(&rig.active->features[0]));
    CASE("one that the policy has not can be kept for another policy");
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("no"), 1, &rig.diag),
             SLUICE_ENOENT);
    CHECK_EQ(sl_engine_keep(rig.engine, SL_STR("no"), 1, &rig.diag), 0);
    rig_close(&rig);
}

/* ---- lookups ---- */

static struct sl_subject found;

static void find_now(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    (void)subjects;
    found.refs++;
    lookup->found = &found;
    lookup->done(lookup);
}

static void test_lookup(void)
{
    static const struct sl_subjects_calls calls = {find_now};
    struct sl_subjects subjects = {&calls};
    struct sl_engine_ctx ctx = {.subjects = &subjects};
    struct sl_request request = GET("/x", USER("eve"));
    struct sl_check check;

    CASE("a subject that is found at once counts, and is released");
    rig_open(&rig, POLICY("", ""));
    found = make("eve", "pro", SL_NS_NONE);
    sl_check_init(&check, rig.engine, &ctx, &sl_alloc_libc);
    for (unsigned i = 0; i < 2; i++) {
        sl_check_start(&check, &request, 1, false);
        CHECK_EQ(check.decision.shown[0].answer.limit, 20);
        CHECK_EQ(found.refs, 1);
    }
    sl_check_done(&check);
    rig_close(&rig);
}

int main(void)
{
    rig_open(&rig, POLICY("", ""));
    test_plan_ended();
    test_rates();
    test_names();
    rig_close(&rig);
    test_unknown();
    test_failure();
    test_switches();
    test_lookup();
    return CHECK_DONE();
}
