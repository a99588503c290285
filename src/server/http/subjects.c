/* subjects.c -- the handlers of /v1/subjects, and calls that wait for the
 * registry. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "server/http/http_int.h"
#include "wire/pb.h"

/* ---- calls that wait for the registry ----
 *
 * The answer comes on the same loop, some turns later. A failure of the
 * registry is 503.
 */

void sl_http_job_refuse(struct sl_http_call *call, const struct sl_job *job,
                        const char *code, const char *nothing,
                        const char *unknown)
{
    char code_unknown[32];

    snprintf(code_unknown, sizeof(code_unknown), "%s_UNKNOWN", code);
    sl_http_field(call, SL_STR("Retry-After"), SL_STR("1"));
    if (job->uncertain_txn == 0)
        sl_http_refuse(call, 503,
                       job->err == SLUICE_ENOMEM ? "NO_MEMORY" : code,
                       "nothing was %s: %s", nothing, job->diag.sentence);
    else
        sl_http_refuse(call, 503, code_unknown,
                       "it is not known whether %s: %s", unknown,
                       job->diag.sentence);
}

static void on_done(struct sl_job *job)
{
    struct sl_http_job *op = job->ctx;
    struct sl_http_call *call = op->call;

    if (job->err)
        sl_http_job_refuse(call, job, "REGISTRY", "changed",
                           "the change was made; check before you retry");
    else
        op->answer(op);
    sl_job_clear(job);
    sl_http_resume_finish(call);
}

void sl_http_job_init(struct sl_job *job, struct sl_http_call *call,
                      enum sl_job_kind kind, void (*done)(struct sl_job *job),
                      void *ctx)
{
    sl_job_init(job, kind, call->worker->alloc);
    job->loop = call->worker->loop;
    job->now = sl_http_now(call);
    job->done = done;
    job->ctx = ctx;
}

struct sl_http_job *sl_http_job_new(struct sl_http_call *call,
                                    enum sl_job_kind kind,
                                    void (*answer)(struct sl_http_job *op))
{
    struct sl_http_job *op;

    if (!sl_http_registry(call)) {
        sl_http_refuse(
            call, 501, "NO_REGISTRY",
            "this daemon has no registry (subjects and usage); start it "
            "with --usage sqlite:PATH");
        return NULL;
    }
    op = sl_http_new(call, sizeof(*op));
    if (!op)
        return NULL;
    sl_http_job_init(&op->job, call, kind, on_done, op);
    op->call = call;
    op->answer = answer;
    return op;
}

void sl_http_job_send(struct sl_http_job *op)
{
    sl_http_suspend(op->call);
    sl_registry_ask(sl_http_registry(op->call), &op->job);
}

void sl_http_job_rows(struct sl_http_job *op)
{
    struct sl_writer w = {.out = &op->call->text};

    sl_writer_addf(&w, "{\"%s\":[", op->rows);
    sl_writer_add(&w, sl_buf_str(&op->job.text));
    sl_writer_add(&w,
                  op->job.cut ? SL_STR("],\"truncated\":true}") : SL_STR("]}"));
    sl_admin_answer_json(op->call, w.err);
}

/* ---- names ---- */

/* Returns the decoded value of a parameter of the query, or an empty slice. */
static struct sl_str query_value(struct sl_http_call *call, const char *name)
{
    struct sl_str rest = call->query, value;

    while (rest.len > 0) {
        struct sl_str pair = sl_admin_cut(&rest, '&');

        if (sl_str_eq(sl_admin_cut(&pair, '='), sl_str_c(name)) &&
            !sl_admin_decode(&call->arena, pair, true, &value))
            return value;
    }
    return (struct sl_str){"", 0};
}

static bool is_forced(struct sl_http_call *call)
{
    return sl_str_eq(query_value(call, "force"), SL_STR("true"));
}

static bool is_scope(struct sl_str text)
{
    return sl_str_eq(text, SL_STR("user")) || sl_str_eq(text, SL_STR("org"));
}

/* Usage is recorded under ids that cannot be registered, too: with control
 * characters, or longer. */
static bool has_usage_id(struct sl_str id)
{
    return id.len <= SL_USAGE_ID && sl_pb_is_utf8(id);
}

/* Read "user/ann%40x" from the path. `tail` is the rest after another slash.
 * Returns false after a refusal. */
