/* wait.c -- wait queues of this process. */
#include "engine/wait.h"

#include <string.h>

#include "base/arith.h"

/* ---- fair queue ---- */

#define FIRST_BUCKETS 64

struct sl_fair_tenant {
    TAILQ_ENTRY(sl_fair_tenant) turn;
    LIST_ENTRY(sl_fair_tenant) same; /* bucket */
    struct sl_hash128 group;
    TAILQ_HEAD(, sl_fair_entry) row;
    unsigned count;
    unsigned weight;
    unsigned served; /* in this turn; < weight */
};

int sl_fair_queue_init(struct sl_fair_queue *fair, const struct sl_alloc *alloc)
{
    size_t size = FIRST_BUCKETS * sizeof(fair->buckets[0]);

    *fair =
        (struct sl_fair_queue){.alloc = alloc, .bucket_count = FIRST_BUCKETS};
    TAILQ_INIT(&fair->turns);
    fair->buckets = sl_alloc_new(alloc, size);
    if (!fair->buckets)
        return SLUICE_ENOMEM;
    memset(fair->buckets, 0, size);
    return 0;
}

static struct sl_fair_tenant_bucket *bucket_of(const struct sl_fair_queue *fair,
                                               struct sl_hash128 group)
{
    return &fair->buckets[group.lo & (fair->bucket_count - 1)];
}

static struct sl_fair_tenant *find_tenant(const struct sl_fair_queue *fair,
                                          struct sl_hash128 group)
{
    struct sl_fair_tenant *tenant;

    LIST_FOREACH (tenant, bucket_of(fair, group), same)
        if (sl_hash128_eq(tenant->group, group))
            return tenant;
    return NULL;
}

/* Doubles the buckets when there are as many tenants. Without memory chains
 * grow longer. */
static void spread(struct sl_fair_queue *fair)
{
    unsigned count = 2 * fair->bucket_count;
    struct sl_fair_tenant_bucket *buckets, *old = fair->buckets;
    struct sl_fair_tenant *tenant;

    if (fair->tenants < fair->bucket_count)
        return;
    buckets = sl_alloc_new(fair->alloc, count * sizeof(*buckets));
    if (!buckets)
        return;
    memset(buckets, 0, count * sizeof(*buckets));
    sl_alloc_free(fair->alloc, old, fair->bucket_count * sizeof(*old));
    fair->buckets = buckets;
    fair->bucket_count = count;
    TAILQ_FOREACH (tenant, &fair->turns, turn)
        LIST_INSERT_HEAD(bucket_of(fair, tenant->group), tenant, same);
}

static struct sl_fair_tenant *new_tenant(struct sl_fair_queue *fair,
                                         struct sl_hash128 group)
{
    struct sl_fair_tenant *tenant = sl_alloc_new(fair->alloc, sizeof(*tenant));

    if (!tenant)
        return NULL;
    *tenant = (struct sl_fair_tenant){.group = group, .weight = 1};
    TAILQ_INIT(&tenant->row);
    spread(fair);
    LIST_INSERT_HEAD(bucket_of(fair, group), tenant, same);
    TAILQ_INSERT_TAIL(&fair->turns, tenant, turn); /* (3) */
    fair->tenants++;
    return tenant;
}

static void free_tenant(struct sl_fair_queue *fair,
                        struct sl_fair_tenant *tenant)
{
    TAILQ_REMOVE(&fair->turns, tenant, turn);
    LIST_REMOVE(tenant, same);
    fair->tenants--;
    sl_alloc_free(fair->alloc, tenant, sizeof(*tenant));
}

void sl_fair_queue_done(struct sl_fair_queue *fair)
{
    struct sl_fair_entry *entry;

    while ((entry = sl_fair_queue_first(fair)) != NULL)
        sl_fair_queue_leave(fair, entry);
    sl_alloc_free(fair->alloc, fair->buckets,
                  fair->bucket_count * sizeof(fair->buckets[0]));
    fair->buckets = NULL;
}

int sl_fair_queue_add(struct sl_fair_queue *fair, struct sl_hash128 group,
                      unsigned weight, struct sl_fair_entry *entry)
{
    struct sl_fair_tenant *tenant = find_tenant(fair, group);

    if (!tenant)
        tenant = new_tenant(fair, group);
    if (!tenant)
        return SLUICE_ENOMEM;
    tenant->weight = weight > 0 ? weight : 1;
    if (tenant->served >= tenant->weight)
        tenant->served = tenant->weight - 1;
    entry->tenant = tenant;
    TAILQ_INSERT_TAIL(&tenant->row, entry, link); /* (1) */
    tenant->count++;
    fair->count++;
    return 0;
}

