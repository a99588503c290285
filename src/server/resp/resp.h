/* resp.h -- the Redis protocol.
 *
 *     conn --> wire/resp --> find command --> AUTH? --> handler --> reply
 *                                                          |
 *                       throttles are collected and taken together, and so
 *                       are checks
 *
 * Replies come in the order of the commands: while one waits for a store, no
 * later command of its connection is read. Default timeouts: 10 s for a
 * command, none for an idle connection, as with Redis.
 */
#ifndef SL_SERVER_RESP_RESP_H
#define SL_SERVER_RESP_RESP_H

#include "engine/check.h"
#include "engine/throttle.h"
#include "server/server.h"
#include "wire/resp.h"

struct sl_resp_worker {
    struct sl_server_worker base; /* first */
    struct sl_throttles throttles;
    sl_ns clock;       /* when it was last read, in this turn, or 0 */
    unsigned checks;   /* carried out since then */
    uint64_t commands; /* carried out, for INFO */
    struct sl_resp_command command; /* the one that is being read */
};

extern const struct sl_protocol sl_protocol_resp;

#endif
