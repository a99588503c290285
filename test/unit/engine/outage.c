/* outage.c -- a store that is elsewhere and fails, at once or later: what the
 * policy makes of it, what is owed and charged afterwards, and when to come
 * back. */
#include "engine/check.h"
#include "engine/engine_int.h"
#include "fixture.h"
#include "row.h"

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

#define OPEN   "sluice:t:open:user:"
#define NEAR   "sluice:t:near:user:"
#define WINDOW "sluice:t:window:user:"
#define SHUT   "sluice:t:shut:user:"

static struct far far;
static struct rig rig;

/* How many of `count` requests pass. */
static unsigned passed(const char *path, const char *user, unsigned count)
{
    struct sl_request request = GET("");
    unsigned n = 0;

    request.path = sl_str_c(path);
    request.user = sl_str_c(user);
    for (unsigned i = 0; i < count; i++)
        n += rig_ask(&rig, request)->allowed;
    return n;
}

static unsigned given_back(const char *limit, const char *key, unsigned units)
{
    struct sl_request request = {.give_back = true, COST(units)};

    request.limit = sl_str_c(limit);
    request.key = sl_str_c(key);
    return rig_ask(&rig, request)->allowed;
}

static struct sl_debts_stats stats(void)
{
    struct sl_debts_stats s;

    sl_engine_debts(rig.engine, &s);
    return s;
}

/* ---- what is owed ---- */

/* The store answers, was not reached, or was perhaps reached. */
enum store_state { ANSWERS, FAILS, UNSURE };

/* `count` requests of a path by a user, or, without a slash before it, so many
 * units of a limit given back. `want` is: how many passed, what is left of the
 * first limit; debts, units charged and lost; takes that stay taken. */
