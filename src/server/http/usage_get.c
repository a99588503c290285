/* usage_get.c -- GET /v1/usage/SCOPE/ID: the usage of a subject, and the same
 * of the organisation of a usage token.
 *
 * The current numbers come from the limits, by a check without cost. Days,
 * months and overage come from the usage database. While the store is down,
 * `used` is from the database and the meter is marked `degraded`. A daemon
 * without a usage database has no history, and shows all limits of a subject.
 *
 *   ?days=30      days of history (0: none)
 *   ?limit=NAME   only this limit
 *   ?format=csv   the days as CSV
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/parse.h"
#include "base/timestamp.h"
#include "engine/engine_int.h"
#include "engine/render.h"
#include "server/http/http_int.h"
#include "store/quota_lease.h"

#define DAYS      30
#define DAYS_MOST 3660

struct reading {
    struct sl_http_call *call;
    const struct sl_usage_claims *claims; /* of the token, or NULL */
    struct sl_str scope, id;
    struct sl_str limit; /* "": all */
    bool csv;
    bool has_database; /* there is a usage database */
    uint64_t days;
    struct sl_str values[SL_PER_MAX];
    struct sl_str scopes[SL_PER_MAX];
    unsigned count;
    struct sl_request request;
    struct sl_job job;
    const struct sl_usage_row *rows;
    size_t row_count;
    unsigned next; /* rule */
    bool failed;
};

/* ---- the request ---- */

static void refuse_path(struct sl_http_call *call)
{
    sl_http_refuse(
        call, 400, "BAD_REQUEST",
        "%.*s is not a subject; write /v1/usage/org/ID or /v1/usage/user/ID, "
        "and write characters other than letters, digits, - . _ and @ as %%XX",
        SL_STR_ARG(call->path));
}

static unsigned cut_scopes(struct sl_str scope, struct sl_str *ret)
{
    unsigned count = 0;

    while (scope.len > 0 && count < SL_PER_MAX)
        ret[count++] = sl_admin_cut(&scope, ':');
    return scope.len > 0 ? 0 : count;
}

static bool read_path(struct reading *r)
{
    struct sl_http_call *call = r->call;
    struct sl_str rest = call->rest;
    struct sl_str scope = sl_admin_cut(&rest, '/');
    char *copy;

    if (sl_admin_decode(&call->arena, scope, false, &r->scope) ||
        sl_admin_decode(&call->arena, rest, false, &r->id) ||
        (rest.len > 0 && memchr(rest.at, '/', rest.len)) ||
        r->id.len > SL_USAGE_ID)
        return false;
    if (sl_str_eq(r->scope, SL_STR("all")))
        return r->id.len == 0;
    r->count = cut_scopes(r->scope, r->scopes);
    copy = (char *)sl_arena_copy(&call->arena, r->id);
    return r->count > 0 && r->id.len > 0 && copy &&
           sl_usage_split(copy, r->id.len, r->count, r->values);
}

static bool read_query(struct reading *r)
{
    struct sl_str days, format;
    struct sl_admin_option options[] = {
        {"days",   &days    },
        {"limit",  &r->limit},
        {"format", &format  },
    };

    static const char *const formats[] = {"json", "csv"};
    unsigned form = 0;

    r->days = DAYS;
    if (!sl_admin_options(r->call, options, SL_LEN(options)) ||
        !sl_admin_number(r->call, "days", days, 0, DAYS_MOST,
                         "a number from 0 to 3660", &r->days) ||
        !sl_admin_word(r->call, "format", format, formats, SL_LEN(formats),
                       "json or csv", &form))
        return false;
    r->csv = form == 1;
    return true;
}

/* ---- history ---- */

