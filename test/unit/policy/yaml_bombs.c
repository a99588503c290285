/* yaml_bombs.c -- files that would hurt a reader, and memory that runs out. */
#include "policy/yaml.h"

#include "fail.h"
#include "problems.h"
#include "row.h"

/* Small texts, many times. Each must be over at once: the test has a time
 * limit that any square of a megabyte would pass. */
static const struct bomb {
    const char *why, *head, *unit, *tail;
    unsigned times;
    const char *report; /* its first line; "" is read without complaint */
} bombs[] = {
#define DEEP "Lists and maps are nested more than 32 levels deep"
    ROW("brackets", "", "[", "", 200000, "p.yaml:1:33: " DEEP),
    ROW("braces with keys", "", "{a: ", "", 50000, "p.yaml:1:129: " DEEP),
    ROW("braces with quoted keys", "", "{\"a\":", "", 200000,
        "p.yaml:1:161: " DEEP),
    ROW("dashes", "", "- ", "", 100000, "p.yaml:1:65: " DEEP),
    ROW("questions", "", "? ", "", 100000,
        "p.yaml:1:3: A key must be a text, not a list or a map"),
    ROW("aliases", "a: &a x\nb:\n", "- *a\n", "", 99,
        "p.yaml:1:4: A policy has no anchors. Repeat the value where it is "
        "needed"),
    ROW("directives", "", "%", "", 500000,
        "p.yaml:1:1: A policy has no YAML directives. Remove this line"),
    ROW("documents", "", "---\n", "", 250000,
        "p.yaml:2:1: A second document begins here. A policy must be one "
        "document"),
    ROW("a million letters in a line", "a: ", "x", "", 1000000, ""),
    ROW("in quotes", "a: \"", "x", "\"", 1000000, ""),
    ROW("without end", "a: \"", "x", "", 1000000,
        "p.yaml:1:4: The string that begins here has no closing \". Close it, "
        "and indent its other lines"),
    ROW("in a key", "", "x", ": 1", 1000000, ""),
    ROW("blanks", "a: x", " ", "y", 1000000, ""),
    ROW("tabs", "", "\t", "", 1000000,
        "p.yaml:1:1000001: A tab cannot indent a line in YAML. Use spaces"),
    ROW("blank lines in a text", "a: >\n  x\n", "\n", "  y", 900000,
        "p.yaml:103:1: More than 100 blank lines in a row. Remove some"),
    ROW("as many as may be", "a: >\n  x\n", "\n", "  y", 100, ""),
    ROW("comments", "", "# x\n", "", 250000, ""),
    ROW("anchors", "a: ", "&a ", "", 300000,
        "p.yaml:1:4: A policy has no anchors. Repeat the value where it is "
        "needed"),
    ROW("values in a list", "[", "a,", "]", 400000,
        "p.yaml:1:200000: The file has more than 100000 values. The rest is "
        "not read"),
    ROW("the same key", "", "a:\n", "", 99999,
        "p.yaml:2:1: Duplicate key \"a\". The first one is on line 1, column "
        "1"),
    ROW("as large as may be", "a: ", "x", "", 1048573, ""),
    ROW("too large by one", "a: ", "x", "", 1048574,
        "p.yaml:1:1: The file has more than 1048576 bytes, the maximum of a "
        "policy"),
};

TEST(bombs)
{
    struct reading *r = malloc(sizeof(*r));

    for (size_t i = 0; i < SL_LEN(bombs); i++) {
        const struct bomb *b = &bombs[i];
        size_t unit = strlen(b->unit), head = strlen(b->head), at = head;
        size_t len = head + unit * b->times + strlen(b->tail);
        char *text = malloc(len);

        CASE(b->why);
        memcpy(text, b->head, head);
        for (unsigned n = 0; n < b->times; n++, at += unit)
            memcpy(text + at, b->unit, unit);
        memcpy(text + at, b->tail, strlen(b->tail));
        read_it(r, (struct sl_str){text, len}, false);
        r->text[strcspn(r->text, "\n")] = '\0';
        CHECK_STR(r->text, b->report);
        CHECK_EQ(r->report.no_memory, false);
        read_done(r);
        free(text);
    }
    free(r);
}

TEST(nul)
{
    struct reading *r = malloc(sizeof(*r));

    CASE("a NUL is refused where it stands");
    read_it(r, (struct sl_str){"a: 1\nb: x\0y\n", 12}, false);
    CHECK_STR(r->text, "p.yaml:2:5: Found a NUL byte. A policy must be plain "
                       "text in UTF-8\n"
                       "  b: x?y\n"
                       "      ^\n");
    CHECK(!r->root);
    read_done(r);
    free(r);
}

/* Only our own memory: libfyaml's comes from malloc. */
TEST(failures)
{
    static const char text[] = "a: {b: [c, \"${ENV:TOKEN}${FILE:./token}\"]}\n"
                               "a: 2\n"
                               "d: *x\n";
    struct reading *r = malloc(sizeof(*r));
    bool done = false;
    unsigned n;

    CASE("with the nth allocation failing: no root, no leak");
    for (n = 1; !done; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);

        read_with(r, (struct sl_str){text, sizeof(text) - 1}, true, &alloc);
        done = f.calls < n;
        CHECK(done || r->report.no_memory || r->text[0] == '\0');
        CHECK(!r->root || !r->report.no_memory || r->report.errors);
        read_done(r);
        fail_check(&f);
    }
    CHECK(n > 6);
    free(r);
}

TEST(arena)
{
    static const char text[] = "a: {b: [c, d]}\n";
    bool done = false;
    size_t size;

    CASE("an arena that is too small is no memory");
    for (size = 1; !done; size += 16) {
        struct sl_report report;
        struct sl_arena arena;

        sl_report_init(&report, "p", (struct sl_str){text, sizeof(text) - 1},
                       &sl_alloc_libc);
        sl_arena_init(&arena, size, &sl_alloc_libc);
        done = sl_yaml_read(&report, NULL, &arena) != NULL;
        CHECK_EQ(report.no_memory, !done);
        sl_arena_done(&arena);
        sl_report_done(&report);
    }
    CHECK(size > 400);
}

CHECK_MAIN()
