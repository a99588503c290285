/* admin_ops.c -- callbacks of the admin listener, on the first worker's loop.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sluiced/daemon.h"

static bool on_ready(void *ctx, struct sl_buf *why)
{
    struct sl_daemon *daemon = ctx;

    if (!daemon->draining) {
        if (!sl_jwks_ready(daemon->jwks, why))
            return false;
        /* It serves all the same. */
        sl_daemon_store_explain(daemon, why);
        return true;
    }
    if (sl_buf_addf(why, "the daemon is shutting down"))
        sl_buf_clear(why);
    return false;
}

static int on_database(void *ctx, struct sl_buf *why)
{
    return sl_health_database(ctx, why);
}

static int on_reload(void *ctx, struct sl_str text, struct sl_buf *report)
{
    bool posted = text.len > 0;

    return sl_reload(ctx, posted ? SL_RELOAD_POSTED : SL_RELOAD_ASKED,
                     posted ? &text : NULL, report);
}

static int on_history(void *ctx, int daemon_id, enum sl_history_step step,
                      int64_t since, struct sl_buf *out)
{
    const struct sl_history *history = sl_peers_history(ctx, daemon_id);

    return history ? sl_history_write(history, step, since, out)
                   : SLUICE_ENOENT;
}

static int on_daemons(void *ctx, struct sl_buf *out)
{
    return sl_peers_write(ctx, out);
}

static int on_check_policy(void *ctx, struct sl_str text, unsigned minutes,
                           struct sl_buf *report, struct sl_buf *what_if)
{
    return sl_reload_check(ctx, text, minutes, report, what_if);
}

void sl_daemon_audit(struct sl_daemon *daemon, const struct sl_audit_note *note)
{
    struct sl_loop *loop = daemon->workers[0].loop;
    char what[64], by[SL_SUBJECT_RECORD_BY + 1], origin[64];

    if (daemon->registry && !daemon->draining) {
        sl_registry_note(daemon->registry, loop, note, sl_loop_now(loop));
        return;
    }
    snprintf(what, sizeof(what), "%.*s", SL_STR_ARG(note->what));
    snprintf(by, sizeof(by), "%.*s", SL_STR_ARG(note->by));
    snprintf(origin, sizeof(origin), "%.*s", SL_STR_ARG(note->origin));
    sl_log(SL_LOG_INFO, "audit", "what", what, "by", by, "origin", origin,
           NULL);
}

static void on_wrong_token(void *ctx, const char *peer)
{
    (void)ctx;
    sl_log(SL_LOG_WARN, "sign-in refused", "peer", peer, "why",
           "neither admin_token nor admin_read_token", NULL);
}

static void on_audit(void *ctx, const struct sl_audit_note *note)
{
    sl_daemon_audit(ctx, note);
}

static int on_denials(void *ctx, const struct sl_denial_query *query, bool all,
                      struct sl_buf *out)
{
    return sl_denials_find(ctx, query, all, out);
}

static void on_forget_denials(void *ctx, struct sl_str scope, struct sl_str id)
{
    sl_denials_forget(ctx, scope, id);
}

static int on_policy(void *ctx, struct sl_buf *out)
{
    const struct sl_daemon *daemon = ctx;

    return sl_policy_source_print(&daemon->policy_source, out);
}

static_assert((int)SL_JWKS_WORDS == (int)SL_JWKS_RESULTS, "one word each");

static int on_configuration(void *ctx, struct sl_buf *out)
{
    const struct sl_daemon *daemon = ctx;

    return daemon->compat ? sl_compat_dump(daemon->path, out) : SLUICE_ENOENT;
}

static void read_numbers(struct sl_daemon *daemon, struct sl_metrics_now *ret)
{
    struct sl_jwks_stats jwks;
    struct sl_table_stats table;
    struct sl_hold_stats holds = {0, 0};
    struct sl_metrics_shared shared;
    struct sl_metrics_subjects subjects;

    memset(&table, 0, sizeof(table));
    if (daemon->state.table) {
        sl_table_stats(daemon->state.table, &table);
        sl_table_hold_stats(daemon->state.table, &holds);
    }
    sl_daemon_store_count(daemon, &shared);
    sl_subjects_count(daemon, &subjects);
    sl_jwks_stats(daemon->jwks, &jwks);
    *ret = (struct sl_metrics_now){
        .table_places = table.slots,
        .table_occupied = table.occupied,
        .table_bytes = table.bytes,
        .table_evicted = table.counted[SL_STAT_EVICTED],
        .table_forgotten = table.forgotten,
        .denials_unrecorded = daemon->denials.skipped,
        .table_full = table.counted[SL_STAT_FULL],
        .waiting = sl_queues_count(sl_engine_queues(daemon->engine)),
        .holds = holds.held,
        .hold_places = holds.places,
        .reload_good = daemon->reload_good && daemon->certificates_good,
        .reloaded_at = daemon->reloaded_at,
        .reloads_good = daemon->reloads_good,
        .reloads_bad = daemon->reloads_bad,
        .policy_hash = daemon->policy_source.hash,
        .store = !shared.on                   ? "memory"
                 : daemon->settings.in_dynamo ? "dynamodb"
                                              : "redis",
        .store_up = !shared.on || shared.answers,
        .has_database = daemon->registry != NULL,
        .database_up = sl_health_database(daemon, NULL) == 1,
        .clock_steps = daemon->health.clock_steps,
        .shared = shared,
        .jwks_on = jwks.on,
        .jwks_keys = jwks.keys,
        .jwks_age = jwks.age,
        .jwks_words = sl_jwks_words,
        .now = sl_loop_now(daemon->workers[0].loop),
        .started_at = daemon->started_at,
        .subjects = subjects,
    };
    sl_webhooks_count(daemon, &ret->webhooks);
    for (unsigned i = 0; i < daemon->worker_count; i++)
        ret->listener_paused += atomic_load(&daemon->workers[i].paused);
    for (unsigned i = 0; i < SL_JWKS_WORDS; i++)
        ret->jwks_results[i] = jwks.results[i];
}

