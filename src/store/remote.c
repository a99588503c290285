/* remote.c -- the part that all remote stores share. */
#include "store/remote.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define DEADLINE (20 * SL_MS)
#define DENIALS  1024
#define LEASES   4096

/* ---- store identity ---- */

static bool read_key(struct sl_str text, struct sl_hash_key *ret)
{
    uint64_t words[2] = {0, 0};

    if (text.len != SL_STORE_IDENTITY)
        return false;
    for (unsigned i = 0; i < SL_STORE_IDENTITY; i++) {
        int digit = sl_hex_value(text.at[i]);

        if (digit < 0)
            return false;
        words[i / 16] = words[i / 16] << 4 | (uint64_t)digit;
    }
    *ret = (struct sl_hash_key){words[0], words[1]};
    return true;
}

int sl_store_identity_fresh(char ret[SL_STORE_IDENTITY + 1])
{
    struct sl_hash_key key;
    int err = sl_hash_key_make(&key);

    if (err)
        return err;
    snprintf(ret, SL_STORE_IDENTITY + 1, "%016" PRIx64 "%016" PRIx64, key.k0,
             key.k1);
    return 0;
}

int sl_store_identity_init(struct sl_store_identity *identity,
                           struct sl_store *store)
{
    int err;

    memset(identity, 0, sizeof(*identity));
    pthread_mutex_init(&identity->lock, NULL);
    identity->store = store;
    err = sl_store_identity_fresh(identity->secret_text);
    return err ? err : sl_hash_key_make(&identity->forgets.key);
}

void sl_store_identity_done(struct sl_store_identity *identity)
{
    pthread_mutex_destroy(&identity->lock);
    explicit_bzero(identity->secret_text, sizeof(identity->secret_text));
    explicit_bzero(&identity->secret, sizeof(identity->secret));
}

void sl_store_identity_secret(struct sl_store_identity *identity,
                              char ret[SL_STORE_IDENTITY + 1])
{
    pthread_mutex_lock(&identity->lock);
    memcpy(ret, identity->secret_text, SL_STORE_IDENTITY + 1);
    pthread_mutex_unlock(&identity->lock);
}

bool sl_store_identity_see_secret(struct sl_store_identity *identity,
                                  struct sl_str text, bool *ret_changed)
{
    struct sl_hash_key key;

    if (!read_key(text, &key))
        return false;
    pthread_mutex_lock(&identity->lock);
    if (!identity->has_secret) {
        identity->has_secret = true;
        memcpy(identity->secret_text, text.at, SL_STORE_IDENTITY);
        identity->secret = key;
        atomic_store_explicit(&identity->store->found, &identity->secret,
                              memory_order_release);
    }
    *ret_changed =
        memcmp(identity->secret_text, text.at, SL_STORE_IDENTITY) != 0;
    pthread_mutex_unlock(&identity->lock);
    return true;
}

bool sl_store_identity_see_epoch(struct sl_store_identity *identity,
                                 struct sl_str text, bool *ret_changed)
{
    struct sl_hash_key key;

    if (!read_key(text, &key))
        return false;
    pthread_mutex_lock(&identity->lock);
    *ret_changed = identity->has_epoch &&
                   memcmp(identity->epoch, text.at, SL_STORE_IDENTITY) != 0;
    identity->has_epoch = true;
    memcpy(identity->epoch, text.at, SL_STORE_IDENTITY);
    if (*ret_changed)
        identity->epochs++;
    pthread_mutex_unlock(&identity->lock);
    return true;
}

bool sl_store_identity_see_process(struct sl_store_identity *identity,
                                   struct sl_str text)
{
    bool changed;

    if (text.len == 0 || text.len > SL_STORE_PROCESS)
        return false;
    pthread_mutex_lock(&identity->lock);
    changed =
        identity->process[0] && !sl_str_eq(sl_str_c(identity->process), text);
    if (changed && identity->process_epochs == atomic_load(&identity->epochs))
        atomic_fetch_add(&identity->restarts, 1);
    else
        changed = false;
    identity->process_epochs = atomic_load(&identity->epochs);
    memcpy(identity->process, text.at, text.len);
    identity->process[text.len] = '\0';
    pthread_mutex_unlock(&identity->lock);
    return changed;
}

/* ---- periods ---- */

/* How often a client without traffic looks whether a probe is due. */
#define PROBE_PERIOD (100 * SL_MS)

#define MEASURE_PERIOD (5 * SL_S) /* of the latency */

/* ---- status log ---- */

#define WRITE_AGAIN (10 * SL_S) /* the same error */

void sl_store_log_write(const struct sl_store_log *log,
                        enum sl_store_event event, const char *sentence)
{
    if (log->on_event && !log->closing)
        log->on_event(log->ctx, event, sentence);
}

