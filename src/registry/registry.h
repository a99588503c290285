/* registry.h -- who has which plan, which roles and which rates of his own.
 *
 * The registry is a file of SQLite that one thread reads and writes. Others
 * leave it jobs and are called back on their own loops:
 *
 *     asking thread                          the registry's thread
 *     sl_registry_ask(job) ---- queue ---->  reads first, each for itself; then
 *                                            claims of units, then writes: all
 *                                            that wait, as one transaction with
 *     job->done(job)  <---- its loop ------  one fsync
 *
 * What was acknowledged is on the disk. A job of several changes is carried out
 * as a whole or not at all.
 *
 * Stamps. Who remembers an entry (finder.h) asks no lock whether it still
 * holds: there are SL_REGISTRY_VERSIONS counters, each name belongs to one by
 * its hash, and a write raises those of all names that it touches, aliases
 * included, after it is on the disk and before anybody is told. An entry comes
 * with the stamp from before it was read; while that is the current one, no
 * write to that name has been acknowledged since.
 *
 * When the file can't be read or written (full, gone, damaged), jobs fail with
 * SLUICE_ESTORE and a sentence, and the next one is tried again.
 */
#ifndef SL_REGISTRY_REGISTRY_H
#define SL_REGISTRY_REGISTRY_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/hash.h"
#include "identity/identity.h"
#include "registry/usage_db.h"

/* ---- an entry of the registry: all that is kept of one subject.
 *
 * An entry is one piece of memory that begins with what deciders see
 * (identity/identity.h); its texts lie behind it. It is never changed: a write
 * makes another. It belongs to one thread at a time, and is handed over from
 * the thread that reads the registry to the one that asked.
 *
 * A draft is an entry in the making: the same, in arrays of fixed size, with
 * texts that live elsewhere.
 */

/* Bytes of texts, and how many of each a subject may have. */
#define SL_SUBJECT_RECORD_ID      256
#define SL_SUBJECT_RECORD_NAME    64 /* a plan, a role, a limit */
#define SL_SUBJECT_RECORD_RATE    64
#define SL_SUBJECT_RECORD_BY      128
#define SL_SUBJECT_RECORD_NOTE    512
#define SL_SUBJECT_RECORD_ROLES   32
#define SL_SUBJECT_RECORD_ALIASES 32
#define SL_SUBJECT_RECORD_RATES   64
#define SL_SUBJECT_RECORD_CREDITS 64 /* that are known to those who decide */

struct sl_subject_record {
    struct sl_subject subject; /* first: sl_subject_unref() gives it back */
    struct sl_str scope;
    const struct sl_str *aliases;
    unsigned alias_count;
    struct sl_str by, note; /* of the last write, and of the subject */
    sl_ns updated;
    uint64_t revision; /* grows with every write, also of others */
    struct sl_subject_record *next;
    const struct sl_alloc *alloc;
    size_t size;
};

struct sl_subject_draft {
    struct sl_str scope, id;
    struct sl_str plan;
    sl_ns expires; /* SL_NS_NONE: never */
    struct sl_str by, note;
    sl_ns updated;
    uint64_t revision;
    struct sl_str roles[SL_SUBJECT_RECORD_ROLES];
    unsigned role_count;
    struct sl_str aliases[SL_SUBJECT_RECORD_ALIASES];
    unsigned alias_count;
    struct sl_subject_override rates[SL_SUBJECT_RECORD_RATES];
    unsigned rate_count;
    struct sl_credit credits[SL_SUBJECT_RECORD_CREDITS]; /* of entries only */
    unsigned credit_count;
};

/* What a write says of itself. What is not in `has` stays as it was; a PUT
 * begins with an empty subject, a PATCH with what is there. */
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
};

struct sl_subject_change {
    enum sl_subject_change_kind kind;
    struct sl_str scope, id;
    struct sl_str by;
    unsigned has;
    struct sl_str plan; /* "": none */
    sl_ns expires;
    struct sl_str note;
    const struct sl_str *roles;
    unsigned role_count;
    const struct sl_str *aliases; /* in lower case */
    unsigned alias_count;
    const struct sl_subject_override *rates; /* an empty rate takes one away */
    unsigned rate_count;
    bool no_rates;   /* a PATCH: those that are there are gone */
    bool must_match; /* else refused: the revision that is to be changed, */
    uint64_t match;  /* or 0: there must be nobody yet */
    unsigned line;   /* of an import */
};

