/* diagnostics.c -- problems in their order, and how they are shown. */
#include "policy/diagnostics.h"

#include "fail.h"

#define AT(line, column) ((struct sl_source_pos){line, column})

static const char file[] = "abc\n"
                           "de: \"fgh\" 'i' \"j\\\"k\" |\n"
                           "\tx: 5/minn\r\n"
                           "\n"
                           "last";

/* What the report prints, as a string. */
static const char *print(const struct sl_report *report)
{
    static char text[200000];
    struct sl_buf out;

    sl_buf_init(&out, sizeof(text) - 1, &sl_alloc_libc);
    CHECK_EQ(sl_report_print(report, &out), 0);
    if (out.len > 0)
        memcpy(text, out.bytes, out.len);
    text[out.len] = '\0';
    sl_buf_done(&out);
    return text;
}

TEST(order)
{
    struct sl_report r;

    sl_report_init(&r, "p", sl_str_c(file), &sl_alloc_libc);
    CASE("a report without problems is empty");
    CHECK_STR(print(&r), "");

    CASE("problems are shown in the order of their places");
    sl_report_error(&r, AT(5, 1), "five");
    sl_report_warning(&r, AT(1, 2), "one %d", 1);
    sl_diag_hint(sl_report_error(&r, AT(1, 1), "zero"), "%s", "this");
    sl_report_error(&r, AT(0, 0), "the whole");
    sl_report_error(&r, AT(1, 2), "and another");
    CHECK_EQ(r.errors, 4);
    CHECK_EQ(r.warnings, 1);
    CHECK_EQ(r.kept, 5);
    CHECK_STR(print(&r), "p: the whole\n"
                         "p:1:1: zero\n"
                         "  abc\n"
                         "  ^\n"
                         "  write: this\n"
                         "p:1:2: warning: one 1\n"
                         "  abc\n"
                         "   ^\n"
                         "p:1:2: and another\n"
                         "  abc\n"
                         "   ^\n"
                         "p:5:1: five\n"
                         "  last\n"
                         "  ^\n");
    sl_report_done(&r);
}

TEST(lines)
{
    struct sl_report r;

    sl_report_init(&r, "p", sl_str_c(file), &sl_alloc_libc);
    CASE("tabs, line ends of two bytes, blank lines, the end and beyond");
    sl_report_error(&r, AT(3, 2), "a tab before it");
    sl_report_error(&r, AT(3, 99), "behind the line");
    sl_report_error(&r, AT(4, 1), "a blank line");
    sl_report_error(&r, AT(5, 5), "the end");
    sl_report_error(&r, AT(6, 1), "beyond");
    CHECK_STR(print(&r), "p:3:2: a tab before it\n"
                         "  \tx: 5/minn\n"
                         "  \t^\n"
                         "p:3:99: behind the line\n"
                         "  \tx: 5/minn\n"
                         "  \t         ^\n"
                         "p:4:1: a blank line\n"
                         "p:5:5: the end\n"
                         "  last\n"
                         "      ^\n"
                         "p:6:1: beyond\n");
    sl_report_done(&r);

    CASE("a byte order mark does not count");
    sl_report_init(&r, NULL,
                   SL_STR("\xef\xbb\xbf"
                          "abc"),
                   &sl_alloc_libc);
    sl_report_error(&r, AT(1, 2), "b");
    CHECK_STR(print(&r), "1:2: b\n"
                         "  abc\n"
                         "   ^\n");
    sl_report_done(&r);
}

