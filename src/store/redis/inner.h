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
#include "store/leases.h"
#include "store/news.h"
#include "store/redis/script_hold.h"
#include "store/redis/script_lease.h"
#include "store/redis/seat.h"
#include "store/redis/welcome.h"

struct sl_record {
    struct sl_voyage voyage; /* first */
    TAILQ_ENTRY(sl_record) waits;
    struct sl_buf command; /* by the script's name */
    struct sl_buf whole;   /* with its text, if the server had to be told */
    struct sl_redis_seat *seat;
    struct sl_take *take;      /* NULL: was told already, or it is a... */
    struct sl_hold_call *call; /* ...call about a hold; NULL: likewise */
    bool is_call;
    struct sl_hold_id hold; /* a take's, if it is held */
    sl_ns hold_now;
    enum sl_errand errand;
    bool tries;      /* for the breaker */
    bool keeps;      /* if it was taken, it stays */
    bool ends_lease; /* and does nothing else */
    unsigned repairs;
    sl_ns sent;  /* steady, or take->now; see time_of() */
    sl_ns until; /* steady; 0: it is an errand of our own */
    struct sl_denial_key key;
    struct sl_lease_asks asks; /* what goes with it; count 0: nothing */
};

struct sl_redis_seat {
    struct sl_redis_options options;
    struct sl_shared *shared;
    struct sl_loop *loop;
    struct sl_fleet *fleet;
    struct sl_welcome *welcome;
    struct sl_denials *denials; /* NULL: none yet */
    struct sl_leases *leases;   /* NULL: none yet */
    struct sl_timer *lease_timer;
    struct sl_breaker breaker;
    struct sl_timer *timer;
    TAILQ_HEAD(sl_records, sl_record) waiting; /* by deadline */
    TAILQ_HEAD(, sl_record) spare;
    unsigned spare_count;
    bool closing;
    bool drains;               /* nothing is leased any more */
    struct sl_record *telling; /* whose take is told now, of one that goes on */
    struct sl_herald herald;
    struct sl_redis_counts counts;
};

#define SL_ADD(counter)                                                        \
    atomic_fetch_add_explicit(&(counter), 1, memory_order_relaxed)

/* In seat.c: how a take has ended, for the breaker; and what Redis says. */
void sl_seat_note(struct sl_record *r, bool good);
void sl_seat_trouble(struct sl_redis_seat *seat, struct sl_str reply);

/* What times of refusals count by. */
static inline sl_ns sl_seat_time(const struct sl_redis_seat *seat,
                                 const struct sl_take *take)
{
    return seat->options.own_now ? take->now : sl_loop_steady(seat->loop);
}

/* The server's time, as far as we know, when ours is `now`. */
static inline sl_ns sl_seat_near(const struct sl_redis_seat *seat, sl_ns now)
{
    sl_ns ahead =
        atomic_load_explicit(&seat->counts.ahead, memory_order_relaxed);

    return seat->options.own_now ? now : now + ahead;
}

/* In leasing.c: may this be decided by leases? Then its keys are in *ret. */
bool sl_seat_leases(struct sl_redis_seat *seat, const struct sl_take *take,
                    struct sl_lease_keys *ret);

/* What is asked for with the take of a record. */
void sl_seat_ask_leases(struct sl_record *r, const struct sl_lease_keys *keys,
                        const struct sl_take *take, struct sl_script_how *how);

/* What was asked for was answered, or is lost. */
void sl_seat_landed(struct sl_record *r, const int64_t *numbers,
                    unsigned count);
void sl_seat_lost(struct sl_record *r, bool unsent);

/* In holding.c: what the record of a hold is called; what a call's reply says;
 * the command that releases a hold whose take was given up. */
struct sl_str sl_seat_record(const struct sl_redis_seat *seat,
                             struct sl_hold_id id, unsigned slot,
                             char room[SL_HOLD_NAME]);
SL_MUST_USE bool sl_seat_held(struct sl_record *r, struct sl_str reply);
SL_MUST_USE int sl_seat_release(const struct sl_record *r, struct sl_buf *out);

/* In seat.c: it waits for its answer, until its own deadline or the seat's. */
void sl_record_wait(struct sl_record *r, sl_ns deadline);

/* In landing.c. */
struct sl_record *sl_record_new(struct sl_redis_seat *seat); /* or NULL */
void sl_record_free(struct sl_record *r);
void sl_record_tell(struct sl_record *r, int err); /* (3) */

/* What makes it sooner for others is done, or perhaps: what they were refused
 * is forgotten. */
void sl_record_forget(const struct sl_record *r);

#endif
