/* meters.c -- GET /v1/usage/SCOPE/ID: how much was used, of how much.
 *
 * What a limit has now is asked of the limit itself, by which requests are
 * decided; days, months and overage are those of the books. While the store is
 * away, what is used is theirs, too, and the meter says so. A daemon without
 * books has no history, and all limits of a subject are its meters.
 *
 *   ?days=30      how far back (0: no history)
 *   ?limit=NAME   this one alone
 *   ?format=csv   the days as CSV
 */
#include <inttypes.h>
#include <string.h>

#include "base/arith.h"
#include "base/parse.h"
#include "doors/http/admin/inner.h"
#include "doors/http/usage/usage.h"
#include "wire/json.h"

#define DAYS      30
#define DAYS_MOST 3660

struct reading {
    struct sl_http_call *call;
    struct sl_str scope, id;
    struct sl_str limit; /* "": all */
    bool csv;
    bool books; /* there are some */
    uint64_t days;
    struct sl_str values[SL_PER_MAX];
    struct sl_str scopes[SL_PER_MAX];
    unsigned count;
    struct sl_facts facts;
    struct sl_job job;
    const struct sl_usage_row *rows;
    size_t row_count;
    unsigned next; /* rule */
    unsigned shown;
    bool stepping;
    bool failed;
};

/* ---- the question ---- */

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

    if (!sl_admin_options(r->call, options, SL_LEN(options)))
        return false;
    r->days = DAYS;
    if (days.len > 0 &&
        (sl_parse_number(days, &r->days, NULL) || r->days > DAYS_MOST)) {
        sl_http_refuse(r->call, 400, "BAD_QUERY",
                       "\"days\" must be a number from 0 to %d, not \"%.*s\"",
                       DAYS_MOST, SL_STR_ARG(days));
        return false;
    }
    r->csv = sl_str_eq(format, SL_STR("csv"));
    if (format.len > 0 && !r->csv && !sl_str_eq(format, SL_STR("json"))) {
        sl_http_refuse(r->call, 400, "BAD_QUERY",
                       "\"format\" must be json or csv, not \"%.*s\"",
                       SL_STR_ARG(format));
        return false;
    }
    return true;
}

/* ---- the answer ---- */

static void finish(struct reading *r)
{
    struct sl_http_call *call = r->call;
    int err = 0;

    if (!r->failed && !r->csv)
        err = sl_buf_add(&call->text, SL_STR("]}"));
    if (err)
        sl_http_no_memory(call);
    else if (!r->failed)
        sl_http_answer(call, 200,
                       r->csv ? SL_STR("text/csv; charset=utf-8")
                              : SL_STR("application/json"),
                       sl_buf_str(&call->text));
    sl_job_clear(&r->job);
    sl_http_finish(call);
}

static const struct sl_usage_row *find_counter(const struct reading *r,
                                               struct sl_str limit, sl_ns start)
{
    for (size_t i = 0; i < r->row_count; i++)
        if (r->rows[i].kind == SL_ROW_COUNTER && r->rows[i].when == start &&
            sl_str_eq(sl_str_c(r->rows[i].limit), limit))
            return &r->rows[i];
    return NULL;
}

static uint64_t sum_credits(const struct reading *r, struct sl_str limit)
{
    uint64_t all = 0;

    for (size_t i = 0; i < r->row_count; i++)
        if (r->rows[i].kind == SL_ROW_CREDIT &&
            sl_str_eq(sl_str_c(r->rows[i].limit), limit))
            all = sl_add_sat(all, r->rows[i].used);
    return all;
}

static int write_meter(struct reading *r, const struct sl_rule *rule)
{
    struct sl_buf *out = &r->call->text;
    const struct sl_usage_row *counter;
    struct sl_view view;
    int err;

    sl_view_of(&r->call->ask, rule, r->facts.now, &view);
    view.scope = r->scope;
    view.id = r->id;
    counter = find_counter(r, rule->name, view.start);
    if (counter) {
        view.overage = counter->overage;
        view.credited = counter->credited;
        view.from_books = !view.limited || view.blind;
        if (view.from_books)
            view.used = counter->used;
    }
    view.credits = sum_credits(r, rule->name);
    err = sl_buf_addf(out, "%s{", r->shown++ > 0 ? "," : "");
    if (!err)
        err = sl_view_write(&view, out);
    if (!err && r->days > 0)
        err = sl_history_write(r->rows, r->row_count, rule->name, out);
    return err ? err : sl_buf_add(out, SL_STR("}"));
}

