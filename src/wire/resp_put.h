/* resp_put.h -- values of the Redis protocol for those who have made room for
 * all of them at once. Each returns the byte behind what it wrote.
 */
#ifndef SL_RESP_PUT_H
#define SL_RESP_PUT_H

#include <string.h>

#include "base/digits.h"
#include "base/str.h"

#define SL_RESP_HEAD                                                           \
    (SL_DIGITS + 4) /* the most of a number: with type, sign,                  \
                     * CR LF */

/* Bytes as they are: whole values that never change, written together. */
#define SL_RESP_PUT(to, literal)                                               \
    ((char *)memcpy((to), "" literal, sizeof(literal) - 1) +                   \
     (sizeof(literal) - 1))

static inline char *sl_resp_put_number(char *to, char type, int64_t n)
{
    *to++ = type;
    if (n < 0)
        *to++ = '-';
    to += sl_digits(n < 0 ? 0 - (uint64_t)n : (uint64_t)n, to);
    return SL_RESP_PUT(to, "\r\n");
}

/* SL_RESP_HEAD + text.len + 2 bytes at most. */
static inline char *sl_resp_put_string(char *to, struct sl_str text)
{
    to = sl_resp_put_number(to, '$', (int64_t)text.len);
    if (text.len > 0)
        memcpy(to, text.at, text.len);
    return SL_RESP_PUT(to + text.len, "\r\n");
}

#endif
