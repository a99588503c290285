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

/* No address is blocked. */
static void find(struct sl_subjects *subjects, struct sl_lookup *asked)
{
    (void)subjects;
    if (sl_str_eq(asked->scope, SL_STR("ip")))
        asked->done(asked);
    else
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

struct fixture {
    struct rig rig;
    struct fake fake;
    struct sl_engine_ctx engine_ctx;
    struct sl_check check;
    bool done;
};

static void on_done(struct sl_check *check)
{
    ((struct fixture *)check->ctx)->done = true;
}

static void fixture_open(struct fixture *fixture)
{
    memset(fixture, 0, sizeof(*fixture));
    rig_open(&fixture->rig, policy);
    fixture->fake.tokens.calls = &calls;
    fixture->engine_ctx.tokens = &fixture->fake.tokens;
    sl_check_init(&fixture->check, fixture->rig.engine, &fixture->engine_ctx,
                  &sl_alloc_libc);
    fixture->check.done = on_done;
    fixture->check.ctx = fixture;
}

static void fixture_close(struct fixture *fixture)
{
    sl_check_done(&fixture->check);
    rig_close(&fixture->rig);
}

static const struct sl_decision *check(struct fixture *fixture,
                                       struct sl_request request)
{
    fixture->done = false;
    sl_check_start(&fixture->check, &request, 1, true);
    CHECK(fixture->done);
    CHECK_EQ(fixture->check.err, 0);
    return &fixture->check.decision;
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
    FROM_ANY("a stranger's headers name no caller", "", GOOD, "X-User", "ann"),
    FROM_ANY("a stranger's cookies name no caller", "", GOOD, "Cookie",
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

static void test_row(struct fixture *fixture, const struct row *row)
{
    struct sl_header fields[MAX_FIELDS];
    struct sl_request request = GET("/x", .headers = fields);
    const struct sl_decision *d;
    char user[64];

    request.trusted = row->trusted;
    for (; row->fields[2 * request.header_count]; request.header_count++)
        fields[request.header_count] = (struct sl_header){
            sl_str_c(row->fields[2 * request.header_count]),
            sl_str_c(row->fields[2 * request.header_count + 1])};
    d = check(fixture, request);
    CASE(row->why);
    CHECK_STR(user_of(d, user), row->user);
    CHECK_EQ(d->token_fault, row->fault);
    CHECK_EQ(d->anonymous, row->user[0] == '\0');
    if (request.header_count > 0)
        CHECK(sl_request_wanted(d->policy, fields[0].name));
}

static void test_rows(void)
{
    struct fixture fixture;

    fixture_open(&fixture);
    for (size_t i = 0; i < SL_LEN(rows); i++)
        test_row(&fixture, &rows[i]);
    fixture_close(&fixture);
}

#define WITH(path_, token)                                                     \
    GET(path_,                                                                 \
        .headers = &(struct sl_header){SL_STR("authorization"),                \
                                       SL_STR("Bearer " token)},               \
        .header_count = 1)

/* A bad token is blamed on the address that it comes from. */
static void test_blame(void)
{
    struct fixture fixture;
    struct sl_request proxied = WITH("/x", "bad");

    fixture_open(&fixture);
    CASE("what the caller says goes before the token");
    proxied.user = SL_STR("bob");
    CHECK_STR(check(&fixture, proxied)->shown[0].id, "bob");
    CHECK(fixture.fake.had_ip);
    CASE("a proxy that names no client is not blamed for its clients");
    proxied.user = SL_STR("");
    proxied.ip = SL_STR("127.0.0.1");
    check(&fixture, proxied);
    CHECK(!fixture.fake.had_ip);
    CHECK(!fixture.check.decision.token_good);
    CHECK(check(&fixture, WITH("/x", "good.ann"))->token_good);
    CASE("without a verifier no token is believed");
    fixture.engine_ctx.tokens = NULL;
    fixture.fake.asked = 0;
    CHECK(check(&fixture, WITH("/x", "good.ann"))->anonymous);
    CHECK_EQ(fixture.fake.asked, 0);
    fixture_close(&fixture);
}

/* ---- what is said ---- */

static bool says(const struct sl_decision *d, const char *text)
{
    return has(rig_json(d, true), text);
}

static void test_words(void)
{
    struct fixture fixture;
    const struct sl_decision *d;

    fixture_open(&fixture);
    CASE("a bad token is told");
    d = check(&fixture, WITH("/deny", "bad.ann"));
    CHECK(says(d, "\"token_fault\":\"expired\""));
    CHECK(says(d, "token    rejected: the token has expired\\n"));
    CHECK(says(d, "\"detail\":\"The caller is not authenticated: the token has "
                  "expired.\""));
    CHECK(says(d, "\"WWW-Authenticate\":\"Bearer error=\\\"invalid_token\\\", "
                  "error_description=\\\"the token has expired\\\"\""));
    CHECK(!memmem(&d->request_id, sizeof(d->request_id), "bad.ann", 7));
    CASE("without one, who could be is asked for");
    d = check(&fixture, GET("/deny", .header_count = 0));
    CHECK(says(d, "\"token_fault\":null"));
    CHECK(says(d, "\"WWW-Authenticate\":\"Bearer\""));
    CASE("what is missing is said with a bad token too");
    d = check(&fixture, WITH("/needs", "bad.ann"));
    CHECK(says(d, "The caller is not authenticated: the token has expired."));
    fixture_close(&fixture);
}

/* Every fault has a sentence that fits into a header. */
static void test_faults(void)
{
    struct fixture fixture;
    struct sl_decision *d;

    CASE("each fault can be said");
    fixture_open(&fixture);
    check(&fixture, WITH("/deny", "bad.ann"));
    d = &fixture.check.decision;
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
    fixture_close(&fixture);
}

/* ---- a registry that takes its time ---- */

/* Ask with a token; `user` is what the asker says. */
static void begin(struct fixture *fixture, struct sl_request *request,
                  const char *user)
{
    static const struct sl_header good = {
        {"authorization",   13},
        {"Bearer good.ann", 15}
    };

    *request = GET("/x", .headers = &good, .header_count = 1);
    request->user = sl_str_c(user);
    fixture->done = false;
    fixture->fake.asked = 0;
    sl_check_start(&fixture->check, request, 1, true);
    CHECK(!fixture->done);
}

static struct sl_subject ann = {
    .refs = 1, .known = true, .expires = SL_NS_NONE};

/* The registry answers: it is ann, who pays. */
static void answer(struct fixture *fixture)
{
    lookup->found = sl_subject_ref(&ann);
    lookup->done(lookup);
    CHECK(fixture->done);
    CHECK_EQ(ann.refs, 1);
}

static uint64_t limit_of(const struct fixture *fixture)
{
    return fixture->check.decision.shown[0].numbers->count;
}

static void test_waiting(void)
{
    struct sl_subjects subjects = {.calls = &subjects_calls};
    struct sl_request request;
    struct fixture fixture;

    fixture_open(&fixture);
    fixture.engine_ctx.subjects = &subjects;
    ann.id = SL_STR("ann");
    ann.plan = SL_STR("pro");
    CASE("the caller's token, and then the plan");
    begin(&fixture, &request, "");
    answer(&fixture);
    CHECK_EQ(limit_of(&fixture), 9);
    CASE("a token that is not believed any more gives no plan");
    begin(&fixture, &request, "");
    fixture.fake.no_keys = true;
    answer(&fixture);
    CHECK_EQ(limit_of(&fixture), 5);
    CHECK(sl_str_eq(fixture.check.decision.shown[0].scope, SL_STR("ip")));
    CASE("a bad token is looked at once");
    begin(&fixture, &request, "ann");
    CHECK_EQ(fixture.fake.asked, 1);
    answer(&fixture);
    CHECK_EQ(fixture.fake.asked, 1);
    CHECK_EQ(limit_of(&fixture), 9);
    CASE("the registry and the store share one deadline");
    fixture.fake.no_keys = false;
    begin(&fixture, &request, "");
    sl_lookup_wait(lookup, 1000, 400);
    CHECK_EQ(lookup->deadline, 1300);
    answer(&fixture);
    CHECK_EQ(fixture.check.decision.take.deadline, 1400);
    CASE("which is the asker's, if that is earlier");
    request.deadline = 1200;
    fixture.done = false;
    sl_check_start(&fixture.check, &request, 1, true);
    sl_lookup_wait(lookup, 1000, 400);
    answer(&fixture);
    CHECK_EQ(fixture.check.decision.take.deadline, 1200);
    CASE("and none, if no lookup has waited");
    begin(&fixture, &request, "");
    answer(&fixture);
    CHECK_EQ(fixture.check.decision.take.deadline, 0);
    fixture_close(&fixture);
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
