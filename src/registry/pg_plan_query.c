/* pg_plan_query.c -- plans in tables of other programs. */
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/queue.h>

#include "base/hash.h"
#include "core/calendar.h"
#include "net/loop.h"
#include "registry/pg.h"

#define WORKERS        4
#define TIMEOUT        (3 * SL_S)
#define PREPARE_PERIOD SL_S /* between two tries to prepare the statement */
#define REPOST_MS      10   /* pause after a loop had no memory */
#define REPORTS        64   /* wrong overrides that are reported */
#define ARENA          (8 * SL_PG_OVERRIDES)

/* Later answers would miss the deadline of the check. */
static const char limits[] = "SET statement_timeout = 1000;"
                             "SET lock_timeout = 500";

struct query {
    STAILQ_ENTRY(query) order;
    struct sl_pg_plan *plans;
    struct sl_job *job; /* its done() and ctx are replaced meanwhile */
    void (*done)(struct sl_job *job);
    void *ctx;
    PGresult *result; /* of the row; NULL: none */
    struct sl_pg_row row;
    int err;
};

struct worker {
    struct sl_pg_plan *plans;
    struct sl_pg_conn link;
    struct sl_pg_plan_shape shape;
    bool was_there; /* the server was reached */
    sl_ns opened;   /* monotonic */
    pthread_t thread;
    bool has_thread;
};

struct sl_pg_plan {
    struct sl_pg_plan_options options;
    const struct sl_alloc *alloc;
    char *sql;
    bool users, orgs;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    STAILQ_HEAD(, query) queue; /* protected by lock, as is: */
    bool stopped;
    uint64_t reported[REPORTS]; /* hashes of sentences */
    unsigned report_count;
    struct worker workers[WORKERS];
};

/* ---- one connection ---- */

static int describe(struct worker *worker, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    PGresult *described = NULL;
    int err = sl_pg_describe(&worker->link, "plan", &described);

    if (err)
        *diag = worker->link.diag;
    if (!err)
        err = sl_pg_plan_shape(described, &worker->shape, &why);
    if (why.sentence[0])
        sl_diag_error(diag, err, "identity.subjects.query: %s", why.sentence);
    PQclear(described);
    return err;
}

static int on_open(struct sl_pg_conn *link, struct sl_diag *diag)
{
    struct worker *worker = link->ctx;
    int err = sl_pg_exec(link, limits, NULL, diag);

    worker->was_there = true;
    worker->opened = sl_pg_now(link);
    if (!err)
        err = sl_pg_pipeline(link, diag);
    if (!err)
        err = sl_pg_prepare(link, "plan", worker->plans->sql);
    if (!err)
        err = sl_pg_settle(link, diag);
    return err ? err : describe(worker, diag);
}

/* `id` NULL: a null id. The row lies in *ret_result, which the caller clears.
 */
static int ask(struct worker *worker, const char *id, const char *scope,
               struct sl_pg_row *ret, PGresult **ret_result,
               struct sl_diag *diag)
{
    struct sl_pg_conn *link = &worker->link;
    struct sl_pg_params params = {
        .count = worker->shape.params, .values = {id, scope},
             .binary = 1
    };
    int err = sl_pg_conn_query(link, "plan", &params, true, false, ret_result);

    if (!err)
        return sl_pg_row(*ret_result, &worker->shape, ret, diag);
    *diag = link->diag;
    if (link->conn && sl_pg_now(link) - worker->opened > PREPARE_PERIOD)
        sl_pg_conn_drop(link);
    return err;
}

static int answer(struct worker *worker, struct query *q, struct sl_diag *diag)
{
    struct sl_str id = q->job->entries->subject.id;
    char text[SL_SUBJECT_RECORD_ID + 1];
    int err = sl_pg_conn_ensure(&worker->link, diag);

    if (err || id.len > SL_SUBJECT_RECORD_ID ||
        !sl_pg_can_be(worker->shape.id_type, id))
        return err;
    memcpy(text, id.at, id.len);
    text[id.len] = '\0';
    return ask(worker, text,
               sl_str_eq(q->job->scope, SL_STR("org")) ? "org" : "user",
               &q->row, &q->result, diag);
}

/* ---- back on the loop ---- */

static void finish(struct query *q)
{
    struct sl_job *job = q->job;

    job->done = q->done;
    job->ctx = q->ctx;
    PQclear(q->result);
    sl_alloc_free(q->plans->alloc, q, sizeof(*q));
    job->done(job);
}

static sl_ns end_of(const struct sl_pg_plan_options *options,
                    const struct sl_pg_row *row)
{
    int64_t day = row->expires / SL_DAY;

    if (!row->is_date)
        return row->expires;
    return options->day_end ? options->day_end(options->ctx, day)
                            : sl_calendar_day_end(&sl_zone_utc, day);
}

