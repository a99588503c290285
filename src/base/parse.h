/* parse.h -- numbers, durations, sizes and rates as people write them.
 *
 * Every function reads the whole slice or refuses: no leading or trailing
 * blanks, no sign, no leading zero, no fraction, nothing left over. Letters of
 * units count in the case shown, except where a row says otherwise. On failure
 * the output is untouched and `diag` (may be NULL) has the offset, a sentence
 * and, where a near word exists, a hint.
 *
 *   number    0 .. 2^64 - 1                         42
 *   count     a number, with k (10^3) or M (10^6)   10k   5M
 *   duration  number and unit, once or several      20ms   30s   1h30m
 *             times, larger units first             2m30s   1d
 *             ns us ms s sec second m min minute h hour d day week
 *   size      number and unit                       64MiB   2GB   512B   0
 *             B kB MB GB TB (10^3 ...) KiB MiB GiB TiB (2^10 ...);
 *             only 0 may go without
 *   rate      count / [number] unit                 5/min   30/5m   120/month
 *             and perhaps " burst N" or " queue N"  5/min burst 8
 *             or a plain count                      2
 *             or one of two words                   unlimited   none
 *             units: ms s sec second m min minute h hour d day week month
 */
#ifndef SL_BASE_PARSE_H
#define SL_BASE_PARSE_H

#include "base/diag.h"

enum sl_unit {
    SL_UNIT_MS,
    SL_UNIT_SECOND,
    SL_UNIT_MINUTE,
    SL_UNIT_HOUR,
    SL_UNIT_DAY,
    SL_UNIT_WEEK,
    SL_UNIT_MONTH, /* has no fixed length */
};

enum sl_rate_form {
    SL_RATE_PER,       /* count per (every x unit) */
    SL_RATE_PLAIN,     /* a count alone: permits, levels */
    SL_RATE_UNLIMITED, /* the word */
    SL_RATE_NONE,      /* the word: the plan lacks the capability */
};

/* A rate as written, before core/limit.c checks it. */
struct sl_rate {
    enum sl_rate_form form;
    uint64_t count;    /* PER and PLAIN */
    uint64_t every;    /* PER: 1 when not written; never 0 */
    enum sl_unit unit; /* PER */
    bool has_burst;
    bool has_queue;
    uint64_t burst; /* if has_burst */
    uint64_t queue; /* if has_queue */
};

/* Unlimited and none have no numbers. */
static inline bool sl_rate_has_numbers(enum sl_rate_form form)
{
    return form == SL_RATE_PER || form == SL_RATE_PLAIN;
}

SL_MUST_USE int sl_parse_number(struct sl_str text, uint64_t *ret,
                                struct sl_diag *diag);
SL_MUST_USE int sl_parse_count(struct sl_str text, uint64_t *ret,
                               struct sl_diag *diag);
SL_MUST_USE int sl_parse_duration(struct sl_str text, sl_ns *ret,
                                  struct sl_diag *diag);
SL_MUST_USE int sl_parse_size(struct sl_str text, uint64_t *ret,
                              struct sl_diag *diag);
SL_MUST_USE int sl_parse_rate(struct sl_str text, struct sl_rate *ret,
                              struct sl_diag *diag);

/* The length of a unit, or 0 for a month, which has none. */
sl_ns sl_unit_length(enum sl_unit unit);

/* The canonical spelling of a unit: "ms", "s", "min", "h", "day", "week",
 * "month". */
const char *sl_unit_name(enum sl_unit unit);

/* Write a duration like "12s", "1h30m", "1500ms", never "1.5s":
 * whole seconds in one or two of d, h, m and s, beginning with the largest
 * that makes it exact (25h30m, 90m15s), anything finer in ms, us or ns alone.
 * 0 is "0s"; negative spans, SL_NS_NONE among them, are "none". All but that
 * is read back by sl_parse_duration() as the same span. `out` holds at least
 * 32 bytes. Returns out. */
char *sl_format_duration(sl_ns span, char out[32]);

/* ---- scans: for parse.c and rate.c ----
 *
 * A scan reads a text from left to right. `noun` and `like` make errors such as
 * "a count is missing; write one like 10k". Functions that fail set `diag` and
 * return SLUICE_ECONF.
 *
 * Invariant: at <= text.len.
 */

struct sl_scan {
    struct sl_str text;
    size_t at;
    const char *noun; /* what is being read: "a count" */
    struct sl_diag *diag;
};

/* Begin. Refuses an empty text and one with blanks around it. */
SL_MUST_USE int sl_scan_open(struct sl_scan *scan, struct sl_str text,
                             const char *noun, const char *like,
                             struct sl_diag *diag);

bool sl_scan_done(const struct sl_scan *scan);
struct sl_str sl_scan_rest(const struct sl_scan *scan);

/* The next byte, or NUL at the end. */
char sl_scan_peek(const struct sl_scan *scan);

/* Pass spaces and tabs; returns how many. */
size_t sl_scan_blanks(struct sl_scan *scan);

/* Pass letters and bytes beyond ASCII, to quote whole words. Returns them. */
struct sl_str sl_scan_word(struct sl_scan *scan);

/* Pass digits: at least one, no leading zero, below 2^64. */
SL_MUST_USE int sl_scan_number(struct sl_scan *scan, uint64_t *ret);

/* Pass a number and perhaps k or M. Another word behind it is left. */
SL_MUST_USE int sl_scan_count(struct sl_scan *scan, uint64_t *ret);

/* A fraction in lowest terms; den is 0 where it would not fit. */
struct sl_fraction {
    struct sl_str text; /* as written: "1.5" */
    uint64_t num, den;
};

/* If a fraction follows the number that began at `from`, pass it and return
 * it. */
bool sl_scan_fraction(struct sl_scan *scan, size_t from,
                      struct sl_fraction *ret);

/* f * num / den. */
void sl_fraction_scale(struct sl_fraction *f, uint64_t num, uint64_t den);

/* The hint is the text with the bytes [from, to) replaced by `words`. */
void sl_scan_instead(const struct sl_scan *scan, size_t from, size_t to,
                     const char *words);

/* Prepare user input to be quoted: about 40 bytes and "..."; NUL becomes
 * '?'. */
struct sl_quoted {
    char text[48];
};
struct sl_quoted sl_quote(struct sl_str s);

/* A unit of time. */
struct sl_time_unit {
    const char *word;
    sl_ns length; /* 0 for a month */
    int unit;     /* an enum sl_unit, or -1 for those too short for rates */
};

/* The unit that is spelled exactly so, or NULL. */
const struct sl_time_unit *sl_unit_find(struct sl_str word);

/* The spelling that a misspelt unit most likely meant, or NULL. */
const char *sl_unit_guess(struct sl_str word);

#endif
