/* bytes.h -- is it plain text?
 *
 * A policy is UTF-8 without control characters but tabs and line ends. The
 * whole file is looked at before anything else reads it, and once more each
 * string that was written with escapes or comes from elsewhere.
 */
#ifndef SL_BYTES_H
#define SL_BYTES_H

#include "base/str.h"

enum sl_utf8_error {
    SL_FAULT_NONE,
    SL_FAULT_NUL,
    SL_FAULT_UTF8,    /* not UTF-8 */
    SL_FAULT_CONTROL, /* a control character */
    SL_FAULT_RETURN,  /* a carriage return without a newline */
    SL_FAULT_MARK,    /* a byte order mark */
};

struct sl_utf8_fault {
    enum sl_utf8_error fault;
    size_t at;
    uint32_t code; /* the character, or the byte that is not UTF-8 */
};

/* The first fault of `text`. */
struct sl_utf8_fault sl_utf8_check(struct sl_str text);

/* What it is, in words: "a NUL byte". `out` holds 64 bytes. Returns out. */
const char *sl_utf8_words(const struct sl_utf8_fault *bad, char out[64]);

#endif
