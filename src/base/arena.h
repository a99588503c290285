/* arena.h -- memory that dies together.
 *
 * A request allocates from its connection's arena and never frees; the arena
 * is reset when the request is over and keeps its first block, so that the
 * usual request costs no call to the allocator. Like a buffer, an arena cannot
 * exist without a ceiling.
 *
 * Invariants (sl_arena_check asserts them):
 *   (1) Everything handed out is aligned to 16 bytes and inside one block.
 *   (2) The sizes of the blocks, headers included, add up to `held`, and
 *       held <= ceiling.
 *   (3) After a reset at most one block is left.
 */
#ifndef SL_ARENA_H
#define SL_ARENA_H

#include "base/alloc.h"
#include "base/str.h"

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

/* Give everything back. The arena may be used again afterwards. */
void sl_arena_done(struct sl_arena *arena);

/* Forget everything handed out; keep the oldest block. */
void sl_arena_reset(struct sl_arena *arena);

/* `size` bytes (not zeroed), or NULL beyond the ceiling or without memory.
 * A size of 0 gives a pointer that must not be followed. */
SL_MUST_USE void *sl_arena_take(struct sl_arena *arena, size_t size);

/* A copy of the slice with a NUL behind it, or NULL. */
SL_MUST_USE char *sl_arena_copy(struct sl_arena *arena, struct sl_str bytes);

/* Assert the invariants. */
void sl_arena_check(const struct sl_arena *arena);

#endif
