/* usage.c -- usage buffers, thresholds, restore at start.
 *
 * Decisions use the table; the usage database records. At start, usage of
 * current periods that the database has and the table has not (it was in
 * memory, or lost, or the daemon was killed between commit and charge) is
 * charged to the table. Refunds that the table has not applied are applied.
 * Other usage that only the table has stays: decisions made it just before a
 * kill. Erased usage does not count as such. Nor does usage of a period before
 * one that has usage: the clock was set back, and what was used before that
 * stays in the table, for the period of now.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_int.h"
#include "engine/render.h"
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
    struct sl_active_policy *active =
        sl_engine_ref_policy(daemon->engine, NULL);
    sl_ns now = sl_daemon_now(daemon), since = now > YEAR ? now - YEAR : 0;

    for (unsigned i = 0; i < active->policy->rule_count; i++)
        if (active->policy->rules[i].kind == SL_QUOTA &&
            is_long(&active->policy->rules[i].strictest))
            since = 0;
    sl_active_policy_unref(active);
    return since;
}

bool sl_usage_delta_of(const struct sl_usage_entry *usage,
                       struct sl_str values[SL_PER_MAX], char id[SL_USAGE_ID],
                       struct sl_usage_delta *ret)
{
    *ret = (struct sl_usage_delta){.limit = usage->limit,
                                   .scope = usage->scope,
                                   .values = values,
                                   .start = usage->start,
                                   .end = usage->end,
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
 * limit it. */
static bool is_leased(struct sl_daemon *daemon, struct sl_str limit)
{
    return daemon->quota_node.store && sl_quota_node_can_lease(daemon, limit);
}

bool sl_daemon_has_holds(const struct sl_daemon *daemon)
{
    struct sl_hold_stats holds = {0, 0};

    sl_table_hold_stats(daemon->state.table, &holds);
    return holds.held > 0;
}

/* Returns whether units that only the table has were used: this daemon alone
 * writes to the database, and none of them can be held. */
static bool must_record(const struct sl_daemon *daemon)
{
    return daemon->settings.state && !daemon->settings.leases &&
           !sl_daemon_has_holds(daemon);
}

const struct sl_hash_key *sl_usage_secret(const struct sl_daemon *daemon)
{
    return daemon->settings.state && !daemon->settings.leases
               ? sl_store_secret(daemon->engine->store)
               : NULL;
}

uint64_t sl_usage_restore(void *ctx, const struct sl_usage_entry *usage)
{
    struct sl_daemon *daemon = ctx;
    struct sl_str values[SL_PER_MAX];
    char id[SL_USAGE_ID], units[24], limit[80];
    struct sl_usage_delta spent;
    uint64_t beyond = 0;

    if (is_leased(daemon, usage->limit) ||
        !sl_usage_delta_of(usage, values, id, &spent))
        return 0;
    if (!usage->exact)
        beyond = sl_usage_report_restore(daemon->engine, &spent,
                                         usage->used + usage->erased,
                                         sl_daemon_now(daemon));
    else if (sl_quota_node_can_lease(daemon, usage->limit))
        sl_usage_report_set(daemon->engine, &spent, usage->used,
                            sl_daemon_now(daemon));
    if (beyond == 0 || usage->later || !must_record(daemon))
        return 0;
    snprintf(units, sizeof(units), "%" PRIu64, beyond);
    snprintf(limit, sizeof(limit), "%.*s", SL_STR_ARG(usage->limit));
    sl_log(SL_LOG_INFO, "usage that only the state had is recorded", "limit",
           limit, "units", units, NULL);
    return beyond;
}

/* ---- the journal ---- */

/* `journal: none` accepts the loss, and a database in memory ends with the
 * process, too. */
static void warn_of_loss(const struct sl_daemon *daemon)
{
    const struct sl_settings *s = &daemon->settings;

    if (s->journal || strcmp(s->registry, ":memory:") == 0 ||
        strcmp(s->values[SL_SET_journal].text, "none") == 0)
        return;
    sl_log(SL_LOG_WARN, "usage journal in memory", "why",
           "a kill of this daemon loses the usage of the last 50 ms and, while "
           "the database cannot be written, of the whole outage; set state or "
           "journal to a file, or journal to none",
           NULL);
}

