/* sixteen.h -- sixteen bytes at once, in one register where the machine has
 * such.
 *
 * A comparison of two values gives 0xff for each byte for which it is true, and
 * 0 for the others. Differences of unsigned bytes wrap, so one comparison tests
 * a range: v - '0' < 10.
 */
#ifndef SL_BASE_SIXTEEN_H
#define SL_BASE_SIXTEEN_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/str.h"

typedef uint8_t sl_sixteen __attribute__((vector_size(16)));
typedef uint64_t sl_halves __attribute__((vector_size(16)));

static inline sl_sixteen sl_sixteen_load(const char *bytes)
{
    sl_sixteen v;

    memcpy(&v, bytes, sizeof(v));
    return v;
}

static inline void sl_sixteen_store(sl_sixteen v, char *to)
{
    memcpy(to, &v, sizeof(v));
}

/* Fewer than sixteen bytes in their order, and NULs behind them. Parts of four
 * and eight bytes overlap, so that no byte is read alone. The two halves are
 * joined in registers: a wide load of narrow stores has to wait for them. */
static inline sl_sixteen sl_sixteen_load_few(const char *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;
    uint64_t first = 0, last = 0;
    uint32_t low, high;

    if (len >= 8) {
        first = le64toh(sl_swar_load(bytes));
        if (len > 8)
            last = le64toh(sl_swar_load(bytes + len - 8)) >> 8 * (16 - len);
    } else if (len >= 4) {
        memcpy(&low, p, sizeof(low));
        memcpy(&high, p + len - 4, sizeof(high));
        first = le32toh(low) | (uint64_t)le32toh(high) << 8 * (len - 4);
    } else if (len > 0) {
        first = p[0] | (uint64_t)p[len / 2] << 8 * (len / 2) |
                (uint64_t)p[len - 1] << 8 * (len - 1);
    }
    return (sl_sixteen)(sl_halves){htole64(first), htole64(last)};
}

/* The position of the first byte that is not 0, or 16: in two words, as any
 * machine can. `v` is the result of comparisons. */
static inline size_t sl_sixteen_first_portable(sl_sixteen v)
{
    uint64_t half[2];

    memcpy(half, &v, sizeof(half));
    if (half[0])
        return sl_swar_first(half[0]);
    return half[1] ? 8 + sl_swar_first(half[1]) : 16;
}

static inline size_t sl_sixteen_first(sl_sixteen v)
{
#ifdef __SSE2__
    return (size_t)__builtin_ctz((unsigned)_mm_movemask_epi8((__m128i)v) |
                                 1u << 16);
#else
    return sl_sixteen_first_portable(v);
#endif
}

#endif
