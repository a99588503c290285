/* usage_db.h -- the usage database: amounts by limit, subject and period.
 *
 * Each limit of a subject has one counter per period, and sums by day and month
 * (UTC), which outlive the period. The registry's thread writes them to its
 * database in the same transactions: an acknowledged amount is on disk.
 *
 * A report with a key is recorded once, however often it is sent; keys are kept
 * for SL_KEY_LIFE. A report with a name sets the amount of one thing and does
 * not add: 1 when a link is created, 0 when it is deleted. It may be repeated.
 *
 * Overage is usage beyond the limit that no credit paid for. It follows from
 * the counter, not from the order of the amounts: the usage of a decision may
 * be recorded after a report that came later.
 *
 * Invariants. (test/unit/registry checks each by number.)
 *   (1) used = the sum of all recorded amounts, never below 0.
 *   (2) A key is recorded once; with another amount it is refused.
 *   (3) Each threshold is crossed once in a period, unless usage falls again.
 *   (4) The reports of one job are recorded all or not at all.
 *   (5) Credits are used in the order of their expiry, and never below 0.
 *   (6) The usage of a hold is recorded once, with its final amount.
 *   (7) overage + credited is what is used beyond the cap, and overage is 0
 *       while a credit is left. The overage of the days adds up to it. So
 *       amounts have the same sums in any order in which used stays above 0.
 *   (8) Each unit is judged by the cap of its own record: a change of the plan
 *       makes no earlier unit overage, and no earlier overage included. If
 *       refunds bring the usage below that at the change, the overage from
 *       before the change falls. Without a known cap it is that of the
 *       records before it in the period, or else of the next one.
 *   (9) A hold is spent from the lease of the node that took it, wherever it
 *       ends; if that is another daemon, the node is told.
 */
#ifndef SL_REGISTRY_USAGE_DB_H
#define SL_REGISTRY_USAGE_DB_H

#include "base/buf.h"
#include "base/diag.h"
#include "identity/identity.h"

#define SL_USAGE_ID   2560 /* bytes: the values of a limit, joined */
#define SL_USAGE_KEY  256  /* bytes of the key of a report, or of a name */
#define SL_USAGE_NAME 64   /* of a limit */
#define SL_KEY_LIFE   (7 * SL_DAY)

struct sl_database;

enum sl_usage_result {
    SL_USAGE_RECORDED,
    SL_USAGE_REPLAYED, /* the key is known, or nothing changed */
    SL_USAGE_CONFLICT, /* the key was used for another report */
    SL_USAGE_FULL,     /* `enforce`, and it does not fit */
    SL_USAGE_LEASED,   /* `enforce`: it fits if nodes return units */
};

#define SL_USAGE_MOST (INT64_C(1) << 53) /* largest counter and sum */

/* One amount. Texts are borrowed. The usage of a hold is recorded when it ends.
 * Until then a row keeps its owner:
 *
 *     HOLD ---> a row of usage_holds ---> HOLD_END: its owner has used this
 *
 * The two may come from different threads in the other order: then the HOLD_END
 * waits for its HOLD. So does a HOLD_EXTEND.
 */
struct sl_usage_entry {
    /* Fields that adding needs are together. */
    struct sl_hash128
        fingerprint; /* of scope, id and limit; zeros: not computed */
    enum sl_usage_act act;
    bool level;     /* has no period: days show the level */
    bool reset;     /* set the counter to 0 */
    bool total;     /* `amount` is the new value of the counter */
    bool enforce;   /* refuse it if it does not fit */
    sl_ns start;    /* of the period; 0: none */
    sl_ns at;       /* when */
    int64_t amount; /* with a name: the new total of the name */
    uint64_t cap;   /* UINT64_MAX: none; or SL_USAGE_CAP_KEPT */
    struct sl_thresholds thresholds; /* percent of the cap that fire events */

    /* For bills. */
    struct sl_str plan, zone; /* "": not known */
    sl_ns end;                /* of the period; 0: none, or not known */
    int64_t last_day;         /* of the period, in its zone; 0: not known */

    uint64_t hold[2];          /* id, for all kinds but TAKE */
    sl_ns until;               /* HOLD, HOLD_EXTEND */
    struct sl_arena *names_in; /* HOLD_END: copies scope and id here */
    struct sl_str scope, id, limit;
    struct sl_str key;  /* "": none */
    struct sl_str name; /* "": none */
    bool needs_refund;  /* a refund that the table must apply */
    struct sl_str node; /* node that had leased the units; "": none */

