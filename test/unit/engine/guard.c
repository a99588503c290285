/* guard.c -- repeats, webhooks and guards: what no flow sees of the rules of
 * engine/idempotency.c and engine/precheck.c, by number. The rest is in
 * test/flow/g01-webhooks, g02-repeats and k01-guards. */
#include "engine/engine_int.h"

#include "fixture.h"

static const char policy[] =
    "sluice: 1\n"
    "env: prod\n"
    "limits:\n"
    "  api: { kind: fixed-window, per: user, rate: 2/hour }\n"
    "  all: { kind: fixed-window, per: [], rate: 50/hour }\n"
    "  spiky: { kind: fixed-window, per: user, rate: 1/hour, credits: pool }\n"
    "  pool: { kind: quota, per: user, rate: 9/day }\n"
    "routes:\n"
    "  - { match: /d, dedupe: header.x-id, limits: [api, all] }\n"
    "  - { match: /p, dedupe: header.x-id, limits: [spiky] }\n"
    "  - match: /h\n"
    "    verify: { scheme: hmac-sha256, secret: 0123456789abcdef }\n"
    "    limits: [api]\n"
    "  - { match: /f, guard: \"f:{org}:{header.x-id}\", limits: [] }\n"
    "  - { match: /c, limits: [all], cost: body./n default 1 }\n"
    "default: []\n";

static struct rig rig;
static struct sl_header headers[] = {
    {{"X-Id", 4}, {"1", 1}},
    {{"x-id", 4}, {"1", 1}},
};

/* POST `path` with x-id. */
static struct sl_request post(const char *path, const char *id)
{
    headers[0].value = sl_str_c(id);
    return (struct sl_request){.method = SL_STR("POST"),
                               .path = sl_str_c(path),
                               .ip = SL_STR("192.0.2.1"),
                               USER("eve"),
                               ORG("acme"),
                               .headers = headers,
                               .header_count = 1};
}

/* ---- repeats ---- */

/* Two checks. The take of each waits until end(). */
static struct sl_check first, second;

static bool on_defers(struct sl_check *check, bool may)
{
    (void)may;
    (void)check;
    return true;
}

/* Decide without asking the store yet. */
static void begin(struct sl_check *c, struct sl_request *f)
{
    f->now = rig.now;
    c->defers = on_defers;
    sl_check_ref_policy(c);
    sl_check_start(c, f, 1, true);
}

/* Ask the store, or let the check fail. */
static void end(struct sl_check *c, int err)
{
    if (err)
        sl_check_finish(c, err);
    else
        sl_check_resume(c);
    CHECK(!c->busy);
}

static void test_running(void)
{
    struct sl_request request = post("/d", "4"), other = post("/d?x", "4");

    CASE("(3) while it is being answered: 409");
    begin(&first, &request);
    CHECK(first.busy);
    begin(&second, &request);
    CHECK_EQ(second.decision.status, 409);
    CHECK_EQ(second.decision.retry_in, SL_S);
    CHECK(sl_str_eq(second.decision.code, SL_STR("CONFLICT")));
    CASE("(3) and with another fingerprint: 422, before and after");
    begin(&second, &other);
    CHECK_EQ(second.decision.status, 422);
    end(&first, 0);
    CHECK(first.decision.allowed);
    begin(&second, &other);
    CHECK_EQ(second.decision.status, 422);
    CHECK_EQ(second.decision.retry_in, SL_NS_NONE);
    begin(&second, &request);
    CHECK(second.decision.allowed && second.decision.replayed);
    CHECK_EQ(second.decision.shown[0].answer.remaining, 1); /* (4), of all */
    CHECK_EQ(second.decision.shown[1].answer.remaining, 49);

    CASE("one that fails is as if it had not come");
    request = post("/d", "5");
    begin(&first, &request);
    end(&first, SLUICE_ENOMEM);
    begin(&second, &request);
    CHECK(second.busy && !second.decision.replayed);
    end(&second, 0);
}

/* Its turn has come: asked again, as one that waited is. */
static void again(struct sl_request *request)
{
    first.again = *request;
    first.again.now = rig.now;
    first.state = SL_CHECK_WAIT;
    sl_check_resume(&first);
}

