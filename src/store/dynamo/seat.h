/* seat.h -- what one loop has of the store: its client, and what is on its way.
 * For dynamo.c and those that this page names.
 *
 * A trip is a take on its way through one or more calls.
 *   (1) It has a take until that is told; a take is told once, and nothing of
 *       its trip is touched after that but by whoever frees it.
 *   (2) A trip without a take is a write that is too late, or gives one back.
 */
#ifndef SL_DYNAMO_SEAT_H
#define SL_DYNAMO_SEAT_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "store/breaker.h"
#include "store/dynamo/client.h"
#include "store/dynamo/dynamo.h"
#include "store/dynamo/sheet.h"
#include "store/leases.h"
#include "store/shared.h"

/* Counted by one thread, read by others. */
struct sl_dynamo_counts {
    _Atomic uint64_t asked, taken, late, failed, returned, uncertain,
        remembered, unmet, throttled, spanning, leased, lease_tokens,
        lease_under;
    _Atomic bool up, ready, open;
    _Atomic unsigned under_way;
    _Atomic sl_ns ahead;
};

struct sl_trip {
    struct sl_call call; /* first */
    struct sl_sheet sheet;
    TAILQ_ENTRY(sl_trip) links;
    struct sl_dynamo_seat *seat;
    struct sl_take *take;     /* NULL: was told already */
    struct sl_timer *timer;   /* of the deadline */
    struct sl_timer *pausing; /* until it is asked again */
    enum {
        SL_TRIP_READS,
        SL_TRIP_COUNTS,
        SL_TRIP_WRITES,
        SL_TRIP_NOTES, /* from here on: in steps.c */
        SL_TRIP_PLEDGES,
        SL_TRIP_STEPS,
        SL_TRIP_UNDOES,
        SL_TRIP_REVIEWS,
        SL_TRIP_CLEARS,
        SL_TRIP_ENDS,
    } phase;
    unsigned written; /* WRITES one row: which */
    /* A set in steps: which rows, and which of them is next. Its name is in the
     * table from when it is `pledged`, at that time (steady). */
    bool apart; /* may be taken so */
    bool pledged;
    sl_ns pledged_at;
    char set[SL_MARK + 1];
    uint8_t order[SL_PARTS];
    unsigned steps, step;
    bool allowed;
    bool tries;      /* for the breaker */
    bool keeps;      /* if it was taken, it stays */
    bool ours;       /* it gives back */
    bool ends_lease; /* likewise: what is left of one */
    unsigned again, paused;
    bool skewed;
    sl_ns sent; /* steady, or take->now */
    struct sl_denial_key key;
    struct sl_lease_asks asks; /* what goes with it; count 0: nothing */
};

TAILQ_HEAD(sl_trips, sl_trip);

struct sl_hello;
struct sl_healer;

struct sl_dynamo_seat {
    struct sl_dynamo_options options;
    struct sl_shared *shared;
    _Atomic bool *in_steps; /* the store's */
    _Atomic bool *in_notes; /* the table says that sets are taken in steps */
    struct sl_loop *loop;
    struct sl_dynamo_client *client;
    struct sl_hello *hello;
    struct sl_healer *healer;   /* NULL: another seat has it */
    struct sl_denials *denials; /* NULL: none yet */
    struct sl_leases *leases;   /* NULL: none yet */
    struct sl_timer *lease_timer;
    bool drains; /* nothing is leased any more */
    struct sl_breaker breaker;
    struct sl_dice dice;
    struct sl_trips under_way, spare;
    unsigned under_way_count, spare_count;
    bool closing;
    struct sl_trip *telling; /* whose take is told now, of one that goes on */
    struct sl_herald herald;
    struct sl_dynamo_counts counts;
};

#define SL_DYNAMO_ADD(counter)                                                 \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

SL_MUST_USE int sl_dynamo_seat_open(const struct sl_dynamo_options *options,
                                    struct sl_shared *shared,
                                    _Atomic bool *in_steps,
                                    _Atomic bool *in_notes,
                                    struct sl_loop *loop,
                                    struct sl_dynamo_seat **ret);

/* All takes are told. Not from within one's done(). NULL is allowed. */
void sl_dynamo_seat_close(struct sl_dynamo_seat *seat);
void sl_dynamo_seat_take(struct sl_dynamo_seat *seat, struct sl_take *take);
void sl_dynamo_seat_keep(struct sl_dynamo_seat *seat);
sl_ns sl_dynamo_seat_retry_in(const struct sl_dynamo_seat *seat);

