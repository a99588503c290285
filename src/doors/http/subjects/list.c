/* list.c -- GET /v1/subjects?scope=&prefix=&limit=&after=: page by page.
 *
 * `next` of a page is `after` of the next one: it names the last subject that
 * was shown, so that whatever is written meanwhile neither hides nor repeats
 * one.
 */
#include <string.h>

#include "base/parse.h"
#include "doors/http/subjects/subjects.h"
#include "wire/json.h"

#define PAGE 100

static int write_next(struct sl_buf *out, const struct sl_entry *last)
{
    int err;

    if (!last)
        return sl_buf_add(out, SL_STR("],\"next\":null}"));
    err = sl_buf_add(out, SL_STR("],\"next\":\""));
    if (!err)
        err = sl_json_inside(out, last->scope);
    if (!err)
        err = sl_buf_add(out, SL_STR("/"));
    if (!err)
        err = sl_json_inside(out, last->subject.id);
    return err ? err : sl_buf_add(out, SL_STR("\"}"));
}

static void answer(struct sl_errand_call *errand)
{
    struct sl_http_call *call = errand->call;
    const struct sl_entry *last = NULL;
    struct sl_buf *out = &call->text;
    unsigned count = 0;
    int err = sl_buf_add(out, SL_STR("{\"subjects\":["));

    for (const struct sl_entry *e = errand->job.entries; e && !err;
         e = e->next) {
        if (count++ > 0)
            err = sl_buf_add(out, SL_STR(","));
        if (!err)
            err =
                sl_entry_show(e, call->ask.live->policy, errand->job.now, out);
        last = e;
    }
    if (!err)
        err = write_next(out, count == errand->job.most ? last : NULL);
    sl_admin_answer(call, err, sl_admin_json);
}

static bool is_scope(struct sl_str text)
{
    return sl_str_eq(text, SL_STR("user")) || sl_str_eq(text, SL_STR("org"));
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
    struct sl_errand_call *errand;
    struct sl_job *job;

    if (!sl_admin_admit(call))
        return;
    errand = sl_errand_new(call, SL_JOB_LIST, answer);
    if (!errand)
        return;
    job = &errand->job;
    job->most = PAGE;
    job->scope = sl_query_value(call, "scope");
    job->prefix = sl_query_value(call, "prefix");
    if (job->scope.len > 0 && !is_scope(job->scope))
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "scope must be user or org, not \"%.*s\"",
                       SL_STR_ARG(job->scope));
    else if (!read_limit(sl_query_value(call, "limit"), &job->most))
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "limit must be a number from 1 to %d", SL_LIST_MOST);
    else if (!read_after(sl_query_value(call, "after"), job))
        sl_http_refuse(call, 400, "BAD_REQUEST",
                       "after must be the `next` of a page, like user/ann");
    else
        sl_errand_send(errand);
}
