/* pg.h -- the registry in PostgreSQL.
 *
 * Several daemons share it. Before a transaction writes, it locks the slots of
 * all its subjects in ascending order, so that its reads stay valid until the
 * commit and there is no deadlock. Changes are sent to the others by NOTIFY.
 *
 * If the connection is lost during a COMMIT, the next connection looks up the
 * transaction by its number. Until its status is known, nothing is
 * acknowledged.
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

/* ---- the address of a PostgreSQL.
 *
 * Any URI that libpq reads. PGPASSWORD, ~/.pgpass, PGSSLMODE and the like
 * supply missing parts. Errors of libpq about a URI may quote the password, so
 * they are not shown.
 */

#define SL_PG_SHOWN 160

/* Checks a URI. Returns 0, SLUICE_ECONF with a sentence, or SLUICE_ENOMEM.
 * `shown` becomes "HOST:PORT/DATABASE", as far as the URI has them. */
SL_MUST_USE int sl_pg_url(const char *url, char shown[SL_PG_SHOWN],
                          struct sl_diag *diag);

/* ---- plans in tables of other programs.
 *
 * A subject is looked up in the registry first, for its aliases, roles,
 * overrides and credits. Then a query of the user is run for its plan and
 * expiry. If it has a row, these replace the plan of the registry.
 *
 *     loop       find --> registry --> on_found        on_asked --> done
 *     threads                            +--> query -------+
 *
 * Each of a few threads has its own read-only connection, so that the registry
 * does not wait for these queries, and a slow one delays only some of the
 * others. The server cancels a query after one second.
 *
 * A query that failed is prepared again on a new connection, once a second: the
 * table may have been altered.
 */

struct sl_pg_plan;

struct sl_pg_plan_options {
    const char *url; /* outlives this */
    struct sl_str sql;
    struct sl_str scope; /* the only scope of the query; "": by its parameters
                          */
    const struct sl_alloc *alloc;
    /* Called on one of the threads when a query has failed; or NULL. */
    void (*on_fault)(void *ctx, const char *sentence);
    /* Called once for each different mistake in a row, on any thread; or
     * NULL. */
    void (*on_mistake)(void *ctx, const char *sentence);
    /* Called on the loop of the job for each override of a row; or NULL.
     * Returns false with a sentence if no limit can have it. It stays in the
     * record, and on_mistake() is called. */
    bool (*fits)(void *ctx, const struct sl_subject_override *override,
                 struct sl_diag *diag);
    /* Returns the end of a day since 1970-01-01, the expiry of a date. On the
     * loop of the job. NULL: in UTC. */
    sl_ns (*day_end)(void *ctx, int64_t day);
    void *ctx;
    bool may_be_away; /* open it also if the server is away, or gets lost */
};

/* Runs the query once with a null id. Returns 0, SLUICE_ECONF (the query is
 * invalid) or SLUICE_ESTORE (no server), both with the server's sentence,
 * SLUICE_ENOMEM or SLUICE_ESYS. */
SL_MUST_USE int sl_pg_plan_open(const struct sl_pg_plan_options *options,
                                struct sl_pg_plan **ret, struct sl_diag *diag);

/* Like sl_registry_ask() of a SL_JOB_FIND; call it on the loop of the job. */
void sl_pg_plan_find(struct sl_pg_plan *plans, struct sl_registry *registry,
                     struct sl_job *job);

/* Ends the threads. Queued and later jobs fail. NULL and a second call are
 * allowed. */
void sl_pg_plan_stop(struct sl_pg_plan *plans);

/* Stops them first. NULL is allowed. */
void sl_pg_plan_close(struct sl_pg_plan *plans);

/* ---- one connection to PostgreSQL, in pipeline mode.
 *
 * Statements are sent without waiting for their results:
 *
 *     send ... send ... query --> sync --> results of the sends (errors are
 *                                          kept) --> result of the query
 *
 * so that a transaction waits once for each query and not for each statement.
 * Several queries can be sent before the first is waited for (collect).
 * Each query ends with a sync: from its answer on, the server knows that the
 * transaction is idle, and ends it after SL_PG_IDLE_MS if the client is stopped
 * or gone.
 *
 * While an answer is late, another connection asks the server about the first
 * one (pg_probe.c). If its backend waits for the client, or is gone, the
 * statement or its answer was lost: the connection is closed. An answer that
 * does not come within SL_PG_WAIT closes it in any case.
 *
 * A lost connection is opened again by the next call that needs it: at once the
 * first time, and then after a pause that doubles from PAUSE_MIN to PAUSE_MAX.
 * Until then all calls fail. The new connection first ends the backend of the
 * lost one, which may still have locks.
 */