/* Print "2026-11-15", or "2026-11" for a month. */
static void print_when(const struct sl_usage_row *row, char out[32])
{
    int64_t year, month, day;

    if (row->kind == SL_ROW_MONTH) {
        snprintf(out, 32, "%04" PRId64 "-%02" PRId64, row->when / 100,
                 row->when % 100);
        return;
    }
    sl_civil_from_days(row->when, &year, &month, &day);
    snprintf(out, 32, "%04" PRId64 "-%02" PRId64 "-%02" PRId64, year, month,
             day);
}

/* Write ,"days":[{"day":"2026-11-15","used":1,"overage":0},...] or the same
 * with "months" and "month". */
static void write_rows(const struct reading *r, const struct sl_rule *rule,
                       enum sl_usage_row_kind kind, struct sl_writer *w)
{
    const char *word = kind == SL_ROW_DAY ? "day" : "month";
    char when[32];

    sl_writer_addf(w, ",\"%ss\":[", word);
    for (size_t i = 0; i < r->row_count; i++) {
        const struct sl_usage_row *row = &r->rows[i];

        if (row->kind != kind || !sl_str_eq(sl_str_c(row->limit), rule->name))
            continue;
        print_when(row, when);
        sl_json_open(w, '{');
        sl_writer_addf(
            w, "\"%s\":\"%s\",\"used\":%" PRIu64 ",\"overage\":%" PRIu64, word,
            when, sl_rule_up(rule, row->used), sl_rule_up(rule, row->overage));
        if (sl_rule_is_scaled(rule))
            sl_writer_addf(
                w, ",\"exact\":{\"used\":%" PRIu64 ",\"overage\":%" PRIu64 "}",
                row->used, row->overage);
        sl_json_close(w, '}');
    }
    sl_json_close(w, ']');
}

/* Write the days of all limits as CSV, exact. Lines end in CR LF. Names of
 * limits have no comma and no quote. */
static void write_csv(const struct reading *r, struct sl_writer *w)
{
    char when[32];

    sl_writer_add(w, SL_STR("limit,day,used,overage\r\n"));
    for (size_t i = 0; i < r->row_count; i++) {
        const struct sl_usage_row *row = &r->rows[i];

        if (row->kind != SL_ROW_DAY)
            continue;
        print_when(row, when);
        sl_writer_addf(w, "%s,%s,%" PRIu64 ",%" PRIu64 "\r\n", row->limit, when,
                       row->used, row->overage);
    }
}

/* ---- the answer ---- */

static void write_time(struct sl_writer *w, const char *name, sl_ns at)
{
    char text[SL_TIMESTAMP_TEXT];

    sl_json_key(w, sl_str_c(name));
    if (at < 0) {
        sl_json_nothing(w);
        return;
    }
    sl_timestamp_print(at, false, text);
    sl_json_str(w, sl_str_c(text));
}

static void finish(struct reading *r)
{
    struct sl_http_call *call = r->call;

    if (!r->failed && r->csv)
        sl_http_answer(call, 200, SL_STR("text/csv; charset=utf-8"),
                       sl_buf_str(&call->text));
    else if (!r->failed)
        sl_http_answer_json(call, sl_buf_add(&call->text, SL_STR("]}")));
    sl_job_clear(&r->job);
    sl_http_resume_finish(call);
}

static int write_meter(struct reading *r, const struct sl_rule *rule)
{
    struct sl_writer w = {.out = &r->call->text};
    struct sl_meter_view view;

    sl_meter_view_of(&r->call->check, rule, r->request.now, &view);
    view.scope = r->scope;
    view.id = r->id;
    for (size_t i = 0; i < r->row_count; i++) {
        const struct sl_usage_row *row = &r->rows[i];

        if (!sl_str_eq(sl_str_c(row->limit), rule->name))
            continue;
        if (row->kind == SL_ROW_COUNTER && row->when == view.start)
            sl_meter_view_add(&view, row->used, row->overage, row->credited);
        if (row->kind == SL_ROW_CREDIT)
            view.credits = sl_add_sat(view.credits, row->used);
    }
    sl_json_open(&w, '{');
    sl_meter_view_write(&view, &w);
    if (r->days > 0) {
        write_rows(r, rule, SL_ROW_DAY, &w);
        write_rows(r, rule, SL_ROW_MONTH, &w);
    }
    sl_json_close(&w, '}');
    return w.err;
}

