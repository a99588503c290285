/* inner.h -- what is behind a seat; for seat.c and landing.c.
 *
 * A record is a voyage with its take.
 *   (1) It waits (is in `waiting`) exactly as long as it has a take.
 *   (2) It is freed when its voyage has ended or was recalled, and by then its
 *       take was told.
 *   (3) A take is told once, and nothing of its record is touched after that
 *       but by whoever frees it: done() may ask for the next take.
 */
#ifndef SL_REDIS_INNER_H
#define SL_REDIS_INNER_H

#include "store/breaker.h"
#include "store/redis/seat.h"
#include "store/redis/welcome.h"

struct sl_record {
    struct sl_voyage voyage; /* first */
    TAILQ_ENTRY(sl_record) waits;
    struct sl_buf command; /* by the script's name */
    struct sl_buf whole;   /* with its text, if the server had to be told */
    struct sl_redis_seat *seat;
    struct sl_take *take; /* NULL: was told already */
    enum sl_errand errand;
    bool tries; /* for the breaker */
    bool keeps; /* if it was taken, it stays */
    unsigned repairs;
    sl_ns sent;  /* steady, or take->now; see time_of() */
    sl_ns until; /* steady; 0: it is an errand of our own */
    struct sl_denial_key key;
};

struct sl_redis_seat {
    struct sl_redis_options options;
    struct sl_shared *shared;
    struct sl_loop *loop;
    struct sl_fleet *fleet;
    struct sl_welcome *welcome;
    struct sl_denials *denials; /* NULL: none yet */
    struct sl_breaker breaker;
    struct sl_timer *timer;
    TAILQ_HEAD(sl_records, sl_record) waiting; /* by deadline */
    TAILQ_HEAD(, sl_record) spare;
    unsigned spare_count;
    bool closing;
    struct sl_record *telling; /* whose take is told now, of one that goes on */
    enum sl_trouble told;      /* last, and when: steady */
    sl_ns told_at;
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

/* In landing.c. */
struct sl_record *sl_record_new(struct sl_redis_seat *seat); /* or NULL */
void sl_record_free(struct sl_record *r);
void sl_record_tell(struct sl_record *r, int err); /* (3) */

/* What makes it sooner for others is done, or perhaps: what they were refused
 * is forgotten. */
void sl_record_forget(const struct sl_record *r);

#endif
