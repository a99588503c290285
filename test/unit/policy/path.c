/* path.c -- canonical paths: every spelling of an endpoint, near misses, the
 * edges of what is kept, and the readings that other servers have. */
#include "policy/route.h"

#include <stdlib.h>

#include "check.h"
#include "row.h"

/* Meson hands in the absolute path; by hand, tests run from the root. */
#ifndef SL_TEST_DATA
#define SL_TEST_DATA "test/data"
#endif

#define ENDPOINT "/api/v1/ai/extract"

/* "/a/b", cut to fit. Returns its length. */
static size_t print_path(const struct sl_path *path, char *out, size_t size)
{
    size_t len = 0;

    for (unsigned i = 0; i < path->count && len < size - 1; i++) {
        size_t part = path->segment[i].len;

        out[len++] = '/';
        if (part > size - 1 - len)
            part = size - 1 - len;
        if (part > 0)
            memcpy(out + len, path->segment[i].at, part);
        len += part;
    }
    if (path->count == 0)
        out[len++] = '/';
    out[len] = '\0';
    return len;
}

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
    print_path(path, printed, sizeof(printed));
    free(room);
    return printed;
}

TEST(forms)
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

static bool is_match(const char *match, const struct sl_path *path)
{
    struct sl_arena arena;
    struct sl_pattern pattern;
    bool found;

    sl_arena_init(&arena, 4096, &sl_alloc_libc);
    CHECK_EQ(sl_pattern_read(sl_str_c(match), &arena, &pattern, NULL), 0);
    found = sl_pattern_matches(&pattern, SL_METHOD_POST, path);
    sl_arena_done(&arena);
    return found;
}

