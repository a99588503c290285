/* parse.c -- numbers, counts and sizes as people write them.
 *
 * The grammar is narrow on purpose: "010", "1e3", "+5" and "1.5k" can be read
 * in two ways. The error says how to write it; "1.5k" gets the hint 1500.
 */
#include "base/parse.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

struct suffix {
    const char *word;
    uint64_t times;
};

static const struct suffix count_suffixes[] = {
    {"k", 1000   },
    {"M", 1000000},
};

/* The largest first, so that a hint takes the largest that comes out even. */
static const struct suffix size_units[] = {
    {"TiB", TIB                    },
    {"TB",  UINT64_C(1000000000000)},
    {"GiB", GIB                    },
    {"GB",  1000000000             },
    {"MiB", MIB                    },
    {"MB",  1000000                },
    {"KiB", KIB                    },
    {"kB",  1000                   },
    {"B",   1                      },
};

static const struct suffix *find(const struct suffix *list, size_t count,
                                 struct sl_str word,
                                 bool (*same)(struct sl_str, struct sl_str))
{
    for (size_t i = 0; i < count; i++)
        if (same(word, sl_str_c(list[i].word)))
            return &list[i];
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* f * times, if that is a whole number that fits; else 0. */
static uint64_t evenly(struct sl_fraction *f, uint64_t times)
{
    sl_fraction_scale(f, times, 1);
    return f->den == 1 ? f->num : 0;
}

static int too_large(const struct sl_scan *scan, size_t from)
{
    struct sl_str read = {scan->text.at + from, scan->at - from};

    return sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from,
        "Value %s is too large. The maximum of %s is %" PRIu64,
        sl_quote(read).text, scan->noun, UINT64_MAX);
}

int sl_parse_number(struct sl_str text, uint64_t *ret, struct sl_diag *diag)
{
    struct sl_scan scan;
    struct sl_fraction f;
    uint64_t n;
    int err = sl_scan_open(&scan, text, "a number", "42", diag);

    if (!err)
        err = sl_scan_number(&scan, &n);
    if (err)
        return err;
    if (sl_scan_fraction(&scan, 0, &f))
        return sl_diag_error(diag, SLUICE_ECONF,
                             "\"%s\" has a fraction. A number must be whole",
                             sl_quote(f.text).text);
    if (!sl_scan_done(&scan)) {
        sl_diag_error_at(diag, SLUICE_ECONF, scan.at,
                         "Unexpected \"%s\" after %" PRIu64
                         ". A number has only "
                         "digits",
                         sl_quote(sl_scan_rest(&scan)).text, n);
        sl_diag_hint(diag, "%" PRIu64, n);
        return SLUICE_ECONF;
    }
    *ret = n;
    return 0;
}

int sl_scan_count(struct sl_scan *scan, uint64_t *ret)
{
    const struct suffix *suffix;
    size_t from = scan->at, end;
    uint64_t n;
    int err = sl_scan_number(scan, &n);

    if (err)
        return err;
    end = scan->at;
    suffix = find(count_suffixes, SL_LEN(count_suffixes), sl_scan_word(scan),
                  sl_str_eq);
    if (!suffix)
        scan->at = end;
    else if (__builtin_mul_overflow(n, suffix->times, &n))
        return too_large(scan, from);
    *ret = n;
    return 0;
}

/* "1.5k": say 1500 where that comes out even. */
static int refuse_count_fraction(struct sl_scan *scan, struct sl_fraction *f)
{
    const struct suffix *suffix = find(count_suffixes, SL_LEN(count_suffixes),
                                       sl_scan_rest(scan), sl_str_eq);
    uint64_t n = evenly(f, suffix ? suffix->times : 1);

    sl_diag_error(scan->diag, SLUICE_ECONF,
                  "\"%s\" has a fraction. A count must be whole",
                  sl_quote(f->text).text);
    if (n > 0)
        sl_diag_hint(scan->diag, "%" PRIu64, n);
    return SLUICE_ECONF;
}

/* Something stands behind the digits, which end at `from`, that is no
 * suffix. */
static int refuse_suffix(struct sl_scan *scan, size_t from)
{
    struct sl_str rest = sl_str_from(scan->text, from);
    const struct suffix *meant = find(count_suffixes, SL_LEN(count_suffixes),
                                      sl_str_trim(rest), sl_str_eq_nocase);

    sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from,
        "Unknown suffix \"%s\" of a count. Write k for a thousand or "
        "M for a million, directly after the digits",
        sl_quote(rest).text);
    if (meant)
        sl_scan_instead(scan, from, scan->text.len, meant->word);
    return SLUICE_ECONF;
}

