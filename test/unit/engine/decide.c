/* decide.c -- what of a decision no flow sees: long names, made-up ids, numbers
 * of the request, and what is carried at sign-in. The rest is in
 * test/flow/b01-decide, b02-modes, i01-sign-in and m01-conclude. */
#include "fixture.h"

static const char text[] =
    "sluice: 1\n"
    "plans: { default: free, anonymous: visitor, visitor: {}, free: {},\n"
    "         pro: { overage: true } }\n"
    "limits:\n"
    "  calls: { kind: token-bucket, per: user, rate: 3/min }\n"
    "  ai: { kind: token-bucket, per: user, rate: { visitor: 1/min,\n"
    "        free: 5/min, pro: 9/min } }\n"
    "  seats: { kind: quota, per: org, rate: 10/month }\n"
    "  hourly:\n"
    "    kind: fixed-window\n"
    "    per: user\n"
    "    rate: {visitor: 5/hour, free: 10/hour, pro: 10/hour}\n"
    "    candidate: 3/hour\n"
    "  tried: {kind: fixed-window, per: user, mode: shadow, rate: 4/hour}\n"
    "  paced: {kind: token-bucket, per: user, rate: 5/hour}\n"
    "features: { beta: { enabled: false } }\n"
    "routes:\n"
    "  - { match: /calls, limits: [calls] }\n"
    "  - { match: /ai, limits: [ai] }\n"
    "  - { job: seat, limits: [seats] }\n"
    "  - {match: /a/b, sign_in: carry, limits: [hourly, tried], reset: next}\n"
    "  - {match: /a/**, limits: [paced]}\n"
    "default: []\n";

static struct rig rig;

static void test_ids(void)
{
    char first[SL_REQUEST_ID + 1];

    CASE("a request's id is kept if it is clean, and made otherwise");
    rig_ask(&rig, GET("/calls", .request_id = SL_STR("req_abc123")));
    CHECK_STR(rig.d.request_id, "req_abc123");
    rig_ask(&rig, GET("/calls", .request_id = SL_STR("a\r\nSet-Cookie: x")));
    CHECK(strncmp(rig.d.request_id, "req_", 4) == 0);
    memcpy(first, rig.d.request_id, sizeof(first));
    rig_ask(&rig, GET("/calls"));
    CHECK(strcmp(first, rig.d.request_id) != 0);
}

static void test_costs(void)
{
    struct sl_cost two = {SL_STR("calls"), 2};

    CASE("a cost for one limit goes before one for all");
    rig_ask(&rig, GET("/calls", USER("cat"), COST(1), .costs = &two,
                      .cost_count = 1));
    CHECK_EQ(rig.d.shown[0].answer.remaining, 1);
}

static void test_unknown(void)
{
    struct sl_request cals = {.limit = SL_STR("cals"), .key = SL_STR("nan")};

    CASE("a limit or a feature that the policy has not");
    CHECK_EQ(rig_decide(&rig, &cals, 1, NULL, true), SLUICE_ENOENT);
    CHECK_EQ(sl_engine_switch(rig.engine, SL_STR("alpha"), true, &rig.diag),
             SLUICE_ENOENT);
    CHECK_STR(rig.diag.sentence, "the policy has no feature \"alpha\"");
}

static char long_path[20000], long_user[2][2000];

/* The name of the first limit's state in a shared store. */
static void name_of(const struct sl_decision *d, char out[4096])
{
    struct sl_buf buf;

    sl_buf_init(&buf, 4095, &sl_alloc_libc);
    CHECK_EQ(sl_decision_key(d, &d->shown[0], &buf), 0);
    snprintf(out, 4096, "%.*s", SL_STR_ARG(sl_buf_str(&buf)));
    sl_buf_done(&buf);
}

