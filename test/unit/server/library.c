/* library.c -- libsluice-policy from outside: nothing but its header. */
#include <sluice_policy.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static const char good[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "limits:\n"
    "  minute:\n"
    "    kind: token-bucket\n"
    "    per: user\n"
    "    rate: { free: 2/min, pro: 4/min }\n"
    "    deny: { message: \"At most {limit}.\" }\n"
    "  month: { kind: quota, per: org, rate: 10/month }\n"
    "features: { assistant: { enabled: true } }\n"
    "routes:\n"
    "  - { match: /ask, limits: [month, minute], feature: assistant }\n"
    "default: [minute]\n";

static const char other[] =
    "sluice: 1\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: 3/min }\n"
    "default: [minute]\n";

static int64_t now;

static int64_t on_now(void *ctx)
{
    (void)ctx;
    return now;
}

static int broken;

static int on_fault(void *ctx)
{
    (void)ctx;
    return broken;
}

static const char *on_env(void *ctx, const char *name)
{
    (void)ctx;
    return strcmp(name, "FEATURE_ASSISTANT") == 0 ? "false" : NULL;
}

static struct sluice_policy *parse(const char *text)
{
    struct sluice_policy *policy = NULL;

    CHECK_EQ(sluice_policy_parse("good.yaml", text, strlen(text), NULL, &policy,
                                 NULL),
             0);
    return policy;
}

static const struct sluice_request check = {
    .method = "GET", .path = "/ask", .user = "ann", .org = "acme"};

