/* dynamo.c -- what one loop has of the store: how a take begins, and what is
 * told of the endpoint. trip.c has the rest of its way. */
#include "store/dynamo/dynamo.h"

#include <string.h>

#include "store/dynamo/dynamo_int.h"
#include "store/remote.h"

#define DEADLINE  (20 * SL_MS)
#define IN_FLIGHT 1024

static sl_ns steady(const struct sl_dynamo_client *seat)
{
    return sl_loop_mono(seat->loop);
}

/* ---- news ---- */

void sl_dynamo_client_heard(struct sl_dynamo_client *seat, bool answers,
                            const char *why)
{
    if (atomic_exchange(&seat->counts.up, answers) == answers)
        return;
    sl_store_log_tell(&seat->herald,
                      answers ? SL_STORE_EVENT_UP : SL_STORE_EVENT_DOWN, why);
    if (!answers && seat->hello)
        sl_dynamo_identity_go(seat->hello);
}

void sl_dynamo_client_trouble(struct sl_dynamo_client *seat,
                              enum sl_dynamo_status answered, const char *why)
{
    struct sl_diag said;

    if (!sl_store_log_may(&seat->herald, (int)answered, steady(seat)))
        return;
    sl_diag_error(&said, 0, "%s%s%s%s", sl_dynamo_status_sentence(answered),
                  why[0] ? " (" : "", why, why[0] ? ")" : "");
    sl_store_log_tell(&seat->herald, SL_STORE_EVENT_TROUBLE, said.sentence);
}

void sl_dynamo_client_note(struct sl_dynamo_op *trip, bool good)
{
    struct sl_dynamo_client *seat = trip->seat;

    sl_store_log_note(&seat->herald, &seat->breaker, good, &trip->tries,
                      steady(seat), &seat->counts.open);
}

/* ---- taking ---- */

static void refuse(struct sl_dynamo_client *seat, struct sl_take *take)
{
    SL_DYNAMO_ADD(seat->counts.failed);
    take->sent = false;
    take->err = SLUICE_ESTORE;
    take->allowed = false;
    take->done(take);
}

/* What a take is judged at. */
static sl_ns now_of(struct sl_dynamo_client *seat, const struct sl_take *take)
{
    sl_ns skew = sl_dynamo_http_skew(seat->client);
    sl_ns now = seat->options.own_now ? take->now : take->now + skew;

    atomic_store_explicit(&seat->counts.ahead, skew, memory_order_relaxed);
    return now > 0 ? now : 0;
}

static void set_deadline(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;
    sl_ns span = seat->options.deadline > 0 ? seat->options.deadline : DEADLINE;
    sl_ns now = steady(seat);

    if (trip->take->deadline > 0 && trip->take->deadline < now + span)
        span = trip->take->deadline > now ? trip->take->deadline - now : 0;
    sl_timer_start(trip->timer, span);
}

/* `leases`: its keys; NULL: nothing is leased. */
static void ask(struct sl_dynamo_client *seat, struct sl_take *take,
                const struct sl_denial_key *key,
                const struct sl_lease_keys *leases)
{
    unsigned most =
        seat->options.in_flight_most ? seat->options.in_flight_most : IN_FLIGHT;
    struct sl_dynamo_op *trip = NULL;
    bool tries;

    if (!sl_breaker_may(&seat->breaker, steady(seat), &tries)) {
        refuse(seat, take);
        return;
    }
    if (seat->under_way_count < most)
        trip = sl_dynamo_op_new(seat);
    if (!trip || sl_take_rows_fill(&trip->sheet, take, now_of(seat, take))) {
        sl_breaker_forget(&seat->breaker, tries);
        if (trip)
            sl_dynamo_op_free(trip);
        refuse(seat, take);
        return;
    }
    trip->take = take;
    take->sent = false;
    trip->tries = tries;
    trip->key = *key;
    trip->apart = take->apart && take->errand == SL_TAKE_OP_TAKE;
    trip->sent = sl_dynamo_client_time(seat, take);
    if (leases)
        sl_dynamo_op_ask_leases(trip, leases);
    set_deadline(trip);
    sl_dynamo_op_begin(trip);
}

void sl_dynamo_client_take(struct sl_dynamo_client *seat, struct sl_take *take)
{
    struct sl_lease_keys leases;
    struct sl_denial_key key;
    bool leased;

    if (take->count == 0) {
        take->err = 0;
        take->allowed = true;
        take->done(take);
        return;
    }
    if (!sl_hold_id_is_none(take->hold)) {
        take->err = SLUICE_EFULL; /* there are no holds here */
        take->allowed = take->sent = false;
        take->done(take);
        return;
    }
    if (seat->closing || !atomic_load(&seat->counts.ready)) {
        refuse(seat, take);
        return;
    }
    leased = (!take->apart || !atomic_load(seat->in_steps)) &&
             sl_dynamo_client_leases(seat, take, &leases);
    if (leased && sl_lease_cache_spend(seat->leases, &leases, take,
                                       sl_dynamo_client_time(seat, take))) {
        SL_DYNAMO_ADD(seat->counts.leased);
        take->done(take);
        return;
    }
    key = sl_denial_key(&seat->shared->forgets, take);
    if (take->errand == SL_TAKE_OP_TAKE && seat->denials &&
        sl_denial_cache_find(seat->denials, &key, take,
                             sl_dynamo_client_time(seat, take))) {
        SL_DYNAMO_ADD(seat->counts.remembered);
        take->done(take);
        return;
    }
    ask(seat, take, &key, leased ? &leases : NULL);
}

