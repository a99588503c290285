/* event_publisher.c -- publishes events.
 *
 * Policies and switches are published when they change. The rest is polled some
 * times a second: denials that the workers have collected, decisions without
 * the store, and the fill level of the table.
 *
 *   denial     one for each key of a limit, at most MOST at a time
 *   denials    how many more there were
 *   policy     loaded, or refused
 *   feature    switched
 *   reset      usage of a key was reset (published by the admin listener)
 *   degraded   an outage of the store begins; it ends when QUIET has passed
 *              without a decision made without the store
 *   table      nearly full, or no longer
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sluiced/daemon.h"
#include "wire/json.h"

#define PERIOD (250 * SL_MS)
#define MOST   20 /* denials published one by one in each period */
#define QUIET  (5 * SL_S)
#define AGAIN  (10 * SL_S) /* between two log lines of one kind */

/* Percent of the slots; new tables evict at 81. Same as the alert. */
#define NEARLY_FULL 70
#define ROOM_AGAIN  65

struct sl_writer sl_event_begin(struct sl_buf *members)
{
    sl_buf_init(members, (size_t)2 * SL_EVENT_BYTES, &sl_alloc_libc);
    return (struct sl_writer){members, 0};
}

void sl_event_publish(struct sl_worker *worker, const char *type,
                      struct sl_writer *w)
{
    if (w->err)
        sl_buf_clear(w->out);
    sl_events_publish(worker->daemon->publisher.events, type,
                      sl_loop_now(worker->loop), sl_buf_str(w->out));
    sl_buf_done(w->out);
}

/* ---- changes ---- */

/* Adds as many lines of a report as fit. Lines that begin with a space quote
 * the policy and are omitted. */
static void add_lines(struct sl_writer *w, struct sl_str report)
{
    unsigned count = 0;

    sl_json_key(w, SL_STR("lines"));
    sl_json_open(w, '[');
    while (report.len > 0) {
        const char *end = memchr(report.at, '\n', report.len);
        struct sl_str line = {report.at,
                              end ? (size_t)(end - report.at) : report.len};

        report = sl_str_from(report, line.len + 1);
        if (line.len == 0 || line.at[0] == ' ' || line.at[0] == '\t')
            continue;
        count++;
        if (w->out->len + 2 * line.len <= SL_EVENT_BYTES - 128)
            sl_json_str(w, line);
    }
    sl_json_close(w, ']');
    sl_json_key(w, SL_STR("line_count"));
    sl_json_uint(w, count);
}

void sl_event_publisher_policy(struct sl_daemon *daemon, bool good,
                               const char *cause, struct sl_str report)
{
    struct sl_buf members;
    struct sl_writer w = sl_event_begin(&members);

    sl_json_key(&w, SL_STR("ok"));
    sl_json_flag(&w, good);
    sl_json_member_text(&w, "cause", cause);
    sl_json_member_text(&w, "hash", good ? daemon->policy_source.hash : NULL);
    add_lines(&w, report);
    sl_event_publish(&daemon->workers[0], "policy", &w);
}

void sl_event_publisher_feature(struct sl_daemon *daemon, struct sl_str name,
                                bool on)
{
    struct sl_buf members;
    struct sl_writer w = sl_event_begin(&members);

    sl_json_member_str(&w, "name", name);
    sl_json_key(&w, SL_STR("enabled"));
    sl_json_flag(&w, on);
    if (!w.err)
        sl_webhooks_notify(&daemon->workers[0], SL_STR(""), "feature.switched",
                           sl_buf_str(&members));
    sl_event_publish(&daemon->workers[0], "feature", &w);
}

/* ---- polled ---- */

static void publish_denials(struct sl_daemon *daemon)
{
    struct sl_denial rows[SL_DENIALS];
    uint64_t others, more = 0;
    unsigned published = 0;
    struct sl_buf members;
    struct sl_writer w;

    for (unsigned i = 0; i < daemon->worker_count; i++) {
        unsigned count =
            sl_denial_batch_take(daemon->workers[i].denials, rows, &others);

        more += others;
        for (unsigned k = 0; k < count; k++) {
            if (published++ >= MOST) {
                more += rows[k].count;
                continue;
            }
            w = sl_event_begin(&members);
            w.err = sl_denial_write(&rows[k], &members);
            sl_event_publish(&daemon->workers[0], "denial", &w);
        }
    }
    if (more == 0)
        return;
    w = sl_event_begin(&members);
    sl_writer_addf(&w, "\"count\":%" PRIu64, more);
    sl_event_publish(&daemon->workers[0], "denials", &w);
}

static void publish_outage(struct sl_daemon *daemon, const char *state)
{
    struct sl_buf members;
    struct sl_writer w = sl_event_begin(&members);

    sl_writer_addf(&w, "\"state\":\"%s\",\"decisions\":%" PRIu64, state,
                   daemon->publisher.phase);
    sl_event_publish(&daemon->workers[0], "degraded", &w);
}