bool sl_store_log_is_due(struct sl_store_log *log, int error, sl_ns now)
{
    if (log->last_time > 0 && log->last_error == error &&
        now - log->last_time < WRITE_AGAIN)
        return false;
    log->last_error = error;
    log->last_time = now;
    return true;
}

/* ---- ops ---- */

static sl_ns mono(const struct sl_remote_client *client)
{
    return sl_loop_mono(client->loop);
}

static void op_destroy(struct sl_remote_op *op)
{
    struct sl_remote_client *client = op->client;

    client->backend->op_done(op);
    sl_alloc_free(client->options->alloc, op, client->backend->op_size);
}

static struct sl_remote_op *op_make(struct sl_remote_client *client)
{
    size_t size = client->backend->op_size;
    struct sl_remote_op *op = sl_alloc_new(client->options->alloc, size);

    if (!op)
        return NULL;
    memset(op, 0, size);
    op->client = client;
    if (client->backend->op_init(op)) {
        op_destroy(op);
        return NULL;
    }
    return op;
}

struct sl_remote_op *sl_remote_op_new(struct sl_remote_client *client)
{
    struct sl_remote_op *op = TAILQ_FIRST(&client->spare);

    if (op) {
        TAILQ_REMOVE(&client->spare, op, links);
        client->spare_count--;
    } else {
        op = op_make(client);
        if (!op)
            return NULL;
    }
    op->take = NULL;
    op->hold = NULL;
    op->repeat = NULL;
    op->is_hold = op->is_repeat = op->probe = op->keep_taken = false;
    op->is_refund = op->ends_lease = false;
    op->leases.count = 0;
    op->leases.frees = false;
    op->denial.count = 0;
    op->place = 0;
    TAILQ_INSERT_TAIL(&client->in_flight, op, links);
    atomic_store_explicit(&client->counts.under_way, ++client->in_flight_count,
                          memory_order_relaxed);
    return op;
}

void sl_remote_op_free(struct sl_remote_op *op)
{
    struct sl_remote_client *client = op->client;

    sl_remote_op_leases_lost(op, false);
    client->backend->op_reset(op);
    TAILQ_REMOVE(&client->in_flight, op, links);
    atomic_store_explicit(&client->counts.under_way, --client->in_flight_count,
                          memory_order_relaxed);
    if (client->spare_count >= client->backend->spares || client->closing) {
        op_destroy(op);
        return;
    }
    TAILQ_INSERT_HEAD(&client->spare, op, links);
    client->spare_count++;
}

/* (3) */
static void answer(struct sl_remote_op *op, int err)
{
    struct sl_take *take = op->take;
    struct sl_hold_call *hold = op->hold;
    struct sl_repeat_call *repeat = op->repeat;

    TAILQ_REMOVE(&op->client->waiting, op, waits); /* (1) */
    op->take = NULL;
    op->hold = NULL;
    op->repeat = NULL;
    if (repeat) {
        repeat->err = err;
        repeat->done(repeat);
        return;
    }
    if (hold) {
        hold->err = err;
        hold->done(hold);
        return;
    }
    take->err = err;
    if (err)
        take->allowed = false;
    take->done(take);
}

/* Tells the breaker how a take ended, and logs if that changed its state. */
static void record(struct sl_remote_op *op, bool good)
{
    struct sl_remote_client *client = op->client;
    bool changed =
        sl_breaker_record(&client->breaker, good, op->probe, mono(client));

    op->probe = false;
    if (!changed)
        return;
    atomic_store(&client->counts.open, client->breaker.is_open);
    if (client->breaker.is_open && !client->options->own_now)
        sl_timer_start(client->probe_timer, PROBE_PERIOD);
    if (client->breaker.is_open)
        sl_store_log_write(&client->log, SL_STORE_EVENT_OPENED,
                           "too many takes failed; takes fail at once now, "
                           "except one probe from time to time");
    else
        sl_store_log_write(&client->log, SL_STORE_EVENT_CLOSED,
                           "the store answers again");
}

/* ---- deadlines ---- */

static void on_deadline(struct sl_remote_op *op)
{
    struct sl_remote_client *client = op->client;
    bool uncertain = false;
    bool cancelled = client->backend->cancel(op, &uncertain);

    SL_REMOTE_COUNT(client, late);
    if (op->take)
        op->take->sent = uncertain;
    record(op, false);
    client->answering = uncertain ? op : NULL;
    answer(op, SLUICE_ESTORE);
    client->answering = NULL;
    if (cancelled) {
        sl_remote_op_leases_lost(op, true);
        sl_remote_op_free(op);
    }
}

static void on_timer(void *ctx)
{
    struct sl_remote_client *client = ctx;
    sl_ns now = mono(client);
    struct sl_remote_op *op;

    while ((op = TAILQ_FIRST(&client->waiting)) != NULL && op->deadline <= now)
        on_deadline(op);
    if (op)
        sl_timer_start(client->timer, op->deadline - now);
}

