/* pattern.c -- patterns: what is read, refused, matched and covered. */
#include "policy/route.h"

#include <stdlib.h>

#include "check.h"
#include "fail.h"
#include "row.h"

static struct sl_arena arena;

static struct sl_pattern pattern(const char *text)
{
    struct sl_pattern p = {.methods = 0};

    if (!CHECK_EQ(sl_pattern_read(sl_str_c(text), &arena, &p, NULL), 0))
        printf("# %s\n", text);
    return p;
}

TEST(methods)
{
    static const struct {
        const char *text;
        unsigned methods;
    } rows[] = {
        {"/a",                 SL_METHOD_ANY                      },
        {"GET /a",             SL_METHOD_GET | SL_METHOD_HEAD     },
        {"get /a",             SL_METHOD_GET | SL_METHOD_HEAD     },
        {"HEAD /a",            SL_METHOD_HEAD                     },
        {"POST,PUT /a",        SL_METHOD_POST | SL_METHOD_PUT     },
        {"DELETE,PATCH   /a",  SL_METHOD_DELETE | SL_METHOD_PATCH },
        {"OPTIONS\t/a",        SL_METHOD_OPTIONS                  },
        {"GET,OPTIONS,GET /a",
         SL_METHOD_GET | SL_METHOD_HEAD | SL_METHOD_OPTIONS       },
        {"CONNECT,TRACE /a",   SL_METHOD_CONNECT | SL_METHOD_TRACE},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_pattern p;

        CASE(rows[i].text);
        p = pattern(rows[i].text);
        CHECK_EQ(p.methods, rows[i].methods);
        CHECK_EQ(p.count, 1);
    }
    CASE("unknown methods are one");
    CHECK_EQ(sl_method_of(SL_STR("PURGE")), SL_METHOD_OTHER);
    CHECK_EQ(sl_method_of(SL_STR("")), SL_METHOD_OTHER);
    CHECK_EQ(sl_method_of(SL_STR("GETS")), SL_METHOD_OTHER);
    CHECK_EQ(sl_method_of(SL_STR("pAtCh")), SL_METHOD_PATCH);
}

TEST(segments)
{
    struct sl_pattern p;

    CASE("the root has no segment");
    CHECK_EQ(pattern("/").count, 0);

    CASE("words are decoded, names are kept");
    p = pattern("/a%20b/:user_id/*/%2a/%3aid/v1:go/**");
    CHECK_EQ(p.count, 7);
    CHECK_EQ(p.segments[0].kind, SL_SEGMENT_WORD);
    CHECK(sl_str_eq(p.segments[0].word, SL_STR("a b")));
    CHECK_EQ(p.segments[1].kind, SL_SEGMENT_ONE);
    CHECK(sl_str_eq(p.segments[1].word, SL_STR("user_id")));
    CHECK_EQ(p.segments[2].kind, SL_SEGMENT_ONE);
    CHECK_EQ(p.segments[2].word.len, 0);
    CHECK(sl_str_eq(p.segments[3].word, SL_STR("*")));
    CHECK_EQ(p.segments[3].kind, SL_SEGMENT_WORD);
    CHECK(sl_str_eq(p.segments[4].word, SL_STR(":id")));
    CHECK(sl_str_eq(p.segments[5].word, SL_STR("v1:go")));
    CHECK_EQ(p.segments[6].kind, SL_SEGMENT_REST);

    CASE("what is no escape stays, as it does in requests");
    p = pattern("/%zz/%4/a%/%3b");
    CHECK(sl_str_eq(p.segments[0].word, SL_STR("%zz")));
    CHECK(sl_str_eq(p.segments[1].word, SL_STR("%4")));
    CHECK(sl_str_eq(p.segments[2].word, SL_STR("a%")));
    CHECK(sl_str_eq(p.segments[3].word, SL_STR(";")));

    CASE("the pattern lives in the arena, not in the text");
    char text[] = "GET /abc/:id";

    CHECK_EQ(sl_pattern_read(sl_str_c(text), &arena, &p, NULL), 0);
    memset(text, 'x', sizeof(text));
    CHECK(sl_str_eq(p.segments[0].word, SL_STR("abc")));
    CHECK(sl_str_eq(p.segments[1].word, SL_STR("id")));
}

