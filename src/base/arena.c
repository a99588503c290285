/* arena.c -- memory that is freed together.
 *
 * An arena is a list of blocks, the newest first, and bytes are cut from the
 * newest only:
 *
 *     arena.blocks --> [header|used....|free] --> [header|used......|x] --> 0
 *                       newest                     oldest, kept by a reset
 *
 * The rest of an older block (x) is unused until the reset. Each new block is
 * twice as large as the one before, so n bytes cost log n calls to the
 * allocator. Sizes, the header's too, are multiples of 16, for alignment.
 */
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN ((size_t)16)

/* The first block. A usual request fits into it. */
#define FIRST_BLOCK ((size_t)4096)

struct sl_arena_block {
    struct sl_arena_block *next; /* older */
    size_t size;                 /* the header included */
    size_t used;                 /* the header included */
    size_t pad;
};

_Static_assert(sizeof(struct sl_arena_block) % ALIGN == 0,
               "the first bytes behind the header must be aligned");

void sl_arena_init(struct sl_arena *arena, size_t ceiling,
                   const struct sl_alloc *alloc)
{
    assert(ceiling > 0);
    *arena = (struct sl_arena){.ceiling = ceiling, .alloc = alloc};
}

/* Free all blocks that are newer than `keep`. */
static void drop_blocks(struct sl_arena *arena, struct sl_arena_block *keep)
{
    while (arena->blocks != keep) {
        struct sl_arena_block *block = arena->blocks;

        arena->blocks = block->next;
        arena->held -= block->size;
        sl_alloc_free(arena->alloc, block, block->size);
    }
}

void sl_arena_done(struct sl_arena *arena)
{
    drop_blocks(arena, NULL);
}

void sl_arena_reset(struct sl_arena *arena)
{
    struct sl_arena_block *oldest = arena->blocks;

    while (oldest && oldest->next)
        oldest = oldest->next;
    drop_blocks(arena, oldest);
    if (oldest)
        oldest->used = sizeof(*oldest);
}

/* The size of the next block for `need` bytes, header included; 0: beyond the
 * ceiling. */
static size_t next_size(const struct sl_arena *arena, size_t need)
{
    size_t room = arena->ceiling - arena->held;
    size_t size = FIRST_BLOCK;

    if (arena->blocks)
        size = arena->blocks->size <= room / 2 ? arena->blocks->size * 2 : room;
    if (size > room)
        size = room;
    if (size < need)
        size = need;
    return size <= room ? size : 0;
}

static struct sl_arena_block *add_block(struct sl_arena *arena, size_t need)
{
    size_t size = next_size(arena, need);
    struct sl_arena_block *block;

    if (size == 0)
        return NULL;
    block = sl_alloc_new(arena->alloc, size);
    if (!block)
        return NULL;
    *block = (struct sl_arena_block){
        .next = arena->blocks,
        .size = size,
        .used = sizeof(*block),
    };
    arena->blocks = block;
    arena->held += size;
    return block;
}

void *sl_arena_take(struct sl_arena *arena, size_t size)
{
    struct sl_arena_block *block = arena->blocks;
    char *bytes;

    /* Rounding up and the header can't overflow size_t. */
    if (size > SIZE_MAX - sizeof(*block) - ALIGN)
        return NULL;
    size = size == 0 ? ALIGN : (size + ALIGN - 1) & ~(ALIGN - 1);
    if (!block || block->size - block->used < size)
        block = add_block(arena, sizeof(*block) + size);
    if (!block)
        return NULL;
    bytes = (char *)block + block->used;
    block->used += size;
    return bytes;
}

char *sl_arena_copy(struct sl_arena *arena, struct sl_str bytes)
{
    char *copy;

    if (bytes.len == SIZE_MAX)
        return NULL;
    copy = sl_arena_take(arena, bytes.len + 1);
    if (!copy)
        return NULL;
    if (bytes.len > 0)
        memcpy(copy, bytes.at, bytes.len);
    copy[bytes.len] = '\0';
    return copy;
}

void sl_arena_check(const struct sl_arena *arena)
{
    size_t held = 0;

    for (const struct sl_arena_block *b = arena->blocks; b; b = b->next) {
        assert((uintptr_t)b % ALIGN == 0); /* (1) */
        assert(b->used % ALIGN == 0);      /* (1) */
        assert(b->used >= sizeof(*b));     /* (1) */
        assert(b->used <= b->size);        /* (1) */
        held += b->size;
    }
    assert(held == arena->held);           /* (2) */
    assert(arena->held <= arena->ceiling); /* (2) */
    (void)held;
}

/* ---- libc: realloc() with size 0 is not portable, so free() is used ---- */

static void *resize_libc(void *ctx, void *old, size_t old_size, size_t new_size)
{
    (void)ctx;
    (void)old_size;
    if (new_size > 0)
        return realloc(old, new_size);
    free(old);
    return NULL;
}

const struct sl_alloc sl_alloc_libc = {.resize = resize_libc};