static const struct {
    const char *why; /* NULL: the case goes on */
    sl_ns at;
    enum store_state store;
    const char *what, *user;
    unsigned count;
    const char *want, *log;
} steps[] = {
    ROW("what passed is charged before the key's next take", 0, FAILS, "/near",
        "ann", 4, "4, 2; 2 0 0; 0", NULL),
    ROW(NULL, 0, ANSWERS, "/near", "ann", 1, "1, 1; 0 8 0; 0",
        "charge " OPEN "ann=4\ncharge " NEAR "ann=4\n"
        "take " OPEN "ann=1," NEAR "ann=1\n"),
    ROW("what others owe is charged when one was answered", 0, FAILS, "/open",
        "bob", 1, "1, 0; 1 8 0; 0", NULL),
    ROW(NULL, 0, FAILS, "/open", "cat", 1, "1, 0; 2 8 0; 0", NULL),
    ROW(NULL, 0, ANSWERS, "/open", "dan", 1, "1, 5; 0 10 0; 0",
        "take " OPEN "dan=1\ncharge " OPEN "bob=1\ncharge " OPEN "cat=1\n"),
    ROW("a refused request owes nothing", 0, FAILS, "/shut", "eve", 1,
        "0, 0; 0 10 0; 0", "take " OPEN "eve=1," SHUT "eve=1\n"),
    ROW("a debt of a bucket flows back", 0, FAILS, "/open", "fay", 6,
        "6, 0; 1 10 0; 0", NULL),
    ROW(NULL, 40 * SL_S, ANSWERS, "/open", "fay", 1, "1, 3; 0 12 0; 0",
        "charge " OPEN "fay=2\ntake " OPEN "fay=1\n"),
    ROW("that of a window ends with it", 40 * SL_S, FAILS, "/window", "bob", 3,
        "3, 3; 1 12 0; 0", NULL),
    ROW(NULL, SL_MIN, ANSWERS, "/window", "bob", 1, "1, 5; 0 12 0; 0",
        "take " WINDOW "bob=1\n"),
    ROW("a debt is never more than the limit holds", SL_MIN, FAILS, "/open",
        "cat", 100, "100, 0; 1 12 0; 0", NULL),
    ROW(NULL, SL_MIN, ANSWERS, "/open", "cat", 1, "0, 0; 0 18 0; 0",
        "charge " OPEN "cat=6\ntake " OPEN "cat=1\n"),

    ROW("what is given back without the store is given back with it", SL_HOUR,
        ANSWERS, "/shut", "gil", 5, "5, 1; 0 18 0; 0", NULL),
    ROW(NULL, SL_HOUR, FAILS, "shut", "gil", 2, "1, 0; 1 18 0; 0", NULL),
    ROW(NULL, SL_HOUR, FAILS, "shut", "gil", 1, "1, 0; 1 18 0; 0", NULL),
    ROW(NULL, SL_HOUR, ANSWERS, "shut", "gil", 0, "1, 4; 0 18 0; 0",
        "back " SHUT "gil=3\nback " SHUT "gil=0\n"),
    ROW("what passes and what is given back are told together", SL_HOUR, FAILS,
        "/near", "hal", 4, "4, 2; 2 18 0; 0", NULL),
    ROW(NULL, SL_HOUR, FAILS, "near", "hal", 1, "1, 3; 2 18 0; 0", NULL),
    ROW(NULL, SL_HOUR, ANSWERS, "/near", "hal", 1, "1, 1; 0 25 0; 0",
        "charge " OPEN "hal=4\ncharge " NEAR "hal=3\n"
        "take " OPEN "hal=1," NEAR "hal=1\n"),
    ROW("what is given back counts against all that passed", SL_HOUR, FAILS,
        "/open", "ivy", 9, "9, 0; 1 25 0; 0", NULL), /* of six */
    ROW(NULL, SL_HOUR, FAILS, "open", "ivy", 5, "1, 0; 1 25 0; 0", NULL),
    ROW(NULL, SL_HOUR, ANSWERS, "/open", "ivy", 1, "1, 1; 0 29 0; 0",
        "charge " OPEN "ivy=4\ntake " OPEN "ivy=1\n"),
    ROW("a window that is over gets nothing back", SL_HOUR, ANSWERS, "/window",
        "jo", 1, "1, 5; 0 29 0; 0", NULL),
    ROW(NULL, SL_HOUR, FAILS, "window", "jo", 1, "1, 6; 1 29 0; 0", NULL),
    ROW(NULL, SL_HOUR + SL_MIN, ANSWERS, "/window", "jo", 1, "1, 5; 0 29 0; 0",
        "take " WINDOW "jo=1\n"),
    ROW("one that may have arrived is not given back again", SL_HOUR, UNSURE,
        "shut", "gil", 1, "1, 0; 0 29 0; 0", NULL),

    ROW("a charge that was not sent is owed again", 2 * SL_HOUR, FAILS, "/open",
        "kim", 2, "2, 0; 1 29 0; 0",
        "take " OPEN "kim=1\ncharge " OPEN "kim=1\ntake " OPEN "kim=1\n"),
    ROW(NULL, 2 * SL_HOUR, ANSWERS, "/open", "kim", 1, "1, 3; 0 31 0; 0", NULL),
    ROW("one that may have arrived is not charged again", 2 * SL_HOUR, FAILS,
        "/open", "bob", 1, "1, 0; 1 31 0; 0", NULL),
    ROW(NULL, 2 * SL_HOUR, UNSURE, "/open", "bob", 1, "1, 0; 0 31 1; 1", NULL),
    ROW("nor is a take: if it was taken, it stays so", 2 * SL_HOUR, UNSURE,
        "/near", "bob", 1, "1, 5; 0 31 1; 2", NULL),
    ROW("what was refused without the store is given back", 2 * SL_HOUR, UNSURE,
        "/shut", "bob", 1, "0, 0; 0 31 1; 2", NULL),
    ROW(NULL, 2 * SL_HOUR, UNSURE, "/near", "bob", 6, "5, 0; 0 31 1; 7", NULL),
};

