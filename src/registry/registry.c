/* registry.c -- the thread of the registry, and its queue.
 *
 *     wait for jobs --> take them all --> reads --> repeats --> claims -->
 *          ^                                           writes, a group at a
 * time
 *          +---------------------------------------------------+
 *
 * The number of changes in a group is limited, so that a reader waits for one
 * fsync and not for an import. Decisions wait for claims of units: they run
 * before all writes, unless one of the writes clears usage. Calls to the memory
 * of repeats have transactions of their own, which lock no subject.
 *
 * When nothing else waits, a portion of the journal of an earlier process is
 * recorded (usage_replay.c).
 *
 * A job that needs a lock of another session is put in a list of its own, with
 * later jobs of the same slot, and is tried every RETRY_PERIOD. The thread
 * waits for a lock for some milliseconds only.
 */
#include "registry/registry.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include "net/loop.h"
#include "registry/registry_int.h"

#define GROUP_CHANGES 500

/* How often done() is posted again after a loop had no memory. */
#define REPOST_PERIOD (10 * SL_MS)

/* How often a database that was away at the start is tried. */
#define CONTACT_PERIOD (200 * SL_MS)

/* Writes that wait for locks of other sessions: how often they are tried, and
 * when they fail. */
#define RETRY_PERIOD (40 * SL_MS)
#define BLOCKED_MOST (2 * SL_S)

#define NAMES_MOST ((size_t)1 << 20)
#define TEXT_MOST  ((size_t)16 << 20)

/* ---- versions ---- */

/* Aliases compare without case, so versions do too. */
const _Atomic uint64_t *sl_registry_version(const struct sl_registry *r,
                                            struct sl_str scope,
                                            struct sl_str id)
{
    char low[SL_SUBJECT_RECORD_ID];
    struct sl_hash_key key = r->secret;

    if (id.len > sizeof(low))
        id.len = sizeof(low);
    key.k0 ^= scope.len > 0 ? (unsigned char)scope.at[0] : 0;
    return &r->versions[sl_hash64(&key, sl_str_lower(id, low)) %
                        SL_REGISTRY_VERSIONS];
}

bool sl_registry_is_empty(const struct sl_registry *registry)
{
    return !atomic_load_explicit(&registry->has_subjects, memory_order_acquire);
}

bool sl_registry_has_registered(const struct sl_registry *registry)
{
    return atomic_load_explicit(&registry->has_registered,
                                memory_order_acquire);
}

/* Without notifications another daemon may have blocked the first one. */
bool sl_registry_has_blocked_ips(const struct sl_registry *registry)
{
    const struct sl_database *db = &registry->db;

    return atomic_load_explicit(&registry->has_blocked_ips,
                                memory_order_acquire) ||
           (db->node.len > 0 && !db->driver->listen);
}

const struct sl_hash_key *sl_registry_secret(const struct sl_registry *registry)
{
    return &registry->secret;
}

/* ---- jobs ---- */

void sl_job_init(struct sl_job *job, enum sl_job_kind kind,
                 const struct sl_alloc *alloc)
{
    memset(job, 0, sizeof(*job));
    job->kind = kind;
    sl_buf_init(&job->text, TEXT_MOST, alloc);
}

void sl_job_clear(struct sl_job *job)
{
    sl_subject_records_free(job->entries);
    job->entries = NULL;
    sl_buf_done(&job->text);
}

void sl_registry_ask(struct sl_registry *r, struct sl_job *job)
{
    job->next = NULL;
    atomic_fetch_add_explicit(&r->waiting, 1, memory_order_relaxed);
    pthread_mutex_lock(&r->lock);
    *r->end = job;
    r->end = &job->next;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
}

static void on_answer(void *ctx)
{
    struct sl_job *job = ctx;

    job->done(job);
}