/* Is the limit kept per just these scopes, and one that is metered? */
static bool is_wanted(const struct reading *r, const struct sl_rule *rule)
{
    const struct sl_policy *policy = r->call->ask.live->policy;
    bool metered =
        !r->books || rule->kind == SL_QUOTA || rule->kind == SL_LEVEL;

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

static void step(struct reading *r);

static void on_asked(struct sl_ask *ask)
{
    struct reading *r = ask->ctx;
    const struct sl_rule *rule = &ask->live->policy->rules[r->next++];

    if (ask->err || write_meter(r, rule)) {
        r->failed = true;
        sl_http_no_memory(r->call);
    }
    if (!r->stepping)
        step(r);
}

static void step(struct reading *r)
{
    struct sl_http_call *call = r->call;
    const struct sl_policy *policy = call->ask.live->policy;

    r->stepping = true;
    while (!r->csv && r->next < policy->rule_count && !r->failed) {
        const struct sl_rule *rule = &policy->rules[r->next];

        if (!is_wanted(r, rule)) {
            r->next++;
            continue;
        }
        r->facts.limit = rule->name;
        sl_http_ask(call, &r->facts, false, on_asked, r);
        if (call->ask.busy)
            break;
    }
    r->stepping = false;
    if (!call->ask.busy)
        finish(r);
}

static int begin_answer(struct reading *r)
{
    struct sl_buf *out = &r->call->text;
    int err;

    if (r->csv)
        return sl_history_csv(r->rows, r->row_count, out);
    err = sl_buf_add(out, SL_STR("{\"scope\":"));
    if (!err)
        err = sl_json_string(out, r->scope);
    if (!err)
        err = sl_buf_add(out, SL_STR(",\"id\":"));
    if (!err)
        err = sl_json_string(out, r->id);
    return err ? err : sl_buf_add(out, SL_STR(",\"meters\":["));
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
    step(r);
}

static void prepare(struct reading *r)
{
    sl_ns now = sl_http_now(r->call);
    sl_ns back = (sl_ns)r->days * SL_DAY;

    r->facts = (struct sl_facts){
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
            r->facts.org = r->values[i];
        if (sl_str_eq(r->scopes[i], SL_STR("user")))
            r->facts.user = r->values[i];
    }
    r->job.loop = r->call->worker->loop;
    r->job.scope = r->scope;
    r->job.id = r->id;
    r->job.since = now > back ? now - back : 0;
    r->job.now = now;
    r->job.done = on_read;
    r->job.ctx = r;
}

/* What the limits say, and nothing else. */
static void read_without(struct reading *r)
{
    if (r->csv) {
        (void)sl_http_meter(r->call); /* which says that there is no history */
        return;
    }
    sl_http_later(r->call);
    on_read(&r->job);
}

void sl_http_usage_read(struct sl_http_call *call)
{
    struct sl_meter *meter = call->worker->station->meter;
    struct reading *r;

    r = sl_arena_take(&call->arena, sizeof(*r));
    if (!r) {
        sl_http_no_memory(call);
        return;
    }
    memset(r, 0, sizeof(*r));
    r->call = call;
    if (!read_path(r)) {
        refuse_path(call);
        return;
    }
    if (!read_query(r))
        return;
    sl_job_init(&r->job, SL_JOB_METERS, call->worker->alloc);
    prepare(r);
    r->books = meter != NULL;
    if (!meter) {
        read_without(r);
        return;
    }
    sl_meter_flush(meter);
    sl_http_later(call);
    sl_registry_ask(sl_bookkeeper_registry(meter), &r->job);
}