static void test_refused(void)
{
    static const char bad[] =
        "sluice: 1\nlimits:\n  a: { kind: bucket }\ndefault: [a]\n";
    struct sluice_policy *policy = NULL;
    struct sluice_problems *problems;
    struct sluice_problem first;

    CASE("a bad policy is refused with everything that is wrong");
    CHECK_EQ(sluice_policy_parse("bad.yaml", bad, strlen(bad), NULL, &policy,
                                 &problems),
             SLUICE_ECONF);
    CHECK(policy == NULL);
    CHECK(sluice_problems_errors(problems) >= 1);
    first = sluice_problems_get(problems, 0);
    CHECK_STR(first.file, "bad.yaml");
    CHECK_EQ(first.line, 3);
    CHECK(!first.warning);
    CHECK(strncmp(sluice_problems_text(problems), "bad.yaml:3:", 11) == 0);
    CHECK(strncmp(sluice_why(), "bad.yaml:3:", 11) == 0);
    CHECK_STR(sluice_problems_get(problems, 999).sentence, "");
    sluice_problems_free(problems);

    CASE("a file that is not there");
    CHECK_EQ(
        sluice_policy_load("/nonexistent/x.yaml", NULL, &policy, &problems),
        SLUICE_ESYS);
    CHECK(strncmp(sluice_why(), "/nonexistent/x.yaml: can't be read: ", 35) ==
          0);
    CHECK(strncmp(sluice_problems_text(problems), sluice_why(),
                  strlen(sluice_why())) == 0);
    CHECK_EQ(sluice_problems_errors(problems), 1);
    first = sluice_problems_get(problems, 0);
    CHECK_STR(first.file, "/nonexistent/x.yaml");
    CHECK_EQ(first.line, 0);
    CHECK(!first.warning);
    CHECK(strncmp(first.sentence, "can't be read: ", 15) == 0);
    sluice_problems_free(problems);

    CASE("nothing but questions that make sense");
    CHECK_EQ(sluice_policy_load(NULL, NULL, &policy, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_policy_parse("x", NULL, 1, NULL, &policy, NULL),
             SLUICE_EINVAL);
    CHECK_EQ(sluice_engine_open(NULL, NULL, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_engine_use(NULL, NULL), SLUICE_EINVAL);
    CHECK_EQ(sluice_engine_switch(NULL, NULL, 1), SLUICE_EINVAL);
    CHECK_EQ(sluice_decide(NULL, &check, NULL), SLUICE_EINVAL);
    sluice_policy_release(NULL);
    sluice_problems_free(NULL);
    sluice_engine_close(NULL);
    sluice_decision_free(NULL);
}

static void test_lists(struct sluice_policy *policy)
{
    char *print, *schema, *page;

    CASE("what a policy has");
    CHECK_EQ(sluice_policy_limits(policy), 2);
    CHECK_EQ(sluice_policy_routes(policy), 1);
    CHECK_EQ(sluice_policy_plans(policy), 2);
    CHECK_STR(sluice_policy_limit_name(policy, 1), "month");
    CHECK_STR(sluice_policy_route_text(policy, 0), "/ask");
    CHECK_STR(sluice_policy_plan_name(policy, 1), "pro");
    CHECK(sluice_policy_limit_name(policy, 9) == NULL);
    CHECK(sluice_policy_route_text(policy, 9) == NULL);
    CHECK(sluice_policy_plan_name(policy, 9) == NULL);

    CASE("what was understood");
    print = sluice_policy_print(policy);
    CHECK(print && strncmp(print, "sluice: 1\n", 10) == 0);
    CHECK(print && strstr(print, "\nplans:\n") != NULL);
    free(print);
    CHECK(sluice_policy_print(NULL) == NULL);

    CASE("the language");
    schema = sluice_schema_json();
    page = sluice_schema_page();
    CHECK(schema && strstr(schema, "2020-12") != NULL);
    CHECK(page && strstr(page, "on_store_failure") != NULL);
    free(schema);
    free(page);
}

static void test_none(struct sluice_decision *d)
{
    CASE("before the first decision there is none");
    CHECK(!sluice_decision_allowed(d));
    CHECK_EQ(sluice_decision_status(d), 0);
    CHECK(sluice_decision_json(d) == NULL);
    CHECK(sluice_decision_text(d) == NULL);
    CHECK_STR(sluice_decision_body(d), "");
}

static void test_answers(struct sluice_engine *engine,
                         struct sluice_decision *d)
{
    struct sluice_shown shown;
    int with_limit = 0;

    CASE("allowed");
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK(sluice_decision_allowed(d));
    CHECK_EQ(sluice_decision_status(d), 200);
    CHECK_STR(sluice_decision_by(d), "");
    CHECK_STR(sluice_decision_message(d), "");
    CHECK_EQ(sluice_decision_retry_in_ns(d), -1);
    CHECK_EQ(sluice_decision_quota(d), 9);
    CHECK_EQ(sluice_decision_limits(d), 2);
    CHECK_EQ(sluice_decision_report(d), 1);
    shown = sluice_decision_limit(d, 1);
    CHECK_STR(shown.name, "minute");
    CHECK_STR(shown.kind, "token-bucket");
    CHECK_STR(shown.plan, "free");
    CHECK_STR(shown.scope, "user");
    CHECK_STR(shown.id, "ann");
    CHECK_STR(shown.mode, "enforce");
    CHECK_STR(shown.key, "sluice:default:minute:user:ann");
    CHECK_EQ(shown.remaining, 1);
    CHECK_EQ(shown.retry_in_ns, -1);
    for (size_t i = 0; i < sluice_decision_headers(d); i++) {
        struct sluice_header h = sluice_decision_header(d, i);

        with_limit += strcmp(h.name, "X-RateLimit-Limit") == 0 &&
                      strcmp(h.value, "2") == 0;
    }
    CHECK_EQ(with_limit, 1);
    CHECK_STR(sluice_decision_header(d, 999).name, "");

    CASE("explaining spends nothing");
    for (int i = 0; i < 5; i++)
        CHECK_EQ(sluice_explain(engine, &check, d), 0);
    CHECK(sluice_decision_allowed(d));
    CHECK_EQ(sluice_decision_limit(d, 1).remaining, 1);
    CHECK(strstr(sluice_decision_text(d), "minute") != NULL);

    CASE("refused");
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK(!sluice_decision_allowed(d));
    CHECK_EQ(sluice_decision_status(d), 429);
    CHECK_STR(sluice_decision_by(d), "minute");
    CHECK_STR(sluice_decision_code(d), "RATE_LIMITED");
    CHECK_STR(sluice_decision_message(d), "At most 2.");
    CHECK_EQ(sluice_decision_retry_in_ns(d), INT64_C(30000000000));
    CHECK_STR(sluice_decision_content_type(d), "application/problem+json");
    CHECK(strstr(sluice_decision_body(d), "\"RATE_LIMITED\"") != NULL);
    CHECK(strncmp(sluice_decision_json(d), "{\"allowed\":false,", 17) == 0);
    CHECK(strstr(sluice_decision_text(d), "429 by minute") != NULL);
    CHECK_EQ(sluice_decision_quota(d), 8);
}

static void test_lifetime(struct sluice_engine *engine,
                          struct sluice_decision *d)
{
    struct sluice_policy *next = parse(other);

    CASE("a switch");
    CHECK_EQ(sluice_engine_switch(engine, "assistant", 0), 0);
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK_EQ(sluice_decision_status(d), 503);
    CHECK_EQ(sluice_engine_switch(engine, "assistant", 1), 0);
    CHECK_EQ(sluice_engine_switch(engine, "no-such", 1), SLUICE_ENOENT);

    CASE("the store fails: what the policy says, and it shows");
    broken = 1;
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK_EQ(sluice_decision_status(d), 503); /* a quota denies */
    CHECK(sluice_decision_degraded(d));
    broken = 0;

    CASE("another policy keeps what was used");
    CHECK_EQ(sluice_engine_use(engine, next), 0);
    sluice_policy_release(next);
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK(sluice_decision_allowed(d));
    CHECK_EQ(sluice_decision_limit(d, 0).remaining, 0);
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK(!sluice_decision_allowed(d));

    CASE("a request must ask for something");
    CHECK_EQ(sluice_decide(engine, &(struct sluice_request){0}, d),
             SLUICE_EINVAL);
}

/* Whole units of the policy, and the counted ones. */
static void test_scale(void)
{
    static const char text[] =
        "sluice: 1\n"
        "limits:\n"
        "  talk: { kind: quota, per: user, rate: 120/month,\n"
        "          unit: { name: minutes, of: 60, reports: seconds } }\n"
        "routes: [{ match: /call, limits: [talk], quota: talk }]\n"
        "default: []\n";
    struct sluice_request call = {
        .path = "/call", .user = "ann", .has_cost = 1, .cost = 301};
    struct sluice_engine_options options = {.size = 1 << 20, .now = on_now};
    struct sluice_policy *policy = parse(text);
    struct sluice_engine *engine = NULL;
    struct sluice_decision *d = sluice_decision_new();
    struct sluice_exact exact;

    CASE("a unit with a scale");
    CHECK_EQ(sluice_engine_open(policy, &options, &engine), 0);
    sluice_policy_release(policy);
    CHECK_EQ(sluice_decide(engine, &call, d), 0);
    CHECK_EQ(sluice_decision_quota(d), 114);
    CHECK_STR(sluice_decision_limit(d, 0).unit, "minutes");
    CHECK_EQ(sluice_decision_limit(d, 0).limit, 120);
    CHECK_EQ(sluice_decision_limit(d, 0).burst, 120);
    CHECK_EQ(sluice_decision_limit(d, 0).remaining, 114);
    exact = sluice_decision_exact(d, 0);
    CHECK_STR(exact.unit, "seconds");
    CHECK_EQ(exact.scale, 60);
    CHECK_EQ(exact.limit, 7200);
    CHECK_EQ(exact.burst, 7200);
    CHECK_EQ(exact.remaining, 6899);
    exact = sluice_decision_exact(d, 1);
    CHECK_STR(exact.unit, "");
    CHECK_EQ(exact.scale, 1);
    CHECK_EQ(exact.limit, 0);
    sluice_decision_free(d);
    sluice_engine_close(engine);
}

/* The billing periods of an organisation. */
static void test_anchor(void)
{
    static const char text[] =
        "sluice: 1\n"
        "limits: { talk: { kind: quota, per: org, rate: 120/month } }\n"
        "routes: [{ match: /call, limits: [talk] }]\n"
        "default: []\n";
    struct sluice_subject acme = {.expires_ns = -1, .anchor = "2026-01-17"};
    struct sluice_request call = {
        .path = "/call", .org = "acme", .registry = 1, .org_subject = &acme};
    struct sluice_engine_options options = {.size = 1 << 20, .now = on_now};
    struct sluice_policy *policy = parse(text);
    struct sluice_engine *engine = NULL;
    struct sluice_decision *d = sluice_decision_new();
    int64_t reset;

    CASE("a subject has an anchor and a zone");
    CHECK_EQ(sluice_engine_open(policy, &options, &engine), 0);
    sluice_policy_release(policy);
    CHECK_EQ(sluice_decide(engine, &call, d), 0);
    reset = sluice_decision_limit(d, 0).reset_in_ns;
    acme.zone = "Europe/Berlin";
    CHECK_EQ(sluice_decide(engine, &call, d), 0);
    CHECK(sluice_decision_limit(d, 0).reset_in_ns < reset);
    acme.anchor = "the 17th";
    CHECK_EQ(sluice_decide(engine, &call, d), SLUICE_EINVAL);
    CHECK(strstr(sluice_why(), "the anchor \"the 17th\": it is not"));
    acme = (struct sluice_subject){.expires_ns = -1, .zone = "Mars/Olympus"};
    CHECK_EQ(sluice_decide(engine, &call, d), SLUICE_EINVAL);
    sluice_decision_free(d);
    sluice_engine_close(engine);
}

/* What was used is in the file. */
static void test_file(void)
{
    char path[] = "/tmp/sluice-library-XXXXXX";
    int fd = mkstemp(path);
    struct sluice_engine_options options = {
        .path = path, .size = 1 << 20, .now = on_now};
    struct sluice_policy *policy = parse(other);
    struct sluice_decision *d = sluice_decision_new();
    struct sluice_engine *engine;

    CASE("a state in a file outlives its engine");
    close(fd);
    unlink(path);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(sluice_engine_open(policy, &options, &engine), 0);
        CHECK_EQ(sluice_decide(engine, &check, d), 0);
        CHECK_EQ(sluice_decision_limit(d, 0).remaining, 2 - i);
        sluice_engine_close(engine);
    }
    sluice_decision_free(d);
    sluice_policy_release(policy);
    unlink(path);
}

static void test_environment(void)
{
    struct sluice_policy_options options = {.env = on_env};
    struct sluice_engine_options engine_options = {.size = 1 << 20};
    struct sluice_decision *d = sluice_decision_new();
    struct sluice_policy *policy = NULL;
    struct sluice_engine *engine;

    CASE("the environment switches a feature off");
    CHECK_EQ(sluice_policy_parse("good.yaml", good, strlen(good), &options,
                                 &policy, NULL),
             0);
    CHECK_EQ(sluice_engine_open(policy, &engine_options, &engine), 0);
    CHECK_EQ(sluice_decide(engine, &check, d), 0);
    CHECK_EQ(sluice_decision_status(d), 503);
    sluice_engine_close(engine);
    sluice_policy_release(policy);
    sluice_decision_free(d);
}

int main(void)
{
    struct sluice_engine_options options = {
        .size = 1 << 20, .now = on_now, .fault = on_fault};
    struct sluice_decision *d = sluice_decision_new();
    struct sluice_policy *policy = parse(good);
    struct sluice_engine *engine = NULL;

    test_refused();
    test_lists(policy);
    CASE("an engine");
    CHECK_EQ(sluice_engine_open(policy, &options, &engine), 0);
    sluice_policy_release(policy);
    test_none(d);
    test_answers(engine, d);
    test_lifetime(engine, d);
    sluice_engine_close(engine);
    sluice_decision_free(d);
    test_scale();
    test_anchor();
    test_file();
    test_environment();
    return CHECK_DONE();
}