#define SL_PG_SCHEMA "sluice" /* of our tables */

/* Shorter than SL_PG_WAIT, so that the server reports the reason. */
#define SL_PG_STATEMENT_MS 4000
#define SL_PG_LOCK_MS      2000
#define SL_PG_IDLE_MS      3000  /* in a transaction: the client was stopped */
#define SL_PG_TXN_MS       10000 /* a whole transaction; PostgreSQL 17 */
#define SL_PG_WAIT         (6 * SL_S)

/* While a connection is opened; libpq's shortest timeout. */
#define SL_PG_OPEN_WAIT (2 * SL_S)

struct pg_conn; /* libpq's PGconn and PGresult */
struct pg_result;

#define SL_PG_PARAMS 24

struct sl_pg_params {
    int count;
    const char *values[SL_PG_PARAMS]; /* NULL: null */
    int lengths[SL_PG_PARAMS];
    int formats[SL_PG_PARAMS]; /* 1: `lengths` bytes; 0: NUL-terminated */
    int binary;                /* 1: results in binary format */
};

#define SL_TEXT_OF(number) #number
#define SL_TEXT(number)    SL_TEXT_OF(number)

/* When a session began, in µs, of a row of pg_stat_activity. */
#define SL_PG_SINCE                                                            \
    "CAST(extract(epoch FROM backend_start) * 1000000 AS bigint)"

/* A session of the server. A process id alone may be used again. */
struct sl_pg_backend {
    char pid[12];   /* "": none */
    char since[24]; /* when it began, in µs */
};

struct sl_pg_probe;

struct sl_pg_conn {
    const char *url;
    char shown[SL_PG_SHOWN];
    const char *search_path; /* or NULL: the server's default */
    bool read_only;
    /* Prepares a new connection: tables, statements. Returns 0 or an error. */
    int (*on_open)(struct sl_pg_conn *link, struct sl_diag *diag);
    void *ctx;

    struct pg_conn *conn; /* NULL: not connected */
    sl_ns timeout;        /* for one result; SL_PG_WAIT */
    unsigned unread;
    bool synced;      /* a sync was sent and not read yet */
    bool failed;      /* a statement that was sent has failed: see diag */
    bool was_lost;    /* set by the calls below; the caller resets it */
    bool is_locked;   /* that statement has waited too long for a lock */
    bool temporary;   /* the last error since the connection was opened may
                       * pass by itself */
    bool was_refused; /* it was that of an attempt to connect */
    struct sl_diag diag;
    struct sl_pg_backend backend, lost; /* of this connection; of one before
                                         * that may still run */
    struct sl_pg_probe *probe;          /* or NULL */
    sl_ns pause, next_try;              /* monotonic */
    struct sl_clock clock;
};

/* `url` and the other fields above conn are set, the rest are zeros. */
void sl_pg_init(struct sl_pg_conn *link);
void sl_pg_close(struct sl_pg_conn *link);

/* Returns whether an error with this SQLSTATE may pass by itself: a connection,
 * a lock, a resource, a server that stops. `read_only`: the query of plans. Its
 * timeout, a write and too large temporary files are its own mistakes.
 * Otherwise they are temporary, because a server may be busy, or a standby. */
bool sl_pg_is_temporary(const char *code, bool read_only);

/* Returns the SQLSTATE within the message that libpq has made of a server's
 * refusal (PQERRORS_SQLSTATE); NULL: there is none. The severity before it is
 * in the server's language. */
const char *sl_pg_refusal_code(const char *message);

/* Checks the connection or opens a new one. Returns 0 or SLUICE_ESTORE with a
 * sentence. */
SL_MUST_USE int sl_pg_conn_ensure(struct sl_pg_conn *link,
                                  struct sl_diag *diag);

/* ---- within on_open ---- */

/* Runs any number of statements, before the pipeline begins; *ret is the result
 * of the last one. `ret` may be NULL. */
SL_MUST_USE int sl_pg_exec(struct sl_pg_conn *link, const char *sql,
                           struct pg_result **ret, struct sl_diag *diag);