struct sl_fair_entry *sl_fair_queue_first(const struct sl_fair_queue *fair)
{
    const struct sl_fair_tenant *tenant = TAILQ_FIRST(&fair->turns);

    return tenant ? TAILQ_FIRST(&tenant->row) : NULL;
}

/* A tenant goes with its last entry. */
static void remove_entry(struct sl_fair_queue *fair,
                         struct sl_fair_entry *entry)
{
    struct sl_fair_tenant *tenant = entry->tenant;

    TAILQ_REMOVE(&tenant->row, entry, link);
    entry->tenant = NULL;
    tenant->count--;
    fair->count--;
    if (tenant->count == 0)
        free_tenant(fair, tenant);
}

void sl_fair_queue_serve(struct sl_fair_queue *fair)
{
    struct sl_fair_tenant *tenant = TAILQ_FIRST(&fair->turns);

    if (!tenant)
        return;
    if (++tenant->served >= tenant->weight) { /* (2) */
        tenant->served = 0;
        TAILQ_REMOVE(&fair->turns, tenant, turn);
        TAILQ_INSERT_TAIL(&fair->turns, tenant, turn);
    }
    remove_entry(fair, TAILQ_FIRST(&tenant->row));
}

void sl_fair_queue_leave(struct sl_fair_queue *fair,
                         struct sl_fair_entry *entry)
{
    if (entry->tenant)
        remove_entry(fair, entry); /* (4) */
}

unsigned sl_fair_queue_ahead(const struct sl_fair_queue *fair,
                             struct sl_hash128 group, unsigned weight)
{
    const struct sl_fair_tenant *own = find_tenant(fair, group), *tenant;
    uint64_t before = own ? own->count : 0;
    uint64_t rounds, ahead = before;

    if (weight == 0)
        weight = 1;
    /* Turns of each tenant before the new entry's own. */
    rounds = before / weight + 1;
    TAILQ_FOREACH (tenant, &fair->turns, turn) {
        uint64_t turns = rounds * tenant->weight;

        if (tenant != own)
            ahead += turns < tenant->count ? turns : tenant->count;
    }
    return ahead < fair->count ? (unsigned)ahead : fair->count;
}

/* ---- the queues of a process ---- */

#define BUCKETS 1024

/* A new reading counts for an eighth of the pace. */
#define PACE_SHIFT 3

struct limit {
    LIST_ENTRY(limit) link;
    LIST_HEAD(, sl_queue) queues;
    uint64_t name;
    unsigned count; /* waiters of all keys */
};

struct sl_queue {
    LIST_ENTRY(sl_queue) same; /* bucket */
    LIST_ENTRY(sl_queue) of;   /* the limit's */
    struct sl_queues *queues;
    struct limit *limit;
    struct sl_hash128 key;
    struct sl_fair_queue fair;
    sl_ns served_at; /* the last waiter; or when the queue began */
    sl_ns pace;      /* SL_NS_NONE: no waiter was served yet */
    sl_ns due;       /* when the first may pass; SL_NS_NONE: unknown */
};

struct sl_queues {
    pthread_mutex_t lock;
    const struct sl_alloc *alloc;
    LIST_HEAD(, limit) limits;
    LIST_HEAD(, sl_queue) buckets[BUCKETS];
    _Atomic unsigned count;
    _Atomic unsigned most;
};

int sl_queues_open(const struct sl_alloc *alloc, struct sl_queues **ret)
{
    struct sl_queues *queues = sl_alloc_new(alloc, sizeof(*queues));

    if (!queues)
        return SLUICE_ENOMEM;
    memset(queues, 0, sizeof(*queues));
    queues->alloc = alloc;
    queues->most = SL_WAITERS;
    pthread_mutex_init(&queues->lock, NULL);
    *ret = queues;
    return 0;
}

void sl_queues_close(struct sl_queues *queues)
{
    if (!queues)
        return;
    pthread_mutex_destroy(&queues->lock);
    sl_alloc_free(queues->alloc, queues, sizeof(*queues));
}

void sl_queues_resize(struct sl_queues *queues, unsigned most)
{
    atomic_store_explicit(&queues->most, most, memory_order_relaxed);
}

unsigned sl_queues_count(const struct sl_queues *queues)
{
    return atomic_load_explicit(&queues->count, memory_order_relaxed);
}

/* ---- finding; under the lock ---- */

