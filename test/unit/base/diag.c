/* diag.c -- what the refused get to read. */
#include "base/diag.h"

#include "check.h"
#include "row.h"

TEST(refuse)
{
    struct sl_diag diag = {.file = "a.yaml", .line = 3, .column = 9};

    CASE("a refusal returns its error and puts down the sentence");
    CHECK_EQ(sl_diag_error(&diag, SLUICE_ECONF, "%d is %s", 7, "odd"),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "7 is odd");
    CHECK_EQ(diag.at, 0);
    CHECK_STR(diag.hint, "");

    CASE("the place is the caller's");
    CHECK_STR(diag.file, "a.yaml");
    CHECK_EQ(diag.line, 3);
    CHECK_EQ(diag.column, 9);

    CASE("an offset and a hint");
    CHECK_EQ(sl_diag_error_at(&diag, SLUICE_EINVAL, 5, "no"), SLUICE_EINVAL);
    sl_diag_hint(&diag, "%s/%s", "5", "min");
    CHECK_EQ(diag.at, 5);
    CHECK_STR(diag.hint, "5/min");

    CASE("the next refusal forgets them");
    CHECK_EQ(sl_diag_error(&diag, SLUICE_ECONF, "again"), SLUICE_ECONF);
    CHECK_EQ(diag.at, 0);
    CHECK_STR(diag.hint, "");

    CASE("a sentence may quote the one before");
    CHECK_EQ(sl_diag_error(&diag, SLUICE_ECONF, "once %s", diag.sentence),
             SLUICE_ECONF);
    CHECK_STR(diag.sentence, "once again");

    CASE("without a diagnostic");
    CHECK_EQ(sl_diag_error(NULL, SLUICE_ECONF, "%d", 1), SLUICE_ECONF);
    CHECK_EQ(sl_diag_error_at(NULL, SLUICE_EINVAL, 3, "%d", 1), SLUICE_EINVAL);
    sl_diag_hint(NULL, "%d", 1);
}

TEST(bytes)
{
    static const struct {
        const char *why, *said, *shown;
    } rows[] = {
        {"plain text",                     "abc ~!",             "abc ~!"  },
        {"a newline and a tab",            "a\nb\tc",            "a?b?c"   },
        {"an escape that paints the town", "\x1b[31mred",        "?[31mred"},
        {"delete",                         "a\x7f",              "a?"      },
        {"two bytes",                      "gr\xc3\xbc\xc3\x9f",
         "gr\xc3\xbc"
         "\xc3\x9f"                                                        },
        {"three bytes",                    "\xe2\x82\xac 5",
         "\xe2\x82\xac"
         " 5"                                                              },
        {"four bytes",                     "\xf0\x9f\x8c\x8a",
         "\xf0\x9f\x8c"
         "\x8a"                                                            },
        {"the last there is",              "\xf4\x8f\xbf\xbf",
         "\xf4\x8f\xbf"
         "\xbf"                                                            },
        {"beyond the last",                "\xf4\x90\x80\x80",   "????"    },
        {"no such first byte",             "\xff\xf5",           "??"      },
        {"a tail without a head",          "a\x80z",             "a?z"     },
        {"a head without a tail",          "\xc3z",              "?z"      },
        {"a head at the end",              "a\xe2\x82",          "a??"     },
        {"longer than needed, two bytes",  "\xc0\x80",           "??"      },
        {"longer than needed, three",      "\xe0\x80\x80",       "???"     },
        {"longer than needed, four",       "\xf0\x80\x80\x80",   "????"    },
        {"half of a pair from UTF-16",     "\xed\xa0\x80",       "???"     },
        {"a control of eight bits",
         "\xc2\x9b"
         "31m",                                                  "??31m"   },
        {"the first beyond those",         "\xc2\xa0",           "\xc2\xa0"},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_diag diag = {.line = 0};

        CASE(rows[i].why);
        (void)sl_diag_error(&diag, SLUICE_ECONF, "%s", rows[i].said);
        sl_diag_hint(&diag, "%s", rows[i].said);
        CHECK_STR(diag.sentence, rows[i].shown);
        CHECK_STR(diag.hint, rows[i].shown);
    }
}

/* `len` times 'x', with `tail` behind. */
static const char *row_of(size_t len, const char *tail)
{
    static char text[600];

    memset(text, 'x', len);
    snprintf(text + len, sizeof(text) - len, "%s", tail);
    return text;
}

