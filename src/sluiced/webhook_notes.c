/* webhook_notes.c -- tells organisations and the operator what happens to them.
 *
 * A note is a message to the contact endpoints of an organisation, and to those
 * of the operator's organisation (webhooks.operator of the policy):
 *
 *   usage.threshold            usage has reached 80 % of a limit, or another of
 *                              its thresholds
 *   usage.exhausted            100 %
 *   usage.overage              100 %, and the plan has overage: it begins
 *   override.ended
 *   feature.switched           to the operator only
 *   webhook.endpoint_disabled
 *   webhook.message_dead
 *
 * The registry writes it, if there is a contact, and bounds the rate
 * (registry/webhook_db.h). A note that cannot be written is lost: what it says
 * is in the log and in the database.
 */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "engine/engine_int.h"
#include "sluiced/daemon.h"
#include "wire/json.h"

#define LOOK_EACH (10 * SL_S)
#define LOOK_BACK SL_HOUR /* at the start, for overrides that ended before */

struct note {
    struct sl_job job;
    struct sl_webhook_job w;
    struct sl_daemon *daemon;
    struct sl_buf text;
    char id[SL_WEBHOOK_ID];
    char org[SL_SUBJECT_RECORD_ID], operator_org[SL_SUBJECT_RECORD_ID];
};

static void free_note(struct note *note)
{
    sl_job_clear(&note->job);
    sl_buf_done(&note->text);
    sl_alloc_free(&sl_alloc_libc, note, sizeof(*note));
}

/* On the first loop. */
static void on_noted(struct sl_job *job)
{
    struct note *note = job->ctx;
    struct sl_daemon *daemon = note->daemon;

    if (!job->err) {
        daemon->notes.omitted += note->w.omitted;
        if (note->w.deliveries > 0)
            sl_webhooks_wake(daemon);
    }
    if (note->w.op == SL_WEBHOOK_END_OVERRIDES) {
        daemon->notes.looking = false;
        if (!job->err) {
            daemon->notes.ended = note->w.next;
            daemon->notes.skip = note->w.skip;
            daemon->notes.more = note->w.next < note->w.to;
        }
    }
    free_note(note);
}

static bool copy(struct sl_str from, char room[SL_SUBJECT_RECORD_ID],
                 struct sl_str *ret)
{
    if (from.len > SL_SUBJECT_RECORD_ID)
        return false;
    if (from.len > 0)
        memcpy(room, from.at, from.len);
    *ret = (struct sl_str){room, from.len};
    return true;
}

/* Any worker. Returns NULL if there is no one to tell. */
static struct note *new_note(struct sl_worker *worker, struct sl_str org)
{
    struct sl_daemon *daemon = worker->daemon;
    struct sl_active_policy *active;
    struct note *note;
    bool good;

    if (!daemon->registry)
        return NULL;
    note = sl_alloc_new(&sl_alloc_libc, sizeof(*note));
    if (!note)
        return NULL;
    memset(note, 0, sizeof(*note));
    note->daemon = daemon;
    sl_buf_init(&note->text, (size_t)64 << 10, &sl_alloc_libc);
    sl_job_init(&note->job, SL_JOB_WEBHOOK, &sl_alloc_libc);
    active = sl_engine_ref_policy(daemon->engine, NULL);
    good = copy(org, note->org, &note->w.org) &&
           copy(active->policy->webhooks.operator_org, note->operator_org,
                &note->w.operator_org);
    sl_active_policy_unref(active);
    if (good && (org.len > 0 || note->w.operator_org.len > 0))
        return note;
    free_note(note);
    return NULL;
}

static void ask(struct note *note, sl_ns now)
{
    note->job.loop = note->daemon->workers[0].loop;
    note->job.now = now;
    note->job.done = on_noted;
    note->job.ctx = note;
    note->job.webhook = &note->w;
    sl_registry_ask(note->daemon->registry, &note->job);
}

