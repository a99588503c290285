/* quotas.c -- the rows of usage: what it costs to keep books.
 *
 * A quota decision that is put on the slip, with the database behind it,
 * against a token bucket on the same table; the same with units that are leased
 * from books that are shared, far from the cap; and reports that share a commit
 * against reports that wait for one each; the journal in a file against one in
 * memory, and how long a start with a million lines of it takes, with SQLite
 * and with PostgreSQL (SLUICE_TEST_POSTGRES, which scripts/bench sets); reports
 * to PostgreSQL against UPDATEs of one row each.
 *
 * `bench-quotas leases` measures leased decisions only, `bench-quotas recovery`
 * the starts, `bench-quotas postgres` what needs PostgreSQL.
 */
#include <libpq-fe.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/check.h"
#include "engine/engine_int.h"
#include "net/loop.h"
#include "pair.h"
#include "registry/pg.h"
#include "registry/usage_buffer.h"
#include "store/quota_lease.h"

#define KEYS    1000 /* organisations */
#define REPORTS 64   /* under way at once */
#define TURNS   15
#define SLICES  10 /* of 5 ms, to a flush: it is every 50 ms by the clock */
#define LINES   1000000 /* of a journal of a killed daemon */

#define MONTH (INT64_C(1788220800) * SL_S) /* begin of the month of `now` */

static const char policy_text[] =
    "sluice: 1\n"
    "limits:\n"
    "  bucket: { kind: token-bucket, per: org, rate: 1000k/s }\n"
    "  minutes: { kind: quota, per: org, rate: 4000000M/month }\n"
    "routes:\n"
    "  - { job: bucket, limits: [bucket] }\n"
    "  - { job: minutes, limits: [minutes] }\n";

struct bench {
    struct sl_quota_lessor lessor; /* first: the two are cast into each other */
    char folder[64], path[96];
    struct sl_engine *engine, *leased;
    struct sl_store *leases; /* of `leased` */
    struct sl_loop *loop;
    struct sl_registry *registry;
    struct sl_usage_buffer *keeper, *filed;
    struct sl_usage_journal *journal; /* in a file */
    struct sl_engine_ctx plain, kept, in_file;
    struct sl_check asks[4];
    struct sl_str orgs[KEYS];
    char names[KEYS][16];
    uint64_t at;
    sl_ns now;
    unsigned open; /* reports under way */
    struct sl_timer *slice;
    uint64_t rounds, sum; /* of a slice */
    unsigned slices;
    sl_ns mono, stalled; /* of leases */
};

static void die(const char *why)
{
    fprintf(stderr, "bench: %s\n", why);
    exit(1);
}

/* ---- leases ---- */

/* A question to the books, as the daemon asks it. */
struct op {
    struct sl_job job;
    struct sl_usage_lease_claim claim;
    struct sl_quota_ask *ask;
};

static void on_carried(struct sl_job *job)
{
    struct op *e = job->ctx;
    struct sl_quota_ask *ask = e->ask;

    ask->err = job->err;
    ask->terms = (struct sl_quota_lease_terms){.found = e->claim.found,
                                               .granted = e->claim.granted,
                                               .used = e->claim.used,
                                               .base = e->claim.base,
                                               .spent = e->claim.spent,
                                               .leased = e->claim.leased_here};
    sl_job_clear(job);
    free(e);
    ask->done(ask);
}

static void lend(struct sl_quota_lessor *lessor, struct sl_quota_ask *ask)
{
    struct bench *b = (struct bench *)lessor;
    struct op *e = calloc(1, sizeof(*e));

    if (!e)
        die("there is no memory");
    e->ask = ask;
    e->claim = (struct sl_usage_lease_claim){.node = SL_STR("bench"),
                                             .scope = ask->scope,
                                             .id = ask->id,
                                             .limit = ask->limit,
                                             .start = ask->start,
                                             .at = ask->now,
                                             .cap = ask->cap,
                                             .want = ask->want,
                                             .least = ask->least,
                                             .ceiling = ask->ceiling,
                                             .need = ask->need,
                                             .give_back = ask->give,
                                             .has_units = ask->has,
                                             .heartbeat = ask->alive};
    sl_job_init(&e->job, SL_JOB_LEASE, &sl_alloc_libc);
    e->job.loop = b->loop;
    e->job.done = on_carried;
    e->job.ctx = e;
    e->job.claim = &e->claim;
    e->job.change_count = 1;
    sl_registry_ask(b->registry, &e->job);
}

