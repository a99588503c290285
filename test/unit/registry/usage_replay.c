/* usage_replay.c -- a registry that finds the journal of a killed process:
 * whatever fails or ends on the way, each line is recorded once. */
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "books.h"
#include "fail.h"
#include "registry/registry_int.h"
#include "registry/usage_journal.h"

static char file[128], copy[128];
static int line_count = 20;
static int report_each = 5; /* one in so many lines is a report */
static const struct sl_driver *driver = BACKED_BY;

static struct sl_usage_journal *open_at(const char *path)
{
    struct sl_usage_journal_options options = {.path = path,
                                               .size = SL_JOURNAL_LEAST};
    struct sl_usage_journal *journal = NULL;
    struct sl_diag diag = {0};

    if (!CHECK_EQ(sl_usage_journal_open(&options, &journal, &diag), 0)) {
        printf("Bail out! %s\n", diag.sentence);
        exit(1);
    }
    return journal;
}

static struct sl_usage_journal *open_file(void)
{
    return open_at(file);
}

/* Adds lines of the subjects "NAME0", "NAME1" and so on, each `step`th: 3 units
 * each. */
static void add_lines(struct sl_usage_segment *segment, const char *name,
                      int first, int step)
{
    char id[24], key[24];

    for (int i = first; i < line_count; i += step) {
        bool is_report = i % report_each == report_each - 1;
        struct sl_usage_entry u;

        snprintf(id, sizeof(id), "%s%d", name, i);
        snprintf(key, sizeof(key), "key%d", i);
        u = report(id, 3, is_report ? key : "");
        CHECK(sl_usage_segment_add(segment, &u, (uint64_t)i,
                                   is_report ? SL_LINE_REPORT : 0));
    }
}

/* Leaves two segments of such lines. */
static void leave(const char *name)
{
    struct sl_usage_journal *journal = open_file();
    uint64_t stream = sl_usage_journal_stream(journal);

    for (int s = 0; s < 2; s++)
        add_lines(
            sl_usage_segment_open(journal, stream, 1 + (uint64_t)s, DAY_0),
            name, s, 2);
    sl_usage_journal_close(journal);
}

static _Atomic unsigned faults;

static void count_fault(void *ctx, const char *sentence)
{
    (void)ctx;
    (void)sentence;
    atomic_fetch_add(&faults, 1);
}

static int start(struct world *w, struct sl_usage_journal *journal,
                 const struct sl_alloc *alloc)
{
    struct sl_registry_options options = {.driver = driver,
                                          .path = w->path,
                                          .alloc = alloc,
                                          .on_fault = count_fault,
                                          .journal = journal};
    struct sl_diag diag = {0};
    int err = sl_registry_open(&options, &w->registry, &diag);

    CHECK(!err || diag.sentence[0]);
    return err;
}

/* Waits until no line is left. */
static void await_lines(struct world *w, struct sl_usage_journal *journal)
{
    struct sl_usage_journal_counts counts;
    struct sl_job job;

    do {
        ask_find(w, &job, S("org"), S("none"));
        sl_job_clear(&job);
        sl_usage_journal_count(journal, &counts);
    } while (counts.lines > 0);
}

static void start_well(struct world *w, struct sl_usage_journal *journal)
{
    if (!CHECK_EQ(start(w, journal, NULL), 0))
        exit(1);
    await_lines(w, journal);
}

static void check_lines(struct world *w, const char *name)
{
    char id[24];

    for (int i = 0; i < line_count; i++) {
        snprintf(id, sizeof(id), "%s%d", name, i);
        CHECK_EQ(sum(w, id, SL_ROW_COUNTER), 3);
        CHECK_EQ(sum(w, id, SL_ROW_DAY), 3);
    }
}

static void stop(struct world *w, struct sl_usage_journal *journal)
{
    world_stop(w);
    sl_usage_journal_close(journal);
}

static void test_no_memory(struct world *w)
{
    struct sl_usage_journal *journal;
    struct fail f = {0};
    struct sl_alloc alloc = fail_alloc(&f);
    char name[16];
    unsigned nth = 0;

    CASE("whichever allocation fails, each line is recorded once");
    do {
        f = (struct fail){.nth = ++nth};
        snprintf(name, sizeof(name), "n%u-", nth);
        leave(name);
        journal = open_file();
        if (start(w, journal, &alloc) == 0)
            world_stop(w);
        sl_usage_journal_close(journal);
        fail_check(&f);
        journal = open_file();
        start_well(w, journal);
        check_lines(w, name);
        stop(w, journal);
    } while (f.calls >= nth && nth < 200);
    CHECK(nth > 5 && nth < 200);
}

