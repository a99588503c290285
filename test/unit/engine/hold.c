/* hold.c -- what a decision holds, and how that ends. */
#include "asking.h"

#include "engine/engine_int.h"
#include "engine/hold_op.h"
#include "engine/render.h"
#include "fail.h"
#include "holding.h"

static const char policy[] =
    "sluice: 1\n"
    "hold_max: 10m\n"
    "plans: { default: free, free: {}, pro: { overage: true } }\n"
    "limits:\n"
    "  bill: { kind: quota, per: org, rate: 10/day }\n"
    "  calls: { kind: fixed-window, per: org, rate: 2000/day, cost: 1 }\n"
    "  tokens: { kind: quota, per: org, rate: 1000/day }\n"
    "  sem: { kind: concurrency, per: org, rate: 2, hold: 90s }\n"
    "  wide: { kind: concurrency, per: [], rate: 5 }\n"
    "routes:\n"
    "  - { match: /bill, limits: [bill] }\n"
    "  - { match: /llm, endpoint: llm, limits: [calls, tokens] }\n"
    "  - { match: /work, limits: [calls, sem, wide] }\n"
    "  - { match: /permits, limits: [sem] }\n"
    "  - { match: /free, limits: [] }\n"
    "default: []\n";

static struct holding store;
static struct rig rig;
static struct sl_hold_op ask;
static unsigned answered;

static void on_done(struct sl_hold_op *a)
{
    (void)a;
    answered++;
}

static void open_rig(const struct sl_alloc *alloc)
{
    struct sl_memory_options memory = {
        .size = 1 << 20, .now = rig_now, .now_ctx = &rig};

    holding_open(&store, &memory);
    rig_open_on(&rig, policy, &store.store);
    sl_hold_op_init(&ask, rig.engine, NULL, alloc);
    ask.done = on_done;
}

static void close_rig(void)
{
    sl_hold_op_done(&ask);
    rig_close(&rig);
}

static int end(enum sl_hold_verb verb, const char *name,
               struct sl_hold_op_input q)
{
    q.verb = verb;
    q.name = sl_str_c(name);
    q.now = rig.now;
    sl_hold_op_begin(&ask, &q);
    return ask.err;
}

#define SETTLE(name, ...)                                                      \
    end(SL_VERB_SETTLE, name, (struct sl_hold_op_input){__VA_ARGS__})
#define RELEASE(name)                                                          \
    end(SL_VERB_RELEASE, name, (struct sl_hold_op_input){.now = 0})
#define EXTEND(name, span)                                                     \
    end(SL_VERB_EXTEND, name, (struct sl_hold_op_input){.hold = (span)})

/* How much is left of a limit of acme's. */
static uint64_t left_of(const char *limit)
{
    struct sl_request facts = {.limit = sl_str_c(limit),
                               .key = SL_STR("acme"),
                               .has_cost = true,
                               .cost = 0};

    return rig_ask(&rig, facts)->shown[0].answer.remaining;
}

static const char *take(const char *path, sl_ns hold, uint64_t cost)
{
    static char names[8][SL_HOLD_TEXT];
    static unsigned at;
    struct sl_request facts = GET("/", ORG("acme"), COST(cost), .hold = hold);

    facts.path = sl_str_c(path);
    at = (at + 1) % 8;
    memcpy(names[at], rig_ask(&rig, facts)->hold, SL_HOLD_TEXT);
    return names[at];
}

/* `cost` of `bill`, which may be exceeded, settled for `actual`. */
static const struct sl_held_part *settle_bill(uint64_t cost, uint64_t actual)
{
    char hold[SL_HOLD_TEXT];

    memcpy(hold,
           rig_ask(&rig, GET("/bill", ORG("acme"), PLAN("pro"), COST(cost),
                             .hold = SL_S))
               ->hold,
           sizeof(hold));
    CHECK_EQ(SETTLE(hold, .has_cost = true, .cost = actual), 0);
    CHECK_EQ(ask.call.count, 1);
    return &ask.call.parts[0];
}

