/* inside.h -- what an engine is; for engine.c and outage.c. */
#ifndef SL_ENGINE_INSIDE_H
#define SL_ENGINE_INSIDE_H

#include <pthread.h>

#include "engine/debts.h"
#include "engine/engine.h"
#include "engine/wait.h"

#define KEPT_MAX 256

/* A feature that is switched by hand. */
struct kept {
    char name[65];
    bool on;
};

/* A backlog that was reported. */
struct reported {
    char name[65];
    uint64_t depth;
    sl_ns at;
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
    _Atomic(struct sl_active_policy *) live;
    struct kept kept[KEPT_MAX];
    unsigned kept_count;
    struct reported reported[KEPT_MAX];
    unsigned reported_count;
    struct sl_debts *debts;
    struct sl_queues *queues; /* who waits for a turn */
    struct sl_replay_cache *repeats,
        *replays;           /* made when the first policy has a use
                             * for them; then they stay */
    _Atomic unsigned nodes; /* 0: not known; see sl_engine_local_share() */
};

/* What was reported, for the policy that comes in force. backlog.c */
void sl_backlogs_apply(const struct sl_engine *engine,
                       const struct sl_active_policy *live);

/* Memory for repeats and replays, if the policy has a use for it. Under the
 * lock. backlog.c */
SL_MUST_USE int sl_memory_of_repeats(struct sl_engine *engine,
                                     const struct sl_policy *policy,
                                     struct sl_diag *diag);

#endif
