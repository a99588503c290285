/* engine.h -- a policy in force over a store.
 *
 * The policy can be changed while decisions are made. Whoever decides holds
 * the policy in force and keeps holding it from one decision to the next; only
 * when another one has come in force does he go through the engine's lock.
 * So the usual decision touches no word that all threads write.
 */
#ifndef SL_ENGINE_ENGINE_H
#define SL_ENGINE_ENGINE_H

#include "engine/decision.h"

struct sl_engine_options {
    struct sl_store *store; /* taken over: closed with the engine */
    const struct sl_alloc *alloc;
    /* The clock of the facts, for the table that is asked when the store
     * fails. NULL: the system's. */
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

/* Put `policy` in force (one more reference of it is taken). On failure the
 * store is still the caller's. */
SL_MUST_USE int sl_engine_open(const struct sl_engine_options *options,
                               struct sl_policy *policy, struct sl_engine **ret,
                               struct sl_diag *diag);

/* NULL is allowed. */
void sl_engine_close(struct sl_engine *engine);

/* Put another policy in force. On failure the old one stays. */
SL_MUST_USE int sl_engine_use(struct sl_engine *engine,
                              struct sl_policy *policy, struct sl_diag *diag);

/* Switch a feature on (1) or off (0), in this and all later policies, or leave
 * it to them again (-1). SLUICE_ENOENT if the policy in force has none of that
 * name. */
SL_MUST_USE int sl_engine_switch(struct sl_engine *engine, struct sl_str name,
                                 int on, struct sl_diag *diag);

/* The same for a name that perhaps a later policy has. SLUICE_EFULL if there
 * are too many. */
SL_MUST_USE int sl_engine_keep(struct sl_engine *engine, struct sl_str name,
                               int on, struct sl_diag *diag);

/* Is the feature switched by hand? */
bool sl_engine_is_kept(struct sl_engine *engine, struct sl_str name);

/* So much work is waiting there. It counts until it is older than the routes
 * of the policy say, and stays when another policy comes in force.
 * SLUICE_ENOENT if the policy in force has no backlog of that name. Any
 * thread. */
SL_MUST_USE int sl_engine_backlog(struct sl_engine *engine, struct sl_str name,
                                  uint64_t depth, sl_ns now,
                                  struct sl_diag *diag);

/* Do others take from its store, too? */
bool sl_engine_is_shared(const struct sl_engine *engine);

/* How many daemons share the store, this one included: `on_store_failure:
 * local` lets each of them have its part of a limit. Any thread. */
void sl_engine_nodes(struct sl_engine *engine, unsigned count);

/* Forget what only this process knows: the local table, and debts. While
 * nobody decides. SLUICE_ENOMEM: then all of it stays. */
SL_MUST_USE int sl_engine_forget(struct sl_engine *engine,
                                 struct sl_diag *diag);

/* The store answers: charge some of what was let through while it was away. On
 * the loop's thread. */
void sl_engine_settle(struct sl_engine *engine, struct sl_loop *loop,
                      sl_ns now);

/* What was let through while the store was away; debts.h. */
void sl_engine_debts(struct sl_engine *engine, struct sl_debts_stats *ret);

/* Who waits for a turn in this process; wait/wait.h. */
struct sl_queues *sl_engine_queues(struct sl_engine *engine);

/* The policy in force, held. `held` (NULL at first) is what the caller has
 * held so far: given back if another one is in force by now. */
struct sl_active_policy *sl_engine_hold(struct sl_engine *engine,
                                        struct sl_active_policy *held);

/* NULL is allowed. */
void sl_active_policy_release(struct sl_active_policy *active);

#endif
