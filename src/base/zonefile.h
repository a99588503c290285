/* zonefile.h -- a time zone from the system's files, by name.
 *
 * The files are tzdata's: in the folder that TZDIR names, or else in
 * /usr/share/zoneinfo.
 */
#ifndef SL_ZONEFILE_H
#define SL_ZONEFILE_H

#include "base/zone.h"

/* Read the file of a zone like Europe/Berlin. On success *ret holds shifts
 * from `alloc`, to be given back with sl_zone_done(). SLUICE_ECONF if there is
 * no such zone. */
SL_MUST_USE int sl_zone_load(const char *name, const struct sl_alloc *alloc,
                             struct sl_zone *ret, struct sl_diag *diag);

#endif
