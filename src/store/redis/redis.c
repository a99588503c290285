/* redis.c -- what one loop has of the store: its connections, and what is on
 * its way.
 *
 *     take --> voyage --> reply -------------> answered
 *                |          |
 *                |          +-- NOSCRIPT: once more, with the text
 *                +-- deadline: failed; recalled if it was not sent yet,
 *                    otherwise the voyage goes on without its take
 *                               |
 *                               +-- reply: it had taken --> given back
 *
 * Here is how one begins and when it is given up; landing.c has its ends.
 */
#include "store/redis/redis.h"

#include <string.h>

#include "store/redis/redis_int.h"
#include "store/remote.h"

#define DEADLINE  (20 * SL_MS)
#define IN_FLIGHT 8192

static sl_ns steady(const struct sl_redis_client *seat)
{
    return sl_loop_mono(seat->loop);
}

/* ---- news ---- */

/* A reply that is no answer: say what it means, not too often. */
void sl_redis_client_trouble(struct sl_redis_client *seat, struct sl_str reply)
{
    struct sl_diag said;
    struct sl_str text;
    enum sl_redis_error trouble = sl_redis_error_of(reply, &text);

    if (!sl_store_log_may(&seat->herald, (int)trouble, steady(seat)))
        return;
    text.len = text.len < 80 ? text.len : 80;
    sl_diag_error(&said, 0, "%s (%.*s)", sl_redis_error_sentence(trouble),
                  SL_STR_ARG(text));
    sl_store_log_tell(&seat->herald, SL_STORE_EVENT_TROUBLE, said.sentence);
}

void sl_redis_client_note(struct sl_redis_op *r, bool good)
{
    struct sl_redis_client *seat = r->seat;

    sl_store_log_note(&seat->herald, &seat->breaker, good, &r->tries,
                      steady(seat), &seat->counts.open);
}

/* ---- deadlines ---- */

static void give_up(struct sl_redis_op *r)
{
    bool recalled = sl_redis_cluster_cancel(&r->voyage);

    SL_ADD(r->seat->counts.late);
    if (r->take)
        r->take->sent = !recalled;
    sl_redis_client_note(r, false);
    r->seat->telling = recalled ? NULL : r;
    sl_redis_op_answer(r, SLUICE_ESTORE);
    r->seat->telling = NULL;
    if (recalled) { /* otherwise its voyage goes on */
        sl_redis_op_leases_lost(r, true);
        sl_redis_op_free(r);
    }
}

static void on_timer(void *ctx)
{
    struct sl_redis_client *seat = ctx;
    sl_ns now = steady(seat);
    struct sl_redis_op *r;

    while ((r = TAILQ_FIRST(&seat->waiting)) != NULL && r->until <= now)
        give_up(r);
    if (r)
        sl_timer_start(seat->timer, r->until - now);
}

/* Nearly all have the same time, so that its place is at the end. */
void sl_redis_op_wait(struct sl_redis_op *r, sl_ns deadline)
{
    struct sl_redis_client *seat = r->seat;
    sl_ns span = seat->options.deadline > 0 ? seat->options.deadline : DEADLINE;
    sl_ns now = steady(seat);
    struct sl_redis_op *before = TAILQ_LAST(&seat->waiting, sl_records);

    r->until = now + span;
    if (deadline > 0 && deadline < r->until)
        r->until = deadline;
    while (before && before->until > r->until)
        before = TAILQ_PREV(before, sl_records, waits);
    if (before) {
        TAILQ_INSERT_AFTER(&seat->waiting, before, r, waits);
        return;
    }
    TAILQ_INSERT_HEAD(&seat->waiting, r, waits);
    sl_timer_start(seat->timer, r->until > now ? r->until - now : 0);
}

/* ---- taking ---- */

static void refuse(struct sl_redis_client *seat, struct sl_take *take)
{
    SL_ADD(seat->counts.failed);
    take->sent = false;
    take->err = SLUICE_ESTORE;
    take->allowed = false;
    take->done(take);
}

/* The slot that all keys of the set lie in. False if there is none. */
static bool slot_of(struct sl_redis_client *seat, const struct sl_take *take,
                    unsigned *ret)
{
    *ret = 0;
    if (!sl_redis_cluster_is_cluster(seat->fleet))
        return true;
    *ret = sl_cluster_slot_of(sl_take_part_name(&take->parts[0]));
    for (unsigned i = 1; i < take->count; i++)
        if (sl_cluster_slot_of(sl_take_part_name(&take->parts[i])) != *ret) {
            SL_ADD(seat->counts.spanning);
            sl_redis_client_trouble(seat, SL_STR("-CROSSSLOT\r\n"));
            return false;
        }
    return true;
}

