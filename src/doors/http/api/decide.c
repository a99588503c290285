/* decide.c -- the one place where the door asks the engine.
 *
 * The answer may come before sl_check_begin() returns or many turns later; the
 * handler goes on in the ask's done().
 */
#include <stddef.h>

#include "base/clock.h"
#include "server/http/api.h"

static void refuse(struct sl_http_call *call, int err,
                   const struct sl_diag *diag)
{
    if (err == SLUICE_ENOMEM || err == SLUICE_EFULL)
        sl_http_no_memory(call);
    else
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", diag->sentence);
}

static void on_waits(struct sl_check *ask)
{
    struct sl_http_call *call =
        (struct sl_http_call *)(void *)((char *)ask -
                                        offsetof(struct sl_http_call, ask));

    if (call->conn)
        sl_conn_watch_close(call->conn);
}

void sl_http_ask(struct sl_http_call *call, const struct sl_request *facts,
                 bool spend, void (*done)(struct sl_check *ask), void *ctx)
{
    call->ask.done = done;
    call->ask.ctx = ctx;
    call->ask.waits = on_waits;
    call->asked_at = sl_clock_wall();
    sl_check_begin(&call->ask, facts, spend);
}

bool sl_http_decided(struct sl_http_call *call, struct sl_rendered *ret)
{
    const struct sl_http_worker *worker = call->worker;
    const struct sl_check *ask = &call->ask;
    sl_ns took = sl_clock_wall() - call->asked_at;
    int err = ask->err;

    if (ask->in_turn)
        took = 0; /* most of it was waiting, which is counted by itself */
    if (!err && ask->spend && worker->stats)
        sl_metrics_decision(worker->stats, &ask->decision, worker->door->name,
                            took > 0 ? took : 0);
    sl_arena_reset(&call->ink);
    if (!err)
        err = sl_render(&ask->decision, &call->ink, ret);
    if (err)
        refuse(call, err, &ask->diag);
    return !err;
}
