/* schema.h -- inside the driver: the tables, made and brought up to date.
 *
 * They lie in a schema of their own, SL_PG_SCHEMA, beside whatever else the
 * database has. Whoever comes first makes them, under a lock, so that daemons
 * that start at once do not meet; each version is a step that is done as a
 * whole or not at all.
 */
#ifndef SL_PG_SCHEMA_H
#define SL_PG_SCHEMA_H

#include "identity/postgres/link.h"

#define SL_PG_SCHEMA "sluice"

/* SLUICE_ESTORE with what to do. Before the pipeline begins. */
SL_MUST_USE int sl_pg_schema(struct sl_pg_conn *link, struct sl_diag *diag);

/* Bring the tables to version `count`: steps[i] makes version i + 1 of version
 * i. Those of a later version are refused. */
SL_MUST_USE int sl_pg_migrate(struct sl_pg_conn *link, const char *const *steps,
                              int count, struct sl_diag *diag);

#endif
