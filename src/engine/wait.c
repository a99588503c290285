/* wait.c -- the queues of a process. */
#include "engine/wait.h"

#include <string.h>

#include "base/arith.h"

#define BUCKETS 1024

/* Of the pace that was seen, an eighth is new each time. */
#define PACE_SHIFT 3

struct limit {
    LIST_ENTRY(limit) link;
    LIST_HEAD(, sl_queue) queues;
    uint64_t name;
    unsigned count; /* who wait, over all keys */
};

struct sl_queue {
    LIST_ENTRY(sl_queue) same; /* bucket */
    LIST_ENTRY(sl_queue) of;   /* the limit's */
    struct sl_queues *queues;
    struct limit *limit;
    struct sl_hash128 key;
    struct sl_fair_queue fair;
    sl_ns served_at; /* the last one, or when the queue began */
    sl_ns pace;      /* SL_NS_NONE: nobody was served yet */
    sl_ns due;       /* when the first may pass; SL_NS_NONE: nobody knows */
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
    queues->most = SL_WAIT_TIMER;
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

bool sl_queues_any(const struct sl_queues *queues)
{
    return sl_queues_count(queues) > 0;
}

unsigned sl_queues_count(const struct sl_queues *queues)
{
    return atomic_load_explicit(&queues->count, memory_order_relaxed);
}

/* ---- finding, under the lock ---- */

static struct sl_queue *find(const struct sl_queues *queues,
                             struct sl_hash128 key)
{
    struct sl_queue *q;

    LIST_FOREACH(q, &queues->buckets[key.lo % BUCKETS], same)
    if (q->key.lo == key.lo && q->key.hi == key.hi)
        return q;
    return NULL;
}

static struct limit *find_limit(const struct sl_queues *queues, uint64_t name)
{
    struct limit *limit;

    LIST_FOREACH(limit, &queues->limits, link)
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

/* Whatever is empty goes. */
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

/* ---- calling, under the lock ---- */

static struct sl_waiter *first_of(const struct sl_queue *q)
{
    return (struct sl_waiter *)sl_fair_queue_first(&q->fair);
}

static void ring(struct sl_wait_thread *room)
{
    if (!room->rung)
        room->rung = room->ring(room);
}

static void call_first(struct sl_queue *q)
{
    struct sl_waiter *w = first_of(q);

    if (!w || w->called)
        return;
    if (w->asked) {
        w->again = true;
        return;
    }
    w->called = true;
    TAILQ_INSERT_TAIL(&w->room->called, w, calling);
    ring(w->room);
}

static void uncall(struct sl_waiter *w)
{
    if (w->called)
        TAILQ_REMOVE(&w->room->called, w, calling);
    w->called = w->again = false;
}

void sl_queues_freed(struct sl_queues *queues, uint64_t limit)
{
    struct limit *found;
    struct sl_queue *q;

    if (!sl_queues_any(queues))
        return;
    pthread_mutex_lock(&queues->lock);
    found = find_limit(queues, limit);
    if (found)
        LIST_FOREACH(q, &found->queues, of)
    call_first(q);
    pthread_mutex_unlock(&queues->lock);
}

/* ---- joining and leaving ---- */

void sl_queue_look(struct sl_queues *queues, const struct sl_queue_of *of,
                   struct sl_hash128 group, unsigned weight,
                   struct sl_queue_view *ret)
{
    const struct sl_queue *q;

