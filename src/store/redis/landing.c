/* landing.c -- what becomes of a voyage: answered, repaired, given back. */
#include <string.h>

#include "store/redis/inner.h"
#include "store/redis/script.h"

#define DENIALS      1024
#define SPARES       256
#define COMMAND_MOST ((size_t)128 << 10)
#define REPAIRS      3

/* ---- records ---- */

static void on_done(struct sl_voyage *voyage, enum sl_landing landing,
                    struct sl_str reply);

struct sl_record *sl_record_new(struct sl_redis_seat *seat)
{
    struct sl_record *r = TAILQ_FIRST(&seat->spare);

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

void sl_record_free(struct sl_record *r)
{
    struct sl_redis_seat *seat = r->seat;

    sl_seat_lost(r, false);
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
void sl_record_tell(struct sl_record *r, int err)
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

static bool changes(const struct sl_record *r)
{
    return r->errand != SL_ERRAND_LOOK;
}

static bool frees(enum sl_errand errand)
{
    return errand == SL_ERRAND_GIVE_BACK || errand == SL_ERRAND_RESET;
}

void sl_record_forget(const struct sl_record *r)
{
    if (frees(r->errand))
        sl_forgets_add(&r->seat->shared->forgets, &r->key);
}

/* ---- giving back ---- */

static int write_back(const struct sl_record *r, struct sl_buf *out)
{
    return sl_hold_id_is_none(r->hold)
               ? sl_script_give_back(sl_buf_str(&r->command), out)
               : sl_seat_release(r, out);
}

static void give_back(struct sl_record *r)
{
    struct sl_redis_seat *seat = r->seat;
    struct sl_record *back = sl_record_new(seat);

    if (!back || write_back(r, &back->command)) {
        SL_ADD(seat->counts.uncertain);
        if (back)
            sl_record_free(back);
        return;
    }
    back->errand = SL_ERRAND_GIVE_BACK;
    back->key = r->key;
    back->voyage.slot = r->voyage.slot;
    back->voyage.flight.command = sl_buf_str(&back->command);
    sl_record_forget(back);
    sl_fleet_send(seat->fleet, &back->voyage);
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

static void remember(struct sl_record *r)
{
    struct sl_redis_seat *seat = r->seat;
    unsigned most =
        seat->options.denials_most ? seat->options.denials_most : DENIALS;

    if (r->errand != SL_ERRAND_TAKE || r->take->allowed ||
        seat->options.no_denials)
        return;
    if (!seat->denials &&
        sl_far_denials_open(most, seat->options.alloc, &seat->denials))
        return; /* there is no memory: then it is asked for again */
    sl_denials_add(seat->denials, &r->key, &seat->shared->forgets, r->take,
                   r->sent, sl_seat_time(seat, r->take));
}

static void note_said(struct sl_redis_seat *seat,
                      const struct sl_script_said *said)
{
    if (said->strange)
        atomic_fetch_add(&seat->counts.strange, said->strange);
    if (!seat->options.own_now)
        atomic_store_explicit(&seat->counts.ahead,
                              said->now - sl_loop_now(seat->loop),
                              memory_order_relaxed);
}

static void fail(struct sl_record *r)
{
    SL_ADD(r->seat->counts.failed);
    sl_seat_note(r, false);
    sl_record_tell(r, SLUICE_ESTORE);
}

/* In time. */
static void answer(struct sl_record *r, const int64_t *numbers, unsigned count)
{
    struct sl_script_said said;

    if (!sl_script_read(r->take, numbers, count, &said)) {
        fail(r);
        return;
    }
    note_said(r->seat, &said);
    sl_seat_note(r, true);
    SL_ADD(r->seat->counts.taken);
    if (!said.passing)
        remember(r);
    sl_record_tell(r, 0);
}

/* Too late: whoever asked was told that it has failed. */
static void undo(struct sl_record *r, const int64_t *numbers, unsigned count)
{
    if (r->errand != SL_ERRAND_TAKE && changes(r))
        SL_ADD(r->seat->counts.uncertain);
    else if (r->errand == SL_ERRAND_TAKE && count > 0 && numbers[0] == 1 &&
             !r->keeps)
        give_back(r);
}

/* The server does not know the script: nothing has happened. If somebody has
 * brought it there since this was sent, the name will do. True if it is asked
 * again. */
static bool repair(struct sl_record *r)
{
    sl_ns *brought = sl_fleet_note(&r->voyage);
    bool by_name = *brought >= r->voyage.flight.sent && r->repairs == 0;

    if (++r->repairs > REPAIRS)
        return false;
    if (!by_name) {
        sl_buf_clear(&r->whole);
        if (sl_script_whole(sl_buf_str(&r->command), &r->whole))
            return false;
        r->voyage.flight.command = sl_buf_str(&r->whole);
        *brought = sl_loop_steady(r->seat->loop);
    }
    SL_ADD(r->seat->counts.repaired);
    sl_fleet_again(&r->voyage);
    return true;
}

/* An errand of our own has ended: a late take was given back, or not. */
static void on_given_back(struct sl_record *r, bool done)
{
    if (done)
        SL_ADD(r->seat->counts.returned);
    else
        SL_ADD(r->seat->counts.uncertain);
    sl_record_forget(r);
}

static void on_landed(struct sl_record *r, struct sl_str reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count = 0;
    bool good = read_numbers(reply, numbers, &count);

    if (!good)
        sl_seat_trouble(r->seat, reply);
    sl_record_forget(r);
    if (good)
        sl_seat_landed(r, numbers, count);
    if (r->take && good)
        answer(r, numbers, count);
    else if (r->take)
        fail(r);
    else if (good)
        undo(r, numbers, count);
    if (r->asks.frees)
        sl_forgets_add(&r->seat->shared->forgets, &r->key);
}

/* A hold has ended, or was looked at. What comes too late is done all the
 * same: whoever asks again is told. */
static void on_call_landed(struct sl_record *r, struct sl_str reply)
{
    bool good = sl_seat_held(r, reply);

    if (!good)
        sl_seat_trouble(r->seat, reply);
    if (!r->call)
        return;
    if (!good) {
        fail(r);
        return;
    }
    sl_seat_note(r, true);
    SL_ADD(r->seat->counts.taken);
    sl_record_tell(r, 0);
}

/* A lease has ended before its time. */
static void on_lease_ended(struct sl_record *r, enum sl_landing landing,
                           struct sl_str reply)
{
    int64_t numbers[SL_SCRIPT_NUMBERS];
    unsigned count = 0;

    if (landing == SL_LANDED && read_numbers(reply, numbers, &count))
        sl_seat_landed(r, numbers, count);
    sl_forgets_add(&r->seat->shared->forgets, &r->key);
}

static void on_lost(struct sl_record *r, enum sl_landing landing)
{
    if (landing == SL_UNCERTAIN && changes(r))
        SL_ADD(r->seat->counts.uncertain);
    sl_seat_lost(r, landing == SL_GROUNDED);
    sl_record_forget(r);
    if (r->take)
        r->take->sent = landing == SL_UNCERTAIN;
    if (r->take || r->call)
        fail(r);
}

/* Our own errands have no take, and no deadline at which they lost it. */
static bool is_ours(const struct sl_record *r)
{
    return r->until == 0;
}

static void on_done(struct sl_voyage *voyage, enum sl_landing landing,
                    struct sl_str reply)
{
    struct sl_record *r = (struct sl_record *)voyage;
    struct sl_str text;
    enum sl_trouble trouble = SL_TROUBLE_NONE;

    if (landing == SL_LANDED)
        trouble = sl_trouble_of(reply, &text);
    if (trouble == SL_TROUBLE_NOSCRIPT && repair(r))
        return;
    if (r->ends_lease)
        on_lease_ended(r, landing, reply);
    else if (r->is_call && landing == SL_LANDED)
        on_call_landed(r, reply);
    else if (is_ours(r))
        on_given_back(r, landing == SL_LANDED && trouble == SL_TROUBLE_NONE);
    else if (landing == SL_LANDED)
        on_landed(r, reply);
    else
        on_lost(r, landing);
    sl_record_free(r); /* (2) */
}
