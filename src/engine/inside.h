/* inside.h -- what an engine is; for engine.c and outage.c. */
#ifndef SL_ENGINE_INSIDE_H
#define SL_ENGINE_INSIDE_H

#include <pthread.h>

#include "engine/debts.h"
#include "engine/engine.h"
#include "engine/wait/wait.h"

#define KEPT_MAX 256

/* A feature that is switched by hand. */
struct kept {
    char name[65];
    bool on;
};

struct sl_engine {
    struct sl_store *store;
    struct sl_store *local; /* what `on_store_failure: local` asks; made when
                             * the first policy wants it */
    const struct sl_alloc *alloc;
    sl_ns (*now)(void *ctx);
    void *now_ctx;
    int (*fault)(void *ctx);
    void *fault_ctx;
    pthread_mutex_t lock; /* who writes `live`, or takes a hold */
    _Atomic(struct sl_live *) live;
    struct kept kept[KEPT_MAX];
    unsigned kept_count;
    struct sl_debts *debts;
    struct sl_queues *queues; /* who waits for a turn */
    _Atomic unsigned nodes;   /* 0: not known; see sl_engine_share() */
};

#endif
