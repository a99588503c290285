/* file.c -- the file of the registry: whose it is, who else may use it, and
 * what happens when it is damaged, full or from another version. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "filed.h"
#include "registry/registry_int.h"

/* Does a text have a part? Says what it is if not. */
static bool has(const char *text, const char *part)
{
    bool there = strstr(text, part) != NULL;

    if (!there)
        printf("# \"%s\" has no \"%s\"\n", text, part);
    return there;
}

static int open_again(struct world *w, struct sl_diag *diag)
{
    struct sl_registry_options options = {.path = w->path};
    struct sl_registry *other = NULL;
    int err = sl_registry_open(&options, &other, diag);

    sl_registry_close(other);
    return err;
}

static void test_second(struct world *w)
{
    struct sl_diag diag = {0};
    int status = 0;
    pid_t child;

    CASE("a second one is refused in this process");
    CHECK_EQ(open_again(w, &diag), SLUICE_ESTORE);
    CHECK(has(diag.sentence, "another process uses the registry"));
    CHECK(has(diag.sentence, "--usage sqlite:PATH"));

    CASE("and in another, which can't even read");
    fflush(stdout);
    child = fork();
    if (child == 0) {
        sqlite3 *db;
        int code = sqlite3_open_v2(w->path, &db, SQLITE_OPEN_READONLY, NULL);

        if (code == SQLITE_OK)
            code = sqlite3_exec(db, "SELECT count(*) FROM subjects", NULL, NULL,
                                NULL);
        _exit(code == SQLITE_BUSY ? 0 : 1);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);

    CASE("the first goes on");
    set_plan(w, S("ann"), S("pro"));
}

