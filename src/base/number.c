/* number.c -- numbers, counts and sizes as people write them.
 *
 * The grammar is narrow on purpose. A policy is read by people who have not
 * written it, and "010", "1e3", "+5" or "1.5k" each mean two things to two of
 * them. What is refused says how to write it, and where that is a plain
 * calculation (1.5k is 1500) does it.
 */
#include "base/parse.h"

#include <inttypes.h>

#include "base/scan.h"

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

    return sl_refuse_at(scan->diag, SLUICE_ECONF, from,
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
        return sl_refuse(diag, SLUICE_ECONF,
                         "\"%s\" has a fraction. A number must be whole",
                         sl_quote(f.text).text);
    if (!sl_scan_done(&scan)) {
        sl_refuse_at(diag, SLUICE_ECONF, scan.at,
                     "Unexpected \"%s\" after %" PRIu64 ". A number has only "
                     "digits",
                     sl_quote(sl_scan_rest(&scan)).text, n);
        sl_hint(diag, "%" PRIu64, n);
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

    sl_refuse(scan->diag, SLUICE_ECONF,
              "\"%s\" has a fraction. A count must be whole",
              sl_quote(f->text).text);
    if (n > 0)
        sl_hint(scan->diag, "%" PRIu64, n);
    return SLUICE_ECONF;
}

/* Something stands behind the digits, which end at `from`, that is no
 * suffix. */
static int refuse_suffix(struct sl_scan *scan, size_t from)
{
    struct sl_str rest = sl_str_from(scan->text, from);
    const struct suffix *meant = find(count_suffixes, SL_LEN(count_suffixes),
                                      sl_str_trim(rest), sl_str_eq_nocase);

    sl_refuse_at(scan->diag, SLUICE_ECONF, from,
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
    uint64_t n;
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

    sl_refuse(scan->diag, SLUICE_ECONF,
              "\"%s\" has a fraction. Use a smaller unit",
              sl_quote(f->text).text);
    if (n > 0) {
        while (n % even->times != 0)
            even++; /* ends at B, which divides all */
        sl_hint(scan->diag, "%" PRIu64 "%s", n / even->times, even->word);
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
        sl_refuse_at(scan->diag, SLUICE_ECONF, scan->at,
                     "%" PRIu64 " has no unit. Valid units: %s", n, all);
        sl_hint(scan->diag, "%" PRIu64 "B", n);
        return SLUICE_ECONF;
    }
    for (size_t i = 0; i < SL_LEN(words); i++)
        words[i] = size_units[i].word;
    meant = sl_str_nearest(sl_str_trim(rest), words, SL_LEN(words));
    sl_refuse_at(scan->diag, SLUICE_ECONF, scan->at,
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
