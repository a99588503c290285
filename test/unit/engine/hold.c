/* hold.c -- names of holds, and how a hold ends if the store is late, fails or
 * is full. How holds count is in test/flow/h01-holds. */
#include "engine/hold_op.h"

#include "engine/engine_int.h"
#include "fixture.h"
#include "holding.h"

static const char policy[] =
    "sluice: 1\n"
    "hold_max: 10m\n"
    "limits:\n"
    "  calls: { kind: fixed-window, per: org, rate: 2000/day, cost: 1 }\n"
    "  tokens: { kind: quota, per: org, rate: 1000/day }\n"
    "  sem: { kind: concurrency, per: org, rate: 2, hold: 90s }\n"
    "  wide: { kind: concurrency, per: [], rate: 5 }\n"
    "routes:\n"
    "  - { match: /llm, endpoint: llm, limits: [calls, tokens] }\n"
    "  - { match: /work, limits: [calls, sem, wide] }\n"
    "  - { match: /permits, limits: [sem] }\n"
    "default: []\n";

static struct holding store;
static struct rig rig;
static struct sl_hold_op op;
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
    sl_hold_op_init(&op, rig.engine, NULL, alloc);
    op.done = on_done;
}

static void close_rig(void)
{
    sl_hold_op_done(&op);
    rig_close(&rig);
}

static int end(enum sl_hold_verb verb, const char *name,
               struct sl_hold_op_input q)
{
    q.verb = verb;
    q.name = sl_str_c(name);
    q.now = rig.now;
    sl_hold_op_begin(&op, &q);
    return op.err;
}

#define SETTLE(name, ...)                                                      \
    end(SL_VERB_SETTLE, name, (struct sl_hold_op_input){__VA_ARGS__})
#define RELEASE(name)                                                          \
    end(SL_VERB_RELEASE, name, (struct sl_hold_op_input){.now = 0})

/* The hold of a request by acme. The last eight names are kept. */
static const char *take(const char *path, sl_ns hold, uint64_t cost)
{
    static char names[8][SL_HOLD_TEXT];
    static unsigned at;
    struct sl_request request = GET("/", ORG("acme"), COST(cost), .hold = hold);

    request.path = sl_str_c(path);
    at = (at + 1) % 8;
    memcpy(names[at], rig_ask(&rig, request)->hold, SL_HOLD_TEXT);
    return names[at];
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

static void check_taken(void)
{
    static const struct sl_cost token[] = {
        {{"token", 5}, 7}
    };
    const char *hold = take("/llm", 30 * SL_S, 100);
    struct sl_hold_name name;

    CHECK_EQ(strlen(hold), 40);
    CHECK(sl_hold_name_read(sl_str_c(hold), &name));
    CHECK_STR(sl_hold_find_endpoint(rig.active->policy, name.endpoint).at,
              "llm");
    CHECK_EQ(rig.d.hold_for, 30 * SL_S);
    CHECK_EQ(SETTLE(hold, .costs = token, .cost_count = 1), SLUICE_ECONF);
    CHECK_STR(op.diag.sentence, "the policy has no limit \"token\"");
    take("/llm", 24 * 3600 * SL_S, 1);
    CHECK_EQ(rig.d.hold_for, 600 * SL_S); /* hold_max */
    take("/work", 0, 1);
    CHECK_EQ(rig.d.hold_for, 90 * SL_S);            /* the longer of both */
    CHECK_EQ(store.list[store.count - 1].count, 2); /* `calls` is not held */
    CHECK_STR(take("/permits", 0, 0), "");          /* cost 0 holds nothing */
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

/* Usage that cannot be recorded is not acknowledged. */
static void check_full_journal(void)
{
    const char *hold = take("/llm", SL_S, 1);
    struct sl_usage_sink meter = {.full = true};
    struct sl_engine_ctx ctx = {.meter = &meter};

    op.engine_ctx = &ctx;
    meter.no_room = true;
    CHECK_EQ(SETTLE(hold, .has_cost = true, .cost = 5), SLUICE_ESTORE);
    CHECK(has(op.diag.sentence, "journal is full"));
    op.engine_ctx = NULL;
    CHECK_EQ(SETTLE(hold, .has_cost = true, .cost = 5), 0);
    CHECK_STR(sl_hold_state_word(&op), "settled");
    CHECK(!sl_hold_is_again(&op));
}

static void check_late(void)
{
    const char *hold = take("/permits", SL_S, 1);
    unsigned before = answered;

    store.late = true;
    RELEASE(hold);
    CHECK_EQ(answered, before);
    CHECK(op.busy);
    holding_answer(&store);
    CHECK_EQ(answered, before + 1);
    CHECK(!op.busy);
    CHECK_STR(sl_hold_state_word(&op), "released");
    store.late = false;
}

/* Neither the verdict nor the answer depends on memory in between. */
static void check_memory(void)
{
    const char *hold = take("/llm", SL_S, 1);
    sl_hold_op_done(&op);
    for (unsigned n = 1;; n++) {
        struct fail fail = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&fail);
        int err;

        sl_hold_op_init(&op, rig.engine, NULL, &alloc);
        op.done = on_done;
        err = SETTLE(hold, .has_cost = true, .cost = 1);
        sl_hold_op_done(&op);
        fail_check(&fail);
        if (!err) {
            CHECK(n > 1);
            break;
        }
        CHECK_EQ(err, SLUICE_ENOMEM);
    }
    sl_hold_op_init(&op, rig.engine, NULL, &sl_alloc_libc);
    op.done = on_done;
}

/* ---- texts ---- */

static void check_texts(void)
{
    const char *hold = take("/llm", 1500 * SL_MS, 10), *text;
    struct sl_buf out;
    char want[128];

    text = rig_json(&rig.d, false);
    snprintf(want, sizeof(want),
             "\"hold\":\"%s\",\"hold_expires_ms\":1500,\"limits\":", hold);
    CHECK(has(text, want));
    snprintf(want, sizeof(want), "\"X-Sluice-Hold\":\"%s\"", hold);
    CHECK(has(text, want));
    sl_buf_init(&out, 1 << 16, &sl_alloc_libc);
    CHECK_EQ(SETTLE(hold, .has_cost = true, .cost = 2000), 0);
    CHECK_EQ(sl_hold_render(&op, &out), 0);
    text = rig_text(&out);
    CHECK(has(text, "\"state\":\"settled\",\"again\":false,"
                    "\"expires_ms\":null,\"limits\":[{\"name\":"
                    "\"calls\",\"held\":10,\"cost\":10,"));
    CHECK(has(text, "{\"name\":\"tokens\",\"held\":10,\"cost\":2000,"
                    "\"remaining\":0,"));
}

int main(void)
{
    CASE("names are read as they are written, and no others");
    check_names();
    open_rig(&sl_alloc_libc);
    CASE("what is held, how long and by which name");
    check_taken();
    CASE("no room, no store, no such hold");
    check_trouble();
    CASE("without room in the usage journal a hold does not end");
    check_full_journal();
    CASE("an answer may come later");
    check_late();
    CASE("without memory nothing is ended");
    check_memory();
    rig.now += 48 * 3600 * SL_S;
    CASE("the verdict and the answer as JSON");
    check_texts();
    close_rig();
    return CHECK_DONE();
}
