/* route.c -- the tree of routes: the first in the file wins. */
#include "policy/route.h"

#include <stdlib.h>

#include "check.h"
#include "fail.h"

#define MOST 64

/* A small policy: patterns in the order of the file, and their tree. */
struct table {
    struct sl_arena arena;
    struct sl_pattern patterns[MOST];
    const struct sl_pattern *list[MOST];
    unsigned count;
    struct sl_routes *tree;
};

/* `texts` end with NULL; "-" is a route that has no pattern. */
static void open_table(struct table *t, const char *const *texts)
{
    sl_arena_init(&t->arena, 1024 * 1024, &sl_alloc_libc);
    for (t->count = 0; texts[t->count]; t->count++) {
        struct sl_str text = sl_str_c(texts[t->count]);

        t->list[t->count] = NULL;
        if (sl_str_eq(text, SL_STR("-")))
            continue;
        CHECK_EQ(sl_pattern_read(text, &t->arena, &t->patterns[t->count], NULL),
                 0);
        t->list[t->count] = &t->patterns[t->count];
    }
    t->tree = sl_routes_build(t->list, t->count, &t->arena);
    CHECK(t->tree != NULL);
}

static unsigned ask(const struct table *t, const char *method, const char *text)
{
    struct sl_path path;
    char room[1024];

    sl_path_read(sl_str_c(text), room, &path);
    return sl_routes_find(t->tree, sl_method_of(sl_str_c(method)), &path, 0);
}

static const struct {
    const char *method, *path;
    unsigned want;
} asked[] = {
    {"GET",     "/api/items/special",  0          },
    {"HEAD",    "/API/Items/SPECIAL/", 0          },
    {"POST",    "/api/items/special",  1          },
    {"GET",     "/api/items/late",     1          },
    {"GET",     "/api/items/list",     1          },
    {"POST",    "/api/items",          4          },
    {"GET",     "/api/items",          5          },
    {"HEAD",    "/api/items",          5          },
    {"PUT",     "/api/items",          SL_NO_ROUTE},
    {"DELETE",  "/api/items",          9          },
    {"GET",     "/api/cats/list",      6          },
    {"GET",     "/api/users/list",     6          },
    {"GET",     "/api/users",          7          },
    {"GET",     "/api/users/a/b/c",    7          },
    {"DELETE",  "/api",                9          },
    {"GET",     "/api",                SL_NO_ROUTE},
    {"GET",     "/a/x/y",              10         },
    {"GET",     "/b/x/y",              10         },
    {"GET",     "/b/x/w",              11         },
    {"GET",     "/c/x/w",              SL_NO_ROUTE},
    {"GET",     "/",                   13         },
    {"GET",     "",                    13         },
    {"OPTIONS", "/",                   13         },
    {"OPTIONS", "/nowhere/at/all",     14         },
    {"OPTIONS", "*",                   14         },
    {"PURGE",   "/api/items/1",        1          },
    {"PURGE",   "/nowhere",            SL_NO_ROUTE},
    {"GET",     "/apiitems",           SL_NO_ROUTE},
};

TEST(order)
{
    static const char *const texts[] = {
        "GET /api/items/special", /* 0 */
        "/api/items/:id",         /* 1 */
        "/api/items/late",        /* 2: never, 1 covers it */
        "-",                      /* 3 */
        "POST /api/items",        /* 4 */
        "GET /api/items",         /* 5 */
        "/api/:kind/list",        /* 6 */
        "/api/users/**",          /* 7 */
        "/api/users/list",        /* 8: never */
        "DELETE /api/**",         /* 9 */
        "/*/x/y",                 /* 10 */
        "/b/x/:z",                /* 11 */
        "/b/x/y",                 /* 12: never */
        "/",                      /* 13 */
        "OPTIONS /**",            /* 14 */
        NULL,
    };
    struct table t;

    open_table(&t, texts);
    for (size_t i = 0; i < SL_LEN(asked); i++) {
        CASE(asked[i].path);
        CHECK_EQ(ask(&t, asked[i].method, asked[i].path), asked[i].want);
    }
    sl_arena_done(&t.arena);
}

TEST(empty)
{
    static const char *const none[] = {NULL}, *const jobs[] = {"-", "-", NULL};
    struct table t;

    CASE("no routes");
    open_table(&t, none);
    CHECK_EQ(ask(&t, "GET", "/"), SL_NO_ROUTE);
    CHECK_EQ(ask(&t, "GET", "/a/b"), SL_NO_ROUTE);
    sl_arena_done(&t.arena);
    CASE("jobs only");
    open_table(&t, jobs);
    CHECK_EQ(ask(&t, "GET", "/"), SL_NO_ROUTE);
    sl_arena_done(&t.arena);
}

