/* subjects.c -- the registry of the daemon, and the subject caches of its
 * workers.
 *
 * The registry has its own thread, each worker a subject cache. Plans can be in
 * tables of other programs: in PostgreSQL, queried by threads of their own
 * (registry/pg.h), or in DynamoDB. At shutdown the registry stops first, when
 * no loop runs any more. The loops then deliver its last answers, so that no
 * request is left behind.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/timestamp.h"
#include "core/calendar.h"
#include "registry/pg.h"
#include "sluiced/daemon.h"

#define NAME_MOST    2048
#define TIER_MOST    128
#define LOG_PERIOD   (10 * SL_S) /* between two reports of errors */
#define ORG          SL_STR("org:")
#define DYNAMO_LIFE  (5 * SL_S)
#define DYNAMO_MOST  4096
#define DYNAMO_LOADS 256

/* Is the sentence logged now? Each one is at most once in LOG_PERIOD: while the
 * database is away, every job fails. More different ones than there is room for
 * are left out, too. `always`: this one is not. *ret_omitted: how many of all
 * were left out since the last line. */
static bool is_logged(struct sl_daemon_faults *f, const char *sentence,
                      bool always, uint64_t *ret_omitted)
{
    static const struct sl_hash_key key; /* collisions do no harm */
    uint64_t hash = sl_hash64(&key, sl_str_c(sentence));
    sl_ns now = sl_clock_mono();
    unsigned at = 0;
    bool logged;

    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < SL_LEN(f->list); i++)
        if (f->list[i].hash == hash && f->list[i].at > 0) {
            at = i;
            break;
        } else if (f->list[i].at < f->list[at].at) {
            at = i; /* the oldest */
        }
    logged =
        always || f->list[at].at == 0 || now - f->list[at].at >= LOG_PERIOD;
    *ret_omitted = f->omitted;
    f->omitted = logged ? 0 : f->omitted + 1;
    if (logged) {
        f->list[at].hash = hash;
        f->list[at].at = now;
    }
    pthread_mutex_unlock(&f->lock);
    return logged;
}

static void log_fault(struct sl_daemon *daemon, const char *sentence,
                      bool always)
{
    uint64_t omitted;
    char number[24];

    if (!is_logged(&daemon->faults, sentence, always, &omitted))
        return;
    snprintf(number, sizeof(number), "%" PRIu64, omitted);
    sl_log(SL_LOG_ERROR, "registry error", "why", sentence, "omitted",
           omitted ? number : NULL, NULL);
}

/* Any thread. */
static void on_fault(void *ctx, const char *sentence)
{
    log_fault(ctx, sentence, false);
}

/* Any thread. What is reported once must not be left out. */
static void on_mistake(void *ctx, const char *sentence)
{
    log_fault(ctx, sentence, true);
}

/* Runs on the registry's thread. */
static void on_switch(void *ctx, struct sl_str name, int on)
{
    struct sl_daemon *daemon = ctx;
    struct sl_diag diag = {0};
    char text[128];

    if (sl_engine_keep(daemon->engine, name, on, &diag))
        return;
    snprintf(text, sizeof(text), "%.*s", SL_STR_ARG(name));
    sl_log(SL_LOG_INFO, "feature switched by another node", "name", text, "to",
           on < 0 ? "policy"
           : on   ? "on"
                  : "off",
           NULL);
}

/* Runs on the registry's thread. */
static void on_webhook(void *ctx)
{
    sl_webhooks_wake(ctx);
}

/* Runs on the registry's thread. */
static void on_contact(void *ctx)
{
    (void)ctx;
    sl_log(SL_LOG_INFO, "database reached", NULL);
}

/* Runs on the registry's thread. */
static void on_replayed(void *ctx)
{
    (void)ctx;
    sl_log(SL_LOG_INFO, "usage of the journal recorded", NULL);
}

/* Features that were switched by hand stay switched. */
static int restore_switches(struct sl_daemon *daemon)
{
    unsigned count;
    const struct sl_switched *list =
        sl_registry_switches(daemon->registry, &count);
    int err = 0;

    for (unsigned i = 0; i < count && !err; i++) {
        char name[128];

        snprintf(name, sizeof(name), "%.*s", SL_STR_ARG(list[i].name));
        err = sl_engine_keep(daemon->engine, list[i].name, list[i].on,
                             &daemon->why);
        sl_log(SL_LOG_INFO, "feature switch restored", "name", name, "to",
               list[i].on ? "on" : "off", NULL);
    }
    return err;
}

