/* usage_db.h -- the books: how much was used, by whom, of what, and when.
 *
 * For each limit of each subject and each period there is one counter; beside
 * it, what was used by day and by month (UTC), which outlive the period. All of
 * it lies in the registry's file and is written by its thread, in the same
 * transactions: what was acknowledged is on the disk.
 *
 * A report with a key is recorded once, however often it comes; keys are
 * remembered for SL_KEY_LIFE. One with a name says how much of a thing there is
 * from now on (a link: 1; gone: 0), and is harmless to repeat.
 *
 * Overage is what was used beyond the limit and not paid for by credits.
 *
 * Invariants. (test/unit/identity/ledger checks each by number.)
 *   (1) used = the sum of all amounts that were recorded, never below 0.
 *   (2) A key is recorded once; with another amount it is refused.
 *   (3) Each mark is crossed once in a period, unless less is used again.
 *   (4) The reports of one job are recorded all or not at all.
 *   (5) Credits are used up in the order of their expiry, and never below 0.
 *   (6) What was held is recorded once, with what it came to.
 */
#ifndef SL_REGISTRY_USAGE_DB_H
#define SL_REGISTRY_USAGE_DB_H

#include "base/buf.h"
#include "base/diag.h"
#include "identity/identity.h"

#define SL_USAGE_ID   2560 /* bytes: values of a limit, joined */
#define SL_USAGE_KEY  256  /* bytes of a report's key, or a thing's name */
#define SL_USAGE_NAME 64   /* of a limit */
#define SL_KEY_LIFE   (7 * SL_DAY)

struct sl_database;

enum sl_usage_result {
    SL_USAGE_RECORDED,
    SL_USAGE_REPLAYED, /* its key is known, or nothing has changed */
    SL_USAGE_CONFLICT, /* its key was used for something else */
    SL_USAGE_FULL,     /* `enforce`, and it does not fit */
    SL_USAGE_LEASED,   /* `enforce`: it fits if nodes give something back */
};

#define SL_USAGE_MOST (INT64_C(1) << 53) /* of a counter, and of a sum */

/* One amount. Texts are borrowed. What is held is put down when it ends, and
 * until then it is known whose it is:
 *
 *     HOLD ---> a row of usage_holds ---> END: the row's owner has used that
 *
 * They come from different threads, and so perhaps in the other order: then the
 * END waits for its HOLD. */
struct sl_usage_entry {
    /* What a line that is added to needs lies together. */
    struct sl_hash128 print; /* of scope, id and limit; zeros: nobody made it */
    enum sl_usage_act act;
    bool reported;  /* what lies beyond the cap is found out here */
    bool level;     /* it has no period: days show how much there was */
    bool reset;     /* nothing was used */
    bool enforce;   /* only if it fits */
    sl_ns start;    /* of the period; 0: none */
    sl_ns at;       /* when */
    int64_t amount; /* with a name: how much of it there is now */
    uint64_t over;  /* decided: how much lies beyond the cap */
    uint64_t cap;   /* UINT64_MAX: none */
    struct sl_thresholds marks; /* percent of the cap that are told */

    uint64_t hold[2];          /* of all acts but SPEND */
    sl_ns until;               /* HOLD, EXTEND */
    struct sl_arena *names_in; /* END: where scope and id are copied */
    struct sl_str scope, id, limit;
    struct sl_str key;  /* "": none */
    struct sl_str name; /* "": none */
    bool owes;          /* what is given back is owed to the table */
    struct sl_str node; /* who had it leased; "": nobody */

    enum sl_usage_result result; /* out */
    int64_t moved;               /* out: by how much `used` has changed */
    uint64_t used, overage, credited;
    uint64_t owed;              /* out, of sl_usage_db_each() */
    uint64_t leased;            /* out, of LEASED: to all nodes */
    bool absorbed;              /* out: credits were used up */
    unsigned told_before, told; /* out: the highest mark, before and now */
};