void sl_webhooks_notify(struct sl_worker *worker, struct sl_str org,
                        const char *type, struct sl_str members)
{
    struct note *note = new_note(worker, org);
    sl_ns now = sl_loop_now(worker->loop);
    uint64_t random[2] = {0};
    struct sl_writer w;

    if (!note)
        return;
    w = (struct sl_writer){.out = &note->text};
    sl_json_open(&w, '{');
    sl_json_member_text(&w, "type", type);
    sl_json_member_time(&w, "timestamp", now);
    sl_json_key(&w, SL_STR("data"));
    sl_json_open(&w, '{');
    sl_writer_add(&w, members);
    sl_json_close(&w, '}');
    sl_json_close(&w, '}');
    if (w.err) {
        free_note(note);
        return;
    }
    (void)!getrandom(random, sizeof(random), 0);
    sl_webhook_make_id(note->id, "msg", now, random);
    note->w.op = SL_WEBHOOK_PUT_NOTE;
    note->w.id = sl_str_c(note->id);
    note->w.type = sl_str_c(type); /* a constant */
    note->w.payload = sl_buf_str(&note->text);
    ask(note, now);
}

/* ---- usage ---- */

/* The organisation of a counter. False: it counts something else. */
static bool find_org(const struct sl_usage_entry *u, char *room,
                     struct sl_str *ret)
{
    struct sl_str scopes[SL_PER_MAX], values[SL_PER_MAX];
    unsigned count = sl_usage_scopes(u->scope, scopes);

    *ret = SL_STR("");
    if (u->id.len > SL_USAGE_ID)
        return false;
    memcpy(room, u->id.at, u->id.len);
    if (!sl_usage_split(room, u->id.len, count, values))
        return false;
    for (unsigned i = 0; i < count; i++)
        if (sl_str_eq(scopes[i], SL_STR("org")))
            *ret = values[i];
    return ret->len > 0;
}

static bool has_overage(struct sl_worker *worker, struct sl_str plan)
{
    struct sl_active_policy *active =
        sl_engine_ref_policy(worker->daemon->engine, NULL);
    int index = sl_policy_plan(active->policy, plan);
    bool has = index >= 0 && active->policy->plans.list[index].overage;

    sl_active_policy_unref(active);
    return has;
}

void sl_webhooks_notify_usage(struct sl_worker *worker,
                              const struct sl_usage_entry *u,
                              unsigned threshold, struct sl_str members)
{
    char room[SL_USAGE_ID];
    struct sl_str org;
    struct sl_buf all;
    struct sl_writer w = sl_event_begin(&all);

    if (find_org(u, room, &org)) {
        sl_json_member_str(&w, "org", org);
        sl_writer_add(&w, SL_STR(","));
    }
    sl_writer_add(&w, members);
    if (!w.err)
        sl_webhooks_notify(worker, org,
                           threshold < 100                ? "usage.threshold"
                           : has_overage(worker, u->plan) ? "usage.overage"
                                                          : "usage.exhausted",
                           sl_buf_str(&all));
    sl_buf_done(&all);
}

/* ---- overrides ---- */

/* On the first loop. */
void sl_webhook_notes_poll(struct sl_daemon *daemon)
{
    struct sl_worker *worker = &daemon->workers[0];
    sl_ns now = sl_loop_now(worker->loop), back = now - LOOK_BACK;
    struct note *note;

    if (daemon->notes.looking || daemon->draining ||
        (!daemon->notes.more && now >= daemon->notes.looked &&
         now - daemon->notes.looked < LOOK_EACH))
        return;
    daemon->notes.looked = now;
    if (daemon->notes.ended == 0 || daemon->notes.ended > now)
        daemon->notes.ended = back > 0 ? back : 0;
    note = new_note(worker, SL_STR("*")); /* any */
    if (!note)
        return;
    note->w.op = SL_WEBHOOK_END_OVERRIDES;
    note->w.from = daemon->notes.ended;
    note->w.skip = daemon->notes.skip;
    note->w.to = now;
    daemon->notes.looking = true;
    ask(note, now);
}
