/* doubt.c -- a COMMIT whose answer is lost: what it was about is recorded once,
 * whether it was committed or not, and however long that is unknown; also if
 * the COMMIT comes to the server when everybody has asked for it. */
#define ON_POSTGRES
#include <signal.h>

#include "between.h"
#include "books.h"
#include "registry/usage_journal.h"

static struct between between;

static void begin(struct world *w)
{
    struct sl_diag diag = {0};

    world_folder(w);
    snprintf(w->path, sizeof(w->path), "postgres://plain@127.0.0.1:%u/%s",
             between.port, "postgres");
    if (world_start(w, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
}

/* A slip of one line without a key: only its doubt keeps it from being put
 * down twice. */
struct batch {
    struct sl_usage_entry usage;
    struct sl_job job;
};

static void fill(struct batch *batch)
{
    batch->usage = report("acme", 5, "");
    sl_job_init(&batch->job, SL_JOB_USAGE, &sl_alloc_libc);
    batch->job.usage = &batch->usage;
    batch->job.change_count = 1;
}

static int hand_in(struct world *w, struct batch *batch)
{
    batch->job.err = 0;
    batch->job.result = SL_JOB_DONE;
    ask(w, &batch->job);
    return batch->job.err;
}

/* While the registry does not even try. */
static int send_until(struct world *w, struct batch *batch, const char *part)
{
    int err = hand_in(w, batch);

    for (int i = 0; err && !strstr(w->fault, part) && i < 500; i++) {
        poll(NULL, 0, 20); /* it tries again after a pause */
        err = hand_in(w, batch);
    }
    return err;
}

TEST_WITH(lost, struct world *w)
{
    struct batch batch;

    CASE("the answer is lost, and found at once");
    fill(&batch);
    atomic_store(&between.armed, true);
    CHECK_EQ(hand_in(w, &batch), 0);
    CHECK_EQ(batch.job.uncertain_txn, 0);
    CHECK(!atomic_load(&between.armed));
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 5);
    CASE("and what stands outside of transactions is asked as before");
    set_plan(w, S("ann"), S("pro"));
    ask_find(w, &batch.job, S("user"), S("ann"));
    CHECK_EQ(batch.job.err, 0);
    sl_job_clear(&batch.job);
}

/* With a server far away, each wait is a round trip. */
TEST_WITH(many, struct world *w)
{
    static struct sl_usage_entry list[350];
    static char names[350][16];
    struct sl_job job;
    uint64_t used = 0;
    unsigned before;

    CASE("usage of many organisations is recorded with few round trips");
    for (unsigned i = 0; i < 350; i++) {
        snprintf(names[i], sizeof(names[i]), "many-%u", i < 340 ? i : 7);
        list[i] = report(names[i], 2, i % 3 == 0 ? names[i] : "");
        list[i].key = i < 340 ? list[i].key : SL_STR("");
    }
    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    job.usage = list;
    job.change_count = 350;
    before = atomic_load(&between.syncs);
    ask(w, &job);
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.result, SL_JOB_DONE);
    printf("# %u syncs\n", atomic_load(&between.syncs) - before);
    CHECK(atomic_load(&between.syncs) - before < 40);
    sl_job_clear(&job);
    CASE("each once, and those of one organisation together");
    for (unsigned i = 0; i < 340; i++)
        used += sum(w, names[i], SL_ROW_COUNTER);
    CHECK_EQ(used, 2 * 350);
    CHECK_EQ(sum(w, "many-7", SL_ROW_COUNTER), 2 * 11);
    CHECK_EQ(sum(w, "many-7", SL_ROW_DAY), 2 * 11);
    CHECK_EQ(sum(w, "many-8", SL_ROW_COUNTER), 2);
}

static PGconn *block(void)
{
    PGconn *conn = PQconnectdb(backed_url());

    PQclear(PQexec(conn, "BEGIN"));
    PQclear(PQexec(conn, "SELECT 1 FROM sluice.writers FOR UPDATE"));
    return conn;
}