    *ret = (struct sl_queue_view){.pace = SL_NS_NONE, .due = SL_NS_NONE};
    if (!sl_queues_any(queues))
        return;
    pthread_mutex_lock(&queues->lock);
    q = find(queues, of->key);
    if (q)
        *ret = (struct sl_queue_view){
            .ahead = sl_fair_queue_ahead(&q->fair, group, weight),
            .waiting = q->fair.count,
            .pace = q->pace,
            .due = q->due,
            .since = q->served_at,
        };
    pthread_mutex_unlock(&queues->lock);
}

bool sl_queue_is(const struct sl_waiter *w, const struct sl_queue_of *of)
{
    return w->queue && w->queue->key.lo == of->key.lo &&
           w->queue->key.hi == of->key.hi;
}

/* When the room looks at him: at his end, or when he may try. */
static sl_ns next_of(const struct sl_waiter *w, sl_ns now, sl_ns due)
{
    sl_ns next = due >= 0 ? due : sl_ns_add_sat(now, SL_WAIT_POLL);

    return next < w->until ? next : w->until;
}

/* Whoever serves the room must know if it is to look earlier than it thinks. */
static void look_soon(struct sl_waiter *w)
{
    if (w->room->heap[0] != w)
        return;
    pthread_mutex_lock(&w->room->queues->lock);
    ring(w->room);
    pthread_mutex_unlock(&w->room->queues->lock);
}

static int enter(struct sl_queues *queues, const struct sl_queue_of *of,
                 struct sl_hash128 group, unsigned weight, sl_ns now,
                 struct sl_waiter *w)
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
        err = sl_fair_queue_add(&q->fair, group, weight, &w->place);
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
                  struct sl_hash128 group, unsigned weight, sl_ns now,
                  sl_ns due, bool call, struct sl_waiter *w)
{
    int err = sl_heap_reserve(w->room, queues->alloc);
    bool first;

    if (err)
        return err;
    pthread_mutex_lock(&queues->lock);
    err = enter(queues, of, group, weight, now, w);
    if (!err) {
        w->called = w->asked = w->again = false;
        first = first_of(w->queue) == w;
        w->next = first ? next_of(w, now, due) : w->until;
        if (first)
            w->queue->due = due;
        /* What he was denied may have come back before he stood here. */
        if (call)
            call_first(w->queue);
    }
    pthread_mutex_unlock(&queues->lock);
    if (!err) {
        sl_heap_add(w->room, w);
        look_soon(w);
    }
    return err;
}

void sl_queue_stay(struct sl_waiter *w, sl_ns now, sl_ns due)
{
    struct sl_queue *q = w->queue;
    bool first;

    pthread_mutex_lock(&q->queues->lock);
    w->asked = false;
    first = first_of(q) == w;
    if (first)
        q->due = due;
    if (w->again && first)
        call_first(q);
    w->again = false;
    pthread_mutex_unlock(&q->queues->lock);
    w->next = first ? next_of(w, now, due) : w->until;
    sl_heap_moved(w->room, w);
    look_soon(w);
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
    sl_heap_remove(w->room, w);
    pthread_mutex_lock(&queues->lock);
    uncall(w);
    first = first_of(q) == w;
    if (served && first)
        sl_fair_queue_serve(&q->fair);
    else
        sl_fair_queue_leave(&q->fair, &w->place);
    if (served)
        note_pace(q, now);
    w->queue = NULL;
    w->asked = false;
    q->limit->count--;
    atomic_fetch_sub(&queues->count, 1);
    if (first)
        call_first(q);
    tidy(q);
    pthread_mutex_unlock(&queues->lock);
}

/* ---- rooms ---- */

void sl_wait_thread_init(struct sl_wait_thread *room, struct sl_queues *queues,
                         bool (*bell)(struct sl_wait_thread *room), void *ctx)
{
    *room = (struct sl_wait_thread){.queues = queues, .ring = bell, .ctx = ctx};
    TAILQ_INIT(&room->called);
}

/* The next who was called, and may be asked now. */
static struct sl_waiter *take_called(struct sl_wait_thread *room)
{
    struct sl_waiter *w;