/* Reports a sentence once. When too many were reported, reports none. */
static void report_once(struct sl_pg_plan *plans, const struct sl_diag *why)
{
    static const struct sl_hash_key key; /* collisions do no harm */
    uint64_t hash = sl_hash64(&key, sl_str_c(why->sentence));
    struct sl_diag full;
    unsigned at = 0;
    bool is_new;

    pthread_mutex_lock(&plans->lock);
    while (at < plans->report_count && plans->reported[at] != hash)
        at++;
    is_new = at == plans->report_count && at < REPORTS;
    if (is_new)
        plans->reported[plans->report_count++] = hash;
    pthread_mutex_unlock(&plans->lock);
    if (!is_new || !plans->options.on_mistake)
        return;
    sl_diag_error(&full, 0, "identity.subjects.query: %s", why->sentence);
    plans->options.on_mistake(plans->options.ctx, full.sentence);
}

/* Adds the overrides of the row. A wrong one is reported and changes nothing:
 * the rate of the plan stays. */
static int add_overrides(struct query *q, struct sl_arena *arena,
                         struct sl_subject_draft *draft)
{
    const struct sl_pg_plan_options *options = &q->plans->options;
    unsigned first = draft->rate_count;
    struct sl_diag why = {0};
    int err = 0;

    if (q->row.overrides.len > 0)
        err = sl_pg_overrides(q->row.overrides, arena, draft, &why);
    if (err == SLUICE_ENOMEM)
        return err;
    if (err)
        report_once(q->plans, &why);
    for (unsigned i = first; i < draft->rate_count; i++)
        if (options->fits &&
            !options->fits(options->ctx, &draft->rates[i], &why))
            report_once(q->plans, &why);
    return 0;
}

/* Puts the plan and the overrides of the row into the record of the registry.
 */
static int merge(struct query *q)
{
    struct sl_subject_record *entry = NULL;
    struct sl_subject_draft draft;
    struct sl_arena arena;

    sl_subject_draft_of(q->job->entries, &draft);
    draft.plan = (struct sl_str){q->row.plan, q->row.plan_len};
    draft.expires = end_of(&q->plans->options, &q->row);
    sl_arena_init(&arena, ARENA, q->plans->alloc);
    if (!add_overrides(q, &arena, &draft))
        entry = sl_subject_record_new(&draft, true, q->plans->alloc);
    sl_arena_done(&arena);
    if (!entry)
        return SLUICE_ENOMEM;
    sl_subject_records_free(q->job->entries);
    q->job->entries = entry;
    return 0;
}

/* Ends a job whose query has failed. A block does not depend on the query. */
static void fail(struct query *q, int err)
{
    struct sl_job *job = q->job;

    job->is_partial = sl_block_is_on(&job->entries->subject.block, job->now);
    job->err = job->is_partial ? 0 : err;
    finish(q);
}

static void on_asked(void *ctx)
{
    struct query *q = ctx;

    if (!q->err && q->row.known)
        q->err = merge(q);
    if (q->err)
        fail(q, q->err);
    else
        finish(q);
}

/* Retries until it is posted: the lookup waits for it. */
static void post(struct query *q)
{
    while (sl_loop_post(q->job->loop, on_asked, q))
        poll(NULL, 0, REPOST_MS);
}

/* ---- the threads ---- */

/* Returns NULL to end. */
static struct query *take(struct sl_pg_plan *plans)
{
    struct query *q = NULL;

    pthread_mutex_lock(&plans->lock);
    while (!plans->stopped && STAILQ_EMPTY(&plans->queue))
        pthread_cond_wait(&plans->wake, &plans->lock);
    if (!plans->stopped) {
        q = STAILQ_FIRST(&plans->queue);
        STAILQ_REMOVE_HEAD(&plans->queue, order);
    }
    pthread_mutex_unlock(&plans->lock);
    return q;
}

static void *serve(void *ctx)
{
    struct worker *worker = ctx;
    struct sl_pg_plan *plans = worker->plans;
    struct query *q;

    while ((q = take(plans))) {
        struct sl_diag diag = {0};

        q->err = answer(worker, q, &diag) ? SLUICE_ESTORE : 0;
        if (q->err && plans->options.on_fault)
            plans->options.on_fault(plans->options.ctx, diag.sentence);
        post(q);
    }
    return NULL;
}

/* ---- jobs ---- */

static bool is_asked(const struct sl_pg_plan *plans, struct sl_str scope)
{
    return sl_str_eq(scope, SL_STR("org")) ? plans->orgs : plans->users;
}

static void on_found(struct sl_job *job)
{
    struct query *q = job->ctx;
    struct sl_pg_plan *plans = q->plans;
    bool stopped;

    if (job->err || !is_asked(plans, job->scope)) {
        finish(q);
        return;
    }
    pthread_mutex_lock(&plans->lock);
    stopped = plans->stopped;
    if (!stopped) {
        STAILQ_INSERT_TAIL(&plans->queue, q, order);
        pthread_cond_signal(&plans->wake);
    }
    pthread_mutex_unlock(&plans->lock);
    if (stopped)
        fail(q, SLUICE_ESTORE);
}

