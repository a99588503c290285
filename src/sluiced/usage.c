/* usage.c -- usage buffers of the workers, thresholds, and restore at start.
 *
 * Decisions use the table; the usage database records. At start, usage of
 * current periods that the database has and the table has not (it was in
 * memory, or lost, or the daemon was killed between commit and charge) is
 * charged to the table. Refunds that the table has not applied are applied.
 * Other usage that only the table has stays: decisions made it just before a
 * kill.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_int.h"
#include "sluiced/daemon.h"
#include "wire/json.h"

/* ---- start ---- */

/* Older rows cannot be of a current period. */
#define YEAR (400 * SL_DAY)

static bool is_long(const struct sl_limit *limit)
{
    static const uint32_t most[] = {
        [SL_CALENDAR_DAY] = 366,
        [SL_CALENDAR_WEEK] = 53,
        [SL_CALENDAR_MONTH] = 12,
    };

    return limit->calendar ? limit->cal.every > most[limit->cal.unit]
                           : limit->period > 366 * SL_DAY;
}

sl_ns sl_usage_since(struct sl_daemon *daemon)
{
    struct sl_active_policy *active = sl_engine_hold(daemon->engine, NULL);
    sl_ns now = sl_daemon_now(daemon), since = now > YEAR ? now - YEAR : 0;

    for (unsigned i = 0; i < active->policy->rule_count; i++)
        if (active->policy->rules[i].kind == SL_QUOTA &&
            is_long(&active->policy->rules[i].strictest))
            since = 0;
    sl_active_policy_release(active);
    return since;
}

bool sl_usage_spent(const struct sl_usage_entry *usage,
                    struct sl_str values[SL_PER_MAX], char id[SL_USAGE_ID],
                    struct sl_usage_delta *ret)
{
    *ret = (struct sl_usage_delta){.limit = usage->limit,
                                   .scope = usage->scope,
                                   .values = values,
                                   .start = usage->start,
                                   .amount = -(int64_t)usage->owed,
                                   .value_count = 1};
    if (usage->id.len > SL_USAGE_ID)
        return false;
    memcpy(id, usage->id.at, usage->id.len);
    for (size_t i = 0; i < usage->scope.len; i++)
        ret->value_count += usage->scope.at[i] == ':';
    if (sl_str_eq(usage->scope, SL_STR("all")))
        ret->value_count = 0;
    return ret->value_count <= SL_PER_MAX &&
           sl_usage_split(id, usage->id.len, ret->value_count, values);
}

/* With quota leases the table has only the usage of this daemon, and the leases
 * limit it. Limits with sign-in carry are not leased. */
static bool is_leased(struct sl_daemon *daemon, struct sl_str limit)
{
    const struct sl_policy *policy = daemon->policy_source.policy;
    int index = sl_policy_rule(policy, limit);

    return daemon->quota_node.store && index >= 0 &&
           policy->rules[index].kind == SL_QUOTA &&
           !policy->rules[index].carried;
}

void sl_usage_restore(void *ctx, const struct sl_usage_entry *usage)
{
    struct sl_daemon *daemon = ctx;
    struct sl_str values[SL_PER_MAX];
    char id[SL_USAGE_ID];
    struct sl_usage_delta spent;

    if (!is_leased(daemon, usage->limit) &&
        sl_usage_spent(usage, values, id, &spent))
        sl_usage_report_restore(daemon->engine, &spent, usage->used,
                                sl_daemon_now(daemon));
}

/* ---- thresholds ---- */

static void report(struct sl_worker *worker, const struct sl_usage_entry *u,
                   unsigned threshold)
{
    struct sl_buf members;
    struct sl_writer w = sl_event_begin(&members);
    char share[16], used[64], limit[80], id[96];

    sl_json_member_str(&w, "limit", u->limit);
    sl_json_member_str(&w, "scope", u->scope);
    sl_json_member_str(&w, "id", u->id);
    sl_writer_addf(&w, ",\"mark\":%u,\"used\":%" PRIu64 ",\"of\":%" PRIu64,
                   threshold, u->used, u->cap);
    sl_event_publish(worker, "usage", &w);
    snprintf(share, sizeof(share), "%u%%", threshold);
    snprintf(used, sizeof(used), "%" PRIu64 " of %" PRIu64, u->used, u->cap);
    snprintf(limit, sizeof(limit), "%.*s", SL_STR_ARG(u->limit));
    snprintf(id, sizeof(id), "%.*s", u->id.len < 90 ? (int)u->id.len : 90,
             u->id.at);
    sl_log(SL_LOG_INFO, "usage", "limit", limit, "id", id, "reached", share,
           "used", used, NULL);
}

static void on_threshold(void *ctx, const struct sl_usage_entry *u)
{
    for (unsigned i = 0; i < u->thresholds.count; i++)
        if (u->thresholds.list[i] > u->threshold_before &&
            u->thresholds.list[i] <= u->threshold)
            report(ctx, u, u->thresholds.list[i]);
}

/* ---- workers ---- */

int sl_worker_open_usage(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    struct sl_usage_buffer_options options = {
        .on_threshold = on_threshold,
        .ctx = worker,
        .node = sl_str_c(daemon->quota_node.node)};
    int err = sl_usage_buffer_open(daemon->registry, worker->loop, &options,
                                   &worker->usage_buffer, &daemon->why);

    if (!err)
        worker->engine_ctx.meter = sl_usage_buffer_sink(worker->usage_buffer);
    return err;
}

void sl_worker_close_usage(struct sl_worker *worker)
{
    worker->engine_ctx.meter = NULL;
    sl_usage_buffer_close(worker->usage_buffer);
    worker->usage_buffer = NULL;
}

/* ---- counts ---- */

static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void count_leases(const struct sl_daemon *daemon,
                         struct sl_metrics_subjects *ret)
{
    struct sl_quota_leases_counts counts;

    if (!daemon->quota_node.store)
        return;
    sl_quota_leases_count(daemon->quota_node.store, &counts);
    ret->numbers[SL_QUOTA_LEASE_ASKS] = counts.asked;
    ret->numbers[SL_QUOTA_LEASE_FAILURES] = counts.failed;
    ret->numbers[SL_LEASE_KEYS] = counts.keys;
    ret->numbers[SL_QUOTA_LEASE_REFUSALS] = counts.refused;
    ret->numbers[SL_QUOTA_LEASE_UNSPENT] = counts.unspent;
}

void sl_usage_count(const struct sl_daemon *daemon,
                    struct sl_metrics_subjects *ret)
{
    count_leases(daemon, ret);
    for (unsigned i = 0; i < daemon->worker_count; i++) {
        const struct sl_usage_buffer *buffer = daemon->workers[i].usage_buffer;
        const struct sl_usage_buffer_counts *c;

        if (!buffer)
            continue;
        c = sl_usage_buffer_counts(buffer);
        ret->numbers[SL_USAGE_SPENT] += get(&c->spent);
        ret->numbers[SL_USAGE_WRITTEN] += get(&c->written);
        ret->numbers[SL_USAGE_ERRORS] += get(&c->failed);
        ret->numbers[SL_USAGE_LOST] += get(&c->lost);
        ret->numbers[SL_USAGE_MARKED] += get(&c->thresholds);
    }
}
