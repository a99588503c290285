/* single.c -- the short way. The contract is in single.h. */
#include "table/single.h"

/* Whoever has lost a race for a cell lets the others go on for a while, for
 * longer each time: two who try again at once take the line from each other
 * before either can use it. So many pauses at first, and at last. */
#define PAUSES_FIRST 16
#define PAUSES_LAST  128

static uint64_t get(const sl_word *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

/* Swap `old` for what was judged, or see that it still stands if that is the
 * same. */
static bool settle(sl_word *cell, struct sl_cell old, struct sl_cell bare,
                   unsigned *pauses)
{
    struct sl_cell next = sl_cell_next(old, bare);

    if (sl_cell_eq(next, old))
        return get(cell) == old.w[0] && get(cell + 1) == old.w[1];
    SL_STEP(SL_STEP_SWAP);
    if (sl_swap_pair(cell, old, next))
        return true;
    sl_pause(*pauses);
    if (*pauses < PAUSES_LAST)
        *pauses *= 2;
    return false;
}

/* Guard, second word and tag are looked at in this order. (5) */
bool sl_set_decide_one(const struct sl_set *set, struct sl_part *part,
                       uint64_t tag, struct sl_slot slot,
                       enum sl_set_result *ret)
{
    struct sl_bucket *b = sl_region_bucket(set->intent->region, slot.bucket);
    sl_word *cell = &b->word[sl_cell_word(slot.index)];
    const struct sl_algorithm *algorithm = sl_algorithms[part->limit->kind];
    unsigned pauses = PAUSES_FIRST;
    struct sl_take_result taken;
    struct sl_cell old;

    do {
        old.w[0] = atomic_load(cell);
        old.w[1] = get(cell + 1);
        if (sl_is_locked(old.w[0]) ||
            get(&b->word[sl_tag_word(slot.index)]) != tag)
            return false;
        algorithm->take(part->limit, sl_cell_bare(old), part->cost, set->now,
                        &taken);
        if (taken.stepped && !set->fresh)
            return false;
    } while (!settle(cell, old, taken.next, &pauses));
    part->answer = taken.answer;
    part->untracked = false;
    *ret = taken.answer.outcome == SL_ALLOW ? SL_SET_ALLOW : SL_SET_DENY;
    sl_set_count(set, *ret);
    return true;
}