/* Put down `count` amounts. SLUICE_ESTORE..., or 0: then look at the result of
 * the last one that was looked at, *ret_failed; those of CONFLICT and beyond
 * must be taken back with all others. */
SL_MUST_USE int sl_usage_db_record(struct sl_database *db,
                                   struct sl_usage_entry *list, unsigned count,
                                   unsigned *ret_failed);

/* Put down one amount, as sl_usage_db_record() does. */
SL_MUST_USE int sl_usage_db_put(struct sl_database *db,
                                struct sl_usage_entry *usage);

/* ---- what is held: held.c ---- */

#define SL_HOLD_KEPT SL_DAY /* after its expiry, for those who come late */

/* An amount of any act but SPEND. */
SL_MUST_USE int sl_usage_db_held(struct sl_database *db,
                                 struct sl_usage_entry *usage);

/* Whose is the hold of an END? Before it is put down: into its scope and id,
 * which are left empty if nobody knows yet. */
SL_MUST_USE int sl_usage_db_owner(struct sl_database *db,
                                  struct sl_usage_entry *usage);

/* What a report gave back is owed to the table until that has it, too: whoever
 * dies in between finds it again. */
SL_MUST_USE int sl_usage_db_pending_refund(struct sl_database *db,
                                           const struct sl_usage_entry *usage);

/* ---- credits: credit.c ---- */

struct sl_subject_draft;

struct sl_credit_grant {
    struct sl_str scope, id, limit;
    uint64_t amount;
    sl_ns expires; /* SL_NS_NONE: never */
    struct sl_str note, by;
    uint64_t number; /* out; of the one that is taken away */
};

SL_MUST_USE int sl_usage_db_grant(struct sl_database *db,
                                  struct sl_credit_grant *grant, sl_ns now);
SL_MUST_USE int sl_usage_db_revoke(struct sl_database *db,
                                   const struct sl_credit_grant *grant,
                                   bool *ret_found);

/* Use up credits for `over` units of `u`; *ret is how many there were. */
SL_MUST_USE int sl_usage_db_absorb(struct sl_database *db,
                                   const struct sl_usage_entry *u, int64_t over,
                                   int64_t *ret);

/* All of a subject's, as items of a JSON array. */
SL_MUST_USE int sl_usage_db_credits_json(struct sl_database *db,
                                         struct sl_str scope, struct sl_str id,
                                         sl_ns now, struct sl_buf *out);

/* What of them those must know who decide, at `now` or later:
 * draft->credits. */
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

/* Append all rows of a subject, as structs, by limit and time: days and months
 * since `since`, counters of periods that began since `started`. */
SL_MUST_USE int sl_usage_db_read(struct sl_database *db, struct sl_str scope,
                                 struct sl_str id, sl_ns since, sl_ns started,
                                 sl_ns now, struct sl_buf *out);

/* Every counter that has been written since `since`, with what is owed to this
 * node's table; afterwards nothing is. The texts live until f() returns. */
typedef void sl_usage_db_f(void *ctx, const struct sl_usage_entry *usage);
SL_MUST_USE int sl_usage_db_each(struct sl_database *db, sl_ns since,
                                 sl_usage_db_f *f, void *ctx);

/* Forget everything; for tests that begin anew. SQL. */
extern const char sl_usage_db_forget[];

/* ---- names ---- */

/* The values of a limit as one text: alone as it is, several joined by ':' with
 * ':' and '%' escaped. Longer than SL_USAGE_ID: false. */
SL_MUST_USE bool sl_usage_join(const struct sl_str *values, unsigned count,
                               struct sl_buf *out);

/* And back, in place, into `count` values. False if it has another number. */
SL_MUST_USE bool sl_usage_split(char *text, size_t len, unsigned count,
                                struct sl_str *ret);

/* 202611 */
int64_t sl_month_of(sl_ns at);

/* ---- units of a quota that are promised to one of several nodes.
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
