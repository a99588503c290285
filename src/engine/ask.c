/* ask.c -- one question to the engine, answered at once or later.
 *
 * Each step ends in a call that goes on: by the store, by the registry, or
 * right here. They call each other at most as deep as a decision has takes.
 */
#include "engine/ask.h"

#include <string.h>

#include "engine/parts.h"

void sl_ask_init(struct sl_ask *ask, struct sl_engine *engine,
                 const struct sl_station *station, const struct sl_alloc *alloc)
{
    memset(ask, 0, sizeof(*ask));
    ask->engine = engine;
    ask->station = station;
    sl_decision_init(&ask->decision, alloc);
}

void sl_ask_done(struct sl_ask *ask)
{
    sl_live_release(ask->live);
    ask->live = NULL;
    sl_decision_done(&ask->decision);
}

struct sl_live *sl_ask_hold(struct sl_ask *ask)
{
    ask->live = sl_engine_hold(ask->engine, ask->live);
    return ask->live;
}

static void answer(struct sl_ask *ask, int err)
{
    ask->err = err;
    ask->busy = false;
    ask->done(ask);
}

/* ---- the store ---- */

static void on_taken(struct sl_take *take);

static void go_on(struct sl_ask *ask)
{
    struct sl_decision *d = &ask->decision;

    if (!d->pending) {
        answer(ask, 0);
        return;
    }
    d->take.done = on_taken;
    d->take.ctx = ask;
    d->take.loop = ask->station->loop;
    sl_engine_carry_out(ask->engine, d);
}

static void on_taken(struct sl_take *take)
{
    struct sl_ask *ask = take->ctx;

    sl_decide_took(&ask->decision, ask->live);
    go_on(ask);
}

/* ---- the question ---- */

void sl_ask_begin(struct sl_ask *ask, const struct sl_facts *facts, bool spend)
{
    int err;

    ask->facts = facts;
    ask->spend = spend;
    ask->busy = true;
    ask->diag.sentence[0] = '\0';
    if (!ask->live)
        sl_ask_hold(ask);
    err = sl_decide_begin(&ask->decision, ask->live, facts, NULL, spend,
                          sl_engine_secret(ask->engine), &ask->diag);
    if (err)
        answer(ask, err);
    else
        go_on(ask);
}
