/* sqlite.c -- the SQLite driver: opens, locks, checks and migrates the file.
 *
 * SQLite 3.40.1 may lose writes when a WAL is reset while another connection
 * reads (the "WAL-reset bug"). There is one connection here, and it locks the
 * file while it is open: no other process can open it, no shared memory is
 * used, and no write comes between two queries.
 *
 * A file shared by several daemons of one machine ("PATH?shared") uses a
 * rollback journal instead of a WAL. Each daemon locks it while it writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "registry/registry_int.h"

#define APPLICATION 0x536c7563 /* "Sluc", the application id of our files */

/* How long another process may lock the file: a daemon that shares it, or a
 * backup. The process that has it may be stopped. Then the jobs behind the one
 * that has waited do not wait, too, until a transaction begins again. */
#define BUSY_MS       1000
#define BUSY_AGAIN_MS 20
/* For a shared file: at the start, until its state was read. */
#define OPEN_MS 3000
/* How often and how long the start then looks whether its holder keeps it. */
#define KEPT_LOOKS 25
#define KEPT_MS    10
/* If the start did not get it: how long an attempt to open it may wait, and
 * the time between two attempts. */
#define REOPEN_MS     100
#define REOPEN_PERIOD (200 * SL_MS)

#define PATH_MOST 4096
#define SHARED    "?shared" /* the end of the path of a shared file */

/* How integrity_check reports a lack of memory, which is not damage. */
#define NO_MEMORY "error code=7" /* SQLITE_NOMEM */

/* The types of schema.def. */
#define NAME         "TEXT NOT NULL"
#define NAME_KEY     "TEXT PRIMARY KEY"
#define NAME_OR_NULL "TEXT"
#define TEXT         "TEXT"
#define SIZE         "INTEGER NOT NULL"
#define NUMBER       "INTEGER"
#define NUMBERED     "INTEGER PRIMARY KEY AUTOINCREMENT"
#define UNIQUE       "UNIQUE"
#define END          ") STRICT, WITHOUT ROWID"
#define ENDED        ") STRICT"
#include "registry/schema.def"

/* The SQL of each version. */
static const char *const steps[] = {
    TABLES_OF_SUBJECTS "CREATE TABLE meta(name " NAME_KEY ", value " NAME END
                       ";",
    TABLES_OF_USAGE,
    TABLES_OF_HOLDS,
    TABLES_OF_LEASES,
    /* The node whose table must apply the refund; '': any. */
    "ALTER TABLE usage_owed RENAME TO owed_before;"
    "CREATE TABLE usage_owed(node " NAME ", " OF_LIMIT ", period_start " SIZE
    ", units " SIZE
    "," KEY("node, ", ", period_start") "INSERT INTO usage_owed SELECT '', "
                                        "scope, id, limit_name, period_start,"
                                        " units FROM owed_before;"
                                        "DROP TABLE owed_before;",
    TABLES_OF_NODES,
    TABLES_OF_JOURNALS,
    TABLES_OF_FREED,
    COLUMNS_OF_CAPS,
    TABLES_OF_REPEATS,
    TABLES_OF_EXPORTS,
    TABLES_OF_AUDIT,
    TABLES_OF_ENDS,
    COLUMNS_OF_ANCHORS,
    TABLES_OF_SEGMENTS,
    TABLES_OF_UNITS,
    TABLES_OF_BLOCKS,
    TABLES_OF_DENIALS,
    TABLES_OF_WEBHOOKS,
    INDEX_OF_OVERRIDES,
    INDEX_OF_RETRIES,
    COLUMN_OF_EXTENSIONS,
    INDEXES_OF_WAITING,
    TABLES_OF_ERASED,
};

/* ---- errors ---- */

/* Returns the process that has locked the file for writing; 0: unknown.
 * SQLite's locks are those of /proc/locks; opening and closing the file here
 * would drop our own. */