/* Begins the pipeline. */
SL_MUST_USE int sl_pg_pipeline(struct sl_pg_conn *link, struct sl_diag *diag);

/* Prepare a statement; when all are sent, check their results. */
SL_MUST_USE int sl_pg_prepare(struct sl_pg_conn *link, const char *name,
                              const char *sql);
SL_MUST_USE int sl_pg_settle(struct sl_pg_conn *link, struct sl_diag *diag);

/* Describes a prepared statement; within the pipeline. */
SL_MUST_USE int sl_pg_describe(struct sl_pg_conn *link, const char *name,
                               struct pg_result **ret);

/* ---- the pipeline ---- */

/* Sends a statement (prepared, if `name`; else `sql`). Its error is reported by
 * the next query. */
SL_MUST_USE int sl_pg_conn_send(struct sl_pg_conn *link, const char *name,
                                const char *sql,
                                const struct sl_pg_params *params);

/* Waits for the results of the last `count` statements, and all before them.
 * On failure *ret is unchanged. */
SL_MUST_USE int sl_pg_conn_collect(struct sl_pg_conn *link, unsigned count,
                                   struct pg_result **ret);

/* Sends a query and waits for its result and all before it. `last`: it ends a
 * transaction, or is one. `by_row`: *ret is the first row (PGRES_SINGLE_TUPLE),
 * and sl_pg_conn_next() returns the others. On failure *ret is unchanged. */
SL_MUST_USE int sl_pg_conn_query(struct sl_pg_conn *link, const char *name,
                                 const struct sl_pg_params *params, bool last,
                                 bool by_row, struct pg_result **ret);
SL_MUST_USE int sl_pg_conn_next(struct sl_pg_conn *link,
                                struct pg_result **ret);

/* Reads all outstanding results and rolls back. Drops the connection if that
 * fails. */
void sl_pg_conn_rollback(struct sl_pg_conn *link);

/* Closes a broken connection. */
void sl_pg_conn_drop(struct sl_pg_conn *link);

/* Monotonic time. */
sl_ns sl_pg_now(const struct sl_pg_conn *link);

/* ---- pg_probe.c: is a connection lost whose answer is late? ---- */

/* When the first probe of an answer begins. */
#define SL_PG_PROBE_AFTER (500 * SL_MS)

/* Begins a probe of the connection; NULL: not possible. */
struct sl_pg_probe *sl_pg_probe_new(const struct sl_pg_conn *link);

/* NULL is allowed. */
void sl_pg_probe_free(struct sl_pg_probe *probe);

/* What to poll() for. */
struct pollfd;
void sl_pg_probe_poll(const struct sl_pg_probe *probe, struct pollfd *ret);

enum sl_pg_probe_result {
    SL_PG_PROBE_GOES_ON,
    SL_PG_PROBE_LOST,    /* the backend waits for the client, or is gone */
    SL_PG_PROBE_WORKING, /* it works on a statement */
    SL_PG_PROBE_UNKNOWN, /* the server cannot be asked */
};

/* Goes on after poll(). */
enum sl_pg_probe_result sl_pg_probe_step(struct sl_pg_probe *probe, sl_ns now);

/* ---- pg_notify.c: notifications of other daemons ---- */

struct sl_pg_notifier;

struct sl_pg_notifier_options {
    const char *url;        /* outlives it */
    const _Atomic int *own; /* our own backend: what it sends is ignored */
    sl_notified_f *heard;   /* called on a thread of its own */
    void *ctx;
    const struct sl_alloc *alloc;
};

/* Starts the thread, which connects by itself. On failure *ret is unchanged. */
SL_MUST_USE int
sl_pg_notifier_open(const struct sl_pg_notifier_options *options,
                    struct sl_pg_notifier **ret, struct sl_diag *diag);

/* Ends the thread. NULL is allowed. */
void sl_pg_notifier_close(struct sl_pg_notifier *notifier);

/* ---- any bytes as a text of PostgreSQL.
 *
 * Ids of subjects are any bytes; a text of PostgreSQL is UTF-8 without NUL.
 * Bytes that are not UTF-8, NUL, and the escape itself (ESC, 0x1b) become ESC
 * and two hexadecimal digits. The rest stays readable. One bad byte would
 * otherwise fail its transaction at every retry.
 *
 * An index holds 2,704 bytes of a row. An id longer than SL_PG_ID is replaced
 * by its SHA-256: ESC, '#', 64 digits. It counts exactly, but cannot be read
 * back.
 *
 * Invariants (test/unit/registry/postgres/escape.c).
 *   (1) Any input gives a text that can be stored.
 *   (2) Different inputs give different texts.
 *   (3) An escaped text is read back unchanged, unless it was too long.
 */

