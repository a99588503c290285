/* rng.h -- random numbers that come out alike everywhere.
 *
 * splitmix64 (Steele, Lea, Flood 2014). One word of state, so that a seed
 * printed by a failing test is all that is needed to see it fail again.
 */
#ifndef SL_PROP_RNG_H
#define SL_PROP_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 .. below - 1; the bias is below 2^-32 for what tests ask. 0 gives 0. */
static inline uint64_t rng_below(struct rng *rng, uint64_t below)
{
    return below ? rng_next(rng) % below : 0;
}

/* low .. high, both included. */
static inline uint64_t rng_between(struct rng *rng, uint64_t low, uint64_t high)
{
    return low + rng_below(rng, high - low + 1);
}

/* True once in `n`. */
static inline bool rng_once_in(struct rng *rng, uint64_t n)
{
    return rng_below(rng, n) == 0;
}

/* 0 .. most, small ones as likely as large ones: first a number of bits, then
 * that many bits. */
static inline uint64_t rng_log(struct rng *rng, uint64_t most)
{
    unsigned bits = 0;
    uint64_t pick;

    while (bits < 64 && most >> bits)
        bits++;
    bits = (unsigned)rng_below(rng, bits + 1);
    pick = bits ? rng_next(rng) >> (64 - bits) : 0;
    return pick < most ? pick : most;
}

#endif