    pthread_mutex_lock(&room->queues->lock);
    w = TAILQ_FIRST(&room->called);
    if (w) {
        uncall(w);
        w->asked = true;
    } else {
        room->rung = false;
    }
    pthread_mutex_unlock(&room->queues->lock);
    return w;
}

/* His time to try again has come, if he is still the first. */
static bool may_try(struct sl_waiter *w, sl_ns now)
{
    struct sl_queue *q = w->queue;
    bool first;

    pthread_mutex_lock(&q->queues->lock);
    first = first_of(q) == w && !w->asked;
    if (first) {
        uncall(w);
        w->asked = true;
    }
    pthread_mutex_unlock(&q->queues->lock);
    w->next = w->until;
    (void)now;
    sl_heap_moved(w->room, w);
    return first;
}

static void end_wait(struct sl_waiter *w, sl_ns now)
{
    sl_queue_leave(w, now, false);
    w->on_late(w, now);
}

sl_ns sl_wait_thread_serve(struct sl_wait_thread *room, sl_ns now)
{
    struct sl_waiter *w;

    if (!room->queues)
        return SL_NS_NONE;
    while (room->count > 0 && room->heap[0]->next <= now) {
        w = room->heap[0];
        if (w->until <= now && w->asked) {
            w->next = SL_NS_MAX; /* its answer is on the way, and counts */
            sl_heap_moved(room, w);
        } else if (w->until <= now) {
            end_wait(w, now);
        } else if (may_try(w, now)) {
            w->on_turn(w, now);
        }
    }
    while ((w = take_called(room)) != NULL)
        w->on_turn(w, now);
    if (room->count == 0 || room->heap[0]->next == SL_NS_MAX)
        return SL_NS_NONE;
    return room->heap[0]->next;
}

void sl_wait_thread_done(struct sl_wait_thread *room)
{
    if (!room->queues)
        return;
    while (room->count > 0) {
        struct sl_waiter *w = room->heap[0];

        if (!w->asked) {
            end_wait(w, w->since);
            continue;
        }
        w->until = w->since; /* its answer is on the way, and is the last */
        sl_queue_leave(w, w->since, false);
    }
    sl_heap_done(room, room->queues->alloc);
}

/* ---- who waits in a room, by when it looks at him. */

#define FIRST_SIZE 16

int sl_heap_reserve(struct sl_wait_thread *room, const struct sl_alloc *alloc)
{
    unsigned size = room->size ? 2 * room->size : FIRST_SIZE;
    struct sl_waiter **heap;

    if (room->count < room->size)
        return 0;
    heap = alloc->resize(alloc->ctx, room->heap,
                         room->size * sizeof(struct sl_waiter *),
                         size * sizeof(struct sl_waiter *));
    if (!heap)
        return SLUICE_ENOMEM;
    room->heap = heap;
    room->size = size;
    return 0;
}

static void put(struct sl_wait_thread *room, unsigned at, struct sl_waiter *w)
{
    room->heap[at] = w;
    w->at = at;
}

static void rise(struct sl_wait_thread *room, struct sl_waiter *w)
{
    unsigned at = w->at;

    while (at > 0 && room->heap[(at - 1) / 2]->next > w->next) {
        put(room, at, room->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(room, at, w);
}

static void sink(struct sl_wait_thread *room, struct sl_waiter *w)
{
    unsigned at = w->at;

    for (;;) {
        unsigned child = 2 * at + 1;

        if (child + 1 < room->count &&
            room->heap[child + 1]->next < room->heap[child]->next)
            child++;
        if (child >= room->count || room->heap[child]->next >= w->next)
            break;
        put(room, at, room->heap[child]);
        at = child;
    }
    put(room, at, w);
}

void sl_heap_add(struct sl_wait_thread *room, struct sl_waiter *w)
{
    put(room, room->count++, w);
    rise(room, w);
}

void sl_heap_moved(struct sl_wait_thread *room, struct sl_waiter *w)
{
    rise(room, w);
    sink(room, w);
}

void sl_heap_remove(struct sl_wait_thread *room, struct sl_waiter *w)
{
    struct sl_waiter *last = room->heap[--room->count];

    if (last == w)
        return;
    put(room, w->at, last);
    sl_heap_moved(room, last);
}

void sl_heap_done(struct sl_wait_thread *room, const struct sl_alloc *alloc)
{
    sl_alloc_free(alloc, room->heap, room->size * sizeof(struct sl_waiter *));
    room->heap = NULL;
    room->count = room->size = 0;
}