static void test_long(void)
{
    char names[2][4096];
    struct sl_request request = GET("", USER("lea"));

    CASE("a long way to write a path hides nothing");
    for (size_t i = 0; i < sizeof(long_path); i += 2)
        memcpy(long_path + i, "/.", 2);
    memcpy(long_path + sizeof(long_path) - 6, "/calls", 6);
    request.path = (struct sl_str){long_path, sizeof(long_path)};
    CHECK(sl_str_eq(rig_ask(&rig, request)->route->text, SL_STR("/calls")));

    CASE("a path that does not fit is refused, and takes nothing");
    memset(long_path, 'a', sizeof(long_path));
    memcpy(long_path, "/a/", 3);
    request.path.len = SL_PATH_BYTES + 2;
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    request.path.len++;
    CHECK_EQ(rig_ask(&rig, request)->status, 414);
    CHECK_EQ(rig.d.shown_count, 0);

    CASE("long names that differ at their end are two");
    request.path = SL_STR("/calls");
    for (int i = 0; i < 2; i++) {
        memset(long_user[i], 'u', sizeof(long_user[i]));
        long_user[i][sizeof(long_user[i]) - 1] = (char)('a' + i);
        request.user = (struct sl_str){long_user[i], sizeof(long_user[i])};
        CHECK_EQ(rig_ask(&rig, request)->shown[0].answer.remaining, 2);
        name_of(&rig.d, names[i]);
    }
    CHECK(strcmp(names[0], names[1]) != 0);
}

static void test_overrides(void)
{
    struct sl_override more = {SL_STR("seats"), SL_STR("20/month")};
    struct sl_override less = {SL_STR("ai"), SL_STR("1/min")};
    struct sl_request held_back =
        GET("/ai", USER("bad"), .overrides = &less, .override_count = 1);
    char name[16];

    CASE("an override does not take a paid overage away");
    for (int i = 0; i < 25; i++)
        rig_ask(&rig, (struct sl_request){.job = SL_STR("seat"),
                                          ORG("acme"),
                                          PLAN("pro"),
                                          .overrides = &more,
                                          .override_count = 1});
    CHECK(rig.d.allowed && rig.d.shown[0].overage);
    CHECK_EQ(rig.d.shown[0].answer.limit, 20);

    CASE("a caller with a lower rate keeps its state through a flood");
    CHECK(rig_ask(&rig, held_back)->allowed);
    for (unsigned i = 0; i < 200000; i++) {
        struct sl_request other = GET("/ai", PLAN("pro"));

        other.user = (struct sl_str){
            name, (size_t)snprintf(name, sizeof(name), "u%u", i)};
        rig_ask(&rig, other);
    }
    CHECK(!rig_ask(&rig, held_back)->allowed);
}

static void test_visitor(void)
{
    const char *told;

    for (int i = 0; i < 4; i++)
        rig_ask(&rig, GET("/a/b"));
    CASE("shadows and candidates count both keys, and refuse no request");
    rig_ask(&rig, GET("/a/b", USER("ann")));
    CHECK(rig.d.allowed);
    CHECK_EQ(rig.d.shown[0].answer.remaining, 5);
    CHECK_EQ(rig.d.shown[0].carried, 4);
    CHECK(!rig.d.shown[1].allowed);
    CHECK_EQ(rig.d.shown[0].candidate_answer.outcome, SL_DENY);
    CASE("the next unit comes when the window ends");
    CHECK_EQ(rig.d.shown[0].next_in, 2600 * SL_S);

    CASE("explained, and nothing is spent");
    for (int i = 0; i < 2; i++) {
        told = rig_explain(&rig, GET("/a/b", USER("ann")));
        CHECK(has(told, "10/1h, cost 1, 5 left (4 used before signing in), "
                        "4 after this"));
    }
    CASE("limits of another reading are not carried");
    rig_explain(&rig, GET("/a/x;/../b", USER("ann")));
    CHECK(rig.d.shown_count > 2);
    for (unsigned i = 0; i < rig.d.shown_count; i++)
        CHECK_EQ(rig.d.shown[i].visitor.len > 0,
                 rig.d.shown[i].rule->kind == SL_FIXED);
    CASE("without memory it is an error, and nothing leaks");
    rig.active->wants_names = true; /* which are made in a buffer */
    CHECK(rig_no_memory(&rig, GET("/a/b", USER("ann"))) > 2);
    rig.active->wants_names = false;
}

int main(void)
{
    rig_open(&rig, text);
    rig.now = 1000 * SL_S;
    test_long();
    test_ids();
    test_costs();
    test_unknown();
    test_visitor();
    test_overrides();
    rig_close(&rig);
    return CHECK_DONE();
}
