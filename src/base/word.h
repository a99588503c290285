/* word.h -- eight bytes at once.
 *
 * Bytes are looked at a word at a time: sums and differences that never leave
 * their byte set its top bit where it is of the kind that is sought. Such a
 * word of marks says where the first one is, whatever the order of bytes.
 */
#ifndef SL_WORD_H
#define SL_WORD_H

#include <string.h>

#include "base/base.h"

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

#endif
