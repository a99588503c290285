/* registry.h -- subjects: their plans, roles and overrides.
 *
 * The registry is a database that one thread reads and writes. Other threads
 * queue jobs and are called back on their own loops:
 *
 *     calling thread                         the registry's thread
 *     sl_registry_ask(job) ---- queue ---->  runs reads one by one, then claims
 *                                            of units, then all waiting writes
 *     job->done(job)  <---- its loop ------  as one transaction with one fsync
 *
 * A write whose subject another session has locked waits apart from the others:
 * they are not delayed. After two seconds it fails.
 *
 * An acknowledged write is on disk. A job of several changes is applied as a
 * whole or not at all.
 *
 * Versions. A cached record (subject_cache.h) is validated without a lock.
 * There are SL_REGISTRY_VERSIONS counters; the hash of a name selects one.
 * After a write is on disk and before it is acknowledged, the counters of all
 * its names and aliases are incremented. The counter is noted before a record
 * is read. While it has not changed, no write to the name has been acknowledged
 * since, and the cached record is current.
 *
 * When the database cannot be read or written, jobs fail with SLUICE_ESTORE and
 * a sentence. The next job tries again.
 */
#ifndef SL_REGISTRY_REGISTRY_H
#define SL_REGISTRY_REGISTRY_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/hash.h"
#include "identity/identity.h"
#include "registry/denials.h"
#include "registry/usage_db.h"
#include "registry/usage_export.h"
#include "registry/webhook_db.h"

/* ---- subject records.
 *
 * A record is one piece of memory: a struct sl_subject (identity/identity.h)
 * first, the texts last. It never changes; a write makes a new one. It belongs
 * to one thread at a time: the registry's thread hands it to the caller.
 *
 * A draft holds the same fields in arrays of fixed size. Its texts are
 * borrowed.
 */

/* Limits of texts in bytes, and of lists per subject. */
#define SL_SUBJECT_RECORD_ID      256
#define SL_SUBJECT_RECORD_NAME    64 /* a plan, a role, a limit */
#define SL_SUBJECT_RECORD_RATE    64
#define SL_SUBJECT_RECORD_BY      128
#define SL_SUBJECT_RECORD_NOTE    512
#define SL_SUBJECT_RECORD_ZONE    64
#define SL_SUBJECT_RECORD_ROLES   32
#define SL_SUBJECT_RECORD_ALIASES 32
#define SL_SUBJECT_RECORD_RATES   64
#define SL_SUBJECT_RECORD_CREDITS 64 /* those that decisions see */

/* Anchor and zone of a subject, which apply from `since` on (core/anchor.h).
 */
struct sl_subject_calendar {
    struct sl_str anchor; /* as sl_anchor_print() writes it; "": none */
    struct sl_str zone;   /* "": none */
    sl_ns since;
};

struct sl_subject_record {
    struct sl_subject subject; /* first; freed by sl_subject_unref() */
    struct sl_str scope;
    const struct sl_str *aliases;
    unsigned alias_count;
    struct sl_str by, note; /* of the last write, and of the subject */
    struct sl_subject_calendar calendar, calendar_before;
    sl_ns updated;
    uint64_t revision; /* grows with every write of any process */
    struct sl_subject_record *next;
    const struct sl_alloc *alloc;
    size_t size;
};

struct sl_subject_draft {
    struct sl_str scope, id;
    struct sl_str plan;
    sl_ns expires; /* SL_NS_NONE: never */
    struct sl_str by, note;
    struct sl_subject_calendar calendar, calendar_before;
    sl_ns updated;
    uint64_t revision;
    struct sl_str roles[SL_SUBJECT_RECORD_ROLES];
    unsigned role_count;
    struct sl_str aliases[SL_SUBJECT_RECORD_ALIASES];
    unsigned alias_count;
    struct sl_subject_override rates[SL_SUBJECT_RECORD_RATES];
    unsigned rate_count;
    struct sl_credit
        credits[SL_SUBJECT_RECORD_CREDITS]; /* filled for records only */
    unsigned credit_count;
    struct sl_block block; /* likewise */
};

