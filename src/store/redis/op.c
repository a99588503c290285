/* op.c -- what becomes of a voyage: answered, repaired, given back. */
#include <string.h>

#include "store/redis/redis_int.h"

#define DENIALS      1024
#define SPARES       256
#define COMMAND_MOST ((size_t)128 << 10)
#define REPAIRS      3

/* ---- records ---- */

static void on_done(struct sl_redis_cmd *voyage, enum sl_redis_result landing,
                    struct sl_str reply);

struct sl_redis_op *sl_redis_op_new(struct sl_redis_client *seat)
{
    struct sl_redis_op *r = TAILQ_FIRST(&seat->spare);

    if (r) {
        TAILQ_REMOVE(&seat->spare, r, waits);
        seat->spare_count--;
    } else {
        r = sl_alloc_new(seat->options.alloc, sizeof(*r));
        if (!r)
            return NULL;
        sl_buf_init(&r->command, COMMAND_MOST, seat->options.alloc);
        sl_buf_init(&r->whole, COMMAND_MOST, seat->options.alloc);
        r->seat = seat;
    }
    sl_buf_clear(&r->command);
    r->take = NULL;
    r->call = NULL;
    r->hold = (struct sl_hold_id){
        {0, 0}
    };
    r->is_call = r->tries = r->keeps = r->ends_lease = false;
    r->asks.count = 0;
    r->asks.frees = false;
    r->repairs = 0;
    r->until = 0;
    r->voyage.done = on_done;
    return r;
}

void sl_redis_op_free(struct sl_redis_op *r)
{
    struct sl_redis_client *seat = r->seat;

    sl_redis_op_leases_lost(r, false);
    sl_buf_done(&r->whole);
    if (seat->spare_count < SPARES && !seat->closing) {
        TAILQ_INSERT_HEAD(&seat->spare, r, waits);
        seat->spare_count++;
        return;
    }
    sl_buf_done(&r->command);
    sl_alloc_free(seat->options.alloc, r, sizeof(*r));
}

/* (3) */
void sl_redis_op_answer(struct sl_redis_op *r, int err)
{
    struct sl_take *take = r->take;
    struct sl_hold_call *call = r->call;

    TAILQ_REMOVE(&r->seat->waiting, r, waits);
    r->take = NULL;
    r->call = NULL;
    if (call) {
        call->err = err;
        call->done(call);
        return;
    }
    take->err = err;
    if (err)
        take->allowed = false;
    take->done(take);
}

static bool changes(const struct sl_redis_op *r)
{
    return r->errand != SL_TAKE_OP_PEEK;
}

static bool frees(enum sl_take_op errand)
{
    return errand == SL_TAKE_OP_REFUND || errand == SL_TAKE_OP_RESET;
}

void sl_redis_op_forget(const struct sl_redis_op *r)
{
    if (frees(r->errand))
        sl_denial_forgets_add(&r->seat->shared->forgets, &r->key);
}

/* ---- giving back ---- */

static int write_back(const struct sl_redis_op *r, struct sl_buf *out)
{
    return sl_hold_id_is_none(r->hold)
               ? sl_script_give_back(sl_buf_str(&r->command), out)
               : sl_redis_op_release(r, out);
}

static void give_back(struct sl_redis_op *r)
{
    struct sl_redis_client *seat = r->seat;
    struct sl_redis_op *back = sl_redis_op_new(seat);

    if (!back || write_back(r, &back->command)) {
        SL_ADD(seat->counts.uncertain);
        if (back)
            sl_redis_op_free(back);
        return;
    }
    back->errand = SL_TAKE_OP_REFUND;
    back->key = r->key;
    back->voyage.slot = r->voyage.slot;
    back->voyage.flight.command = sl_buf_str(&back->command);
    sl_redis_op_forget(back);
    sl_redis_cluster_send(seat->fleet, &back->voyage);
}

/* ---- replies ---- */

