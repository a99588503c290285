/* dynamo.c -- the store in DynamoDB: seats by loop.
 *
 * A take finds its seat without a lock, since only its own thread changes the
 * place of its loop. Whoever looks at all seats holds the lock, so that none is
 * closed meanwhile.
 */
#include "store/dynamo/dynamo.h"

#include <string.h>

#include "store/dynamo/seat.h"

#define SEATS 256

struct dynamo {
    struct sl_store store; /* first */
    struct sl_dynamo_options options;
    struct sl_shared shared;
    pthread_mutex_t lock; /* over what follows, but for a seat's own thread */
    struct {
        struct sl_loop *_Atomic loop; /* NULL: free */
        struct sl_dynamo_seat *seat;
    } seats[SEATS];
    _Atomic unsigned seat_count;
    struct sl_dynamo_stats gone; /* of seats that are closed */
};

static struct dynamo *of(struct sl_store *store)
{
    return (struct dynamo *)store;
}

/* ---- what a store does ---- */

/* The table knows limits by the names of their rows alone. */
static int bind_limits(struct sl_store *store, struct sl_stored *limits,
                       unsigned count, struct sl_diag *diag)
{
    (void)store;
    (void)limits;
    (void)count;
    (void)diag;
    return 0;
}

static int tighten(struct sl_store *store, const struct sl_stored *limit,
                   const struct sl_limit *strictest)
{
    (void)store;
    (void)limit;
    (void)strictest;
    return 0;
}

static struct sl_dynamo_seat *seat_of(const struct dynamo *dynamo,
                                      const struct sl_loop *loop)
{
    unsigned count =
        atomic_load_explicit(&dynamo->seat_count, memory_order_acquire);

    for (unsigned i = 0; loop && i < count; i++)
        if (atomic_load_explicit(&dynamo->seats[i].loop,
                                 memory_order_acquire) == loop)
            return dynamo->seats[i].seat;
    return NULL;
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

/* A free place, or SEATS. */
static unsigned vacancy(const struct dynamo *dynamo)
{
    unsigned at = 0;

    while (at < SEATS && atomic_load(&dynamo->seats[at].loop))
        at++;
    return at;
}

int sl_dynamo_attach(struct sl_store *store, struct sl_loop *loop,
                     struct sl_diag *diag)
{
    struct dynamo *dynamo = of(store);
    struct sl_dynamo_seat *seat = NULL;
    unsigned at;
    int err = sl_dynamo_seat_open(&dynamo->options, &dynamo->shared,
                                  &dynamo->store.in_steps, loop, &seat);

    if (err)
        return sl_refuse(diag, err, "there is no memory for a connection");
    pthread_mutex_lock(&dynamo->lock);
    at = vacancy(dynamo);
    if (at < SEATS) {
        dynamo->seats[at].seat = seat;
        atomic_store(&dynamo->seats[at].loop, loop);
        if (at >= atomic_load(&dynamo->seat_count))
            atomic_store(&dynamo->seat_count, at + 1);
    }
    pthread_mutex_unlock(&dynamo->lock);
    if (at < SEATS)
        return 0;
    sl_dynamo_seat_close(seat);
    return sl_refuse(diag, SLUICE_EFULL, "these are more than %d loops", SEATS);
}

/* What it has counted stays. */
static void close_seat(struct dynamo *dynamo, struct sl_dynamo_seat *seat)
{
    struct sl_dynamo_stats *gone = &dynamo->gone;

    if (!seat)
        return;
    pthread_mutex_lock(&dynamo->lock);
    sl_dynamo_seat_stats(seat, gone);
    gone->up = gone->ready = gone->seats = 0;
    gone->open = false;
    pthread_mutex_unlock(&dynamo->lock);
    sl_dynamo_seat_close(seat);
}

void sl_dynamo_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct dynamo *dynamo = of(store);
    struct sl_dynamo_seat *seat = NULL;

    pthread_mutex_lock(&dynamo->lock);
    for (unsigned i = 0; i < atomic_load(&dynamo->seat_count); i++)
        if (atomic_load(&dynamo->seats[i].loop) == loop) {
            seat = dynamo->seats[i].seat;
            atomic_store(&dynamo->seats[i].loop, NULL);
        }
    pthread_mutex_unlock(&dynamo->lock);
    close_seat(dynamo, seat);
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

    pthread_mutex_lock(&dynamo->lock);
    *ret = dynamo->gone;
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&dynamo->seat_count); i++)
        if (atomic_load(&dynamo->seats[i].loop))
            sl_dynamo_seat_stats(dynamo->seats[i].seat, ret);
    pthread_mutex_unlock(&dynamo->lock);
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

    for (unsigned i = 0; i < atomic_load(&dynamo->seat_count); i++)
        if (atomic_load(&dynamo->seats[i].loop))
            sl_dynamo_seat_close(dynamo->seats[i].seat);
    sl_shared_done(&dynamo->shared);
    pthread_mutex_destroy(&dynamo->lock);
    sl_alloc_free(dynamo->options.alloc, dynamo, sizeof(*dynamo));
}

static const struct sl_store_calls calls = {
    .bind = bind_limits,
    .tighten = tighten,
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
        return sl_refuse(diag, SLUICE_ENOMEM, "there is no memory");
    memset(dynamo, 0, sizeof(*dynamo));
    dynamo->options = *options;
    dynamo->options.alloc = alloc;
    dynamo->store.calls = &calls;
    dynamo->store.wants_names = true;
    pthread_mutex_init(&dynamo->lock, NULL);
    if (sl_shared_init(&dynamo->shared, &dynamo->store) ||
        sl_hash_key_make(&dynamo->store.secret))
        err = sl_refuse(diag, SLUICE_ESYS, "the system gives no random bytes");
    if (err) {
        close_dynamo(&dynamo->store);
        return err;
    }
    *ret = &dynamo->store;
    return 0;
}
