/* heap.h -- those who wait in a room, by when it looks at them: a heap in an
 * array, the earliest first. */
#ifndef SL_WAIT_HEAP_H
#define SL_WAIT_HEAP_H

#include "engine/wait.h"

/* Room for one more. SLUICE_ENOMEM. */
SL_MUST_USE int sl_heap_reserve(struct sl_wait_thread *room,
                                const struct sl_alloc *alloc);

void sl_heap_add(struct sl_wait_thread *room, struct sl_waiter *waiter);
void sl_heap_remove(struct sl_wait_thread *room, struct sl_waiter *waiter);

/* His `next` has changed. */
void sl_heap_moved(struct sl_wait_thread *room, struct sl_waiter *waiter);

void sl_heap_done(struct sl_wait_thread *room, const struct sl_alloc *alloc);

#endif
