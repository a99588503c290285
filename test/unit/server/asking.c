/* asking.c -- what may be asked of an engine, and what a decision says when it
 * is asked again, or was refused. */
#include "world.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity:\n"
    "  user: [header.x-user]\n"
    "  org: [header.x-org]\n"
    "  plan: [header.x-plan]\n"
    "  role: [header.x-role]\n"
    "  device: [header.x-device]\n"
    "limits:\n"
    "  minute: { kind: token-bucket, per: user, rate: { free: 3/min, pro: "
    "9/min } }\n"
    "  group: { kind: token-bucket, per: org, rate: 20/min }\n"
    "  gadget: { kind: token-bucket, per: device, rate: 20/min }\n"
    "routes:\n"
    "  - { match: /admin, limits: [minute], roles: [admin] }\n"
    "  - { match: /known, limits: [minute], anonymous: deny }\n"
    "  - { match: /group, limits: [group] }\n"
    "  - { match: /gadget, limits: [gadget] }\n"
    "default: [minute]\n";

static const char visitors[] =
    "sluice: 1\n"
    "identity: { anonymous: [ip, header.user-agent] }\n"
    "limits:\n"
    "  visit: { kind: token-bucket, per: anon, rate: 20/min }\n"
    "  address: { kind: token-bucket, per: ip, rate: 90/min }\n"
    "default: [visit, address]\n";

/* ---- again and again ---- */

static void test_repeats(struct world *w)
{
    struct sluice_request check = {.path = "/x", .user = "rex"};
    struct sluice_decision *d = w->decision;
    struct sluice_shown first, last;
    const char *body, *type;

    CASE("a decision says the same thing, and from the same place");
    for (int i = 0; i < 4; i++)
        CHECK_EQ(sluice_decide(w->engine, &check, d), 0);
    CHECK(!sluice_decision_allowed(d));
    body = sluice_decision_body(d);
    type = sluice_decision_content_type(d);
    first = last = sluice_decision_limit(d, 0);
    CHECK(strlen(body) > 50 && body[strlen(body) - 1] == '}');
    CHECK_STR(type, "application/problem+json");
    for (int i = 0; i < 100000; i++)
        last = sluice_decision_limit(d, 0);
    CHECK(sluice_decision_body(d) == body);
    CHECK(sluice_decision_content_type(d) == type);
    CHECK(last.plan == first.plan && last.scope == first.scope &&
          last.unit == first.unit && last.key == first.key &&
          last.id == first.id);
    CHECK_STR(last.plan, "free");
    CHECK_STR(last.scope, "user");
    CHECK_STR(last.key, "sluice:default:minute:user:rex");
    CHECK_STR(sluice_decision_limit(d, 1).name, "");
    CHECK_STR(sluice_decision_limit(d, 1).key, "");

    CASE("and another thing when it is used again");
    check.path = "/group";
    check.org = "acme";
    CHECK_EQ(sluice_decide(w->engine, &check, d), 0);
    CHECK_STR(sluice_decision_limit(d, 0).key, "sluice:default:group:org:acme");
    CHECK_STR(sluice_decision_body(d), "");
    CHECK_STR(sluice_decision_content_type(d), "");
}

static void test_text(struct world *w)
{
    char name[] = "eve";
    struct sluice_request check = {
        .path = "/x", .user = name, .has_cost = 1, .cost = 2};
    const char *text;

    CASE("the text of a decision that spends outlives its request");
    CHECK_EQ(sluice_decide(w->engine, &check, w->decision), 0);
    memset(name, 'X', 3);
    text = sluice_decision_text(w->decision);
    CHECK(text && strstr(text, "caller   user eve; plan"));
    CHECK(text && strstr(text, ", cost 2, 1 left, reset in 40s\n"));
}

/* ---- failures ---- */

/* A call that fails must leave nothing of an earlier answer. */
static void fails(struct world *w, const struct sluice_request *check, int err)
{
    struct sluice_request good = {.path = "/group", .org = "good"};
    struct sluice_decision *d = w->decision;

    CHECK_EQ(sluice_decide(w->engine, &good, d), 0);
    CHECK(sluice_decision_allowed(d));
    CHECK_EQ(sluice_decide(w->engine, check, d), err);
    CHECK(!sluice_decision_allowed(d));
    CHECK_EQ(sluice_decision_status(d), 0);
    CHECK_EQ(sluice_decision_limits(d), 0);
    CHECK_EQ(sluice_decision_headers(d), 0);
    CHECK_STR(sluice_decision_body(d), "");
    CHECK(sluice_decision_json(d) == NULL);
    CHECK(sluice_decision_text(d) == NULL);
}

