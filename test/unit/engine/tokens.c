/* tokens.c -- where a token is found, which user it names, and a registry that
 * answers late.
 *
 * The verifier of this test believes "good.NAME" while it has keys and calls
 * every other text expired; src/identity has its own tests. What routes make of
 * tokens is in test/flow/i02-tokens.
 */
#include "engine/check.h"
#include "fixture.h"

#define MAX_FIELDS 4

/* ---- a verifier ---- */

struct fake {
    struct sl_tokens tokens;
    struct sl_token token;
    unsigned asked;
    bool had_ip, no_keys;
};

static const struct sl_token *verify(struct sl_tokens *tokens,
                                     struct sl_str text,
                                     const struct sl_ip *from, sl_ns now,
                                     enum sl_token_error *why)
{
    struct fake *fake = (struct fake *)tokens;
    struct sl_str word = text;

    (void)now;
    fake->asked++;
    fake->had_ip = from != NULL;
    word.len = text.len < 5 ? text.len : 5;
    if (!sl_str_eq(word, SL_STR("good.")) || fake->no_keys) {
        *why = SL_TOKEN_EXPIRED;
        return NULL;
    }
    fake->token.claims[0] =
        (struct sl_claim){SL_STR("sub"), sl_str_from(text, 5)};
    fake->token.claim_count = 1;
    *why = SL_TOKEN_GOOD;
    return &fake->token;
}

static const struct sl_tokens_calls calls = {.verify = verify};

/* ---- a registry ---- */

static struct sl_lookup *lookup; /* that waits */

static void find(struct sl_subjects *subjects, struct sl_lookup *asked)
{
    (void)subjects;
    lookup = asked;
}

static const struct sl_subjects_calls subjects_calls = {find};

/* ---- asking ---- */

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity:\n"
    "  user: [jwt.sub, header.x-user, cookie.user]\n"
    "  trusted_proxies: [127.0.0.1]\n"
    "  jwt:\n"
    "    from: [header.authorization, header.x-token, cookie.session]\n"
    "    jwks: \"file:./keys.json\"\n"
    "limits:\n"
    "  a: { kind: token-bucket, per: user, rate: { free: 5/min, pro: 9/min } "
    "}\n"
    "  needs: { kind: token-bucket, per: user, missing: deny, rate: 5/min }\n"
    "routes:\n"
    "  - { match: /deny, anonymous: deny, limits: [a] }\n"
    "  - { match: /needs, limits: [needs] }\n"
    "default: [a]\n";

struct desk {
    struct rig rig;
    struct fake fake;
    struct sl_engine_ctx station;
    struct sl_check ask;
    bool done;
};

static void on_done(struct sl_check *ask)
{
    ((struct desk *)ask->ctx)->done = true;
}

static void desk_open(struct desk *desk)
{
    memset(desk, 0, sizeof(*desk));
    rig_open(&desk->rig, policy);
    desk->fake.tokens.calls = &calls;
    desk->station.tokens = &desk->fake.tokens;
    sl_check_init(&desk->ask, desk->rig.engine, &desk->station, &sl_alloc_libc);
    desk->ask.done = on_done;
    desk->ask.ctx = desk;
}

static void desk_close(struct desk *desk)
{
    sl_check_done(&desk->ask);
    rig_close(&desk->rig);
}

static const struct sl_decision *ask(struct desk *desk, struct sl_request facts)
{
    desk->done = false;
    sl_check_start(&desk->ask, &facts, 1, true);
    CHECK(desk->done);
    CHECK_EQ(desk->ask.err, 0);
    return &desk->ask.decision;
}

/* The user that the decision found; "" if none. */
static const char *user_of(const struct sl_decision *d, char out[64])
{
    out[0] = '\0';
    for (unsigned i = 0; i < d->who_count; i++)
        if (sl_str_eq(d->who[i].scope, SL_STR("user")))
            snprintf(out, 64, "%.*s", SL_STR_ARG(d->who[i].value));
    return out;
}

/* ---- where it is found ---- */

