/* quota_node.c -- quota leases of this daemon, a node of the usage database.
 *
 * The name of the daemon in the usage database is a random number in its table.
 * A daemon that restarts with its table finds its leases. A daemon that has
 * lost its table is a new node. The leases of a daemon that is gone are freed
 * by any other that watches it.
 *
 * A copied table makes two nodes of one name. The one started last keeps it.
 * The other finds out within a second, drops its leases, and makes no more
 * quota decisions: `on_store_failure` applies.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_int.h"
#include "sluiced/daemon.h"

/* Period of heartbeats and of returning unused units. */
#define PERIOD SL_S

/* One request in flight. */
struct request {
    struct sl_job job;
    struct sl_usage_lease_claim claim;
    struct sl_quota_ask *ask; /* NULL: heartbeat only */
    struct sl_quota_node *node;
    sl_ns sent; /* monotonic */
};

static void finish(struct sl_quota_ask *ask, int err)
{
    ask->err = err ? SLUICE_ESTORE : 0;
    ask->done(ask);
}

/* The leases belong to the other node. */
static void lose_name(struct sl_quota_node *node, struct sl_loop *loop)
{
    if (atomic_exchange(&node->lost, true))
        return;
    sl_log(SL_LOG_ERROR, "node name in use by another daemon", "node",
           node->node, "why",
           "the other daemon runs on a copy of the state file; stop it, remove "
           "the copy and restart this daemon. Quotas are not decided here "
           "until then",
           NULL);
    sl_quota_leases_drain(node->store, loop, sl_loop_now(loop));
}

static void on_carried(struct sl_job *job)
{
    struct request *e = job->ctx;
    struct sl_quota_ask *ask = e->ask;
    struct sl_quota_node *node = e->node;
    struct sl_loop *loop = job->loop;
    bool lost = atomic_load(&node->lost) ||
                (!job->err && job->result == SL_JOB_CONFLICT);
    int err = lost ? SLUICE_ESTORE : job->err;

    if (ask)
        ask->uncertain = err && job->uncertain_txn != 0;
    if (ask)
        ask->terms =
            (struct sl_quota_lease_terms){.order = job->order,
                                          .found = e->claim.found,
                                          .no_row = e->claim.no_row,
                                          .granted = e->claim.granted,
                                          .used = e->claim.used,
                                          .base = e->claim.base,
                                          .spent = e->claim.spent,
                                          .leased = e->claim.leased_here};
    if (!ask && !err)
        sl_quota_leases_seen(e->node->store, e->sent);
    sl_job_clear(job);
    sl_alloc_free(&sl_alloc_libc, e, sizeof(*e));
    if (ask)
        finish(ask, err);
    if (lost)
        lose_name(node, loop);
}

/* Returns false without memory. */
static bool send_claim(struct sl_quota_node *node, struct sl_quota_ask *ask,
                       const struct sl_usage_lease_claim *claim,
                       struct sl_loop *loop)
{
    struct request *e = sl_alloc_new(&sl_alloc_libc, sizeof(*e));

    if (!e)
        return false;
    e->node = node;
    e->ask = ask;
    e->claim = *claim;
    sl_job_init(&e->job, SL_JOB_LEASE, &sl_alloc_libc);
    e->job.loop = loop;
    e->job.done = on_carried;
    e->job.ctx = e;
    e->job.claim = &e->claim;
    e->sent = sl_quota_leases_mono(node->store);
    e->job.change_count = 1;
    sl_registry_ask(node->daemon->registry, &e->job);
    return true;
}

/* Sends the usage of this thread, so that the next request finds it recorded.
 */
static void flush(const struct sl_daemon *daemon, const struct sl_loop *loop)
{
    for (unsigned i = 0; i < daemon->worker_count; i++)
        if (daemon->workers[i].loop == loop && daemon->workers[i].usage_buffer)
            sl_usage_buffer_flush(
                sl_usage_buffer_sink(daemon->workers[i].usage_buffer));
}

