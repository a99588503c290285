/* scan.h -- reading a small text from left to right; for this room only.
 *
 * What number.c, duration.c and rate.c share. A scan walks over a text that a
 * person wrote and complains in one voice: `noun` and `like` make "a count is
 * missing; write one like 10k" and "a duration needs digits, not "abc"".
 * Whatever fails has put its sentence into `diag` and returns SLUICE_ECONF.
 *
 * Invariant: at <= text.len.
 */
#ifndef SL_SCAN_H
#define SL_SCAN_H

#include "base/diag.h"

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

/* Pass letters, and bytes beyond ASCII so that a word in another tongue is
 * quoted whole; returns them, perhaps none. */
struct sl_str sl_scan_word(struct sl_scan *scan);

/* Pass digits: at least one, no leading zero, below 2^64. */
SL_MUST_USE int sl_scan_number(struct sl_scan *scan, uint64_t *ret);

/* Pass a number and perhaps k or M (in number.c). Another word behind the
 * number is left for the caller to judge. */
SL_MUST_USE int sl_scan_count(struct sl_scan *scan, uint64_t *ret);

/* A fraction in lowest terms; den is 0 where it would not fit. */
struct sl_fraction {
    struct sl_str text; /* as written: "1.5" */
    uint64_t num, den;
};

/* Is the number that began at `from` and ends here followed by a fraction?
 * Then pass that and say what it is. */
bool sl_scan_fraction(struct sl_scan *scan, size_t from,
                      struct sl_fraction *ret);

/* f * num / den. */
void sl_fraction_scale(struct sl_fraction *f, uint64_t num, uint64_t den);

/* The hint is the text with the bytes [from, to) replaced by `words`. */
void sl_scan_instead(const struct sl_scan *scan, size_t from, size_t to,
                     const char *words);

/* A stranger's text, made fit to be quoted: the first 40 bytes or so and
 * "..."; a NUL, which would end the sentence early, is a '?'. */
struct sl_quoted {
    char text[48];
};
struct sl_quoted sl_quote(struct sl_str s);

/* A unit of time (in unit.c). */
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
