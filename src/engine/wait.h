/* wait.h -- who waits for a limit, and whose turn it is; in this process.
 *
 * A check that may wait and is denied stands in the queue of the limit's key
 * until something comes back: a hold ends, or time has passed. The first in
 * turn (fair.h) is asked again, and he alone; when he has passed the turn goes
 * on at once, as there may be more.
 *
 *                            +------- denied again -------+
 *                            v                            |
 *     join --> WAITING --> first in turn, and --> CALLED --> ASKED --> granted
 *                 |        something came back                 |
 *                 +-- its time is over, or he has gone --------+--> left
 *
 * Threads. Queues are shared by all and have one lock, which no decision takes
 * that neither waits nor ends a hold while others wait. A room is where those
 * of one thread wait: only that thread asks for them. Whoever calls somebody of
 * another thread puts him on that room's list and rings.
 *
 * Bounded. A limit has at most its `queue` waiting, over all of its keys, and
 * all limits together sl_queues_resize().
 */
#ifndef SL_ENGINE_WAIT_H
#define SL_ENGINE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/hash.h"

/* ---- a queue that is fair between those who stand in it for others.
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

/* Stand behind the others of `group` lane, that has `weight` (at least 1) from
 * now on. SLUICE_ENOMEM. */
SL_MUST_USE int sl_fair_queue_add(struct sl_fair_queue *fair,
                                  struct sl_hash128 group, unsigned weight,
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
                             struct sl_hash128 group, unsigned weight);

/* Nobody waits longer: a connection would not last. */
#define SL_WAIT_MOST (55 * SL_S)

/* How often the first asks again when nobody can say when it is worth it:
 * somebody else, in another process, may have given back. */
#define SL_WAIT_POLL SL_S

struct sl_queues;
struct sl_queue;
struct sl_wait_thread;

struct sl_waiter {
    struct sl_fair_entry place;     /* first */
    struct sl_queue *queue;         /* NULL: in none */
    struct sl_wait_thread *room;    /* of his thread */
    TAILQ_ENTRY(sl_waiter) calling; /* in room->called */
    bool called, asked, again;
    sl_ns since, until; /* of his wait */
    sl_ns next;         /* when the room looks at him */
    unsigned at;        /* in the room's heap */
    /* On his thread: it is his turn; his time is over (and he is in no queue
     * any more). */
    void (*on_turn)(struct sl_waiter *waiter, sl_ns now);
    void (*on_late)(struct sl_waiter *waiter, sl_ns now);
    void *ctx;
};

/* Zeros, but for the callbacks and ctx, are a waiter who does not wait. */

struct sl_wait_thread {
    struct sl_queues *queues;
    /* Have sl_wait_thread_serve() called soon on the room's thread; from any
     * thread, under the lock of the queues. False if that can't be. */
    bool (*ring)(struct sl_wait_thread *room);
    void *ctx;
    TAILQ_HEAD(, sl_waiter) called; /* under the lock */
    bool rung;                      /* likewise */
    struct sl_waiter **heap;        /* by `next`; his thread's */
    unsigned count, size;
};

SL_MUST_USE int sl_queues_open(const struct sl_alloc *alloc,
                               struct sl_queues **ret);

/* Nobody waits. NULL is allowed. */
void sl_queues_close(struct sl_queues *queues);

/* How many may wait at once: SL_WAIT_TIMER if nobody says so. Those who do
 * stay.
 */
#define SL_WAIT_TIMER 4096
void sl_queues_resize(struct sl_queues *queues, unsigned most);

void sl_wait_thread_init(struct sl_wait_thread *room, struct sl_queues *queues,
                         bool (*bell)(struct sl_wait_thread *room), void *ctx);

/* Those who wait are late: on_late is called for each. */
void sl_wait_thread_done(struct sl_wait_thread *room);

/* Call those whose turn it is, and those whose time is over. Returns when it
 * wants to be called next; SL_NS_NONE: when it rings. */
sl_ns sl_wait_thread_serve(struct sl_wait_thread *room, sl_ns now);

/* Does anybody wait? One load. */
bool sl_queues_any(const struct sl_queues *queues);

/* What a queue is for. */
struct sl_queue_of {
    struct sl_hash128 key; /* of the limit's name and key */
    uint64_t limit;        /* of its name */
    unsigned most;         /* who may wait for the limit */
};

/* What one of `group` would find there. */
struct sl_queue_view {
    unsigned waiting; /* for the key; 0: there is no such queue */
    unsigned ahead;   /* of him */
    sl_ns pace;       /* from one to the next, as seen so far; SL_NS_NONE */
    sl_ns due;        /* when the first may pass; SL_NS_NONE: nobody knows */
    sl_ns since;      /* when the last one passed, or the queue began */
};

void sl_queue_look(struct sl_queues *queues, const struct sl_queue_of *of,
                   struct sl_hash128 group, unsigned weight,
                   struct sl_queue_view *ret);

/* Wait; `waiter` has room, since and until. If he is the first he is called at
 * `due` (SL_NS_NONE: once in a while), and with `call` at once. SLUICE_EFULL,
 * SLUICE_ENOMEM: he does not wait. */
SL_MUST_USE int sl_queue_join(struct sl_queues *queues,
                              const struct sl_queue_of *of,
                              struct sl_hash128 group, unsigned weight,
                              sl_ns now, sl_ns due, bool call,
                              struct sl_waiter *waiter);

/* Is it this queue that he is in? */
bool sl_queue_is(const struct sl_waiter *waiter, const struct sl_queue_of *of);

/* He was asked and denied: he stays, and is called at `due`. */
void sl_queue_stay(struct sl_waiter *waiter, sl_ns now, sl_ns due);

/* He leaves, `served` or not; the next is called. */
void sl_queue_leave(struct sl_waiter *waiter, sl_ns now, bool served);

/* Something came back to the limit: the first of each of its keys is called.
 * O(keys that are waited for). */
void sl_queues_freed(struct sl_queues *queues, uint64_t limit);

/* The numbers for metrics. Any thread. */
unsigned sl_queues_count(const struct sl_queues *queues);

/* ---- those who wait in a room, by when it looks at them: a heap in an
 * array, the earliest first. */

/* Room for one more. SLUICE_ENOMEM. */
SL_MUST_USE int sl_heap_reserve(struct sl_wait_thread *room,
                                const struct sl_alloc *alloc);

void sl_heap_add(struct sl_wait_thread *room, struct sl_waiter *waiter);
void sl_heap_remove(struct sl_wait_thread *room, struct sl_waiter *waiter);

/* His `next` has changed. */
void sl_heap_moved(struct sl_wait_thread *room, struct sl_waiter *waiter);

void sl_heap_done(struct sl_wait_thread *room, const struct sl_alloc *alloc);

#endif
