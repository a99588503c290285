/* standing.h -- the place of a connection in the crowd at a door.
 */
#ifndef SL_STANDING_H
#define SL_STANDING_H

#include "engine/engine.h"
#include "net/address.h"
#include "net/crowd.h"

/* Where a connection is counted. */
struct sl_standing {
    struct sl_crowd *crowd; /* NULL: nowhere */
    bool by_address;        /* also by this one */
    struct sl_ip ip;
};

/* Somebody has come to a door with this crowd (NULL: it has none). Those who
 * speak for many by the policy of `engine` (NULL: nobody) are not counted by
 * their address. NULL, or for metrics why he may not stay: then he has no
 * place. */
SL_MUST_USE const char *sl_standing_take(struct sl_standing *place,
                                         struct sl_crowd *crowd,
                                         struct sl_engine *engine,
                                         const struct sl_address *peer);

/* He goes, if he has come. */
void sl_standing_leave(const struct sl_standing *place);

#endif