void sl_dynamo_client_keep(struct sl_dynamo_client *seat)
{
    if (seat->telling)
        seat->telling->keeps = true;
}

sl_ns sl_dynamo_client_retry_in(const struct sl_dynamo_client *seat)
{
    return sl_breaker_tries_in(&seat->breaker, steady(seat));
}

/* ---- life ---- */

static void on_keys(void *ctx, bool good, const char *sentence)
{
    struct sl_dynamo_client *seat = ctx;

    if (!good)
        sl_dynamo_client_trouble(seat, SL_FORBIDDEN, sentence);
    else if (seat->hello)
        sl_dynamo_identity_go(seat->hello);
}

static int open_parts(struct sl_dynamo_client *seat)
{
    struct sl_dynamo_http_options client = {
        .where = &seat->options.where,
        .env = &seat->options.env,
        .loop = seat->loop,
        .alloc = seat->options.alloc,
        .on_keys = on_keys,
        .ctx = seat,
    };
    int err = sl_jitter_init(&seat->breaker.dice);

    if (!err)
        err = sl_jitter_init(&seat->dice);
    if (!err)
        seat->lease_slot =
            (unsigned)(sl_jitter_next(&seat->dice) % SL_ROW_LEASES);
    if (!err)
        err = sl_dynamo_http_open(&client, &seat->client);
    return err ? err : sl_dynamo_identity_open(seat, &seat->hello);
}

int sl_dynamo_client_open(const struct sl_dynamo_options *options,
                          struct sl_store_identity *shared,
                          _Atomic bool *in_steps, _Atomic bool *in_notes,
                          struct sl_loop *loop, struct sl_dynamo_client **ret)
{
    struct sl_dynamo_client *seat = sl_alloc_new(options->alloc, sizeof(*seat));
    int err;

    if (!seat)
        return SLUICE_ENOMEM;
    memset(seat, 0, sizeof(*seat));
    seat->options = *options;
    seat->herald.on_news = options->on_news;
    seat->herald.ctx = options->ctx;
    seat->shared = shared;
    seat->in_steps = in_steps;
    seat->in_notes = in_notes;
    seat->loop = loop;
    TAILQ_INIT(&seat->under_way);
    TAILQ_INIT(&seat->spare);
    err = open_parts(seat);
    if (err) {
        sl_dynamo_client_close(seat);
        return err;
    }
    *ret = seat;
    return 0;
}

void sl_dynamo_client_close(struct sl_dynamo_client *seat)
{
    struct sl_dynamo_op *trip;

    if (!seat)
        return;
    seat->closing = seat->herald.closing = true;
    while ((trip = TAILQ_FIRST(&seat->under_way)) != NULL)
        sl_dynamo_op_abandon(trip);
    while ((trip = TAILQ_FIRST(&seat->spare)) != NULL) {
        TAILQ_REMOVE(&seat->spare, trip, links);
        sl_dynamo_op_destroy(trip);
    }
    sl_recovery_close(seat->healer);
    sl_dynamo_identity_close(seat->hello);
    sl_dynamo_http_close(seat->client);
    sl_denial_caches_close(seat->denials);
    sl_lease_cache_close(seat->leases);
    sl_timer_free(seat->lease_timer);
    sl_alloc_free(seat->options.alloc, seat, sizeof(*seat));
}

void sl_dynamo_client_stats(const struct sl_dynamo_client *seat,
                            struct sl_dynamo_stats *ret)
{
    const struct sl_dynamo_counts *c = &seat->counts;

    ret->asked += atomic_load(&c->asked);
    ret->taken += atomic_load(&c->taken);
    ret->late += atomic_load(&c->late);
    ret->failed += atomic_load(&c->failed);
    ret->returned += atomic_load(&c->returned);
    ret->uncertain += atomic_load(&c->uncertain);
    ret->remembered += atomic_load(&c->remembered);
    ret->unmet += atomic_load(&c->unmet);
    ret->throttled += atomic_load(&c->throttled);
    ret->spanning += atomic_load(&c->spanning);
    ret->leased += atomic_load(&c->leased);
    ret->lease_tokens += atomic_load(&c->lease_tokens);
    ret->lease_under += atomic_load(&c->lease_under);
    ret->under_way += atomic_load(&c->under_way);
    ret->up += atomic_load(&c->up);
    ret->ready += atomic_load(&c->ready);
    ret->open |= atomic_load(&c->open);
    if (atomic_load(&c->taken) > 0) /* otherwise nobody has told it */
        ret->ahead = atomic_load(&c->ahead);
    ret->seats++;
}