/* `leases`: its keys; NULL: nothing is leased. */
static void ask(struct sl_redis_client *seat, struct sl_take *take,
                const struct sl_denial_key *key, unsigned slot,
                const struct sl_lease_keys *leases)
{
    struct sl_script_options how = {.own_now = seat->options.own_now,
                                    .near =
                                        sl_redis_client_near(seat, take->now)};
    char name[SL_HOLD_NAME];
    struct sl_redis_op *r = NULL;
    bool tries;

    if (!sl_breaker_may(&seat->breaker, steady(seat), &tries)) {
        refuse(seat, take);
        return;
    }
    if (sl_redis_cluster_is_accepting(seat->fleet, slot))
        r = sl_redis_op_new(seat);
    if (r) {
        r->key = *key;
        r->voyage.slot = slot;
    }
    if (r && leases)
        sl_redis_op_ask_leases(r, leases, take, &how);
    if (take->errand == SL_TAKE_OP_TAKE && !sl_hold_id_is_none(take->hold))
        how.record = sl_redis_op_record(seat, take->hold, slot, name);
    take->place = slot;
    if (!r || sl_script_write(take, &how, &r->command)) {
        sl_breaker_forget(&seat->breaker, tries);
        if (r) {
            sl_redis_op_leases_lost(r, true);
            sl_redis_op_free(r);
        }
        refuse(seat, take);
        return;
    }
    r->take = take;
    take->sent = false;
    r->errand = take->errand;
    r->hold = take->hold;
    r->hold_now = take->now;
    r->tries = tries;
    r->sent = sl_redis_client_time(seat, take);
    r->voyage.flight.command = sl_buf_str(&r->command);
    sl_redis_op_wait(r, take->deadline);
    sl_redis_op_forget(r);
    sl_redis_cluster_send(seat->fleet, &r->voyage);
}

void sl_redis_client_take(struct sl_redis_client *seat, struct sl_take *take)
{
    struct sl_lease_keys leases;
    struct sl_denial_key key;
    unsigned slot;
    bool leased;

    if (take->count == 0) {
        take->err = 0;
        take->allowed = true;
        take->done(take);
        return;
    }
    if (seat->closing || !atomic_load(&seat->counts.ready) ||
        !slot_of(seat, take, &slot)) {
        refuse(seat, take);
        return;
    }
    leased = sl_redis_client_leases(seat, take, &leases);
    if (leased && sl_lease_cache_spend(seat->leases, &leases, take,
                                       sl_redis_client_time(seat, take))) {
        SL_ADD(seat->counts.leased);
        take->done(take);
        return;
    }
    key = sl_denial_key(&seat->shared->forgets, take);
    if (take->errand == SL_TAKE_OP_TAKE && seat->denials &&
        sl_denial_cache_find(seat->denials, &key, take,
                             sl_redis_client_time(seat, take))) {
        SL_ADD(seat->counts.remembered);
        take->done(take);
        return;
    }
    ask(seat, take, &key, slot, leased ? &leases : NULL);
}

void sl_redis_client_keep(struct sl_redis_client *seat)
{
    if (seat->telling)
        seat->telling->keeps = true;
}

sl_ns sl_redis_client_retry_in(const struct sl_redis_client *seat)
{
    sl_ns calls = sl_redis_cluster_reconnect_in(seat->fleet);
    sl_ns tries = sl_breaker_tries_in(&seat->breaker, steady(seat));

    return calls > tries ? calls : tries;
}

/* ---- life ---- */

static void on_change(void *ctx, bool up, const char *why)
{
    struct sl_redis_client *seat = ctx;

    atomic_store(&seat->counts.up,
                 seat->fleet && sl_redis_cluster_is_up(seat->fleet));
    sl_store_log_tell(&seat->herald,
                      up ? SL_STORE_EVENT_UP : SL_STORE_EVENT_DOWN, why);
    if (up && seat->welcome)
        sl_redis_identity_go(seat->welcome);
}

static void on_ready(void *ctx)
{
    struct sl_redis_client *seat = ctx;

    atomic_store(&seat->counts.ready, true);
}

