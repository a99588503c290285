/* hash.h -- a keyed hash: SipHash-1-3.
 *
 * Without the secret, an attacker can't choose texts that collide or share a
 * bucket. Rust and Python use the same hash; 32 bytes take about 20 ns in the
 * 128-bit form. Keys of limits have their own, see fingerprint.h.
 */
#ifndef SL_BASE_HASH_H
#define SL_BASE_HASH_H

#include "base/str.h"

struct sl_hash_key {
    uint64_t k0, k1;
};

struct sl_hash128 {
    uint64_t lo, hi;
};

static inline bool sl_hash128_eq(struct sl_hash128 a, struct sl_hash128 b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

uint64_t sl_hash64(const struct sl_hash_key *key, struct sl_str bytes);

/* The 128-bit variant; it is not an extension of the 64-bit one. */
struct sl_hash128 sl_hash128(const struct sl_hash_key *key,
                             struct sl_str bytes);

/* A new secret from the kernel. SLUICE_ESYS. */
SL_MUST_USE int sl_hash_key_make(struct sl_hash_key *ret);

/* ---- jitter and back-off, so that clients do not all retry at once ---- */

struct sl_jitter {
    struct sl_hash_key key;
    uint64_t thrown;
};

SL_MUST_USE static inline int sl_jitter_init(struct sl_jitter *dice)
{
    dice->thrown = 0;
    return sl_hash_key_make(&dice->key);
}

static inline uint64_t sl_jitter_next(struct sl_jitter *dice)
{
    uint64_t turn = dice->thrown++;

    return sl_hash64(&dice->key,
                     (struct sl_str){(const char *)&turn, sizeof(turn)});
}

/* Between a half of `most` and `most`. */
static inline sl_ns sl_jitter_span(struct sl_jitter *dice, sl_ns most)
{
    uint64_t half = (uint64_t)(most / 2);

    return most - (sl_ns)(sl_jitter_next(dice) % (half + 1));
}

/* The time to wait after `failures` in a row: `least`, doubled each time, at
 * most `most`; jittered. */
static inline sl_ns sl_jitter_backoff(struct sl_jitter *dice, unsigned failures,
                                      sl_ns least, sl_ns most)
{
    sl_ns span = least << (failures < 10 ? failures : 10);

    return sl_jitter_span(dice, span < most ? span : most);
}

#endif
