/* pg.h -- the registry in PostgreSQL: the address of one for
 * sl_registry_open().
 *
 * Several daemons share it. Before a transaction writes, it locks the slots of
 * all whom it is about, in their order, so that what it reads stays so until it
 * is committed and no two wait for each other. Every change is told to the
 * others by NOTIFY.
 *
 * If the connection is lost while a transaction is committed, its outcome is
 * asked for by its number on the next connection. As long as that is not
 * possible it is not known, and nothing is acknowledged.
 */
#ifndef SL_REGISTRY_PG_H
#define SL_REGISTRY_PG_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/str.h"
#include "registry/registry.h"
#include "registry/registry_int.h"

struct sl_driver;
extern const struct sl_driver sl_driver_postgres;

/* ---- the address of a PostgreSQL: checked, and shown without its
 * secrets.
 *
 * It is whatever libpq reads as a URI; PGPASSWORD, ~/.pgpass, PGSSLMODE and the
 * like fill in what it does not say. A password never leaves it: the sentences
 * of libpq about a URI that can't be read may quote it, so they are not passed
 * on.
 */

#define SL_PG_SHOWN 160

/* Can it be read? SLUICE_ECONF with what to write; SLUICE_ENOMEM. `shown`
 * becomes "HOST:PORT/DATABASE", as far as the address says it. */
SL_MUST_USE int sl_pg_url(const char *url, char shown[SL_PG_SHOWN],
                          struct sl_diag *diag);

/* ---- plans that stand in tables of others.
 *
 * Whoever is looked for is looked for in the registry first, which knows
 * aliases, roles, overrides and credits; then a statement of the user's is
 * asked for his plan and its end. If it has a row of him, these count, and
 * whatever plan the registry has does not.
 *
 *     loop       find --> registry --> on_found        on_asked --> done
 *     threads                            +--> ask a seat --+
 *
 * Each of a few threads has a connection of its own, which can only read: the
 * books do not wait for what others ask, and one slow answer delays a part of
 * the others only. The server gives up after a second.
 *
 * A statement that failed is prepared anew on another connection, once a
 * second: the table may have been altered.
 */

struct sl_pg_plan; /* opaque */

struct sl_pg_plan_options {
    const char *url; /* outlives this */
    struct sl_str sql;
    struct sl_str scope; /* the one that is asked about; "": as it is written */
    const struct sl_alloc *alloc;
    /* On one of the threads, when it has failed; or NULL. */
    void (*on_fault)(void *ctx, const char *sentence);
    void *ctx;
};

/* Asks once, for nobody. SLUICE_ECONF: it can't be asked; SLUICE_ESTORE: there
 * is no server; both with the server's sentence. SLUICE_ENOMEM, SLUICE_ESYS. */
SL_MUST_USE int sl_pg_plan_open(const struct sl_pg_plan_options *options,
                                struct sl_pg_plan **ret, struct sl_diag *diag);

/* As sl_registry_ask() of a SL_JOB_FIND, on the loop of the job. */
void sl_pg_plan_find(struct sl_pg_plan *plans, struct sl_registry *registry,
                     struct sl_job *job);

/* End the threads. What is queued has failed, and so has what comes. NULL is
 * allowed; twice too. */
void sl_pg_plan_stop(struct sl_pg_plan *plans);

/* Stops them first. NULL is allowed. */
void sl_pg_plan_close(struct sl_pg_plan *plans);

/* ---- inside the driver: one connection to PostgreSQL, in pipeline mode.
 *
 * Statements are sent without waiting for their answers:
 *
 *     push ... push ... ask --> flush --> answers of those pushed (errors are
 *                                         kept) --> the answer of the one asked
 *
 * so that a transaction waits once for each question and not for each
 * statement. Nothing waits without an end: whatever does not come within
 * SL_PG_WAIT makes the connection a lost one.
 *
 * A lost connection is opened again by the next who needs it, at once the first
 * time, and then no sooner than a pause that doubles from PAUSE_MIN to
 * PAUSE_MAX; until then everything fails.
 */