TEST(cut)
{
    static const struct {
        const char *why;
        size_t len;
        const char *tail;
        size_t kept; /* of the x, if it was cut */
    } rows[] = {
        {"the longest that fits",        255, "",                   0  },
        {"one more is cut",              256, "",                   252},
        {"many more",                    500, "",                   252},
        {"a character that just fits",   253, "\xc3\xbc",           0  },
        {"one cut off goes as a whole",  251, "\xc3\xbcyyyy",       251},
        {"also if only its end is lost", 254, "\xc3\xbc",           252},
        {"and four bytes of them",       250, "\xf0\x9f\x8c\x8ayy", 250},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_diag diag = {.line = 0};
        const char *said = row_of(rows[i].len, rows[i].tail);
        char want[256];

        CASE(rows[i].why);
        (void)sl_diag_error(&diag, SLUICE_ECONF, "%s", said);
        if (rows[i].kept == 0)
            snprintf(want, sizeof(want), "%.255s", said);
        else
            snprintf(want, sizeof(want), "%.*s...", (int)rows[i].kept, said);
        CHECK_STR(diag.sentence, want);
    }
    CASE("a hint is cut in the same way");
    {
        struct sl_diag diag = {.line = 0};

        sl_diag_hint(&diag, "%s", row_of(500, ""));
        CHECK_EQ(strlen(diag.hint), 127);
        CHECK_STR(diag.hint + 120, "xxxx...");
    }
}

TEST(print)
{
    static const struct {
        const char *why;
        struct sl_diag diag;
        const char *line, *printed;
    } rows[] = {
        ROW("all of it", {"a.yaml", 3, 9, 0, "no", "5/min"}, "  rate: 5/mni",
            "a.yaml:3:9: no\n    rate: 5/mni\n          ^\n  write: 5/min"),
        ROW("the sentence alone", {NULL, 0, 0, 0, "no", ""}, "", "no"),
        ROW("a file", {"a.yaml", 0, 0, 0, "no", ""}, "", "a.yaml: no"),
        ROW("a file and a line", {"f", 7, 0, 0, "no", ""}, "", "f:7: no"),
        ROW("a line without a file", {NULL, 7, 2, 0, "no", ""}, "", "7:2: no"),
        ROW("a column without a line says nothing", {"f", 0, 2, 0, "no", ""},
            "", "f: no"),
        ROW("a hint without a line of text", {NULL, 0, 0, 0, "no", "5s"}, "",
            "no\n  write: 5s"),
        ROW("a line without a column has no caret", {"f", 7, 0, 4, "no", ""},
            "abc", "f:7: no\n  abc"),
        ROW("a text of no file has its caret at the offset",
            {NULL, 0, 0, 2, "no", ""}, "5/mni", "no\n  5/mni\n    ^"),
        ROW("a caret behind the end", {NULL, 0, 0, 3, "no", ""}, "5/5",
            "no\n  5/5\n     ^"),
        ROW("but not further", {NULL, 0, 0, 99, "no", ""}, "5/5",
            "no\n  5/5\n     ^"),
        ROW("tabs stay tabs, above the caret too", {"f", 1, 4, 0, "no", ""},
            "\ta\tb", "f:1:4: no\n  \ta\tb\n  \t \t^"),
        ROW("a character is one column wide", {"f", 1, 4, 0, "no", ""},
            "\xc3\xbc x", "f:1:4: no\n  \xc3\xbc x\n    ^"),
        ROW("no escapes from the line", {"f", 1, 2, 0, "no", ""}, "\x1bz\xff",
            "f:1:2: no\n  ?z?\n   ^"),
    };
    char out[256];

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        size_t len, need = strlen(rows[i].printed);
        struct sl_str line = sl_str_c(rows[i].line);

        CASE(rows[i].why);
        len = sl_diag_print(&rows[i].diag, line, out, sizeof(out));
        CHECK_STR(out, rows[i].printed);
        CHECK_EQ(len, need);

        /* Too small a place gets as much as fits. */
        for (size_t size = 0; size <= need; size++) {
            memset(out, '#', sizeof(out));
            len = sl_diag_print(&rows[i].diag, line, out, size);
            CHECK_EQ(len, need);
            CHECK_EQ(out[size], '#');
            CHECK(size == 0 || strlen(out) == size - 1);
            CHECK(size == 0 || !memcmp(out, rows[i].printed, size - 1));
        }
    }
}

CHECK_MAIN()