int sl_parse_count(struct sl_str text, uint64_t *ret, struct sl_diag *diag)
{
    struct sl_scan scan;
    struct sl_fraction f;
    uint64_t n = 0;
    int err = sl_scan_open(&scan, text, "a count", "10 or 10k", diag);

    if (!err)
        err = sl_scan_count(&scan, &n);
    if (err)
        return err;
    if (sl_scan_fraction(&scan, 0, &f))
        return refuse_count_fraction(&scan, &f);
    if (!sl_scan_done(&scan)) {
        while (!is_digit(text.at[scan.at - 1]))
            scan.at--; /* a good suffix with more behind it is none */
        return refuse_suffix(&scan, scan.at);
    }
    *ret = n;
    return 0;
}

/* "1.5GB": say 1500MB. */
static int refuse_size_fraction(struct sl_scan *scan, struct sl_fraction *f)
{
    const struct suffix *unit =
        find(size_units, SL_LEN(size_units), sl_scan_rest(scan), sl_str_eq);
    uint64_t n = unit ? evenly(f, unit->times) : 0;
    const struct suffix *even = size_units;

    sl_diag_error(scan->diag, SLUICE_ECONF,
                  "\"%s\" has a fraction. Use a smaller unit",
                  sl_quote(f->text).text);
    if (n > 0) {
        while (n % even->times != 0)
            even++; /* ends at B, which divides all */
        sl_diag_hint(scan->diag, "%" PRIu64 "%s", n / even->times, even->word);
    }
    return SLUICE_ECONF;
}

/* The unit is missing, or it is none. */
static int refuse_size_unit(struct sl_scan *scan, uint64_t n)
{
    static const char all[] = "B, kB, MB, GB, TB, KiB, MiB, GiB or TiB";
    const char *words[SL_LEN(size_units)];
    struct sl_str rest = sl_scan_rest(scan);
    const char *meant;

    if (rest.len == 0) {
        sl_diag_error_at(scan->diag, SLUICE_ECONF, scan->at,
                         "%" PRIu64 " has no unit. Valid units: %s", n, all);
        sl_diag_hint(scan->diag, "%" PRIu64 "B", n);
        return SLUICE_ECONF;
    }
    for (size_t i = 0; i < SL_LEN(words); i++)
        words[i] = size_units[i].word;
    meant = sl_str_nearest(sl_str_trim(rest), words, SL_LEN(words));
    sl_diag_error_at(scan->diag, SLUICE_ECONF, scan->at,
                     "Unknown unit of size \"%s\". Valid units: %s",
                     sl_quote(rest).text, all);
    if (meant)
        sl_scan_instead(scan, scan->at, scan->text.len, meant);
    return SLUICE_ECONF;
}

int sl_parse_size(struct sl_str text, uint64_t *ret, struct sl_diag *diag)
{
    const struct suffix *unit;
    struct sl_scan scan;
    struct sl_fraction f;
    uint64_t n;
    int err = sl_scan_open(&scan, text, "a size", "64MiB", diag);

    if (!err)
        err = sl_scan_number(&scan, &n);
    if (err)
        return err;
    if (sl_scan_fraction(&scan, 0, &f))
        return refuse_size_fraction(&scan, &f);
    unit = find(size_units, SL_LEN(size_units), sl_scan_rest(&scan), sl_str_eq);
    if (!unit && !(n == 0 && sl_scan_done(&scan)))
        return refuse_size_unit(&scan, n);
    if (unit && __builtin_mul_overflow(n, unit->times, &n)) {
        scan.at = text.len;
        return too_large(&scan, 0);
    }
    *ret = n;
    return 0;
}

/* ---- durations ----
 *
 * A duration is a list of steps, each a number and a unit, the larger first:
 * 1h30m. A number may exceed the next unit: 1h90m is valid.
 *
 * sl_format_duration() writes whole seconds in at most two of d, h, m and s,
 * and anything finer in one unit. Reading that gives the same duration.
 */

#define ALL_UNITS "ns, us, ms, s, min, h, day or week"

/* One step of a duration, for the sentence about the next. */
struct step {
    struct sl_str text;
    sl_ns length; /* of its unit; 0 before the first */
};

