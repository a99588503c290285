/* zones.h -- the time zones of this machine. */
#ifndef SL_PROP_ZONES_H
#define SL_PROP_ZONES_H

#include "base/zone.h"

#define ZONES_DIR "/usr/share/zoneinfo"

struct zones {
    char **names; /* "Europe/Lisbon", sorted; of equal files only the first */
    size_t count, room;
};

/* All of them, links and the copies under posix/ and right/ left out. */
void zones_list(struct zones *ret);
void zones_done(struct zones *zones);

/* Read one, with its shifts up to 2130. Give it back with sl_zone_done() and
 * sl_alloc_libc. False, with a remark, if that fails. */
SL_MUST_USE bool zones_load(const char *name, struct sl_zone *ret);

#endif
