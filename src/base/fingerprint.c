/* fingerprint.c -- fingerprints by rounds of AES.
 *
 * A key of 0 to 64 bytes is cut into one to four blocks of 16 bytes. The last
 * block of several ends where the key ends, so it may overlap the one before;
 * a key of fewer than 16 bytes is two overlapping halves, and zeros. With its
 * length, the blocks determine the key. Then
 *
 *     x = length ^ e1(block 1) ^ .. ^ en(block n)
 *     fingerprint = f(x)
 *
 * where each e is four rounds of AES with keys of its own, and f is four rounds
 * with other keys. (The last key of all e together is the first one of f.) All
 * keys are hashes, by SipHash, of the limit's secret.
 *
 * Why two keys do not meet: f is one to one, so x must be equal. If one block
 * differs, or the length alone, it is not, because each e is one to one. If
 * more differ, the difference that one e makes must be the one that the others
 * and the length make, which do not depend on its keys. Four rounds of AES with
 * random keys turn a difference into any given one with a probability of at
 * most 2^-113 (Keliher and Sui, 2007). If one key has more blocks, the keys of
 * one e are used for it alone, so its x is random to the other. One round for
 * each block, as in several hash maps, would not do: a byte in one block
 * cancels a byte in the next with a probability of 1 in 64, whatever the
 * secret.
 *
 * The table compares only some 75 bits of a fingerprint, and chooses buckets by
 * others. That is what f is for: after four rounds each bit depends on all bits
 * of x and of the keys.
 */
#include "base/fingerprint.h"

#include <endian.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAS_INSTRUCTIONS 1
#else
#define HAS_INSTRUCTIONS 0
#endif

/* ---- blocks of a key ---- */

/* The bytes of a key of fewer than 16, as two words. */
static inline void load_short(struct sl_str key, uint64_t *lo, uint64_t *hi)
{
    const unsigned char *p = (const unsigned char *)key.at;
    uint32_t first, last;

    *lo = *hi = 0;
    if (key.len >= 8) {
        memcpy(lo, p, sizeof(*lo));
        memcpy(hi, p + key.len - 8, sizeof(*hi));
        *lo = le64toh(*lo);
        *hi = le64toh(*hi);
    } else if (key.len >= 4) {
        memcpy(&first, p, sizeof(first));
        memcpy(&last, p + key.len - 4, sizeof(last));
        *lo = le32toh(first) | (uint64_t)le32toh(last) << 32;
    } else if (key.len > 0) {
        *lo = p[0] | (uint64_t)p[key.len / 2] << 8 |
              (uint64_t)p[key.len - 1] << 16;
    }
}

/* ---- by instructions ---- */

#if HAS_INSTRUCTIONS

/* The program runs on machines without them, so only these functions may use
 * them. AVX has loads that need not be aligned. */
#define BY_INSTRUCTIONS __attribute__((target("aes,avx")))

static bool has_instructions(void)
{
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx");
}

BY_INSTRUCTIONS static inline __m128i load(const void *at)
{
    return _mm_loadu_si128(at);
}

/* The block `x` of a key. `last` is the key of the last round. */
BY_INSTRUCTIONS static inline __m128i mix(const struct sl_aes_block key[4],
                                          __m128i x, __m128i last)
{
    x = _mm_xor_si128(x, load(&key[0]));
    x = _mm_aesenc_si128(x, load(&key[1]));
    x = _mm_aesenc_si128(x, load(&key[2]));
    x = _mm_aesenc_si128(x, load(&key[3]));
    return _mm_aesenc_si128(x, last);
}

/* The blocks after the first of a key of more than 16 bytes. */
BY_INSTRUCTIONS static inline __m128i mix_more(const struct sl_aes_secret *s,
                                               struct sl_str key, __m128i x)
{
    const __m128i none = _mm_setzero_si128();