static bool read_numbers(struct sl_str reply, int64_t *numbers, unsigned *count)
{
    struct sl_resp_value array = sl_resp_next(&reply);

    if (array.type != SL_RESP_ARRAY || array.count > SL_SCRIPT_NUMBERS)
        return false;
    *count = (unsigned)array.count;
    for (unsigned i = 0; i < *count; i++) {
        struct sl_resp_value value = sl_resp_next(&reply);

        if (value.type != SL_RESP_INTEGER)
            return false;
        numbers[i] = value.integer;
    }
    return true;
}

static void remember(struct sl_redis_op *r)
{
    struct sl_redis_client *seat = r->seat;
    unsigned most =
        seat->options.denials_most ? seat->options.denials_most : DENIALS;

    if (r->errand != SL_TAKE_OP_TAKE || r->take->allowed ||
        seat->options.no_denials)
        return;
    if (!seat->denials &&
        sl_denial_caches_open(most, seat->options.alloc, &seat->denials))
        return; /* there is no memory: then it is asked for again */
    sl_denial_cache_add(seat->denials, &r->key, &seat->shared->forgets, r->take,
                        r->sent, sl_redis_client_time(seat, r->take));
}

static void note_said(struct sl_redis_client *seat,
                      const struct sl_script_reply *said)
{
    if (said->strange)
        atomic_fetch_add(&seat->counts.strange, said->strange);
    if (!seat->options.own_now)
        atomic_store_explicit(&seat->counts.ahead,
                              said->now - sl_loop_now(seat->loop),
                              memory_order_relaxed);
}

static void fail(struct sl_redis_op *r)
{
    SL_ADD(r->seat->counts.failed);
    sl_redis_client_note(r, false);
    sl_redis_op_answer(r, SLUICE_ESTORE);
}

/* In time. */
static void answer(struct sl_redis_op *r, const int64_t *numbers,
                   unsigned count)
{
    struct sl_script_reply said;

    if (!sl_script_read(r->take, numbers, count, &said)) {
        fail(r);
        return;
    }
    note_said(r->seat, &said);
    sl_redis_client_note(r, true);
    SL_ADD(r->seat->counts.taken);
    if (!said.passing)
        remember(r);
    sl_redis_op_answer(r, 0);
}

/* Too late: whoever asked was told that it has failed. */
static void undo(struct sl_redis_op *r, const int64_t *numbers, unsigned count)
{
    if (r->errand != SL_TAKE_OP_TAKE && changes(r))
        SL_ADD(r->seat->counts.uncertain);
    else if (r->errand == SL_TAKE_OP_TAKE && count > 0 && numbers[0] == 1 &&
             !r->keeps)
        give_back(r);
}

/* The server does not know the script: nothing has happened. If somebody has
 * brought it there since this was sent, the name will do. True if it is asked
 * again. */
static bool repair(struct sl_redis_op *r)
{
    sl_ns *brought = sl_redis_cluster_note(&r->voyage);
    bool by_name = *brought >= r->voyage.flight.sent && r->repairs == 0;

    if (++r->repairs > REPAIRS)
        return false;
    if (!by_name) {
        sl_buf_clear(&r->whole);
        if (sl_script_eval(sl_buf_str(&r->command), &r->whole))
            return false;
        r->voyage.flight.command = sl_buf_str(&r->whole);
        *brought = sl_loop_mono(r->seat->loop);
    }
    SL_ADD(r->seat->counts.repaired);
    sl_redis_cluster_again(&r->voyage);
    return true;
}

/* An errand of our own has ended: a late take was given back, or not. */
static void on_given_back(struct sl_redis_op *r, bool done)
{
    if (done)
        SL_ADD(r->seat->counts.returned);
    else
        SL_ADD(r->seat->counts.uncertain);
    sl_redis_op_forget(r);
}