/* Is the limit metered, and per exactly these scopes? */
static bool is_wanted(const struct reading *r, const struct sl_rule *rule)
{
    const struct sl_policy *policy = r->call->check.active->policy;
    bool metered = !r->has_database || sl_is_durable(rule->kind);

    if (r->limit.len > 0 && !sl_str_eq(rule->name, r->limit))
        return false;
    if (rule->per_count != r->count || rule->mode == SL_MODE_OFF)
        return false;
    for (unsigned i = 0; i < r->count; i++)
        if (!sl_str_eq(policy->identity.scope_names[rule->per[i]],
                       r->scopes[i]))
            return false;
    for (size_t i = 0; i < r->row_count && !metered; i++)
        metered = sl_str_eq(sl_str_c(r->rows[i].limit), rule->name);
    return metered || r->limit.len > 0;
}

/* Write the meter of the next rule, which was decided. */
static void add_meter(struct reading *r)
{
    const struct sl_check *check = &r->call->check;
    const struct sl_rule *rule = &check->active->policy->rules[r->next++];

    if (check->err || write_meter(r, rule))
        r->failed = !sl_http_no_memory(r->call);
}

static void on_later(struct sl_check *check);

/* Peek one limit after the other, until one must wait. */
static void go_on(struct reading *r)
{
    const struct sl_policy *policy = r->call->check.active->policy;

    while (!r->csv && r->next < policy->rule_count && !r->failed) {
        const struct sl_rule *rule = &policy->rules[r->next];

        if (!is_wanted(r, rule)) {
            r->next++;
            continue;
        }
        r->request.limit = rule->name;
        if (!sl_http_ask(r->call, &r->request, false, on_later, r))
            return;
        add_meter(r);
    }
    finish(r);
}

static void on_later(struct sl_check *check)
{
    add_meter(check->ctx);
    go_on(check->ctx);
}

/* Write what the usage page shows besides the meters. Ages are durations, so
 * that the browser's clock does not matter. */
static void write_claims(const struct reading *r, struct sl_writer *w)
{
    const struct sl_usage_claims *claims = r->claims;

    if (claims->name.len > 0)
        sl_json_member_str(w, "name", claims->name);
    if (claims->upgrade_url.len > 0)
        sl_json_member_str(w, "upgrade_url", claims->upgrade_url);
    write_time(w, "now", r->request.now);
    write_time(w, "expires", claims->expires);
    sl_writer_addf(w, ",\"expires_in_ms\":%" PRId64 ",\"history\":%s",
                   (claims->expires - r->request.now) / SL_MS,
                   r->has_database ? "true" : "false");
}

static int begin_answer(struct reading *r)
{
    struct sl_writer w = {.out = &r->call->text};

    if (r->csv) {
        write_csv(r, &w);
        return w.err;
    }
    sl_json_open(&w, '{');
    sl_json_member_str(&w, "scope", r->scope);
    sl_json_member_str(&w, "id", r->id);
    if (r->claims)
        write_claims(r, &w);
    sl_writer_add(&w, SL_STR(",\"meters\":["));
    return w.err;
}

static void on_read(struct sl_job *job)
{
    struct reading *r = job->ctx;

    r->rows = (const void *)job->text.bytes;
    r->row_count = job->text.len / sizeof(*r->rows);
    r->failed = true;
    if (job->err) {
        sl_http_field(r->call, SL_STR("Retry-After"), SL_STR("1"));
        sl_http_refuse(r->call, 503, "USAGE", "%s", job->diag.sentence);
    } else if (begin_answer(r)) {
        sl_http_no_memory(r->call);
    } else {
        r->failed = false;
    }
    go_on(r);
}

