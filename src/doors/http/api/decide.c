/* decide.c -- the one place where the door asks the engine.
 *
 * The answer may come before sl_ask_begin() returns or many turns later; the
 * handler goes on in the ask's done().
 */
#include "base/clock.h"
#include "doors/http/api/api.h"

static void refuse(struct sl_http_call *call, int err,
                   const struct sl_diag *diag)
{
    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        sl_http_no_memory(call);
    else
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", diag->sentence);
}

void sl_http_ask(struct sl_http_call *call, const struct sl_facts *facts,
                 bool spend, void (*done)(struct sl_ask *ask), void *ctx)
{
    call->ask.done = done;
    call->ask.ctx = ctx;
    call->asked_at = sl_clock_wall();
    sl_ask_begin(&call->ask, facts, spend);
}

bool sl_http_decided(struct sl_http_call *call, struct sl_rendered *ret)
{
    const struct sl_http_worker *worker = call->worker;
    const struct sl_ask *ask = &call->ask;
    sl_ns took = sl_clock_wall() - call->asked_at;
    int err = ask->err;

    if (!err && ask->spend && worker->stats)
        sl_stats_decision(worker->stats, &ask->decision, worker->door->name,
                          took > 0 ? took : 0);
    sl_arena_reset(&call->ink);
    if (!err)
        err = sl_render(&ask->decision, &call->ink, ret);
    if (err)
        refuse(call, err, &ask->diag);
    return !err;
}
