/* names.c -- what a shared store is asked for: names by the templates, hash
 * tags on a cluster, and sets that lie apart there. */
#include "far.h"

#include "engine/check.h"
#include "engine/throttle.h"

static const char fluo[] =
    "sluice: 1\n"
    "env: prod\n"
    "limits:\n"
    "  tenant: { kind: token-bucket, per: org, rate: 5/min, missing: deny,\n"
    "            key: \"ratelimit:tenant:{org}\" }\n"
    "  user: { kind: token-bucket, per: [org, user], rate: 3/min, missing: "
    "deny,\n"
    "          key: \"ratelimit:user:{org}:{user}\", candidate: 2/min }\n"
    "  looking: { kind: fixed-window, per: user, rate: 2/min, mode: shadow }\n"
    "routes:\n"
    "  - { match: /api/**, limits: [tenant, user] }\n"
    "  - { match: /shadow, limits: [tenant, looking], atomic: false }\n"
    "default: []\n";

static void check_names(void)
{
    struct far far;
    struct rig rig;

    CASE("names are the templates', exactly as written");
    far_open(&far, &rig, fluo, false);
    rig_ask(&rig, GET("/api/x", ORG("acme"), USER("ann")));
    CHECK_STR(far_asked(&far),
              "take ratelimit:tenant:acme=1,ratelimit:user:acme:ann=1\n"
              "each ratelimit:user:acme:ann#candidate=1\n");
    rig_ask(&rig, GET("/shadow", ORG("acme"), USER("a/n:n")));
    CHECK_STR(far_asked(&far), "take ratelimit:tenant:acme=1\n"
                               "each sluice:prod:looking:user:a%2Fn%3An=1\n");
    rig_close(&rig);

    CASE("a store in this process is asked for no names");
    rig_open(&rig, fluo);
    rig_ask(&rig, GET("/api/x", ORG("acme"), USER("ann")));
    CHECK_EQ(rig.d.shown[0].name.len, 0);
    CHECK_EQ(rig.d.parts[0].name.len, 0);
    rig_close(&rig);
}

static void check_tags(void)
{
    struct far far;
    struct rig rig;

    CASE("on a cluster the value that all have is in braces");
    far_open(&far, &rig, fluo, true);
    rig_ask(&rig, GET("/api/x", ORG("acme"), USER("ann")));
    CHECK_STR(far_asked(&far),
              "take ratelimit:tenant:{acme}=1,ratelimit:user:{acme}:ann=1\n"
              "each ratelimit:user:{acme}:ann#candidate=1\n");
    CASE("a value can't forge a tag");
    rig_ask(&rig, GET("/api/x", ORG("{a}"), USER("ann")));
    CHECK_STR(far_asked(&far),
              "take ratelimit:tenant:{%7Ba%7D}=1,"
              "ratelimit:user:{%7Ba%7D}:ann=1\n"
              "each ratelimit:user:{%7Ba%7D}:ann#candidate=1\n");
    rig_close(&rig);
}

#define THREE_LIMITS                                                           \
    "sluice: 1\n"                                                              \
    "limits:\n"                                                                \
    "  one: { kind: token-bucket, per: user, rate: 3/min }\n"                  \
    "  two: { kind: token-bucket, per: org, rate: 2/min }\n"                   \
    "  three: { kind: token-bucket, per: ip, rate: 5/min }\n"                  \
    "default: []\n"                                                            \
    "routes:\n"                                                                \
    "  - match: /x\n"                                                          \
    "    limits: [one, two, three]\n"                                          \
    "    atomic: false\n"

static const char spans[] = THREE_LIMITS;
static const char strict[] = THREE_LIMITS "    on_store_failure: deny\n";

#define ONE   "sluice:default:one:user:{ann}"
#define TWO   "sluice:default:two:org:{acme}"
#define THREE "sluice:default:three:ip:{192.0.2.1}"

static void check_apart(void)
{
    const struct sl_decision *d;
    struct far far;
    struct rig rig;

    CASE("what lies apart is taken in the route's order");
    far_open(&far, &rig, spans, true);
    d = rig_ask(&rig, GET("/x", ORG("acme"), USER("ann")));
    CHECK(d->allowed);
    CHECK_STR(far_asked(&far),
              "take " ONE "=1\ntake " TWO "=1\ntake " THREE "=1\n");
    CASE("a refusal gives back what was taken, and looks at the rest");
    rig_ask(&rig, GET("/x", ORG("acme"), USER("bob")));
    far_asked(&far);
    d = rig_ask(&rig, GET("/x", ORG("acme"), USER("ann")));
    CHECK(!d->allowed && strcmp(by_of(d), "two") == 0);
    CHECK_STR(far_asked(&far), "take " ONE "=1\ntake " TWO "=1\nlook " THREE
                               "=1\nback " ONE "=1\n");
    CHECK_EQ(d->shown[0].answer.remaining, 2);
    CHECK_EQ(d->shown[2].answer.remaining, 3);
    CASE("a step that fails gives back, too, and the policy decides");
    far.fail_at = far.takes + 2;
    d = rig_ask(&rig, GET("/x", ORG("other"), USER("ann")));
    CHECK(d->allowed && d->degraded);
    CHECK_STR(far_asked(&far),
              "take " ONE "=1\ntake sluice:default:two:org:{other}=1"
              "\nback " ONE "=1\n");
    rig_close(&rig);
}

