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
#ifndef SL_REDIS_CLUSTER_H
#define SL_REDIS_CLUSTER_H

#include <stdatomic.h>

#include "store/redis/fleet/link.h"
#include "store/redis/fleet/slots.h"
#include "store/redis/fleet/trouble.h"
#include "store/redis/where.h"

struct sl_redis_node;

struct sl_redis_cmd {
    struct sl_redis_wire_cmd flight;
    TAILQ_ENTRY(sl_redis_cmd) waits;
    struct sl_redis_cluster *fleet;
    struct sl_redis_node *node; /* it is there; NULL: it waits */
    unsigned slot;              /* of a cluster: set by whoever sends it */
    unsigned hops, tries;
    bool retried; /* READONLY, once */
    sl_ns due;    /* steady: it waits until then */
    void (*done)(struct sl_redis_cmd *voyage, enum sl_redis_result landing,
                 struct sl_str reply);
};

struct sl_redis_cluster_options {
    const struct sl_redis_url *where; /* outlives it */
    struct sl_loop *loop;
    struct sl_tls *tls; /* or NULL */
    unsigned most;      /* voyages; more are grounded */
    const struct sl_alloc *alloc;
    /* A node has come up, or gone down and why. Nothing is closed in there. */
    void (*on_change)(void *ctx, bool up, const char *why);
    void *ctx;
};

struct sl_redis_cluster;

SL_MUST_USE int
sl_redis_cluster_open(const struct sl_redis_cluster_options *options,
                      struct sl_redis_cluster **ret);

/* All voyages end. NULL is allowed. Not from within a done(). */
void sl_redis_cluster_close(struct sl_redis_cluster *fleet);

/* Send voyage->flight.command. done() may be called before this returns. */
void sl_redis_cluster_send(struct sl_redis_cluster *fleet,
                           struct sl_redis_cmd *voyage);

/* From within its done(): once more to the same node, perhaps with another
 * command. */
void sl_redis_cluster_again(struct sl_redis_cmd *voyage);

/* Take a voyage back that is on the ground; its done() is not called. False if
 * it is on its way. */
SL_MUST_USE bool sl_redis_cluster_cancel(struct sl_redis_cmd *voyage);

/* May voyages to this slot be sent, or at least wait? */
bool sl_redis_cluster_is_accepting(const struct sl_redis_cluster *fleet,
                                   unsigned slot);

bool sl_redis_cluster_is_cluster(const struct sl_redis_cluster *fleet);

/* Is every node up that is needed? */
bool sl_redis_cluster_is_up(const struct sl_redis_cluster *fleet);

/* Until somebody who is down is called again; 0: nobody is. */
sl_ns sl_redis_cluster_reconnect_in(const struct sl_redis_cluster *fleet);

/* From within its done(), for whoever sends: a time that belongs to its node,
 * and is 0 at first. */
sl_ns *sl_redis_cluster_note(const struct sl_redis_cmd *voyage);

/* Counted by one thread, read by others: how often voyages were sent on, and
 * how often that was too often. */
struct sl_redis_cluster_counts {
    _Atomic uint64_t redirected, storms;
};
const struct sl_redis_cluster_counts *
sl_redis_cluster_counts(const struct sl_redis_cluster *fleet);

#endif
