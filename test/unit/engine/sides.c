/* sides.c -- one decision over several sides of a request, and what only
 * callers in C can ask: to give back, to insist, with numbers of their own. */
#include "fixture.h"

static const char policy[] =
    "sluice: 1\n"
    "identity: { tenant: [header.x-tenant] }\n"
    "limits:\n"
    "  user: { kind: fixed-window, per: user, missing: skip, rate: 3/min }\n"
    "  org: { kind: fixed-window, per: org, missing: skip, rate: 2/hour,\n"
    "         on_store_failure: deny }\n"
    "  tenant: { kind: fixed-window, per: tenant, missing: skip,\n"
    "            rate: 5/day }\n"
    "  bucket: { kind: token-bucket, per: user, rate: 4/min }\n"
    "  a: { kind: fixed-window, per: user, rate: 9/s }\n"
    "  b: { kind: fixed-window, per: user, rate: 9/s }\n"
    "  c: { kind: fixed-window, per: user, rate: 9/s }\n"
    "routes:\n"
    "  - { job: both, limits: [user, org, tenant] }\n"
    "  - { job: open, limits: [org], on_store_failure: allow }\n"
    "  - { job: bucket, limits: [bucket] }\n"
    "  - { job: many, limits: [a, b, c] }\n"
    "  - { job: members, roles: [member], limits: [user] }\n"
    "default: []\n";

static struct rig rig;

static int decide(const struct sl_request *sides, unsigned count, bool spend)
{
    return rig_decide(&rig, sides, count, NULL, spend);
}

static const struct sl_decision *ask(const struct sl_request *sides,
                                     unsigned count, bool spend)
{
    CHECK_EQ(decide(sides, count, spend), 0);
    return &rig.d;
}

#define ASK(...)                                                               \
    ask((const struct sl_request[]){__VA_ARGS__},                              \
        SL_LEN(((const struct sl_request[]){__VA_ARGS__})), true)
#define LOOK(...) ask((const struct sl_request[]){__VA_ARGS__}, 1, false)
#define JOB(name, ...)                                                         \
    {                                                                          \
        .job = SL_STR(name), __VA_ARGS__                                       \
    }

/* What is left at the first limit of a side. */
static uint64_t left(unsigned side)
{
    for (unsigned i = 0; i < rig.d.shown_count; i++)
        if (rig.d.sides[side].shown >> i & 1 && !rig.d.shown[i].skipped)
            return rig.d.shown[i].answer.remaining;
    return UINT64_MAX;
}

static void test_together(void)
{
    CASE("sides are taken together");
    CHECK(ASK(JOB("both", USER("ann")), JOB("both", ORG("acme")))->allowed);
    CHECK_EQ(rig.d.side_count, 2);
    CHECK(left(0) == 2 && left(1) == 1);
    CASE("or not at all");
    ASK(JOB("both", USER("ann")), JOB("both", ORG("acme")));
    CHECK(!ASK(JOB("both", USER("ann")), JOB("both", ORG("acme")))->allowed);
    CHECK_STR(by_of(&rig.d), "org");
    CHECK_EQ(left(0), 1);
    CHECK(ASK(JOB("both", USER("ann")))->allowed);
    CHECK_EQ(left(0), 0);
    CASE("what two sides meet under one key is taken once, by the larger");
    ASK(JOB("both", USER("bob")), JOB("both", USER("bob"), COST(2)));
    CHECK(rig.d.allowed && rig.d.sides[0].shown == rig.d.sides[1].shown);
    CHECK_EQ(left(0), 1);
    ASK(JOB("both", USER("bob"), COST(0)), JOB("both", USER("bob")));
    CHECK(rig.d.allowed && left(1) == 0);
    CASE("and under two keys it is two");
    ASK(JOB("both", USER("cy")), JOB("both", USER("dan")));
    CHECK(rig.d.sides[0].shown != rig.d.sides[1].shown);
    CHECK(left(0) == 2 && left(1) == 2);
}

static void test_face(void)
{
    CASE("the first side that limits anything gives the verdict its face");
    ASK(JOB("nowhere"), JOB("bucket", USER("eve")), JOB("both", USER("eve")));
    CHECK_STR(rig.d.route->job.at, "bucket");
    CHECK_EQ(rig.d.sides[0].shown, 0);
    CASE("or the one that is denied");
    ASK(JOB("bucket", USER("eve")), JOB("both", USER("eve"), COST(3)));
    CHECK_STR(by_of(&rig.d), "user");
    CHECK_STR(rig.d.route->job.at, "both");
    CASE("a side that is refused refuses them all, and nothing is spent");
    ASK(JOB("both", USER("flo")), JOB("members", USER("flo")));
    CHECK_EQ(rig.d.status, 403);
    CHECK_STR(rig.d.route->job.at, "members");
    CHECK(!rig.d.sides[0].refused && rig.d.sides[1].refused);
    LOOK(JOB("both", USER("flo")));
    CHECK_EQ(left(0), 3);
}