static void on_landed(struct sl_redis_op *r, struct sl_str reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count = 0;
    bool good = read_numbers(reply, numbers, &count);

    if (!good)
        sl_redis_client_trouble(r->seat, reply);
    sl_redis_op_forget(r);
    if (good)
        sl_redis_op_leases_granted(r, numbers, count);
    if (r->take && good)
        answer(r, numbers, count);
    else if (r->take)
        fail(r);
    else if (good)
        undo(r, numbers, count);
    if (r->asks.frees)
        sl_denial_forgets_add(&r->seat->shared->forgets, &r->key);
}

/* A hold has ended, or was looked at. What comes too late is done all the
 * same: whoever asks again is told. */
static void on_call_landed(struct sl_redis_op *r, struct sl_str reply)
{
    bool good = sl_redis_op_hold(r, reply);

    if (!good)
        sl_redis_client_trouble(r->seat, reply);
    if (!r->call)
        return;
    if (!good) {
        fail(r);
        return;
    }
    sl_redis_client_note(r, true);
    SL_ADD(r->seat->counts.taken);
    sl_redis_op_answer(r, 0);
}

/* A lease has ended before its time. */
static void on_lease_ended(struct sl_redis_op *r, enum sl_redis_result landing,
                           struct sl_str reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count = 0;

    if (landing == SL_REDIS_REPLIED && read_numbers(reply, numbers, &count))
        sl_redis_op_leases_granted(r, numbers, count);
    sl_denial_forgets_add(&r->seat->shared->forgets, &r->key);
}

static void on_lost(struct sl_redis_op *r, enum sl_redis_result landing)
{
    if (landing == SL_UNCERTAIN && changes(r))
        SL_ADD(r->seat->counts.uncertain);
    sl_redis_op_leases_lost(r, landing == SL_REDIS_NOT_SENT);
    sl_redis_op_forget(r);
    if (r->take)
        r->take->sent = landing == SL_UNCERTAIN;
    if (r->take || r->call)
        fail(r);
}

/* Our own errands have no take, and no deadline at which they lost it. */
static bool is_ours(const struct sl_redis_op *r)
{
    return r->until == 0;
}

static void on_done(struct sl_redis_cmd *voyage, enum sl_redis_result landing,
                    struct sl_str reply)
{
    struct sl_redis_op *r = (struct sl_redis_op *)voyage;
    struct sl_str text;
    enum sl_redis_error trouble = SL_REDIS_ERROR_NONE;

    if (landing == SL_REDIS_REPLIED)
        trouble = sl_redis_error_of(reply, &text);
    if (trouble == SL_REDIS_ERROR_NOSCRIPT && repair(r))
        return;
    if (r->ends_lease)
        on_lease_ended(r, landing, reply);
    else if (r->is_call && landing == SL_REDIS_REPLIED)
        on_call_landed(r, reply);
    else if (is_ours(r))
        on_given_back(r, landing == SL_REDIS_REPLIED &&
                             trouble == SL_REDIS_ERROR_NONE);
    else if (landing == SL_REDIS_REPLIED)
        on_landed(r, reply);
    else
        on_lost(r, landing);
    sl_redis_op_free(r); /* (2) */
}

/* ---- holds of a seat: how they end. How one begins is a take's
 * business; what it is called in Redis is said here. */

/* ---- names ---- */

struct sl_str sl_redis_op_record(const struct sl_redis_client *seat,
                                 struct sl_hold_id id, unsigned slot,
                                 char room[SL_HOLD_NAME])
{
    sl_script_hold_name(id, sl_redis_cluster_is_cluster(seat->fleet), slot,
                        room);
    return sl_str_c(room);
}

/* ---- asking ---- */

static void refuse(struct sl_redis_client *seat, struct sl_hold_call *call)
{
    SL_ADD(seat->counts.failed);
    call->err = SLUICE_ESTORE;
    call->done(call);
}

