/* usage_post.c -- POST /v1/usage: records and charges reported usage.
 *
 *     peek      find the subject, the plan and the period
 *     record    write all reports in one transaction
 *     charge    charge the limits, so that the next decision counts them
 *
 * A report is recorded before it is charged. After a crash in between, the
 * daemon charges it from the database at the next start (engine/engine_int.h).
 * A report that was recorded before is not charged again.
 *
 * If the database fails, reports are kept in the journal (usage_buffer.h), and
 * charged when they are recorded.
 */
#include <stdio.h>
#include <string.h>

#include "base/joined.h"
#include "base/timestamp.h"
#include "server/http/http_int.h"

/* Seconds within which a daemon returns unused leases. */
#define LEASE_BACK "2"

struct reporting {
    struct sl_http_call *call;
    struct sl_usage_sink *meter;
    struct sl_usage_report_items uses;
    struct sl_usage_entry *usage;
    struct sl_meter_view *views;
    struct sl_job job;
    struct sl_journal_sync sync;
    unsigned next;
    unsigned kept; /* items that were peeked and are not skipped */
    bool charging; /* else peeking */
    bool pending;  /* in the journal */
    bool failed;
};

struct sl_usage_sink *sl_http_meter(struct sl_http_call *call)
{
    struct sl_usage_sink *meter = call->worker->engine_ctx->meter;

    if (!meter)
        sl_http_refuse(call, 501, "NO_USAGE",
                       "this daemon has no usage database; start it with "
                       "--usage sqlite:PATH or --usage postgres://...");
    return meter;
}

/* ---- answering ---- */

static void write_one(const struct reporting *r, unsigned i,
                      struct sl_writer *w)
{
    const struct sl_usage_entry *u = &r->usage[i];
    struct sl_meter_view view = r->views[i];

    if (!r->pending)
        sl_meter_view_add(&view, u->used, u->overage, u->credited);
    sl_json_open(w, '{');
    sl_json_key(w, SL_STR("recorded"));
    sl_json_flag(w, u->result == SL_USAGE_RECORDED);
    if (r->pending) {
        sl_json_key(w, SL_STR("pending"));
        sl_json_flag(w, true);
    }
    sl_meter_view_write(&view, w);
    sl_json_close(w, '}');
}

/* The numbers of an import. */
static void answer_import(struct reporting *r)
{
    unsigned changed = 0;

    for (unsigned i = 0; i < r->uses.count; i++)
        changed += r->usage[i].change != 0;
    sl_admin_answerf(
        r->call,
        "{\"imported\":%u,\"changed\":%u,\"skipped\":%u,\"dry_run\":%s}",
        r->uses.count, changed, r->uses.skipped,
        r->uses.dry_run ? "true" : "false");
}

static void finish(struct reporting *r)
{
    struct sl_writer w = {.out = &r->call->text};

    sl_job_clear(&r->job);
    if (!r->failed && r->uses.is_import) {
        answer_import(r);
    } else if (!r->failed) {
        if (r->uses.is_array)
            sl_json_open(&w, '[');
        for (unsigned i = 0; i < r->uses.count; i++)
            write_one(r, i, &w);
        if (r->uses.is_array)
            sl_json_close(&w, ']');
        sl_http_answer_json(r->call, w.err);
        if (r->pending && r->call->status == 200)
            r->call->status = 202;
    }
    sl_http_resume_finish(r->call);
}

/* The quota is not used up, so the answer is not the denial of the limit. */
static void refuse_leased(struct reporting *r, const struct sl_usage_entry *u)
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
    const struct sl_usage_entry *u = &r->usage[i];
    const struct sl_rule *rule = r->uses.list[i].rule;

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

/* ---- the steps ---- */

static void go_on(struct reporting *r);

static void on_synced(struct sl_journal_sync *sync)
{
    struct reporting *r = sync->ctx;

    r->failed = sync->err;
    if (sync->err) {
        sl_http_field(r->call, SL_STR("Retry-After"), SL_STR("1"));
        sl_http_refuse(r->call, 503, "USAGE_UNKNOWN",
                       "the database does not answer, and the journal could "
                       "not be written to the disk; it is not known whether "
                       "the report will be recorded");
    }
    finish(r);
}

