/* seats.h -- what each loop has of a store that is elsewhere: its seat.
 *
 * A take finds its seat without a lock, since only its own thread changes the
 * place of its loop. Whoever looks at all seats holds the lock, so that none is
 * closed meanwhile.
 */
#ifndef SL_SEATS_H
#define SL_SEATS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/diag.h"

#define SL_SEATS 256

struct sl_loop;

struct sl_seats {
    pthread_mutex_t lock; /* over what follows, but for a seat's own thread */
    struct {
        struct sl_loop *_Atomic loop; /* NULL: free */
        void *seat;                   /* the store's */
    } list[SL_SEATS];
    _Atomic unsigned count; /* places up to the last that was ever taken */
};

/* All zeros before. */
void sl_seats_init(struct sl_seats *seats);
void sl_seats_done(struct sl_seats *seats);

/* The seat of this loop, asked by its thread; or NULL. */
void *sl_seats_find(const struct sl_seats *seats, const struct sl_loop *loop);

/* SLUICE_EFULL if there are too many loops. */
SL_MUST_USE int sl_seats_add(struct sl_seats *seats, struct sl_loop *loop,
                             void *seat, struct sl_diag *diag);

/* The seat that this loop had, or NULL. */
void *sl_seats_remove(struct sl_seats *seats, const struct sl_loop *loop);

/* With the lock held: the seat at place `i` < count, or NULL. */
void *sl_seats_at(const struct sl_seats *seats, unsigned i);

#endif