static bool read_path(struct sl_http_call *call, bool erase,
                      struct sl_str *scope, struct sl_str *id,
                      struct sl_str *tail)
{
    const struct sl_str base = {call->path.at, call->path.len - call->rest.len};
    struct sl_reading reading;
    struct sl_str raw;

    sl_reading_init(&reading, &call->arena, 0);
    *tail = call->rest;
    *scope = sl_admin_cut(tail, '/');
    raw = sl_admin_cut(tail, '/');
    if (!is_scope(*scope))
        return sl_http_refuse(
            call, 404, "NOT_FOUND",
            "unknown scope \"%.*s\"; write %.*suser/ID or %.*sorg/ID",
            SL_STR_ARG(*scope), SL_STR_ARG(base), SL_STR_ARG(base));
    if (!sl_admin_decode(&call->arena, raw, false, id) && id->len > 0 &&
        (erase ? has_usage_id(*id)
               : sl_reading_text(&reading, "id", *id, SL_SUBJECT_RECORD_ID)))
        return true;
    return sl_http_refuse(
        call, 400, "BAD_REQUEST",
        "\"%.*s\" is not a valid id; an id has up to %d bytes of UTF-8 "
        "without control characters; write characters other than letters, "
        "digits, - . _ and @ as %%XX",
        SL_STR_ARG(raw), SL_SUBJECT_RECORD_ID);
}

struct sl_http_job *sl_http_job_subject(struct sl_http_call *call,
                                        enum sl_job_kind kind,
                                        void (*answer)(struct sl_http_job *op),
                                        struct sl_str *tail)
{
    struct sl_http_job *op = sl_http_job_new(call, kind, answer);

    return op && read_path(call, kind == SL_JOB_ERASE, &op->job.scope,
                           &op->job.id, tail)
               ? op
               : NULL;
}

struct sl_str sl_subject_by(struct sl_http_call *call, struct sl_str said)
{
    struct sl_reading reading;
    unsigned count = 0;
    struct sl_str by = sl_str_trim(
        sl_http1_field(call->request, SL_STR("x-sluice-by"), &count));

    sl_reading_init(&reading, &call->arena, 0);
    if (count == 1 && by.len > 0 &&
        sl_reading_text(&reading, "X-Sluice-By", by, SL_SUBJECT_RECORD_BY))
        return by;
    return said.len > 0 ? said : SL_STR("admin");
}

/* Set the author of a change and of its overrides. */
static void sign(struct sl_http_call *call, struct sl_subject_change *change)
{
    struct sl_subject_override *rates =
        (struct sl_subject_override *)change->rates;

    change->by = sl_subject_by(call, change->by);
    for (unsigned i = 0; i < change->rate_count; i++)
        rates[i].by = change->by;
}

/* ---- a subject as JSON, with warnings ----
 *
 * A new policy can drop the plan or the limit of a stored override, or change
 * its kind or period. The stored values stay, because a later policy may have
 * them again. Warnings name them.
 */

static void warn(struct sl_writer *w, const char *fmt, struct sl_str name,
                 const char *more)
{
    char text[512];

    snprintf(text, sizeof(text), fmt, SL_STR_ARG(name), more);
    sl_json_str(w, sl_str_c(text));
}

static void warn_of_rate(struct sl_writer *w,
                         const struct sl_subject_override *own,
                         const struct sl_policy *policy)
{
    int index = sl_policy_rule(policy, own->limit);
    struct sl_plan_limit limit;
    struct sl_diag why = {0};

    if (index < 0)
        warn(w, "the policy has no limit \"%.*s\": its override is ignored%s",
             own->limit, "");
    else if (sl_rule_rate(&policy->rules[index], own->rate, &limit, &why))
        warn(w, "the override of %.*s is ignored: %s", own->limit,
             why.sentence);
}

static void write_subject(const struct sl_subject_record *entry,
                          const struct sl_policy *policy, sl_ns now,
                          struct sl_writer *w)
{
    const struct sl_subject *s = &entry->subject;
    struct sl_subject_draft draft;

