/* digits.h -- whole numbers as text, for those who can't wait for printf.
 */
#ifndef SL_DIGITS_H
#define SL_DIGITS_H

#include <endian.h>
#include <string.h>

#include "base/base.h"

#define SL_DIGITS 20 /* of the largest number, 2^64 - 1 */

#define SL_DIGITS_EIGHT UINT64_C(100000000)

/* The eight digits of n < 10^8 as bytes, the first one in the lowest. Halves,
 * pairs and digits are parted side by side in one word: 10486 / 2^20 is a
 * hundredth below 10^4, and 103 / 2^10 a tenth below 100. */
static inline uint64_t sl_digits_parted(uint64_t n)
{
    uint64_t halves = n / 10000 | n % 10000 << 32;
    uint64_t pairs = halves * 10486 >> 20 & UINT64_C(0x0000007f0000007f);
    uint64_t digits;

    pairs |= (halves - 100 * pairs) << 16;
    digits = pairs * 103 >> 10 & UINT64_C(0x000f000f000f000f);
    return digits | (pairs - 10 * digits) << 8;
}

static inline void sl_digits_put(uint64_t digits, char out[8])
{
    digits = htole64(digits);
    memcpy(out, &digits, 8);
}

/* n < 10^8 without leading zeros. Eight bytes are written in any case. */
static inline size_t sl_digits_few(uint64_t n, char out[8])
{
    uint64_t digits = sl_digits_parted(n);
    unsigned zeros = /* the last digit is never one of them */
        (unsigned)__builtin_ctzll(digits | UINT64_C(1) << 56) / 8;

    sl_digits_put((digits | UINT64_C(0x3030303030303030)) >> 8 * zeros, out);
    return 8 - zeros;
}

static inline void sl_digits_all(uint64_t n, char out[8])
{
    sl_digits_put(sl_digits_parted(n) | UINT64_C(0x3030303030303030), out);
}

/* Write `n` in decimal. No NUL is put behind it. Returns the length; what is
 * behind that in `out` may be written, too. */
static inline size_t sl_digits(uint64_t n, char out[SL_DIGITS])
{
    uint64_t high;
    size_t len;

    if (n < 10) { /* as most are */
        out[0] = (char)('0' + n);
        return 1;
    }
    high = n / SL_DIGITS_EIGHT;
    if (high == 0)
        return sl_digits_few(n, out);
    if (high < SL_DIGITS_EIGHT) {
        len = sl_digits_few(high, out);
    } else {
        len = sl_digits_few(high / SL_DIGITS_EIGHT, out);
        sl_digits_all(high % SL_DIGITS_EIGHT, out + len);
        len += 8;
    }
    sl_digits_all(n % SL_DIGITS_EIGHT, out + len);
    return len + 8;
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
