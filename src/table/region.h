/* region.h -- the bytes that the table lives in.
 *
 * One contiguous piece of memory of a fixed size: on the heap, in a file that
 * is mapped, or handed in by the caller and shared between processes. It holds
 * no pointers, only offsets, so that each process may map it elsewhere. All
 * that changes in it are 8-byte words, changed by 8-byte atomics, and cells of
 * two words, swapped at once (swap.h).
 *
 *   offset            what                                      size
 *   0                 head: what this is, the secret, counters  4 KiB
 *   limits_at         limits: who owns which cells              128 B each
 *   actors_at         actors: who is changing what              4 KiB each
 *   holds_at          holds: due words, blocks of records       see below
 *   returns_at        what was given back to buckets            8 B each
 *   buckets_at        buckets of five slots                     128 B each
 *
 * The first part of the head never changes after the region is made and
 * carries a sum of itself. When the last user closes a file, the whole region
 * is summed up as well and `sealed`; a file that was sealed and no longer fits
 * its sum is damaged. A file that was not sealed (its user was killed) is
 * checked for structure: what it says must be possible.
 */
#ifndef SL_TABLE_REGION_H
#define SL_TABLE_REGION_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/diag.h"
#include "base/hash.h"
#include "core/cell.h"

/* ---- two neighbouring words swapped at once.
 *
 * Compilers call a library for sixteen-byte atomics, which may use locks that
 * no other process sees and no dead one lets go of; so the instruction is
 * written out. x86-64 has it on all but the first processors of 2003, ARM in
 * 64 bits always, and where gcc says that it is there, gcc may do it.
 *
 * A word of a pair may also be read and swapped alone: to the machine it is
 * the same line.
 */

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

#define SL_REGION_VERSION 5
#define SL_REGION_MIN     (UINT64_C(1) << 20)
#define SL_REGION_MAX     (UINT64_C(1) << 40)

#define SL_LIMITS 1024 /* limits that a region can know */
#define SL_ACTORS 128  /* threads that can change it at the same time */
#define SL_SLOTS  5    /* per bucket */

#define SL_CLAIMED 2 /* the low two bits of a claim */

/* A bucket is two cache lines. The head, two slots and the tag of the third are
 * in the first, so that most takes touch one line only. Cells are aligned to
 * their size, or they could not be swapped at once. Where what is, is said
 * here and nowhere else:
 *
 *   head tag0 [cell 0 ] [cell 1 ] tag1 tag2
 *   [cell 2 ] [cell 3 ] [cell 4 ] tag3 tag4
 */
struct sl_bucket {
    _Alignas(16) sl_word word[16];
};

static inline unsigned sl_tag_word(unsigned slot)
{
    static const unsigned char word[SL_SLOTS] = {1, 6, 7, 14, 15};

    return word[slot];
}

/* The first of the two. */
static inline unsigned sl_cell_word(unsigned slot)
{
    static const unsigned char word[SL_SLOTS] = {2, 4, 8, 10, 12};

    return word[slot];
}

/* What the region knows of a limit: enough to judge a cell that belongs to it
 * without having its policy. */
struct sl_limit_entry {
    sl_word used; /* 1 once the rest can be read; or a claim, see known.c */
    sl_word name_lo, name_hi;
    sl_word shape;
    sl_word kind;
    sl_word count;    /* of the strictest plan */
    sl_word capacity; /* of the strictest plan */
    sl_word period;
    sl_word calendar; /* 0, or 1 + unit, with the number of them above 32 */
    sl_word grain;    /* see limit.h */
    sl_word token;
    sl_word reserve;  /* slots kept for it */
    sl_word occupied; /* slots that carry it */
    sl_word stale;    /* numbers of an earlier time: may be written over */
    sl_word spare[2];
};

/* Records of holds come in blocks. A block begins with two rows of 128 bytes:
 * two words of signs (hold/soonest.h) and the heads of seven records; their
 * bodies follow. (No head begins where the head of a bucket could: see
 * release_guard() in intent.c.) In most holds few limits take part: there are
 * blocks of short records and of long ones. What is in them is in
 * hold/record.h. Before the blocks lies a pair of words for each, which tells
 * when the next of its holds expires; see hold/due.h. */
#define SL_HOLD_BLOCK 14 /* records */
#define SL_HOLD_FEW   4  /* parts of a short record */
#define SL_HOLD_MANY  16 /* of a long one */

struct sl_hold_record_part {
    sl_word word[10];
};

struct sl_hold_record_body {
    sl_word word[8];
    struct sl_hold_record_part part[]; /* SL_HOLD_FEW or SL_HOLD_MANY */
};