/* Can the limit have the rate? */
static bool fits(void *ctx, const struct sl_subject_override *override,
                 struct sl_diag *diag)
{
    struct sl_daemon *daemon = ctx;
    struct sl_active_policy *active =
        sl_engine_ref_policy(daemon->engine, NULL);
    int index = sl_policy_rule(active->policy, override->limit);
    struct sl_plan_limit limit;
    struct sl_diag why = {0};
    int err = 0;

    if (index < 0)
        err = sl_diag_error(diag, SLUICE_ECONF,
                            "the policy has no limit \"%.*s\"; its override "
                            "is ignored",
                            SL_STR_ARG(override->limit));
    else if (sl_rule_rate(&active->policy->rules[index], override->rate, &limit,
                          &why))
        err = sl_diag_error(diag, SLUICE_ECONF,
                            "the override of \"%.*s\" is ignored: %s",
                            SL_STR_ARG(override->limit), why.sentence);
    sl_active_policy_unref(active);
    return !err;
}

/* The end of a date, in the zone of the policy. Any thread. */
static sl_ns day_end(void *ctx, int64_t day)
{
    struct sl_daemon *daemon = ctx;
    struct sl_active_policy *active =
        sl_engine_ref_policy(daemon->engine, NULL);
    sl_ns end = sl_calendar_day_end(sl_policy_date_zone(active->policy), day);

    sl_active_policy_unref(active);
    return end;
}

static int open_plans(struct sl_daemon *daemon)
{
    static const char *const scopes[] = {"", "user", "org"};
    const struct sl_plan_query *query =
        &daemon->policy_source.policy->identity.subjects;
    struct sl_pg_plan_options options = {.url = daemon->settings.registry,
                                         .sql = query->text,
                                         .scope =
                                             sl_str_c(scopes[query->scope]),
                                         .on_fault = on_fault,
                                         .on_mistake = on_mistake,
                                         .fits = fits,
                                         .day_end = day_end,
                                         .ctx = daemon,
                                         .may_be_away = true};
    int err = 0;

    if (query->text.len > 0)
        err = sl_pg_plan_open(&options, &daemon->plan_query, &daemon->why);
    if (err == SLUICE_ECONF)
        return SL_EXIT_POLICY;
    return err ? SL_EXIT_STORE : 0;
}

static void ask_plans(void *ctx, struct sl_job *job)
{
    struct sl_daemon *daemon = ctx;

    sl_pg_plan_find(daemon->plan_query, daemon->registry, job);
}

static int add_units(const struct sl_policy *policy, struct sl_unit_list *ret)
{
    int err = 0;

    for (unsigned i = 0; i < policy->rule_count && !err; i++) {
        const struct sl_rule *rule = &policy->rules[i];

        err = sl_unit_list_add(ret, rule->name, sl_rule_scale(rule),
                               rule->reports);
    }
    return err;
}

/* Runs on the registry's thread, too. */
static int list_units(void *ctx, struct sl_unit_list *ret)
{
    struct sl_daemon *daemon = ctx;
    struct sl_active_policy *active =
        sl_engine_ref_policy(daemon->engine, NULL);
    int err = add_units(active->policy, ret);

    sl_active_policy_unref(active);
    return err;
}

int sl_subjects_use(struct sl_daemon *daemon, const struct sl_policy *policy,
                    struct sl_diag *why)
{
    struct sl_unit_list list;

    if (!daemon->registry)
        return 0;
    sl_unit_list_init(&list, &sl_alloc_libc);
    if (add_units(policy, &list)) {
        sl_unit_list_done(&list);
        return sl_diag_error(why, SLUICE_ENOMEM, "out of memory");
    }
    return sl_registry_use_units(daemon->registry, &list, why);
}

