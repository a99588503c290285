/* lease.h -- units of a quota that are promised to one of several nodes.
 *
 * A counter says how much was used by all, and how much is leased: promised to
 * nodes, and not used as far as the books know. Each node has a row for what it
 * was promised: how much of it was spent, and how much is still out. Together
 * they never pass the cap by a claim.
 *
 *     claimed    the counter's `leased` and the node's row grow by as much
 *     recorded   what the node has used moves from `leased` to `used`
 *     returned   what it does not need is free again
 *     released   by an operator, when the node will not come back
 *
 * Invariants. (test/unit/identity/registry/leases.c checks each by number.)
 *   (1) A counter's `leased` is the sum of the rows'.
 *   (2) A claim is granted only if used + leased stay within the cap.
 *   (3) base + spent + leased of a row is how far the node's cell may go.
 *   (4) A row without units is gone.
 *   (5) A name belongs to whoever has started with it last; who had it before
 *       finds that out when it says that it lives, or leases something new.
 */
#ifndef SL_USAGE_DB_LEASE_H
#define SL_USAGE_DB_LEASE_H

#include "registry/usage_db.h"

#define SL_NODE_NAME 64 /* bytes */

/* One wish of a node. Texts are borrowed. */
struct sl_usage_lease_claim {
    struct sl_str node, scope, id, limit; /* no scope: it lives, that is all */
    sl_ns start;
    sl_ns at;
    uint64_t cap;
    uint64_t want, least; /* 0: nothing, but to know how it stands */
    uint64_t need;        /* if there is as much; by all who wait there */
    uint64_t ceiling;     /* how far its cell may go, if there is no row */
    uint64_t give;        /* so many come back; then nothing is wanted */
    bool has;             /* it has units, it says: only if there is a row, */
                          /* more are granted */
    bool lives;           /* that is to be known, too */

    bool there;                     /* out: it has a row */
    uint64_t granted, used, leased; /* out: leased to all */
    uint64_t base, spent, own;      /* out: of its row; leased to it */
    bool lost; /* out: another has the name; nothing was granted */
};

SL_MUST_USE int sl_usage_db_claim(struct sl_database *db,
                                  struct sl_usage_lease_claim *claim);

struct sl_usage_lease_claim
sl_usage_lease_claim_of(const struct sl_usage_entry *usage);

/* What a node has used was recorded: `amount` of it, u->node. Inside
 * sl_usage_db_record(). */
SL_MUST_USE int sl_usage_db_spend(struct sl_database *db,
                                  const struct sl_usage_entry *u,
                                  uint64_t amount);

/* All rows, as items of a JSON array; *ret_cut: the first ones only, of which
 * there are `most`, or as many as there is room for. */
SL_MUST_USE int sl_usage_db_leases_json(struct sl_database *db,
                                        struct sl_str own, unsigned most,
                                        struct sl_buf *out, bool *ret_cut);

/* What was promised to a node is free again; *ret is how many rows that was.
 * *ret_alive: it was seen since, and nothing is done. */
SL_MUST_USE int sl_usage_db_release(struct sl_database *db, struct sl_str node,
                                    sl_ns since, bool *ret_alive, unsigned *ret,
                                    uint64_t *ret_units);

/* ---- a node that comes back: resume.c ---- */

/* One of its rows, the newest of each key first. */
struct sl_usage_lease_row {
    struct sl_str scope, id, limit;
    sl_ns start;
    uint64_t base, spent, leased;
    sl_ns seen; /* when the node was, before it came back; 0: nobody knows */
    bool older; /* there is a newer one of this key */
};

/* How much of row->leased was not taken, and may be given back; what was is put
 * down in the books at *at, unless `held` says that some of it may yet come
 * back. */
typedef uint64_t sl_lease_f(void *ctx, const struct sl_usage_lease_row *row,
                            bool *held, sl_ns *at);

SL_MUST_USE int sl_usage_db_resume(struct sl_database *db, struct sl_str node,
                                   sl_ns now, sl_lease_f *f, void *ctx,
                                   const struct sl_alloc *alloc);

#endif
