/* seats.c -- seats by loop. */
#include "store/seats.h"

void sl_seats_init(struct sl_seats *seats)
{
    pthread_mutex_init(&seats->lock, NULL);
}

void sl_seats_done(struct sl_seats *seats)
{
    pthread_mutex_destroy(&seats->lock);
}

void *sl_seats_find(const struct sl_seats *seats, const struct sl_loop *loop)
{
    unsigned count = atomic_load_explicit(&seats->count, memory_order_acquire);

    for (unsigned i = 0; loop && i < count; i++)
        if (atomic_load_explicit(&seats->list[i].loop, memory_order_acquire) ==
            loop)
            return seats->list[i].seat;
    return NULL;
}

int sl_seats_add(struct sl_seats *seats, struct sl_loop *loop, void *seat,
                 struct sl_diag *diag)
{
    unsigned at = 0;

    pthread_mutex_lock(&seats->lock);
    while (at < SL_SEATS && atomic_load(&seats->list[at].loop))
        at++;
    if (at < SL_SEATS) {
        seats->list[at].seat = seat;
        atomic_store(&seats->list[at].loop, loop);
        if (at >= atomic_load(&seats->count))
            atomic_store(&seats->count, at + 1);
    }
    pthread_mutex_unlock(&seats->lock);
    if (at < SL_SEATS)
        return 0;
    return sl_refuse(diag, SLUICE_EFULL, "more than %d worker threads",
                     SL_SEATS);
}

void *sl_seats_remove(struct sl_seats *seats, const struct sl_loop *loop)
{
    void *seat = NULL;

    pthread_mutex_lock(&seats->lock);
    for (unsigned i = 0; i < atomic_load(&seats->count); i++)
        if (atomic_load(&seats->list[i].loop) == loop) {
            seat = seats->list[i].seat;
            atomic_store(&seats->list[i].loop, NULL);
        }
    pthread_mutex_unlock(&seats->lock);
    return seat;
}

void *sl_seats_at(const struct sl_seats *seats, unsigned i)
{
    return atomic_load(&seats->list[i].loop) ? seats->list[i].seat : NULL;
}