struct row {
    const char *why;
    const char *fields[2 * MAX_FIELDS]; /* name, value, ... */
    bool trusted;
    const char *user;
    enum sl_token_error fault;
};

/* A stranger's request, and one of a peer that may speak for others. */
#define FROM_ANY(why, user, fault, ...)                                        \
    {                                                                          \
        why, {__VA_ARGS__}, false, user, SL_TOKEN_##fault                      \
    }
#define FROM_OWN(why, user, fault, ...)                                        \
    {                                                                          \
        why, {__VA_ARGS__}, true, user, SL_TOKEN_##fault                       \
    }

static const struct row rows[] = {
    FROM_ANY("no token at all", "", GOOD, NULL),
    FROM_ANY("a bearer", "ann", GOOD, "Authorization", "Bearer good.ann"),
    FROM_ANY("its word in any case", "ann", GOOD, "AUTHORIZATION",
             "bEARER  good.ann "),
    FROM_ANY("another scheme is none of ours", "", GOOD, "Authorization",
             "Basic good.ann"),
    FROM_ANY("a word that only begins so", "", GOOD, "Authorization",
             "Bearergood.ann"),
    FROM_ANY("the word alone", "", MALFORMED, "Authorization", "Bearer"),
    FROM_ANY("without the word, Authorization has none", "", GOOD,
             "Authorization", "good.ann"),
    FROM_ANY("twice, even if alike", "", MALFORMED, "Authorization",
             "Bearer good.ann", "authorization", "Bearer good.ann"),
    FROM_ANY("a bad one", "", EXPIRED, "Authorization", "Bearer bad.ann"),
    FROM_ANY("a bad one goes before a good cookie", "", EXPIRED,
             "Authorization", "Bearer bad.ann", "Cookie", "session=good.eve"),
    FROM_ANY("a header of its own needs no word", "bob", GOOD, "X-Token",
             "good.bob"),
    FROM_ANY("and may have one", "bob", GOOD, "X-Token", "Bearer good.bob"),
    FROM_ANY("the first source wins", "ann", GOOD, "X-Token", "good.bob",
             "Authorization", "Bearer good.ann"),
    FROM_ANY("behind another scheme the next source counts", "eve", GOOD,
             "Authorization", "Basic x", "Cookie", "session=good.eve"),
    FROM_ANY("a cookie among others", "eve", GOOD, "Cookie",
             "a=1; session=good.eve;b=2; sessions=good.bob"),
    FROM_ANY("in quotes", "eve", GOOD, "Cookie", "session=\"good.eve\""),
    FROM_ANY("a cookie's name has its case", "", GOOD, "Cookie",
             "Session=good.eve"),
    FROM_ANY("an empty cookie is none", "", GOOD, "Cookie", "session="),
    FROM_ANY("a cookie twice in a field", "", MALFORMED, "Cookie",
             "session=good.eve; session="),
    FROM_ANY("a cookie twice in two fields", "", MALFORMED, "Cookie",
             "session=good.eve", "Cookie", "session=good.eve"),
    FROM_ANY("cookies in several fields", "eve", GOOD, "Cookie", "a=1",
             "Cookie", "session=good.eve", "Cookie", "b=2"),
    FROM_ANY("rubbish in cookies", "", GOOD, "Cookie",
             ";;=;session;=good.x; session =good.y"),
    FROM_ANY("a stranger's headers name nobody", "", GOOD, "X-User", "ann"),
    FROM_ANY("a stranger's cookies name nobody", "", GOOD, "Cookie",
             "user=ann"),
    FROM_OWN("a trusted header does", "ann", GOOD, "X-User", "ann"),
    FROM_OWN("a trusted cookie does", "ann", GOOD, "Cookie", "user=ann"),
    FROM_OWN("a trusted cookie twice does not", "", GOOD, "Cookie",
             "user=ann; user=ann"),
    FROM_OWN("a token goes before a header", "ann", GOOD, "X-User", "eve",
             "Authorization", "Bearer good.ann"),
    FROM_OWN("behind a bad one a trusted header counts", "eve", EXPIRED,
             "X-User", "eve", "Authorization", "Bearer bad.ann"),
};

