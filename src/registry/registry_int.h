/* registry_int.h -- inside the registry: databases, queries, jobs.
 *
 * Tables and queries are the same for every database. A driver runs them:
 * sqlite.c, or pg_driver.c for PostgreSQL.
 *
 * A database is one connection, used by one thread at a time. Errors are
 * SLUICE_ESTORE, SLUICE_EDAMAGE and SLUICE_ENOMEM with a sentence in db->diag.
 * "Not found" is not an error.
 */
#ifndef SL_REGISTRY_REGISTRY_INT_H
#define SL_REGISTRY_REGISTRY_INT_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/diag.h"
#include "registry/registry.h"

enum sl_query {
#define QUERY(id, sql) SL_QUERY_##id,
#include "registry/queries.def"
    SL_QUERIES
};

/* SQL texts with parameters ?1, ?2... */
extern const char *const sl_queries[SL_QUERIES];

/* Lock slots of concurrent writers. Slot 0 is for subjects and switches. The
 * others are for usage, by the hash of the subject. */
#define SL_SHARE_SLOTS 256

struct sl_driver;

struct sl_database {
    const struct sl_driver *driver; /* NULL: not open */
    void *conn;                     /* owned by the driver */
    struct sl_arena arena;          /* texts of rows; the caller resets it */
    struct sl_diag diag;
    struct sl_str node; /* our name among nodes that share the database; "": not
                         * shared */
    char word[20];      /* random and unique, chosen at each start */
    bool has_secret; /* the table of our store is compared with the database: */
    struct sl_hash_key secret; /* its secret, for erased.c */
    uint64_t uncertain_txn; /* its COMMIT was sent and not answered; 0: none */
    bool is_away;           /* after open(): not reached yet */
    bool serves; /* its state was read, and jobs wait for it: locks are not
                  * waited for as long as before */
    uint64_t overshoot; /* units that the open transaction has recorded of
                         * leases that were freed */
    bool is_locked;     /* the last error: a lock was not granted in time */
    bool is_temporary;  /* the last error may pass by itself */
    bool one_by_one;    /* nothing is prefetched: an error is reported by the
                         * entry that has it, or the next one */
};

/* A notification of another process; "": some may have been missed. Called on a
 * thread of the driver. */
typedef void sl_notified_f(void *ctx, struct sl_str message);

struct sl_driver {
    /* On failure db->conn is unchanged, and `diag` has a sentence. If the
     * database cannot be reached, sets db->is_away and the sentence, and
     * returns 0. */
    int (*open)(struct sl_database *db, const char *where, struct sl_diag *);
    void (*close)(struct sl_database *db);
    /* Opens a database that was away; or NULL: each query tries. */
    int (*reopen)(struct sl_database *db);
    /* Binds a text, which lives until the reset, or a number (text NULL).
     * Unbound parameters are NULL. */
    void (*bind)(struct sl_database *db, enum sl_query query, int at,
                 const struct sl_str *text, int64_t number);
    int (*step)(struct sl_database *db, enum sl_query query);
    void (*reset)(struct sl_database *db, enum sl_query query);
    /* Run a query without rows. Within a transaction its error may be reported
     * by a later call, at the latest by COMMIT. */
    int (*run)(struct sl_database *db, enum sl_query query);
    /* Returns false if the column is NULL. */
    bool (*column)(struct sl_database *db, enum sl_query query, int column,
                   struct sl_str *ret);
    int64_t (*integer)(struct sl_database *db, enum sl_query query, int column);
    /* Run statements without parameters and rows, separated by ';'. */
    int (*script)(struct sl_database *db, const char *sql);
    /* Within a transaction, or NULL: sends the bound query. After fetch() the
     * next step() with the same parameters has its rows without waiting. */
    int (*prefetch)(struct sl_database *db, enum sl_query query);
    /* Waits for the rows of all queries that were sent. Those of an earlier
     * call are forgotten. */
    int (*fetch)(struct sl_database *db);
    /* Rolls back the open transaction. */
    void (*rollback)(struct sl_database *db);
    /* After a transaction: removes what it has deleted from the files, too; or
     * NULL. */
    int (*scrub)(struct sl_database *db);

