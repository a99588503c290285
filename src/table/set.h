/* set.h -- a set on its way to a verdict.
 *
 * 1. Find and read all cells, without locking anything, and judge. Whatever
 *    changes no cell (a refusal, a look) is answered from that.
 * 2. Otherwise swap the cell if it is only one; or lock what is to change,
 * check that it is still what was judged, and commit. If it is not, begin again
 *    at 1.
 */
#ifndef SL_SET_H
#define SL_SET_H

#include "table/key.h"

/* One key of a set: one part, or several of the same key merged. */
struct sl_set_item {
    struct sl_part *part;
    struct sl_slot_key key;
    uint64_t cost;
    int64_t delta;
    int beside;          /* the item that is carried to it; -1: none */
    bool carried;        /* it is carried to another */
    bool found;          /* the key has a slot */
    bool untracked;      /* there is no room for it: on_full decides */
    bool added;          /* it gets one in this change, */
    bool evicts;         /* from a cell that still owes something */
    unsigned waited;     /* RESET: for somebody who may swap, see set.c */
    uint64_t generation; /* of its slot, if it was added */
    uint64_t returns;    /* units that this gives back to a bucket */
    uint64_t counted;    /* the sum of that over all attempts so far */
    const struct sl_hold_outcome *settled; /* SETTLE: what became of the hold */
    uint64_t old_tag;
    uint64_t head; /* not found: what says so, see sl_slot_key_find */
    struct sl_slot slot;
    struct sl_cell cell; /* as read, generation included; zeros if not found */
    struct sl_take_result taken;
};

struct sl_set;

/* Something that changes together with the cells of a set: the record of a
 * hold. */
struct sl_set_extra {
    /* Before anything is locked: false if there is nothing to ride with, and
     * the verdict is VOID. */
    bool (*ready)(struct sl_set *set);
    /* All cells are locked: lock it as well. False: begin again. */
    bool (*join)(struct sl_set *set);
    /* No cell changes: it may change alone, at once. False: begin again. Or
     * NULL if it can't. */
    bool (*alone)(struct sl_set *set);
    /* It is over: it came true, or not. */
    void (*leave)(struct sl_set *set, bool done);
};

struct sl_set {
    struct sl_table *table;
    struct sl_set_extra *rider; /* or NULL */
    struct sl_intent *intent;
    struct sl_set_item items[SL_PARTS];
    unsigned count;
    sl_ns now;
    sl_ns lag; /* how far `now` is ahead of the caller's reading */
    bool fresh;
    bool swept;
};

/* Count a verdict. */
static inline void sl_set_count(const struct sl_set *set,
                                enum sl_set_result verdict)
{
    sl_count(set->intent, SL_STAT_TAKES);
    if (verdict == SL_SET_DENY)
        sl_count(set->intent, SL_STAT_DENIED);
}

/* Begin a set of no items: find the instant at which it is judged, and end the
 * holds that have expired by then. False if the clock must be read again. */
SL_MUST_USE bool sl_set_begin(struct sl_set *set, struct sl_table *table,
                              sl_ns now, bool fresh);

/* As sl_table_decide(), with a rider. */
SL_MUST_USE enum sl_set_result sl_set_decide_with(struct sl_table *table,
                                                  struct sl_part *parts,
                                                  unsigned count, sl_ns now,
                                                  bool fresh,
                                                  struct sl_set_extra *rider);

/* Decide a set whose items have their keys, costs and parts. */
SL_MUST_USE enum sl_set_result sl_set_decide(struct sl_set *set);

#endif