static void poll_store(struct sl_daemon *daemon)
{
    struct sl_event_publisher *t = &daemon->publisher;
    sl_ns mono = sl_loop_mono(daemon->workers[0].loop);
    uint64_t all = 0, new;

    for (unsigned i = 0; i < daemon->worker_count; i++)
        all += sl_metrics_degraded(daemon->workers[i].stats);
    new = all - t->degraded;
    t->degraded = all;
    if (new > 0)
        t->last = mono;
    t->phase += new;
    if (new > 0 && t->phase == new) {
        publish_outage(daemon, "begin");
    } else if (t->phase > 0 && mono - t->last >= QUIET) {
        publish_outage(daemon, "end");
        t->phase = 0;
    }
}

/* ---- log lines ---- */

/* Logs one line for all since the last one. */
static void log_count(struct sl_daemon *daemon, struct sl_logged *last,
                      uint64_t count, enum sl_log_level level,
                      const char *event, const char *then)
{
    sl_ns mono = sl_loop_mono(daemon->workers[0].loop);
    char times[24];

    if (count == last->count || (last->at > 0 && mono - last->at < AGAIN))
        return;
    snprintf(times, sizeof(times), "%" PRIu64, count - last->count);
    last->count = count;
    last->at = mono;
    sl_log(level, event, "decisions", times, "then", then, NULL);
}

static void log_counts(struct sl_daemon *daemon)
{
    struct sl_event_publisher *t = &daemon->publisher;
    uint64_t denied = 0;

    for (unsigned i = 0; i < daemon->worker_count; i++)
        denied += sl_metrics_denied(daemon->workers[i].stats);
    log_count(daemon, &t->denied, denied, SL_LOG_INFO, "Rate limit exceeded",
              NULL);
    log_count(daemon, &t->failed, t->degraded, SL_LOG_WARN,
              "Rate limit check failed",
              "on_store_failure of each limit was applied");
}

static void poll_table(struct sl_daemon *daemon)
{
    struct sl_event_publisher *t = &daemon->publisher;
    struct sl_table_stats table;
    unsigned bound = t->is_table_full ? ROOM_AGAIN : NEARLY_FULL;
    struct sl_buf members;
    struct sl_writer w;
    bool is_table_full;

    if (!daemon->state.table)
        return;
    sl_table_stats(daemon->state.table, &table);
    is_table_full = table.occupied * 100 >= table.slots * bound;
    if (is_table_full == t->is_table_full)
        return;
    t->is_table_full = is_table_full;
    w = sl_event_begin(&members);
    sl_writer_addf(&w,
                   "\"state\":\"%s\",\"entries\":%" PRIu64
                   ",\"capacity\":%" PRIu64 ",\"full\":%" PRIu64,
                   is_table_full ? "nearly_full" : "normal", table.occupied,
                   table.slots, table.counted[SL_STAT_FULL]);
    sl_event_publish(&daemon->workers[0], "table", &w);
}

void sl_event_publisher_history(struct sl_daemon *daemon)
{
    struct sl_metrics *all[64];
    unsigned count = 0;

    for (; count < daemon->worker_count && count < SL_LEN(all); count++)
        all[count] = daemon->workers[count].stats;
    sl_history_poll(daemon->history, all, count,
                    sl_loop_now(daemon->workers[0].loop));
}

static void on_timer(void *ctx)
{
    struct sl_daemon *daemon = ctx;

    if (sl_events_wanted(daemon->publisher.events))
        publish_denials(daemon);
    sl_daemon_store_poll(daemon);
    sl_health_poll(daemon);
    sl_denials_poll(daemon);
    sl_webhooks_poll(daemon);
    poll_store(daemon);
    poll_table(daemon);
    log_counts(daemon);
    sl_event_publisher_history(daemon);
    sl_peers_poll(daemon);
    sl_timer_start(daemon->publisher.timer, PERIOD);
}

/* ---- steps ---- */

int sl_event_publisher_begin(struct sl_daemon *daemon)
{
    return sl_events_open(&sl_alloc_libc, sl_clock_wall(),
                          &daemon->publisher.events) ||
                   sl_history_open(&sl_alloc_libc, &daemon->history)
               ? sl_daemon_no_memory(daemon)
               : 0;
}

void sl_event_publisher_end(struct sl_daemon *daemon)
{
    sl_history_close(daemon->history);
    daemon->history = NULL;
    sl_events_close(daemon->publisher.events);
    daemon->publisher.events = NULL;
}

int sl_event_stream_begin(struct sl_daemon *daemon)
{
    struct sl_event_publisher *t = &daemon->publisher;
    struct sl_loop *loop = daemon->workers[0].loop;

    if (sl_event_stream_open(loop, t->events, 0, &sl_alloc_libc, &t->stream) ||
        sl_timer_new(loop, on_timer, daemon, &t->timer))
        return sl_daemon_no_memory(daemon);
    daemon->admin.feed = t->stream;
    sl_health_begin(daemon);
    sl_denials_keep(daemon);
    sl_timer_start(t->timer, PERIOD);
    return 0;
}

void sl_event_stream_end(struct sl_daemon *daemon)
{
    sl_timer_free(daemon->publisher.timer);
    daemon->publisher.timer = NULL;
    daemon->admin.feed = NULL;
    sl_event_stream_close(daemon->publisher.stream);
    daemon->publisher.stream = NULL;
}
