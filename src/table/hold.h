/* hold.h -- holds: takes that are settled, released or expire.
 *
 * The meaning is in store/store.h ("Holds") and core/hold.h. A take with a hold
 * changes the cells and the record of the hold in one step, and so does the end
 * of a hold. A process that dies leaves neither half a hold nor a leak.
 *
 * Expiry. Every decision reads one word, the earliest expiry of all holds
 * (hold_record.h). If it has passed, expired holds are ended first, as of their
 * expiry.
 *
 * Records are a sixteenth of the region. Without a free record a hold is
 * refused (SL_SET_NO_HOLD_ROOM), and nothing is taken.
 *
 * Clock steps. Forward: holds whose expiry has passed are expired. Back: the
 * first thread that sees the step shortens every hold to at most its life from
 * now, before any decision at the new time. So no hold ends early or lasts
 * longer than its life after the step. While there are holds, a reading far
 * behind is read again before it is used.
 */
#ifndef SL_TABLE_HOLD_H
#define SL_TABLE_HOLD_H

#include "table/table.h"

/* A random id, which cannot be guessed. Zeros: none. */
struct sl_hold_id {
    uint64_t w[2];
};

static inline bool sl_hold_id_is_none(struct sl_hold_id id)
{
    return (id.w[0] | id.w[1]) == 0;
}

enum sl_hold_state {
    SL_HOLD_UNKNOWN, /* never existed, or no longer stored */
    SL_HOLD_HELD,    /* was held until this call; SETTLE ends it */
    SL_HOLD_SETTLED, /* before this call */
    SL_HOLD_RELEASED,
    SL_HOLD_EXPIRED,
};

enum sl_hold_action {
    SL_HOLD_SETTLE, /* with `release`: RELEASE */
    SL_HOLD_EXTEND, /* expires `life` from now */
    SL_HOLD_LOOK,
};

/* Takes a set as sl_table_decide() does, and holds it for `life` > 0 under
 * `id`, which was never used before. SL_SET_NO_HOLD_ROOM: nothing was taken.
 * Parts of the same key are one part of the hold. Carried parts are not held.
 */
SL_MUST_USE enum sl_set_result
sl_table_hold(struct sl_table *table, struct sl_part *parts, unsigned count,
              struct sl_hold_id id, sl_ns life, sl_ns now, bool fresh);

/* One key of a hold. */
struct sl_hold_part {
    uint32_t limit_id;       /* out */
    bool known;              /* out: numbers() returned a limit */
    uint64_t held;           /* out: taken by the hold */
    uint64_t cost;           /* out: actual */
    bool over;               /* out: the actual cost exceeds the limit */
    struct sl_answer answer; /* out: a peek by the numbers of the take; only the
                              * numbers of an unknown limit */
};

/* Returns the limit `limit_id` with any of its plans, or NULL: unknown. SETTLE:
 * sets *cost, at first `held`, to the actual cost, at most SL_HOLD_COST_MAX. */
typedef const struct sl_limit *sl_hold_numbers_f(void *ctx, uint32_t limit_id,
                                                 uint64_t held, uint64_t *cost);

#define SL_HOLD_COST_MAX (SL_AMOUNT_MAX / SL_PARTS)

struct sl_hold_result {
    enum sl_hold_action op;
    struct sl_hold_id id;
    bool release; /* SETTLE: nothing was used */
    sl_ns life;   /* EXTEND */
    sl_hold_numbers_f *numbers;
    void *ctx;
    enum sl_hold_state state;            /* out */
    sl_ns expires_in;                    /* out: HELD, not SETTLE */
    struct sl_hold_part parts[SL_PARTS]; /* out: HELD */
    unsigned count;                      /* out */
};

/* Ends, extends or peeks at a hold. SL_SET_STALE as for sl_table_decide(),
 * otherwise SL_SET_ALLOW. */
SL_MUST_USE enum sl_set_result sl_table_end(struct sl_table *table,
                                            struct sl_hold_result *call,
                                            sl_ns now, bool fresh);

struct sl_hold_stats {
    uint64_t places; /* records */
    uint64_t held;
};

void sl_table_hold_stats(struct sl_table *table, struct sl_hold_stats *ret);

/* Units of a key in holds that have not ended. Reads all of the holds. */
uint64_t sl_table_held_units(struct sl_table *table, uint32_t limit_id,
                             struct sl_hash128 fingerprint);

#endif
