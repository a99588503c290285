/* cell.h -- the rules for cells (src/core/cell.h), checked by number after
 * every step of every property test.
 *
 *   (1) zeros say that nothing is owed;
 *   (2) the top bit of w[0] and the top byte of w[1] stay clear;
 *   (3) what was not allowed, and a look, leave the cell as it was, unless its
 *       time lay in the future; an allowed take always shows in the cell;
 *   (4) a limit reads only cells of its own shape: checked where a test
 *       changes a limit.
 */
#ifndef SL_PROP_CELL_H
#define SL_PROP_CELL_H

#include "core/algorithm.h"

/* What a step had to do to the cell. */
enum cell_duty { CELL_SAME, CELL_DIFFERS, CELL_EITHER };

/* NULL, or which rule was broken. `owed`: something is owed afterwards. */
static inline const char *cell_broken(struct sl_cell old, struct sl_cell next,
                                      enum cell_duty duty, bool owed)
{
    struct sl_cell zeros = {
        {0, 0}
    };

    if (owed && sl_cell_eq(next, zeros))
        return "cell (1): zeros, though something is owed";
    if (next.w[0] >> SL_CELL_W0_BITS || next.w[1] >> SL_CELL_W1_BITS)
        return "cell (2): a bit of the store's is set";
    if (duty == CELL_SAME && !sl_cell_eq(old, next))
        return "cell (3): changed, though nothing was taken or mended";
    if (duty == CELL_DIFFERS && sl_cell_eq(old, next))
        return "cell (3): not written, though it had to be";
    return NULL;
}

static inline const char *shape_broken(const struct sl_limit *a,
                                       const struct sl_limit *b)
{
    return sl_limit_shape(a) == sl_limit_shape(b)
               ? NULL
               : "cell (4): a changed count or burst changed the shape";
}

#endif
