/* import.c -- POST /v1/subjects: many at once, as JSON lines or CSV.
 *
 *     read a batch --> registry --> written? --> the next batch ... --> done
 *
 * A batch is written as a whole or not at all, and each is read when the one
 * before it is on the disk, so that a long body costs no more memory than a
 * short one. A line is a PATCH: what it does not mention stays.
 *
 * When a line is refused, nothing of its batch is written, all before it is,
 * and the answer says so: `line` is the one, `imported` how many are in.
 */
#include <stdio.h>
#include <string.h>

#include "doors/http/subjects/subjects.h"
#include "wire/json.h"

#define LINE_MOST  ((size_t)64 << 10)
#define ARENA_MOST ((size_t)64 << 20)

struct import {
    struct sl_errand_call *errand;
    struct sl_http_call *call;
    bool is_csv, force;
    struct sl_csv csv;
    struct sl_csv_head head;
    struct sl_arena head_arena; /* of the CSV's first line */
    struct sl_arena arena;      /* of one batch */
    struct sl_str rest;         /* JSON lines that were not read yet */
    unsigned line;              /* that was read last */
    unsigned imported, same, failed_line;
    struct sl_change changes[SL_CHANGES_MOST];
    unsigned count;
};

static void end(struct import *import)
{
    sl_arena_done(&import->head_arena);
    sl_arena_done(&import->arena);
}

/* ---- answers ---- */

static void answer_counts(struct import *import)
{
    struct sl_http_call *call = import->call;

    sl_admin_answer(call,
                    sl_buf_addf(&call->text,
                                "{\"imported\":%u,\"changed\":%u,"
                                "\"unchanged\":%u}",
                                import->imported,
                                import->imported - import->same, import->same),
                    sl_admin_json);
}

/* Like other refusals, with the line and what is in. */
static void refuse(struct import *import, int status, const char *code,
                   const char *sentence)
{
    struct sl_http_call *call = import->call;
    struct sl_buf *out = &call->text;
    int err;

    sl_buf_clear(out);
    err = sl_buf_addf(out,
                      "{\"type\":\"about:blank\",\"title\":\"%s\","
                      "\"status\":%d,\"detail\":\"line %u: ",
                      sl_http1_reason(status) + 4, status, import->failed_line);
    if (!err)
        err = sl_json_inside(out, sl_str_c(sentence));
    if (!err)
        err = sl_buf_addf(out,
                          "\",\"code\":\"%s\",\"line\":%u,"
                          "\"imported\":%u}",
                          code, import->failed_line, import->imported);
    if (err)
        sl_http_refuse(call, 503, "NO_MEMORY", "out of memory");
    else
        sl_http_answer(call, status, SL_STR("application/problem+json"),
                       sl_buf_str(out));
}

/* ---- reading ---- */

static bool next_csv(struct import *import, struct sl_reading *reading,
                     struct sl_change *change, bool *ret_more)
{
    struct sl_str *cells = sl_arena_take(
        &import->arena, (import->head.count + 1) * sizeof(*cells));
    unsigned count = 0;

    *ret_more = false;
    if (!cells) {
        sl_refuse(&reading->diag, SLUICE_ENOMEM, "out of memory");
        return false;
    }
    *ret_more = sl_csv_next(&import->csv, cells, import->head.count, &count);
    import->line = import->csv.line;
    if (import->csv.why) {
        sl_refuse(&reading->diag, SLUICE_ECONF, "%s", import->csv.why);
        return false;
    }
    return !*ret_more ||
           sl_change_read_csv(reading, &import->head, cells, count, change);
}

static bool next_json(struct import *import, struct sl_reading *reading,
                      struct sl_change *change, bool *ret_more)
{
    struct sl_str line;

    do {
        const char *end_of_line =
            import->rest.len ? memchr(import->rest.at, '\n', import->rest.len)
                             : NULL;

        *ret_more = import->rest.len > 0;
        if (!*ret_more)
            return true;
        line = import->rest;
        if (end_of_line)
            line.len = (size_t)(end_of_line - line.at);
        import->rest = sl_str_from(import->rest, line.len + 1);
        import->line++;
        if (line.len > 0 && line.at[line.len - 1] == '\r')
            line.len--;
        line = sl_str_trim(line);
    } while (line.len == 0);
    if (line.len > LINE_MOST) {
        sl_refuse(&reading->diag, SLUICE_ECONF,
                  "the line has %zu bytes, more than %zu", line.len, LINE_MOST);
        return false;
    }
    return sl_change_read_json(reading, line, change);
}