    if (key.len > 32)
        x = _mm_xor_si128(x, mix(s->block[2], load(key.at + 16), none));
    if (key.len > 48)
        x = _mm_xor_si128(x, mix(s->block[3], load(key.at + 32), none));
    return _mm_xor_si128(x,
                         mix(s->block[1], load(key.at + key.len - 16), none));
}

BY_INSTRUCTIONS struct sl_hash128 sl_aes_hash(const struct sl_aes_secret *s,
                                              struct sl_str key)
{
    __m128i x = _mm_cvtsi64_si128((long long)key.len);
    uint64_t lo, hi;

    SL_HOLDS(key.len <= SL_AES_MOST);
    x = _mm_xor_si128(x, load(&s->close[0]));
    if (key.len < 16) {
        load_short(key, &lo, &hi);
        x = mix(s->block[0], _mm_set_epi64x((long long)hi, (long long)lo), x);
    } else {
        x = mix(s->block[0], load(key.at), x);
        if (key.len > 16)
            x = mix_more(s, key, x);
    }
    x = _mm_aesenc_si128(x, load(&s->close[1]));
    x = _mm_aesenc_si128(x, load(&s->close[2]));
    x = _mm_aesenc_si128(x, load(&s->close[3]));
    x = _mm_aesenc_si128(x, load(&s->close[4]));
    return (struct sl_hash128){(uint64_t)_mm_cvtsi128_si64(x),
                               (uint64_t)_mm_extract_epi64(x, 1)};
}

#else

static bool has_instructions(void)
{
    return false;
}

struct sl_hash128 sl_aes_hash(const struct sl_aes_secret *s, struct sl_str key)
{
    return sl_aes_hash_software(s, key);
}

#endif

/* ---- by software ---- */

/* The S-box of AES (FIPS 197). */
static const unsigned char substitute[256] = {
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b,
    0xfe, 0xd7, 0xab, 0x76, 0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0,
    0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0, 0xb7, 0xfd, 0x93, 0x26,
    0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15,
    0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2,
    0xeb, 0x27, 0xb2, 0x75, 0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0,
    0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84, 0x53, 0xd1, 0x00, 0xed,
    0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf,
    0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f,
    0x50, 0x3c, 0x9f, 0xa8, 0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5,
    0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2, 0xcd, 0x0c, 0x13, 0xec,
    0x5f, 0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73,
    0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88, 0x46, 0xee, 0xb8, 0x14,
    0xde, 0x5e, 0x0b, 0xdb, 0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c,
    0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79, 0xe7, 0xc8, 0x37, 0x6d,
    0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08,
    0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f,
    0x4b, 0xbd, 0x8b, 0x8a, 0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e,
    0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e, 0xe1, 0xf8, 0x98, 0x11,
    0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf,
    0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f,
    0xb0, 0x54, 0xbb, 0x16,
};

static void add(struct sl_aes_block *to, const struct sl_aes_block *b)
{
    for (unsigned i = 0; i < 16; i++)
        to->byte[i] ^= b->byte[i];
}

/* Twice a byte, in the field of AES. */
static unsigned char twice(unsigned char byte)
{
    return (unsigned char)(byte << 1 ^ (byte & 0x80 ? 0x1b : 0));
}

/* One round: substitute, shift rows, mix columns, add the key. */
static void round_of(struct sl_aes_block *x, const struct sl_aes_block *key)
{
    struct sl_aes_block to;

    for (unsigned column = 0; column < 4; column++) {
        unsigned char in[4], all = 0;

        for (unsigned row = 0; row < 4; row++) {
            in[row] = substitute[x->byte[(4 * (column + row) + row) % 16]];
            all ^= in[row];
        }
        for (unsigned row = 0; row < 4; row++)
            to.byte[4 * column + row] =
                in[row] ^ all ^
                twice((unsigned char)(in[row] ^ in[(row + 1) % 4]));
    }
    add(&to, key);
    *x = to;
}