/* (1) Nearly all ops have the same timeout, so that the search from the end is
 * short. */
static void start_deadline(struct sl_remote_op *op, sl_ns deadline)
{
    struct sl_remote_client *client = op->client;
    sl_ns span = client->options->deadline;
    sl_ns now = mono(client);
    struct sl_remote_op *before = TAILQ_LAST(&client->waiting, sl_remote_ops);

    op->began = now;
    op->deadline = now + (span > 0 ? span : DEADLINE);
    if (deadline > 0 && deadline < op->deadline)
        op->deadline = deadline;
    while (before && before->deadline > op->deadline)
        before = TAILQ_PREV(before, sl_remote_ops, waits);
    if (before) {
        TAILQ_INSERT_AFTER(&client->waiting, before, op, waits);
        return;
    }
    TAILQ_INSERT_HEAD(&client->waiting, op, waits);
    sl_timer_start(client->timer, op->deadline > now ? op->deadline - now : 0);
}

/* ---- ends of ops ---- */

/* A remote store judges at its own time, so the end of a window, counted from
 * the caller's time, is off by the round trip and by the difference of the
 * clocks. Moves it to the nearest edge of a window after take->now. A denial
 * until that end is not retried before it, nor earlier than the store says,
 * whose clock may be behind. */
static void align_times(struct sl_take *take)
{
    for (unsigned i = 0; i < take->count; i++) {
        struct sl_answer *a = &take->parts[i].answer;
        bool until_reset = a->outcome == SL_DENY && a->retry_in == a->reset_in;
        sl_ns end;

        if (a->reset_in <= 0)
            continue;
        end = sl_limit_edge(take->parts[i].limit,
                            sl_ns_add_sat(take->now, a->reset_in));
        if (end <= take->now)
            continue;
        a->reset_in = end - take->now;
        if (until_reset && a->retry_in < a->reset_in)
            a->retry_in = a->reset_in;
    }
}

static bool changes(const struct sl_remote_op *op)
{
    return op->kind != SL_TAKE_OP_PEEK;
}

static void forget_names(const struct sl_remote_op *op)
{
    sl_denial_forgets_add(&op->client->identity->forgets, &op->denial);
}

void sl_remote_op_forget(const struct sl_remote_op *op)
{
    if (op->kind == SL_TAKE_OP_REFUND || op->kind == SL_TAKE_OP_RESET)
        forget_names(op);
}

static void cache_denial(struct sl_remote_op *op)
{
    struct sl_remote_client *client = op->client;
    const struct sl_remote_options *o = client->options;

    if (!op->take || op->kind != SL_TAKE_OP_TAKE || op->take->allowed ||
        o->no_denials)
        return;
    if (!client->denials &&
        sl_denial_cache_open(o->denials_most ? o->denials_most : DENIALS,
                             o->alloc, &client->denials))
        return; /* out of memory: the store is asked again */
    sl_denial_cache_add(client->denials, &op->denial,
                        &client->identity->forgets, op->take, op->sent,
                        sl_remote_client_time(client, op->take));
}

/* Measures an answer, also a late one. The shortest time of a period is that of
 * the network and the store; longer ones include waiting. */
static void measure(const struct sl_remote_op *op)
{
    struct sl_remote_client *client = op->client;
    sl_ns now = mono(client);
    sl_ns span = now > op->began ? now - op->began : 1;
    sl_ns known =
        atomic_load_explicit(&client->counts.latency, memory_order_relaxed);

    if (client->shortest == 0 || span < client->shortest)
        client->shortest = span;
    if (known > 0 && client->shortest >= known &&
        now - client->measured < MEASURE_PERIOD)
        return;
    atomic_store_explicit(&client->counts.latency, client->shortest,
                          memory_order_relaxed);
    if (known == 0 || now - client->measured >= MEASURE_PERIOD) {
        client->measured = now;
        client->shortest = 0;
    }
}

void sl_remote_op_succeed(struct sl_remote_op *op, bool cacheable)
{
    sl_remote_op_forget(op);
    if (op->take || op->hold || op->repeat) {
        record(op, true);
        measure(op);
        SL_REMOTE_COUNT(op->client, taken);
        if (cacheable)
            cache_denial(op);
        if (op->take)
            align_times(op->take);
        answer(op, 0);
    } else if (op->is_refund && !op->ends_lease) {
        SL_REMOTE_COUNT(op->client, returned);
    }
}

