/* outage.c -- a store that is elsewhere and fails, at once or later: what the
 * policy makes of it, what is charged afterwards, and when to come back. */
#include "far.h"

#include "engine/check.h"
#include "engine/engine_int.h"

static const char policy[] =
    "sluice: 1\n"
    "env: t\n"
    "limits:\n"
    "  open: { kind: token-bucket, per: user, rate: 6/min }\n"
    "  near: { kind: token-bucket, per: user, rate: 6/min,\n"
    "          on_store_failure: local }\n"
    "  window: { kind: fixed-window, per: user, rate: 6/min,\n"
    "            on_store_failure: local }\n"
    "  shut: { kind: quota, per: user, rate: 6/day }\n"
    "routes:\n"
    "  - { match: /open, limits: [open] }\n"
    "  - { match: /near, limits: [open, near] }\n"
    "  - { match: /window, limits: [window] }\n"
    "  - { match: /shut, limits: [open, shut] }\n"
    "default: []\n";

#define OPEN "sluice:t:open:user:ann"
#define NEAR "sluice:t:near:user:ann"

static struct far far;
static struct rig rig;

static unsigned passed(const char *path, const char *user, unsigned asked)
{
    unsigned count = 0;

    for (unsigned i = 0; i < asked; i++) {
        struct sl_request facts = GET("/");

        facts.path = sl_str_c(path);
        facts.user = sl_str_c(user);
        count += rig_ask(&rig, facts)->allowed;
    }
    return count;
}

/* ---- the same, many turns later ---- */

static unsigned answered;

static void on_answer(struct sl_check *ask)
{
    (void)ask;
    answered++;
}

static void check_late(void)
{
    static const struct sl_engine_ctx station;
    static const struct {
        const char *path;
        bool allowed;
        int status;
    } rows[] = {
        {"/open", true,  200},
        {"/near", true,  200},
        {"/shut", false, 503},
    };
    struct sl_check ask;

    CASE("a store that fails late fails as one that fails at once");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_request facts = {.method = SL_STR("GET"),
                                   .path = sl_str_c(rows[i].path),
                                   .user = SL_STR("ann"),
                                   .ip = SL_STR("192.0.2.1")};

        far_open(&far, &rig, policy, false);
        far.late = far.fails = true;
        answered = 0;
        sl_check_init(&ask, rig.engine, &station, &sl_alloc_libc);
        ask.done = on_answer;
        sl_check_begin(&ask, &facts, true);
        CHECK_EQ(answered, 0);
        CHECK_EQ(far_answer(&far), 1);
        CHECK_EQ(answered, 1);
        CHECK_EQ(ask.err, 0);
        CHECK(ask.decision.degraded);
        CHECK_EQ(ask.decision.allowed, rows[i].allowed);
        CHECK_EQ(ask.decision.status, rows[i].status);
        sl_check_done(&ask);
        rig_close(&rig);
    }
}

/* ---- when to come back ---- */

static void check_retry(void)
{
    static const struct {
        sl_ns store, told;
    } rows[] = {
        {0,            SL_S        },
        {200 * SL_MS,  SL_S        },
        {SL_S + SL_MS, SL_S + SL_MS},
        {7 * SL_S,     7 * SL_S    },
    };

    CASE("503 says when the store is tried again, and at least a second");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const struct sl_decision *d;

        far.retry = rows[i].store;
        d = rig_ask(&rig, GET("/shut", USER("ann")));
        CHECK_EQ(d->status, 503);
        CHECK_EQ(d->retry_in, rows[i].told);
    }
    rig_close(&rig);
}

/* ---- debts ---- */

static struct sl_debts_stats stats(void)
{
    struct sl_debts_stats s;

    sl_engine_debts(rig.engine, &s);
    return s;
}

static void check_charged(void)
{
    const struct sl_decision *d;

    CASE("what passed is charged before the key's next take");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    for (int i = 0; i < 4; i++)
        CHECK(rig_ask(&rig, GET("/near", USER("ann")))->allowed);
    CHECK_EQ(stats().keys, 2);
    far.fails = false;
    far_asked(&far);
    d = rig_ask(&rig, GET("/near", USER("ann")));
    CHECK_STR(far_asked(&far), "charge " OPEN "=4\ncharge " NEAR "=4\n"
                               "take " OPEN "=1," NEAR "=1\n");
    CHECK(d->allowed && !d->degraded);
    CHECK_EQ(d->shown[0].answer.remaining, 1);
    CHECK(stats().keys == 0 && stats().charged == 8);

    CASE("what others owe is charged when somebody was answered");
    far.fails = true;
    rig_ask(&rig, GET("/open", USER("bob")));
    rig_ask(&rig, GET("/open", USER("cat")));
    far.fails = false;
    far_asked(&far);
    rig_ask(&rig, GET("/open", USER("dan")));
    CHECK_STR(far_asked(&far), "take sluice:t:open:user:dan=1\n"
                               "charge sluice:t:open:user:bob=1\n"
                               "charge sluice:t:open:user:cat=1\n");
    CHECK_EQ(stats().keys, 0);

    CASE("who was refused, and who only looks, owes nothing");
    far.fails = true;
    rig_ask(&rig, GET("/shut", USER("eve")));
    CHECK_EQ(sl_engine_decide(rig.engine, rig.live,
                              &GET("/open", USER("eve"), .now = 0), false,
                              &rig.d, &rig.diag),
             0);
    CHECK_EQ(stats().keys, 0);
    rig_close(&rig);
}

