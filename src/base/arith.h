/* arith.h -- arithmetic that cannot overflow silently.
 *
 * Sums and products of our numbers leave 64 bits quickly: a period of ten
 * years in nanoseconds has 59, a count 32, a token's fraction 24. Everything
 * that multiplies goes through here, in 128 bits, and saturates at the top.
 */
#ifndef SL_BASE_ARITH_H
#define SL_BASE_ARITH_H

#include "base/base.h"

__extension__ typedef unsigned __int128 sl_u128;

static inline uint64_t sl_add_sat(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t sl_sub_floor(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static inline uint64_t sl_mul_sat(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline sl_ns sl_ns_add_sat(sl_ns a, sl_ns b)
{
    sl_ns sum;

    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return a > 0 ? SL_NS_MAX : INT64_MIN;
}

/* a / b rounded down, also below zero. b > 0. */
static inline int64_t sl_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* n / c; UINT64_MAX if that does not fit. c > 0. Most products fit 64 bits,
 * and dividing those is several times cheaper. */
static inline uint64_t sl_div_sat(sl_u128 n, uint64_t c)
{
    uint64_t high = (uint64_t)(n >> 64);

    if (high == 0)
        return (uint64_t)n / c;
    if (high >= c)
        return UINT64_MAX;
    return (uint64_t)(n / c);
}

/* a * b / c rounded down; UINT64_MAX if that does not fit. c > 0. */
static inline uint64_t sl_muldiv_down(uint64_t a, uint64_t b, uint64_t c)
{
    return sl_div_sat((sl_u128)a * b, c);
}

/* a * b / c rounded up; UINT64_MAX if that does not fit. c > 0. */
static inline uint64_t sl_muldiv_up(uint64_t a, uint64_t b, uint64_t c)
{
    return sl_div_sat((sl_u128)a * b + (c - 1), c);
}

#endif