/* Read the next change; false if a line was refused. */
static bool next(struct import *import, struct sl_reading *reading,
                 bool *ret_more)
{
    struct sl_change *change = &import->changes[import->count];
    struct sl_own_rate *rates;

    memset(change, 0, sizeof(*change));
    if (!(import->is_csv ? next_csv(import, reading, change, ret_more)
                         : next_json(import, reading, change, ret_more)))
        return false;
    if (!*ret_more)
        return true;
    change->kind = SL_CHANGE_PATCH;
    change->line = import->line;
    change->by = sl_subject_by(import->call, change->by);
    rates = (struct sl_own_rate *)change->rates;
    for (unsigned i = 0; i < change->rate_count; i++)
        rates[i].by = change->by;
    return sl_change_check(change, import->call->ask.live->policy,
                           import->force, &reading->diag) == 0;
}

/* As many lines as make a batch. False if one was refused, and that was
 * answered. */
static bool read_batch(struct import *import)
{
    struct sl_reading reading = {
        .arena = &import->arena, .now = import->errand->job.now, .named = true};
    bool more = true;

    sl_arena_reset(&import->arena);
    import->csv.arena = &import->arena;
    import->count = 0;
    while (import->count < SL_CHANGES_MOST) {
        if (!next(import, &reading, &more)) {
            import->failed_line = import->line;
            refuse(import, 400, "BAD_LINE", reading.diag.sentence);
            return false;
        }
        if (!more)
            break;
        import->count++;
    }
    return true;
}

/* ---- batch by batch ---- */

static void on_written(struct sl_job *job);

/* Give the next batch to the registry; false if there is none, and the call
 * was answered. */
static bool go_on(struct import *import)
{
    struct sl_job *job = &import->errand->job;

    if (!read_batch(import))
        return false;
    if (import->count == 0) {
        answer_counts(import);
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

static void on_written(struct sl_job *job)
{
    struct import *import = job->ctx;
    struct sl_http_call *call = import->call;

    sl_entries_free(job->entries);
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
    sl_subjects_tell(call, import->imported, import->imported - import->same);
    sl_job_clear(job);
    end(import);
    sl_http_finish(call);
}

/* ---- the question ---- */

/* By its type, or by its first byte. */
static bool choose_form(struct import *import)
{
    struct sl_str type =
        sl_http1_field(import->call->request, SL_STR("content-type"), NULL);
    struct sl_str body = import->call->request->body;
    static const char *const json[] = {"application/x-ndjson",
                                       "application/jsonl"};
    size_t len = 0;

    while (len < type.len && type.at[len] != ';' && type.at[len] != ' ')
        len++;
    type.len = len;
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
    struct sl_reading reading = {.arena = &import->head_arena};

    if (!import->is_csv)
        return true;
    sl_csv_begin(&import->csv, import->call->request->body,
                 &import->head_arena);
    if (sl_csv_head_read(&reading, &import->csv, &import->head))
        return true;
    import->failed_line = 1;
    refuse(import, 400, "BAD_LINE", reading.diag.sentence);
    return false;
}

static struct import *new_import(struct sl_http_call *call,
                                 struct sl_errand_call *errand)
{
    struct import *import = sl_arena_take(&call->arena, sizeof(*import));

    if (!import) {
        sl_http_refuse(call, 503, "NO_MEMORY", "out of memory");
        return NULL;
    }
    memset(import, 0, sizeof(*import));
    import->errand = errand;
    import->call = call;
    import->rest = call->request->body;
    import->force = sl_str_eq(sl_query_value(call, "force"), SL_STR("true"));
    sl_arena_init(&import->head_arena, ARENA_MOST, call->worker->alloc);
    sl_arena_init(&import->arena, ARENA_MOST, call->worker->alloc);
    return import;
}

void sl_subject_import(struct sl_http_call *call)
{
    struct sl_errand_call *errand;
    struct import *import;

    if (!sl_admin_admit(call))
        return;
    errand = sl_errand_new(call, SL_JOB_WRITE, NULL);
    import = errand ? new_import(call, errand) : NULL;
    if (!import)
        return;
    if (!choose_form(import))
        sl_http_refuse(call, 415, "UNSUPPORTED",
                       "send subjects as text/csv, or as JSON lines with "
                       "application/x-ndjson");
    else if (read_head(import) && go_on(import)) {
        sl_http_later(call);
        return;
    }
    end(import);
}