#define NO_PATH(what)                                                          \
    "Invalid path \"" what                                                     \
    "\". A path begins with a slash. A space separates "                       \
    "it from the methods"
#define EMPTY                                                                  \
    "Empty segment. Requests are matched without doubled slashes and slashes " \
    "at the end"
#define NO_METHOD(what)                                                        \
    "Unknown method \"" what "\". Write GET, HEAD, POST, PUT, DELETE, PATCH, " \
    "OPTIONS, CONNECT or TRACE, or none for any"
#define MISSING_METHOD                                                         \
    "Missing method. Separate methods by commas without spaces, like "         \
    "GET,POST /path"
#define STARRED                                                                \
    " has a star for a part of a segment. Write * for a whole segment, or "    \
    "%2a for the character"
#define RESOLVED                                                               \
    " is resolved before requests are matched. Write the resulting path"
#define ESCAPED                                                                \
    " has an escape for a slash, a backslash or NUL. No segment of a path "    \
    "can contain these"
#define PARAMETERS                                                             \
    "Requests are matched without their ;parameters. Remove them, or write "   \
    "%3b for the character"

static const struct {
    const char *text;
    size_t at;
    const char *sentence, *hint;
} refused[] = {
    ROW("", 0, "Missing pattern. Write it like GET /api/items/:id", ""),
    ROW("  ", 0, "Missing pattern. Write it like GET /api/items/:id", ""),
    ROW(" /a", 0, "Pattern \"/a\" begins or ends with spaces", "/a"),
    ROW("/a\t", 2, "Pattern \"/a\" begins or ends with spaces", "/a"),
    ROW("api", 0, NO_PATH("api"), "/api"),
    ROW("api/x", 0, NO_PATH("api/x"), "/api/x"),
    ROW("GET", 0, NO_PATH("GET"), "GET /"),
    ROW("GET/x", 0, NO_PATH("GET/x"), "GET /x"),
    ROW("GET api", 4, NO_PATH("api"), "GET /api"),
    ROW("http://h/x", 0, NO_PATH("http://h/x"), ""),
    ROW("GTE /x", 0, NO_METHOD("GTE"), "GET /x"),
    ROW("GET,PTCH /x", 4, NO_METHOD("PTCH"), "GET,PATCH /x"),
    ROW("ANYTHING /x", 0, NO_METHOD("ANYTHING"), ""),
    ROW("GET, PUT /x", 4, MISSING_METHOD, ""),
    ROW("GET,,PUT /x", 4, MISSING_METHOD, ""),
    ROW(",GET /x", 0, MISSING_METHOD, ""),
    ROW("/a/", 2, EMPTY, "/a"),
    ROW("GET //a", 4, EMPTY, "GET /a"),
    ROW("/a//b", 2, EMPTY, "/a/b"),
    ROW("/a/./b", 3, "\".\"" RESOLVED, ""),
    ROW("/a/..", 3, "\"..\"" RESOLVED, ""),
    ROW("/a/%2e%2E/b", 3, "\"%2e%2E\"" RESOLVED, ""),
    ROW("/a?x=1", 2,
        "A pattern has no query. Requests are matched by their path", ""),
    ROW("/a#x", 2,
        "A pattern has no fragment. Requests are matched by their path", ""),
    ROW("/a;x/b", 2, PARAMETERS, ""),
    ROW("/a\\b", 2, "A backslash counts as a slash. Write a slash", ""),
    ROW("/a b", 2, "Write %20 for a space in a path", ""),
    ROW("/a\tb", 2, "Write %09 for a tab in a path", ""),
    ROW("/x/a%2fb", 3, "\"a%2fb\"" ESCAPED, ""),
    ROW("/a%5Cb", 1, "\"a%5Cb\"" ESCAPED, ""),
    ROW("/a%00", 1, "\"a%00\"" ESCAPED, ""),
    ROW("/a*", 1, "\"a*\"" STARRED, ""),
    ROW("/x/***/y", 3, "\"***\"" STARRED, ""),
    ROW("/:i*", 1, "\":i*\"" STARRED, ""),
    ROW("/a/**/b", 3,
        "** matches all remaining segments, so it must be last. Write * for "
        "one segment",
        ""),
    ROW("/a/:", 3,
        "Invalid segment name \":\". Write it like :id, or write * for a "
        "segment without a name",
        ""),
    ROW("/:1a", 1,
        "Invalid segment name \":1a\". Write it like :id, or write * for a "
        "segment without a name",
        ""),
    ROW("PUT /a/{id}/b", 7,
        "Invalid segment \"{id}\". Write :name for a named segment",
        "PUT /a/:id/b"),
    ROW("/{a b}", 3, "Write %20 for a space in a path", ""),
    ROW("/{}", 1, "Invalid segment \"{}\". Write :name for a named segment",
        ""),
};