/* The server gives up a statement first, so that it says why. */
#define SL_PG_STATEMENT_MS 4000
#define SL_PG_LOCK_MS      2000
#define SL_PG_IDLE_MS      10000 /* in a transaction: somebody was stopped */
#define SL_PG_WAIT         (6 * SL_S)

struct pg_conn; /* libpq's PGconn and PGresult */
struct pg_result;

struct sl_pg_params {
    int count;
    const char *values[12]; /* NULL: null */
    int lengths[12];
    int formats[12]; /* 1: bytes of `lengths`; 0: a text that ends in NUL */
    int binary;      /* 1: the answer's columns are bytes */
};

struct sl_pg_conn {
    const char *url;
    char shown[SL_PG_SHOWN];
    const char *search_path; /* or NULL: as the server has it */
    bool read_only;
    /* Gets a fresh connection ready: tables, statements. 0, or an error. */
    int (*on_open)(struct sl_pg_conn *link, struct sl_diag *diag);
    void *ctx;

    struct pg_conn *conn; /* NULL: there is none */
    sl_ns patience;       /* with one answer; SL_PG_WAIT */
    unsigned unread;
    bool synced;   /* a sync was sent that was not read */
    bool failed;   /* something that was pushed has failed: see diag */
    bool was_lost; /* by one of the calls below; the caller resets it */
    struct sl_diag diag;
    sl_ns pause, next_try; /* steady */
    struct sl_clock clock;
};

/* `url` and the rest of what is above conn are set, the others are zeros. */
void sl_pg_init(struct sl_pg_conn *link);
void sl_pg_close(struct sl_pg_conn *link);

/* A connection that works as far as we can see, an old one or a new one.
 * SLUICE_ESTORE with a sentence. */
SL_MUST_USE int sl_pg_conn_ensure(struct sl_pg_conn *link,
                                  struct sl_diag *diag);

/* ---- within on_open ---- */

/* Run a text of any number of statements, before the pipeline; *ret is the
 * answer of the last one, or ret is NULL. */
SL_MUST_USE int sl_pg_exec(struct sl_pg_conn *link, const char *sql,
                           struct pg_result **ret, struct sl_diag *diag);

/* Begin the pipeline. */
SL_MUST_USE int sl_pg_pipeline(struct sl_pg_conn *link, struct sl_diag *diag);

/* Prepare a statement, and when all are sent, hear whether they are. */
SL_MUST_USE int sl_pg_prepare(struct sl_pg_conn *link, const char *name,
                              const char *sql);
SL_MUST_USE int sl_pg_settle(struct sl_pg_conn *link, struct sl_diag *diag);

/* What a prepared statement takes and answers; within the pipeline. */
SL_MUST_USE int sl_pg_describe(struct sl_pg_conn *link, const char *name,
                               struct pg_result **ret);

/* ---- the pipeline ---- */

/* Send a statement (prepared, if `name`; else `sql`) whose answer matters only
 * if it is an error: that is told by the next ask. */
SL_MUST_USE int sl_pg_conn_send(struct sl_pg_conn *link, const char *name,
                                const char *sql,
                                const struct sl_pg_params *params);

/* Send a question and wait for its answer, and all before it. `last`: it is the
 * end of a transaction, or stands alone; `by_row`: the answer is its first row
 * (PGRES_SINGLE_TUPLE), and sl_pg_conn_next() has the others. On failure *ret
 * is untouched. */
SL_MUST_USE int sl_pg_conn_query(struct sl_pg_conn *link, const char *name,
                                 const struct sl_pg_params *params, bool last,
                                 bool by_row, struct pg_result **ret);
SL_MUST_USE int sl_pg_conn_next(struct sl_pg_conn *link,
                                struct pg_result **ret);

/* Read away whatever is still to come, and take back what is not committed. A
 * connection that can't is lost. */
void sl_pg_conn_rollback(struct sl_pg_conn *link);

/* It is of no use any more. */
void sl_pg_conn_drop(struct sl_pg_conn *link);

