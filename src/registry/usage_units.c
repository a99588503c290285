/* usage_units.c -- the units in which usage is recorded, by limit. What a scale
 * does to the numbers of a limit is in core/limit.c; how they are shown, in
 * engine/render.h.
 *
 * A limit with a scale (`unit: { name: minutes, of: 60, reports: seconds }`)
 * has a row in usage_units; a limit with a plain unit has none. Recorded usage
 * has the unit of the row. A policy with another unit is refused if there is
 * usage of the limit; otherwise its unit replaces the row.
 *
 * The units of a policy are checked when the database is opened or reached, and
 * before a new policy is used. A reload waits for the check, but only if the
 * units differ from the recorded ones.
 */
#include <string.h>
#include <time.h>

#include "core/limit.h"
#include "registry/registry_int.h"

/* A reload waits this long for the thread to begin the check. */
#define PATIENCE (2 * SL_S)

#define LIST_MOST ((size_t)4 << 20)

/* ---- lists ---- */

void sl_unit_list_init(struct sl_unit_list *list, const struct sl_alloc *alloc)
{
    list->first = NULL;
    sl_arena_init(&list->arena, LIST_MOST, alloc);
}

void sl_unit_list_done(struct sl_unit_list *list)
{
    sl_arena_done(&list->arena);
}

int sl_unit_list_add(struct sl_unit_list *list, struct sl_str limit,
                     uint64_t scale, struct sl_str counted)
{
    struct sl_usage_unit *unit = sl_arena_take(&list->arena, sizeof(*unit));
    const char *name = sl_arena_copy(&list->arena, limit);
    const char *of = sl_arena_copy(&list->arena, counted);

    if (!unit || !name || !of)
        return SLUICE_ENOMEM;
    *unit = (struct sl_usage_unit){
        .limit = {name, limit.len  },
        .scale = scale,
        .counted = {of,   counted.len},
        .next = list->first
    };
    list->first = unit;
    return 0;
}

static const struct sl_usage_unit *find(const struct sl_unit_list *list,
                                        struct sl_str limit)
{
    const struct sl_usage_unit *unit = list->first;

    while (unit && !sl_str_eq(unit->limit, limit))
        unit = unit->next;
    return unit;
}

/* No row: a plain unit. */
static bool is_recorded(const struct sl_unit_list *rows,
                        const struct sl_usage_unit *unit)
{
    const struct sl_usage_unit *row = find(rows, unit->limit);

    if (!row || unit->scale == 1)
        return !row && unit->scale == 1;
    return row->scale == unit->scale && sl_str_eq(row->counted, unit->counted);
}

static bool are_recorded(const struct sl_unit_list *rows,
                         const struct sl_unit_list *list)
{
    for (const struct sl_usage_unit *u = list->first; u; u = u->next)
        if (!is_recorded(rows, u))
            return false;
    return true;
}

/* ---- the table: all on the registry's thread ---- */

static int load(struct sl_database *db, struct sl_unit_list *ret)
{
    const enum sl_query q = SL_QUERY_UNITS;
    struct sl_str limit, counted;
    uint64_t scale;
    int found, err = 0;

    ret->first = NULL;
    sl_arena_reset(&ret->arena);
    while (!err && (found = sl_query_next(db, q, NULL, "tct", &limit, &scale,
                                          &counted)) == 1)
        err = sl_unit_list_add(ret, limit, scale, counted);
    sl_query_reset(db, q);
    if (err)
        return sl_diag_error(&db->diag, err, "out of memory");
    return found;
}

/* Replaces the row of a limit without usage. */
static int record(struct sl_registry *r, const struct sl_unit_list *rows,
                  const struct sl_usage_unit *unit)
{
    struct sl_database *db = &r->db;
    static const struct sl_usage_unit plain = {.scale = 1,
                                               .counted = SL_STR("")};
    const struct sl_usage_unit *row = find(rows, unit->limit);
    int used = sl_usage_replay_has_limit(r, unit->limit);

    if (!used)
        used = sl_query_one(db, SL_QUERY_HAS_USAGE, "t", unit->limit);
    if (used < 0)
        return used;
    if (!row)
        row = &plain;
    if (used)
        return sl_unit_refuse(
            &db->diag, "the usage database", unit->limit,
            &(struct sl_unit_name){row->scale, row->counted},
            &(struct sl_unit_name){unit->scale, unit->counted});
    if (unit->scale == 1)
        return sl_query_run(db, SL_QUERY_DROP_UNIT, "t", unit->limit);
    return sl_query_run(db, SL_QUERY_PUT_UNIT, "tct", unit->limit, unit->scale,
                        unit->counted);
}

