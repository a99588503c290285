/* nodes.h -- the servers that a fleet knows, and which of them is meant. For
 * fleet.c and nodes.c.
 *
 * One server is one node, for good. Of a cluster, the map says which node has
 * which slot; of sentinels, one node is the master. The scout asks for both
 * when nothing is known yet, when a node is lost, and when one turns out not to
 * be what we took it for.
 */
#ifndef SL_REDIS_NODES_H
#define SL_REDIS_NODES_H

#include "store/redis/fleet/fleet.h"
#include "store/redis/fleet/scout.h"

#define SL_REDIS_NODES_MOST 512

struct sl_redis_node {
    struct sl_redis_addr place;
    struct sl_redis_conn *link;
    struct sl_redis_nodes *nodes;
    unsigned number; /* its place in the list, from 1 */
    bool wanted;     /* the map has it */
    bool stale;      /* it is a replica: nothing is sent until we know more */
    sl_ns note;      /* the owner's; see sl_redis_cluster_note() */
    sl_ns doubted;   /* steady: since when, and when last */
};

struct sl_redis_nodes {
    const struct sl_redis_cluster_options *options;
    struct sl_conns *conns;
    struct sl_redis_discovery *scout;                /* NULL: one server */
    struct sl_redis_node *list[SL_REDIS_NODES_MOST]; /* NULL: free */
    struct sl_redis_node *master;                    /* but for clusters */
    uint16_t *slots, *fresh; /* clusters: numbers by slot; the next map */
    const struct sl_redis_addr *asked;
    struct sl_buf question;
    bool known;
};

SL_MUST_USE int
sl_redis_nodes_open(struct sl_redis_nodes *nodes,
                    const struct sl_redis_cluster_options *options);
void sl_redis_nodes_close(struct sl_redis_nodes *nodes);

/* The node that has this slot, or NULL. */
static inline struct sl_redis_node *
sl_redis_nodes_for(const struct sl_redis_nodes *nodes, unsigned slot)
{
    unsigned number;

    if (!nodes->slots)
        return nodes->master;
    number = nodes->slots[slot % SL_CLUSTER_SLOTS];
    return number > 0 ? nodes->list[number - 1] : NULL;
}

/* The node that `from` has sent us to; the map is put right. Or NULL. */
struct sl_redis_node *
sl_redis_nodes_redirect(struct sl_redis_nodes *nodes,
                        const struct sl_redis_redirect *to,
                        const struct sl_redis_node *from);

/* Send the scout, if there is one. */
void sl_redis_nodes_ask(struct sl_redis_nodes *nodes);

/* A node has said that it is a replica. False if it was called anew for that
 * within the last `rest`, and nothing more can be done. */
SL_MUST_USE bool sl_redis_nodes_suspect(struct sl_redis_nodes *nodes,
                                        struct sl_redis_node *node, sl_ns now,
                                        sl_ns rest);

/* Call those anew that are doubted and have nothing on its way any more. Not
 * from within a done(). */
void sl_redis_nodes_reconnect(struct sl_redis_nodes *nodes, sl_ns now,
                              sl_ns rest);

/* Close those that nobody needs any more. Not from within a done(). */
void sl_redis_nodes_prune(struct sl_redis_nodes *nodes, sl_ns now);

bool sl_redis_nodes_are_up(const struct sl_redis_nodes *nodes);
sl_ns sl_redis_nodes_reconnect_in(const struct sl_redis_nodes *nodes);

#endif