/* A line of 1,000 bytes, two to a character. */
TEST(long_line)
{
    static const struct {
        const char *why;
        unsigned column;
        size_t blanks, shown; /* before the caret; bytes of the line */
    } rows[] = {
        {"the beginning of a long line", 1,    0,  120},
        {"still at its beginning",       61,   30, 120},
        {"its middle, whole characters", 501,  30, 120},
        {"cut between characters",       502,  31, 120},
        {"its end",                      1001, 30, 60 },
        {"behind its end",               5000, 30, 60 },
    };
    char line[1000];
    struct sl_report r;

    for (size_t i = 0; i < sizeof(line); i += 2)
        memcpy(line + i, "\xc3\xa9", 2);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        const char *text, *shown, *below;

        CASE(rows[i].why);
        sl_report_init(&r, "p", (struct sl_str){line, sizeof(line)},
                       &sl_alloc_libc);
        sl_report_error(&r, AT(1, rows[i].column), "x");
        text = print(&r);
        shown = strchr(text, '\n') + 3;
        below = strchr(shown, '\n') + 3;
        CHECK_EQ(below - shown - 3, rows[i].shown);
        CHECK_EQ(shown[0], '\xc3');
        CHECK_EQ(strspn(below, " "), rows[i].blanks);
        sl_report_done(&r);
    }
}

TEST(no_characters)
{
    char line[300];
    struct sl_report r;

    CASE("a long line that is not even text");
    memset(line, 0xb4, sizeof(line));
    sl_report_init(&r, "p", (struct sl_str){line, sizeof(line)},
                   &sl_alloc_libc);
    sl_report_error(&r, AT(1, 150), "x");
    CHECK_EQ(strspn(strchr(print(&r), '\n') + 3, "?"), 120);
    sl_report_done(&r);
}

TEST(within)
{
    static const struct {
        const char *why;
        unsigned line, column;
        size_t at;
        unsigned want;
    } rows[] = {
        {"a plain scalar",                     3, 5,  2, 7 },
        {"its first byte",                     3, 5,  0, 5 },
        {"the end of it",                      3, 5,  6, 11},
        {"beyond the line",                    3, 5,  7, 5 },
        {"in quotes it begins behind them",    2, 5,  0, 6 },
        {"and goes on",                        2, 5,  2, 8 },
        {"up to the closing one",              2, 5,  3, 9 },
        {"behind that nothing can be counted", 2, 5,  4, 5 },
        {"in single quotes",                   2, 11, 1, 13},
        {"before an escape",                   2, 15, 1, 17},
        {"behind an escape",                   2, 15, 2, 15},
        {"a block is on other lines",          2, 22, 1, 22},
        {"the file as a whole",                0, 0,  5, 0 },
        {"a line that is not there",           9, 1,  1, 1 },
    };
    struct sl_report r;

    sl_report_init(&r, "p", sl_str_c(file), &sl_alloc_libc);
    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_source_pos got;

        CASE(rows[i].why);
        got =
            sl_report_within(&r, AT(rows[i].line, rows[i].column), rows[i].at);
        CHECK_EQ(got.line, rows[i].line);
        CHECK_EQ(got.column, rows[i].want);
    }
    sl_report_done(&r);
}

TEST(diag)
{
    static const char text[] = "a: 5/minn\nb: \"${ENV:X} y\"\n";
    struct sl_diag diag = {.line = 0};
    struct sl_report r;

    sl_report_init(&r, "p", sl_str_c(text), &sl_alloc_libc);
    CASE(
        "what a parser said stands at its offset, unless something was put in");
    (void)sl_diag_error_at(&diag, SLUICE_ECONF, 2, "no unit");
    sl_diag_hint(&diag, "5/min");
    sl_report_diag(&r, AT(1, 4), &diag);
    sl_report_diag(&r, AT(2, 4), &diag);
    CHECK_STR(print(&r), "p:1:6: no unit\n"
                         "  a: 5/minn\n"
                         "       ^\n"
                         "  write: 5/min\n"
                         "p:2:4: no unit\n"
                         "  b: \"${ENV:X} y\"\n"
                         "     ^\n"
                         "  write: 5/min\n");
    CHECK_EQ(r.errors, 2);
    sl_report_done(&r);
}

static unsigned count_kept(const struct sl_report *r, bool warning)
{
    unsigned count = 0;

    for (unsigned i = 0; i < r->kept; i++)
        count += r->problems[i].warning == warning;
    return count;
}

