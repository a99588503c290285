/* fingerprint.h -- keyed fingerprints of the keys of a table.
 *
 * The table stores fingerprints instead of keys. Without the secret, an
 * attacker can't choose keys that collide or share a bucket. A table hashes
 * either by SipHash or by rounds of AES, which need a fifth of the computing
 * where the processor has instructions for them. Which of the two is fixed
 * when the table is made: by AES if this machine has them (x86-64 only). The
 * fingerprints are the same on every machine, so a file can be moved; without
 * the instructions, AES takes 0.2 to 0.4 us, some twenty times as long as
 * SipHash.
 */
#ifndef SL_BASE_FINGERPRINT_H
#define SL_BASE_FINGERPRINT_H

#include "base/hash.h"

enum sl_fingerprints { SL_BY_SIPHASH, SL_BY_AES };

#define SL_AES_BLOCKS 4 /* longer keys are always hashed by SipHash */
#define SL_AES_MOST   ((size_t)16 * SL_AES_BLOCKS)

struct sl_aes_block {
    unsigned char byte[16];
};

/* All made from one secret; see fingerprint.c. */
struct sl_aes_secret {
    struct sl_aes_block block[SL_AES_BLOCKS][4];
    struct sl_aes_block close[5];
};

enum sl_hash_method { SL_HASH_SIP, SL_HASH_AES, SL_HASH_AES_SOFTWARE };

struct sl_hasher {
    struct sl_hash_key key;
    enum sl_hash_method method;
    struct sl_aes_secret aes; /* not SL_HASH_SIP */
};

/* What tables that are made on this machine should use. */
enum sl_fingerprints sl_fingerprints_best(void);

void sl_hasher_init(struct sl_hasher *hasher, const struct sl_hash_key *key,
                    enum sl_fingerprints by);

/* For the next one, and for tests: by instructions that this machine must have,
 * and by software. At most SL_AES_MOST bytes. */
struct sl_hash128 sl_aes_hash(const struct sl_aes_secret *s, struct sl_str key);
struct sl_hash128 sl_aes_hash_software(const struct sl_aes_secret *s,
                                       struct sl_str key);
struct sl_hash128 sl_fingerprint_slow(const struct sl_hasher *hasher,
                                      struct sl_str bytes);

static inline struct sl_hash128 sl_fingerprint(const struct sl_hasher *hasher,
                                               struct sl_str bytes)
{
    if (hasher->method == SL_HASH_AES && bytes.len <= SL_AES_MOST)
        return sl_aes_hash(&hasher->aes, bytes);
    return sl_fingerprint_slow(hasher, bytes);
}

#endif
