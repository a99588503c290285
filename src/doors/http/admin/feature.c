/* feature.c -- the switches of the policy in force.
 *
 * A switch works at once, and then it is written down: when the disk is full
 * is not the time to refuse a kill switch. The answer says whether it will
 * survive a restart. It goes before the policy and the environment until it is
 * deleted.
 */
#include "doors/http/admin/inner.h"
#include "doors/http/subjects/subjects.h"
#include "wire/json.h"

/* {"name":"assistant","enabled":true,"by_hand":false */
static int open_feature(struct sl_buf *out, const struct sl_live *live,
                        unsigned index)
{
    struct sl_str name = live->policy->features[index].name;
    bool on = atomic_load(&live->features[index]);
    bool by_hand = sl_engine_is_kept(live->engine, name);
    int err = sl_buf_add(out, SL_STR("{\"name\":"));

    if (!err)
        err = sl_json_string(out, name);
    if (!err)
        err = sl_buf_addf(out, ",\"enabled\":%s,\"by_hand\":%s",
                          on ? "true" : "false", by_hand ? "true" : "false");
    return err;
}

static int write_feature(struct sl_buf *out, const struct sl_live *live,
                         unsigned index)
{
    int err = open_feature(out, live, index);

    return err ? err : sl_buf_add(out, SL_STR("}"));
}

void sl_admin_features(struct sl_http_call *call)
{
    const struct sl_live *live = call->ask.live;
    struct sl_buf *out = &call->text;
    int err;

    if (!sl_admin_admit(call))
        return;
    err = sl_buf_add(out, SL_STR("{\"features\":["));
    for (unsigned i = 0; i < live->policy->feature_count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = write_feature(out, live, i);
    }
    if (!err)
        err = sl_buf_add(out, SL_STR("]}"));
    sl_admin_answer(call, err, sl_admin_json);
}

static void refuse_unknown(struct sl_http_call *call)
{
    sl_http_refuse(call, 404, "NO_SUCH_FEATURE",
                   "the policy has no feature \"%.*s\"",
                   SL_STR_ARG(call->rest));
}

static void show(struct sl_http_call *call)
{
    const struct sl_live *live = call->ask.live;
    int index = sl_policy_feature(live->policy, call->rest);

    if (index < 0)
        refuse_unknown(call);
    else
        sl_admin_answer(call, write_feature(&call->text, live, (unsigned)index),
                        sl_admin_json);
}

void sl_admin_feature_get(struct sl_http_call *call)
{
    if (sl_admin_admit(call))
        show(call);
}

/* Answer how it stands; `why` it was not written down, or NULL. */
static void tell(struct sl_http_call *call, const char *why)
{
    /* Another policy may have come in force meanwhile. */
    const struct sl_live *live = sl_ask_hold(&call->ask);
    int index = sl_policy_feature(live->policy, call->rest);
    struct sl_buf *out = &call->text;
    int err;

    if (index < 0) {
        refuse_unknown(call);
        return;
    }
    err = open_feature(out, live, (unsigned)index);
    if (!err)
        err = sl_buf_addf(out, ",\"persisted\":%s", why ? "false" : "true");
    if (!err && why)
        err = sl_buf_add(out, SL_STR(",\"why\":"));
    if (!err && why)
        err = sl_json_string(out, sl_str_c(why));
    if (!err)
        err = sl_buf_add(out, SL_STR("}"));
    sl_admin_answer(call, err, sl_admin_json);
}

static void on_written(struct sl_job *job)
{
    struct sl_http_call *call = ((struct sl_errand_call *)job->ctx)->call;

    tell(call, job->err ? job->diag.sentence : NULL);
    sl_job_clear(job);
    sl_http_finish(call);
}

/* Write it down. */
static void persist(struct sl_http_call *call, int on)
{
    struct sl_errand_call *errand;

    if (!sl_admin_of(call)->registry) {
        tell(call, "this daemon has no database (usage: none), so the switch "
                   "lasts until the restart");
        return;
    }
    errand = sl_errand_new(call, SL_JOB_SWITCH, NULL);
    if (!errand)
        return;
    errand->job.name = call->rest;
    errand->job.by = sl_subject_by(call, (struct sl_str){"", 0});
    errand->job.on = on;
    errand->job.done = on_written;
    sl_errand_send(errand);
}

static void switch_to(struct sl_http_call *call, int on)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_diag diag = {0};
    int err = admin->feature(admin->ctx, call->rest, on, &diag);

    if (err == SLUICE_ENOENT)
        refuse_unknown(call);
    else if (err)
        sl_http_refuse(call, 500, "FEATURE", "the feature was not switched: %s",
                       diag.sentence);
    else
        persist(call, on);
}

void sl_admin_feature_leave(struct sl_http_call *call)
{
    if (sl_admin_admit(call))
        switch_to(call, -1);
}

void sl_admin_feature_set(struct sl_http_call *call)
{
    json_t *root = NULL, *member;

    if (!sl_admin_admit(call))
        return;
    member = sl_admin_member(call, "enabled", "{\"enabled\":false}", &root);
    if (member && !json_is_boolean(member)) {
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "\"enabled\" must be true or false");
        member = NULL;
    }
    if (member)
        switch_to(call, json_is_true(member));
    json_decref(root);
}
