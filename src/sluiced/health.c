/* health.c -- what the main thread watches: whether the database answers, rows
 * that are too old, steps of the wall clock, and requests without an address.
 *
 * The database is asked once a second, with or without traffic, so that
 * `sluice_database_up`, /readyz and the alert follow it in both directions:
 *
 *     poll --> SL_JOB_PING --> on_pinged: it answers, or why not
 *       |
 *       +----> no answer for LATE: it does not answer
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "sluiced/daemon.h"

#define PERIOD      SL_S
#define LATE        (2 * SL_S)
#define RETAIN      SL_MIN /* how often old rows are looked for */
#define DENIAL_AGE  (7 * SL_DAY)
#define DENIAL_ROWS 100000

/* A smaller difference of the clocks is not a step. */
#define STEP (2 * SL_S)

/* ---- the database ---- */

static void set_up(struct sl_health *h, const char *why)
{
    char span[32];

    if (!why && h->is_down) {
        sl_format_duration((h->now - h->down_since) / SL_MS * SL_MS, span);
        sl_log(SL_LOG_INFO, "database available", "after", span, NULL);
    }
    if (why && !h->is_down) {
        h->down_since = h->now;
        sl_log(SL_LOG_WARN, "database unavailable", "why", why, NULL);
    }
    h->is_down = why != NULL;
    snprintf(h->why, sizeof(h->why), "%s", why ? why : "");
}

static void on_pinged(struct sl_job *job)
{
    struct sl_health *h = job->ctx;

    h->pinging = false;
    h->now = sl_loop_mono(job->loop);
    set_up(h, job->err ? job->diag.sentence : NULL);
}

static void ping(struct sl_daemon *daemon)
{
    struct sl_health *h = &daemon->health;

    if (h->pinging && h->now - h->pinged >= LATE && !h->is_down)
        set_up(h, "the database does not answer");
    if (h->pinging || h->now - h->pinged < PERIOD)
        return;
    h->pinging = true;
    h->pinged = h->now;
    sl_job_init(&h->job, SL_JOB_PING, &sl_alloc_libc);
    h->job.loop = daemon->workers[0].loop;
    h->job.done = on_pinged;
    h->job.ctx = h;
    sl_registry_ask(daemon->registry, &h->job);
}

int sl_health_database(const struct sl_daemon *daemon, struct sl_buf *why)
{
    const struct sl_health *h = &daemon->health;

    if (!daemon->registry)
        return -1;
    if (h->is_down && why && sl_buf_addf(why, "%s", h->why))
        sl_buf_clear(why);
    return !h->is_down;
}

/* ---- old rows ---- */

static void on_retained(struct sl_job *job)
{
    struct sl_health *h = job->ctx;

    h->retaining = false;
    if (!job->err && job->cut)
        h->retained = 0; /* there is more */
    sl_job_clear(job);
}

static sl_ns age_of(struct sl_str text)
{
    sl_ns age = 0;

    return text.len > 0 && !sl_age_parse(text, &age, NULL) ? age : 0;
}

/* Asks the registry to delete what is older than `retain` of the policy. */
static void retain(struct sl_daemon *daemon)
{
    struct sl_health *h = &daemon->health;
    const struct sl_server_conf *conf = &daemon->policy_source.policy->server;
    struct sl_loop *loop = daemon->workers[0].loop;
    sl_ns now = sl_loop_now(loop);
    bool is_due = now < h->retained || now - h->retained >= RETAIN;

    if (h->retaining || !is_due)
        return;
    h->retaining = true;
    h->retained = now;
    sl_job_init(&h->retain, SL_JOB_RETAIN, &sl_alloc_libc);
    h->retain.loop = loop;
    h->retain.now = now;
    h->retain.usage_age = age_of(conf->retain_usage);
    h->retain.audit_age = age_of(conf->retain_audit);
    h->retain.denial_age = conf->retain_denials.len > 0
                               ? age_of(conf->retain_denials)
                               : DENIAL_AGE;
    h->retain.denial_rows =
        conf->retain_denial_rows ? conf->retain_denial_rows : DENIAL_ROWS;
    h->retain.done = on_retained;
    h->retain.ctx = h;
    sl_registry_ask(daemon->registry, &h->retain);
}

/* ---- the clock ---- */

/* The monotonic clock counts the time that the machine sleeps, too. */
static void look_at_clock(struct sl_health *h, sl_ns wall)
{
    sl_ns offset = wall - h->now, step = offset - h->offset;
    char by[40] = "-";

    h->offset = offset;
    if (step < STEP && step > -STEP)
        return;
    h->clock_steps++;
    sl_format_duration(((step > 0 ? step : -step) + SL_S / 2) / SL_S * SL_S,
                       by + (step < 0));
    sl_log(SL_LOG_WARN, "clock step", "by", by, "why",
           "the wall clock was set: windows and quotas follow it, so that "
           "periods may end early or last longer",
           NULL);
}

/* ---- requests without an address ---- */

static void look_at_addresses(struct sl_daemon *daemon)
{
    struct sl_health *h = &daemon->health;

    if (h->no_address || !sl_engine_no_address(daemon->engine))
        return;
    h->no_address = true;
    sl_log(SL_LOG_WARN, "request without an address", "why",
           "limits per address do not apply to it", "write",
           "\"ip\" in each check, or X-Forwarded-For at the proxy", NULL);
}

void sl_health_begin(struct sl_daemon *daemon)
{
    daemon->health.offset = sl_clock_wall() - sl_clock_mono();
}

void sl_health_poll(struct sl_daemon *daemon)
{
    struct sl_health *h = &daemon->health;

    h->now = sl_clock_mono();
    if (!daemon->settings.virtual_clock)
        look_at_clock(h, sl_clock_wall());
    h->now = sl_loop_mono(daemon->workers[0].loop);
    if (daemon->registry && !daemon->draining) {
        ping(daemon);
        retain(daemon);
    }
    look_at_addresses(daemon);
}