static void test_mode(struct world *w)
{
    struct stat st;

    CASE("other accounts cannot read the file");
    CHECK_EQ(stat(w->path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
}

/* Run SQL on the file while no registry has it. */
static void edit(struct world *w, const char *sql)
{
    sqlite3 *db;

    CHECK_EQ(sqlite3_open(w->path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* The bytes of the file, at most `size`; how many there are. */
static size_t read_file(const struct world *w, char *bytes, size_t size)
{
    FILE *file = fopen(w->path, "r");
    size_t len = file ? fread(bytes, 1, size, file) : 0;

    if (file)
        fclose(file);
    return len;
}

static void test_foreign(struct world *w)
{
    static char before[1 << 16], after[sizeof(before)];
    struct sl_diag diag = {0};
    char log[128];
    size_t len;

    CASE("another program's database is refused");
    unlink(w->path);
    edit(w, "CREATE TABLE recipes(name)");
    len = read_file(w, before, sizeof(before));
    CHECK_EQ(open_again(w, &diag), SLUICE_ESTORE);
    CHECK(has(diag.sentence, "a database of another program"));
    CASE("and left as it is");
    CHECK(len > 0);
    CHECK_EQ(read_file(w, after, sizeof(after)), len);
    CHECK(memcmp(before, after, len) == 0);
    snprintf(log, sizeof(log), "%s-wal", w->path);
    CHECK(access(log, F_OK) != 0);
    CASE("one without tables is taken for new");
    edit(w, "DROP TABLE recipes");
    CHECK_EQ(world_start(w, &diag), 0);
    world_stop(w);
}

static int version_of(struct world *w)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    int version;

    CHECK_EQ(sqlite3_open(w->path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL),
             SQLITE_OK);
    CHECK_EQ(sqlite3_step(st), SQLITE_ROW);
    version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return version;
}

static void test_versions(struct world *w)
{
    struct sl_diag diag = {0};
    char back[64];

    CASE("a later version is refused, and left as it is");
    world_stop(w);
    snprintf(back, sizeof(back), "PRAGMA user_version=%d", version_of(w));
    edit(w, "PRAGMA user_version=77");
    CHECK_EQ(open_again(w, &diag), SLUICE_ESTORE);
    CHECK(has(diag.sentence, "written by a later version"));
    edit(w, back);
    CHECK_EQ(world_start(w, &diag), 0);
    world_stop(w);
}

/* The first column of the first row, as a number. */
static int ask_number(struct world *w, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    int number;

    CHECK_EQ(sqlite3_open(w->path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_step(st), SQLITE_ROW);
    number = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return number;
}

/* Does the plan of a query name an index? */
static bool uses(struct world *w, enum sl_query query, const char *index)
{
    char sql[4096];
    sqlite3 *db;
    sqlite3_stmt *st;
    bool found = false;

    snprintf(sql, sizeof(sql), "EXPLAIN QUERY PLAN %s", sl_queries[query]);
    CHECK_EQ(sqlite3_open(w->path, &db), SQLITE_OK);
    CHECK_EQ(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    while (sqlite3_step(st) == SQLITE_ROW)
        found |=
            strstr((const char *)sqlite3_column_text(st, 3), index) != NULL;
    sqlite3_finalize(st);
    sqlite3_close(db);
    return found;
}

/* Of version 22, with one delivery that waits, a retry, one that is dead, and
 * an attempt whose message is gone. */
static const char before_waiting[] =
    "DROP INDEX webhook_deliveries_firsts;"
    "DROP INDEX webhook_deliveries_retries;"
    "DROP INDEX webhook_deliveries_state;"
    "CREATE INDEX webhook_deliveries_due ON webhook_deliveries(endpoint, state,"
    " due, number);"
    "CREATE INDEX webhook_deliveries_state ON webhook_deliveries(state,"
    " number);"
    "CREATE INDEX webhook_deliveries_retries ON webhook_deliveries(endpoint,"
    " due, number) WHERE state = 0 AND tries > 0;"
    "CREATE INDEX webhook_attempts_at ON webhook_attempts(at);"
    "INSERT INTO webhook_messages(id, org, type, payload, at, held)"
    " VALUES('m', 'acme', 'a', '1', 1, 0);"
    "INSERT INTO webhook_deliveries(message, endpoint, org, state, tries, due,"
    " lease) VALUES('m', 'e', 'acme', 0, 0, 1, 0), ('m', 'f', 'acme', 0, 2, 1,"
    " 0), ('m', 'g', 'acme', 2, 6, 1, 0);"
    "INSERT INTO webhook_attempts(message, endpoint, org, at, tries, status,"
    " took, error, answer, result) VALUES('m', 'f', 'acme', 1, 0, 500, 1, '',"
    " '', 1), ('gone', 'f', 'acme', 1, 0, 500, 1, '', '', 1);"
    "DROP TABLE usage_erased;"
    "PRAGMA user_version=22;";

static void test_webhooks(struct world *w)
{
    struct sl_diag diag = {0};

    CASE("webhooks of an earlier version: all that wait are still there");
    edit(w, before_waiting);
    CHECK_EQ(world_start(w, &diag), 0);
    world_stop(w);
    CHECK_EQ(version_of(w), 24);
    CHECK_EQ(ask_number(w, sl_queries[SL_QUERY_COUNT_WAITING]), 2);
    CHECK_EQ(ask_number(w, sl_queries[SL_QUERY_COUNT_DEAD]), 1);
    CHECK_EQ(ask_number(w, "SELECT count(*) FROM webhook_attempts"), 1);

    CASE("a claim looks at what is due, not at all that waits");
    CHECK(uses(w, SL_QUERY_DUE, "webhook_deliveries_retries"));
    CHECK(uses(w, SL_QUERY_DUE, "webhook_deliveries_firsts"));
    CHECK(!uses(w, SL_QUERY_DUE, "TEMP B-TREE"));
    CHECK(uses(w, SL_QUERY_SCHEDULE, "webhook_deliveries_retries"));
    CHECK(uses(w, SL_QUERY_SCHEDULE, "webhook_deliveries_firsts"));
    CHECK(uses(w, SL_QUERY_COUNT_WAITING, "COVERING INDEX"));
    edit(w, "DELETE FROM webhook_deliveries; DELETE FROM webhook_messages;"
            "DELETE FROM webhook_attempts");
}

static void test_steps(void)
{
    static const char *const steps[] = {
        "CREATE TABLE a(x)",
        "ALTER TABLE a ADD COLUMN y; INSERT INTO a VALUES(1, 2)",
        "CREATE TABLE b(x); INSERT INTO nowhere VALUES(1)",
    };
    struct sl_diag diag = {0};
    sqlite3 *db;

    CASE("versions are taken step by step, each once");
    CHECK_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    CHECK_EQ(sl_schema_migrate(db, steps, 1, &diag), 0);
    CHECK_EQ(sl_schema_migrate(db, steps, 2, &diag), 0);
    CHECK_EQ(sl_schema_migrate(db, steps, 2, &diag), 0);
    CHECK_EQ(sqlite3_exec(db, "SELECT y FROM a", NULL, NULL, NULL), SQLITE_OK);

    CASE("a step that fails leaves nothing behind");
    CHECK_EQ(sl_schema_migrate(db, steps, 3, &diag), SLUICE_ESTORE);
    CHECK(has(diag.sentence, "the upgrade to version 3 failed"));
    CHECK(has(diag.sentence, "nowhere"));
    CHECK(sqlite3_exec(db, "SELECT * FROM b", NULL, NULL, NULL) != SQLITE_OK);
    CHECK_EQ(sl_schema_migrate(db, steps, 2, &diag), 0);
    sqlite3_close(db);
}

/* Overwrite all of the file but its first page, or its beginning too. */
static void damage(struct world *w, off_t from)
{
    char junk[4096];
    struct stat st;
    int fd = open(w->path, O_WRONLY);

    memset(junk, 0xa5, sizeof(junk));
    CHECK_EQ(fstat(fd, &st), 0);
    for (off_t at = from; at < st.st_size; at += (off_t)sizeof(junk))
        CHECK_EQ(pwrite(fd, junk, sizeof(junk), at), sizeof(junk));
    close(fd);
}

static void test_damage(struct world *w)
{
    struct sl_diag diag = {0};

    CASE("a damaged file is refused with what to do");
    unlink(w->path);
    CHECK_EQ(world_start(w, &diag), 0);
    for (char id = 'a'; id < 'z'; id++)
        set_plan(w, (struct sl_str){&id, 1}, S("pro"));
    world_stop(w);
    damage(w, 4096);
    CHECK_EQ(open_again(w, &diag), SLUICE_EDAMAGE);
    CHECK(has(diag.sentence, "is damaged"));
    CHECK(has(diag.sentence, "backup"));

    CASE("so is one that is none");
    damage(w, 0);
    CHECK_EQ(open_again(w, &diag), SLUICE_EDAMAGE);
    unlink(w->path);

    CASE("a folder that is not there is named");
    snprintf(w->path, sizeof(w->path), "%s/none/sluice.db", w->folder);
    CHECK_EQ(open_again(w, &diag), SLUICE_ESTORE);
    CHECK(has(diag.sentence, "No such file or directory"));
    snprintf(w->path, sizeof(w->path), "%s/sluice.db", w->folder);
}

/* Write until the disk is full; how many were acknowledged. */
static unsigned fill(struct world *w, char (*ids)[32], unsigned most)
{
    struct rlimit small = {512 * 1024, RLIM_INFINITY};
    unsigned good = 0;

    setrlimit(RLIMIT_FSIZE, &small);
    for (unsigned i = 0; i < most; i++) {
        struct sl_subject_change change = {.kind = SL_CHANGE_PUT,
                                           .scope = S("user"),
                                           .has = SL_HAS_PLAN,
                                           .plan = S("pro")};
        struct sl_job job;

        snprintf(ids[good], sizeof(ids[good]), "user-%06u", i);
        change.id = sl_str_c(ids[good]);
        ask_write(w, &job, &change, 1);
        CHECK(job.err == 0 || job.err == SLUICE_ESTORE);
        good += job.err == 0;
        sl_job_clear(&job);
    }
    small.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &small);
    return good;
}

static void test_full(struct world *w)
{
    static char ids[3000][32];
    struct sl_diag diag = {0};
    struct sl_job job;
    unsigned good, there = 0;

    CASE("a full disk fails writes and nothing else");
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQ(world_start(w, &diag), 0);
    good = fill(w, ids, SL_LEN(ids) - 1);
    printf("# %u of %zu were written\n", good, SL_LEN(ids) - 1);
    CHECK(good > 0 && good < SL_LEN(ids) - 1);
    CHECK(w->fault[0]);
    ask_find(w, &job, S("user"), sl_str_c(ids[0]));
    CHECK_EQ(job.result, SL_JOB_DONE);
    sl_job_clear(&job);

    CASE("when there is room again, it writes again");
    set_plan(w, S("late"), S("pro"));

    CASE("and whatever was acknowledged is there");
    world_stop(w);
    CHECK_EQ(world_start(w, &diag), 0);
    for (unsigned i = 0; i < good; i++) {
        ask_find(w, &job, S("user"), sl_str_c(ids[i]));
        there += job.result == SL_JOB_DONE;
        sl_job_clear(&job);
    }
    CHECK_EQ(there, good);
    world_stop(w);
}

int main(void)
{
    struct world w;

    world_open(&w);
    test_second(&w);
    test_mode(&w);
    test_versions(&w);
    test_webhooks(&w);
    test_foreign(&w);
    test_steps();
    test_damage(&w);
    test_full(&w);
    world_close(&w);
    return CHECK_DONE();
}
