/* debts.c -- what is owed to a store that was away: by which policy, and how
 * much of it is written down. */
#include "far.h"

#include "engine/engine_int.h"
#include "fail.h"

static const char policy[] =
    "sluice: 1\n"
    "env: t\n"
    "limits:\n"
    "  day: { kind: quota, per: user, rate: 6/day, on_store_failure: allow }\n"
    "default: [day]\n";

static struct far far;
static struct rig rig;

static struct sl_debts_stats stats_of(struct sl_debts *debts)
{
    struct sl_debts_stats s;

    sl_debts_stats(debts, &s);
    return s;
}

/* ---- whose numbers ---- */

static void reload(void)
{
    struct sl_policy *next = rig_policy(policy);

    CHECK_EQ(sl_engine_use(rig.engine, next, &rig.diag), 0);
    sl_policy_unref(next);
}

/* The days of a quota lie in its policy, which must be there still when they
 * are read. */
static void check_reloads(void)
{
    struct sl_active_policy *first, *second;
    struct sl_debts_stats s;

    CASE("a debt holds the policy that it was last moved on under");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    rig_ask(&rig, GET("/", USER("ann")));
    first = sl_engine_hold(rig.engine, NULL);
    reload();
    rig_ask(&rig, GET("/", USER("ann")));
    CHECK_EQ(atomic_load(&first->refs), 1);
    sl_active_policy_release(first);
    second = sl_engine_hold(rig.engine, NULL);
    reload();
    rig.live = sl_engine_hold(rig.engine, rig.live);
    CHECK(rig.live != second);
    CHECK_EQ(atomic_load(&second->refs), 2); /* the debt, and we */
    sl_active_policy_release(second);

    CASE("and is charged by it after the next came in force");
    rig.now = SL_HOUR;
    far.fails = false;
    far_asked(&far);
    rig_ask(&rig, GET("/", USER("bob")));
    CHECK(strstr(far_asked(&far), "charge sluice:t:day:user:ann=2\n"));
    sl_engine_debts(rig.engine, &s);
    CHECK(s.keys == 0 && s.charged == 2);
    rig_close(&rig);
}

/* ---- how much ---- */

/* Whatever can't be remembered is forgiven: nobody is refused for it. */
static void check_no_memory(void)
{
    struct sl_limit limit = {
        .kind = SL_FIXED, .count = 5, .capacity = 5, .period = SL_MIN};
    struct sl_limit_binding stored = {.name = "a"};
    struct sl_store_part part = {.of = &stored,
                                 .limit = &limit,
                                 .key = SL_STR("k"),
                                 .name = SL_STR("n"),
                                 .cost = 2};
    struct fail fail = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_debts *debts = NULL;
    struct sl_active_policy *live;

    CASE("without memory a debt is forgiven, and counted");
    far_open(&far, &rig, policy, false);
    live = sl_engine_hold(rig.engine, NULL);
    sl_limit_derive(&limit);
    CHECK_EQ(sl_debts_open(&alloc, &debts), SLUICE_ENOMEM);
    fail = (struct fail){.nth = 2};
    CHECK_EQ(sl_debts_open(&alloc, &debts), 0);
    sl_debts_add(debts, live, &part, 0);
    CHECK_EQ(stats_of(debts).keys, 0);
    CHECK_EQ(stats_of(debts).forgiven, 2);
    sl_debts_add(debts, live, &part, 0);
    CHECK_EQ(stats_of(debts).keys, 1);
    CHECK_EQ(stats_of(debts).forgiven, 2);
    CASE("nor is it given back without");
    part.name = SL_STR("another");
    fail.nth = fail.calls + 1;
    sl_debts_give(debts, live, &part, 0);
    CHECK_EQ(stats_of(debts).keys, 1);
    CHECK_EQ(stats_of(debts).lost, 2);
    sl_debts_close(debts);
    sl_active_policy_release(live);
    rig_close(&rig);
}

#define LONG 1000

/* A key of LONG bytes each time, and no name. */
static void check_names(void)
{
    struct sl_limit limit = {
        .kind = SL_FIXED, .count = 5, .capacity = 5, .period = SL_MIN};
    struct sl_limit_binding stored = {.name = "a"};
    struct sl_store_part part = {.of = &stored, .limit = &limit, .cost = 2};
    struct sl_debts *debts = NULL;
    struct sl_active_policy *live;
    char key[LONG + 1];

    CASE("there is an end to their names, too");
    far_open(&far, &rig, policy, false);
    live = sl_engine_hold(rig.engine, NULL);
    sl_limit_derive(&limit);
    CHECK_EQ(sl_debts_open(&sl_alloc_libc, &debts), 0);
    part.key = (struct sl_str){key, LONG};
    for (unsigned i = 0; i < SL_DEBTS_BYTES / LONG + 10; i++) {
        snprintf(key, sizeof(key), "%0*u", LONG, i);
        sl_debts_add(debts, live, &part, 0);
    }
    CHECK_EQ(stats_of(debts).keys, SL_DEBTS_BYTES / LONG);
    CHECK_EQ(stats_of(debts).forgiven, 10 * 2);
    sl_debts_close(debts);
    sl_active_policy_release(live);
    rig_close(&rig);
}

int main(void)
{
    check_reloads();
    check_no_memory();
    check_names();
    return CHECK_DONE();
}