/* Steady time. */
sl_ns sl_pg_now(const struct sl_pg_conn *link);

/* ---- inside the driver: the tables, made and brought up to date.
 *
 * They lie in a schema of their own, SL_PG_SCHEMA, beside whatever else the
 * database has. Whoever comes first makes them, under a lock, so that daemons
 * that start at once do not meet; each version is a step that is done as a
 * whole or not at all.
 */

#define SL_PG_SCHEMA "sluice"

/* SLUICE_ESTORE with what to do. Before the pipeline begins. */
SL_MUST_USE int sl_pg_schema(struct sl_pg_conn *link, struct sl_diag *diag);

/* Bring the tables to version `count`: steps[i] makes version i + 1 of version
 * i. Those of a later version are refused. */
SL_MUST_USE int sl_pg_migrate(struct sl_pg_conn *link, const char *const *steps,
                              int count, struct sl_diag *diag);

/* ---- inside the driver: its connection, and what is known of the
 * transactions that were sent over it. */

#define SL_PG_PARAMS  12
#define SL_PG_UNHEARD 256

/* A statement that is about to be sent. */
struct sl_pg_bound {
    struct sl_pg_params params;
    char numbers[SL_PG_PARAMS][24];
};

struct sl_pg_store {
    struct sl_pg_conn link;
    struct sl_pg_notify *listener; /* or NULL */
    _Atomic int served_by;         /* the process at the server */
    bool in_transaction;
    bool has_row;      /* the server has answered behind its number */
    uint64_t number;   /* of the last transaction that was begun */
    uint64_t doubtful; /* it was sent and not answered; 0: there is none */
    uint64_t unheard[SL_PG_UNHEARD]; /* were committed, as was found later */
    unsigned unheard_count;          /* of all times */
    char word[20];                   /* who writes */
    int counts[SL_QUERIES];          /* of parameters */
    struct sl_pg_bound bound[SL_QUERIES];
    struct pg_result *results[SL_QUERIES];
    int rows[SL_QUERIES]; /* where each stands in its answer */
    char url[];
};

static inline struct sl_pg_store *sl_pg_store_of(const struct sl_database *db)
{
    return db->conn;
}

static inline int sl_pg_fail(struct sl_database *db)
{
    db->diag = sl_pg_store_of(db)->link.diag;
    return SLUICE_ESTORE;
}

/* ---- doubt.c ---- */

/* On a fresh connection, within its pipeline: what the calls below need. */
SL_MUST_USE int sl_pg_commit_register(struct sl_pg_conn *link);

/* Right behind BEGIN: the transaction has its number, and with it the row. */
SL_MUST_USE int sl_pg_commit_begin(struct sl_database *db);

/* End a transaction; db->doubt is its number if nobody knows how it ended. */
SL_MUST_USE int sl_pg_commit(struct sl_database *db);

/* Before anything is written: how did the last one end? */
SL_MUST_USE int sl_pg_commit_resolve(struct sl_database *db);

/* Was it committed? 1, 0, or an error: it is not known. */
SL_MUST_USE int sl_pg_commit_status(struct sl_database *db, uint64_t number);

/* ---- inside the driver: what other daemons have changed.
 *
 * A thread with a connection of its own LISTENs to what they NOTIFY. Whenever
 * it has (again) a connection, something may have been missed: the listener
 * then says so by an empty message, and says how every feature is switched.
 */

struct sl_pg_notify;

struct sl_pg_notify_options {
    const char *url; /* borrowed for its life */
    const struct sl_alloc *alloc;
    const _Atomic int *own; /* the process that serves us: it is not heard */
    sl_heard_f *heard;      /* on the listener's thread */
    void *ctx;
};

/* SLUICE_ENOMEM, SLUICE_ESYS. A server that is away is waited for. */
SL_MUST_USE int sl_pg_notify_open(const struct sl_pg_notify_options *options,
                                  struct sl_pg_notify **ret,
                                  struct sl_diag *diag);

/* Ends the thread. NULL is allowed. */
void sl_pg_notify_close(struct sl_pg_notify *listener);

