/* diag.h -- why a person's text was refused.
 *
 * Refusing and explaining are one statement:
 *
 *     return sl_diag_error(diag, SLUICE_ECONF, "...", ...);
 *
 * The sentence says what is wrong, what was read and what would be right; the
 * hint, where there is one, is what to write instead. Parsers of small texts
 * know only the offset `at` of the trouble inside their slice; whoever knows
 * the file adds name, line and column. A NULL diag is allowed everywhere: then
 * only the error code is given.
 */
#ifndef SL_BASE_DIAG_H
#define SL_BASE_DIAG_H

#include "base/str.h"

struct sl_diag {
    const char *file;   /* borrowed, or NULL */
    unsigned line;      /* from 1; 0 = not known */
    unsigned column;    /* from 1, in bytes; 0 = not known */
    size_t at;          /* offset of the trouble in the text that was read */
    char sentence[256]; /* no newline, no full stop at the end */
    char hint[128];     /* what to write instead, or "" */
};

/* Put down the sentence with `at` 0 and no hint, and return `err`. The place
 * (file, line, column) is left as it is. Bytes that are not printable ASCII
 * or printable UTF-8 come out as '?'; too long a sentence ends in "...". */
int sl_diag_error(struct sl_diag *diag, int err, const char *fmt, ...)
    SL_PRINTF(3, 4);

/* The same, for trouble at offset `at`. */
int sl_diag_error_at(struct sl_diag *diag, int err, size_t at, const char *fmt,
                     ...) SL_PRINTF(4, 5);

/* Add what to write instead. Returns nothing: the refusal already did. */
void sl_diag_hint(struct sl_diag *diag, const char *fmt, ...) SL_PRINTF(2, 3);

/* How many bytes the character at the beginning of `text` (not empty) has; 0
 * if it may not be shown: a control character, or not UTF-8. */
size_t sl_limit_view_len(struct sl_str text);

/* Write the whole complaint into `out` (always NUL-terminated if size > 0):
 *
 *     FILE:LINE:COL: sentence
 *       the line
 *           ^
 *       write: hint
 *
 * without a newline at the end. `line` is the text of the line; pass an empty
 * slice to leave line and caret away. Unknown places are left out; where not
 * even a line is known, `line` is the text that was read and the caret stands
 * at `at`. Tabs in the line are copied below it, so that the caret stands
 * right. Returns the length that was needed. */
size_t sl_diag_print(const struct sl_diag *diag, struct sl_str line, char *out,
                     size_t size);

#endif
