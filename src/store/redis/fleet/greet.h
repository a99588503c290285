/* greet.h -- the first words to a Redis: who we are, which database, and
 * whether anybody is there. */
#ifndef SL_GREET_H
#define SL_GREET_H

#include "wire/resp.h"

struct sl_redis_handshake {
    struct sl_str user, password; /* may be empty */
    unsigned database;
};

/* Append them. *ret_replies will come, none of which may be an error. */
SL_MUST_USE int
sl_redis_conn_handshake(struct sl_buf *out,
                        const struct sl_redis_handshake *greeting,
                        unsigned *ret_replies);

#endif
