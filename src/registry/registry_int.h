/* registry_int.h -- inside the registry: what it asks of its tables.
 *
 * The tables and the questions are the same everywhere; a driver knows how they
 * are asked: of SQLite (sqlite.c), or of PostgreSQL (postgres/).
 *
 * One connection, used by one thread at a time. Errors are SLUICE_ESTORE,
 * SLUICE_EDAMAGE and SLUICE_ENOMEM with a sentence in db->diag; "not found" is
 * none.
 */
#ifndef SL_REGISTRY_REGISTRY_INT_H
#define SL_REGISTRY_REGISTRY_INT_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/diag.h"
#include "registry/registry.h"

/* How many lines of its history a subject keeps. */
#define SL_AUDIT_KEPT 200

enum sl_query {
#define QUERY(id, sql) SL_QUERY_##id,
#include "registry/queries.def"
    SL_QUERIES
};

/* Their texts, with parameters ?1, ?2... */
extern const char *const sl_queries[SL_QUERIES];

/* Who writes at the same time: slot 0 is the registry itself (subjects,
 * switches), each of the others some of the subjects that the books are about.
 */
#define SL_SHARE_SLOTS 256

struct sl_driver;

struct sl_database {
    const struct sl_driver *driver; /* NULL: it is not open */
    void *conn;                     /* the driver's own */
    struct sl_arena arena; /* texts of what was read; the caller resets it */
    struct sl_diag diag;
    struct sl_str node; /* who we are, among those who share it; "": alone */
    char word[20];      /* chosen anew at each start, and nobody else's */
    uint64_t doubt; /* a transaction whose COMMIT was sent and not answered */
};

/* What another has told; "": something may have been missed. On a thread of the
 * driver's. */
typedef void sl_heard_f(void *ctx, struct sl_str message);

struct sl_driver {
    /* On failure db->conn is untouched, and `diag` says what to do. */
    int (*open)(struct sl_database *db, const char *where, struct sl_diag *);
    void (*close)(struct sl_database *db);
    /* Bind a text, which lives until the reset; or a number. What is not bound
     * is NULL. */
    void (*text)(struct sl_database *db, enum sl_query query, int at,
                 struct sl_str text);
    void (*number)(struct sl_database *db, enum sl_query query, int at,
                   int64_t number);
    int (*step)(struct sl_database *db, enum sl_query query);
    void (*reset)(struct sl_database *db, enum sl_query query);
    /* A question without an answer. Within a transaction it may be told later
     * that it failed: by any other call, by COMMIT at the latest. */
    int (*run)(struct sl_database *db, enum sl_query query);
    /* A column of the row: false is NULL. */
    bool (*column)(struct sl_database *db, enum sl_query query, int column,
                   struct sl_str *ret);
    int64_t (*integer)(struct sl_database *db, enum sl_query query, int column);
    /* Statements with no parameters and no answers, parted by ';'. */
    int (*script)(struct sl_database *db, const char *sql);
    void (*rollback)(struct sl_database *db);

    /* The rest is for databases that others write to, too; NULL otherwise. */

    /* Within a transaction, before anything is read: wait until nobody else has
     * any of these slots, and have them until its end. A bit for each of
     * SL_SHARE_SLOTS. */
    int (*lock)(struct sl_database *db, const uint64_t *slots);
    /* Tell the others when the transaction is committed. */
    int (*tell)(struct sl_database *db, struct sl_str message);
    /* Was the transaction `doubt` committed? 1, 0, or an error: it is not
     * known. */
    int (*outcome)(struct sl_database *db, uint64_t doubt);
    /* Hear what others tell, until it is closed. */
    int (*listen)(struct sl_database *db, sl_heard_f *heard, void *ctx,
                  struct sl_diag *diag);
};

extern const struct sl_driver sl_driver_sqlite;