TEST_WITH(unknown, struct world *w)
{
    struct batch batch, other;
    PGconn *blocker;

    CASE("the server is down: the status is unknown");
    fill(&batch);
    fill(&other);
    atomic_store(&between.shuts, true);
    atomic_store(&between.armed, true);
    CHECK_EQ(hand_in(w, &batch), SLUICE_ESTORE);
    CHECK(batch.job.uncertain_txn != 0);
    CHECK_EQ(hand_in(w, &batch), SLUICE_ESTORE);
    CHECK(batch.job.uncertain_txn != 0);
    CASE("it is back and does not answer: still unknown");
    blocker = block();
    atomic_store(&between.shut, false);
    CHECK_EQ(send_until(w, &batch, "lock timeout"), SLUICE_ESTORE);
    CHECK(strstr(w->fault, "lock timeout"));
    CHECK(batch.job.uncertain_txn != 0);
    CASE("until then nothing else is written");
    CHECK_EQ(hand_in(w, &other), SLUICE_ESTORE);
    CHECK_EQ(other.job.uncertain_txn, 0);
    PQfinish(blocker);
    CASE("it was committed: it is not put down again, and the other is");
    CHECK_EQ(send_until(w, &other, "never"), 0);
    CHECK_EQ(send_until(w, &batch, "never"), 0);
    CHECK_EQ(batch.job.uncertain_txn, 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 15);
    CHECK_EQ(sum(w, "acme", SL_ROW_DAY), 15);
    sl_job_clear(&batch.job);
    sl_job_clear(&other.job);
}

TEST_WITH(not_committed, struct world *w)
{
    struct batch batch;

    CASE("the session ends before it is committed");
    fill(&batch);
    backed_run("CREATE FUNCTION sluice.ends() RETURNS trigger LANGUAGE plpgsql"
               " SECURITY DEFINER AS 'BEGIN PERFORM "
               "pg_terminate_backend(pg_backend_pid());"
               " PERFORM pg_sleep(9); RETURN NULL; END';"
               "CREATE CONSTRAINT TRIGGER ends AFTER UPDATE ON"
               " sluice.usage_counters DEFERRABLE INITIALLY DEFERRED"
               " FOR EACH ROW EXECUTE FUNCTION sluice.ends()");
    CHECK_EQ(hand_in(w, &batch), SLUICE_ESTORE);
    CHECK_EQ(batch.job.uncertain_txn, 0);
    backed_run("DROP TRIGGER ends ON sluice.usage_counters");
    CASE("that is known, and it is put down when it comes again");
    CHECK_EQ(send_until(w, &batch, "never"), 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 20);
    sl_job_clear(&batch.job);
}

TEST_WITH(late, struct world *w)
{
    struct batch batch;

    CASE("the connection is lost during the COMMIT: unknown");
    fill(&batch);
    atomic_store(&between.keeps, true);
    CHECK_EQ(hand_in(w, &batch), SLUICE_ESTORE);
    CHECK(!atomic_load(&between.keeps));
    CHECK(batch.job.uncertain_txn != 0);
    CASE("it comes late, and what it is about is put down once");
    CHECK(between_bring(&between));
    CHECK_EQ(send_until(w, &batch, "never"), 0);
    CHECK_EQ(batch.job.uncertain_txn, 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 25);
    CHECK_EQ(sum(w, "acme", SL_ROW_DAY), 25);
    sl_job_clear(&batch.job);
}

TEST_WITH(late_never, struct world *w)
{
    struct batch batch;

    CASE("it never comes");
    fill(&batch);
    atomic_store(&between.keeps, true);
    CHECK_EQ(hand_in(w, &batch), SLUICE_ESTORE);
    CHECK(batch.job.uncertain_txn != 0);
    close(between.kept_for);
    CASE("and it is put down when it is handed in again");
    CHECK_EQ(send_until(w, &batch, "never"), 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 30);
    sl_job_clear(&batch.job);
}

/* A switch asks nothing: the server must have answered something else. */
TEST_WITH(late_silent, struct world *w)
{
    struct sl_job job;

    CASE("the COMMIT of a transaction that has asked nothing is late");
    sl_job_init(&job, SL_JOB_SWITCH, &sl_alloc_libc);
    job.name = S("sso");
    job.on = 1;
    job.by = S("test");
    atomic_store(&between.keeps, true);
    ask(w, &job);
    CHECK_EQ(job.err, SLUICE_ESTORE);
    CHECK(job.uncertain_txn != 0);
    CHECK(between_bring(&between));
    for (int i = 0; job.err && i < 500; i++) {
        poll(NULL, 0, 20);
        job.err = 0;
        ask(w, &job);
    }
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.uncertain_txn, 0);
    sl_job_clear(&job);
}

/* ---- usage that an earlier process has left ---- */

static _Atomic unsigned told, failed;
static _Atomic uint64_t told_used;

static void on_failure(void *ctx, const char *sentence)
{
    (void)ctx;
    (void)sentence;
    atomic_fetch_add(&failed, 1);
}