static bool name(struct sl_quota_lessor *lessor, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id)
{
    (void)lessor;
    *scope = SL_STR("org");
    return !sl_buf_add(id, part->key);
}

/* The clock of leases. A machine that is busy with other work may not run this
 * process for seconds; then leases would have to be asked for again, and that
 * is not what is measured. So time stands still meanwhile. */
static sl_ns mono(void *ctx)
{
    struct bench *b = ctx;
    sl_ns now = sl_clock_mono() - b->stalled;

    if (b->mono > 0 && now - b->mono > SL_S / 10) {
        b->stalled += now - b->mono;
        now = b->mono;
    }
    return b->mono = now;
}

static void open_engine(struct bench *b, bool leased, struct sl_engine **ret)
{
    struct sl_memory_options memory = {.size = 64 << 20};
    struct sl_quota_leases_options leases = {
        .lessor = &b->lessor, .patience = 10 * SL_S, .mono = mono, .ctx = b};
    struct sl_engine_options options = {.store = NULL};
    struct sl_policy_options reading = {.alloc = NULL};
    struct sl_policy *policy = NULL;
    struct sl_report report;
    struct sl_diag diag = {0};

    sl_report_init(&report, "bench.yaml", sl_str_c(policy_text),
                   &sl_alloc_libc);
    if (sl_policy_read(&report, &reading, &policy))
        die(report.kept ? report.problems[0].diag.sentence : "no policy");
    if (sl_memory_open(&memory, &options.store, &diag))
        die(diag.sentence);
    leases.store = options.store;
    if (leased && sl_quota_leases_open(&leases, &options.store))
        die("there is no memory");
    if (leased)
        b->leases = options.store;
    if (sl_engine_open(&options, policy, ret, &diag))
        die(diag.sentence);
    sl_policy_unref(policy);
    sl_report_done(&report);
}

static void open_books(struct bench *b)
{
    struct sl_usage_buffer_options options = {.alloc = NULL};
    struct sl_registry_options registry = {.path = b->path};
    struct sl_diag diag = {0};

    snprintf(b->folder, sizeof(b->folder), "/tmp/sluice-bench-XXXXXX");
    if (!mkdtemp(b->folder))
        die("there is no folder");
    snprintf(b->path, sizeof(b->path), "%s/sluice.db", b->folder);
    if (sl_loop_open(NULL, &b->loop, &diag) ||
        sl_registry_open(&registry, &b->registry, &diag) ||
        sl_usage_buffer_open(b->registry, b->loop, &options, &b->keeper, &diag))
        die(diag.sentence);
    b->kept.meter = sl_usage_buffer_sink(b->keeper);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(b->names[i], sizeof(b->names[i]), "org-%u", i);
        b->orgs[i] = sl_str_c(b->names[i]);
    }
    b->now = INT64_C(1790000000) * SL_S;
}

/* ---- decisions ---- */

static void on_decided(struct sl_check *ask)
{
    if (ask->err || !ask->decision.allowed)
        die("a decision failed");
}

static uint64_t decide(struct bench *b, struct sl_check *ask, struct sl_str job,
                       uint64_t rounds)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        struct sl_request request = {.job = job,
                                     .org = b->orgs[b->at++ * 7919 % KEYS],
                                     .now = b->now += 1000};

        sl_check_start(ask, &request, 1, true);
        sum += ask->decision.shown[0].answer.remaining;
    }
    return sum;
}

static uint64_t by_bucket(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;

    return decide(b, &b->asks[0], SL_STR("bucket"), rounds);
}

/* The slip goes out as often as by the clock. */
static void flush(struct bench *b, struct sl_usage_sink *sink)
{
    if (++b->slices % SLICES == 0)
        sl_usage_buffer_flush(sink);
}

static uint64_t by_quota(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;
    uint64_t sum = decide(b, &b->asks[1], SL_STR("minutes"), rounds);

    flush(b, b->kept.meter);
    sl_loop_stop(b->loop);
    sl_loop_run(b->loop); /* takes what was answered, and returns */
    return sum;
}