/* Writes the reports to the journal, if they can be recorded later as they are:
 * whether an amount fits, and in which order names are set, is only known to
 * the database. If the job may have been committed, all must have keys. */
static bool keep(struct reporting *r)
{
    for (unsigned i = 0; i < r->uses.count; i++)
        if (r->usage[i].enforce || r->usage[i].name.len > 0 ||
            r->usage[i].total)
            return false;
    if (r->job.err != SLUICE_ESTORE ||
        (r->job.uncertain_txn != 0 && !has_keys(r)))
        return false;
    if (!sl_usage_buffer_keep(r->meter, r->usage, r->uses.count))
        return false;
    for (unsigned i = 0; i < r->uses.count; i++)
        r->usage[i].result = SL_USAGE_RECORDED;
    r->pending = true;
    r->sync = (struct sl_journal_sync){
        .loop = r->job.loop, .done = on_synced, .ctx = r};
    sl_usage_journal_sync(sl_usage_buffer_journal(r->meter), &r->sync);
    return true;
}

static void on_recorded(struct sl_job *job)
{
    struct reporting *r = job->ctx;

    if (job->err && keep(r))
        return;
    r->failed = job->err || job->result == SL_JOB_CONFLICT;
    if (job->err) {
        sl_http_job_refuse(
            r->call, job, "USAGE", "recorded",
            has_keys(r) ? "the report was recorded; send it again"
                        : "the report was recorded; check GET "
                          "/v1/usage/SCOPE/ID before you send it again, and "
                          "give reports an idempotency_key");
    } else if (job->result == SL_JOB_CONFLICT) {
        refuse_item(r, job->failed);
    } else {
        for (unsigned i = 0; i < r->uses.count && !r->uses.dry_run; i++)
            sl_usage_buffer_report(r->meter, &r->usage[i]);
    }
    r->charging = true;
    r->next = r->uses.dry_run ? r->uses.count : 0;
    go_on(r);
}

