/* str.h -- borrowed slices of bytes.
 *
 * A slice owns nothing and need not end in NUL. Its holder makes sure
 * that the bytes below it outlive it.
 */
#ifndef SL_BASE_STR_H
#define SL_BASE_STR_H

#include <endian.h>
#include <string.h>

#include "base/base.h"

struct sl_str {
    const char *at; /* may be NULL when len is 0 */
    size_t len;
};

/* A slice of a string literal. */
#define SL_STR(literal) ((struct sl_str){("" literal), sizeof(literal) - 1})

/* Copy a string literal to memory that has room. Gives the byte behind it. */
#define SL_PUT(to, literal)                                                    \
    ((char *)memcpy((to), "" literal, sizeof(literal) - 1) +                   \
     (sizeof(literal) - 1))

/* Copy a text to memory that has room; up to 32 bytes without a call. Gives the
 * byte behind it. */
static inline char *sl_str_put(char *to, struct sl_str text)
{
    const char *at = text.at;
    size_t len = text.len;

    if (len > 32) {
        memcpy(to, at, len);
    } else if (len >= 16) { /* two halves that overlap */
        memcpy(to, at, 16);
        memcpy(to + len - 16, at + len - 16, 16);
    } else if (len >= 8) {
        memcpy(to, at, 8);
        memcpy(to + len - 8, at + len - 8, 8);
    } else if (len >= 4) {
        memcpy(to, at, 4);
        memcpy(to + len - 4, at + len - 4, 4);
    } else if (len > 0) {
        to[0] = at[0];
        to[len / 2] = at[len / 2];
        to[len - 1] = at[len - 1];
    }
    return to + len;
}

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

static inline bool sl_str_begins(struct sl_str text, struct sl_str with)
{
    return with.len == 0 || (text.len >= with.len && text.at &&
                             memcmp(text.at, with.at, with.len) == 0);
}

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

/* ---- integers as text, faster than printf ---- */

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

/* ---- eight bytes at once (SWAR) ----
 *
 * Sums and differences that stay within their byte set its top bit where the
 * byte matches.
 */

/* The same byte eight times. */
#define SL_EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

#define SL_TOPS SL_EACH(0x80)

static inline uint64_t sl_swar_load(const char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
    return word;
}

/* How many bytes in memory come before the first that is marked. */
static inline size_t sl_swar_first(uint64_t marks)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (size_t)__builtin_ctzll(marks) / 8;
#else
    return (size_t)__builtin_clzll(marks) / 8;
#endif
}

/* ---- RFC 4648: section 4 with padding, section 5 (base64url) without
 * it, and nothing else.
 *
 * One text for each string of bytes: no blanks, no bits left over in the last
 * letter. What is signed or secret has no second spelling.
 */

/* The most bytes that `len` letters stand for, and the letters of `len`
 * bytes. */
#define SL_BASE64_BYTES(len)   ((len) / 4 * 3)
#define SL_BASE64_LETTERS(len) (((len) + 2) / 3 * 4)

/* Decode into `out`, which has room for SL_BASE64_BYTES(text.len). False if it
 * is not strictly base64; then *ret_len is untouched. */
SL_MUST_USE bool sl_base64_decode(struct sl_str text, uint8_t *out,
                                  size_t *ret_len);

/* The same of base64url, with room for SL_BASE64URL_BYTES(text.len). */
#define SL_BASE64URL_BYTES(len) ((len) / 4 * 3 + 2)
SL_MUST_USE bool sl_base64url_decode(struct sl_str text, uint8_t *out,
                                     size_t *ret_len);

/* Encode into `out`, which has room for SL_BASE64_LETTERS(bytes.len). No NUL is
 * put behind it. */
void sl_base64_encode(struct sl_str bytes, char *out);

#endif