/* `driver` NULL: SQLite, `where` is a path. */
SL_MUST_USE int sl_database_open(struct sl_database *db,
                                 const struct sl_driver *driver,
                                 const char *where,
                                 const struct sl_alloc *alloc,
                                 struct sl_diag *diag);
/* One that was never opened is allowed, if it is all zeros. */
void sl_database_close(struct sl_database *db);

/* Run a query that answers nothing: BEGIN, COMMIT, SAVEPOINT... */
SL_MUST_USE int sl_database_run(struct sl_database *db, enum sl_query query);

/* Statements without answers, parted by ';'. */
SL_MUST_USE int sl_database_script(struct sl_database *db, const char *sql);

/* Take back all that was not committed. */
void sl_database_rollback(struct sl_database *db);

/* Who is called `id`, or has it as an alias? */
SL_MUST_USE int sl_database_load(struct sl_database *db, struct sl_str scope,
                                 struct sl_str id, struct sl_subject_draft *ret,
                                 bool *ret_found);

/* The id of the next subject of `scope` behind `after`, in the order of their
 * bytes, that begins with `prefix`; an empty slice: there is none. */
SL_MUST_USE int sl_database_next(struct sl_database *db, struct sl_str scope,
                                 struct sl_str after, struct sl_str prefix,
                                 struct sl_str *ret_id);

/* Whose alias is it? An empty slice: nobody's. */
SL_MUST_USE int sl_database_alias(struct sl_database *db, struct sl_str scope,
                                  struct sl_str alias, struct sl_str *ret_id);

/* Put down that `old` (NULL: nobody) has become `new` (NULL: nobody), and who
 * did it. Sets new->revision. */
SL_MUST_USE int sl_database_store(struct sl_database *db,
                                  const struct sl_subject_draft *old,
                                  struct sl_subject_draft *new,
                                  struct sl_str by, sl_ns now);

/* The history of a subject, the newest first, as the items of a JSON array;
 * those before line `before` (0: all), `most` at the most. */
SL_MUST_USE int sl_database_audit(struct sl_database *db, struct sl_str scope,
                                  struct sl_str id, uint64_t before,
                                  unsigned most, struct sl_buf *out);

/* A feature switched by hand; `on` < 0 forgets it. */
SL_MUST_USE int sl_database_switch(struct sl_database *db, struct sl_str name,
                                   int on, struct sl_str by, sl_ns now);

/* ---- for audit.c, and the books ---- */

void sl_query_text(struct sl_database *db, enum sl_query query, int at,
                   struct sl_str text);
void sl_query_number(struct sl_database *db, enum sl_query query, int at,
                     int64_t number);

/* 1: a row; 0: no more; negative: an error. Reset it afterwards. */
SL_MUST_USE int sl_query_step(struct sl_database *db, enum sl_query query);
void sl_query_reset(struct sl_database *db, enum sl_query query);

/* A column of the row; it lives as long as the row. NULL is empty. */
struct sl_str sl_query_column(struct sl_database *db, enum sl_query query,
                              int column);
int64_t sl_query_integer(struct sl_database *db, enum sl_query query,
                         int column);
/* NULL is SL_NS_NONE. */
sl_ns sl_query_time(struct sl_database *db, enum sl_query query, int column);

/* The slot of a subject, among `slots`. */
void sl_slot_take(uint64_t *slots, struct sl_str scope, struct sl_str id);

/* Put down one line of history. */
SL_MUST_USE int sl_database_note(struct sl_database *db,
                                 const struct sl_subject_draft *old,
                                 const struct sl_subject_draft *new,
                                 struct sl_str by, sl_ns now,
                                 uint64_t *ret_line);

/* ---- inside the registry: the file, opened, and its tables.
 *
 * SQLite 3.40.1 may lose what was written when a WAL is reset while another
 * connection reads (the "WAL-reset bug"). There is one connection here, and it
 * locks the file for as long as it is open: no other process gets in, and no
 * shared memory is made.
 *
 * A file that several daemons of one machine are to share ("PATH?shared") has
 * no WAL, but a journal as of old: each of them locks it while it writes.
 */