static int find_holder(const char *path)
{
    struct stat at;
    FILE *file =
        path && stat(path, &at) == 0 ? fopen("/proc/locks", "re") : NULL;
    char line[200], kind[16];
    unsigned high, low;
    unsigned long long inode;
    int pid, found = 0;

    while (file && found == 0 && fgets(line, sizeof(line), file))
        if (sscanf(line, "%*d: POSIX %*s %15s %d %x:%x:%llu", kind, &pid, &high,
                   &low, &inode) == 5 &&
            strcmp(kind, "WRITE") == 0 && high == major(at.st_dev) &&
            low == minor(at.st_dev) && inode == at.st_ino)
            found = pid != getpid() ? pid : 0;
    if (file)
        fclose(file);
    return found;
}

/* Returns whether the process exists and is not stopped. */
static bool is_running(int pid)
{
    char path[32], line[512];
    const char *state = NULL;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file && fgets(line, sizeof(line), file))
        state = strrchr(line, ')'); /* behind its name */
    if (file)
        fclose(file);
    return state && strlen(state) > 2 && !strchr("TtXZ", state[2]);
}

/* Returns whether this process runs and does not release the file. Processes
 * that share it release it after each transaction. */
static bool is_kept(const char *path, int holder)
{
    for (int i = 0; i < KEPT_LOOKS; i++) {
        if (holder == 0 || !is_running(holder) || find_holder(path) != holder)
            return false;
        sqlite3_sleep(KEPT_MS);
    }
    return true;
}

/* Returns the error of SQLite as one of ours, with a sentence "PATH: ...". */
static int fault(sqlite3 *db, struct sl_diag *diag)
{
    int code = sqlite3_errcode(db) & 0xff;
    const char *path = sqlite3_db_filename(db, NULL);
    int holder = code == SQLITE_BUSY ? find_holder(path) : 0;
    int err = SLUICE_ESTORE;

    if (holder > 0)
        return sl_diag_error(diag, err,
                             "the registry %s is locked by process %d; if it "
                             "is stopped, continue or end it",
                             path, holder);
    if (code == SQLITE_NOMEM)
        err = SLUICE_ENOMEM;
    else if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        err = SLUICE_EDAMAGE;
    return sl_diag_error(diag, err, "the registry %s: %s", path ? path : "",
                         sqlite3_errmsg(db));
}

static int refuse_open(sqlite3 *db, const char *path, struct sl_diag *diag)
{
    int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;

    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "another process uses the registry %s; stop it, or choose another "
            "file with --usage sqlite:PATH",
            path);
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

/* Reads the first column of the first row. */
static int ask(sqlite3 *db, const char *sql, char ret[128])
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    const unsigned char *text = NULL;

    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        text = sqlite3_column_text(st, 0);
    snprintf(ret, 128, "%s", text ? (const char *)text : "");
    sqlite3_finalize(st);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

static int ask_number(sqlite3 *db, const char *sql, int64_t *ret)
{
    char text[128];
    int code = ask(db, sql, text);

    if (code == SQLITE_OK)
        *ret = strtoll(text, NULL, 10);
    return code;
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
    int err = fault(db, &why);

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
        return fault(db, diag);
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

static int refuse_foreign(const char *path, struct sl_diag *diag)
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
static bool is_foreign(int fd)
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
    bool foreign;

    if (fd < 0)
        return sl_diag_error(
            diag, SLUICE_ESTORE,
            "cannot write the registry %s: %s; choose another file with "
            "--usage sqlite:PATH, or none with --usage none",
            path, strerror(errno));
    foreign = is_foreign(fd);
    close(fd);
    return foreign ? refuse_foreign(path, diag) : 0;
}

static int set_journal(sqlite3 *db, const char *path, struct sl_diag *diag)
{
    char mode[128];

    if (ask(db, "PRAGMA journal_mode=WAL", mode) != SQLITE_OK)
        return refuse_open(db, path, diag);
    if (strcmp(mode, "wal") != 0)
        return sl_diag_error(diag, SLUICE_ESTORE,
                             "the registry %s cannot have a write-ahead log "
                             "(journal \"%s\"); use a writable folder",
                             path, mode);
    return 0;
}

