/* shared.h -- a store that other daemons use, too: the daemon's part. */
#ifndef SL_SHARED_STATE_H
#define SL_SHARED_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "sluiced/roll.h"

struct sl_redis_stats;
struct sl_aws_env;

struct sl_remote_state {
    struct sl_store *store; /* the engine's, or NULL: state is not shared */
    struct sl_node_count roll;
    _Atomic unsigned nodes; /* that share it; 0: not counted yet */

    /* Why it went away, by whichever thread saw it. */
    pthread_mutex_t lock;
    char why[256];

    /* What was told of it; the main thread's. */
    bool is_gone;     /* as the log has it */
    sl_ns gone_since; /* steady; 0: it answers */
};

/* What the environment says of keys of AWS. */
void sl_remote_env(struct sl_aws_env *ret);

#endif