    /* The rest is for databases with several writers; NULL otherwise. */

    /* Within a transaction, before any read: wait for these slots and lock them
     * until its end. `slots` has SL_SHARE_SLOTS bits. */
    int (*lock)(struct sl_database *db, const uint64_t *slots);
    /* Likewise, without waiting; *ret: the slots that were free. */
    int (*try_lock)(struct sl_database *db, const uint64_t *slots,
                    uint64_t *ret);
    /* Limits how long this transaction waits for a lock. */
    int (*patience)(struct sl_database *db, unsigned ms);
    /* A statement has failed: a rollback to a savepoint follows. */
    void (*recover)(struct sl_database *db);
    /* Between transactions: ends the sessions of daemons that were stopped
     * within one. */
    void (*end_stopped)(struct sl_database *db);
    /* Send a notification to the others at commit. */
    int (*notify)(struct sl_database *db, struct sl_str message);
    /* Was the transaction committed? Returns 1, 0, or an error if unknown. */
    int (*commit_status)(struct sl_database *db, uint64_t uncertain_txn);
    /* Receive notifications until close. */
    int (*listen)(struct sl_database *db, sl_notified_f *heard, void *ctx,
                  struct sl_diag *diag);
};

extern const struct sl_driver sl_driver_sqlite;

/* `driver` NULL: SQLite, and `where` is a path. */
SL_MUST_USE int sl_database_open(struct sl_database *db,
                                 const struct sl_driver *driver,
                                 const char *where,
                                 const struct sl_alloc *alloc,
                                 struct sl_diag *diag);
/* A database of zeros, never opened, is allowed. */
void sl_database_close(struct sl_database *db);

/* ---- queries.
 *
 * `types` has a letter for each parameter, and after a space one for each
 * column. The parameters follow by value, the columns as pointers.
 *
 *   t   struct sl_str; NULL is read as an empty text
 *   n   int64_t; NULL is read as 0
 *   c   uint64_t; NULL and negative numbers are read as 0
 *   i   int and shorter types; a parameter only
 *   w   sl_ns; SL_NS_NONE is NULL
 *   o   struct sl_str; an empty text is NULL; a parameter only
 *
 *     sl_query_one(db, SL_QUERY_KEY, "ttt tn", scope, id, key, &limit, &amount)
 */

/* Sends a query ahead, if the database can; see struct sl_driver. */
SL_MUST_USE int sl_query_prefetch(struct sl_database *db, enum sl_query query,
                                  const char *types, ...);

/* Waits for all queries that were sent ahead; without any it forgets what is
 * left of earlier ones. */
SL_MUST_USE int sl_query_fetch(struct sl_database *db);

/* Runs a query without rows. */
SL_MUST_USE int sl_query_run(struct sl_database *db, enum sl_query query,
                             const char *types, ...);

/* Reads the first row. Texts are copied to the arena. Returns 1, 0 without a
 * row (the columns are unchanged), or a negative error. */
SL_MUST_USE int sl_query_one(struct sl_database *db, enum sl_query query,
                             const char *types, ...);

/* Binds parameters; sl_query_next() then reads row after row, returns 1, 0 at
 * the end, or a negative error, and sl_query_reset() ends the query. Texts are
 * copied to the arena; NULL: they live as long as the row. */
void sl_query_bind(struct sl_database *db, enum sl_query query,
                   const char *types, ...);
SL_MUST_USE int sl_query_next(struct sl_database *db, enum sl_query query,
                              struct sl_arena *arena, const char *types, ...);
void sl_query_reset(struct sl_database *db, enum sl_query query);

/* Copies a text to the arena, or returns SLUICE_ENOMEM with a sentence. */
SL_MUST_USE int sl_database_copy(struct sl_database *db, struct sl_arena *arena,
                                 struct sl_str text, struct sl_str *ret);

