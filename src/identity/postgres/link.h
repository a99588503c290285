/* link.h -- inside the driver: one connection to PostgreSQL, in pipeline mode.
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
#ifndef SL_PG_LINK_H
#define SL_PG_LINK_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/diag.h"
#include "identity/postgres/address.h"

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

#endif
