/* conform.h -- the same questions to a store and to core/, seed for seed.
 *
 * A history is made from a seed: limits of every kind with two plans each, a
 * few keys, and takes of one to eight parts at instants that usually go on,
 * sometimes stand, and sometimes step back. The model keeps a cell for each
 * key and asks core/ at the store's quantum, one take after the other.
 *
 * Checked by the numbers of store/store.h:
 *   (1) either every part was taken or none was;
 *   (2) the answers equal those of core/;
 *   (3) what was not taken leaves its cell as it was, healed if its clock had
 *       run ahead: seen by the answers of the takes after it;
 *   and, where the store does it, a refusal is one failure for the penalties of
 *   the limits that refuse, unless a block refuses.
 */
#ifndef SL_CONFORM_H
#define SL_CONFORM_H

#include "store/store.h"

struct conform {
    struct sl_store *store;
    enum sl_quantum quantum;
    /* Where takes are answered later: wait until wake() was called. */
    void (*wait)(void *ctx);
    void (*wake)(void *ctx);
    void *ctx;
    struct sl_loop *loop; /* of the takes, or NULL */
    sl_ns now;            /* of the history: what clocks must show */
    /* Keys of different histories must not meet: this is part of them. */
    const char *prefix;
    unsigned parts_most; /* 0: 8 */
    /* The store judges a reading that lies a little behind its latest decision
     * at the time of that: leave such readings out. NULL: it does not. */
    sl_ns (*latest)(struct sl_store *store);
    /* Do two keys share a counter of refunds? Then less comes back from their
     * holds, so a history uses others. NULL: the store has no such counters. */
    bool (*share)(struct sl_store *store, const struct sl_part *one,
                  const struct sl_part *other);
    /* A fixed window is named by its start, so that a clock which goes back
     * into the one before finds that: leave such steps out. */
    bool names_windows;
    /* A cell that was written up to this after now is judged at that instant:
     * leave such readings out. */
    sl_ns lag;
    /* It has no transactions: sets are taken in steps, and whatever else is
     * asked is asked of one part. */
    bool in_steps;
    /* The store counts refused takes for their penalties. */
    bool counts;
    /* Quotas and levels are leased, and elsewhere than the other limits. The
     * clock does not go back: what quotas deny is only read in the other store,
     * so that its cells are not healed then. */
    bool leases_quotas;
};

/* Run `steps` takes made from `seed`. True if all agreed; otherwise the first
 * that did not is printed. */
bool conform_run(struct conform *conform, uint64_t seed, unsigned steps);

/* The same for holds: on one to four limits of every kind, some parts of them
 * firm, beside plain takes, corrections and resets; settled for less and for
 * more, released, extended, left to expire, ended twice; now and then the clock
 * steps back. The model keeps the rules of core/hold.h. Checked by the numbers
 * of store.h, beside the answers, and when permits come back:
 *   (4) what is held is granted less ended, and fits
 *   (5) a hold ends once
 *   (6) what comes back is what core/ says; of what was held over a step of the
 *       clock that is known for permits and levels alone */
bool conform_hold_history(struct conform *conform, uint64_t seed,
                          unsigned steps);

#endif