/* A write. Fields whose bit is not in `has` keep their value. A PUT begins with
 * an empty subject, a PATCH with the stored one. */
enum sl_subject_change_kind {
    SL_CHANGE_PUT,
    SL_CHANGE_PATCH,
    SL_CHANGE_REMOVE
};

enum sl_subject_change_has {
    SL_HAS_PLAN = 1 << 0,
    SL_HAS_EXPIRES = 1 << 1,
    SL_HAS_ROLES = 1 << 2,
    SL_HAS_ALIASES = 1 << 3,
    SL_HAS_NOTE = 1 << 4,
    SL_HAS_RATES = 1 << 5,
    SL_HAS_ANCHOR = 1 << 6,
    SL_HAS_ZONE = 1 << 7,
};

struct sl_subject_change {
    enum sl_subject_change_kind kind;
    struct sl_str scope, id;
    struct sl_str by;
    unsigned has;
    struct sl_str plan; /* "": none */
    sl_ns expires;
    struct sl_str note;
    struct sl_str anchor, zone; /* "": none */
    const struct sl_str *roles;
    unsigned role_count;
    const struct sl_str *aliases; /* in lower case */
    unsigned alias_count;
    const struct sl_subject_override *rates; /* an empty rate removes the
                                              * override */
    unsigned rate_count;
    bool no_rates;   /* PATCH: remove the stored overrides first */
    bool must_match; /* refuse unless the stored revision is `match` */
    uint64_t match;  /* 0: the subject must not exist */
    unsigned line;   /* of an import; 0: none */
};

/* Returns a record of a draft, or NULL without memory. The record of an unknown
 * subject has an id and nothing else. */
SL_MUST_USE struct sl_subject_record *
sl_subject_record_new(const struct sl_subject_draft *draft, bool known,
                      const struct sl_alloc *alloc);

/* The blocked addresses and networks are one record, which SL_JOB_FIND returns
 * for this scope and id. */
#define SL_IP_SCOPE SL_STR("ip")
#define SL_IP_ALL   SL_STR("*")

/* Returns a reference to the blocked address or network of this record that has
 * `ip`, or NULL. Of several the one whose block ends last. */
struct sl_subject *sl_blocked_ip_find(struct sl_subject_record *record,
                                      const struct sl_ip *ip, sl_ns now);

/* Frees a list of records linked by `next`. NULL is allowed. */
void sl_subject_records_free(struct sl_subject_record *first);

/* Applies `change` to `draft`, which holds the stored subject or is empty.
 * Returns false with a sentence in `diag` if a limit above would be exceeded.
 */
SL_MUST_USE bool sl_subject_draft_change(struct sl_subject_draft *draft,
                                         const struct sl_subject_change *change,
                                         sl_ns now, struct sl_diag *diag);

/* Sets from when on the calendar of `new` applies, if it is another than that
 * of `old`. If the subject has `used` a quota, new periods begin one to two
 * seconds after `now`: by then every thread has the change. Otherwise it
 * applies at once. */
void sl_subject_draft_turn(const struct sl_subject_draft *old,
                           struct sl_subject_draft *new, bool used, sl_ns now);

/* Returns whether anchor and zone are equal. */
bool sl_subject_calendar_same(const struct sl_subject_calendar *a,
                              const struct sl_subject_calendar *b);

/* Returns whether all fields that a write can set are equal. */
bool sl_subject_draft_same(const struct sl_subject_draft *a,
                           const struct sl_subject_draft *b);

/* Appends the members of a JSON object without brackets:
 * "scope":"user","id":"ann",... If `brief`, omits empty members, `by` and
 * `updated`. */
void sl_subject_draft_json(const struct sl_subject_draft *d, sl_ns now,
                           bool brief, struct sl_writer *w);