static void check_overage(void)
{
    static const struct {
        uint64_t cost, actual, remaining;
        bool over;
    } rows[] = {
        {8,  3, 7, false},
        {1,  6, 1, false},
        {20, 1, 0, false},
        {1,  2, 0, true },
        {5,  0, 0, false},
        {2,  2, 0, true },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const struct sl_held_part *part =
            settle_bill(rows[i].cost, rows[i].actual);

        printf("# %zu\n", i);
        CHECK_EQ(part->answer.limit, 10);
        CHECK_EQ(part->answer.capacity, 10);
        CHECK_EQ(part->answer.remaining, rows[i].remaining);
        CHECK_EQ(part->over, rows[i].over);
    }
}

/* ---- names ---- */

static void check_names(void)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"0123456789abcdef0123456789abcdef89abcdef",           true },
        {"0123456789abcdef0123456789abcdef89abcdef-1f",        true },
        {"0123456789abcdef0123456789abcdef89abcdef-ffffffff",  true },
        {"0123456789abcdef0123456789abcdef89abcdef-local",     true },
        {"0123456789abcdef0123456789abcdef89abcdef-",          false},
        {"0123456789abcdef0123456789abcdef89abcdef-0",         false},
        {"0123456789abcdef0123456789abcdef89abcdef-01",        false},
        {"0123456789abcdef0123456789abcdef89abcdef-100000000", false},
        {"0123456789abcdef0123456789abcdef89abcdef-1F",        false},
        {"0123456789abcdef0123456789abcdef89abcdefx",          false},
        {"0123456789ABCDEF0123456789abcdef89abcdef",           false},
        {"0000000000000000000000000000000089abcdef",           false},
        {"0123456789abcdef0123456789abcdef89abcde",            false},
        {"",                                                   false},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_hold_name name;
        char again[SL_HOLD_TEXT] = "";

        printf("# %s\n", rows[i].text);
        CHECK_EQ(sl_hold_name_read(sl_str_c(rows[i].text), &name),
                 rows[i].good);
        if (!rows[i].good)
            continue;
        sl_hold_name_write(&name, again);
        CHECK_STR(again, rows[i].text);
    }
}

/* ---- taking ---- */

static void check_asked(void)
{
    const char *hold = take("/llm", 30 * SL_S, 100);
    struct sl_hold_name name;

    CHECK_EQ(strlen(hold), 40);
    CHECK(sl_hold_name_read(sl_str_c(hold), &name));
    CHECK_STR(sl_hold_find_endpoint(rig.live->policy, name.endpoint).at, "llm");
    CHECK_EQ(rig.d.hold_for, 30 * SL_S);
    CHECK_EQ(left_of("tokens"), 900);
    CHECK_EQ(SETTLE(hold, .has_cost = true, .cost = 40), 0);
    CHECK_STR(sl_hold_state_word(&ask), "settled");
    CHECK(!sl_hold_is_again(&ask));
    CHECK_EQ(ask.call.count, 2);
    /* `calls` has a cost of its own, so one cost for all leaves it alone. */
    CHECK_EQ(ask.call.parts[0].cost, 100);
    CHECK_EQ(ask.call.parts[1].cost, 40);
    CHECK_EQ(left_of("tokens"), 960);
    CHECK_EQ(SETTLE(hold, .has_cost = true, .cost = 1), 0);
    CHECK(sl_hold_is_again(&ask));
    CHECK_STR(sl_hold_state_word(&ask), "settled");
    CHECK_EQ(left_of("tokens"), 960);
}

static void check_costs(void)
{
    static const struct sl_cost tokens[] = {
        {{"tokens", 6}, 7}
    };
    static const struct sl_cost nobody[] = {
        {{"token", 5}, 7}
    };
    const char *hold = take("/llm", 30 * SL_S, 5);

    CHECK_EQ(SETTLE(hold, .costs = nobody, .cost_count = 1), SLUICE_ECONF);
    CHECK_STR(ask.diag.sentence, "the policy has no limit \"token\"");
    CHECK_EQ(SETTLE(hold, .costs = tokens, .cost_count = 1), 0);
    CHECK_EQ(ask.call.parts[0].cost, 5);
    CHECK_EQ(ask.call.parts[1].cost, 7);
    hold = take("/llm", 30 * SL_S, 5);
    CHECK_EQ(SETTLE(hold, .cost = 0), 0); /* nothing said: as held */
    CHECK_EQ(ask.call.parts[0].cost, 5);
    CHECK_EQ(ask.call.parts[1].cost, 5);
    hold = take("/llm", 30 * SL_S, 5);
    CHECK_EQ(RELEASE(hold), 0);
    CHECK_STR(sl_hold_state_word(&ask), "released");
    CHECK_EQ(ask.call.parts[1].cost, 0);
}

