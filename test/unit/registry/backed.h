/* backed.h -- which database is behind the registry of a test: SQLite, or,
 * built with ON_POSTGRES, the PostgreSQL that the environment names. */
#ifndef SL_TEST_BACKED_H
#define SL_TEST_BACKED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef ON_POSTGRES
#include <libpq-fe.h>

#include "registry/pg.h"

#define BACKED_BY (&sl_driver_postgres)

static inline const char *backed_url(void)
{
    const char *url = getenv("SLUICE_TEST_POSTGRES");

    if (!url) {
        printf("Bail out! SLUICE_TEST_POSTGRES is not set\n");
        exit(1);
    }
    return url;
}

/* Run SQL by the side of the registry. */
static inline void backed_run(const char *sql)
{
    PGconn *conn = PQconnectdb(backed_url());
    PGresult *result = PQexec(conn, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK &&
        PQresultStatus(result) != PGRES_TUPLES_OK) {
        printf("Bail out! %s: %s\n", sql, PQerrorMessage(conn));
        exit(1);
    }
    PQclear(result);
    PQfinish(conn);
}

/* An empty place, at the address that is put into `path`. */
static inline void backed_begin(char *path, size_t size)
{
    snprintf(path, size, "%s", backed_url());
    backed_run("SET client_min_messages = error;"
               "DROP SCHEMA IF EXISTS sluice CASCADE");
}

/* Runs SQL as another program. */
static inline bool backed_fill(const char *path, const char *sql)
{
    (void)path;
    backed_run(sql);
    return true;
}
#else
#include <sqlite3.h>

#define BACKED_BY NULL

static inline void backed_begin(char *path, size_t size)
{
    (void)path;
    (void)size;
}

static inline bool backed_fill(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    bool good = sqlite3_open(path, &db) == SQLITE_OK &&
                sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;

    sqlite3_close(db);
    return good;
}
#endif

#endif
