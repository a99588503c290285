/* seats.h -- what each loop has of a store that is elsewhere: its seat.
 *
 * A take finds its seat without a lock, since only its own thread changes the
 * place of its loop. Whoever looks at all seats holds the lock, so that none is
 * closed meanwhile.
 */
#ifndef SL_REMOTE_CLIENTS_H
#define SL_REMOTE_CLIENTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/diag.h"

#define SL_REMOTE_CLIENTS 256

struct sl_loop;

struct sl_remote_clients {
    pthread_mutex_t lock; /* over what follows, but for a seat's own thread */
    struct {
        struct sl_loop *_Atomic loop; /* NULL: free */
        void *seat;                   /* the store's */
    } list[SL_REMOTE_CLIENTS];
    _Atomic unsigned count; /* places up to the last that was ever taken */
};

/* All zeros before. */
void sl_remote_clients_init(struct sl_remote_clients *seats);
void sl_remote_clients_done(struct sl_remote_clients *seats);

/* The seat of this loop, asked by its thread; or NULL. */
void *sl_remote_clients_find(const struct sl_remote_clients *seats,
                             const struct sl_loop *loop);

/* SLUICE_EFULL if there are too many loops. */
SL_MUST_USE int sl_remote_clients_add(struct sl_remote_clients *seats,
                                      struct sl_loop *loop, void *seat,
                                      struct sl_diag *diag);

/* The seat that this loop had, or NULL. */
void *sl_remote_clients_remove(struct sl_remote_clients *seats,
                               const struct sl_loop *loop);

/* With the lock held: the seat at place `i` < count, or NULL. */
void *sl_remote_clients_at(const struct sl_remote_clients *seats, unsigned i);

#endif
