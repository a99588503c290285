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

static sl_ns now_of(const struct sl_daemon *daemon)
{
    return sl_loop_now(daemon->workers[0].loop);
}

/* Without memory an event has its time and type only. */
static void publish(struct sl_daemon *daemon, const char *type,
                    struct sl_buf *members, int err)
{
    if (err)
        sl_buf_clear(members);
    sl_events_publish(daemon->publisher.events, type, now_of(daemon),
                      sl_buf_str(members));
    sl_buf_done(members);
}

static struct sl_buf begin(void)
{
    struct sl_buf members;

    sl_buf_init(&members, 2 * SL_EVENT_BYTES, &sl_alloc_libc);
    return members;
}

/* ---- changes ---- */

/* Adds as many lines of a report as fit. Lines that begin with a space quote
 * the policy and are omitted. */
static int add_lines(struct sl_buf *out, struct sl_str report)
{
    unsigned count = 0, shown = 0;
    int err = sl_buf_addf(out, ",\"lines\":[");

    while (!err && report.len > 0) {
        const char *end = memchr(report.at, '\n', report.len);
        struct sl_str line = {report.at,
                              end ? (size_t)(end - report.at) : report.len};

        report = sl_str_from(report, line.len + 1);
        if (line.len == 0 || line.at[0] == ' ' || line.at[0] == '\t')
            continue;
        count++;
        if (out->len + 2 * line.len > SL_EVENT_BYTES - 128)
            continue;
        err = sl_buf_addf(out, "%s", shown++ > 0 ? "," : "");
        if (!err)
            err = sl_json_string(out, line);
    }
    return err ? err : sl_buf_addf(out, "],\"line_count\":%u", count);
}

void sl_event_publisher_policy(struct sl_daemon *daemon, bool good,
                               const char *cause, struct sl_str report)
{
    struct sl_buf members = begin();
    int err = sl_buf_addf(&members, "\"ok\":%s,\"cause\":\"%s\"",
                          good ? "true" : "false", cause);

    if (!err && good)
        err = sl_buf_addf(&members, ",\"hash\":\"%s\"",
                          daemon->policy_source.hash);
    if (!err)
        err = add_lines(&members, report);
    publish(daemon, "policy", &members, err);
}

void sl_event_publisher_feature(struct sl_daemon *daemon, struct sl_str name,
                                bool on)
{
    struct sl_buf members = begin();
    int err = sl_buf_addf(&members, "\"name\":");

    if (!err)
        err = sl_json_string(&members, name);
    if (!err)
        err = sl_buf_addf(&members, ",\"enabled\":%s", on ? "true" : "false");
    publish(daemon, "feature", &members, err);
}

/* ---- polled ---- */

static void tell_denial(struct sl_daemon *daemon,
                        const struct sl_denial *denial)
{
    struct sl_buf members = begin();
    int err = sl_denial_write(denial, &members);

    publish(daemon, "denial", &members, err);
}

static void tell_denials(struct sl_daemon *daemon)
{
    struct sl_denial rows[SL_DENIALS];
    uint64_t others, more = 0;
    unsigned told = 0;

    for (unsigned w = 0; w < daemon->worker_count; w++) {
        unsigned count =
            sl_denial_batch_take(daemon->workers[w].denials, rows, &others);

        more += others;
        for (unsigned i = 0; i < count; i++)
            if (told++ < MOST)
                tell_denial(daemon, &rows[i]);
            else
                more += rows[i].count;
    }
    if (more > 0) {
        struct sl_buf members = begin();
        int err = sl_buf_addf(&members, "\"count\":%" PRIu64, more);

        publish(daemon, "denials", &members, err);
    }
}

static void tell_phase(struct sl_daemon *daemon, const char *state)
{
    struct sl_buf members = begin();
    int err = sl_buf_addf(&members, "\"state\":\"%s\",\"decisions\":%" PRIu64,
                          state, daemon->publisher.phase);

    publish(daemon, "degraded", &members, err);
}

