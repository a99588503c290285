/* pace.c -- the pace of a destination. */
#include "webhook/pace.h"

#include "core/algorithm.h"

bool sl_pace_is_even(const struct sl_limit *limit)
{
    return limit->capacity == 1;
}

/* Between two deliveries; rounded up. */
static sl_ns distance(const struct sl_limit *limit)
{
    sl_ns count = (sl_ns)limit->count;

    return limit->period / count + (limit->period % count != 0);
}

sl_ns sl_pace_reserved(const struct sl_limit *limit, sl_ns taken)
{
    return taken + distance(limit) + SL_PACE_LATE;
}

sl_ns sl_pace_after(const struct sl_limit *limit, sl_ns taken, sl_ns arrived)
{
    return (arrived > taken ? arrived : taken) + distance(limit);
}

static sl_ns take_even(const struct sl_limit *limit, struct sl_cell *cell,
                       sl_ns now)
{
    sl_ns most = sl_pace_reserved(limit, now);

    if (cell->w[0] > (uint64_t)most) /* the clock has stepped back */
        cell->w[0] = (uint64_t)most;
    if (cell->w[0] > (uint64_t)now)
        return (sl_ns)cell->w[0] - now;
    *cell = sl_cell_of((uint64_t)most, 0);
    return 0;
}

sl_ns sl_pace_take(const struct sl_limit *limit, struct sl_cell *cell,
                   sl_ns now)
{
    struct sl_take_result t;

    if (sl_pace_is_even(limit))
        return take_even(limit, cell, now);
    t = sl_take(limit, *cell, 1, now);
    if (t.answer.outcome != SL_ALLOW || t.answer.wait > 0)
        return t.answer.retry_in > 1 ? t.answer.retry_in : 1;
    *cell = t.next;
    return 0;
}

bool sl_pace_move(const struct sl_limit *limit, struct sl_cell *cell,
                  sl_ns taken, sl_ns arrived)
{
    if (!sl_pace_is_even(limit) ||
        cell->w[0] != (uint64_t)sl_pace_reserved(limit, taken))
        return false;
    cell->w[0] = (uint64_t)sl_pace_after(limit, taken, arrived);
    return true;
}