/* With every step the one that fails. */
static void check_apart_failing(void)
{
    static const uint64_t full[] = {3, 2, 5};
    const struct sl_decision *d;
    struct far far;
    struct rig rig;

    CASE("nothing stays taken of a set that fails, whichever step it is");
    for (unsigned fail = 1; fail <= 3; fail++) {
        far_open(&far, &rig, strict, true);
        far.fail_at = fail;
        d = rig_ask(&rig, GET("/x", ORG("acme"), USER("ann")));
        CHECK(!d->allowed && d->degraded && d->status == 503);
        CHECK_EQ(far.takes, fail + fail - 1);
        d = rig_ask(&rig, GET("/x", ORG("acme"), USER("ann")));
        CHECK(d->allowed && !d->degraded);
        for (unsigned i = 0; i < 3; i++)
            CHECK_EQ(d->shown[i].answer.remaining, full[i] - 1);
        rig_close(&rig);
    }
}

static void check_refused(void)
{
    static const char together[] =
        "sluice: 1\n"
        "limits:\n"
        "  one: { kind: token-bucket, per: user, rate: 3/min }\n"
        "  two: { kind: token-bucket, per: org, rate: 2/min }\n"
        "routes: [{ match: /x, limits: [one, two] }]\n"
        "default: []\n";
    struct sl_policy *policy = rig_policy(together);
    struct far far;
    struct rig rig;

    CASE("a policy whose routes span slots does not come in force there");
    far_open(&far, &rig, spans, true);
    CHECK_EQ(sl_engine_use(rig.engine, policy, &rig.diag), SLUICE_ECONF);
    CHECK(strstr(rig.diag.sentence, "line 5 of the policy"));
    CHECK(strstr(rig.diag.sentence, "atomic: false"));
    far.store.in_slots = false;
    CHECK_EQ(sl_engine_use(rig.engine, policy, &rig.diag), 0);
    sl_policy_unref(policy);
    rig_close(&rig);
}

static void check_visitor(void)
{
    static const char policy[] =
        "sluice: 1\n"
        "limits:\n"
        "  a: { kind: fixed-window, per: user, rate: 3/hour,\n"
        "       key: \"{name}:{user_type}:{id}\" }\n"
        "routes: [{ match: /x, limits: [a], sign_in: carry }]\n"
        "default: []\n";
    struct far far;
    struct rig rig;

    CASE("what is carried has a name, too");
    far_open(&far, &rig, policy, false);
    rig_ask(&rig, GET("/x"));
    CHECK_STR(far_asked(&far), "take a:anon:192.0.2.1=1\n");
    rig_ask(&rig, GET("/x", USER("ann")));
    CHECK_STR(far_asked(&far), "take a:anon:192.0.2.1*0,a:user:ann=1\n");
    CHECK_EQ(rig.d.shown[0].carried, 1);
    CHECK_EQ(rig.d.shown[0].answer.remaining, 1);
    rig_close(&rig);
}

static void on_done(struct sl_check *ask)
{
    CHECK_EQ(ask->err, 0);
}

static void check_forget(void)
{
    static const struct sl_engine_ctx station;
    struct sl_request facts = GET("/api/x", ORG("acme"), USER("ann"));
    struct sl_check ask;
    struct far far;
    struct rig rig;

    CASE("what is forgotten is forgotten by its name");
    far_open(&far, &rig, fluo, false);
    sl_check_init(&ask, rig.engine, &station, &sl_alloc_libc);
    ask.done = on_done;
    sl_check_begin(&ask, &facts, false);
    far_asked(&far);
    sl_check_reset(&ask);
    CHECK_EQ(ask.decision.take.count, 3);
    CHECK_STR(far_asked(&far), "reset ratelimit:tenant:acme=1,"
                               "ratelimit:user:acme:ann=1,"
                               "ratelimit:user:acme:ann#candidate=1\n");
    sl_check_done(&ask);
    rig_close(&rig);
}

static void on_throttled(struct sl_throttle *t)
{
    (void)t;
}

static void check_throttles(void)
{
    struct sl_throttle t = {.key = SL_STR("ann"),
                            .name = SL_STR(SL_THROTTLE_NAME "ann"),
                            .quantity = 1,
                            .done = on_throttled};
    struct sl_throttle *one = &t;
    struct sl_throttles all;
    struct far far;
    struct rig rig;

    CASE("limits that come with the question have names and microseconds");
    far_open(&far, &rig, fluo, false);
    sl_throttles_init(&all, rig.engine, NULL);
    CHECK(sl_throttles_named(&all));
    CHECK_EQ(sl_throttle_set(&t, 3, 3, 1, NULL), 0);
    sl_throttle_take(&all, &one, 1);
    CHECK_STR(far_asked(&far), "take sluice:#throttle:ann=1\n");
    CHECK_EQ(t.numbers.token, 333334);
    CHECK_EQ(t.numbers.tick, SL_US);
    CHECK(!t.limited && t.remaining == 2);
    rig_close(&rig);
}

int main(void)
{
    check_names();
    check_tags();
    check_apart();
    check_apart_failing();
    check_refused();
    check_visitor();
    check_forget();
    check_throttles();
    return CHECK_DONE();
}
