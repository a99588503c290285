/* key_template.c -- templates of names: what is read, what fits a limit, and
 * which two would meet. */
#include "policy/key.h"

#include <stdlib.h>

#include "check.h"
#include "keys.h"
#include "row.h"

/* ---- templates ---- */

#define KNOWN(what)                                                            \
    "Unknown placeholder {" what "} in a key. Valid placeholders: {env}, "     \
    "{endpoint}, {name}, {scope}, {id}, {org}, {user}, {ip}, {user_type} and " \
    "{window_start}"
#define PARTS(a, b)                                                            \
    "No separator between {" a "} and {" b "}, so different values could "     \
    "produce the same key. Write a colon between them"

static const struct {
    const char *text;
    size_t at;
    const char *sentence, *hint;
} refused[] = {
    ROW("", 0, "Missing key. Write it like " SL_KEY_DEFAULT, ""),
    ROW("a:{usr}", 2, KNOWN("usr"), "a:{user}"),
    ROW("a:{tenantId}:b", 2, KNOWN("tenantId"), "a:{org}:b"),
    ROW("{limitType}:{id}", 0, KNOWN("limitType"), "{name}:{id}"),
    ROW("{userType}", 0, KNOWN("userType"), "{user_type}"),
    ROW("{User}", 0, KNOWN("User"), "{user}"),
    ROW("{}", 0, KNOWN(""), ""),
    ROW("{something}", 0, KNOWN("something"), ""),
    ROW("a:{id", 2,
        "\"{id\" has no closing brace. Write {{ for a literal brace", ""),
    ROW("a}b", 1, "Unexpected closing brace. Write }} for a literal brace", ""),
    ROW("a\nb", 1, "A key must not contain control characters", ""),
    ROW("a\x7f", 1, "A key must not contain control characters", ""),
    ROW("{org}{user}", 5, PARTS("org", "user"), "{org}:{user}"),
    ROW("x:{org}-{user}", 8, PARTS("org", "user"), "x:{org}:-{user}"),
    ROW("{org}%{id}", 6, PARTS("org", "id"), "{org}:%{id}"),
    ROW("{org}{env}{user}", 10, PARTS("org", "user"), "{org}:{env}{user}"),
    ROW("{id}_{window_start}", 5, PARTS("id", "window_start"),
        "{id}:_{window_start}"),
};

TEST(refused)
{
    struct sl_key_template key;
    char text[SL_KEY_TEXT + 1];

    for (size_t i = 0; i < SL_LEN(refused); i++) {
        struct sl_str s = sl_str_c(refused[i].text);
        struct sl_diag diag = {.line = 0};

        key.count = 77;
        CASE(refused[i].sentence);
        CHECK_EQ(sl_key_template_read(s, &arena, &key, &diag), SLUICE_ECONF);
        CHECK_EQ(sl_key_template_read(s, &arena, &key, NULL), SLUICE_ECONF);
        CHECK_EQ(key.count, 77);
        CHECK_STR(diag.sentence, refused[i].sentence);
        CHECK_STR(diag.hint, refused[i].hint);
        CHECK_EQ(diag.at, refused[i].at);
        if (diag.hint[0])
            CHECK_EQ(
                sl_key_template_read(sl_str_c(diag.hint), &arena, &key, NULL),
                0);
    }
    CASE("a template has an end");
    memset(text, 'a', sizeof(text));
    CHECK_EQ(sl_key_template_read((struct sl_str){text, sizeof(text)}, &arena,
                                  &key, NULL),
             SLUICE_ECONF);
    CHECK_EQ(sl_key_template_read((struct sl_str){text, SL_KEY_TEXT}, &arena,
                                  &key, NULL),
             0);
}