struct sl_region_head {
    /* Fixed when the region is made. */
    uint64_t magic;
    uint64_t version;
    uint64_t size;
    uint64_t limits_at, limits;
    uint64_t actors_at, actors;
    uint64_t holds_at;
    uint64_t short_at, shorts; /* blocks of short records */
    uint64_t long_at, longs;   /* and of long ones */
    uint64_t returns_at, returns;
    uint64_t buckets_at, buckets;
    struct sl_hash_key key;
    uint64_t sum; /* of what is above */

    /* Changes. */
    _Alignas(64) sl_word latest; /* the latest instant that anybody decided at,
                                  * to within SL_LATEST_GRAIN; see table.h */
    sl_word stepped;  /* how far the clock has stepped back, in sum; changes
                       * together with `latest` */
    sl_word sealed;   /* 0, or the sum of the whole region; see seal() */
    sl_word haunted;  /* see intent.h: how often it was raised, and below
                       * that 1 while it is up */
    sl_word reserved; /* slots reserved by all limits together */
    sl_word over;     /* slots used beyond what limits have reserved */
    sl_word hand;     /* where the sweep goes on */
    sl_word named;    /* processes that were given a name, see actor.c */

    /* When the next hold expires; read by every decision, so it has a line of
     * its own. See hold/due.h. */
    _Alignas(64) sl_word due[2];
};

/* Handed to the table by whoever opened the region. */
struct sl_region {
    char *base;
    uint64_t size;
    int fd;       /* of the file, or -1 */
    pid_t opener; /* a forked child lets go of what is its own only */
    void *map;    /* to be unmapped, or NULL */
    uint64_t map_len;
    char set_aside[256]; /* the new name of a damaged file, or "" */
};

static inline struct sl_region_head *sl_region_head(const struct sl_region *r)
{
    return (struct sl_region_head *)r->base;
}

static inline sl_word *sl_region_word(const struct sl_region *r, uint64_t at)
{
    return (sl_word *)(r->base + at);
}

static inline struct sl_bucket *sl_region_bucket(const struct sl_region *r,
                                                 uint64_t number)
{
    const struct sl_region_head *head = sl_region_head(r);

    return (struct sl_bucket *)(r->base + head->buckets_at) + number;
}

static inline struct sl_limit_entry *sl_region_limit(const struct sl_region *r,
                                                     uint64_t id)
{
    const struct sl_region_head *head = sl_region_head(r);

    return (struct sl_limit_entry *)(r->base + head->limits_at) + id;
}

/* What to do with a file that cannot be used. */
enum sl_damage { SL_DAMAGE_SET_ASIDE, SL_DAMAGE_REFUSE };

/* A region on the heap (anonymous memory, huge pages advised). */
SL_MUST_USE int sl_region_open_heap(struct sl_region *ret, uint64_t size,
                                    struct sl_diag *diag);

/* A region in the file at `path`, made if absent. A file of another version or
 * size, or with damage, is renamed to PATH.damaged-N and an empty one is made;
 * ret->set_aside has its new name and `diag` the reason. Or it is refused, if
 * `damage` says so, or if others use it. The file is readable by its owner
 * only: it holds the secret of the fingerprints. */
SL_MUST_USE int sl_region_open_file(struct sl_region *ret, const char *path,
                                    uint64_t size, enum sl_damage damage,
                                    struct sl_diag *diag);

/* A region in memory that the caller owns, 64-byte aligned. If it begins with
 * zeros it is made, otherwise it must be a region of this size. The caller
 * sees to it that only one process makes it. */
SL_MUST_USE int sl_region_open_memory(struct sl_region *ret, void *memory,
                                      uint64_t size, struct sl_diag *diag);

/* Check a region's bytes before use. 0, or why not. */
SL_MUST_USE int sl_region_check(const struct sl_region *r,
                                struct sl_diag *diag);

/* Let go. A file is sealed if nobody else has it open. */
void sl_region_close(struct sl_region *r);

/* ---- is what a region says possible?
 *
 * Whoever opens a file alone looks at all of it before he uses it: limits,
 * what was left half done, every slot. Afterwards nothing in it can lead
 * outside the region, divide by zero or wait for a lock that nobody holds.
 */

/* The part of the head that never changes. */
SL_MUST_USE int sl_region_check_head(const struct sl_region *r,
                                     struct sl_diag *diag);

/* May what is in a file be used? Only who has it alone can look at all of it:
 * others would change it under his eyes. What was half done is brought to its
 * end, and the seal is broken. */
SL_MUST_USE int sl_region_validate(struct sl_region *r, bool alone,
                                   struct sl_diag *diag);

#endif