bool sl_remote_op_late(struct sl_remote_op *op, bool taken)
{
    struct sl_remote_client *client = op->client;

    measure(op);
    if (op->kind != SL_TAKE_OP_TAKE && changes(op))
        SL_REMOTE_COUNT(client, uncertain);
    if (op->kind != SL_TAKE_OP_TAKE || !taken || op->keep_taken ||
        client->closing)
        return false;
    if (client->backend->encode_refund(op)) {
        SL_REMOTE_COUNT(client, uncertain);
        return false;
    }
    op->is_refund = true;
    op->kind = SL_TAKE_OP_REFUND;
    sl_remote_op_forget(op);
    client->backend->send(op);
    return true;
}

void sl_remote_op_fail(struct sl_remote_op *op, enum sl_remote_result result)
{
    struct sl_remote_client *client = op->client;
    bool uncertain = result == SL_REMOTE_UNCERTAIN;
    bool dropped = !op->take && op->keep_taken; /* it is charged nowhere */

    if ((uncertain && changes(op)) || dropped ||
        (op->is_refund && !op->ends_lease))
        SL_REMOTE_COUNT(client, uncertain);
    sl_remote_op_leases_lost(op, result == SL_REMOTE_NOT_DONE ||
                                     result == SL_REMOTE_REJECTED);
    sl_remote_op_forget(op);
    if (op->leases.frees)
        forget_names(op);
    if (!op->take && !op->hold && !op->repeat)
        return;
    SL_REMOTE_COUNT(client, failed);
    if (op->take)
        op->take->sent = uncertain;
    record(op, result == SL_REMOTE_REJECTED);
    answer(op, SLUICE_ESTORE);
}

/* ---- leases ---- */

static void count_leases(struct sl_remote_client *client,
                         const struct sl_lease_counts *counts)
{
    atomic_fetch_add(&client->counts.lease_tokens, counts->granted);
    atomic_fetch_add(&client->counts.lease_over, counts->over);
    atomic_fetch_add(&client->counts.lease_under, counts->under);
}

/* Ends the leases that are due, or all. Without memory the rest of a lease is
 * lost. */
static void end_leases(struct sl_remote_client *client, sl_ns now, bool all)
{
    sl_ns wall = client->options->own_now ? now : sl_loop_now(client->loop);
    struct sl_lease_end end;

    while (sl_lease_cache_end(client->leases, now, all, &end)) {
        struct sl_remote_op *op =
            end.asks.frees ? sl_remote_op_new(client) : NULL;
        struct sl_lease_counts counts = {0};

        if (!op) {
            sl_lease_cache_lost(client->leases, &end.asks, false, &counts);
            count_leases(client, &counts);
            continue;
        }
        op->leases = end.asks;
        op->is_refund = op->ends_lease = true;
        op->kind = SL_TAKE_OP_REFUND;
        op->denial = (struct sl_denial_key){.count = 1, .names = {end.place}};
        op->place = end.slot;
        op->sent = 0;
        if (client->backend->encode_lease_end(op, &end, wall)) {
            sl_remote_op_free(op);
            continue;
        }
        sl_remote_op_forget(op);
        client->backend->send(op);
    }
}

static void start_lease_timer(struct sl_remote_client *client)
{
    sl_ns due = sl_lease_cache_due(client->leases);
    sl_ns now = mono(client);

    if (due != SL_NS_NONE && !client->options->own_now)
        sl_timer_start(client->lease_timer, due > now ? due - now : 0);
}

static void on_lease_timer(void *ctx)
{
    struct sl_remote_client *client = ctx;

    end_leases(client, mono(client), false);
    start_lease_timer(client);
}

static void drain(struct sl_remote_client *client, sl_ns now)
{
    client->draining = true;
    if (client->leases)
        end_leases(client, client->options->own_now ? now : mono(client), true);
}

static bool open_leases(struct sl_remote_client *client)
{
    const struct sl_remote_options *o = client->options;

    if (!client->lease_timer && sl_timer_new(client->loop, on_lease_timer,
                                             client, &client->lease_timer))
        return false;
    return client->leases ||
           !sl_lease_cache_open(o->leases_most ? o->leases_most : LEASES,
                                client->backend->keep_part,
                                client->backend->leases_shrink, o->alloc,
                                &client->leases);
}

/* May the take be decided by leases? Then *ret has its keys. A take in steps
 * has none. */
static bool find_leases(struct sl_remote_client *client,
                        const struct sl_take *take, struct sl_lease_keys *ret)
{
    bool in_steps =
        take->count > 1 && atomic_load(&client->store->store.in_steps);

    if (in_steps || client->options->no_leases || client->draining ||
        !sl_lease_cache_can_lease(take) || !open_leases(client))
        return false;
    sl_lease_keys(&client->identity->forgets, take, ret);
    return true;
}

