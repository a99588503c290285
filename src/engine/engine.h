/* engine.h -- the active policy over a store.
 *
 * The policy can change while checks run. A check keeps its reference to the
 * active policy from one request to the next, and takes the engine's lock only
 * when the policy has changed. So an ordinary check writes no word that threads
 * share.
 */
#ifndef SL_ENGINE_ENGINE_H
#define SL_ENGINE_ENGINE_H

#include "engine/decision.h"

struct sl_engine_options {
    struct sl_store *store; /* taken over: closed with the engine */
    /* The shared memory of repeats, which outlives the engine. NULL: that of
     * this process. */
    struct sl_repeats *repeats;
    const char *repeats_path; /* without `repeats`: the file that keeps them
                               * over a restart, which outlives the engine;
                               * NULL: none */
    const struct sl_alloc *alloc;
    /* The clock of the local table. NULL: the system's. */
    sl_ns (*now)(void *ctx);
    void *now_ctx;
    /* For tests of a policy: not 0 makes the store fail. */
    int (*fault)(void *ctx);
    void *fault_ctx;
};

struct sl_debts_stats;
struct sl_loop;
struct sl_queues;

struct sl_engine;

/* Opens an engine with `policy`, which is referenced. On failure the store
 * stays the caller's. */
SL_MUST_USE int sl_engine_open(const struct sl_engine_options *options,
                               struct sl_policy *policy, struct sl_engine **ret,
                               struct sl_diag *diag);

/* NULL is allowed. */
void sl_engine_close(struct sl_engine *engine);

/* Changes the active policy. On failure the old one stays. */
SL_MUST_USE int sl_engine_use(struct sl_engine *engine,
                              struct sl_policy *policy, struct sl_diag *diag);

/* Switches a feature on (1) or off (0), in this and all later policies, or
 * leaves it to them again (-1). SLUICE_ENOENT if the active policy does not
 * have it. */
SL_MUST_USE int sl_engine_switch(struct sl_engine *engine, struct sl_str name,
                                 int on, struct sl_diag *diag);

/* The same for a name that a later policy may have. SLUICE_EFULL if there are
 * too many. */
SL_MUST_USE int sl_engine_keep(struct sl_engine *engine, struct sl_str name,
                               int on, struct sl_diag *diag);

/* Is the feature switched by hand? */
bool sl_engine_is_kept(struct sl_engine *engine, struct sl_str name);

/* Reports the depth of a backlog. It counts until it is older than the routes
 * of the policy say, also for later policies. SLUICE_ENOENT if the active
 * policy does not have it. Any thread. */
SL_MUST_USE int sl_engine_backlog(struct sl_engine *engine, struct sl_str name,
                                  uint64_t depth, sl_ns now,
                                  struct sl_diag *diag);

/* Writes a report to the memory of repeats, for other daemons and for the next
 * start. done() is called once, before this returns or later, with 0 if it is
 * there. On the loop's thread. */
typedef void sl_backlog_shared_f(void *ctx, int err);
void sl_engine_backlog_share(struct sl_engine *engine, struct sl_loop *loop,
                             struct sl_str name, uint64_t depth, sl_ns now,
                             sl_backlog_shared_f *done, void *ctx);

/* Reads the reports there that are newer. The answers come later. */
void sl_engine_backlog_refresh(struct sl_engine *engine, struct sl_loop *loop,
                               sl_ns now);

/* Is the store shared with other processes? */
bool sl_engine_is_shared(const struct sl_engine *engine);

/* Was a limit per address skipped since the start, because a request had no
 * address? */
bool sl_engine_no_address(const struct sl_engine *engine);

/* Sets how many daemons share a limit: with `on_store_failure: local` each has
 * its share. Limits of that name in later policies have it, too. "": how many
 * share the store, for limits without a count. Any thread. */
void sl_engine_nodes(struct sl_engine *engine, struct sl_str limit,
                     unsigned count);

/* Clears the local table, debts and replay caches, while no check runs.
 * SLUICE_ENOMEM: nothing was cleared. */
SL_MUST_USE int sl_engine_forget(struct sl_engine *engine,
                                 struct sl_diag *diag);

/* The store answers again: charges some debts. On the loop's thread. */
void sl_engine_settle(struct sl_engine *engine, struct sl_loop *loop,
                      sl_ns now);

/* Debts of an outage. */
void sl_engine_debts(struct sl_engine *engine, struct sl_debts_stats *ret);

struct sl_queues *sl_engine_queues(struct sl_engine *engine);

/* A reference to the active policy. `held` (NULL at first) is the caller's
 * reference so far; it is released if the policy has changed. */
struct sl_active_policy *sl_engine_ref_policy(struct sl_engine *engine,
                                              struct sl_active_policy *held);

/* NULL is allowed. */
void sl_active_policy_unref(struct sl_active_policy *active);

#endif