/* Write the usage of earlier decisions, then the reports. */
static void record(struct reporting *r)
{
    sl_usage_buffer_flush(r->meter);
    r->job.usage = r->usage;
    r->job.change_count = r->uses.count;
    r->job.dry_run = r->uses.dry_run;
    sl_registry_ask(sl_usage_buffer_registry(r->meter), &r->job);
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

/* Is the plan known? Not without a decision, nor if it could not be looked up.
 * What must fit is judged by what the decision assumed. */
static bool knows_plan(const struct sl_decision *d, bool enforce)
{
    return d->shown_count > 0 && !d->shown[0].skipped &&
           (!d->plan_unknown || enforce);
}

static uint64_t cap_of(const struct sl_meter_view *view, bool knows)
{
    if (!knows)
        return SL_USAGE_CAP_KEPT;
    return view->limited ? view->cap : UINT64_MAX;
}

/* Is the row of an import about a period that has ended? *ret: it is about the
 * present one, or about none. */
static bool has_ended(const struct reporting *r, unsigned i, bool *ret)
{
    sl_ns from = r->uses.list[i].from, start = r->views[i].start;

    *ret = from == 0 || from == start;
    return from > 0 && from < start;
}

static bool refuse_period(struct reporting *r, unsigned i)
{
    char sentence[160], from[SL_TIMESTAMP_TEXT], start[SL_TIMESTAMP_TEXT];

    sl_timestamp_print(r->uses.list[i].from, false, from);
    sl_timestamp_print(r->views[i].start, false, start);
    if (r->views[i].start == 0)
        snprintf(sentence, sizeof(sentence),
                 "\"from\" is %s, and the limit has no periods; leave it out",
                 from);
    else
        snprintf(sentence, sizeof(sentence),
                 "\"from\" is %s; the present period began at %s", from, start);
    return sl_usage_import_refuse(r->call, 400, "BAD_LINE",
                                  r->uses.list[i].line, sentence);
}

/* Fill the entry of a report. If the policy is switched off or the plan is
 * unknown, the entry has the names of the report. */
static bool fill(struct reporting *r, unsigned i)
{
    struct sl_http_call *call = r->call;
    const struct sl_decision *d = &call->check.decision;
    const struct sl_usage_report_item *use = &r->uses.list[i];
    struct sl_str values[SL_PER_MAX];
    struct sl_usage_entry *u = &r->usage[i];
    bool shown = d->shown_count > 0 && !d->shown[0].skipped;
    bool knows = knows_plan(d, use->enforce);

    for (unsigned k = 0; k < use->rule->per_count; k++)
        values[k] = shown ? d->shown[0].values[k].value : use->keys[k];
    sl_meter_view_of(&call->check, use->rule, use->request.now, &r->views[i]);
    *u = (struct sl_usage_entry){
        .limit = use->rule->name,
        .start = r->views[i].start,
        .at = use->request.now,
        .key = use->key,
        .name = use->name,
        .cap = cap_of(&r->views[i], knows),
        .plan = knows ? r->views[i].plan : SL_STR(""),
        .zone = r->views[i].zone,
        .level = use->rule->kind == SL_LEVEL,
        .enforce = use->enforce,
        .total = r->uses.is_import,
        .needs_refund = !sl_engine_is_shared(call->worker->engine),
        .thresholds = use->rule->thresholds,
        .amount = use->release ? -(int64_t)use->amount : (int64_t)use->amount,
    };
    if (u->start > 0)
        sl_usage_entry_period(u, r->views[i].numbers);
    if (use->name.len > 0 && use->release)
        u->amount = 0;
    u->scope = SL_STR("all");
    if (!join(call, values, use->rule->per_count, &u->id) ||
        (use->rule->per_count > 0 &&
         !join(call, use->scopes, use->rule->per_count, &u->scope)))
        return sl_http_no_memory(call);
    r->views[i].scope = u->scope;
    r->views[i].id = u->id;
    return true;
}

/* Tell the usage sink that the table has the refund. */
static void refund(struct reporting *r, const struct sl_usage_entry *u)
{
    struct sl_usage_delta spent = {
        .act = SL_USAGE_ACT_REFUNDED,
        .limit = u->limit,
        .scope = u->scope,
        .values = &u->id, /* joined already */
        .value_count = 1,
        .start = u->start,
        .at = u->at,
        .amount = -u->change,
    };

    r->meter->calls->spent(r->meter, &spent);
}

/* Moves the next item behind those that were kept, and fills its entry; or
 * skips it. Returns false after a refusal. */
static bool keep_item(struct reporting *r)
{
    unsigned i = r->kept;
    struct sl_usage_report_item *use = &r->uses.list[i];
    bool is_current;

    if (i + 1 < r->next) {
        *use = r->uses.list[r->next - 1];
        use->request.keys = use->keys;
        use->request.key_scopes = use->scopes;
    }
    if (!fill(r, i))
        return false;
    if (has_ended(r, i, &is_current)) {
        r->uses.skipped++;
        return true;
    }
    r->kept++;
    return is_current || refuse_period(r, i);
}

/* Use the decision about the next report. */
static void use_decision(struct reporting *r)
{
    struct sl_check *check = &r->call->check;
    unsigned i = r->next++;
    const struct sl_usage_report_item *use = &r->uses.list[i];
    struct sl_meter_view after;

    if (!r->charging) {
        r->failed = check->err ? !sl_http_refuse(r->call, 400, "BAD_REQUEST",
                                                 "%s", check->diag.sentence)
                               : !keep_item(r);
        return;
    }
    if (check->err)
        return;
    sl_meter_view_of(check, use->rule, use->request.now, &after);
    after.scope = r->views[i].scope;
    after.id = r->views[i].id;
    r->views[i] = after;
    if (r->usage[i].needs_refund && r->usage[i].change < 0 && !after.blind)
        refund(r, &r->usage[i]);
}

static void on_later(struct sl_check *check)
{
    use_decision(check->ctx);
    go_on(check->ctx);
}

/* Peek the limit of the next report, or charge it. Returns false if the
 * decision comes later. */
static bool ask_next(struct reporting *r)
{
    struct sl_request *request = &r->uses.list[r->next].request;
    int64_t change = r->charging ? r->usage[r->next].change : 0;

    request->cost = change < 0 ? (uint64_t)-change : (uint64_t)change;
    request->charge = change > 0;
    request->give_back = change < 0;
    request->order = r->job.order;
    return sl_http_ask(r->call, request, change != 0, on_later, r);
}

static void go_on(struct reporting *r)
{
    while (r->next < r->uses.count && !r->failed) {
        if (!ask_next(r))
            return;
        use_decision(r);
    }
    if (!r->charging)
        r->uses.count = r->kept;
    if (r->failed || r->charging || r->uses.count == 0)
        finish(r);
    else
        record(r);
}

void sl_uses_run(struct sl_http_call *call, struct sl_usage_sink *meter,
                 const struct sl_usage_report_items *uses)
{
    struct reporting *r = sl_http_new(call, sizeof(*r));

    if (!r)
        return;
    r->call = call;
    r->meter = meter;
    r->uses = *uses;
    r->usage = sl_http_new(call, (r->uses.count + 1) * sizeof(*r->usage));
    r->views = sl_http_new(call, (r->uses.count + 1) * sizeof(*r->views));
    if (!r->usage || !r->views)
        return;
    sl_http_job_init(&r->job, call, SL_JOB_USAGE, on_recorded, r);
    if (uses->is_import)
        r->job.audit =
            sl_http_audit(call, "usage import", SL_STR(""), SL_STR(""));
    sl_http_suspend(call);
    go_on(r);
}

void sl_http_usage_report(struct sl_http_call *call)
{
    struct sl_usage_report_items uses;
    struct sl_usage_sink *meter;

    if (!sl_uses_read(call, &uses))
        return;
    if (uses.count > 0 && uses.list[0].failed) {
        sl_uses_run_failed(call, &uses);
        return;
    }
    meter = sl_http_meter(call);
    if (meter)
        sl_uses_run(call, meter, &uses);
}

/* ---- the body of POST /v1/usage ----
 *
 *     {"org": "acme", "limit": "transcription", "amount": 30,
 *      "idempotency_key": "job-7"}
 *
 * or an array of these. Ambiguous bodies are refused, as in checks.
 */

static bool read_amount(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_usage_report_item *use = at;

    if (sl_json_peek(&r->json) != SL_JSON_NUMBER)
        return sl_json_body_wrong(r, member, "a whole number");
    use->has_amount = true;
    return sl_json_whole(&r->json, &use->amount) ||
           sl_json_body_refuse(
               r, "BAD_REQUEST",
               "\"amount\" must be a whole number from 0 to "
               "9007199254740991; for a refund add \"release\": true");
}

static bool read_failed(struct sl_json_body *r, struct sl_str member, void *at)
{
    struct sl_usage_report_item *use = at;

    (void)member;
    use->failed = true;
    return (sl_json_whole(&r->json, &use->amount) && use->amount >= 1 &&
            use->amount <= SL_FAILURES_MAX) ||
           sl_json_body_refuse(r, "BAD_REQUEST",
                               "\"failed\" must be a number of failed attempts "
                               "from 1 to %d",
                               SL_FAILURES_MAX);
}

#define FIELD(name, member, form)                                              \
    SL_JSON_FIELD(name, offsetof(struct sl_usage_report_item, member),         \
                  sl_json_body_##form)

static const struct sl_json_field members[] = {
    FIELD("org", request.org, text),
    FIELD("user", request.user, text),
    FIELD("ip", request.ip, text),
    FIELD("plan", request.plan, text),
    FIELD("limit", request.limit, text),
    FIELD("key", other, text),
    SL_JSON_FIELD("amount", 0, read_amount),
    FIELD("idempotency_key", key, text),
    FIELD("name", name, text),
    FIELD("release", release, flag),
    FIELD("enforce", enforce, flag),
    SL_JSON_FIELD("failed", 0, read_failed),
};

/* ---- checks ---- */

static bool find_rule(struct sl_json_body *r, struct sl_usage_report_item *use)
{
    const struct sl_policy *policy = r->call->check.active->policy;
    struct sl_str name = use->request.limit;
    int index = sl_policy_rule(policy, name);

    if (name.len == 0)
        return sl_json_body_refuse(r, "BAD_REQUEST",
                                   "a report needs a \"limit\"");
    if (index < 0)
        return sl_json_body_refuse(
            r, "NO_SUCH_LIMIT", "the policy has no limit \"%.*s\"%s",
            SL_STR_ARG(name), sl_hint_limit(policy, name, "").text);
    use->rule = &policy->rules[index];
    return true;
}

/* The member for the value of `per` number `i`, and its value; "key" for a
 * scope that has none. */
static const char *find_member(const struct sl_usage_report_item *use,
                               unsigned i, struct sl_str *ret)
{
    switch (use->rule->per[i]) {
    case SL_SCOPE_ORG:
        *ret = use->request.org;
        return "org";
    case SL_SCOPE_USER:
        *ret = use->request.user;
        return "user";
    case SL_SCOPE_IP:
        *ret = use->request.ip;
        return "ip";
    default:
        *ret = SL_STR("");
        return "key";
    }
}

/* Cut "key" into `count` values, those that have no member of their own. */
static bool split_key(struct sl_json_body *r,
                      const struct sl_usage_report_item *use, unsigned count,
                      struct sl_str ret[SL_PER_MAX])
{
    const struct sl_str none = {"", 0};
    char *text;

    ret[0] = use->other;
    for (unsigned i = 1; i < SL_PER_MAX; i++)
        ret[i] = none;
    if (count < 2 || use->other.len == 0)
        return true;
    if (!sl_str_cut_values(use->other, count, ret))
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "\"key\" of limit \"%.*s\" needs %u values, joined by ':' in the "
            "order of `per`, with %%3A for a ':' and %%25 for a '%%' inside a "
            "value",
            SL_STR_ARG(use->rule->name), count);
    text = sl_arena_take(r->json.arena, use->other.len + 1);
    if (!text)
        return sl_json_body_no_memory(r);
    for (unsigned i = 0; i < count; i++)
        ret[i] = sl_str_unescape(ret[i], text + (ret[i].at - use->other.at));
    return true;
}

/* Find the key: one value for each `per` of the limit. "key" has those that
 * have no member, and of failed attempts all that are not given. */
static bool find_keys(struct sl_json_body *r, struct sl_usage_report_item *use)
{
    const struct sl_rule *rule = use->rule;
    const struct sl_policy *policy = r->call->check.active->policy;
    struct sl_str values[SL_PER_MAX];
    unsigned missing = 0, next = 0;
    bool by_key = use->failed;

    for (unsigned i = 0; i < rule->per_count; i++) {
        const char *member = find_member(use, i, &use->keys[i]);

        missing += use->keys[i].len == 0 && (by_key || member[0] == 'k');
    }
    if (by_key && use->other.len > 0 && missing < rule->per_count)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "give all values of limit \"%.*s\" in \"key\", or none",
            SL_STR_ARG(rule->name));
    if (!split_key(r, use, missing, values))
        return false;
    for (unsigned i = 0; i < rule->per_count; i++) {
        const char *member = find_member(use, i, &use->keys[i]);

        use->scopes[i] = policy->identity.scope_names[rule->per[i]];
        if (use->keys[i].len == 0 && (by_key || member[0] == 'k'))
            use->keys[i] = values[next++];
        if (use->keys[i].len == 0)
            return sl_json_body_refuse(
                r, "BAD_REQUEST", "limit \"%.*s\" is per %.*s: add \"%s\"",
                SL_STR_ARG(rule->name), SL_STR_ARG(use->scopes[i]), member);
        if (use->keys[i].len > SL_VALUE_MAX)
            return sl_json_body_refuse(r, "BAD_REQUEST",
                                       "\"%s\" has more than %d bytes", member,
                                       SL_VALUE_MAX);
    }
    return true;
}

