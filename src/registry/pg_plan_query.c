/* pg_plan_query.c -- plans that stand in tables of others. */
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/queue.h>

#include "net/loop.h"
#include "registry/pg.h"

#define SEATS    4
#define PATIENCE (3 * SL_S)
#define ANEW     SL_S /* how soon a statement that failed is prepared again */
#define AGAIN_MS 10   /* an answer for which a loop had no memory */

/* An answer that comes later than that is of use to nobody. */
static const char limits[] = "SET statement_timeout = 1000;"
                             "SET lock_timeout = 500";

struct question {
    STAILQ_ENTRY(question) order;
    struct sl_pg_plan *plans;
    struct sl_job *job; /* its done() and ctx are ours meanwhile */
    void (*done)(struct sl_job *job);
    void *ctx;
    struct sl_pg_row row;
    int err;
};

struct seat {
    struct sl_pg_plan *plans;
    struct sl_pg_conn link;
    struct sl_pg_plan_shape shape;
    bool was_there; /* the server */
    sl_ns opened;   /* steady */
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
    STAILQ_HEAD(, question) queue; /* by lock, as is: */
    bool stopped;
    struct seat seats[SEATS];
};

/* ---- one seat ---- */

static int describe(struct seat *seat, struct sl_diag *diag)
{
    struct sl_diag why = {0};
    PGresult *described = NULL;
    int err = sl_pg_describe(&seat->link, "plan", &described);

    if (err)
        *diag = seat->link.diag;
    if (!err)
        err = sl_pg_plan_shape(described, &seat->shape, &why);
    if (why.sentence[0])
        sl_diag_error(diag, err, "identity.subjects.query: %s", why.sentence);
    PQclear(described);
    return err;
}

static int on_open(struct sl_pg_conn *link, struct sl_diag *diag)
{
    struct seat *seat = link->ctx;
    int err = sl_pg_exec(link, limits, NULL, diag);

    seat->was_there = true;
    seat->opened = sl_pg_now(link);
    if (!err)
        err = sl_pg_pipeline(link, diag);
    if (!err)
        err = sl_pg_prepare(link, "plan", seat->plans->sql);
    if (!err)
        err = sl_pg_settle(link, diag);
    return err ? err : describe(seat, diag);
}

/* `id` NULL is nobody. */
static int ask(struct seat *seat, const char *id, const char *scope,
               struct sl_pg_row *ret, struct sl_diag *diag)
{
    struct sl_pg_conn *link = &seat->link;
    struct sl_pg_params params = {
        .count = seat->shape.params, .values = {id, scope},
             .binary = 1
    };
    PGresult *result = NULL;
    int err = sl_pg_conn_query(link, "plan", &params, true, false, &result);

    if (!err) {
        err = sl_pg_row(result, &seat->shape, ret, diag);
        PQclear(result);
        return err;
    }
    *diag = link->diag;
    if (link->conn && sl_pg_now(link) - seat->opened > ANEW)
        sl_pg_conn_drop(link);
    return err;
}

static int answer(struct seat *seat, struct question *q, struct sl_diag *diag)
{
    struct sl_str id = q->job->entries->subject.id;
    char text[SL_SUBJECT_RECORD_ID + 1];
    int err = sl_pg_conn_ensure(&seat->link, diag);

    if (err || id.len > SL_SUBJECT_RECORD_ID ||
        !sl_pg_can_be(seat->shape.id_type, id))
        return err;
    memcpy(text, id.at, id.len);
    text[id.len] = '\0';
    return ask(seat, text,
               sl_str_eq(q->job->scope, SL_STR("org")) ? "org" : "user",
               &q->row, diag);
}

/* ---- back on the loop ---- */

static void finish(struct question *q)
{
    struct sl_job *job = q->job;

    job->done = q->done;
    job->ctx = q->ctx;
    sl_alloc_free(q->plans->alloc, q, sizeof(*q));
    job->done(job);
}

/* What the registry knows of him, with the plan that the row has. */
static int merge(struct question *q)
{
    struct sl_subject_record *entry;
    struct sl_subject_draft draft;

    sl_subject_draft_of(q->job->entries, &draft);
    draft.plan = (struct sl_str){q->row.plan, q->row.plan_len};
    draft.expires = q->row.expires;
    entry = sl_subject_record_new(&draft, true, q->plans->alloc);
    if (!entry)
        return SLUICE_ENOMEM;
    sl_subject_records_free(q->job->entries);
    q->job->entries = entry;
    return 0;
}

static void on_asked(void *ctx)
{
    struct question *q = ctx;

    if (!q->err && q->row.known)
        q->err = merge(q);
    q->job->err = q->err;
    finish(q);
}

