/* report.c -- POST /v1/usage: what was used, put down and charged.
 *
 *     look      whose is it, by which plan, of which period
 *     put down  all reports in one transaction: from here on they are safe
 *     charge    the limits that decide, so that the next decision knows
 *
 * It is put down before it is charged: whoever dies in between is reminded by
 * the books when he starts again (engine/spent.h). A report that was recorded
 * before is not charged again.
 */
#include <string.h>

#include "base/buf.h"
#include "doors/http/usage/usage.h"

/* Seconds within which a daemon gives back what it does not need. */
#define LEASE_BACK "2"

struct reporting {
    struct sl_http_call *call;
    struct sl_meter *meter;
    struct sl_reports_of_use uses;
    struct sl_usage *usage;
    struct sl_view *views;
    struct sl_job job;
    unsigned next;
    bool charging; /* else looking */
    bool stepping;
    bool failed;
};

struct sl_meter *sl_http_meter(struct sl_http_call *call)
{
    struct sl_meter *meter = call->worker->station->meter;

    if (!meter)
        sl_http_refuse(call, 501, "NO_USAGE",
                       "this daemon has no usage database; start it with "
                       "--usage sqlite:PATH or --usage postgres://...");
    return meter;
}

/* ---- answering ---- */

static int write_one(const struct reporting *r, unsigned i, struct sl_buf *out)
{
    const struct sl_usage *u = &r->usage[i];
    struct sl_view view = r->views[i];
    int err = sl_buf_addf(out, "%s{\"recorded\":%s,", i > 0 ? "," : "",
                          u->result == SL_USAGE_RECORDED ? "true" : "false");

    view.overage = u->overage;
    view.credited = u->credited;
    view.from_books = !view.limited || view.blind;
    if (view.from_books)
        view.used = u->used;
    if (!err)
        err = sl_view_write(&view, out);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

static void finish(struct reporting *r)
{
    struct sl_http_call *call = r->call;
    struct sl_buf *out = &call->text;
    int err = 0;

    sl_job_clear(&r->job);
    if (!r->failed) {
        if (r->uses.is_array)
            err = sl_buf_add(out, SL_STR("["));
        for (unsigned i = 0; i < r->uses.count && !err; i++)
            err = write_one(r, i, out);
        if (!err && r->uses.is_array)
            err = sl_buf_add(out, SL_STR("]"));
        if (err)
            sl_http_no_memory(call);
        else
            sl_http_answer(call, 200, SL_STR("application/json"),
                           sl_buf_str(out));
    }
    sl_http_finish(call);
}

/* It is not used up, so that whoever reads that it was would be misled. */
static void refuse_leased(struct reporting *r, const struct sl_usage *u)
{
    sl_http_field(r->call, SL_STR("Retry-After"), SL_STR(LEASE_BACK));
    sl_http_refuse(
        r->call, 503, "LEASED",
        "\"%.*s\" of %.*s has used %llu of %llu, and %llu are leased to "
        "daemons; unused leases are returned within " LEASE_BACK
        " seconds, GET /v1/leases lists them; nothing was recorded",
        SL_STR_ARG(u->limit), SL_STR_ARG(u->id), (unsigned long long)u->used,
        (unsigned long long)u->cap, (unsigned long long)u->leased);
}

static void refuse_item(struct reporting *r, unsigned i)
{
    const struct sl_usage *u = &r->usage[i];
    const struct sl_rule *rule = r->uses.list[i].rule;

    r->failed = true;
    if (u->result == SL_USAGE_CONFLICT)
        sl_http_refuse(r->call, 409, "KEY_USED",
                       "the idempotency key \"%.*s\" was used for another "
                       "report; nothing was recorded",
                       SL_STR_ARG(u->key));
    else if (u->result == SL_USAGE_LEASED)
        refuse_leased(r, u);
    else
        sl_http_refuse(
            r->call, rule->deny.status, rule->deny.code.at,
            "\"%.*s\" of %.*s has used %llu of %llu; nothing was recorded",
            SL_STR_ARG(rule->name), SL_STR_ARG(u->id),
            (unsigned long long)u->used, (unsigned long long)u->cap);
}

static bool has_keys(const struct reporting *r)
{
    for (unsigned i = 0; i < r->uses.count; i++)
        if (r->usage[i].key.len == 0 && r->usage[i].name.len == 0)
            return false;
    return true;
}

/* A transaction whose end nobody has heard of may have been carried out. */
static void refuse_failed(struct reporting *r)
{
    const struct sl_job *job = &r->job;

    r->failed = true;
    sl_http_field(r->call, SL_STR("Retry-After"), SL_STR("1"));
    if (job->doubt == 0)
        sl_http_refuse(r->call, 503,
                       job->err == SLUICE_ENOMEM ? "NO_MEMORY" : "USAGE",
                       "nothing was recorded: %s", job->diag.sentence);
    else
        sl_http_refuse(
            r->call, 503, "USAGE_UNKNOWN",
            "it is not known whether the report was recorded; %s: %s",
            has_keys(r) ? "send it again"
                        : "check GET /v1/usage/SCOPE/ID before you send it "
                          "again, and give reports an idempotency_key",
            job->diag.sentence);
}

/* ---- the steps ---- */

static void step(struct reporting *r);

static void on_recorded(struct sl_job *job)
{
    struct reporting *r = job->ctx;

    if (job->err) {
        refuse_failed(r);
    } else if (job->result == SL_JOB_CONFLICT) {
        refuse_item(r, job->failed);
    } else {
        for (unsigned i = 0; i < r->uses.count; i++)
            sl_meter_marked(r->meter, &r->usage[i]);
    }
    r->charging = true;
    r->next = 0;
    step(r);
}

/* What decisions have used until now goes first. */
static void put_down(struct reporting *r)
{
    struct sl_http_call *call = r->call;

    sl_meter_flush(r->meter);
    r->job.kind = SL_JOB_USAGE;
    r->job.loop = call->worker->loop;
    r->job.now = sl_http_now(call);
    r->job.done = on_recorded;
    r->job.ctx = r;
    r->job.usage = r->usage;
    r->job.change_count = r->uses.count;
    sl_registry_ask(sl_bookkeeper_registry(r->meter), &r->job);
}

static bool join(struct sl_http_call *call, const struct sl_str *values,
                 unsigned count, struct sl_str *ret)
{
    struct sl_buf id;
    const char *copy = NULL;

    sl_buf_init(&id, SL_USAGE_ID, call->worker->alloc);
    if (sl_usage_join(values, count, &id))
        copy = sl_arena_copy(&call->arena, sl_buf_str(&id));
    *ret = (struct sl_str){copy, id.len};
    sl_buf_done(&id);
    return copy;
}

static bool join_scopes(struct reporting *r, const struct sl_report_of_use *use,
                        struct sl_str *ret)
{
    if (use->rule->per_count == 0) {
        *ret = SL_STR("all");
        return true;
    }
    return join(r->call, use->scopes, use->rule->per_count, ret);
}

/* A policy that is switched off, or an unknown plan: it is put down all the
 * same, under the names that were sent. */
static bool fill(struct reporting *r, unsigned i)
{
    struct sl_http_call *call = r->call;
    const struct sl_decision *d = &call->ask.decision;
    const struct sl_report_of_use *use = &r->uses.list[i];
    struct sl_str values[SL_PER_MAX];
    struct sl_usage *u = &r->usage[i];
    bool shown = d->shown_count > 0 && !d->shown[0].skipped;

    for (unsigned k = 0; k < use->rule->per_count; k++)
        values[k] = shown ? d->shown[0].values[k].value : use->keys[k];
    sl_view_of(&call->ask, use->rule, use->facts.now, &r->views[i]);
    *u = (struct sl_usage){
        .limit = use->rule->name,
        .start = r->views[i].start,
        .at = use->facts.now,
        .key = use->key,
        .name = use->name,
        .cap = r->views[i].limited ? r->views[i].cap : UINT64_MAX,
        .reported = true,
        .level = use->rule->kind == SL_LEVEL,
        .enforce = use->enforce,
        .owes = !sl_engine_is_shared(call->worker->engine),
        .marks = use->rule->marks,
        .amount = use->release ? -(int64_t)use->amount : (int64_t)use->amount,
    };
    if (use->name.len > 0 && use->release)
        u->amount = 0;
    if (!join(call, values, use->rule->per_count, &u->id) ||
        !join_scopes(r, use, &u->scope)) {
        sl_http_no_memory(call);
        return false;
    }
    r->views[i].scope = u->scope;
    r->views[i].id = u->id;
    return true;
}

/* The table has what was given back. */
static void pay(struct reporting *r, const struct sl_usage *u)
{
    struct sl_spent spent = {
        .act = SL_PAY,
        .limit = u->limit,
        .scope = u->scope,
        .values = &u->id, /* joined already */
        .value_count = 1,
        .start = u->start,
        .at = u->at,
        .amount = -u->moved,
    };

    r->meter->calls->spent(r->meter, &spent);
}

static void on_asked(struct sl_ask *ask)
{
    struct reporting *r = ask->ctx;
    unsigned i = r->next++;
    const struct sl_report_of_use *use = &r->uses.list[i];

    if (ask->err && !r->charging) {
        r->failed = true;
        sl_http_refuse(r->call, 400, "BAD_REQUEST", "%s", ask->diag.sentence);
    } else if (!r->charging) {
        r->failed = !fill(r, i);
    } else if (!ask->err) {
        struct sl_view after;

        sl_view_of(ask, use->rule, use->facts.now, &after);
        r->views[i].used = after.used;
        r->views[i].left = after.left;
        r->views[i].blind = after.blind;
        if (r->usage[i].owes && r->usage[i].moved < 0 && !after.blind)
            pay(r, &r->usage[i]);
    }
    if (!r->stepping)
        step(r);
}

/* Ask about one report, or charge it. */
static void ask_one(struct reporting *r)
{
    struct sl_facts *facts = &r->uses.list[r->next].facts;
    int64_t moved = r->charging ? r->usage[r->next].moved : 0;

    facts->cost = moved < 0 ? (uint64_t)-moved : (uint64_t)moved;
    facts->charge = moved > 0;
    facts->give_back = moved < 0;
    sl_http_ask(r->call, facts, moved != 0, on_asked, r);
}

static void step(struct reporting *r)
{
    struct sl_http_call *call = r->call;

    r->stepping = true;
    while (r->next < r->uses.count && !r->failed) {
        ask_one(r);
        if (call->ask.busy)
            break;
    }
    r->stepping = false;
    if (call->ask.busy)
        return;
    if (r->failed || r->charging || r->uses.count == 0)
        finish(r);
    else
        put_down(r);
}

void sl_http_usage_report(struct sl_http_call *call)
{
    struct reporting *r;
    struct sl_meter *meter;

    if (sl_http_is_page(call))
        return;
    meter = sl_http_meter(call);
    if (!meter)
        return;
    r = sl_arena_take(&call->arena, sizeof(*r));
    if (!r) {
        sl_http_no_memory(call);
        return;
    }
    *r = (struct reporting){.call = call, .meter = meter};
    if (!sl_uses_read(call, &r->uses))
        return;
    r->usage =
        sl_arena_take(&call->arena, (r->uses.count + 1) * sizeof(*r->usage));
    r->views =
        sl_arena_take(&call->arena, (r->uses.count + 1) * sizeof(*r->views));
    if (!r->usage || !r->views) {
        sl_http_no_memory(call);
        return;
    }
    sl_job_init(&r->job, SL_JOB_USAGE, call->worker->alloc);
    sl_http_later(call);
    step(r);
}
