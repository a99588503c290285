/* diag.h -- diagnostics: an error in user input, with its position.
 *
 * Reporting and returning are one statement:
 *
 *     return sl_diag_error(diag, SLUICE_ECONF, "...", ...);
 *
 * The sentence says what is wrong, what was read and what would be right; the
 * hint is what to write instead. Parsers of small texts set the offset `at` in
 * their slice; the caller that knows the file adds name, line and column. NULL
 * is allowed everywhere: then only the error code is returned.
 */
#ifndef SL_BASE_DIAG_H
#define SL_BASE_DIAG_H

#include "base/str.h"

struct sl_diag {
    const char *file;   /* borrowed, or NULL */
    unsigned line;      /* from 1; 0 = not known */
    unsigned column;    /* from 1, in bytes; 0 = not known */
    size_t at;          /* offset of the error in the text */
    char sentence[256]; /* no newline, no full stop at the end */
    char hint[128];     /* what to write instead, or "" */
};

/* Set the sentence, `at` 0 and no hint, and return `err`. File, line and column
 * stay. Unprintable bytes become '?'; a long sentence ends in "...". */
int sl_diag_error(struct sl_diag *diag, int err, const char *fmt, ...)
    SL_PRINTF(3, 4);

/* The same, at offset `at`. */
int sl_diag_error_at(struct sl_diag *diag, int err, size_t at, const char *fmt,
                     ...) SL_PRINTF(4, 5);

/* Set the hint: what to write instead. */
void sl_diag_hint(struct sl_diag *diag, const char *fmt, ...) SL_PRINTF(2, 3);

/* Bytes of the first character of `text` (not empty); 0 for a control character
 * or invalid UTF-8. */
size_t sl_diag_char_len(struct sl_str text);

/* Write the whole diagnostic into `out` (NUL-terminated if size > 0):
 *
 *     FILE:LINE:COL: sentence
 *       the line
 *           ^
 *       write: hint
 *
 * without a newline at the end. `line` is the text of the line; empty: no line
 * and no caret. Without a line number, `line` is the text that was read and the
 * caret is at `at`. Returns the length needed. */
size_t sl_diag_print(const struct sl_diag *diag, struct sl_str line, char *out,
                     size_t size);

#endif