    uint64_t order;              /* out: of the job that recorded it */
    enum sl_usage_result result; /* out */
    int64_t change;              /* out: change of `used` */
    uint64_t used, overage, credited;
    uint64_t owed;   /* out of sl_usage_db_each() */
    uint64_t erased; /* the same: what the table has beside it */
    bool later;      /* the same: there is usage of a later period */
    bool exact;      /* out of sl_usage_db_leave() */
    uint64_t leased; /* out with LEASED: units leased to all nodes */
    bool absorbed;   /* out: credits were used or returned, or units beyond
                      * the quota were refunded */
    bool is_short;   /* out: less was used than it refunds */
    unsigned threshold_before,
        threshold; /* out: highest threshold, before and now */
    uint64_t of;   /* out: the cap that thresholds are percents of */
};

/* Sets `end` and `last_day` of an entry from its `start`. */
void sl_usage_entry_period(struct sl_usage_entry *u,
                           const struct sl_limit *numbers);

/* Was the subject of the amount unknown? Then its period is a guess too, and
 * sl_usage_find_period() corrects it, if the subject has used the limit. */
bool sl_usage_is_guess(const struct sl_usage_entry *u);
SL_MUST_USE int sl_usage_find_period(struct sl_database *db,
                                     struct sl_usage_entry *u);

/* Rows that recording needs are read together for so many entries. */
#define SL_USAGE_AHEAD 80

/* Asks for the rows that an entry needs, ahead of its record. Returns 1, 0
 * (this entry and later ones are not read ahead), or an error. Then
 * sl_query_fetch() waits for all of them, and the entries are recorded in
 * this order, without other writes. Afterwards it is called once more, to
 * forget what is left. */
SL_MUST_USE int sl_usage_db_ahead(struct sl_database *db,
                                  const struct sl_usage_entry *u);

/* Both of them, for the first of these entries. */
SL_MUST_USE int sl_usage_db_prefetch(struct sl_database *db,
                                     const struct sl_usage_entry *list,
                                     unsigned count);

/* Records `count` amounts. Returns 0 or SLUICE_ESTORE... With 0, check the
 * result of entry *ret_failed, the last one processed: from CONFLICT on, the
 * caller must undo all amounts. */
SL_MUST_USE int sl_usage_db_record(struct sl_database *db,
                                   struct sl_usage_entry *list, unsigned count,
                                   unsigned *ret_failed);

/* The row of a hold is kept for so long after its expiry, for late ends. The
 * clocks of daemons must differ by less. */
#define SL_HOLD_KEPT SL_DAY

/* Finds the owner of the hold of a HOLD_END: sets its scope and id, or leaves
 * them empty if the hold is not known yet. */
SL_MUST_USE int sl_usage_db_owner(struct sl_database *db,
                                  struct sl_usage_entry *usage);

/* ---- credits ---- */

struct sl_subject_draft;

struct sl_credit_grant {
    struct sl_str scope, id, limit;
    uint64_t amount;
    sl_ns expires; /* SL_NS_NONE: never */
    struct sl_str note, by;
    uint64_t number; /* out; or of the credit to remove */
};

SL_MUST_USE int sl_usage_db_grant(struct sl_database *db,
                                  struct sl_credit_grant *grant, sl_ns now);
SL_MUST_USE int sl_usage_db_revoke(struct sl_database *db,
                                   const struct sl_credit_grant *grant,
                                   bool *ret_found);

/* Appends all credits of the subject of a job as items of a JSON array, in
 * units of job->scale_of(). */
struct sl_job;
SL_MUST_USE int sl_usage_db_credits_json(struct sl_database *db,
                                         const struct sl_job *job,
                                         struct sl_buf *out);

/* Fills draft->credits with the credits valid at `now` or later. */
SL_MUST_USE int sl_usage_db_credits(struct sl_database *db, struct sl_str scope,
                                    struct sl_str id, sl_ns now,
                                    struct sl_subject_draft *draft);

/* ---- reading ---- */

enum sl_usage_row_kind {
    SL_ROW_COUNTER,
    SL_ROW_DAY,
    SL_ROW_MONTH,
    SL_ROW_CREDIT, /* unused units; `when` is their expiry, or -1 */
};

