/* path.c -- canonical paths: every spelling of an endpoint, near misses, and
 * the edges of what is kept. */
#include "policy/path.h"

#include <stdlib.h>

#include "check.h"
#include "policy/route.h"
#include "row.h"

/* Meson hands in the absolute path; by hand, tests run from the root. */
#ifndef SL_TEST_DATA
#define SL_TEST_DATA "test/data"
#endif

#define ENDPOINT "/api/v1/ai/extract"

/* Read `text` and print it again; the result is valid until the next call.
 * The room has not one byte more than promised, for ASan to see. */
static const char *canonical(struct sl_str text, struct sl_path *path)
{
    static char printed[2 * SL_PATH_BYTES];
    size_t size = text.len < SL_PATH_BYTES ? text.len : SL_PATH_BYTES;
    char *room = malloc(size ? size : 1), *copy = malloc(text.len + 1);

    if (!room || !copy)
        abort();
    if (text.len > 0)
        memcpy(copy, text.at, text.len);
    sl_path_read((struct sl_str){copy, text.len}, room, path);
    free(copy); /* what is kept is in the room */
    sl_path_print(path, printed, sizeof(printed));
    free(room);
    return printed;
}

static void test_forms(void)
{
    static const struct {
        const char *why, *text, *want;
    } rows[] = {
        {"nothing is the root",               "",                "/"         },
        {"the root",                          "/",               "/"         },
        {"many slashes",                      "////",            "/"         },
        {"a plain path",                      "/a/b",            "/a/b"      },
        {"case is kept",                      "/A/b",            "/A/b"      },
        {"a slash is put in front",           "a/b",             "/a/b"      },
        {"the asterisk of OPTIONS",           "*",               "/*"        },
        {"a slash at the end",                "/a/b/",           "/a/b"      },
        {"above the root is the root",        "/../../a",        "/a"        },
        {"only dots",                         "/./../.",         "/"         },
        {"three dots are a name",             "/.../a",          "/.../a"    },
        {"dots at the end",                   "/a/b/..",         "/a"        },
        {"escapes",                           "/%61%2fb",        "/a/b"      },
        {"once only",                         "/%2561",          "/%61"      },
        {"an escaped percent and digits",     "/%25%36%31",      "/%61"      },
        {"a percent without digits",          "/%zz/%a/%",       "/%zz/%a/%" },
        {"an escape cut short",               "/a%4",            "/a%4"      },
        {"IIS escapes stay",                  "/%u0061",         "/%u0061"   },
        {"UTF-8 stays bytes",                 "/%c3%a4",         "/\xc3\xa4" },
        {"broken UTF-8 too",                  "/%ff\xfe",        "/\xff\xfe" },
        {"a plus is a plus",                  "/a+b",            "/a+b"      },
        {"parameters",                        "/a;x=1/b;y",      "/a/b"      },
        {"only parameters",                   "/;x",             "/"         },
        {"dots with parameters",              "/a/..;x/b",       "/b"        },
        {"an escaped semicolon is a letter",  "/a%3bx/b",        "/a;x/b"    },
        {"a backslash ends parameters",       "/a;x\\b",         "/a/b"      },
        {"an escaped slash ends parameters",  "/a;x%2fb",        "/a/b"      },
        {"an escape inside parameters",       "/a;%41%zz/b",     "/a/b"      },
        {"a query ends it",                   "/a?b/c",          "/a"        },
        {"a fragment ends it",                "/a#b/c",          "/a"        },
        {"an escaped NUL ends it",            "/a%00b/c",        "/a"        },
        {"an escaped question mark does not", "/a%3fb/c",        "/a?b/c"    },
        {"nor an escaped number sign",        "/a%23b/c",        "/a#b/c"    },
        {"scheme and host go",                "http://h:80/a/b", "/a/b"      },
        {"a host alone",                      "http://h",        "/"         },
        {"a host and a query",                "http://h?x/y",    "/"         },
        {"any scheme",                        "x-1+y.z://h/a",   "/a"        },
        {"one slash makes no host",           "http:/a",         "/http:/a"  },
        {"a host inside is a path",           "/http://h/a",     "/http:/h/a"},
        {"two slashes make no host",          "//h/a",           "/h/a"      },
        {"authority form",                    "h:443",           "/h:443"    },
    };
    struct sl_path path;

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_STR(canonical(sl_str_c(rows[i].text), &path), rows[i].want);
        CHECK(!path.deep);
    }
    CASE("a NUL ends it");
    CHECK_STR(canonical(SL_STR("/a\0/b"), &path), "/a");
    CASE("segments are counted");
    canonical(SL_STR("/a//b/./c/d/.."), &path);
    CHECK_EQ(path.count, 3);
}

/* Call `judge` for each line of a file of spellings; returns how many. */
static unsigned each_line(const char *name,
                          void (*judge)(struct sl_str text, const char *got))
{
    char file[512], line[4096];
    struct sl_path path;
    unsigned count = 0;
    FILE *f;

    snprintf(file, sizeof(file), "%s/%s", SL_TEST_DATA, name);
    f = fopen(file, "r");
    if (!CHECK(f != NULL))
        return 0;
    while (fgets(line, sizeof(line), f)) {
        struct sl_str text = {line, strcspn(line, "\n")};

        CHECK(line[text.len] == '\n'); /* or the line was too long for us */
        line[text.len] = '\0';
        if (text.len == 0 || strncmp(line, "# ", 2) == 0)
            continue;
        judge(text, canonical(text, &path));
        count++;
    }
    fclose(f);
    return count;
}