static void prepare(struct reading *r)
{
    sl_ns now = sl_http_now(r->call);
    sl_ns back = (sl_ns)r->days * SL_DAY;

    r->request = (struct sl_request){
        .keys = r->values,
        .key_scopes = r->scopes,
        .key_count = r->count,
        .trusted = true,
        .metered = true,
        .has_cost = true,
        .now = now,
    };
    for (unsigned i = 0; i < r->count; i++) {
        if (sl_str_eq(r->scopes[i], SL_STR("org")))
            r->request.org = r->values[i];
        if (sl_str_eq(r->scopes[i], SL_STR("user")))
            r->request.user = r->values[i];
    }
    sl_http_job_init(&r->job, r->call, SL_JOB_USAGE_READ, on_read, r);
    r->job.scope = r->scope;
    r->job.id = r->id;
    r->job.since = now > back ? now - back : 0;
}

/* Ask the database and then the limits. Returns false: the call is suspended.
 */
static bool start(struct reading *r)
{
    struct sl_usage_sink *meter = r->call->worker->engine_ctx->meter;

    prepare(r);
    sl_http_suspend(r->call);
    if (meter) {
        sl_usage_buffer_flush(meter);
        sl_registry_ask(sl_usage_buffer_registry(meter), &r->job);
    } else {
        on_read(&r->job);
    }
    return false;
}

static struct reading *begin_reading(struct sl_http_call *call)
{
    struct reading *r = sl_http_new(call, sizeof(*r));

    if (!r)
        return NULL;
    r->call = call;
    r->has_database = call->worker->engine_ctx->meter != NULL;
    return r;
}

void sl_http_usage_read(struct sl_http_call *call)
{
    struct reading *r;

    sl_http_field(call, SL_STR("Cache-Control"), SL_STR("no-store"));
    if (sl_str_eq(call->rest, SL_STR("export"))) {
        sl_http_usage_export(call);
        return;
    }
    r = begin_reading(call);
    if (!r)
        return;
    if (!read_path(r)) {
        refuse_path(call);
        return;
    }
    if (!read_query(r))
        return;
    if (r->csv && !sl_http_meter(call)) /* there is no history */
        return;
    (void)start(r);
}

bool sl_http_usage_of(struct sl_http_call *call,
                      const struct sl_usage_claims *claims)
{
    struct reading *r = begin_reading(call);

    if (!r)
        return true;
    r->claims = claims;
    r->scope = r->scopes[0] = SL_STR("org");
    r->id = r->values[0] = claims->org;
    r->count = 1;
    if (!read_query(r) || (r->csv && !sl_http_meter(call)))
        return true;
    return start(r);
}

/* ---- meters ---- */

/* Does the limit count up? Other kinds have their own remaining number. */
static bool counts_up(const struct sl_rule *rule)
{
    return rule->kind == SL_QUOTA || rule->kind == SL_LEVEL;
}

/* Returns the used units from the limit's answer. */
static uint64_t used_of(const struct sl_limit_view *shown)
{
    const struct sl_answer *a = &shown->answer;

    if (shown->uncapped)
        return shown->used;
    return a->capacity > a->remaining ? a->capacity - a->remaining : 0;
}

static const struct sl_limit_view *shown_of(const struct sl_check *check)
{
    const struct sl_decision *d = &check->decision;

    return d->shown_count > 0 && !d->shown[0].skipped ? &d->shown[0] : NULL;
}

