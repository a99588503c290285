/* spare.h -- memory of empty buffers, for the next one; this room only.
 *
 * Most connections are idle at any moment. A buffer that has become empty
 * leaves its memory here, and one that is about to be filled takes it from
 * here: no allocation per request, and no memory per idle connection.
 */
#ifndef SL_SPARE_H
#define SL_SPARE_H

#include "base/buf.h"

#define SL_SPARE_COUNT 64
#define SL_SPARE_MOST  ((size_t)64 << 10) /* what is larger is given back */

struct sl_spares {
    struct {
        char *bytes;
        size_t size;
        const struct sl_alloc *alloc;
    } pieces[SL_SPARE_COUNT];
    unsigned count;
};

/* Give `buf`, if it has no memory, some that it may have. */
void sl_spare_lend(struct sl_spares *spares, struct sl_buf *buf);

/* Take the memory of `buf`, which is empty. */
void sl_spare_keep(struct sl_spares *spares, struct sl_buf *buf);

void sl_spares_done(struct sl_spares *spares);

#endif
