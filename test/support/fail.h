/* fail.h -- an allocator whose nth call fails, and that counts what is out.
 *
 * Each piece carries its size in front of it, so that a caller that gives
 * back another size than it took is caught too.
 */
#ifndef SL_TEST_FAIL_H
#define SL_TEST_FAIL_H

#include <stdlib.h>

#include "base/arena.h"
#include "check.h"

struct fail {
    unsigned nth;   /* this call fails; 0 = none */
    unsigned calls; /* so far, those that give back not counted */
    size_t pieces;  /* out now */
    size_t bytes;
    bool lied; /* an old size was wrong */
};

union fail_head {
    size_t size;
    _Alignas(16) char align[16];
};

static void *fail_resize(void *ctx, void *old, size_t old_size, size_t new_size)
{
    struct fail *f = ctx;
    union fail_head *head = old ? (union fail_head *)old - 1 : NULL;

    if ((head ? head->size : 0) != old_size)
        f->lied = true;
    if (new_size > 0 && ++f->calls == f->nth)
        return NULL;
    if (head)
        f->pieces--;
    f->bytes -= old_size;
    if (new_size == 0) {
        free(head);
        return NULL;
    }
    head = realloc(head, sizeof(*head) + new_size);
    if (!head)
        abort();
    head->size = new_size;
    f->pieces++;
    f->bytes += new_size;
    return head + 1;
}

static inline struct sl_alloc fail_alloc(struct fail *f)
{
    return (struct sl_alloc){.resize = fail_resize, .ctx = f};
}

/* Nothing is out, and all sizes were right. */
static inline void fail_check(const struct fail *f)
{
    CHECK_EQ(f->pieces, 0);
    CHECK_EQ(f->bytes, 0);
    CHECK(!f->lied);
}

#endif