TEST(pieces)
{
    struct sl_key_template key = template("a{{:{env}{name}:{id}}}");

    CASE("pieces, and which placeholders there are");
    CHECK_EQ(key.count, 6);
    CHECK(key.pieces[0].is_literal);
    CHECK(sl_str_eq(key.pieces[0].literal, SL_STR("a{:")));
    CHECK_EQ(key.pieces[1].hold, SL_KEY_ENV);
    CHECK_EQ(key.pieces[2].hold, SL_KEY_NAME);
    CHECK_EQ(key.pieces[4].hold, SL_KEY_ID);
    CHECK(sl_str_eq(key.pieces[5].literal, SL_STR("}")));
    CHECK_EQ(key.holds, 1 << SL_KEY_ENV | 1 << SL_KEY_NAME | 1 << SL_KEY_ID);
}

/* "org,user" as scopes. */
static unsigned read_scopes(const char *text, struct sl_str scopes[SL_PER_MAX])
{
    unsigned count = 0;

    while (*text) {
        size_t len = strcspn(text, ",");

        scopes[count++] = (struct sl_str){text, len};
        text += len + (text[len] == ',');
    }
    return count;
}

#define SPLITS(what)                                                           \
    "{" what                                                                   \
    "} would split the state of the limit, which is not kept per " what        \
    ". Remove it, or add " what " to `per`"
#define MERGES(what, add)                                                      \
    "The key would merge the state of every " what                             \
    ", but the limit is kept per " what ". Add " add
#define NAMED                                                                  \
    "With `missing: anonymous`, a caller named like an address would share "   \
    "its state. Add {scope}%s, or write `missing: skip` or `missing: deny`"

static const struct {
    const char *key, *scopes;
    unsigned endpoints;
    bool windows, anonymous;
    const char *sentence; /* "": it is good */
} uses[] = {
    ROW(SL_KEY_DEFAULT, "user", 3, false, true, ""),
    ROW(SL_KEY_DEFAULT, "", 3, false, true, ""),
    ROW(SL_KEY_DEFAULT, "org,user,ip", 3, false, true, ""),
    ROW("rl:{env}:{endpoint}:{scope}:{id}", "org", 1, false, true, ""),
    ROW("ratelimit:tenant:{org}", "org", 1, false, false, ""),
    ROW("ratelimit:user:{org}:{user}", "org,user", 1, false, false, ""),
    ROW("{name}:{user_type}:{id}", "user", 1, false, true, ""),
    ROW("{name}:{user_type}:{id}:{window_start}", "user", 1, true, true, ""),
    ROW("{user}:minute", "user", 1, false, false, ""),
    ROW("x:{ip}", "ip", 1, false, true, ""),
    ROW("x:{endpoint}:{ip}", "endpoint,ip", 9, false, true, ""),
    ROW("{id}:{user}", "user", 1, false, false, ""),
    ROW("x", "", 1, false, true, ""),

    ROW("x:{org}:{user}", "user", 1, false, false, SPLITS("org")),
    ROW("x:{id}:{user}", "org", 1, false, false, SPLITS("user")),
    ROW("x:{ip}", "", 1, false, false, SPLITS("ip")),
    ROW("x:{ip}:{id}", "user", 1, false, true, SPLITS("ip")),
    ROW("{endpoint}:{id}", "user", 2, false, false,
        "{endpoint} would split the state of the limit, which 2 endpoints "
        "share. Write {name}, or add endpoint to `per`"),
    ROW("{id}:{window_start}", "user", 1, false, false,
        "{window_start} is valid only for fixed windows. The state of other "
        "limits outlives a window"),

    ROW("x", "user", 1, false, false, MERGES("user", "{user} or {id}")),
    ROW("x:{org}", "org,user", 1, false, false,
        MERGES("user", "{user} or {id}")),
    ROW("x:{user}", "user,region", 1, false, false, MERGES("region", "{id}")),
    ROW("x:{scope}", "anon", 1, false, false, MERGES("anon", "{id}")),
    ROW("x:{user}", "user,endpoint", 1, false, false,
        MERGES("endpoint", "{endpoint} or {id}")),
    ROW("{env}:{id}", "env", 1, false, false, ""),
    ROW("{env}:x", "env", 1, false, false, MERGES("env", "{id}")),

    ROW("{user}:minute", "user", 1, false, true, NAMED),
    ROW("x:{id}", "org", 1, false, true, NAMED),
    ROW("{user_type}:{id}", "org,user", 1, false, true, NAMED),
    ROW("{user_type}:{id}", "region", 1, false, true, NAMED),
};