static void check_ages(void)
{
    CASE("a debt of a bucket flows back, that of a window ends with it");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    for (int i = 0; i < 6; i++) {
        rig_ask(&rig, GET("/open", USER("ann")));
        rig_ask(&rig, GET("/window", USER("ann")));
    }
    CHECK_EQ(stats().keys, 2);
    far.fails = false;
    rig.now = 40 * SL_S; /* four of six are back */
    far_asked(&far);
    rig_ask(&rig, GET("/open", USER("ann")));
    CHECK(strstr(far_asked(&far), "charge " OPEN "=2\n") != NULL);
    CHECK_EQ(rig.d.shown[0].answer.remaining, 3);
    far.fails = true;
    for (int i = 0; i < 3; i++)
        rig_ask(&rig, GET("/window", USER("bob")));
    far.fails = false;
    rig.now = SL_MIN; /* another window */
    far_asked(&far);
    rig_ask(&rig, GET("/window", USER("bob")));
    CHECK_STR(far_asked(&far), "take sluice:t:window:user:bob=1\n");
    CHECK_EQ(rig.d.shown[0].answer.remaining, 5);

    CASE("nobody owes more than his limit holds");
    far.fails = true;
    for (int i = 0; i < 100; i++)
        rig_ask(&rig, GET("/open", USER("cat")));
    far.fails = false;
    far_asked(&far);
    rig_ask(&rig, GET("/open", USER("cat")));
    CHECK_STR(far_asked(&far), "charge sluice:t:open:user:cat=6\n"
                               "take sluice:t:open:user:cat=1\n");
    rig_close(&rig);
}

#define SHUT "sluice:t:shut:user:ann"

static const struct sl_decision *give(uint64_t units, const char *limit)
{
    return rig_ask(&rig, (struct sl_request){.limit = sl_str_c(limit),
                                             .key = SL_STR("ann"),
                                             .give_back = true,
                                             COST(units)});
}

static void check_given(void)
{
    CASE("what is given back without the store is given back with it");
    far_open(&far, &rig, policy, false);
    for (int i = 0; i < 5; i++)
        rig_ask(&rig, GET("/shut", USER("ann")));
    far.fails = true;
    CHECK(give(2, "shut")->allowed);
    CHECK(give(1, "shut")->degraded);
    CHECK_EQ(stats().keys, 1);
    far.fails = false;
    far_asked(&far);
    CHECK_EQ(give(0, "shut")->shown[0].answer.remaining, 4);
    CHECK(strstr(far_asked(&far), " " SHUT "=3\n"));
    CHECK_EQ(stats().keys, 0);
    CHECK_EQ(stats().charged, 0);

    CASE("what passes and what is given back are told together");
    far.fails = true;
    CHECK_EQ(passed("/near", "ann", 4), 4);
    CHECK(give(1, "near")->allowed);
    far.fails = false;
    far_asked(&far);
    rig_ask(&rig, GET("/near", USER("ann")));
    CHECK(strstr(far_asked(&far), "charge " NEAR "=3\n"));
    CASE("what is given back counts against all that passed");
    rig.now += 2 * SL_MIN;
    far.fails = true;
    CHECK_EQ(passed("/open", "ann", 9), 9); /* of six */
    CHECK(give(5, "open")->allowed);
    far.fails = false;
    far_asked(&far);
    rig_ask(&rig, GET("/open", USER("ann")));
    CHECK(strstr(far_asked(&far), "charge " OPEN "=4\n"));
    CASE("a window that is over gets nothing back");
    rig_ask(&rig, GET("/window", USER("ann")));
    far.fails = true;
    CHECK(give(1, "window")->allowed);
    far.fails = false;
    rig.now += SL_MIN;
    far_asked(&far);
    rig_ask(&rig, GET("/window", USER("ann")));
    CHECK_STR(far_asked(&far), "take sluice:t:window:user:ann=1\n");
    CASE("one that may have arrived is not given back again");
    far.fails = far.sent = true;
    CHECK(give(1, "shut")->allowed);
    CHECK_EQ(stats().keys, 0);
    rig_close(&rig);
}

