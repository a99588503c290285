/* quota_lease.h -- the table of this process, with quotas and levels whose
 * units are leased from a usage database that nodes share. A level is a quota
 * whose period does not end.
 *
 * It wraps the memory store. A take of a leased quota goes through to that
 * store, but the quota's count does not pass the leased amount. If that is not
 * enough, the usage database is asked for more, and the take is tried again; it
 * waits as for any remote store.
 *
 *     take --> enough leased? --yes--> the table --> done()
 *                  | no    ^
 *                  v       | granted, or refused: the quota is used up
 *              the lessor -+
 *                  | no answer in time
 *                  +--> done(), SLUICE_ESTORE
 *
 * Answers have the numbers of all nodes, as far as known here.
 *
 * Not leased: parts without a `view` (their usage is not recorded), shadows and
 * candidates, and limits to which usage is carried at sign-in ("Carrying" in
 * table/table.h). Charges and refunds go to the usage database.
 *
 * Any thread may take; each key has a lock while it is decided.
 */
#ifndef SL_STORE_QUOTA_LEASE_H
#define SL_STORE_QUOTA_LEASE_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/buf.h"
#include "store/store.h"

/* ---- the lease of one quota; pure.
 *
 * A counter of the usage database has the units used by all nodes, and the
 * units leased: promised to a node and not reported as used yet. No grant makes
 * both together exceed the limit.
 *
 *     the database |<------ used ------>|<- leased ->|<---- left ---->|
 *                  0                                                 cap
 *
 * Each node counts in its own table. A lease is how far that count may go:
 *
 *     the cell     |<- before ->|<- spent ->|<-- unspent -->|
 *                  0          base        count          ceiling
 *
 * Units are granted in chunks, so that most decisions are local. A chunk is a
 * part of what is left: the last units are granted one by one, exactly once.
 *
 * Invariants. (test/prop/leases.c checks each by number.)
 *   (1) used + leased never passes the cap by a grant.
 *   (2) What all nodes have taken is never more than used + leased.
 *   (3) If nodes go on asking for one unit, all of the cap is taken.
 *   (4) A node that comes back with its table has lost no unit, and takes none
 *       twice. One that does not: what it was promised is freed.
 *   (5) Another period begins with nothing leased.
 *   (6) Beyond what takes wait for, no grant makes all leases together more
 *       than 5 % of the cap or, near it, half of what is left or 1 % of the
 *       cap. What is leased and not recorded is what a node that is gone can
 *       have used without the others knowing it.
 */

#define SL_QUOTA_REPORTS 4

struct sl_quota_lease {
    sl_ns start, end; /* of the period */
    bool has_terms;   /* the usage database has answered... */
    bool no_row;      /* ...that it has no row of this node */
    uint64_t base;    /* count of the cell when the lease began */
    uint64_t ceiling; /* its maximum; >= base */
    uint64_t count;   /* its last known count */
    uint64_t known;   /* of it, the database has recorded this */
    int64_t others;   /* used by all, less what the database has of this node */

    sl_ns second;           /* that `taken` counts */
    uint64_t taken, before; /* in this second, and in the one before */

    /* The usage database could not grant `refused_least` units (0: all nodes
     * together have used too much). Monotonic; 0: no refusal. */
    sl_ns refused_until;
    uint64_t refused_least, refused_cap;

    /* The order of the last answer, and reports that may be newer, of which
     * `others` has the sum; oldest first. */
    uint64_t order;
    struct sl_quota_report {
        uint64_t order;
        int64_t amount;
    } reports[SL_QUOTA_REPORTS];
    unsigned report_count;
};

/* The answer of the usage database. */
struct sl_quota_lease_terms {
    uint64_t order; /* of answers and reports of this process; 0: unknown */
    bool found;     /* the node has a lease. If not, its units were used up, or
                     * freed */
    bool no_row;    /* nor were units freed that it may have used */
    uint64_t granted;
    uint64_t used;   /* by all, in this period */
    uint64_t base;   /* of this node's lease */
    uint64_t spent;  /* of it, as reported */
    uint64_t leased; /* to this node */
};

/* A period begins: nothing is leased, and the cell has `count`. */
void sl_quota_lease_begin(struct sl_quota_lease *lease, sl_ns start, sl_ns end,
                          uint64_t count);

/* How far the cell may go if all nodes together may use `cap`. */
uint64_t sl_quota_lease_room(const struct sl_quota_lease *lease, uint64_t cap);

