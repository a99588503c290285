/* worker.c -- what one thread needs to handle requests, without a loop. */
#include <string.h>

#include "doors/http/http.h"

#define TEXT_MOST  ((size_t)64 << 20) /* a large array's verdicts */
#define ARENA_MOST ((size_t)16 << 20)

void sl_http_worker_init(struct sl_http_worker *worker,
                         const struct sl_http_door *door,
                         struct sl_engine *engine, struct sl_stats *stats,
                         const struct sl_alloc *alloc)
{
    if (!alloc)
        alloc = &sl_alloc_libc;
    memset(worker, 0, sizeof(*worker));
    worker->door = door;
    worker->engine = engine;
    worker->stats = stats;
    worker->alloc = alloc;
    TAILQ_INIT(&worker->waiting);
    sl_decision_init(&worker->decision, alloc);
    sl_arena_init(&worker->arena, ARENA_MOST, alloc);
    sl_arena_init(&worker->ink, ARENA_MOST, alloc);
    sl_buf_init(&worker->text, TEXT_MOST, alloc);
}

void sl_http_worker_done(struct sl_http_worker *worker)
{
    sl_live_release(worker->live);
    worker->live = NULL;
    sl_decision_done(&worker->decision);
    sl_arena_done(&worker->arena);
    sl_arena_done(&worker->ink);
    sl_buf_done(&worker->text);
}