    sl_subject_draft_of(entry, &draft);
    sl_json_open(w, '{');
    sl_subject_draft_json(&draft, now, false, w);
    sl_writer_add(w, SL_STR(",\"warnings\":["));
    if (s->plan.len > 0 && sl_policy_plan(policy, s->plan) < 0)
        warn(w, "the policy has no plan \"%.*s\": it counts as unknown%s",
             s->plan, "");
    for (unsigned i = 0; i < s->rate_count; i++)
        warn_of_rate(w, &s->rates[i], policy);
    sl_writer_add(w, SL_STR("]}"));
}

/* ---- events ----
 *
 *   subject    a subject was written or removed: its name, plan and author
 *   subjects   an import: the numbers
 */

/* Publish a write, unless it changed nothing. A subject that does not fit into
 * an event is published without its plan and overrides. A name that does not
 * fit is left out, too: then the event has `"cut":true`. */
static void publish(struct sl_http_job *op)
{
    struct sl_events *events = sl_admin_of(op->call)->events;
    const struct sl_subject_record *entry = op->job.entries;
    const struct sl_subject_change *change = &op->change;
    struct sl_buf members;
    struct sl_writer w = {.out = &members};
    size_t len;
    int err;

    if (!events || op->job.same > 0)
        return;
    sl_buf_init(&members, SL_EVENT_BYTES, op->call->worker->alloc);
    sl_json_member_str(&w, "scope", change->scope);
    sl_json_member_str(&w, "id", change->id);
    sl_json_member_str(&w, "what", entry ? SL_STR("set") : SL_STR("removed"));
    sl_json_member_str(&w, "by", change->by);
    err = w.err;
    len = members.len;
    if (entry) {
        const struct sl_subject *s = &entry->subject;

        sl_json_key(&w, SL_STR("plan"));
        sl_json_str(&w, s->plan);
        sl_writer_add(&w, SL_STR(",\"overrides\":{"));
        for (unsigned i = 0; i < s->rate_count; i++) {
            sl_json_key(&w, s->rates[i].limit);
            sl_json_str(&w, s->rates[i].rate);
        }
        sl_json_close(&w, '}');
    }
    if (w.err)
        members.len = len;
    sl_events_publish(events, "subject", op->job.now,
                      err ? SL_STR("\"cut\":true") : sl_buf_str(&members));
    sl_buf_done(&members);
}

/* ---- /v1/subjects/SCOPE/ID: one subject, and its history ----
 *
 * PUT replaces the subject, PATCH changes members; both create a new subject.
 * DELETE removes it; with ?erase=true everything that is stored about it.
 * The ETag is the revision. If-Match writes only this revision, If-None-Match:
 * * only a new subject.
 */

#define AUDIT_MOST 200
#define BODY_MOST  ((size_t)64 << 10)

/* ---- answers ---- */

static void tag(struct sl_http_call *call, uint64_t revision)
{
    char *text = sl_arena_take(&call->arena, 32);
    int len;

    if (!text)
        return;
    len = snprintf(text, 32, "\"%" PRIu64 "\"", revision);
    sl_http_field(call, SL_STR("ETag"), (struct sl_str){text, (size_t)len});
}

static void answer_subject(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;
    const struct sl_subject_record *entry = op->job.entries;
    struct sl_writer w = {.out = &call->text};

    switch (op->job.result) {
    case SL_JOB_DONE:
        if (op->job.kind == SL_JOB_WRITE)
            publish(op);
        if (entry) {
            tag(call, entry->revision);
            write_subject(entry, call->check.active->policy, op->job.now, &w);
        } else {
            sl_writer_add(&w, SL_STR("{\"removed\":true}"));
        }
        sl_admin_answer_json(call, w.err);
        break;
    case SL_JOB_NOT_FOUND:
        sl_http_refuse(call, 404, "NO_SUCH_SUBJECT", "%.*s is not registered",
                       SL_STR_ARG(call->rest));
        break;
    case SL_JOB_CHANGED:
        sl_http_refuse(call, 412, "CHANGED_MEANWHILE",
                       "the subject has another revision than the one in the "
                       "request; read it again");
        break;
    case SL_JOB_CONFLICT:
        sl_http_refuse(call, 409, "CONFLICT", "%s", op->job.diag.sentence);
        break;
    }
}

/* ---- conditions ---- */