void sl_remote_op_request_leases(struct sl_remote_op *op,
                                 const struct sl_take *take,
                                 const struct sl_lease_keys *keys, sl_ns near)
{
    struct sl_remote_client *client = op->client;

    sl_lease_cache_ask(client->leases, keys, take, op->place, near,
                       sl_remote_client_time(client, take), &op->leases);
    if (op->leases.frees) { /* cached denials may pass now */
        forget_names(op);
        op->denial = sl_denial_key(&client->identity->forgets, take);
    }
}

void sl_remote_op_leases_granted(struct sl_remote_op *op,
                                 const struct sl_lease_counts *counts)
{
    struct sl_remote_client *client = op->client;

    op->leases.count = 0;
    count_leases(client, counts);
    if (op->leases.frees)
        forget_names(op);
    if (client->draining && op->take) /* requested before the drain */
        drain(client, op->take->now);
    else
        start_lease_timer(client);
}

void sl_remote_op_leases_lost(struct sl_remote_op *op, bool not_sent)
{
    struct sl_lease_counts counts = {0};

    if (op->leases.count == 0)
        return;
    sl_lease_cache_lost(op->client->leases, &op->leases,
                        not_sent && !op->ends_lease, &counts);
    count_leases(op->client, &counts);
}

/* ---- takes and hold calls ---- */

static void finish(struct sl_take *take, bool allowed, int err)
{
    take->sent = false;
    take->err = err;
    take->allowed = allowed;
    take->done(take);
}

static void refuse(struct sl_remote_client *client, struct sl_take *take)
{
    SL_REMOTE_COUNT(client, failed);
    finish(take, false, SLUICE_ESTORE);
}

static void refuse_hold(struct sl_remote_client *client,
                        struct sl_hold_call *call)
{
    SL_REMOTE_COUNT(client, failed);
    call->err = SLUICE_ESTORE;
    call->done(call);
}

/* An op for this place; NULL: none is accepted there, or out of memory. */
static struct sl_remote_op *op_at(struct sl_remote_client *client,
                                  unsigned place)
{
    struct sl_remote_op *op = client->backend->accepts(client, place)
                                  ? sl_remote_op_new(client)
                                  : NULL;

    if (op)
        op->place = place;
    return op;
}

/* The op was not sent. */
static void op_drop(struct sl_remote_op *op)
{
    if (!op)
        return;
    sl_remote_op_leases_lost(op, true);
    sl_remote_op_free(op);
}

/* `keys`: NULL: nothing is leased. */
static void send_take(struct sl_remote_client *client, struct sl_take *take,
                      const struct sl_denial_key *denial, unsigned place,
                      const struct sl_lease_keys *keys)
{
    struct sl_remote_op *op;
    bool probe;

    if (!sl_breaker_allows(&client->breaker, mono(client), &probe)) {
        refuse(client, take);
        return;
    }
    op = op_at(client, place);
    if (op) {
        op->denial = *denial;
        op->kind = take->op;
    }
    if (!op || client->backend->encode_take(op, take, keys)) {
        sl_breaker_cancel(&client->breaker, probe);
        op_drop(op);
        refuse(client, take);
        return;
    }
    op->take = take;
    take->sent = false;
    op->probe = probe;
    op->sent = sl_remote_client_time(client, take);
    start_deadline(op, take->deadline);
    sl_remote_op_forget(op);
    client->backend->send(op);
}

/* Answers from the leases or the denial cache, or sends. */
static void client_take(struct sl_remote_client *client, struct sl_take *take,
                        unsigned place)
{
    sl_ns now = sl_remote_client_time(client, take);
    struct sl_lease_keys keys;
    struct sl_denial_key denial;
    bool leased = find_leases(client, take, &keys);

    if (leased && sl_lease_cache_spend(client->leases, &keys, take, now)) {
        SL_REMOTE_COUNT(client, leased);
        align_times(take);
        take->done(take);
        return;
    }
    denial = sl_denial_key(&client->identity->forgets, take);
    if (take->op == SL_TAKE_OP_TAKE && client->denials &&
        sl_denial_cache_find(client->denials, &denial, take, now)) {
        SL_REMOTE_COUNT(client, remembered);
        align_times(take);
        take->done(take);
        return;
    }
    send_take(client, take, &denial, place, leased ? &keys : NULL);
}

static struct sl_remote_client *client_of(const struct sl_store *store,
                                          const struct sl_loop *loop)
{
    const struct sl_remote_store *remote =
        (const struct sl_remote_store *)store;
    unsigned count =
        atomic_load_explicit(&remote->client_count, memory_order_acquire);

    for (unsigned i = 0; loop && i < count; i++)
        if (atomic_load_explicit(&remote->clients[i].loop,
                                 memory_order_acquire) == loop)
            return remote->clients[i].client;
    return NULL;
}