static int on_metrics(void *ctx, bool open_metrics, struct sl_buf *out)
{
    struct sl_daemon *daemon = ctx;
    struct sl_metrics *all[64];
    struct sl_metrics_now now;
    struct sl_active_policy *active =
        sl_engine_ref_policy(daemon->engine, NULL);
    unsigned count = 0;
    int err;

    read_numbers(daemon, &now);
    now.active = active;
    for (; count < daemon->worker_count && count < SL_LEN(all); count++)
        all[count] = daemon->workers[count].stats;
    err = sl_metrics_render(all, count, &now, open_metrics, out);
    sl_active_policy_unref(active);
    return err;
}

static int on_top(void *ctx, const struct sl_top_keys_query *query,
                  struct sl_arena *arena, struct sl_top_keys_answer *ret)
{
    struct sl_daemon *daemon = ctx;
    struct sl_top_keys *all[64];
    unsigned count = 0;

    for (; count < daemon->worker_count && count < SL_LEN(all); count++)
        all[count] = daemon->workers[count].top;
    return sl_top_keys_read(all, count, query, arena, ret);
}

static int on_feature(void *ctx, struct sl_str name, int on,
                      struct sl_diag *diag)
{
    struct sl_daemon *daemon = ctx;
    const struct sl_policy *policy = daemon->policy_source.policy;
    int index = sl_policy_feature(policy, name);
    int err = sl_engine_switch(daemon->engine, name, on, diag);
    char text[128];

    if (err)
        return err;
    snprintf(text, sizeof(text), "%.*s", SL_STR_ARG(name));
    sl_log(SL_LOG_INFO, "feature switched", "name", text, "to",
           on < 0 ? "policy"
           : on   ? "on"
                  : "off",
           NULL);
    if (on < 0) /* by policy and environment */
        on = index >= 0 && policy->features[index].enabled;
    sl_event_publisher_feature(daemon, name, on);
    return 0;
}

static void on_webhooks(void *ctx)
{
    sl_webhooks_wake(ctx);
}

#ifdef SL_VIRTUAL_CLOCK
static int on_set_clock(void *ctx, sl_ns now)
{
    struct sl_daemon *daemon = ctx;

    if (!daemon->settings.virtual_clock)
        return SLUICE_EINVAL;
    sl_clock_set(&daemon->stopped, now);
    sl_wait_timer_now(&daemon->workers[0].waiting, now); /* the only worker */
    sl_webhooks_wake(daemon);
    return 0;
}

static int on_forget(void *ctx)
{
    struct sl_daemon *daemon = ctx;
    int err = sl_tokens_reset(daemon, &daemon->workers[0]);

    return err ? err : sl_engine_reset(daemon);
}
#endif

void sl_admin_ops_open(struct sl_daemon *daemon)
{
    daemon->admin = (struct sl_admin){
        .ctx = daemon,
        .events = daemon->publisher.events,
        .ready = on_ready,
        .database = on_database,
        .reload = on_reload,
        .check_policy = on_check_policy,
        .history = on_history,
        .policy = on_policy,
        .configuration = on_configuration,
        .metrics = on_metrics,
        .top = on_top,
        .daemons = on_daemons,
        .feature = on_feature,
        .audit = on_audit,
        .wrong_token = on_wrong_token,
        .denials = on_denials,
        .forget_denials = on_forget_denials,
        .webhooks = on_webhooks,
        .registry = daemon->registry,
        .node = daemon->quota_node.node,
    };
#ifdef SL_VIRTUAL_CLOCK
    if (daemon->settings.virtual_clock) {
        daemon->admin.set_clock = on_set_clock;
        daemon->admin.forget = on_forget;
    }
#endif
}
