/* sqlite.c -- the SQLite driver: opens, locks, checks and migrates the file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "registry/registry_int.h"

#define APPLICATION 0x536c7563 /* "Sluc", the application id of our files */

/* How long a reader (a backup) may lock the file. */
#define BUSY_MS 2000

#define PATH_MOST 4096

/* How integrity_check reports a lack of memory, which is not damage. */
#define NO_MEMORY "error code=7" /* SQLITE_NOMEM */

/* The SQL of each version. A released version is never edited: a change is one
 * more step. Times are ns since 1970; NULL is never. */
static const char *const steps[] = {
    "CREATE TABLE subjects(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " plan TEXT NOT NULL, expires INTEGER, note TEXT NOT NULL,"
    " author TEXT NOT NULL, updated INTEGER NOT NULL,"
    " revision INTEGER NOT NULL, PRIMARY KEY(scope, id))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE roles(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " role TEXT NOT NULL, PRIMARY KEY(scope, id, role))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE aliases(scope TEXT NOT NULL, alias TEXT NOT NULL,"
    " id TEXT NOT NULL, PRIMARY KEY(scope, alias)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX aliases_of ON aliases(scope, id);"
    "CREATE TABLE overrides(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " limit_name TEXT NOT NULL, rate TEXT NOT NULL, until INTEGER,"
    " author TEXT NOT NULL, note TEXT NOT NULL,"
    " PRIMARY KEY(scope, id, limit_name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE audit(seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " at INTEGER NOT NULL, author TEXT NOT NULL, scope TEXT NOT NULL,"
    " id TEXT NOT NULL, what TEXT NOT NULL, before TEXT, after TEXT) STRICT;"
    "CREATE INDEX audit_of ON audit(scope, id, seq);"
    "CREATE TABLE switches(name TEXT PRIMARY KEY, is_on INTEGER NOT NULL,"
    " author TEXT NOT NULL, at INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL)"
    " STRICT, WITHOUT ROWID;",

    /* Usage. Levels have the period 0. A month is 202611, a day counts from
     * 1970. */
    "CREATE TABLE usage_counters(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " limit_name TEXT NOT NULL, period_start INTEGER NOT NULL,"
    " used INTEGER NOT NULL, overage INTEGER NOT NULL,"
    " credited INTEGER NOT NULL, told INTEGER NOT NULL,"
    " updated INTEGER NOT NULL,"
    " PRIMARY KEY(scope, id, limit_name, period_start))"
    " STRICT, WITHOUT ROWID;"
    "CREATE TABLE usage_days(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " limit_name TEXT NOT NULL, day INTEGER NOT NULL,"
    " used INTEGER NOT NULL, overage INTEGER NOT NULL,"
    " PRIMARY KEY(scope, id, limit_name, day)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE usage_months(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " limit_name TEXT NOT NULL, month INTEGER NOT NULL,"
    " used INTEGER NOT NULL, overage INTEGER NOT NULL,"
    " PRIMARY KEY(scope, id, limit_name, month)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE usage_keys(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " key TEXT NOT NULL, limit_name TEXT NOT NULL,"
    " amount INTEGER NOT NULL, at INTEGER NOT NULL,"
    " UNIQUE(scope, id, key)) STRICT;"
    "CREATE INDEX usage_keys_at ON usage_keys(at);"
    "CREATE TABLE usage_things(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " limit_name TEXT NOT NULL, name TEXT NOT NULL,"
    " amount INTEGER NOT NULL, at INTEGER NOT NULL,"
    " PRIMARY KEY(scope, id, limit_name, name)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE usage_credits(seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " scope TEXT NOT NULL, id TEXT NOT NULL, limit_name TEXT NOT NULL,"
    " amount INTEGER NOT NULL, unused INTEGER NOT NULL, expires INTEGER,"
    " note TEXT NOT NULL, author TEXT NOT NULL, at INTEGER NOT NULL) STRICT;"
    "CREATE INDEX usage_credits_of ON usage_credits(scope, id, limit_name);",

    /* A key is for one report; NULL: unknown. Usage of holds ("ID:LIMIT") and
     * their owners until they end; without a scope: it has ended, and its owner
     * is not known yet. Refunds that the table has not applied. */
    "ALTER TABLE usage_keys ADD COLUMN name TEXT;"
    "CREATE TABLE usage_holds(hold TEXT PRIMARY KEY, scope TEXT, id TEXT,"
    " period_start INTEGER NOT NULL, amount INTEGER NOT NULL, cap INTEGER,"
    " expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE INDEX usage_holds_at ON usage_holds(expires);"
    "CREATE TABLE usage_owed(scope TEXT NOT NULL, id TEXT NOT NULL,"
    " limit_name TEXT NOT NULL, period_start INTEGER NOT NULL,"
    " units INTEGER NOT NULL,"
    " PRIMARY KEY(scope, id, limit_name, period_start))"
    " STRICT, WITHOUT ROWID;",

    /* Leases: units granted to nodes and not used yet. In a counter: to all
     * nodes, and the last grant. `base` is the count of the node's cell when
     * its lease began. */
    "ALTER TABLE usage_counters ADD COLUMN leased INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE usage_counters ADD COLUMN granted INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE usage_leases(node TEXT NOT NULL, scope TEXT NOT NULL,"
    " id TEXT NOT NULL, limit_name TEXT NOT NULL,"
    " period_start INTEGER NOT NULL, base INTEGER NOT NULL,"
    " spent INTEGER NOT NULL, leased INTEGER NOT NULL,"
    " since INTEGER NOT NULL, seen INTEGER NOT NULL,"
    " PRIMARY KEY(node, scope, id, limit_name, period_start))"
    " STRICT, WITHOUT ROWID;",

    /* The node whose table must apply the refund; '': any. */
    "ALTER TABLE usage_owed RENAME TO owed_before;"
    "CREATE TABLE usage_owed(node TEXT NOT NULL, scope TEXT NOT NULL,"
    " id TEXT NOT NULL, limit_name TEXT NOT NULL,"
    " period_start INTEGER NOT NULL, units INTEGER NOT NULL,"
    " PRIMARY KEY(node, scope, id, limit_name, period_start))"
    " STRICT, WITHOUT ROWID;"
    "INSERT INTO usage_owed SELECT '', scope, id, limit_name, period_start,"
    " units FROM owed_before;"
    "DROP TABLE owed_before;",

    /* Nodes with leases: when each was seen (one row, not one per lease), and
     * the random name of its current run. */
    "CREATE TABLE usage_nodes(node TEXT PRIMARY KEY, word TEXT NOT NULL,"
    " seen INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "INSERT INTO usage_nodes SELECT node, '', max(seen) FROM usage_leases"
    " GROUP BY node;"
    "ALTER TABLE usage_leases DROP COLUMN seen;",
};