static void ask(struct sl_quota_lessor *lessor, struct sl_quota_ask *ask)
{
    struct sl_quota_node *node = (struct sl_quota_node *)lessor;
    struct sl_usage_lease_claim claim = {.node = sl_str_c(node->node),
                                         .scope = ask->scope,
                                         .id = ask->id,
                                         .limit = ask->limit,
                                         .start = ask->start,
                                         .at = sl_loop_now(ask->loop),
                                         .cap = ask->cap,
                                         .want = ask->want,
                                         .least = ask->least,
                                         .need = ask->need,
                                         .ceiling = ask->ceiling,
                                         .give_back = ask->give,
                                         .has_units = ask->has,
                                         .heartbeat = ask->alive};

    if (ask->behind)
        flush(node->daemon, ask->loop);
    /* Units of another node are not returned. */
    if (atomic_load(&node->lost))
        finish(ask, ask->give > 0 ? 0 : SLUICE_ESTORE);
    else if (!node->daemon->registry || atomic_load(&node->over) ||
             !send_claim(node, ask, &claim, ask->loop))
        finish(ask, SLUICE_ESTORE);
}

/* Writes the name of a subject as in the usage database. */
static bool name(struct sl_quota_lessor *lessor, const struct sl_part *part,
                 struct sl_str *scope, struct sl_buf *id)
{
    const struct sl_limit_view *shown = part->view;
    struct sl_str values[SL_PER_MAX];

    (void)lessor;
    for (unsigned i = 0; i < shown->value_count; i++)
        values[i] = shown->values[i].value;
    *scope = shown->scope;
    return sl_usage_join(values, shown->value_count, id);
}

static struct sl_usage_entry entry_of(const struct sl_quota_ask *who)
{
    return (struct sl_usage_entry){.scope = who->scope,
                                   .id = who->id,
                                   .limit = who->limit,
                                   .start = who->start};
}

static bool look_own(struct sl_quota_lessor *lessor,
                     const struct sl_quota_ask *who, uint64_t *ret)
{
    struct sl_daemon *daemon = ((struct sl_quota_node *)lessor)->daemon;
    struct sl_usage_entry usage = entry_of(who);
    struct sl_str values[SL_PER_MAX];
    char id[SL_USAGE_ID];
    struct sl_usage_delta spent;

    return sl_usage_delta_of(&usage, values, id, &spent) &&
           sl_usage_report_look(daemon->engine, &spent, sl_daemon_now(daemon),
                                ret);
}

static void empty_own(struct sl_quota_lessor *lessor,
                      const struct sl_quota_ask *who)
{
    struct sl_daemon *daemon = ((struct sl_quota_node *)lessor)->daemon;
    struct sl_usage_entry usage = entry_of(who);
    struct sl_str values[SL_PER_MAX];
    char id[SL_USAGE_ID];
    struct sl_usage_delta spent;

    if (sl_usage_delta_of(&usage, values, id, &spent))
        sl_usage_report_empty(daemon->engine, &spent, sl_daemon_now(daemon));
}

bool sl_quota_node_can_lease(const struct sl_daemon *daemon,
                             struct sl_str limit)
{
    const struct sl_policy *policy = daemon->policy_source.policy;
    int index = sl_policy_rule(policy, limit);

    return index >= 0 && sl_is_durable(policy->rules[index].kind) &&
           !policy->rules[index].carried;
}

int sl_quota_node_wrap(struct sl_daemon *daemon)
{
    struct sl_quota_node *node = &daemon->quota_node;
    struct sl_quota_leases_options options = {.store = daemon->state.store,
                                              .lessor = &node->lessor,
                                              .patience =
                                                  daemon->settings.deadline};
    char *own = daemon->settings.leases ? node->node : node->former;

    node->lessor = (struct sl_quota_lessor){ask, name, look_own, empty_own};
    node->daemon = daemon;
    snprintf(own, sizeof(node->node), "%016" PRIx64,
             sl_hash64(&daemon->state.store->secret, SL_STR("node")));
    if (!daemon->settings.leases)
        return 0;
    if (sl_quota_leases_open(&options, &node->store))
        return sl_daemon_no_memory(daemon);
    daemon->state.store = node->store;
    sl_log(SL_LOG_INFO, "quota leases enabled", "node", node->node, NULL);
    return 0;
}

