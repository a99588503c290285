/* seat.h -- what one loop has of the store: its client, and what is on its way.
 * For dynamo.c and those that this page names.
 *
 * A trip is a take on its way through one or more calls.
 *   (1) It has a take until that is told; a take is told once, and nothing of
 *       its trip is touched after that but by whoever frees it.
 *   (2) A trip without a take is a write that is too late, or gives one back.
 */
#ifndef SL_DYNAMO_CLIENT_H
#define SL_DYNAMO_CLIENT_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "store/breaker.h"
#include "store/caches.h"
#include "store/dynamo/client.h"
#include "store/dynamo/dynamo.h"
#include "store/dynamo/sheet.h"
#include "store/remote.h"

/* Counted by one thread, read by others. */
struct sl_dynamo_counts {
    _Atomic uint64_t asked, taken, late, failed, returned, uncertain,
        remembered, unmet, throttled, spanning, leased, lease_tokens,
        lease_under;
    _Atomic bool up, ready, open;
    _Atomic unsigned under_way;
    _Atomic sl_ns ahead;
};

struct sl_dynamo_op {
    struct sl_dynamo_call call; /* first */
    struct sl_take_rows sheet;
    TAILQ_ENTRY(sl_dynamo_op) links;
    struct sl_dynamo_client *seat;
    struct sl_take *take;     /* NULL: was told already */
    struct sl_timer *timer;   /* of the deadline */
    struct sl_timer *pausing; /* until it is asked again */
    enum {
        SL_DYNAMO_OP_READS,
        SL_DYNAMO_OP_COUNTS,
        SL_DYNAMO_OP_WRITES,
        SL_DYNAMO_OP_NOTES, /* from here on: in steps.c */
        SL_DYNAMO_OP_PLEDGES,
        SL_DYNAMO_OP_STEPS,
        SL_DYNAMO_OP_UNDOES,
        SL_DYNAMO_OP_REVIEWS,
        SL_DYNAMO_OP_CLEARS,
        SL_DYNAMO_OP_ENDS,
    } phase;
    unsigned written; /* WRITES one row: which */
    /* A set in steps: which rows, and which of them is next. Its name is in the
     * table from when it is `pledged`, at that time (steady). */
    bool apart; /* may be taken so */
    bool pledged;
    sl_ns pledged_at;
    char set[SL_STORE_IDENTITY + 1];
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
    struct sl_lease_requests asks; /* what goes with it; count 0: nothing */
};

TAILQ_HEAD(sl_dynamo_ops, sl_dynamo_op);

struct sl_dynamo_identity;
struct sl_recovery;

struct sl_dynamo_client {
    struct sl_dynamo_options options;
    struct sl_store_identity *shared;
    _Atomic bool *in_steps; /* the store's */
    _Atomic bool *in_notes; /* the table says that sets are taken in steps */
    struct sl_loop *loop;
    struct sl_dynamo_http *client;
    struct sl_dynamo_identity *hello;
    struct sl_recovery *healer;      /* NULL: another seat has it */
    struct sl_denial_cache *denials; /* NULL: none yet */
    struct sl_lease_cache *leases;   /* NULL: none yet */
    struct sl_timer *lease_timer;
    unsigned lease_slot; /* where a row notes what this loop has leased */
    bool drains;         /* nothing is leased any more */
    struct sl_breaker breaker;
    struct sl_jitter dice;
    struct sl_dynamo_ops under_way, spare;
    unsigned under_way_count, spare_count;
    bool closing;
    struct sl_dynamo_op
        *telling; /* whose take is told now, of one that goes on */
    struct sl_store_log herald;
    struct sl_dynamo_counts counts;
};

#define SL_DYNAMO_ADD(counter)                                                 \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

SL_MUST_USE int sl_dynamo_client_open(const struct sl_dynamo_options *options,
                                      struct sl_store_identity *shared,
                                      _Atomic bool *in_steps,
                                      _Atomic bool *in_notes,
                                      struct sl_loop *loop,
                                      struct sl_dynamo_client **ret);

/* All takes are told. Not from within one's done(). NULL is allowed. */
void sl_dynamo_client_close(struct sl_dynamo_client *seat);
void sl_dynamo_client_take(struct sl_dynamo_client *seat, struct sl_take *take);
void sl_dynamo_client_keep(struct sl_dynamo_client *seat);
sl_ns sl_dynamo_client_retry_in(const struct sl_dynamo_client *seat);

/* From any thread: add to *ret. */
void sl_dynamo_client_stats(const struct sl_dynamo_client *seat,
                            struct sl_dynamo_stats *ret);

/* For trips and hellos: whether the endpoint answered, and what it said. */
void sl_dynamo_client_heard(struct sl_dynamo_client *seat, bool answers,
                            const char *why);