TEST(many)
{
    struct sl_report r;
    const char *text, *last;

    sl_report_init(&r, "p", sl_str_c(file), &sl_alloc_libc);
    CASE("as many as there may be are all kept");
    for (unsigned i = SL_PROBLEMS; i > 0; i--)
        sl_report_warning(&r, AT(i, 1), "number %u", i);
    CHECK_EQ(r.kept, SL_PROBLEMS);
    CHECK(!strstr(print(&r), "more problem"));
    CHECK(!sl_report_full(&r));

    CASE("of more, the first in the file are kept");
    sl_diag_hint(sl_report_warning(&r, AT(500, 1), "far away"), "lost");
    sl_report_warning(&r, AT(1, 1), "near");
    CHECK_EQ(r.kept, SL_PROBLEMS);
    CHECK_EQ(r.warnings, SL_PROBLEMS + 2);
    text = print(&r);
    CHECK(strstr(text, "near") && !strstr(text, "far away"));
    CHECK(!strstr(text, "number 100") && strstr(text, "number 99"));

    CASE("an error takes the place of a warning, wherever it is");
    sl_report_error(&r, AT(600, 1), "this is why");
    CHECK_EQ(count_kept(&r, false), 1);
    CHECK(strstr(print(&r), "this is why"));

    CASE("a warning never takes that of an error");
    for (unsigned i = 0; i < SL_PROBLEMS; i++)
        sl_report_error(&r, AT(i + 1, 2), "error");
    sl_report_warning(&r, AT(1, 1), "too late");
    CHECK_EQ(count_kept(&r, true), 0);
    CHECK(!strstr(print(&r), "this is why"));

    CASE("a last line tells how many are not shown");
    text = print(&r);
    last = strrchr(text, 'p');
    while (last > text && last[-1] != '\n')
        last--;
    CHECK_STR(last, "p: 104 more problems are not shown\n");
    CHECK(sl_report_full(&r));
    sl_report_done(&r);
}

TEST(sentences)
{
    char letters[600];
    struct sl_report r;

    memset(letters, 'x', sizeof(letters) - 1);
    letters[sizeof(letters) - 1] = '\0';
    sl_report_init(&r, "p", sl_str_c(file), &sl_alloc_libc);
    CASE("sentences are cut and clean");
    sl_report_error(&r, AT(1, 1), "%s", letters);
    CHECK_EQ(strlen(r.problems[0].diag.sentence), 255);
    CHECK(!strcmp(r.problems[0].diag.sentence + 252, "..."));
    sl_report_error(&r, AT(1, 2), "a\x1b[31m\nb");
    CHECK_STR(r.problems[1].diag.sentence, "a?[31m?b");
    sl_report_done(&r);
}

/* Report three problems and print them; false if memory ran out. */
static bool live(const struct sl_alloc *alloc)
{
    struct sl_report r;
    struct sl_buf out;
    bool good;

    sl_report_init(&r, "p", sl_str_c(file), alloc);
    sl_buf_init(&out, 65536, alloc);
    for (unsigned i = 0; i < 30; i++)
        sl_diag_hint(sl_report_error(&r, AT(i, 1), "number %u", i), "hint");
    CHECK_EQ(r.errors, 30);
    CHECK_EQ(r.no_memory, r.kept < 30);
    good = !sl_report_print(&r, &out) && !r.no_memory;
    sl_buf_done(&out);
    sl_report_done(&r);
    return good;
}

TEST(failures)
{
    bool lived = false;
    unsigned n;

    CASE("with the nth allocation failing: counted, no leak");
    for (n = 1; !lived; n++) {
        struct fail f = {.nth = n};
        struct sl_alloc alloc = fail_alloc(&f);

        lived = live(&alloc);
        CHECK(lived || f.calls >= n);
        fail_check(&f);
    }
    CHECK(n > 4);
}

CHECK_MAIN()