/* Fills a draft from a record. The texts are borrowed from the record. */
void sl_subject_draft_of(const struct sl_subject_record *entry,
                         struct sl_subject_draft *ret);

/* Copies `text` in lower case (ASCII) to `out`, which has text.len bytes.
 * Aliases and the names of versions are compared in lower case. */
struct sl_str sl_str_lower(struct sl_str text, char *out);

/* Many counters (2 MiB), so that an import of a million subjects invalidates
 * few cached records per second. */
#define SL_REGISTRY_VERSIONS (1 << 18)
#define SL_LIST_MOST         1000 /* subjects in one page */
#define SL_SWITCHES          256  /* features switched by hand */
#define SL_CHANGES_MOST      500  /* of one job */

struct sl_loop;
struct sl_registry;

/* A change that is recorded in the table `audit`. Texts are borrowed. */
struct sl_audit_note {
    struct sl_str what;          /* "feature", "credit", "reset"... */
    struct sl_str scope, id;     /* of the subject or the thing; or "" */
    struct sl_str by;            /* who */
    struct sl_str origin;        /* from where: "admin 127.0.0.1", "file" */
    struct sl_str note;          /* why; "": not said */
    struct sl_str before, after; /* JSON; "": nothing */
};

enum sl_job_kind {
    SL_JOB_FIND,  /* by id or alias */
    SL_JOB_LIST,  /* in the order of scope and id */
    SL_JOB_AUDIT, /* the history of one subject; no scope: all changes since
                   * `since` */
    SL_JOB_NODES, /* nodes with leases, other than `name` */
    SL_JOB_ENDS,  /* holds of the node `name` that ended at other daemons */
    SL_JOB_PING,  /* does the database answer? */
    SL_JOB_UNITS, /* of a new policy; see sl_registry_use_units() */
    SL_JOB_WRITE,
    SL_JOB_SWITCH,     /* a feature */
    SL_JOB_CLEAR,      /* delete everything; for tests */
    SL_JOB_USAGE,      /* record usage */
    SL_JOB_USAGE_READ, /* read usage, including all records queued before */
    SL_JOB_GRANT,      /* a credit: `on` grants it, or removes it */
    SL_JOB_CREDITS,
    SL_JOB_BLOCK,   /* scope and id or alias: `on` blocks the subject until
                     * `since`, or ends the block. NOT_FOUND: there is none */
    SL_JOB_BLOCKS,  /* list the blocks */
    SL_JOB_EXPORT,  /* a page of all counters; NOT_FOUND: it is over */
    SL_JOB_NOTE,    /* only write job->audit */
    SL_JOB_ERASE,   /* all rows about scope and id; see erase.c */
    SL_JOB_RETAIN,  /* old rows; see retain.c */
    SL_JOB_LEASE,   /* quota units for this node; CONFLICT: another node has its
                     * name */
    SL_JOB_LEASES,  /* list the leases */
    SL_JOB_RELEASE, /* free the units of node `name`; CONFLICT: it was seen
                     * after `since` */
    SL_JOB_REPEAT,  /* the memory of repeats */
    SL_JOB_DENIALS, /* find denials, after those that are queued; job->text:
                     * items of a JSON array */
    SL_JOB_PUT_DENIALS,
    SL_JOB_WEBHOOK, /* webhooks that go out: webhook_db.h */
};

/* ---- the memory of repeats (store/repeats.h); repeats.c ---- */

enum sl_job_repeat_op {
    SL_JOB_REPEAT_BEGIN,
    SL_JOB_REPEAT_LOOK,
    SL_JOB_REPEAT_FINISH,
    SL_JOB_REPEAT_DROP,
    SL_JOB_REPEAT_PUT,
    SL_JOB_REPEAT_SECRET, /* job->text: the common secret, or the one with the
                           * name `key`; `fingerprint` is written if there is
                           * none */
};