/* Permits come back however the hold ends, and are held without asking; what
 * stands beside them is then taken for good. */
static void check_permits(void)
{
    uint64_t calls = left_of("calls");
    const char *first = take("/work", 0, 1), *second;

    CHECK_EQ(rig.d.hold_for, 90 * SL_S); /* the longer of both */
    CHECK_EQ(store.list[store.count - 1].count, 2);
    second = take("/work", 0, 1);
    CHECK_STR(take("/work", 0, 1), "");
    CHECK_STR(by_of(&rig.d), "sem");
    CHECK_EQ(rig.d.status, 429);
    CHECK_EQ(RELEASE(first), 0);
    CHECK_EQ(left_of("sem"), 1);
    CHECK_EQ(left_of("calls"), calls - 2);
    CHECK_EQ(SETTLE(second, .has_cost = true, .cost = 1), 0);
    CHECK_EQ(left_of("sem"), 2);
    first = take("/permits", 0, 0);
    CHECK_STR(first, "");           /* whoever only looks holds nothing */
    first = take("/permits", 0, 2); /* what costs two is one at once */
    rig.now += 90 * SL_S - 1;
    CHECK_EQ(left_of("sem"), 1);
    rig.now += 1;
    CHECK_EQ(left_of("sem"), 2);
    CHECK_EQ(RELEASE(first), 0);
    CHECK_STR(sl_hold_state_word(&ask), "expired");
    CHECK(sl_hold_is_again(&ask));
}

static void check_extend(void)
{
    const char *hold = take("/permits", 10 * SL_S, 1);

    CHECK_EQ(rig.d.hold_for, 10 * SL_S);
    rig.now += 9 * SL_S;
    CHECK_EQ(EXTEND(hold, 10 * SL_S), 0);
    CHECK_STR(sl_hold_state_word(&ask), "held");
    CHECK_EQ(ask.call.expires_in, 10 * SL_S);
    rig.now += 9 * SL_S;
    CHECK_EQ(left_of("sem"), 1);
    CHECK_EQ(EXTEND(hold, 24 * 3600 * SL_S), 0);
    CHECK_EQ(ask.call.expires_in, 600 * SL_S); /* hold_max */
    CHECK_EQ(RELEASE(hold), 0);
    CHECK_EQ(EXTEND(hold, SL_S), 0);
    CHECK_STR(sl_hold_state_word(&ask), "released");
    hold = take("/permits", 24 * 3600 * SL_S, 1);
    CHECK_EQ(rig.d.hold_for, 600 * SL_S);
    CHECK_EQ(RELEASE(hold), 0);
    CHECK_STR(take("/free", SL_S, 1), ""); /* there is nothing to hold */
    CHECK(rig.d.allowed);
}

/* ---- trouble ---- */

static void check_trouble(void)
{
    const char *hold = take("/permits", SL_S, 1);
    char wrong[SL_HOLD_TEXT];

    memcpy(wrong, hold, sizeof(wrong));
    wrong[0] = wrong[0] == 'a' ? 'b' : 'a';
    CHECK_EQ(RELEASE(wrong), SLUICE_ENOENT);
    CHECK_EQ(RELEASE("no name"), SLUICE_ENOENT);
    snprintf(wrong, sizeof(wrong), "%s-local", hold);
    CHECK_EQ(RELEASE(wrong), SLUICE_ENOENT); /* there is no such table */
    store.fails = true;
    CHECK_EQ(RELEASE(hold), SLUICE_ESTORE);
    store.fails = false;
    rig.fault = 1;
    CHECK_EQ(RELEASE(hold), SLUICE_ESTORE);
    rig.fault = 0;
    CHECK_EQ(RELEASE(hold), 0);
    store.full = true;
    take("/permits", 0, 1);
    CHECK_EQ(rig.d.status, 503);
    CHECK_EQ(rig.d.reason, SL_REASON_HOLDS);
    CHECK(!rig.d.allowed);
    CHECK_EQ(rig.d.retry_in, SL_S);
    store.full = false;
    store.place = 0x1f;
    hold = take("/permits", 0, 1);
    CHECK_STR(hold + 40, "-1f");
    CHECK_EQ(RELEASE(hold), 0);
    store.place = 0;
}

