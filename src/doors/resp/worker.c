/* worker.c -- what one thread needs to serve, without a loop. */
#include <string.h>

#include "server/resp/resp_int.h"

void sl_resp_worker_init(struct sl_resp_worker *worker,
                         const struct sl_resp_door *door,
                         struct sl_engine *engine, struct sl_metrics *stats,
                         const struct sl_alloc *alloc)
{
    static const struct sl_engine_ctx bare;

    memset(worker, 0, sizeof(*worker));
    worker->door = door;
    worker->engine = engine;
    worker->station = &bare;
    worker->stats = stats;
    worker->alloc = alloc ? alloc : &sl_alloc_libc;
    TAILQ_INIT(&worker->spare);
    TAILQ_INIT(&worker->late);
    sl_throttles_init(&worker->throttles, engine, NULL);
}

void sl_resp_worker_done(struct sl_resp_worker *worker)
{
    sl_resp_calls_free(&worker->spare);
    sl_resp_calls_free(&worker->late);
}

void sl_resp_worker_engine(struct sl_resp_worker *worker,
                           struct sl_engine *engine)
{
    sl_resp_calls_free(&worker->spare); /* with the old one's policy */
    worker->engine = engine;
    sl_throttles_init(&worker->throttles, engine, worker->loop);
}

sl_ns sl_resp_now(const struct sl_resp_worker *worker)
{
    return worker->loop ? sl_loop_now(worker->loop) : worker->still;
}

bool sl_resp_is_open(const struct sl_resp_session *session)
{
    const struct sl_resp_door *door = session->worker->door;

    if (door->token.len == 0 && !door->accepts_client_cert)
        return true;
    return door->accepts_client_cert && session->conn &&
           session->conn->tls_client;
}

void sl_resp_session_init(struct sl_resp_session *session,
                          struct sl_resp_worker *worker, struct sl_buf *out)
{
    static _Atomic uint64_t last;

    memset(session, 0, sizeof(*session));
    session->worker = worker;
    session->out = out;
    session->version = 2;
    session->id = ++last;
    session->since = sl_resp_now(worker);
    session->admitted = sl_resp_is_open(session);
}
