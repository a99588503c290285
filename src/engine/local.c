/* local.c -- a part of a limit, while the store is away.
 *
 * `on_store_failure: local` decides by this process's own table. If n daemons
 * share the store, each lets an n-th of the limit through, so that all of them
 * together keep it. The limit stays as it is, and a request costs n times as
 * much: whatever the kind, the rate and the capacity are an n-th then, to the
 * unit, and nothing that was used is lost when n changes.
 *
 *     5/min burst 8, 2 daemons:  a request costs 2 of 8 and of 5 in a minute
 *
 * A request that would cost more than the limit holds that way costs all of it:
 * one passes now and then, at each of them, instead of none for good.
 */
#include "engine/engine_int.h"

uint64_t sl_local_cost(const struct sl_decision *d,
                       const struct sl_store_part *part)
{
    uint64_t most = part->limit->capacity;
    uint64_t cost = part->cost;

    if (d->share <= 1 || cost == 0 || cost > most)
        return cost;
    return cost <= most / d->share ? cost * d->share : most;
}

void sl_local_answer(const struct sl_decision *d, struct sl_store_part *part,
                     bool open)
{
    struct sl_answer *a = &part->answer;
    uint64_t used = a->capacity > a->remaining ? a->capacity - a->remaining : 0;

    if (d->share <= 1)
        return;
    if (open)
        a->remaining = a->capacity - used / d->share;
    else
        a->remaining /= d->share;
}