/* ---- errors ---- */

int sl_schema_error(sqlite3 *db, struct sl_diag *diag)
{
    int code = sqlite3_errcode(db) & 0xff;
    const char *path = sqlite3_db_filename(db, NULL);
    int err = SLUICE_ESTORE;

    if (code == SQLITE_NOMEM)
        err = SLUICE_ENOMEM;
    else if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        err = SLUICE_EDAMAGE;
    return sl_diag_error(diag, err, "the registry %s: %s", path ? path : "",
                         sqlite3_errmsg(db));
}

static int refuse_locked(const char *path, struct sl_diag *diag)
{
    return sl_diag_error(
        diag, SLUICE_ESTORE,
        "another process uses the registry %s; stop it, or choose "
        "another file with --usage sqlite:PATH",
        path);
}

static int refuse_open(sqlite3 *db, const char *path, struct sl_diag *diag)
{
    int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;

    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return refuse_locked(path, diag);
    if (code == SQLITE_NOMEM)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return sl_diag_error(
            diag, SLUICE_EDAMAGE,
            "the registry %s is damaged (%s); restore a backup, "
            "or move the file away",
            path, sqlite3_errmsg(db));
    return sl_diag_error(
        diag, SLUICE_ESTORE,
        "cannot use the registry %s: %s; choose another file with "
        "--usage sqlite:PATH, or none with --usage none",
        path, sqlite3_errmsg(db));
}

/* ---- simple queries ---- */

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* Returns the first column of the first row as a number. */
static int ask_number(sqlite3 *db, const char *sql, int64_t *ret)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

/* Checks that the first row is `word`; otherwise it becomes the diagnostic. */
static int ask_word(sqlite3 *db, const char *sql, const char *word, bool *ret,
                    char said[128])
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    const unsigned char *text;

    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    if (code == SQLITE_ROW) {
        text = sqlite3_column_text(st, 0);
        *ret = text && strcmp((const char *)text, word) == 0;
        snprintf(said, 128, "%s", text ? (const char *)text : "");
    }
    sqlite3_finalize(st);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

/* ---- versions ---- */