static int write_call(const struct sl_redis_client *seat,
                      const struct sl_hold_call *call, unsigned slot, bool undo,
                      struct sl_buf *out)
{
    char name[SL_HOLD_NAME];
    struct sl_script_options how = {
        .own_now = seat->options.own_now,
        .near = sl_redis_client_near(seat, call->now),
        .record = sl_redis_op_record(seat, call->id, slot, name),
        .undo = undo,
    };

    return sl_script_hold_write(call, &how, out);
}

void sl_redis_client_hold(struct sl_redis_client *seat,
                          struct sl_hold_call *call)
{
    bool in_slots = sl_redis_cluster_is_cluster(seat->fleet);
    unsigned slot = in_slots ? call->place % SL_CLUSTER_SLOTS : 0;
    struct sl_redis_op *r = NULL;
    bool tries;

    if (seat->closing || !atomic_load(&seat->counts.ready) ||
        !sl_breaker_may(&seat->breaker, sl_loop_mono(seat->loop), &tries)) {
        refuse(seat, call);
        return;
    }
    if (sl_redis_cluster_is_accepting(seat->fleet, slot))
        r = sl_redis_op_new(seat);
    if (!r || write_call(seat, call, slot, false, &r->command)) {
        sl_breaker_forget(&seat->breaker, tries);
        if (r)
            sl_redis_op_free(r);
        refuse(seat, call);
        return;
    }
    r->call = call;
    r->is_call = true;
    r->errand = SL_TAKE_OP_REFUND; /* it changes something, perhaps */
    r->tries = tries;
    r->key.count = 0;
    r->voyage.slot = slot;
    r->voyage.flight.command = sl_buf_str(&r->command);
    sl_redis_op_wait(r, call->deadline);
    sl_redis_cluster_send(seat->fleet, &r->voyage);
}

/* ---- landing ---- */

/* Whoever was refused for this key may pass now. */
static void on_key(void *ctx, struct sl_str key)
{
    struct sl_denial_forgets *forgets = ctx;
    struct sl_store_part part = {.name = key};
    struct sl_denial_key names = {.count = 1};

    names.names[0] = sl_part_name_place(forgets, &part);
    sl_denial_forgets_add(forgets, &names);
}

bool sl_redis_op_hold(struct sl_redis_op *r, struct sl_str reply)
{
    struct sl_hold_call gone = {.errand = SL_HOLD_LOOK};

    return sl_script_hold_read(r->call ? r->call : &gone, reply, on_key,
                               &r->seat->shared->forgets);
}

/* ---- too late ---- */

int sl_redis_op_release(const struct sl_redis_op *r, struct sl_buf *out)
{
    struct sl_hold_call call = {.errand = SL_HOLD_SETTLE,
                                .id = r->hold,
                                .release = true,
                                .now = r->hold_now};

    return write_call(r->seat, &call, r->voyage.slot, true, out);
}

/* ---- the leases of a seat: when they are asked for, and how they go
 * back. What a lease is stands in leases.h. */

#define LEASES 4096

static void add_counts(struct sl_redis_client *seat,
                       const struct sl_lease_counts *counts)
{
    atomic_fetch_add(&seat->counts.lease_tokens, counts->granted);
    atomic_fetch_add(&seat->counts.lease_over, counts->over);
    atomic_fetch_add(&seat->counts.lease_under, counts->under);
}

/* ---- going back ---- */

static void send_end(struct sl_redis_client *seat, struct sl_redis_op *r,
                     const struct sl_lease_end *end)
{
    r->asks = end->asks;
    r->ends_lease = true;
    r->errand = SL_TAKE_OP_TAKE;
    r->key = (struct sl_denial_key){.count = 1, .names = {end->place}};
    r->sent = 0; /* nothing is granted */
    r->voyage.slot = end->slot;
    r->voyage.flight.command = sl_buf_str(&r->command);
    sl_denial_forgets_add(&seat->shared->forgets, &r->key);
    sl_redis_cluster_send(seat->fleet, &r->voyage);
}

/* Those that are due, or all of them. Without memory what is left is lost: the
 * store frees it when the lease dies. */