static void on_threshold(void *ctx, const struct sl_usage_entry *u)
{
    (void)ctx;
    atomic_store(&told_used, u->used);
    atomic_fetch_add(&told, u->threshold == 100 && u->threshold_before < 100);
}

static struct sl_usage_journal *open_journal(const char *path)
{
    struct sl_usage_journal_options options = {.path = path,
                                               .size = SL_JOURNAL_LEAST};
    struct sl_usage_journal *journal = NULL;
    struct sl_diag diag = {0};

    if (sl_usage_journal_open(&options, &journal, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
    return journal;
}

/* One line, which reaches all thresholds. */
static struct sl_usage_journal *leave_line(const char *path)
{
    struct sl_usage_journal *journal = open_journal(path);
    struct sl_usage_entry u = report("left", 100, "");

    CHECK(sl_usage_segment_add(
        sl_usage_segment_open(journal, sl_usage_journal_stream(journal), 1,
                              DAY_0),
        &u, 1, 0));
    sl_usage_journal_close(journal);
    return open_journal(path);
}

static unsigned lines_left(struct sl_usage_journal *journal)
{
    struct sl_usage_journal_counts counts;

    sl_usage_journal_count(journal, &counts);
    return (unsigned)counts.lines;
}

TEST_WITH(replayed, struct world *w)
{
    char path[128];
    struct sl_registry_options options = {.driver = BACKED_BY,
                                          .path = w->path,
                                          .on_fault = on_failure,
                                          .on_threshold = on_threshold};
    struct sl_diag diag = {0};
    PGconn *blocker = PQconnectdb(backed_url());

    world_stop(w);
    snprintf(path, sizeof(path), "%s/journal", w->folder);
    options.journal = leave_line(path);
    CASE("usage of an earlier process: the answer is lost, the server is down");
    PQclear(PQexec(blocker, "BEGIN"));
    PQclear(PQexec(blocker, "SELECT pg_advisory_xact_lock(1936487779, slot)"
                            " FROM generate_series(1, 255) AS slot"));
    if (!CHECK_EQ(sl_registry_open(&options, &w->registry, &diag), 0)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
    atomic_store(&between.shuts, true);
    atomic_store(&between.armed, true);
    PQfinish(blocker);
    for (int i = 0; atomic_load(&failed) == 0 && i < 500; i++)
        poll(NULL, 0, 20);
    CHECK(!atomic_load(&between.armed));
    CHECK_EQ(lines_left(options.journal), 1);
    CHECK_EQ(told, 0);
    CASE("it was committed: it is recorded once, and its threshold is told");
    atomic_store(&between.shut, false);
    for (int i = 0; lines_left(options.journal) > 0 && i < 500; i++)
        poll(NULL, 0, 20);
    CHECK_EQ(lines_left(options.journal), 0);
    CHECK_EQ(sum(w, "left", SL_ROW_COUNTER), 100);
    CHECK_EQ(told, 1);
    CHECK_EQ(told_used, 100);
    world_stop(w);
    sl_usage_journal_close(options.journal);
    CHECK_EQ(world_start(w, &diag), 0);
}

/* From here on the registry may end its own sessions. */
TEST_WITH(late_ended, struct world *w)
{
    struct batch batch;

    backed_run("GRANT EXECUTE ON FUNCTION pg_terminate_backend TO PUBLIC");
    CASE("the connection is lost during the COMMIT: its session is ended");
    fill(&batch);
    atomic_store(&between.keeps, true);
    CHECK_EQ(hand_in(w, &batch), SLUICE_ESTORE);
    CHECK(!atomic_load(&between.keeps));
    CASE("so that nothing is uncertain");
    CHECK_EQ(batch.job.uncertain_txn, 0);
    CHECK(!between_bring(&between));
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 30);
    CASE("and it is put down when it comes again");
    CHECK_EQ(send_until(w, &batch, "never"), 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 35);
    sl_job_clear(&batch.job);
}

int main(void)
{
    struct world w;

    signal(SIGPIPE, SIG_IGN);
    backed_run("CREATE ROLE plain LOGIN;"
               "GRANT CREATE ON DATABASE postgres TO plain;"
               "REVOKE EXECUTE ON FUNCTION pg_terminate_backend FROM PUBLIC");
    between_open(&between);
    begin(&w);
    RUN_TESTS_WITH(&w);
    world_close(&w);
    between_close(&between);
    return CHECK_DONE();
}