/* Calls done() on the loop of the job; tries again later without memory. */
static void post(struct sl_registry *r, struct sl_job *job)
{
    if (sl_loop_post(job->loop, on_answer, job) == 0)
        return;
    job->next = r->undelivered;
    r->undelivered = job;
}

static void answer(struct sl_registry *r, struct sl_job *job)
{
    if (job->err && job->kind != SL_JOB_PING) {
        atomic_fetch_add_explicit(&r->faults, 1, memory_order_relaxed);
        if (r->on_fault)
            r->on_fault(r->ctx, job->diag.sentence);
    }
    atomic_fetch_sub_explicit(&r->waiting, 1, memory_order_relaxed);
    job->order = ++r->order;
    post(r, job);
}

static void answer_again(struct sl_registry *r)
{
    struct sl_job *list = r->undelivered;

    r->undelivered = NULL;
    for (struct sl_job *next; list; list = next) {
        next = list->next;
        post(r, list);
    }
}

/* ---- the thread ---- */

static void wait_locked(struct sl_registry *r)
{
    bool soon = r->undelivered || r->blocked.first;
    bool timed = soon || r->is_away || r->replay;
    sl_ns end = sl_clock_wall() + (soon ? REPOST_PERIOD : CONTACT_PERIOD);
    struct timespec until = {end / SL_S, end % SL_S};

    if (timed)
        pthread_cond_timedwait(&r->more, &r->lock, &until);
    else
        pthread_cond_wait(&r->more, &r->lock);
}

/* Returns all waiting jobs, or NULL to end. */
static struct sl_job *take_jobs(struct sl_registry *r, bool may_wait)
{
    struct sl_job *jobs;

    pthread_mutex_lock(&r->lock);
    while (may_wait && !r->first && (!r->stop || r->blocked.first)) {
        wait_locked(r);
        if (r->undelivered || r->is_away || r->blocked.first || r->replay)
            break;
    }
    jobs = r->first;
    r->first = NULL;
    r->end = &r->first;
    pthread_mutex_unlock(&r->lock);
    return jobs;
}

struct rows {
    struct sl_job_list repeats, claims, writes;
    unsigned resets; /* among the writes */
};

static void append(struct sl_job_list *row, struct sl_job *job)
{
    job->next = NULL;
    *row->end = job;
    row->end = &job->next;
}

/* By key, and in the order of the queue for the same key. */
static void insert_repeat(struct sl_job_list *row, struct sl_job *job)
{
    struct sl_job **at = &row->first;

    while (*at && strcmp((*at)->repeat->key, job->repeat->key) <= 0)
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    if (!job->next)
        row->end = &job->next;
}

/* A claim queued after a reset must see it. */
static bool is_reset(const struct sl_job *job)
{
    if (job->kind != SL_JOB_USAGE)
        return job->kind == SL_JOB_CLEAR || job->kind == SL_JOB_RELEASE;
    for (unsigned i = 0; i < job->change_count; i++)
        if (job->usage[i].reset)
            return true;
    return false;
}

/* Returns whether a job would wait for a lock that another job waits for. */
static bool is_behind(const struct sl_registry *r, const struct sl_job *job)
{
    uint64_t own[SL_SHARE_SLOTS / 64] = {0};
    bool behind = false;

    if (!r->blocked.first || !sl_job_slot(job, own))
        return false;
    for (size_t i = 0; i < SL_LEN(own); i++)
        behind |= (own[i] & r->blocked_slots[i]) != 0;
    return behind;
}

static void block(struct sl_registry *r, struct sl_job *job)
{
    uint64_t own[SL_SHARE_SLOTS / 64] = {0};

    if (job->blocked_since == 0)
        job->blocked_since = sl_clock_mono();
    if (sl_job_slot(job, own))
        for (size_t i = 0; i < SL_LEN(own); i++)
            r->blocked_slots[i] |= own[i];
    append(&r->blocked, job);
}

