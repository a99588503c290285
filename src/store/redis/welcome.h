/* welcome.h -- what a seat asks before all else, and now and then again: the
 * secret that all who share this Redis have, and the marker of its data. And
 * once, of all seats: whether it would throw keys away when it is full. */
#ifndef SL_REDIS_IDENTITY_H
#define SL_REDIS_IDENTITY_H

#include "store/redis/fleet/fleet.h"
#include "store/remote.h"

struct sl_redis_identity_options {
    struct sl_redis_cluster *fleet;
    struct sl_loop *loop;
    struct sl_store_identity *shared;
    sl_ns every; /* 0: 5 s */
    const struct sl_alloc *alloc;
    void (*on_ready)(void *ctx); /* the secret is known; once */
    void (*on_changed)(void *ctx, const char *sentence);
    void (*on_reply)(void *ctx, struct sl_str reply); /* that is none */
    void (*on_warning)(void *ctx, const char *sentence);
    void *ctx;
};

struct sl_redis_identity;

/* The fleet is closed before it: then all that it has sent has ended. */
SL_MUST_USE int
sl_redis_identity_open(const struct sl_redis_identity_options *options,
                       struct sl_redis_identity **ret);
void sl_redis_identity_close(
    struct sl_redis_identity *welcome); /* NULL is allowed */

/* A node has come up: ask now. */
void sl_redis_identity_go(struct sl_redis_identity *welcome);

#endif
