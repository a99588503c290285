/* one.c -- /v1/subjects/SCOPE/ID: one subject, and its history.
 *
 * PUT says all of it, PATCH what is to be changed; both make one that is not
 * there. An ETag is the revision: with If-Match a write is for that one only,
 * with If-None-Match: * for nobody yet.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "doors/http/subjects/subjects.h"

#define AUDIT_MOST 200

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

static void refuse_nobody(struct sl_http_call *call)
{
    sl_http_refuse(call, 404, "NO_SUCH_SUBJECT", "%.*s is not registered",
                   SL_STR_ARG(call->rest));
}

static void show(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;
    const struct sl_entry *entry = errand->job.entries;

    tag(call, entry->revision);
    sl_admin_answer(call,
                    sl_entry_show(entry, call->ask.live->policy,
                                  errand->job.now, &call->text),
                    sl_admin_json);
}

static void answer_get(struct sl_errand_call *errand)
{
    if (errand->job.result == SL_JOB_NOBODY)
        refuse_nobody(errand->call);
    else
        show(errand);
}

static void answer_write(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;

    switch (errand->job.result) {
    case SL_JOB_DONE:
        sl_subject_tell(errand);
        show(errand);
        break;
    case SL_JOB_NOBODY:
        refuse_nobody(call);
        break;
    case SL_JOB_CHANGED:
        sl_http_refuse(call, 412, "CHANGED_MEANWHILE",
                       "the subject has another revision than the one in the "
                       "request; read it again");
        break;
    case SL_JOB_CONFLICT:
        sl_http_refuse(call, 409, "CONFLICT", "%s", errand->job.diag.sentence);
        break;
    }
}

static void answer_remove(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;

    if (errand->job.result != SL_JOB_DONE) {
        answer_write(errand);
        return;
    }
    sl_subject_tell(errand);
    sl_admin_answer(call, sl_buf_addf(&call->text, "{\"removed\":true}"),
                    sl_admin_json);
}

static void answer_audit(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;
    int err = sl_buf_add(&call->text, SL_STR("{\"audit\":["));

    if (!err)
        err = sl_buf_add(&call->text, sl_buf_str(&errand->job.text));
    if (!err)
        err = sl_buf_add(&call->text, SL_STR("]}"));
    sl_admin_answer(call, err, sl_admin_json);
}

/* ---- conditions ---- */

static void refuse_condition(struct sl_http_call *call, const char *name,
                             struct sl_str value)
{
    sl_http_refuse(call, 400, "BAD_REQUEST",
                   "%s: %.*s is not a revision of a subject; send the ETag, as "
                   "in \"12\", or If-None-Match: *",
                   name, SL_STR_ARG(value));
}

/* If-Match: "12", If-None-Match: *; false if it was refused. */
static bool read_conditions(struct sl_http_call *call, struct sl_change *change)
{
    unsigned match = 0, none = 0;
    struct sl_str is =
        sl_http1_field(call->request, SL_STR("if-match"), &match);
    struct sl_str is_not =
        sl_http1_field(call->request, SL_STR("if-none-match"), &none);

    change->must_match = match + none > 0;
    if (none > 0 && !sl_str_eq(is_not, SL_STR("*"))) {
        refuse_condition(call, "If-None-Match", is_not);
        return false;
    }
    if (match == 0)
        return true;
    if (match > 1 || is.len < 3 || is.at[0] != '"' ||
        is.at[is.len - 1] != '"' ||
        sl_parse_number((struct sl_str){is.at + 1, is.len - 2}, &change->match,
                        NULL)) {
        refuse_condition(call, "If-Match", is);
        return false;
    }
    return true;
}

/* ---- questions ---- */

struct sl_errand_call *
sl_subject_errand(struct sl_http_call *call, enum sl_job_kind kind,
                  void (*answer)(struct sl_errand_call *errand),
                  struct sl_str *tail)
{
    struct sl_errand_call *errand;

