/* parse.c -- numbers, counts and sizes: what is read, what is refused, and in
 * which words. */
#include "base/parse.h"

#include "check.h"
#include "refusal.h"
#include "row.h"

#define MAX UINT64_MAX

TEST(numbers)
{
    static const struct {
        const char *why, *text;
        uint64_t want;
    } rows[] = {
        {"zero",         "0",                    0  },
        {"a digit",      "7",                    7  },
        {"digits",       "42",                   42 },
        {"the largest",  "18446744073709551615", MAX},
        {"zeros behind", "100",                  100},
    };
    static const struct refusal bad[] = {
        ROW("nothing", "", 0, "Missing value. Write a number like 42", ""),
        ROW("blanks alone", " \t", 0, "Missing value. Write a number like 42",
            ""),
        ROW("letters", "abc", 0, "Expected digits for a number, not \"abc\"",
            ""),
        ROW("a sign", "-5", 0, "Expected digits for a number, not \"-5\"", ""),
        ROW("even a good one", "+5", 0,
            "Expected digits for a number, not \"+5\"", ""),
        ROW("a blank before", " 42", 0,
            "\" 42\" begins or ends with spaces. Write 42", "42"),
        ROW("a blank behind", "42 ", 2,
            "\"42 \" begins or ends with spaces. Write 42", "42"),
        ROW("a newline behind", "42\n", 2,
            "Unexpected \"?\" after 42. A number has only digits", "42"),
        ROW("a leading zero", "010", 0, "\"010\" has a leading zero. Write 10",
            "10"),
        ROW("two zeros", "00", 0, "\"00\" has a leading zero. Write 0", "0"),
        ROW("too large by one", "18446744073709551616", 0,
            "Value 18446744073709551616 is too large. The maximum of a number "
            "is 18446744073709551615",
            ""),
        ROW("much too large",
            "99999999999999999999999999999999999999999999999999", 0,
            "Value 9999999999999999999999999999999999999999... is too large. "
            "The maximum of a number is 18446744073709551615",
            ""),
        ROW("a fraction", "1.5", 0,
            "\"1.5\" has a fraction. A number must be whole", ""),
        ROW("a suffix", "10k", 2,
            "Unexpected \"k\" after 10. A number has only digits", "10"),
        ROW("hexadecimal", "0x10", 1,
            "Unexpected \"x10\" after 0. A number has only digits", "0"),
        ROW("an exponent", "1e3", 1,
            "Unexpected \"e3\" after 1. A number has only digits", "1"),
        ROW("two numbers", "1 2", 1,
            "Unexpected \" 2\" after 1. A number has only digits", "1"),
    };

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        check_accepted(sl_parse_number, rows[i].text, rows[i].want);
    }
    check_refused(sl_parse_number, bad, SL_LEN(bad));
}

static const struct {
    const char *why, *text;
    uint64_t want;
} good_counts[] = {
    {"no suffix",        "42",                   42       },
    {"thousands",        "10k",                  10000    },
    {"millions",         "5M",                   5000000  },
    {"none of them",     "0k",                   0        },
    {"the largest",      "18446744073709551615", MAX      },
    {"the largest in k", "18446744073709551k",   MAX - 615},
};

static const struct {
    const char *why, *text;
    size_t at;
    const char *quoted, *hint;
} bad_suffixes[] = {
    {"a large k",                      "10K",   2, "\"K\"",    "10k"},
    {"a small m",                      "5m",    1, "\"m\"",    "5M" },
    {"a blank before it",              "10 k",  2, "\" k\"",   "10k"},
    {"another suffix",                 "5G",    1, "\"G\"",    ""   },
    {"a suffix twice",                 "5kk",   1, "\"kk\"",   ""   },
    {"digits behind it",               "5k5",   1, "\"k5\"",   ""   },
    {"a separator",                    "1,000", 1, "\",000\"", ""   },
    {"another separator",              "1_000", 1, "\"_000\"", ""   },
    {"a rate where a count should be", "5/min", 1, "\"/min\"", ""   },
};

static const struct refusal bad_counts[] = {
    ROW("no count", "", 0, "Missing value. Write a count like 10 or 10k", ""),
    ROW("no digits", "abc", 0, "Expected digits for a count, not \"abc\"", ""),
    ROW("a suffix alone", "k", 0, "Expected digits for a count, not \"k\"", ""),
    ROW("a leading zero", "010k", 0, "\"010\" has a leading zero. Write 10",
        "10k"),
    ROW("too large by its suffix", "18446744073709552k", 0,
        "Value 18446744073709552k is too large. The maximum of a count is "
        "18446744073709551615",
        ""),
    ROW("a fraction that comes out even", "1.5k", 0,
        "\"1.5\" has a fraction. A count must be whole", "1500"),
    ROW("one of nine places", "0.000000001M", 0,
        "\"0.000000001\" has a fraction. A count must be whole", ""),
    ROW("one that does not", "1.0005k", 0,
        "\"1.0005\" has a fraction. A count must be whole", ""),
    ROW("one that says nothing", "2.0", 0,
        "\"2.0\" has a fraction. A count must be whole", "2"),
    ROW("one too fine to be meant", "1.0000000001M", 0,
        "\"1.0000000001\" has a fraction. A count must be whole", ""),
    ROW("one too large", "18446744073709551615.5M", 0,
        "\"18446744073709551615.5\" has a fraction. A count must be whole", ""),
};

