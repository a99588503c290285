/* fair.h -- a queue that is fair between those who stand in it for others.
 *
 * Whoever waits stands in the lane of his organisation, behind those of it who
 * came before. The lanes are served in turn, each as often in a row as its
 * weight says:
 *
 *     lane a (weight 2)   a1 a2 a3 a4 a5        turns: a1 a2 b1 c1 a3 a4 b2
 *     lane b (weight 1)   b1 b2                        a5
 *     lane c (weight 1)   c1
 *
 * So an organisation with a thousand waiting costs the others nothing but its
 * share of the turns.
 *
 * A pure structure: no clock, no lock, and memory for lanes only. Those who
 * wait are the caller's own and carry their places with them.
 *
 * Invariants. (test/prop/fair.c checks each by number.)
 *   (1) Within a lane, first come is first served.
 *   (2) While a lane is not empty, between two of its rows of turns every other
 *       lane has at most its weight of turns.
 *   (3) A lane that comes anew stands behind all others: it is served after
 *       each of them once, and no lane is served in between twice.
 *   (4) Leaving moves nobody else's turn backwards.
 *   (5) Adding, serving and leaving cost the same however many wait.
 */
#ifndef SL_FAIR_QUEUE_H
#define SL_FAIR_QUEUE_H

#include <sys/queue.h>

#include "base/alloc.h"
#include "base/hash.h"

struct sl_fair_tenant;

/* A place in the queue; part of whoever waits. */
struct sl_fair_entry {
    TAILQ_ENTRY(sl_fair_entry) link;
    struct sl_fair_tenant *lane; /* NULL: in no queue */
};

#define SL_FAIR_QUEUE_BUCKETS 64 /* lanes are found by these */

struct sl_fair_queue {
    const struct sl_alloc *alloc;
    TAILQ_HEAD(sl_fair_tenants, sl_fair_tenant)
    turns; /* the first is served next */
    LIST_HEAD(sl_fair_tenant_bucket, sl_fair_tenant) * buckets;
    unsigned bucket_count; /* a power of two */
    unsigned lanes;
    unsigned count; /* who wait */
};

/* `alloc` is borrowed. SLUICE_ENOMEM. */
SL_MUST_USE int sl_fair_queue_init(struct sl_fair_queue *fair,
                                   const struct sl_alloc *alloc);

/* Whoever is still in it is out of it. */
void sl_fair_queue_done(struct sl_fair_queue *fair);

/* Stand behind the others of `whose` lane, that has `weight` (at least 1) from
 * now on. SLUICE_ENOMEM. */
SL_MUST_USE int sl_fair_queue_add(struct sl_fair_queue *fair,
                                  struct sl_hash128 whose, unsigned weight,
                                  struct sl_fair_entry *place);

/* Whose turn it is, or NULL. */
struct sl_fair_entry *sl_fair_queue_first(const struct sl_fair_queue *fair);

/* The first was served: the turn passes on. */
void sl_fair_queue_serve(struct sl_fair_queue *fair);

/* Leave without having been served. */
void sl_fair_queue_leave(struct sl_fair_queue *fair,
                         struct sl_fair_entry *place);

/* How many turns would come before that of one who joined the lane now; at
 * most `count`. O(lanes). */
unsigned sl_fair_queue_ahead(const struct sl_fair_queue *fair,
                             struct sl_hash128 whose, unsigned weight);

#endif
