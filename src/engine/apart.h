/* apart.h -- a set that lies in several slots of a cluster, taken in steps.
 *
 * A cluster takes in one step what lies in one slot. A route that says
 * `atomic: false` may have limits that do not, and a request that is read as
 * several routes has what it has. Their parts are taken one after the other,
 * in the set's order:
 *
 *     take 1, take 2, ... --> one refuses, or fails
 *                                 |
 *               the others are looked at; what was taken is given back
 *
 * What it costs. Between two steps others see what may be given back, and are
 * perhaps refused for it. What can't be given back, since the store went away
 * meanwhile, stays taken. Nobody ever gets more than his limits allow.
 */
#ifndef SL_SPLIT_TAKE_H
#define SL_SPLIT_TAKE_H

#include "store/store.h"

struct sl_split_take {
    struct sl_take step;
    struct sl_take *whole;
    struct sl_store *store;
    unsigned at;    /* the part that the step begins with */
    unsigned taken; /* parts that were, from the first on */
    bool allowed;
    int err;
    enum {
        SL_SPLIT_TAKE_FORTH, /* take; or whatever else is asked */
        SL_SPLIT_TAKE_BACK,
    } phase;
};

/* Do all parts lie in one slot, by their names? */
bool sl_split_take_is_one(const struct sl_take *take);

/* Carry out `take` in steps; its done() is called once. `apart` lasts until
 * then. */
void sl_split_take_take(struct sl_split_take *apart, struct sl_store *store,
                        struct sl_take *take);

#endif