/* The end of a lease's period; SL_NS_MAX: it has none, or the subject has
 * periods of its own. */
static sl_ns end_of(const struct sl_policy *policy,
                    const struct sl_usage_lease_row *row)
{
    int index = sl_policy_rule(policy, row->limit);
    const struct sl_limit *limit;
    struct sl_period p;

    if (index < 0)
        return SL_NS_NONE;
    limit = &policy->rules[index].strictest;
    if (limit->kind == SL_LEVEL)
        return SL_NS_MAX;
    p = sl_limit_period(limit, row->start);
    return p.start == row->start ? p.end : SL_NS_MAX;
}

/* Returns when unrecorded usage happened: before the node was last seen or
 * within a second of it, and in its period. */
static sl_ns day_of(struct sl_daemon *daemon,
                    const struct sl_usage_lease_row *row)
{
    sl_ns at = row->seen > row->start ? row->seen : row->start;
    sl_ns end = end_of(daemon->policy_source.policy, row);

    if (at == 0)
        return sl_daemon_now(daemon);
    return at < end ? at : end - 1;
}

/* With more holds, finding those of one key would take too long: then all that
 * was taken stays leased until a start with fewer, or the end of the period. */
#define HOLDS_MOST 16384

static uint64_t held_units(const struct sl_daemon *daemon,
                           const struct sl_quota_ask *who)
{
    struct sl_usage_entry usage = entry_of(who);
    struct sl_str values[SL_PER_MAX];
    char id[SL_USAGE_ID];
    struct sl_usage_delta spent;
    struct sl_hold_stats holds;
    struct sl_hash128 fingerprint;
    uint32_t limit_id;

    sl_table_hold_stats(daemon->state.table, &holds);
    if (holds.held == 0)
        return 0;
    if (holds.held > HOLDS_MOST ||
        !sl_usage_delta_of(&usage, values, id, &spent) ||
        !sl_usage_report_key(daemon->engine, &spent, &limit_id, &fingerprint))
        return UINT64_MAX;
    return sl_table_held_units(daemon->state.table, limit_id, fingerprint);
}

uint64_t sl_quota_node_resume(void *ctx, const struct sl_usage_lease_row *row,
                              uint64_t *held, sl_ns *at)
{
    struct sl_daemon *daemon = ctx;
    struct sl_quota_ask who = {.scope = row->scope,
                               .id = row->id,
                               .limit = row->limit,
                               .start = row->start};
    uint64_t own = 0, left;

    /* The limit is gone, or the period is over: the units will not be used. */
    if (row->older ||
        (row->held && !sl_quota_node_can_lease(daemon, row->limit)) ||
        !look_own(&daemon->quota_node.lessor, &who, &own))
        return row->leased;
    left = sl_quota_lease_left(row->base, row->spent, row->leased, own);
    if (left < row->leased)
        *held = held_units(daemon, &who);
    *at = day_of(daemon, row);
    return left;
}

/* ---- other nodes that are gone ---- */

/* Heartbeats between two looks at the other nodes. */
#define LOOK_EVERY 2

/* One list of nodes being read, or one node being freed. */
struct look {
    struct sl_job job;
    struct sl_quota_node *node;
    struct sl_usage_node other;
    sl_ns asked;
};

/* By a virtual clock if there is one: then a node is gone when a test says so.
 */
static sl_ns watch_time(const struct sl_quota_node *node)
{
    return node->daemon->settings.virtual_clock
               ? sl_daemon_now(node->daemon)
               : sl_quota_leases_mono(node->store);
}

static struct look *new_look(struct sl_quota_node *node, enum sl_job_kind kind,
                             void (*done)(struct sl_job *job))
{
    struct look *look = sl_alloc_new(&sl_alloc_libc, sizeof(*look));

    if (!look)
        return NULL;
    memset(look, 0, sizeof(*look));
    look->node = node;
    sl_job_init(&look->job, kind, &sl_alloc_libc);
    look->job.loop = node->daemon->workers[0].loop;
    look->job.done = done;
    look->job.ctx = look;
    look->asked = watch_time(node);
    return look;
}