static bool refuse_condition(struct sl_http_call *call, const char *name,
                             struct sl_str value)
{
    return sl_http_refuse(
        call, 400, "BAD_REQUEST",
        "%s: %.*s is not a revision of a subject; send the ETag, as "
        "in \"12\", or If-None-Match: *",
        name, SL_STR_ARG(value));
}

/* Read If-Match: "12" and If-None-Match: *. Returns false after a refusal. */
static bool read_conditions(struct sl_http_call *call,
                            struct sl_subject_change *change)
{
    unsigned match = 0, none = 0;
    struct sl_str is =
        sl_http1_field(call->request, SL_STR("if-match"), &match);
    struct sl_str is_not =
        sl_http1_field(call->request, SL_STR("if-none-match"), &none);

    change->must_match = match + none > 0;
    if (none > 0 && !sl_str_eq(is_not, SL_STR("*")))
        return refuse_condition(call, "If-None-Match", is_not);
    if (match == 0)
        return true;
    if (match > 1 || is.len < 3 || is.at[0] != '"' ||
        is.at[is.len - 1] != '"' ||
        sl_parse_number((struct sl_str){is.at + 1, is.len - 2}, &change->match,
                        NULL))
        return refuse_condition(call, "If-Match", is);
    return true;
}

/* ---- handlers ---- */

static bool check_tail(struct sl_http_call *call, struct sl_str tail)
{
    return tail.len == 0 ||
           sl_http_refuse(call, 404, "NOT_FOUND",
                          "unknown path %.*s; write a slash in an id as %%2F",
                          SL_STR_ARG(call->path));
}

static unsigned number_of(struct sl_http_call *call, const char *name,
                          unsigned preset, unsigned most)
{
    uint64_t number = preset;

    if (sl_parse_number(query_value(call, name), &number, NULL))
        number = preset;
    return number < most ? (unsigned)number : most;
}

void sl_subject_get(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_http_job *op =
        sl_http_job_subject(call, SL_JOB_FIND, answer_subject, &tail);
    uint64_t before = 0;

    if (!op)
        return;
    if (sl_str_eq(tail, SL_STR("audit"))) {
        op->job.kind = SL_JOB_AUDIT;
        op->answer = sl_http_job_rows;
        op->rows = "audit";
        op->job.most = number_of(call, "limit", 50, AUDIT_MOST);
        if (!sl_parse_number(query_value(call, "before"), &before, NULL))
            op->job.before = before;
    } else if (!check_tail(call, tail)) {
        return;
    }
    sl_http_job_send(op);
}

static bool read_body(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;
    struct sl_reading reading;

    if (call->request->body.len > BODY_MOST)
        return sl_http_refuse(call, 413, "TOO_LARGE",
                              "a subject can have at most %zu bytes",
                              BODY_MOST);
    sl_reading_init(&reading, &call->arena, op->job.now);
    reading.zone = sl_policy_date_zone(call->check.active->policy);
    op->change.id = op->job.id;
    if (sl_subject_change_read_json(&reading, call->request->body,
                                    &op->change) &&
        sl_subject_change_check(&reading, &op->change,
                                call->check.active->policy, is_forced(call)))
        return true;
    if (reading.body.json.no_memory)
        return sl_http_no_memory(call);
    return sl_http_refuse(call, 400, "BAD_REQUEST", "%s",
                          reading.body.sentence);
}

static void answer_erased(struct sl_http_job *op)
{
    sl_admin_answerf(op->call, "{\"erased\":true}");
}

/* DELETE with erase=true. The audit gets a row without the id. */
static void erase(struct sl_http_call *call)
{
    const struct sl_admin *admin = sl_admin_of(call);
    struct sl_usage_sink *meter = call->worker->engine_ctx->meter;
    struct sl_str tail;
    struct sl_http_job *op =
        sl_http_job_subject(call, SL_JOB_ERASE, answer_erased, &tail);

    if (!op || !check_tail(call, tail))
        return;
    op->job.audit = sl_http_audit(call, "erase", op->job.scope, SL_STR(""));
    if (admin->forget_denials)
        admin->forget_denials(admin->ctx, op->job.scope, op->job.id);
    if (meter)
        sl_usage_buffer_flush(meter);
    sl_http_job_send(op);
}

