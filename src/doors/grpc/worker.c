/* worker.c -- what one thread has of the grpc door. */
#include <string.h>

#include "doors/grpc/inner.h"

int sl_grpc_worker_open(struct sl_grpc_worker *worker,
                        const struct sl_grpc_door *door, struct sl_loop *loop,
                        struct sl_engine *engine, struct sl_stats *stats,
                        const struct sl_alloc *alloc, unsigned connections_most,
                        struct sl_diag *diag)
{
    static const struct sl_station bare;
    int err;

    memset(worker, 0, sizeof(*worker));
    worker->door = door;
    worker->loop = loop;
    worker->engine = engine;
    worker->station = &bare;
    worker->stats = stats;
    worker->alloc = alloc ? alloc : &sl_alloc_libc;
    worker->pool.alloc = worker->alloc;
    TAILQ_INIT(&worker->spare_streams);
    TAILQ_INIT(&worker->spare_calls);
    TAILQ_INIT(&worker->late_calls);
    TAILQ_INIT(&worker->watchers);
    if (sl_hash_key_make(&worker->secret))
        return sl_refuse(diag, SLUICE_ESYS,
                         "the system did not provide random bytes");
    err = sl_conns_open(loop, connections_most, &worker->conns);
    return err ? sl_refuse(diag, err, "out of memory") : 0;
}

void sl_grpc_worker_close(struct sl_grpc_worker *worker)
{
    sl_conns_close(worker->conns);
    worker->conns = NULL;
    sl_tls_unref(worker->tls);
    worker->tls = NULL;
    sl_grpc_calls_done(worker);
    sl_grpc_streams_done(worker);
    sl_grpc_pool_done(&worker->pool);
}

void sl_grpc_worker_tls(struct sl_grpc_worker *worker, struct sl_tls *tls)
{
    struct sl_tls *old = worker->tls;

    worker->tls = tls ? sl_tls_ref(tls) : NULL;
    sl_tls_unref(old);
}

void sl_grpc_worker_engine(struct sl_grpc_worker *worker,
                           struct sl_engine *engine)
{
    sl_grpc_calls_done(worker); /* they hold the old one's policy */
    worker->engine = engine;
}

void sl_grpc_warn(struct sl_grpc_worker *worker)
{
    worker->draining = true;
    sl_grpc_tell_watchers(worker);
}
