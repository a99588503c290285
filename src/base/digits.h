/* digits.h -- whole numbers as text, for those who can't wait for printf.
 */
#ifndef SL_DIGITS_H
#define SL_DIGITS_H

#include <string.h>

#include "base/base.h"

#define SL_DIGITS 20 /* of the largest number, 2^64 - 1 */

/* How many digits `n` has. */
static inline size_t sl_digits_count(uint64_t n)
{
    size_t len = 1;

    for (; n >= 10000; n /= 10000)
        len += 4;
    return len + (n >= 10) + (n >= 100) + (n >= 1000);
}

/* Write `n` in decimal. No NUL is put behind it. Returns the length. From the
 * end, two digits by one division. */
static inline size_t sl_digits(uint64_t n, char out[SL_DIGITS])
{
    static const char pairs[] = "0001020304050607080910111213141516171819"
                                "2021222324252627282930313233343536373839"
                                "4041424344454647484950515253545556575859"
                                "6061626364656667686970717273747576777879"
                                "8081828384858687888990919293949596979899";
    size_t len = sl_digits_count(n), at = len;

    for (; n >= 100; n /= 100) {
        at -= 2;
        memcpy(out + at, pairs + 2 * (n % 100), 2);
    }
    if (n >= 10)
        memcpy(out, pairs + 2 * n, 2);
    else
        out[0] = (char)('0' + n);
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

/* What a hex digit stands for; -1 for any other byte. */
static inline int sl_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

#endif