/* Also against a pattern, as it is asked in the end. */
static bool matches(struct sl_str text)
{
    struct sl_arena arena;
    struct sl_pattern pattern;
    struct sl_path path;
    char room[4096];
    bool found;

    sl_arena_init(&arena, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_pattern_read(SL_STR("POST " ENDPOINT), &arena, &pattern, NULL),
             0);
    sl_path_read(text, room, &path);
    found = sl_pattern_matches(&pattern, SL_METHOD_POST, &path);
    sl_arena_done(&arena);
    return found;
}

static void must_be_it(struct sl_str text, const char *got)
{
    if (!CHECK(sl_str_eq_nocase(sl_str_c(got), SL_STR(ENDPOINT))) ||
        !CHECK(matches(text)))
        printf("# %s\n#   became %s\n", text.at, got);
}

static void must_not_be_it(struct sl_str text, const char *got)
{
    if (!CHECK(!sl_str_eq_nocase(sl_str_c(got), SL_STR(ENDPOINT))) ||
        !CHECK(!matches(text)))
        printf("# %s\n#   became %s\n", text.at, got);
}

static void test_spellings(void)
{
    CASE("every spelling of an endpoint is that endpoint");
    CHECK(each_line("paths.txt", must_be_it) >= 170);
    CASE("near misses are not");
    CHECK(each_line("path-misses.txt", must_not_be_it) >= 80);
}

/* `count` times `part`, then `end`. Free it. */
static struct sl_str repeat(const char *part, size_t count, const char *end)
{
    size_t len = strlen(part), end_len = strlen(end);
    char *text = malloc(len * count + end_len + 1);

    if (!text)
        abort();
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * len, part, len);
    memcpy(text + count * len, end, end_len + 1);
    return (struct sl_str){text, len * count + end_len};
}

static void test_deep(void)
{
    static const struct {
        const char *why, *part;
        unsigned times;
        const char *end;
        unsigned count;
        bool deep;
    } rows[] = {
        ROW("sixty-four segments are kept", "/a", 64, "", 64, false),
        ROW("one more is too deep", "/a", 65, "", 64, true),
        ROW("and back is not", "/a", 65, "/..", 64, false),
        ROW("far down and one up is deep still", "/a", 9000, "/..", 64, true),
        ROW("detours leave nothing behind", "/a/..", 5000, "/x/y", 2, false),
        ROW("empty ones neither", "/./;x/", 9000, "/x/y", 2, false),
        ROW("nor a hundred thousand slashes", "/", 100000, "x/y", 2, false),
        ROW("a query is no path", "/x/y?", 1, "/a/a/a/a/a/a/a", 2, false),
    };
    struct sl_path path;

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_str text = repeat(rows[i].part, rows[i].times, rows[i].end);

        CASE(rows[i].why);
        canonical(text, &path);
        CHECK_EQ(path.count, rows[i].count);
        CHECK_EQ(path.deep, rows[i].deep);
        free((char *)text.at);
    }
}

/* Texts of more than SL_PATH_BYTES bytes: what is kept, and what is not. */
static void test_long(void)
{
    struct sl_str text = repeat("a", SL_PATH_BYTES - 4, "/bcd/ef/../gh/i");
    struct sl_str host = repeat("h", 20000, ENDPOINT);
    struct sl_path path;
    char room[SL_PATH_BYTES];

    CASE("a segment for which there is no room is there, and empty");
    sl_path_read(text, room, &path);
    CHECK_EQ(path.count, 4);
    CHECK_EQ(path.segment[0].len, SL_PATH_BYTES - 4);
    CHECK(sl_str_eq(path.segment[1], SL_STR("bcd")));
    CHECK_EQ(path.segment[2].len, 0);
    CHECK(sl_str_eq(path.segment[3], SL_STR("i")));
    CHECK(!path.deep);
    canonical(text, &path);

    CASE("dots count where there is no room for them");
    sl_path_read((struct sl_str){text.at, text.len - 4}, room, &path);
    CHECK_EQ(path.count, 2);

    CASE("a host of any length is no way round");
    memcpy((char *)host.at, "http://", 7);
    CHECK_STR(canonical(host, &path), ENDPOINT);
    free((char *)text.at);
    free((char *)host.at);
}

static void test_print(void)
{
    struct sl_path path;
    char room[16], out[8];

    sl_path_read(SL_STR("/abc/de"), room, &path);
    CASE("printed whole");
    CHECK_EQ(sl_path_print(&path, out, 8), 7);
    CHECK_STR(out, "/abc/de");
    CASE("cut to fit");
    CHECK_EQ(sl_path_print(&path, out, 7), 6);
    CHECK_STR(out, "/abc/d");
    CHECK_EQ(sl_path_print(&path, out, 5), 4);
    CHECK_STR(out, "/abc");
    CHECK_EQ(sl_path_print(&path, out, 1), 0);
    CHECK_STR(out, "");
    out[0] = 'x';
    CHECK_EQ(sl_path_print(&path, out, 0), 0);
    CHECK(out[0] == 'x');
    sl_path_read(SL_STR(""), room, &path);
    CHECK_EQ(sl_path_print(&path, out, 1), 0);
    CHECK_EQ(sl_path_print(&path, out, 2), 1);
    CHECK_STR(out, "/");
}

int main(void)
{
    test_forms();
    test_spellings();
    test_deep();
    test_long();
    test_print();
    return CHECK_DONE();
}