TEST(refused)
{
    for (size_t i = 0; i < SL_LEN(refused); i++) {
        struct sl_pattern p = {.methods = 77}, again;
        struct sl_str text = sl_str_c(refused[i].text);
        struct sl_diag diag = {.line = 0};

        CASE(refused[i].sentence);
        CHECK_EQ(sl_pattern_read(text, &arena, &p, &diag), SLUICE_ECONF);
        CHECK_EQ(sl_pattern_read(text, &arena, &p, NULL), SLUICE_ECONF);
        CHECK_EQ(p.methods, 77);
        CHECK_STR(diag.sentence, refused[i].sentence);
        CHECK_STR(diag.hint, refused[i].hint);
        CHECK_EQ(diag.at, refused[i].at);
        if (diag.hint[0]) /* it is worth nothing if it is refused in turn */
            CHECK_EQ(sl_pattern_read(sl_str_c(diag.hint), &arena, &again, NULL),
                     0);
    }
    CASE("a NUL");
    CHECK_EQ(
        sl_pattern_read(SL_STR("/a\0b"), &arena, &(struct sl_pattern){0}, NULL),
        SLUICE_ECONF);
}

TEST(long)
{
    char text[SL_PATH_BYTES + 2];
    struct sl_pattern p;
    struct sl_str s = {text, 0};

    CASE("as many segments as a path may have, and no more");
    for (unsigned i = 0; i < SL_PATH_SEGMENTS + 1; i++) {
        memcpy(text + s.len, "/a", 2);
        s.len += 2;
    }
    CHECK_EQ(sl_pattern_read(s, &arena, &p, NULL), SLUICE_ECONF);
    s.len -= 2;
    CHECK_EQ(sl_pattern_read(s, &arena, &p, NULL), 0);
    CHECK_EQ(p.count, SL_PATH_SEGMENTS);

    CASE("no more bytes than a path");
    memset(text, 'a', sizeof(text));
    text[0] = '/';
    s.len = SL_PATH_BYTES + 1;
    CHECK_EQ(sl_pattern_read(s, &arena, &p, NULL), SLUICE_ECONF);
    s.len = SL_PATH_BYTES;
    CHECK_EQ(sl_pattern_read(s, &arena, &p, NULL), 0);
}

static bool match(const char *text, const char *method, const char *path_text)
{
    struct sl_pattern p = pattern(text);
    struct sl_path path;
    char room[1024];

    sl_path_read(sl_str_c(path_text), room, &path);
    return sl_pattern_matches(&p, sl_method_of(sl_str_c(method)), &path);
}

