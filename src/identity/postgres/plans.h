/* plans.h -- plans that stand in tables of others.
 *
 * Whoever is looked for is looked for in the registry first, which knows
 * aliases, roles, overrides and credits; then a statement of the user's is
 * asked for his plan and its end. If it has a row of him, these count, and
 * whatever plan the registry has does not.
 *
 *     loop       find --> registry --> on_found        on_asked --> done
 *     threads                            +--> ask a seat --+
 *
 * Each of a few threads has a connection of its own, which can only read: the
 * books do not wait for what others ask, and one slow answer delays a part of
 * the others only. The server gives up after a second.
 *
 * A statement that failed is prepared anew on another connection, once a
 * second: the table may have been altered.
 */
#ifndef SL_PG_PLAN_H
#define SL_PG_PLAN_H

#include "registry/registry.h"

struct sl_pg_plan; /* opaque */

struct sl_pg_plan_options {
    const char *url; /* outlives this */
    struct sl_str sql;
    struct sl_str scope; /* the one that is asked about; "": as it is written */
    const struct sl_alloc *alloc;
    /* On one of the threads, when it has failed; or NULL. */
    void (*on_fault)(void *ctx, const char *sentence);
    void *ctx;
};

/* Asks once, for nobody. SLUICE_ECONF: it can't be asked; SLUICE_ESTORE: there
 * is no server; both with the server's sentence. SLUICE_ENOMEM, SLUICE_ESYS. */
SL_MUST_USE int sl_pg_plan_open(const struct sl_pg_plan_options *options,
                                struct sl_pg_plan **ret, struct sl_diag *diag);

/* As sl_registry_ask() of a SL_JOB_FIND, on the loop of the job. */
void sl_pg_plan_find(struct sl_pg_plan *plans, struct sl_registry *registry,
                     struct sl_job *job);

/* End the threads. What is queued has failed, and so has what comes. NULL is
 * allowed; twice too. */
void sl_pg_plan_stop(struct sl_pg_plan *plans);

/* Stops them first. NULL is allowed. */
void sl_pg_plan_close(struct sl_pg_plan *plans);

#endif