/* Units known to be used, by all. */
uint64_t sl_quota_lease_used(const struct sl_quota_lease *lease);

/* Units that may still be taken. */
uint64_t sl_quota_lease_unspent(const struct sl_quota_lease *lease);

/* A take of `cost` at `now` has raised the cell to `count`. */
void sl_quota_lease_spent(struct sl_quota_lease *lease, uint64_t cost,
                          uint64_t count, sl_ns now);

/* Units to ask for, so that `cost` more can be taken: *ret_least at least. 0:
 * enough are leased. `cap`: SL_AMOUNT_MAX if there is none. */
uint64_t sl_quota_lease_shortfall(const struct sl_quota_lease *lease,
                                  uint64_t cost, uint64_t cap,
                                  uint64_t *ret_least);

/* Is more than 1 % of the cap used here and perhaps not recorded? */
bool sl_quota_lease_is_behind(const struct sl_quota_lease *lease, uint64_t cap);

/* Should more units be asked for now, before they are needed? */
bool sl_quota_lease_is_low(const struct sl_quota_lease *lease);

/* The question that was asked. */
struct sl_quota_lease_wish {
    uint64_t cost;  /* to be taken; 0: no take waits */
    uint64_t least; /* units missing for it, or soon; 0: none */
    uint64_t cap;
    bool has; /* the node believed to have a lease */
};

/* The usage database answered at the monotonic time `at`. No other question is
 * in flight; earlier answers may have been lost. */
void sl_quota_lease_granted(struct sl_quota_lease *lease,
                            const struct sl_quota_lease_terms *terms,
                            const struct sl_quota_lease_wish *wish, sl_ns at);

/* The usage database has recorded a report with this order: `amount` more is
 * used, or less. It may be in the last answer already. With order 0 it is not.
 */
void sl_quota_lease_report(struct sl_quota_lease *lease, int64_t amount,
                           uint64_t order);

/* `cost` does not fit. Was this refused recently, so that there is no need to
 * ask? */
bool sl_quota_lease_is_refused(const struct sl_quota_lease *lease,
                               uint64_t cost, uint64_t cap, sl_ns at);

/* Nothing counts as used any more; the cell has `count`. The lease stays. */
void sl_quota_lease_reset(struct sl_quota_lease *lease, uint64_t count);

/* Forgets a refusal: other nodes may have returned units. */
void sl_quota_lease_retry(struct sl_quota_lease *lease);

/* Takes out the units that are not needed soon, to return them; all if idle. */
uint64_t sl_quota_lease_surplus(struct sl_quota_lease *lease, bool idle);

/* They were not returned. */
void sl_quota_lease_keep(struct sl_quota_lease *lease, uint64_t units);

/* Does the usage database know of all that the cell has, so that it can count
 * from 0? */
bool sl_quota_lease_is_known(const struct sl_quota_lease *lease);

/* A node comes back: how many of `leased` units were not taken, if the cell has
 * `count`. */
uint64_t sl_quota_lease_left(uint64_t base, uint64_t spent, uint64_t leased,
                             uint64_t count);

/* ---- nodes that are gone; pure.
 *
 * Each heartbeat of a node changes a time in the usage database. Other nodes
 * read it. If it does not change for SL_QUOTA_LEASE_GONE, the node is gone, and
 * its units are freed. It stopped using them SL_QUOTA_LEASE_TRUST after its
 * last heartbeat. Only the monotonic clock of the reader counts, whatever the
 * clocks of the machines say.
 *
 * A reader that had no answer for SL_QUOTA_LEASE_GAP begins anew: perhaps the
 * other node did not reach the database either, and has usage to record.
 *
 * Invariants. (test/prop/leases.c checks each by number.)
 *   (7) A node is not gone before SL_QUOTA_LEASE_GONE after its last heartbeat,
 *       nor before the reader has had answers for that long.
 *   (8) If a node has no heartbeat, and the reader has answers, it is gone
 *       after SL_QUOTA_LEASE_GONE and two answers.
 */

#define SL_QUOTA_LEASE_GONE (30 * SL_S)
#define SL_QUOTA_LEASE_GAP  (10 * SL_S)
#define SL_QUOTA_NODES      64 /* watched at a time */
#define SL_QUOTA_NODE_NAME  64 /* bytes */

struct sl_quota_watched {
    char name[SL_QUOTA_NODE_NAME + 1];
    sl_ns seen;  /* the time in the database */
    sl_ns since; /* when the reader had it first; monotonic */
    bool listed; /* in the current answer */
};

