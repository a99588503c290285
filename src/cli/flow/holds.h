/* holds.h -- the holds of a flow, by the names that it gives them.
 */
#ifndef SL_FLOW_HOLDS_H
#define SL_FLOW_HOLDS_H

#include "cli/flow/flow.h"
#include "cli/flow/run.h"

struct sl_flow_hold {
    const char *name;   /* as=NAME */
    const char *own;    /* what the engine calls it; "" if nothing is held */
    const char *remote; /* what the daemon does; NULL: there is none */
    struct sl_flow_hold *next;
};

struct sl_flow_holds {
    struct sl_arena *arena;
    struct sl_flow_hold *list;
};

/* Keep a hold by its name; a later one of that name takes its place. The texts
 * are copied. SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_holds_set(struct sl_flow_holds *holds, const char *name,
                                  const char *own, const char *remote);

/* The one of that name, or NULL. */
const struct sl_flow_hold *sl_flow_holds_find(const struct sl_flow_holds *holds,
                                              const char *name);

/* Settle, release or extend as `act` says. Returns as sluice_engine_settle();
 * a hold that nobody knows is an answer: *ret_known is false then. */
SL_MUST_USE int sl_flow_holds_end(struct sluice_engine *engine,
                                  const struct sl_flow_hold *hold,
                                  const struct sl_flow_act *act,
                                  struct sluice_ended *ended, bool *ret_known);

/* What became of it, against what was expected. SLUICE_ENOMEM. */
SL_MUST_USE int sl_flow_holds_compare(const struct sl_flow_act *act,
                                      struct sluice_ended *ended, bool known,
                                      struct sl_arena *arena,
                                      struct sl_flow_mismatch **ret);

#endif