static bool check_texts(struct sl_json_body *r,
                        struct sl_usage_report_item *use)
{
    if (use->key.len > SL_USAGE_KEY || use->name.len > SL_USAGE_KEY)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "\"idempotency_key\" and \"name\" have at most %d "
            "bytes",
            SL_USAGE_KEY);
    if (use->name.len > 0 && use->rule->kind != SL_LEVEL)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "\"name\" is only for limits of kind level; \"%.*s\" is a %s",
            SL_STR_ARG(use->rule->name), sl_kind_name(use->rule->kind));
    if (use->rule->kind == SL_PERMITS)
        return sl_json_body_refuse(r, "BAD_REQUEST",
                                   "\"%.*s\" has permits, which are held and "
                                   "released; their usage cannot be reported",
                                   SL_STR_ARG(use->rule->name));
    if (!use->has_amount && use->name.len == 0)
        return sl_json_body_refuse(r, "BAD_REQUEST",
                                   "a report needs an \"amount\"");
    if (!use->has_amount)
        use->amount = 1;
    return true;
}

/* Failed attempts are not recorded, so what is about records is refused. */
static bool check_failed(struct sl_json_body *r,
                         const struct sl_usage_report_item *use)
{
    if (use->has_amount || use->release || use->enforce || use->key.len > 0 ||
        use->name.len > 0)
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "a report with \"failed\" has a \"limit\" and its caller only; "
            "report usage apart from it");
    return use->rule->penalty_rule ||
           sl_json_body_refuse(
               r, "BAD_REQUEST",
               "limit \"%.*s\" has no penalty, so failed attempts do not "
               "count; "
               "add penalty: { after: 5, within: 10m, block: 15m } to it",
               SL_STR_ARG(use->rule->name));
}