static void take(struct sl_store *store, struct sl_take *take)
{
    struct sl_remote_client *client = client_of(store, take->loop);
    unsigned place = 0;

    if (!client) {
        finish(take, false, SLUICE_ESTORE);
    } else if (take->count == 0) {
        finish(take, true, 0);
    } else if (!client->backend->encode_hold &&
               !sl_hold_id_is_none(take->hold)) {
        finish(take, false, SLUICE_EFULL);
    } else if (client->closing || !atomic_load(&client->counts.ready) ||
               (client->backend->place &&
                !client->backend->place(client, take, &place))) {
        refuse(client, take);
    } else {
        client_take(client, take, place);
    }
}

static void hold(struct sl_store *store, struct sl_hold_call *call)
{
    struct sl_remote_client *client = client_of(store, call->loop);
    struct sl_remote_op *op;
    bool probe;

    if (!client) {
        call->err = SLUICE_ESTORE;
        call->done(call);
        return;
    }
    if (client->closing || !atomic_load(&client->counts.ready) ||
        !sl_breaker_allows(&client->breaker, mono(client), &probe)) {
        refuse_hold(client, call);
        return;
    }
    op = op_at(client, call->place);
    if (!op || client->backend->encode_hold(op, call)) {
        sl_breaker_cancel(&client->breaker, probe);
        op_drop(op);
        refuse_hold(client, call);
        return;
    }
    op->hold = call;
    op->is_hold = true;
    op->kind = SL_TAKE_OP_REFUND; /* it may change something */
    op->probe = probe;
    start_deadline(op, call->deadline);
    client->backend->send(op);
}

/* ---- probes of the breaker, without traffic ---- */

/* A peek at a key of its own. */
struct sl_remote_probe {
    struct sl_limit limit;
    struct sl_limit_binding binding;
    struct sl_part part;
    struct sl_take take;
    bool in_flight;
};

static void on_probed(struct sl_take *take)
{
    struct sl_remote_probe *probe = take->ctx;

    probe->in_flight = false;
}

static void send_probe(struct sl_remote_client *client)
{
    struct sl_remote_probe *probe = client->probe;

    if (probe->in_flight || !atomic_load(&client->counts.ready) ||
        client->breaker.probing ||
        sl_breaker_probe_in(&client->breaker, mono(client)) > 0)
        return;
    probe->in_flight = true;
    probe->take = (struct sl_take){
        .op = SL_TAKE_OP_PEEK,
        .parts = &probe->part,
        .count = 1,
        .now = sl_loop_now(client->loop),
        .loop = client->loop,
        .done = on_probed,
        .ctx = probe,
    };
    take(&client->store->store, &probe->take);
}

static void on_probe_timer(void *ctx)
{
    struct sl_remote_client *client = ctx;

    if (!client->breaker.is_open || client->closing)
        return;
    send_probe(client);
    if (client->breaker.is_open)
        sl_timer_start(client->probe_timer, PROBE_PERIOD);
}

static int open_probe(struct sl_remote_client *client)
{
    static const struct sl_str name = {"sluice:#probe", 13};
    struct sl_remote_probe *probe =
        sl_alloc_new(client->options->alloc, sizeof(*probe));

    if (!probe)
        return SLUICE_ENOMEM;
    memset(probe, 0, sizeof(*probe));
    client->probe = probe;
    probe->limit = (struct sl_limit){
        .kind = SL_FIXED,
        .count = SL_COUNT_MAX,
        .capacity = SL_COUNT_MAX,
        .period = SL_MIN,
    };
    sl_limit_derive(&probe->limit);
    probe->binding =
        (struct sl_limit_binding){.name = "#probe", .strictest = probe->limit};
    probe->part = (struct sl_part){.binding = &probe->binding,
                                   .limit = &probe->limit,
                                   .key = name,
                                   .name = name};
    return sl_timer_new(client->loop, on_probe_timer, client,
                        &client->probe_timer);
}

static void close_probe(struct sl_remote_client *client)
{
    sl_timer_free(client->probe_timer);
    if (client->probe)
        sl_alloc_free(client->options->alloc, client->probe,
                      sizeof(*client->probe));
}

/* ---- the memory of repeats ---- */

static void refuse_repeat(struct sl_repeat_call *call)
{
    if (call->op == SL_REPEAT_DROP)
        return;
    call->err = SLUICE_ESTORE;
    call->done(call);
}

