/* held.h -- memory of which a target knows how much is out. What is given back
 * must have the size in which it was taken.
 */
#ifndef SL_FUZZ_HELD_H
#define SL_FUZZ_HELD_H

#include "base/arena.h"
#include "fuzz.h"

static size_t held;

static void *held_resize(void *ctx, void *old, size_t old_size, size_t new_size)
{
    (void)ctx;
    MUST(held >= old_size);
    held = held - old_size + new_size;
    if (new_size == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, new_size);
}

static const struct sl_alloc alloc = {.resize = held_resize};

#endif