struct sl_quota_watch {
    struct sl_quota_watched nodes[SL_QUOTA_NODES];
    unsigned count;
    sl_ns asked, answered; /* monotonic: of the current answer */
};

/* An answer begins. */
void sl_quota_watch_begin(struct sl_quota_watch *watch, sl_ns asked,
                          sl_ns answered);

/* The answer has a node with leases. Is it gone? */
bool sl_quota_watch_node(struct sl_quota_watch *watch, struct sl_str name,
                         sl_ns seen);

/* The answer ends: forgets nodes that are not in it. */
void sl_quota_watch_end(struct sl_quota_watch *watch);

/* ---- the store ---- */

#define SL_LEASES_MOST 65536 /* keys; takes of more keys fail */

/* One question to the usage database. */
struct sl_quota_ask {
    struct sl_str scope, id, limit; /* live until done() */
    sl_ns start;                    /* of the period */
    sl_ns now;
    uint64_t cap;
    uint64_t want, least; /* 0: only the terms are wanted */
    uint64_t need;        /* of all waiting takes; >= least */
    uint64_t ceiling;     /* of the lease, if the database has none */
    uint64_t give;        /* units that are returned */
    bool has;             /* the node believes to have a lease: if the database
                           * has none, nothing is granted before it knows */
    bool alive;           /* records that this node is alive */
    bool behind;          /* much of its usage is not recorded: that first */
    struct sl_loop *loop; /* where done() is called */
    void (*done)(struct sl_quota_ask *ask);

    int err;        /* out: 0 or SLUICE_ESTORE... */
    bool uncertain; /* ...and it may have been done */
    struct sl_quota_lease_terms terms;
};

/* The interface to the usage database. */
struct sl_quota_lessor {
    /* Never blocks; done() is called once, perhaps before it returns. */
    void (*ask)(struct sl_quota_lessor *lessor, struct sl_quota_ask *ask);
    /* The subject of a part: its scope is borrowed from the part, its id is
     * appended to `id`. Returns false if it has none. */
    bool (*name)(struct sl_quota_lessor *lessor, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id);
    /* The count of this node's cell. Returns false if there is none. May be
     * NULL. */
    bool (*count)(struct sl_quota_lessor *lessor,
                  const struct sl_quota_ask *who, uint64_t *ret);
    /* Empties the cell of a level. May be NULL. */
    void (*empty)(struct sl_quota_lessor *lessor,
                  const struct sl_quota_ask *who);
};

struct sl_quota_leases_options {
    struct sl_store *store; /* taken: closed with this one */
    struct sl_quota_lessor *lessor;
    const struct sl_alloc *alloc;
    sl_ns patience;           /* of a take without a deadline */
    sl_ns (*mono)(void *ctx); /* NULL: the system's clock */
    void *ctx;
};

/* On failure (SLUICE_ENOMEM) the caller still owns the store. */
SL_MUST_USE int
sl_quota_leases_open(const struct sl_quota_leases_options *options,
                     struct sl_store **ret);

/* Once a second, on a loop: returns units that are not needed. */
void sl_quota_leases_heartbeat(struct sl_store *store, struct sl_loop *loop,
                               sl_ns now);

/* The monotonic time, which does not stop while the machine sleeps. It is read
 * for every take, not once per turn of a loop: a process may be stopped between
 * two takes of one turn. */
sl_ns sl_quota_leases_mono(struct sl_store *store);

/* The usage database knows that this node was alive at the monotonic time `at`.
 * Its leases are not released by hand for SL_QUOTA_LEASE_ALIVE after that. So
 * it uses them for SL_QUOTA_LEASE_TRUST, and then asks first. */
#define SL_QUOTA_LEASE_ALIVE (10 * SL_S)
#define SL_QUOTA_LEASE_TRUST (5 * SL_S) /* clocks may differ by the rest */
void sl_quota_leases_seen(struct sl_store *store, sl_ns at);

/* Returns all units. There are no more takes. */
void sl_quota_leases_drain(struct sl_store *store, struct sl_loop *loop,
                           sl_ns now);

struct sl_quota_leases_counts {
    uint64_t asked;   /* questions */
    uint64_t waited;  /* takes that waited for an answer */
    uint64_t refused; /* answers without a grant */
    uint64_t failed;  /* takes without an answer */
    uint64_t keys;    /* with a lease */
    uint64_t unspent; /* units leased and not taken */
};
void sl_quota_leases_count(struct sl_store *store,
                           struct sl_quota_leases_counts *ret);

#endif