/* The first start records the lines of reports, and perhaps some others. */
static void test_ends(struct world *w)
{
    struct sl_usage_journal *journal;

    CASE("a registry that is closed at once goes on at the next start");
    leave("ends");
    for (int i = 0; i < 5; i++) {
        journal = open_file();
        CHECK_EQ(start(w, journal, NULL), 0);
        stop(w, journal);
    }
    journal = open_file();
    start_well(w, journal);
    check_lines(w, "ends");
    stop(w, journal);
}

static void test_read(struct world *w)
{
    struct sl_usage_journal *journal;

    CASE("a read and a report see the lines of their subject");
    leave("read");
    journal = open_file();
    CHECK_EQ(start(w, journal, NULL), 0);
    CHECK_EQ(sum(w, "read19", SL_ROW_COUNTER), 3);
    put_one(w, report("read18", 1, ""), SL_USAGE_RECORDED, 4, 0);
    put_one(w, report("read18", -1, ""), SL_USAGE_RECORDED, 3, 0);
    stop(w, journal);
    journal = open_file();
    start_well(w, journal);
    check_lines(w, "read");
    stop(w, journal);
}

static void run(const char *from, const char *to)
{
    char command[300];

    snprintf(command, sizeof(command), "cp %s %s", from, to);
    CHECK_EQ(system(command), 0);
}

/* Records a sealed segment, as a buffer does. */
static void record(struct world *w, struct sl_usage_journal *journal,
                   struct sl_usage_segment *segment)
{
    struct sl_usage_entry list[SL_JOURNAL_LINES];
    struct sl_usage_line *line = NULL;
    struct sl_job job;

    sl_job_init(&job, SL_JOB_USAGE, &sl_alloc_libc);
    while ((line = sl_usage_segment_next(segment, line)))
        sl_usage_line_read(line, &list[job.change_count++]);
    job.usage = list;
    job.journal = sl_usage_journal_node(journal);
    job.stream = segment->stream;
    job.sequence = segment->sequence;
    ask(w, &job);
    CHECK(job.err == 0 && job.result == SL_JOB_DONE);
    sl_job_clear(&job);
    sl_usage_segment_free(journal, segment);
}

/* As after a power failure: a segment was sealed, recorded and freed in the
 * memory of the kernel. On disk it is sealed, or still open. */
static void take_back(struct world *w, const char *name, bool open)
{
    struct sl_usage_journal *journal = open_file();
    struct sl_usage_segment *segment = sl_usage_segment_open(
        journal, sl_usage_journal_stream(journal), 1, DAY_0);

    CHECK_EQ(start(w, journal, NULL), 0);
    add_lines(segment, name, 0, 1);
    if (open)
        run(file, copy);
    sl_usage_segment_seal(segment);
    if (!open)
        run(file, copy);
    record(w, journal, segment);
    check_lines(w, name);
    stop(w, journal);
    run(copy, file);
    journal = open_file();
    start_well(w, journal);
    check_lines(w, name);
    stop(w, journal);
}

static void test_taken_back(struct world *w)
{
    CASE("segments that are in the file again are not recorded again");
    take_back(w, "back", false);
    CASE("nor are segments that are open again");
    take_back(w, "again", true);
}

#ifdef ON_POSTGRES

/* The first commit in the background waits, and nothing follows it: the process
 * was killed. */
static struct sl_driver killed;
static pthread_t opener;
static _Atomic bool is_released, is_dead;

static int run_killed(struct sl_database *db, enum sl_query query)
{
    int err;

    if (query != SL_QUERY_COMMIT || pthread_equal(pthread_self(), opener))
        return BACKED_BY->run(db, query);
    while (!atomic_load(&is_released))
        sched_yield();
    err = atomic_load(&is_dead) ? SLUICE_ESTORE : BACKED_BY->run(db, query);
    atomic_store(&is_dead, true);
    return err ? sl_diag_error(&db->diag, err, "as killed") : 0;
}

