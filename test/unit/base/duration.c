/* duration.c -- durations: what is read, what is refused, and what is written.
 */
#include "base/parse.h"

#include "check.h"
#include "refusal.h"
#include "row.h"

static int parse_span(struct sl_str text, uint64_t *ret, struct sl_diag *diag)
{
    sl_ns span = (sl_ns)*ret;
    int err = sl_parse_duration(text, &span, diag);

    *ret = (uint64_t)span;
    return err;
}

static const struct {
    const char *why, *text;
    sl_ns want;
} good[] = {
    {"nanoseconds",              "1ns",                    1           },
    {"microseconds",             "2us",                    2 * SL_US   },
    {"milliseconds",             "20ms",                   20 * SL_MS  },
    {"s",                        "30s",                    30 * SL_S   },
    {"sec",                      "30sec",                  30 * SL_S   },
    {"second",                   "1second",                SL_S        },
    {"m",                        "5m",                     5 * SL_MIN  },
    {"min",                      "5min",                   5 * SL_MIN  },
    {"minute",                   "1minute",                SL_MIN      },
    {"h",                        "24h",                    SL_DAY      },
    {"hour",                     "1hour",                  SL_HOUR     },
    {"d",                        "1d",                     SL_DAY      },
    {"day",                      "7day",                   SL_WEEK     },
    {"week",                     "1week",                  SL_WEEK     },
    {"two steps",                "1h30m",                  90 * SL_MIN },
    {"all of them",              "1week1d1h1m1s1ms1us1ns",
     SL_WEEK + SL_DAY + SL_HOUR + SL_MIN + SL_S + SL_MS + SL_US + 1    },
    {"more than the next unit",  "1h90m",                  150 * SL_MIN},
    {"nothing",                  "0s",                     0           },
    {"nothing twice",            "0h0s",                   0           },
    {"the longest",              "9223372036854775807ns",  SL_NS_MAX   },
    {"the longest in two steps", "9223372036s854775807ns", SL_NS_MAX   },
};

static const struct refusal bad[] = {
    ROW("no duration", "", 0, "Missing value. Write a duration like 30s", ""),
    ROW("no digits", "abc", 0, "Expected digits for a duration, not \"abc\"",
        ""),
    ROW("negative", "-5s", 0, "Expected digits for a duration, not \"-5s\"",
        ""),
    ROW("no unit", "5", 1,
        "5 has no unit. Valid units: ns, us, ms, s, min, h, day or week", "5s"),
    ROW("nor behind a step", "1h30", 4,
        "30 has no unit. Valid units: ns, us, ms, s, min, h, day or week",
        "1h30s"),
    ROW("nor for zero", "0", 1,
        "0 has no unit. Valid units: ns, us, ms, s, min, h, day or week", "0s"),
    ROW("no such unit", "5fortnight", 1,
        "Unknown unit of time \"fortnight\". Valid units: ns, us, ms, s, min, "
        "h, day or week",
        ""),
    ROW("a plural", "5minutes", 1,
        "Unknown unit of time \"minutes\". Valid units: ns, us, ms, s, min, "
        "h, day or week",
        "5minute"),
    ROW("a plural of what others write", "5msecs", 1,
        "Unknown unit of time \"msecs\". Valid units: ns, us, ms, s, min, h, "
        "day or week",
        "5ms"),
    ROW("a large letter", "5Min30s", 1,
        "Unknown unit of time \"Min\". Valid units: ns, us, ms, s, min, h, "
        "day or week",
        "5min30s"),
    ROW("a typo", "5mni", 1,
        "Unknown unit of time \"mni\". Valid units: ns, us, ms, s, min, h, "
        "day or week",
        "5min"),
    ROW("the micro sign", "5\xc2\xb5s", 1,
        "Unknown unit of time \"\xc2\xb5s\". Valid units: ns, us, ms, s, min, "
        "h, day or week",
        "5us"),
    ROW("the Greek letter", "5\xce\xbcs", 1,
        "Unknown unit of time \"\xce\xbcs\". Valid units: ns, us, ms, s, min, "
        "h, day or week",
        "5us"),
    ROW("a minute or a month", "5M", 1,
        "Unknown unit of time \"M\". Valid units: ns, us, ms, s, min, h, day "
        "or week",
        ""),
    ROW("months have no length", "1month", 1,
        "A month has no fixed length. Write days, like 30d", ""),
    ROW("and are not suggested", "1months", 1,
        "Unknown unit of time \"months\". Valid units: ns, us, ms, s, min, h, "
        "day or week",
        ""),
    ROW("a word of no letters", "5!", 1,
        "Unknown unit of time \"!\". Valid units: ns, us, ms, s, min, h, day "
        "or week",
        ""),
    ROW("digits in a unit's place", "1h:30m", 2,
        "Expected digits for a duration, not \":30m\"", ""),
    ROW("a blank between the steps", "1h 30m", 2,
        "A duration must not contain spaces", "1h30m"),
    ROW("a blank before the unit", "5 min", 1,
        "A duration must not contain spaces", "5min"),
    ROW("tabs and many blanks", "1h\t30  m", 2,
        "A duration must not contain spaces", "1h30m"),
    ROW("blanks around", " 5s", 0,
        "\" 5s\" begins or ends with spaces. Write 5s", "5s"),
    ROW("a leading zero", "1h05m", 2, "\"05\" has a leading zero. Write 5",
        "1h5m"),
    ROW("the smaller first", "30s1h", 3,
        "\"1h\" follows \"30s\". Write the larger unit first", ""),
    ROW("the same twice", "1h1h", 2,
        "\"1h\" has the same unit as \"1h\". Write their sum", ""),
    ROW("the same in other words", "1min5m", 4,
        "\"5m\" has the same unit as \"1min\". Write their sum", ""),
    ROW("a fraction", "1.5h", 0, "\"1.5\" has a fraction. Use a smaller unit",
        "1h30m"),
    ROW("a fraction of a second", "0.25s", 0,
        "\"0.25\" has a fraction. Use a smaller unit", "250ms"),
    ROW("a fraction in the second step", "1h1.5m", 2,
        "\"1.5\" has a fraction. Use a smaller unit", ""),
    ROW("a fraction and more", "1.5h30m", 0,
        "\"1.5\" has a fraction. Use a smaller unit", ""),
    ROW("a fraction of a nanosecond", "1.5ns", 0,
        "\"1.5\" has a fraction. Use a smaller unit", ""),
    ROW("a fraction of what is none", "1.5x", 0,
        "\"1.5\" has a fraction. Use a smaller unit", ""),
    ROW("too long by a nanosecond", "9223372036854775808ns", 0,
        "\"9223372036854775808ns\" is too long. The maximum of a duration is "
        "292 years",
        ""),
    ROW("too long in two steps", "106751d24h", 7,
        "\"106751d24h\" is too long. The maximum of a duration is 292 years",
        ""),
    ROW("far too long", "99999999999week", 0,
        "\"99999999999week\" is too long. The maximum of a duration is 292 "
        "years",
        ""),
};

