/* wait.h -- wait queues of this process.
 *
 * A denied check that may wait joins the queue of the limit's key until units
 * come back: a hold ends, or time passes. Only the first waiter of a queue
 * retries. When it passes, the next one retries at once.
 *
 *                             +-------- denied again --------+
 *                             v                              |
 *     join --> WAITING --> first, and     --> NOTIFIED --> RETRYING --> served
 *                 |        units came back                   |
 *                 +-- timeout, or the client has gone -------+--> left
 *
 * Threads. All threads share the queues, which have one lock. Only waiting
 * checks and the ends of holds that are waited for take it. The waiters of a
 * thread retry on that thread: other threads notify them through a list of
 * their sl_wait_thread, and wake it.
 *
 * Bounds. A limit has at most its `queue` of waiters over all of its keys, and
 * all limits together at most sl_queues_resize().
 */
#ifndef SL_ENGINE_WAIT_H
#define SL_ENGINE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/arena.h"
#include "base/hash.h"

/* ---- a queue that is fair between tenants.
 *
 * Waiters of an organisation, the tenant, are served in their order. Tenants
 * are served in turn, each as often in a row as its weight:
 *
 *     tenant a (weight 2)   a1 a2 a3 a4 a5      turns: a1 a2 b1 c1 a3 a4 b2 a5
 *     tenant b (weight 1)   b1 b2
 *     tenant c (weight 1)   c1
 *
 * No clock and no lock; memory for tenants only. Entries belong to the caller.
 *
 * Invariants. (test/prop/fair.c checks each by number.)
 *   (1) A tenant's entries are served in the order in which they came.
 *   (2) While a tenant has entries, between two of its turns every other
 *       tenant is served at most as often as its weight.
 *   (3) A new tenant is behind all others: each of them has one turn before.
 *   (4) Leaving moves no other entry backwards.
 *   (5) Adding, serving and leaving take constant time.
 */

struct sl_fair_tenant;

struct sl_fair_entry {
    TAILQ_ENTRY(sl_fair_entry) link;
    struct sl_fair_tenant *tenant; /* NULL: in no queue */
};

struct sl_fair_queue {
    const struct sl_alloc *alloc;
    TAILQ_HEAD(sl_fair_tenants, sl_fair_tenant) turns; /* the first is next */
    LIST_HEAD(sl_fair_tenant_bucket, sl_fair_tenant) * buckets;
    unsigned bucket_count; /* a power of two */
    unsigned tenants;
    unsigned count; /* entries */
};

/* `alloc` is borrowed. SLUICE_ENOMEM. */
SL_MUST_USE int sl_fair_queue_init(struct sl_fair_queue *fair,
                                   const struct sl_alloc *alloc);

/* Removes all entries. */
void sl_fair_queue_done(struct sl_fair_queue *fair);

/* Adds an entry of the tenant `group`, whose weight is `weight` (at least 1)
 * from now on. SLUICE_ENOMEM. */
SL_MUST_USE int sl_fair_queue_add(struct sl_fair_queue *fair,
                                  struct sl_hash128 group, unsigned weight,
                                  struct sl_fair_entry *entry);

/* The next entry, or NULL. */
struct sl_fair_entry *sl_fair_queue_first(const struct sl_fair_queue *fair);

/* Removes the first entry, which was served. */
void sl_fair_queue_serve(struct sl_fair_queue *fair);

/* Removes an entry that was not served. */
void sl_fair_queue_leave(struct sl_fair_queue *fair,
                         struct sl_fair_entry *entry);

/* How many entries would be before a new one of the tenant. O(tenants). */
unsigned sl_fair_queue_ahead(const struct sl_fair_queue *fair,
                             struct sl_hash128 group, unsigned weight);

/* ---- waiters ---- */

/* The longest wait: connections would not last longer. */
#define SL_WAIT_MOST (55 * SL_S)

/* How often the first waiter retries when it is not known when units come
 * back: another process may have returned some. */
#define SL_WAIT_POLL SL_S

/* Waiters of the process, unless sl_queues_resize() sets another number. */
#define SL_WAITERS 4096