static void check_late(void)
{
    const char *hold = take("/permits", SL_S, 1);
    unsigned before = answered;

    store.late = true;
    RELEASE(hold);
    CHECK_EQ(answered, before);
    CHECK(ask.busy);
    holding_answer(&store);
    CHECK_EQ(answered, before + 1);
    CHECK(!ask.busy);
    CHECK_STR(sl_hold_state_word(&ask), "released");
    store.late = false;
}

/* Neither the verdict nor the answer depends on memory in between. */
static void check_memory(void)
{
    const char *hold = take("/llm", SL_S, 1);
    sl_hold_op_done(&ask);
    for (unsigned n = 1;; n++) {
        struct fail fail = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&fail);
        int err;

        sl_hold_op_init(&ask, rig.engine, NULL, &alloc);
        ask.done = on_done;
        err = SETTLE(hold, .has_cost = true, .cost = 1);
        sl_hold_op_done(&ask);
        fail_check(&fail);
        if (!err) {
            CHECK(n > 1);
            break;
        }
        CHECK_EQ(err, SLUICE_ENOMEM);
    }
    sl_hold_op_init(&ask, rig.engine, NULL, &sl_alloc_libc);
    ask.done = on_done;
}

/* ---- texts ---- */

static void check_texts(void)
{
    const char *hold = take("/llm", 1500 * SL_MS, 10);
    struct sl_rendered rendered;
    struct sl_arena arena;
    struct sl_buf out;
    char want[512];

    sl_arena_init(&arena, 1 << 16, &sl_alloc_libc);
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    CHECK_EQ(sl_render(&rig.d, &arena, &rendered), 0);
    CHECK_EQ(sl_render_verdict(&rig.d, &rendered, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    snprintf(want, sizeof(want),
             "\"hold\":\"%s\",\"hold_expires_ms\":1500,\"limits\":", hold);
    CHECK(strstr(out.bytes, want));
    snprintf(want, sizeof(want), "\"X-Sluice-Hold\":\"%s\"", hold);
    CHECK(strstr(out.bytes, want));
    sl_buf_clear(&out);
    CHECK_EQ(SETTLE(hold, .has_cost = true, .cost = 2000), 0);
    CHECK_EQ(sl_hold_render(&ask, &out), 0);
    CHECK_EQ(sl_buf_add(&out, (struct sl_str){"", 1}), 0);
    printf("# %s\n", out.bytes);
    CHECK(strstr(out.bytes, "\"state\":\"settled\",\"again\":false,"
                            "\"expires_ms\":null,\"limits\":[{\"name\":"
                            "\"calls\",\"held\":10,\"cost\":10,"));
    CHECK(strstr(out.bytes, "{\"name\":\"tokens\",\"held\":10,\"cost\":2000,"
                            "\"remaining\":0,"));
    sl_buf_done(&out);
    sl_arena_done(&arena);
}

int main(void)
{
    CASE("names are read as they are written, and no others");
    check_names();
    open_rig(&sl_alloc_libc);
    CASE("permits are held unasked, and come back");
    check_permits();
    CASE("a hold is extended, within the longest");
    check_extend();
    CASE("no room, no store, no such hold");
    check_trouble();
    CASE("an answer may come later");
    check_late();
    CASE("without memory nothing is ended");
    check_memory();
    rig.now += 48 * 3600 * SL_S;
    CASE("costs by limit, as held, and none");
    check_costs();
    rig.now += 48 * 3600 * SL_S;
    CASE("the verdict and the answer as JSON");
    check_texts();
    close_rig();
    open_rig(&sl_alloc_libc);
    CASE("what was asked for is held and settled");
    check_asked();
    CASE("beyond a quota that may be exceeded, what is left is none");
    check_overage();
    close_rig();
    return CHECK_DONE();
}