static struct sl_queue *find(const struct sl_queues *queues,
                             struct sl_hash128 key)
{
    struct sl_queue *q;

    LIST_FOREACH (q, &queues->buckets[key.lo % BUCKETS], same)
        if (sl_hash128_eq(q->key, key))
            return q;
    return NULL;
}

static struct limit *find_limit(const struct sl_queues *queues, uint64_t name)
{
    struct limit *limit;

    LIST_FOREACH (limit, &queues->limits, link)
        if (limit->name == name)
            return limit;
    return NULL;
}

static struct limit *get_limit(struct sl_queues *queues, uint64_t name)
{
    struct limit *limit = find_limit(queues, name);

    if (limit)
        return limit;
    limit = sl_alloc_new(queues->alloc, sizeof(*limit));
    if (!limit)
        return NULL;
    *limit = (struct limit){.name = name};
    LIST_INSERT_HEAD(&queues->limits, limit, link);
    return limit;
}

static void drop_limit(struct sl_queues *queues, struct limit *limit)
{
    if (!LIST_EMPTY(&limit->queues))
        return;
    LIST_REMOVE(limit, link);
    sl_alloc_free(queues->alloc, limit, sizeof(*limit));
}

static struct sl_queue *new_queue(struct sl_queues *queues, struct limit *limit,
                                  struct sl_hash128 key, sl_ns now)
{
    struct sl_queue *q = sl_alloc_new(queues->alloc, sizeof(*q));

    if (!q)
        return NULL;
    *q = (struct sl_queue){.queues = queues,
                           .limit = limit,
                           .key = key,
                           .served_at = now,
                           .pace = SL_NS_NONE,
                           .due = SL_NS_NONE};
    if (sl_fair_queue_init(&q->fair, queues->alloc)) {
        sl_alloc_free(queues->alloc, q, sizeof(*q));
        return NULL;
    }
    LIST_INSERT_HEAD(&queues->buckets[key.lo % BUCKETS], q, same);
    LIST_INSERT_HEAD(&limit->queues, q, of);
    return q;
}

/* Frees an empty queue, and its limit if that was the last one. */
static void tidy(struct sl_queue *q)
{
    struct sl_queues *queues = q->queues;
    struct limit *limit = q->limit;

    if (q->fair.count > 0)
        return;
    sl_fair_queue_done(&q->fair);
    LIST_REMOVE(q, same);
    LIST_REMOVE(q, of);
    sl_alloc_free(queues->alloc, q, sizeof(*q));
    drop_limit(queues, limit);
}

/* ---- notifying; under the lock ---- */

static struct sl_waiter *first_of(const struct sl_queue *q)
{
    return (struct sl_waiter *)sl_fair_queue_first(&q->fair);
}

static void wake(struct sl_wait_thread *thread)
{
    if (!thread->woken)
        thread->woken = thread->wake(thread);
}

static void notify_first(struct sl_queue *q)
{
    struct sl_waiter *w = first_of(q);

    if (!w || w->is_notified)
        return;
    if (w->retrying) {
        w->notify_again = true;
        return;
    }
    w->is_notified = true;
    TAILQ_INSERT_TAIL(&w->thread->notified, w, notified);
    wake(w->thread);
}

static void clear_notified(struct sl_waiter *w)
{
    if (w->is_notified)
        TAILQ_REMOVE(&w->thread->notified, w, notified);
    w->is_notified = w->notify_again = false;
}

void sl_queues_freed(struct sl_queues *queues, uint64_t limit)
{
    struct limit *found;
    struct sl_queue *q;

    if (sl_queues_count(queues) == 0)
        return;
    pthread_mutex_lock(&queues->lock);
    found = find_limit(queues, limit);
    if (found)
        LIST_FOREACH (q, &found->queues, of)
            notify_first(q);
    pthread_mutex_unlock(&queues->lock);
}

/* ---- the waiters of a thread, by `next`: a heap in an array ---- */

#define FIRST_SIZE 16

/* Makes room for one more. */
static int heap_reserve(struct sl_wait_thread *thread,
                        const struct sl_alloc *alloc)
{
    unsigned size = thread->size ? 2 * thread->size : FIRST_SIZE;
    struct sl_waiter **heap;

    if (thread->count < thread->size)
        return 0;
    heap = alloc->resize(alloc->ctx, thread->heap,
                         thread->size * sizeof(struct sl_waiter *),
                         size * sizeof(struct sl_waiter *));
    if (!heap)
        return SLUICE_ENOMEM;
    thread->heap = heap;
    thread->size = size;
    return 0;
}