/* A DROP is sent and forgotten, so it is no probe. */
static void repeat(struct sl_repeats *repeats, struct sl_repeat_call *call)
{
    struct sl_remote_store *remote =
        (struct sl_remote_store *)((char *)repeats -
                                   offsetof(struct sl_remote_store, repeats));
    struct sl_remote_client *client = client_of(&remote->store, call->loop);
    struct sl_remote_op *op;
    bool probe;

    if (!client || client->closing || !atomic_load(&client->counts.ready) ||
        (client->backend->repeat && client->breaker.is_open) ||
        !sl_breaker_allows(&client->breaker, mono(client), &probe)) {
        refuse_repeat(call);
        return;
    }
    if (client->backend->repeat) {
        client->backend->repeat(client, call);
        return;
    }
    op = probe && call->op == SL_REPEAT_DROP ? NULL : sl_remote_op_new(client);
    if (!op || client->backend->encode_repeat(op, call) ||
        !client->backend->accepts(client, op->place)) {
        sl_breaker_cancel(&client->breaker, probe);
        op_drop(op);
        refuse_repeat(call);
        return;
    }
    op->is_repeat = true;
    op->kind = SL_TAKE_OP_PEEK;
    op->probe = probe;
    if (call->op != SL_REPEAT_DROP) {
        op->repeat = call;
        start_deadline(op, call->deadline);
    }
    client->backend->send(op);
}

static const struct sl_hash_key *repeat_secret(const struct sl_repeats *repeats)
{
    const struct sl_remote_store *remote =
        (const struct sl_remote_store *)((const char *)repeats -
                                         offsetof(struct sl_remote_store,
                                                  repeats));

    return atomic_load_explicit(&remote->store.found, memory_order_acquire);
}

struct sl_repeats *sl_remote_store_repeats(struct sl_store *store)
{
    return &((struct sl_remote_store *)store)->repeats;
}

static void keep(struct sl_store *store, struct sl_loop *loop)
{
    struct sl_remote_client *client = client_of(store, loop);

    if (client && client->answering)
        client->answering->keep_taken = true;
}

void sl_remote_store_drain(struct sl_store *store, struct sl_loop *loop,
                           sl_ns now)
{
    struct sl_remote_client *client = client_of(store, loop);

    if (client)
        drain(client, now);
}

sl_ns sl_remote_store_retry_in(const struct sl_store *store,
                               const struct sl_loop *loop)
{
    const struct sl_remote_client *client = client_of(store, loop);
    sl_ns connect, probe;

    if (!client)
        return 0;
    connect = client->backend->reconnect_in
                  ? client->backend->reconnect_in(client)
                  : 0;
    probe = sl_breaker_probe_in(&client->breaker, mono(client));
    return connect > probe ? connect : probe;
}

/* ---- statistics ---- */

static void add_stats(const struct sl_remote_client *client,
                      struct sl_remote_stats *ret)
{
    const struct sl_remote_counts *c = &client->counts;

#define ADD(name) ret->name += atomic_load(&c->name);
    SL_REMOTE_COUNTERS(ADD)
#undef ADD
    if (client->backend->stats)
        client->backend->stats(client, ret);
    ret->under_way += atomic_load(&c->under_way);
    ret->up += atomic_load(&c->up);
    ret->ready += atomic_load(&c->ready);
    ret->open |= atomic_load(&c->open);
    if (atomic_load(&c->latency) > ret->latency)
        ret->latency = atomic_load(&c->latency);
    if (atomic_load(&c->taken) > 0) /* otherwise the clock is not known */
        ret->ahead = atomic_load(&c->ahead);
    ret->clients++;
}

void sl_remote_store_stats(const struct sl_store *store,
                           struct sl_remote_stats *ret)
{
    struct sl_remote_store *remote = (struct sl_remote_store *)(uintptr_t)store;

    pthread_mutex_lock(&remote->lock);
    *ret = remote->closed;
    ret->ahead = SL_NS_NONE;
    for (unsigned i = 0; i < atomic_load(&remote->client_count); i++)
        if (atomic_load(&remote->clients[i].loop))
            add_stats(remote->clients[i].client, ret);
    pthread_mutex_unlock(&remote->lock);
    ret->epochs = atomic_load(&remote->identity.epochs);
    ret->restarts = atomic_load(&remote->identity.restarts);
}

bool sl_remote_store_is_ready(const struct sl_store *store)
{
    struct sl_remote_stats stats;

    sl_remote_store_stats(store, &stats);
    return stats.ready == stats.clients;
}

/* ---- clients ---- */

static void client_close(struct sl_remote_client *client)
{
    const struct sl_remote_backend *backend = client->backend;
    struct sl_remote_op *op;

    client->closing = client->log.closing = true;
    backend->client_stop(client);
    while ((op = TAILQ_FIRST(&client->spare)) != NULL) {
        TAILQ_REMOVE(&client->spare, op, links);
        op_destroy(op);
    }
    backend->client_close(client);
    sl_denial_cache_close(client->denials);
    sl_lease_cache_close(client->leases);
    sl_timer_free(client->lease_timer);
    sl_timer_free(client->timer);
    close_probe(client);
    sl_alloc_free(client->options->alloc, client, backend->client_size);
}

static int client_open(struct sl_remote_store *remote, struct sl_loop *loop,
                       struct sl_remote_client **ret)
{
    size_t size = remote->backend->client_size;
    struct sl_remote_client *client = sl_alloc_new(remote->options.alloc, size);
    int err;

