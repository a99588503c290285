/* schema.h -- inside the registry: the file, opened, and its tables.
 *
 * SQLite 3.40.1 may lose what was written when a WAL is reset while another
 * connection reads (the "WAL-reset bug"). There is one connection here, and it
 * locks the file for as long as it is open: no other process gets in, and no
 * shared memory is made.
 *
 * A file that several daemons of one machine are to share ("PATH?shared") has
 * no WAL, but a journal as of old: each of them locks it while it writes.
 */
#ifndef SL_SCHEMA_REGISTRY_H
#define SL_SCHEMA_REGISTRY_H

#include <sqlite3.h>

#include "base/diag.h"

#define SL_SCHEMA_SHARED "?shared"

/* Open the file at `path` (":memory:": none), or make it; check it, and bring
 * its tables up to date. SLUICE_ESTORE: it is locked by others, or of something
 * else; SLUICE_EDAMAGE; SLUICE_ENOMEM. The sentence says what to do. */
SL_MUST_USE int sl_schema_open(const char *path, sqlite3 **ret,
                               struct sl_diag *diag);

/* Bring a file from its version (PRAGMA user_version) to `count`: steps[i]
 * makes version i + 1 of version i. Each is done as a whole or not at all. A
 * file of a later version is refused. */
SL_MUST_USE int sl_schema_migrate(sqlite3 *db, const char *const *steps,
                                  int count, struct sl_diag *diag);

/* What SQLite says, as one of our errors, with a sentence: "PATH: ...". */
int sl_schema_error(sqlite3 *db, struct sl_diag *diag);

#endif