static void end_leases(struct sl_redis_client *seat, sl_ns now, bool all)
{
    bool own = seat->options.own_now;
    struct sl_script_options how = {
        .own_now = own,
        .near =
            sl_redis_client_near(seat, own ? now : sl_loop_now(seat->loop))};
    struct sl_lease_end end;
    struct sl_redis_op *r = sl_redis_op_new(seat);

    while (r &&
           sl_script_end(seat->leases, now, all, &how, &end, &r->command)) {
        if (r->command.len > 0) {
            send_end(seat, r, &end);
            r = sl_redis_op_new(seat);
        } else {
            r->asks = end.asks;
            sl_redis_op_leases_lost(r, false);
        }
    }
    if (r)
        sl_redis_op_free(r);
}

static void wait_for_next(struct sl_redis_client *seat)
{
    sl_ns due = sl_lease_cache_due(seat->leases);
    sl_ns now = sl_loop_mono(seat->loop);

    if (due != SL_NS_NONE && !seat->options.own_now)
        sl_timer_start(seat->lease_timer, due > now ? due - now : 0);
}

static void on_lease_timer(void *ctx)
{
    struct sl_redis_client *seat = ctx;

    end_leases(seat, sl_loop_mono(seat->loop), false);
    wait_for_next(seat);
}

void sl_redis_client_drain(struct sl_redis_client *seat, sl_ns now)
{
    seat->drains = true;
    if (seat->leases)
        end_leases(seat, seat->options.own_now ? now : sl_loop_mono(seat->loop),
                   true);
}

/* ---- taking ---- */

/* False if there are none to be had. */
static bool open_leases(struct sl_redis_client *seat)
{
    unsigned most =
        seat->options.leases_most ? seat->options.leases_most : LEASES;

    if (!seat->lease_timer &&
        sl_timer_new(seat->loop, on_lease_timer, seat, &seat->lease_timer))
        return false;
    return seat->leases ||
           !sl_lease_cache_open(most, sl_script_keep, false,
                                seat->options.alloc, &seat->leases);
}

bool sl_redis_client_leases(struct sl_redis_client *seat,
                            const struct sl_take *take,
                            struct sl_lease_keys *ret)
{
    if (seat->options.no_leases || seat->drains ||
        !sl_lease_cache_apply(take) || !open_leases(seat))
        return false;
    sl_lease_keys(&seat->shared->forgets, take, ret);
    return true;
}

void sl_redis_op_ask_leases(struct sl_redis_op *r,
                            const struct sl_lease_keys *keys,
                            const struct sl_take *take,
                            struct sl_script_options *how)
{
    struct sl_redis_client *seat = r->seat;

    sl_lease_cache_ask(seat->leases, keys, take, r->voyage.slot, how->near,
                       sl_redis_client_time(seat, take), &r->asks);
    if (r->asks.count > 0)
        how->leases = r->asks.words;
    if (r->asks.frees) { /* what was refused so far may pass now */
        sl_denial_forgets_add(&seat->shared->forgets, &r->key);
        r->key = sl_denial_key(&seat->shared->forgets, take);
    }
}

/* ---- landing ---- */

void sl_redis_op_leases_granted(struct sl_redis_op *r, const int64_t *numbers,
                                unsigned count)
{
    struct sl_lease_counts counts = {0};

    if (r->asks.count == 0)
        return;
    sl_script_land(r->seat->leases, &r->asks, numbers, count, r->sent, &counts);
    add_counts(r->seat, &counts);
    wait_for_next(r->seat);
}

void sl_redis_op_leases_lost(struct sl_redis_op *r, bool unsent)
{
    struct sl_lease_counts counts = {0};

    if (r->asks.count == 0)
        return;
    sl_lease_cache_lost(r->seat->leases, &r->asks, unsent && !r->ends_lease,
                        &counts);
    add_counts(r->seat, &counts);
}