static void test_row(struct desk *desk, const struct row *row)
{
    struct sl_header fields[MAX_FIELDS];
    struct sl_request facts = GET("/x", .headers = fields);
    const struct sl_decision *d;
    char user[64];

    facts.trusted = row->trusted;
    for (; row->fields[2 * facts.header_count]; facts.header_count++)
        fields[facts.header_count] = (struct sl_header){
            sl_str_c(row->fields[2 * facts.header_count]),
            sl_str_c(row->fields[2 * facts.header_count + 1])};
    d = ask(desk, facts);
    CASE(row->why);
    CHECK_STR(user_of(d, user), row->user);
    CHECK_EQ(d->token_fault, row->fault);
    CHECK_EQ(d->anonymous, row->user[0] == '\0');
    if (facts.header_count > 0)
        CHECK(sl_request_wanted(d->policy, fields[0].name));
}

static void test_rows(void)
{
    struct desk desk;

    desk_open(&desk);
    for (size_t i = 0; i < SL_LEN(rows); i++)
        test_row(&desk, &rows[i]);
    desk_close(&desk);
}

#define WITH(path_, token)                                                     \
    GET(path_,                                                                 \
        .headers = &(struct sl_header){SL_STR("authorization"),                \
                                       SL_STR("Bearer " token)},               \
        .header_count = 1)

/* A bad token is blamed on the address that it comes from. */
static void test_blame(void)
{
    struct desk desk;
    struct sl_request proxied = WITH("/x", "bad");

    desk_open(&desk);
    CASE("what the caller says goes before the token");
    proxied.user = SL_STR("bob");
    CHECK_STR(ask(&desk, proxied)->shown[0].id, "bob");
    CHECK(desk.fake.had_ip);
    CASE("a proxy that names nobody is not blamed for its clients");
    proxied.user = SL_STR("");
    proxied.ip = SL_STR("127.0.0.1");
    ask(&desk, proxied);
    CHECK(!desk.fake.had_ip);
    CHECK(!desk.ask.decision.token_good);
    CHECK(ask(&desk, WITH("/x", "good.ann"))->token_good);
    CASE("without a verifier no token is believed");
    desk.station.tokens = NULL;
    desk.fake.asked = 0;
    CHECK(ask(&desk, WITH("/x", "good.ann"))->anonymous);
    CHECK_EQ(desk.fake.asked, 0);
    desk_close(&desk);
}

/* ---- what is said ---- */

static bool says(const struct sl_decision *d, const char *text)
{
    return has(rig_json(d, true), text);
}

static void test_words(void)
{
    struct desk desk;
    const struct sl_decision *d;

    desk_open(&desk);
    CASE("a bad token is told");
    d = ask(&desk, WITH("/deny", "bad.ann"));
    CHECK(says(d, "\"token_fault\":\"expired\""));
    CHECK(says(d, "token    rejected: the token has expired\\n"));
    CHECK(says(d, "\"detail\":\"The caller is not authenticated: the token has "
                  "expired.\""));
    CHECK(says(d, "\"WWW-Authenticate\":\"Bearer error=\\\"invalid_token\\\", "
                  "error_description=\\\"the token has expired\\\"\""));
    CHECK(!memmem(&d->request_id, sizeof(d->request_id), "bad.ann", 7));
    CASE("without one, who could be is asked for");
    d = ask(&desk, GET("/deny", .header_count = 0));
    CHECK(says(d, "\"token_fault\":null"));
    CHECK(says(d, "\"WWW-Authenticate\":\"Bearer\""));
    CASE("what is missing is said with a bad token too");
    d = ask(&desk, WITH("/needs", "bad.ann"));
    CHECK(says(d, "The caller is not authenticated: the token has expired."));
    desk_close(&desk);
}