/* Sets the bit of a subject's slot in `slots`. */
void sl_slot_take(uint64_t *slots, struct sl_str scope, struct sl_str id);

/* ---- SQLite files: sqlite.c ---- */

/* Migrates a file from its version (PRAGMA user_version) to `count`: steps[i]
 * makes version i + 1 of version i, as a whole or not at all. A later version
 * is refused. */
SL_MUST_USE int sl_schema_migrate(sqlite3 *db, const char *const *steps,
                                  int count, struct sl_diag *diag);

/* ---- the registry's thread. */

struct sl_job_list {
    struct sl_job *first, **end;
};

struct sl_registry {
    const struct sl_alloc *alloc;
    void (*on_fault)(void *ctx, const char *sentence);
    void (*on_mistake)(void *ctx, const char *sentence);
    void (*on_switch)(void *ctx, struct sl_str name, int on);
    void (*on_webhook)(void *ctx);
    void *ctx;
    struct sl_hash_key secret;
    _Atomic uint64_t versions[SL_REGISTRY_VERSIONS];
    _Atomic uint64_t reads, writes, commits, faults, overshoot, expired;
    _Atomic unsigned waiting;
    _Atomic bool has_subjects;   /* or credits or blocks: lookups load */
    _Atomic bool has_registered; /* subjects; written by the thread only */
    _Atomic bool has_blocked_ips;
    struct sl_switched switches[SL_SWITCHES];
    unsigned switch_count;
    struct sl_arena names; /* of the switches */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t more;
    struct sl_job *first, **end;
    bool stop;
    pthread_cond_t checked;    /* the units of a new policy */
    struct sl_unit_list units; /* as recorded */

    /* Used by the thread only. */
    struct sl_database db;
    struct sl_registry_options options;
    struct sl_usage_replay *replay; /* NULL: nothing is left to record */
    bool is_away;    /* the state of the database was not read yet */
    bool was_away;   /* nor when it was opened: its thread reads it */
    bool is_refused; /* it was reached and cannot be used: damaged, or with
                      * usage in another unit; reported */
    bool is_ending;  /* only the queue is run: see sl_registry_finish() */
    uint64_t order;  /* of the last job */
    uint64_t dirty[SL_REGISTRY_VERSIONS / 64]; /* versions to increment */
    struct sl_job *undelivered; /* jobs whose done() could not be posted */
    struct sl_job_list blocked; /* writes that wait for locks of others */
    uint64_t blocked_slots[SL_SHARE_SLOTS / 64]; /* of those with one slot */
    sl_ns retry_at; /* monotonic: when they are tried again, */
    sl_ns look_at;  /* and when stopped daemons are looked for */
};

/* Starts a thread that receives no signals; `what` is its body. Returns 0, or
 * SLUICE_ESYS with a sentence. */
SL_MUST_USE int sl_thread_start(pthread_t *ret, void *(*what)(void *),
                                void *ctx, struct sl_diag *diag);

/* Reads the state of a database that was away at the start, if it is there now:
 * before the first write. Returns 0, or an error with a sentence in db.diag. */
SL_MUST_USE int sl_registry_contact(struct sl_registry *registry);

/* ---- jobs.c: all on the registry's thread ---- */

/* Runs a job that only reads. */
void sl_job_run_read(struct sl_registry *registry, struct sl_job *job);

/* Runs writes as one transaction, then increments their versions. Jobs that
 * need a lock of another session are left out: job->is_blocked. `careful`: some
 * probably do. */
void sl_job_run_writes(struct sl_registry *registry, struct sl_job *first,
                       bool careful);

/* An erasure and an export concern all subjects: they wait, without locks,
 * until the usage of an earlier process is recorded. */
bool sl_job_must_wait(const struct sl_registry *registry,
                      const struct sl_job *job);

/* Fails a job that was blocked for too long. */
void sl_job_give_up(struct sl_registry *registry, struct sl_job *job);

/* Counts the overshoot of a transaction, if it was committed. */
void sl_registry_count_overshoot(struct sl_registry *registry, bool committed);

