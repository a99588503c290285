/* hold_ends.c -- holds of this node that ended at another daemon, or were
 * extended there.
 *
 * A hold with units of a leased quota is in the table of the daemon that took
 * it, and its units are in the lease of that node. Another daemon can end it,
 * because the remote store has a copy. The usage database then records the
 * actual amount, takes it from this lease, and keeps the end for this node:
 *
 *     the other daemon --> usage database --> read here, twice a second or,
 *                                                  |    without holds, rarely
 *         the end is recorded as known <-- ended in the table
 *
 * So the rest of the hold is in the lease again, and is returned if it is not
 * needed here. If the hold has expired here meanwhile, the table has refunded
 * it, and is charged with the actual amount. That must happen once: the ends
 * are not read again before the last ones are recorded as known, nor while the
 * journal is full.
 *
 * Extensions go the same way. A hold that is extended elsewhere less than a
 * second before it would expire may have expired here. Its units are then free
 * here, and it is charged when it ends.
 */
#include <string.h>

#include "engine/engine_int.h"
#include "sluiced/daemon.h"

#define PERIOD (500 * SL_MS)
#define MOST   1024 /* ends that are read at a time */

/* Ends of holds are read as often as this for so long after the last hold in
 * the table, then rarely: a hold that has expired here, by a step of the clock
 * or since an extension came too late, may live on elsewhere. */
#define AFTER  (60 * SL_S)
#define RARELY (10 * SL_S)

struct reading {
    struct sl_job job;
    struct sl_quota_node *node;
};

/* The ends of one hold, one for each limit. */
struct ends {
    struct sl_usage_end list[SL_PARTS];
    struct sl_str texts[SL_PARTS][3];
    unsigned count;
};

static void on_done(struct sl_hold_call *call)
{
    (void)call; /* the table answers before it returns */
}

static enum sl_hold_state run(struct sl_quota_node *node,
                              struct sl_hold_call *call, enum sl_hold_action op)
{
    call->op = op;
    sl_store_hold(node->store, call);
    return call->err ? SL_HOLD_HELD : call->state;
}

/* The table has refunded the hold, or does not know it any more. Its units may
 * have been taken again: they are counted as overshoot. */
static void charge(struct sl_daemon *daemon, const struct ends *ends)
{
    struct sl_str values[SL_PER_MAX];
    char id[SL_USAGE_ID];

    for (unsigned i = 0; i < ends->count; i++) {
        struct sl_usage_entry usage = {.scope = ends->texts[i][0],
                                       .id = ends->texts[i][1],
                                       .limit = ends->texts[i][2],
                                       .start = ends->list[i].start,
                                       .end = ends->list[i].end};
        struct sl_usage_delta spent;

        if (!sl_usage_delta_of(&usage, values, id, &spent))
            continue;
        spent.amount = (int64_t)ends->list[i].amount;
        sl_usage_report_charge(daemon->engine, &spent, sl_daemon_now(daemon));
        atomic_fetch_add_explicit(&daemon->quota_node.late_units,
                                  ends->list[i].amount, memory_order_relaxed);
    }
}

/* The usage of the first worker; NULL at the end. Can it be confirmed there
 * that an end is known? */
static struct sl_usage_sink *meter_of(const struct sl_quota_node *node)
{
    return node->daemon->workers[0].engine_ctx.meter;
}

static bool can_confirm(const struct sl_quota_node *node)
{
    const struct sl_usage_sink *meter = meter_of(node);

    return meter && !meter->full;
}

/* Tells the usage database that this node knows of the ends, or of an
 * extension. */
static void confirm(struct sl_quota_node *node, const struct ends *ends)
{
    struct sl_usage_sink *meter = meter_of(node);

    for (unsigned i = 0; i < ends->count; i++) {
        const struct sl_usage_end *end = &ends->list[i];
        struct sl_usage_delta spent = {
            .act = end->until > 0 ? SL_USAGE_ACT_HOLD_EXTEND
                                  : SL_USAGE_ACT_HOLD_END,
            .hold = {end->hold[0], end->hold[1]},
            .until = end->until,
            .limit = ends->texts[i][2],
            .scope = SL_STR(""),
            .start = end->start,
            .at = sl_daemon_now(node->daemon),
            .amount = end->until > 0 ? 0 : (int64_t)end->amount,
        };

        meter->calls->spent(meter, &spent);
    }
    node->ends_mark = sl_usage_buffer_mark(meter);
}

/* A call about a hold of the table. */
static struct sl_hold_call call_of(const struct sl_usage_end *end,
                                   const struct sl_active_policy *active,
                                   sl_ns now)
{
    return (struct sl_hold_call){
        .id = {{end->hold[0], end->hold[1]}},
        .limits = active->stored,
        .limits_count = 2 * active->policy->rule_total,
        .as_held = true,
        .now = now,
        .done = on_done,
    };
}

/* Extends one hold in the table, from now on. It is not shortened: it may have
 * been extended here since. */
static void extend_one(struct sl_quota_node *node, const struct ends *ends)
{
    struct sl_daemon *daemon = node->daemon;
    struct sl_active_policy *active =
        sl_engine_ref_policy(daemon->engine, NULL);
    struct sl_hold_call call =
        call_of(&ends->list[0], active, sl_daemon_now(daemon));

    call.hold_for = (sl_ns)ends->list[0].amount;
    if (run(node, &call, SL_HOLD_LOOK) == SL_HOLD_HELD &&
        call.expires_in < call.hold_for)
        run(node, &call, SL_HOLD_EXTEND);
    confirm(node, ends);
    sl_active_policy_unref(active);
}