/* The rows are read again under the lock: another daemon may start, too. */
static int record_all(struct sl_registry *r, struct sl_unit_list *rows,
                      const struct sl_unit_list *list)
{
    struct sl_database *db = &r->db;
    const uint64_t slots[SL_SHARE_SLOTS / 64] = {1};
    int err = sl_query_run(db, SL_QUERY_BEGIN, "");

    if (!err && db->driver->lock)
        err = db->driver->lock(db, slots);
    if (!err)
        err = load(db, rows);
    for (const struct sl_usage_unit *u = list->first; u && !err; u = u->next)
        if (!is_recorded(rows, u))
            err = record(r, rows, u);
    if (!err)
        err = load(db, rows);
    if (!err)
        err = sl_query_run(db, SL_QUERY_COMMIT, "");
    if (err)
        db->driver->rollback(db);
    return err;
}

/* Keeps the rows for later reloads. */
static int check(struct sl_registry *r, const struct sl_unit_list *list)
{
    struct sl_unit_list rows, old;
    int err;

    sl_unit_list_init(&rows, r->alloc);
    err = load(&r->db, &rows);
    if (!err && !are_recorded(&rows, list))
        err = record_all(r, &rows, list);
    if (err) {
        sl_unit_list_done(&rows);
        return err;
    }
    pthread_mutex_lock(&r->lock);
    old = r->units;
    r->units = rows;
    pthread_mutex_unlock(&r->lock);
    sl_unit_list_done(&old);
    return 0;
}

int sl_units_check(struct sl_registry *r)
{
    struct sl_unit_list list;
    int err;

    if (!r->options.list_units)
        return 0;
    sl_unit_list_init(&list, r->alloc);
    err = r->options.list_units(r->ctx, &list);
    if (err)
        sl_diag_error(&r->db.diag, err, "out of memory");
    else
        err = check(r, &list);
    sl_unit_list_done(&list);
    return err;
}

/* ---- a reload, which waits ---- */

struct call {
    struct sl_job job;
    struct sl_unit_list list;
    enum { QUEUED, RUNNING, ENDED, ABANDONED } state; /* under the lock */
};

static void end(struct sl_registry *r, struct call *call)
{
    sl_job_clear(&call->job);
    sl_unit_list_done(&call->list);
    sl_alloc_free(r->alloc, call, sizeof(*call));
}

/* Returns whether the call had been abandoned. */
static bool move_on(struct sl_registry *r, struct call *call, int state)
{
    bool abandoned;

    pthread_mutex_lock(&r->lock);
    abandoned = call->state == ABANDONED;
    if (!abandoned)
        call->state = state;
    pthread_cond_broadcast(&r->checked);
    pthread_mutex_unlock(&r->lock);
    return abandoned;
}

void sl_units_run(struct sl_registry *r, struct sl_job *job)
{
    struct call *call = job->ctx;
    int err;

    if (move_on(r, call, RUNNING)) {
        end(r, call);
        return;
    }
    err = r->is_away ? SLUICE_ESTORE : check(r, &call->list);
    job->diag = r->db.diag;
    job->err = err;
    move_on(r, call, ENDED);
}

/* Waits until the check has ended. Database calls have time limits of their
 * own. False: it has not begun in time. */
static bool wait_for(struct sl_registry *r, struct call *call)
{
    sl_ns end = sl_clock_wall() + PATIENCE;
    struct timespec until = {end / SL_S, end % SL_S};
    bool late = false;

    pthread_mutex_lock(&r->lock);
    while (call->state != ENDED && !(late && call->state == QUEUED)) {
        if (call->state == QUEUED)
            late = pthread_cond_timedwait(&r->checked, &r->lock, &until) != 0;
        else
            pthread_cond_wait(&r->checked, &r->lock);
    }
    if (call->state == QUEUED)
        call->state = ABANDONED;
    late = call->state == ABANDONED;
    pthread_mutex_unlock(&r->lock);
    return !late;
}

static int refuse(struct sl_diag *diag, const char *why)
{
    return sl_diag_error(diag, SLUICE_ESTORE,
                         "The units of the limits have changed, and must be "
                         "recorded first: %s. Reload the policy again later",
                         why);
}

int sl_registry_use_units(struct sl_registry *r, struct sl_unit_list *list,
                          struct sl_diag *diag)
{
    struct call *call;
    bool same;
    int err;

    pthread_mutex_lock(&r->lock);
    same = are_recorded(&r->units, list);
    pthread_mutex_unlock(&r->lock);
    call = same ? NULL : sl_alloc_new(r->alloc, sizeof(*call));
    if (!call) {
        sl_unit_list_done(list);
        return same ? 0 : sl_diag_error(diag, SLUICE_ENOMEM, "out of memory");
    }
    call->list = *list;
    call->state = QUEUED;
    sl_job_init(&call->job, SL_JOB_UNITS, r->alloc);
    call->job.ctx = call;
    sl_registry_ask(r, &call->job);
    if (!wait_for(r, call))
        return refuse(diag, "the usage database does not answer");
    err = call->job.err;
    if (err == SLUICE_ECONF)
        *diag = call->job.diag;
    else if (err)
        refuse(diag, call->job.diag.sentence[0]
                         ? call->job.diag.sentence
                         : "the usage database cannot be reached");
    end(r, call);
    return err;
}
