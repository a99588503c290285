/* region.h -- the memory of the table.
 *
 * One contiguous piece of fixed size: on the heap, in a mapped file, or given
 * by the caller and shared between processes. It holds offsets, no pointers, so
 * each process may map it elsewhere. Everything that changes is an 8-byte word,
 * changed by 8-byte atomics, or a cell of two words, swapped at once.
 *
 *   offset            what                                      size
 *   0                 head: layout, secret, counters            4 KiB
 *   limits_at         limits                                    128 B each
 *   actors_at         actors: changes under way                 4 KiB each
 *   holds_at          holds: next expiries, blocks of records   see below
 *   refunds_at        counters of refunds to buckets            8 B each
 *   buckets_at        buckets of five slots                     128 B each
 *
 * The first part of the head never changes and has a checksum. When the last
 * process closes a file, the whole region is `sealed` with a checksum; a sealed
 * file whose checksum differs is damaged. A file that was not sealed (its
 * process was killed) is checked for structure. A sealed file that has not been
 * written since, on a machine that has not been started since, is trusted: it
 * is opened at once, whatever its size.
 */
#ifndef SL_TABLE_REGION_H
#define SL_TABLE_REGION_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/base.h"
#include "base/diag.h"
#include "base/fingerprint.h"
#include "core/cell.h"

/* Two neighbouring words swapped at once. Compilers call a library for
 * sixteen-byte atomics, which may use locks that other processes do not see. So
 * the instruction is written out: x86-64 has it since 2004, 64-bit ARM always.
 * A word of a pair may also be read and swapped alone. */

typedef _Atomic uint64_t sl_word;

/* Swaps the two words at `at`, aligned to sixteen bytes, for `to` if they are
 * `from`. Sequentially consistent. */
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

/* The version of the format says how keys are hashed, see fingerprint.h;
 * otherwise the two are the same. */
#define SL_REGION_SIPHASH 5
#define SL_REGION_AES     6

#define SL_REGION_MIN (UINT64_C(1) << 20)
#define SL_REGION_MAX (UINT64_C(1) << 40)

#define SL_LIMITS 1024
#define SL_ACTORS 128 /* threads that work at the same time */
#define SL_SLOTS  5   /* per bucket */

#define SL_CLAIMED 2 /* the low two bits of a claim */

/* A bucket is two cache lines. Most takes touch only the first one, which has
 * the head, two slots and the tag of the third. Cells are aligned to their
 * size.
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

/* A limit in the region: enough to judge its cells without its policy. */
struct sl_limit_entry {
    sl_word used; /* 0: free; 1: readable; else a claim, see table.c */
    sl_word name_lo, name_hi;
    sl_word shape;
    sl_word kind;
    sl_word count;    /* of the strictest plan */
    sl_word capacity; /* of the strictest plan */
    sl_word period;
    sl_word calendar; /* 0, or 1 + unit with their number above bit 32 */
    sl_word grain;    /* see limit.h */
    sl_word token;
    sl_word reserve;  /* slots that other limits cannot take from it */
    sl_word occupied; /* slots in use */
    sl_word stale;    /* the numbers may be overwritten */
    sl_word kept;     /* slots that other limits leave free for it; at most
                       * `reserve` */
    sl_word unit;     /* see sl_unit_mark() */
};

/* Records of holds are in blocks. A block begins with two rows of 128 bytes:
 * two words of signs and the heads of seven records; their bodies follow. (No
 * head begins where the head of a bucket could: see release_lock() in
 * intent.c.) There are blocks of short records, for most holds, and of long
 * ones. Before the blocks is a pair of words for each, its next expiry. See
 * hold_record.h. */
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
    uint64_t refunds_at, refunds;
    uint64_t buckets_at, buckets;
    struct sl_hash_key key;
    uint64_t sum; /* of what is above */

    /* Changes. */
    _Alignas(64) sl_word latest; /* the latest instant of a decision, to within
                                  * SL_LATEST_GRAIN; see table.h */
    sl_word stepped;  /* sum of all steps back of the clock; changes together
                       * with `latest` */
    sl_word sealed;   /* 0, or the checksum of the whole region */
    sl_word has_dead; /* see intent.h: bit 0, below the number of raises */
    sl_word kept;     /* slots kept for all limits */
    sl_word over;     /* slots used beyond those */
    sl_word hand;     /* the next bucket to sweep */
    sl_word named;    /* number of names given, see actor.c */

    /* The next expiry; read by every decision, so on its own line. */
    _Alignas(64) sl_word due[2];

    /* How the file was left, see sl_region_close(): the boot of the machine,
     * and the time of its last change in seconds and ns. 0: not known. */
    _Alignas(64) sl_word left_boot;
    sl_word left_s;
    sl_word left_ns;
};