enum sl_job_repeat_found {
    SL_JOB_REPEAT_FIRST,
    SL_JOB_REPEAT_RUNNING,
    SL_JOB_REPEAT_OTHER,
    SL_JOB_REPEAT_AGAIN, /* job->text has the memo */
};

struct sl_job_repeat {
    enum sl_job_repeat_op op;
    char key[33], fingerprint[33], owner[17]; /* hex */
    sl_ns now, until, pending;
    uint32_t repeats;
    struct sl_str memo;             /* FINISH, PUT */
    enum sl_job_repeat_found found; /* out */
};

/* ---- the denial history: denials.h ---- */

struct sl_denial_job {
    const struct sl_denial_record *records; /* PUT_DENIALS */
    unsigned count;
    bool hashed;
    struct sl_hash_key key;       /* result: the secret of the hashes */
    struct sl_denial_query query; /* DENIALS */
};

/* The result of a job without an error. */
enum sl_job_result {
    SL_JOB_DONE,
    SL_JOB_NOT_FOUND, /* there is no such subject */
    SL_JOB_CHANGED,   /* its revision is not the expected one */
    SL_JOB_CONFLICT,  /* an alias belongs to another subject; too many (see
                       * diag); an amount was refused: usage[failed].result */
};

struct sl_job {
    enum sl_job_kind kind;
    struct sl_loop *loop; /* where done() is called */
    void (*done)(struct sl_job *job);
    void *ctx;
    sl_ns now;

    /* Input. Texts live until done(). */
    struct sl_str scope, id; /* LIST: the scope ("": all), and the id after
                              * which it begins, of after_scope */
    struct sl_str after_scope, prefix; /* LIST */
    unsigned most;   /* LIST, AUDIT, LEASES, NODES, ENDS, BLOCKS */
    uint64_t before; /* AUDIT: 0, or a revision */
    const struct sl_subject_change *changes; /* WRITE */
    unsigned change_count;
    struct sl_str name, by; /* SWITCH: `on` < 0 removes the switch */
    struct sl_str note;     /* BLOCK, with `by` */
    int on;
    struct sl_usage_entry
        *usage;            /* USAGE: change_count entries, with their results */
    struct sl_str journal; /* USAGE of a segment of this journal: recorded once,
                            * by stream and sequence; "": no segment. CHANGED:
                            * the segment `after` is not recorded yet */
    uint64_t stream, sequence, after; /* after: 0, or the one before it that is
                                       * not known to be recorded */
    struct sl_credit_grant *grant;    /* GRANT */
    uint64_t (*scale_of)(
        const void *ctx,
        struct sl_str limit); /* CREDITS:
                               * counted units in one that is shown; NULL: 1 */
    const void *scale_ctx;
    struct sl_usage_lease_claim *claim; /* LEASE, with its results */
    struct sl_job_repeat *repeat;       /* REPEAT, likewise */
    struct sl_denial_job *denials;      /* DENIALS, PUT_DENIALS */
    struct sl_webhook_job *webhook;     /* WEBHOOK, with its results */
    struct sl_usage_export *export;     /* EXPORT, with its results */
    const struct sl_audit_note *audit;  /* of any write, or NULL; written if it
                                         * succeeds. WRITE: origin and note;
                                         * USAGE: a row for each change */
    bool dry_run; /* USAGE: change nothing; the entries have the results */
    sl_ns usage_age, audit_age; /* RETAIN: older rows are deleted; 0: none are.
                                 * `units` rows were, and `cut`: there may be
                                 * more */
    sl_ns denial_age;           /* likewise */
    uint64_t denial_rows;       /* RETAIN: so many stay; 0: all */
    sl_ns since, started; /* USAGE_READ: see sl_usage_db_read(); for scope and
                           * id. BLOCK: `since` is the end, or SL_NS_NONE */

