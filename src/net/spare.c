/* spare.c -- memory of empty buffers, last in, first out: it is still in the
 * cache.
 */
#include "net/spare.h"

#include <assert.h>

void sl_buf_pool_get(struct sl_buf_pool *spares, struct sl_buf *buf)
{
    unsigned last = spares->count - 1;

    if (buf->bytes || spares->count == 0 ||
        spares->pieces[last].size > buf->ceiling ||
        spares->pieces[last].alloc != buf->alloc)
        return;
    buf->bytes = spares->pieces[last].bytes;
    buf->size = spares->pieces[last].size;
    spares->count = last;
}

void sl_buf_pool_put(struct sl_buf_pool *spares, struct sl_buf *buf)
{
    assert(buf->len == 0);
    if (!buf->bytes)
        return;
    if (spares->count == SL_BUF_POOL_COUNT || buf->size > SL_BUF_POOL_MOST) {
        sl_buf_done(buf);
        return;
    }
    spares->pieces[spares->count].bytes = buf->bytes;
    spares->pieces[spares->count].size = buf->size;
    spares->pieces[spares->count].alloc = buf->alloc;
    spares->count++;
    buf->bytes = NULL;
    buf->size = 0;
}

void sl_buf_pool_done(struct sl_buf_pool *spares)
{
    while (spares->count > 0) {
        unsigned last = --spares->count;

        sl_alloc_free(spares->pieces[last].alloc, spares->pieces[last].bytes,
                      spares->pieces[last].size);
    }
}
