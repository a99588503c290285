/* memory.c -- nghttp2's memory is ours.
 *
 * Our allocator is told how large a piece was when it is given back; nghttp2
 * does not know, so each piece carries its size in front of it.
 */
#include <string.h>

#include "doors/grpc/inner.h"

union head {
    size_t size; /* of all, the head included */
    _Alignas(16) char align[16];
};

static void *resize(void *old, size_t size, void *ctx)
{
    const struct sl_alloc *alloc = ctx;
    union head *head = old ? (union head *)old - 1 : NULL;

    if (size > SIZE_MAX - sizeof(*head))
        return NULL;
    size += sizeof(*head);
    head = alloc->resize(alloc->ctx, head, head ? head->size : 0, size);
    if (!head)
        return NULL;
    head->size = size;
    return head + 1;
}

static void *take(size_t size, void *ctx)
{
    return resize(NULL, size, ctx);
}

static void give_back(void *old, void *ctx)
{
    union head *head = old ? (union head *)old - 1 : NULL;

    sl_alloc_free(ctx, head, head ? head->size : 0);
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

nghttp2_mem sl_grpc_memory(const struct sl_alloc *alloc)
{
    return (nghttp2_mem){
        .mem_user_data = (void *)alloc,
        .malloc = take,
        .free = give_back,
        .calloc = take_zeros,
        .realloc = resize,
    };
}