TEST(check)
{
    for (size_t i = 0; i < SL_LEN(uses); i++) {
        struct sl_key_template key = template(uses[i].key);
        struct sl_str scopes[SL_PER_MAX];
        struct sl_key_use use = {scopes, read_scopes(uses[i].scopes, scopes),
                                 uses[i].endpoints, uses[i].windows,
                                 uses[i].anonymous};
        struct sl_diag diag = {.line = 0};
        int want = uses[i].sentence[0] ? SLUICE_ECONF : 0;
        bool user = strcmp(uses[i].scopes, "user") == 0;
        char sentence[256];

        CASE(uses[i].key);
        CHECK_EQ(sl_key_template_check(&key, &use, &diag), want);
        CHECK_EQ(sl_key_template_check(&key, &use, NULL), want);
        snprintf(sentence, sizeof(sentence), "%s", uses[i].sentence);
        if (strcmp(uses[i].sentence, NAMED) == 0)
            snprintf(sentence, sizeof(sentence), NAMED,
                     user ? " or {user_type}" : "");
        CHECK_STR(diag.sentence, sentence);
    }
}

/* ---- meeting ---- */

static const struct {
    const char *a, *a_name, *a_endpoint, *a_scopes; /* NULL: unknown */
    const char *b, *b_name, *b_endpoint, *b_scopes;
    bool anonymous, want;
} meetings[] = {
    ROW("sluice:{env}:{name}:{scope}:{id}", "x", "", "user",
        "sluice:{env}:{name}:{scope}:{id}", "y", "", "user", true, false),
    ROW("sluice:{env}:{name}:{scope}:{id}", "x", "", NULL,
        "sluice:{env}:{name}:{scope}:{id}", "x", "", NULL, true, true),
    ROW("sluice:{env}:{name}:{scope}:{id}", "x", "", NULL,
        "sluice:{env}:{name}:{scope}:{id}", "xx", "", NULL, true, false),
    ROW("ratelimit:tenant:{org}", "x", "", "org", "ratelimit:user:{org}:{user}",
        "y", "", "org,user", false, false),
    ROW("ratelimit:{org}", "x", "", "org", "ratelimit:user:{user}", "y", "",
        "user", false, false),
    ROW("ratelimit:{id}", "x", "", NULL, "ratelimit:user:{user}", "y", "", NULL,
        false, true),
    ROW("ratelimit:{id}", "x", "", "org", "ratelimit:user:{user}", "y", "",
        "user", false, false),
    ROW("ratelimit:{id}", "x", "", "org,user", "ratelimit:user:{user}", "y", "",
        "user", false, true),
    ROW("{user}:minute", "x", "", "user", "{user}:daily", "y", "", "user",
        false, false),
    ROW("{user}:minute", "x", "", "user", "{org}:minute", "y", "", "org", false,
        true),
    ROW("rl:{env}:{endpoint}:{scope}:{id}", "x", "a", "org",
        "rl:{env}:{endpoint}:{scope}:{id}", "y", "b", "org", true, false),
    ROW("rl:{env}:{endpoint}:{scope}:{id}", "x", "GET /a", "org",
        "rl:{env}:{endpoint}:{scope}:{id}", "y", "GET /b", "org", true, false),
    ROW("rl:{env}:{endpoint}:{scope}:{id}", "x", "a", "org",
        "rl:{env}:{endpoint}:{scope}:{id}", "y", "", "org", true, true),
    ROW("rl:{env}:{endpoint}:{scope}:{id}", "x", "a", "org",
        "rl:{env}:{endpoint}:{scope}:{id}", "y", "a", "ip", false, false),
    ROW("rl:{env}:{endpoint}:{scope}:{id}", "x", "a", "org",
        "rl:{env}:{endpoint}:{scope}:{id}", "y", "a", "ip", true, true),
    ROW("rl:{env}:{endpoint}:{scope}:{id}", "x", "a", "ip",
        "rl:{env}:{endpoint}:{scope}:{id}", "y", "a", "endpoint", true, false),
    ROW("rl:{endpoint}:{scope}:{id}", "x", "a", "endpoint",
        "rl:{endpoint}:{scope}:{id}", "y", "b", "endpoint", true, true),
    ROW("{name}:{user_type}:{id}", "x", "", "user", "{name}:{user_type}:{id}",
        "y", "", "user", true, false),
    ROW("x:{user_type}:{id}", "x", "", "user", "x:user:{id}", "y", "", "user",
        false, true),
    ROW("x:{user_type}:{id}", "x", "", "user", "x:anon:{id}", "y", "", "user",
        false, true),
    ROW("x:{user_type}:{id}", "x", "", "user", "x:org:{id}", "y", "", "org",
        false, false),
    ROW("x:{window_start}:{id}", "x", "", "user", "x:a{id}", "y", "", "user",
        false, false),
    ROW("x:{window_start}", "x", "", "", "x:{id}", "y", "", "user", false,
        true),
    ROW("x:{scope}", "x", "", "", "x:all", "y", "", "", false, true),
    ROW("x:{id}", "x", "", "org,user", "x:{id}", "y", "", "org", false, false),
    ROW("a", "x", "", "", "a", "y", "", "", false, true),
    ROW("a", "x", "", "", "ab", "y", "", "", false, false),
    ROW("{id}", "x", "", "user", "a%{name}", "y", "", "", false, true),
    ROW("{id}", "x", "", "user", "a|b", "y", "", "", false, false),
    ROW("{org}:{user}", "x", "", NULL, "a:b:c", "y", "", "", false, false),
    ROW("{org}:a:{user}", "x", "", NULL, "{org}:{user}:a", "y", "", NULL, false,
        true),
};

