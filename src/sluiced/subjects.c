/* subjects.c -- subjects: who is registered, and how the workers find them.
 *
 * The registry has a thread of its own; each worker has a finder that keeps
 * what it was asked for lately. Plans may stand in tables of others, who are
 * asked by threads of their own (plans.h). At the end the registry stops first,
 * when no loop turns any more: whatever it has answered is then told, so that
 * no answer is lost and no request is left behind.
 */
#include <stdio.h>

#include "registry/pg.h"
#include "sluiced/daemon.h"

#define PROFILE_LIFE (5 * SL_S)

static void on_fault(void *ctx, const char *sentence)
{
    (void)ctx;
    sl_log(SL_LOG_ERROR, "registry error", "why", sentence, NULL);
}

/* On a thread of the registry's. */
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

/* What was switched by hand goes on. */
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

static int ask_others(struct sl_daemon *daemon)
{
    static const char *const scopes[] = {"", "user", "org"};
    const struct sl_plan_query *query =
        &daemon->written.policy->identity.subjects;
    struct sl_pg_plan_options options = {.url = daemon->settings.registry,
                                         .sql = query->text,
                                         .scope =
                                             sl_str_c(scopes[query->scope]),
                                         .on_fault = on_fault};
    int err = 0;

    if (query->text.len > 0)
        err = sl_pg_plan_open(&options, &daemon->plans, &daemon->why);
    if (err == SLUICE_ECONF)
        return SL_EXIT_POLICY;
    return err ? SL_EXIT_STORE : 0;
}

static void find_both(void *ctx, struct sl_job *job)
{
    struct sl_daemon *daemon = ctx;

    sl_pg_plan_find(daemon->plans, daemon->registry, job);
}

int sl_subjects_begin(struct sl_daemon *daemon)
{
    struct sl_registry_options options = {.path = daemon->settings.registry,
                                          .on_fault = on_fault,
                                          .on_switch = on_switch,
                                          .on_usage = sl_usage_restore,
                                          .since = sl_usage_since(daemon),
                                          .ctx = daemon};
    int status;

    if (!options.path)
        return 0;
    if (daemon->settings.in_postgres)
        options.driver = &sl_driver_postgres;
    if (daemon->lending.store) {
        options.on_lease = sl_quota_node_resume;
        options.node = sl_str_c(daemon->lending.node);
        options.now = sl_quota_node_now(daemon);
    }
    if (sl_registry_open(&options, &daemon->registry, &daemon->why))
        return SL_EXIT_STORE;
    status = restore_switches(daemon) ? SL_EXIT_FAILED : 0;
    return status ? status : ask_others(daemon);
}

void sl_subjects_end(struct sl_daemon *daemon)
{
    sl_pg_plan_close(daemon->plans);
    daemon->plans = NULL;
    sl_registry_close(daemon->registry);
    daemon->registry = NULL;
}

static int find_profiles(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    struct sl_dynamo_subjects_options options = {
        .where = daemon->settings.subjects,
        .loop = worker->loop,
        .alloc = &sl_alloc_libc,
        .life = daemon->settings.virtual_clock ? 0 : PROFILE_LIFE,
        .patience = daemon->settings.deadline,
        .on_fault = on_fault,
    };
    int err;

    sl_remote_env(&options.env);
    err = sl_dynamo_subjects_open(&options, &worker->profiles);
    if (err)
        return sl_diag_error(&daemon->why, err, "out of memory");
    worker->station.subjects = sl_dynamo_subjects_subjects(worker->profiles);
    return 0;
}

/* As long as nobody turns its loop any more. */
static void stop_profiles(struct sl_daemon *daemon)
{
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        struct sl_worker *worker = &daemon->workers[i];

        if (!worker->profiles)
            continue;
        worker->station.subjects = NULL;
        sl_dynamo_subjects_close(worker->profiles);
        worker->profiles = NULL;
    }
}

int sl_worker_open_subjects(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    struct sl_subject_cache_options options = {.patience =
                                                   daemon->settings.deadline};
    int err;

    if (daemon->settings.subjects_in_dynamo)
        return find_profiles(worker);
    if (!daemon->registry)
        return 0;
    if (daemon->plans) {
        options.ask = find_both;
        options.ctx = daemon;
        options.life = daemon->written.policy->identity.subjects.life;
    }
    err = sl_subject_cache_open(daemon->registry, worker->loop, &options,
                                &worker->finder, &daemon->why);
    if (!err)
        worker->station.subjects = sl_subject_cache_subjects(worker->finder);
    return err ? err : sl_worker_open_usage(worker);
}

void sl_subjects_stop(struct sl_daemon *daemon)
{
    stop_profiles(daemon);
    if (!daemon->registry)
        return;
    sl_pg_plan_stop(daemon->plans);
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (daemon->workers[i].keeper)
            sl_usage_buffer_flush(
                sl_usage_buffer_sink(daemon->workers[i].keeper));
    sl_quota_node_drain(daemon);
    sl_registry_stop(daemon->registry);
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        struct sl_worker *worker = &daemon->workers[i];

        if (worker->loop) {
            sl_loop_stop(worker->loop);
            sl_loop_run(worker->loop); /* calls what is posted, and returns */
        }
        worker->station.subjects = NULL;
        sl_subject_cache_close(worker->finder);
        worker->finder = NULL;
        sl_worker_close_usage(worker);
    }
}

/* ---- counts ---- */

static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void add(struct sl_metrics_subjects *all,
                const struct sl_subject_cache *finder)
{
    const struct sl_subject_cache_counts *c = sl_subject_cache_counts(finder);

    all->results[SL_LOOKUP_HIT] += get(&c->hits);
    all->results[SL_LOOKUP_LOADED] += get(&c->loads);
    all->results[SL_LOOKUP_LATE] += get(&c->late);
    all->results[SL_LOOKUP_FAILED] += get(&c->faults);
    all->results[SL_LOOKUP_BUSY] += get(&c->busy);
    all->numbers[SL_SUBJECTS_AT_HAND] += get(&c->entries);
}

static void add_profiles(struct sl_metrics_subjects *all,
                         const struct sl_dynamo_subjects *profiles)
{
    const struct sl_dynamo_subjects_counts *c =
        sl_dynamo_subjects_counts(profiles);

    all->results[SL_LOOKUP_HIT] += get(&c->hits);
    all->results[SL_LOOKUP_LOADED] += get(&c->loads);
    all->results[SL_LOOKUP_FAILED] += get(&c->faults);
    all->results[SL_LOOKUP_BUSY] += get(&c->busy);
}

void sl_subjects_count(const struct sl_daemon *daemon,
                       struct sl_metrics_subjects *ret)
{
    struct sl_registry_counts counts;

    *ret = (struct sl_metrics_subjects){.numbers = {0}};
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (daemon->workers[i].profiles)
            add_profiles(ret, daemon->workers[i].profiles);
    if (!daemon->registry)
        return;
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (daemon->workers[i].finder)
            add(ret, daemon->workers[i].finder);
    sl_registry_count(daemon->registry, &counts);
    ret->numbers[SL_SUBJECT_COMMITS] = counts.commits;
    ret->numbers[SL_SUBJECT_ERRORS] = counts.faults;
    ret->numbers[SL_SUBJECT_WRITES] = counts.writes;
    ret->numbers[SL_SUBJECT_QUEUE] = counts.waiting;
    sl_usage_count(daemon, ret);
}