/* Runs the reads; puts the others in their lists. */
static void sort_out(struct sl_registry *r, struct sl_job *jobs,
                     struct rows *rows)
{
    for (struct sl_job *next; jobs; jobs = next) {
        next = jobs->next;
        rows->resets += is_reset(jobs);
        if (jobs->kind == SL_JOB_REPEAT) {
            insert_repeat(&rows->repeats, jobs);
        } else if (jobs->kind == SL_JOB_UNITS) {
            atomic_fetch_sub_explicit(&r->waiting, 1, memory_order_relaxed);
            sl_units_run(r, jobs);
        } else if (jobs->kind >= SL_JOB_WRITE && is_behind(r, jobs)) {
            block(r, jobs);
        } else if (jobs->kind == SL_JOB_LEASE && rows->resets == 0) {
            append(&rows->claims, jobs);
        } else if (jobs->kind >= SL_JOB_WRITE) {
            append(&rows->writes, jobs);
        } else {
            sl_job_run_read(r, jobs);
            answer(r, jobs);
        }
    }
}

/* Takes a group from the front of a list. */
static struct sl_job *take_group(struct sl_job_list *row)
{
    struct sl_job *first = row->first, *last = first;
    unsigned changes = first->change_count;

    while (last->next && changes + last->next->change_count <= GROUP_CHANGES) {
        last = last->next;
        changes += last->change_count + 1;
    }
    row->first = last->next;
    if (!row->first)
        row->end = &row->first;
    last->next = NULL;
    return first;
}

/* Answers the jobs of a group, and keeps those that are blocked. */
static void answer_group(struct sl_registry *r, struct rows *rows,
                         struct sl_job *group)
{
    for (struct sl_job *next; group; group = next) {
        next = group->next; /* after done() the job is not ours */
        if (group->is_blocked && group->blocked_since > 0 &&
            sl_clock_mono() - group->blocked_since >= BLOCKED_MOST)
            sl_job_give_up(r, group);
        if (group->is_blocked) {
            block(r, group);
            continue;
        }
        rows->resets -= is_reset(group);
        group->blocked_since = 0;
        answer(r, group);
    }
}

static void carry_group(struct sl_registry *r, struct rows *rows,
                        struct sl_job_list *row, bool careful)
{
    struct sl_job *group;

    if (!row->first)
        return;
    group = take_group(row);
    sl_job_run_writes(r, group, careful);
    answer_group(r, rows, group);
}

/* Tries the first blocked job with some patience, and the others without. Those
 * that stay blocked are put at the end, so that each is the first at times. */
static void retry_blocked(struct sl_registry *r, struct rows *rows)
{
    struct sl_job_list list = r->blocked;
    struct sl_job *first = list.first;

    if (!first || sl_clock_mono() < r->retry_at)
        return;
    list.first = first->next;
    if (!list.first)
        list.end = &list.first;
    first->next = NULL;
    r->blocked.first = NULL;
    r->blocked.end = &r->blocked.first;
    memset(r->blocked_slots, 0, sizeof(r->blocked_slots));
    sl_job_run_writes(r, first, false);
    answer_group(r, rows, first);
    while (list.first)
        carry_group(r, rows, &list, true);
    r->retry_at = sl_clock_mono() + RETRY_PERIOD;
}

static bool is_over(struct sl_registry *r)
{
    bool over;

    pthread_mutex_lock(&r->lock);
    over = r->stop && !r->first;
    pthread_mutex_unlock(&r->lock);
    return over;
}

