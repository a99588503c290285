/* outage.c -- while the store is away: what passed, who shares a limit, and
 * when to come back. */
#include "engine/engine_int.h"
#include "engine/inside.h"

static void owe_part(struct sl_debts *debts,
                     const struct sl_active_policy *live,
                     const struct sl_store_part *part,
                     const struct sl_decision *d)
{
    struct sl_active_policy *held = (struct sl_active_policy *)(uintptr_t)live;

    if (d->take.errand == SL_TAKE_OP_REFUND)
        sl_debts_give(debts, held, part, d->now);
    else
        sl_debts_add(debts, held, part, d->now);
}

/* A take that may have arrived stays taken if it did: to charge it once more
 * would be to charge it twice. */
void sl_outage_add_debt(const struct sl_active_policy *live,
                        struct sl_decision *d)
{
    struct sl_engine *engine = live->engine;
    bool corrects = d->take.errand == SL_TAKE_OP_CHARGE ||
                    d->take.errand == SL_TAKE_OP_REFUND;

    if ((d->take.errand != SL_TAKE_OP_TAKE && !corrects) || !d->allowed)
        return;
    if (d->take.sent && corrects)
        return; /* nobody knows whether it arrived */
    if (d->take.sent && engine->store->calls->keep) {
        engine->store->calls->keep(engine->store, d->take.loop);
        return;
    }
    for (unsigned i = 0; i < d->take.count; i++) {
        struct sl_store_part part = d->parts[i];
        const struct sl_limit_view *shown = &d->shown[d->part_shown[i]];

        part.of = &live->stored[2 * shown->rule->index];
        part.cost = shown->cost; /* and not what the local table was asked */
        part.whose = NULL;       /* the books are told by themselves */
        /* Permits come back with their hold, which is on the local table. */
        if (!part.carried && shown->rule->kind != SL_PERMITS)
            owe_part(engine->debts, live, &part, d);
    }
}

void sl_outage_pay_debts(struct sl_engine *engine, const struct sl_decision *d)
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

bool sl_engine_is_shared(const struct sl_engine *engine)
{
    return engine->store->wants_names;
}

void sl_engine_nodes(struct sl_engine *engine, unsigned count)
{
    atomic_store(&engine->nodes, count);
}

unsigned sl_engine_local_share(const struct sl_engine *engine)
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