int sl_subjects_begin(struct sl_daemon *daemon)
{
    struct sl_registry_options options = {.path = daemon->settings.registry,
                                          .on_fault = on_fault,
                                          .on_mistake = on_mistake,
                                          .on_switch = on_switch,
                                          .on_webhook = on_webhook,
                                          .on_usage = sl_usage_restore,
                                          .on_threshold = sl_usage_replayed,
                                          .on_replayed = on_replayed,
                                          .may_be_away = true,
                                          .on_contact = on_contact,
                                          .list_units = list_units,
                                          .since = sl_usage_since(daemon),
                                          .ctx = daemon};
    int status, err;

    pthread_mutex_init(&daemon->faults.lock, NULL);
    if (!options.path)
        return 0;
    status = sl_usage_journal_begin(daemon);
    if (status)
        return status;
    options.journal = daemon->journal;
    options.secret = sl_usage_secret(daemon);
    if (daemon->settings.in_postgres)
        options.driver = &sl_driver_postgres;
    options.node = sl_str_c(daemon->quota_node.node);
    options.former = sl_str_c(daemon->quota_node.former);
    options.now = sl_daemon_now(daemon);
    if (options.node.len > 0 || options.former.len > 0)
        options.on_lease = sl_quota_node_resume;
    err = sl_registry_open(&options, &daemon->registry, &daemon->why);
    if (err)
        return err == SLUICE_ECONF ? SL_EXIT_POLICY : SL_EXIT_STORE;
    if (daemon->why.sentence[0])
        sl_log(SL_LOG_WARN, "database unreachable, starting without it", "why",
               daemon->why.sentence, NULL);
    daemon->why = (struct sl_diag){0};
    status = restore_switches(daemon) ? SL_EXIT_FAILED : 0;
    return status ? status : open_plans(daemon);
}

void sl_subjects_end(struct sl_daemon *daemon)
{
    sl_pg_plan_close(daemon->plan_query);
    daemon->plan_query = NULL;
    sl_registry_close(daemon->registry);
    daemon->registry = NULL;
    sl_usage_reached_end(daemon);
    sl_usage_journal_close(daemon->journal);
    daemon->journal = NULL;
    pthread_mutex_destroy(&daemon->faults.lock);
}

/* ---- the plans of subjects in a table of DynamoDB: one GetItem for each job.
 *
 *   userId   dataType   subscriptionTier   subscriptionExpiry
 *   123      PROFILE    premium            2026-12-31T23:59:59Z
 *
 * The table belongs to the application and is only read. An organisation has
 * the key "org:" and its id. A date without a time is the end of that day. A
 * tier without a valid date has ended: its subject has the default plan. A
 * source belongs to one loop; subject_cache.h caches its answers.
 */

struct query {
    struct sl_dynamo_call call; /* first */
    TAILQ_ENTRY(query) links;
    struct sl_dynamo_subjects *subjects;
    struct sl_job *job;
    struct sl_buf name; /* the partition key */
};

struct sl_dynamo_subjects {
    struct sl_daemon *daemon;
    struct sl_loop *loop;
    const struct sl_dynamo_url *where;
    struct sl_aws_env env;
    sl_ns timeout; /* of the endpoint */
    struct sl_dynamo_http *client;
    TAILQ_HEAD(, query) queries;
    sl_ns reported_at; /* the last error, monotonic; 0: none */
};

/* Sets the record or the error of a job. */
static void fill(const struct sl_dynamo_subjects *d, struct sl_job *job,
                 const char *tier, const char *expiry, bool known)
{
    struct sl_subject_draft draft = {
        .scope = job->scope, .id = job->id, .plan = sl_str_c(tier)};
    int64_t day;

    if (sl_day_read(sl_str_c(expiry), &day))
        draft.expires = day_end(d->daemon, day);
    else if (sl_timestamp_parse(sl_str_c(expiry), &draft.expires, NULL))
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
    on_fault(d->daemon, diag.sentence);
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
        fill(d, job, tier, expiry, known);
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
    const char *operation;
    int err = sl_buf_add(&q->name, is_org ? ORG : SL_STR(""));

    if (!err)
        err = sl_buf_add(&q->name, q->job->id);
    if (err)
        return err;
    row.name = sl_buf_str(&q->name);
    if (row.name.len > NAME_MOST || sort.len >= sizeof(row.sort))
        return SLUICE_EINVAL;
    memcpy(row.sort, sort.at, sort.len);
    err = sl_row_put(&q->call.body, d->where->table, &row, SL_ROW_GET,
                     &operation);
    return err ? err : sl_dynamo_call_send(&q->call, operation, timeout);
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
        fill(d, job, "", "", false);
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

    TAILQ_FOREACH (q, &d->queries, links)
        if (q->job == job) {
            free_query(q);
            return;
        }
}

static int open_dynamo(struct sl_worker *worker, struct sl_subject_source *ret)
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
        .daemon = worker->daemon,
        .loop = worker->loop,
        .where = client.where,
        .env = sl_daemon_aws_env(),
        .timeout = worker->daemon->settings.deadline,
    };
    TAILQ_INIT(&d->queries);
    client.env = &d->env;
    *ret = (struct sl_subject_source){ask, cancel, d};
    worker->dynamo_subjects = d;
    if (!sl_dynamo_http_open(&client, &d->client))
        return 0;
    return sl_diag_error(&worker->daemon->why, SLUICE_ENOMEM, "out of memory");
}

