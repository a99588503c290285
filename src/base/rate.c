/* rate.c -- rates as people write them.
 *
 *     5/min burst 8
 *     | |   |     |
 *     | |   |     count, with k or M
 *     | |   burst or queue, blanks before and behind
 *     | [number] unit
 *     count, with k or M
 *
 * or a count alone, or one of two words. core/limit.c checks the numbers.
 *
 * Most of this file suggests corrections: "5 / min", "5 per min", "5/minutes",
 * "1.5/s".
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/parse.h"

#define ALL_UNITS "ms, s, min, h, day, week or month"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The text is not a count, so it must be one of the two words. */
static int read_words(struct sl_scan *scan, struct sl_rate *rate)
{
    static const char *const words[] = {"unlimited", "none"};
    const char *meant;

    if (sl_str_eq(scan->text, SL_STR("unlimited"))) {
        rate->form = SL_RATE_UNLIMITED;
        return 0;
    }
    if (sl_str_eq(scan->text, SL_STR("none"))) {
        rate->form = SL_RATE_NONE;
        return 0;
    }
    meant = sl_str_nearest(scan->text, words, SL_LEN(words));
    sl_diag_error(
        scan->diag, SLUICE_ECONF,
        "Invalid rate \"%s\". Write a rate like 5/min, or unlimited, or "
        "none",
        sl_quote(scan->text).text);
    if (meant)
        sl_diag_hint(scan->diag, "%s", meant);
    return SLUICE_ECONF;
}

/* The hint is the rate `f` (tokens for each unit), and then the rest. */
static void hint_rate(const struct sl_scan *scan, const struct sl_fraction *f)
{
    struct sl_str rest = sl_scan_rest(scan);

    if (f->den == 1)
        sl_diag_hint(scan->diag, "%" PRIu64 "/%.*s", f->num, SL_STR_ARG(rest));
    else if (f->den > 1)
        sl_diag_hint(scan->diag, "%" PRIu64 "/%" PRIu64 "%.*s", f->num, f->den,
                     SL_STR_ARG(rest));
}

/* "1.5/s": say 3/2s. */
static int refuse_count_fraction(struct sl_scan *scan, struct sl_fraction *f)
{
    struct sl_diag *diag = scan->diag;
    struct sl_str suffix = sl_scan_word(scan);
    uint64_t every = 1;

    if (sl_str_eq(suffix, SL_STR("k")))
        sl_fraction_scale(f, 1000, 1);
    else if (sl_str_eq(suffix, SL_STR("M")))
        sl_fraction_scale(f, 1000000, 1);
    if (sl_scan_peek(scan) != '/')
        return sl_diag_error(diag, SLUICE_ECONF,
                             "\"%s\" has a fraction. A count must be whole",
                             sl_quote(f->text).text);
    scan->at++;
    scan->diag = NULL; /* later errors are not reported */
    if (is_digit(sl_scan_peek(scan)) && sl_scan_number(scan, &every))
        every = 0;
    scan->diag = diag;
    sl_diag_error(diag, SLUICE_ECONF,
                  "\"%s\" has a fraction. Write whole numbers over a longer "
                  "period, like 3/2s",
                  sl_quote(f->text).text);
    sl_fraction_scale(f, 1, every);
    hint_rate(scan, f);
    return SLUICE_ECONF;
}

/* "5/0.5s": say 10/s. */
static int refuse_period_fraction(struct sl_scan *scan, size_t from,
                                  uint64_t count, const struct sl_fraction *f)
{
    struct sl_fraction rate = {
        {NULL, 0},
        count, 1
    };

    sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from,
        "\"%s\" has a fraction. A period must be a whole number of "
        "units",
        sl_quote(f->text).text);
    sl_fraction_scale(&rate, f->den, f->num);
    hint_rate(scan, &rate);
    return SLUICE_ECONF;
}

/* Blanks at `at`, next to the slash; `from` is the first byte of both. */
static int refuse_slash_blanks(struct sl_scan *scan, size_t from, size_t at)
{
    scan->at = from;
    sl_scan_blanks(scan);
    scan->at++;
    sl_scan_blanks(scan);
    sl_diag_error_at(
        scan->diag, SLUICE_ECONF, at,
        "A rate must not have spaces around its \"/\". Write it like "
        "5/min");
    sl_scan_instead(scan, from, scan->at, "/");
    return SLUICE_ECONF;
}