    /* Output. */
    int err;        /* 0, SLUICE_ESTORE, SLUICE_ENOMEM */
    uint64_t order; /* in which jobs of this process were done */
    enum sl_job_result result;
    struct sl_diag diag;
    unsigned failed;  /* WRITE: the change that was refused */
    unsigned same;    /* WRITE: how many changed nothing */
    uint64_t version; /* FIND */
    struct sl_subject_record
        *entries;       /* FIND, LIST, WRITE of one: owned by the caller */
    bool is_partial;    /* FIND in a source that failed: `entries` is the
                         * registry's own, because it has a block */
    uint64_t units;     /* RELEASE */
    bool cut;           /* LEASES, BLOCKS: there are more */
    struct sl_buf text; /* AUDIT, CREDITS, LEASES, BLOCKS: items of a JSON
                         * array; USAGE_READ, NODES: structs; ENDS: see
                         * sl_usage_ends_next(); EXPORT: see
                         * sl_usage_export_next(); owned by the caller */

    /* Owned by the registry. To retry a failed job, leave uncertain_txn as it
     * is: if that transaction was committed, the job is not run twice. */
    uint64_t uncertain_txn;
    bool already_done;
    bool is_replay;      /* a portion of usage_replay.c */
    bool is_pending;     /* lines of its subject are recorded before it */
    bool is_blocked;     /* another session has locked its subject, or a
                          * refund waits for what it refunds */
    sl_ns blocked_since; /* monotonic; 0: not */
    unsigned blocked_at; /* USAGE: the entry that was blocked, or the next */
    struct sl_job *next;
};

struct sl_driver;
struct sl_usage_journal;

/* ---- the units in which usage is counted; usage_units.c ---- */

struct sl_usage_unit {
    struct sl_str limit;
    uint64_t scale;        /* 1: a plain unit */
    struct sl_str counted; /* with a scale: its name */
    const struct sl_usage_unit *next;
};

struct sl_unit_list {
    struct sl_arena arena;
    const struct sl_usage_unit *first;
};

void sl_unit_list_init(struct sl_unit_list *list, const struct sl_alloc *alloc);
void sl_unit_list_done(struct sl_unit_list *list);

/* Copies the texts. Returns 0 or SLUICE_ENOMEM. */
SL_MUST_USE int sl_unit_list_add(struct sl_unit_list *list, struct sl_str limit,
                                 uint64_t scale, struct sl_str counted);

struct sl_registry_options {
    const struct sl_driver *driver; /* NULL: SQLite */
    const char *path;               /* ":memory:" is not persistent */
    const struct sl_alloc *alloc;
    /* Called on the registry's thread when a job has failed; or NULL. */
    void (*on_fault)(void *ctx, const char *sentence);
    /* Called there, once, when a database that was away is reached and cannot
     * be used: it is damaged, say, or has usage in another unit; or NULL. */
    void (*on_mistake)(void *ctx, const char *sentence);
    /* Called when another process has switched a feature (see SWITCH), on a
     * thread of the registry; or NULL. */
    void (*on_switch)(void *ctx, struct sl_str name, int on);
    /* Called when another process has queued a webhook, on a thread of the
     * registry; or NULL. */
    void (*on_webhook)(void *ctx);
    /* Called by sl_registry_open() for the usage written since `since`; or
     * NULL. */
    sl_usage_db_f *on_usage;
    sl_ns since, now;
    /* What an earlier process has left in it is recorded, before a job sees the
     * subject; or NULL. */
    struct sl_usage_journal *journal;
    /* Called for amounts of the journal that crossed thresholds; or NULL. */
    sl_usage_seen_f *on_threshold;
    /* Called when all of it is recorded, on the registry's thread; or NULL. */
    void (*on_replayed)(void *ctx);
    /* Open it also if the database cannot be reached. Jobs then fail, and the
     * thread tries again; on_contact() is called on it when it has read the
     * state; or NULL. */
    bool may_be_away;
    void (*on_contact)(void *ctx);
    /* Adds the units of the active policy, which are compared with the recorded
     * ones when the database is opened or reached; or NULL. */
    int (*list_units)(void *ctx, struct sl_unit_list *ret);
    /* Called by sl_registry_open() for the leases of this node; or NULL. */
    sl_lease_f *on_lease;
    /* The secret of the table in a file that is compared with the database at
     * each start; NULL: there is none. Copied. */
    const struct sl_hash_key *secret;
    struct sl_str node;   /* name among nodes that share the database; "": not
                           * shared; outlives the registry */
    struct sl_str former; /* not shared: the name that this node would have; it
                           * had it if the database was shared. "": unknown */
    void *ctx;
};