TEST(matches)
{
    static const struct {
        const char *pattern, *method, *path;
        bool want;
    } rows[] = {
        {"/",           "GET",     "/",       true },
        {"/",           "GET",     "/a",      false},
        {"/a/b",        "GET",     "/a/b",    true },
        {"/a/b",        "GET",     "/A/B/",   true },
        {"/A/B",        "GET",     "/a/b",    true },
        {"/a/b",        "GET",     "/a",      false},
        {"/a/b",        "GET",     "/a/b/c",  false},
        {"/a/b",        "GET",     "/a/bc",   false},
        {"/\xc3\x84",   "GET",     "/%C3%84", true },
        {"/\xc3\x84",   "GET",     "/%C3%A4", false},
        {"/a/**",       "GET",     "/a",      true },
        {"/a/**",       "GET",     "/a/b",    true },
        {"/a/**",       "GET",     "/a/b/c",  true },
        {"/a/**",       "GET",     "/ab",     false},
        {"/a/**",       "GET",     "/",       false},
        {"/**",         "GET",     "/",       true },
        {"/**",         "GET",     "/a/b",    true },
        {"/a/*",        "GET",     "/a/b",    true },
        {"/a/*",        "GET",     "/a",      false},
        {"/a/*",        "GET",     "/a/b/c",  false},
        {"/a/:id/c",    "GET",     "/a/b/c",  true },
        {"/a/:id/c",    "GET",     "/a/c",    false},
        {"/*",          "OPTIONS", "*",       true },
        {"/%2a",        "GET",     "/*",      true },
        {"/%2a",        "GET",     "/a",      false},
        {"GET /a",      "GET",     "/a",      true },
        {"GET /a",      "HEAD",    "/a",      true },
        {"GET /a",      "POST",    "/a",      false},
        {"HEAD /a",     "GET",     "/a",      false},
        {"POST,PUT /a", "put",     "/a",      true },
        {"POST /a",     "PURGE",   "/a",      false},
        {"/a",          "PURGE",   "/a",      true },
    };

    CASE("what matches and what does not");
    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (!CHECK(match(rows[i].pattern, rows[i].method, rows[i].path) ==
                   rows[i].want))
            printf("# %s: %s %s\n", rows[i].pattern, rows[i].method,
                   rows[i].path);
}

TEST(deep)
{
    char deep[200];

    for (unsigned i = 0; i < 99; i++)
        memcpy(deep + 2 * i, "/a", 3);
    CASE("a path too deep to be kept matches two stars only");
    CHECK(match("/a/a/**", "GET", deep));
    CHECK(match("/**", "GET", deep));
    CHECK(!match("/a/b/**", "GET", deep));
    deep[2 * SL_PATH_SEGMENTS] = '\0';
    CHECK(match(deep, "GET", deep));
    memcpy(deep + 2 * SL_PATH_SEGMENTS, "/a", 3);
    deep[2 * SL_PATH_SEGMENTS + 2] = '\0';
    char exact[2 * SL_PATH_SEGMENTS + 1];

    memcpy(exact, deep, sizeof(exact) - 1);
    exact[sizeof(exact) - 1] = '\0';
    CHECK(!match(exact, "GET", deep));
}