int sl_usage_journal_begin(struct sl_daemon *daemon)
{
    struct sl_usage_journal_options options = {
        .path = daemon->settings.journal,
        .shared = daemon->settings.shared_journal,
        .size = daemon->settings.journal_size};
    struct sl_usage_journal_counts counts;
    char lines[24], units[24];
    int err = sl_usage_journal_open(&options, &daemon->journal, &daemon->why);

    if (err)
        return err == SLUICE_ENOMEM ? SL_EXIT_FAILED : SL_EXIT_STORE;
    if (sl_usage_journal_notice(daemon->journal)[0])
        sl_log(SL_LOG_ERROR, "usage journal damaged", "why",
               sl_usage_journal_notice(daemon->journal), NULL);
    sl_usage_journal_count(daemon->journal, &counts);
    snprintf(lines, sizeof(lines), "%" PRIu64, counts.lines);
    snprintf(units, sizeof(units), "%" PRIu64, counts.units);
    if (counts.lines > 0)
        sl_log(SL_LOG_INFO, "usage found in the journal", "file",
               sl_usage_journal_path(daemon->journal), "lines", lines, "units",
               units, NULL);
    warn_of_loss(daemon);
    return 0;
}

/* ---- thresholds ---- */

static void log_threshold(const struct sl_usage_entry *u, unsigned threshold)
{
    char share[16], used[64], limit[80], scope[80], id[96];

    snprintf(share, sizeof(share), "%u%%", threshold);
    snprintf(used, sizeof(used), "%" PRIu64 " of %" PRIu64, u->used, u->of);
    snprintf(limit, sizeof(limit), "%.*s", SL_STR_ARG(u->limit));
    snprintf(id, sizeof(id), "%.*s", u->id.len < 90 ? (int)u->id.len : 90,
             u->id.at);
    snprintf(scope, sizeof(scope), "%.*s", SL_STR_ARG(u->scope));
    sl_log(SL_LOG_INFO, "usage", "limit", limit, "scope", scope, "reached",
           share, "used", used, NULL);
    sl_log(SL_LOG_DEBUG, "usage of a subject", "limit", limit, "id", id,
           "reached", share, NULL);
}

/* Writes ,"used":61,"of":120 in units of the policy, and their exact numbers
 * if the unit has a scale. */
static void write_used(struct sl_worker *worker, const struct sl_usage_entry *u,
                       struct sl_writer *w)
{
    struct sl_active_policy *active =
        sl_engine_ref_policy(worker->daemon->engine, NULL);
    int index = sl_policy_rule(active->policy, u->limit);
    static const struct sl_rule plain;
    const struct sl_rule *rule =
        index < 0 ? &plain : &active->policy->rules[index];

    sl_member_uint(w, SL_MEMBER("used"), sl_rule_up(rule, u->used));
    sl_member_uint(w, SL_MEMBER("of"), sl_rule_down(rule, u->of));
    if (sl_rule_is_scaled(rule)) {
        sl_member_exact(w, rule);
        sl_member_uint(w, SL_MEMBER("used"), u->used);
        sl_member_uint(w, SL_MEMBER("of"), u->of);
        sl_json_close(w, '}');
    }
    sl_active_policy_unref(active);
}

static void report(struct sl_worker *worker, const struct sl_usage_entry *u,
                   unsigned threshold)
{
    struct sl_buf members;
    struct sl_writer w = sl_event_begin(&members);

    sl_json_member_str(&w, "limit", u->limit);
    sl_json_member_str(&w, "scope", u->scope);
    sl_json_member_str(&w, "id", u->id);
    sl_writer_addf(&w, ",\"mark\":%u", threshold);
    write_used(worker, u, &w);
    if (!w.err)
        sl_webhooks_notify_usage(worker, u, threshold, sl_buf_str(&members));
    sl_event_publish(worker, "usage", &w);
    log_threshold(u, threshold);
}

/* Without a worker there is no loop: they are only logged. */
static void on_threshold(void *ctx, const struct sl_usage_entry *u)
{
    struct sl_worker *worker = ctx;

    for (unsigned i = 0; i < u->thresholds.count; i++) {
        unsigned threshold = u->thresholds.list[i];

        if (threshold <= u->threshold_before || threshold > u->threshold)
            continue;
        if (worker)
            report(worker, u, threshold);
        else
            log_threshold(u, threshold);
    }
}