static uint64_t by_journal(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;
    uint64_t sum = decide(b, &b->asks[3], SL_STR("minutes"), rounds);

    flush(b, b->in_file.meter);
    sl_loop_stop(b->loop);
    sl_loop_run(b->loop);
    return sum;
}

/* The heartbeats of a daemon are answered: its leases stay its own. */
static void on_slice(void *ctx)
{
    struct bench *b = ctx;

    sl_quota_leases_seen(b->leases, sl_quota_leases_mono(b->leases));
    b->sum = decide(b, &b->asks[2], SL_STR("minutes"), b->rounds);
    flush(b, b->kept.meter);
    sl_loop_stop(b->loop);
}

/* In a turn of the loop, as in the daemon: a lease asks it for the time. */
static uint64_t by_lease(void *ctx, uint64_t rounds)
{
    struct bench *b = ctx;

    b->rounds = rounds;
    sl_timer_start(b->slice, 0);
    sl_loop_run(b->loop);
    return b->sum;
}

static void on_leased(struct sl_check *ask)
{
    on_decided(ask);
    sl_loop_stop(ask->ctx);
}

/* The first of each waits for the books, and leases four times its cost. */
static void lease_all(struct bench *b)
{
    struct sl_check *ask = &b->asks[2];

    ask->done = on_leased;
    ask->ctx = b->loop;
    for (unsigned i = 0; i < KEYS; i++) {
        struct sl_request request = {.job = SL_STR("minutes"),
                                     .org = b->orgs[i],
                                     .has_cost = true,
                                     .cost = 10000000,
                                     .now = b->now};

        sl_check_start(ask, &request, 1, true);
        sl_loop_run(b->loop);
    }
    ask->done = on_decided;
}

/* ---- reports ---- */

static double wall_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void on_written(struct sl_job *job)
{
    struct bench *b = job->ctx;

    if (job->err)
        die(job->diag.sentence);
    if (--b->open == 0)
        sl_loop_stop(b->loop);
}

/* REPORTS of them, `at_once` under way: ns for each. */
static double report(struct bench *b, struct sl_registry *registry,
                     unsigned at_once)
{
    static struct sl_job jobs[REPORTS];
    static struct sl_usage_entry usage[REPORTS];
    double begin = wall_ns();

    for (unsigned i = 0; i < REPORTS; i++) {
        usage[i] = (struct sl_usage_entry){
            .scope = SL_STR("org"),
            .id = b->orgs[b->at++ % KEYS],
            .limit = SL_STR("minutes"),
            .at = b->now,
            .amount = 1,
            .cap = UINT64_MAX,
        };
        sl_job_init(&jobs[i], SL_JOB_USAGE, &sl_alloc_libc);
        jobs[i].loop = b->loop;
        jobs[i].done = on_written;
        jobs[i].ctx = b;
        jobs[i].usage = &usage[i];
        jobs[i].change_count = 1;
        b->open++;
        sl_registry_ask(registry, &jobs[i]);
        if (b->open == at_once)
            sl_loop_run(b->loop);
    }
    return (wall_ns() - begin) / REPORTS;
}

static void measure_reports(struct bench *b)
{
    double ratios[TURNS], alone[TURNS], together[TURNS];

    for (unsigned i = 0; i < TURNS; i++) {
        alone[i] = report(b, b->registry, 1);
        together[i] = report(b, b->registry, REPORTS);
        ratios[i] = alone[i] / together[i];
    }
    printf("usage-reports\t%.2f\t>= 5.00\t%s\t%d reports at once against one "
           "after the other, SQLite; %.0f us against %.0f us each\n",
           median(ratios, TURNS), median(ratios, TURNS) >= 5 ? "ok" : "short",
           REPORTS, median(together, TURNS) / 1000,
           median(alone, TURNS) / 1000);
    fflush(stdout);
}

static void must(PGconn *conn, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        die(PQerrorMessage(conn));
    PQclear(result);
}

static PGconn *open_rows(const char *url)
{
    PGconn *conn = PQconnectdb(url);

    must(conn, PQexec(conn, "CREATE TABLE bench_rows(id text PRIMARY KEY, used "
                            "bigint NOT NULL)"));
    must(conn, PQexec(conn, "INSERT INTO bench_rows SELECT 'org-' || n, 0 FROM "
                            "generate_series(0, 999) n"));
    must(conn, PQprepare(conn, "add",
                         "UPDATE bench_rows SET used = used + 1 WHERE id = $1",
                         1, NULL));
    return conn;
}