static void test_late(struct world *w)
{
    struct sl_registry_options options = {.driver = driver, .path = w->path};
    struct sl_usage_journal *journal, *other;
    struct sl_registry *registry;
    struct sl_diag diag = {0};

    CASE("what a killed process commits late is not recorded again");
    line_count = 100; /* several transactions for a segment */
    report_each = line_count + 1;
    leave("late");
    journal = open_file(); /* it seals them */
    run(file, copy);
    other = open_at(copy);
    options.journal = other;
    killed = *BACKED_BY;
    killed.run = run_killed;
    opener = pthread_self();
    driver = &killed;
    CHECK_EQ(start(w, journal, NULL), 0);
    CHECK_EQ(sl_registry_open(&options, &registry, &diag), 0);
    atomic_store(&is_released, true);
    while (!atomic_load(&is_dead))
        sched_yield();
    stop(w, journal);
    w->registry = registry;
    await_lines(w, other);
    check_lines(w, "late");
    stop(w, other);
    driver = BACKED_BY;
}

#else

/* A commit of SQLite that fails, before or after it is made. */
static struct sl_driver scripted;
static _Atomic int until;  /* commits; 1: the next one fails */
static _Atomic bool fails; /* all of them */
static _Atomic unsigned begins;
static bool is_lost;

static int run_scripted(struct sl_database *db, enum sl_query query)
{
    int err = 0;

    atomic_fetch_add(&begins, query == SL_QUERY_BEGIN);
    if (query != SL_QUERY_COMMIT ||
        (atomic_fetch_sub(&until, 1) != 1 && !atomic_load(&fails)))
        return sl_driver_sqlite.run(db, query);
    if (is_lost)
        err = sl_driver_sqlite.run(db, query);
    return err ? err : sl_diag_error(&db->diag, SLUICE_ESTORE, "as scripted");
}

static void test_commits(struct world *w)
{
    struct sl_usage_journal *journal;
    char name[16];

    CASE(
        "whichever commit fails, or loses its answer, lines are recorded once");
    scripted = sl_driver_sqlite;
    scripted.run = run_scripted;
    driver = &scripted;
    for (int n = 0; n < 12; n++) {
        snprintf(name, sizeof(name), "c%d-", n);
        leave(name);
        is_lost = n % 2;
        atomic_store(&until, 1 + n / 2);
        journal = open_file();
        if (start(w, journal, NULL) == 0)
            await_lines(w, journal);
        else
            start_well(w, journal);
        atomic_store(&until, 0);
        check_lines(w, name);
        stop(w, journal);
    }
    driver = BACKED_BY;
}

/* Waits for so many transactions. */
static void await_begins(struct world *w, unsigned count)
{
    struct sl_job job;

    while (atomic_load(&begins) < count) {
        ask_find(w, &job, S("org"), S("none"));
        sl_job_clear(&job);
    }
}

static void test_fails(struct world *w)
{
    struct sl_usage_export export = {.number = 0};
    struct sl_usage_journal *journal;
    struct sl_job job;
    unsigned before;
    sl_ns since;

    CASE("a portion that fails again and again is logged once");
    driver = &scripted;
    is_lost = false;
    report_each = line_count + 1;
    leave("fails");
    journal = open_file();
    atomic_store(&fails, true);
    atomic_store(&faults, 0);
    atomic_store(&begins, 0);
    CHECK_EQ(start(w, journal, NULL), 0);
    await_begins(w, 5);
    CHECK_EQ(atomic_load(&faults), 1);
    CASE("an export that waits for it takes no locks meanwhile");
    since = sl_clock_mono();
    before = atomic_load(&begins);
    sl_job_init(&job, SL_JOB_EXPORT, &sl_alloc_libc);
    job.export = &export;
    ask(w, &job);
    CHECK_EQ(job.err, SLUICE_ESTORE);
    CHECK(strstr(job.diag.sentence, "still being recorded"));
    sl_job_clear(&job);
    CHECK(atomic_load(&begins) - before <=
          (sl_clock_mono() - since) / (200 * SL_MS) + 2);
    CASE("then it is recorded");
    atomic_store(&fails, false);
    await_lines(w, journal);
    check_lines(w, "fails");
    stop(w, journal);
    driver = BACKED_BY;
}

#endif

int main(void)
{
    struct world w;

    world_folder(&w);
    snprintf(file, sizeof(file), "%s/usage", w.folder);
    snprintf(copy, sizeof(copy), "%s/copy", w.folder);
    test_no_memory(&w);
    test_ends(&w);
    test_read(&w);
    test_taken_back(&w);
#ifdef ON_POSTGRES
    test_late(&w);
#else
    test_commits(&w);
    test_fails(&w);
#endif
    world_close(&w);
    return CHECK_DONE();
}