static void close_dynamo(struct sl_dynamo_subjects *subjects)
{
    if (!subjects)
        return;
    sl_dynamo_http_close(subjects->client);
    sl_alloc_free(&sl_alloc_libc, subjects, sizeof(*subjects));
}

/* ---- workers ---- */

static void close_cache(struct sl_worker *worker)
{
    worker->engine_ctx.subjects = NULL;
    sl_subject_cache_close(worker->subject_cache);
    worker->subject_cache = NULL;
    close_dynamo(worker->dynamo_subjects);
    worker->dynamo_subjects = NULL;
}

int sl_worker_open_subjects(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    bool in_dynamo = daemon->settings.subjects_in_dynamo;
    struct sl_subject_cache_options options = {.timeout =
                                                   daemon->settings.deadline};
    int err = 0;

    if (in_dynamo) {
        options.life = daemon->settings.virtual_clock ? -1 : DYNAMO_LIFE;
        options.most = DYNAMO_MOST;
        options.most_loads = DYNAMO_LOADS;
        options.most_id = SIZE_MAX; /* the source checks it */
        err = open_dynamo(worker, &options.source);
    } else if (!daemon->registry) {
        return 0;
    } else if (daemon->plan_query) {
        options.source = (struct sl_subject_source){ask_plans, NULL, daemon};
        options.life = daemon->policy_source.policy->identity.subjects.life;
    }
    if (!err)
        err = sl_subject_cache_open(in_dynamo ? NULL : daemon->registry,
                                    worker->loop, &options,
                                    &worker->subject_cache, &daemon->why);
    if (err)
        return err;
    worker->engine_ctx.subjects =
        sl_subject_cache_subjects(worker->subject_cache);
    return in_dynamo ? 0 : sl_worker_open_usage(worker);
}

/* The last usage may reach a threshold: its answer queues a note, which is
 * recorded, too. */
void sl_subjects_stop(struct sl_daemon *daemon)
{
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (daemon->workers[i].dynamo_subjects)
            close_cache(&daemon->workers[i]);
    if (!daemon->registry)
        return;
    sl_pg_plan_stop(daemon->plan_query);
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (daemon->workers[i].usage_buffer)
            sl_usage_buffer_flush_last(
                sl_usage_buffer_sink(daemon->workers[i].usage_buffer));
    sl_quota_node_drain(daemon);
    sl_registry_stop(daemon->registry);
    sl_usage_journal_stop(daemon->journal);
    sl_workers_run_posts(daemon);
    sl_registry_finish(daemon->registry);
    sl_workers_run_posts(daemon);
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        close_cache(&daemon->workers[i]);
        sl_worker_close_usage(&daemon->workers[i]);
    }
}

/* ---- counts ---- */

static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void add(struct sl_metrics_subjects *all,
                const struct sl_subject_cache *cache)
{
    const struct sl_subject_cache_counts *c = sl_subject_cache_counts(cache);

    all->results[SL_LOOKUP_HIT] += get(&c->hits);
    all->results[SL_LOOKUP_LOADED] += get(&c->loads);
    all->results[SL_LOOKUP_LATE] += get(&c->late);
    all->results[SL_LOOKUP_FAILED] += get(&c->faults);
    all->results[SL_LOOKUP_BUSY] += get(&c->busy);
    all->numbers[SL_SUBJECTS_AT_HAND] += get(&c->entries);
}

void sl_subjects_count(struct sl_daemon *daemon,
                       struct sl_metrics_subjects *ret)
{
    struct sl_registry_counts counts;

    *ret = (struct sl_metrics_subjects){.numbers = {0}};
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (daemon->workers[i].subject_cache)
            add(ret, daemon->workers[i].subject_cache);
    if (!daemon->registry)
        return;
    sl_registry_count(daemon->registry, &counts);
    ret->numbers[SL_SUBJECT_COMMITS] = counts.commits;
    ret->numbers[SL_QUOTA_OVERSHOOT] =
        counts.overshoot + atomic_load_explicit(&daemon->quota_node.late_units,
                                                memory_order_relaxed);
    ret->numbers[SL_DATABASE_EXPIRED] = counts.expired;
    ret->numbers[SL_SUBJECT_ERRORS] = counts.faults;
    ret->numbers[SL_SUBJECT_WRITES] = counts.writes;
    ret->numbers[SL_SUBJECT_QUEUE] = counts.waiting;
    sl_usage_count(daemon, ret);
}