/* ---- inside the driver: any bytes as a text of PostgreSQL.
 *
 * Names of subjects are whatever their callers sent; a text of PostgreSQL is
 * UTF-8 without NUL. What is no UTF-8, NUL, and the escape itself (ESC, 0x1b)
 * become ESC and two hexadecimal digits; all else stays as it is, so that
 * tables can be read by people. One bad byte must not fail the transaction that
 * it is in, for it would fail again whenever it is tried.
 *
 * An index holds 2,704 bytes of a row. A name that is longer than SL_PG_ID is
 * known by its SHA-256 instead: ESC, '#', 64 digits. It is counted as exactly,
 * and can't be read back.
 *
 * Invariants (test/unit/identity/postgres/escape.c).
 *   (1) What is written can be stored, whatever it was.
 *   (2) Different texts stay different.
 *   (3) What was escaped is read back as it was, unless it was too long.
 */

#define SL_PG_ID 1600 /* bytes, escaped */

/* The text as it is, if it may stay so; else a copy in the arena. `is_id`: keep
 * it short. False: there is no memory. */
SL_MUST_USE bool sl_pg_escape(struct sl_arena *arena, struct sl_str text,
                              bool is_id, struct sl_str *ret);

/* And back. */
SL_MUST_USE bool sl_pg_unescape(struct sl_arena *arena, struct sl_str text,
                                struct sl_str *ret);

/* ---- what a question of others is about, and what it answers.
 *
 *     SELECT plan, expires FROM accounts WHERE id = $1
 *            |     |                              |
 *            |     timestamptz, timestamp, date   text, varchar, char, uuid,
 *            text, varchar, char, name            smallint, integer, bigint
 *
 * Texts of other types are written `::text`: a type that we do not know may
 * take two spellings of an id for the same, and each would have an allowance of
 * its own. For the same reason a number is asked for in its one spelling only:
 * "07" and "+7" are nobody.
 *
 * Answers come in PostgreSQL's binary form, which no setting changes. A
 * timestamp without a zone is UTC, a date is its first instant.
 */

struct pg_result;

/* Types, by the numbers that PostgreSQL has for them. */
enum sl_pg_type {
    SL_PG_NAME = 19,
    SL_PG_INT8 = 20,
    SL_PG_INT2 = 21,
    SL_PG_INT4 = 23,
    SL_PG_TEXT = 25,
    SL_PG_CHAR = 1042,
    SL_PG_VARCHAR = 1043,
    SL_PG_DATE = 1082,
    SL_PG_TIMESTAMP = 1114,
    SL_PG_TIMESTAMPTZ = 1184,
    SL_PG_UUID = 2950,
};

struct sl_pg_plan_shape {
    int params;        /* 1, or 2 with the scope */
    unsigned id_type;  /* of $1 */
    int plan, expires; /* columns; the second may be -1 */
    unsigned plan_type, expires_type;
};

struct sl_pg_row {
    bool known; /* false: there was none */
    size_t plan_len;
    char plan[SL_SUBJECT_RECORD_NAME];
    sl_ns expires; /* SL_NS_NONE: never */
};

/* Of a statement that was described. SLUICE_ECONF with what to write. */
SL_MUST_USE int sl_pg_plan_shape(const struct pg_result *described,
                                 struct sl_pg_plan_shape *ret,
                                 struct sl_diag *diag);

/* Can anybody be called that in a column of the type? */
bool sl_pg_can_be(unsigned type, struct sl_str id);

/* An instant in binary form; 0 is any of the time before 1970, and what lies
 * behind the end of our time never comes. SLUICE_ESTORE: it is none. */
SL_MUST_USE int sl_pg_instant(unsigned type, struct sl_str bytes, sl_ns *ret);

/* The one row, or none. SLUICE_ESTORE with a sentence. */
SL_MUST_USE int sl_pg_row(const struct pg_result *result,
                          const struct sl_pg_plan_shape *shape,
                          struct sl_pg_row *ret, struct sl_diag *diag);

#endif