/* ---- the body ---- */

void sl_use_begin(struct sl_http_call *call, struct sl_usage_report_item *use)
{
    *use = (struct sl_usage_report_item){
        .request = {.trusted = true,
                    .metered = true,
                    .has_cost = true,
                    .now = sl_http_now(call),
                    .keys = use->keys,
                    .key_scopes = use->scopes},
        .other = SL_STR(""),
    };
}

bool sl_use_check(struct sl_json_body *r, struct sl_usage_report_item *use)
{
    if (!find_rule(r, use) || !find_keys(r, use) ||
        !(use->failed ? check_failed(r, use) : check_texts(r, use)))
        return false;
    use->request.key_count = use->rule->per_count;
    return true;
}

static bool add_use(struct sl_json_body *r, struct sl_usage_report_items *ret)
{
    struct sl_usage_report_item *use = &ret->list[ret->count];

    r->index = ret->count;
    if (ret->count == SL_REPORTS)
        return sl_json_body_refuse(
            r, "TOO_MANY", "the array has more than %d reports", SL_REPORTS);
    ret->count++;
    sl_use_begin(r->call, use);
    if (!sl_json_body_fields(r, members, SL_LEN(members), NULL, use) ||
        !sl_use_check(r, use))
        return false;
    return use->failed == ret->list[0].failed ||
           sl_json_body_refuse(r, "BAD_REQUEST",
                               "report failed attempts apart from usage");
}

