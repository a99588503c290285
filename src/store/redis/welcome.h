/* welcome.h -- what a seat asks before all else, and now and then again: the
 * secret that all who share this Redis have, and the marker of its data. And
 * once, of all seats: whether it would throw keys away when it is full. */
#ifndef SL_WELCOME_H
#define SL_WELCOME_H

#include "store/redis/fleet/fleet.h"
#include "store/shared.h"

struct sl_welcome_options {
    struct sl_fleet *fleet;
    struct sl_loop *loop;
    struct sl_shared *shared;
    sl_ns every; /* 0: 5 s */
    const struct sl_alloc *alloc;
    void (*on_ready)(void *ctx); /* the secret is known; once */
    void (*on_changed)(void *ctx, const char *sentence);
    void (*on_reply)(void *ctx, struct sl_str reply); /* that is none */
    void (*on_warning)(void *ctx, const char *sentence);
    void *ctx;
};

struct sl_welcome;

/* The fleet is closed before it: then all that it has sent has ended. */
SL_MUST_USE int sl_welcome_open(const struct sl_welcome_options *options,
                                struct sl_welcome **ret);
void sl_welcome_close(struct sl_welcome *welcome); /* NULL is allowed */

/* A node has come up: ask now. */
void sl_welcome_go(struct sl_welcome *welcome);

#endif
