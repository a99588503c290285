/* usage_failed.c -- failed attempts in POST /v1/usage, for penalties.
 *
 *     {"limit": "login", "ip": "203.0.113.9", "failed": 1}
 *
 * or an array of these. They are charged to the penalty of the limit, not
 * recorded as usage: the daemon needs no database for them. The answer says
 * whether they were counted, whether the caller is blocked then, and for how
 * long. They are not counted for a plan without a number, or by a shadow.
 */
#include "engine/render.h"
#include "server/http/http_int.h"

struct failing {
    struct sl_http_call *call;
    struct sl_usage_report_items uses;
    unsigned next;
    struct sl_writer w;
};

static void write_one(struct failing *f)
{
    const struct sl_check *check = &f->call->check;
    const struct sl_decision *d = &check->decision;
    bool blocked = d->reason == SL_REASON_PENALTY;

    if (!check->err && f->call->worker->stats)
        sl_metrics_blocks(f->call->worker->stats, d);
    sl_json_open(&f->w, '{');
    sl_json_key(&f->w, SL_STR("recorded"));
    sl_json_flag(&f->w, !check->err && !d->degraded && d->penalty_count > 0);
    sl_json_key(&f->w, SL_STR("blocked"));
    sl_json_flag(&f->w, blocked);
    sl_member_ms(&f->w, SL_MEMBER("retry_after_ms"),
                 blocked ? sl_decision_retry_in(d) : SL_NS_NONE);
    sl_json_close(&f->w, '}');
    f->next++;
}

static void go_on(struct failing *f);

static void on_later(struct sl_check *check)
{
    struct failing *f = check->ctx;

    write_one(f);
    go_on(f);
}

static void go_on(struct failing *f)
{
    while (f->next < f->uses.count) {
        struct sl_usage_report_item *use = &f->uses.list[f->next];

        use->request.cost = use->amount;
        use->request.charge = use->request.failed = true;
        if (!sl_http_ask(f->call, &use->request, true, on_later, f))
            return;
        write_one(f);
    }
    if (f->uses.is_array)
        sl_json_close(&f->w, ']');
    sl_http_answer_json(f->call, f->w.err);
    sl_http_resume_finish(f->call);
}

void sl_uses_run_failed(struct sl_http_call *call,
                        const struct sl_usage_report_items *uses)
{
    struct failing *f = sl_http_new(call, sizeof(*f));

    if (!f)
        return;
    *f = (struct failing){
        .call = call, .uses = *uses, .w = {.out = &call->text}};
    if (uses->is_array)
        sl_json_open(&f->w, '[');
    sl_http_suspend(call);
    go_on(f);
}
