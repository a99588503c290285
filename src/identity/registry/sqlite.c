/* sqlite.c -- the questions of the registry, asked of a file of SQLite.
 *
 * Nobody else has the file (schema.h), so that nothing comes between two
 * questions.
 */
#include <string.h>

#include "identity/registry/database.h"
#include "identity/registry/schema.h"

struct file {
    sqlite3 *db;
    sqlite3_stmt *queries[SL_QUERIES];
};

static struct file *file_of(const struct sl_database *db)
{
    return db->conn;
}

static sqlite3_stmt *statement(const struct sl_database *db,
                               enum sl_query query)
{
    return file_of(db)->queries[query];
}

/* ---- one question ---- */

static void bind_text(struct sl_database *db, enum sl_query query, int at,
                      struct sl_str text)
{
    /* A text that can't be bound (too long, no memory) is NULL, which no
     * column that has a text accepts and no comparison finds. */
    sqlite3_bind_text(statement(db, query), at, text.at ? text.at : "",
                      sl_str_int(text.len), SQLITE_STATIC);
}

static void bind_number(struct sl_database *db, enum sl_query query, int at,
                        int64_t number)
{
    sqlite3_bind_int64(statement(db, query), at, number);
}

static int step(struct sl_database *db, enum sl_query query)
{
    int code = sqlite3_step(statement(db, query));

    if (code == SQLITE_ROW)
        return 1;
    return code == SQLITE_DONE ? 0
                               : sl_schema_error(file_of(db)->db, &db->diag);
}

static void reset(struct sl_database *db, enum sl_query query)
{
    sqlite3_reset(statement(db, query)); /* its error was told by the step */
    sqlite3_clear_bindings(statement(db, query));
}

static int run(struct sl_database *db, enum sl_query query)
{
    int err = step(db, query);

    reset(db, query);
    return err < 0 ? err : 0;
}

static bool read_text(struct sl_database *db, enum sl_query query, int column,
                      struct sl_str *ret)
{
    sqlite3_stmt *st = statement(db, query);
    const void *at;

    if (sqlite3_column_type(st, column) == SQLITE_NULL)
        return false;
    at = sqlite3_column_blob(st, column);
    *ret = (struct sl_str){at ? at : "",
                           at ? (size_t)sqlite3_column_bytes(st, column) : 0};
    return true;
}

static int64_t read_integer(struct sl_database *db, enum sl_query query,
                            int column)
{
    return sqlite3_column_int64(statement(db, query), column);
}

/* ---- all of it ---- */

static int script(struct sl_database *db, const char *sql)
{
    struct file *f = file_of(db);

    return sqlite3_exec(f->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : sl_schema_error(f->db, &db->diag);
}

static void rollback(struct sl_database *db)
{
    struct file *f = file_of(db);

    if (!sqlite3_get_autocommit(f->db))
        sqlite3_exec(f->db, "ROLLBACK", NULL, NULL, NULL);
    /* What the log holds is moved to the file, so that the log can begin anew:
     * on a full disk there may be room for the next write then. */
    sqlite3_wal_checkpoint_v2(f->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL,
                              NULL);
}

static void end(struct sl_database *db, struct file *f)
{
    for (int i = 0; i < SL_QUERIES; i++)
        sqlite3_finalize(f->queries[i]);
    sqlite3_close(f->db);
    sl_alloc_free(db->arena.alloc, f, sizeof(*f));
}

static void close_file(struct sl_database *db)
{
    end(db, db->conn);
    db->conn = NULL;
}

static int prepare(struct file *f, struct sl_diag *diag)
{
    for (int i = 0; i < SL_QUERIES; i++)
        if (sqlite3_prepare_v3(f->db, sl_queries[i], -1,
                               SQLITE_PREPARE_PERSISTENT, &f->queries[i],
                               NULL) != SQLITE_OK)
            return sl_schema_error(f->db, diag);
    return 0;
}

static int open_file(struct sl_database *db, const char *where,
                     struct sl_diag *diag)
{
    struct file *f = sl_alloc_new(db->arena.alloc, sizeof(*f));
    int err;

    if (!f)
        return sl_refuse(diag, SLUICE_ENOMEM, "out of memory");
    memset(f, 0, sizeof(*f));
    err = sl_schema_open(where, &f->db, diag);
    if (!err)
        err = prepare(f, diag);
    if (err)
        end(db, f);
    else
        db->conn = f;
    return err;
}

const struct sl_driver sl_driver_sqlite = {
    .open = open_file,
    .close = close_file,
    .text = bind_text,
    .number = bind_number,
    .step = step,
    .reset = reset,
    .run = run,
    .column = read_text,
    .integer = read_integer,
    .script = script,
    .rollback = rollback,
};