static void check_debts(void)
{
    far_open(&far, &rig, policy, false);
    for (size_t i = 0; i < SL_LEN(steps); i++) {
        struct sl_debts_stats s;
        unsigned n;
        char got[64];

        if (steps[i].why)
            CASE(steps[i].why);
        far.fails = steps[i].store != ANSWERS;
        far.sent = steps[i].store == UNSURE;
        rig.now = steps[i].at;
        far_asked(&far);
        n = steps[i].what[0] == '/'
                ? passed(steps[i].what, steps[i].user, steps[i].count)
                : given_back(steps[i].what, steps[i].user, steps[i].count);
        s = stats();
        snprintf(got, sizeof(got), "%u, %u; %u %u %u; %u", n,
                 (unsigned)rig.d.shown[0].answer.remaining, (unsigned)s.keys,
                 (unsigned)s.charged, (unsigned)s.lost, far.kept);
        if (!CHECK_STR(got, steps[i].want))
            printf("# step %zu\n", i);
        if (steps[i].log)
            CHECK_STR(far_asked(&far), steps[i].log);
    }
    CASE("to look owes nothing");
    CHECK_EQ(rig_decide(&rig, &GET("/open", USER("eve")), 1, NULL, false), 0);
    CHECK_EQ(stats().keys, 0);
    rig_close(&rig);
}

static void reload(void)
{
    struct sl_policy *next = rig_policy(policy);

    CHECK_EQ(sl_engine_use(rig.engine, next, &rig.diag), 0);
    sl_policy_unref(next);
}

static void check_bounded(void)
{
    char user[32];

    CASE("there is an end to what is written down");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    for (int i = 0; i < SL_DEBTS + 100; i++) {
        snprintf(user, sizeof(user), "u%d", i);
        far.log[0] = '\0';
        passed("/open", user, 1);
    }
    CHECK_EQ(stats().keys, SL_DEBTS);
    CHECK_EQ(stats().forgiven, 100);
    CASE("and all of it is charged, some at a time");
    far.fails = false;
    for (int i = 0; i < SL_DEBTS / 32 + 1; i++) {
        far.log[0] = '\0';
        passed("/open", "ann", 1);
    }
    CHECK_EQ(stats().keys, 0);
    CHECK_EQ(stats().charged, SL_DEBTS);

    CASE("debts outlive their policy, and an engine with debts can be closed");
    far.fails = true;
    passed("/open", "ann", 1);
    reload();
    far.fails = false;
    passed("/open", "bob", 1);
    CHECK_EQ(stats().keys, 0);
    far.fails = true;
    passed("/open", "cat", 1);
    CHECK_EQ(sl_engine_forget(rig.engine, &rig.diag), 0);
    CHECK_EQ(stats().keys, 0);
    passed("/open", "cat", 1);
    rig_close(&rig);
}

/* The days of a quota lie in its policy, which must be there still when they
 * are read. */
static void check_reloads(void)
{
    struct sl_active_policy *first, *second;

    CASE("a debt holds the policy that it was last moved on under");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    passed("/open", "ann", 1);
    first = sl_engine_ref_policy(rig.engine, NULL);
    reload();
    passed("/open", "ann", 1);
    CHECK_EQ(atomic_load(&first->refs), 1);
    sl_active_policy_unref(first);
    second = sl_engine_ref_policy(rig.engine, NULL);
    reload();
    rig.active = sl_check_ref_policy(&rig.check);
    CHECK(rig.active != second);
    CHECK_EQ(atomic_load(&second->refs), 2); /* the debt, and we */
    sl_active_policy_unref(second);
    CASE("and is charged by it after the next came in force");
    far.fails = false;
    far_asked(&far);
    passed("/open", "bob", 1);
    CHECK(has(far_asked(&far), "charge " OPEN "ann=2\n"));
    CHECK(stats().keys == 0 && stats().charged == 2);
    rig_close(&rig);
}

/* ---- without memory ---- */

