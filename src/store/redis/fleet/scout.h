/* scout.h -- asks around: one question to one host after the other, until one
 * of them knows.
 *
 * For the map of a cluster and the master that sentinels watch. It has a
 * connection of its own while it asks, and none otherwise. It is out once at a
 * time, and rests a while when it has come back: however many find that the
 * map is wrong, it is asked for some times a second and no more.
 */
#ifndef SL_REDIS_DISCOVERY_H
#define SL_REDIS_DISCOVERY_H

#include "net/conn.h"
#include "store/redis/fleet/slots.h"

struct sl_redis_discovery_options {
    struct sl_conns *conns;
    struct sl_loop *loop;
    struct sl_tls *tls; /* or NULL */
    struct sl_str user, password;
    struct sl_str command;
    const struct sl_alloc *alloc;
    /* Whom to ask in this turn; turns count up. False: there is nobody. */
    bool (*host)(void *ctx, unsigned turn, struct sl_redis_addr *ret);
    /* What he says. True if that is what we wanted to know. */
    bool (*on_reply)(void *ctx, const struct sl_redis_addr *from,
                     struct sl_str reply);
    void *ctx;
};

struct sl_redis_discovery;

SL_MUST_USE int
sl_redis_discovery_open(const struct sl_redis_discovery_options *options,
                        struct sl_redis_discovery **ret);
void sl_redis_discovery_close(
    struct sl_redis_discovery *scout); /* NULL is allowed */

/* Go, if it is not out already. */
void sl_redis_discovery_go(struct sl_redis_discovery *scout);

#endif