struct sl_queues;
struct sl_queue;
struct sl_wait_thread;

/* Zeros, except the callbacks and ctx: it does not wait. */
struct sl_waiter {
    struct sl_fair_entry entry;      /* first */
    struct sl_queue *queue;          /* NULL: none */
    struct sl_wait_thread *thread;   /* its own */
    TAILQ_ENTRY(sl_waiter) notified; /* in thread->notified */
    bool is_notified, retrying, notify_again;
    sl_ns since, until; /* of the wait */
    sl_ns next;         /* when the thread looks at it */
    unsigned at;        /* in the thread's heap */
    /* On its thread: retry now; the wait has timed out, and it has left. */
    void (*on_turn)(struct sl_waiter *waiter, sl_ns now);
    void (*on_late)(struct sl_waiter *waiter, sl_ns now);
    void *ctx;
};

struct sl_wait_thread {
    struct sl_queues *queues;
    /* Has sl_wait_thread_serve() called soon on this thread. Any thread, under
     * the lock of the queues. False on failure. */
    bool (*wake)(struct sl_wait_thread *thread);
    void *ctx;
    TAILQ_HEAD(, sl_waiter) notified; /* under the lock */
    bool woken;                       /* likewise */
    struct sl_waiter **heap;          /* by `next`, the earliest first */
    unsigned count, size;
};

SL_MUST_USE int sl_queues_open(const struct sl_alloc *alloc,
                               struct sl_queues **ret);

/* Without waiters. NULL is allowed. */
void sl_queues_close(struct sl_queues *queues);

/* Sets how many may wait at once. Present waiters stay. */
void sl_queues_resize(struct sl_queues *queues, unsigned most);

/* How many wait. Any thread; one load. */
unsigned sl_queues_count(const struct sl_queues *queues);

void sl_wait_thread_init(struct sl_wait_thread *thread,
                         struct sl_queues *queues,
                         bool (*wake)(struct sl_wait_thread *thread),
                         void *ctx);

/* Calls on_late of each waiter. */
void sl_wait_thread_done(struct sl_wait_thread *thread);

/* Calls the waiters whose turn it is or whose time is over. Returns when to
 * call again; SL_NS_NONE: when the thread is woken. */
sl_ns sl_wait_thread_serve(struct sl_wait_thread *thread, sl_ns now);

/* What a queue is for, and the tenant of the waiter. */
struct sl_queue_of {
    struct sl_hash128 key; /* of the limit's name and key */
    uint64_t limit;        /* of its name */
    unsigned most;         /* waiters of the limit */
    struct sl_hash128 group;
    unsigned weight;
};

struct sl_queue_view {
    unsigned waiting; /* for the key; 0: there is no such queue */
    unsigned ahead;   /* of a new waiter */
    sl_ns pace;       /* from one to the next, lately; SL_NS_NONE: unknown */
    sl_ns due;        /* when the first may pass; SL_NS_NONE: unknown */
    sl_ns since;      /* when the last one passed, or the queue began */
};

void sl_queue_look(struct sl_queues *queues, const struct sl_queue_of *of,
                   struct sl_queue_view *ret);

/* Joins a queue; `waiter` has thread, since and until. The first waiter
 * retries at `due` (SL_NS_NONE: once in a while), or at once if `retry`.
 * SLUICE_EFULL or SLUICE_ENOMEM: it does not wait. */
SL_MUST_USE int sl_queue_join(struct sl_queues *queues,
                              const struct sl_queue_of *of, sl_ns now,
                              sl_ns due, bool retry, struct sl_waiter *waiter);

/* The waiter was denied again: it stays and retries at `due`. False if its
 * queue is another than `of`. */
bool sl_queue_stay(struct sl_waiter *waiter, const struct sl_queue_of *of,
                   sl_ns now, sl_ns due);

/* Leaves the queue, if the waiter is in one. The next one is notified. */
void sl_queue_leave(struct sl_waiter *waiter, sl_ns now, bool served);

/* Units came back to the limit: notifies the first waiter of each of its keys.
 * O(keys with waiters). */
void sl_queues_freed(struct sl_queues *queues, uint64_t limit);

#endif