/* "1.5h": say 1h30m. */
static int refuse_fraction(struct sl_scan *scan, size_t from,
                           struct sl_fraction *f)
{
    const struct sl_time_unit *unit = sl_unit_find(sl_scan_word(scan));
    char words[32];

    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "\"%s\" has a fraction. Use a smaller unit",
                     sl_quote(f->text).text);
    /* A step among others may come out in units that they use already. */
    if (!unit || from > 0 || !sl_scan_done(scan))
        return SLUICE_ECONF;
    sl_fraction_scale(f, (uint64_t)unit->length, 1);
    if (f->den == 1 && f->num <= SL_NS_MAX)
        sl_diag_hint(scan->diag, "%s",
                     sl_format_duration((sl_ns)f->num, words));
    return SLUICE_ECONF;
}

/* Blanks inside: the hint is the text without them. */
static int refuse_blank(const struct sl_scan *scan)
{
    char words[sizeof(scan->diag->hint)];
    size_t len = 0;

    for (size_t i = 0; i < scan->text.len && len + 1 < sizeof(words); i++)
        if (scan->text.at[i] != ' ' && scan->text.at[i] != '\t')
            words[len++] = scan->text.at[i];
    words[len] = '\0';
    sl_diag_error_at(scan->diag, SLUICE_ECONF, scan->at,
                     "A duration must not contain spaces");
    sl_diag_hint(scan->diag, "%s", words);
    return SLUICE_ECONF;
}

/* What stands behind the number `n` is no unit. */
static int refuse_unit(struct sl_scan *scan, size_t from, uint64_t n)
{
    struct sl_str word = {scan->text.at + from, scan->at - from};
    struct sl_str rest = sl_str_from(scan->text, from);
    const char *meant = sl_unit_guess(word);

    if (rest.len == 0) {
        sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                         "%" PRIu64 " has no unit. Valid units: " ALL_UNITS, n);
        sl_diag_hint(scan->diag, "%.*ss", SL_STR_ARG(scan->text));
        return SLUICE_ECONF;
    }
    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "Unknown unit of time \"%s\". Valid units: " ALL_UNITS,
                     sl_quote(word.len ? word : rest).text);
    if (meant && sl_unit_find(sl_str_c(meant))->length > 0)
        sl_scan_instead(scan, from, scan->at, meant);
    return SLUICE_ECONF;
}

static int refuse_month(const struct sl_scan *scan, size_t from)
{
    return sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from,
        "A month has no fixed length. Write days, like 30d");
}

static int refuse_order(const struct sl_scan *scan, size_t from,
                        const struct step *last, const struct step *step)
{
    if (last->length == step->length)
        return sl_diag_error_at(
            scan->diag, SLUICE_ECONF, from,
            "\"%s\" has the same unit as \"%s\". Write their "
            "sum",
            sl_quote(step->text).text, sl_quote(last->text).text);
    return sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from,
        "\"%s\" follows \"%s\". Write the larger unit first",
        sl_quote(step->text).text, sl_quote(last->text).text);
}

/* Read the number `ret_n` and the unit of the next step. */
static int read_step(struct sl_scan *scan, uint64_t *ret_n, struct step *ret)
{
    const struct sl_time_unit *unit;
    struct sl_fraction f;
    size_t from = scan->at, behind;
    int err = sl_scan_number(scan, ret_n);

    if (err)
        return err;
    if (sl_scan_fraction(scan, from, &f))
        return refuse_fraction(scan, from, &f);
    if (sl_scan_peek(scan) == ' ' || sl_scan_peek(scan) == '\t')
        return refuse_blank(scan);
    behind = scan->at;
    unit = sl_unit_find(sl_scan_word(scan));
    if (!unit)
        return refuse_unit(scan, behind, *ret_n);
    if (unit->length == 0)
        return refuse_month(scan, behind);
    ret->text = (struct sl_str){scan->text.at + from, scan->at - from};
    ret->length = unit->length;
    return 0;
}

int sl_parse_duration(struct sl_str text, sl_ns *ret, struct sl_diag *diag)
{
    struct step last =
                    {
                        {NULL, 0},
                        0
    },
                step;
    struct sl_scan scan;
    uint64_t n;
    sl_ns sum = 0, part;
    int err = sl_scan_open(&scan, text, "a duration", "30s", diag);

    while (!err && !sl_scan_done(&scan)) {
        size_t from = scan.at;

        if (sl_scan_peek(&scan) == ' ' || sl_scan_peek(&scan) == '\t')
            return refuse_blank(&scan);
        err = read_step(&scan, &n, &step);
        if (err)
            return err;
        if (last.length > 0 && step.length >= last.length)
            return refuse_order(&scan, from, &last, &step);
        if (__builtin_mul_overflow(n, step.length, &part) ||
            __builtin_add_overflow(sum, part, &sum))
            return sl_diag_error_at(diag, SLUICE_ECONF, from,
                                    "\"%s\" is too long. The maximum of a "
                                    "duration is 292 years",
                                    sl_quote(text).text);
        last = step;
    }
    if (!err)
        *ret = sum;
    return err;
}

