/* alloc.c -- nghttp2's allocator over ours.
 *
 * Our allocator needs the size of a piece when it is freed, so each piece has
 * its size in front. A request needs some thirty small pieces: up to KEPT bytes
 * of each size are kept for the next request. Larger pieces are not kept.
 */
#include <string.h>

#include "server/grpc/grpc_int.h"

#define SMALLEST                                                               \
    ((size_t)64) /* with its head; each next size is twice that                \
                  */

#ifdef __SANITIZE_ADDRESS__
#define KEPT ((size_t)0) /* to detect a use after free */
#else
#define KEPT ((size_t)32 << 10)
#endif

union sl_grpc_piece {
    struct {
        size_t size;               /* of all, the head included */
        union sl_grpc_piece *next; /* while it is kept */
    };
    _Alignas(16) char align[16];
};

/* Returns the index of a size; SL_GRPC_SIZES: too large. */
static unsigned class_of(size_t size)
{
    unsigned c = 0;

    while (c < SL_GRPC_SIZES && SMALLEST << c < size)
        c++;
    return c;
}

static void *take(size_t size, void *ctx)
{
    struct sl_grpc_pool *pool = ctx;
    union sl_grpc_piece *piece = NULL;
    unsigned c;

    if (size > SIZE_MAX - sizeof(*piece))
        return NULL;
    size += sizeof(*piece);
    c = class_of(size);
    if (c < SL_GRPC_SIZES) {
        size = SMALLEST << c;
        piece = pool->kept[c];
    }
    if (piece) {
        pool->kept[c] = piece->next;
        pool->count[c]--;
        return piece + 1;
    }
    piece = sl_alloc_new(pool->alloc, size);
    if (!piece)
        return NULL;
    piece->size = size;
    return piece + 1;
}

static void release(void *old, void *ctx)
{
    struct sl_grpc_pool *pool = ctx;
    union sl_grpc_piece *piece = old;
    unsigned c;

    if (!old)
        return;
    piece--;
    c = class_of(piece->size);
    if (c == SL_GRPC_SIZES || (pool->count[c] + 1) * piece->size > KEPT) {
        sl_alloc_free(pool->alloc, piece, piece->size);
        return;
    }
    piece->next = pool->kept[c];
    pool->kept[c] = piece;
    pool->count[c]++;
}

static void *take_zeros(size_t count, size_t size, void *ctx)
{
    void *piece;

    if (size > 0 && count > SIZE_MAX / 2 / size)
        return NULL;
    piece = take(count * size, ctx);
    if (piece)
        memset(piece, 0, count * size);
    return piece;
}

static void *resize(void *old, size_t size, void *ctx)
{
    size_t room = 0;
    void *piece;

    if (old)
        room = ((union sl_grpc_piece *)old - 1)->size -
               sizeof(union sl_grpc_piece);
    if (old && size <= room)
        return old;
    piece = take(size, ctx);
    if (piece && old) {
        memcpy(piece, old, room);
        release(old, ctx);
    }
    return piece;
}

nghttp2_mem sl_grpc_memory(struct sl_grpc_pool *pool)
{
    return (nghttp2_mem){
        .mem_user_data = pool,
        .malloc = take,
        .free = release,
        .calloc = take_zeros,
        .realloc = resize,
    };
}

void sl_grpc_pool_done(struct sl_grpc_pool *pool)
{
    for (unsigned c = 0; c < SL_GRPC_SIZES; c++) {
        union sl_grpc_piece *piece;

        while ((piece = pool->kept[c]) != NULL) {
            pool->kept[c] = piece->next;
            sl_alloc_free(pool->alloc, piece, piece->size);
        }
        pool->count[c] = 0;
    }
}