void sl_meter_view_of(const struct sl_check *check, const struct sl_rule *rule,
                      sl_ns now, struct sl_meter_view *ret)
{
    const struct sl_limit_view *shown = shown_of(check);
    const struct sl_limit *numbers = shown ? shown->periods : &rule->strictest;

    *ret = (struct sl_meter_view){.rule = rule, .now = now, .end = SL_NS_NONE};
    if (shown && sl_rate_has_numbers(shown->form)) {
        ret->limited = true;
        ret->cap = rule->kind == SL_QUOTA || rule->kind == SL_LEVEL
                       ? numbers->count
                       : UINT64_MAX; /* a rate has no overage */
        ret->limit = counts_up(rule) ? numbers->count : numbers->capacity;
        ret->blind = check->decision.degraded;
        ret->left = ret->blind ? ret->limit : shown->answer.remaining;
        ret->used = ret->blind ? 0 : used_of(shown);
        if (!ret->blind && shown->answer.reset_in >= 0)
            ret->end = now + shown->answer.reset_in;
    }
    ret->zone = shown ? shown->zone_name : rule->zone_name;
    if (shown)
        ret->plan = shown->plan_name;
    ret->start = sl_rule_start(rule, numbers, now);
    ret->numbers = numbers;
    if (ret->end == SL_NS_NONE && rule->kind == SL_QUOTA && rule->limited &&
        numbers->calendar)
        ret->end = sl_calendar_period(&numbers->cal, now).end;
}

void sl_meter_view_add(struct sl_meter_view *view, uint64_t used,
                       uint64_t overage, uint64_t credited)
{
    view->overage = overage;
    view->credited = credited;
    view->from_database = !view->limited || view->blind;
    if (view->from_database)
        view->used = used;
}

/* Returns the time when the limit is used up at the present rate, or
 * SL_NS_NONE: not in this period. The limit lasts elapsed * limit / used from
 * the start. */
static sl_ns exhausted_at(const struct sl_meter_view *v)
{
    sl_ns elapsed = v->now - v->start;
    unsigned __int128 whole;

    if (!v->limited || v->rule->kind != SL_QUOTA || v->end == SL_NS_NONE)
        return SL_NS_NONE;
    if (v->used >= v->limit)
        return v->now;
    if (v->used == 0 || elapsed <= 0)
        return SL_NS_NONE;
    whole = (unsigned __int128)elapsed * v->limit / v->used;
    return whole < (unsigned __int128)(v->end - v->start)
               ? v->start + (sl_ns)whole
               : SL_NS_NONE;
}

static uint64_t left_of(const struct sl_meter_view *v)
{
    return counts_up(v->rule) ? sl_sub_floor(v->limit, v->used) : v->left;
}

static void write_exact(struct sl_writer *w, const struct sl_meter_view *v)
{
    if (!sl_rule_is_scaled(v->rule))
        return;
    sl_member_exact(w, v->rule);
    sl_member_uint(w, SL_MEMBER("used"), v->used);
    sl_member_uint_if(w, SL_MEMBER("limit"), v->limited, v->limit);
    sl_member_uint_if(w, SL_MEMBER("remaining"), v->limited, left_of(v));
    sl_member_uint(w, SL_MEMBER("overage"), v->overage);
    sl_member_uint(w, SL_MEMBER("credited"), v->credited);
    sl_member_uint(w, SL_MEMBER("credits"), v->credits);
    sl_json_close(w, '}');
}

static void write_numbers(struct sl_writer *w, const struct sl_meter_view *v)
{
    const struct sl_rule *rule = v->rule;
    uint64_t share = 0;

    if (v->limited && v->limit > 0)
        share = (uint64_t)((unsigned __int128)v->used * 100 / v->limit);
    sl_member_uint(w, SL_MEMBER("used"), sl_rule_up(rule, v->used));
    sl_member_uint_if(w, SL_MEMBER("limit"), v->limited,
                      sl_rule_down(rule, v->limit));
    sl_member_uint_if(w, SL_MEMBER("remaining"), v->limited,
                      sl_rule_down(rule, left_of(v)));
    sl_member_uint_if(w, SL_MEMBER("share"), v->limited, share);
    sl_member_uint(w, SL_MEMBER("overage"), sl_rule_up(rule, v->overage));
    sl_member_uint(w, SL_MEMBER("credited"), sl_rule_up(rule, v->credited));
    sl_member_uint(w, SL_MEMBER("credits"), sl_rule_down(rule, v->credits));
    write_exact(w, v);
}