static const struct {
    const char *name;
    sl_ns length;
} coarse[] = {
    {"d", SL_DAY },
    {"h", SL_HOUR},
    {"m", SL_MIN },
    {"s", SL_S   },
};

/* The unit from `first` on in which alone `rest` is written, with nothing
 * left that a larger one would have taken; SL_LEN(coarse) if there is none. */
static size_t single(sl_ns rest, size_t first)
{
    while (first < SL_LEN(coarse) && rest < coarse[first].length)
        first++;
    if (first < SL_LEN(coarse) && rest % coarse[first].length == 0)
        return first;
    return SL_LEN(coarse);
}

/* Whole seconds, more than none. Minutes and seconds express them all, so
 * the loop ends by itself. */
static void format_coarse(sl_ns span, char out[32])
{
    for (size_t i = 0; i < SL_LEN(coarse); i++) {
        sl_ns n = span / coarse[i].length;
        sl_ns rest = span % coarse[i].length;
        size_t k = single(rest, i + 1);

        if (n > 0 && rest == 0) {
            snprintf(out, 32, "%" PRId64 "%s", n, coarse[i].name);
            return;
        }
        if (n > 0 && k < SL_LEN(coarse)) {
            uint8_t few = (uint8_t)(rest / coarse[k].length); /* < 60 */

            snprintf(out, 32, "%" PRId64 "%s%u%s", n, coarse[i].name, few,
                     coarse[k].name);
            return;
        }
    }
}

char *sl_format_duration(sl_ns span, char out[32])
{
    if (span < 0)
        snprintf(out, 32, "none");
    else if (span == 0)
        snprintf(out, 32, "0s");
    else if (span % SL_S == 0)
        format_coarse(span, out);
    else if (span % SL_MS == 0)
        snprintf(out, 32, "%" PRId64 "ms", span / SL_MS);
    else if (span % SL_US == 0)
        snprintf(out, 32, "%" PRId64 "us", span / SL_US);
    else
        snprintf(out, 32, "%" PRId64 "ns", span);
    return out;
}

/* ---- scans: digits, quotes and hints of all parsers here ----
 *
 * A hint is the whole text with the wrong bytes replaced, ready to be copied.
 */

#define QUOTE_MAX ((size_t)40)

/* Digits of a fraction for which a hint is made. */
#define PLACES_MAX 9

struct sl_quoted sl_quote(struct sl_str s)
{
    struct sl_quoted q;
    size_t len = s.len;

    if (len > QUOTE_MAX)
        for (len = QUOTE_MAX; len > 0 && (s.at[len] & 0xc0) == 0x80;)
            len--; /* not inside a character */
    for (size_t i = 0; i < len; i++)
        q.text[i] = s.at[i] ? s.at[i] : '?';
    memcpy(q.text + len, "...", 4);
    if (len == s.len)
        q.text[len] = '\0';
    return q;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80);
}

int sl_scan_open(struct sl_scan *scan, struct sl_str text, const char *noun,
                 const char *like, struct sl_diag *diag)
{
    struct sl_str bare = sl_str_trim(text);

    *scan = (struct sl_scan){.text = text, .noun = noun, .diag = diag};
    if (bare.len == 0)
        return sl_diag_error(diag, SLUICE_ECONF,
                             "Missing value. Write %s like %s", noun, like);
    if (bare.len == text.len)
        return 0;
    sl_diag_error_at(diag, SLUICE_ECONF, bare.at > text.at ? 0 : bare.len,
                     "\"%s\" begins or ends with spaces. Write %s",
                     sl_quote(text).text, sl_quote(bare).text);
    sl_diag_hint(diag, "%.*s", SL_STR_ARG(bare));
    return SLUICE_ECONF;
}

bool sl_scan_done(const struct sl_scan *scan)
{
    return scan->at == scan->text.len;
}

struct sl_str sl_scan_rest(const struct sl_scan *scan)
{
    return sl_str_from(scan->text, scan->at);
}

char sl_scan_peek(const struct sl_scan *scan)
{
    return sl_scan_done(scan) ? '\0' : scan->text.at[scan->at];
}

size_t sl_scan_blanks(struct sl_scan *scan)
{
    size_t from = scan->at;

    while (sl_scan_peek(scan) == ' ' || sl_scan_peek(scan) == '\t')
        scan->at++;
    return scan->at - from;
}