/* Runs a REPEAT within a transaction. */
SL_MUST_USE int sl_repeats_run(struct sl_database *db, struct sl_job *job);

/* Looks whether there are subjects. */
SL_MUST_USE int sl_job_run_look(struct sl_registry *registry);

/* ---- usage_units.c ---- */

/* Compares the units of the active policy with the recorded ones, and records
 * those of limits without usage. */
SL_MUST_USE int sl_units_check(struct sl_registry *registry);

/* Runs a UNITS job. It is not ours afterwards. */
void sl_units_run(struct sl_registry *registry, struct sl_job *job);

/* ---- denials.c ---- */

SL_MUST_USE int sl_denials_put(struct sl_database *db,
                               struct sl_denial_job *job);

/* Appends JSON objects, one per line. */
SL_MUST_USE int sl_denials_read(struct sl_database *db,
                                const struct sl_denial_query *query,
                                struct sl_buf *out);

/* Deletes the records of a name, and all names of these records. */
SL_MUST_USE int sl_denials_erase(struct sl_database *db, struct sl_str scope,
                                 struct sl_str id);

/* When the oldest of the newest `rows` records was. *ret stays if there are not
 * so many. */
SL_MUST_USE int sl_denials_oldest(struct sl_database *db, int64_t rows,
                                  sl_ns *ret);

/* ---- webhook_db.c, webhook_queue.c ---- */

/* Runs a WEBHOOK job within a transaction. */
SL_MUST_USE int sl_webhook_run(struct sl_registry *registry,
                               struct sl_job *job);
SL_MUST_USE int sl_webhook_claim(struct sl_database *db, struct sl_job *job);
SL_MUST_USE int sl_webhook_record(struct sl_database *db, struct sl_job *job);
SL_MUST_USE int sl_webhook_count(struct sl_database *db,
                                 struct sl_webhook_counts *ret);

/* Sets when an endpoint has something to claim. */
SL_MUST_USE int sl_webhook_schedule(struct sl_database *db, struct sl_str org,
                                    struct sl_str endpoint, sl_ns now);

/* Sends a notification without a name to the others at commit. */
void sl_job_notify(struct sl_registry *registry, const char *kind);

/* ---- retain.c ---- */

/* Deletes rows that are older than the ages of the job, a bounded number. */
SL_MUST_USE int sl_retain_run(struct sl_database *db, struct sl_job *job);

/* ---- usage_replay.c: what an earlier process has left in the journal ---- */

struct sl_usage_replay;

/* Lists the lines that are not recorded, and records those that must be before
 * the registry serves. */
SL_MUST_USE int sl_usage_replay_begin(struct sl_registry *registry);
void sl_usage_replay_close(struct sl_registry *registry);

/* Returns whether a subject has lines that are not recorded. */
bool sl_usage_replay_has(struct sl_registry *registry, struct sl_str scope,
                         struct sl_str id);

/* Returns whether a limit has lines that are not recorded. */
bool sl_usage_replay_has_limit(const struct sl_registry *registry,
                               struct sl_str limit);

/* Returns *ret, or NULL if nothing is pending. */
const struct sl_usage_pending *
sl_usage_replay_pending(struct sl_registry *registry,
                        struct sl_usage_pending *ret);

/* Is there a portion to record now? Records it; `busy`: other jobs come, and it
 * is small. */
bool sl_usage_replay_is_due(const struct sl_registry *registry);
void sl_usage_replay_some(struct sl_registry *registry, bool busy);

/* Within a transaction: records the lines of the subjects of a job; runs the
 * job of a portion; counts all lines as recorded. */
SL_MUST_USE int sl_usage_replay_before(struct sl_registry *registry,
                                       const struct sl_job *job);
SL_MUST_USE int sl_usage_replay_run(struct sl_registry *registry,
                                    struct sl_job *job);
void sl_usage_replay_forget(struct sl_registry *registry);

/* The lines of the open transaction are recorded; or those since the mark are
 * not (0: all of them). */