/* Returns the start of the period. Only quotas, and usage from the database,
 * have one. */
static sl_ns period_of(const struct sl_meter_view *v)
{
    bool has = v->rule->kind == SL_QUOTA || v->from_database;

    return has && v->start > 0 ? v->start : SL_NS_NONE;
}

void sl_meter_view_write(const struct sl_meter_view *v, struct sl_writer *w)
{
    sl_json_member_str(w, "name", v->rule->name);
    sl_json_member_str(w, "kind", sl_str_c(sl_kind_name(v->rule->kind)));
    sl_json_member_str(w, "unit", v->rule->unit);
    sl_json_member_str(w, "plan", v->plan);
    sl_json_member_str(w, "scope", v->scope);
    sl_json_member_str(w, "id", v->id);
    write_numbers(w, v);
    write_time(w, "period_start", period_of(v));
    write_time(w, "reset", v->end);
    if (v->end < 0)
        sl_writer_add(w, SL_STR(",\"reset_ms\":null"));
    else
        sl_writer_addf(w, ",\"reset_ms\":%" PRId64, (v->end - v->now) / SL_MS);
    write_time(w, "exhausted", exhausted_at(v));
    if (v->blind)
        sl_writer_add(w, SL_STR(",\"degraded\":true"));
}

/* ---- /v1/credits/SCOPE/ID of the admin listener ----
 *
 * Credits are units of a quota in addition to the plan. Their amounts are in
 * the unit of the policy.
 *
 *   POST    {"limit": "minutes", "amount": 500, "expires": "2026-12-31",
 *            "note": "for the outage"}
 *   GET     list all credits
 *   DELETE  .../NUMBER: remove a credit; its unused units are lost
 */

#define LIKE "{\"limit\":\"minutes\",\"amount\":500,\"expires\":\"2026-12-31\"}"

/* Returns a job for the subject in the path, or NULL after a refusal. */
static struct sl_http_job *begin(struct sl_http_call *call,
                                 enum sl_job_kind kind,
                                 void (*answer)(struct sl_http_job *op),
                                 struct sl_str *tail)
{
    struct sl_http_job *op = sl_http_job_subject(call, kind, answer, tail);

    if (!op)
        return NULL;
    op->job.grant = sl_http_new(call, sizeof(*op->job.grant));
    if (!op->job.grant)
        return NULL;
    *op->job.grant = (struct sl_credit_grant){
        .scope = op->job.scope, .id = op->job.id, .expires = SL_NS_NONE};
    return op;
}

/* Returns the limit, a quota per the scope of the path; NULL after a refusal.
 */
static const struct sl_rule *find_quota(struct sl_json_body *r,
                                        const struct sl_credit_grant *grant)
{
    const struct sl_policy *policy = r->call->check.active->policy;
    int index = sl_policy_rule(policy, grant->limit);
    const struct sl_rule *rule = index < 0 ? NULL : &policy->rules[index];

    if (rule && rule->kind == SL_QUOTA && rule->per_count == 1 &&
        sl_str_eq(policy->identity.scope_names[rule->per[0]], grant->scope))
        return rule;
    sl_json_body_refuse(
        r, "BAD_REQUEST",
        rule ? "credits are for quotas with `per: %.*s` only; \"%.*s\" is not "
               "one"
             : "credits are for quotas with `per: %.*s` only; the policy has "
               "no limit \"%.*s\"",
        SL_STR_ARG(grant->scope), SL_STR_ARG(grant->limit));
    return NULL;
}

