/* digits.h -- whole numbers as text, for those who can't wait for printf.
 */
#ifndef SL_DIGITS_H
#define SL_DIGITS_H

#include "base/base.h"

#define SL_DIGITS 20 /* of the largest number, 2^64 - 1 */

/* Write `n` in decimal. No NUL is put behind it. Returns the length. */
static inline size_t sl_digits(uint64_t n, char out[SL_DIGITS])
{
    char reversed[SL_DIGITS];
    size_t len = 0;

    do {
        reversed[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    for (size_t i = 0; i < len; i++)
        out[i] = reversed[len - 1 - i];
    return len;
}

/* Write the last `width` digits of `n`, with zeros before them. Returns the
 * byte behind them. */
static inline char *sl_digits_padded(uint64_t n, unsigned width, char *out)
{
    for (unsigned i = width; i-- > 0; n /= 10)
        out[i] = (char)('0' + n % 10);
    return out + width;
}

#endif
