/* str.c -- slices, and how far apart two words are. */
#include "base/str.h"

#include <limits.h>

#include "check.h"

static bool same(struct sl_str a, const char *b)
{
    return sl_str_eq(a, sl_str_c(b));
}

TEST(equal)
{
    static const struct {
        const char *why, *a, *b;
        bool eq, nocase;
    } rows[] = {
        {"the same",                        "abc",  "abc",  true,  true },
        {"a longer one",                    "abc",  "abcd", false, false},
        {"another letter",                  "abc",  "abd",  false, false},
        {"case",                            "aBc",  "AbC",  false, true },
        {"empty",                           "",     "",     true,  true },
        {"no address at all",               NULL,   "",     true,  true },
        {"nothing and something",           NULL,   "a",    false, false},
        {"[ is not a large {",              "[",    "{",    false, false},
        {"@ is not a large `",              "@",    "`",    false, false},
        {"bytes beyond ASCII have no case", "\xc4", "\xe4", false, false},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_str a = sl_str_c(rows[i].a), b = sl_str_c(rows[i].b);

        CASE(rows[i].why);
        CHECK_EQ(sl_str_eq(a, b), rows[i].eq);
        CHECK_EQ(sl_str_eq(b, a), rows[i].eq);
        CHECK_EQ(sl_str_eq_nocase(a, b), rows[i].nocase);
        CHECK_EQ(sl_str_eq_nocase(b, a), rows[i].nocase);
    }
}

TEST(cut)
{
    struct sl_str none = {NULL, 0};
    char out[16];

    CASE("trimming takes spaces and tabs from both ends");
    CHECK(same(sl_str_trim(SL_STR(" \t a b\t ")), "a b"));
    CHECK(same(sl_str_trim(SL_STR("ab")), "ab"));
    CHECK_EQ(sl_str_trim(SL_STR(" \t ")).len, 0);
    CHECK_EQ(sl_str_trim(none).len, 0);

    CASE("trimming leaves newlines alone");
    CHECK(same(sl_str_trim(SL_STR(" a\n")), "a\n"));

    CASE("from: inside, at the end and past it");
    CHECK(same(sl_str_from(SL_STR("abc"), 0), "abc"));
    CHECK(same(sl_str_from(SL_STR("abc"), 1), "bc"));
    CHECK_EQ(sl_str_from(SL_STR("abc"), 3).len, 0);
    CHECK_EQ(sl_str_from(SL_STR("abc"), 9).len, 0);
    CHECK_EQ(sl_str_from(none, 1).len, 0);

    CASE("printf takes a slice, also one without an address");
    snprintf(out, sizeof(out), "[%.*s]", SL_STR_ARG(SL_STR("abc")));
    CHECK_STR(out, "[abc]");
    snprintf(out, sizeof(out), "[%.*s]", SL_STR_ARG(none));
    CHECK_STR(out, "[]");

    CASE("lengths for printf stop at INT_MAX");
    CHECK_EQ(sl_str_int(5), 5);
    CHECK_EQ(sl_str_int((size_t)INT_MAX), INT_MAX);
    CHECK_EQ(sl_str_int((size_t)INT_MAX + 1), INT_MAX);
    CHECK_EQ(sl_str_int(SIZE_MAX), INT_MAX);
}

TEST(distance)
{
    static const char long64[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const char long65[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const struct {
        const char *why, *a, *b;
        unsigned most, distance;
    } rows[] = {
        {"the same word",                 "burst",  "burst",   9, 0},
        {"case does not count",           "Burst",  "bURST",   9, 0},
        {"one inserted",                  "burst",  "burrst",  9, 1},
        {"one deleted",                   "burst",  "brst",    9, 1},
        {"one replaced",                  "burst",  "borst",   9, 1},
        {"two neighbours swapped",        "burst",  "brust",   9, 1},
        {"swapped at the start",          "burst",  "ubrst",   9, 1},
        {"swapped at the end",            "burst",  "burts",   9, 1},
        {"letters further apart are two", "abc",    "cba",     9, 2},
        {"all different",                 "kitten", "sitting", 9, 3},
        {"from nothing",                  "",       "min",     9, 3},
        {"nothing to nothing",            "",       "",        9, 0},
        {"too far is most + 1",           "kitten", "sitting", 2, 3},
        {"much too far is most + 1",      "abcdef", "uvwxyz",  1, 2},
        {"64 bytes are compared",         long64,   long64,    9, 0},
        {"65 bytes are too far",          long65,   long65,    2, 3},
        {"wherever they stand",           "a",      long65,    2, 3},
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        struct sl_str a = sl_str_c(rows[i].a), b = sl_str_c(rows[i].b);

        CASE(rows[i].why);
        CHECK_EQ(sl_str_distance(a, b, rows[i].most), rows[i].distance);
        CHECK_EQ(sl_str_distance(b, a, rows[i].most), rows[i].distance);
    }
}

TEST(nearest)
{
    static const char *const words[] = {"s",      "min",         "day",
                                        "week",   "burst",       "window",
                                        "months", "concurrency", "mid"};
    static const struct {
        const char *why, *typo, *nearest;
    } rows[] = {
        {"the word itself",                 "week",        "week"       },
        {"case alone",                      "WEEK",        "week"       },
        {"a single letter in capitals",     "S",           "s"          },
        {"another letter is not a typo",    "x",           NULL         },
        {"one edit of three letters",       "dya",         "day"        },
        {"two edits of three are too many", "dxx",         NULL         },
        {"one edit of four",                "wekk",        "week"       },
        {"two of four are too many",        "wkke",        NULL         },
        {"two of five",                     "brusst",      "burst"      },
        {"two of six",                      "wnidwo",      "window"     },
        {"three of six are too many",       "xindxx",      NULL         },
        {"three of eleven",                 "concurenic",  "concurrency"},
        {"three edits of eleven, no more",  "cxncxrrexcx", NULL         },
        {"nothing",                         "",            NULL         },
        {"the nearest, not the first",      "month",       "months"     },
        {"the first of two at one edit",    "mi",          "min"        },
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK_STR(sl_str_nearest(sl_str_c(rows[i].typo), words, SL_LEN(words)),
                  rows[i].nearest);
    }
    CASE("no words, no answer");
    CHECK_STR(sl_str_nearest(SL_STR("min"), words, 0), NULL);
}

static int lower_of(int c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Every two bytes, at the places where a word of eight begins, ends and is
 * joined to the next. */
TEST(nocase_bytes)
{
    static const size_t lens[] = {1, 7, 8, 9, 15, 16, 17};
    unsigned wrong = 0;

    CASE("without case: every pair of bytes in every place");
    for (size_t l = 0; l < SL_LEN(lens); l++)
        for (size_t at = 0; at < lens[l]; at++)
            for (int x = 0; x < 256; x++)
                for (int y = 0; y < 256; y++) {
                    char a[17], b[17];

                    memset(a, 'q', sizeof(a));
                    memset(b, 'Q', sizeof(b));
                    a[at] = (char)x;
                    b[at] = (char)y;
                    wrong += sl_str_eq_nocase((struct sl_str){a, lens[l]},
                                              (struct sl_str){b, lens[l]}) !=
                             (lower_of(x) == lower_of(y));
                }
    CHECK_EQ(wrong, 0);
}

CHECK_MAIN()
