/* unit.c -- units of time, and what people write instead of them.
 *
 * One table serves durations and rates. A duration has no months, since they
 * have no length; a rate has nothing below a millisecond.
 *
 * Guessing what a misspelt unit meant is worth some care, because the guess
 * is copied into policies: "M" could be a minute or a month, which are four
 * orders of magnitude apart, so for that one nothing is suggested.
 */
#include "base/scan.h"

#include <assert.h>
#include <string.h>

#include "base/parse.h"

static const struct sl_time_unit units[] = {
    {"ns",     1,       -1            },
    {"us",     SL_US,   -1            },
    {"ms",     SL_MS,   SL_UNIT_MS    },
    {"s",      SL_S,    SL_UNIT_SECOND},
    {"sec",    SL_S,    SL_UNIT_SECOND},
    {"second", SL_S,    SL_UNIT_SECOND},
    {"m",      SL_MIN,  SL_UNIT_MINUTE},
    {"min",    SL_MIN,  SL_UNIT_MINUTE},
    {"minute", SL_MIN,  SL_UNIT_MINUTE},
    {"h",      SL_HOUR, SL_UNIT_HOUR  },
    {"hour",   SL_HOUR, SL_UNIT_HOUR  },
    {"d",      SL_DAY,  SL_UNIT_DAY   },
    {"day",    SL_DAY,  SL_UNIT_DAY   },
    {"week",   SL_WEEK, SL_UNIT_WEEK  },
    {"month",  0,       SL_UNIT_MONTH },
};

/* Words that are not near by letters. NULL: better not to guess. */
static const struct {
    const char *word, *meant;
} others[] = {
    {"M",           NULL   },
    {"hr",          "h"    },
    {"hrs",         "h"    },
    {"w",           "week" },
    {"wk",          "week" },
    {"mo",          "month"},
    {"mon",         "month"},
    {"msec",        "ms"   },
    {"usec",        "us"   },
    {"nsec",        "ns"   },
    {"millisecond", "ms"   },
    {"microsecond", "us"   },
    {"nanosecond",  "ns"   },
    {"\xc2\xb5s",   "us"   }, /* the micro sign */
    {"\xce\xbcs",   "us"   }, /* the Greek letter */
};

static const struct {
    sl_ns length;
    const char *name;
} by_unit[] = {
    [SL_UNIT_MS] = {SL_MS,   "ms"   },
      [SL_UNIT_SECOND] = {SL_S,    "s"    },
    [SL_UNIT_MINUTE] = {SL_MIN,  "min"  },
      [SL_UNIT_HOUR] = {SL_HOUR, "h"    },
    [SL_UNIT_DAY] = {SL_DAY,  "day"  },
      [SL_UNIT_WEEK] = {SL_WEEK, "week" },
    [SL_UNIT_MONTH] = {0,       "month"},
};

sl_ns sl_unit_length(enum sl_unit unit)
{
    assert(unit < SL_LEN(by_unit));
    return by_unit[unit].length;
}

const char *sl_unit_name(enum sl_unit unit)
{
    assert(unit < SL_LEN(by_unit));
    return by_unit[unit].name;
}

const struct sl_time_unit *sl_unit_find(struct sl_str word)
{
    for (size_t i = 0; i < SL_LEN(units); i++)
        if (sl_str_eq(word, sl_str_c(units[i].word)))
            return &units[i];
    return NULL;
}

/* Without the s of a plural. Shorter words end in s for other reasons. */
static struct sl_str singular(struct sl_str word)
{
    if (word.len > 3 && word.at[word.len - 1] == 's')
        word.len--;
    return word;
}

const char *sl_unit_guess(struct sl_str word)
{
    const char *words[SL_LEN(units)];
    struct sl_str one = singular(word);

    for (size_t i = 0; i < SL_LEN(others); i++)
        if (sl_str_eq(one, sl_str_c(others[i].word)))
            return others[i].meant;
    for (size_t i = 0; i < SL_LEN(units); i++) {
        words[i] = units[i].word;
        if (sl_str_eq_nocase(one, sl_str_c(words[i])))
            return words[i];
    }
    return sl_str_nearest(word, words, SL_LEN(words));
}