    if (!client)
        return SLUICE_ENOMEM;
    memset(client, 0, size);
    client->store = remote;
    client->backend = remote->backend;
    client->options = &remote->options;
    client->identity = &remote->identity;
    client->loop = loop;
    client->log.on_event = remote->options.on_event;
    client->log.ctx = remote->options.ctx;
    TAILQ_INIT(&client->waiting);
    TAILQ_INIT(&client->in_flight);
    TAILQ_INIT(&client->spare);
    err = sl_jitter_init(&client->breaker.jitter);
    if (!err)
        err = sl_timer_new(loop, on_timer, client, &client->timer);
    if (!err)
        err = client->backend->client_open(client);
    if (!err)
        err = open_probe(client);
    if (err) {
        client_close(client);
        return err;
    }
    *ret = client;
    return 0;
}

int sl_remote_store_attach(struct sl_store *store, struct sl_loop *loop,
                           struct sl_diag *diag)
{
    struct sl_remote_store *remote = (struct sl_remote_store *)store;
    struct sl_remote_client *client = NULL;
    int err = client_open(remote, loop, &client);
    unsigned at = 0;

    if (err)
        return sl_diag_error(diag, err, "out of memory");
    pthread_mutex_lock(&remote->lock);
    while (at < SL_REMOTE_CLIENTS && atomic_load(&remote->clients[at].loop))
        at++;
    if (at < SL_REMOTE_CLIENTS) {
        remote->clients[at].client = client;
        atomic_store(&remote->clients[at].loop, loop);
        if (at >= atomic_load(&remote->client_count))
            atomic_store(&remote->client_count, at + 1);
    }
    pthread_mutex_unlock(&remote->lock);
    if (at < SL_REMOTE_CLIENTS)
        return 0;
    client_close(client);
    return sl_diag_error(diag, SLUICE_EFULL, "more than %d loops",
                         SL_REMOTE_CLIENTS);
}

void sl_remote_store_detach(struct sl_store *store, struct sl_loop *loop)
{
    struct sl_remote_store *remote = (struct sl_remote_store *)store;
    struct sl_remote_stats *closed = &remote->closed;
    struct sl_remote_client *client = NULL;

    pthread_mutex_lock(&remote->lock);
    for (unsigned i = 0; i < atomic_load(&remote->client_count); i++)
        if (atomic_load(&remote->clients[i].loop) == loop) {
            client = remote->clients[i].client;
            atomic_store(&remote->clients[i].loop, NULL);
        }
    if (client) { /* its counts stay */
        add_stats(client, closed);
        closed->up = closed->ready = closed->clients = closed->under_way = 0;
        closed->open = false;
        closed->latency = 0;
    }
    pthread_mutex_unlock(&remote->lock);
    if (client)
        client_close(client);
}

/* ---- the store ---- */

static void close_store(struct sl_store *store)
{
    struct sl_remote_store *remote = (struct sl_remote_store *)store;

    for (unsigned i = 0; i < atomic_load(&remote->client_count); i++)
        if (atomic_load(&remote->clients[i].loop))
            client_close(remote->clients[i].client);
    if (remote->backend->store_close)
        remote->backend->store_close(remote);
    sl_store_identity_done(&remote->identity);
    pthread_mutex_destroy(&remote->lock);
    sl_alloc_free(remote->options.alloc, remote, remote->backend->store_size);
}

static const struct sl_store_calls calls_without_holds = {
    .take = take,
    .close = close_store,
    .keep = keep,
    .retry_in = sl_remote_store_retry_in,
};

static const struct sl_store_calls calls_with_holds = {
    .take = take,
    .close = close_store,
    .keep = keep,
    .retry_in = sl_remote_store_retry_in,
    .hold = hold,
};

int sl_remote_store_open(const struct sl_remote_backend *backend,
                         const struct sl_remote_options *options,
                         struct sl_remote_store **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_remote_store *remote = sl_alloc_new(alloc, backend->store_size);

    if (!remote)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(remote, 0, backend->store_size);
    remote->backend = backend;
    remote->options = *options;
    remote->options.alloc = alloc;
    remote->store.calls =
        backend->encode_hold ? &calls_with_holds : &calls_without_holds;
    remote->store.wants_names = true;
    remote->repeats = (struct sl_repeats){repeat, repeat_secret};
    pthread_mutex_init(&remote->lock, NULL);
    if (sl_store_identity_init(&remote->identity, &remote->store) ||
        sl_hash_key_make(&remote->store.secret)) {
        close_store(&remote->store);
        return sl_diag_error(diag, SLUICE_ESYS,
                             "the system did not provide random bytes");
    }
    *ret = remote;
    return 0;
}
