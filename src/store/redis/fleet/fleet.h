/* fleet.h -- all connections of one loop to a store in Redis: one server, the
 * masters of a cluster, or the master that sentinels watch.
 *
 * A voyage is a command that finds its way: to the node that has its slot, from
 * there to where it is sent on (MOVED, ASK), and once more when it is certain
 * that nothing has happened (TRYAGAIN, CLUSTERDOWN, READONLY). It belongs to
 * whoever sent it, and the fleet borrows it until done().
 *
 *     send --> waiting --> at a node --> reply -----------------> done
 *                 ^            ^           |
 *                 |            +-----------+ MOVED, ASK: at most HOPS times
 *                 +------------------------+ TRYAGAIN, CLUSTERDOWN, READONLY
 *
 * It waits where the map is not known yet, or the node has turned out to be a
 * replica; whoever sent it recalls it when it has waited for too long.
 */
#ifndef SL_FLEET_H
#define SL_FLEET_H

#include <stdatomic.h>

#include "store/redis/fleet/link.h"
#include "store/redis/fleet/slots.h"
#include "store/redis/fleet/trouble.h"
#include "store/redis/where.h"

struct sl_node;

struct sl_voyage {
    struct sl_flight flight;
    TAILQ_ENTRY(sl_voyage) waits;
    struct sl_fleet *fleet;
    struct sl_node *node; /* it is there; NULL: it waits */
    unsigned slot;        /* of a cluster: set by whoever sends it */
    unsigned hops, tries;
    bool retried; /* READONLY, once */
    sl_ns due;    /* steady: it waits until then */
    void (*done)(struct sl_voyage *voyage, enum sl_landing landing,
                 struct sl_str reply);
};

struct sl_fleet_options {
    const struct sl_redis_where *where; /* outlives it */
    struct sl_loop *loop;
    struct sl_tls *tls; /* or NULL */
    unsigned most;      /* voyages; more are grounded */
    const struct sl_alloc *alloc;
    /* A node has come up, or gone down and why. Nothing is closed in there. */
    void (*on_change)(void *ctx, bool up, const char *why);
    void *ctx;
};

struct sl_fleet;

SL_MUST_USE int sl_fleet_open(const struct sl_fleet_options *options,
                              struct sl_fleet **ret);

/* All voyages end. NULL is allowed. Not from within a done(). */
void sl_fleet_close(struct sl_fleet *fleet);

/* Send voyage->flight.command. done() may be called before this returns. */
void sl_fleet_send(struct sl_fleet *fleet, struct sl_voyage *voyage);

/* From within its done(): once more to the same node, perhaps with another
 * command. */
void sl_fleet_again(struct sl_voyage *voyage);

/* Take a voyage back that is on the ground; its done() is not called. False if
 * it is on its way. */
SL_MUST_USE bool sl_fleet_recall(struct sl_voyage *voyage);

/* May voyages to this slot be sent, or at least wait? */
bool sl_fleet_takes(const struct sl_fleet *fleet, unsigned slot);

bool sl_fleet_is_cluster(const struct sl_fleet *fleet);

/* Is every node up that is needed? */
bool sl_fleet_is_up(const struct sl_fleet *fleet);

/* Until somebody who is down is called again; 0: nobody is. */
sl_ns sl_fleet_calls_in(const struct sl_fleet *fleet);

/* From within its done(), for whoever sends: a time that belongs to its node,
 * and is 0 at first. */
sl_ns *sl_fleet_note(const struct sl_voyage *voyage);

/* Counted by one thread, read by others: how often voyages were sent on, and
 * how often that was too often. */
struct sl_fleet_counts {
    _Atomic uint64_t redirected, storms;
};
const struct sl_fleet_counts *sl_fleet_counts(const struct sl_fleet *fleet);

#endif