static bool read_amount(struct sl_json_body *r, struct sl_str member, void *at)
{
    uint64_t *amount = at;

    (void)member;
    return (sl_json_whole(&r->json, amount) && *amount >= 1 &&
            *amount <= SL_AMOUNT_MAX) ||
           sl_json_body_refuse(
               r, "BAD_REQUEST",
               "\"amount\" must be a whole number of at least 1; send " LIKE);
}

struct credit {
    struct sl_credit_grant grant;
    struct sl_str expires;
};

/* Of a limit of the policy. A call holds the policy until its job is done. */
static uint64_t scale_of_limit(const void *policy, struct sl_str limit)
{
    const struct sl_policy *p = policy;
    int index = sl_policy_rule(p, limit);

    return index < 0 ? 1 : sl_rule_scale(&p->rules[index]);
}

/* From the unit of the policy to the counted one. */
static bool scale_amount(struct sl_json_body *r, struct sl_credit_grant *grant)
{
    const struct sl_rule *rule = find_quota(r, grant);

    if (!rule)
        return false;
    if (grant->amount > SL_AMOUNT_MAX / sl_rule_scale(rule))
        return sl_json_body_refuse(
            r, "BAD_REQUEST",
            "\"amount\" is too large: the maximum of \"%.*s\" is %" PRIu64
            " %.*s",
            SL_STR_ARG(rule->name), SL_AMOUNT_MAX / sl_rule_scale(rule),
            SL_STR_ARG(rule->unit));
    grant->amount *= sl_rule_scale(rule);
    return true;
}

#define CREDIT(name) offsetof(struct credit, name)

static const struct sl_json_field credit_fields[] = {
    SL_JSON_FIELD("limit", CREDIT(grant.limit), sl_json_body_text),
    SL_JSON_FIELD("amount", CREDIT(grant.amount), read_amount),
    SL_JSON_FIELD("expires", CREDIT(expires), sl_json_body_text),
    SL_JSON_FIELD("note", CREDIT(grant.note), sl_json_body_text),
};

static bool read_credit(struct sl_reading *reading, struct credit *c)
{
    struct sl_json_body *r = &reading->body;

    if (r->json.text.len > SL_ADMIN_BODY)
        return SL_REFUSE(reading,
                         "the body has more than %zu bytes; send " LIKE,
                         SL_ADMIN_BODY);
    if (!sl_json_body_fields(r, credit_fields, SL_LEN(credit_fields),
                             ": a credit may only have limit, amount, expires "
                             "and note; send " LIKE,
                             c))
        return false;
    if (!sl_json_end(&r->json))
        return sl_json_body_broken(r);
    if (c->grant.amount == 0)
        return read_amount(r, SL_STR("amount"), &c->grant.amount);
    return (c->expires.len == 0 ||
            sl_reading_end(reading, "expires", c->expires,
                           &c->grant.expires)) &&
           sl_reading_text(reading, "note", c->grant.note,
                           SL_SUBJECT_RECORD_NOTE) &&
           scale_amount(r, &c->grant);
}

static void answer_grant(struct sl_http_job *op)
{
    sl_admin_answerf(op->call, "{\"number\":%" PRIu64 "}",
                     op->job.grant->number);
}

/* The row of the audit: {"limit":"minutes","amount":500} or {"number":7}. */
static const struct sl_audit_note *credit_note(struct sl_http_job *op,
                                               const char *what)
{
    const struct sl_credit_grant *grant = op->job.grant;
    struct sl_audit_note *note =
        sl_http_audit(op->call, what, grant->scope, grant->id);
    char text[SL_USAGE_NAME + 64];
    const char *copy;

    if (!note)
        return NULL;
    if (op->job.on)
        snprintf(text, sizeof(text),
                 "{\"limit\":\"%.*s\",\"amount\":%" PRIu64 "}",
                 SL_STR_ARG(grant->limit),
                 grant->amount / scale_of_limit(op->call->check.active->policy,
                                                grant->limit));
    else
        snprintf(text, sizeof(text), "{\"number\":%" PRIu64 "}", grant->number);
    copy = sl_arena_copy(&op->call->arena, sl_str_c(text));
    if (copy)
        *(op->job.on ? &note->after : &note->before) = sl_str_c(copy);
    if (grant->note.len > 0)
        note->note = grant->note;
    return note;
}

