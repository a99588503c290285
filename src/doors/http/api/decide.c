/* decide.c -- the one place where the door asks the engine.
 *
 * Today's store answers before it returns, so that a decision is finished
 * here. A store that answers later goes on from here too: the handler returns
 * with the decision pending, the session pauses its connection
 * (sl_conn_pause), and when the take is done, what follows sl_engine_decide()
 * below and the rest of the handler are called from the store's `done`. One
 * request of a connection is under way at a time, so that its slices, which
 * point into the paused connection's `in`, and the worker's decision and
 * arenas, which then belong to the session, stay what they are.
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

bool sl_http_decide(struct sl_http_call *call, const struct sl_facts *facts,
                    bool spend, struct sl_rendered *ret)
{
    struct sl_http_worker *worker = call->worker;
    struct sl_decision *d = &worker->decision;
    struct sl_diag diag = {.sentence = ""};
    sl_ns began = sl_clock_wall();
    int err =
        sl_engine_decide(worker->engine, worker->live, facts, spend, d, &diag);
    sl_ns took = sl_clock_wall() - began;

    if (!err && spend && worker->stats)
        sl_stats_decision(worker->stats, d, worker->door->name,
                          took > 0 ? took : 0);
    sl_arena_reset(&worker->ink);
    if (!err)
        err = sl_render(d, &worker->ink, ret);
    if (err)
        refuse(call, err, &diag);
    return !err;
}
