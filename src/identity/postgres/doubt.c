/* doubt.c -- how a transaction ended whose COMMIT was not answered.
 *
 * Who writes has a row of his own in `writers`, by a random word that is chosen
 * when he starts, and every transaction numbers it: if the row has the number,
 * the transaction was committed.
 *
 *     BEGIN, number ... something is answered ... COMMIT
 *
 * The number is the first that a transaction writes, and its COMMIT is not sent
 * before the server has answered something behind it: from then on the row is
 * locked until the transaction is over. So whoever reads the row with a lock
 * waits, also at a server that has not noticed that the connection is gone, and
 * for a COMMIT that is still on its way.
 *
 *     COMMIT sent, no answer --> doubtful --> the row could be read: known
 *                                  ^  |
 *                                  +--+ it could not: asked again
 *
 * As long as there is a doubt nothing is written: the next number would hide
 * the one in doubt. What was found is kept for those who come to ask
 * (SL_PG_UNHEARD of them; each costs a connection that is lost, and who asks
 * at all asks within a second).
 *
 * Numbers of PostgreSQL's own (pg_xact_status) would not do: after a crash it
 * may give the number of a transaction that it has lost to another.
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "identity/postgres/inner.h"

/* Rows of those who were killed, and will not come back. */
#define KEPT_FOR "30 days"

static const struct {
    const char *name, *sql;
} statements[] = {
    {"number",
     "INSERT INTO writers(word, mark) VALUES($1, CAST($2 AS bigint))"
     " ON CONFLICT(word) DO UPDATE SET mark = excluded.mark, at = now()"   },
    {"marked", "SELECT mark FROM writers WHERE word = $1 FOR UPDATE"       },
    {"forget",
     "DELETE FROM writers WHERE word IN (SELECT word FROM writers"
     " WHERE at < now() - interval '" KEPT_FOR "' AND word <> $1 LIMIT 100"
     " FOR UPDATE SKIP LOCKED)"                                            },
    {"enter",
     "INSERT INTO writers(word, mark) VALUES($1, 0) ON CONFLICT DO NOTHING"},
};

int sl_pg_sign_in(struct sl_pg_link *l)
{
    const struct sl_pg_store *s = l->ctx;
    struct sl_pg_params p = {.count = 1, .values = {s->word}};
    int err = 0;

    for (size_t i = 0; i < SL_LEN(statements) && !err; i++)
        err = sl_pg_prepare(l, statements[i].name, statements[i].sql);
    if (!err)
        err = sl_pg_push(l, "forget", NULL, &p);
    return err ? err : sl_pg_push(l, "enter", NULL, &p);
}

int sl_pg_number(struct sl_database *db)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    char number[24];
    struct sl_pg_params p = {
        .count = 2, .values = {s->word, number}
    };

    s->has_row = false;
    snprintf(number, sizeof(number), "%" PRIu64, ++s->number);
    return sl_pg_push(&s->link, "number", NULL, &p) ? sl_pg_fail(db) : 0;
}

/* A transaction that has asked nothing yet: has the server its number? */
static int await_row(struct sl_database *db)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    struct sl_pg_params p = {.count = 1, .values = {s->word}};
    PGresult *result = NULL;

    if (s->has_row)
        return 0;
    if (sl_pg_ask(&s->link, "marked", &p, false, false, &result))
        return sl_pg_fail(db);
    PQclear(result);
    return 0;
}

int sl_pg_commit(struct sl_database *db)
{
    static const struct sl_pg_params none;
    struct sl_pg_store *s = sl_pg_store_of(db);
    char name[16];
    PGresult *result = NULL;
    bool done;

    if (await_row(db))
        return SLUICE_ESTORE;
    snprintf(name, sizeof(name), "q%d", (int)SL_QUERY_COMMIT);
    s->link.was_lost = false;
    s->in_transaction = false;
    if (sl_pg_ask(&s->link, name, &none, true, false, &result)) {
        s->doubtful = s->link.was_lost ? s->number : 0;
        db->doubt = s->doubtful;
        return sl_pg_fail(db);
    }
    done = strcmp(PQcmdStatus(result), "COMMIT") == 0;
    PQclear(result);
    return done ? 0
                : sl_refuse(&db->diag, SLUICE_ESTORE,
                            "the registry at %s rolled back a transaction",
                            s->link.shown);
}

int sl_pg_clear_up(struct sl_database *db)
{
    struct sl_pg_store *s = sl_pg_store_of(db);
    struct sl_pg_params p = {.count = 1, .values = {s->word}};
    PGresult *result = NULL;
    uint64_t mark = 0;

    if (s->doubtful == 0)
        return 0;
    if (sl_pg_ask(&s->link, "marked", &p, true, false, &result))
        return sl_pg_fail(db);
    if (PQntuples(result) == 1)
        mark = strtoull(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    if (mark == s->doubtful)
        s->unheard[s->unheard_count++ % SL_PG_UNHEARD] = mark;
    s->doubtful = 0;
    return 0;
}

int sl_pg_outcome(struct sl_database *db, uint64_t number)
{
    struct sl_pg_store *s = sl_pg_store_of(db);

    if (sl_pg_need(&s->link, &db->diag) || sl_pg_clear_up(db))
        return SLUICE_ESTORE;
    for (unsigned i = 0; i < SL_PG_UNHEARD; i++)
        if (s->unheard[i] == number)
            return 1;
    return 0;
}
