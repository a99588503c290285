/* hold_history.h -- what is known of a history of holds: the cells by core/,
 * and all that is held. */
#ifndef SL_HOLD_HISTORY_H
#define SL_HOLD_HISTORY_H

#include "conform.h"
#include "rng.h"

#define KINDS 8
#define KEYS  2
#define HOLDS 24 /* out at once */
#define PARTS 4

/* One key of a hold. */
struct held {
    unsigned limit, key;
    uint64_t cost;
    struct sl_hold_snapshot mark;
    struct sl_refunds returned; /* to its key, by the take */
    bool not_held;              /* taken, and not held */
    bool gone;                  /* its key was reset since */
};

struct hold {
    struct sl_hold_id id;
    uint32_t place;
    sl_ns taken, expires;
    sl_ns life; /* the longest at once */
    struct held part[PARTS];
    unsigned count;
    enum sl_hold_state state;
};

struct hold_history {
    struct conform *conform;
    struct rng rng;
    uint64_t seed;
    unsigned step;
    struct sl_limit_binding stored[KINDS];
    struct sl_limit limit[KINDS];  /* at the quantum of the table */
    struct sl_limit judged[KINDS]; /* at the store's */
    char names[KINDS][48];
    char keys[KINDS][KEYS][64];
    struct sl_cell cell[KINDS][KEYS];
    struct sl_refunds returned[KINDS][KEYS]; /* to a bucket, in units */
    /* The clock has stepped back while something was held of the key: what
     * comes back of that is the store's to guess, until it is reset. */
    bool vague[KINDS][KEYS];
    struct hold hold[HOLDS];
    unsigned count, next;
    bool done, bad;
};

static inline struct sl_cell *cell_of(struct hold_history *l,
                                      const struct held *p)
{
    return &l->cell[p->limit][p->key];
}

static inline bool is_vague(const struct hold_history *l, const struct held *p)
{
    return l->vague[p->limit][p->key];
}

/* End a hold for `cost` of each part at `at`. */
void hold_history_end(struct hold_history *l, struct hold *h, uint64_t cost,
                      sl_ns at, enum sl_hold_state state);

/* End all that has expired by now, in its order. */
void hold_history_expire(struct hold_history *l);

/* What core says of a set now, in `want`; true if all parts allow. And what is
 * remembered when it was taken. */
bool hold_history_judge(struct hold_history *l, const struct held *held,
                        unsigned count, struct sl_answer *want);
void hold_history_take(struct hold_history *l, struct held *held,
                       unsigned count);

/* `cost` of what was taken at `when` is given back. */
void hold_history_back(struct hold_history *l, const struct held *p,
                       sl_ns when);

/* A key is reset: its holds have nothing more to give back to it. */
void hold_history_reset(struct hold_history *l, const struct held *p);

/* The clock has stepped back to now. */
void hold_history_step(struct hold_history *l);

/* How long until `cost` permits are free, if no one but the clock ends holds.
 */
sl_ns hold_history_retry(const struct hold_history *l, const struct held *p);

#endif
