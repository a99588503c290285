/* scout.h -- asks around: one question to one host after the other, until one
 * of them knows.
 *
 * For the map of a cluster and the master that sentinels watch. It has a
 * connection of its own while it asks, and none otherwise. It is out once at a
 * time, and rests a while when it has come back: however many find that the
 * map is wrong, it is asked for some times a second and no more.
 */
#ifndef SL_SCOUT_H
#define SL_SCOUT_H

#include "net/conn.h"
#include "store/redis/fleet/slots.h"

struct sl_scout_options {
    struct sl_conns *conns;
    struct sl_loop *loop;
    struct sl_tls *tls; /* or NULL */
    struct sl_str user, password;
    struct sl_str command;
    const struct sl_alloc *alloc;
    /* Whom to ask in this turn; turns count up. False: there is nobody. */
    bool (*host)(void *ctx, unsigned turn, struct sl_place *ret);
    /* What he says. True if that is what we wanted to know. */
    bool (*on_reply)(void *ctx, const struct sl_place *from,
                     struct sl_str reply);
    void *ctx;
};

struct sl_scout;

SL_MUST_USE int sl_scout_open(const struct sl_scout_options *options,
                              struct sl_scout **ret);
void sl_scout_close(struct sl_scout *scout); /* NULL is allowed */

/* Go, if it is not out already. */
void sl_scout_go(struct sl_scout *scout);

#endif