struct opening {
    bool is_start; /* of the daemon; false: a later attempt */
    bool shared;
    bool is_busy; /* it failed because a shared file is locked for now */
};

/* Called by SQLite while a shared file is opened and is locked: other daemons
 * may write all the time. Returns whether to try again. */
static int wait_open(void *ctx, int count)
{
    const struct opening *o = ctx;

    sqlite3_sleep(2); /* ms */
    return count < (o->is_start ? OPEN_MS : REOPEN_MS) / 2;
}

/* The file is locked from here on while it is open, unless it is shared. */
static int lock(sqlite3 *db, bool in_memory, struct opening *o,
                const char *path, struct sl_diag *diag)
{
    bool shared = o->shared;
    int err = 0;

    if (shared)
        sqlite3_busy_handler(db, wait_open, o);
    else
        sqlite3_busy_timeout(db, BUSY_MS);
    if (run(db, shared ? "PRAGMA journal_mode=TRUNCATE"
                       : "PRAGMA locking_mode=EXCLUSIVE") != SQLITE_OK ||
        run(db, "PRAGMA mmap_size=0;"
                "PRAGMA trusted_schema=OFF;"
                "PRAGMA secure_delete=ON;"
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
        return refuse_foreign(path, diag);
    snprintf(mark, sizeof(mark), "PRAGMA application_id=%d", APPLICATION);
    return run(db, mark) == SQLITE_OK ? 0 : refuse_open(db, path, diag);
}

static int examine(sqlite3 *db, const char *path, struct sl_diag *diag)
{
    char problem[128];

    if (ask(db, "PRAGMA quick_check(1)", problem) != SQLITE_OK)
        return refuse_open(db, path, diag);
    if (strcmp(problem, "ok") == 0)
        return 0;
    if (strstr(problem, NO_MEMORY))
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    return sl_diag_error(diag, SLUICE_EDAMAGE,
                         "the registry %s is damaged (%.80s); restore a "
                         "backup, or move the file away",
                         path, problem);
}

/* SQLite counts its memory by default, which locks a mutex for each piece. It
 * refuses the option if another part of the process uses it already. */
static void set_once(void)
{
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

/* The sentence names the process that has locked the file. */
static int refuse_busy(sqlite3 *db, const char *path, struct opening *o,
                       struct sl_diag *diag)
{
    int holder = o->is_start ? find_holder(path) : 0;

    if (!is_kept(path, holder))
        return fault(db, diag);
    o->is_busy = false;
    return sl_diag_error(diag, SLUICE_ESTORE,
                         "process %d uses the registry %s by itself; stop it, "
                         "or choose another file with --usage sqlite:PATH",
                         holder, path);
}

static int open_file(const char *path, struct opening *o, sqlite3 **ret,
                     struct sl_diag *diag)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool in_memory = strcmp(path, ":memory:") == 0;
    sqlite3 *db = NULL;
    int err = in_memory ? 0 : make_private(path, diag);

    if (err)
        return err;
    pthread_once(&once, set_once);
    if (sqlite3_open_v2(path, &db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                            SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                        NULL) != SQLITE_OK)
        err = refuse_open(db, path, diag);
    if (!err)
        err = lock(db, in_memory, o, path, diag);
    if (!err)
        err = recognize(db, path, diag);
    if (!err)
        err = examine(db, path, diag);
    if (!err)
        err = sl_schema_migrate(db, steps, (int)SL_LEN(steps), diag);
    o->is_busy = err == SLUICE_ESTORE && o->shared &&
                 (sqlite3_errcode(db) & 0xff) == SQLITE_BUSY;
    if (o->is_busy)
        err = refuse_busy(db, path, o, diag);
    if (err) {
        sqlite3_close(db);
        return err;
    }
    *ret = db;
    return 0;
}

/* Opens or creates the file at `path` (":memory:": none), checks it and
 * migrates its tables. Returns 0, SLUICE_ESTORE (locked, or another format),
 * SLUICE_EDAMAGE or SLUICE_ENOMEM, with a sentence. */
static int open_path(const char *path, struct opening *o, sqlite3 **ret,
                     struct sl_diag *diag)
{
    size_t len = strlen(path), tail = strlen(SHARED);
    char alone[PATH_MOST];

    if (len <= tail || strcmp(path + len - tail, SHARED) != 0)
        return open_file(path, o, ret, diag);
    if (len - tail >= sizeof(alone))
        return sl_diag_error(diag, SLUICE_ESTORE,
                             "the path %.64s... is too long", path);
    memcpy(alone, path, len - tail);
    alone[len - tail] = '\0';
    o->shared = true;
    return open_file(alone, o, ret, diag);
}

/* ---- queries ---- */

struct file {
    sqlite3 *db;        /* NULL: not open yet; see `why` */
    struct sl_diag why; /* a shared file was locked when it was opened */
    bool is_unfit;      /* later it was damaged, or of another program */
    sl_ns next_try;     /* monotonic */
    const struct sl_database *owner;
    bool was_busy;    /* another process had locked it for BUSY_MS */
    sl_ns busy_since; /* monotonic */
    sqlite3_stmt *queries[SL_QUERIES];
    char where[];
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

static void bind(struct sl_database *db, enum sl_query query, int at,
                 const struct sl_str *text, int64_t number)
{
    if (!file_of(db)->db)
        return;
    /* A text that cannot be bound (too long, no memory) is NULL, which no text
     * column accepts and no comparison matches. */
    if (text)
        sqlite3_bind_text(statement(db, query), at, text->at ? text->at : "",
                          sl_str_int(text->len), SQLITE_STATIC);
    else
        sqlite3_bind_int64(statement(db, query), at, number);
}

/* Called by SQLite when the file is locked, for the time `count`; returns
 * whether to try again. SQLite's own handler sleeps for up to 100 ms, in which
 * another daemon that writes all the time can lock it again and again. */
static int wait_busy(void *ctx, int count)
{
    struct file *f = ctx;
    sl_ns now = sl_clock_mono(), most = f->was_busy ? BUSY_AGAIN_MS : BUSY_MS;

    if (!f->owner->serves)
        most = OPEN_MS; /* a start does not fail because others write */
    if (count == 0)
        f->busy_since = now;
    if (now - f->busy_since >= most * SL_MS)
        return 0;
    sqlite3_sleep(1 + count % 3); /* ms */
    return 1;
}

/* A read may succeed while another process is about to write. */
static void note_busy(struct file *f, enum sl_query query, int code)
{
    bool busy = (code & 0xff) == SQLITE_BUSY;

    if (busy || query == SL_QUERY_BEGIN)
        f->was_busy = busy;
}

/* Another process ends its transaction some time. */
static int fail(struct sl_database *db)
{
    sqlite3 *file = file_of(db)->db;
    int code = sqlite3_errcode(file) & 0xff;

    db->is_temporary = code == SQLITE_BUSY || code == SQLITE_LOCKED;
    return fault(file, &db->diag);
}

static int refuse_away(struct sl_database *db, int err)
{
    db->diag = file_of(db)->why;
    db->is_temporary = !file_of(db)->is_unfit;
    return err;
}

static int step(struct sl_database *db, enum sl_query query)
{
    int code;

    if (!file_of(db)->db)
        return refuse_away(db, SLUICE_ESTORE);
    code = sqlite3_step(statement(db, query));
    note_busy(file_of(db), query, code);
    if (code == SQLITE_ROW)
        return 1;
    return code == SQLITE_DONE ? 0 : fail(db);
}

static void reset(struct sl_database *db, enum sl_query query)
{
    if (!file_of(db)->db)
        return;
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

static int script(struct sl_database *db, const char *sql)
{
    struct file *f = file_of(db);

    if (!f->db)
        return refuse_away(db, SLUICE_ESTORE);
    return sqlite3_exec(f->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                   : fail(db);
}

/* Deleted rows are overwritten (secure_delete); the WAL may still have them. */
static int scrub(struct sl_database *db)
{
    if (!file_of(db)->db)
        return refuse_away(db, SLUICE_ESTORE);
    return run(file_of(db)->db, "PRAGMA wal_checkpoint(TRUNCATE)") == SQLITE_OK
               ? 0
               : SLUICE_ESTORE;
}

static void rollback(struct sl_database *db)
{
    struct file *f = file_of(db);

    if (!f->db)
        return;
    if (!sqlite3_get_autocommit(f->db))
        sqlite3_exec(f->db, "ROLLBACK", NULL, NULL, NULL);
    /* Empties the log into the file: on a full disk that may make room for the
     * next write. */
    sqlite3_wal_checkpoint_v2(f->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL,
                              NULL);
}

static void end_file(struct file *f)
{
    for (int i = 0; i < SL_QUERIES; i++) {
        sqlite3_finalize(f->queries[i]);
        f->queries[i] = NULL;
    }
    sqlite3_close(f->db);
    f->db = NULL;
}

static void close_file(struct sl_database *db)
{
    struct file *f = file_of(db);

    end_file(f);
    sl_alloc_free(db->arena.alloc, f, sizeof(*f) + strlen(f->where) + 1);
    db->conn = NULL;
}

static int prepare(struct file *f, struct sl_diag *diag)
{
    for (int i = 0; i < SL_QUERIES; i++)
        if (sqlite3_prepare_v3(f->db, sl_queries[i], -1,
                               SQLITE_PREPARE_PERSISTENT, &f->queries[i],
                               NULL) != SQLITE_OK)
            return fault(f->db, diag);
    return 0;
}

/* *ret_busy: it is shared, and another process has locked it for now. */
static int open_all(struct file *f, bool is_start, bool *ret_busy,
                    struct sl_diag *diag)
{
    struct opening o = {.is_start = is_start};
    int err = open_path(f->where, &o, &f->db, diag);

    if (!err) {
        sqlite3_busy_handler(f->db, wait_busy, f);
        err = prepare(f, diag);
        o.is_busy =
            err && o.shared && (sqlite3_errcode(f->db) & 0xff) == SQLITE_BUSY;
    }
    if (err)
        end_file(f);
    *ret_busy = o.is_busy;
    return err;
}

static int sqlite_open_file(struct sl_database *db, const char *where,
                            struct sl_diag *diag)
{
    size_t size = strlen(where) + 1;
    struct file *f = sl_alloc_new(db->arena.alloc, sizeof(*f) + size);
    int err;

    if (!f)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(f, 0, sizeof(*f));
    memcpy(f->where, where, size);
    f->owner = db;
    db->conn = f;
    err = open_all(f, true, &db->is_away, diag);
    if (db->is_away)
        f->why = *diag;
    else if (err)
        close_file(db);
    return db->is_away ? 0 : err;
}

static int reopen(struct sl_database *db)
{
    struct file *f = file_of(db);
    bool busy;
    int err;

    if (f->db)
        return 0;
    if (sl_clock_mono() < f->next_try)
        return refuse_away(db, SLUICE_ESTORE);
    err = open_all(f, false, &busy, &f->why);
    f->next_try = sl_clock_mono() + REOPEN_PERIOD;
    f->is_unfit = err && !busy;
    return err ? refuse_away(db, err) : 0;
}

const struct sl_driver sl_driver_sqlite = {
    .open = sqlite_open_file,
    .close = close_file,
    .reopen = reopen,
    .bind = bind,
    .step = step,
    .reset = reset,
    .run = sqlite_run,
    .column = read_text,
    .integer = read_integer,
    .script = script,
    .rollback = rollback,
    .scrub = scrub,
};