#define SL_SCHEMA_SHARED "?shared"

/* Open the file at `path` (":memory:": none), or make it; check it, and bring
 * its tables up to date. SLUICE_ESTORE: it is locked by others, or of something
 * else; SLUICE_EDAMAGE; SLUICE_ENOMEM. The sentence says what to do. */
SL_MUST_USE int sl_schema_open(const char *path, sqlite3 **ret,
                               struct sl_diag *diag);

/* Bring a file from its version (PRAGMA user_version) to `count`: steps[i]
 * makes version i + 1 of version i. Each is done as a whole or not at all. A
 * file of a later version is refused. */
SL_MUST_USE int sl_schema_migrate(sqlite3 *db, const char *const *steps,
                                  int count, struct sl_diag *diag);

/* What SQLite says, as one of our errors, with a sentence: "PATH: ...". */
int sl_schema_error(sqlite3 *db, struct sl_diag *diag);

/* ---- inside the registry: its thread and what it works on. */

struct sl_registry {
    const struct sl_alloc *alloc;
    void (*on_fault)(void *ctx, const char *sentence);
    void (*on_switch)(void *ctx, struct sl_str name, int on);
    void *ctx;
    struct sl_hash_key secret;
    _Atomic uint64_t stamps[SL_REGISTRY_VERSIONS];
    _Atomic uint64_t reads, writes, commits, faults;
    _Atomic unsigned waiting;
    _Atomic bool has_any;
    struct sl_switched switches[SL_SWITCHES];
    unsigned switch_count;
    struct sl_arena names; /* of them */

    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t more;
    struct sl_job *first, **end;
    bool stop;

    /* The thread's own. */
    struct sl_database db;
    uint64_t touched[SL_REGISTRY_VERSIONS / 64]; /* stamps to be raised */
    struct sl_job *unheard; /* answers that could not be posted */
};

/* ---- carry.c: all on the registry's thread ---- */

/* A job that only reads. */
void sl_job_run_read(struct sl_registry *registry, struct sl_job *job);

/* Writes, as one transaction; then their stamps are raised. */
void sl_job_run_writes(struct sl_registry *registry, struct sl_job *first);

static inline bool sl_job_writes(const struct sl_job *job)
{
    return job->kind >= SL_JOB_WRITE;
}

/* Find out whether anybody is registered. */
SL_MUST_USE int sl_job_run_look(struct sl_registry *registry);

/* ---- share.c: with others who write to the same tables; nothing of it is done
 * where there are none ---- */

/* Find out which of the jobs were carried out by a transaction whose end was
 * not heard: job->is_done. */
SL_MUST_USE int sl_sharing_check_commit(struct sl_registry *registry,
                                        struct sl_job *first);

/* Within a transaction, first: keep others away from whom the jobs are about.
 * *ret_again: it is about more than was known; take it back and begin anew. */
SL_MUST_USE int sl_sharing_lock(struct sl_registry *registry,
                                struct sl_job *first, bool *ret_again);

/* COMMIT; if its answer is lost, find out. */
SL_MUST_USE int sl_sharing_commit(struct sl_registry *registry);

/* Hear what the others tell, from now on. */
SL_MUST_USE int sl_sharing_listen(struct sl_registry *registry,
                                  struct sl_diag *diag);

/* Tell the others what has changed, when it is committed. */
void sl_sharing_touch(struct sl_registry *registry, struct sl_str scope,
                      struct sl_str id);
void sl_sharing_touch_all(struct sl_registry *registry);
void sl_sharing_switch(struct sl_registry *registry, struct sl_str name,
                       int on);

/* Which stamp. */
unsigned sl_registry_version_of(const struct sl_registry *registry,
                                struct sl_str scope, struct sl_str id);

#endif
