/* leasing.c -- the leases of a seat: when they are asked for, and how they go
 * back. What a lease is stands in leases.h. */
#include "store/redis/redis_int.h"

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
