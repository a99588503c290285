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

/* Rows of history per subject. */
#define SL_AUDIT_KEPT 200

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
    uint64_t uncertain_txn; /* its COMMIT was sent and not answered; 0: none */
};

/* A notification of another process; "": some may have been missed. Called on a
 * thread of the driver. */
typedef void sl_notified_f(void *ctx, struct sl_str message);

struct sl_driver {
    /* On failure db->conn is unchanged, and `diag` has a sentence. */
    int (*open)(struct sl_database *db, const char *where, struct sl_diag *);
    void (*close)(struct sl_database *db);
    /* Bind a text, which lives until the reset, or a number. Unbound parameters
     * are NULL. */
    void (*text)(struct sl_database *db, enum sl_query query, int at,
                 struct sl_str text);
    void (*number)(struct sl_database *db, enum sl_query query, int at,
                   int64_t number);
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
    void (*rollback)(struct sl_database *db);

    /* The rest is for databases with several writers; NULL otherwise. */

    /* Within a transaction, before any read: wait for these slots and lock them
     * until its end. `slots` has SL_SHARE_SLOTS bits. */
    int (*lock)(struct sl_database *db, const uint64_t *slots);
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

/* Runs a query without rows: BEGIN, COMMIT, SAVEPOINT... */
SL_MUST_USE int sl_database_run(struct sl_database *db, enum sl_query query);

/* Runs statements without rows, separated by ';'. */
SL_MUST_USE int sl_database_script(struct sl_database *db, const char *sql);

/* Rolls back the open transaction. */
void sl_database_rollback(struct sl_database *db);

/* Loads the subject with this id or alias. */
SL_MUST_USE int sl_database_load(struct sl_database *db, struct sl_str scope,
                                 struct sl_str id, struct sl_subject_draft *ret,
                                 bool *ret_found);

/* Finds the next id of `scope` after `after`, in byte order, that begins with
 * `prefix`. Empty: there is none. */
SL_MUST_USE int sl_database_next(struct sl_database *db, struct sl_str scope,
                                 struct sl_str after, struct sl_str prefix,
                                 struct sl_str *ret_id);

/* Finds the subject that has an alias. Empty: there is none. */
SL_MUST_USE int sl_database_alias(struct sl_database *db, struct sl_str scope,
                                  struct sl_str alias, struct sl_str *ret_id);

/* Replaces `old` (NULL: none) by `new` (NULL: none) and adds a row of history.
 * Sets new->revision. */
SL_MUST_USE int sl_database_store(struct sl_database *db,
                                  const struct sl_subject_draft *old,
                                  struct sl_subject_draft *new,
                                  struct sl_str by, sl_ns now);

/* Appends the history of a subject, newest first, as items of a JSON array: at
 * most `most` rows before revision `before` (0: all). */
SL_MUST_USE int sl_database_audit(struct sl_database *db, struct sl_str scope,
                                  struct sl_str id, uint64_t before,
                                  unsigned most, struct sl_buf *out);

/* Stores the switch of a feature; `on` < 0 removes it. */
SL_MUST_USE int sl_database_switch(struct sl_database *db, struct sl_str name,
                                   int on, struct sl_str by, sl_ns now);

/* ---- for jobs.c and usage_*.c ---- */

void sl_query_text(struct sl_database *db, enum sl_query query, int at,
                   struct sl_str text);
void sl_query_number(struct sl_database *db, enum sl_query query, int at,
                     int64_t number);

/* Returns 1 for a row, 0 at the end, or a negative error. Reset the query
 * afterwards. */
SL_MUST_USE int sl_query_step(struct sl_database *db, enum sl_query query);
void sl_query_reset(struct sl_database *db, enum sl_query query);

/* Returns a column of the row, valid as long as the row. NULL is empty. */
struct sl_str sl_query_column(struct sl_database *db, enum sl_query query,
                              int column);
int64_t sl_query_integer(struct sl_database *db, enum sl_query query,
                         int column);
/* NULL is SL_NS_NONE. */
sl_ns sl_query_time(struct sl_database *db, enum sl_query query, int column);

/* Sets the bit of a subject's slot in `slots`. */
void sl_slot_take(uint64_t *slots, struct sl_str scope, struct sl_str id);

/* Adds a row of history. */
SL_MUST_USE int sl_database_note(struct sl_database *db,
                                 const struct sl_subject_draft *old,
                                 const struct sl_subject_draft *new,
                                 struct sl_str by, sl_ns now,
                                 uint64_t *ret_line);

/* ---- SQLite files.
 *
 * SQLite 3.40.1 may lose writes when a WAL is reset while another connection
 * reads (the "WAL-reset bug"). There is one connection here, and it locks the
 * file while it is open: no other process can open it, and no shared memory is
 * used.
 *
 * A file shared by several daemons of one machine ("PATH?shared") uses a
 * rollback journal instead of a WAL. Each daemon locks it while it writes.
 */

#define SL_SCHEMA_SHARED "?shared"

/* Opens or creates the file at `path` (":memory:": none), checks it and
 * migrates its tables. Returns 0, SLUICE_ESTORE (locked, or another format),
 * SLUICE_EDAMAGE or SLUICE_ENOMEM, with a sentence. */
SL_MUST_USE int sl_schema_open(const char *path, sqlite3 **ret,
                               struct sl_diag *diag);

/* Migrates a file from its version (PRAGMA user_version) to `count`: steps[i]
 * makes version i + 1 of version i, as a whole or not at all. A later version
 * is refused. */
SL_MUST_USE int sl_schema_migrate(sqlite3 *db, const char *const *steps,
                                  int count, struct sl_diag *diag);

/* Returns the error of SQLite as one of ours, with a sentence "PATH: ...". */
int sl_schema_error(sqlite3 *db, struct sl_diag *diag);

/* ---- the registry's thread. */

struct sl_registry {
    const struct sl_alloc *alloc;
    void (*on_fault)(void *ctx, const char *sentence);
    void (*on_switch)(void *ctx, struct sl_str name, int on);
    void *ctx;
    struct sl_hash_key secret;
    _Atomic uint64_t versions[SL_REGISTRY_VERSIONS];
    _Atomic uint64_t reads, writes, commits, faults;
    _Atomic unsigned waiting;
    _Atomic bool has_subjects;
    struct sl_switched switches[SL_SWITCHES];
    unsigned switch_count;
    struct sl_arena names; /* of the switches */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t more;
    struct sl_job *first, **end;
    bool stop;