/* Make an entry of a draft. NULL without memory. One that stands for somebody
 * unknown has an id and nothing else. */
SL_MUST_USE struct sl_subject_record *
sl_subject_record_new(const struct sl_subject_draft *draft, bool known,
                      const struct sl_alloc *alloc);

/* NULL is allowed. With all that follow by `next`. */
void sl_subject_records_free(struct sl_subject_record *first);

/* The draft after `change`; `draft` is what was there before, or empty. False
 * if it would pass one of the numbers above: then `diag` says which. */
SL_MUST_USE bool sl_subject_draft_change(struct sl_subject_draft *draft,
                                         const struct sl_subject_change *change,
                                         sl_ns now, struct sl_diag *diag);

/* Is everything alike that a write can say? */
bool sl_subject_draft_same(const struct sl_subject_draft *a,
                           const struct sl_subject_draft *b);

/* The members of a JSON object that tell all of the draft, without brackets:
 * "scope":"user","id":"ann",... If `brief`, those that say nothing are left
 * out, and who wrote it when. */
SL_MUST_USE int sl_subject_draft_json(const struct sl_subject_draft *draft,
                                      sl_ns now, bool brief,
                                      struct sl_buf *out);

/* The other way round; the texts stay where they are. */
void sl_subject_draft_of(const struct sl_subject_record *entry,
                         struct sl_subject_draft *ret);

/* Aliases, and the stamps of all names, are kept in lower case (ASCII): a copy
 * of `text` in `out`, which has as many bytes. */
struct sl_str sl_str_lower(struct sl_str text, char *out);

/* So many that an import of a million leaves most of what is at hand alone for
 * a second or more; 2 MiB of them. */
#define SL_REGISTRY_VERSIONS (1 << 18)
#define SL_LIST_MOST         1000 /* subjects in one answer */
#define SL_SWITCHES          256  /* features switched by hand */
#define SL_CHANGES_MOST      500  /* of one job */

struct sl_loop;
struct sl_registry;

enum sl_job_kind {
    SL_JOB_FIND,  /* by id or alias */
    SL_JOB_LIST,  /* in the order of scope and id */
    SL_JOB_AUDIT, /* the history of one subject */
    SL_JOB_WRITE,
    SL_JOB_SWITCH,     /* a feature */
    SL_JOB_CLEAR,      /* everything; for tests that begin anew */
    SL_JOB_USAGE,      /* put down what was used */
    SL_JOB_USAGE_READ, /* read it, after what was put down before */
    SL_JOB_GRANT,      /* a credit: `on` gives it, or takes it away */
    SL_JOB_CREDITS,
    SL_JOB_LEASE,   /* units of a quota for this node; CONFLICT: another has
                     * its name */
    SL_JOB_LEASES,  /* who has some */
    SL_JOB_RELEASE, /* what `name` has is free again, unless it was seen since
                     * `since`: CONFLICT */
};

/* What became of a job that did not fail. */
enum sl_job_result {
    SL_JOB_DONE,
    SL_JOB_NOT_FOUND, /* there is no such subject */
    SL_JOB_CHANGED,   /* it is at another revision than was to be changed */
    SL_JOB_CONFLICT,  /* an alias is somebody else's; too many: see diag; one of
                       * the amounts was not accepted: usage[failed].result */
};

struct sl_job {
    enum sl_job_kind kind;
    struct sl_loop *loop; /* where done() is called */
    void (*done)(struct sl_job *job);
    void *ctx;
    sl_ns now;