void sl_credit_give(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_http_job *op = begin(call, SL_JOB_GRANT, answer_grant, &tail);
    struct sl_reading reading = {
        .now = sl_http_now(call),
        .zone = sl_policy_date_zone(call->check.active->policy)};
    struct credit credit = {.expires = SL_STR("")};

    if (!op)
        return;
    credit.grant = *op->job.grant;
    sl_json_body_begin(&reading.body, call, "credit");
    if (!read_credit(&reading, &credit)) {
        sl_json_body_answer(&reading.body);
        return;
    }
    *op->job.grant = credit.grant;
    op->job.grant->by = sl_subject_by(call, SL_STR(""));
    op->job.on = 1;
    op->job.audit = credit_note(op, "credit");
    sl_http_job_send(op);
}

static void answer_revoke(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;

    if (op->job.result == SL_JOB_NOT_FOUND)
        sl_http_refuse(call, 404, "NO_SUCH_CREDIT", "there is no credit %.*s",
                       SL_STR_ARG(call->rest));
    else
        sl_admin_answerf(call, "{\"removed\":true}");
}

void sl_credit_revoke(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_http_job *op = begin(call, SL_JOB_GRANT, answer_revoke, &tail);

    if (!op)
        return;
    if (sl_parse_number(tail, &op->job.grant->number, NULL)) {
        sl_http_refuse(call, 404, "NO_SUCH_CREDIT",
                       "\"%.*s\" is not the number of a credit; GET "
                       "/v1/credits/SCOPE/ID lists them",
                       SL_STR_ARG(tail));
        return;
    }
    op->job.on = 0;
    op->job.audit = credit_note(op, "credit removed");
    sl_http_job_send(op);
}

void sl_credit_list(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_http_job *op =
        begin(call, SL_JOB_CREDITS, sl_http_job_rows, &tail);

    if (!op)
        return;
    op->rows = "credits";
    op->job.scale_of = scale_of_limit;
    op->job.scale_ctx = call->check.active->policy;
    sl_http_job_send(op);
}

/* ---- /v1/leases of the admin listener ----
 *
 * Quota leases are units that are reserved for daemons which share a usage
 * database.
 *
 *   GET     list the leases by node, up to LIST_MOST
 *   DELETE  .../NODE: release the leases of a daemon that is gone for good
 */

#define LIST_MOST 10000

void sl_lease_list(struct sl_http_call *call)
{
    struct sl_http_job *op =
        sl_http_job_new(call, SL_JOB_LEASES, sl_http_job_rows);

    if (!op)
        return;
    op->rows = "leases";
    op->job.most = LIST_MOST;
    op->job.name = sl_str_c(sl_admin_of(call)->node);
    sl_http_job_send(op);
}

static void answer_release(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;
    const struct sl_job *job = &op->job;

    if (job->result == SL_JOB_NOT_FOUND)
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
        sl_admin_answerf(call,
                         "{\"released\":true,\"leases\":%u,"
                         "\"units\":%" PRIu64 "}",
                         job->same, job->units);
}

void sl_lease_release(struct sl_http_call *call)
{
    struct sl_http_job *op =
        sl_http_job_new(call, SL_JOB_RELEASE, answer_release);

    if (!op)
        return;
    op->job.name = call->rest;
    op->job.audit =
        sl_http_audit(call, "leases released", SL_STR("node"), call->rest);
    op->job.since = op->job.now - SL_QUOTA_LEASE_ALIVE;
    sl_http_job_send(op);
}