static void test_failures(struct world *w)
{
    struct sluice_cost costs[257] = {
        {"minute", 1}
    };
    struct sluice_override bad_rate = {"minute", "3/fortnite"};

    CASE("nothing is asked for");
    fails(w, &(struct sluice_request){.user = "ann"}, SLUICE_EINVAL);
    CASE("no request at all");
    fails(w, NULL, SLUICE_EINVAL);
    CASE("no such limit");
    fails(w, &(struct sluice_request){.limit = "no", .key = "x"},
          SLUICE_ENOENT);
    CASE("too many costs, which is the caller's own mistake");
    for (int i = 1; i < 257; i++)
        costs[i] = costs[0];
    fails(w,
          &(struct sluice_request){
              .path = "/x", .costs = costs, .cost_count = 257},
          SLUICE_EINVAL);
    CASE("a count without a list");
    fails(w, &(struct sluice_request){.path = "/x", .cost_count = 1},
          SLUICE_EINVAL);
    fails(w, &(struct sluice_request){.path = "/x", .header_count = 1},
          SLUICE_EINVAL);
    CASE("an override that is no rate");
    fails(w,
          &(struct sluice_request){
              .path = "/x", .overrides = &bad_rate, .override_count = 1},
          SLUICE_ECONF);
}

static void test_names(struct world *w)
{
    struct sluice_cost cost = {"mniute", 3};
    struct sluice_override override = {"grup", "1/hour"};
    struct sluice_request check = {
        .path = "/x", .user = "nan", .costs = &cost, .cost_count = 1};

    CASE("a cost for a limit that does not exist");
    fails(w, &check, SLUICE_ENOENT);
    CHECK_EQ(sluice_decide(w->engine, &check, w->decision), SLUICE_ENOENT);
    CHECK_STR(sluice_why(), "the policy has no limit \"mniute\"; did you mean "
                            "\"minute\"?");
    cost.limit = "elephants";
    CHECK_EQ(sluice_explain(w->engine, &check, w->decision), SLUICE_ENOENT);
    CHECK_STR(sluice_why(), "the policy has no limit \"elephants\"");

    CASE("one of another route is of no matter");
    cost.limit = "group";
    CHECK_EQ(sluice_decide(w->engine, &check, w->decision), 0);
    CHECK_EQ(sluice_decision_limit(w->decision, 0).remaining, 2);
    cost.limit = "minute";
    CHECK_EQ(sluice_decide(w->engine, &check, w->decision), 0);
    CHECK(!sluice_decision_allowed(w->decision));

    CASE("an override of a limit that does not exist");
    check.cost_count = 0;
    check.overrides = &override;
    check.override_count = 1;
    fails(w, &check, SLUICE_ENOENT);
    CHECK_EQ(sluice_decide(w->engine, &check, w->decision), SLUICE_ENOENT);
    CHECK_STR(sluice_why(), "the policy has no limit \"grup\"; did you mean "
                            "\"group\"?");
    override.limit = "group";
    CHECK_EQ(sluice_decide(w->engine, &check, w->decision), 0);
    CHECK(sluice_decision_allowed(w->decision));
}

/* ---- headers ---- */

#define MANY 1000

/* Ask with `count` headers behind MANY that no policy reads. */
static void ask_behind(struct world *w, const char *method, const char *path,
                       const struct sluice_header *headers, size_t count)
{
    struct sluice_header all[MANY + 8];
    struct sluice_request check = {.method = method,
                                   .path = path,
                                   .ip = "192.0.2.1",
                                   .headers = all,
                                   .header_count = MANY + count,
                                   .trusted = 1};

    for (size_t i = 0; i < MANY; i++)
        all[i] = (struct sluice_header){i % 2 ? "X-Junk" : NULL, "junk"};
    for (size_t i = 0; i < count; i++)
        all[MANY + i] = headers[i];
    CHECK_EQ(sluice_decide(w->engine, &check, w->decision), 0);
}

#define ASK(w, method, path, ...)                                              \
    ask_behind((w), (method), (path),                                          \
               (const struct sluice_header[]){__VA_ARGS__},                    \
               sizeof((const struct sluice_header[]){__VA_ARGS__}) /           \
                   sizeof(struct sluice_header))

static void test_headers(struct world *w)
{
    struct sluice_decision *d = w->decision;

    CASE("who it is, behind a thousand headers");
    ASK(w, "GET", "/x", {"X-User", "ann"}, {"X-User", "bob"});
    CHECK_STR(sluice_decision_limit(d, 0).id, "ann");
    ASK(w, "GET", "/group", {"x-org", "acme"});
    CHECK_STR(sluice_decision_limit(d, 0).id, "acme");
    ASK(w, "GET", "/gadget", {"X-DEVICE", "d1"});
    CHECK_STR(sluice_decision_limit(d, 0).id, "d1");

    CASE("which plan and which role");
    ASK(w, "GET", "/x", {"x-user", "paul"}, {"x-plan", "pro"});
    CHECK_STR(sluice_decision_limit(d, 0).plan, "pro");
    ASK(w, "GET", "/admin", {"x-user", "paul"}, {"x-role", "admin"});
    CHECK_EQ(sluice_decision_status(d), 200);
    ASK(w, "GET", "/admin", {"x-user", "paul"}, {"x-role", "none"});
    CHECK_EQ(sluice_decision_status(d), 403);

    CASE("the request's id, and a browser's question");
    ASK(w, "GET", "/x", {"X-Request-Id", "req-77"});
    CHECK(strstr(sluice_decision_json(d), "\"req-77\"") != NULL);
    ASK(w, "OPTIONS", "/known", {"Origin", "https://example.org"},
        {"Access-Control-Request-Method", "GET"});
    CHECK_EQ(sluice_decision_status(d), 200);
    ASK(w, "OPTIONS", "/known", {"Origin", "https://example.org"});
    CHECK_EQ(sluice_decision_status(d), 401);
}

