/* backlog.c -- /v1/backlog: how much work is waiting, as workers report it.
 *
 * Workers talk to the door that applications talk to, with the same token. A
 * report counts at once and for as long as the routes say; whoever stops
 * reporting closes nothing for good.
 */
#include "doors/http/admin/inner.h"
#include "doors/http/api/api.h"
#include "wire/json.h"

#define DEPTH_MOST ((INT64_C(1) << 53) - 1)

/* {"name":"transcribe","depth":12,"age_ms":300}, or null for both. */
static int write_backlog(struct sl_http_call *call, struct sl_buf *out,
                         unsigned index)
{
    const struct sl_live *live = call->ask.live;
    const struct sl_depth *depth = &live->depths[index];
    sl_ns at = atomic_load_explicit(&depth->at, memory_order_acquire);
    sl_ns age = sl_http_now(call) - at;
    int err = sl_buf_add(out, SL_STR("{\"name\":"));

    if (!err)
        err = sl_json_string(out, live->policy->backlogs[index]);
    if (err)
        return err;
    if (at == SL_NS_NONE)
        return sl_buf_add(out, SL_STR(",\"depth\":null,\"age_ms\":null}"));
    return sl_buf_addf(out, ",\"depth\":%llu,\"age_ms\":%lld}",
                       (unsigned long long)atomic_load(&depth->depth),
                       (long long)(age > 0 ? age / SL_MS : 0));
}

void sl_http_backlogs(struct sl_http_call *call)
{
    const struct sl_policy *policy = call->ask.live->policy;
    struct sl_buf *out = &call->text;
    int err = sl_buf_add(out, SL_STR("{\"backlogs\":["));

    for (unsigned i = 0; i < policy->backlog_count && !err; i++) {
        if (i > 0)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err = write_backlog(call, out, i);
    }
    if (!err)
        err = sl_buf_add(out, SL_STR("]}"));
    sl_admin_answer(call, err, sl_admin_json);
}

/* The index of the one that the path names; -1 if it was refused. */
static int find(struct sl_http_call *call)
{
    const struct sl_policy *policy = sl_ask_hold(&call->ask)->policy;

    for (unsigned i = 0; i < policy->backlog_count; i++)
        if (sl_str_eq(policy->backlogs[i], call->rest))
            return (int)i;
    sl_http_refuse(call, 404, "NO_SUCH_BACKLOG",
                   "no route of the policy has a backlog \"%.*s\"",
                   SL_STR_ARG(call->rest));
    return -1;
}

void sl_http_backlog_get(struct sl_http_call *call)
{
    int index = find(call);

    if (index >= 0)
        sl_admin_answer(call, write_backlog(call, &call->text, (unsigned)index),
                        sl_admin_json);
}

static bool read_depth(struct sl_http_call *call, int64_t *ret)
{
    json_t *root = NULL,
           *member = sl_admin_member(call, "depth", "{\"depth\":12}", &root);
    bool good = json_is_integer(member) && json_integer_value(member) >= 0 &&
                json_integer_value(member) <= DEPTH_MOST;

    if (good)
        *ret = json_integer_value(member);
    else if (member)
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "\"depth\" must be a whole number of at least 0");
    json_decref(root);
    return good;
}

void sl_http_backlog_put(struct sl_http_call *call)
{
    struct sl_diag diag = {0};
    int64_t depth;

    if (find(call) < 0 || !read_depth(call, &depth))
        return;
    if (sl_engine_backlog(call->worker->engine, call->rest, (uint64_t)depth,
                          sl_http_now(call), &diag))
        sl_http_refuse(call, 404, "NO_SUCH_BACKLOG", "%s", diag.sentence);
    else
        sl_http_backlog_get(call);
}

void sl_admin_backlog_put(struct sl_http_call *call)
{
    if (sl_admin_admit(call))
        sl_http_backlog_put(call);
}