/* From any thread: add to *ret. */
void sl_dynamo_seat_stats(const struct sl_dynamo_seat *seat,
                          struct sl_dynamo_stats *ret);

/* For trips and hellos: whether the endpoint answered, and what it said. */
void sl_dynamo_seat_heard(struct sl_dynamo_seat *seat, bool answers,
                          const char *why);
void sl_dynamo_seat_trouble(struct sl_dynamo_seat *seat,
                            enum sl_answered answered, const char *why);
void sl_dynamo_seat_note(struct sl_trip *trip, bool good);

/* What times of refusals and leases count by. */
static inline sl_ns sl_dynamo_seat_time(const struct sl_dynamo_seat *seat,
                                        const struct sl_take *take)
{
    return seat->options.own_now ? take->now : sl_loop_steady(seat->loop);
}

/* The wall clock, as the server has it. */
static inline sl_ns sl_dynamo_seat_wall(const struct sl_dynamo_seat *seat)
{
    return sl_loop_now(seat->loop) +
           (seat->options.own_now ? 0 : sl_dynamo_client_skew(seat->client));
}

/* In leasing.c: may this be decided by leases? Then its keys are in *ret. */
bool sl_dynamo_seat_leases(struct sl_dynamo_seat *seat,
                           const struct sl_take *take,
                           struct sl_lease_keys *ret);

/* What is asked for with a take whose sheet is filled; what was asked for was
 * written, or is lost: surely, if `unsent`, nothing was. Both may come again.
 */
void sl_trip_ask_leases(struct sl_trip *trip, const struct sl_lease_keys *keys);
void sl_trip_landed(struct sl_trip *trip);
void sl_trip_lost(struct sl_trip *trip, bool unsent);

/* All leases go back, and there are no more. `now` is used with own_now. */
void sl_dynamo_seat_drain(struct sl_dynamo_seat *seat, sl_ns now);

/* In trips.c. */
struct sl_trip *sl_trip_new(struct sl_dynamo_seat *seat); /* or NULL */
void sl_trip_free(struct sl_trip *trip);
void sl_trip_destroy(struct sl_trip *trip);

/* In trip.c. */
void sl_trip_go_on(struct sl_trip *trip); /* ask what its phase asks */
void sl_trip_on_reply(struct sl_call *call);
void sl_trip_begin(struct sl_trip *trip);
void sl_trip_give_up(struct sl_trip *trip); /* at its deadline */
void sl_trip_abandon(struct sl_trip *trip); /* at the end of the seat */
void sl_trip_finish(struct sl_trip *trip);  /* it was done: tell */
/* What its phase asks is asked again, a bounded number of times; `told` if the
 * rows are known. */
void sl_trip_again(struct sl_trip *trip, bool told);

/* In steps.c: sets where there are no transactions. Begin: all rows that
 * changed are taken from (false without random bytes); is it one of them; which
 * row is asked for, or NULL; is this the step that decides; what is asked. */
SL_MUST_USE bool sl_steps_begin(struct sl_trip *trip);
bool sl_steps_is_one(const struct sl_trip *trip);
struct sl_row *sl_steps_row(struct sl_trip *trip);
bool sl_steps_is_last(const struct sl_trip *trip);
SL_MUST_USE int sl_steps_put(struct sl_trip *trip, const char **ret_operation);
void sl_steps_on_answer(struct sl_trip *trip);
void sl_steps_on_unmet(struct sl_trip *trip);
/* Who asked was told: take the marks away, and the pledge. */
void sl_steps_clear(struct sl_trip *trip);
/* At the deadline: does it go on without its take? And then, before it asks:
 * does it turn round? */
bool sl_steps_give_up(struct sl_trip *trip);
bool sl_steps_turn(struct sl_trip *trip);

/* In hello.c: the secret is asked for until it was seen, and while the
 * endpoint does not answer. */
SL_MUST_USE int sl_hello_open(struct sl_dynamo_seat *seat,
                              struct sl_hello **ret);
void sl_hello_close(struct sl_hello *hello); /* NULL is allowed */
void sl_hello_go(struct sl_hello *hello);    /* soon */
/* UpdateItem: note beside it that sets are taken in steps here. */
SL_MUST_USE int sl_hello_put_note(struct sl_buf *out, struct sl_str table);

/* In heal.c: sets that were left half taken are undone, by one seat. */
SL_MUST_USE int sl_healer_open(struct sl_dynamo_seat *seat,
                               struct sl_healer **ret);
void sl_healer_close(struct sl_healer *healer); /* NULL is allowed */
void sl_healer_go(struct sl_healer *healer);    /* soon */

#endif