/* ---- thresholds that lines of an earlier process have reached.
 *
 * They are recorded at the start, or on the registry's thread. The first loop
 * reports them, in their order. */

struct sl_usage_reached {
    struct sl_usage_reached *next;
    struct sl_usage_entry usage; /* its texts are in `texts` */
    size_t size;
    char texts[];
};

static struct sl_usage_reached *new_reached(const struct sl_usage_entry *u)
{
    size_t size = sizeof(struct sl_usage_reached) + u->limit.len +
                  u->scope.len + u->id.len + u->plan.len;
    struct sl_usage_reached *ret = sl_alloc_new(&sl_alloc_libc, size);
    struct sl_str *texts[4];
    char *at;

    if (!ret)
        return NULL;
    ret->size = size;
    ret->usage = *u;
    texts[0] = &ret->usage.limit;
    texts[1] = &ret->usage.scope;
    texts[2] = &ret->usage.id;
    texts[3] = &ret->usage.plan;
    at = ret->texts;
    for (size_t i = 0; i < SL_LEN(texts); i++) {
        if (texts[i]->len > 0)
            memcpy(at, texts[i]->at, texts[i]->len);
        texts[i]->at = at;
        at += texts[i]->len;
    }
    return ret;
}

/* On the first loop; or at the end, without `worker`, if the start has failed
 * or the last one could not be posted. The database has them as reported. */
static void take_reached(struct sl_daemon *daemon, struct sl_worker *worker)
{
    struct sl_usage_reached *last =
        atomic_exchange(&daemon->reached.list, NULL);
    struct sl_usage_reached *list = NULL;

    for (struct sl_usage_reached *next; last; last = next) {
        next = last->next;
        last->next = list;
        list = last;
    }
    for (struct sl_usage_reached *next; list; list = next) {
        next = list->next;
        if (worker)
            atomic_fetch_add_explicit(&daemon->reached.count, 1,
                                      memory_order_relaxed);
        on_threshold(worker, &list->usage);
        sl_alloc_free(&sl_alloc_libc, list, list->size);
    }
}

static void on_reached(void *ctx)
{
    struct sl_daemon *daemon = ctx;

    take_reached(daemon, &daemon->workers[0]);
}

/* If it cannot be posted, the next one posts it. */
static void post_reached(struct sl_daemon *daemon)
{
    (void)!sl_loop_post(daemon->workers[0].loop, on_reached, daemon);
}

void sl_usage_replayed(void *ctx, const struct sl_usage_entry *u)
{
    struct sl_daemon *daemon = ctx;
    struct sl_usage_reached *reached = new_reached(u);

    if (!reached) {
        sl_log(SL_LOG_ERROR, "out of memory for a threshold", NULL);
        return;
    }
    reached->next = atomic_load(&daemon->reached.list);
    while (!atomic_compare_exchange_weak(&daemon->reached.list, &reached->next,
                                         reached))
        ;
    if (atomic_load(&daemon->reached.has_loop))
        post_reached(daemon);
}

void sl_usage_reached_start(struct sl_daemon *daemon)
{
    atomic_store(&daemon->reached.has_loop, true);
    if (daemon->registry)
        post_reached(daemon);
}

void sl_usage_reached_end(struct sl_daemon *daemon)
{
    take_reached(daemon, NULL);
}

/* ---- reports of the journal: charged when they are recorded ---- */

struct charge {
    struct sl_check check;
    struct sl_request request;
    struct sl_worker *worker;
    struct sl_usage_entry usage; /* its texts are in `texts` */
    struct sl_str values[SL_PER_MAX], scopes[SL_PER_MAX];
    size_t size;
    char texts[];
};

