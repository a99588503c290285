/* alloc.h -- where memory comes from.
 *
 * One function does it all, so that a caller can hand in his own and a test
 * can let the nth call fail:
 *
 *     resize(ctx, NULL, 0, n)     n fresh bytes, or NULL
 *     resize(ctx, p, old, n)      the same bytes, now n of them, or NULL (and
 *                                 then p is still valid)
 *     resize(ctx, p, old, 0)      gives p back; returns NULL; cannot fail
 *
 * What it hands out is aligned as malloc would, to 16 bytes.
 */
#ifndef SL_ALLOC_H
#define SL_ALLOC_H

#include "base/base.h"

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

#endif
