/* arena.h -- memory that is freed together; the allocator interface.
 *
 * A request allocates from its connection's arena and never frees. The arena is
 * reset after the request and keeps its first block, so that the usual request
 * costs no call to the allocator. Every arena has a ceiling.
 *
 * Invariants (sl_arena_check asserts them):
 *   (1) Every allocation is aligned to 16 bytes and inside one block.
 *   (2) The sizes of the blocks, headers included, add up to `held`, and
 *       held <= ceiling.
 *   (3) After a reset at most one block is left.
 */
#ifndef SL_BASE_ARENA_H
#define SL_BASE_ARENA_H

#include "base/base.h"
#include "base/str.h"

/* ---- allocators: one function, so that a test can make the nth call fail ----
 *
 *     resize(ctx, NULL, 0, n)     n new bytes, or NULL
 *     resize(ctx, p, old, n)      the same bytes, now n, or NULL (p stays
 * valid) resize(ctx, p, old, 0)      frees p; returns NULL; cannot fail
 *
 * Allocations are aligned to 16 bytes.
 */

struct sl_alloc {
    void *(*resize)(void *ctx, void *old, size_t old_size, size_t new_size);
    void *ctx;
};

/* malloc and friends. */
extern const struct sl_alloc sl_alloc_libc;

/* size > 0. */
static inline void *sl_alloc_new(const struct sl_alloc *a, size_t size)
{
    return a->resize(a->ctx, NULL, 0, size);
}

/* NULL is allowed. */
static inline void sl_alloc_free(const struct sl_alloc *a, void *p, size_t size)
{
    if (p)
        a->resize(a->ctx, p, size, 0);
}

struct sl_arena_block;

struct sl_arena {
    struct sl_arena_block *blocks; /* the newest first */
    size_t held;                   /* bytes in blocks */
    size_t ceiling;
    const struct sl_alloc *alloc;
};

/* `alloc` is borrowed for the arena's life. ceiling > 0. */
void sl_arena_init(struct sl_arena *arena, size_t ceiling,
                   const struct sl_alloc *alloc);

/* Free everything. The arena may be used again afterwards. */
void sl_arena_done(struct sl_arena *arena);

/* Free all allocations; keep the oldest block. */
void sl_arena_reset(struct sl_arena *arena);

/* `size` bytes (not zeroed), or NULL beyond the ceiling or without memory.
 * A size of 0 gives a pointer that must not be followed. */
SL_MUST_USE void *sl_arena_take(struct sl_arena *arena, size_t size);

/* A copy of the slice with a NUL behind it, or NULL. */
SL_MUST_USE char *sl_arena_copy(struct sl_arena *arena, struct sl_str bytes);

/* Assert the invariants. */
void sl_arena_check(const struct sl_arena *arena);

#endif