static void on_changed(void *ctx, const char *sentence)
{
    const struct sl_redis_client *seat = ctx;

    sl_store_log_tell(&seat->herald, SL_STORE_EVENT_CHANGED, sentence);
}

static void on_warning(void *ctx, const char *sentence)
{
    const struct sl_redis_client *seat = ctx;

    sl_store_log_tell(&seat->herald, SL_STORE_EVENT_TROUBLE, sentence);
}

static void on_no_welcome(void *ctx, struct sl_str reply)
{
    sl_redis_client_trouble(ctx, reply);
}

static int open_parts(struct sl_redis_client *seat, struct sl_tls *tls)
{
    const struct sl_redis_options *o = &seat->options;
    struct sl_redis_cluster_options fleet = {
        .where = &o->where,
        .loop = seat->loop,
        .tls = tls,
        .most = o->in_flight_most ? o->in_flight_most : IN_FLIGHT,
        .alloc = o->alloc,
        .on_change = on_change,
        .ctx = seat,
    };
    struct sl_redis_identity_options welcome = {
        .loop = seat->loop,
        .shared = seat->shared,
        .every = o->look_every,
        .alloc = o->alloc,
        .on_ready = on_ready,
        .on_changed = on_changed,
        .on_reply = on_no_welcome,
        .on_warning = on_warning,
        .ctx = seat,
    };
    int err = sl_jitter_init(&seat->breaker.dice);

    if (!err)
        err = sl_timer_new(seat->loop, on_timer, seat, &seat->timer);
    if (!err)
        err = sl_redis_cluster_open(&fleet, &seat->fleet);
    welcome.fleet = seat->fleet;
    return err ? err : sl_redis_identity_open(&welcome, &seat->welcome);
}

int sl_redis_client_open(const struct sl_redis_options *options,
                         struct sl_store_identity *shared, struct sl_tls *tls,
                         struct sl_loop *loop, struct sl_redis_client **ret)
{
    struct sl_redis_client *seat = sl_alloc_new(options->alloc, sizeof(*seat));
    int err;

    if (!seat)
        return SLUICE_ENOMEM;
    memset(seat, 0, sizeof(*seat));
    seat->options = *options;
    seat->herald.on_news = options->on_news;
    seat->herald.ctx = options->ctx;
    seat->shared = shared;
    seat->loop = loop;
    TAILQ_INIT(&seat->waiting);
    TAILQ_INIT(&seat->spare);
    err = open_parts(seat, tls);
    if (err) {
        sl_redis_client_close(seat);
        return err;
    }
    *ret = seat;
    return 0;
}

void sl_redis_client_close(struct sl_redis_client *seat)
{
    struct sl_redis_op *r;

    if (!seat)
        return;
    seat->closing = seat->herald.closing = true;
    sl_redis_cluster_close(seat->fleet); /* and all voyages end */
    sl_redis_identity_close(seat->welcome);
    while ((r = TAILQ_FIRST(&seat->spare)) != NULL) {
        TAILQ_REMOVE(&seat->spare, r, waits);
        sl_redis_op_free(r);
    }
    sl_denial_caches_close(seat->denials);
    sl_lease_cache_close(seat->leases);
    sl_timer_free(seat->lease_timer);
    sl_timer_free(seat->timer);
    sl_alloc_free(seat->options.alloc, seat, sizeof(*seat));
}

void sl_redis_client_stats(const struct sl_redis_client *seat,
                           struct sl_redis_stats *ret)
{
    const struct sl_redis_counts *c = &seat->counts;
    const struct sl_redis_cluster_counts *fleet =
        sl_redis_cluster_counts(seat->fleet);

    ret->taken += atomic_load(&c->taken);
    ret->late += atomic_load(&c->late);
    ret->failed += atomic_load(&c->failed);
    ret->returned += atomic_load(&c->returned);
    ret->uncertain += atomic_load(&c->uncertain);
    ret->strange += atomic_load(&c->strange);
    ret->repaired += atomic_load(&c->repaired);
    ret->remembered += atomic_load(&c->remembered);
    ret->spanning += atomic_load(&c->spanning);
    ret->leased += atomic_load(&c->leased);
    ret->lease_tokens += atomic_load(&c->lease_tokens);
    ret->lease_over += atomic_load(&c->lease_over);
    ret->lease_under += atomic_load(&c->lease_under);
    ret->redirected += atomic_load(&fleet->redirected);
    ret->storms += atomic_load(&fleet->storms);
    ret->up += atomic_load(&c->up);
    ret->ready += atomic_load(&c->ready);
    ret->open |= atomic_load(&c->open);
    if (atomic_load(&c->taken) > 0) /* otherwise nobody has told it */
        ret->ahead = atomic_load(&c->ahead);
    ret->seats++;
}

