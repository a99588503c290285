/* check.c -- POST /v1/check and POST /v1/explain.
 *
 * All checks of an array are read before the first is decided: if one of them
 * is wrong, none is, and nothing is spent. Then each is decided for itself, in
 * order, and all are answered in that order.
 */
#include "doors/http/api/api.h"

static bool answer_one(struct sl_http_call *call, const struct sl_check *check,
                       bool explain)
{
    struct sl_http_worker *worker = call->worker;
    struct sl_rendered rendered;
    int err;

    if (!sl_http_decide(call, &check->facts, !explain, &rendered))
        return false;
    err = explain
              ? sl_render_explained(&worker->decision, &rendered, &worker->text)
              : sl_render_verdict(&worker->decision, &rendered, &worker->text);
    if (err)
        sl_http_no_memory(call);
    return !err;
}

static bool answer_all(struct sl_http_call *call,
                       const struct sl_checks *checks, bool explain)
{
    struct sl_buf *out = &call->worker->text;
    const struct sl_check *check = checks->first;
    struct sl_str before = SL_STR("[");

    for (; check; check = check->next) {
        if (sl_buf_add(out, before)) {
            sl_http_no_memory(call);
            return false;
        }
        if (!answer_one(call, check, explain))
            return false;
        before = SL_STR(",");
    }
    if (sl_buf_add(out, checks->count > 0 ? SL_STR("]") : SL_STR("[]"))) {
        sl_http_no_memory(call);
        return false;
    }
    return true;
}

static void run(struct sl_http_call *call, bool explain)
{
    struct sl_checks checks;
    bool done;

    if (!sl_checks_read(call, &checks))
        return;
    done = checks.is_array ? answer_all(call, &checks, explain)
                           : answer_one(call, checks.first, explain);
    if (done)
        sl_http_answer(call, 200, SL_STR("application/json"),
                       sl_buf_str(&call->worker->text));
}

void sl_http_check(struct sl_http_call *call)
{
    run(call, false);
}

void sl_http_explain(struct sl_http_call *call)
{
    run(call, true);
}
