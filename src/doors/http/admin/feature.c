/* feature.c -- the switches of the policy in force. */
#include "doors/http/admin/inner.h"
#include "wire/json.h"

/* {"name":"assistant","enabled":true} */
static int write_feature(struct sl_buf *out, const struct sl_live *live,
                         unsigned index)
{
    bool on = atomic_load(&live->features[index]);
    int err = sl_buf_add(out, SL_STR("{\"name\":"));

    if (!err)
        err = sl_json_string(out, live->policy->features[index].name);
    if (!err)
        err = sl_buf_addf(out, ",\"enabled\":%s}", on ? "true" : "false");
    return err;
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

static void switch_to(struct sl_http_call *call, bool on)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_diag diag = {0};
    int err = admin->feature(admin->ctx, call->rest, on, &diag);

    if (err == SLUICE_ENOENT) {
        refuse_unknown(call);
    } else if (err) {
        sl_http_refuse(call, 500, "FEATURE", "the feature stays: %s",
                       diag.sentence);
    } else {
        /* Another policy may have come in force meanwhile. */
        sl_ask_hold(&call->ask);
        show(call);
    }
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
