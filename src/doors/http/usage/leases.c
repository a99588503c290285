/* leases.c -- /v1/leases of the admin listener: units of quotas that are
 * promised to daemons, where several share the books.
 *
 *   GET     all of them, by node; the first ones, if there are too many
 *   DELETE  .../NODE: that daemon will not come back; what it had is free again
 */
#include <inttypes.h>

#include "doors/http/subjects/subjects.h"
#include "doors/http/usage/usage.h"
#include "store/lease/leased.h"

#define LIST_MOST 10000

/* ---- reading ---- */

static void answer_list(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;
    int err = sl_buf_add(&call->text, SL_STR("{\"leases\":["));

    if (!err)
        err = sl_buf_add(&call->text, sl_buf_str(&errand->job.text));
    if (!err)
        err = sl_buf_add(&call->text, errand->job.cut
                                          ? SL_STR("],\"truncated\":true}")
                                          : SL_STR("]}"));
    sl_admin_answer(call, err, sl_admin_json);
}

void sl_admin_leases(struct sl_http_call *call)
{
    struct sl_errand_call *errand =
        sl_admin_admit(call) ? sl_errand_new(call, SL_JOB_LEASES, answer_list)
                             : NULL;

    if (!errand)
        return;
    errand->job.most = LIST_MOST;
    errand->job.name = sl_str_c(sl_admin_of(call)->node);
    sl_errand_send(errand);
}

/* ---- releasing ---- */

static void answer_release(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;
    const struct sl_job *job = &errand->job;

    if (job->result == SL_JOB_NOBODY)
        sl_http_refuse(
            call, 404, "NO_SUCH_NODE",
            "\"%.*s\" has no leases; GET /v1/leases lists all leases",
            SL_STR_ARG(job->name));
    else if (job->result == SL_JOB_CONFLICT)
        sl_http_refuse(call, 409, "NODE_ALIVE",
                       "the daemon %.*s is running and uses its leases; stop "
                       "it, then it returns them",
                       SL_STR_ARG(job->name));
    else
        sl_admin_answer(call,
                        sl_buf_addf(&call->text,
                                    "{\"released\":true,\"leases\":%u,"
                                    "\"units\":%" PRIu64 "}",
                                    job->same, job->units),
                        sl_admin_json);
}

void sl_admin_lease_release(struct sl_http_call *call)
{
    struct sl_errand_call *errand =
        sl_admin_admit(call)
            ? sl_errand_new(call, SL_JOB_RELEASE, answer_release)
            : NULL;

    if (!errand)
        return;
    errand->job.name = call->rest;
    errand->job.since = errand->job.now - SL_LEASE_ALIVE;
    sl_errand_send(errand);
}
