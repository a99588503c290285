/* waiting.c -- a caller by his token, while the registry takes its time.
 *
 * The verifier of this test believes the only token that comes as long as its
 * keys are there, and remembers nothing; the registry answers when it is told
 * to.
 */
#include "asking.h"
#include "engine/check.h"

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity:\n"
    "  user: jwt.sub\n"
    "  trusted_proxies: [127.0.0.1]\n"
    "  jwt: { from: header.authorization, jwks: \"file:./keys.json\" }\n"
    "limits:\n"
    "  a: { kind: fixed-window, per: user, rate: { free: 5/day, pro: 9/day } "
    "}\n"
    "default: [a]\n";

struct desk {
    struct sl_tokens tokens; /* first */
    struct sl_subjects subjects;
    struct rig rig;
    struct sl_engine_ctx station;
    struct sl_check ask;
    struct sl_token token;
    struct sl_subject ann;
    struct sl_lookup *lookup; /* that waits */
    unsigned verified;
    bool has_keys, done;
};

static struct desk *the_desk;

static const struct sl_token *verify(struct sl_tokens *tokens,
                                     struct sl_str text,
                                     const struct sl_ip *from, sl_ns now,
                                     enum sl_token_error *why)
{
    struct desk *desk = (struct desk *)tokens;

    (void)text;
    (void)from;
    (void)now;
    desk->verified++;
    *why = desk->has_keys ? SL_TOKEN_GOOD : SL_TOKEN_NO_KEY;
    return desk->has_keys ? &desk->token : NULL;
}

static void find(struct sl_subjects *subjects, struct sl_lookup *lookup)
{
    (void)subjects;
    the_desk->lookup = lookup;
}

static const struct sl_tokens_calls tokens_calls = {.verify = verify};
static const struct sl_subjects_calls subjects_calls = {find};

static void on_done(struct sl_check *ask)
{
    ((struct desk *)ask->ctx)->done = true;
}

static void open_desk(struct desk *desk)
{
    memset(desk, 0, sizeof(*desk));
    the_desk = desk;
    rig_open(&desk->rig, policy);
    desk->tokens.calls = &tokens_calls;
    desk->subjects.calls = &subjects_calls;
    desk->station.tokens = &desk->tokens;
    desk->station.subjects = &desk->subjects;
    desk->token.claims[0] = (struct sl_claim){SL_STR("sub"), SL_STR("ann")};
    desk->token.claim_count = 1;
    desk->ann = (struct sl_subject){.refs = 1,
                                    .known = true,
                                    .id = SL_STR("ann"),
                                    .plan = SL_STR("pro"),
                                    .expires = SL_NS_NONE};
    sl_check_init(&desk->ask, desk->rig.engine, &desk->station, &sl_alloc_libc);
    desk->ask.done = on_done;
    desk->ask.ctx = desk;
}

static void close_desk(struct desk *desk)
{
    sl_check_done(&desk->ask);
    rig_close(&desk->rig);
}

/* Ask with a token; `user` is what the asker says himself. */
static void begin(struct desk *desk, struct sl_request *facts, const char *user)
{
    static const struct sl_header header = {
        {"authorization", 13},
        {"Bearer t",      8 }
    };

    *facts = (struct sl_request){.method = SL_STR("GET"),
                                 .path = SL_STR("/"),
                                 .user = sl_str_c(user),
                                 .ip = SL_STR("192.0.2.1"),
                                 .headers = &header,
                                 .header_count = 1};
    desk->done = false;
    desk->verified = 0;
    desk->lookup = NULL;
    sl_check_begin(&desk->ask, facts, true);
}

/* The registry answers: it is ann. */
static void answer(struct desk *desk)
{
    desk->lookup->found = sl_subject_ref(&desk->ann);
    desk->lookup->done(desk->lookup);
}

static uint64_t limit_of(const struct desk *desk)
{
    const struct sl_decision *d = &desk->ask.decision;

    return d->shown_count > 0 && d->shown[0].numbers
               ? d->shown[0].numbers->count
               : 0;
}

int main(void)
{
    static struct desk desk;
    struct sl_request facts;

    open_desk(&desk);
    CASE("his token, and then his plan");
    desk.has_keys = true;
    begin(&desk, &facts, "");
    CHECK(!desk.done);
    answer(&desk);
    CHECK(desk.done);
    CHECK_EQ(limit_of(&desk), 9);
    CHECK_EQ(desk.ann.refs, 1);

    CASE("whose token is not believed any more has nobody's plan");
    begin(&desk, &facts, "");
    desk.has_keys = false;
    answer(&desk);
    CHECK(desk.done);
    CHECK_EQ(limit_of(&desk), 5);
    CHECK(sl_str_eq(desk.ask.decision.shown[0].scope, SL_STR("ip")));
    CHECK_EQ(desk.ann.refs, 1);

    CASE("a bad token is looked at once");
    begin(&desk, &facts, "ann");
    CHECK_EQ(desk.verified, 1);
    answer(&desk);
    CHECK_EQ(desk.verified, 1);
    CHECK_EQ(limit_of(&desk), 9);
    CASE("the registry and the store share one deadline");
    desk.has_keys = true;
    begin(&desk, &facts, "");
    sl_lookup_wait(desk.lookup, 1000, 400);
    CHECK_EQ(desk.lookup->deadline, 1300);
    answer(&desk);
    CHECK(desk.done);
    CHECK_EQ(desk.ask.decision.take.deadline, 1400);
    CASE("which is the asker's, if that is earlier");
    facts.deadline = 1200;
    desk.done = false;
    sl_check_begin(&desk.ask, &facts, true);
    sl_lookup_wait(desk.lookup, 1000, 400);
    answer(&desk);
    CHECK_EQ(desk.ask.decision.take.deadline, 1200);
    CASE("and nobody's, if nobody has waited");
    begin(&desk, &facts, "");
    answer(&desk);
    CHECK_EQ(desk.ask.decision.take.deadline, 0);
    close_desk(&desk);
    return CHECK_DONE();
}