    /* Used by the thread only. */
    struct sl_database db;
    uint64_t dirty[SL_REGISTRY_VERSIONS / 64]; /* versions to increment */
    struct sl_job *undelivered; /* jobs whose done() could not be posted */
};

/* ---- jobs.c: all on the registry's thread ---- */

/* Runs a job that only reads. */
void sl_job_run_read(struct sl_registry *registry, struct sl_job *job);

/* Runs writes as one transaction, then increments their versions. */
void sl_job_run_writes(struct sl_registry *registry, struct sl_job *first);

static inline bool sl_job_writes(const struct sl_job *job)
{
    return job->kind >= SL_JOB_WRITE;
}

/* Looks whether there are subjects. */
SL_MUST_USE int sl_job_run_look(struct sl_registry *registry);

/* ---- sharing.c: several writers; these calls do nothing if there is one only
 * ---- */

/* Finds the jobs that an uncertain transaction has committed:
 * job->already_done. */
SL_MUST_USE int sl_sharing_check_commit(struct sl_registry *registry,
                                        struct sl_job *first);

/* Locks the slots of all subjects of the jobs; first call in a transaction.
 * *ret_again: more slots are needed; roll back and begin again. */
SL_MUST_USE int sl_sharing_lock(struct sl_registry *registry,
                                struct sl_job *first, bool *ret_again);

/* Commits. If the answer is lost, finds out whether it was committed. */
SL_MUST_USE int sl_sharing_commit(struct sl_registry *registry);

/* Begins to receive notifications. */
SL_MUST_USE int sl_sharing_listen(struct sl_registry *registry,
                                  struct sl_diag *diag);

/* Notify the others of changes, at commit. */
void sl_sharing_touch(struct sl_registry *registry, struct sl_str scope,
                      struct sl_str id);
void sl_sharing_touch_all(struct sl_registry *registry);
void sl_sharing_switch(struct sl_registry *registry, struct sl_str name,
                       int on);

/* Returns the number of the counter of a name. */
unsigned sl_registry_version_of(const struct sl_registry *registry,
                                struct sl_str scope, struct sl_str id);

#endif
