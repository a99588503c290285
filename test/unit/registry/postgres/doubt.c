/* doubt.c -- a COMMIT whose answer is lost: what it was about is recorded once,
 * whether it was committed or not, and however long nobody knows; also if the
 * COMMIT comes to the server when everybody has asked for it. */
#define ON_POSTGRES
#include <signal.h>

#include "between.h"
#include "books.h"

static struct between between;

static void begin(struct world *w)
{
    struct sl_diag diag = {0};

    world_folder(w);
    snprintf(w->path, sizeof(w->path), "postgres://postgres@127.0.0.1:%u/%s",
             between.port, "postgres");
    if (world_start(w, &diag)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
}

/* A slip of one line without a key: only its doubt keeps it from being put
 * down twice. */
struct slip {
    struct sl_usage_entry usage;
    struct sl_job job;
};

static void fill(struct slip *slip)
{
    slip->usage = report("acme", 5, "");
    sl_job_init(&slip->job, SL_JOB_USAGE, &sl_alloc_libc);
    slip->job.usage = &slip->usage;
    slip->job.change_count = 1;
}

static int hand_in(struct world *w, struct slip *slip)
{
    slip->job.err = 0;
    slip->job.result = SL_JOB_DONE;
    ask(w, &slip->job);
    return slip->job.err;
}

/* While the registry does not even try. */
static int send_until(struct world *w, struct slip *slip, const char *part)
{
    int err = hand_in(w, slip);

    for (int i = 0; err && !strstr(w->fault, part) && i < 500; i++) {
        poll(NULL, 0, 20); /* it tries again after a pause */
        err = hand_in(w, slip);
    }
    return err;
}

TEST_WITH(lost, struct world *w)
{
    struct slip slip;

    CASE("the answer is lost, and found at once");
    fill(&slip);
    atomic_store(&between.armed, true);
    CHECK_EQ(hand_in(w, &slip), 0);
    CHECK_EQ(slip.job.doubt, 0);
    CHECK(!atomic_load(&between.armed));
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 5);
    CASE("and what stands outside of transactions is asked as before");
    set_plan(w, S("ann"), S("pro"));
    ask_find(w, &slip.job, S("user"), S("ann"));
    CHECK_EQ(slip.job.err, 0);
    sl_job_clear(&slip.job);
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
    struct slip slip, other;
    PGconn *blocker;

    CASE("the server is away: nobody knows");
    fill(&slip);
    fill(&other);
    atomic_store(&between.shuts, true);
    atomic_store(&between.armed, true);
    CHECK_EQ(hand_in(w, &slip), SLUICE_ESTORE);
    CHECK(slip.job.doubt != 0);
    CHECK_EQ(hand_in(w, &slip), SLUICE_ESTORE);
    CHECK(slip.job.doubt != 0);
    CASE("it is back and does not say: still nobody knows");
    blocker = block();
    atomic_store(&between.shut, false);
    CHECK_EQ(send_until(w, &slip, "lock timeout"), SLUICE_ESTORE);
    CHECK(strstr(w->fault, "lock timeout"));
    CHECK(slip.job.doubt != 0);
    CASE("until then nothing else is written");
    CHECK_EQ(hand_in(w, &other), SLUICE_ESTORE);
    CHECK_EQ(other.job.doubt, 0);
    PQfinish(blocker);
    CASE("it was committed: it is not put down again, and the other is");
    CHECK_EQ(send_until(w, &other, "never"), 0);
    CHECK_EQ(send_until(w, &slip, "never"), 0);
    CHECK_EQ(slip.job.doubt, 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 15);
    CHECK_EQ(sum(w, "acme", SL_ROW_DAY), 15);
    sl_job_clear(&slip.job);
    sl_job_clear(&other.job);
}

TEST_WITH(not_committed, struct world *w)
{
    struct slip slip;

    CASE("the session ends before it is committed");
    fill(&slip);
    backed_run("CREATE FUNCTION sluice.ends() RETURNS trigger LANGUAGE plpgsql"
               " AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid());"
               " PERFORM pg_sleep(9); RETURN NULL; END';"
               "CREATE CONSTRAINT TRIGGER ends AFTER UPDATE ON"
               " sluice.usage_counters DEFERRABLE INITIALLY DEFERRED"
               " FOR EACH ROW EXECUTE FUNCTION sluice.ends()");
    CHECK_EQ(hand_in(w, &slip), SLUICE_ESTORE);
    CHECK_EQ(slip.job.doubt, 0);
    backed_run("DROP TRIGGER ends ON sluice.usage_counters");
    CASE("that is known, and it is put down when it comes again");
    CHECK_EQ(send_until(w, &slip, "never"), 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 20);
    sl_job_clear(&slip.job);
}

TEST_WITH(late, struct world *w)
{
    struct slip slip;

    CASE("the line is lost while the COMMIT is on its way: nobody knows");
    fill(&slip);
    atomic_store(&between.keeps, true);
    CHECK_EQ(hand_in(w, &slip), SLUICE_ESTORE);
    CHECK(!atomic_load(&between.keeps));
    CHECK(slip.job.doubt != 0);
    CASE("it comes late, and what it is about is put down once");
    CHECK(between_bring(&between));
    CHECK_EQ(send_until(w, &slip, "never"), 0);
    CHECK_EQ(slip.job.doubt, 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 25);
    CHECK_EQ(sum(w, "acme", SL_ROW_DAY), 25);
    sl_job_clear(&slip.job);
}

TEST_WITH(late_never, struct world *w)
{
    struct slip slip;

    CASE("it never comes");
    fill(&slip);
    atomic_store(&between.keeps, true);
    CHECK_EQ(hand_in(w, &slip), SLUICE_ESTORE);
    CHECK(slip.job.doubt != 0);
    close(between.kept_for);
    CASE("and it is put down when it is handed in again");
    CHECK_EQ(send_until(w, &slip, "never"), 0);
    CHECK_EQ(sum(w, "acme", SL_ROW_COUNTER), 30);
    sl_job_clear(&slip.job);
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
    CHECK(job.doubt != 0);
    CHECK(between_bring(&between));
    for (int i = 0; job.err && i < 500; i++) {
        poll(NULL, 0, 20);
        job.err = 0;
        ask(w, &job);
    }
    CHECK_EQ(job.err, 0);
    CHECK_EQ(job.doubt, 0);
    sl_job_clear(&job);
}

int main(void)
{
    struct world w;

    signal(SIGPIPE, SIG_IGN);
    between_open(&between);
    begin(&w);
    RUN_TESTS_WITH(&w);
    world_close(&w);
    between_close(&between);
    return CHECK_DONE();
}