TEST(deep)
{
    static const char *const texts[] = {"/a/a", "/b/**", "/a/**", "/**", NULL};
    struct table t;
    char deep[300];

    for (unsigned i = 0; i < 140; i++)
        memcpy(deep + 2 * i, "/a", 3);
    CASE("a path too deep to be kept is routed by two stars");
    open_table(&t, texts);
    CHECK_EQ(ask(&t, "GET", deep), 2);
    deep[1] = 'c';
    CHECK_EQ(ask(&t, "GET", deep), 3);
    sl_arena_done(&t.arena);

    CASE("as many segments as are kept are not too deep");
    char exact[2 * SL_PATH_SEGMENTS + 1];
    const char *const one[] = {exact, "/**", NULL};

    memcpy(exact, deep, sizeof(exact) - 1);
    exact[sizeof(exact) - 1] = '\0';
    open_table(&t, one);
    CHECK_EQ(ask(&t, "GET", exact), 0);
    CHECK_EQ(ask(&t, "GET", deep), 1);
    sl_arena_done(&t.arena);
}

/* Every level has a word and a star, and all 2^10 ways through them end in
 * routes: nothing can be pruned but by what was found. */
TEST(worst)
{
    enum { LEVELS = 10, WAYS = 1 << LEVELS };
    static struct sl_pattern patterns[WAYS];
    static const struct sl_pattern *list[WAYS];
    struct sl_arena arena;
    struct sl_path path;
    struct sl_routes *tree;
    char text[2 * LEVELS + 1], room[64];
    unsigned method = SL_METHOD_GET;

    sl_arena_init(&arena, 16 * 1024 * 1024, &sl_alloc_libc);
    for (unsigned i = 0; i < WAYS; i++) {
        for (unsigned j = 0; j < LEVELS; j++) {
            text[2 * j] = '/';
            text[2 * j + 1] = (WAYS - 1 - i) >> j & 1 ? '*' : 'a';
        }
        text[2 * LEVELS] = '\0';
        CHECK_EQ(sl_pattern_read(sl_str_c(text), &arena, &patterns[i], NULL),
                 0);
        list[i] = &patterns[i];
    }
    tree = sl_routes_build(list, WAYS, &arena);
    CASE("words and stars on every level");
    sl_path_read(SL_STR("/a/a/a/a/a/a/a/a/a/a"), room, &path);
    CHECK_EQ(sl_routes_find(tree, method, &path, 0), 0);
    sl_path_read(SL_STR("/a/a/a/a/a/b/a/a/a/b"), room, &path);
    CHECK_EQ(sl_routes_find(tree, method, &path, 0), 0);
    sl_path_read(SL_STR("/a/a/a/a/a/a/a/a/a"), room, &path);
    CHECK_EQ(sl_routes_find(tree, method, &path, 0), SL_NO_ROUTE);
    sl_arena_done(&arena);
}

TEST(failures)
{
    struct sl_routes *tree = NULL;
    struct sl_pattern patterns[200];
    const struct sl_pattern *list[200];
    struct sl_arena texts;
    unsigned n;

    sl_arena_init(&texts, 1024 * 1024, &sl_alloc_libc);
    for (unsigned i = 0; i < 200; i++) {
        char text[40];

        snprintf(text, sizeof(text), "GET /api/%u/:id/x", i);
        CHECK_EQ(sl_pattern_read(sl_str_c(text), &texts, &patterns[i], NULL),
                 0);
        list[i] = &patterns[i];
    }
    CASE("with the nth allocation failing: no tree, no leak");
    for (n = 1; !tree; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);
        struct sl_arena arena;
        struct sl_path path;
        char room[64];

        sl_arena_init(&arena, 1024 * 1024, &alloc);
        tree = sl_routes_build(list, 200, &arena);
        sl_path_read(SL_STR("/api/123/a/x"), room, &path);
        if (tree)
            CHECK_EQ(sl_routes_find(tree, SL_METHOD_GET, &path, 0), 123);
        sl_arena_done(&arena);
        fail_check(&f);
    }
    CHECK(n > 3);
    sl_arena_done(&texts);
}

CHECK_MAIN()