struct sl_region {
    char *base;
    uint64_t size;
    int fd;       /* of the file, or -1 */
    pid_t opener; /* a forked child does not release its locks */
    void *map;    /* to be unmapped, or NULL */
    uint64_t map_len;
    char set_aside[256]; /* the new name of a damaged file, or "" */
};

static inline struct sl_region_head *sl_region_head(const struct sl_region *r)
{
    return (struct sl_region_head *)r->base;
}

static inline enum sl_fingerprints
sl_region_fingerprints(const struct sl_region *r)
{
    return sl_region_head(r)->version == SL_REGION_AES ? SL_BY_AES
                                                       : SL_BY_SIPHASH;
}

static inline uint64_t sl_peek(const sl_word *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline uint64_t sl_get(const sl_word *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
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

/* The number of slots in a region of `size` bytes. */
uint64_t sl_region_slots(uint64_t size);

/* For a file that cannot be used. */
enum sl_damage { SL_DAMAGE_SET_ASIDE, SL_DAMAGE_REFUSE };

/* A region on the heap (anonymous memory, huge pages advised). */
SL_MUST_USE int sl_region_open_heap(struct sl_region *ret, uint64_t size,
                                    struct sl_diag *diag);

/* A region in the file at `path`, created if absent. A damaged file, or one of
 * another version or size, is renamed to PATH.damaged-N and an empty one is
 * created; ret->set_aside is its new name and `diag` the reason. It is refused
 * instead if `damage` says so, or if another process uses it. The mode is 0600:
 * it holds the secret of the fingerprints. */
SL_MUST_USE int sl_region_open_file(struct sl_region *ret, const char *path,
                                    uint64_t size, enum sl_damage damage,
                                    struct sl_diag *diag);

/* The size of the state file at `path`, which sl_region_open_file() needs; 0:
 * there is none, or its head is damaged or of another version. */
uint64_t sl_region_file_size(const char *path);

/* Replaces the file at `path` by one of `size` bytes with the same contents.
 * Everything but the buckets is copied; each bucket is copied to the buckets
 * that share its hashes in the larger file, of which there must be a whole
 * number: see region.c. *ret is the number of bytes of the file now: `size`, or
 * the old size if `size` has no room for twice the buckets, or if another
 * process uses the file. A file that cannot be used is left to
 * sl_region_open_file(). The file changes at once, by a rename, and keeps its
 * owner and mode; a link to it stays. */
SL_MUST_USE int sl_region_grow(const char *path, uint64_t size, uint64_t *ret,
                               struct sl_diag *diag);

/* A region in memory of the caller, 64-byte aligned. Memory that begins with
 * zeros is initialised, by one process only; otherwise it must be a region of
 * this size.
 */
SL_MUST_USE int sl_region_open_memory(struct sl_region *ret, void *memory,
                                      uint64_t size, struct sl_diag *diag);

/* Validates limits, actors, holds and slots, completes or undoes what was left,
 * and recounts. Afterwards nothing in the region can lead outside it, divide by
 * zero or wait for a lock without an owner. Only while no other process uses
 * the region. */
SL_MUST_USE int sl_region_check(const struct sl_region *r,
                                struct sl_diag *diag);

/* Closes. If no other process has the file open, it is checked
 * (sl_region_check) and, unless it is damaged, sealed. Its time of change is
 * then set to one with a random fraction of a second, which is also in the
 * head: any later write changes the time. */
void sl_region_close(struct sl_region *r);

/* May this file be used? `alone`: no other process uses it, so that all of it
 * is checked (sl_region_check) and the seal is removed. */
SL_MUST_USE int sl_region_validate(struct sl_region *r, bool alone,
                                   struct sl_diag *diag);

#endif
