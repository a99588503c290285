/* heap.c -- who waits in a room, by when it looks at him. */
#include "engine/wait/heap.h"

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
