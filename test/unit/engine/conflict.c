/* conflict.c -- the rules of engine/precheck.c, by number. */
#include "asking.h"

#include "engine/hold_op.h"
#include "engine/render.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  api: { kind: fixed-window, per: [], rate: 100/hour }\n"
    "  few: { kind: fixed-window, per: user, rate: 1/hour }\n"
    "routes:\n"
    "  - match: /f\n"
    "    guard: \"f:{org}:{header.x-id}\"\n"
    "    limits: [api]\n"
    "  - match: /g\n"
    "    guard: { key: \"f:{org}:{header.x-id}\", hold: 7s, missing: skip }\n"
    "    limits: []\n"
    "  - { match: /one, guard: \"{{one}}\", limits: [few] }\n"
    "  - { match: /d, guard: \"d\", dedupe: header.x-id, limits: [] }\n"
    "  - { match: /local, guard: \"l\", on_store_failure: local, limits: [] }\n"
    "  - { match: /open, guard: \"o\", on_store_failure: allow, limits: [] }\n"
    "default: []\n";

static struct rig rig;

static void open_rig(const char *text)
{
    rig_open(&rig, text);
    rig.now = 1000 * SL_S;
}

static struct sl_header headers[] = {
    {{"X-Id", 4}, {"1", 1}},
    {{"x-id", 4}, {"1", 1}},
};

/* `path` by org and x-id; NULL: without. */
static struct sl_request facts_of(const char *path, const char *org,
                                  const char *id)
{
    headers[0].value = sl_str_c(id ? id : "");
    return (struct sl_request){.method = SL_STR("POST"),
                               .path = sl_str_c(path),
                               .ip = SL_STR("192.0.2.1"),
                               .user = SL_STR("ann"),
                               .org = sl_str_c(org ? org : ""),
                               .headers = headers,
                               .header_count = id != NULL};
}

static int ask(const char *path, const char *org, const char *id)
{
    return rig_ask(&rig, facts_of(path, org, id))->status;
}

static void on_done(struct sl_hold_op *a)
{
    (void)a;
}

static int end_of(enum sl_hold_verb verb, const char *name)
{
    struct sl_hold_op_input q = {.verb = verb, .now = rig.now};
    struct sl_hold_op end;
    char copy[SL_HOLD_TEXT];
    int err;

    snprintf(copy, sizeof(copy), "%s", name);
    q.name = sl_str_c(copy);
    sl_hold_op_init(&end, rig.engine, NULL, &sl_alloc_libc);
    end.done = on_done;
    sl_hold_op_begin(&end, &q);
    err = end.err;
    CHECK_EQ(end.call.count, 1);
    sl_hold_op_done(&end);
    return err;
}

static int release(const char *name)
{
    return end_of(SL_VERB_RELEASE, name);
}

static void test_one(void)
{
    const struct sl_decision *d;
    char hold[SL_HOLD_TEXT];

    CASE("(1) one runs, and the verdict shows its limits only");
    open_rig(policy);
    d = rig_ask(&rig, facts_of("/f", "acme", "1"));
    CHECK_EQ(d->status, 200);
    CHECK_EQ(d->shown_count, 1);
    CHECK_STR(report_of(d), "api");
    CHECK_EQ(d->shown[0].answer.remaining, 99);
    CHECK_EQ(d->hold_for, 60 * SL_S);
    memcpy(hold, d->hold, sizeof(hold));
    CASE("(1) the next is refused, as nobody's limit");
    rig.now += 20 * SL_S;
    d = rig_ask(&rig, facts_of("/f", "acme", "1"));
    CHECK_EQ(d->status, 409);
    CHECK_EQ(d->reason, SL_REASON_CONFLICT);
    CHECK_EQ(d->by, -1);
    CHECK_EQ(d->report, -1);
    CHECK_EQ(d->retry_in, 40 * SL_S);
    CHECK_STR(d->hold, "");
    CASE("(1) until it ends");
    CHECK_EQ(release(hold), 0);
    d = rig_ask(&rig, facts_of("/f", "acme", "1"));
    CHECK_EQ(d->status, 200);
    CHECK_EQ(d->shown[0].answer.remaining, 98); /* (4) */
    CHECK_EQ(end_of(SL_VERB_SETTLE, d->hold), 0);
    CHECK_EQ(ask("/f", "acme", "1"), 200);
    CASE("(1) or its time is over, to the nanosecond");
    rig.now += 60 * SL_S - 1;
    CHECK_EQ(ask("/f", "acme", "1"), 409);
    rig.now++;
    CHECK_EQ(ask("/f", "acme", "1"), 200);
    rig_close(&rig);
}

