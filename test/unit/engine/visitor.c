/* visitor.c -- what is carried over when a caller signs in: what a flow does
 * not see of it. */
#include "asking.h"
#include "engine/render.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: {default: free, anonymous: visitor, visitor: {}, free: {}}\n"
    "limits:\n"
    "  hourly:\n"
    "    kind: fixed-window\n"
    "    per: user\n"
    "    rate: {visitor: 5/hour, free: 10/hour}\n"
    "    candidate: 3/hour\n"
    "  tried: {kind: fixed-window, per: user, mode: shadow, rate: 4/hour}\n"
    "  paced: {kind: token-bucket, per: user, rate: 5/hour}\n"
    "routes:\n"
    "  - {match: /a/b, sign_in: carry, limits: [hourly, tried], reset: next}\n"
    "  - {match: /a/**, limits: [paced]}\n"
    "default: [paced]\n";

static int ask(struct rig *rig, struct sl_request facts, bool spend)
{
    facts.now = rig->now = 1000 * SL_S;
    rig->live = sl_engine_hold(rig->engine, rig->live);
    return sl_engine_decide(rig->engine, rig->live, &facts, spend, &rig->d,
                            &rig->diag);
}

static void test_shadow(struct rig *rig)
{
    for (int i = 0; i < 4; i++)
        CHECK_EQ(ask(rig, GET("/a/b"), true), 0);
    CASE("shadows and candidates are judged by both, and refuse nobody");
    CHECK_EQ(ask(rig, GET("/a/b", USER("ann")), true), 0);
    CHECK(rig->d.allowed);
    CHECK_EQ(rig->d.shown[0].answer.remaining, 5);
    CHECK_EQ(rig->d.shown[0].carried, 4);
    CHECK(!rig->d.shown[1].allowed);
    CHECK_EQ(rig->d.shown[0].candidate_answer.outcome, SL_DENY);
    CASE("the next unit comes when the window ends");
    CHECK_EQ(rig->d.shown[0].next_in, 2600 * SL_S);
}

static void test_explain(struct rig *rig)
{
    struct sl_buf text;

    CASE("explained, and nothing is spent");
    sl_buf_init(&text, 1 << 16, &sl_alloc_libc);
    for (int i = 0; i < 2; i++) {
        sl_buf_clear(&text);
        CHECK_EQ(ask(rig, GET("/a/b", USER("ann")), false), 0);
        CHECK_EQ(sl_explain(&rig->d, &text), 0);
        CHECK_EQ(sl_buf_add(&text, (struct sl_str){"", 1}), 0);
        CHECK(strstr(text.bytes, "10/1h, cost 1, 5 left (4 used before "
                                 "signing in), 4 after this"));
    }
    sl_buf_done(&text);
}

/* One path, two readings: a limit of the other route is no window, and what
 * was used of it is not carried. */
static void test_readings(struct rig *rig)
{
    CASE("limits of another reading are not carried");
    CHECK_EQ(ask(rig, GET("/a/x;/../b", USER("ann")), false), 0);
    CHECK(rig->d.shown_count >= 1);
    for (unsigned i = 0; i < rig->d.shown_count; i++)
        if (rig->d.shown[i].rule->kind == SL_BUCKET)
            CHECK_EQ(rig->d.shown[i].visitor.len, 0);
}

static void test_memory(struct rig *rig)
{
    struct sl_request user = GET("/a/b", USER("ann"), .now = 1000 * SL_S);
    struct fail fail = {.nth = 0};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_decision d;
    struct sl_diag diag;
    int err;

    CASE("without memory it is an error, and nothing leaks");
    do {
        fail.nth++;
        fail.calls = 0;
        sl_decision_init(&d, &alloc);
        err = sl_engine_decide(rig->engine, rig->live, &user, false, &d, &diag);
        CHECK(err == 0 || err == SLUICE_ENOMEM);
        sl_decision_done(&d);
        fail_check(&fail);
    } while (err && fail.nth < 100);
    CHECK_EQ(err, 0);
}

int main(void)
{
    struct rig rig;

    rig_open(&rig, policy);
    test_shadow(&rig);
    test_explain(&rig);
    test_readings(&rig);
    test_memory(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
