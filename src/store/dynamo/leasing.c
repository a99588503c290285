/* leasing.c -- the leases of a seat: when they are asked for, and how they go
 * back. What a lease is stands in store/leases.h.
 *
 * To the table a lease is counted as any take is. Beside it stands what each
 * loop has, for a reset to leave taken; no take looks at that. So a lease must
 * not be spent when a refill may have covered it. Of a window, a quota and an
 * interval it dies with these; of a bucket it melts. A machine that is gone
 * keeps what it had leased of a window until that ends; a bucket refills. */
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define LEASES 4096

/* What is kept of a part, behind its name. */
struct kept {
    struct sl_limit limit;
    struct sl_period period;
};

static int keep(const struct sl_store_part *part, sl_ns near,
                struct sl_buf *out, size_t *ret_name_len)
{
    struct sl_str name = sl_take_part_name(part);
    struct kept kept = {.limit = *part->limit};
    int err = sl_buf_add(out, name);

    if (kept.limit.calendar)
        kept.period = sl_calendar_period(&kept.limit.cal, near);
    *ret_name_len = name.len;
    return err ? err
               : sl_buf_add(out,
                            (struct sl_str){(const char *)&kept, sizeof(kept)});
}

/* ---- going back ---- */

static void send_end(struct sl_dynamo_op *trip, const struct sl_lease_end *end,
                     sl_ns now)
{
    struct sl_lease_rest rest = {.name = end->name,
                                 .amount = end->asks.words[0].left,
                                 .taken = (sl_ns)end->asks.words[0].till};
    struct kept kept;

    memcpy(&kept, end->numbers.at, sizeof(kept));
    rest.limit = kept.limit;
    rest.period = kept.period;
    trip->asks = end->asks;
    trip->ours = trip->ends_lease = true;
    trip->key = (struct sl_denial_key){.count = 1, .names = {end->place}};
    if (sl_take_rows_fill_rest(&trip->sheet, &rest, now))
        sl_dynamo_op_free(trip);
    else
        sl_dynamo_op_begin(trip);
}

/* Those that are due, or all of them. `now` is what leases count by, `wall`
 * what rows are judged at. Without memory what is left is lost. */
static void end_leases(struct sl_dynamo_client *seat, sl_ns now, sl_ns wall,
                       bool all)
{
    struct sl_lease_end end;

    while (sl_lease_cache_end(seat->leases, now, all, &end)) {
        struct sl_dynamo_op *trip =
            end.asks.frees ? sl_dynamo_op_new(seat) : NULL;
        struct sl_lease_counts counts = {0};

        if (trip) {
            send_end(trip, &end, wall);
            continue;
        }
        sl_lease_cache_lost(seat->leases, &end.asks, false, &counts);
        atomic_fetch_add(&seat->counts.lease_under, counts.under);
    }
}

static sl_ns wall_of(const struct sl_dynamo_client *seat)
{
    return sl_loop_now(seat->loop) + sl_dynamo_http_skew(seat->client);
}

static void wait_for_next(struct sl_dynamo_client *seat)
{
    sl_ns due = sl_lease_cache_due(seat->leases);
    sl_ns now = sl_loop_mono(seat->loop);

    if (due != SL_NS_NONE && !seat->options.own_now)
        sl_timer_start(seat->lease_timer, due > now ? due - now : 0);
}

static void on_lease_timer(void *ctx)
{
    struct sl_dynamo_client *seat = ctx;

    end_leases(seat, sl_loop_mono(seat->loop), wall_of(seat), false);
    wait_for_next(seat);
}

void sl_dynamo_client_drain(struct sl_dynamo_client *seat, sl_ns now)
{
    bool own = seat->options.own_now;

    seat->drains = true;
    if (seat->leases)
        end_leases(seat, own ? now : sl_loop_mono(seat->loop),
                   own ? now : wall_of(seat), true);
}

/* ---- taking ---- */

/* False if there are none to be had. */
static bool open_leases(struct sl_dynamo_client *seat)
{
    unsigned most =
        seat->options.leases_most ? seat->options.leases_most : LEASES;

    if (!seat->lease_timer &&
        sl_timer_new(seat->loop, on_lease_timer, seat, &seat->lease_timer))
        return false;
    return seat->leases ||
           !sl_lease_cache_open(most, keep, true, seat->options.alloc,
                                &seat->leases);
}

bool sl_dynamo_client_leases(struct sl_dynamo_client *seat,
                             const struct sl_take *take,
                             struct sl_lease_keys *ret)
{
    if (seat->options.no_leases || seat->drains ||
        !sl_lease_cache_apply(take) || !open_leases(seat))
        return false;
    sl_lease_keys(&seat->shared->forgets, take, ret);
    return true;
}

void sl_dynamo_op_ask_leases(struct sl_dynamo_op *trip,
                             const struct sl_lease_keys *keys)
{
    struct sl_dynamo_client *seat = trip->seat;
    struct sl_take_rows *sheet = &trip->sheet;

    sl_lease_cache_ask(seat->leases, keys, trip->take, 0, sheet->now,
                       sl_dynamo_client_time(seat, trip->take), &trip->asks);
    for (unsigned i = 0; i < trip->asks.count; i++) {
        const struct sl_lease_request *word = &trip->asks.words[i];

        sheet->lease[sheet->row_of[i]] = (struct sl_row_lease){
            .want = word->want, .back = word->left, .taken = (sl_ns)word->till};
    }
    if (trip->asks.frees) { /* what was refused so far may pass now */
        sl_denial_forgets_add(&seat->shared->forgets, &trip->key);
        trip->key = sl_denial_key(&seat->shared->forgets, trip->take);
    }
}

/* ---- landing ---- */

static void land(struct sl_dynamo_op *trip, unsigned i)
{
    const struct sl_take_rows *sheet = &trip->sheet;
    unsigned k = sheet->row_of[i];
    sl_ns life = sl_take_rows_lease_end(sheet, k) - sheet->now;
    struct sl_lease_grant grant = {
        .has = sheet->lease[k].has,
        .life = life < SL_S ? life : SL_S,
        .till = (uint64_t)sheet->now,
        .remaining = sheet->parts[i].answer.remaining,
        .reset_in = sheet->parts[i].answer.reset_in,
    };

    if (sl_lease_cache_granted(trip->seat->leases, &trip->asks, i, &grant,
                               trip->sent))
        atomic_fetch_add(&trip->seat->counts.lease_tokens, grant.has);
}

void sl_dynamo_op_landed(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;

    if (trip->asks.count == 0)
        return;
    for (unsigned i = 0; i < trip->asks.count; i++)
        if (trip->asks.list[i] && trip->ends_lease)
            (void)sl_lease_cache_granted(seat->leases, &trip->asks, i, NULL, 0);
        else if (trip->asks.list[i])
            land(trip, i);
    trip->asks.count = 0;
    if (trip->asks.frees)
        sl_denial_forgets_add(&seat->shared->forgets, &trip->key);
    if (seat->drains && trip->take) /* it was asked for before that */
        sl_dynamo_client_drain(seat, trip->take->now);
    else
        wait_for_next(seat);
}

void sl_dynamo_op_lost(struct sl_dynamo_op *trip, bool unsent)
{
    struct sl_lease_counts counts = {0};

    if (trip->asks.count == 0)
        return;
    sl_lease_cache_lost(trip->seat->leases, &trip->asks, unsent, &counts);
    atomic_fetch_add(&trip->seat->counts.lease_under, counts.under);
}
