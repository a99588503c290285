/* duration.c -- spans of time as people write them, and back.
 *
 * A duration is a row of steps, each a number and a unit, the larger first:
 * 1h30m. The numbers need not stay below the next unit: 1h90m is odd but can
 * mean only one thing.
 *
 * What sl_format_duration() writes is read back as the same span. It looks for
 * the shortest honest form: whole seconds in at most two of d, h, m and s, and
 * anything finer in one unit, since "1s500ms" is not how people say it.
 */
#include "base/parse.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/scan.h"

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

    sl_refuse_at(scan->diag, SLUICE_ECONF, from,
                 "\"%s\" has a fraction. Use a smaller unit",
                 sl_quote(f->text).text);
    /* A step among others may come out in units that they use already. */
    if (!unit || from > 0 || !sl_scan_done(scan))
        return SLUICE_ECONF;
    sl_fraction_scale(f, (uint64_t)unit->length, 1);
    if (f->den == 1 && f->num <= SL_NS_MAX)
        sl_hint(scan->diag, "%s", sl_format_duration((sl_ns)f->num, words));
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
    sl_refuse_at(scan->diag, SLUICE_ECONF, scan->at,
                 "A duration must not contain spaces");
    sl_hint(scan->diag, "%s", words);
    return SLUICE_ECONF;
}

/* What stands behind the number `n` is no unit. */
static int refuse_unit(struct sl_scan *scan, size_t from, uint64_t n)
{
    struct sl_str word = {scan->text.at + from, scan->at - from};
    struct sl_str rest = sl_str_from(scan->text, from);
    const char *meant = sl_unit_meant(word);

    if (rest.len == 0) {
        sl_refuse_at(scan->diag, SLUICE_ECONF, from,
                     "%" PRIu64 " has no unit. Valid units: " ALL_UNITS, n);
        sl_hint(scan->diag, "%.*ss", SL_STR_ARG(scan->text));
        return SLUICE_ECONF;
    }
    sl_refuse_at(scan->diag, SLUICE_ECONF, from,
                 "Unknown unit of time \"%s\". Valid units: " ALL_UNITS,
                 sl_quote(word.len ? word : rest).text);
    if (meant && sl_unit_find(sl_str_c(meant))->length > 0)
        sl_scan_instead(scan, from, scan->at, meant);
    return SLUICE_ECONF;
}

static int refuse_month(const struct sl_scan *scan, size_t from)
{
    return sl_refuse_at(scan->diag, SLUICE_ECONF, from,
                        "A month has no fixed length. Write days, like 30d");
}

static int refuse_order(const struct sl_scan *scan, size_t from,
                        const struct step *last, const struct step *step)
{
    if (last->length == step->length)
        return sl_refuse_at(scan->diag, SLUICE_ECONF, from,
                            "\"%s\" has the same unit as \"%s\". Write their "
                            "sum",
                            sl_quote(step->text).text,
                            sl_quote(last->text).text);
    return sl_refuse_at(scan->diag, SLUICE_ECONF, from,
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
            return sl_refuse_at(diag, SLUICE_ECONF, from,
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