/* Returns an upper bound of the number of objects in the array. */
static size_t count_most(struct sl_str body)
{
    size_t count = 1;

    for (size_t i = 0; i < body.len && count < SL_REPORTS; i++)
        count += body.at[i] == '{';
    return count;
}

static bool read_uses(struct sl_json_body *r, struct sl_usage_report_items *ret)
{
    struct sl_str body = r->json.text;

    if (body.len == 0)
        return sl_json_body_refuse(r, "BAD_REQUEST",
                                   "the body is empty; send a report such as "
                                   "{\"org\":\"acme\",\"limit\":\"minutes\","
                                   "\"amount\":30}");
    ret->list =
        sl_arena_take(r->json.arena, count_most(body) * sizeof(*ret->list));
    if (!ret->list)
        return sl_json_body_no_memory(r);
    ret->is_array = r->is_array = sl_json_enter(&r->json, '[');
    if (!ret->is_array && !add_use(r, ret))
        return false;
    while (ret->is_array && sl_json_item(&r->json))
        if (!add_use(r, ret))
            return false;
    r->is_array = false;
    return sl_json_end(&r->json) || sl_json_body_broken(r);
}

bool sl_uses_read(struct sl_http_call *call, struct sl_usage_report_items *ret)
{
    struct sl_json_body body;

    sl_json_body_begin(&body, call, "report");
    *ret = (struct sl_usage_report_items){.count = 0};
    return read_uses(&body, ret) || sl_json_body_answer(&body);
}
