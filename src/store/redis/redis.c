/* redis.c -- the store in a Redis: seats by loop.
 *
 * A take finds its seat without a lock, since only its own thread changes the
 * place of its loop. Whoever looks at all seats holds the lock, so that none is
 * closed meanwhile.
 */
#include "store/redis/redis.h"

#include <string.h>

#include "store/redis/seat.h"

#define SEATS 256

struct redis {
    struct sl_store store; /* first */
    struct sl_redis_options options;
    struct sl_tls *tls;
    struct sl_shared shared;
    pthread_mutex_t lock; /* over what follows, but for a seat's own thread */
    struct {
        struct sl_loop *_Atomic loop; /* NULL: free */
        struct sl_redis_seat *seat;
    } seats[SEATS];
    _Atomic unsigned seat_count;
    struct sl_redis_stats gone; /* of seats that are closed */
};

static struct redis *of(struct sl_store *store)
{
    return (struct redis *)store;
}

/* ---- what a store does ---- */

/* Redis knows limits by the names of their keys alone. */
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

static struct sl_redis_seat *seat_of(const struct redis *redis,
                                     const struct sl_loop *loop)
{
    unsigned count =
        atomic_load_explicit(&redis->seat_count, memory_order_acquire);

    for (unsigned i = 0; loop && i < count; i++)
        if (atomic_load_explicit(&redis->seats[i].loop, memory_order_acquire) ==
            loop)
            return redis->seats[i].seat;
    return NULL;
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

/* A free place, or SEATS. */
static unsigned vacancy(const struct redis *redis)
{
    unsigned at = 0;

    while (at < SEATS && atomic_load(&redis->seats[at].loop))
        at++;
    return at;
}

int sl_redis_attach(struct sl_store *store, struct sl_loop *loop,
                    struct sl_diag *diag)
{
    struct redis *redis = of(store);
    struct sl_redis_seat *seat = NULL;
    unsigned at;
    int err = sl_redis_seat_open(&redis->options, &redis->shared, redis->tls,
                                 loop, &seat);

    if (err)
        return sl_refuse(diag, err, "there is no memory for a connection");
    pthread_mutex_lock(&redis->lock);
    at = vacancy(redis);
    if (at < SEATS) {
        redis->seats[at].seat = seat;
        atomic_store(&redis->seats[at].loop, loop);
        if (at >= atomic_load(&redis->seat_count))
            atomic_store(&redis->seat_count, at + 1);
    }
    pthread_mutex_unlock(&redis->lock);
    if (at < SEATS)
        return 0;
    sl_redis_seat_close(seat);
    return sl_refuse(diag, SLUICE_EFULL, "these are more than %d loops", SEATS);
}

/* What it has counted stays. */
static void close_seat(struct redis *redis, struct sl_redis_seat *seat)
{
    struct sl_redis_stats *gone = &redis->gone;

    if (!seat)
        return;
    pthread_mutex_lock(&redis->lock);
    sl_redis_seat_stats(seat, gone);
    gone->up = gone->ready = gone->seats = 0;
    gone->open = false;
    pthread_mutex_unlock(&redis->lock);
    sl_redis_seat_close(seat);
}

void sl_redis_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct redis *redis = of(store);
    struct sl_redis_seat *seat = NULL;

    pthread_mutex_lock(&redis->lock);
    for (unsigned i = 0; i < atomic_load(&redis->seat_count); i++)
        if (atomic_load(&redis->seats[i].loop) == loop) {
            seat = redis->seats[i].seat;
            atomic_store(&redis->seats[i].loop, NULL);
        }
    pthread_mutex_unlock(&redis->lock);
    close_seat(redis, seat);
}

void sl_redis_stats(const struct sl_store *store, struct sl_redis_stats *ret)
{
    struct redis *redis = of((struct sl_store *)(uintptr_t)store);

    pthread_mutex_lock(&redis->lock);
    *ret = redis->gone;
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&redis->seat_count); i++)
        if (atomic_load(&redis->seats[i].loop))
            sl_redis_seat_stats(redis->seats[i].seat, ret);
    pthread_mutex_unlock(&redis->lock);
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

    for (unsigned i = 0; i < atomic_load(&redis->seat_count); i++)
        if (atomic_load(&redis->seats[i].loop))
            sl_redis_seat_close(redis->seats[i].seat);
    sl_tls_unref(redis->tls);
    sl_shared_done(&redis->shared);
    pthread_mutex_destroy(&redis->lock);
    sl_alloc_free(redis->options.alloc, redis, sizeof(*redis));
}

static const struct sl_store_calls calls = {
    .bind = bind_limits,
    .tighten = tighten,
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
        return sl_refuse(diag, SLUICE_ENOMEM, "there is no memory");
    memset(redis, 0, sizeof(*redis));
    redis->options = *options;
    redis->options.alloc = alloc;
    redis->store.calls = &calls;
    redis->store.wants_names = true;
    redis->store.in_slots = options->where.kind == SL_REDIS_CLUSTER;
    pthread_mutex_init(&redis->lock, NULL);
    if (sl_shared_init(&redis->shared, &redis->store) ||
        sl_hash_key_make(&redis->store.secret))
        err = sl_refuse(diag, SLUICE_ESYS, "the system gives no random bytes");
    if (!err && options->where.tls)
        err = sl_tls_open_client(&tls, &redis->tls, diag);
    if (err) {
        close_redis(&redis->store);
        return err;
    }
    *ret = &redis->store;
    return 0;
}