/* Also against a pattern, as it is asked in the end. */
static bool matches(struct sl_str text)
{
    struct sl_path path;
    char room[4096];

    sl_path_read(text, room, &path);
    return is_match("POST " ENDPOINT, &path);
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

TEST(spellings)
{
    CASE("every spelling of an endpoint is that endpoint");
    CHECK(each_line("paths.txt", must_be_it) >= 170);
    CASE("near misses are not, as it is read first");
    CHECK(each_line("path-misses.txt", must_not_be_it) >= 80);
}

/* ---- readings ---- */

static char *copy; /* of the text whose readings are looked at */

static void forget(char *room)
{
    free(room);
    free(copy);
    copy = NULL;
}

/* The readings of `text`, in memory that ends where it must. Forget the room.
 */
static unsigned read_all(struct sl_str text, char **room,
                         struct sl_path ret[SL_PATH_READINGS])
{
    size_t size = text.len < SL_PATH_BYTES ? text.len : SL_PATH_BYTES;

    copy = malloc(text.len + (text.len == 0));
    *room = malloc(SL_PATH_READINGS * size + (size == 0));
    if (!*room || !copy)
        abort();
    if (text.len > 0)
        memcpy(copy, text.at, text.len);
    return sl_path_readings((struct sl_str){copy, text.len}, *room, ret);
}

/* As print_path() does, but a slash or a NUL inside a segment is shown as
 * '!' and '0'. */
static size_t spell(const struct sl_path *path, char *out, size_t size)
{
    struct sl_path shown = *path;
    char bytes[256];
    size_t used = 0;

    for (unsigned i = 0; i < path->count; i++) {
        shown.segment[i].at = bytes + used;
        for (size_t j = 0; j < path->segment[i].len; j++) {
            char c = path->segment[i].at[j];

            bytes[used++] = (char)(c == '/' ? '!' : c ? c : '0');
        }
    }
    return print_path(&shown, out, size);
}

/* All of them, with blanks between; valid until the next call. */
static const char *spelled(struct sl_str text)
{
    static char out[1024];
    struct sl_path paths[SL_PATH_READINGS];
    size_t len = 0;
    char *room;
    unsigned count = read_all(text, &room, paths);

    CHECK(count >= 1 && count <= SL_PATH_READINGS);
    for (unsigned i = 0; i < count; i++) {
        if (i > 0)
            out[len++] = ' ';
        len += spell(&paths[i], out + len, sizeof(out) - len);
    }
    forget(room);
    return out;
}

TEST(readings)
{
    static const struct {
        const char *why, *text, *want;
    } rows[] = {
        ROW("nothing", "", "/"),
        ROW("a plain path", "/a/b", "/a/b"),
        ROW("without a slash in front", "a/b", "/a/b"),
        ROW("a query", "/a/b?../;#\\%00%2f", "/a/b"),
        ROW("a slash before a query", "/a/?b", "/a"),
        ROW("slashes too many", "/a//b//", "/a/b"),
        ROW("harmless escapes", "/%61%3f%23%20%25/%zz%", "/a?# %/%zz%"),
        ROW("escaped twice", "/%2561/%252e%252E/%2525", "/%61/%2e%2E/%25 /%"),
        ROW("digits that are escaped", "/%25%36%31", "/%61 /a"),
        ROW("behind a percent sign", "/%%36%31/%25", "/%61/% /a/%"),
        ROW("escaped with a u", "/%u0061%U002fb", "/%u0061%U002fb /a/b"),
        ROW("a wide letter", "/%uff41%u0161", "/%uff41%u0161 /a%u0161"),
        ROW("cut off", "/%u006/%256/%25", "/%u006/%6/%"),
        ROW("three dots, and dots in words", "/.../a.b/.a/a.",
            "/.../a.b/.a/a."),
        ROW("a host", "http://h/a/b", "/a/b"),
        ROW("odd bytes in a host", "http://h;%2f/a", "/a"),
        ROW("a dot", "/a/./b", "/a/b /a/./b"),
        ROW("two dots", "/a/../b", "/b /a/../b"),
        ROW("dots at the end", "/a/..", "/ /a/.."),
        ROW("escaped dots", "/a/%2e%2E/b/%2e", "/b /a/../b/."),
        ROW("parameters", "/a;x/b", "/a/b /a;x/b"),
        ROW("only parameters", "/a/;x", "/a /a/;x"),
        ROW("dots with parameters", "/a/..;/b", "/b /a/..;/b /a/../b"),
        ROW("an escaped semicolon", "/a%3bx/b", "/a;x/b /a/b"),
        ROW("a backslash", "/a\\b", "/a/b /a\\b"),
        ROW("an escaped backslash", "/a%5cb", "/a/b /a\\b"),
        ROW("a backslash and dots", "/a/..\\b", "/b /a/..\\b"),
        ROW("an escaped slash", "/a%2fb", "/a/b /a!b"),
        ROW("and dots", "/a/..%2Fb", "/b /a/..!b /a/../b"),
        ROW("a number sign", "/a#/../b", "/a /b /a#/../b"),
        ROW("an escaped NUL", "/a%00/../b", "/a /b /a0/../b"),
        ROW("dots above the root", "/../a", "/a /../a"),
        ROW("dots behind an empty segment", "/a//../b", "/b /a/../b /a/b"),
        ROW("two slashes in front", "//h/a", "/h/a /a"),
        ROW("and nothing but a host", "//h", "/h /"),
        ROW("and a query", "//h?/a", "/h /"),
        ROW("behind a host", "http://h//i/a", "/i/a /a"),
        ROW("only slashes", "///", "/"),
        ROW("backslashes in front", "/\\h/a", "/h/a /\\h/a /a"),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_STR(spelled(sl_str_c(rows[i].text)), rows[i].want);
    }
    CASE("a NUL");
    CHECK_STR(spelled(SL_STR("/a\0/../b")), "/a /b /a0/../b");
}

static void must_lead_there(struct sl_str text, const char *got)
{
    struct sl_path paths[SL_PATH_READINGS];
    char *room;
    unsigned count = read_all(text, &room, paths), i = 0;

    while (i < count && !is_match("/api/v1/ai/**", &paths[i]))
        i++;
    if (!CHECK(i > 0) || !CHECK(i < count))
        printf("# %s\n#   first %s\n", text.at, got);
    forget(room);
}

/* The first reading is the canonical one, whatever the text is. */
static void must_begin_alike(struct sl_str text, const char *got)
{
    struct sl_path paths[SL_PATH_READINGS];
    char *room, printed[4096];

    CHECK(read_all(text, &room, paths) >= 1);
    print_path(&paths[0], printed, sizeof(printed));
    CHECK_STR(printed, got);
    forget(room);
}

TEST(detours)
{
    CASE("what some server serves from there has a reading there");
    CHECK(each_line("path-readings.txt", must_lead_there) >= 60);
    CASE("the first reading is the canonical one");
    each_line("paths.txt", must_begin_alike);
    each_line("path-misses.txt", must_begin_alike);
    each_line("path-readings.txt", must_begin_alike);
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

TEST(deep)
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
TEST(long)
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
    CHECK(path.cut);
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

/* `cut` is exact: it is set if and only if the segments have more bytes than
 * there is room for. */
TEST(cut)
{
    char room[SL_PATH_BYTES];

    for (size_t len = SL_PATH_BYTES - 12; len < SL_PATH_BYTES + 12; len++) {
        struct sl_str plain = repeat("a", len, "/pay");
        struct sl_str escaped = repeat("a", len, "/p%61y?b=c");
        struct sl_path path;

        CASE("around the room");
        canonical(plain, &path);
        CHECK_EQ(path.cut, len + 3 > SL_PATH_BYTES);
        CHECK_EQ(path.count, 2);
        sl_path_read(escaped, room, &path);
        CHECK_EQ(path.cut, len + 3 > SL_PATH_BYTES);
        free((char *)plain.at);
        free((char *)escaped.at);
    }
}

/* What a hostile client may do to the readings. */
TEST(long_readings)
{
    static const struct {
        const char *why, *part;
        size_t times;
        const char *end;
        unsigned readings, count;
    } rows[] = {
        ROW("slashes, and up through them", "/", 9000, "a//../b", 3, 1),
        ROW("dots that stay are deep", "/a/..", 9000, "/b", 2, 1),
        ROW("deep is deep", "/a", 70, "//../..", 1, 64),
        ROW("an empty one at the edge", "/a", 64, "//../..", 3, 62),
        ROW("beyond it", "/a", 66, "///../../../../../..", 3, 60),
        ROW("segments without room", "/aaaaaaaaaaaaaaa;", 2000, "", 2, 64),
        ROW("one long segment", "%2f..\\;#", 9000, "/..", 7, 0),
    };
    struct sl_path paths[SL_PATH_READINGS];
    char *room;

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_str text = repeat(rows[i].part, rows[i].times, rows[i].end);

        CASE(rows[i].why);
        CHECK_EQ(read_all(text, &room, paths), rows[i].readings);
        CHECK_EQ(paths[0].count, rows[i].count);
        free((char *)text.at);
        forget(room);
    }
}

CHECK_MAIN()