static void look_at_store(struct sl_daemon *daemon)
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
        tell_phase(daemon, "begin");
    } else if (t->phase > 0 && mono - t->last >= QUIET) {
        tell_phase(daemon, "end");
        t->phase = 0;
    }
}

/* ---- log lines ---- */

/* Logs one line for all since the last one. */
static void say(struct sl_daemon *daemon, struct sl_said *said, uint64_t count,
                enum sl_log_level level, const char *event, const char *then)
{
    sl_ns mono = sl_loop_mono(daemon->workers[0].loop);
    char times[24];

    if (count == said->count || (said->at > 0 && mono - said->at < AGAIN))
        return;
    snprintf(times, sizeof(times), "%" PRIu64, count - said->count);
    said->count = count;
    said->at = mono;
    sl_log(level, event, "decisions", times, "then", then, NULL);
}

static void say_counts(struct sl_daemon *daemon)
{
    struct sl_event_publisher *t = &daemon->publisher;
    uint64_t denied = 0;

    for (unsigned i = 0; i < daemon->worker_count; i++)
        denied += sl_metrics_denied(daemon->workers[i].stats);
    say(daemon, &t->denied, denied, SL_LOG_INFO, "Rate limit exceeded", NULL);
    say(daemon, &t->failed, t->degraded, SL_LOG_WARN, "Rate limit check failed",
        "on_store_failure of each limit was applied");
}

static void look_at_table(struct sl_daemon *daemon)
{
    struct sl_event_publisher *t = &daemon->publisher;
    struct sl_table_stats table;
    unsigned bound = t->is_table_full ? ROOM_AGAIN : NEARLY_FULL;
    struct sl_buf members;
    bool is_table_full;
    int err;

    if (!daemon->state.table)
        return;
    sl_table_stats(daemon->state.table, &table);
    is_table_full = table.occupied * 100 >= table.slots * bound;
    if (is_table_full == t->is_table_full)
        return;
    t->is_table_full = is_table_full;
    members = begin();
    err = sl_buf_addf(&members,
                      "\"state\":\"%s\",\"entries\":%" PRIu64
                      ",\"capacity\":%" PRIu64 ",\"full\":%" PRIu64,
                      is_table_full ? "nearly_full" : "normal", table.occupied,
                      table.slots, table.counted[SL_STAT_FULL]);
    publish(daemon, "table", &members, err);
}

static void on_timer(void *ctx)
{
    struct sl_daemon *daemon = ctx;

    if (sl_events_wanted(daemon->publisher.events))
        tell_denials(daemon);
    sl_remote_poll(daemon);
    look_at_store(daemon);
    look_at_table(daemon);
    say_counts(daemon);
    sl_timer_start(daemon->publisher.timer, PERIOD);
}

/* ---- steps ---- */

static int failed(struct sl_daemon *daemon)
{
    sl_diag_error(&daemon->why, SLUICE_ENOMEM, "out of memory");
    return SL_EXIT_FAILED;
}

int sl_event_publisher_begin(struct sl_daemon *daemon)
{
    return sl_events_open(&sl_alloc_libc, sl_clock_wall(),
                          &daemon->publisher.events)
               ? failed(daemon)
               : 0;
}

void sl_event_publisher_end(struct sl_daemon *daemon)
{
    sl_events_close(daemon->publisher.events);
    daemon->publisher.events = NULL;
}

int sl_event_stream_begin(struct sl_daemon *daemon)
{
    struct sl_event_publisher *t = &daemon->publisher;
    struct sl_loop *loop = daemon->workers[0].loop;

    if (sl_event_stream_open(loop, t->events, 0, &sl_alloc_libc, &t->feed) ||
        sl_timer_new(loop, on_timer, daemon, &t->timer))
        return failed(daemon);
    daemon->admin.feed = t->feed;
    sl_timer_start(t->timer, PERIOD);
    return 0;
}

void sl_event_stream_end(struct sl_daemon *daemon)
{
    sl_timer_free(daemon->publisher.timer);
    daemon->publisher.timer = NULL;
    daemon->admin.feed = NULL;
    sl_event_stream_close(daemon->publisher.feed);
    daemon->publisher.feed = NULL;
}