static void put(struct sl_wait_thread *thread, unsigned at, struct sl_waiter *w)
{
    thread->heap[at] = w;
    w->at = at;
}

/* Moves a waiter to its place after `next` has changed. */
static void heap_move(struct sl_wait_thread *thread, struct sl_waiter *w)
{
    struct sl_waiter **heap = thread->heap;
    unsigned at = w->at;

    while (at > 0 && heap[(at - 1) / 2]->next > w->next) {
        put(thread, at, heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        unsigned child = 2 * at + 1;

        if (child + 1 < thread->count &&
            heap[child + 1]->next < heap[child]->next)
            child++;
        if (child >= thread->count || heap[child]->next >= w->next)
            break;
        put(thread, at, heap[child]);
        at = child;
    }
    put(thread, at, w);
}

static void heap_remove(struct sl_wait_thread *thread, struct sl_waiter *w)
{
    struct sl_waiter *last = thread->heap[--thread->count];

    if (last == w)
        return;
    put(thread, w->at, last);
    heap_move(thread, last);
}

/* Sets when the thread looks at a waiter: at the end of the wait, or when it
 * may retry. The thread is woken if that is earlier than it expects. */
static void schedule(struct sl_waiter *w, bool first, sl_ns now, sl_ns due)
{
    sl_ns retry = due >= 0 ? due : sl_ns_add_sat(now, SL_WAIT_POLL);

    w->next = first && retry < w->until ? retry : w->until;
    heap_move(w->thread, w);
    if (w->thread->heap[0] != w)
        return;
    pthread_mutex_lock(&w->thread->queues->lock);
    wake(w->thread);
    pthread_mutex_unlock(&w->thread->queues->lock);
}

/* ---- joining and leaving ---- */

void sl_queue_look(struct sl_queues *queues, const struct sl_queue_of *of,
                   struct sl_queue_view *ret)
{
    const struct sl_queue *q;

    *ret = (struct sl_queue_view){.pace = SL_NS_NONE, .due = SL_NS_NONE};
    if (sl_queues_count(queues) == 0)
        return;
    pthread_mutex_lock(&queues->lock);
    q = find(queues, of->key);
    if (q)
        *ret = (struct sl_queue_view){
            .ahead = sl_fair_queue_ahead(&q->fair, of->group, of->weight),
            .waiting = q->fair.count,
            .pace = q->pace,
            .due = q->due,
            .since = q->served_at,
        };
    pthread_mutex_unlock(&queues->lock);
}

/* Under the lock. */
static int enter(struct sl_queues *queues, const struct sl_queue_of *of,
                 sl_ns now, struct sl_waiter *w)
{
    struct limit *limit = get_limit(queues, of->limit);
    struct sl_queue *q;
    int err = SLUICE_ENOMEM;

    if (!limit)
        return err;
    if (limit->count >= of->most ||
        sl_queues_count(queues) >=
            atomic_load_explicit(&queues->most, memory_order_relaxed)) {
        drop_limit(queues, limit);
        return SLUICE_EFULL;
    }
    q = find(queues, of->key);
    if (!q)
        q = new_queue(queues, limit, of->key, now);
    if (q)
        err = sl_fair_queue_add(&q->fair, of->group, of->weight, &w->entry);
    if (err) {
        if (q)
            tidy(q);
        else
            drop_limit(queues, limit);
        return err;
    }
    w->queue = q;
    limit->count++;
    atomic_fetch_add(&queues->count, 1);
    return 0;
}

int sl_queue_join(struct sl_queues *queues, const struct sl_queue_of *of,
                  sl_ns now, sl_ns due, bool retry, struct sl_waiter *w)
{
    int err = heap_reserve(w->thread, queues->alloc);
    bool first = false;

    if (err)
        return err;
    pthread_mutex_lock(&queues->lock);
    err = enter(queues, of, now, w);
    if (!err) {
        w->is_notified = w->retrying = w->notify_again = false;
        first = first_of(w->queue) == w;
        if (first)
            w->queue->due = due;
        /* Units may have come back between the denial and now. */
        if (retry)
            notify_first(w->queue);
    }
    pthread_mutex_unlock(&queues->lock);
    if (!err) {
        put(w->thread, w->thread->count++, w);
        schedule(w, first, now, due);
    }
    return err;
}

bool sl_queue_stay(struct sl_waiter *w, const struct sl_queue_of *of, sl_ns now,
                   sl_ns due)
{
    struct sl_queue *q = w->queue;
    bool first;

    if (!q || !sl_hash128_eq(q->key, of->key))
        return false;
    pthread_mutex_lock(&q->queues->lock);
    w->retrying = false;
    first = first_of(q) == w;
    if (first)
        q->due = due;
    if (w->notify_again && first)
        notify_first(q);
    w->notify_again = false;
    pthread_mutex_unlock(&q->queues->lock);
    schedule(w, first, now, due);
    return true;
}

static void note_pace(struct sl_queue *q, sl_ns now)
{
    sl_ns took = now > q->served_at ? now - q->served_at : 0;

    q->served_at = now;
    q->pace =
        q->pace < 0 ? took : q->pace + (took - q->pace) / (1 << PACE_SHIFT);
}

void sl_queue_leave(struct sl_waiter *w, sl_ns now, bool served)
{
    struct sl_queue *q = w->queue;
    struct sl_queues *queues;
    bool first;

    if (!q)
        return;
    queues = q->queues;
    heap_remove(w->thread, w);
    pthread_mutex_lock(&queues->lock);
    clear_notified(w);
    first = first_of(q) == w;
    if (served && first)
        sl_fair_queue_serve(&q->fair);
    else
        sl_fair_queue_leave(&q->fair, &w->entry);
    if (served)
        note_pace(q, now);
    w->queue = NULL;
    w->retrying = false;
    q->limit->count--;
    atomic_fetch_sub(&queues->count, 1);
    if (first)
        notify_first(q);
    tidy(q);
    pthread_mutex_unlock(&queues->lock);
}

/* ---- threads ---- */

void sl_wait_thread_init(struct sl_wait_thread *thread,
                         struct sl_queues *queues,
                         bool (*waker)(struct sl_wait_thread *thread),
                         void *ctx)
{
    *thread =
        (struct sl_wait_thread){.queues = queues, .wake = waker, .ctx = ctx};
    TAILQ_INIT(&thread->notified);
}

/* The next notified waiter, which retries now; NULL if there is none. */
static struct sl_waiter *take_notified(struct sl_wait_thread *thread)
{
    struct sl_waiter *w;

    pthread_mutex_lock(&thread->queues->lock);
    w = TAILQ_FIRST(&thread->notified);
    if (w) {
        clear_notified(w);
        w->retrying = true;
    } else {
        thread->woken = false;
    }
    pthread_mutex_unlock(&thread->queues->lock);
    return w;
}

/* The time to retry has come. False if the waiter is not the first. */
static bool may_retry(struct sl_waiter *w)
{
    struct sl_queue *q = w->queue;
    bool first;

    pthread_mutex_lock(&q->queues->lock);
    first = first_of(q) == w && !w->retrying;
    if (first) {
        clear_notified(w);
        w->retrying = true;
    }
    pthread_mutex_unlock(&q->queues->lock);
    w->next = w->until;
    heap_move(w->thread, w);
    return first;
}

static void end_wait(struct sl_waiter *w, sl_ns now)
{
    sl_queue_leave(w, now, false);
    w->on_late(w, now);
}

sl_ns sl_wait_thread_serve(struct sl_wait_thread *thread, sl_ns now)
{
    struct sl_waiter *w;

    if (!thread->queues)
        return SL_NS_NONE;
    while (thread->count > 0 && thread->heap[0]->next <= now) {
        w = thread->heap[0];
        if (w->until <= now && w->retrying) {
            w->next = SL_NS_MAX; /* the answer of its retry counts */
            heap_move(thread, w);
        } else if (w->until <= now) {
            end_wait(w, now);
        } else if (may_retry(w)) {
            w->on_turn(w, now);
        }
    }
    while ((w = take_notified(thread)) != NULL)
        w->on_turn(w, now);
    if (thread->count == 0 || thread->heap[0]->next == SL_NS_MAX)
        return SL_NS_NONE;
    return thread->heap[0]->next;
}

void sl_wait_thread_done(struct sl_wait_thread *thread)
{
    if (!thread->queues)
        return;
    while (thread->count > 0) {
        struct sl_waiter *w = thread->heap[0];

        if (!w->retrying) {
            end_wait(w, w->since);
            continue;
        }
        w->until = w->since; /* the answer of its retry is the last */
        sl_queue_leave(w, w->since, false);
    }
    sl_alloc_free(thread->queues->alloc, thread->heap,
                  thread->size * sizeof(struct sl_waiter *));
    thread->heap = NULL;
    thread->count = thread->size = 0;
}