void sl_subject_change(struct sl_http_call *call)
{
    struct sl_str method = call->request->method;
    enum sl_subject_change_kind kind =
        sl_str_eq(method, SL_STR("PUT"))     ? SL_CHANGE_PUT
        : sl_str_eq(method, SL_STR("PATCH")) ? SL_CHANGE_PATCH
                                             : SL_CHANGE_REMOVE;
    struct sl_str tail, how = query_value(call, "erase");
    struct sl_http_job *op;

    if (kind == SL_CHANGE_REMOVE && sl_str_eq(how, SL_STR("true"))) {
        erase(call);
        return;
    }
    op = sl_http_job_subject(call, SL_JOB_WRITE, answer_subject, &tail);
    if (!op || !check_tail(call, tail) ||
        (kind != SL_CHANGE_REMOVE && !read_body(op)) ||
        !read_conditions(call, &op->change))
        return;
    sign(call, &op->change);
    op->change.kind = kind;
    op->change.scope = op->job.scope;
    op->change.id = op->job.id;
    op->job.changes = &op->change;
    op->job.change_count = 1;
    op->job.audit = sl_http_audit(call, "subject", op->job.scope, op->job.id);
    sl_http_job_send(op);
}

/* ---- GET /v1/subjects?scope=&prefix=&limit=&after=: page by page ----
 *
 * `next` of a page is `after` of the following page. It is the last subject of
 * the page, so that concurrent writes neither hide nor repeat a subject.
 */

#define PAGE 100

/* Write the name of the last subject, "user/ann", or null. */
static void write_next(struct sl_writer *w,
                       const struct sl_subject_record *last)
{
    if (!last) {
        sl_json_nothing(w);
        return;
    }
    sl_writer_add(w, SL_STR("\""));
    if (!w->err)
        w->err = sl_json_inside(w->out, last->scope);
    sl_writer_add(w, SL_STR("/"));
    if (!w->err)
        w->err = sl_json_inside(w->out, last->subject.id);
    sl_writer_add(w, SL_STR("\""));
}

static void answer_list(struct sl_http_job *op)
{
    struct sl_http_call *call = op->call;
    const struct sl_subject_record *last = NULL;
    struct sl_writer w = {.out = &call->text};
    unsigned count = 0;

    sl_writer_add(&w, SL_STR("{\"subjects\":["));
    for (const struct sl_subject_record *e = op->job.entries; e; e = e->next) {
        write_subject(e, call->check.active->policy, op->job.now, &w);
        last = e;
        count++;
    }
    sl_writer_add(&w, SL_STR("],\"next\":"));
    write_next(&w, count == op->job.most ? last : NULL);
    sl_json_close(&w, '}');
    sl_admin_answer_json(call, w.err);
}

/* "user/ann" */
static bool read_after(struct sl_str after, struct sl_job *job)
{
    const char *slash = after.len ? memchr(after.at, '/', after.len) : NULL;

    if (after.len == 0)
        return true;
    if (!slash)
        return false;
    job->after_scope = (struct sl_str){after.at, (size_t)(slash - after.at)};
    job->id = sl_str_from(after, job->after_scope.len + 1);
    return is_scope(job->after_scope);
}

static bool read_limit(struct sl_str text, unsigned *ret)
{
    uint64_t number;

    if (text.len == 0)
        return true;
    if (sl_parse_number(text, &number, NULL) || number == 0 ||
        number > SL_LIST_MOST)
        return false;
    *ret = (unsigned)number;
    return true;
}

void sl_subject_list(struct sl_http_call *call)
{
    struct sl_http_job *op = sl_http_job_new(call, SL_JOB_LIST, answer_list);
    struct sl_job *job;

    if (!op)
        return;
    job = &op->job;
    job->most = PAGE;
    job->scope = query_value(call, "scope");
    job->prefix = query_value(call, "prefix");
    if (job->scope.len > 0 && !is_scope(job->scope))
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "scope must be user or org, not \"%.*s\"",
                       SL_STR_ARG(job->scope));
    else if (!read_limit(query_value(call, "limit"), &job->most))
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "limit must be a number from 1 to %d", SL_LIST_MOST);
    else if (!read_after(query_value(call, "after"), job))
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "after must be the `next` of a page, like user/ann");
    else
        sl_http_job_send(op);
}

