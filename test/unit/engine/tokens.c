/* tokens.c -- where a token is found, and whom it names.
 *
 * The verifier of this test believes "good.NAME" and calls every other text
 * expired; src/identity has its own tests.
 */
#include <stdlib.h>

#include "asking.h"
#include "engine/check.h"
#include "engine/render.h"

#define MAX_FIELDS 4

/* ---- a verifier ---- */

struct fake {
    struct sl_tokens tokens;
    struct sl_token token;
    unsigned asked;
    bool had_ip;
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
    if (!sl_str_eq(word, SL_STR("good."))) {
        *why = SL_TOKEN_EXPIRED;
        return NULL;
    }
    fake->token.claims[0] =
        (struct sl_claim){SL_STR("sub"), sl_str_from(text, 5)};
    fake->token.claims[1] =
        (struct sl_claim){SL_STR("realm.plan"), SL_STR("pro")};
    fake->token.claim_count = 2;
    *why = SL_TOKEN_GOOD;
    return &fake->token;
}

static const struct sl_tokens_calls calls = {.verify = verify};

/* ---- asking ---- */

static const char policy[] =
    "sluice: 1\n"
    "plans: { default: free, free: {}, pro: {} }\n"
    "identity:\n"
    "  user: [jwt.sub, header.x-user, cookie.user]\n"
    "  plan: jwt.realm.plan\n"
    "  jwt:\n"
    "    from: [header.authorization, header.x-token, cookie.session]\n"
    "    jwks: \"file:./keys.json\"\n"
    "limits:\n"
    "  a: { kind: token-bucket, per: user, rate: { free: 5/min, pro: 9/min } "
    "}\n"
    "  needs: { kind: token-bucket, per: user, missing: deny, rate: 5/min }\n"
    "routes:\n"
    "  - { match: /deny, anonymous: deny, limits: [a] }\n"
    "  - { match: /pass, anonymous: pass, limits: [a] }\n"
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
    sl_check_begin(&desk->ask, &facts, true);
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

/* ---- what a route makes of it ---- */

#define WITH(path_, token)                                                     \
    GET(path_,                                                                 \
        .headers = &(struct sl_header){SL_STR("authorization"),                \
                                       SL_STR("Bearer " token)},               \
        .header_count = 1)

static const struct {
    const char *why;
    const char *path;
    int none, bad, good; /* the status */
} routes[] = {
    {"limit: whoever is not known is limited", "/x",     200, 200, 200},
    {"deny: whoever is not known is refused",  "/deny",  401, 401, 200},
    {"pass: whoever is not known passes",      "/pass",  200, 200, 200},
    {"missing: deny needs a name",             "/needs", 401, 401, 200},
};

static void test_routes(void)
{
    struct desk desk;

    desk_open(&desk);
    for (size_t i = 0; i < SL_LEN(routes); i++) {
        struct sl_request none = GET("/", .header_count = 0);
        struct sl_request bad = WITH("/", "bad.ann");
        struct sl_request good = WITH("/", "good.ann");

        none.path = bad.path = good.path = sl_str_c(routes[i].path);
        CASE(routes[i].why);
        CHECK_EQ(ask(&desk, none)->status, routes[i].none);
        CHECK_EQ(ask(&desk, bad)->status, routes[i].bad);
        CHECK_EQ(ask(&desk, good)->status, routes[i].good);
        CHECK(desk.ask.decision.token_good);
    }
    desk_close(&desk);
}

/* A bad token with somebody's name takes nothing from him. */
static void test_victim(void)
{
    struct desk desk;
    const struct sl_decision *d;
    struct sl_request proxied;

    CASE("a forged name takes nothing from whoever has it");
    desk_open(&desk);
    for (int i = 0; i < 9; i++)
        d = ask(&desk, WITH("/x", "bad.ann"));
    CHECK_EQ(d->status, 429);
    d = ask(&desk, WITH("/x", "good.ann"));
    CHECK_EQ(d->status, 200);
    CHECK_EQ(d->shown[0].answer.remaining, 8);
    CASE("a claim is a plan too");
    CHECK(sl_str_eq(d->shown[0].plan_name, SL_STR("pro")));
    CASE("what the caller says himself goes first");
    d = ask(&desk,
            GET("/x", USER("bob"),
                .headers = &(struct sl_header){SL_STR("authorization"),
                                               SL_STR("Bearer good.ann")},
                .header_count = 1));
    CHECK_EQ(d->shown[0].answer.remaining, 8);
    CHECK(strcmp(d->shown[0].id, "bob") == 0);
    CHECK(desk.fake.had_ip);
    CASE("a proxy that names nobody is not blamed for its clients");
    proxied = FROM("/x", "127.0.0.1");
    proxied.headers =
        &(struct sl_header){SL_STR("authorization"), SL_STR("Bearer bad")};
    proxied.header_count = 1;
    ask(&desk, proxied);
    CHECK(!desk.fake.had_ip);
    desk_close(&desk);
}

/* ---- what is said ---- */

static bool says(const struct sl_decision *d, const char *text)
{
    struct sl_rendered rendered;
    struct sl_arena arena;
    struct sl_buf out;
    bool found;

    sl_arena_init(&arena, 1 << 20, &sl_alloc_libc);
    sl_buf_init(&out, 1 << 20, &sl_alloc_libc);
    CHECK_EQ(sl_render(d, &arena, &rendered), 0);
    CHECK_EQ(sl_render_explained(d, &rendered, &out), 0);
    found = memmem(out.bytes, out.len, text, strlen(text)) != NULL;
    if (!found)
        printf("# %.*s\n", SL_STR_ARG(sl_buf_str(&out)));
    sl_buf_done(&out);
    sl_arena_done(&arena);
    return found;
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
        CHECK_EQ(says(d, "invalid_token") + 0, !ours);
    }
    desk_close(&desk);
}

static void test_no_verifier(void)
{
    struct desk desk;
    const struct sl_decision *d;
    char user[64];

    CASE("where nobody verifies, no token is believed");
    desk_open(&desk);
    desk.station.tokens = NULL;
    d = ask(&desk, WITH("/x", "good.ann"));
    CHECK_STR(user_of(d, user), "");
    CHECK_EQ(desk.fake.asked, 0);
    desk_close(&desk);
}

int main(void)
{
    test_rows();
    test_routes();
    test_victim();
    test_words();
    test_faults();
    test_no_verifier();
    return CHECK_DONE();
}