/* Ends one hold in the table. If some of its limits have not ended yet, they
 * are on their way: the next reading has them. */
static void end_one(struct sl_quota_node *node, const struct ends *ends)
{
    struct sl_daemon *daemon = node->daemon;
    struct sl_active_policy *active =
        sl_engine_ref_policy(daemon->engine, NULL);
    struct sl_actual actual[SL_PARTS];
    struct sl_hold_call call =
        call_of(&ends->list[0], active, sl_daemon_now(daemon));
    enum sl_hold_state state = run(node, &call, SL_HOLD_LOOK);
    bool whole = state != SL_HOLD_HELD || call.count <= ends->count;

    call.actual = actual;
    for (unsigned i = 0; i < ends->count; i++) {
        int index = sl_policy_rule(active->policy, ends->texts[i][2]);

        if (index >= 0)
            actual[call.actual_count++] = (struct sl_actual){
                &active->stored[2 * index], ends->list[i].amount};
    }
    if (whole && state == SL_HOLD_HELD)
        state = run(node, &call, SL_HOLD_SETTLE);
    if (whole && (state == SL_HOLD_EXPIRED || state == SL_HOLD_UNKNOWN))
        charge(daemon, ends);
    if (whole)
        confirm(node, ends);
    sl_active_policy_unref(active);
}

static void apply(struct sl_quota_node *node, const struct ends *ends)
{
    if (ends->count == 0 || !can_confirm(node))
        return;
    if (ends->list[0].until > 0)
        extend_one(node, ends);
    else
        end_one(node, ends);
}

/* Does the end belong to those before it? Extensions of the limits of a hold
 * are applied one by one. */
static bool is_same(const struct ends *ends, const struct sl_usage_end *end)
{
    return ends->count > 0 && ends->count < SL_PARTS &&
           ends->list[0].until == 0 && end->until == 0 &&
           ends->list[0].hold[0] == end->hold[0] &&
           ends->list[0].hold[1] == end->hold[1];
}

static void on_read(struct sl_job *job)
{
    struct reading *reading = job->ctx;
    struct sl_quota_node *node = reading->node;
    struct sl_str rest = sl_buf_str(&job->text), texts[3];
    struct sl_usage_end end;
    struct ends ends = {.count = 0};
    bool any = false;

    node->reading_ends = false;
    node->ends_failed = job->err != 0;
    while (!job->err && !atomic_load(&node->over) &&
           sl_usage_ends_next(&rest, &end, texts)) {
        if (!is_same(&ends, &end)) {
            apply(node, &ends);
            ends.count = 0;
        }
        ends.list[ends.count] = end;
        memcpy(ends.texts[ends.count++], texts, sizeof(texts));
        any = true;
    }
    apply(node, &ends);
    if (any)
        sl_quota_leases_heartbeat(node->store, job->loop,
                                  sl_loop_now(job->loop));
    sl_job_clear(job);
    sl_alloc_free(&sl_alloc_libc, reading, sizeof(*reading));
}

/* Without memory the next time does it. */
static void read_ends(struct sl_quota_node *node)
{
    struct reading *reading = sl_alloc_new(&sl_alloc_libc, sizeof(*reading));

    if (!reading)
        return;
    reading->node = node;
    sl_job_init(&reading->job, SL_JOB_ENDS, &sl_alloc_libc);
    reading->job.loop = node->daemon->workers[0].loop;
    reading->job.done = on_read;
    reading->job.ctx = reading;
    reading->job.name = sl_str_c(node->node);
    reading->job.most = MOST;
    node->reading_ends = true;
    node->ends_read_at = sl_quota_leases_mono(node->store);
    sl_registry_ask(node->daemon->registry, &reading->job);
}

static void on_time(void *ctx)
{
    struct sl_daemon *daemon = ctx;
    struct sl_quota_node *node = &daemon->quota_node;
    sl_ns now = sl_quota_leases_mono(node->store);
    struct sl_hold_stats holds = {0, 0};

    sl_table_hold_stats(daemon->state.table, &holds);
    if (holds.held > 0 || node->held_at == 0)
        node->held_at = now;
    if (!node->reading_ends && !atomic_load(&node->lost) &&
        (node->ends_failed || now - node->held_at <= AFTER ||
         now - node->ends_read_at >= RARELY) &&
        can_confirm(node) &&
        sl_usage_buffer_is_recorded(meter_of(node), node->ends_mark))
        read_ends(node);
    sl_timer_start(node->ends_timer, PERIOD);
}

int sl_hold_ends_begin(struct sl_daemon *daemon)
{
    struct sl_quota_node *node = &daemon->quota_node;

    if (!node->store || !daemon->remote.combined || !daemon->registry)
        return 0;
    if (sl_timer_new(daemon->workers[0].loop, on_time, daemon,
                     &node->ends_timer))
        return sl_daemon_no_memory(daemon);
    sl_timer_start(node->ends_timer, PERIOD);
    return 0;
}

void sl_hold_ends_end(struct sl_daemon *daemon)
{
    sl_timer_free(daemon->quota_node.ends_timer);
    daemon->quota_node.ends_timer = NULL;
}