    if (!sl_admin_admit(call))
        return NULL;
    errand = sl_errand_new(call, kind, answer);
    if (!errand ||
        !sl_subject_path(call, &errand->job.scope, &errand->job.id, tail))
        return NULL;
    return errand;
}

static bool refuse_tail(struct sl_http_call *call, struct sl_str tail)
{
    if (tail.len == 0)
        return false;
    sl_http_refuse(call, 404, "NOT_FOUND",
                   "unknown path %.*s; write a slash in an id as %%2F",
                   SL_STR_ARG(call->path));
    return true;
}

static unsigned number_of(struct sl_http_call *call, const char *name,
                          unsigned preset, unsigned most)
{
    uint64_t number = preset;

    if (sl_parse_number(sl_query_value(call, name), &number, NULL))
        number = preset;
    return number < most ? (unsigned)number : most;
}

void sl_subject_get(struct sl_http_call *call)
{
    struct sl_str tail;
    struct sl_errand_call *errand =
        sl_subject_errand(call, SL_JOB_FIND, answer_get, &tail);
    uint64_t before = 0;

    if (!errand)
        return;
    if (sl_str_eq(tail, SL_STR("audit"))) {
        errand->job.kind = SL_JOB_AUDIT;
        errand->answer = answer_audit;
        errand->job.most = number_of(call, "limit", 50, AUDIT_MOST);
        if (!sl_parse_number(sl_query_value(call, "before"), &before, NULL))
            errand->job.before = before;
    } else if (refuse_tail(call, tail)) {
        return;
    }
    sl_errand_send(errand);
}

static bool read_body(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;
    struct sl_reading reading = {.arena = &call->arena, .now = errand->job.now};
    struct sl_str force = sl_query_value(call, "force");
    struct sl_diag diag = {0};

    if (call->request->body.len > SL_SUBJECT_BODY) {
        sl_http_refuse(call, 413, "TOO_LARGE",
                       "a subject can have at most %zu bytes", SL_SUBJECT_BODY);
        return false;
    }
    errand->change.id = errand->job.id;
    if (!sl_change_read_json(&reading, call->request->body, &errand->change)) {
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", reading.diag.sentence);
        return false;
    }
    if (sl_change_check(&errand->change, call->ask.live->policy,
                        sl_str_eq(force, SL_STR("true")), &diag)) {
        sl_http_refuse(call, 400, "BAD_REQUEST", "%s", diag.sentence);
        return false;
    }
    return true;
}

/* By whom, also for each override of the write. */
static void sign(struct sl_errand_call *errand)
{
    struct sl_change *change = &errand->change;
    struct sl_own_rate *rates = (struct sl_own_rate *)change->rates;

    change->by = sl_subject_by(errand->call, change->by);
    for (unsigned i = 0; i < change->rate_count; i++)
        rates[i].by = change->by;
}

static void write(struct sl_http_call *call, enum sl_change_kind kind,
                  void (*answer)(struct sl_errand_call *errand))
{
    struct sl_str tail;
    struct sl_errand_call *errand =
        sl_subject_errand(call, SL_JOB_WRITE, answer, &tail);

    if (!errand || refuse_tail(call, tail) ||
        (kind != SL_CHANGE_REMOVE && !read_body(errand)) ||
        !read_conditions(call, &errand->change))
        return;
    sign(errand);
    errand->change.kind = kind;
    errand->change.scope = errand->job.scope;
    errand->change.id = errand->job.id;
    errand->job.changes = &errand->change;
    errand->job.change_count = 1;
    sl_errand_send(errand);
}

void sl_subject_put(struct sl_http_call *call)
{
    write(call, SL_CHANGE_PUT, answer_write);
}

void sl_subject_patch(struct sl_http_call *call)
{
    write(call, SL_CHANGE_PATCH, answer_write);
}

void sl_subject_remove(struct sl_http_call *call)
{
    write(call, SL_CHANGE_REMOVE, answer_remove);
}