/* ---- POST /v1/subjects: import ----
 *
 *     read a batch --> registry --> written? --> the next batch ... --> done
 *
 * The body is JSON lines or CSV. A batch is written as a whole or not at all. A
 * batch is read after the batch before it is written, so that a long body needs
 * no more memory. A line is a PATCH: other members keep their values. When a
 * line is refused, nothing of its batch is written. The answer has the `line`,
 * and `imported` is the number of subjects in the batches before it.
 */

#define LINE_MOST  ((size_t)64 << 10)
#define ARENA_MOST ((size_t)64 << 20)

struct import {
    struct sl_http_job *op;
    struct sl_http_call *call;
    bool is_csv, force;
    struct sl_csv csv;
    struct sl_csv_head head;
    struct sl_arena arena; /* for one batch */
    struct sl_str rest;    /* unread JSON lines */
    unsigned line;         /* the last line read */
    unsigned imported, same, failed_line;
    struct sl_subject_change changes[SL_CHANGES_MOST];
    unsigned count;
};

/* Refuse with the line and the number of imported subjects. */
static bool refuse(struct import *import, int status, const char *code,
                   const char *sentence)
{
    struct sl_http_call *call = import->call;

    sl_http_refuse(call, status, code, "line %u: %s", import->failed_line,
                   sentence);
    if (call->status != status)
        return false; /* no memory */
    call->text.len--; /* the brace */
    if (sl_buf_addf(&call->text, ",\"line\":%u,\"imported\":%u}",
                    import->failed_line, import->imported))
        return sl_http_no_memory(call);
    call->body = sl_buf_str(&call->text);
    return false;
}

/* ---- reading ---- */

static bool next_csv(struct import *import, struct sl_reading *reading,
                     struct sl_subject_change *change, bool *ret_more)
{
    struct sl_str *cells = sl_arena_take(
        &import->arena, (import->head.count + 1) * sizeof(*cells));
    unsigned count = 0;

    *ret_more = false;
    if (!cells)
        return sl_json_body_no_memory(&reading->body);
    *ret_more = sl_csv_next(&import->csv, cells, import->head.count, &count);
    import->line = import->csv.line;
    if (import->csv.why)
        return SL_REFUSE(reading, "%s", import->csv.why);
    return !*ret_more || sl_subject_change_read_csv(reading, &import->head,
                                                    cells, count, change);
}

static bool next_json(struct import *import, struct sl_reading *reading,
                      struct sl_subject_change *change, bool *ret_more)
{
    struct sl_str line;

    do {
        *ret_more = import->rest.len > 0;
        if (!*ret_more)
            return true;
        line = sl_admin_cut(&import->rest, '\n');
        import->line++;
        if (line.len > 0 && line.at[line.len - 1] == '\r')
            line.len--;
        line = sl_str_trim(line);
    } while (line.len == 0);
    if (line.len > LINE_MOST)
        return SL_REFUSE(reading, "the line has %zu bytes, more than %zu",
                         line.len, LINE_MOST);
    return sl_subject_change_read_json(reading, line, change);
}

/* Read the next change. Returns false if the line is refused. */
static bool next(struct import *import, struct sl_reading *reading,
                 bool *ret_more)
{
    struct sl_subject_change *change = &import->changes[import->count];

    memset(change, 0, sizeof(*change));
    if (!(import->is_csv ? next_csv(import, reading, change, ret_more)
                         : next_json(import, reading, change, ret_more)))
        return false;
    if (!*ret_more)
        return true;
    change->kind = SL_CHANGE_PATCH;
    change->line = import->line;
    sign(import->call, change);
    return sl_subject_change_check(
        reading, change, import->call->check.active->policy, import->force);
}

/* Read the lines of a batch. Returns false after a refusal. */
static bool read_batch(struct import *import)
{
    struct sl_reading reading;
    bool more = true;

    sl_reading_init(&reading, &import->arena, import->op->job.now);
    reading.zone = sl_policy_date_zone(import->call->check.active->policy);
    reading.named = true;
    sl_arena_reset(&import->arena);
    import->csv.arena = &import->arena;
    import->count = 0;
    while (import->count < SL_CHANGES_MOST) {
        if (!next(import, &reading, &more)) {
            import->failed_line = import->line;
            return refuse(import, 400, "BAD_LINE", reading.body.sentence);
        }
        if (!more)
            break;
        import->count++;
    }
    return true;
}