/* An answer must be told: whoever asked waits for it. */
static void post(struct question *q)
{
    while (sl_loop_post(q->job->loop, on_asked, q))
        poll(NULL, 0, AGAIN_MS);
}

/* ---- the threads ---- */

/* NULL: it is time to end. */
static struct question *take(struct sl_pg_plan *plans)
{
    struct question *q = NULL;

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
    struct seat *seat = ctx;
    struct sl_pg_plan *plans = seat->plans;
    struct question *q;

    while ((q = take(plans))) {
        struct sl_diag diag = {0};

        q->err = answer(seat, q, &diag) ? SLUICE_ESTORE : 0;
        if (q->err && plans->options.on_fault)
            plans->options.on_fault(plans->options.ctx, diag.sentence);
        post(q);
    }
    return NULL;
}

/* ---- questions ---- */

static bool is_asked(const struct sl_pg_plan *plans, struct sl_str scope)
{
    return sl_str_eq(scope, SL_STR("org")) ? plans->orgs : plans->users;
}

static void on_found(struct sl_job *job)
{
    struct question *q = job->ctx;
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
    if (stopped) {
        job->err = SLUICE_ESTORE;
        finish(q);
    }
}

void sl_pg_plan_find(struct sl_pg_plan *plans, struct sl_registry *registry,
                     struct sl_job *job)
{
    struct question *q = sl_alloc_new(plans->alloc, sizeof(*q));

    if (!q) {
        job->err = SLUICE_ENOMEM;
        job->done(job);
        return;
    }
    *q = (struct question){
        .plans = plans, .job = job, .done = job->done, .ctx = job->ctx};
    job->done = on_found;
    job->ctx = q;
    sl_registry_ask(registry, job);
}

/* ---- opening ---- */

/* Nobody is called null; but whatever is wrong with the statement when it is
 * carried out is wrong with this one. */
static int try_it(struct sl_pg_plan *plans, struct sl_diag *diag)
{
    struct seat *seat = &plans->seats[0];
    struct sl_str scope = plans->options.scope;
    struct sl_pg_row row;
    struct sl_diag why = {0};
    int err = sl_pg_conn_ensure(&seat->link, &why);

    if (!err)
        err = ask(seat, NULL, "user", &row, &why);
    if (err && !seat->was_there)
        return sl_diag_error(diag, SLUICE_ESTORE, "%s", why.sentence);
    if (err)
        return sl_diag_error(diag, SLUICE_ECONF, "%s%s",
                             strncmp(why.sentence, "identity.", 9) == 0
                                 ? ""
                                 : "identity.subjects.query: ",
                             why.sentence);
    plans->users = !sl_str_eq(scope, SL_STR("org"));
    plans->orgs = sl_str_eq(scope, SL_STR("org")) ||
                  (scope.len == 0 && seat->shape.params > 1);
    return 0;
}

/* Signals are for the thread that waits for them. */
static int start(struct sl_pg_plan *plans, struct sl_diag *diag)
{
    sigset_t all, old;
    int code = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 0; i < SEATS && code == 0; i++) {
        struct seat *seat = &plans->seats[i];

        code = pthread_create(&seat->thread, NULL, serve, seat);
        seat->has_thread = code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code
               ? sl_diag_error(diag, SLUICE_ESYS, "cannot start another thread")
               : 0;
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
    for (int i = 0; i < SEATS; i++) {
        struct seat *seat = &plans->seats[i];

        seat->plans = plans;
        seat->link.url = plans->options.url;
        memcpy(seat->link.shown, shown, sizeof(shown));
        seat->link.read_only = true;
        seat->link.on_open = on_open;
        seat->link.ctx = seat;
        sl_pg_init(&seat->link);
        seat->link.patience = PATIENCE;
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
        err = try_it(plans, diag);
    if (!err)
        err = start(plans, diag);
    if (err) {
        sl_pg_plan_close(plans);
        return err;
    }
    *ret = plans;
    return 0;
}

void sl_pg_plan_stop(struct sl_pg_plan *plans)
{
    struct question *q;

    if (!plans)
        return;
    pthread_mutex_lock(&plans->lock);
    plans->stopped = true;
    pthread_cond_broadcast(&plans->wake);
    pthread_mutex_unlock(&plans->lock);
    for (int i = 0; i < SEATS; i++) {
        if (plans->seats[i].has_thread)
            pthread_join(plans->seats[i].thread, NULL);
        plans->seats[i].has_thread = false;
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
    for (int i = 0; i < SEATS; i++)
        sl_pg_close(&plans->seats[i].link);
    pthread_cond_destroy(&plans->wake);
    pthread_mutex_destroy(&plans->lock);
    if (plans->sql)
        sl_alloc_free(plans->alloc, plans->sql, plans->options.sql.len + 1);
    sl_alloc_free(plans->alloc, plans, sizeof(*plans));
}