static struct sl_debts_stats stats_of(struct sl_debts *debts)
{
    struct sl_debts_stats s;

    sl_debts_stats(debts, &s);
    return s;
}

#define LONG 1000

static void check_memory(void)
{
    struct sl_limit limit = {
        .kind = SL_FIXED, .count = 5, .capacity = 5, .period = SL_MIN};
    struct sl_limit_binding stored = {.name = "a"};
    struct sl_part part = {.binding = &stored,
                           .limit = &limit,
                           .key = SL_STR("k"),
                           .name = SL_STR("n"),
                           .cost = 2};
    struct fail fail = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&fail);
    struct sl_debts *debts = NULL;
    struct sl_active_policy *active;
    char key[LONG + 1];

    CASE("without memory a debt is forgiven, and counted");
    far_open(&far, &rig, policy, false);
    active = sl_engine_ref_policy(rig.engine, NULL);
    sl_limit_derive(&limit);
    CHECK_EQ(sl_debts_open(&alloc, &debts), SLUICE_ENOMEM);
    fail = (struct fail){.nth = 2};
    CHECK_EQ(sl_debts_open(&alloc, &debts), 0);
    sl_debts_add(debts, active, &part, 0);
    CHECK(stats_of(debts).keys == 0 && stats_of(debts).forgiven == 2);
    sl_debts_add(debts, active, &part, 0);
    CHECK(stats_of(debts).keys == 1 && stats_of(debts).forgiven == 2);
    CASE("nor is it given back without");
    part.name = SL_STR("another");
    fail.nth = fail.calls + 1;
    sl_debts_give(debts, active, &part, 0);
    CHECK(stats_of(debts).keys == 1 && stats_of(debts).lost == 2);
    sl_debts_close(debts);

    CASE("there is an end to the names of debts, too");
    CHECK_EQ(sl_debts_open(&sl_alloc_libc, &debts), 0);
    part.key = (struct sl_str){key, LONG};
    part.name = SL_STR("");
    for (unsigned i = 0; i < SL_DEBTS_BYTES / LONG + 10; i++) {
        snprintf(key, sizeof(key), "%0*u", LONG, i);
        sl_debts_add(debts, active, &part, 0);
    }
    CHECK_EQ(stats_of(debts).keys, SL_DEBTS_BYTES / LONG);
    CHECK_EQ(stats_of(debts).forgiven, 10 * 2);
    sl_debts_close(debts);
    sl_active_policy_unref(active);
    rig_close(&rig);
}

/* ---- late, when to come back, and parts of a limit ---- */

static unsigned answered;

static void on_answer(struct sl_check *check)
{
    (void)check;
    answered++;
}

static void check_late(void)
{
    static const struct sl_engine_ctx engine_ctx;
    static const struct {
        const char *path;
        int status;
    } rows[] = {
        {"/open", 200},
        {"/near", 200},
        {"/shut", 503},
    };
    struct sl_request request = GET("", USER("ann"));
    struct sl_check check;

    CASE("a store that fails late fails as one that fails at once");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        far_open(&far, &rig, policy, false);
        far.late = far.fails = true;
        answered = 0;
        request.path = sl_str_c(rows[i].path);
        sl_check_init(&check, rig.engine, &engine_ctx, &sl_alloc_libc);
        check.done = on_answer;
        sl_check_start(&check, &request, 1, true);
        CHECK_EQ(answered, 0);
        CHECK_EQ(far_answer(&far), 1);
        CHECK_EQ(answered, 1);
        CHECK_EQ(check.err, 0);
        CHECK(check.decision.degraded);
        CHECK_EQ(check.decision.allowed, rows[i].status == 200);
        CHECK_EQ(check.decision.status, rows[i].status);
        sl_check_done(&check);
        rig_close(&rig);
    }
}