/* Returns 0, SLUICE_ESTORE or SLUICE_EDAMAGE with a sentence, SLUICE_ENOMEM or
 * SLUICE_ESYS; SLUICE_ECONF with a sentence if there is usage in another unit.
 * Returns 0 with a sentence if the database is away. */
SL_MUST_USE int sl_registry_open(const struct sl_registry_options *options,
                                 struct sl_registry **ret,
                                 struct sl_diag *diag);

/* Runs the queued jobs and ends the thread. Their answers are posted to the
 * loops. NULL and a second call are allowed. */
void sl_registry_stop(struct sl_registry *registry);

/* After the stop: runs the jobs that those answers have queued. */
void sl_registry_finish(struct sl_registry *registry);

/* Stops the registry first. NULL is allowed. */
void sl_registry_close(struct sl_registry *registry);

/* Records the units of a new policy. Frees the list. Waits for the database if
 * they differ from the recorded ones. Returns 0; SLUICE_ECONF: there is usage
 * in another unit; SLUICE_ESTORE: they cannot be recorded now. Not on the
 * registry's thread. */
SL_MUST_USE int sl_registry_use_units(struct sl_registry *registry,
                                      struct sl_unit_list *list,
                                      struct sl_diag *diag);

/* Queues a job, from any thread. Never blocks. done() is called once, also on
 * failure. The job is borrowed until then. */
void sl_registry_ask(struct sl_registry *registry, struct sl_job *job);

/* Records a change without waiting. Copies the texts. The job is freed on
 * `loop`. Without memory nothing is recorded. */
void sl_registry_note(struct sl_registry *registry, struct sl_loop *loop,
                      const struct sl_audit_note *note, sl_ns now);

/* Initializes a job; its text has a size limit. */
void sl_job_init(struct sl_job *job, enum sl_job_kind kind,
                 const struct sl_alloc *alloc);
/* Frees the output of a job. */
void sl_job_clear(struct sl_job *job);

/* Returns the version counter of a name. */
const _Atomic uint64_t *sl_registry_version(const struct sl_registry *registry,
                                            struct sl_str scope,
                                            struct sl_str id);

/* Returns whether there are no subjects, credits and blocks: a lookup cannot
 * find anything. False before the first write is acknowledged. */
bool sl_registry_is_empty(const struct sl_registry *registry);

/* Returns whether a subject is registered. Credits and blocks register none.
 * A first subject that another process writes counts from the next load of an
 * unknown subject on. */
bool sl_registry_has_registered(const struct sl_registry *registry);

/* Returns whether an address or a network is blocked. */
bool sl_registry_has_blocked_ips(const struct sl_registry *registry);

const struct sl_hash_key *
sl_registry_secret(const struct sl_registry *registry);

/* Features that were switched by hand when the registry was opened. If the
 * database is reached later, on_switch() is called for each. */
struct sl_switched {
    struct sl_str name;
    bool on;
};
const struct sl_switched *
sl_registry_switches(const struct sl_registry *registry, unsigned *ret_count);

struct sl_registry_counts {
    uint64_t reads, writes, commits, faults;
    uint64_t overshoot; /* units recorded of leases that were freed */
    uint64_t expired;   /* rows deleted by their age */
    unsigned waiting;   /* jobs in the queue */
};
void sl_registry_count(const struct sl_registry *registry,
                       struct sl_registry_counts *ret);

#endif
