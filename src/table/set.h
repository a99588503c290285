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
struct sl_item {
    struct sl_part *part;
    struct sl_key key;
    uint64_t cost;
    int64_t delta;
    int beside;     /* the item that is carried to it; -1: none */
    bool carried;   /* it is carried to another */
    bool found;     /* the key has a slot */
    bool untracked; /* there is no room for it: on_full decides */
    bool added;     /* it gets one in this change, */
    bool evicts;    /* from a cell that still owes something */
    uint64_t old_tag;
    uint64_t head; /* not found: what says so, see sl_key_find */
    struct sl_slot slot;
    struct sl_cell cell; /* as read, generation included; zeros if not found */
    struct sl_taken taken;
};

struct sl_set {
    struct sl_table *table;
    struct sl_intent *intent;
    struct sl_item items[SL_PARTS];
    unsigned count;
    sl_ns now;
    sl_ns lag; /* how far `now` is ahead of the caller's reading */
    bool fresh;
    bool swept;
};

/* Count a verdict. */
static inline void sl_set_count(const struct sl_set *set,
                                enum sl_verdict verdict)
{
    sl_count(set->intent, SL_STAT_TAKES);
    if (verdict == SL_VERDICT_DENY)
        sl_count(set->intent, SL_STAT_DENIED);
}

/* Decide a set whose items have their keys, costs and parts. */
SL_MUST_USE enum sl_verdict sl_set_decide(struct sl_set *set);

#endif
