/* inner.h -- what is behind a seat; for seat.c and landing.c.
 *
 * A record is a voyage with its take.
 *   (1) It waits (is in `waiting`) exactly as long as it has a take or a call.
 *   (2) It is freed when its voyage has ended or was recalled, and by then its
 *       take was told.
 *   (3) A take is told once, and nothing of its record is touched after that
 *       but by whoever frees it: done() may ask for the next take.
 */
#ifndef SL_REDIS_INNER_H
#define SL_REDIS_INNER_H

#include "store/breaker.h"
#include "store/caches.h"
#include "store/news.h"
#include "store/redis/script_hold.h"
#include "store/redis/script_lease.h"
#include "store/redis/seat.h"
#include "store/redis/welcome.h"

struct sl_redis_op {
    struct sl_redis_cmd voyage; /* first */
    TAILQ_ENTRY(sl_redis_op) waits;
    struct sl_buf command; /* by the script's name */
    struct sl_buf whole;   /* with its text, if the server had to be told */
    struct sl_redis_client *seat;
    struct sl_take *take;      /* NULL: was told already, or it is a... */
    struct sl_hold_call *call; /* ...call about a hold; NULL: likewise */
    bool is_call;
    struct sl_hold_id hold; /* a take's, if it is held */
    sl_ns hold_now;
    enum sl_take_op errand;
    bool tries;      /* for the breaker */
    bool keeps;      /* if it was taken, it stays */
    bool ends_lease; /* and does nothing else */
    unsigned repairs;
    sl_ns sent;  /* steady, or take->now; see time_of() */
    sl_ns until; /* steady; 0: it is an errand of our own */
    struct sl_denial_key key;
    struct sl_lease_requests asks; /* what goes with it; count 0: nothing */
};

struct sl_redis_client {
    struct sl_redis_options options;
    struct sl_store_identity *shared;
    struct sl_loop *loop;
    struct sl_redis_cluster *fleet;
    struct sl_redis_identity *welcome;
    struct sl_denial_cache *denials; /* NULL: none yet */
    struct sl_lease_cache *leases;   /* NULL: none yet */
    struct sl_timer *lease_timer;
    struct sl_breaker breaker;
    struct sl_timer *timer;
    TAILQ_HEAD(sl_records, sl_redis_op) waiting; /* by deadline */
    TAILQ_HEAD(, sl_redis_op) spare;
    unsigned spare_count;
    bool closing;
    bool drains; /* nothing is leased any more */
    struct sl_redis_op
        *telling; /* whose take is told now, of one that goes on */
    struct sl_store_log herald;
    struct sl_redis_counts counts;
};

#define SL_ADD(counter)                                                        \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

/* In seat.c: how a take has ended, for the breaker; and what Redis says. */
void sl_redis_client_note(struct sl_redis_op *r, bool good);
void sl_redis_client_trouble(struct sl_redis_client *seat, struct sl_str reply);

/* What times of refusals count by. */
static inline sl_ns sl_redis_client_time(const struct sl_redis_client *seat,
                                         const struct sl_take *take)
{
    return seat->options.own_now ? take->now : sl_loop_mono(seat->loop);
}

/* The server's time, as far as we know, when ours is `now`. */
static inline sl_ns sl_redis_client_near(const struct sl_redis_client *seat,
                                         sl_ns now)
{
    sl_ns ahead =
        atomic_load_explicit(&seat->counts.ahead, memory_order_relaxed);

    return seat->options.own_now ? now : now + ahead;
}

/* In leasing.c: may this be decided by leases? Then its keys are in *ret. */
bool sl_redis_client_leases(struct sl_redis_client *seat,
                            const struct sl_take *take,
                            struct sl_lease_keys *ret);

/* What is asked for with the take of a record. */
void sl_redis_op_ask_leases(struct sl_redis_op *r,
                            const struct sl_lease_keys *keys,
                            const struct sl_take *take,
                            struct sl_script_options *how);

/* What was asked for was answered, or is lost. */
void sl_redis_op_leases_granted(struct sl_redis_op *r, const int64_t *numbers,
                                unsigned count);
void sl_redis_op_leases_lost(struct sl_redis_op *r, bool unsent);

/* In holding.c: what the record of a hold is called; what a call's reply says;
 * the command that releases a hold whose take was given up. */
struct sl_str sl_redis_op_record(const struct sl_redis_client *seat,
                                 struct sl_hold_id id, unsigned slot,
                                 char room[SL_HOLD_NAME]);
SL_MUST_USE bool sl_redis_op_hold(struct sl_redis_op *r, struct sl_str reply);
SL_MUST_USE int sl_redis_op_release(const struct sl_redis_op *r,
                                    struct sl_buf *out);

/* In seat.c: it waits for its answer, until its own deadline or the seat's. */
void sl_redis_op_wait(struct sl_redis_op *r, sl_ns deadline);

/* In landing.c. */
struct sl_redis_op *sl_redis_op_new(struct sl_redis_client *seat); /* or NULL */
void sl_redis_op_free(struct sl_redis_op *r);
void sl_redis_op_answer(struct sl_redis_op *r, int err); /* (3) */

/* What makes it sooner for others is done, or perhaps: what they were refused
 * is forgotten. */
void sl_redis_op_forget(const struct sl_redis_op *r);

#endif