/* Every fault has a sentence that fits into a header. */
static void test_faults(void)
{
    struct desk desk;
    struct sl_decision *d;

    CASE("each fault can be said");
    desk_open(&desk);
    ask(&desk, WITH("/deny", "bad.ann"));
    d = &desk.ask.decision;
    for (int i = 1; i < SL_TOKEN_ERRORS; i++) {
        char begins[128];
        bool ours = i == SL_TOKEN_NO_KEYS || i == SL_TOKEN_HELD_BACK ||
                    i == SL_TOKEN_NO_MEMORY;

        d->token_fault = (enum sl_token_error)i;
        CHECK(says(d, sl_token_error_word(d->token_fault)));
        snprintf(begins, sizeof(begins), "%s",
                 sl_token_error_sentence(d->token_fault));
        begins[strcspn(begins, "\"")] = '\0'; /* JSON escapes the rest */
        CHECK(says(d, begins));
        CHECK_EQ(!strstr(rig_json(d, true), "invalid_token"), ours);
    }
    desk_close(&desk);
}

/* ---- a registry that takes its time ---- */

/* Ask with a token; `user` is what the asker says. */
static void begin(struct desk *desk, struct sl_request *facts, const char *user)
{
    static const struct sl_header good = {
        {"authorization",   13},
        {"Bearer good.ann", 15}
    };

    *facts = GET("/x", .headers = &good, .header_count = 1);
    facts->user = sl_str_c(user);
    desk->done = false;
    desk->fake.asked = 0;
    sl_check_start(&desk->ask, facts, 1, true);
    CHECK(!desk->done);
}

static struct sl_subject ann = {
    .refs = 1, .known = true, .expires = SL_NS_NONE};

/* The registry answers: it is ann, who pays. */
static void answer(struct desk *desk)
{
    lookup->found = sl_subject_ref(&ann);
    lookup->done(lookup);
    CHECK(desk->done);
    CHECK_EQ(ann.refs, 1);
}

static uint64_t limit_of(const struct desk *desk)
{
    return desk->ask.decision.shown[0].numbers->count;
}

static void test_waiting(void)
{
    struct sl_subjects subjects = {.calls = &subjects_calls};
    struct sl_request facts;
    struct desk desk;

    desk_open(&desk);
    desk.station.subjects = &subjects;
    ann.id = SL_STR("ann");
    ann.plan = SL_STR("pro");
    CASE("the caller's token, and then the plan");
    begin(&desk, &facts, "");
    answer(&desk);
    CHECK_EQ(limit_of(&desk), 9);
    CASE("a token that is not believed any more gives no plan");
    begin(&desk, &facts, "");
    desk.fake.no_keys = true;
    answer(&desk);
    CHECK_EQ(limit_of(&desk), 5);
    CHECK(sl_str_eq(desk.ask.decision.shown[0].scope, SL_STR("ip")));
    CASE("a bad token is looked at once");
    begin(&desk, &facts, "ann");
    CHECK_EQ(desk.fake.asked, 1);
    answer(&desk);
    CHECK_EQ(desk.fake.asked, 1);
    CHECK_EQ(limit_of(&desk), 9);
    CASE("the registry and the store share one deadline");
    desk.fake.no_keys = false;
    begin(&desk, &facts, "");
    sl_lookup_wait(lookup, 1000, 400);
    CHECK_EQ(lookup->deadline, 1300);
    answer(&desk);
    CHECK_EQ(desk.ask.decision.take.deadline, 1400);
    CASE("which is the asker's, if that is earlier");
    facts.deadline = 1200;
    desk.done = false;
    sl_check_start(&desk.ask, &facts, 1, true);
    sl_lookup_wait(lookup, 1000, 400);
    answer(&desk);
    CHECK_EQ(desk.ask.decision.take.deadline, 1200);
    CASE("and none, if no lookup has waited");
    begin(&desk, &facts, "");
    answer(&desk);
    CHECK_EQ(desk.ask.decision.take.deadline, 0);
    desk_close(&desk);
}

int main(void)
{
    test_rows();
    test_blame();
    test_words();
    test_faults();
    test_waiting();
    return CHECK_DONE();
}
