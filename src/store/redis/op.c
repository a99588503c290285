/* landing.c -- what becomes of a voyage: answered, repaired, given back. */
#include <string.h>

#include "store/redis/redis_int.h"
#include "store/redis/script.h"

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