/* The usage database keeps a refund until the table has it. */
static void on_charged(struct sl_check *check)
{
    struct charge *c = check->ctx;
    struct sl_usage_sink *meter = c->worker->engine_ctx.meter;
    struct sl_usage_delta spent = {
        .act = SL_USAGE_ACT_REFUNDED,
        .limit = c->usage.limit,
        .scope = c->usage.scope,
        .values = &c->usage.id, /* joined already */
        .value_count = 1,
        .start = c->usage.start,
        .at = c->usage.at,
        .amount = -c->usage.change,
    };

    if (!check->err && !check->decision.degraded && c->usage.needs_refund &&
        c->usage.change < 0 && meter)
        meter->calls->spent(meter, &spent);
    sl_check_done(check);
    sl_alloc_free(&sl_alloc_libc, c, c->size);
}

/* Copies the texts. The id is copied twice, because it is split in place. */
static struct charge *new_charge(const struct sl_usage_entry *u)
{
    size_t size =
        sizeof(struct charge) + u->limit.len + u->scope.len + 2 * u->id.len;
    struct charge *c = sl_alloc_new(&sl_alloc_libc, size);
    struct sl_str *texts[] = {&c->usage.limit, &c->usage.scope, &c->usage.id};
    char *at;

    if (!c)
        return NULL;
    memset(c, 0, sizeof(*c));
    c->size = size;
    c->usage = *u;
    at = c->texts;
    for (size_t i = 0; i < SL_LEN(texts); i++) {
        if (texts[i]->len > 0)
            memcpy(at, texts[i]->at, texts[i]->len);
        texts[i]->at = at;
        at += texts[i]->len;
    }
    if (u->id.len > 0)
        memcpy(at, u->id.at, u->id.len);
    return c;
}

static bool fill_charge(struct charge *c)
{
    const struct sl_usage_entry *u = &c->usage;
    unsigned count = sl_usage_scopes(u->scope, c->scopes);
    char *id = c->texts + u->limit.len + u->scope.len + u->id.len;

    c->request = (struct sl_request){
        .trusted = true,
        .metered = true,
        .has_cost = true,
        .limit = u->limit,
        .keys = c->values,
        .key_scopes = c->scopes,
        .key_count = count,
        .cost = (uint64_t)(u->change < 0 ? -u->change : u->change),
        .charge = u->change > 0,
        .give_back = u->change < 0,
        .order = u->order,
        .now = sl_loop_now(c->worker->loop),
    };
    return sl_usage_split(id, u->id.len, count, c->values);
}

static void on_report(void *ctx, const struct sl_usage_entry *u)
{
    struct sl_worker *worker = ctx;
    struct charge *c = u->change ? new_charge(u) : NULL;

    if (!c)
        return; /* the next start charges it */
    c->worker = worker;
    if (!fill_charge(c)) {
        sl_alloc_free(&sl_alloc_libc, c, c->size);
        return;
    }
    sl_check_init(&c->check, worker->daemon->engine, &worker->engine_ctx,
                  &sl_alloc_libc);
    c->check.done = on_charged;
    c->check.ctx = c;
    sl_check_start(&c->check, &c->request, 1, true);
}

/* ---- workers ---- */

int sl_worker_open_usage(struct sl_worker *worker)
{
    struct sl_daemon *daemon = worker->daemon;
    struct sl_usage_buffer_options options = {
        .journal = daemon->journal,
        .on_threshold = on_threshold,
        .on_report = on_report,
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

static void count_journal(struct sl_daemon *daemon,
                          struct sl_metrics_subjects *ret)
{
    struct sl_usage_journal_counts counts;
    sl_ns now = sl_daemon_now(daemon);

    sl_usage_journal_count(daemon->journal, &counts);
    ret->numbers[SL_JOURNAL_UNITS] = counts.units;
    ret->numbers[SL_JOURNAL_BYTES] = counts.bytes;
    if (counts.oldest != SL_NS_NONE && counts.oldest < now)
        ret->numbers[SL_JOURNAL_AGE] = (uint64_t)((now - counts.oldest) / SL_S);
}

void sl_usage_count(struct sl_daemon *daemon, struct sl_metrics_subjects *ret)
{
    count_leases(daemon, ret);
    count_journal(daemon, ret);
    ret->numbers[SL_USAGE_MARKED] = get(&daemon->reached.count);
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
        ret->numbers[SL_JOURNAL_UNITS] += get(&c->units) - get(&c->recorded);
    }
    if (!daemon->settings.journal)
        ret->numbers[SL_USAGE_AT_RISK] = ret->numbers[SL_JOURNAL_UNITS];
}
