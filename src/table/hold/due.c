/* due.c -- when the next hold expires. The essay is in due.h. */
#include "table/hold/due.h"

static struct sl_cell read_pair(const sl_word *due)
{
    return sl_cell_of(atomic_load(&due[0]), atomic_load(&due[1]));
}

sl_word *sl_hold_expiry_of(const struct sl_region *r, uint64_t block)
{
    return sl_region_word(r, sl_region_head(r)->holds_at + block * 16);
}

sl_word *sl_hold_expiry_of_all(const struct sl_region *r)
{
    return sl_region_head(r)->due;
}

static void lower(sl_word *due, uint64_t expires)
{
    struct sl_cell old;

    do {
        old = read_pair(due);
        if (old.w[0] != 0 && old.w[0] <= expires)
            return;
        SL_STEP(SL_STEP_DUE);
    } while (!sl_swap_pair(due, old,
                           sl_cell_of(old.w[0] ? expires : 0, old.w[1] + 1)));
}

/* The block first: whoever finds the region due looks at the blocks. */
void sl_hold_expiry_lower(const struct sl_region *r, uint64_t block,
                          sl_ns expires)
{
    lower(sl_hold_expiry_of(r, block), (uint64_t)expires);
    lower(sl_hold_expiry_of_all(r), (uint64_t)expires);
}

uint64_t sl_hold_expiry_begin(sl_word *due)
{
    struct sl_cell old;

    do {
        old = read_pair(due);
        SL_STEP(SL_STEP_DUE);
    } while (!sl_swap_pair(due, old, sl_cell_of(0, old.w[1] + 1)));
    return old.w[1] + 1;
}

bool sl_hold_expiry_finish(sl_word *due, uint64_t number, sl_ns found)
{
    SL_STEP(SL_STEP_DUE);
    return sl_swap_pair(due, sl_cell_of(0, number),
                        sl_cell_of((uint64_t)found, number));
}
