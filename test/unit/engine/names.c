/* names.c -- what a shared store is asked for: names by the templates, hash
 * tags on a cluster, and sets that lie apart there. */
#include "engine/check.h"
#include "engine/throttle.h"
#include "fixture.h"
#include "row.h"

#define ENV                                                                    \
    "sluice: 1\n"                                                              \
    "env: prod\n"
static const char fluo[] = ENV
    "limits:\n"
    "  tenant: { kind: token-bucket, per: org, rate: 5/min, missing: deny,\n"
    "            key: \"ratelimit:tenant:{org}\" }\n"
    "  user: { kind: token-bucket, per: [org, user], rate: 3/min, missing: "
    "deny,\n"
    "          key: \"ratelimit:user:{org}:{user}\", candidate: 2/min }\n"
    "  looking: { kind: fixed-window, per: user, rate: 2/min, mode: shadow }\n"
    "routes:\n"
    "  - { match: /api, limits: [tenant, user] }\n"
    "  - { match: /shadow, limits: [tenant, looking], atomic: false }\n"
    "default: []\n";

static const char carrying[] =
    ENV "limits:\n"
        "  a: { kind: fixed-window, per: user, rate: 3/hour,\n"
        "       key: \"{name}:{user_type}:{id}\" }\n"
        "routes: [{ match: /x, limits: [a], sign_in: carry }]\n"
        "default: []\n";

#define THREE_LIMITS                                                           \
    "sluice: 1\n"                                                              \
    "limits:\n"                                                                \
    "  one: { kind: token-bucket, per: user, rate: 3/min }\n"                  \
    "  two: { kind: token-bucket, per: org, rate: 2/min }\n"                   \
    "  three: { kind: token-bucket, per: ip, rate: 5/min }\n"                  \
    "default: []\n"                                                            \
    "routes:\n"                                                                \
    "  - match: /x\n"                                                          \
    "    limits: [one, two, three]\n"

static const char spans[] = THREE_LIMITS "    atomic: false\n";
static const char strict[] = THREE_LIMITS "    atomic: false\n"
                                          "    on_store_failure: deny\n";

#define ONE   "sluice:default:one:user:{ann}"
#define TWO   "sluice:default:two:org:{acme}"
#define THREE "sluice:default:three:ip:{192.0.2.1}"

static struct far far;
static struct rig rig;

static const struct {
    const char *why, *policy; /* NULL: the same as before */
    bool in_slots;
    const char *path, *org, *user, *want;
} rows[] = {
    ROW("names are the templates', exactly as written", fluo, false, "/api",
        "acme", "ann",
        "take ratelimit:tenant:acme=1,ratelimit:user:acme:ann=1\n"
        "each ratelimit:user:acme:ann#candidate=1\n"),
    ROW("values are escaped", NULL, false, "/shadow", "acme", "a/n:n",
        "take ratelimit:tenant:acme=1\n"
        "each sluice:prod:looking:user:a%2Fn%3An=1\n"),
    ROW("on a cluster the value that all have is in braces", fluo, true, "/api",
        "acme", "ann",
        "take ratelimit:tenant:{acme}=1,ratelimit:user:{acme}:ann=1\n"
        "each ratelimit:user:{acme}:ann#candidate=1\n"),
    ROW("a value can't forge a tag", NULL, true, "/api", "{a}", "ann",
        "take ratelimit:tenant:{%7Ba%7D}=1,ratelimit:user:{%7Ba%7D}:ann=1\n"
        "each ratelimit:user:{%7Ba%7D}:ann#candidate=1\n"),
    ROW("a caller without a name", carrying, false, "/x", "", "",
        "take a:anon:192.0.2.1=1\n"),
    ROW("what is carried has a name, too", NULL, false, "/x", "", "ann",
        "take a:anon:192.0.2.1*0,a:user:ann=1\n"),
    ROW("what lies apart is taken in the route's order", spans, true, "/x",
        "acme", "ann", "take " ONE "=1\ntake " TWO "=1\ntake " THREE "=1\n"),
    ROW("another user", NULL, true, "/x", "acme", "bob",
        "take sluice:default:one:user:{bob}=1\ntake " TWO "=1\ntake " THREE
        "=1\n"),
    ROW("a refusal gives back what was taken, and looks at the rest", NULL,
        true, "/x", "acme", "ann",
        "take " ONE "=1\ntake " TWO "=1\nlook " THREE "=1\nback " ONE "=1\n"),
};

