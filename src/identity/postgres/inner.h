/* inner.h -- inside the driver: its connection, and what is known of the
 * transactions that were sent over it. */
#ifndef SL_PG_INNER_H
#define SL_PG_INNER_H

#include <stdatomic.h>

#include "identity/postgres/link.h"
#include "registry/registry_int.h"

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

#endif
