/* nodes.h -- the servers that a fleet knows, and which of them is meant. For
 * fleet.c and nodes.c.
 *
 * One server is one node, for good. Of a cluster, the map says which node has
 * which slot; of sentinels, one node is the master. The scout asks for both
 * when nothing is known yet, when a node is lost, and when one turns out not to
 * be what we took it for.
 */
#ifndef SL_NODES_H
#define SL_NODES_H

#include "store/redis/fleet/fleet.h"
#include "store/redis/fleet/scout.h"

#define SL_NODES_MOST 512

struct sl_node {
    struct sl_place place;
    struct sl_link *link;
    struct sl_nodes *nodes;
    unsigned number; /* its place in the list, from 1 */
    bool wanted;     /* the map has it */
    bool stale;      /* it is a replica: nothing is sent until we know more */
    sl_ns note;      /* the owner's; see sl_fleet_note() */
    sl_ns doubted;   /* steady: since when, and when last */
};

struct sl_nodes {
    const struct sl_fleet_options *options;
    struct sl_conns *conns;
    struct sl_scout *scout;              /* NULL: one server */
    struct sl_node *list[SL_NODES_MOST]; /* NULL: free */
    struct sl_node *master;              /* but for clusters */
    uint16_t *slots, *fresh; /* clusters: numbers by slot; the next map */
    const struct sl_place *asked;
    struct sl_buf question;
    bool known;
};

SL_MUST_USE int sl_nodes_open(struct sl_nodes *nodes,
                              const struct sl_fleet_options *options);
void sl_nodes_close(struct sl_nodes *nodes);

/* The node that has this slot, or NULL. */
static inline struct sl_node *sl_nodes_for(const struct sl_nodes *nodes,
                                           unsigned slot)
{
    unsigned number;

    if (!nodes->slots)
        return nodes->master;
    number = nodes->slots[slot % SL_CLUSTER_SLOTS];
    return number > 0 ? nodes->list[number - 1] : NULL;
}

/* The node that `from` has sent us to; the map is put right. Or NULL. */
struct sl_node *sl_nodes_meet(struct sl_nodes *nodes,
                              const struct sl_redirect *to,
                              const struct sl_node *from);

/* Send the scout, if there is one. */
void sl_nodes_ask(struct sl_nodes *nodes);

/* A node has said that it is a replica. False if it was called anew for that
 * within the last `rest`, and nothing more can be done. */
SL_MUST_USE bool sl_nodes_doubt(struct sl_nodes *nodes, struct sl_node *node,
                                sl_ns now, sl_ns rest);

/* Call those anew that are doubted and have nothing on its way any more. Not
 * from within a done(). */
void sl_nodes_renew(struct sl_nodes *nodes, sl_ns now, sl_ns rest);

/* Close those that nobody needs any more. Not from within a done(). */
void sl_nodes_tidy(struct sl_nodes *nodes, sl_ns now);

bool sl_nodes_are_up(const struct sl_nodes *nodes);
sl_ns sl_nodes_call_in(const struct sl_nodes *nodes);

#endif
