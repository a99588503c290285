/* standing.h -- the place of a connection in the crowd at a door.
 */
#ifndef SL_CONN_COUNT_H
#define SL_CONN_COUNT_H

#include "engine/engine.h"
#include "net/address.h"
#include "net/crowd.h"

/* Where a connection is counted. */
struct sl_conn_count {
    struct sl_conn_limit *crowd; /* NULL: nowhere */
    bool by_address;             /* also by this one */
    struct sl_ip ip;
};

/* Somebody has come to a door with this crowd (NULL: it has none). Those who
 * speak for many by the policy of `engine` (NULL: nobody) are not counted by
 * their address. NULL, or for metrics why he may not stay: then he has no
 * place. */
SL_MUST_USE const char *sl_conn_count_take(struct sl_conn_count *place,
                                           struct sl_conn_limit *crowd,
                                           struct sl_engine *engine,
                                           const struct sl_address *peer);

/* He goes, if he has come. */
void sl_conn_count_leave(const struct sl_conn_count *place);

#endif