void sl_pg_plan_find(struct sl_pg_plan *plans, struct sl_registry *registry,
                     struct sl_job *job)
{
    struct query *q = sl_alloc_new(plans->alloc, sizeof(*q));

    if (!q) {
        job->err = SLUICE_ENOMEM;
        job->done(job);
        return;
    }
    *q = (struct query){
        .plans = plans, .job = job, .done = job->done, .ctx = job->ctx};
    job->done = on_found;
    job->ctx = q;
    sl_registry_ask(registry, job);
}

/* ---- opening ---- */

/* No row has a null id, but errors of the statement show up. */
static int try_query(struct sl_pg_plan *plans, struct sl_diag *diag)
{
    struct worker *worker = &plans->workers[0];
    struct sl_str scope = plans->options.scope;
    struct sl_pg_row row;
    struct sl_diag why = {0};
    PGresult *result = NULL;
    bool has_two = strstr(plans->sql, "$2"); /* as far as it can be seen */
    bool away;
    int err = sl_pg_conn_ensure(&worker->link, &why);

    if (!err)
        err = ask(worker, NULL, "user", &row, &result, &why);
    PQclear(result);
    away = !worker->was_there || worker->link.temporary;
    if (err && away && !plans->options.may_be_away)
        return sl_diag_error(diag, SLUICE_ESTORE, "%s", why.sentence);
    if (!err)
        has_two = worker->shape.params > 1;
    else if (!away)
        return sl_diag_error(diag, SLUICE_ECONF, "%s%s",
                             strncmp(why.sentence, "identity.", 9) == 0
                                 ? ""
                                 : "identity.subjects.query: ",
                             why.sentence);
    plans->users = !sl_str_eq(scope, SL_STR("org"));
    plans->orgs =
        sl_str_eq(scope, SL_STR("org")) || (scope.len == 0 && has_two);
    return 0;
}

static int set_up(struct sl_pg_plan *plans, struct sl_diag *diag)
{
    struct sl_str sql = plans->options.sql;
    char shown[SL_PG_SHOWN];
    int err = sl_pg_url(plans->options.url, shown, diag);

    plans->sql = err ? NULL : sl_alloc_new(plans->alloc, sql.len + 1);
    if (!plans->sql)
        return err ? err : sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memcpy(plans->sql, sql.at, sql.len);
    plans->sql[sql.len] = '\0';
    for (int i = 0; i < WORKERS; i++) {
        struct worker *worker = &plans->workers[i];

        worker->plans = plans;
        worker->link.url = plans->options.url;
        memcpy(worker->link.shown, shown, sizeof(shown));
        worker->link.read_only = true;
        worker->link.on_open = on_open;
        worker->link.ctx = worker;
        sl_pg_init(&worker->link);
        worker->link.timeout = TIMEOUT;
    }
    return 0;
}

int sl_pg_plan_open(const struct sl_pg_plan_options *options,
                    struct sl_pg_plan **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_pg_plan *plans = sl_alloc_new(alloc, sizeof(*plans));
    int err;

    if (!plans)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(plans, 0, sizeof(*plans));
    plans->options = *options;
    plans->alloc = alloc;
    pthread_mutex_init(&plans->lock, NULL);
    pthread_cond_init(&plans->wake, NULL);
    STAILQ_INIT(&plans->queue);
    err = set_up(plans, diag);
    if (!err)
        err = try_query(plans, diag);
    for (int i = 0; i < WORKERS && !err; i++) {
        struct worker *worker = &plans->workers[i];

        err = sl_thread_start(&worker->thread, serve, worker, diag);
        worker->has_thread = !err;
    }
    if (err)
        sl_pg_plan_close(plans);
    else
        *ret = plans;
    return err;
}

void sl_pg_plan_stop(struct sl_pg_plan *plans)
{
    struct query *q;

    if (!plans)
        return;
    pthread_mutex_lock(&plans->lock);
    plans->stopped = true;
    pthread_cond_broadcast(&plans->wake);
    pthread_mutex_unlock(&plans->lock);
    for (int i = 0; i < WORKERS; i++) {
        if (plans->workers[i].has_thread)
            pthread_join(plans->workers[i].thread, NULL);
        plans->workers[i].has_thread = false;
    }
    while ((q = STAILQ_FIRST(&plans->queue))) {
        STAILQ_REMOVE_HEAD(&plans->queue, order);
        q->err = SLUICE_ESTORE;
        post(q);
    }
}

void sl_pg_plan_close(struct sl_pg_plan *plans)
{
    if (!plans)
        return;
    sl_pg_plan_stop(plans);
    for (int i = 0; i < WORKERS; i++)
        sl_pg_close(&plans->workers[i].link);
    pthread_cond_destroy(&plans->wake);
    pthread_mutex_destroy(&plans->lock);
    if (plans->sql)
        sl_alloc_free(plans->alloc, plans->sql, plans->options.sql.len + 1);
    sl_alloc_free(plans->alloc, plans, sizeof(*plans));
}