/* A charge that fails: what was not sent is owed still, the rest is lost. */
static void check_charge_fails(void)
{
    CASE("a charge that was not sent is owed again");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    rig_ask(&rig, GET("/open", USER("ann")));
    rig_ask(&rig, GET("/open", USER("ann")));
    CHECK(strstr(far_asked(&far), "charge " OPEN "=1\n"));
    CHECK_EQ(stats().keys, 1);
    CHECK_EQ(stats().lost, 0);
    far.fails = false;
    rig_ask(&rig, GET("/open", USER("ann")));
    CHECK_EQ(rig.d.shown[0].answer.remaining, 3);
    CHECK_EQ(stats().charged, 2);

    CASE("one that may have arrived is not charged again");
    far.fails = true;
    rig_ask(&rig, GET("/open", USER("bob")));
    far.sent = true;
    rig_ask(&rig, GET("/open", USER("bob"))); /* its charge is lost */
    CHECK_EQ(stats().lost, 1);
    CHECK_EQ(stats().keys, 0);

    CASE("nor is a take: if it was taken, it stays so");
    CHECK_EQ(far.kept, 1);
    rig_ask(&rig, GET("/near", USER("bob")));
    CHECK_EQ(far.kept, 2);
    CHECK_EQ(stats().keys, 0);
    CASE("what was refused without the store is given back");
    rig_ask(&rig, GET("/shut", USER("bob")));
    CHECK_EQ(far.kept, 2);
    passed("/near", "bob", 5);
    CHECK_EQ(far.kept, 7);
    CHECK(!rig_ask(&rig, GET("/near", USER("bob")))->allowed);
    CHECK_EQ(far.kept, 7);
    rig_close(&rig);
}

static void check_bounded(void)
{
    char user[32];

    CASE("there is an end to what is written down");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    for (int i = 0; i < SL_DEBTS + 100; i++) {
        struct sl_request facts = GET("/open");

        snprintf(user, sizeof(user), "u%d", i);
        facts.user = sl_str_c(user);
        far.log[0] = '\0';
        rig_ask(&rig, facts);
    }
    CHECK_EQ(stats().keys, SL_DEBTS);
    CHECK_EQ(stats().forgiven, 100);
    CASE("and all of it is charged, some at a time");
    far.fails = false;
    for (int i = 0; i < SL_DEBTS / 32 + 1; i++) {
        far.log[0] = '\0';
        rig_ask(&rig, GET("/open", USER("ann")));
    }
    CHECK_EQ(stats().keys, 0);
    CHECK_EQ(stats().charged, SL_DEBTS);

    CASE("debts outlive their policy, and an engine with debts can be closed");
    far.fails = true;
    rig_ask(&rig, GET("/open", USER("ann")));
    {
        struct sl_policy *other = rig_policy(policy);

        CHECK_EQ(sl_engine_use(rig.engine, other, &rig.diag), 0);
        sl_policy_unref(other);
    }
    far.fails = false;
    rig_ask(&rig, GET("/open", USER("bob")));
    CHECK_EQ(stats().keys, 0);
    far.fails = true;
    rig_ask(&rig, GET("/open", USER("cat")));
    CHECK_EQ(sl_engine_forget(rig.engine, &rig.diag), 0);
    CHECK_EQ(stats().keys, 0);
    rig_ask(&rig, GET("/open", USER("cat")));
    rig_close(&rig);
}

/* ---- parts of a limit ---- */

static void check_share(void)
{
    static const struct {
        unsigned nodes, bucket, window, remaining;
    } rows[] = {
        {0, 6, 6, 5},
        {1, 6, 6, 5},
        {2, 3, 3, 2},
        {3, 2, 2, 1},
        {4, 1, 1, 0},
        {6, 1, 1, 0},
        {9, 1, 1, 0}, /* never less than one */
    };

    CASE("local lets an n-th of the limit through");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        far_open(&far, &rig, policy, false);
        far.fails = true;
        sl_engine_nodes(rig.engine, rows[i].nodes);
        rig_ask(&rig, GET("/window", USER("eve")));
        CHECK_EQ(rig.d.shown[0].answer.remaining, rows[i].remaining);
        CHECK_EQ(rig.d.shown[0].answer.limit, 6);
        CHECK_EQ(passed("/window", "ann", 10), rows[i].window);
        CHECK_EQ(passed("/near", "ann", 10), rows[i].bucket);
        CHECK(rig.d.degraded && rig.d.status == 429);
        rig_close(&rig);
    }
    CASE("in the long run, too");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    sl_engine_nodes(rig.engine, 2);
    passed("/near", "ann", 10);
    CHECK_EQ(rig.d.retry_in, 20 * SL_S);
    rig.now += 20 * SL_S;
    CHECK_EQ(passed("/near", "ann", 10), 1);
    CASE("what is charged is what passed, not what it cost here");
    far.fails = false;
    far_asked(&far);
    rig_ask(&rig, GET("/near", USER("ann")));
    CHECK(strstr(far_asked(&far), "charge " NEAR "=2\n") != NULL);
    rig_close(&rig);
}

int main(void)
{
    check_late();
    check_retry();
    check_charged();
    check_ages();
    check_given();
    check_charge_fails();
    check_bounded();
    check_share();
    return CHECK_DONE();
}
