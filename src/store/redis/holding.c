/* holding.c -- holds of a seat: how they end. How one begins is a take's
 * business; what it is called in Redis is said here. */
#include "store/redis/redis_int.h"
#include "store/redis/script_hold.h"

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
