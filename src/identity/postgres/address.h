/* address.h -- the address of a PostgreSQL: checked, and shown without its
 * secrets.
 *
 * It is whatever libpq reads as a URI; PGPASSWORD, ~/.pgpass, PGSSLMODE and the
 * like fill in what it does not say. A password never leaves it: the sentences
 * of libpq about a URI that can't be read may quote it, so they are not passed
 * on.
 */
#ifndef SL_PG_ADDRESS_H
#define SL_PG_ADDRESS_H

#include "base/diag.h"

#define SL_PG_SHOWN 160

/* Can it be read? SLUICE_ECONF with what to write; SLUICE_ENOMEM. `shown`
 * becomes "HOST:PORT/DATABASE", as far as the address says it. */
SL_MUST_USE int sl_pg_url(const char *url, char shown[SL_PG_SHOWN],
                          struct sl_diag *diag);

#endif