void sl_dynamo_client_trouble(struct sl_dynamo_client *seat,
                              enum sl_dynamo_status answered, const char *why);
void sl_dynamo_client_note(struct sl_dynamo_op *trip, bool good);

/* What times of refusals and leases count by. */
static inline sl_ns sl_dynamo_client_time(const struct sl_dynamo_client *seat,
                                          const struct sl_take *take)
{
    return seat->options.own_now ? take->now : sl_loop_mono(seat->loop);
}

/* The wall clock, as the server has it. */
static inline sl_ns sl_dynamo_client_wall(const struct sl_dynamo_client *seat)
{
    return sl_loop_now(seat->loop) +
           (seat->options.own_now ? 0 : sl_dynamo_http_skew(seat->client));
}

/* In leasing.c: may this be decided by leases? Then its keys are in *ret. */
bool sl_dynamo_client_leases(struct sl_dynamo_client *seat,
                             const struct sl_take *take,
                             struct sl_lease_keys *ret);

/* What is asked for with a take whose sheet is filled; what was asked for was
 * written, or is lost: surely, if `unsent`, nothing was. Both may come again.
 */
void sl_dynamo_op_ask_leases(struct sl_dynamo_op *trip,
                             const struct sl_lease_keys *keys);
void sl_dynamo_op_landed(struct sl_dynamo_op *trip);
void sl_dynamo_op_lost(struct sl_dynamo_op *trip, bool unsent);

/* All leases go back, and there are no more. `now` is used with own_now. */
void sl_dynamo_client_drain(struct sl_dynamo_client *seat, sl_ns now);

/* In trips.c. */
struct sl_dynamo_op *
sl_dynamo_op_new(struct sl_dynamo_client *seat); /* or NULL */
void sl_dynamo_op_free(struct sl_dynamo_op *trip);
void sl_dynamo_op_destroy(struct sl_dynamo_op *trip);

/* In trip.c. */
void sl_dynamo_op_go_on(
    struct sl_dynamo_op *trip); /* ask what its phase asks */
void sl_dynamo_op_on_reply(struct sl_dynamo_call *call);
void sl_dynamo_op_begin(struct sl_dynamo_op *trip);
void sl_dynamo_op_give_up(struct sl_dynamo_op *trip); /* at its deadline */
void sl_dynamo_op_abandon(
    struct sl_dynamo_op *trip); /* at the end of the seat */
void sl_dynamo_op_finish(struct sl_dynamo_op *trip); /* it was done: tell */
/* What its phase asks is asked again, a bounded number of times; `told` if the
 * rows are known. */
void sl_dynamo_op_again(struct sl_dynamo_op *trip, bool told);

/* In steps.c: sets where there are no transactions. Begin: all rows that
 * changed are taken from (false without random bytes); is it one of them; which
 * row is asked for, or NULL; is this the step that decides; what is asked. */
SL_MUST_USE bool sl_journal_begin(struct sl_dynamo_op *trip);
bool sl_journal_is_one(const struct sl_dynamo_op *trip);
struct sl_row *sl_journal_row(struct sl_dynamo_op *trip);
bool sl_journal_is_last(const struct sl_dynamo_op *trip);
SL_MUST_USE int sl_journal_put(struct sl_dynamo_op *trip,
                               const char **ret_operation);
void sl_journal_on_answer(struct sl_dynamo_op *trip);
void sl_journal_on_unmet(struct sl_dynamo_op *trip);
/* Who asked was told: take the marks away, and the pledge. */
void sl_journal_clear(struct sl_dynamo_op *trip);
/* At the deadline: does it go on without its take? And then, before it asks:
 * does it turn round? */
bool sl_journal_give_up(struct sl_dynamo_op *trip);
bool sl_journal_invert(struct sl_dynamo_op *trip);

/* In hello.c: the secret is asked for until it was seen, and while the
 * endpoint does not answer. */
SL_MUST_USE int sl_dynamo_identity_open(struct sl_dynamo_client *seat,
                                        struct sl_dynamo_identity **ret);
void sl_dynamo_identity_close(
    struct sl_dynamo_identity *hello); /* NULL is allowed */
void sl_dynamo_identity_go(struct sl_dynamo_identity *hello); /* soon */
/* UpdateItem: note beside it that sets are taken in steps here. */
SL_MUST_USE int sl_dynamo_identity_put_note(struct sl_buf *out,
                                            struct sl_str table);

/* In heal.c: sets that were left half taken are undone, by one seat. */
SL_MUST_USE int sl_recovery_open(struct sl_dynamo_client *seat,
                                 struct sl_recovery **ret);
void sl_recovery_close(struct sl_recovery *healer); /* NULL is allowed */
void sl_recovery_go(struct sl_recovery *healer);    /* soon */

#endif
