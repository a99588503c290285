/* worker.c -- what one thread needs to handle requests. */
#include <string.h>

#include "server/http/http_int.h"

void sl_http_worker_init(struct sl_http_worker *worker,
                         const struct sl_http_door *door,
                         struct sl_engine *engine, struct sl_metrics *stats,
                         const struct sl_alloc *alloc)
{
    static const struct sl_engine_ctx bare;

    if (!alloc)
        alloc = &sl_alloc_libc;
    memset(worker, 0, sizeof(*worker));
    worker->door = door;
    worker->engine = engine;
    worker->station = &bare;
    worker->stats = stats;
    worker->alloc = alloc;
    TAILQ_INIT(&worker->spare);
    TAILQ_INIT(&worker->late);
}

void sl_http_worker_done(struct sl_http_worker *worker)
{
    sl_http_calls_free(&worker->spare);
    sl_http_calls_free(&worker->late);
}

void sl_http_worker_engine(struct sl_http_worker *worker,
                           struct sl_engine *engine)
{
    sl_http_calls_free(&worker->spare); /* with the old one's policy */
    worker->engine = engine;
}

void sl_http_worker_close(struct sl_http_worker *worker)
{
    if (worker->conns)
        sl_conns_close(worker->conns);
    worker->conns = NULL;
    sl_tls_unref(worker->tls);
    worker->tls = NULL;
    sl_http_worker_done(worker);
}

void sl_http_worker_tls(struct sl_http_worker *worker, struct sl_tls *tls)
{
    struct sl_tls *old = worker->tls;

    worker->tls = tls ? sl_tls_ref(tls) : NULL;
    sl_tls_unref(old);
}