static void test_keys(void)
{
    static const char *const pairs[][2] = {
        {"a",     "b:c"  },
        {"a:b",   "c"    },
        {"a%3Ab", "c"    },
        {"a",     "b%3Ac"},
        {"A",     "b:c"  },
    };
    static char longs[2][700];

    open_rig(policy);
    CASE("(2) different values never meet");
    for (size_t i = 0; i < SL_LEN(pairs); i++)
        CHECK_EQ(ask("/f", pairs[i][0], pairs[i][1]), 200);
    for (size_t i = 0; i < SL_LEN(pairs); i++)
        CHECK_EQ(ask("/f", pairs[i][0], pairs[i][1]), 409);
    CASE("(2) nor do long ones");
    for (int i = 0; i < 2; i++) {
        memset(longs[i], 'x', sizeof(longs[i]) - 1);
        longs[i][600] = (char)('0' + i);
        CHECK_EQ(ask("/f", "a", longs[i]), 200);
        CHECK_EQ(ask("/f", "a", longs[i]), 409);
    }
    CASE("(2) the same key is the same, by whatever route");
    CHECK_EQ(ask("/g", "a", "b:c"), 409);
    CHECK_EQ(ask("/g", "a", "z"), 200);
    CHECK_EQ(rig.d.hold_for, 7 * SL_S);
    CHECK_EQ(ask("/f", "a", "z"), 409);
    CHECK_EQ(rig.d.retry_in, 7 * SL_S);
    rig_close(&rig);
}

static void test_missing(void)
{
    struct sl_request facts;

    open_rig(policy);
    CASE("(3) without a header 400, with two of them too");
    CHECK_EQ(ask("/f", "acme", NULL), 400);
    facts = facts_of("/f", "acme", "1");
    facts.header_count = 2;
    CHECK_EQ(rig_ask(&rig, facts)->status, 400);
    CASE("(3) without an organisation 401");
    CHECK_EQ(ask("/f", NULL, "1"), 401);
    CHECK_EQ(rig.d.reason, SL_REASON_MISSING);
    CASE("(3) or unguarded, which holds nothing");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(ask("/g", "acme", NULL), 200);
        CHECK_STR(rig.d.hold, "");
        CHECK_EQ(ask("/g", NULL, "1"), 200);
    }
    rig_close(&rig);
}

static void test_together(void)
{
    char hold[SL_HOLD_TEXT];

    open_rig(policy);
    CASE("(4) who is refused by a limit runs nothing");
    CHECK_EQ(ask("/one", "acme", "1"), 200);
    memcpy(hold, rig.d.hold, sizeof(hold));
    CASE("(4) where both refuse, the guard is told");
    CHECK_EQ(ask("/one", "acme", "1"), 409);
    CHECK_EQ(release(hold), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(ask("/one", "acme", "1"), 429);
        CHECK_STR(by_of(&rig.d), "few");
    }
    CASE("a repeat is answered as the first, and asks no guard");
    CHECK_EQ(ask("/d", "acme", "1"), 200);
    CHECK_EQ(ask("/d", "acme", "1"), 200);
    CHECK(rig.d.replayed);
    CHECK_EQ(ask("/d", "acme", "2"), 409);
    rig_close(&rig);
}

static void test_looking(void)
{
    struct sl_request facts;

    open_rig(policy);
    CASE("(5) cost 0 takes nothing, and is not refused");
    facts = facts_of("/f", "acme", "1");
    facts.has_cost = true;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(rig_ask(&rig, facts)->status, 200);
    CHECK_EQ(ask("/f", "acme", "1"), 200);
    CHECK_EQ(rig_ask(&rig, facts)->status, 200);
    CASE("(5) and so does whoever reports or gives back");
    facts.cost = 1;
    facts.charge = true;
    CHECK_EQ(rig_ask(&rig, facts)->status, 200);
    facts.charge = false;
    facts.give_back = true;
    CHECK_EQ(rig_ask(&rig, facts)->status, 200);
    CHECK_EQ(ask("/f", "acme", "1"), 409);
    rig_close(&rig);
}

static void test_failing(void)
{
    open_rig(policy);
    rig.fault = 1;
    CASE("without the store nobody passes unguarded");
    CHECK_EQ(ask("/f", "acme", "1"), 503);
    CHECK_EQ(ask("/g", "acme", "1"), 503);
    CASE("unless the route says so");
    CHECK_EQ(ask("/open", "acme", "1"), 200);
    CHECK_EQ(ask("/open", "acme", "1"), 200);
    CASE("or this process guards for itself");
    CHECK_EQ(ask("/local", "acme", "1"), 200);
    CHECK_EQ(ask("/local", "acme", "1"), 409);
    rig_close(&rig);
}

