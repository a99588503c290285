/* plans.c -- tables of others: without memory, without a server, at the end.
 * What is asked and answered is tried with a daemon (test/postgres/query.sh).
 */
#include "registry/pg.h"

#include <stdlib.h>

#include "check.h"
#include "fail.h"
#include "net/loop.h"

#define QUERY                                                                  \
    "SELECT CASE WHEN $1 = 'slow' THEN pg_sleep(60)::text"                     \
    " WHEN $1 IN ('bad', 'cut') THEN (1 / (length($1) - 3))::text"             \
    " ELSE 'pro' END"                                                          \
    " AS plan, '{\"exports\": 7}'::jsonb AS overrides WHERE $1 <> 'eve'"
#define MANY 9 /* more than there are threads */

static struct fail fail;
static struct sl_alloc alloc;
static struct sl_loop *loop;
static struct sl_registry *registry;
static unsigned answers;
static bool is_partial; /* of the last answer */

static int open_at(const char *url, const char *sql, struct sl_pg_plan **ret)
{
    struct sl_pg_plan_options options = {
        .url = url, .sql = sl_str_c(sql), .alloc = &alloc};
    struct sl_diag diag = {0};
    int err = sl_pg_plan_open(&options, ret, &diag);

    CHECK_EQ(err != 0, diag.sentence[0] != '\0');
    return err;
}

static void on_answer(struct sl_job *job)
{
    (void)job;
    answers++;
    sl_loop_stop(loop);
}

static void begin(struct sl_pg_plan *plans, struct sl_job *job, const char *id)
{
    sl_job_init(job, SL_JOB_FIND, &sl_alloc_libc);
    job->loop = loop;
    job->done = on_answer;
    job->scope = SL_STR("user");
    job->id = sl_str_c(id);
    sl_pg_plan_find(plans, registry, job);
}

/* Returns the plan, "?" if unknown, or NULL and *err. */
static const char *plan_of(struct sl_pg_plan *plans, const char *id, int *err)
{
    static char plan[SL_SUBJECT_RECORD_NAME + 1];
    struct sl_job job;
    const struct sl_subject *found;

    answers = 0;
    begin(plans, &job, id);
    while (answers == 0)
        sl_loop_run(loop);
    CHECK_EQ(answers, 1);
    *err = job.err;
    is_partial = job.is_partial;
    if (!job.err) {
        found = &job.entries->subject;
        snprintf(plan, sizeof(plan), "%.*s",
                 found->known ? sl_str_int(found->plan.len) : 1,
                 found->known ? found->plan.at : "?");
    }
    sl_job_clear(&job);
    return *err ? NULL : plan;
}

static void test_open(const char *url)
{
    struct sl_pg_plan *plans = NULL;
    unsigned nth = 0;

    CASE("opened without memory");
    do {
        fail = (struct fail){.nth = ++nth};
    } while (open_at(url, QUERY, &plans) == SLUICE_ENOMEM && nth < 9);
    CHECK_EQ(nth, 3);
    sl_pg_plan_close(plans);
    fail_check(&fail);

    CASE("no server, no query");
    plans = NULL;
    fail = (struct fail){0};
    CHECK_EQ(open_at("postgres://127.0.0.1:1/x", QUERY, &plans), SLUICE_ESTORE);
    CHECK_EQ(open_at(url, "SELECT $1 FROM", &plans), SLUICE_ECONF);
    CHECK_EQ(open_at(url, "SELECT $1::text AS it", &plans), SLUICE_ECONF);
    CHECK(!plans);
    fail_check(&fail);
    sl_pg_plan_close(NULL);
    sl_pg_plan_stop(NULL);
}

static void test_memory(const char *url)
{
    struct sl_pg_plan *plans = NULL;
    const char *plan = NULL;
    unsigned nth = 0;
    int err = 0;

    CASE("asked without memory");
    fail = (struct fail){0};
    CHECK_EQ(open_at(url, QUERY, &plans), 0);
    if (!plans)
        return;
    do {
        fail.nth = fail.calls + ++nth;
        plan = plan_of(plans, "ann", &err);
        CHECK(plan || err == SLUICE_ENOMEM);
    } while (!plan && nth < 9);
    CHECK_EQ(nth, 4);
    CHECK_STR(plan, "pro");
    fail.nth = 0;
    CHECK_STR(plan_of(plans, "eve", &err), "?");

    CASE("after the end");
    sl_pg_plan_stop(plans);
    CHECK(!plan_of(plans, "ann", &err));
    CHECK_EQ(err, SLUICE_ESTORE);
    sl_pg_plan_close(plans);
    fail_check(&fail);
}

static void block(const char *id)
{
    struct sl_job job;

    sl_job_init(&job, SL_JOB_BLOCK, &sl_alloc_libc);
    job.loop = loop;
    job.done = on_answer;
    job.scope = SL_STR("user");
    job.id = sl_str_c(id);
    job.on = 1;
    job.since = SL_NS_NONE;
    answers = 0;
    sl_registry_ask(registry, &job);
    while (answers == 0)
        sl_loop_run(loop);
    CHECK_EQ(job.err, 0);
    sl_job_clear(&job);
}

static void test_blocked(const char *url)
{
    struct sl_pg_plan *plans = NULL;
    int err = 0;

    CASE("a query that fails fails the lookup");
    fail = (struct fail){0};
    CHECK_EQ(open_at(url, QUERY, &plans), 0);
    if (!plans)
        return;
    block("cut");
    CHECK(!plan_of(plans, "bad", &err));
    CHECK_EQ(err, SLUICE_ESTORE);
    CASE("but not of a subject that is blocked");
    CHECK_STR(plan_of(plans, "cut", &err), "?");
    CHECK(is_partial);
    CHECK_STR(plan_of(plans, "ann", &err), "pro");
    CHECK(!is_partial);
    sl_pg_plan_stop(plans);
    CHECK_STR(plan_of(plans, "cut", &err), "?");
    CHECK(is_partial);
    sl_pg_plan_close(plans);
    fail_check(&fail);
}

static void test_end(const char *url)
{
    struct sl_pg_plan *plans = NULL;
    struct sl_job jobs[MANY];

    CASE("waiting lookups fail at the end");
    fail = (struct fail){0};
    CHECK_EQ(open_at(url, QUERY, &plans), 0);
    if (!plans)
        return;
    answers = 0;
    for (int i = 0; i < MANY; i++)
        begin(plans, &jobs[i], "slow");
    sl_registry_stop(registry); /* all are found, and posted */
    sl_loop_stop(loop);
    sl_loop_run(loop);
    sl_pg_plan_stop(plans);
    sl_loop_stop(loop);
    sl_loop_run(loop);
    CHECK_EQ(answers, MANY);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(jobs[i].err, SLUICE_ESTORE);
        sl_job_clear(&jobs[i]);
    }
    sl_pg_plan_close(plans);
    fail_check(&fail);
}

int main(void)
{
    const char *url = getenv("SLUICE_TEST_POSTGRES");
    struct sl_registry_options options = {.path = ":memory:"};

    if (!url) {
        printf("Bail out! SLUICE_TEST_POSTGRES is not set\n");
        return 1;
    }
    alloc = fail_alloc(&fail);
    CHECK_EQ(sl_loop_open(NULL, &loop, NULL), 0);
    CHECK_EQ(sl_registry_open(&options, &registry, NULL), 0);
    test_open(url);
    test_memory(url);
    test_blocked(url);
    test_end(url);
    sl_registry_close(registry);
    sl_loop_close(loop);
    return CHECK_DONE();
}