    /* Asked. Texts live until done(). */
    struct sl_str scope, id; /* LIST: the scope alone ("": all), and the id
                              * behind which it begins, of after_scope */
    struct sl_str after_scope, prefix;       /* LIST */
    unsigned most;                           /* LIST, AUDIT */
    uint64_t before;                         /* AUDIT: 0, or a revision */
    const struct sl_subject_change *changes; /* WRITE */
    unsigned change_count;
    struct sl_str name, by; /* SWITCH: `on` < 0 forgets it */
    int on;
    struct sl_usage_entry
        *usage; /* USAGE; of change_count. Its answers are there */
    struct sl_credit_grant *grant;      /* GRANT */
    struct sl_usage_lease_claim *claim; /* LEASE; its answers are there */
    sl_ns since, started; /* METERS: see sl_usage_db_read(); for scope and id */

    /* Answered. */
    int err; /* 0, SLUICE_ESTORE, SLUICE_ENOMEM */
    enum sl_job_result result;
    struct sl_diag diag;
    unsigned failed; /* WRITE: which change was not accepted */
    unsigned same;   /* WRITE: how many changed nothing */
    uint64_t stamp;  /* FIND */
    struct sl_subject_record
        *entries;       /* FIND, LIST, WRITE of one: the asker's */
    uint64_t units;     /* RELEASE */
    bool cut;           /* LEASES: there are more */
    struct sl_buf text; /* AUDIT, CREDITS, LEASES: items of a JSON array;
                         * METERS: structs; the asker's */

    /* The registry's. Who gives it the same job again after a failure leaves
     * `doubt` as it is: it was perhaps carried out, and is not twice. */
    uint64_t doubt;
    bool is_done;
    struct sl_job *next;
};

struct sl_driver;

struct sl_registry_options {
    const struct sl_driver *driver; /* NULL: SQLite */
    const char *path;               /* ":memory:" keeps nothing */
    const struct sl_alloc *alloc;
    /* On the registry's thread, when a job has failed; or NULL. */
    void (*on_fault)(void *ctx, const char *sentence);
    /* Somebody else, who shares the tables, has switched a feature: see SWITCH.
     * On a thread of the registry's; or NULL. */
    void (*on_switch)(void *ctx, struct sl_str name, int on);
    /* Before anybody asks: what was used, as far as it has been written since
     * `since`; or NULL. */
    sl_usage_db_f *on_usage;
    sl_ns since, now;
    /* And what had been leased to this node; or NULL. */
    sl_lease_f *on_lease;
    struct sl_str node; /* among those who share the tables; "": it is alone.
                         * It outlives the registry */
    void *ctx;
};

/* SLUICE_ESTORE or SLUICE_EDAMAGE with what to do, SLUICE_ENOMEM,
 * SLUICE_ESYS. */
SL_MUST_USE int sl_registry_open(const struct sl_registry_options *options,
                                 struct sl_registry **ret,
                                 struct sl_diag *diag);

/* Carry out what is queued and end the thread. Answers are still posted to the
 * loops; nothing may be asked from now on. NULL is allowed; twice too. */
void sl_registry_stop(struct sl_registry *registry);

/* Stops it first. NULL is allowed. */
void sl_registry_close(struct sl_registry *registry);

/* Give it a job, from any thread. Never waits and never fails: whatever goes
 * wrong, done() is called once. The job is borrowed until then. */
void sl_registry_ask(struct sl_registry *registry, struct sl_job *job);

/* Get a job ready: all empty, its text with a ceiling. */
void sl_job_init(struct sl_job *job, enum sl_job_kind kind,
                 const struct sl_alloc *alloc);
/* Give back what was answered. */
void sl_job_clear(struct sl_job *job);

/* The counter of a name. */
const _Atomic uint64_t *sl_registry_version(const struct sl_registry *registry,
                                            struct sl_str scope,
                                            struct sl_str id);

/* Is anybody registered at all? True from before the first write is
 * acknowledged. */
bool sl_registry_has_any(const struct sl_registry *registry);

const struct sl_hash_key *
sl_registry_secret(const struct sl_registry *registry);

/* The features that were switched by hand when it was opened. */
struct sl_switched {
    struct sl_str name;
    bool on;
};
const struct sl_switched *
sl_registry_switches(const struct sl_registry *registry, unsigned *ret_count);

struct sl_registry_counts {
    uint64_t reads, writes, commits, faults;
    unsigned waiting; /* jobs in the queue */
};
void sl_registry_count(const struct sl_registry *registry,
                       struct sl_registry_counts *ret);

#endif
