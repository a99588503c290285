/* redis.c -- the store in a Redis. */
#include "store/redis/redis.h"

#include <string.h>

#include "store/redis/seat.h"
#include "store/seats.h"

struct redis {
    struct sl_store store; /* first */
    struct sl_redis_options options;
    struct sl_tls *tls;
    struct sl_shared shared;
    struct sl_seats seats; /* a struct sl_redis_seat each */
    struct sl_redis_stats
        gone; /* of seats that are closed; under the lock of those */
};

static struct redis *of(struct sl_store *store)
{
    return (struct redis *)store;
}

/* ---- what a store does ---- */

static struct sl_redis_seat *seat_of(const struct redis *redis,
                                     const struct sl_loop *loop)
{
    return sl_seats_find(&redis->seats, loop);
}

static void take(struct sl_store *store, struct sl_take *take)
{
    struct sl_redis_seat *seat = seat_of(of(store), take->loop);

    if (seat) {
        sl_redis_seat_take(seat, take);
        return;
    }
    take->err = SLUICE_ESTORE;
    take->sent = false;
    take->allowed = false;
    take->done(take);
}

static void hold(struct sl_store *store, struct sl_hold_call *call)
{
    struct sl_redis_seat *seat = seat_of(of(store), call->loop);

    if (seat) {
        sl_redis_seat_hold(seat, call);
        return;
    }
    call->err = SLUICE_ESTORE;
    call->done(call);
}

/* ---- seats ---- */

int sl_redis_attach(struct sl_store *store, struct sl_loop *loop,
                    struct sl_diag *diag)
{
    struct redis *redis = of(store);
    struct sl_redis_seat *seat = NULL;
    int err = sl_redis_seat_open(&redis->options, &redis->shared, redis->tls,
                                 loop, &seat);

    if (err)
        return sl_refuse(diag, err, "out of memory");
    err = sl_seats_add(&redis->seats, loop, seat, diag);
    if (err)
        sl_redis_seat_close(seat);
    return err;
}

/* What it has counted stays. */
static void close_seat(struct redis *redis, struct sl_redis_seat *seat)
{
    struct sl_redis_stats *gone = &redis->gone;

    if (!seat)
        return;
    pthread_mutex_lock(&redis->seats.lock);
    sl_redis_seat_stats(seat, gone);
    gone->up = gone->ready = gone->seats = 0;
    gone->open = false;
    pthread_mutex_unlock(&redis->seats.lock);
    sl_redis_seat_close(seat);
}

void sl_redis_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct redis *redis = of(store);

    close_seat(redis, sl_seats_remove(&redis->seats, loop));
}

void sl_redis_stats(const struct sl_store *store, struct sl_redis_stats *ret)
{
    struct redis *redis = of((struct sl_store *)(uintptr_t)store);

    pthread_mutex_lock(&redis->seats.lock);
    *ret = redis->gone;
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&redis->seats.count); i++)
        if (sl_seats_at(&redis->seats, i))
            sl_redis_seat_stats(sl_seats_at(&redis->seats, i), ret);
    pthread_mutex_unlock(&redis->seats.lock);
    ret->epochs = atomic_load(&redis->shared.epochs);
}

bool sl_redis_is_ready(const struct sl_store *store)
{
    struct sl_redis_stats stats;

    sl_redis_stats(store, &stats);
    return stats.ready == stats.seats;
}

static void keep(struct sl_store *store, struct sl_loop *loop)
{
    struct sl_redis_seat *seat = seat_of(of(store), loop);

    if (seat)
        sl_redis_seat_keep(seat);
}

void sl_redis_drain(struct sl_store *store, struct sl_loop *loop, sl_ns now)
{
    struct sl_redis_seat *seat = seat_of(of(store), loop);

    if (seat)
        sl_redis_seat_drain(seat, now);
}

sl_ns sl_redis_retry_in(const struct sl_store *store,
                        const struct sl_loop *loop)
{
    struct sl_redis_seat *seat = seat_of((const struct redis *)store, loop);

    return seat ? sl_redis_seat_retry_in(seat) : 0;
}

/* ---- life ---- */

static void close_redis(struct sl_store *store)
{
    struct redis *redis = of(store);

    for (unsigned i = 0; i < atomic_load(&redis->seats.count); i++)
        sl_redis_seat_close(sl_seats_at(&redis->seats, i));
    sl_tls_unref(redis->tls);
    sl_shared_done(&redis->shared);
    sl_seats_done(&redis->seats);
    sl_alloc_free(redis->options.alloc, redis, sizeof(*redis));
}

static const struct sl_store_calls calls = {
    .take = take,
    .close = close_redis,
    .keep = keep,
    .retry_in = sl_redis_retry_in,
    .hold = hold,
};

int sl_redis_open(const struct sl_redis_options *options, struct sl_store **ret,
                  struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct redis *redis = sl_alloc_new(alloc, sizeof(*redis));
    struct sl_tls_client_options tls = {options->where.ca, options->where.cert,
                                        options->where.key};
    int err = 0;

    if (!redis)
        return sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
    memset(redis, 0, sizeof(*redis));
    redis->options = *options;
    redis->options.alloc = alloc;
    redis->store.calls = &calls;
    redis->store.wants_names = true;
    redis->store.in_slots = options->where.kind == SL_REDIS_CLUSTER;
    sl_seats_init(&redis->seats);
    if (sl_shared_init(&redis->shared, &redis->store) ||
        sl_hash_key_make(&redis->store.secret))
        err = sl_refuse(diag, SLUICE_ESYS,
                        "the system did not provide random bytes");
    if (!err && options->where.tls)
        err = sl_tls_open_client(&tls, &redis->tls, diag);
    if (err) {
        close_redis(&redis->store);
        return err;
    }
    *ret = &redis->store;
    return 0;
}