/* Applies one step. Does nothing if another process was faster. */
static int take_step(sqlite3 *db, const char *sql, int64_t version)
{
    char mark[64];
    int64_t now = version;
    int code = run(db, "BEGIN IMMEDIATE");

    if (code == SQLITE_OK)
        code = ask_number(db, "PRAGMA user_version", &now);
    if (code != SQLITE_OK)
        return code;
    if (now > version)
        return run(db, "ROLLBACK");
    snprintf(mark, sizeof(mark), "PRAGMA user_version=%d", (int)version + 1);
    code = run(db, sql);
    if (code == SQLITE_OK)
        code = run(db, mark);
    if (code == SQLITE_OK)
        code = run(db, "COMMIT");
    return code;
}

/* Rolls back a step and keeps its error. */
static int give_up(sqlite3 *db, int version, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    int err = sl_schema_error(db, &why);

    if (!sqlite3_get_autocommit(db))
        run(db, "ROLLBACK");
    return sl_diag_error(diag, err, "the upgrade to version %d failed: %s",
                         version, why.sentence);
}

int sl_schema_migrate(sqlite3 *db, const char *const *list, int count,
                      struct sl_diag *diag)
{
    int64_t version = 0;

    if (ask_number(db, "PRAGMA user_version", &version) != SQLITE_OK)
        return sl_schema_error(db, diag);
    if (version > count)
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "the registry was written by a later version of sluiced (schema "
            "%lld, this version %d); use that version, or another file",
            (long long)version, count);
    while (version < count) {
        if (take_step(db, list[version], version) != SQLITE_OK)
            return give_up(db, (int)version + 1, diag);
        version++;
    }
    return 0;
}

/* ---- opening ---- */

static int refuse_stranger(const char *path, struct sl_diag *diag)
{
    return sl_diag_error(
        diag, SLUICE_ESTORE,
        "%s is a database of another program; choose another file "
        "with --usage sqlite:PATH",
        path);
}

/* SQLite's file format, 1.3 and 1.6: the first page has the header of the file,
 * then the root of the schema table. */
#define HEAD_BYTES     108
#define APPLICATION_AT 68
#define ROOT_KIND_AT   100
#define ROOT_CELLS_AT  103
#define ROOT_IS_LEAF   13

static uint32_t read_u32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 |
           (uint32_t)at[2] << 8 | at[3];
}

/* Returns whether the file belongs to another program. Reads it without SQLite,
 * because even locking may change the file. Unclear cases are left to
 * recognize(). */
static bool is_strange(int fd)
{
    unsigned char head[HEAD_BYTES];
    uint32_t application;
    bool is_empty;

    if (pread(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
        memcmp(head, "SQLite format 3", 16) != 0)
        return false;
    application = read_u32(head + APPLICATION_AT);
    is_empty = head[ROOT_KIND_AT] == ROOT_IS_LEAF && head[ROOT_CELLS_AT] == 0 &&
               head[ROOT_CELLS_AT + 1] == 0;
    return application != APPLICATION && (application != 0 || !is_empty);
}

/* The file has names and addresses of users: no access for other accounts. */
static int make_private(const char *path, struct sl_diag *diag)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool strange;

    if (fd < 0)
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "cannot write the registry %s: %s; choose another file with "
            "--usage sqlite:PATH, or none with --usage none",
            path, strerror(errno));
    strange = is_strange(fd);
    close(fd);
    return strange ? refuse_stranger(path, diag) : 0;
}

static int set_journal(sqlite3 *db, const char *path, struct sl_diag *diag)
{
    char said[128];
    bool is_wal = false;

    if (ask_word(db, "PRAGMA journal_mode=WAL", "wal", &is_wal, said) !=
        SQLITE_OK)
        return refuse_open(db, path, diag);
    if (!is_wal)
        return sl_diag_error(diag, SLUICE_ESTORE,
                             "the registry %s cannot have a write-ahead log "
                             "(journal \"%s\"); use a writable folder",
                             path, said);
    return 0;
}

/* The file is locked from here on while it is open, unless it is shared. */
static int lock(sqlite3 *db, bool in_memory, bool shared, const char *path,
                struct sl_diag *diag)
{
    int err = 0;

    sqlite3_busy_timeout(db, BUSY_MS);
    if (run(db, shared ? "PRAGMA journal_mode=TRUNCATE"
                       : "PRAGMA locking_mode=EXCLUSIVE") != SQLITE_OK ||
        run(db, "PRAGMA mmap_size=0;"
                "PRAGMA trusted_schema=OFF;"
                "PRAGMA cell_size_check=ON;"
                "PRAGMA temp_store=MEMORY;"
                "PRAGMA cache_size=-8192") != SQLITE_OK)
        return refuse_open(db, path, diag);
    if (!in_memory && !shared)
        err = set_journal(db, path, diag);
    if (!err && (run(db, "PRAGMA synchronous=FULL") != SQLITE_OK ||
                 (!shared && run(db, "BEGIN EXCLUSIVE; COMMIT") != SQLITE_OK)))
        err = refuse_open(db, path, diag);
    return err;
}