static void *serve(void *ctx)
{
    struct sl_registry *r = ctx;
    struct rows rows = {.resets = 0};
    struct sl_job *jobs;

    rows.repeats.end = &rows.repeats.first;
    rows.claims.end = &rows.claims.first;
    rows.writes.end = &rows.writes.first;
    while (rows.repeats.first || rows.claims.first || rows.writes.first ||
           r->blocked.first || !is_over(r)) {
        bool idle =
            !rows.repeats.first && !rows.claims.first && !rows.writes.first;

        jobs = take_jobs(r, idle && !sl_usage_replay_is_due(r));
        sort_out(r, jobs, &rows);
        if (r->is_away)
            (void)!sl_registry_contact(r);
        carry_group(r, &rows, &rows.repeats, false);
        carry_group(r, &rows, &rows.claims, false);
        carry_group(r, &rows, &rows.writes, false);
        retry_blocked(r, &rows);
        answer_again(r);
        if (!rows.claims.first && !rows.writes.first &&
            sl_usage_replay_is_due(r))
            sl_usage_replay_some(r, jobs != NULL);
    }
    return NULL;
}

int sl_thread_start(pthread_t *ret, void *(*what)(void *), void *ctx,
                    struct sl_diag *diag)
{
    sigset_t all, old;
    int code;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(ret, NULL, what, ctx);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code
               ? sl_diag_error(diag, SLUICE_ESYS, "cannot start another thread")
               : 0;
}

/* ---- opening ---- */

static int read_switches(struct sl_registry *r)
{
    const enum sl_query q = SL_QUERY_SWITCHES;
    int64_t on;
    int found = 1;

    for (; r->switch_count < SL_SWITCHES; r->switch_count++) {
        struct sl_switched *item = &r->switches[r->switch_count];

        found = sl_query_next(&r->db, q, &r->names, "tn", &item->name, &on);
        if (found != 1)
            break;
        item->on = on != 0;
    }
    sl_query_reset(&r->db, q);
    return found < 0 ? found : 0;
}

/* Reads the stored state, and passes it to the callbacks. */
static int read_state(struct sl_registry *r)
{
    const struct sl_registry_options *options = &r->options;
    struct sl_usage_pending pending;
    int err;

    r->db.is_temporary = false;
    err = read_switches(r);
    if (!err)
        err = sl_job_run_look(r);
    /* The journal first: then the table is compared with all that was recorded
     * or is known to be used. Leases are compared with the table before usage
     * is charged to it. */
    if (!err && options->journal)
        err = sl_usage_replay_begin(r);
    if (!err)
        err = sl_units_check(r); /* of pending lines, too */
    if (!err && options->on_lease && options->former.len > 0)
        err = sl_usage_db_leave(&r->db, options->former, options->now,
                                options->since, options->on_lease,
                                options->on_usage, options->ctx, r->alloc);
    else if (!err && options->on_lease)
        err = sl_usage_db_resume(&r->db, options->node, options->now,
                                 options->on_lease, options->ctx, r->alloc);
    if (!err && options->on_usage)
        err = sl_usage_db_each(&r->db, options->since,
                               sl_usage_replay_pending(r, &pending),
                               options->on_usage, options->ctx);
    sl_registry_count_overshoot(r, !err);
    return err;
}

int sl_registry_contact(struct sl_registry *r)
{
    bool stays = false;
    int err = 0;

    if (!r->is_away)
        return 0;
    r->is_away = false;
    r->switch_count = 0;
    sl_arena_reset(&r->names);
    if (r->db.driver->reopen) {
        err = r->db.driver->reopen(&r->db);
        stays = err && !r->db.is_temporary;
    }
    if (!err)
        err = read_state(r);
    stays = stays || err == SLUICE_ECONF;
    r->is_away = err;
    if (stays && !r->is_refused && r->on_mistake)
        r->on_mistake(r->ctx, r->db.diag.sentence);
    r->is_refused = stays;
    for (unsigned i = 0; !err && r->on_switch && i < r->switch_count; i++)
        r->on_switch(r->ctx, r->switches[i].name, r->switches[i].on);
    if (!err && r->options.on_contact)
        r->options.on_contact(r->ctx);
    return err;
}