static void test_waiting(void)
{
    struct sl_request request = post("/d", "7"), other;

    CASE("one that waits and is asked again is no repeat of itself");
    begin(&first, &request);
    again(&request);
    again(&request);
    CHECK(first.busy);
    begin(&second, &request);
    CHECK_EQ(second.decision.status, 409);
    end(&first, SLUICE_EFULL);
    CASE("nor does it hold what it has no more use for");
    begin(&first, &request);
    other = post("/d", "8");
    again(&other);
    end(&first, SLUICE_EFULL);
    request = post("/d", "7");
    begin(&second, &request);
    CHECK(second.busy);
    end(&second, SLUICE_EFULL);
}

static void test_repeat_explained(void)
{
    struct sl_request request = post("/d", "6");

    CASE("to explain claims nothing");
    request.user = SL_STR("fay");
    for (int i = 0; i < 2; i++) {
        rig_explain(&rig, request);
        CHECK(!rig.d.replayed);
    }
    CHECK(!rig_ask(&rig, request)->replayed);
    CHECK(has(rig_explain(&rig, request), "allowed, as before"));
    CHECK(rig.d.replayed);
}

/* Asks twice: the header is the only difference. Do credits pay? */
static bool repeat_is_paid(struct sl_request request)
{
    char before[2048];
    bool paid;

    rig_ask(&rig, request);
    snprintf(before, sizeof(before), "%s", rig_json(&rig.d, false));
    paid = strstr(before, "\"credits\":1") && strstr(before, "\"pool\"");
    CHECK(rig_ask(&rig, request)->replayed);
    rig.d.replayed = false;
    CHECK_STR(rig_json(&rig.d, false), before);
    return paid;
}

static void test_repeat_credits(void)
{
    struct sl_request request = post("/p", "7");

    request.request_id = SL_STR("r");
    CASE("credits that do not pay are hidden, in a repeat too");
    CHECK(!repeat_is_paid(request));
    CASE("a repeat of what credits paid has the same verdict");
    headers[0].value = SL_STR("8");
    CHECK(repeat_is_paid(request));
    CASE("and says so when it is explained");
    CHECK(has(rig_explain(&rig, request), "denies, and 1 credits of pool pay"));
    CHECK(rig.d.replayed);
}

/* ---- webhooks ---- */

/* A verifier that believes everything but "bad". */
static enum sl_webhook_fault believe(const struct sl_webhook_rules *rules,
                                     const struct sl_webhook *message,
                                     sl_ns now, struct sl_webhook_seen *ret)
{
    CHECK_EQ(rules->secret_count, 1);
    *ret = (struct sl_webhook_seen){
        {"", 0},
        now + rules->tolerance
    };
    return sl_str_eq(message->body, SL_STR("bad")) ? SL_WEBHOOK_SIGNATURE
                                                   : SL_WEBHOOK_GOOD;
}

static const struct {
    const char *why, *body;
    bool verifies;
    unsigned headers;
    bool spend;
    unsigned after; /* seconds */
    enum sl_webhook_fault fault;
    bool replayed;
} hooks[] = {
    {"no header",   "x",   true,  0, true,  0,   SL_WEBHOOK_NO_HEADER, false},
    {"two headers", "x",   true,  2, true,  0,   SL_WEBHOOK_TWICE,     false},
    {"no body",     NULL,  true,  1, true,  0,   SL_WEBHOOK_NO_BODY,   false},
    {"no verifier", "x",   false, 1, true,  0,   SL_WEBHOOK_NOT_HERE,  false},
    {"a bad one",   "bad", true,  1, true,  0,   SL_WEBHOOK_SIGNATURE, false},
    {"explained",   "x",   true,  1, false, 0,   SL_WEBHOOK_GOOD,      false},
    {"as it is",    "x",   true,  1, true,  0,   SL_WEBHOOK_GOOD,      false},
    {"and again",   "x",   true,  1, true,  0,   SL_WEBHOOK_GOOD,      true },
    {"the same",    "x",   true,  1, false, 0,   SL_WEBHOOK_GOOD,      true },
    {"old by now",  "x",   true,  1, true,  300, SL_WEBHOOK_GOOD,      false},
};