static void test_shadow(void)
{
    open_rig("sluice: 1\nmode: shadow\nroutes:\n"
             "  - { match: /s, guard: \"s\", limits: [] }\ndefault: []\n");
    CASE("a policy in shadow refuses nobody");
    CHECK_EQ(ask("/s", "acme", "1"), 200);
    CHECK_EQ(ask("/s", "acme", "1"), 200);
    rig_close(&rig);
}

static void explained(struct sl_request facts, const char *want)
{
    struct sl_buf out;

    facts.now = rig.now;
    CHECK_EQ(sl_engine_decide(rig.engine, rig.live, &facts, false, &rig.d,
                              &rig.diag),
             0);
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    CHECK_EQ(sl_explain(&rig.d, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    if (!CHECK(strstr(out.bytes, want) != NULL))
        printf("# %s\n", out.bytes);
    sl_buf_done(&out);
}

static void test_explained(void)
{
    open_rig(policy);
    CASE("whoever explains takes nothing, and sees what runs");
    rig.live = sl_engine_hold(rig.engine, rig.live);
    explained(facts_of("/f", "a", "b:c"), "guard    f:a:b%3Ac, one at a time");
    CHECK_EQ(ask("/f", "a", "b:c"), 200);
    explained(facts_of("/f", "a", "b:c"),
              "guard    f:a:b%3Ac, where another request is running");
    CHECK_EQ(rig.d.status, 409);
    rig_close(&rig);
}

/* The question of a browser before a request of `path`. */
static void test_others(void)
{
    static const struct sl_header preflight[] = {
        {{"origin", 6},                         {"https://a", 9}},
        {{"access-control-request-method", 29}, {"POST", 4}     },
    };

    open_rig("sluice: 1\nroutes:\n"
             "  - match: /p\n"
             "    anonymous: pass\n"
             "    guard: \"p:{header.x-id}\"\n"
             "    limits: []\n"
             "default: []\n");
    CASE("a preflight is not guarded");
    for (int i = 0; i < 2; i++)
        CHECK_EQ(rig_ask(&rig,
                         OPTIONS("/p", .headers = preflight, .header_count = 2))
                     ->status,
                 200);
    CASE("who passes without a name is");
    for (int i = 0; i < 2; i++) {
        struct sl_request facts = facts_of("/p", NULL, "1");

        facts.user = SL_STR("");
        CHECK_EQ(rig_ask(&rig, facts)->status, i == 0 ? 200 : 409);
    }
    rig_close(&rig);
}

static void test_named(void)
{
    open_rig("sluice: 1\nenv: prod\nroutes:\n"
             "  - { match: /s, guard: \"s:{header.x-id}\", limits: [] }\n"
             "default: []\n");
    CASE("its name in a store that is shared");
    rig.live = sl_engine_hold(rig.engine, rig.live);
    rig.live->wants_names = true;
    CHECK_EQ(ask("/s", "acme", "a:b c"), 200);
    CHECK_STR(rig.d.running[0].name.at, "sluice:prod:#guard:s:a%3Ab%20c");
    CHECK_STR(rig.d.shown[0].name.at, "sluice:prod:#guard:s:a%3Ab%20c");
    rig_close(&rig);
}

static void test_memory(void)
{
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_decision d;
    struct sl_diag diag;
    int err, errors = 0;

    open_rig(policy);
    rig.live = sl_engine_hold(rig.engine, rig.live);
    rig.live->wants_names = true;
    CASE("without memory it is an error, and nothing leaks");
    do {
        struct sl_request facts = facts_of("/f", "acme", "1");

        facts.now = rig.now;
        fail.nth++;
        fail.calls = 0;
        sl_decision_init(&d, &alloc);
        err = sl_engine_decide(rig.engine, rig.live, &facts, false, &d, &diag);
        CHECK(err == 0 || err == SLUICE_ENOMEM);
        CHECK(err || d.status == 200);
        sl_decision_done(&d);
        fail_check(&fail);
        errors += err != 0;
    } while (fail.calls >= fail.nth && fail.nth < 100);
    CHECK_EQ(err, 0);
    CHECK(errors > 2);
    rig_close(&rig);
}

int main(void)
{
    test_one();
    test_keys();
    test_missing();
    test_together();
    test_looking();
    test_failing();
    test_shadow();
    test_explained();
    test_others();
    test_named();
    test_memory();
    return CHECK_DONE();
}
