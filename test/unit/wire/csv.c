/* csv.c -- comma-separated values: what is read of each, and what is refused.
 */
#include "wire/csv.h"

#include "check.h"
#include "fail.h"

#define CELLS 4

/* All records of `text`: cells in brackets, records parted by '|'; then '!' and
 * the line and the sentence of trouble. */
static const char *read(const char *text, const struct sl_alloc *alloc)
{
    static char out[512];
    struct sl_str cells[CELLS];
    struct sl_arena arena;
    struct sl_csv csv;
    size_t len = 0;
    unsigned count;

    sl_arena_init(&arena, 1 << 16, alloc);
    sl_csv_begin(&csv, sl_str_c(text), &arena);
    out[0] = '\0';
    while (sl_csv_next(&csv, cells, CELLS, &count)) {
        len += (size_t)snprintf(out + len, sizeof(out) - len, "|%u:", csv.line);
        for (unsigned i = 0; i < count; i++)
            len += (size_t)snprintf(out + len, sizeof(out) - len, "[%.*s]",
                                    SL_STR_ARG(cells[i]));
    }
    if (csv.why)
        snprintf(out + len, sizeof(out) - len, "!%u:%s", csv.line, csv.why);
    sl_arena_done(&arena);
    return out;
}

TEST(rows)
{
    static const struct {
        const char *why, *text, *want;
    } rows[] = {
        {"nothing",               "",                   ""                  },
        {"only line ends",        "\n\r\n\n",           ""                  },
        {"one cell",              "a",                  "|1:[a]"            },
        {"a line end or none",    "a,b\nc,d",           "|1:[a][b]|2:[c][d]"},
        {"CR LF",                 "a,b\r\nc,d\r\n",     "|1:[a][b]|2:[c][d]"},
        {"empty cells",           ",\n,a,\n",           "|1:[][]|2:[][a][]" },
        {"blanks around",         " a\t,  b c \n",      "|1:[a][b c]"       },
        {"quotes",                "\"a\",\"b\"\n",      "|1:[a][b]"         },
        {"commas in quotes",      "\"a,b\",c\n",        "|1:[a,b][c]"       },
        {"quotes in quotes",      "\"a\"\"b\"\"\",c\n", "|1:[a\"b\"][c]"    },
        {"lines in quotes",       "\"a\nb\",c\nd\n",    "|1:[a\nb][c]|3:[d]"},
        {"empty quotes",          "\"\",\"\"\"\"\n",    "|1:[][\"]"         },
        {"blanks before quotes",  "a, \"b\"\n",         "|1:[a][b]"         },
        {"blanks in quotes stay", "\" a \"\n",          "|1:[ a ]"          },
        {"empty lines count",     "a\n\n\nb\n",         "|1:[a]|4:[b]"      },
        {"a byte order mark",
         "\xef\xbb\xbf"
         "a\n",                                         "|1:[a]"            },
        {"CR alone is a byte",    "a\rb\n",             "|1:[a\rb]"         },
        {"not closed",            "a\n\"b\nc",
         "|1:[a]!2:a quote is opened here and never closed"                 },
        {"behind a quote",        "\"a\"b\n",
         "!1:a comma is expected after the quote"                           },
        {"inside of a cell",      "a\"b\n",
         "!1:there is a quote inside a cell; quote the whole cell and double "
         "the quote"                                                        },
        {"too many",              "a,b,c,d,e\n",
         "!1:there are more cells than the first line has"                  },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_STR(read(rows[i].text, &sl_alloc_libc), rows[i].want);
    }
}

TEST(cut)
{
    static const struct {
        const char *text;
        size_t len;
    } rows[] = {
        {"",           0},
        {"a,b",        0},
        {"a,b\n",      4},
        {"a\nb\n",     2},
        {"\"a\nb\"\n", 6},
        {"\"a\nb",     0},
        {"\"\"\n",     3},
        {"\r\nx",      2},
    };

    CASE("a stream is cut behind a record");
    for (size_t i = 0; i < SL_LEN(rows); i++)
        CHECK_EQ(sl_csv_cut(sl_str_c(rows[i].text)), rows[i].len);
}

TEST(memory)
{
    struct fail f = {.nth = 1};
    struct sl_alloc alloc = fail_alloc(&f);

    CASE("without memory it says so");
    CHECK_STR(read("\"a\"\"\"\n", &alloc), "!1:out of memory");
    fail_check(&f);
}

CHECK_MAIN()