/* REPORTS updates of one row each, one after the other: ns for each. */
static double update(struct bench *b, PGconn *conn)
{
    double begin = wall_ns();

    for (unsigned i = 0; i < REPORTS; i++) {
        const char *id = b->names[b->at++ % KEYS];

        must(conn, PQexecPrepared(conn, "add", 1, &id, NULL, NULL, 0));
    }
    return (wall_ns() - begin) / REPORTS;
}

static void measure_updates(struct bench *b, const char *url)
{
    struct sl_registry_options options = {.driver = &sl_driver_postgres,
                                          .path = url};
    double ratios[TURNS], single[TURNS], together[TURNS];
    struct sl_registry *registry = NULL;
    struct sl_diag diag = {0};
    PGconn *conn = open_rows(url);

    if (sl_registry_open(&options, &registry, &diag))
        die(diag.sentence);
    for (unsigned i = 0; i < TURNS; i++) {
        single[i] = update(b, conn);
        together[i] = report(b, registry, REPORTS);
        ratios[i] = together[i] / single[i];
    }
    printf(
        "usage-reports-postgres\t%.2f\t<= 0.60\t%s\t%d reports at once "
        "against single-row UPDATEs one after the other, PostgreSQL; %.0f us "
        "against %.0f us each\n",
        median(ratios, TURNS), median(ratios, TURNS) <= 0.6 ? "ok" : "over",
        REPORTS, median(together, TURNS) / 1000, median(single, TURNS) / 1000);
    fflush(stdout);
    sl_registry_close(registry);
    PQfinish(conn);
}

/* ---- the journal ---- */

static void open_journal(struct bench *b)
{
    static char path[96];
    struct sl_usage_journal_options journal = {.path = path};
    struct sl_usage_buffer_options options = {.alloc = NULL};
    struct sl_diag diag = {0};

    snprintf(path, sizeof(path), "%s/usage", b->folder);
    if (sl_usage_journal_open(&journal, &b->journal, &diag))
        die(diag.sentence);
    options.journal = b->journal;
    if (sl_usage_buffer_open(b->registry, b->loop, &options, &b->filed, &diag))
        die(diag.sentence);
    b->in_file.meter = sl_usage_buffer_sink(b->filed);
    b->in_file.loop = b->loop;
}

static struct sl_usage_journal *open_large(const char *path)
{
    struct sl_usage_journal_options options = {.path = path,
                                               .size = (uint64_t)300 << 20};
    struct sl_usage_journal *journal = NULL;
    struct sl_diag diag = {0};

    if (sl_usage_journal_open(&options, &journal, &diag))
        die(diag.sentence);
    return journal;
}

/* A journal of LINES lines of as many organisations, as a kill leaves it. */
static void leave_journal(const struct bench *b, const char *path)
{
    struct sl_usage_entry u = {.limit = SL_STR("minutes"),
                               .scope = SL_STR("org"),
                               .start = MONTH,
                               .at = b->now,
                               .amount = 1,
                               .cap = UINT64_MAX};
    struct sl_usage_segment *segment = NULL;
    struct sl_usage_journal *journal = open_large(path);
    uint64_t stream = sl_usage_journal_stream(journal), sequence = 0;
    char id[16];

    for (unsigned i = 0; i < LINES; i++) {
        u.id =
            (struct sl_str){id, (size_t)snprintf(id, sizeof(id), "org-%u", i)};
        if (segment && sl_usage_segment_add(segment, &u, i, 0))
            continue;
        segment = sl_usage_segment_open(journal, stream, ++sequence, b->now);
        if (!segment || !sl_usage_segment_add(segment, &u, i, 0))
            die("the journal is full");
    }
    sl_usage_journal_close(journal);
}

/* Raises the table, as the daemon does. */
static uint64_t on_usage(void *ctx, const struct sl_usage_entry *usage)
{
    struct bench *b = ctx;
    struct sl_usage_delta spent = {.limit = usage->limit,
                                   .scope = usage->scope,
                                   .values = &usage->id,
                                   .value_count = 1,
                                   .start = usage->start};

    (void)sl_usage_report_restore(b->engine, &spent, usage->used, b->now);
    return 0;
}

/* Seconds of processor time of this process, which depend less on what else the
 * machine does. */