struct sl_usage_row {
    enum sl_usage_row_kind kind;
    char limit[SL_USAGE_NAME + 1];
    int64_t when; /* COUNTER: ns; DAY: days since 1970; MONTH: 202611 */
    uint64_t used, overage, credited;
};

/* Appends all rows of a subject as structs, by limit and time: days and months
 * since `since`, counters of periods that began since `started`. */
SL_MUST_USE int sl_usage_db_read(struct sl_database *db, struct sl_str scope,
                                 struct sl_str id, sl_ns since, sl_ns started,
                                 sl_ns now, struct sl_buf *out);

/* An amount that was recorded. */
typedef void sl_usage_seen_f(void *ctx, const struct sl_usage_entry *usage);

/* Calls f() for every counter written since `since`, with the refunds that this
 * node's table has not applied; clears these. Texts live until f() returns. f()
 * returns how many units the table has used that the counter has not, and that
 * must be recorded: those beyond the units held. They were used when the
 * counter was last written. */
typedef uint64_t sl_usage_db_f(void *ctx, const struct sl_usage_entry *usage);

/* Usage that is in a journal and not in the database yet. */
struct sl_usage_pending {
    /* Adds it to u->used of a counter. */
    void (*add)(void *ctx, struct sl_usage_entry *u);
    /* Fills the next counter of which the database has nothing; *at is 0 at
     * first. Returns false at the end. */
    bool (*next)(void *ctx, uint32_t *at, struct sl_usage_entry *ret);
    void *ctx;
};

/* `pending` is included; NULL: there is none. */
SL_MUST_USE int sl_usage_db_each(struct sl_database *db, sl_ns since,
                                 const struct sl_usage_pending *pending,
                                 sl_usage_db_f *f, void *ctx);

/* SQL that deletes everything; for tests. */
extern const char sl_usage_db_forget[];

/* ---- names ---- */

/* Joins the values of a limit: one as it is, several with ':' between them and
 * ':' and '%' escaped. Returns false if longer than SL_USAGE_ID. */
SL_MUST_USE bool sl_usage_join(const struct sl_str *values, unsigned count,
                               struct sl_buf *out);

/* Splits a joined text in place into `count` values. Returns false if it has
 * another number. */
SL_MUST_USE bool sl_usage_split(char *text, size_t len, unsigned count,
                                struct sl_str *ret);

/* 202611 */
int64_t sl_month_of(sl_ns at);

/* ---- quota leases: units granted to one of several nodes.
 *
 * A counter has the units used by all, and the units leased: granted to nodes
 * and not recorded as used. Each node has a row for its grant: the units spent,
 * and the units still leased. Claims never exceed the cap.
 *
 *     claimed    `leased` of the counter and of the node's row grow
 *     recorded   usage of the node moves from `leased` to `used`
 *     returned   units that the node does not need are free again
 *     freed      the node was not seen for a while: its units are free again.
 *                The row keeps their number. If the node had used some of them,
 *                they are recorded when it is back, and are overshoot.
 *
 * Invariants. (test/unit/registry/leases.c checks each by number.)
 *   (1) `leased` of a counter is the sum of its rows'.
 *   (2) A claim is granted only if used + leased stay within the cap.
 *   (3) base + spent + freed + leased of a row is the highest count of the
 *       node's cell.
 *   (4) A row without units is deleted.
 *   (5) A name belongs to the node that started with it last. The node that had
 *       it before finds out at its next heartbeat or claim.
 *   (6) A node whose units were freed is granted no more before it knows. Units
 *       that it had used are recorded once, and counted as overshoot.
 */

#define SL_NODE_NAME 64 /* bytes */

/* A claim of a node. Texts are borrowed. */
struct sl_usage_lease_claim {
    struct sl_str node, scope, id, limit; /* no scope: heartbeat only */
    sl_ns start;
    sl_ns at;
    uint64_t cap;
    uint64_t want, least; /* 0: read the state only */
    uint64_t need;        /* of all takes that wait for it */
    uint64_t ceiling;     /* highest count of its cell, if there is no row */
    uint64_t give_back;   /* units to return; then nothing is claimed */
    bool has_units;       /* the node has units of this key: grant more only */
                          /* if there is a row */
    bool heartbeat;       /* also a heartbeat */

    bool found;                     /* out: there is a row with units */
    bool no_row;                    /* out: nor one with freed units */
    uint64_t granted, used, leased; /* out: leased to all */
    uint64_t base, spent,
        leased_here; /* out: of its row; leased to this node */
    bool lost;       /* out: another node has the name; nothing was granted */
};