/* ---- batch by batch ---- */

static void on_written(struct sl_job *job);

/* Send the next batch to the registry. Returns false if the call is answered
 * instead. */
static bool go_on(struct import *import)
{
    struct sl_job *job = &import->op->job;

    if (!read_batch(import))
        return false;
    if (import->count == 0) {
        sl_admin_answerf(
            import->call, "{\"imported\":%u,\"changed\":%u,\"unchanged\":%u}",
            import->imported, import->imported - import->same, import->same);
        return false;
    }
    job->changes = import->changes;
    job->change_count = import->count;
    job->done = on_written;
    job->ctx = import;
    job->result = SL_JOB_DONE;
    job->same = 0;
    sl_registry_ask(sl_admin_of(import->call)->registry, job);
    return true;
}

/* Publish the numbers, unless nothing was changed. */
static void publish_import(const struct import *import)
{
    struct sl_http_call *call = import->call;
    char members[64];
    int len =
        snprintf(members, sizeof(members), "\"imported\":%u,\"changed\":%u",
                 import->imported, import->imported - import->same);

    if (import->imported > import->same)
        sl_events_publish(sl_admin_of(call)->events, "subjects",
                          sl_http_now(call),
                          (struct sl_str){members, (size_t)len});
}

static void on_written(struct sl_job *job)
{
    struct import *import = job->ctx;
    struct sl_http_call *call = import->call;

    sl_subject_records_free(job->entries);
    job->entries = NULL;
    import->failed_line = import->changes[job->failed].line;
    if (job->err) {
        import->failed_line = import->changes[0].line;
        refuse(import, 503, "REGISTRY", job->diag.sentence);
    } else if (job->result != SL_JOB_DONE) {
        refuse(import, 409, "CONFLICT", job->diag.sentence);
    } else {
        import->imported += import->count;
        import->same += job->same;
        if (go_on(import))
            return;
    }
    publish_import(import);
    sl_job_clear(job);
    sl_arena_done(&import->arena);
    sl_http_resume_finish(call);
}

/* ---- the import ---- */

/* Choose CSV or JSON by the content type, or by the first byte. */
static bool choose_form(struct import *import)
{
    struct sl_str type =
        sl_http1_field(import->call->request, SL_STR("content-type"), NULL);
    struct sl_str body = import->call->request->body;
    static const char *const json[] = {"application/x-ndjson",
                                       "application/jsonl"};

    type = sl_str_trim(sl_admin_cut(&type, ';'));
    for (size_t i = 0; i < SL_LEN(json); i++)
        if (sl_str_eq_nocase(type, sl_str_c(json[i])))
            return true;
    import->is_csv = sl_str_eq_nocase(type, SL_STR("text/csv")) ||
                     (body.len > 0 && body.at[0] != '{');
    return sl_str_eq_nocase(type, SL_STR("text/csv")) || type.len == 0 ||
           !import->is_csv;
}

static bool read_head(struct import *import)
{
    struct sl_reading reading;

    if (!import->is_csv)
        return true;
    sl_reading_init(&reading, &import->call->arena, 0);
    sl_csv_begin(&import->csv, import->call->request->body,
                 &import->call->arena);
    if (sl_csv_head_read(&reading, &import->csv, &import->head))
        return true;
    import->failed_line = 1;
    return refuse(import, 400, "BAD_LINE", reading.body.sentence);
}

void sl_subject_import(struct sl_http_call *call)
{
    struct sl_http_job *op = sl_http_job_new(call, SL_JOB_WRITE, NULL);
    struct import *import = op ? sl_http_new(call, sizeof(*import)) : NULL;

    if (!import)
        return;
    import->op = op;
    import->call = call;
    import->rest = call->request->body;
    import->force = is_forced(call);
    op->job.audit = sl_http_audit(call, "subject", SL_STR(""), SL_STR(""));
    sl_arena_init(&import->arena, ARENA_MOST, call->worker->alloc);
    if (!choose_form(import)) {
        sl_http_refuse(call, 415, "UNSUPPORTED",
                       "send subjects as text/csv, or as JSON lines with "
                       "application/x-ndjson");
    } else if (read_head(import) && go_on(import)) {
        sl_http_suspend(call);
        return;
    }
    sl_arena_done(&import->arena);
}