static double cpu_s(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* A start after a kill: how long it takes until the registry serves, with the
 * usage in the table, and until all lines are recorded. */
static void measure_recovery(struct bench *b, const char *name,
                             struct sl_registry_options options)
{
    struct sl_usage_journal_counts counts;
    struct sl_registry *registry = NULL;
    struct sl_diag diag = {0};
    char path[96];
    double begin, serves, cpu;

    snprintf(path, sizeof(path), "%s/large", b->folder);
    leave_journal(b, path);
    begin = wall_ns();
    cpu = cpu_s();
    options.journal = open_large(path);
    options.on_usage = on_usage;
    options.ctx = b;
    if (sl_registry_open(&options, &registry, &diag))
        die(diag.sentence);
    serves = (wall_ns() - begin) / 1e9;
    cpu = cpu_s() - cpu;
    do {
        usleep(10000);
        sl_usage_journal_count(options.journal, &counts);
    } while (counts.lines > 0);
    printf("usage-journal-recovery-%s\t%.2f\t<= 5.00\t%s\tseconds until a "
           "start with a million lines of a killed daemon serves (%.2f of "
           "processor time); all are recorded after %.0f\n",
           name, serves, serves <= 5 ? "ok" : "over", cpu,
           (wall_ns() - begin) / 1e9);
    fflush(stdout);
    sl_registry_close(registry);
    sl_usage_journal_close(options.journal);
    unlink(path);
}

static void measure_recoveries(struct bench *b)
{
    char path[96];

    snprintf(path, sizeof(path), "%s/recovered.db", b->folder);
    measure_recovery(b, "sqlite", (struct sl_registry_options){.path = path});
}

static void measure_postgres(struct bench *b, bool recovery_only)
{
    const char *url = getenv("SLUICE_TEST_POSTGRES");

    if (url && !recovery_only)
        measure_updates(b, url);
    if (url)
        measure_recovery(b, "postgres",
                         (struct sl_registry_options){
                             .driver = &sl_driver_postgres, .path = url});
}

static void measure_leases(struct bench *b)
{
    struct sl_quota_leases_counts before, after;
    struct pair pair;

    lease_all(b);
    sl_quota_leases_count(b->leases, &before);
    pair = measure(by_bucket, b, by_lease, b);
    sl_quota_leases_count(b->leases, &after);
    if (after.waited != before.waited)
        die("leased decisions have waited for the books");
    print_row(
        "quota-decisions-leased", pair, 1.5,
        "books shared (leased), far from the cap, against a token bucket");
}

static void measure_decisions(struct bench *b)
{
    print_row("quota-decisions", measure(by_bucket, b, by_quota, b), 1.5,
              "put on the books of SQLite, against a token bucket");
    measure_leases(b);
    measure_reports(b);
    print_row("usage-journal", measure(by_quota, b, by_journal, b), 1.15,
              "a quota decision with the journal in a file, against memory");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "all";
    static struct bench b;
    char command[128];

    b.lessor = (struct sl_quota_lessor){.ask = lend, .name = name};
    open_engine(&b, false, &b.engine);
    open_engine(&b, true, &b.leased);
    open_books(&b);
    b.kept.loop = b.loop;
    sl_check_init(&b.asks[0], b.engine, &b.plain, &sl_alloc_libc);
    sl_check_init(&b.asks[1], b.engine, &b.kept, &sl_alloc_libc);
    sl_check_init(&b.asks[2], b.leased, &b.kept, &sl_alloc_libc);
    open_journal(&b);
    sl_check_init(&b.asks[3], b.engine, &b.in_file, &sl_alloc_libc);
    b.asks[0].done = b.asks[1].done = b.asks[3].done = on_decided;
    if (sl_timer_new(b.loop, on_slice, &b, &b.slice))
        die("there is no memory");
    if (strcmp(what, "leases") == 0)
        measure_leases(&b);
    if (strcmp(what, "all") == 0)
        measure_decisions(&b);
    if (strcmp(what, "all") == 0 || strcmp(what, "recovery") == 0)
        measure_recoveries(&b);
    if (strcmp(what, "leases") != 0)
        measure_postgres(&b, strcmp(what, "recovery") == 0);
    sl_registry_stop(b.registry);
    snprintf(command, sizeof(command), "rm -rf %s", b.folder);
    return system(command) != 0;
}