/* Behind the count stands neither a slash nor nothing. */
static int refuse_behind_count(struct sl_scan *scan)
{
    size_t from = scan->at, word_from;
    struct sl_str rest = sl_scan_rest(scan), word;

    sl_scan_blanks(scan);
    if (sl_scan_peek(scan) == '/')
        return refuse_slash_blanks(scan, from, from);
    word_from = scan->at;
    word = sl_scan_word(scan);
    if (sl_str_eq(word, SL_STR("burst")) || sl_str_eq(word, SL_STR("queue")))
        return sl_diag_error_at(scan->diag, SLUICE_ECONF, word_from,
                                "\"%s\" must follow a rate, like 5/min %s 8",
                                sl_quote(word).text, sl_quote(word).text);
    sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from,
        "Unexpected \"%s\" after the count. Write a rate like 5/min, "
        "or only the count",
        sl_quote(sl_str_trim(rest)).text);
    if (sl_unit_find(word)) {
        sl_scan_instead(scan, from, word_from, "/");
    } else if (sl_str_eq(word, SL_STR("per"))) {
        sl_scan_blanks(scan);
        sl_scan_instead(scan, from, scan->at, "/");
    } else if (sl_str_eq(word, SL_STR("K"))) {
        sl_scan_instead(scan, from, scan->at, "k");
    }
    return SLUICE_ECONF;
}

/* The unit is missing. A blank before a good one is all that is wrong with
 * "5/10 min". */
static int refuse_missing_unit(struct sl_scan *scan)
{
    size_t from = scan->at, behind;

    sl_scan_blanks(scan);
    behind = scan->at;
    if (behind > from && sl_unit_find(sl_scan_word(scan))) {
        sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                         "A period must not contain spaces");
        sl_scan_instead(scan, from, behind, "");
        return SLUICE_ECONF;
    }
    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "Missing unit of time. Valid units: " ALL_UNITS);
    sl_scan_instead(scan, from, from, "s");
    return SLUICE_ECONF;
}

/* The word that began at `from` is no unit, or one too short for rates. */
static int refuse_unit(struct sl_scan *scan, size_t from)
{
    struct sl_str word = {scan->text.at + from, scan->at - from};
    const char *meant = sl_unit_guess(word);

    if (sl_unit_find(word))
        return sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                                "Unit \"%s\" is too short for a rate. Valid "
                                "units: " ALL_UNITS,
                                sl_quote(word).text);
    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "Unknown unit of time \"%s\". Valid units: " ALL_UNITS,
                     sl_quote(word.len ? word : sl_scan_rest(scan)).text);
    if (meant && sl_unit_find(sl_str_c(meant))->unit >= 0)
        sl_scan_instead(scan, from, scan->at, meant);
    return SLUICE_ECONF;
}

static bool is_year(struct sl_str word)
{
    static const char *const words[] = {"y", "yr", "year", "years", "annum"};

    for (size_t i = 0; i < SL_LEN(words); i++)
        if (sl_str_eq_nocase(word, sl_str_c(words[i])))
            return true;
    return false;
}

/* The period that began at `from` is in years. */
static int refuse_year(struct sl_scan *scan, size_t from, uint64_t every)
{
    char months[32];

    snprintf(months, sizeof(months), "%" PRIu64 "month",
             every < 1000 ? 12 * every : 12);
    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "There is no unit for years. A year is 12 months");
    sl_scan_instead(scan, from, scan->at, months);
    return SLUICE_ECONF;
}

/* The number of a period, which is there if there are digits. */
static int read_every(struct sl_scan *scan, struct sl_rate *rate)
{
    struct sl_fraction f;
    size_t from = scan->at;
    int err;

    rate->every = 1;
    if (!is_digit(sl_scan_peek(scan)))
        return 0;
    scan->noun = "a period";
    err = sl_scan_number(scan, &rate->every);
    if (err)
        return err;
    if (sl_scan_fraction(scan, from, &f))
        return refuse_period_fraction(scan, from, rate->count, &f);
    if (rate->every > 0)
        return 0;
    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "A period must be longer than 0. Remove the 0, or write "
                     "another number");
    sl_scan_instead(scan, from, scan->at, "");
    return SLUICE_ECONF;
}

static int read_period(struct sl_scan *scan, struct sl_rate *rate)
{
    const struct sl_time_unit *unit;
    size_t period = scan->at, from;
    struct sl_str word;
    int err;

    if (is_blank(sl_scan_peek(scan)))
        return refuse_slash_blanks(scan, scan->at - 1, scan->at);
    err = read_every(scan, rate);
    if (err)
        return err;
    if (sl_scan_done(scan) || is_blank(sl_scan_peek(scan)))
        return refuse_missing_unit(scan);
    from = scan->at;
    word = sl_scan_word(scan);
    unit = sl_unit_find(word);
    if (is_year(word))
        return refuse_year(scan, period, rate->every);
    if (!unit || unit->unit < 0)
        return refuse_unit(scan, from);
    rate->unit = (enum sl_unit)unit->unit;
    return 0;
}

