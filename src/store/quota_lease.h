/* quota_lease.h -- the table of this process, with quotas whose units are
 * leased.
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
 * What is not leased: parts that belong to nobody (`view` is NULL), shadows
 * and candidates, and limits to which something is carried. A charge and a
 * giving back go to the books; here they only change what is known of others.
 *
 * Any thread may take; each key has a lock while it is decided.
 */
#ifndef SL_STORE_QUOTA_LEASE_H
#define SL_STORE_QUOTA_LEASE_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/buf.h"
#include "store/store.h"

/* ---- units of a quota that this node may use without asking anybody.
 *
 * Several daemons share the books of a quota. In the books a counter says how
 * much of it was used, by all of them, and how much is leased: promised to one
 * of them and not yet used, as far as the books know. Nobody is promised what
 * would make both together more than the limit.
 *
 *     the books    |<------ used ------>|<- leased ->|<---- left ---->|
 *                  0                                                 cap
 *
 * Each node counts in its own table, and only what it has taken itself. A lease
 * is how far that count may go:
 *
 *     the cell     |<- before ->|<-- own -->|<-- unspent -->|
 *                  0          base                       ceiling
 *
 * Giving out chunks keeps decisions away from the books; a chunk is a part of
 * what is left, so that the last units are given out one by one, exactly once.
 *
 * Pure: nothing is locked, sent or allocated here.
 *
 * Invariants. (test/prop/leases.c checks each by number.)
 *   (1) used + leased never passes the cap by a grant.
 *   (2) What all nodes have taken is never more than used + leased.
 *   (3) If nodes go on asking for one unit, all of the cap is taken.
 *   (4) A node that comes back with its table has lost no unit, and takes none
 *       twice. One that does not: what it was promised counts as used.
 *   (5) Another period begins with nothing leased.
 */

struct sl_quota_lease {
    sl_ns start, end; /* of the period */
    bool known;       /* the books have been asked */
    uint64_t base;    /* what the cell had when the lease began */
    uint64_t ceiling; /* how far it may go; >= base */
    uint64_t own;     /* what it had when it was last seen */
    int64_t others;   /* used by all, less what the books have of own */

    sl_ns second;           /* which one `taken` counts */
    uint64_t taken, before; /* in this second, and in the one before */

    /* The books could not grant so many more; steady, 0: they were not asked.
     * 0 more: all together have used too much already. */
    sl_ns refused_until;
    uint64_t refused_least, refused_cap;
};

/* What the books answer. */
struct sl_quota_lease_terms {
    bool there; /* something is leased to this node; else what it thought it
                 * had was used up, or released by an operator */
    uint64_t granted;
    uint64_t used;  /* by all, in this period */
    uint64_t base;  /* of this node's lease */
    uint64_t spent; /* of it, as far as the books know */
    uint64_t own;   /* leased to this node */
};

/* Another period, or the first: nothing is leased, and the cell has `own`. */
void sl_quota_lease_begin(struct sl_quota_lease *lease, sl_ns start, sl_ns end,
                          uint64_t own);

/* How far the cell may go, where all together may use `cap`. */
uint64_t sl_quota_lease_room(const struct sl_quota_lease *lease, uint64_t cap);

/* What is known to be used, by all. */
uint64_t sl_quota_lease_used(const struct sl_quota_lease *lease);

/* What may still be taken from it. */
uint64_t sl_quota_lease_unspent(const struct sl_quota_lease *lease);

/* The cell has come to `own` by a take of `cost` at `now`. */
void sl_quota_lease_spent(struct sl_quota_lease *lease, uint64_t cost,
                          uint64_t own, sl_ns now);

/* What to ask the books for, so that `cost` more can be taken: at least
 * *ret_least. 0: there is enough; whether all together may is another
 * question. */
uint64_t sl_quota_lease_shortfall(const struct sl_quota_lease *lease,
                                  uint64_t cost, uint64_t *ret_least);

/* Is so little left that more should be asked for now, before it is needed? */
bool sl_quota_lease_is_low(const struct sl_quota_lease *lease);

/* What the books were asked. */
struct sl_quota_lease_wish {
    uint64_t cost;  /* to be taken; 0: nobody waits for it */
    uint64_t least; /* of what is missing for it, or will be; 0: nothing */
    uint64_t cap;
    bool has; /* it thought that something was leased to it */
};

/* The books have answered, at the steady time `at`: they know how far the cell
 * may go, also if an earlier answer was lost. Nothing else is on its way. */
void sl_quota_lease_granted(struct sl_quota_lease *lease,
                            const struct sl_quota_lease_terms *terms,
                            const struct sl_quota_lease_wish *wish, sl_ns at);

/* `cost` does not fit. Need they not be asked for what is missing? */
bool sl_quota_lease_is_refused(const struct sl_quota_lease *lease,
                               uint64_t cost, uint64_t cap, sl_ns at);

/* All that was used, was not; the cell has `own`. What is leased stays. */
void sl_quota_lease_reset(struct sl_quota_lease *lease, uint64_t own);

/* Others may have given something back. */
void sl_quota_lease_retry(struct sl_quota_lease *lease);

/* Take out what is not needed soon, so that it can be given back: of an idle
 * one all of it. */
uint64_t sl_quota_lease_surplus(struct sl_quota_lease *lease, bool idle);

/* It is not given back. */
void sl_quota_lease_keep(struct sl_quota_lease *lease, uint64_t units);

/* ---- a node that comes back ---- */

/* Of `leased` units, how many were not taken, if the cell has `own`. */
uint64_t sl_quota_lease_left(uint64_t base, uint64_t spent, uint64_t leased,
                             uint64_t own);

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
    bool (*name)(struct sl_quota_lessor *lender, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id);
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
    sl_ns (*mono)(
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