static void test_webhooks(void)
{
    static const struct sl_header twice[] = {
        {{"X-Hub-Signature-256", 19}, {"a", 1}},
        {{"x-hub-signature-256", 19}, {"a", 1}},
    };
    sl_ns begin_at = rig.now;

    for (size_t i = 0; i < SL_LEN(hooks); i++) {
        struct sl_auth_info known = {.webhook =
                                         hooks[i].verifies ? believe : NULL};
        struct sl_request request = post("/h", "");

        request.user = SL_STR("hook");
        request.headers = twice;
        request.header_count = hooks[i].headers;
        request.has_body = hooks[i].body != NULL;
        request.body = sl_str_c(hooks[i].body);
        request.now = rig.now = begin_at + hooks[i].after * SL_S;
        CASE(hooks[i].why);
        CHECK_EQ(rig_decide(&rig, &request, 1, &known, hooks[i].spend), 0);
        CHECK_EQ(rig.d.webhook_fault, hooks[i].fault);
        CHECK_EQ(rig.d.status, hooks[i].fault ? 401 : 200);
        CHECK_EQ(rig.d.replayed, hooks[i].replayed);
    }
}

/* ---- costs ---- */

static void test_long_body(void)
{
    static char body[SL_BODY_READ + 1];
    struct sl_request request = post("/c", "");

    memset(body, ' ', sizeof(body));
    memcpy(body, "{}", 2);
    request.has_body = true;
    request.body = (struct sl_str){body, SL_BODY_READ};
    CASE("a body that is read has the default cost");
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    CASE("one that is too long has none");
    request.body.len++;
    CHECK_EQ(rig_ask(&rig, request)->status, 400);
    CHECK_EQ(rig.d.reason, SL_REASON_COST);
}

/* ---- guards ---- */

static void test_guard(void)
{
    struct sl_request request = post("/f", "1");

    CASE("(1) the next is refused, and no limit is named");
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    CHECK_EQ(rig.d.shown_count, 0);
    CHECK_EQ(rig.d.hold_for, 60 * SL_S);
    CHECK_EQ(rig_ask(&rig, request)->reason, SL_REASON_CONFLICT);
    CHECK(rig.d.by == -1 && rig.d.report == -1);
    CHECK_STR(rig.d.hold, "");
    CASE("(1) until its time is over, to the nanosecond");
    rig.now += 60 * SL_S - 1;
    CHECK_EQ(rig_ask(&rig, request)->status, 409);
    rig.now++;
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    CASE("(3) a header that comes twice is none");
    request.header_count = 2;
    CHECK_EQ(rig_ask(&rig, request)->status, 400);
    CASE("(5) a charge and a refund do not ask the guard");
    request = post("/f", "1");
    request.charge = true;
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    request.charge = false;
    request.give_back = true;
    CHECK_EQ(rig_ask(&rig, request)->status, 200);
    request.give_back = false;
    CHECK_EQ(rig_ask(&rig, request)->status, 409);
}

static void test_keys(void)
{
    static char longs[2][700];

    CASE("(2) long values that differ are two");
    for (int i = 0; i < 2; i++) {
        memset(longs[i], 'x', sizeof(longs[i]) - 1);
        longs[i][600] = (char)('0' + i);
        CHECK_EQ(rig_ask(&rig, post("/f", longs[i]))->status, 200);
        CHECK_EQ(rig_ask(&rig, post("/f", longs[i]))->status, 409);
    }
    CASE("to explain takes nothing, and shows what runs");
    CHECK(has(rig_explain(&rig, post("/f", "b:c")),
              "guard    f:acme:b%3Ac, one at a time"));
    CHECK_EQ(rig_ask(&rig, post("/f", "b:c"))->status, 200);
    CHECK(has(rig_explain(&rig, post("/f", "b:c")),
              "guard    f:acme:b%3Ac, where another request is running"));
    CHECK_EQ(rig.d.status, 409);
    CASE("its name in a store that is shared");
    rig.active->wants_names = true;
    CHECK_EQ(rig_ask(&rig, post("/f", "a:b c"))->status, 200);
    CHECK_STR(rig.d.running[0].name.at, "sluice:prod:#guard:f:acme:a%3Ab%20c");
    CHECK_STR(rig.d.shown[0].name.at, "sluice:prod:#guard:f:acme:a%3Ab%20c");
    CASE("without memory it is an error, and nothing leaks");
    CHECK(rig_no_memory(&rig, post("/f", "new")) > 1);
}

int main(void)
{
    rig_open(&rig, policy);
    rig.now = 1000 * SL_S;
    rig_check(&first, rig.engine, &sl_alloc_libc);
    rig_check(&second, rig.engine, &sl_alloc_libc);
    test_running();
    test_waiting();
    test_repeat_explained();
    test_repeat_credits();
    test_webhooks();
    test_long_body();
    test_guard();
    test_keys();
    sl_check_done(&first);
    sl_check_done(&second);
    rig_close(&rig);
    return CHECK_DONE();
}
