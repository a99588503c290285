/* alloc.c -- memory from libc.
 *
 * realloc() with a size of 0 means different things on different systems, so
 * it is never asked: giving back is free(). The old size is of no use to
 * libc; it is in the contract for allocators that keep no sizes themselves.
 */
#include "base/alloc.h"

#include <stdlib.h>

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
