/* repeat.c -- the rules of engine/idempotency.c, by number; and webhooks. */
#include "asking.h"
#include "engine/engine_int.h"
#include "engine/render.h"

static const char policy[] =
    "sluice: 1\n"
    "limits:\n"
    "  api: { kind: fixed-window, per: user, rate: 2/hour }\n"
    "  all: { kind: fixed-window, per: [], rate: 50/hour }\n"
    "routes:\n"
    "  - { match: /d, dedupe: header.x-id, limits: [api, all] }\n"
    "  - match: /h\n"
    "    verify: { scheme: hmac-sha256, secret: 0123456789abcdef }\n"
    "    limits: [api]\n"
    "  - { match: /s, limits: [api] }\n"
    "default: [all]\n";

static struct sl_header id_header[] = {
    {{"x-id", 4}, {"1", 1}}
};

static struct sl_request ask_d(const char *user)
{
    return (struct sl_request){.method = SL_STR("POST"),
                               .path = SL_STR("/d"),
                               .user = sl_str_c(user),
                               .headers = id_header,
                               .header_count = 1};
}

static void test_allowed_only(struct rig *rig)
{
    struct sl_request facts = ask_d("ann");
    const struct sl_decision *d;

    CASE("(1) (4) what passed is remembered, and asked of no limit again");
    id_header[0].value = SL_STR("1");
    d = rig_ask(rig, facts);
    CHECK(d->allowed && !d->replayed);
    CHECK_EQ(d->shown[0].answer.remaining, 1);
    for (int i = 0; i < 5; i++) {
        d = rig_ask(rig, facts);
        CHECK(d->allowed && d->replayed);
        CHECK_EQ(d->shown[0].answer.remaining, 1);
        CHECK_EQ(d->shown[1].answer.remaining, 49);
    }
    CASE("(1) a refusal is not");
    id_header[0].value = SL_STR("2");
    facts.has_cost = true;
    facts.cost = 2;
    CHECK_EQ(rig_ask(rig, facts)->status, 429);
    facts.cost = 1;
    d = rig_ask(rig, facts);
    CHECK(d->allowed && !d->replayed);
}

static void test_callers(struct rig *rig)
{
    CASE("(2) another caller's key is another key");
    id_header[0].value = SL_STR("3");
    CHECK(!rig_ask(rig, ask_d("cid"))->replayed);
    CHECK(!rig_ask(rig, ask_d("dan"))->replayed);
    CHECK(rig_ask(rig, ask_d("cid"))->replayed);
}

/* Decide without asking the store yet. */
static void begin(struct rig *rig, struct sl_decision *d, struct sl_request *f)
{
    f->now = rig->now;
    CHECK_EQ(sl_decide_begin(d, rig->live, f, NULL, true,
                             sl_engine_secret(rig->engine), &rig->diag),
             0);
}

static void on_taken(struct sl_take *take)
{
    (void)take;
}

static void end(struct rig *rig, struct sl_decision *d, int err)
{
    while (!err && d->pending) {
        d->take.done = on_taken;
        sl_engine_take(rig->engine, d);
        sl_decide_took(d, rig->live);
    }
    sl_precheck_commit(d, rig->live, err);
}

static void test_running(struct rig *rig)
{
    struct sl_request facts = ask_d("eve"), other = ask_d("eve");
    struct sl_decision first, second;

    sl_decision_init(&first, &sl_alloc_libc);
    sl_decision_init(&second, &sl_alloc_libc);
    id_header[0].value = SL_STR("4");
    CASE("(3) while it is being answered: 409");
    begin(rig, &first, &facts);
    CHECK(first.pending);
    begin(rig, &second, &facts);
    CHECK_EQ(second.status, 409);
    CHECK_EQ(second.retry_in, SL_S);
    CHECK(sl_str_eq(second.code, SL_STR("CONFLICT")));
    end(rig, &second, 0);
    CASE("(3) and with another fingerprint: 422, before and after");
    other.path = SL_STR("/d?x");
    begin(rig, &second, &other);
    CHECK_EQ(second.status, 422);
    end(rig, &second, 0);
    end(rig, &first, 0);
    CHECK(first.allowed);
    begin(rig, &second, &other);
    CHECK_EQ(second.status, 422);
    CHECK_EQ(second.retry_in, SL_NS_NONE);
    begin(rig, &second, &facts);
    CHECK(second.allowed && second.replayed);

    CASE("one that fails is as if it had not come");
    id_header[0].value = SL_STR("5");
    begin(rig, &first, &facts);
    end(rig, &first, SLUICE_ENOMEM);
    begin(rig, &second, &facts);
    CHECK(second.pending && !second.replayed);
    end(rig, &second, 0);
    sl_decision_done(&first);
    sl_decision_done(&second);
}