TEST(covers)
{
    static const struct {
        const char *wide, *narrow;
        bool want, back; /* and the other way round */
    } rows[] = {
        {"/a",        "/a",         true,  true },
        {"/a",        "/A",         true,  true },
        {"/a",        "/b",         false, false},
        {"/a/**",     "/a",         true,  false},
        {"/a/**",     "/a/b",       true,  false},
        {"/a/**",     "/a/b/**",    true,  false},
        {"/a/**",     "/a/*",       true,  false},
        {"/**",       "/",          true,  false},
        {"/**",       "/:x/**",     true,  false},
        {"/a/*",      "/a/b",       true,  false},
        {"/a/*",      "/a/:id",     true,  true },
        {"/a/*",      "/a/b/c",     false, false},
        {"/a/*",      "/*/b",       false, false},
        {"/a/**",     "/*/b",       false, false},
        {"/*/b",      "/a/b",       true,  false},
        {"/*/**",     "/*",         true,  false},
        {"/*/*",      "/*/**",      false, true },
        {"/a",        "GET /a",     true,  false},
        {"GET /a",    "HEAD /a",    true,  false},
        {"GET /a",    "POST /a",    false, false},
        {"GET /a/**", "/a/b",       false, false},
        {"GET /a/**", "GET,PUT /a", false, false},
    };

    CASE("what covers what");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_pattern wide = pattern(rows[i].wide);
        struct sl_pattern narrow = pattern(rows[i].narrow);

        if (!CHECK(sl_pattern_covers(&wide, &narrow) == rows[i].want) ||
            !CHECK(sl_pattern_covers(&narrow, &wide) == rows[i].back))
            printf("# %s over %s\n", rows[i].wide, rows[i].narrow);
    }
}

/* The first pattern before each that covers it. */
TEST(first_cover)
{
    static const struct {
        const char *text;
        unsigned want;
        bool conditional;
    } rows[] = {
        {"GET /a",        SL_NO_ROUTE, false},
        {"POST /a",       SL_NO_ROUTE, false},
        {"GET,POST /a",   SL_NO_ROUTE, false}, /* neither does it alone */
        {"POST,GET /A",   2,           false},
        {"POST /a",       1,           false},
        {"/*/b/**",       SL_NO_ROUTE, true },
        {"/a/b",          SL_NO_ROUTE, false}, /* 5 has conditions */
        {"/a/:id",        SL_NO_ROUTE, false},
        {"PUT /a/b",      6,           false},
        {"/:x/:y",        SL_NO_ROUTE, false},
        {"/*/b",          9,           false},
        {"/**",           SL_NO_ROUTE, false},
        {"/a/**",         11,          false},
        {"/a/c",          7,           true },
        {"/",             11,          false},
        {"GET /z/z/z/**", 11,          false},
    };
    struct sl_pattern patterns[SL_LEN(rows)];
    const struct sl_pattern *list[SL_LEN(rows)];
    unsigned covers[SL_LEN(rows)];

    CASE("which is the first to cover it");
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        patterns[i] = pattern(rows[i].text);
        patterns[i].conditional = rows[i].conditional;
        list[i] = &patterns[i];
    }
    CHECK_EQ(sl_routes_covers(list, SL_LEN(rows), &arena, covers), 0);
    for (size_t i = 0; i < SL_LEN(rows); i++)
        if (!CHECK_EQ(covers[i], rows[i].want))
            printf("# %s\n", rows[i].text);
    CASE("what is missing covers nothing");
    list[11] = NULL;
    CHECK_EQ(sl_routes_covers(list, SL_LEN(rows), &arena, covers), 0);
    CHECK_EQ(covers[11], SL_NO_ROUTE);
    CHECK_EQ(covers[12], SL_NO_ROUTE);
}

TEST(failures)
{
    int err = SLUICE_ENOMEM;
    unsigned n;

    CASE("with the nth allocation failing: an error, nothing changed");
    for (n = 1; err; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_arena small;
        struct sl_pattern p = {.methods = 77};
        char text[6000];

        memset(text, 'a', sizeof(text));
        text[0] = '/';
        sl_arena_init(&small, 64 * 1024, &alloc);
        err = sl_pattern_read((struct sl_str){text, sizeof(text)}, &small, &p,
                              NULL);
        CHECK(err ? err == SLUICE_ENOMEM && p.methods == 77 : p.count == 1);
        sl_arena_done(&small);
        fail_check(&f);
    }
    CHECK(n > 3);
}

int main(void)
{
    sl_arena_init(&arena, 1024 * 1024, &sl_alloc_libc);
    RUN_TESTS();
    sl_arena_done(&arena);
    return CHECK_DONE();
}
