/* fingerprint.c -- keys of limits do not meet, even if they were chosen to.
 *
 *   (1) two keys of one set have different fingerprints, as far as the table
 *       compares them, and lie in the buckets as random ones do. The sets are
 *       what a client can choose: numbers; texts of one byte repeated; a byte
 *       changed in each of two blocks, by the same difference or by those that
 *       cancel each other in hashes of one round of AES for each block
 *   (2) a bit that changes in a key changes each bit of the fingerprint with a
 *       probability of a half
 *   (3) instructions and software agree
 *
 * (1) and (2) hold for AES and SipHash.
 */
#include "base/fingerprint.h"

#include <stdlib.h>

#include "prop.h"

#define KEYS    4080 /* of a set */
#define GROUPS  64   /* of buckets */
#define TRIALS  128
#define SEVEN   40 /* standard deviations of TRIALS throws of a coin */
#define LENGTHS (SL_AES_MOST + 1)

/* A hasher of a random secret, as on a machine with or without instructions. */
static void make(struct rng *rng, struct sl_hasher *ret)
{
    struct sl_hash_key key = {rng_next(rng), rng_next(rng)};

    sl_hasher_init(ret, &key, rng_below(rng, 4) ? SL_BY_AES : SL_BY_SIPHASH);
    if (ret->method == SL_HASH_AES && rng_once_in(rng, 2))
        ret->method = SL_HASH_AES_SOFTWARE;
}

static void make_text(struct rng *rng, unsigned char *text, size_t len)
{
    bool plain = rng_once_in(rng, 2);

    for (size_t i = 0; i < len; i++)
        text[i] = plain ? 'a' : (unsigned char)rng_next(rng);
}

/* ---- sets of keys ---- */

struct set {
    unsigned char base[SL_AES_MOST];
    size_t len;
    size_t at, other; /* of the first bytes of two blocks */
    unsigned factor;
};

/* Key number n of a set; *len is the length of the base. */
typedef void make_f(const struct set *set, unsigned n, unsigned char *key,
                    size_t *len);

static void numbered(const struct set *set, unsigned n, unsigned char *key,
                     size_t *len)
{
    char digits[8];

    (void)set;
    if (*len < 4)
        *len = 4;
    snprintf(digits, sizeof(digits), "%04u", n);
    memcpy(key + *len - 4, digits, 4);
}

/* 16 places, 255 differences. */
static void same_byte(const struct set *set, unsigned n, unsigned char *key,
                      size_t *len)
{
    unsigned char difference = (unsigned char)(1 + n % 255);

    *len = set->len;
    key[set->at + n / 255] ^= difference;
    key[set->other + n / 255] ^= difference;
}

static unsigned char times(unsigned factor, unsigned char byte)
{
    unsigned twice = byte << 1 ^ (byte & 0x80 ? 0x11b : 0);

    return (unsigned char)((factor & 2 ? twice : 0) ^ (factor & 1 ? byte : 0));
}

/* A byte of one block, and the column of the other that it becomes by a round:
 * 16 places, 255 differences behind the S-box. */
static void same_column(const struct set *set, unsigned n, unsigned char *key,
                        size_t *len)
{
    static const unsigned factors[4] = {2, 1, 1, 3};
    unsigned place = n / 255, row = place % 4;
    unsigned column = (place / 4 + 4 - row) % 4;
    unsigned char difference = (unsigned char)(1 + n % 255);

    *len = set->len;
    key[set->at + place] ^= (unsigned char)set->factor;
    for (unsigned i = 0; i < 4; i++)
        key[set->other + 4 * column + i] ^=
            times(factors[(4 + i - row) % 4], difference);
}

/* Texts of one byte repeated, of all lengths. */
static void repeated(const struct set *set, unsigned n, unsigned char *key,
                     size_t *len)
{
    (void)set;
    *len = 1 + n % SL_AES_MOST;
    memset(key, (int)(n / SL_AES_MOST), *len);
}

struct seen {
    uint64_t tag, group;
};

