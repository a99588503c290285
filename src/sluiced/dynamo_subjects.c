/* dynamo_subjects.c -- the plans of subjects in a table of DynamoDB.
 *
 * A source of a subject cache: one GetItem for each job.
 */
#include <string.h>
#include <sys/queue.h>

#include "base/timestamp.h"
#include "sluiced/daemon.h"

#define NAME_MOST  2048
#define TIER_MOST  128
#define LOG_PERIOD (10 * SL_S) /* between two reports of errors */
#define ORG        SL_STR("org:")

struct query {
    struct sl_dynamo_call call; /* first */
    TAILQ_ENTRY(query) links;
    struct sl_dynamo_subjects *subjects;
    struct sl_job *job;
    struct sl_buf name; /* the partition key */
};

struct sl_dynamo_subjects {
    struct sl_loop *loop;
    const struct sl_dynamo_url *where;
    struct sl_aws_env env;
    sl_ns timeout; /* of the endpoint */
    void (*on_fault)(void *ctx, const char *sentence);
    struct sl_dynamo_http *client;
    TAILQ_HEAD(, query) queries;
    sl_ns reported_at; /* the last error, monotonic; 0: none */
};

/* Sets the record or the error of a job. A tier without a valid date has
 * ended. */
static void fill(struct sl_job *job, const char *tier, const char *expiry,
                 bool known)
{
    struct sl_subject_draft draft = {
        .scope = job->scope, .id = job->id, .plan = sl_str_c(tier)};

    if (sl_timestamp_parse(sl_str_c(expiry), &draft.expires, NULL))
        draft.expires = 0;
    job->entries = sl_subject_record_new(&draft, known, &sl_alloc_libc);
    job->err = job->entries ? 0 : SLUICE_ENOMEM;
}

static void free_query(struct query *q)
{
    TAILQ_REMOVE(&q->subjects->queries, q, links);
    sl_dynamo_call_done(&q->call);
    sl_buf_done(&q->name);
    sl_alloc_free(&sl_alloc_libc, q, sizeof(*q));
}

static void report(struct sl_dynamo_subjects *d, enum sl_dynamo_status status,
                   const char *why)
{
    sl_ns now = sl_loop_mono(d->loop);
    struct sl_diag diag;

    if (d->reported_at > 0 && now - d->reported_at < LOG_PERIOD)
        return;
    d->reported_at = now;
    sl_diag_error(&diag, 0, "%s (%s)", sl_dynamo_status_sentence(status), why);
    d->on_fault(NULL, diag.sentence);
}

static void on_done(struct sl_dynamo_call *call)
{
    struct query *q = (struct query *)call;
    struct sl_dynamo_subjects *d = q->subjects;
    struct sl_job *job = q->job;
    char tier[TIER_MOST], expiry[SL_TIMESTAMP_TEXT], why[SL_REPLY_WHY];
    struct sl_dynamo_text texts[] = {
        {"subscriptionTier",   tier,   sizeof(tier),   false},
        {"subscriptionExpiry", expiry, sizeof(expiry), false},
    };
    enum sl_dynamo_status status = SL_UNSENT;
    bool known = false;

    if (call->status > 0)
        status = sl_dynamo_texts(call->status, call->reply, texts,
                                 SL_LEN(texts), &known, why);
    if (status == SL_DYNAMO_ANSWERED) {
        fill(job, tier, expiry, known);
    } else {
        job->err = SLUICE_ESTORE;
        report(d, status, call->status > 0 ? why : call->fetch.why);
    }
    if (status == SL_FORBIDDEN)
        sl_dynamo_http_doubt(d->client);
    free_query(q);
    job->done(job);
}

static int send_query(struct query *q, bool is_org)
{
    struct sl_dynamo_subjects *d = q->subjects;
    struct sl_row row = {.name = {0}};
    struct sl_str sort = d->where->profile;
    sl_ns timeout = d->timeout - d->timeout / 4;
    int err = sl_buf_add(&q->name, is_org ? ORG : SL_STR(""));

    if (!err)
        err = sl_buf_add(&q->name, q->job->id);
    if (err)
        return err;
    row.name = sl_buf_str(&q->name);
    if (row.name.len > NAME_MOST || sort.len >= sizeof(row.sort))
        return SLUICE_EINVAL;
    memcpy(row.sort, sort.at, sort.len);
    err = sl_row_put_get(&q->call.body, d->where->table, &row);
    return err ? err : sl_dynamo_call_send(&q->call, "GetItem", timeout);
}

/* A user whose id begins like the key of an organisation is unknown: the item
 * of that key is the organisation's. */
static bool is_reserved(const struct sl_job *job)
{
    return sl_str_eq(job->scope, SL_STR("user")) && job->id.len >= ORG.len &&
           memcmp(job->id.at, ORG.at, ORG.len) == 0;
}

static int begin_query(struct sl_dynamo_subjects *d, struct sl_job *job)
{
    struct query *q = sl_alloc_new(&sl_alloc_libc, sizeof(*q));
    int err;

    if (!q)
        return SLUICE_ENOMEM;
    memset(q, 0, sizeof(*q));
    q->subjects = d;
    q->job = job;
    sl_dynamo_call_init(&q->call, d->client);
    q->call.done = on_done;
    sl_buf_init(&q->name, 2 * NAME_MOST, &sl_alloc_libc);
    TAILQ_INSERT_TAIL(&d->queries, q, links);
    err = send_query(q, !sl_str_eq(job->scope, SL_STR("user")));
    if (err)
        free_query(q);
    return err;
}

static void ask(void *ctx, struct sl_job *job)
{
    struct sl_dynamo_subjects *d = ctx;

    if (is_reserved(job))
        fill(job, "", "", false);
    else if (begin_query(d, job))
        job->err = SLUICE_ESTORE;
    else
        return;
    job->done(job);
}

static void cancel(void *ctx, struct sl_job *job)
{
    struct sl_dynamo_subjects *d = ctx;
    struct query *q;

    TAILQ_FOREACH(q, &d->queries, links)
    if (q->job == job) {
        free_query(q);
        return;
    }
}

int sl_dynamo_subjects_open(struct sl_worker *worker,
                            void (*on_fault)(void *ctx, const char *sentence),
                            struct sl_subject_source *ret)
{
    struct sl_dynamo_subjects *d = sl_alloc_new(&sl_alloc_libc, sizeof(*d));
    struct sl_dynamo_http_options client = {
        .loop = worker->loop,
        .alloc = &sl_alloc_libc,
        .where = &worker->daemon->settings.subjects,
    };

    if (!d)
        return sl_diag_error(&worker->daemon->why, SLUICE_ENOMEM,
                             "out of memory");
    *d = (struct sl_dynamo_subjects){
        .loop = worker->loop,
        .where = client.where,
        .env = sl_daemon_aws_env(),
        .timeout = worker->daemon->settings.deadline,
        .on_fault = on_fault,
    };
    TAILQ_INIT(&d->queries);
    client.env = &d->env;
    *ret = (struct sl_subject_source){ask, cancel, d};
    worker->dynamo_subjects = d;
    if (!sl_dynamo_http_open(&client, &d->client))
        return 0;
    return sl_diag_error(&worker->daemon->why, SLUICE_ENOMEM, "out of memory");
}

void sl_dynamo_subjects_close(struct sl_dynamo_subjects *subjects)
{
    if (!subjects)
        return;
    sl_dynamo_http_close(subjects->client);
    sl_alloc_free(&sl_alloc_libc, subjects, sizeof(*subjects));
}
