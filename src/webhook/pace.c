/* pace.c -- the pace of a destination. */
#include "webhook/pace.h"

#include "core/take.h"

sl_ns sl_pace_take(const struct sl_limit *limit, struct sl_cell *cell,
                   sl_ns now)
{
    struct sl_take_result t = sl_take(limit, *cell, 1, now);

    if (t.answer.outcome != SL_ALLOW || t.answer.wait > 0)
        return t.answer.retry_in > 1 ? t.answer.retry_in : 1;
    *cell = t.next;
    return 0;
}

bool sl_pace_move(const struct sl_limit *limit, struct sl_cell *cell,
                  sl_ns arrived)
{
    struct sl_take_result now, fresh;

    if (limit->capacity != 1)
        return false;
    now = sl_take(limit, *cell, 1, arrived);
    fresh = sl_take(limit, sl_cell_of(0, 0), 1, arrived);
    if (now.answer.outcome != SL_ALLOW &&
        now.answer.retry_in >=
            sl_take(limit, fresh.next, 1, arrived).answer.retry_in)
        return false; /* of a later one */
    *cell = fresh.next;
    return true;
}
