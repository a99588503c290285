/* policy.c -- the policy in force: shown, and read again.
 *
 * A report has a line for each change or problem. Lines that begin with a
 * blank (the line of the file, the caret, what to write) belong to the problem
 * above them.
 */
#include <string.h>

#include "doors/http/admin/inner.h"
#include "wire/json.h"

#define REPORT_MOST ((size_t)1 << 20)

void sl_admin_policy_get(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);

    if (sl_admin_admit(call))
        sl_admin_answer(call, admin->policy(admin->ctx, &call->text),
                        SL_STR("application/yaml"));
}

void sl_admin_rlconfig(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    int err = SLUICE_ENOENT;

    if (!sl_admin_admit(call))
        return;
    if (admin->configuration)
        err = admin->configuration(admin->ctx, &call->text);
    if (err == SLUICE_ENOENT)
        sl_http_refuse(call, 404, "NOT_FOUND",
                       "this daemon runs a policy, see /v1/policy; /rlconfig "
                       "needs --compat envoy-ratelimit");
    else
        sl_admin_answer(call, err, SL_STR("text/plain"));
}

/* The next entry of a report: a line, and the indented ones below it. */
static struct sl_str next_entry(struct sl_str *rest)
{
    struct sl_str entry = *rest;
    size_t len = 0;

    while (len < rest->len &&
           (rest->at[len] != '\n' ||
            (len + 1 < rest->len &&
             (rest->at[len + 1] == ' ' || rest->at[len + 1] == '\t'))))
        len++;
    entry.len = len;
    *rest = sl_str_from(*rest, len + 1);
    return entry;
}

static int write_entries(struct sl_buf *out, struct sl_str report)
{
    const char *comma = "";
    int err = sl_buf_add(out, SL_STR("["));

    while (!err && report.len > 0) {
        struct sl_str entry = next_entry(&report);

        if (entry.len == 0)
            continue;
        err = sl_buf_add(out, sl_str_c(comma));
        if (!err)
            err = sl_json_string(out, entry);
        comma = ",";
    }
    return err ? err : sl_buf_add(out, SL_STR("]}"));
}

static void answer_report(struct sl_http_call *call, bool good,
                          struct sl_str report)
{
    struct sl_buf *out = &call->text;
    int err = sl_buf_add(
        out, good ? SL_STR("{\"ok\":true,\"changes\":")
                  : SL_STR("{\"ok\":false,\"code\":\"POLICY_REFUSED\","
                           "\"message\":\"the policy was refused; the previous "
                           "policy stays active\",\"problems\":"));

    if (!err)
        err = write_entries(out, report);
    sl_admin_answer(call, err, sl_admin_json);
    if (!err && !good)
        call->status = 422;
}

void sl_admin_policy_post(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_buf report;
    int err;

    if (!sl_admin_admit(call))
        return;
    sl_buf_init(&report, REPORT_MOST, call->worker->alloc);
    err = admin->reload(admin->ctx, call->request->body, &report);
    if (!err || err == SLUICE_ECONF)
        answer_report(call, !err, sl_buf_str(&report));
    else if (err == SLUICE_ENOMEM)
        sl_http_refuse(call, 503, "NO_MEMORY", "out of memory");
    else
        sl_http_refuse(call, 500, "RELOAD_FAILED",
                       "the policy could not be activated%s%.*s",
                       report.len ? ": " : "", SL_STR_ARG(sl_buf_str(&report)));
    sl_buf_done(&report);
}
