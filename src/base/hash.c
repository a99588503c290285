/* hash.c -- SipHash, by Aumasson and Bernstein (2012).
 *
 * One compression and three finalization rounds are enough where an attacker
 * never sees the hashes: they stay in the table. The numbers of rounds and
 * `wide` (128 bits) are constants at the calls, so that the compiler unrolls.
 *
 * Words are little-endian on every machine, since files contain fingerprints.
 */
#include "base/hash.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define C_ROUNDS 1
#define D_ROUNDS 3

/* Always inline: a call would keep the state in memory and take twice as
 * long. */
#define INLINE static inline __attribute__((always_inline))

struct state {
    uint64_t v0, v1, v2, v3;
};

INLINE uint64_t rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

INLINE uint64_t load(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return le64toh(word);
}

INLINE void sip_round(struct state *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 = rotl(s->v2, 32);
}

/* Up to four rounds without a loop, which gcc -O2 would keep. */
INLINE void rounds(struct state *s, unsigned count)
{
    assert(count <= 4);
    if (count > 0)
        sip_round(s);
    if (count > 1)
        sip_round(s);
    if (count > 2)
        sip_round(s);
    if (count > 3)
        sip_round(s);
}

INLINE void fold(struct state *s, uint64_t word, unsigned count)
{
    s->v3 ^= word;
    rounds(s, count);
    s->v0 ^= word;
}

/* Load fewer than eight bytes. A memcpy() of variable length costs as much as
 * the rest of a short hash. */
INLINE uint64_t load_few(const char *at, size_t len)
{
    const unsigned char *p = (const unsigned char *)at;
    uint32_t low, high;

    if (len >= 4) { /* two words that overlap */
        memcpy(&low, p, sizeof(low));
        memcpy(&high, p + len - 4, sizeof(high));
        return le32toh(low) | (uint64_t)le32toh(high) << (8 * (len - 4));
    }
    if (len == 0)
        return 0;
    return p[0] | (uint64_t)p[len / 2] << (8 * (len / 2)) |
           (uint64_t)p[len - 1] << (8 * (len - 1));
}

INLINE uint64_t close_state(struct state *s, unsigned count)
{
    rounds(s, count);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

INLINE struct sl_hash128 sip(const struct sl_hash_key *key, struct sl_str bytes,
                             unsigned c, unsigned d, bool wide)
{
    /* "somepseudorandomlygeneratedbytes" */
    struct state s = {
        key->k0 ^ UINT64_C(0x736f6d6570736575),
        key->k1 ^ UINT64_C(0x646f72616e646f6d) ^ (wide ? 0xee : 0),
        key->k0 ^ UINT64_C(0x6c7967656e657261),
        key->k1 ^ UINT64_C(0x7465646279746573),
    };
    const char *at = bytes.at ? bytes.at : "";
    size_t whole = bytes.len & ~(size_t)7;
    struct sl_hash128 hash = {0, 0};

    for (size_t i = 0; i < whole; i += 8)
        fold(&s, load(at + i), c);
    fold(&s,
         load_few(at + whole, bytes.len - whole) | (uint64_t)bytes.len << 56,
         c);
    s.v2 ^= wide ? 0xee : 0xff;
    hash.lo = close_state(&s, d);
    if (wide) {
        s.v1 ^= 0xdd;
        hash.hi = close_state(&s, d);
    }
    return hash;
}

uint64_t sl_hash64(const struct sl_hash_key *key, struct sl_str bytes)
{
    return sip(key, bytes, C_ROUNDS, D_ROUNDS, false).lo;
}

struct sl_hash128 sl_hash128(const struct sl_hash_key *key, struct sl_str bytes)
{
    return sip(key, bytes, C_ROUNDS, D_ROUNDS, true);
}

int sl_hash_key_make(struct sl_hash_key *ret)
{
    struct sl_hash_key key;
    ssize_t n;

    do
        n = getrandom(&key, sizeof(key), 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(key)) /* so few bytes come at once or fail */
        return SLUICE_ESYS;
    *ret = key;
    return 0;
}