SL_MUST_USE int sl_usage_db_claim(struct sl_database *db,
                                  struct sl_usage_lease_claim *claim);

/* Records that node u->node spent `amount`. Called by sl_usage_db_record(). */
SL_MUST_USE int sl_usage_db_spend(struct sl_database *db,
                                  const struct sl_usage_entry *u,
                                  uint64_t amount);

/* Appends all rows as items of a JSON array, at most `most`, and as many as
 * there is room for. *ret_cut: there are more. */
SL_MUST_USE int sl_usage_db_leases_json(struct sl_database *db,
                                        struct sl_str own, unsigned most,
                                        struct sl_buf *out, bool *ret_cut);

/* Frees the units of a node; *ret is the number of leases. *ret_alive: it was
 * seen after `since`, and nothing is done. */
SL_MUST_USE int sl_usage_db_release(struct sl_database *db, struct sl_str node,
                                    sl_ns since, bool *ret_alive, unsigned *ret,
                                    uint64_t *ret_units);

/* Appends the nodes with leases other than `own` as structs, at most `most`,
 * those that were not seen for the longest time first. */
struct sl_usage_node {
    char name[SL_NODE_NAME + 1];
    sl_ns seen;
};
SL_MUST_USE int sl_usage_db_nodes(struct sl_database *db, struct sl_str own,
                                  unsigned most, struct sl_buf *out);

/* ---- holds of a node that ended at another daemon, or were extended there.
 *
 * Their actual amounts are recorded, and taken from the lease of the node that
 * has the hold in its table. It reads them, ends the hold there, and reports
 * the end itself, which removes the row. (9) Extensions go the same way. They
 * have a duration, because the clocks of the two may differ. (10) */

struct sl_usage_end {
    uint64_t hold[2];
    sl_ns start, end; /* of the period; end 0: not known */
    uint64_t amount;
    sl_ns until;      /* > 0: it was extended, by `amount` ns from then on */
    uint32_t lens[3]; /* of the texts behind it: scope, id, limit */
};

/* Adds up to `most` of them to `out`, in the order of the holds. */
SL_MUST_USE int sl_usage_db_ends(struct sl_database *db, struct sl_str node,
                                 unsigned most, struct sl_buf *out);

/* Takes the next one off the front. Returns false at the end. */
bool sl_usage_ends_next(struct sl_str *ends, struct sl_usage_end *ret,
                        struct sl_str texts[3]);

/* Reads the id of a hold in "ID:LIMIT". Returns false if it is none. */
bool sl_usage_hold_read(struct sl_str name, uint64_t ret[2]);

/* ---- a node that restarts ---- */

/* A row of the node, newest of each key first. */
struct sl_usage_lease_row {
    struct sl_str scope, id, limit;
    sl_ns start;
    uint64_t base, spent;
    uint64_t leased; /* or freed */
    sl_ns seen;      /* when the node was last seen; 0: unknown */
    bool older;      /* there is a newer row of this key */
    bool held;       /* its units were held while they were not leased */
};

/* Returns how much of row->leased was not taken and can be returned. Of the
 * taken part *held units are in holds and stay leased: they may yet be
 * refunded. The others are recorded at *at. */
typedef uint64_t sl_lease_f(void *ctx, const struct sl_usage_lease_row *row,
                            uint64_t *held, sl_ns *at);

SL_MUST_USE int sl_usage_db_resume(struct sl_database *db, struct sl_str node,
                                   sl_ns now, sl_lease_f *f, void *ctx,
                                   const struct sl_alloc *alloc);

/* ---- a database that is not shared any more.
 *
 * While it was shared, a cell counted what its node had taken, and that only
 * since its last lease began. Now it is the usage itself. If the database has
 * the node `node`, what it had taken is recorded, its leases end, and
 * on_usage() gets each counter with `exact`: the cell must have `used`, which
 * includes held units. A second call finds that this is done. Leases of other
 * nodes are freed: no other daemon has the database.
 */
SL_MUST_USE int sl_usage_db_leave(struct sl_database *db, struct sl_str node,
                                  sl_ns now, sl_ns since, sl_lease_f *on_lease,
                                  sl_usage_db_f *on_usage, void *ctx,
                                  const struct sl_alloc *alloc);

#endif
