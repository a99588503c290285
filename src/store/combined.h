/* combined.h -- the combined store: quotas from a usage database, all other
 * limits in a remote store.
 *
 * The parts of leased quotas (binding->quota_leased) are in the table of this
 * process, behind quota leases (quota_lease.h). All other parts are in the
 * remote store. A take with both is all or nothing:
 *
 *     take --> the table --allowed--> the remote store --allowed--> done()
 *                 |                     |        |
 *                 | denied              | denied | failed
 *                 v                     v        v
 *            peek at the           undo here,    done() with an err;
 *            remote store          peek here     then undo here, unless
 *                 |                     |        done() called keep()
 *                 +------> done() <-----+
 *
 * The units are reserved here while the remote store is asked. So a set that
 * the remote store denies may deny another set that needs the same last units
 * at that time, as units leased to another node do.
 *
 * Holds. A hold with units of a quota is in the table, under the same id as in
 * the remote store. The remote store also has a copy of these parts, without a
 * limit: another daemon that ends the hold finds the amounts there. The usage
 * database then tells the node whose table holds the units, which ends the hold
 * there, too. Flag bits in the `place` of a hold tell where it is. A hold ends
 * in the remote store first, which may fail, and then here.
 *
 * With `twice` the remote store has all parts of a take, and the stricter
 * answer about a quota counts.
 *
 * Invariants. (test/prop/combined.c checks each by number.)
 *   (1) Every part of a take was taken or none was, whatever the remote store
 *       answers.
 *   (2) A take that quotas deny takes nothing from the remote store.
 *   (3) When a take has failed, its units here are kept if done() called
 *       keep(), and refunded otherwise: never neither, never both.
 *   (4) What the table has taken is the sum of allowed and kept takes, less
 *       what holds have refunded.
 */
#ifndef SL_STORE_COMBINED_H
#define SL_STORE_COMBINED_H

#include "base/base.h"
#include "store/store.h"

struct sl_combined_options {
    struct sl_store *local;  /* the table behind quota leases... */
    struct sl_store *remote; /* ...and the remote store; both are taken:
                              * closed with this one */
    const struct sl_alloc *alloc;
    sl_ns deadline; /* of a take without one, over both stores */
    bool twice; /* quotas count in the remote store, too: other daemons there
                 * may have another usage database */
};

/* On failure (SLUICE_ENOMEM) the caller still owns both stores. */
SL_MUST_USE int
sl_combined_store_open(const struct sl_combined_options *options,
                       struct sl_store **ret);

/* Replaces the table and returns the old one; for tests. No take runs. */
struct sl_store *sl_combined_store_replace(struct sl_store *store,
                                           struct sl_store *local);

#endif
