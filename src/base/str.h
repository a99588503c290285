/* str.h -- borrowed slices of bytes.
 *
 * A slice owns nothing and need not end in NUL. Whoever keeps one makes sure
 * that the bytes below it outlive it.
 */
#ifndef SL_STR_H
#define SL_STR_H

#include <string.h>

#include "base/base.h"

struct sl_str {
    const char *at; /* may be NULL when len is 0 */
    size_t len;
};

/* A slice of a string literal. */
#define SL_STR(literal) ((struct sl_str){("" literal), sizeof(literal) - 1})

/* For printf("%.*s"). Lengths beyond INT_MAX are cut. */
#define SL_STR_ARG(s) sl_str_int((s).len), ((s).at ? (s).at : "")

int sl_str_int(size_t len);

/* A slice of a NUL-terminated string; NULL gives the empty slice. */
static inline struct sl_str sl_str_c(const char *text)
{
    return (struct sl_str){text, text ? strlen(text) : 0};
}

static inline bool sl_str_eq(struct sl_str a, struct sl_str b)
{
    SL_HOLDS(a.len == 0 || a.at);
    SL_HOLDS(b.len == 0 || b.at);
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* For the next one alone: `len` bytes of both. */
bool sl_bytes_eq_nocase(const char *a, const char *b, size_t len);

/* Equal when the letters A to Z count as a to z. Other bytes must match. Most
 * names differ in length already, which is seen without a call. */
static inline bool sl_str_eq_nocase(struct sl_str a, struct sl_str b)
{
    return a.len == b.len && sl_bytes_eq_nocase(a.at, b.at, a.len);
}

/* Without leading and trailing spaces and tabs. */
struct sl_str sl_str_trim(struct sl_str s);

/* The slice from byte `from` on; empty if it is past the end. */
static inline struct sl_str sl_str_from(struct sl_str s, size_t from)
{
    if (from >= s.len)
        return (struct sl_str){s.at ? s.at + s.len : NULL, 0};
    return (struct sl_str){s.at + from, s.len - from};
}

/* How many single-letter edits (insert, delete, replace, swap of neighbours)
 * turn `a` into `b`, ignoring case; anything above `most` is given as most + 1.
 * Slices longer than 64 bytes count as too far. */
unsigned sl_str_distance(struct sl_str a, struct sl_str b, unsigned most);

/* The word of `words` that `typo` most likely meant, or NULL when none is
 * near: at most one edit for words up to 4 letters (none but case for a single
 * letter), two up to 8, else three. The first of equals wins. */
const char *sl_str_nearest(struct sl_str typo, const char *const *words,
                           size_t count);

#endif