static void test_many(void)
{
    struct sl_request sides[70];
    char names[70][8];

    for (unsigned i = 0; i < SL_LEN(sides); i++) {
        snprintf(names[i], sizeof(names[i]), "u%u", i);
        sides[i] = (struct sl_request)JOB("many", .user = sl_str_c(names[i]));
    }
    CASE("as many limits as a set has, and no more");
    CHECK(ask(sides, 5, true)->allowed);
    CHECK_EQ(decide(sides, 6, true), SLUICE_EFULL);
    CHECK_STR(
        rig.diag.sentence,
        "the request matches more than 16 limits, the maximum for one take");
    CASE("nor more sides than there is room for");
    for (unsigned i = 0; i < SL_LEN(sides); i++)
        sides[i].job = SL_STR("nowhere");
    CHECK_EQ(decide(sides, SL_DESCRIPTOR_MATCHES, true), 0);
    CHECK_EQ(decide(sides, SL_DESCRIPTOR_MATCHES + 1, true), SLUICE_EFULL);
    CHECK_STR(rig.diag.sentence, "the request has more than 64 descriptors");
}

static void test_failure(void)
{
    CASE("when the store fails the strictest of all sides counts");
    rig.fault = 1;
    CHECK(ASK(JOB("both", USER("gus")))->allowed);
    ASK(JOB("both", USER("gus")), JOB("both", ORG("gus")));
    CHECK_EQ(rig.d.reason, SL_REASON_STORE);
    CASE("and a route says it for its own sides only");
    CHECK(ASK(JOB("open", ORG("gus")))->allowed);
    ASK(JOB("open", ORG("gus")), JOB("both", ORG("hal")));
    CHECK_EQ(rig.d.reason, SL_REASON_STORE);
    rig.fault = 0;
}

static void test_corrections(void)
{
    CASE("what was taken is given back, and never more");
    ASK(JOB("both", USER("ivy"), COST(3)));
    CHECK(ASK(JOB("both", USER("ivy"), COST(2), .give_back = true))->allowed);
    CHECK_EQ(left(0), 2);
    ASK(JOB("both", USER("ivy"), COST(99), .give_back = true));
    CHECK_EQ(left(0), 3);
    CASE("to look gives nothing back");
    ASK(JOB("both", USER("ivy"), COST(3)));
    LOOK(JOB("both", USER("ivy"), COST(3), .give_back = true));
    CHECK(!LOOK(JOB("both", USER("ivy"), COST(1)))->allowed);
    CASE("a window that is told to counts what it refuses");
    ASK(JOB("both", USER("jo"), COST(2)));
    CHECK(!ASK(JOB("both", USER("jo"), COST(2), .insist = true))->allowed);
    CHECK_EQ(left(0), 1);
    CHECK(!ASK(JOB("both", USER("jo"), COST(1)))->allowed);
    CASE("a bucket does not");
    ASK(JOB("bucket", USER("jo"), COST(3)));
    CHECK(!ASK(JOB("bucket", USER("jo"), COST(2), .insist = true))->allowed);
    CHECK(ASK(JOB("bucket", USER("jo"), COST(1)))->allowed);
}

static void test_numbers(void)
{
    struct sl_fixed_rate two = {2, SL_MIN}, none = {0, SL_MIN},
                         day = {1, SL_DAY};

    CASE("numbers of the request count for limits of their period");
    ASK(JOB("both", USER("kim"), .imposed = two));
    CHECK_EQ(rig.d.shown[0].answer.limit, 2);
    CHECK_EQ(left(0), 1);
    ASK(JOB("both", USER("kim"), .imposed = day));
    CHECK_EQ(rig.d.shown[0].answer.limit, 3);
    CHECK_EQ(left(0), 1);
    CHECK(!ASK(JOB("both", USER("kim"), .imposed = two))->allowed);
    CASE("none at all lets nothing pass");
    CHECK(!ASK(JOB("both", USER("lee"), .imposed = none))->allowed);
}

static void test_attributes(void)
{
    const struct sl_descriptor_entry tenant = {SL_STR("tenant"), SL_STR("t")};
    const struct sl_descriptor_entry other = {SL_STR("Tenant"), SL_STR("t")};
    const struct sl_header header = {SL_STR("x-tenant"), SL_STR("u")};

    CASE("scopes of the policy are given by entries");
    ASK(JOB("both", .entries = &tenant, .entry_count = 1));
    CHECK_EQ(left(0), 4);
    CASE("they go before headers, and say who it is as well");
    ASK(JOB("both", .entries = &tenant, .entry_count = 1, .headers = &header,
            .header_count = 1, .trusted = true));
    CHECK_EQ(left(0), 3);
    CHECK(!rig.d.anonymous);
    CASE("by their exact names");
    ASK(JOB("both", .entries = &other, .entry_count = 1));
    CHECK_EQ(left(0), UINT64_MAX);
}

static void test_routes(void)
{
    struct sl_request request = JOB("bucket");

    CASE("which route facts take, without deciding");
    CHECK_STR(sl_check_route(&rig.check, &request)->job.at, "bucket");
    request.job = SL_STR("nowhere");
    CHECK_STR(sl_check_route(&rig.check, &request)->text.at, "default");
}

int main(void)
{
    rig_open(&rig, policy);
    test_together();
    test_face();
    test_many();
    test_failure();
    test_corrections();
    test_numbers();
    test_attributes();
    test_routes();
    rig_close(&rig);
    return CHECK_DONE();
}
