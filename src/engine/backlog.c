/* backlog.c -- how much work is waiting, and what is kept beside the policy.
 *
 * Workers report depths by name. The last report of each name is kept with the
 * engine, so that a reload forgets none, and stands in the policy in force,
 * where a decision reads it without a lock.
 */
#include <string.h>

#include "engine/engine.h"
#include "engine/inside.h"

/* What is remembered, unless the policy says otherwise; see guard.c. */
#define REPEATS_BYTES ((size_t)16 << 20)
#define REPLAYS_BYTES ((size_t)8 << 20)

/* ---- depths ---- */

static const struct reported *find(const struct sl_engine *engine,
                                   struct sl_str name)
{
    for (unsigned i = 0; i < engine->reported_count; i++)
        if (sl_str_eq(sl_str_c(engine->reported[i].name), name))
            return &engine->reported[i];
    return NULL;
}

/* The time is stored last: who sees it sees the depth. */
static void put(struct sl_depth *depth, const struct reported *reported)
{
    atomic_store_explicit(&depth->depth, reported ? reported->depth : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&depth->at, reported ? reported->at : SL_NS_NONE,
                          memory_order_release);
}

void sl_backlogs_apply(const struct sl_engine *engine,
                       const struct sl_live *live)
{
    for (unsigned i = 0; i < live->policy->backlog_count; i++)
        put(&live->depths[i], find(engine, live->policy->backlogs[i]));
}

/* A place for the name: its own, a new one, or that of the oldest report. */
static struct reported *place_of(struct sl_engine *engine, struct sl_str name)
{
    struct reported *place = (struct reported *)(uintptr_t)find(engine, name);

    if (place)
        return place;
    if (engine->reported_count < KEPT_MAX)
        return &engine->reported[engine->reported_count++];
    place = &engine->reported[0];
    for (unsigned i = 1; i < KEPT_MAX; i++)
        if (engine->reported[i].at < place->at)
            place = &engine->reported[i];
    return place;
}

static int find_index(const struct sl_policy *policy, struct sl_str name)
{
    for (unsigned i = 0; i < policy->backlog_count; i++)
        if (sl_str_eq(policy->backlogs[i], name))
            return (int)i;
    return -1;
}

/* Under the lock. */
static int report(struct sl_engine *engine, struct sl_str name, uint64_t depth,
                  sl_ns now)
{
    const struct sl_live *live = atomic_load(&engine->live);
    int index = find_index(live->policy, name);
    struct reported *place;

    if (index < 0 || name.len >= sizeof(place->name))
        return SLUICE_ENOENT;
    place = place_of(engine, name);
    memcpy(place->name, name.at, name.len);
    place->name[name.len] = '\0';
    place->depth = depth;
    place->at = now;
    put(&live->depths[index], place);
    return 0;
}

int sl_engine_backlog(struct sl_engine *engine, struct sl_str name,
                      uint64_t depth, sl_ns now, struct sl_diag *diag)
{
    int err;

    pthread_mutex_lock(&engine->lock);
    err = report(engine, name, depth, now);
    pthread_mutex_unlock(&engine->lock);
    return err ? sl_refuse(diag, err, "the policy has no backlog \"%.*s\"",
                           SL_STR_ARG(name))
               : 0;
}

/* ---- repeats and replays ---- */

/* Keys may come with any question, so there is always memory for repeats. */
int sl_memory_of_repeats(struct sl_engine *engine,
                         const struct sl_policy *policy, struct sl_diag *diag)
{
    size_t bytes =
        policy->server.idempotency ? policy->server.idempotency : REPEATS_BYTES;
    int err = 0;

    if (!engine->repeats)
        err = sl_once_open(bytes, false, engine->alloc, &engine->repeats);
    else
        sl_once_resize(engine->repeats, bytes);
    if (!err && policy->guarded && !engine->replays)
        err =
            sl_once_open(REPLAYS_BYTES, true, engine->alloc, &engine->replays);
    return err ? sl_refuse(diag, err, "out of memory") : 0;
}