static int by_seen(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;

    if (x->tag != y->tag)
        return x->tag < y->tag ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

/* The parts of a fingerprint that the table uses. */
static struct seen seen_of(struct sl_hash128 h)
{
    return (struct seen){h.hi & ((UINT64_C(1) << 52) - 1), h.lo >> 44};
}

static unsigned meetings(struct seen *seen)
{
    unsigned count = 0;

    qsort(seen, KEYS, sizeof(*seen), by_seen);
    for (unsigned i = 1; i < KEYS; i++)
        count += by_seen(&seen[i - 1], &seen[i]) == 0;
    return count;
}

/* Has each group of buckets its share, to within eight standard deviations? */
static bool lies_well(const struct seen *seen)
{
    unsigned in[GROUPS] = {0};

    for (unsigned i = 0; i < KEYS; i++)
        in[seen[i].group >> 14]++;
    for (unsigned i = 0; i < GROUPS; i++)
        if (in[i] > KEYS / GROUPS + 64 || in[i] + 56 < KEYS / GROUPS)
            return false;
    return true;
}

/* Two blocks, of three or four if the key has so many. */
static void choose_blocks(struct rng *rng, struct set *set)
{
    set->len = rng_between(rng, 32, SL_AES_MOST);
    set->at = rng_below(rng, set->len / 16 - 1) * 16;
    set->other = rng_once_in(rng, 2) ? set->at + 16 : set->len - 16;
    if (set->other < set->at + 16)
        set->other = set->at + 16;
    if (rng_once_in(rng, 2)) {
        size_t at = set->at;

        set->at = set->other;
        set->other = at;
    }
    set->factor = (unsigned)rng_between(rng, 1, 255);
}

static bool apart(uint64_t seed, uint64_t *steps)
{
    static make_f *const makers[] = {numbered, same_byte, same_column,
                                     repeated};
    struct rng rng = {seed};
    unsigned which = (unsigned)rng_below(&rng, SL_LEN(makers)), met;
    struct seen seen[KEYS];
    struct sl_hasher hasher;
    struct set set;

    make(&rng, &hasher);
    choose_blocks(&rng, &set);
    make_text(&rng, set.base, sizeof(set.base));
    for (unsigned n = 0; n < KEYS; n++) {
        unsigned char key[SL_AES_MOST];
        size_t len = set.len;

        memcpy(key, set.base, sizeof(key));
        makers[which](&set, n, key, &len);
        seen[n] = seen_of(
            sl_fingerprint(&hasher, (struct sl_str){(const char *)key, len}));
    }
    *steps += KEYS;
    met = meetings(seen);
    if (met || !lies_well(seen))
        printf("# set %u, method %d, length %zu: %u meet\n", which,
               (int)hasher.method, set.len, met);
    return met == 0 && lies_well(seen);
}

/* ---- bits ---- */

static void count_bits(struct sl_hash128 a, struct sl_hash128 b,
                       unsigned changed[128])
{
    for (unsigned i = 0; i < 64; i++) {
        changed[i] += (a.lo ^ b.lo) >> i & 1;
        changed[64 + i] += (a.hi ^ b.hi) >> i & 1;
    }
}

static bool avalanche(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    size_t len = rng_between(&rng, 1, SL_AES_MOST);
    unsigned changed[128] = {0};
    struct sl_hasher hasher;
    bool good = true;

    make(&rng, &hasher);
    for (unsigned i = 0; i < TRIALS; i++) {
        unsigned char text[SL_AES_MOST];
        struct sl_str key = {(const char *)text, len};
        struct sl_hash128 before;

        for (size_t at = 0; at < len; at++)
            text[at] = (unsigned char)rng_next(&rng);
        before = sl_fingerprint(&hasher, key);
        text[rng_below(&rng, len)] ^= (unsigned char)(1 << rng_below(&rng, 8));
        count_bits(before, sl_fingerprint(&hasher, key), changed);
    }
    for (unsigned i = 0; i < 128; i++)
        good &= changed[i] + SEVEN >= TRIALS / 2 &&
                changed[i] <= TRIALS / 2 + SEVEN;
    *steps += TRIALS;
    return good;
}

/* ---- instructions and software ---- */

static bool alike(uint64_t seed, uint64_t *steps)
{
    struct rng rng = {seed};
    struct sl_hash_key secret = {rng_next(&rng), rng_next(&rng)};
    unsigned char text[LENGTHS + 16];
    struct sl_hasher hasher;

    sl_hasher_init(&hasher, &secret, SL_BY_AES);
    if (hasher.method != SL_HASH_AES) { /* no instructions */
        *steps += LENGTHS;
        return true;
    }
    make_text(&rng, text, sizeof(text));
    for (size_t len = 0; len < LENGTHS; len++) {
        struct sl_str key = {(const char *)text + rng_below(&rng, 16), len};

        if (!sl_hash128_eq(sl_aes_hash(&hasher.aes, key),
                           sl_aes_hash_software(&hasher.aes, key)))
            return false;
    }
    *steps += LENGTHS;
    return true;
}

const struct property prop_fingerprint = {
    .name = "fingerprint",
    .steps = 4000000,
    .cases = {{"chosen keys are kept apart", apart},
              {"each bit of a key changes half the fingerprint", avalanche, 4},
              {"instructions and software agree", alike, 40}},
};