/* ---- the store in DynamoDB. */

struct dynamo {
    struct sl_store store; /* first */
    struct sl_dynamo_options options;
    struct sl_store_identity shared;
    struct sl_remote_clients seats; /* a struct sl_dynamo_client each */
    _Atomic bool in_notes;          /* see seat.h */
    _Atomic bool heals;             /* a seat does */
    struct sl_dynamo_stats
        gone; /* of seats that are closed; under the lock of those */
};

static struct dynamo *of(struct sl_store *store)
{
    return (struct dynamo *)store;
}

/* ---- what a store does ---- */

static struct sl_dynamo_client *seat_of(const struct dynamo *dynamo,
                                        const struct sl_loop *loop)
{
    return sl_remote_clients_find(&dynamo->seats, loop);
}

static void take(struct sl_store *store, struct sl_take *take)
{
    struct sl_dynamo_client *seat = seat_of(of(store), take->loop);

    if (seat) {
        sl_dynamo_client_take(seat, take);
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
    struct sl_dynamo_client *seat = NULL;
    int err = sl_dynamo_client_open(&dynamo->options, &dynamo->shared,
                                    &dynamo->store.in_steps, &dynamo->in_notes,
                                    loop, &seat);

    if (!err && !atomic_exchange(&dynamo->heals, true))
        err = sl_recovery_open(seat, &seat->healer);
    if (err)
        sl_dynamo_client_close(seat);
    if (err)
        return sl_diag_error(diag, err, "out of memory");
    err = sl_remote_clients_add(&dynamo->seats, loop, seat, diag);
    if (err)
        sl_dynamo_client_close(seat);
    return err;
}

/* What it has counted stays. */
static void close_seat(struct dynamo *dynamo, struct sl_dynamo_client *seat)
{
    struct sl_dynamo_stats *gone = &dynamo->gone;

    if (!seat)
        return;
    pthread_mutex_lock(&dynamo->seats.lock);
    sl_dynamo_client_stats(seat, gone);
    gone->up = gone->ready = gone->seats = gone->under_way = 0;
    gone->open = false;
    pthread_mutex_unlock(&dynamo->seats.lock);
    sl_dynamo_client_close(seat);
}

void sl_dynamo_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct dynamo *dynamo = of(store);

    close_seat(dynamo, sl_remote_clients_remove(&dynamo->seats, loop));
}

void sl_dynamo_drain(struct sl_store *store, struct sl_loop *loop, sl_ns now)
{
    struct sl_dynamo_client *seat = seat_of(of(store), loop);

    if (seat)
        sl_dynamo_client_drain(seat, now);
}

void sl_dynamo_stats(const struct sl_store *store, struct sl_dynamo_stats *ret)
{
    struct dynamo *dynamo = of((struct sl_store *)(uintptr_t)store);

    pthread_mutex_lock(&dynamo->seats.lock);
    *ret = dynamo->gone;
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&dynamo->seats.count); i++)
        if (sl_remote_clients_at(&dynamo->seats, i))
            sl_dynamo_client_stats(sl_remote_clients_at(&dynamo->seats, i),
                                   ret);
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
    struct sl_dynamo_client *seat = seat_of(of(store), loop);

    if (seat)
        sl_dynamo_client_keep(seat);
}

static sl_ns retry_in(const struct sl_store *store, const struct sl_loop *loop)
{
    struct sl_dynamo_client *seat = seat_of((const struct dynamo *)store, loop);

    return seat ? sl_dynamo_client_retry_in(seat) : 0;
}

/* ---- life ---- */

static void close_dynamo(struct sl_store *store)
{
    struct dynamo *dynamo = of(store);

    for (unsigned i = 0; i < atomic_load(&dynamo->seats.count); i++)
        sl_dynamo_client_close(sl_remote_clients_at(&dynamo->seats, i));
    sl_store_identity_done(&dynamo->shared);
    sl_remote_clients_done(&dynamo->seats);
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
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(dynamo, 0, sizeof(*dynamo));
    dynamo->options = *options;
    dynamo->options.alloc = alloc;
    dynamo->store.calls = &calls;
    dynamo->store.wants_names = true;
    sl_remote_clients_init(&dynamo->seats);
    if (sl_store_identity_init(&dynamo->shared, &dynamo->store) ||
        sl_hash_key_make(&dynamo->store.secret))
        err = sl_diag_error(diag, SLUICE_ESYS,
                            "the system did not provide random bytes");
    if (err) {
        close_dynamo(&dynamo->store);
        return err;
    }
    *ret = &dynamo->store;
    return 0;
}
