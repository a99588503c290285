/* leased.h -- the table of this process, with quotas whose units are leased.
 *
 * It stands before another store that answers at once. A take that asks for
 * units of a quota takes them there as before, together with all its other
 * limits or not at all, but the quota's count goes no further than the lease
 * says. When that is not far enough, the books are asked for more, and the take
 * is tried again; its asker waits as he would for any store that is elsewhere.
 *
 *     take --> enough leased? --yes--> the table --> done()
 *                  | no    ^
 *                  v       | granted, or refused: then the quota is used up
 *              the lender -+
 *                  | no answer in time
 *                  +--> done(), SLUICE_ESTORE
 *
 * Numbers that are shown are those of all nodes, as far as this one knows:
 * `remaining` is what is left of the limit and known not to be used.
 *
 * What is not leased: parts that belong to nobody (`whose` is NULL), shadows
 * and candidates, and limits to which something is carried. A charge and a
 * giving back go to the books; here they only change what is known of others.
 *
 * Any thread may take; each key has a lock while it is decided.
 */
#ifndef SL_QUOTA_LEASES_H
#define SL_QUOTA_LEASES_H

#include <stdatomic.h>

#include "base/buf.h"
#include "store/lease/lease.h"
#include "store/store.h"

#define SL_LEASES_MOST 65536 /* keys at a time; a take of another one fails */

/* One question to the books. */
struct sl_quota_ask {
    /* Texts live until done(). */
    struct sl_str scope, id, limit;
    sl_ns start;          /* of the period */
    sl_ns now;            /* when */
    uint64_t cap;         /* of all together */
    uint64_t want, least; /* 0: nothing is wanted, but to know */
    uint64_t need;        /* by all who wait, if there is as much; >= least */
    uint64_t ceiling;     /* of the lease, if the books know of none */
    uint64_t give;        /* so many units come back */
    bool has;             /* it has units: if the books know of no lease, there
                           * is no new one before this has been told */
    bool lives;           /* the books are to know that this node lives */
    struct sl_loop *loop; /* where done() is called */
    void (*done)(struct sl_quota_ask *ask);

    int err;     /* out: 0 or SLUICE_ESTORE... */
    bool unsure; /* ...and nobody knows whether it was done */
    struct sl_quota_lease_terms terms;
};

/* Who keeps the books. */
struct sl_quota_lessor {
    /* Never waits; done() is called once, perhaps before it returns. */
    void (*ask)(struct sl_quota_lessor *lender, struct sl_quota_ask *ask);
    /* What the books call whoever the part belongs to: its scope is borrowed
     * from the part, its id is appended to `id`. False: it has no name. */
    bool (*name)(struct sl_quota_lessor *lender,
                 const struct sl_store_part *part, struct sl_str *scope,
                 struct sl_buf *id);
    /* What the cell of this node has; or NULL: nobody knows. False: there is
     * none. */
    bool (*own)(struct sl_quota_lessor *lender, const struct sl_quota_ask *who,
                uint64_t *ret);
};

struct sl_quota_leases_options {
    struct sl_store *store; /* taken over: closed with this one */
    struct sl_quota_lessor *lender;
    const struct sl_alloc *alloc;
    sl_ns patience; /* how long a take waits that says nothing itself */
    sl_ns (*steady)(
        void *ctx); /* sl_quota_leases_steady(); NULL: the machine says */
    void *ctx;
};

/* On failure (SLUICE_ENOMEM) the store is still the caller's. */
SL_MUST_USE int
sl_quota_leases_open(const struct sl_quota_leases_options *options,
                     struct sl_store **ret);

/* Once a second, on a loop: what is not needed goes back. */
void sl_quota_leases_heartbeat(struct sl_store *store, struct sl_loop *loop,
                               sl_ns now);

/* Now, on a clock that is never set and does not stand still while the machine
 * sleeps. It is read anew for every take, not once per turn of a loop: between
 * two takes of one turn a process may be stopped for any time. */
sl_ns sl_quota_leases_steady(struct sl_store *store);

/* The books know that this node lived at the steady time `at`. Nobody releases
 * what it has for SL_QUOTA_LEASE_ALIVE after that; so it goes on using what it
 * has for SL_QUOTA_LEASE_TRUST, and then asks first. */
#define SL_QUOTA_LEASE_ALIVE (10 * SL_S)
#define SL_QUOTA_LEASE_TRUST (5 * SL_S) /* clocks may differ by the rest */
void sl_quota_leases_seen(struct sl_store *store, sl_ns at);

/* It ends: everything goes back. Nobody takes any more. */
void sl_quota_leases_drain(struct sl_store *store, struct sl_loop *loop,
                           sl_ns now);

struct sl_quota_leases_counts {
    uint64_t asked;   /* questions to the books */
    uint64_t waited;  /* takes that waited for an answer */
    uint64_t refused; /* answers that there is nothing left */
    uint64_t failed;  /* takes that got no answer */
    uint64_t keys;    /* that have a lease now */
    uint64_t unspent; /* units that are leased now, and not taken */
};
void sl_quota_leases_count(struct sl_store *store,
                           struct sl_quota_leases_counts *ret);

#endif