static void test_waiting(struct rig *rig)
{
    struct sl_request facts = ask_d("eve"), other = ask_d("eve");
    struct sl_decision first, second;

    sl_decision_init(&first, &sl_alloc_libc);
    sl_decision_init(&second, &sl_alloc_libc);
    other.path = SL_STR("/d?x");
    CASE("one that waits and is asked again is no repeat of itself");
    id_header[0].value = SL_STR("7");
    begin(rig, &first, &facts);
    for (int i = 0; i < 2; i++) {
        sl_precheck_retry(&first, true);
        sl_decide_open(&first, rig->live, &facts, true,
                       sl_engine_secret(rig->engine));
        sl_precheck_retry(&first, false);
    }
    CHECK_EQ(sl_decide_descriptor(&first, rig->live, &facts, NULL,
                                  sl_engine_secret(rig->engine), &rig->diag),
             0);
    begin(rig, &second, &facts);
    CHECK_EQ(second.status, 409);
    sl_decide_ask(&first, rig->live);
    CHECK(first.pending);
    end(rig, &first, SLUICE_EFULL);
    CASE("nor does it hold what it has no more use for");
    begin(rig, &first, &facts);
    sl_precheck_retry(&first, true);
    sl_decide_open(&first, rig->live, &other, true,
                   sl_engine_secret(rig->engine));
    sl_precheck_retry(&first, false);
    end(rig, &first, 0);
    begin(rig, &second, &facts);
    CHECK(second.pending);
    end(rig, &second, SLUICE_EFULL);
    sl_decision_done(&first);
    sl_decision_done(&second);
}

static void test_explained(struct rig *rig)
{
    struct sl_request facts = ask_d("fay");
    struct sl_buf text;

    CASE("to explain claims nothing");
    id_header[0].value = SL_STR("6");
    facts.now = rig->now;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(sl_engine_decide(rig->engine, rig->live, &facts, false,
                                  &rig->d, &rig->diag),
                 0);
        CHECK(!rig->d.replayed);
    }
    CHECK(!rig_ask(rig, facts)->replayed);
    CHECK_EQ(sl_engine_decide(rig->engine, rig->live, &facts, false, &rig->d,
                              &rig->diag),
             0);
    CHECK(rig->d.replayed);
    sl_buf_init(&text, 1 << 16, &sl_alloc_libc);
    CHECK_EQ(sl_explain(&rig->d, &text), 0);
    CHECK(memmem(text.bytes, text.len, "allowed, as before (same", 24));
    sl_buf_done(&text);
}

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

static struct sl_header twice[] = {
    {{"X-Hub-Signature-256", 19}, {"a", 1}},
    {{"x-hub-signature-256", 19}, {"a", 1}},
};

static int hook(struct rig *rig, struct sl_str body, sl_webhook_f *who,
                unsigned headers, bool spend)
{
    struct sl_auth_info known = {.webhook = who};
    struct sl_request facts = {.method = SL_STR("POST"),
                               .path = SL_STR("/h"),
                               .user = SL_STR("hook"),
                               .headers = twice,
                               .header_count = headers,
                               .has_body = body.at,
                               .body = body,
                               .now = rig->now};

    rig->live = sl_engine_hold(rig->engine, rig->live);
    CHECK_EQ(sl_engine_decide_known(rig->engine, rig->live, &facts, &known,
                                    spend, &rig->d, &rig->diag),
             0);
    return rig->d.allowed ? 0 : (int)rig->d.webhook_fault;
}

static void test_webhooks(struct rig *rig)
{
    struct sl_str none = {NULL, 0};

    CASE("what is wrong with a webhook");
    CHECK_EQ(hook(rig, SL_STR("x"), believe, 0, true), SL_WEBHOOK_NO_HEADER);
    CHECK_EQ(hook(rig, SL_STR("x"), believe, 2, true), SL_WEBHOOK_TWICE);
    CHECK_EQ(hook(rig, none, believe, 1, true), SL_WEBHOOK_NO_BODY);
    CHECK_EQ(hook(rig, SL_STR("x"), NULL, 1, true), SL_WEBHOOK_NOT_HERE);
    CHECK_EQ(hook(rig, SL_STR("bad"), believe, 1, true), SL_WEBHOOK_SIGNATURE);
    CHECK_EQ(rig->d.status, 401);
    CASE("it passes once; to explain it changes nothing");
    CHECK_EQ(hook(rig, SL_STR("x"), believe, 1, false), 0);
    CHECK_EQ(hook(rig, SL_STR("x"), believe, 1, true), 0);
    CHECK_EQ(hook(rig, SL_STR("x"), believe, 1, true), SL_WEBHOOK_REPLAYED);
    CHECK_EQ(hook(rig, SL_STR("x"), believe, 1, false), SL_WEBHOOK_REPLAYED);
    rig->now += 300 * SL_S;
    CHECK_EQ(hook(rig, SL_STR("x"), believe, 1, true), 0);
    CASE("a limit that refuses it forgets it");
    CHECK_EQ(hook(rig, SL_STR("y"), believe, 1, true), SL_WEBHOOK_GOOD);
    CHECK_EQ(rig->d.status, 429);
    rig->now += 3600 * SL_S;
    CHECK_EQ(hook(rig, SL_STR("y"), believe, 1, true), 0);
    CHECK(rig->d.allowed);
}

int main(void)
{
    static struct rig rig;

    rig_open(&rig, policy);
    rig.now = 1000 * SL_S;
    test_allowed_only(&rig);
    test_callers(&rig);
    test_running(&rig);
    test_waiting(&rig);
    test_explained(&rig);
    test_webhooks(&rig);
    rig_close(&rig);
    return CHECK_DONE();
}
