/* worker.c -- what one thread needs to handle requests. */
#include <string.h>

#include "doors/http/inner.h"
#include "engine/forwarded.h"

void sl_http_worker_init(struct sl_http_worker *worker,
                         const struct sl_http_door *door,
                         struct sl_engine *engine, struct sl_stats *stats,
                         const struct sl_alloc *alloc)
{
    static const struct sl_station bare;

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

/* ---- those who come ---- */

/* Whoever speaks for many is not counted by his address. */
static bool speaks_for_many(struct sl_http_worker *worker,
                            const struct sl_peer *peer)
{
    struct sl_live *live;
    bool trusted;

    if (!worker->engine)
        return false;
    live = sl_engine_hold(worker->engine, NULL);
    trusted = sl_peer_trusted(&live->policy->identity, peer);
    sl_live_release(live);
    return trusted;
}

const char *sl_http_enter(struct sl_http_worker *worker,
                          const struct sl_address *peer,
                          struct sl_http_place *ret)
{
    struct sl_crowd *crowd = worker->door->crowd;
    struct sl_peer who = {.is_unix = !peer || sl_address_is_unix(peer)};
    enum sl_crowd_answer answer;

    *ret = (struct sl_http_place){.is_in = false};
    if (!crowd)
        return NULL;
    who.has_ip = peer && sl_address_ip(peer, &who.ip);
    ret->ip = who.ip;
    ret->by_address = who.has_ip && !speaks_for_many(worker, &who);
    answer = sl_crowd_enter(crowd, ret->by_address ? &ret->ip : NULL);
    ret->is_in = answer == SL_CROWD_IN;
    if (ret->is_in)
        return NULL;
    return answer == SL_CROWD_FULL ? "too_many" : "too_many_of_address";
}

void sl_http_leave(struct sl_http_worker *worker,
                   const struct sl_http_place *place)
{
    if (place->is_in)
        sl_crowd_leave(worker->door->crowd,
                       place->by_address ? &place->ip : NULL);
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
