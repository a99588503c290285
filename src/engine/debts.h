/* debts.h -- what was let through and given back while the store was away.
 *
 * A decision that is made without the store takes nothing there. What it let
 * through is written down here, added up by key, and charged as soon as the
 * store answers again: before the key's next take, on the same way, so that
 * whoever used more than his share in between finds it used.
 *
 * What is given back meanwhile is written down beside it, and the store is told
 * of the difference: that is charged, or given back.
 *
 * A debt ages as the limit does: a bucket's flows back, and a window's ends
 * with the window. For that it is a cell, and its limit's own algorithm moves
 * it; what is charged is what the cell says at that moment, and never more
 * than the limit holds.
 *
 * Bounded. At most SL_DEBTS keys and SL_DEBTS_BYTES of their names; beyond
 * that, what was let through is forgiven, and what was given back is lost; both
 * are counted. Debts are this process's: they end with it.
 *
 * Nothing is charged twice: a charge that may have arrived is not repeated, and
 * counted as lost if nobody can tell.
 *
 * Any thread may call; a charge comes back on the thread of its loop.
 */
#ifndef SL_DEBTS_H
#define SL_DEBTS_H

#include "store/store.h"

struct sl_active_policy;

#define SL_DEBTS       8192
#define SL_DEBTS_BYTES ((size_t)4 << 20)

struct sl_debts;

SL_MUST_USE int sl_debts_open(const struct sl_alloc *alloc,
                              struct sl_debts **ret);

/* No charge is on its way. NULL is allowed. */
void sl_debts_close(struct sl_debts *debts);

/* Forget all of them. */
void sl_debts_forget(struct sl_debts *debts);

/* What `part` would have taken was let through. `live`, which the part points
 * into, is held until that is charged, or until the key's debt is moved on
 * under another one, which is held instead. */
void sl_debts_add(struct sl_debts *debts, struct sl_active_policy *live,
                  const struct sl_store_part *part, sl_ns now);

/* It was given back; the same otherwise. */
void sl_debts_give(struct sl_debts *debts, struct sl_active_policy *live,
                   const struct sl_store_part *part, sl_ns now);

/* Is there any? Costs one load. */
bool sl_debts_any(const struct sl_debts *debts);

/* Tell the store what the keys of `take` owe: before it is asked for. */
void sl_debts_settle(struct sl_debts *debts, struct sl_store *store,
                     const struct sl_take *take);

/* The store answers: charge what some others owe. */
void sl_debts_collect(struct sl_debts *debts, struct sl_store *store,
                      struct sl_loop *loop, sl_ns now);

struct sl_debts_stats {
    uint64_t keys;     /* that owe something */
    uint64_t charged;  /* units */
    uint64_t forgiven; /* units: there was no room */
    uint64_t lost;     /* units: of charges that may have arrived, or not, and
                        * given back when there was no room */
};
void sl_debts_stats(struct sl_debts *debts, struct sl_debts_stats *ret);

#endif
