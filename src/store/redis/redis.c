/* redis.c -- the store in a Redis: seats by loop. */
#include "store/redis/redis.h"

#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/seat.h"

#define SEATS 256

struct redis {
    struct sl_store store; /* first */
    struct sl_redis_options options;
    struct sl_tls *tls;
    pthread_mutex_t lock; /* who writes `seats` */
    struct {
        struct sl_loop *loop;
        struct sl_redis_seat *seat;
    } seats[SEATS];
    _Atomic unsigned seat_count;
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
        if (redis->seats[i].loop == loop)
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
    take->allowed = false;
    take->done(take);
}

/* ---- seats ---- */

/* The first address that the name has. */
static int resolve(const struct sl_redis_host *host, struct sl_address *ret,
                   struct sl_diag *diag)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char text[160];
    int why;

    if (host->port == 0) {
        snprintf(text, sizeof(text), "unix:%s", host->name);
        return sl_address_parse(sl_str_c(text), ret, diag);
    }
    snprintf(text, sizeof(text), "%u", host->port);
    why = getaddrinfo(host->name, text, &hints, &list);
    if (why)
        return sl_refuse(diag, SLUICE_ESTORE, "%s can't be found: %s",
                         host->name, gai_strerror(why));
    memset(ret, 0, sizeof(*ret));
    memcpy(&ret->bytes, list->ai_addr, list->ai_addrlen);
    ret->len = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

int sl_redis_attach(struct sl_store *store, struct sl_loop *loop,
                    struct sl_diag *diag)
{
    struct redis *redis = of(store);
    unsigned count = atomic_load(&redis->seat_count);
    struct sl_redis_seat *seat = NULL;
    struct sl_address to;
    int err = resolve(&redis->options.where.hosts[0], &to, diag);

    if (err)
        return err;
    err = sl_redis_seat_open(&redis->options, &to, redis->tls, loop, &seat);
    if (err)
        return sl_refuse(diag, err, "there is no memory");
    pthread_mutex_lock(&redis->lock);
    count = atomic_load(&redis->seat_count);
    if (count < SEATS) {
        redis->seats[count].loop = loop;
        redis->seats[count].seat = seat;
        atomic_store_explicit(&redis->seat_count, count + 1,
                              memory_order_release);
        seat = NULL;
    }
    pthread_mutex_unlock(&redis->lock);
    if (!seat)
        return 0;
    sl_redis_seat_close(seat);
    return sl_refuse(diag, SLUICE_EFULL, "these are too many loops");
}

void sl_redis_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct redis *redis = of(store);
    struct sl_redis_seat *seat = NULL;

    pthread_mutex_lock(&redis->lock);
    for (unsigned i = 0; i < atomic_load(&redis->seat_count); i++)
        if (redis->seats[i].loop == loop) {
            seat = redis->seats[i].seat;
            redis->seats[i].loop = NULL;
        }
    pthread_mutex_unlock(&redis->lock);
    if (seat)
        sl_redis_seat_close(seat);
}

static void add_counts(const struct sl_redis_counts *counts,
                       struct sl_redis_stats *ret)
{
    ret->taken += atomic_load(&counts->taken);
    ret->late += atomic_load(&counts->late);
    ret->failed += atomic_load(&counts->failed);
    ret->returned += atomic_load(&counts->returned);
    ret->uncertain += atomic_load(&counts->uncertain);
    ret->strange += atomic_load(&counts->strange);
    ret->repaired += atomic_load(&counts->repaired);
    ret->up += atomic_load(&counts->up);
    ret->open |= atomic_load(&counts->open);
    ret->ahead = atomic_load(&counts->ahead);
    ret->seats++;
}

void sl_redis_stats(const struct sl_store *store, struct sl_redis_stats *ret)
{
    const struct redis *redis = (const struct redis *)store;

    memset(ret, 0, sizeof(*ret));
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&redis->seat_count); i++)
        if (redis->seats[i].loop)
            add_counts(sl_redis_seat_counts(redis->seats[i].seat), ret);
}

/* ---- life ---- */

static void close_redis(struct sl_store *store)
{
    struct redis *redis = of(store);

    for (unsigned i = 0; i < atomic_load(&redis->seat_count); i++)
        if (redis->seats[i].loop)
            sl_redis_seat_close(redis->seats[i].seat);
    sl_tls_unref(redis->tls);
    pthread_mutex_destroy(&redis->lock);
    sl_alloc_free(redis->options.alloc, redis, sizeof(*redis));
}

static const struct sl_store_calls calls = {bind_limits, tighten, take,
                                            close_redis};

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
    pthread_mutex_init(&redis->lock, NULL);
    if (sl_hash_key_make(&redis->store.secret))
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