TEST(meet)
{
    for (size_t i = 0; i < SL_LEN(meetings); i++) {
        struct sl_key_template a = template(meetings[i].a),
                               b = template(meetings[i].b);
        struct sl_str as[SL_PER_MAX], bs[SL_PER_MAX];
        struct sl_key_use au = {.scopes = as,
                                .anonymous = meetings[i].anonymous};
        struct sl_key_use bu = {.scopes = bs,
                                .anonymous = meetings[i].anonymous};
        struct sl_key_context ac = key_context(), bc = ac;

        ac.name = sl_str_c(meetings[i].a_name);
        bc.name = sl_str_c(meetings[i].b_name);
        ac.endpoint = sl_str_c(meetings[i].a_endpoint);
        bc.endpoint = sl_str_c(meetings[i].b_endpoint);
        if (meetings[i].a_scopes) {
            au.scope_count = read_scopes(meetings[i].a_scopes, as);
            ac.use = &au;
        }
        if (meetings[i].b_scopes) {
            bu.scope_count = read_scopes(meetings[i].b_scopes, bs);
            bc.use = &bu;
        }
        CASE(meetings[i].a);
        if (!CHECK(sl_key_templates_collide(&a, &ac, &b, &bc) ==
                   meetings[i].want) ||
            !CHECK(sl_key_templates_collide(&b, &bc, &a, &ac) ==
                   meetings[i].want))
            printf("# %s and %s (row %zu)\n", meetings[i].a, meetings[i].b, i);
        CHECK(sl_key_templates_collide(&a, &ac, &a, &ac));
    }
}

TEST(meet_long)
{
    static char big[1000];
    struct sl_key_template a = template("{name}:{id}");
    struct sl_key_context ac = key_context(), bc = ac;

    CASE("what is too long to be looked at might meet");
    memset(big, 'x', sizeof(big));
    ac.name = (struct sl_str){big, sizeof(big)};
    CHECK(sl_key_templates_collide(&a, &ac, &a, &bc));
    ac.name.len = 400;
    CHECK(!sl_key_templates_collide(&a, &ac, &a, &bc));
    CHECK(sl_key_templates_collide(&a, &ac, &a, &ac));
}

int main(void)
{
    sl_arena_init(&arena, 1024 * 1024, &sl_alloc_libc);
    RUN_TESTS();
    sl_arena_done(&arena);
    return CHECK_DONE();
}