static void test_visitors(void)
{
    struct world w = {0};
    char one[64];

    world_begin(&w, visitors);
    CASE("the fingerprint of an anonymous caller");
    ASK(&w, "GET", "/x", {"User-Agent", "a"});
    snprintf(one, sizeof(one), "%s", sluice_decision_limit(w.decision, 0).id);
    ASK(&w, "GET", "/x", {"User-Agent", "b"});
    CHECK(strcmp(one, sluice_decision_limit(w.decision, 0).id) != 0);
    ASK(&w, "GET", "/x", {"User-Agent", "a"});
    CHECK_STR(sluice_decision_limit(w.decision, 0).id, one);
    world_end(&w);
}

/* ---- subjects ---- */

static void test_subjects(struct world *w)
{
    struct sluice_header named = {"X-User", "hal"};
    struct sluice_subject hal = {.plan = "pro", .expires_ns = -1};
    struct sluice_request check = {.path = "/x",
                                   .headers = &named,
                                   .header_count = 1,
                                   .trusted = 1,
                                   .registry = 1,
                                   .user_subject = &hal};
    struct sluice_decision *d = w->decision;

    CASE("a subject counts for a user that a header names");
    CHECK_EQ(sluice_decide(w->engine, &check, d), 0);
    CHECK_EQ(sluice_decision_limit(d, 0).limit, 9);
    CHECK_STR(sluice_decision_limit(d, 0).id, "hal");
    CASE("and not if the headers are not trusted");
    check.trusted = 0;
    CHECK_EQ(sluice_decide(w->engine, &check, d), 0);
    CHECK_EQ(sluice_decision_limit(d, 0).limit, 3);
}

static const char passing[] =
    "sluice: 1\n"
    "identity: { unknown_subject: pass }\n"
    "limits:\n"
    "  api: { kind: fixed-window, per: user, rate: 3/hour }\n"
    "default: [api]\n";

static void test_blocks(void)
{
    struct sluice_block over = {.until_ns = 0};
    struct sluice_subject acme = {.expires_ns = -1};
    struct sluice_request check = {.path = "/x", .user = "hal", .registry = 1};
    struct world w = {0};

    world_begin(&w, passing);
    CASE("a caller that the registry does not know passes");
    CHECK_EQ(sluice_decide(w.engine, &check, w.decision), 0);
    CHECK_EQ(sluice_decision_limits(w.decision), 0);
    CASE("but not if the registry has blocks alone");
    check.user_block = &over;
    CHECK_EQ(sluice_decide(w.engine, &check, w.decision), 0);
    CHECK_EQ(sluice_decision_limits(w.decision), 1);
    CASE("a subject beside them is a registered one");
    check.org_subject = &acme;
    CHECK_EQ(sluice_decide(w.engine, &check, w.decision), 0);
    CHECK_EQ(sluice_decision_limits(w.decision), 0);
    CASE("a block without a registry is a mistake of the program");
    check = (struct sluice_request){
        .path = "/x", .user = "hal", .user_block = &over};
    CHECK_EQ(sluice_decide(w.engine, &check, w.decision), SLUICE_EINVAL);
    CHECK_STR(sluice_why(),
              "a request has a block without a registry; set registry to 1");
    check.user_block = NULL;
    check.org_block = &over;
    CHECK_EQ(sluice_explain(w.engine, &check, w.decision), SLUICE_EINVAL);
    CASE("a blocked address is refused");
    over.until_ns = -1;
    check = (struct sluice_request){.path = "/x",
                                    .user = "hal",
                                    .ip = "203.0.113.7",
                                    .registry = 1,
                                    .ip_block = &over};
    CHECK_EQ(sluice_decide(w.engine, &check, w.decision), 0);
    CHECK_EQ(sluice_decision_status(w.decision), 403);
    check.ip = NULL;
    CHECK_EQ(sluice_decide(w.engine, &check, w.decision), SLUICE_EINVAL);
    CHECK_STR(sluice_why(), "a request has a block of its address without the "
                            "address; set ip");
    world_end(&w);
}

int main(void)
{
    struct world w = {0};

    world_begin(&w, policy);
    test_repeats(&w);
    test_text(&w);
    test_failures(&w);
    test_names(&w);
    test_headers(&w);
    test_subjects(&w);
    world_end(&w);
    test_visitors();
    test_blocks();
    return CHECK_DONE();
}