void sl_usage_replay_commit(struct sl_registry *registry);
unsigned sl_usage_replay_mark(const struct sl_registry *registry);
void sl_usage_replay_undo(struct sl_registry *registry, unsigned mark);

/* ---- erase.c ---- */

/* Deletes what is stored about job->scope and job->id, and marks its names as
 * changed. */
SL_MUST_USE int sl_erase_run(struct sl_registry *registry,
                             const struct sl_job *job);

/* ---- erased.c; without a secret they do nothing ---- */

/* Before the counters of a name are deleted: keeps their units by a hash. */
SL_MUST_USE int sl_erased_keep(struct sl_database *db, struct sl_str scope,
                               struct sl_str id, sl_ns now);

/* Sets u->erased: the units that the table has of erased counters with the same
 * names and period. */
SL_MUST_USE int sl_erased_find(struct sl_database *db,
                               struct sl_usage_entry *u);

/* The table does not have them any more. */
SL_MUST_USE int sl_erased_drop(struct sl_database *db,
                               const struct sl_usage_entry *u);

/* Marks a name as changed: caches look it up again. */
void sl_job_touch(struct sl_registry *registry, struct sl_str scope,
                  struct sl_str id);

/* Loads the subject with this id or alias. Returns 1, 0 if there is none, or an
 * error. */
SL_MUST_USE int sl_job_load(struct sl_database *db, struct sl_str scope,
                            struct sl_str id, struct sl_subject_draft *ret);

/* ---- blocks.c ---- */

/* Loads the block of a subject, if it has one. */
SL_MUST_USE int sl_block_load(struct sl_database *db, struct sl_str scope,
                              struct sl_str id, struct sl_block *ret);

/* Loads the record of all blocked addresses and networks. Returns whether it
 * has any, or an error. */
SL_MUST_USE int sl_blocked_ips_load(struct sl_registry *registry, sl_ns now,
                                    struct sl_subject_record **ret);

/* SL_JOB_BLOCK and SL_JOB_BLOCKS. */
SL_MUST_USE int sl_block_write(struct sl_registry *registry,
                               struct sl_job *job);
SL_MUST_USE int sl_block_list(struct sl_database *db, struct sl_job *job);

/* ---- audit.c ---- */

/* Writes a row; *ret is its number. */
SL_MUST_USE int sl_audit_put(struct sl_database *db,
                             const struct sl_audit_note *note, sl_ns now,
                             uint64_t *ret);

/* The same for a change of a counter, with `note` but of its subject. Writes
 * nothing if the counter is unchanged. */
SL_MUST_USE int sl_audit_put_usage(struct sl_database *db,
                                   const struct sl_audit_note *note,
                                   const struct sl_usage_entry *u);

/* Appends rows since job->since and below job->before, the newest first, as
 * items of a JSON array. */
SL_MUST_USE int sl_audit_read(struct sl_database *db, const struct sl_job *job,
                              struct sl_buf *out);

/* ---- sharing.c: several processes that write to the same tables ---- */

/* Returns whether the job locks one slot only; sets the bits of its slots. */
bool sl_job_slot(const struct sl_job *job, uint64_t *slots);

/* Locks the slots of all subjects of the jobs; first call in a transaction.
 * `careful`: without waiting; jobs whose slots are not free are blocked.
 * *ret_again: more slots are needed; undo and begin again. */
SL_MUST_USE int sl_sharing_lock(struct sl_registry *registry,
                                struct sl_job *first, bool careful,
                                bool *ret_again);

/* Finds the jobs that an uncertain transaction has committed:
 * job->already_done. */
SL_MUST_USE int sl_sharing_check_commit(struct sl_registry *registry,
                                        struct sl_job *first);

/* Commits. If the answer is lost, finds out whether it was committed. */
SL_MUST_USE int sl_sharing_commit(struct sl_registry *registry);

/* Begins to receive notifications of other processes. */
SL_MUST_USE int sl_sharing_listen(struct sl_registry *registry,
                                  struct sl_diag *diag);

#endif