TEST(counts)
{
    static const char suffix[] = " of a count. Write k for a thousand or M for "
                                 "a million, directly after the digits";
    char sentence[200];

    for (size_t i = 0; i < SL_LEN(good_counts); i++) {
        CASE(good_counts[i].why);
        check_accepted(sl_parse_count, good_counts[i].text,
                       good_counts[i].want);
    }
    for (size_t i = 0; i < SL_LEN(bad_suffixes); i++) {
        struct refusal row = {bad_suffixes[i].why, bad_suffixes[i].text,
                              bad_suffixes[i].at, sentence,
                              bad_suffixes[i].hint};

        snprintf(sentence, sizeof(sentence), "Unknown suffix %s%s",
                 bad_suffixes[i].quoted, suffix);
        check_refused(sl_parse_count, &row, 1);
    }
    check_refused(sl_parse_count, bad_counts, SL_LEN(bad_counts));
}

static const struct {
    const char *why, *text;
    uint64_t want;
} good_sizes[] = {
    ROW("zero may go without", "0", 0),
    ROW("or with", "0B", 0),
    ROW("or with any", "0TiB", 0),
    ROW("bytes", "512B", 512),
    ROW("thousands", "2kB", 2000),
    ROW("and more", "2MB", 2000000),
    ROW("and more", "2GB", 2000000000),
    ROW("and more", "2TB", UINT64_C(2000000000000)),
    ROW("powers of two", "2KiB", 2048),
    ROW("and more", "64MiB", 67108864),
    ROW("and more", "2GiB", UINT64_C(2147483648)),
    ROW("and more", "2TiB", UINT64_C(2199023255552)),
    ROW("the largest", "18446744073709551615B", MAX),
    ROW("the largest in TiB", "16777215TiB", MAX - (UINT64_C(1) << 40) + 1),
};

static const struct refusal bad_sizes[] = {
    ROW("no size", "", 0, "Missing value. Write a size like 64MiB", ""),
    ROW("no digits", "MiB", 0, "Expected digits for a size, not \"MiB\"", ""),
    ROW("no unit", "64", 2,
        "64 has no unit. Valid units: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB",
        "64B"),
    ROW("in small letters", "64mib", 2,
        "Unknown unit of size \"mib\". Valid units: B, kB, MB, GB, TB, KiB, "
        "MiB, GiB or TiB",
        "64MiB"),
    ROW("a large K", "64KB", 2,
        "Unknown unit of size \"KB\". Valid units: B, kB, MB, GB, TB, KiB, "
        "MiB, GiB or TiB",
        "64kB"),
    ROW("a letter alone", "64G", 2,
        "Unknown unit of size \"G\". Valid units: B, kB, MB, GB, TB, KiB, "
        "MiB, GiB or TiB",
        "64GB"),
    ROW("a blank between", "64 MiB", 2,
        "Unknown unit of size \" MiB\". Valid units: B, kB, MB, GB, TB, KiB, "
        "MiB, GiB or TiB",
        "64MiB"),
    ROW("another unit", "64 parsec", 2,
        "Unknown unit of size \" parsec\". Valid units: B, kB, MB, GB, TB, "
        "KiB, MiB, GiB or TiB",
        ""),
    ROW("too large", "16777216TiB", 0,
        "Value 16777216TiB is too large. The maximum of a size is "
        "18446744073709551615",
        ""),
    ROW("a fraction of GB", "1.5GB", 0,
        "\"1.5\" has a fraction. Use a smaller unit", "1500MB"),
    ROW("a fraction of GiB", "1.5GiB", 0,
        "\"1.5\" has a fraction. Use a smaller unit", "1536MiB"),
    ROW("a fraction of a byte", "1.5B", 0,
        "\"1.5\" has a fraction. Use a smaller unit", ""),
    ROW("a fraction of nothing", "1.5", 0,
        "\"1.5\" has a fraction. Use a smaller unit", ""),
};

TEST(sizes)
{
    for (size_t i = 0; i < SL_LEN(good_sizes); i++) {
        CASE(good_sizes[i].why);
        check_accepted(sl_parse_size, good_sizes[i].text, good_sizes[i].want);
    }
    check_refused(sl_parse_size, bad_sizes, SL_LEN(bad_sizes));
}

CHECK_MAIN()