static void free_look(struct look *look)
{
    sl_job_clear(&look->job);
    sl_alloc_free(&sl_alloc_libc, look, sizeof(*look));
}

static void on_freed(struct sl_job *job)
{
    struct look *look = job->ctx;
    char units[24];

    snprintf(units, sizeof(units), "%" PRIu64, job->units);
    /* Another daemon may have been faster, or the node is back. */
    if (!job->err && job->result == SL_JOB_DONE)
        sl_log(SL_LOG_WARN, "quota leases of a daemon that is gone freed",
               "node", look->other.name, "units", units, NULL);
    free_look(look);
}

/* Frees the leases of a node, unless it was seen since. Without memory the next
 * look does it. */
static void free_leases(struct sl_quota_node *node,
                        const struct sl_usage_node *other)
{
    struct look *look = new_look(node, SL_JOB_RELEASE, on_freed);

    if (!look)
        return;
    look->other = *other;
    look->job.name = sl_str_c(look->other.name);
    look->job.since = other->seen;
    sl_registry_ask(node->daemon->registry, &look->job);
}

static void on_nodes(struct sl_job *job)
{
    struct look *look = job->ctx;
    struct sl_quota_node *node = look->node;
    const struct sl_usage_node *list = (const void *)job->text.bytes;
    size_t count = job->err ? 0 : job->text.len / sizeof(*list);

    node->watching = false;
    if (!job->err) {
        sl_quota_watch_begin(&node->watch, look->asked, watch_time(node));
        for (size_t i = 0; i < count; i++)
            if (sl_quota_watch_node(&node->watch, sl_str_c(list[i].name),
                                    list[i].seen) &&
                !atomic_load(&node->over))
                free_leases(node, &list[i]);
        sl_quota_watch_end(&node->watch);
    }
    free_look(look);
}

static void look_at_nodes(struct sl_quota_node *node)
{
    struct look *look;

    if (node->watching || node->heartbeats++ % LOOK_EVERY != 0)
        return;
    look = new_look(node, SL_JOB_NODES, on_nodes);
    if (!look)
        return;
    node->watching = true;
    look->job.name = sl_str_c(node->node);
    look->job.most = SL_QUOTA_NODES;
    sl_registry_ask(node->daemon->registry, &look->job);
}

/* ---- heartbeat ---- */

static void on_heartbeat(void *ctx)
{
    struct sl_daemon *daemon = ctx;
    struct sl_quota_node *node = &daemon->quota_node;
    struct sl_loop *loop = daemon->workers[0].loop;
    struct sl_usage_lease_claim claim = {.node = sl_str_c(node->node),
                                         .at = sl_loop_now(loop)};
    struct sl_quota_leases_counts counts;

    sl_quota_leases_count(node->store, &counts);
    sl_quota_leases_heartbeat(node->store, loop, sl_loop_now(loop));
    /* Held units may be leased without a key. */
    if ((counts.keys > 0 || sl_daemon_has_holds(daemon)) &&
        !atomic_load(&node->lost))
        (void)send_claim(node, NULL, &claim, loop); /* or the next heartbeat */
    if (!atomic_load(&node->lost))
        look_at_nodes(node);
    sl_timer_start(node->timer, PERIOD);
}

int sl_quota_node_begin(struct sl_daemon *daemon)
{
    struct sl_quota_node *node = &daemon->quota_node;

    if (!node->store)
        return 0;
    if (sl_timer_new(daemon->workers[0].loop, on_heartbeat, daemon,
                     &node->timer))
        return sl_daemon_no_memory(daemon);
    sl_timer_start(node->timer, PERIOD);
    return 0;
}

void sl_quota_node_end(struct sl_daemon *daemon)
{
    sl_timer_free(daemon->quota_node.timer);
    daemon->quota_node.timer = NULL;
}

void sl_quota_node_drain(struct sl_daemon *daemon)
{
    struct sl_quota_node *node = &daemon->quota_node;
    struct sl_loop *loop = daemon->workers[0].loop;

    if (node->store && loop)
        sl_quota_leases_drain(node->store, loop, sl_loop_now(loop));
    atomic_store(&node->over, true);
}
