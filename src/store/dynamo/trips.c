/* trips.c -- trips come and go: those that have ended are kept for the next. */
#include <string.h>

#include "store/dynamo/dynamo_int.h"

#define SPARES     64
#define NAMES_MOST ((size_t)64 << 10)

static void on_deadline(void *ctx)
{
    sl_dynamo_op_give_up(ctx);
}

static void on_pause(void *ctx)
{
    sl_dynamo_op_go_on(ctx);
}

void sl_dynamo_op_destroy(struct sl_dynamo_op *trip)
{
    const struct sl_alloc *alloc = trip->seat->options.alloc;

    sl_dynamo_call_done(&trip->call);
    sl_timer_free(trip->timer);
    sl_timer_free(trip->pausing);
    sl_buf_done(&trip->sheet.names);
    sl_alloc_free(alloc, trip, sizeof(*trip));
}

static struct sl_dynamo_op *make(struct sl_dynamo_client *seat)
{
    struct sl_dynamo_op *trip =
        sl_alloc_new(seat->options.alloc, sizeof(*trip));

    if (!trip)
        return NULL;
    memset(trip, 0, sizeof(*trip));
    trip->seat = seat;
    sl_dynamo_call_init(&trip->call, seat->client);
    trip->call.done = sl_dynamo_op_on_reply;
    trip->sheet.slot = seat->lease_slot;
    sl_buf_init(&trip->sheet.names, NAMES_MOST, seat->options.alloc);
    if (sl_timer_new(seat->loop, on_deadline, trip, &trip->timer) ||
        sl_timer_new(seat->loop, on_pause, trip, &trip->pausing)) {
        sl_dynamo_op_destroy(trip);
        return NULL;
    }
    return trip;
}

struct sl_dynamo_op *sl_dynamo_op_new(struct sl_dynamo_client *seat)
{
    struct sl_dynamo_op *trip = TAILQ_FIRST(&seat->spare);

    if (trip) {
        TAILQ_REMOVE(&seat->spare, trip, links);
        seat->spare_count--;
    } else {
        trip = make(seat);
        if (!trip)
            return NULL;
    }
    sl_buf_clear(&trip->sheet.names);
    trip->take = NULL;
    trip->allowed = trip->tries = trip->keeps = trip->ours = false;
    trip->skewed = trip->ends_lease = trip->pledged = trip->apart = false;
    trip->asks.count = 0;
    trip->asks.frees = false;
    trip->again = trip->paused = 0;
    TAILQ_INSERT_TAIL(&seat->under_way, trip, links);
    atomic_store(&seat->counts.under_way, ++seat->under_way_count);
    return trip;
}

void sl_dynamo_op_free(struct sl_dynamo_op *trip)
{
    struct sl_dynamo_client *seat = trip->seat;

    sl_dynamo_op_lost(trip, !trip->ends_lease);
    sl_dynamo_call_cancel(&trip->call);
    sl_timer_stop(trip->timer);
    sl_timer_stop(trip->pausing);
    TAILQ_REMOVE(&seat->under_way, trip, links);
    atomic_store(&seat->counts.under_way, --seat->under_way_count);
    if (seat->spare_count >= SPARES || seat->closing) {
        sl_dynamo_op_destroy(trip);
        return;
    }
    TAILQ_INSERT_HEAD(&seat->spare, trip, links);
    seat->spare_count++;
}