struct sl_str sl_scan_word(struct sl_scan *scan)
{
    struct sl_str word = sl_scan_rest(scan);
    size_t from = scan->at;

    while (is_letter(sl_scan_peek(scan)))
        scan->at++;
    word.len = scan->at - from;
    return word;
}

static struct sl_str pass_digits(struct sl_scan *scan)
{
    struct sl_str digits = sl_scan_rest(scan);
    size_t from = scan->at;

    while (is_digit(sl_scan_peek(scan)))
        scan->at++;
    digits.len = scan->at - from;
    return digits;
}

/* False if it does not fit. */
static bool value_of(struct sl_str digits, uint64_t *ret)
{
    uint64_t n = 0;

    for (size_t i = 0; i < digits.len; i++)
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(digits.at[i] - '0'), &n))
            return false;
    *ret = n;
    return true;
}

static int refuse_zero(struct sl_scan *scan, size_t from, struct sl_str digits)
{
    struct sl_str bare = digits;
    struct sl_quoted words;

    while (bare.len > 1 && bare.at[0] == '0')
        bare = sl_str_from(bare, 1);
    words = sl_quote(bare);
    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "\"%s\" has a leading zero. Write %s",
                     sl_quote(digits).text, words.text);
    sl_scan_instead(scan, from, scan->at, words.text);
    return SLUICE_ECONF;
}

int sl_scan_number(struct sl_scan *scan, uint64_t *ret)
{
    size_t from = scan->at;
    struct sl_str digits = pass_digits(scan);

    if (digits.len == 0)
        return sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                                "Expected digits for %s, not \"%s\"",
                                scan->noun, sl_quote(sl_scan_rest(scan)).text);
    if (digits.len > 1 && digits.at[0] == '0')
        return refuse_zero(scan, from, digits);
    if (!value_of(digits, ret))
        return sl_diag_error_at(
            scan->diag, SLUICE_ECONF, from,
            "Value %s is too large. The maximum of %s is %" PRIu64,
            sl_quote(digits).text, scan->noun, UINT64_MAX);
    return 0;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

void sl_fraction_scale(struct sl_fraction *f, uint64_t num, uint64_t den)
{
    uint64_t divisor;

    if (__builtin_mul_overflow(f->num, num, &f->num) ||
        __builtin_mul_overflow(f->den, den, &f->den) || f->den == 0) {
        f->den = 0;
        return;
    }
    divisor = common_divisor(f->num, f->den);
    f->num /= divisor;
    f->den /= divisor;
}

/* The value of the digits before and behind the point. */
static void evaluate(struct sl_fraction *f, struct sl_str whole,
                     struct sl_str places)
{
    uint64_t part;

    while (places.len > 0 && places.at[places.len - 1] == '0')
        places.len--;
    f->num = f->den = 0;
    if (places.len > PLACES_MAX || !value_of(whole, &f->num) ||
        !value_of(places, &part))
        return;
    f->den = 1;
    for (size_t i = 0; i < places.len; i++)
        f->den *= 10;
    if (__builtin_mul_overflow(f->num, f->den, &f->num) ||
        __builtin_add_overflow(f->num, part, &f->num))
        f->den = 0;
    sl_fraction_scale(f, 1, 1);
}

bool sl_scan_fraction(struct sl_scan *scan, size_t from,
                      struct sl_fraction *ret)
{
    struct sl_str whole = {scan->text.at + from, scan->at - from};
    struct sl_str places;

    if (sl_scan_peek(scan) != '.')
        return false;
    scan->at++;
    places = pass_digits(scan);
    ret->text = (struct sl_str){whole.at, scan->at - from};
    evaluate(ret, whole, places);
    return true;
}

void sl_scan_instead(const struct sl_scan *scan, size_t from, size_t to,
                     const char *words)
{
    struct sl_str before = {scan->text.at, from};

    assert(from <= to && to <= scan->text.len);
    sl_diag_hint(scan->diag, "%.*s%s%.*s", SL_STR_ARG(before), words,
                 SL_STR_ARG(sl_str_from(scan->text, to)));
}

/* ---- units of time ----
 *
 * One table for durations and rates. Durations have no months; rates have
 * nothing below a millisecond. "M" gets no suggestion: it could be a minute or
 * a month.
 */

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

/* Words that edit distance does not find. NULL: no suggestion. */
static const struct {
    const char *word, *meant;
} others[] = {
    {"M",           NULL   },
    {"mn",          "min"  },
    {"mi",          "min"  },
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