/* ---- the store in a Redis. */

struct redis {
    struct sl_store store; /* first */
    struct sl_redis_options options;
    struct sl_tls *tls;
    struct sl_store_identity shared;
    struct sl_remote_clients seats; /* a struct sl_redis_client each */
    struct sl_redis_stats
        gone; /* of seats that are closed; under the lock of those */
};

static struct redis *of(struct sl_store *store)
{
    return (struct redis *)store;
}

/* ---- what a store does ---- */

static struct sl_redis_client *seat_of(const struct redis *redis,
                                       const struct sl_loop *loop)
{
    return sl_remote_clients_find(&redis->seats, loop);
}

static void take(struct sl_store *store, struct sl_take *take)
{
    struct sl_redis_client *seat = seat_of(of(store), take->loop);

    if (seat) {
        sl_redis_client_take(seat, take);
        return;
    }
    take->err = SLUICE_ESTORE;
    take->sent = false;
    take->allowed = false;
    take->done(take);
}

static void hold(struct sl_store *store, struct sl_hold_call *call)
{
    struct sl_redis_client *seat = seat_of(of(store), call->loop);

    if (seat) {
        sl_redis_client_hold(seat, call);
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
    struct sl_redis_client *seat = NULL;
    int err = sl_redis_client_open(&redis->options, &redis->shared, redis->tls,
                                   loop, &seat);

    if (err)
        return sl_diag_error(diag, err, "out of memory");
    err = sl_remote_clients_add(&redis->seats, loop, seat, diag);
    if (err)
        sl_redis_client_close(seat);
    return err;
}

/* What it has counted stays. */
static void close_seat(struct redis *redis, struct sl_redis_client *seat)
{
    struct sl_redis_stats *gone = &redis->gone;

    if (!seat)
        return;
    pthread_mutex_lock(&redis->seats.lock);
    sl_redis_client_stats(seat, gone);
    gone->up = gone->ready = gone->seats = 0;
    gone->open = false;
    pthread_mutex_unlock(&redis->seats.lock);
    sl_redis_client_close(seat);
}

void sl_redis_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct redis *redis = of(store);

    close_seat(redis, sl_remote_clients_remove(&redis->seats, loop));
}

void sl_redis_stats(const struct sl_store *store, struct sl_redis_stats *ret)
{
    struct redis *redis = of((struct sl_store *)(uintptr_t)store);

    pthread_mutex_lock(&redis->seats.lock);
    *ret = redis->gone;
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&redis->seats.count); i++)
        if (sl_remote_clients_at(&redis->seats, i))
            sl_redis_client_stats(sl_remote_clients_at(&redis->seats, i), ret);
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
    struct sl_redis_client *seat = seat_of(of(store), loop);

    if (seat)
        sl_redis_client_keep(seat);
}

void sl_redis_drain(struct sl_store *store, struct sl_loop *loop, sl_ns now)
{
    struct sl_redis_client *seat = seat_of(of(store), loop);

    if (seat)
        sl_redis_client_drain(seat, now);
}

sl_ns sl_redis_retry_in(const struct sl_store *store,
                        const struct sl_loop *loop)
{
    struct sl_redis_client *seat = seat_of((const struct redis *)store, loop);

    return seat ? sl_redis_client_retry_in(seat) : 0;
}

/* ---- life ---- */

static void close_redis(struct sl_store *store)
{
    struct redis *redis = of(store);

    for (unsigned i = 0; i < atomic_load(&redis->seats.count); i++)
        sl_redis_client_close(sl_remote_clients_at(&redis->seats, i));
    sl_tls_unref(redis->tls);
    sl_store_identity_done(&redis->shared);
    sl_remote_clients_done(&redis->seats);
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
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(redis, 0, sizeof(*redis));
    redis->options = *options;
    redis->options.alloc = alloc;
    redis->store.calls = &calls;
    redis->store.wants_names = true;
    redis->store.in_slots = options->where.kind == SL_REDIS_CLUSTER;
    sl_remote_clients_init(&redis->seats);
    if (sl_store_identity_init(&redis->shared, &redis->store) ||
        sl_hash_key_make(&redis->store.secret))
        err = sl_diag_error(diag, SLUICE_ESYS,
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
