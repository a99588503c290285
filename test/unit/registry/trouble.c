/* trouble.c -- reports while the disk is full, or while another process locks
 * the file: acknowledged reports are stored, and repeated ones once. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "books.h"

#define REPORTS 400

/* Report one unit, with a key; true if it was acknowledged. */
static bool put_key(struct world *w, unsigned number)
{
    struct sl_usage_entry u;
    struct sl_job job;
    char key[200];
    bool good;

    /* A long one, so that the disk is full soon. */
    snprintf(key, sizeof(key), "k%0180u", number);
    u = report("acme", 1, key);
    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    job.usage = &u;
    job.change_count = 1;
    ask(w, &job);
    good = job.err == 0;
    CHECK(good || job.err == SLUICE_ESTORE);
    CHECK_EQ(job.uncertain_txn, 0); /* it is known that it was not */
    CHECK_EQ(job.result, SL_JOB_DONE);
    sl_job_clear(&job);
    return good;
}

static void set_room(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};

    setrlimit(RLIMIT_FSIZE, &limit);
}

static void test_full(struct world *w)
{
    unsigned good = 0, again = 0;

    CASE("a full disk: acknowledged reports are stored");
    signal(SIGXFSZ, SIG_IGN);
    set_room((rlim_t)512 * 1024);
    for (unsigned i = 0; i < REPORTS; i++)
        good += put_key(w, i);
    printf("# %u of %d were acknowledged\n", good, REPORTS);
    CHECK(good > 0 && good < REPORTS);
    CHECK(w->fault[0]);
    set_room(RLIM_INFINITY);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), good);
    CHECK_EQ(sum(w, "acme", SL_ROW_DAY), good);
    CASE("and when there is room, all of them, once");
    for (unsigned i = 0; i < REPORTS; i++)
        again += put_key(w, i);
    CHECK_EQ(again, REPORTS);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), REPORTS);
    world_stop(w);
    CHECK_EQ(world_start(w, NULL), 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), REPORTS);
    CHECK_EQ(sum(w, "acme", SL_ROW_MONTH), REPORTS);
}

static void run(sqlite3 *db, const char *sql)
{
    CHECK_EQ(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static void test_locked(struct world *w)
{
    char shared[120];
    struct sl_registry_options options = {
        .path = shared, .on_fault = on_fault, .ctx = w};
    struct sl_diag diag = {0};
    sqlite3 *other;

    CASE("another process locks a shared file: nothing is acknowledged");
    world_stop(w);
    snprintf(shared, sizeof(shared), "%s?shared", w->path);
    CHECK_EQ(sl_registry_open(&options, &w->registry, &diag), 0);
    CHECK(put_key(w, REPORTS));
    CHECK_EQ(sqlite3_open(w->path, &other), SQLITE_OK);
    run(other, "BEGIN EXCLUSIVE");
    w->fault[0] = '\0';
    CHECK(!put_key(w, REPORTS + 1));
    CHECK(strstr(w->fault, "locked"));
    run(other, "ROLLBACK");
    CASE("when it is free again, it is recorded, once");
    CHECK(put_key(w, REPORTS + 1));
    CHECK(put_key(w, REPORTS + 1));
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), REPORTS + 2);
    sqlite3_close(other);
}

static sqlite3 *writer;
static const char *path_of_writer;
static pthread_t thread;

static void *write_long(void *ctx)
{
    (void)ctx;
    /* style: SQLite waits by the real clock, and this must last longer */
    usleep(1500000);
    run(writer, "COMMIT");
    return NULL;
}

/* Called while the state is read: another daemon writes from now on. */
static int lock_file(void *ctx, struct sl_unit_list *ret)
{
    (void)ctx;
    (void)ret;
    if (!writer && CHECK_EQ(sqlite3_open(path_of_writer, &writer), 0)) {
        run(writer, "BEGIN EXCLUSIVE");
        CHECK_EQ(pthread_create(&thread, NULL, write_long, NULL), 0);
    }
    return 0;
}

static uint64_t see(void *ctx, const struct sl_usage_entry *usage)
{
    (void)ctx;
    (void)usage;
    return 0;
}

static void test_start(struct world *w)
{
    char shared[120];
    struct sl_registry_options options = {.path = shared,
                                          .on_fault = on_fault,
                                          .list_units = lock_file,
                                          .on_usage = see,
                                          .ctx = w};
    struct sl_diag diag = {0};

    CASE("a start waits for others that write, longer than jobs do");
    world_stop(w);
    path_of_writer = w->path;
    snprintf(shared, sizeof(shared), "%s?shared", w->path);
    if (!CHECK_EQ(sl_registry_open(&options, &w->registry, &diag), 0)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
    CHECK(writer);
    pthread_join(thread, NULL);
    sqlite3_close(writer);
    CHECK(put_key(w, REPORTS + 2));
}

static atomic_uint damages;

static void count_damage(void *ctx, const char *sentence)
{
    (void)ctx;
    if (CHECK(strstr(sentence, "is damaged")))
        damages++;
}

static int ping(struct world *w)
{
    struct sl_job job;
    int err;

    sl_job_init(&job, SL_JOB_PING, &sl_alloc_libc);
    ask(w, &job);
    err = job.err;
    sl_job_clear(&job);
    /* style: the file is opened again after a time of the real clock */
    usleep(110000);
    return err;
}

static void test_damaged_later(struct world *w)
{
    char shared[120];
    struct sl_registry_options options = {.path = shared,
                                          .on_mistake = count_damage,
                                          .may_be_away = true,
                                          .ctx = w};
    struct sl_diag diag = {0};
    sqlite3 *other;
    FILE *file;

    CASE("a shared file that is locked at the start, and damaged later");
    world_stop(w);
    snprintf(shared, sizeof(shared), "%s?shared", w->path);
    CHECK_EQ(sqlite3_open(w->path, &other), SQLITE_OK);
    run(other, "BEGIN EXCLUSIVE");
    CHECK_EQ(sl_registry_open(&options, &w->registry, &diag), 0);
    CHECK(ping(w) != 0);
    CHECK_EQ(damages, 0);
    file = fopen(w->path, "r+");
    if (CHECK(file != NULL)) {
        fputs("no database", file);
        fclose(file);
    }
    run(other, "ROLLBACK");
    sqlite3_close(other);
    for (int i = 0; i < 500 && damages == 0; i++)
        CHECK(ping(w) != 0);
    CASE("that is reported once, however often it is opened");
    for (int i = 0; i < 6; i++)
        CHECK(ping(w) != 0);
    CHECK_EQ(damages, 1);
}

int main(void)
{
    struct world w;

    world_open(&w);
    test_full(&w);
    test_locked(&w);
    test_start(&w);
    test_damaged_later(&w);
    world_close(&w);
    return CHECK_DONE();
}