static const struct sl_decision *get(const char *path, const char *org,
                                     const char *user)
{
    struct sl_request request = GET("");

    request.path = sl_str_c(path);
    request.org = sl_str_c(org);
    request.user = sl_str_c(user);
    return rig_ask(&rig, request);
}

static void check_rows(void)
{
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        if (rows[i].policy && i > 0)
            rig_close(&rig);
        if (rows[i].policy)
            far_open(&far, &rig, rows[i].policy, rows[i].in_slots);
        get(rows[i].path, rows[i].org, rows[i].user);
        CHECK_STR(far_asked(&far), rows[i].want);
    }
    CHECK_STR(by_of(&rig.d), "two");
    CHECK_EQ(rig.d.shown[0].answer.remaining, 2);
    CHECK_EQ(rig.d.shown[2].answer.remaining, 3);
    CASE("a step that fails gives back, too, and the policy decides");
    far.fail_at = far.takes + 2;
    CHECK(get("/x", "other", "ann")->allowed && rig.d.degraded);
    CHECK_STR(far_asked(&far),
              "take " ONE "=1\ntake sluice:default:two:org:{other}=1"
              "\nback " ONE "=1\n");
    rig_close(&rig);

    CASE("a store in this process is asked for no names");
    rig_open(&rig, fluo);
    get("/api", "acme", "ann");
    CHECK_EQ(rig.d.shown[0].name.len, 0);
    CHECK_EQ(rig.d.parts[0].name.len, 0);
    rig_close(&rig);
}

/* With every step the one that fails. */
static void check_apart_failing(void)
{
    static const uint64_t full[] = {3, 2, 5};

    CASE("nothing stays taken of a set that fails, whichever step it is");
    for (unsigned fail = 1; fail <= 3; fail++) {
        far_open(&far, &rig, strict, true);
        far.fail_at = fail;
        get("/x", "acme", "ann");
        CHECK(!rig.d.allowed && rig.d.degraded && rig.d.status == 503);
        CHECK_EQ(far.takes, fail + fail - 1);
        get("/x", "acme", "ann");
        CHECK(rig.d.allowed && !rig.d.degraded);
        for (unsigned i = 0; i < 3; i++)
            CHECK_EQ(rig.d.shown[i].answer.remaining, full[i] - 1);
        rig_close(&rig);
    }
}

static void check_refused(void)
{
    struct sl_policy *together = rig_policy(THREE_LIMITS);

    CASE("a policy whose routes span slots does not come in force there");
    far_open(&far, &rig, spans, true);
    CHECK_EQ(sl_engine_use(rig.engine, together, &rig.diag), SLUICE_ECONF);
    CHECK(has(rig.diag.sentence, "line 8 of the policy"));
    CHECK(has(rig.diag.sentence, "atomic: false"));
    far.store.in_slots = false;
    CHECK_EQ(sl_engine_use(rig.engine, together, &rig.diag), 0);
    sl_policy_unref(together);
    rig_close(&rig);
}

static void on_done(struct sl_check *check)
{
    CHECK_EQ(check->err, 0);
}

static void check_forget(void)
{
    static const struct sl_engine_ctx engine_ctx;
    struct sl_request request = GET("/api", ORG("acme"), USER("ann"));
    struct sl_check check;

    CASE("what is forgotten is forgotten by its name");
    far_open(&far, &rig, fluo, false);
    sl_check_init(&check, rig.engine, &engine_ctx, &sl_alloc_libc);
    check.done = on_done;
    sl_check_start(&check, &request, 1, false);
    far_asked(&far);
    sl_check_reset(&check);
    CHECK_STR(far_asked(&far), "reset ratelimit:tenant:acme=1,"
                               "ratelimit:user:acme:ann=1,"
                               "ratelimit:user:acme:ann#candidate=1\n");
    sl_check_done(&check);
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
    check_rows();
    check_apart_failing();
    check_refused();
    check_forget();
    check_throttles();
    return CHECK_DONE();
}
