/* outage.c -- while the store is away: what passed, who shares a limit, and
 * when to come back. */
#include "engine/inside.h"
#include "engine/parts.h"

/* A take that may have arrived stays taken if it did: to charge it once more
 * would be to charge it twice. */
void sl_engine_owe(const struct sl_live *live, struct sl_decision *d)
{
    struct sl_engine *engine = live->engine;

    if ((d->take.errand != SL_ERRAND_TAKE &&
         d->take.errand != SL_ERRAND_CHARGE) ||
        !d->allowed)
        return;
    if (d->take.sent && d->take.errand == SL_ERRAND_CHARGE)
        return; /* nobody knows whether it arrived */
    if (d->take.sent && engine->store->calls->keep) {
        engine->store->calls->keep(engine->store, d->take.loop);
        return;
    }
    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_take_part part = d->parts[i];
        const struct sl_shown *shown = &d->shown[d->part_shown[i]];

        part.of = &live->stored[2 * shown->rule->index];
        part.cost = shown->cost; /* and not what the local table was asked */
        part.whose = NULL;       /* the books are told by themselves */
        /* Permits come back with their hold, which is on the local table. */
        if (!part.carried && shown->rule->kind != SL_PERMITS)
            sl_debts_add(engine->debts, (struct sl_live *)(uintptr_t)live,
                         &part, d->now);
    }
}

void sl_engine_collect(struct sl_engine *engine, const struct sl_decision *d)
{
    if (!d->on_local && !d->take.err && sl_debts_any(engine->debts))
        sl_debts_collect(engine->debts, engine->store, d->take.loop, d->now);
}

void sl_engine_settle(struct sl_engine *engine, struct sl_loop *loop, sl_ns now)
{
    if (sl_debts_any(engine->debts))
        sl_debts_collect(engine->debts, engine->store, loop, now);
}

void sl_engine_debts(struct sl_engine *engine, struct sl_debts_stats *ret)
{
    sl_debts_stats(engine->debts, ret);
}

void sl_engine_nodes(struct sl_engine *engine, unsigned count)
{
    atomic_store(&engine->nodes, count);
}

unsigned sl_engine_share(const struct sl_engine *engine)
{
    unsigned nodes = atomic_load_explicit(&engine->nodes, memory_order_relaxed);

    return nodes > 0 ? nodes : 1;
}

sl_ns sl_engine_retry_in(const struct sl_engine *engine,
                         const struct sl_loop *loop)
{
    const struct sl_store *store = engine->store;
    sl_ns in = store->calls->retry_in ? store->calls->retry_in(store, loop) : 0;

    return in > SL_S ? in : SL_S;
}