static struct sl_aes_block block_of(uint64_t lo, uint64_t hi)
{
    struct sl_aes_block block;

    lo = htole64(lo);
    hi = htole64(hi);
    memcpy(block.byte, &lo, sizeof(lo));
    memcpy(block.byte + 8, &hi, sizeof(hi));
    return block;
}

/* Adds a block of the key to `x`. */
static void mix_in(struct sl_aes_block *x, const struct sl_aes_block key[4],
                   struct sl_aes_block block)
{
    static const struct sl_aes_block none = {{0}};

    add(&block, &key[0]);
    round_of(&block, &key[1]);
    round_of(&block, &key[2]);
    round_of(&block, &key[3]);
    round_of(&block, &none);
    add(x, &block);
}

static struct sl_aes_block block_at(struct sl_str key, size_t from)
{
    struct sl_aes_block block;

    memcpy(block.byte, key.at + from, sizeof(block.byte));
    return block;
}

struct sl_hash128 sl_aes_hash_software(const struct sl_aes_secret *s,
                                       struct sl_str key)
{
    struct sl_aes_block x = block_of(key.len, 0);
    struct sl_hash128 hash;
    uint64_t lo, hi;

    SL_HOLDS(key.len <= SL_AES_MOST);
    add(&x, &s->close[0]);
    if (key.len < 16) {
        load_short(key, &lo, &hi);
        mix_in(&x, s->block[0], block_of(lo, hi));
    } else {
        mix_in(&x, s->block[0], block_at(key, 0));
    }
    if (key.len > 16)
        mix_in(&x, s->block[1], block_at(key, key.len - 16));
    if (key.len > 32)
        mix_in(&x, s->block[2], block_at(key, 16));
    if (key.len > 48)
        mix_in(&x, s->block[3], block_at(key, 32));
    for (unsigned i = 1; i <= 4; i++)
        round_of(&x, &s->close[i]);
    memcpy(&hash.lo, x.byte, sizeof(hash.lo));
    memcpy(&hash.hi, x.byte + 8, sizeof(hash.hi));
    return (struct sl_hash128){le64toh(hash.lo), le64toh(hash.hi)};
}

/* ---- either way ---- */

enum sl_fingerprints sl_fingerprints_best(void)
{
    return has_instructions() ? SL_BY_AES : SL_BY_SIPHASH;
}

/* Its keys are hashes of their numbers, which are shorter than the keys of
 * limits that SipHash gets. */
static struct sl_aes_block part_of_secret(const struct sl_hash_key *key,
                                          unsigned number)
{
    const char byte = (char)number;
    struct sl_hash128 h = sl_hash128(key, (struct sl_str){&byte, 1});

    return block_of(h.lo, h.hi);
}

void sl_hasher_init(struct sl_hasher *hasher, const struct sl_hash_key *key,
                    enum sl_fingerprints by)
{
    struct sl_aes_secret *aes = &hasher->aes;
    unsigned number = 0;

    *hasher = (struct sl_hasher){.key = *key, .method = SL_HASH_SIP};
    if (by == SL_BY_SIPHASH)
        return;
    hasher->method = has_instructions() ? SL_HASH_AES : SL_HASH_AES_SOFTWARE;
    for (unsigned i = 0; i < SL_AES_BLOCKS; i++)
        for (unsigned j = 0; j < SL_LEN(aes->block[i]); j++)
            aes->block[i][j] = part_of_secret(key, number++);
    for (unsigned i = 0; i < SL_LEN(aes->close); i++)
        aes->close[i] = part_of_secret(key, number++);
}

struct sl_hash128 sl_fingerprint_slow(const struct sl_hasher *hasher,
                                      struct sl_str bytes)
{
    if (hasher->method == SL_HASH_SIP || bytes.len > SL_AES_MOST)
        return sl_hash128(&hasher->key, bytes);
    return sl_aes_hash_software(&hasher->aes, bytes);
}