/* What stands at `from` belongs to no rate. */
static int refuse_left_over(struct sl_scan *scan, size_t from)
{
    struct sl_str read = {scan->text.at, from};
    struct sl_str rest = sl_str_from(scan->text, from);

    return sl_diag_error_at(
        scan->diag, SLUICE_ECONF, from, "Unexpected \"%s\" after \"%s\"",
        sl_quote(rest).text, sl_quote(sl_str_trim(read)).text);
}

static int refuse_option(struct sl_scan *scan, size_t from, struct sl_str word)
{
    static const char *const words[] = {"burst", "queue"};
    const char *meant = sl_str_nearest(word, words, SL_LEN(words));

    sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                     "Unknown word \"%s\". Write burst or queue and a count",
                     sl_quote(word).text);
    if (meant)
        sl_scan_instead(scan, from, scan->at, meant);
    return SLUICE_ECONF;
}

/* Blanks and a count, behind the word burst or queue. */
static int read_option_count(struct sl_scan *scan, struct sl_str word,
                             uint64_t *ret)
{
    struct sl_fraction f;
    size_t at = scan->at, from;
    int err;

    if (sl_scan_blanks(scan) == 0) {
        sl_diag_error_at(
            scan->diag, SLUICE_ECONF, at,
            "Missing space and count after \"%s\". Write it like %s 8",
            sl_quote(word).text, sl_quote(word).text);
        if (is_digit(sl_scan_peek(scan)))
            sl_scan_instead(scan, at, at, " ");
        return SLUICE_ECONF;
    }
    scan->noun = word.at[0] == 'b' ? "a burst" : "a queue";
    from = scan->at;
    err = sl_scan_count(scan, ret);
    if (err)
        return err;
    if (sl_scan_fraction(scan, from, &f))
        return sl_diag_error_at(scan->diag, SLUICE_ECONF, from,
                                "\"%s\" has a fraction, but %s must be whole",
                                sl_quote(f.text).text, scan->noun);
    return 0;
}

/* " burst 8" or " queue 5". */
static int read_option(struct sl_scan *scan, struct sl_rate *rate)
{
    size_t before = scan->at;
    size_t blanks = sl_scan_blanks(scan);
    size_t from = scan->at;
    struct sl_str word = sl_scan_word(scan);

    if (blanks == 0 || word.len == 0)
        return refuse_left_over(scan, before + blanks);
    if (rate->has_burst || rate->has_queue)
        return sl_diag_error_at(
            scan->diag, SLUICE_ECONF, from,
            "Unexpected \"%s\". A rate has one burst or one "
            "queue",
            sl_quote(word).text);
    if (sl_str_eq(word, SL_STR("burst"))) {
        rate->has_burst = true;
        return read_option_count(scan, word, &rate->burst);
    }
    if (sl_str_eq(word, SL_STR("queue"))) {
        rate->has_queue = true;
        return read_option_count(scan, word, &rate->queue);
    }
    return refuse_option(scan, from, word);
}

/* Everything but the two words. */
static int read_numbers(struct sl_scan *scan, struct sl_rate *rate)
{
    struct sl_fraction f;
    int err;

    scan->noun = "a count";
    err = sl_scan_count(scan, &rate->count);
    if (err)
        return err;
    rate->form = SL_RATE_PLAIN;
    if (sl_scan_done(scan))
        return 0;
    if (sl_scan_fraction(scan, 0, &f))
        return refuse_count_fraction(scan, &f);
    if (sl_scan_peek(scan) != '/')
        return refuse_behind_count(scan);
    scan->at++;
    rate->form = SL_RATE_PER;
    err = read_period(scan, rate);
    while (!err && !sl_scan_done(scan))
        err = read_option(scan, rate);
    return err;
}

int sl_parse_rate(struct sl_str text, struct sl_rate *ret, struct sl_diag *diag)
{
    struct sl_rate rate = {.form = SL_RATE_PLAIN};
    struct sl_scan scan, word;
    int err = sl_scan_open(&scan, text, "a rate", "5/min", diag);

    if (err)
        return err;
    word = scan;
    if (sl_scan_word(&word).len > 0)
        err = read_words(&scan, &rate);
    else
        err = read_numbers(&scan, &rate);
    if (!err)
        *ret = rate;
    return err;
}
