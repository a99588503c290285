/* hold.h -- holds: what is taken until it is settled, released or expires.
 *
 * The meaning is in store/store.h ("Holds") and core/hold.h. A take with a hold
 * is one change: the cells and the record of the hold, all or nothing; and so
 * is the end of a hold. Whoever is killed in between leaves neither half a hold
 * nor a leak, and a hold ends once.
 *
 * On time. When a hold expires nobody need be there. Every decision looks at
 * one word, the earliest expiry of all holds (due.h), and if that has come it
 * ends what is due before it decides: as of the expiry, not as of now.
 *
 * Full. Records are the region's, a sixteenth of it. If there is none for a
 * hold it is refused (SL_SET_NO_HOLD_ROOM), and nothing is taken.
 *
 * Steps of the clock. Forward: what the clock has passed has expired. Back:
 * whoever sees it first, and before time goes on from there, shortens every
 * hold to its life from now at most. So none ends early, and none lasts longer
 * than its life after the step. While there are holds, no reading that lies
 * far behind is decided at before it was read again.
 */
#ifndef SL_TABLE_HOLD_H
#define SL_TABLE_HOLD_H

#include "table/table.h"

/* What a hold is known by: random, so that nobody guesses it. Zeros: none. */
struct sl_hold_id {
    uint64_t w[2];
};

static inline bool sl_hold_id_is_none(struct sl_hold_id id)
{
    return (id.w[0] | id.w[1]) == 0;
}

enum sl_hold_state {
    SL_HOLD_UNKNOWN, /* never was, or is forgotten */
    SL_HOLD_HELD,    /* EXTEND: it is; SETTLE: it was, and is settled now */
    SL_HOLD_SETTLED, /* it had been settled before */
    SL_HOLD_RELEASED,
    SL_HOLD_EXPIRED,
};

enum sl_hold_action {
    SL_HOLD_SETTLE, /* RELEASE is a settlement with `release` */
    SL_HOLD_EXTEND, /* expires `hold_for` from now, whatever it was before */
    SL_HOLD_LOOK,
};

/* Take a set as sl_table_decide() does, and hold it for `life` > 0 under `id`,
 * which has never been used before. SL_SET_NO_HOLD_ROOM if there is no room for
 * a hold: then nothing was taken. Parts of the same key are one part of the
 * hold; what is carried is no part of it. */
SL_MUST_USE enum sl_set_result
sl_table_hold(struct sl_table *table, struct sl_part *parts, unsigned count,
              struct sl_hold_id id, sl_ns life, sl_ns now, bool fresh);

/* One key of a hold. */
struct sl_hold_part {
    uint32_t limit_id;       /* out */
    bool known;              /* out: numbers() knew it */
    uint64_t held;           /* out: what the hold took */
    uint64_t cost;           /* out: what it came to */
    bool over;               /* out: that is more than the limit has */
    struct sl_answer answer; /* out: a look, by the numbers of the take; of a
                              * limit that is not known nothing but the
                              * numbers */
};

/* Asked for each key of a hold: the limit of that number with any of its plans,
 * or NULL if there is none any more; and SETTLE: what it came to in *cost, at
 * first all that was held. Costs end at SL_HOLD_COST_MAX. */
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
    enum sl_hold_state state;            /* out: what was found */
    sl_ns expires_in;                    /* out: HELD, but for SETTLE */
    struct sl_hold_part parts[SL_PARTS]; /* out: of HELD */
    unsigned count;                      /* out */
};

/* End, extend or look at a hold. SL_SET_STALE as for sl_table_decide(),
 * otherwise SL_SET_ALLOW, whatever was found. */
SL_MUST_USE enum sl_set_result sl_table_end(struct sl_table *table,
                                            struct sl_hold_result *deed,
                                            sl_ns now, bool fresh);

/* How many holds there are, and how many there could be. */
struct sl_hold_stats {
    uint64_t places;
    uint64_t held;
};

void sl_table_hold_stats(struct sl_table *table, struct sl_hold_stats *ret);

#endif