/* Checks that the file is ours, or new. */
static int recognize(sqlite3 *db, const char *path, struct sl_diag *diag)
{
    char mark[64];
    int64_t application = 0, tables = 0;

    if (ask_number(db, "PRAGMA application_id", &application) != SQLITE_OK ||
        ask_number(db, "SELECT count(*) FROM sqlite_schema", &tables) !=
            SQLITE_OK)
        return refuse_open(db, path, diag);
    if (application == APPLICATION)
        return 0;
    if (tables > 0 || application != 0)
        return refuse_stranger(path, diag);
    snprintf(mark, sizeof(mark), "PRAGMA application_id=%d", APPLICATION);
    return run(db, mark) == SQLITE_OK ? 0 : refuse_open(db, path, diag);
}

static int examine(sqlite3 *db, const char *path, struct sl_diag *diag)
{
    char said[128] = "";
    bool good = false;

    if (ask_word(db, "PRAGMA quick_check(1)", "ok", &good, said) != SQLITE_OK)
        return refuse_open(db, path, diag);
    if (!good && strstr(said, NO_MEMORY))
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    if (!good)
        return sl_diag_error(diag, SLUICE_EDAMAGE,
                             "the registry %s is damaged (%.80s); restore a "
                             "backup, or move the file away",
                             path, said);
    return 0;
}

static int open_file(const char *path, bool shared, sqlite3 **ret,
                     struct sl_diag *diag)
{
    bool in_memory = strcmp(path, ":memory:") == 0;
    sqlite3 *db = NULL;
    int err = in_memory ? 0 : make_private(path, diag);

    if (err)
        return err;
    if (sqlite3_open_v2(path, &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                        NULL) != SQLITE_OK)
        err = refuse_open(db, path, diag);
    if (!err)
        err = lock(db, in_memory, shared, path, diag);
    if (!err)
        err = recognize(db, path, diag);
    if (!err)
        err = examine(db, path, diag);
    if (!err)
        err = sl_schema_migrate(db, steps, (int)SL_LEN(steps), diag);
    if (err) {
        sqlite3_close(db);
        return err;
    }
    *ret = db;
    return 0;
}

int sl_schema_open(const char *path, sqlite3 **ret, struct sl_diag *diag)
{
    size_t len = strlen(path), tail = strlen(SL_SCHEMA_SHARED);
    char alone[PATH_MOST];

    if (len <= tail || strcmp(path + len - tail, SL_SCHEMA_SHARED) != 0)
        return open_file(path, false, ret, diag);
    if (len - tail >= sizeof(alone))
        return sl_diag_error(diag, SLUICE_ESTORE,
                             "the path %.64s... is too long", path);
    memcpy(alone, path, len - tail);
    alone[len - tail] = '\0';
    return open_file(alone, true, ret, diag);
}

/* ---- queries.
 *
 * The connection is the only one, so no write comes between two queries.
 */

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

/* ---- one query ---- */

static void bind(struct sl_database *db, enum sl_query query, int at,
                 const struct sl_str *text, int64_t number)
{
    /* A text that cannot be bound (too long, no memory) is NULL, which no text
     * column accepts and no comparison matches. */
    if (text)
        sqlite3_bind_text(statement(db, query), at, text->at ? text->at : "",
                          sl_str_int(text->len), SQLITE_STATIC);
    else
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
    sqlite3_reset(statement(db, query)); /* step() has reported the error */
    sqlite3_clear_bindings(statement(db, query));
}

static int sqlite_run(struct sl_database *db, enum sl_query query)
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

/* ---- the driver ---- */

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
    /* Empties the log into the file: on a full disk that may make room for the
     * next write. */
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

static int sqlite_open_file(struct sl_database *db, const char *where,
                            struct sl_diag *diag)
{
    struct file *f = sl_alloc_new(db->arena.alloc, sizeof(*f));
    int err;

    if (!f)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
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
    .open = sqlite_open_file,
    .close = close_file,
    .bind = bind,
    .step = step,
    .reset = reset,
    .run = sqlite_run,
    .column = read_text,
    .integer = read_integer,
    .script = script,
    .rollback = rollback,
};