#define SL_PG_ID 1600 /* bytes, escaped */

/* Returns the text itself if it needs no escape, or a copy in the arena.
 * `is_id`: shorten it. Returns false without memory. */
SL_MUST_USE bool sl_pg_escape(struct sl_arena *arena, struct sl_str text,
                              bool is_id, struct sl_str *ret);

/* Reverses sl_pg_escape(). */
SL_MUST_USE bool sl_pg_unescape(struct sl_arena *arena, struct sl_str text,
                                struct sl_str *ret);

/* ---- parameters and columns of the plan query.
 *
 *     SELECT plan, expires, overrides FROM accounts WHERE id = $1
 *            |     |        |                              |
 *            |     |        json, jsonb, text, varchar     text, varchar, char,
 *            |     timestamptz, timestamp, date            uuid, smallint,
 *            text, varchar, char, name                     integer, bigint
 *
 * Other types need `::text`: an unknown type may treat two spellings of an id
 * as equal, and each would have its own allowance. For the same reason a number
 * has one spelling: "07" and "+7" are unknown.
 *
 * Results are in PostgreSQL's binary format, which no setting changes. A
 * timestamp without a zone is UTC, a date is its first instant.
 */

struct pg_result;

/* Type OIDs of PostgreSQL. */
enum sl_pg_type {
    SL_PG_NAME = 19,
    SL_PG_INT8 = 20,
    SL_PG_INT2 = 21,
    SL_PG_INT4 = 23,
    SL_PG_TEXT = 25,
    SL_PG_JSON = 114,
    SL_PG_CHAR = 1042,
    SL_PG_VARCHAR = 1043,
    SL_PG_DATE = 1082,
    SL_PG_TIMESTAMP = 1114,
    SL_PG_TIMESTAMPTZ = 1184,
    SL_PG_UUID = 2950,
    SL_PG_JSONB = 3802,
};

struct sl_pg_plan_shape {
    int params;                   /* 1, or 2 with the scope */
    unsigned id_type;             /* of $1 */
    int plan, expires, overrides; /* columns; all but the first may be -1 */
    unsigned plan_type, expires_type, overrides_type;
};

struct sl_pg_row {
    bool known; /* false: no row */
    size_t plan_len;
    char plan[SL_SUBJECT_RECORD_NAME];
    sl_ns expires; /* SL_NS_NONE: never */
    bool is_date;  /* `expires` is the first instant of its last day, UTC */
    struct sl_str overrides; /* in the result; "": none */
};

/* Reads the description of a statement. Returns 0 or SLUICE_ECONF with a
 * sentence. */
SL_MUST_USE int sl_pg_plan_shape(const struct pg_result *described,
                                 struct sl_pg_plan_shape *ret,
                                 struct sl_diag *diag);

/* Returns whether a column of the type can hold the id. */
bool sl_pg_can_be(unsigned type, struct sl_str id);

/* Reads an instant in binary format. Times before 1970 are 0; times after
 * SL_TIME_END are never. Returns SLUICE_ESTORE if it is invalid. */
SL_MUST_USE int sl_pg_instant(unsigned type, struct sl_str bytes, sl_ns *ret);

/* Reads the only row, or none. Returns 0 or SLUICE_ESTORE with a sentence. */
SL_MUST_USE int sl_pg_row(const struct pg_result *result,
                          const struct sl_pg_plan_shape *shape,
                          struct sl_pg_row *ret, struct sl_diag *diag);

#define SL_PG_OVERRIDES 8192 /* bytes */

/* Adds the overrides of a row to the draft, after those of the registry: a JSON
 * object {limit: rate}, a rate as a policy writes it or a whole number; null is
 * none. Texts lie in `json` or in the arena. If it is invalid, adds nothing and
 * returns SLUICE_ESTORE with a sentence, or SLUICE_ENOMEM. */
SL_MUST_USE int sl_pg_overrides(struct sl_str json, struct sl_arena *arena,
                                struct sl_subject_draft *draft,
                                struct sl_diag *diag);

#endif
