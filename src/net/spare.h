/* spare.h -- memory of empty buffers, for the next one; this room only.
 *
 * Most connections are idle at any moment. A buffer that has become empty
 * leaves its memory here, and one that is about to be filled takes it from
 * here: no allocation per request, and no memory per idle connection.
 */
#ifndef SL_SPARE_H
#define SL_SPARE_H

#include "base/buf.h"

#define SL_BUF_POOL_COUNT 64
#define SL_BUF_POOL_MOST  ((size_t)64 << 10) /* what is larger is given back */

struct sl_buf_pool {
    struct {
        char *bytes;
        size_t size;
        const struct sl_alloc *alloc;
    } pieces[SL_BUF_POOL_COUNT];
    unsigned count;
};

/* Give `buf`, if it has no memory, some that it may have. */
void sl_buf_pool_get(struct sl_buf_pool *spares, struct sl_buf *buf);

/* Take the memory of `buf`, which is empty. */
void sl_buf_pool_put(struct sl_buf_pool *spares, struct sl_buf *buf);

void sl_buf_pool_done(struct sl_buf_pool *spares);

#endif