static int open_database(struct sl_registry *r, struct sl_diag *diag)
{
    const struct sl_registry_options *options = &r->options;
    int err = sl_database_open(&r->db, options->driver, options->path, r->alloc,
                               diag);

    if (err)
        return err;
    if (options->node.len > 0)
        r->db.node = options->node;
    r->db.has_secret = options->secret;
    if (options->secret)
        r->db.secret = *options->secret;
    r->is_away = r->db.is_away;
    if (r->is_away && !options->may_be_away)
        return SLUICE_ESTORE;
    err = r->is_away ? 0 : read_state(r);
    if (err)
        *diag = r->db.diag;
    if (err == SLUICE_ESTORE && r->db.is_temporary && options->may_be_away) {
        r->is_away = true; /* lost or locked meanwhile */
        err = 0;
    }
    r->was_away = r->is_away;
    if (r->is_away) /* whether there are subjects is not known */
        atomic_store(&r->has_subjects, true);
    r->db.serves = !err;
    return err;
}

int sl_registry_open(const struct sl_registry_options *options,
                     struct sl_registry **ret, struct sl_diag *diag)
{
    const struct sl_alloc *alloc =
        options->alloc ? options->alloc : &sl_alloc_libc;
    struct sl_registry *r = sl_alloc_new(alloc, sizeof(*r));
    int err;

    if (!r)
        return sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    memset(r, 0, sizeof(*r));
    r->alloc = alloc;
    r->on_fault = options->on_fault;
    r->on_mistake = options->on_mistake;
    r->on_switch = options->on_switch;
    r->on_webhook = options->on_webhook;
    r->ctx = options->ctx;
    r->options = *options;
    r->end = &r->first;
    r->blocked.end = &r->blocked.first;
    sl_arena_init(&r->names, NAMES_MOST, alloc);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->more, NULL);
    pthread_cond_init(&r->checked, NULL);
    sl_unit_list_init(&r->units, alloc);
    err = sl_hash_key_make(&r->secret);
    if (err)
        sl_diag_error(diag, err, "the system did not provide random bytes");
    else
        err = open_database(r, diag);
    if (!err)
        err = sl_sharing_listen(r, diag);
    if (!err)
        err = sl_thread_start(&r->thread, serve, r, diag);
    r->has_thread = !err;
    if (err)
        sl_registry_close(r);
    else
        *ret = r;
    return err;
}

void sl_registry_stop(struct sl_registry *r)
{
    if (!r || !r->has_thread)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->more);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    r->has_thread = false;
}

void sl_registry_finish(struct sl_registry *r)
{
    r->is_ending = true;
    serve(r); /* until the queue is empty: r->stop is set */
}

void sl_registry_close(struct sl_registry *r)
{
    if (!r)
        return;
    sl_registry_stop(r);
    sl_usage_replay_close(r);
    sl_database_close(&r->db);
    sl_arena_done(&r->names);
    sl_unit_list_done(&r->units);
    pthread_cond_destroy(&r->checked);
    pthread_cond_destroy(&r->more);
    pthread_mutex_destroy(&r->lock);
    sl_alloc_free(r->alloc, r, sizeof(*r));
}

const struct sl_switched *sl_registry_switches(const struct sl_registry *r,
                                               unsigned *ret_count)
{
    *ret_count = r->was_away ? 0 : r->switch_count;
    return r->switches;
}

void sl_registry_count(const struct sl_registry *r,
                       struct sl_registry_counts *ret)
{
    ret->reads = atomic_load_explicit(&r->reads, memory_order_relaxed);
    ret->writes = atomic_load_explicit(&r->writes, memory_order_relaxed);
    ret->commits = atomic_load_explicit(&r->commits, memory_order_relaxed);
    ret->overshoot = atomic_load_explicit(&r->overshoot, memory_order_relaxed);
    ret->faults = atomic_load_explicit(&r->faults, memory_order_relaxed);
    ret->expired = atomic_load_explicit(&r->expired, memory_order_relaxed);
    ret->waiting = atomic_load_explicit(&r->waiting, memory_order_relaxed);
}