TEST(durations)
{
    for (size_t i = 0; i < SL_LEN(good); i++) {
        CASE(good[i].why);
        check_accepted(parse_span, good[i].text, (uint64_t)good[i].want);
    }
    check_refused(parse_span, bad, SL_LEN(bad));
}

TEST(format)
{
    static const struct {
        const char *why;
        sl_ns span;
        const char *text;
    } rows[] = {
        ROW("nothing", 0, "0s"),
        ROW("no time", SL_NS_NONE, "none"),
        ROW("no time either", INT64_MIN, "none"),
        ROW("seconds", 12 * SL_S, "12s"),
        ROW("a minute", SL_MIN, "1m"),
        ROW("minutes and seconds", 96 * SL_S, "1m36s"),
        ROW("hours and minutes", 90 * SL_MIN, "1h30m"),
        ROW("hours and seconds", SL_HOUR + SL_S, "1h1s"),
        ROW("three units become two", 5415 * SL_S, "90m15s"),
        ROW("days", SL_DAY, "1d"),
        ROW("weeks are days", 2 * SL_WEEK, "14d"),
        ROW("days and hours", 26 * SL_HOUR, "1d2h"),
        ROW("days and minutes", SL_DAY + 30 * SL_MIN, "1d30m"),
        ROW("days and seconds", SL_DAY + SL_S, "1d1s"),
        ROW("days would take three", 1530 * SL_MIN, "25h30m"),
        ROW("all four become two", 90061 * SL_S, "1501m1s"),
        ROW("half a second", 500 * SL_MS, "500ms"),
        ROW("more than one is one unit", 1500 * SL_MS, "1500ms"),
        ROW("an hour and a bit", SL_HOUR + SL_MS, "3600001ms"),
        ROW("microseconds", 1001 * SL_US, "1001us"),
        ROW("nanoseconds", SL_S + 1, "1000000001ns"),
        ROW("the longest", SL_NS_MAX, "9223372036854775807ns"),
        ROW("the longest in seconds", INT64_C(9223372036) * SL_S,
            "153722867m16s"),
    };
    char out[32];

    for (size_t i = 0; i < SL_LEN(rows); i++) {
        CASE(rows[i].why);
        CHECK(sl_format_duration(rows[i].span, out) == out);
        CHECK_STR(out, rows[i].text);
    }
}

TEST(latency)
{
    static const sl_ns units[] = {1,      SL_US,   SL_MS,  SL_S,
                                  SL_MIN, SL_HOUR, SL_DAY, SL_WEEK};
    uint64_t random = 1;
    char out[32];

    CASE("what is written is read back as the same");
    for (unsigned i = 0; i < 400000; i++) {
        sl_ns unit = units[i % SL_LEN(units)], span, got;
        unsigned bits = (unsigned)(random % 63);
        struct sl_diag diag;

        random = random * UINT64_C(6364136223846793005) + 1;
        span = (sl_ns)(random >> 1 >> bits) / unit * unit;
        sl_format_duration(span, out);
        if (!CHECK_EQ(sl_parse_duration(sl_str_c(out), &got, &diag), 0))
            return;
        if (!CHECK_EQ(got, span))
            return;
    }
}

CHECK_MAIN()
