/* swap.h -- two neighbouring words swapped at once.
 *
 * Compilers call a library for sixteen-byte atomics, which may use locks that
 * no other process sees and no dead one lets go of; so the instruction is
 * written out. x86-64 has it on all but the first processors of 2003, ARM in
 * 64 bits always, and where gcc says that it is there, gcc may do it.
 *
 * A word of a pair may also be read and swapped alone: to the machine it is
 * the same line.
 */
#ifndef SL_SWAP_H
#define SL_SWAP_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/base.h"
#include "core/cell.h"

typedef _Atomic uint64_t sl_word;

/* Swap the two words at `at`, aligned to sixteen bytes, for `to` if they are
 * `from`; false if they are not. All of it is in the one order of everything
 * that is sequentially consistent. */
static inline bool sl_swap_pair(sl_word *at, struct sl_cell from,
                                struct sl_cell to)
{
#if defined(__x86_64__)
    bool done;

    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(*(struct sl_cell *)(void *)at),
                       "+a"(from.w[0]), "+d"(from.w[1])
                     : "b"(to.w[0]), "c"(to.w[1])
                     : "memory");
    return done;
#elif defined(__aarch64__)
    uint64_t seen[2];
    uint32_t lost;

    do {
        __asm__ volatile("ldaxp %0, %1, %2"
                         : "=r"(seen[0]), "=r"(seen[1])
                         : "Q"(*(struct sl_cell *)(void *)at)
                         : "memory");
        if (seen[0] != from.w[0] || seen[1] != from.w[1])
            return false;
        __asm__ volatile("stlxp %w0, %2, %3, %1"
                         : "=&r"(lost), "=Q"(*(struct sl_cell *)(void *)at)
                         : "r"(to.w[0]), "r"(to.w[1])
                         : "memory");
    } while (lost);
    atomic_thread_fence(memory_order_seq_cst);
    return true;
#elif defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
    union {
        struct sl_cell cell;
        __extension__ unsigned __int128 bits;
    } old = {from}, new = {to};

    return __sync_bool_compare_and_swap(
        (__extension__ unsigned __int128 *)(void *)at, old.bits, new.bits);
#else
#error "the table needs a machine that swaps sixteen bytes at once"
#endif
}

#endif
