/* roll.h -- how many daemons share a store.
 *
 * Whoever is there signs the roll once in a window of SL_NODE_COUNT, which is a
 * fixed window in the store like any other: it takes one, and shortly before
 * the end it looks how many were taken. So there is one clock, the store's, and
 * nothing to be cleaned up behind a daemon that has died.
 *
 *     |<------ window ------>|
 *     sign              look  sign             look
 *
 * What was counted last counts on while the store is away: that is what it is
 * counted for. A daemon that is started anew within a window is counted twice
 * until the next one.
 */
#ifndef SL_NODE_COUNT_H
#define SL_NODE_COUNT_H

#include "net/loop.h"
#include "store/store.h"

#define SL_NODE_COUNT (5 * SL_S)

struct sl_node_count {
    struct sl_store *store;
    struct sl_loop *loop;
    struct sl_timer *timer;
    void (*on_count)(void *ctx, unsigned count);
    void *ctx;
    struct sl_limit_binding stored;
    struct sl_limit limit;
    struct sl_take take;
    struct sl_store_part part;
    char name[128];
    unsigned before; /* counted in the window before this one */
    bool looks;      /* otherwise it signs */
    bool ended;
};

/* Begin to sign; `env` parts those who share a store and nothing else. The
 * struct stays where it is until the loop's takes have all been told. */
SL_MUST_USE int sl_node_count_begin(struct sl_node_count *roll,
                                    struct sl_store *store,
                                    struct sl_loop *loop, struct sl_str env);
void sl_node_count_end(struct sl_node_count *roll);

/* The done() of its takes; for tests. */
void sl_node_count_told(struct sl_take *take);

#endif
