/* dynamo.c -- the store in DynamoDB. */
#include "store/dynamo/dynamo.h"

#include <string.h>

#include "store/dynamo/seat.h"
#include "store/seats.h"

struct dynamo {
    struct sl_store store; /* first */
    struct sl_dynamo_options options;
    struct sl_shared shared;
    struct sl_seats seats; /* a struct sl_dynamo_seat each */
    _Atomic bool in_notes; /* see seat.h */
    _Atomic bool heals;    /* a seat does */
    struct sl_dynamo_stats
        gone; /* of seats that are closed; under the lock of those */
};

static struct dynamo *of(struct sl_store *store)
{
    return (struct dynamo *)store;
}

/* ---- what a store does ---- */

static struct sl_dynamo_seat *seat_of(const struct dynamo *dynamo,
                                      const struct sl_loop *loop)
{
    return sl_seats_find(&dynamo->seats, loop);
}

static void take(struct sl_store *store, struct sl_take *take)
{
    struct sl_dynamo_seat *seat = seat_of(of(store), take->loop);

    if (seat) {
        sl_dynamo_seat_take(seat, take);
        return;
    }
    take->err = SLUICE_ESTORE;
    take->sent = false;
    take->allowed = false;
    take->done(take);
}

/* ---- seats ---- */

int sl_dynamo_attach(struct sl_store *store, struct sl_loop *loop,
                     struct sl_diag *diag)
{
    struct dynamo *dynamo = of(store);
    struct sl_dynamo_seat *seat = NULL;
    int err = sl_dynamo_seat_open(&dynamo->options, &dynamo->shared,
                                  &dynamo->store.in_steps, &dynamo->in_notes,
                                  loop, &seat);

    if (!err && !atomic_exchange(&dynamo->heals, true))
        err = sl_healer_open(seat, &seat->healer);
    if (err)
        sl_dynamo_seat_close(seat);
    if (err)
        return sl_refuse(diag, err, "out of memory");
    err = sl_seats_add(&dynamo->seats, loop, seat, diag);
    if (err)
        sl_dynamo_seat_close(seat);
    return err;
}

/* What it has counted stays. */
static void close_seat(struct dynamo *dynamo, struct sl_dynamo_seat *seat)
{
    struct sl_dynamo_stats *gone = &dynamo->gone;

    if (!seat)
        return;
    pthread_mutex_lock(&dynamo->seats.lock);
    sl_dynamo_seat_stats(seat, gone);
    gone->up = gone->ready = gone->seats = gone->under_way = 0;
    gone->open = false;
    pthread_mutex_unlock(&dynamo->seats.lock);
    sl_dynamo_seat_close(seat);
}

void sl_dynamo_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct dynamo *dynamo = of(store);

    close_seat(dynamo, sl_seats_remove(&dynamo->seats, loop));
}

void sl_dynamo_drain(struct sl_store *store, struct sl_loop *loop, sl_ns now)
{
    struct sl_dynamo_seat *seat = seat_of(of(store), loop);

    if (seat)
        sl_dynamo_seat_drain(seat, now);
}

void sl_dynamo_stats(const struct sl_store *store, struct sl_dynamo_stats *ret)
{
    struct dynamo *dynamo = of((struct sl_store *)(uintptr_t)store);

    pthread_mutex_lock(&dynamo->seats.lock);
    *ret = dynamo->gone;
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&dynamo->seats.count); i++)
        if (sl_seats_at(&dynamo->seats, i))
            sl_dynamo_seat_stats(sl_seats_at(&dynamo->seats, i), ret);
    pthread_mutex_unlock(&dynamo->seats.lock);
}

bool sl_dynamo_is_ready(const struct sl_store *store)
{
    struct sl_dynamo_stats stats;

    sl_dynamo_stats(store, &stats);
    return stats.ready == stats.seats;
}

static void keep(struct sl_store *store, struct sl_loop *loop)
{
    struct sl_dynamo_seat *seat = seat_of(of(store), loop);

    if (seat)
        sl_dynamo_seat_keep(seat);
}

static sl_ns retry_in(const struct sl_store *store, const struct sl_loop *loop)
{
    struct sl_dynamo_seat *seat = seat_of((const struct dynamo *)store, loop);

    return seat ? sl_dynamo_seat_retry_in(seat) : 0;
}

/* ---- life ---- */

static void close_dynamo(struct sl_store *store)
{
    struct dynamo *dynamo = of(store);

    for (unsigned i = 0; i < atomic_load(&dynamo->seats.count); i++)
        sl_dynamo_seat_close(sl_seats_at(&dynamo->seats, i));
    sl_shared_done(&dynamo->shared);
    sl_seats_done(&dynamo->seats);
    sl_alloc_free(dynamo->options.alloc, dynamo, sizeof(*dynamo));
}

static const struct sl_store_calls calls = {
    .take = take,
    .close = close_dynamo,
    .keep = keep,
    .retry_in = retry_in,
};

int sl_dynamo_open(const struct sl_dynamo_options *options,
                   struct sl_store **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct dynamo *dynamo = sl_alloc_new(alloc, sizeof(*dynamo));
    int err = 0;

    if (!dynamo)
        return sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
    memset(dynamo, 0, sizeof(*dynamo));
    dynamo->options = *options;
    dynamo->options.alloc = alloc;
    dynamo->store.calls = &calls;
    dynamo->store.wants_names = true;
    sl_seats_init(&dynamo->seats);
    if (sl_shared_init(&dynamo->shared, &dynamo->store) ||
        sl_hash_key_make(&dynamo->store.secret))
        err = sl_refuse(diag, SLUICE_ESYS,
                        "the system did not provide random bytes");
    if (err) {
        close_dynamo(&dynamo->store);
        return err;
    }
    *ret = &dynamo->store;
    return 0;
}