static void check_retry(void)
{
    static const sl_ns rows[][2] = {
        {0,            SL_S        },
        {200 * SL_MS,  SL_S        },
        {SL_S + SL_MS, SL_S + SL_MS},
        {7 * SL_S,     7 * SL_S    },
    };

    CASE("503 says when the store is tried again, and at least a second");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        far.retry = rows[i][0];
        CHECK_EQ(rig_ask(&rig, GET("/shut", USER("ann")))->status, 503);
        CHECK_EQ(rig.d.retry_in, rows[i][1]);
    }
    rig_close(&rig);
}

static void check_share(void)
{
    static const unsigned rows[][2] = {
        {0, 6},
        {1, 6},
        {2, 3},
        {3, 2},
        {4, 1},
        {6, 1},
        {9, 1}, /* never less than one */
    };
    struct sl_active_policy *active;

    CASE("local lets an n-th of the limit through");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        far_open(&far, &rig, policy, false);
        far.fails = true;
        sl_engine_nodes(rig.engine, SL_STR(""), rows[i][0]);
        passed("/window", "eve", 1);
        CHECK_EQ(rig.d.shown[0].answer.remaining, rows[i][1] - 1);
        CHECK_EQ(rig.d.shown[0].answer.limit, 6);
        CHECK_EQ(passed("/window", "ann", 10), rows[i][1]);
        CHECK_EQ(passed("/near", "ann", 10), rows[i][1]);
        CHECK(rig.d.degraded && rig.d.status == 429);
        rig_close(&rig);
    }
    CASE("each limit by the daemons that have it");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    sl_engine_nodes(rig.engine, SL_STR(""), 6);
    sl_engine_nodes(rig.engine, SL_STR("window"), 2);
    sl_engine_nodes(rig.engine, SL_STR("no such limit"), 3);
    CHECK_EQ(passed("/window", "ann", 10), 3);
    CHECK_EQ(passed("/near", "ann", 10), 1);
    CASE("also after a reload");
    active = sl_engine_ref_policy(rig.engine, NULL);
    CHECK_EQ(sl_engine_use(rig.engine, active->policy, NULL), 0);
    sl_active_policy_unref(active);
    CHECK_EQ(passed("/window", "bob", 10), 3);
    rig_close(&rig);
    CASE("in the long run, too");
    far_open(&far, &rig, policy, false);
    far.fails = true;
    sl_engine_nodes(rig.engine, SL_STR(""), 2);
    passed("/near", "ann", 10);
    CHECK_EQ(rig.d.retry_in, 20 * SL_S);
    rig.now += 20 * SL_S;
    CHECK_EQ(passed("/near", "ann", 10), 1);
    CASE("what is charged is what passed, not what it cost here");
    far.fails = false;
    far_asked(&far);
    passed("/near", "ann", 1);
    CHECK(has(far_asked(&far), "charge " NEAR "ann=2\n"));
    rig_close(&rig);
}

static void check_credits(void)
{
    static const char spiky[] =
        "sluice: 1\n"
        "limits:\n"
        "  a: { kind: fixed-window, per: [], rate: 1/hour, credits: pool }\n"
        "  pool: { kind: quota, per: [], rate: 9/day }\n"
        "default: [a]\n";
    struct sl_request request = GET("/", USER("ann"));

    CASE("credits that the store does not give: denied, and asked no more");
    far_open(&far, &rig, spiky, false);
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    far_asked(&far);
    far.fail_at = far.takes + 2;
    request.insist = true;
    CHECK_EQ(rig_ask(&rig, request)->status, 429);
    CHECK(sl_limit_view_hidden(&rig.d.shown[1]) && rig.d.shown[1].cost == 0);
    CHECK_STR(
        far_asked(&far),
        "take sluice:default:a:all:=1\ntake sluice:default:pool:all:=1\n");
    CASE("and the next request has them");
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    rig_close(&rig);
}

int main(void)
{
    check_debts();
    check_bounded();
    check_reloads();
    check_memory();
    check_late();
    check_retry();
    check_share();
    check_credits();
    return CHECK_DONE();
}
